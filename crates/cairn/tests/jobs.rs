//! What the cell is at is told as jobs (A20, A21): what it does by itself, and what a person began.

mod cell;

use cell::row::{Row, judge};
use cell::{Cell, await_until};
use serde_json::Value;

/// The job with this id.
fn job(cell: &Cell, id: &str) -> Option<Value> {
    let text = cell.ok(["jobs", "--json"]);
    let jobs = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    jobs.into_iter().find(|job| job["id"] == id)
}

#[test]
fn repair_is_a_job_while_chunks_lack_replicas_and_nobody_cancels_it() {
    let mut cell = Cell::start(3);
    let local = cell.file("local", &[7; 3 << 20]);
    cell.ok(["put", local.as_str(), "/file"]);
    await_until("no job", || cell.ok(["jobs"]).contains("no jobs"));
    cell.chunkservers[0].kill();
    await_until("three copies that nobody can make", || {
        job(&cell, "repair").is_some_and(|job| job["total"] == 3)
    });
    let told = job(&cell, "repair").expect("it is there");
    assert_eq!((&told["kind"], &told["state"]), (&"repair".into(), &"waiting".into()));
    assert_eq!((&told["done"], &told["left_ms"]), (&0.into(), &Value::Null));
    let lines = cell.ok(["jobs"]);
    assert!(lines.contains("0 of 3 chunks") && lines.contains("a server with room"), "{lines}");
    judge(&Row {
        what: "cancelling what the cell does by itself",
        done: cell.run(["jobs", "cancel", "repair"]),
        code: 3,
        says: &["cancelling job repair", "'cairn jobs' lists them"],
    });
    cell.chunkservers[0].restart().expect("starts");
    await_until("no job once more", || cell.ok(["jobs"]).contains("no jobs"));
}
