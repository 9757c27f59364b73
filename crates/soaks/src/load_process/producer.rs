//! One producer of a stream, which is killed and started again until all of its records are there.
//!
//! - PK1: what was acknowledged to any life of it is written down beside, before more is sent: the
//!   next opening has to know at least as much.

use crate::load_process::orders::Orders;
use anyhow::{Context, Result, bail, ensure};
use cairn_client::{Cell, CellPath, Options, PendingAppend, Producer, ProducerOptions};
use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::time::Duration;

/// Longer than a restart of the whole cell takes.
const DEADLINE: Duration = Duration::from_secs(60);
/// One of so many records is waited for, and so many of those are under way.
const AWAITED_EACH: u64 = 100;
const AWAITED_MAX: usize = 16;
/// The exit code of a promise that was broken.
pub(crate) const BROKEN: i32 = 4;

/// Producer `name`'s record `number`, a line without its end: always the same bytes.
pub(crate) fn line(name: &str, number: u64, size: usize) -> String {
    let mut line = format!("{name} {number} ");
    let filler = char::from(b'a' + (number % 26) as u8);
    line.extend(std::iter::repeat_n(filler, size.saturating_sub(line.len())));
    line
}

/// Runs one life of a producer.
///
/// # Errors
/// When the words make no sense, or the cell has failed it; the next life goes on.
pub(crate) async fn run(words: &[&str]) -> Result<()> {
    let [cell, path, name, target, size, beside] = words else {
        bail!("it takes CELL STREAM NAME RECORDS SIZE FILE");
    };
    let (target, size): (u64, usize) = (target.parse()?, size.parse()?);
    // Ends with its stdin (K1).
    let _orders = Orders::listen();
    let written =
        OpenOptions::new().read(true).write(true).create(true).truncate(false).open(beside);
    let written = written.with_context(|| format!("opening {beside}"))?;
    let cell = Cell::connect(cell, Options { deadline: DEADLINE, ..Options::default() }).await?;
    let before = acknowledged(&written)?;
    let path = CellPath::parse(path)?;
    let producer = cell.open_producer(&path, name, ProducerOptions::default()).await?;
    if let Err(error) = check_opening(&producer, before) {
        eprintln!("BROKEN: {name}: {error:#}");
        std::process::exit(BROKEN);
    }
    let mut awaited: VecDeque<(u64, PendingAppend)> = VecDeque::new();
    for number in producer.committed().0 + 1..=target {
        let (record, cursor) = (line(name, number, size), number.to_string());
        let pending = producer.enqueue_with_cursor(record.as_bytes(), cursor.into()).await?;
        if number % AWAITED_EACH == 0 {
            awaited.push_back((number, pending));
        }
        if awaited.len() > AWAITED_MAX {
            let (number, pending) = awaited.pop_front().context("there are some")?;
            pending.await?;
            write_down(&written, number)?;
        }
    }
    producer.flush().await?;
    write_down(&written, producer.committed().0)?;
    producer.close().await.context("closing")
}

/// PK1
fn check_opening(producer: &Producer, before: u64) -> Result<()> {
    let (number, cursor) = producer.committed();
    ensure!(number >= before, "{before} were acknowledged, and the stream has {number}");
    let said = cursor.map(|cursor| (cursor.number.get(), cursor.text));
    let expected = (number > 0).then(|| (number, number.to_string().into()));
    ensure!(said == expected, "{number} records, and the cursor says {said:?}");
    Ok(())
}

fn write_down(file: &File, number: u64) -> Result<()> {
    Ok(file.write_all_at(&number.to_le_bytes(), 0)?)
}

/// What was written down last.
///
/// # Errors
/// When it cannot be read.
pub(crate) fn acknowledged(file: &File) -> Result<u64> {
    let mut bytes = [0; 8];
    match file.metadata()?.len() {
        0 => Ok(0),
        _ => {
            file.read_exact_at(&mut bytes, 0)?;
            Ok(u64::from_le_bytes(bytes))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::line;

    #[test]
    fn a_record_is_as_long_as_was_asked_and_says_whose_it_is() {
        assert_eq!(line("p1", 7, 12), "p1 7 hhhhhhh");
        assert_eq!(line("a-long-name", 12_345, 4), "a-long-name 12345 ");
    }
}
