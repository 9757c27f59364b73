//! Many names in one command, against a cell of real processes.

mod cell;

use cairn_client::{Cell as Client, CellPath, CreateOptions, Error, ErrorCode, Options, Outcome};
use cell::{Cell, await_until};
use std::collections::BTreeSet;
use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

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

fn numbered(prefix: char, numbers: std::ops::Range<u32>) -> BTreeSet<String> {
    numbers.map(|number| format!("{prefix}{number:04}")).collect()
}

fn paths(directory: &CellPath, names: &BTreeSet<String>) -> Vec<CellPath> {
    names.iter().map(|name| directory.join(name).expect("a path")).collect()
}

async fn make(client: &Client, paths: &[CellPath]) -> Result<(), Error> {
    let made = client.create_many(paths, CreateOptions::default()).await;
    made.into_iter().try_for_each(|file| file.map(drop))
}

fn block_on<T>(what: impl Future<Output = Result<T, Error>>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("starts").block_on(what).expect("done")
}

/// Of a directory of 4000 names, what a listing told during which `others` were made or removed:
/// once its second page had been asked for, and with it the third.
fn listed_while(others: &BTreeSet<String>, are_made: bool) -> Vec<String> {
    let cell = Cell::start(0);
    block_on(async {
        let client = Client::connect(cell.address(), Options::default()).await?;
        let directory = CellPath::parse("/d").expect("a path");
        client.make_directory(&directory, false).await?;
        make(&client, &paths(&directory, &numbered('n', 0..4000))).await?;
        let mut listing = client.listing(&directory, false);
        let mut told = listing.next_page().await?.expect("a page");
        {
            let mut second = pin!(listing.next_page());
            let asks = poll_fn(|cx| Poll::Ready(second.as_mut().poll(cx).is_pending()));
            assert!(asks.await, "it has to come from the master");
            let others = paths(&directory, others);
            if are_made {
                make(&client, &others).await?;
            } else {
                let gone = client.delete_many(&others, false).await;
                gone.into_iter().collect::<Result<Vec<_>, _>>()?;
            }
            told.extend(second.await?.expect("a page"));
        }
        while let Some(page) = listing.next_page().await? {
            told.extend(page);
        }
        Ok(told.into_iter().map(|entry| entry.name).collect())
    })
}

#[test]
fn a_page_is_asked_for_ahead_and_none_is_lost_where_names_before_the_next_have_gone() {
    let listed = listed_while(&numbered('n', 2100..2110), false);
    // The third page tells those, because it was asked for before they went.
    assert!(listed.into_iter().eq(numbered('n', 0..4000)));
}

#[test]
fn a_page_is_asked_for_ahead_and_none_is_told_twice_where_names_before_the_next_have_come() {
    let come = (0..10).map(|number| format!("n2500-{number}")).collect();
    let listed = listed_while(&come, true);
    assert!(listed.into_iter().eq(numbered('n', 0..4000)));
}

#[test]
fn a_listing_of_the_root_has_the_directory_of_hidden_names_in_its_place() {
    let cell = Cell::start(0);
    let mut names = &numbered('-', 0..1500) | &numbered('n', 0..1500);
    let listed = block_on(async {
        let client = Client::connect(cell.address(), Options::default()).await?;
        make(&client, &paths(&CellPath::root(), &names)).await?;
        let mut listing = client.listing(&CellPath::root(), true);
        let mut told = Vec::new();
        while let Some(page) = listing.next_page().await? {
            told.extend(page.into_iter().map(|entry| entry.name));
        }
        Ok(told)
    });
    names.insert(".deleted".to_owned());
    assert!(listed.into_iter().eq(names));
}

#[test]
fn a_listing_goes_on_where_it_was_once_the_master_is_back() {
    let mut cell = Cell::start(0);
    let listed = block_on(async {
        let directory = CellPath::parse("/d").expect("a path");
        // A busy disk may take its time to make them: only the listing gives up soon.
        let patient = Client::connect(cell.address(), Options::default()).await?;
        patient.make_directory(&directory, false).await?;
        make(&patient, &paths(&directory, &numbered('n', 0..5000))).await?;
        let options = Options { deadline: Duration::from_secs(1), ..Options::default() };
        let client = Client::connect(cell.address(), options).await?;
        let mut listing = client.listing(&directory, false);
        let mut told = listing.next_page().await?.expect("a page");
        cell.masters[0].kill();
        // What has come already is told; then nothing comes.
        let error = loop {
            match listing.next_page().await {
                Ok(page) => told.extend(page.expect("there is more")),
                Err(error) => break error,
            }
        };
        assert_eq!(error.outcome(), Outcome::NotDone, "{error}");
        cell.masters[0].restart().expect("starts");
        while let Some(page) = listing.next_page().await? {
            told.extend(page);
        }
        Ok(told)
    });
    assert!(listed.into_iter().map(|entry| entry.name).eq(numbered('n', 0..5000)));
}

#[test]
fn files_opened_at_once_are_each_themselves_and_tell_where_their_bytes_are() {
    let cell = Cell::start(3);
    let local = tree(&cell, "tree", 60);
    cell.ok(["put", "-r", &local, "/t"]);
    block_on(async {
        let client = Client::connect(cell.address(), Options::default()).await?;
        // Every fifth one is not there.
        let path = |number: usize| {
            let below = ["a", "b/c/d", "e"][number % 3];
            let missing = if number % 5 == 4 { "none" } else { "" };
            CellPath::parse(&format!("/t/{below}/f{number:04}{missing}")).expect("a path")
        };
        let paths: Vec<CellPath> = (0..60).map(path).collect();
        let mut opens: Vec<_> = paths.iter().map(|path| Box::pin(client.open(path))).collect();
        // All are begun before any is answered: they are asked for together.
        poll_fn(|context| {
            opens.iter_mut().for_each(|open| assert!(open.as_mut().poll(context).is_pending()));
            Poll::Ready(())
        })
        .await;
        for (number, open) in opens.into_iter().enumerate() {
            match open.await {
                Ok(file) => {
                    assert_ne!(number % 5, 4, "{number} is not there");
                    let bytes = file.read_at(0, 100).await?;
                    assert_eq!(bytes, format!("{number}\n"));
                }
                Err(error) => {
                    assert_eq!((number % 5, error.code()), (4, ErrorCode::NotFound));
                    assert!(error.to_string().contains(paths[number].as_str()), "{error}");
                }
            }
        }
        Ok(())
    });
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
    assert_eq!(listed.text(), "/there\n\n/t/a:\nf0000\nf0003\nf0006\n");
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
    cell.masters[0].kill();
    cell.masters[0].restart().expect("starts");
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
