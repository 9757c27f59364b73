//! The demo, small: its verdict, and that it leaves nothing behind however it ends.

mod cell;

use cell::{KilledOnDrop, await_output, await_until, cairn};
use std::fs::File;
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;

fn demo(scratch: &Path) -> Command {
    let mut command = cairn(["demo", "--clients", "4", "--megabytes", "2"]);
    command.env("TMPDIR", scratch);
    command
}

fn is_empty(directory: &Path) -> bool {
    std::fs::read_dir(directory).expect("lists").next().is_none()
}

/// Whether any process has something of this directory on its command line.
fn processes_of(directory: &Path) -> usize {
    let wanted = directory.display().to_string();
    let processes = std::fs::read_dir("/proc").expect("lists").filter_map(Result::ok);
    let lines = processes.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    lines.filter(|line| String::from_utf8_lossy(line).contains(&wanted)).count()
}

#[test]
fn the_demo_ends_with_a_good_verdict_and_cleans_up() {
    let scratch = TempDir::new().expect("a scratch directory");
    let done = cell::run(demo(scratch.path()), b"");
    let told = done.text();
    assert!(done.status.success(), "{told}{}", done.stderr);
    let last = told.lines().last().expect("a verdict");
    assert!(last.contains("VERDICT: good."), "{told}");
    assert!(told.contains("kill -9") && told.contains("every byte is the same"), "{told}");
    let order = ["kill -9", "the first copy begins", "healed: every chunk has 3 replicas again"];
    let places: Vec<Option<usize>> = order.iter().map(|what| told.find(what)).collect();
    assert!(places.is_sorted() && !places.contains(&None), "the cell heals: {told}");
    let healed = told.find("healed: ").expect("looked for just now");
    assert!(told[healed..].contains("every byte is the same"), "all is read after that: {told}");
    assert!(is_empty(scratch.path()));
    assert_eq!(processes_of(scratch.path()), 0);
}

#[test]
fn a_demo_that_is_killed_leaves_no_process_and_no_file() {
    let (scratch, log) = (TempDir::new().expect("scratch"), TempDir::new().expect("scratch"));
    let out = log.path().join("out");
    let mut command = demo(scratch.path());
    command.stdout(File::create(&out).expect("creates"));
    let demo = KilledOnDrop(command.spawn().expect("starts"));
    await_output(&out, "clients append");
    assert!(processes_of(scratch.path()) >= 5, "a master and four chunkservers");
    drop(demo);
    await_until("the janitor's work", || {
        is_empty(scratch.path()) && processes_of(scratch.path()) == 0
    });
}
