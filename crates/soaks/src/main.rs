//! `cargo xtask soak`: a cell of real processes, at the size that people run one.
//!
//! ```text
//!   tree       a real tree of 500 MB and a file of 2 GB go in and come out
//!   appends    64 clients append 205 000 records while servers die
//!   kills      the whole cell is killed, twenty times, under that load
//!   masters    the master in charge is killed or stopped, fifty times, under that load; or cut
//!              off, in a laboratory, one way too; or its disk is full, or fails
//!   upgrade    servers of the build before become servers of this one, one by one, under that load
//!   chaos      kills, stops, flipped bits, lost files, a full disk and, in a laboratory, cuts,
//!              for ten minutes, under load
//!   snapshots  copies of a tree under writers, while servers and the master are killed
//!   streams    producers of one stream are killed and started again, and servers and masters
//!   heals      every promise of a cell that heals, a line each
//!   recovery   a server with gigabytes dies in a laboratory of 16 (§6.2.5)
//!   stream-rates  what one stream carries in a laboratory, beside what its links carry
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
mod chaos;
mod chaos_faults;
mod failing_disk;
mod file_workload;
mod group_figures;
mod heals;
mod kills;
mod lab;
mod lab_cell;
mod load;
mod load_process;
mod master_disks;
mod masters;
mod masters_cut;
mod options;
mod recovery;
mod recovery_clients;
mod report;
mod rot;
mod small_disk;
mod snapshots;
mod source_tree;
mod steady_load;
mod stream_logs;
mod stream_rates;
mod streams;
mod teller;
mod tree;
mod upgrade;

use anyhow::{Context, Result, bail};
use cairn_testkit::Program;
use options::{SoakOptions, USAGE};
use std::path::PathBuf;
use std::process::ExitCode;
use teller::Teller;

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
    let [
        what @ ("tree" | "appends" | "kills" | "masters" | "upgrade" | "chaos" | "heals"
        | "recovery" | "snapshots" | "streams" | "stream-rates"),
        rest @ ..,
    ] = words
    else {
        bail!("{USAGE}")
    };
    let options = SoakOptions::parse(what, rest)?;
    if options.lab.is_none() {
        small_disk::take_own_mounts();
    }
    let teller = Teller::start();
    let without_a_cell = match *what {
        "recovery" => Some(recovery::run(&program()?, &options, &teller)),
        "heals" => Some(heals::run(&program()?, &options, &teller)),
        "stream-rates" => Some(stream_rates::run(&program()?, &options, &teller)),
        _ => None,
    };
    if let Some(done) = without_a_cell {
        done?;
        teller.say(format_args!("VERDICT: soak {what} is good"));
        return Ok(());
    }
    let with_disk = *what == "chaos" && options.lab.is_none();
    let in_group = ["masters", "upgrade", "streams"].contains(what);
    let begins_with = match (*what, &options.against) {
        ("upgrade", Some(before)) => Program::at(before),
        ("upgrade", None) => bail!("upgrade wants --against BINARY, one of the build before"),
        _ => program()?,
    };
    let mut soak = cell::start(begins_with.clone(), &options, (in_group, with_disk), &teller)?;
    let cell = &mut soak.processes;
    let done = match *what {
        "tree" => tree::run(cell, &teller),
        "appends" => appends::run(cell, &options, &teller),
        "chaos" => chaos::run(&mut soak, &options, &teller),
        "snapshots" => snapshots::run(cell, &options, &teller),
        "masters" if options.lab.is_some() => masters_cut::run(&mut soak, &options, &teller),
        "masters" if options.disks => master_disks::run(&mut soak, &options, &teller),
        "streams" => streams::run(cell, &options, &teller),
        "masters" => masters::run(cell, &options, &teller),
        "upgrade" => upgrade::run(cell, (&begins_with, &program()?), &options, &teller),
        _ => kills::run(cell, &options, &teller),
    };
    if options.keep {
        let kept = soak.processes.directory();
        teller.say(format_args!("data and logs are in {}", kept.display()));
    }
    drop(soak);
    done?;
    if *what == "masters" && options.lab.is_none() && !options.disks {
        group_figures::run(&begins_with, &teller)?;
    }
    teller.say(format_args!("VERDICT: soak {what} is good"));
    Ok(())
}
