//! Many names in one command, against a cell of real processes.

mod cell;

use cairn_client::{Cell as Client, CellPath, CreateOptions, Error, Options};
use cell::{Cell, await_until};
use std::collections::BTreeSet;

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

/// Names `n0000` to `n3999` in `/d`, of which the ones in `others` are made or removed while a
/// listing has told the first two pages and has the third on its way; what the whole listing told.
fn listed_while(begun: BTreeSet<String>, others: &BTreeSet<String>, make: bool) -> Vec<String> {
    let cell = Cell::start(0);
    let paths = |names: &BTreeSet<String>| -> Vec<CellPath> {
        names.iter().map(|name| CellPath::parse(&format!("/d/{name}")).expect("a path")).collect()
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let listed = runtime.expect("starts").block_on(async {
        let client = Client::connect(&cell.master.address, Options::default()).await?;
        let directory = CellPath::parse("/d").expect("a path");
        client.make_directory(&directory, false).await?;
        let created = client.create_many(&paths(&begun), CreateOptions::default()).await;
        created.into_iter().collect::<Result<Vec<_>, _>>()?;
        let mut listing = client.listing(&directory, false);
        let (mut names, mut pages) = (Vec::new(), 0);
        while let Some(page) = listing.next_page().await? {
            names.extend(page.into_iter().map(|entry| entry.name));
            pages += 1;
            if pages == 2 && make {
                let made = client.create_many(&paths(others), CreateOptions::default()).await;
                made.into_iter().collect::<Result<Vec<_>, _>>()?;
            } else if pages == 2 {
                let gone = client.delete_many(&paths(others), false).await;
                gone.into_iter().collect::<Result<Vec<_>, _>>()?;
            }
        }
        Ok::<_, Error>(names)
    });
    listed.expect("listed")
}

fn numbered(numbers: std::ops::Range<u32>) -> BTreeSet<String> {
    numbers.map(|number| format!("n{number:04}")).collect()
}

#[test]
fn a_listing_tells_each_name_that_stays_once_though_others_go_before_the_page_asked_ahead() {
    let gone = numbered(2100..2110);
    let mut listed = listed_while(numbered(0..4000), &gone, false);
    assert!(listed.is_sorted());
    listed.retain(|name| !gone.contains(name));
    assert_eq!(listed.len(), 3990);
    assert!(listed.into_iter().eq(&numbered(0..4000) - &gone));
}

#[test]
fn a_listing_tells_each_name_once_though_others_come_before_the_page_asked_ahead() {
    let come: BTreeSet<String> = (0..10).map(|number| format!("n2500-{number}")).collect();
    let mut listed = listed_while(numbered(0..4000), &come, true);
    assert!(listed.is_sorted());
    listed.retain(|name| !come.contains(name));
    assert!(listed.into_iter().eq(numbered(0..4000)));
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
