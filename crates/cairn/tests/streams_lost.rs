//! What of a stream every server has lost (R41), on real processes: it is named by whoever is
//! asked, readers fail there, and pass over it once a person has said so.

mod cell;

use cairn_testkit::copy_tree;
use cell::{Cell, Finished, KilledOnDrop, await_until, committed_of, feed};
use std::fs::remove_dir_all;
use std::process::Stdio;

fn append(cell: &Cell, child: &mut KilledOnDrop, line: &str, number: u64) {
    feed(&mut child.0, format!("{line}\n").as_bytes());
    await_until("it is committed", || committed_of(cell, "/s", "p") == number);
}

fn all_of(told: &Finished) -> String {
    told.text() + &told.stderr
}

/// All disks are set back to before the second of two lines.
fn cell_that_lost_a_line() -> (Cell, KilledOnDrop) {
    let mut cell = Cell::start(3);
    cell.ok(["create", "--layout", "stream", "/s"]);
    let mut command = cell.command(["append", "--producer", "p", "/s"]);
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = KilledOnDrop(command.spawn().expect("starts"));
    append(&cell, &mut child, "one", 1);
    for at in 0..3 {
        copy_tree(&cell.data_of(at + 1), &cell.local(&format!("image{at}"))).expect("copies");
    }
    append(&cell, &mut child, "two", 2);
    for at in 0..3 {
        cell.chunkservers[at].kill();
    }
    for at in 0..3 {
        let (disk, image) = (cell.data_of(at + 1), cell.local(&format!("image{at}")));
        remove_dir_all(&disk).expect("removes");
        copy_tree(&image, &disk).expect("copies");
        cell.chunkservers[at].restart().expect("starts");
    }
    cell.await_live(3).expect("all are back");
    // Its producer leaves the chunk, where its servers do not have what they should.
    append(&cell, &mut child, "three", 3);
    await_until("its chunk is sealed", || cell.ok(["stat", "--chunks", "/s"]).contains(" lost "));
    (cell, child)
}

/// What `fsck` says that the stream has lost.
fn lost_range(cell: &Cell) -> std::ops::Range<usize> {
    let told = all_of(&cell.run(["fsck", "/s"]));
    let (_, behind) = told.split_once("LOST_BYTES: bytes ").expect("it says so");
    let mut numbers = behind.split(|it: char| !it.is_ascii_digit()).filter(|it| !it.is_empty());
    let mut next = || numbers.next().expect("a number").parse().expect("a number");
    next()..next()
}

#[test]
fn what_all_servers_have_lost_is_named_and_passed_over_once_a_person_has_said_so() {
    let (mut cell, _producer) = cell_that_lost_a_line();
    let told = cell.run(["cat", "/s"]);
    assert_eq!(told.code(), 9, "{}", all_of(&told));
    assert!(all_of(&told).contains("of the stream are lost"), "{}", all_of(&told));
    // What stands before it is nobody's loss.
    assert_eq!(told.text(), "one\n");
    assert_eq!(cell.ok(["head", "-n", "1", "/s"]), "one\n");
    assert!(cell.ok(["has", "/s", "p", "1"]).contains("it is there, at offset 0"));
    assert!(cell.ok(["has", "/s", "p", "3"]).contains("it is there, at offset "));
    let (rest, lost) = (cell.run(["get", "--salvage", "--raw", "/s", "-"]), lost_range(&cell));
    assert_eq!(rest.code(), 9, "{}", rest.stderr);
    assert!(rest.stderr.contains(&format!("bytes {} to {}", lost.start, lost.end)));
    let has = |bytes: &[u8], line: &[u8]| bytes.windows(line.len()).any(|part| part == line);
    assert!(has(&rest.stdout[..lost.start], b"one") && has(&rest.stdout[lost.end..], b"three"));
    assert!(rest.stdout[lost].iter().all(|byte| *byte == 0), "zeros stand for nothing else");
    // A hole would be one in the stream of which this is a copy, too.
    cell.ok(["mkdir", "-m", "0777", "/theirs"]);
    cell.ok(["--as", "7", "cp", "/s", "/theirs/s"]);
    let told = cell.run(["--as", "7", "fsck", "/theirs/s", "--skip-lost"]);
    assert_eq!(told.code(), 15, "{}", all_of(&told));
    assert!(cell.ok(["status"]).contains("LOST_BYTES: 1 chunks of streams have lost"));
    assert_eq!(cell.run(["status", "--check"]).code(), 14);
    let told = cell.run(["fsck", "/s"]);
    assert_eq!(told.code(), 9, "{}", all_of(&told));
    assert!(all_of(&told).contains("LOST_BYTES: bytes "), "{}", all_of(&told));
    let second = cell.run(["has", "/s", "p", "2"]);
    assert_eq!(second.code(), 9, "{}", all_of(&second));
    assert!(cell.ok(["explain", "/s"]).contains("were committed, and are lost"));
    assert_eq!(cell.json(&["stat", "--chunks", "/s"])["chunks"][0]["lost"]["is_hole"], false);
    // What only deleted files have lost ails nobody.
    cell.ok(["rm", "/s"]);
    cell.ok(["rm", "/theirs/s"]);
    await_until("nobody is told of it", || !cell.ok(["status"]).contains("LOST_BYTES"));
    let told = cell.run(["fsck"]);
    assert!(told.code() != 9 && told.text().contains("the file is deleted"), "{}", all_of(&told));
    cell.ok(["undelete", "/s"]);
    assert!(cell.ok(["status"]).contains("LOST_BYTES"));
    // A person says so, of a file.
    let told = cell.run(["fsck", "--skip-lost"]);
    assert_eq!(told.code(), 2, "{}", all_of(&told));
    let told = cell.ok(["fsck", "/s", "--skip-lost"]);
    assert!(told.contains("HOLE: bytes ") && told.contains("from now on"), "{told}");
    for round in 0..2 {
        let told = cell.run(["cat", "/s"]);
        assert_eq!((told.code(), &told.stdout[..]), (0, &b"one\nthree\n"[..]), "{round}");
        assert!(all_of(&told).contains("passed over "), "{}", all_of(&told));
        let second = cell.run(["has", "/s", "p", "2"]);
        assert_eq!(second.code(), 9, "{}", all_of(&second));
        assert!(all_of(&second).contains("and lost: it was in bytes "), "{}", all_of(&second));
        assert!(cell.ok(["has", "/s", "p", "3"]).contains("it is there, at offset "));
        assert!(!cell.ok(["status"]).contains("LOST_BYTES"), "a person knows");
        assert!(cell.ok(["fsck", "/s"]).contains("HOLE: bytes "));
        assert!(cell.ok(["explain", "/s"]).contains("a person has made a hole of it"));
        // The log has it.
        cell.masters[0].kill();
        cell.masters[0].restart().expect("starts");
        cell.await_live(3).expect("all are back");
    }
    let got = cell.local("got");
    cell.ok(["get", "/s", &got.display().to_string()]);
    assert_eq!(std::fs::read(&got).expect("got"), b"one\nthree\n");
    cell.ok(["snapshot", "/s", "/copy"]);
    assert_eq!(cell.ok(["cat", "/copy"]), "one\nthree\n", "its copy has the hole, too");
}
