//! `cairn bench meta`, small: every step gives its figures, and leaves nothing behind.

mod cell;

use cell::{cairn, run};
use std::collections::BTreeMap;
use tempfile::TempDir;

/// The figures of a run by their names, `null` for those that are no number.
fn figures(arguments: &[&str], scratch: &TempDir) -> BTreeMap<String, Option<f64>> {
    let data = scratch.path().join("data");
    let fixed = ["bench", "meta", "--json", "--files", "2000", "--rounds", "1", "--data"];
    let mut all: Vec<String> = fixed.map(str::to_owned).to_vec();
    all.push(data.display().to_string());
    all.extend(arguments.iter().map(|argument| (*argument).to_owned()));
    let done = run(cairn(all), b"");
    assert_eq!(done.code(), 0, "{}", done.stderr);
    let left = std::fs::read_dir(&data).map_or(0, Iterator::count);
    assert_eq!(left, 0, "what a bench makes it removes");
    let text = done.text();
    let one = |line: &str| {
        let value: serde_json::Value = serde_json::from_str(line).expect("JSON");
        (value["what"].as_str().expect("a name").to_owned(), value["value"].as_f64())
    };
    text.lines().map(one).collect()
}

/// Runs these steps; each of the figures is there and is above zero.
fn gives(steps: &str, names: &[&str]) {
    let scratch = TempDir::new().expect("a scratch directory");
    let few = ["--operations", "20", "--processes", "2", "--callers", "4", "--only", steps];
    let found = figures(&few, &scratch);
    for what in names {
        let value = found.get(*what).unwrap_or_else(|| panic!("{what}: not told"));
        assert!(value.is_some_and(|value| value > 0.0), "{what}: {value:?}");
    }
}

#[test]
fn memory_start_and_look_ups_give_their_figures() {
    let names = [
        "memory for each file",
        "memory for each chunk, locations included",
        "start until a look-up is answered",
        "start until every chunk has a location",
        "start until every replica is known",
        "look-ups meanwhile, p99",
        "look-ups",
        "look-ups, p99",
    ];
    // Whatever order they are asked for in.
    gives("look-ups,start,memory", &names);
}

#[test]
fn changes_and_mixes_give_their_figures() {
    let disk = "disk: synced records with 8 waiters";
    let names = ["creates", "renames", "deletes", "mix of cluster X", "mix of cluster Y", disk];
    gives("changes,mix", &names);
}

#[test]
fn a_listing_and_checkpoints_give_their_figures() {
    let names = [
        "list a directory of 2000 names",
        "creates beside look-ups, no checkpoint",
        "creates beside look-ups and checkpoints",
        "look-ups with checkpoints, p99",
    ];
    gives("list,checkpoint", &names);
}

#[test]
fn growth_is_told_and_drawn() {
    let scratch = TempDir::new().expect("a scratch directory");
    let plots = scratch.path().join("plots").display().to_string();
    let arguments =
        ["--only", "growth", "--names", "b", "--operations", "20", "--batch", "5", "--plots"];
    let arguments: Vec<&str> = arguments.into_iter().chain([plots.as_str()]).collect();
    let found = figures(&arguments, &scratch);
    for files in ["20", "200", "2000"] {
        assert!(found.contains_key(&format!("creates, {files} files")), "{found:?}");
    }
    let page = std::fs::read_to_string(format!("{plots}/growth.md")).expect("written");
    assert_eq!(page.lines().filter(|line| line.starts_with("| 2")).count(), 3, "{page}");
    assert!(std::fs::read_to_string(format!("{plots}/growth.svg")).expect("written").len() > 1000);
}

#[test]
fn a_peer_that_is_not_there_is_told_in_one_line_before_anything_is_begun() {
    let done = run(cairn(["bench", "meta", "--peer", "hdfs", "--peer-scripts", "/none"]), b"");
    assert_eq!(done.code(), 12, "{}", done.stderr);
    assert_eq!(done.stderr.lines().count(), 1, "{}", done.stderr);
    assert!(done.stderr.contains("/none/hdfs/cluster.sh"), "{}", done.stderr);
    assert_eq!(done.text(), "");
}

#[test]
fn quotas_and_permissions_are_measured_beside_none() {
    let names = [
        "creates, no quota",
        "creates, with a quota",
        "creates with a quota, beside without",
        "look-ups with a quota, beside without",
        "creates, with a quota and permissions",
        "creates no quota, again, beside without",
        "creates with a quota and permissions, beside without",
        "look-ups with a quota and permissions, beside without",
    ];
    gives("quotas", &names);
}
