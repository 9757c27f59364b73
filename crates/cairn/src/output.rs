//! What a command says on stdout: lines for people, or one JSON value a line with `--json`.
//!
//! - O1: nothing but answers and file bytes goes to stdout; progress and complaints go to stderr.
//! - O2: a reader that has gone (`cairn cat x | head`) ends the command quietly.
//! - O4: what is kept in memory is bounded; a command that tells more ends as if its reader had
//!   gone.
//! - O3: on a terminal a name's control characters are escaped; in a pipe names are as they are.

use crate::cli_error::{Cause, CliError, one_line};
use crate::exit_codes::Exit;
use cairn_types::WallTime;
use serde::Serialize;
use std::borrow::Cow;
use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::os::fd::AsFd;
use std::sync::{Mutex, PoisonError};

/// Where answers go.
#[derive(Debug)]
pub(crate) struct Output {
    json: bool,
    terminal: bool,
    chunks_max: usize,
    sink: Mutex<OutputSink>,
}

/// Where the bytes go.
#[derive(Debug)]
enum OutputSink {
    Stdout(BufWriter<File>),
    /// Kept, up to so many bytes and values.
    Memory(KeptValues),
}

/// JSON values that a command has told, for whoever ran it in this process.
#[derive(Debug, Default)]
pub(crate) struct KeptValues {
    /// A line each.
    pub(crate) values: Vec<Vec<u8>>,
    /// There would have been more.
    pub(crate) is_cut: bool,
    bytes: usize,
    bytes_max: usize,
    values_max: usize,
}

impl KeptValues {
    /// Keeps a value; false: the command need not go on (O4).
    fn keep(&mut self, line: &[u8]) -> bool {
        let is_full = self.values.len() >= self.values_max;
        self.is_cut |= is_full || self.bytes + line.len() > self.bytes_max;
        if !self.is_cut {
            self.bytes += line.len();
            self.values.push(line.trim_ascii_end().to_vec());
        }
        !self.is_cut
    }
}

impl Output {
    /// The process's stdout.
    ///
    /// # Errors
    /// Where it is closed.
    pub(crate) fn stdout(json: bool) -> Result<Self, CliError> {
        let stdout = io::stdout();
        let own = stdout.as_fd().try_clone_to_owned().map_err(failed)?;
        let writer = BufWriter::with_capacity(1 << 16, File::from(own));
        let sink = Mutex::new(OutputSink::Stdout(writer));
        let terminal = stdout.is_terminal();
        Ok(Self { json, terminal, chunks_max: usize::MAX, sink })
    }

    /// JSON that is kept for whoever runs the command, up to so many bytes and values (O4), and of
    /// a file with so many chunks.
    pub(crate) fn kept(bytes_max: usize, values_max: usize, chunks_max: usize) -> Self {
        let kept = KeptValues { bytes_max, values_max, ..KeptValues::default() };
        let sink = Mutex::new(OutputSink::Memory(kept));
        Self { json: true, terminal: false, chunks_max, sink }
    }

    /// Chunks of a file that may be told of. A command looks before it asks for more of them: that
    /// there are too many bytes of it shows only when all are gathered.
    pub(crate) fn chunks_max(&self) -> usize {
        self.chunks_max
    }

    /// What was kept.
    pub(crate) fn take_kept(&self) -> KeptValues {
        match &mut *self.sink.lock().unwrap_or_else(PoisonError::into_inner) {
            OutputSink::Memory(kept) => std::mem::take(kept),
            OutputSink::Stdout(_) => KeptValues::default(),
        }
    }

    /// Whether `--json` was given.
    pub(crate) fn json(&self) -> bool {
        self.json
    }

    /// One line for a person.
    ///
    /// # Errors
    /// Where stdout takes no more.
    pub(crate) fn line(&self, text: &str) -> Result<(), CliError> {
        let mut line = text.to_owned();
        line.push('\n');
        self.bytes(line.as_bytes())
    }

    /// One JSON value on a line of its own.
    ///
    /// # Errors
    /// Where stdout takes no more.
    pub(crate) fn value(&self, value: &impl Serialize) -> Result<(), CliError> {
        let mut line = serde_json::to_vec(value).map_err(|error| failed(error.into()))?;
        line.push(b'\n');
        self.bytes(&line)
    }

    /// Tells what was done: a value to programs, a line to people who want it with `-v`, and
    /// nothing to others.
    ///
    /// # Errors
    /// Where stdout takes no more.
    pub(crate) fn done(
        &self,
        verbose: bool,
        value: &impl Serialize,
        line: impl FnOnce() -> String,
    ) -> Result<(), CliError> {
        if self.json {
            self.value(value)
        } else if verbose {
            self.line(&self.name(&line()))
        } else {
            Ok(())
        }
    }

