//! `cairn bench streams`, small: every step gives its figures, and leaves nothing behind.

mod cell;

use cell::{cairn, run};
use std::collections::BTreeMap;
use tempfile::TempDir;

/// The figures of these steps by their names; each has to be there and above zero.
fn gives(step: &str, names: &[&str]) {
    let scratch = TempDir::new().expect("a scratch directory");
    let data = scratch.path().join("data").display().to_string();
    let few = ["--pairs", "1", "--megabytes", "2", "--operations", "20", "--seconds", "2"];
    let fewer = ["--producers", "20", "--followers", "4", "--processes", "2", "--callers", "2"];
    let all = ["bench", "streams", "--json", "--data", &data, "--only", step];
    let done = run(cairn([&all[..], &few, &fewer].concat()), b"");
    assert_eq!(done.code(), 0, "{}", done.stderr);
    let left = std::fs::read_dir(&data).map_or(0, Iterator::count);
    assert_eq!(left, 0, "what a bench makes it removes");
    let text = done.text();
    let one = |line: &str| {
        let value: serde_json::Value = serde_json::from_str(line).expect("JSON");
        (value["what"].as_str().expect("a name").to_owned(), value["value"].as_f64())
    };
    let found: BTreeMap<String, Option<f64>> = text.lines().map(one).collect();
    for what in names {
        let value = found.get(*what).unwrap_or_else(|| panic!("{what}: not told: {text}"));
        // A follower may be told before the producer is.
        let least = if what.contains("told after") { 0.0 } else { f64::MIN_POSITIVE };
        assert!(value.is_some_and(|value| value >= least), "{what}: {value:?}");
    }
}

#[test]
fn producers_are_compared_with_the_bare_chain_and_with_a_file() {
    let names = [
        "4 producers, one stream",
        "one stream / bare chain",
        "bare chain / bare chain",
        "one stream / GFS file",
        "one stream / GFS file, each awaited",
        "one producer, awaited, p50",
        "GFS file, awaited, p50",
    ];
    gives("appends,awaited", &names);
}

#[test]
fn commits_and_followers_are_timed() {
    let names = [
        "20 producers, commits",
        "beside 4 followers, commits",
        "beside 4 followers, told after a commit, p99",
        "with bytes: a record committed, p50",
        "append to each of 4 readers, p99",
    ];
    gives("commits,followers", &names);
}

#[test]
fn the_papers_chunk_operations_are_all_there() {
    let names = [
        "creations of files",
        "look-ups of files",
        "addChunk with abandonAddChunk",
        "completeWrittenChunk",
        "getChunksInfo(20 chunks)",
        "getChunksInfo(200 chunks)",
    ];
    gives("chunks", &names);
}
