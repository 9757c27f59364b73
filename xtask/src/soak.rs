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

mod appends;
mod cell;
mod kills;
mod load;
mod source_tree;
mod tree;

use crate::workspace::{cargo, root, run};
use anyhow::{Context, Result, bail};
use std::fmt::Display;
use std::path::PathBuf;
use std::time::Instant;

const USAGE: &str = "\
soak tree|appends|kills [--small-cell] [--chunk-size BYTES] [--keep]
     appends: [--records N] [--large-records N]      kills: [--rounds N]";

/// What to do, and how much of it.
#[derive(Debug)]
pub(crate) struct Options {
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

impl Default for Options {
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

impl Options {
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

/// The programs that a soak runs.
#[derive(Debug)]
pub(crate) struct Programs {
    cairn: PathBuf,
    load: PathBuf,
}

impl Programs {
    /// `$CAIRN_BINARY` and `$CAIRN_SOAK_LOAD`, or else both built now, in release.
    fn find() -> Result<Self> {
        let named = |variable| std::env::var_os(variable).map(PathBuf::from);
        if let (Some(cairn), Some(load)) = (named("CAIRN_BINARY"), named("CAIRN_SOAK_LOAD")) {
            return Ok(Self { cairn, load });
        }
        let build = ["build", "--release", "--locked", "--quiet", "--package", "cairn"];
        run(cargo(&build).args(["--bin", "cairn", "--example", "soak_load"]))?;
        let target = std::env::var_os("CARGO_TARGET_DIR").map_or("target".into(), PathBuf::from);
        let release = root().join(target).join("release");
        let cairn = named("CAIRN_BINARY").unwrap_or_else(|| release.join("cairn"));
        Ok(Self { cairn, load: release.join("examples/soak_load") })
    }
}

/// Tells line by line, with the time since the start.
#[derive(Debug)]
pub(crate) struct Teller {
    started: Instant,
}

impl Teller {
    fn say(&self, line: impl Display) {
        println!("[{:6.1} s] {line}", self.started.elapsed().as_secs_f64());
    }
}

/// Runs what the words after `soak` ask for.
///
/// # Errors
/// When they make no sense, or the cell did not keep its word.
pub(crate) fn soak(words: &[&str]) -> Result<()> {
    let [what @ ("tree" | "appends" | "kills"), rest @ ..] = words else { bail!("{USAGE}") };
    let options = Options::parse(rest)?;
    let programs = Programs::find()?;
    let teller = Teller { started: Instant::now() };
    let mut cell = cell::Cell::start(&programs, &options, &teller)?;
    let done = match *what {
        "tree" => tree::run(&cell, &teller),
        "appends" => appends::run(&mut cell, &programs, &options, &teller),
        _ => kills::run(&mut cell, &programs, &options, &teller),
    };
    if options.keep {
        teller.say(format_args!("data and logs are in {}", cell.directory().display()));
    }
    drop(cell);
    done.with_context(|| format!("soak {what}"))?;
    teller.say(format_args!("VERDICT: soak {what} is good"));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::Options;

    #[test]
    fn options_are_read_and_what_is_none_is_refused() {
        let options = Options::parse(&["--records", "9", "--keep"]).expect("good");
        assert_eq!((options.records, options.large_records, options.keep), (9, 5_000, true));
        for bad in [&["--records"][..], &["--records", "x"], &["--fast"]] {
            assert!(Options::parse(bad).is_err(), "{bad:?}");
        }
    }
}