    /// Bytes as they are.
    ///
    /// # Errors
    /// Where stdout takes no more.
    pub(crate) fn bytes(&self, bytes: &[u8]) -> Result<(), CliError> {
        match &mut *self.sink.lock().unwrap_or_else(PoisonError::into_inner) {
            OutputSink::Stdout(writer) => writer.write_all(bytes).map_err(failed),
            OutputSink::Memory(kept) => match kept.keep(bytes) {
                true => Ok(()),
                false => Err(failed(io::ErrorKind::BrokenPipe.into())),
            },
        }
    }

    /// Hands on what is buffered: before every wait, and at the end.
    ///
    /// # Errors
    /// Where stdout takes no more.
    pub(crate) fn flush(&self) -> Result<(), CliError> {
        match &mut *self.sink.lock().unwrap_or_else(PoisonError::into_inner) {
            OutputSink::Stdout(writer) => writer.flush().map_err(failed),
            OutputSink::Memory(_) => Ok(()),
        }
    }

    /// A name as it is safe to show here (O3).
    pub(crate) fn name<'a>(&self, name: &'a str) -> Cow<'a, str> {
        if self.terminal { Cow::Owned(one_line(name)) } else { Cow::Borrowed(name) }
    }
}

fn failed(error: io::Error) -> CliError {
    if error.kind() == io::ErrorKind::BrokenPipe {
        return CliError::new("writing the output", Cause::new(Exit::ReaderGone, "", ""));
    }
    CliError::new("writing the output", error)
}

/// Columns, each as wide as its widest cell; numbers stand at the right.
pub(crate) struct Table {
    right: &'static [bool],
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table whose columns stand at the right where `right` says so.
    pub(crate) fn new(right: &'static [bool]) -> Self {
        Self { right, rows: Vec::new() }
    }

    /// Adds a row.
    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// The rows as lines, without spaces at their ends.
    pub(crate) fn lines(&self) -> Vec<String> {
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.right.len()).map(width).collect();
        let line = |row: &Vec<String>| {
            let cells = row.iter().zip(&widths).zip(self.right).map(|((cell, width), right)| {
                if *right { format!("{cell:>width$}") } else { format!("{cell:<width$}") }
            });
            cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
        };
        self.rows.iter().map(line).collect()
    }
}

/// Bytes as a number, or for people (`4.2M`) where `human`.
pub(crate) fn size_text(bytes: u64, human: bool) -> String {
    const UNITS: [&str; 6] = ["K", "M", "G", "T", "P", "E"];
    if !human || bytes < 1024 {
        return bytes.to_string();
    }
    let mut value = bytes as f64 / 1024.0;
    let mut unit = 0;
    while value >= 999.5 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    let digits = usize::from(value < 9.95);
    format!("{value:.digits$}{}", UNITS[unit])
}

/// A span of time for people: `250ms`, `12s`, `3m 20s`, `5h 10m`, `2d 3h`.
pub(crate) fn span_text(millis: u64) -> String {
    let seconds = millis / 1000;
    match seconds {
        0 => format!("{millis}ms"),
        1..60 => format!("{seconds}s"),
        60..3600 => format!("{}m {}s", seconds / 60, seconds % 60),
        3600..86_400 => format!("{}h {}m", seconds / 3600, seconds % 3600 / 60),
        _ => format!("{}d {}h", seconds / 86_400, seconds % 86_400 / 3600),
    }
}

/// A wall time as `2026-11-21 20:58:03`, in UTC.
pub(crate) fn time_text(time: WallTime) -> String {
    let text = time.to_string();
    let (date, of_day) = text.split_once('T').expect("a time of RFC 3339");
    format!("{date} {}", &of_day[..8])
}

#[cfg(test)]
mod tests {
    use super::{Table, size_text, span_text, time_text};
    use cairn_types::WallTime;

    #[test]
    fn sizes_for_people_have_two_or_three_digits() {
        assert_eq!(size_text(1023, true), "1023");
        assert_eq!(size_text(1024, true), "1.0K");
        assert_eq!(size_text(10 * 1024, true), "10K");
        assert_eq!(size_text(1023 * 1024, true), "1.0M");
        assert_eq!(size_text(u64::MAX, true), "16E");
        assert_eq!(size_text(5 << 30, false), "5368709120");
    }

    #[test]
    fn times_are_dates_in_utc() {
        assert_eq!(time_text(WallTime::from_millis(0)), "1970-01-01 00:00:00");
        assert_eq!(time_text(WallTime::from_millis(951_827_696_000)), "2000-02-29 12:34:56");
        assert_eq!(time_text(WallTime::from_millis(4_102_444_799_999)), "2099-12-31 23:59:59");
    }

    #[test]
    fn spans_have_at_most_two_units() {
        let texts: Vec<String> = [7, 12_345, 200_000, 7_260_000, 90_000_000].map(span_text).into();
        assert_eq!(texts, ["7ms", "12s", "3m 20s", "2h 1m", "1d 1h"]);
    }

    #[test]
    fn columns_line_up() {
        let mut table = Table::new(&[true, false]);
        table.row(["7".into(), "a".into()]);
        table.row(["120".into(), "bb".into()]);
        assert_eq!(table.lines(), ["  7  a", "120  bb"]);
    }
}
