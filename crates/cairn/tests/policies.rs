//! How files are kept, as a person says it: `cairn policy`, against a cell of real processes.

mod cell;

use cell::row::{Row, judge};
use cell::{Cell, await_until, guide};
use serde_json::json;

fn level(cell: &Cell, path: &str) -> u64 {
    cell.json(&["stat", path])["replication"].as_u64().expect("a number")
}

/// How many replicas each chunk of a file has.
fn replicas(cell: &Cell, path: &str) -> Vec<usize> {
    let chunks = cell.json(&["stat", "--chunks", path]);
    let chunks = chunks["chunks"].as_array().expect("chunks").clone();
    chunks.iter().map(|chunk| chunk["replicas"].as_array().expect("some").len()).collect()
}

#[test]
fn every_command_of_the_guides_page_does_what_it_says() {
    let cell = Cell::start(4);
    let page = include_str!("../../../docs/guide/policies.md");
    let mut blocks = guide::blocks(page, "sh").into_iter();
    assert!(blocks.len() >= 4, "the page has examples");
    let mut next = || guide::shell(&cell, blocks.next().expect("one more"), &[]);
    let told = next();
    assert!(told.starts_with(guide::blocks(page, "text")[0]), "{told}");
    let listed = next();
    let levels: Vec<&str> =
        listed.lines().map(|line| line.split_whitespace().nth(1).expect("a level")).collect();
    assert_eq!(levels, ["1", "1", "2"]);
    await_until("what is kept for no time is purged", || cell.ok(["ls", "--deleted"]).is_empty());
    assert_eq!(cell.json(&["policy", "/archive"])["replication_from"]["source"], "cell");
    next();
    await_until("what exists is brought to it", || level(&cell, "/scratch/job/inherits") == 2);
    await_until("and has its replicas", || replicas(&cell, "/scratch/job/inherits") == [2]);
    next();
    assert_eq!(level(&cell, "/archive/hot"), 3);
    assert!(blocks.next().is_none(), "each block is judged here");
}

#[test]
fn a_file_that_is_raised_gets_its_replicas_and_what_is_deleted_goes_when_it_is_said() {
    let cell = Cell::start(4);
    cell.ok(["mkdir", "-p", "/d/e"]);
    cell.ok(["policy", "--replication", "2", "--durability", "synced", "/d"]);
    let local = cell.file("local", &vec![7; 2_500_000]);
    cell.ok(["put", &local, "/d/e/f"]);
    assert_eq!((level(&cell, "/d/e/f"), replicas(&cell, "/d/e/f")), (2, vec![2, 2, 2]));
    assert_eq!(cell.json(&["stat", "/d/e/f"])["synced"], true);
    let told = cell.json(&["policy", "/d/e/f"]);
    assert_eq!(told["replication_from"], json!({ "source": "made", "path": null }));
    assert_eq!(told["keep_deleted_from"], json!({ "source": "cell", "path": null }));
    let told = cell.json(&["policy", "/d/e"]);
    assert_eq!(told["durability_from"], json!({ "source": "above", "path": "/d" }));
    cell.ok(["policy", "--replicas", "4", "/d/e/f"]);
    await_until("four replicas of each chunk", || replicas(&cell, "/d/e/f") == [4, 4, 4]);
    assert!(cell.ok_with(["cat", "/d/e/f"], b"") == vec![7; 2_500_000]);
    // What is too many goes again, and nothing is lost by that.
    cell.ok(["policy", "--replicas", "2", "/d/e/f"]);
    await_until("two replicas of each chunk", || replicas(&cell, "/d/e/f") == [2, 2, 2]);
    assert!(cell.ok_with(["cat", "/d/e/f"], b"") == vec![7; 2_500_000]);
    let told = cell.json(&["policy", "/d/e/f"]);
    assert_eq!(told["replication_from"]["source"], "itself");
    cell.ok(["policy", "--keep-deleted", "forever", "/d/e/f"]);
    cell.ok(["rm", "/d/e/f"]);
    let listed = cell.ok(["ls", "--deleted", "-l"]);
    assert!(listed.contains("  forever  "), "{listed}");
    cell.ok(["undelete", "/d/e/f"]);
    assert_eq!(level(&cell, "/d/e/f"), 2, "it comes back as it was");
}

#[test]
fn what_cannot_be_is_refused_and_what_cannot_be_yet_is_warned_of() {
    let cell = Cell::start(2);
    cell.ok(["mkdir", "/d"]);
    let rows: [(&[&str], i32, &[&str]); 7] = [
        (&["policy", "--replication", "0", "/d"], 2, &["0 is not in 1..=16"]),
        (&["policy", "--replication", "17", "/d"], 2, &["17 is not in 1..=16"]),
        (&["policy", "--keep-deleted", "soon", "/d"], 2, &["7d, 0 or forever"]),
        (&["policy", "--inherit", "rack", "/d"], 2, &["'rack'", "keep-deleted"]),
        (&["policy", "--replication", "2", "/none"], 3, &["/none", "no such file"]),
        (&["policy", "/none"], 3, &["/none", "no such file"]),
        (&["policy", "--replication", "2", "/.deleted"], 2, &["not changed"]),
    ];
    for (arguments, code, says) in rows {
        let done = cell.run(arguments);
        judge(&Row { what: &arguments.join(" "), done, code, says });
    }
    let done = cell.run(["policy", "--replication", "9", "/d"]);
    assert_eq!(done.code(), 0);
    let warned = "cairn: warning: /d: 9 replicas, and 2 chunkservers are live";
    assert!(done.stderr.starts_with(warned) && done.stderr.lines().count() == 1, "{}", done.stderr);
    let done = cell.run(["policy", "--replication", "2", "/d"]);
    assert_eq!(done.stderr, "");
}
