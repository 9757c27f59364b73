//! A master whose disk cannot be read any more, is full, or is an old copy: what it says, and what
//! goes on.

mod cell;

use cairn_testkit::copy_tree;
use cell::row::{Row, judge};
use cell::small_disk::SmallDisk;
use cell::{Cell, await_output, await_until, cairn, run};
use std::fs::{File, OpenOptions};
use std::os::unix::fs::symlink;
use std::path::PathBuf;

/// The newest page file of a cell's master, and how large it is.
fn page_file(cell: &Cell) -> (PathBuf, u64) {
    let directory = cell.local("master/checkpoints");
    let names = std::fs::read_dir(directory).expect("lists").map(|entry| entry.expect("is there"));
    let paths = names.map(|entry| entry.path());
    let newest = paths.filter(|path| path.extension().is_some_and(|it| it == "pages")).max();
    let path = newest.expect("there is one");
    let size = path.metadata().expect("is there").len();
    (path, size)
}

/// Files of the master's checkpoints with such an end.
fn count(cell: &Cell, suffix: &str) -> usize {
    let names = std::fs::read_dir(cell.local("master/checkpoints")).expect("lists");
    let names = names.map(|entry| entry.expect("is there").file_name());
    names.filter(|name| name.to_string_lossy().ends_with(suffix)).count()
}

#[test]
fn a_page_that_cannot_be_read_is_told_and_the_next_start_takes_an_older_checkpoint() {
    let mut cell = Cell::start_plan(0, |plan| {
        plan.master_arguments = ["--checkpoint-every-records", "40"].map(str::to_owned).into();
    });
    let names: Vec<String> = (0..120).map(|number| format!("/directory-{number}")).collect();
    for name in &names {
        cell.ok(["mkdir", name]);
    }
    await_until("two checkpoints", || count(&cell, ".root") >= 2);
    cell.masters[0].kill();
    cell.masters[0].restart().expect("starts");
    // Beyond the end of a file, a mapping of it has nothing to read: as on a sector that is gone.
    let (path, size) = page_file(&cell);
    let whole = std::fs::read(&path).expect("reads");
    let file = OpenOptions::new().write(true).open(&path).expect("opens");
    file.set_len(4096).expect("cuts");
    let done = cell.run(["ls", "/", "--deadline", "5"]);
    assert!(!done.status.success(), "it has nothing to answer with");
    await_until("its end", || !cell.masters[0].runs());
    let log = std::fs::read_to_string(cell.masters[0].log()).expect("reads");
    let said = format!("cairn: the bytes of {} from ", path.display());
    let line = log.lines().find(|line| line.starts_with(&said)).expect("it says why it ends");
    assert!(line.contains("cannot be read (SIGBUS); start it again"), "{line}");
    // The bytes are there again: what is passed over now is passed over because it was noted down.
    std::fs::write(&path, &whole).expect("writes");
    assert_eq!(size, whole.len() as u64);
    File::open(&path).and_then(|file| file.sync_all()).expect("syncs");
    cell.masters[0].kill();
    // Who makes a new master of it is told which file that was, before he agrees to anything.
    let (from, into) = (cell.local("master"), cell.local("recovered"));
    let [from, into] = [from, into].map(|path| path.display().to_string());
    let plan = run(cell.program().command(["masters", "recover", &from, "--into", &into]), b"");
    let file = path.file_name().expect("it has a name").to_string_lossy();
    let said = format!("does not read: ERROR checkpoint passed over file=checkpoints/{file}");
    let plan = plan.text();
    let line = plan.lines().find(|line| line.starts_with(&said));
    assert!(line.is_some_and(|it| it.contains("the disk cannot read it")), "{plan}");
    cell.masters[0].restart().expect("starts");
    assert!(count(&cell, ".damaged") >= 1, "it is set aside");
    await_output(cell.masters[0].log(), "ERROR checkpoint set aside file=checkpoints/");
    let listed = cell.ok(["ls", "/"]);
    assert_eq!(listed.lines().count(), names.len());
    cell.masters[0].kill();
    cell.masters[0].restart().expect("starts");
    cell.ok(["ls", "/"]);
    let again = std::fs::read_to_string(cell.masters[0].log()).expect("reads");
    assert_eq!(again.matches("checkpoint set aside").count(), 1, "once");
}

