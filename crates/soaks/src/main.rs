//! `cargo xtask soak`: a cell of real processes, at the size that people run one.
//!
//! ```text
//!   tree       a real tree of 500 MB and a file of 2 GB go in and come out
//!   appends    64 clients append 205 000 records while servers die
//!   kills      the whole cell is killed, twenty times, under that load
//! ```
//! Not part of `verify`, which holds small forms of the same: these take minutes and gigabytes.
//!
//! - O1: the verdict is the soak's own count: bytes are compared with the local ones, records with
//!   the acknowledgements that the clients got.
//! - O2: whatever ends a soak, its processes end by their ids and its files go.
//!
//! The cell's binary is `$CAIRN_BINARY`, or else the `cairn` beside this program.

mod appends;
mod cell;
mod kills;
mod load;
mod load_process;
mod source_tree;
mod tree;

use anyhow::{Context, Result, bail};
use cairn_testkit::Program;
use std::fmt::Display;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

const USAGE: &str = "\
soak tree|appends|kills [--small-cell] [--chunk-size BYTES] [--keep]
     appends: [--records N] [--large-records N]      kills: [--rounds N]";

/// What to do, and how much of it.
#[derive(Debug)]
struct SoakOptions {
    /// Found the cell with `--small-cell`: deaths are believed sooner.
    small_cell: bool,
    /// Bytes of a chunk, where not the usual 64 MiB.
    chunk_size: Option<u64>,
    /// Leave data and logs.
    keep: bool,
    records: u64,
    large_records: u64,
    rounds: u64,
}

impl Default for SoakOptions {
    fn default() -> Self {
        Self {
            small_cell: false,
            chunk_size: None,
            keep: false,
            records: 200_000,
            large_records: 5_000,
            rounds: 20,
        }
    }
}

impl SoakOptions {
    fn parse(words: &[&str]) -> Result<Self> {
        let mut options = Self::default();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let mut number = || -> Result<u64> {
                let text = words.next().with_context(|| format!("{word} wants a number"))?;
                text.parse().with_context(|| format!("{word} {text}"))
            };
            match *word {
                "--small-cell" => options.small_cell = true,
                "--keep" => options.keep = true,
                "--chunk-size" => options.chunk_size = Some(number()?),
                "--records" => options.records = number()?,
                "--large-records" => options.large_records = number()?,
                "--rounds" => options.rounds = number()?,
                _ => bail!("{word}: {USAGE}"),
            }
        }
        Ok(options)
    }
}

/// Tells line by line, with the time since the start.
#[derive(Debug)]
struct Teller {
    started: Instant,
}

impl Teller {
    fn say(&self, line: impl Display) {
        println!("[{:6.1} s] {line}", self.started.elapsed().as_secs_f64());
    }
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let done = match words.as_slice() {
        ["load", rest @ ..] => load_process::run(rest),
        words => soak(words),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("soak {}: {error:#}", words.join(" "));
            ExitCode::FAILURE
        }
    }
}

/// `$CAIRN_BINARY`, or the one that was built with this program.
fn program() -> Result<Program> {
    if let Some(named) = std::env::var_os("CAIRN_BINARY") {
        return Ok(Program::at(PathBuf::from(named)));
    }
    let ours = std::env::current_exe().context("looking for this program")?;
    let beside = ours.with_file_name("cairn");
    if !beside.is_file() {
        bail!("{} is not there: 'cargo xtask soak' builds it", beside.display());
    }
    Ok(Program::at(beside))
}

/// Runs what the words ask for.
///
/// # Errors
/// When they make no sense, or the cell did not keep its word.
fn soak(words: &[&str]) -> Result<()> {
    let [what @ ("tree" | "appends" | "kills"), rest @ ..] = words else { bail!("{USAGE}") };
    let options = SoakOptions::parse(rest)?;
    let teller = Teller { started: Instant::now() };
    let mut cell = cell::start(program()?, &options, &teller)?;
    let done = match *what {
        "tree" => tree::run(&cell, &teller),
        "appends" => appends::run(&mut cell, &options, &teller),
        _ => kills::run(&mut cell, &options, &teller),
    };
    if options.keep {
        teller.say(format_args!("data and logs are in {}", cell.directory().display()));
    }
    drop(cell);
    done?;
    teller.say(format_args!("VERDICT: soak {what} is good"));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::SoakOptions;

    #[test]
    fn options_are_read_and_what_is_none_is_refused() {
        let options = SoakOptions::parse(&["--records", "9", "--keep"]).expect("good");
        assert_eq!((options.records, options.large_records, options.keep), (9, 5_000, true));
        for bad in [&["--records"][..], &["--records", "x"], &["--fast"]] {
            assert!(SoakOptions::parse(bad).is_err(), "{bad:?}");
        }
    }
}
