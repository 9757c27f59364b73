//! Many names in one command, against a cell of real processes.

mod cell;

use cell::{Cell, await_until};

fn lines(text: &str) -> usize {
    text.lines().count()
}

/// A local tree of `count` small files in three directories, one of them deep.
fn tree(cell: &Cell, name: &str, count: usize) -> String {
    let root = cell.local(name);
    for below in ["a", "b/c/d", "e"] {
        std::fs::create_dir_all(root.join(below)).expect("makes");
    }
    for number in 0..count {
        let below = ["a", "b/c/d", "e"][number % 3];
        let path = root.join(below).join(format!("f{number:04}"));
        std::fs::write(path, format!("{number}\n")).expect("writes");
    }
    root.display().to_string()
}

#[test]
fn a_tree_of_many_small_files_is_stored_listed_and_removed_in_batches() {
    // Of one server: this is about names. Each replica is a new file or two, and to find a free
    // inode ext4 without a journal passes over all that earlier tests gave back within minutes.
    let cell = Cell::start(1);
    let local = tree(&cell, "tree", 1500);
    cell.ok(["put", "-r", &local, "/t"]);
    assert_eq!(lines(&cell.ok(["find", "/t", "-type", "f"])), 1500);
    assert_eq!(lines(&cell.ok(["find", "/", "-name", ".*"])), 0, "no passing name is left");
    assert_eq!(lines(&cell.ok(["ls", "/t/b/c/d"])), 500);
    let bytes: usize = (0..1500).map(|number: usize| number.to_string().len() + 1).sum();
    let sum = cell.ok(["du", "-s", "--json", "/t"]);
    assert!(sum.contains(&format!("\"length\":{bytes}")), "{sum}");
    assert!(sum.contains("\"file_count\":1500,\"directory_count\":6"), "{sum}");
    assert_eq!(cell.ok(["cat", "/t/a/f0000", "/t/b/c/d/f0001", "/t/e/f1499"]), "0\n1\n1499\n");

    let all = cell.ok(["find", "/t", "-type", "f"]);
    let with = |command: &[&str]| -> Vec<String> {
        command.iter().copied().chain(all.lines()).map(str::to_owned).collect()
    };
    assert_eq!(cell.ok(with(&["ls"])), all, "in the order in which they were named");
    assert_eq!(lines(&cell.ok(with(&["rm", "-v"]))), 1500);
    assert_eq!(lines(&cell.ok(["find", "/t", "-type", "f"])), 0);
}

#[test]
fn each_name_of_many_fails_by_itself() {
    let cell = Cell::start(3);
    let local = tree(&cell, "tree", 9);
    cell.ok_with(["put", "-", "/there"], b"kept");
    cell.ok(["mkdir", "-p", "/t/a"]);
    cell.ok_with(["put", "-", "/t/a/f0003"], b"kept");
    // Into a directory that is there: its own name is below it.
    let stored = cell.run(["put", "-r", &format!("{local}/a"), "/t"]);
    assert_eq!(stored.code(), 4, "{}", stored.stderr);
    assert_eq!(lines(&stored.stderr), 1, "{}", stored.stderr);
    assert!(stored.stderr.contains("/t/a/f0003: it is there already"), "{}", stored.stderr);
    assert_eq!(cell.ok(["cat", "/t/a/f0000", "/t/a/f0003", "/t/a/f0006"]), "0\nkept6\n");
    cell.ok(["put", "-r", "-f", &format!("{local}/a"), "/t"]);
    assert_eq!(cell.ok(["cat", "/t/a/f0003"]), "3\n");

    let listed = cell.run(["ls", "/none", "/there", "/t/a"]);
    assert_eq!(listed.code(), 3);
    assert_eq!(listed.text(), "/there\n/t/a:\nf0000\nf0003\nf0006\n");
    let removed = cell.run(["rm", "/t/a/f0000", "/none", "/t/a", "/there", "/"]);
    assert_eq!(removed.code(), 3, "the first failure's");
    let told: Vec<&str> = removed.stderr.lines().collect();
    assert_eq!(told.len(), 3, "{}", removed.stderr);
    assert!(told[0].contains("/none: no such file"), "{}", removed.stderr);
    assert!(told[1].contains("/t/a: it is a directory"), "{}", removed.stderr);
    assert_eq!(cell.ok(["find", "/", "-type", "f"]), "/t/a/f0003\n/t/a/f0006\n");
    cell.ok(["rm", "-r", "-f", "/none", "/t", "/t/a/f0003"]);
    assert_eq!(cell.ok(["ls", "/"]), "");
}

/// Kills the master and starts it again as soon as `begun` holds.
fn kill_when(cell: &mut Cell, what: &str, begun: impl Fn(&Cell) -> bool) {
    await_until(what, || begun(cell));
    cell.master.kill();
    cell.master.restart();
}

#[test]
fn a_master_that_is_killed_meanwhile_does_nothing_twice_and_loses_nothing() {
    let mut cell = Cell::start(1);
    let names: Vec<String> = (0..20_000).map(|number| format!("/d/{number:05}")).collect();
    cell.ok(["mkdir", "/d"]);
    let begin = |cell: &Cell, command: [&'static str; 2]| {
        let arguments = command.into_iter().chain(names.iter().map(String::as_str));
        cell.command(arguments).spawn().expect("starts")
    };
    let mut making = begin(&cell, ["mkdir", "-p"]);
    kill_when(&mut cell, "the first directories", |cell| !cell.ok(["ls", "/d"]).is_empty());
    assert!(making.wait().expect("ends").success());
    assert_eq!(lines(&cell.ok(["ls", "/d"])), names.len());
    let mut removing = begin(&cell, ["rm", "-r"]);
    let fewer = |cell: &Cell| lines(&cell.ok(["ls", "/d"])) < names.len();
    kill_when(&mut cell, "the first deletions", fewer);
    assert!(removing.wait().expect("ends").success(), "no retry finds its own deletion done");
    assert_eq!(cell.ok(["ls", "/d"]), "");
    assert_eq!(lines(&cell.ok(["ls", "-a", "/.deleted"])), names.len());
}