#[test]
fn a_master_from_an_old_copy_takes_no_change_until_it_is_told_to_go_on() {
    let mut cell = Cell::start(3);
    let [old, new] = [cell.file("old", b"as it was"), cell.file("new", b"as it is")];
    cell.ok(["put", &old, "/file"]);
    cell.masters[0].kill();
    let (directory, copy) = (cell.local("master"), cell.local("copy"));
    copy_tree(&directory, &copy).expect("copies");
    cell.masters[0].restart().expect("starts");
    cell.await_live(3).expect("live");
    cell.ok(["put", &new, "/lost"]);
    cell.masters[0].kill();
    std::fs::remove_dir_all(&directory).expect("removes");
    copy_tree(&copy, &directory).expect("copies");
    cell.masters[0].restart().expect("starts");
    await_until("the cell knows better", || cell.ok(["status"]).contains("--recover-past 2"));
    let done = cell.run(["mkdir", "/more", "--deadline", "5"]);
    judge(&Row { what: "a change", done, code: 7, says: &["an old copy of its directory"] });
    await_output(cell.masters[0].log(), "ERROR behind the cell");
    assert_eq!(cell.ok(["ls", "/"]), "file\n", "look-ups are answered");
    let data = directory.display().to_string();
    for _ in 0..2 {
        cell.masters[0].kill();
        let arguments = ["master", "--data", &data, "--recover-past", "2"].map(str::to_owned);
        cell.masters[0].restart_with(arguments.into()).expect("starts");
        cell.await_live(3).expect("they are taken in again");
        await_until("it reads", || cell.run(["cat", "/file"]).status.success());
        assert_eq!(cell.ok(["cat", "/file"]), "as it was");
        cell.ok(["put", "-f", &new, "/another"]);
        assert_eq!(cell.ok(["cat", "/another"]), "as it is");
    }
    assert!(cell.ok(["status"]).contains("UNKNOWN_CHUNKS"), "what it does not know is kept");
}

#[test]
fn a_master_of_a_cell_of_one_that_is_told_of_peers_says_how_it_gets_them() {
    let mut cell = Cell::start(1);
    cell.ok(["mkdir", "/kept"]);
    cell.masters[0].kill();
    let data = cell.local("master").display().to_string();
    let peers = "127.0.0.1:7400,127.0.0.1:7401,127.0.0.1:7402";
    let arguments = ["master", "--data", &data, "--listen", "127.0.0.1:0", "--peers", peers];
    let done = run(cairn(arguments), b"");
    let says = ["a cell with one master", "without --peers"];
    judge(&Row { what: "peers of a cell of one", done, code: 2, says: &says });
    cell.masters[0].restart().expect("starts");
    assert_eq!(cell.ok(["ls", "/"]), "kept\n", "nothing is lost");
}

#[test]
fn a_master_on_a_full_disk_refuses_changes_and_answers_look_ups_until_there_is_room() {
    let Some(disk) = SmallDisk::mount(64) else {
        eprintln!("SKIPPED: a full disk cannot be had where mounting is not allowed (not root?)");
        return;
    };
    let mut cell = Cell::start_plan(1, |plan| {
        symlink(disk.path(), plan.directory.join("master")).expect("links");
    });
    let file = cell.file("file", b"precious");
    cell.ok(["put", &file, "/kept"]);
    cell.masters[0].kill();
    // Somebody else has taken all that the log has not, and what it took in advance.
    std::fs::remove_file(disk.path().join("log/spare")).expect("is there");
    disk.resize(18);
    cell.masters[0].restart().expect("starts");
    cell.await_live(1).expect("live");
    let done = cell.run(["mkdir", "/more"]);
    judge(&Row { what: "a master's full disk", done, code: 8, says: &["no space left", "master"] });
    let done = cell.run(["put", &file, "/more"]);
    judge(&Row { what: "a file on it", done, code: 8, says: &["no space left", "master"] });
    assert_eq!(cell.ok(["ls", "/"]), "kept\n");
    assert_eq!(cell.ok(["cat", "/kept"]), "precious");
    assert!(cell.ok(["status"]).contains("no space left"), "it is told");
    await_output(cell.masters[0].log(), "ERROR no room for the operation log");
    assert!(cell.masters[0].runs());
    disk.resize(64);
    await_until("room", || cell.run(["mkdir", "/more"]).status.success());
    cell.ok(["put", &file, "/more/file"]);
    assert!(!cell.ok(["status"]).contains("no space left"), "it is taken back");
}
