//! A cell with three masters, or five, each a process: made once, by a person; and it outlives the
//! one that is in charge (A25).

mod cell;

use cairn_testkit::{MastersPlan, Signal};
use cell::small_disk::SmallDisk;
use cell::{Cell, Finished, await_output, await_until};
use std::ops::{Deref, DerefMut};
use std::time::Instant;

/// Records from one checkpoint to the next.
const CHECKPOINT_EVERY: u64 = 200;

/// Several masters, and chunkservers.
struct GroupCell(Cell);

impl Deref for GroupCell {
    type Target = Cell;

    fn deref(&self) -> &Cell {
        &self.0
    }
}

impl DerefMut for GroupCell {
    fn deref_mut(&mut self) -> &mut Cell {
        &mut self.0
    }
}

impl GroupCell {
    fn with(masters: MastersPlan, chunkservers: usize) -> Self {
        Self(Cell::start_plan(chunkservers, |plan| {
            plan.masters = masters;
            let every = CHECKPOINT_EVERY.to_string();
            plan.master_arguments = vec!["--checkpoint-every-records".to_owned(), every];
        }))
    }

    /// A group of three.
    fn start(chunkservers: usize) -> Self {
        Self::with(MastersPlan::Group(3), chunkservers)
    }

    fn primary(&self) -> usize {
        self.in_charge().expect("a master in charge")
    }

    /// Who is what, in which term.
    fn roles(&self) -> Vec<(String, String, Option<u64>)> {
        let rows = self.listed_masters().into_iter();
        rows.map(|row| (row.address, row.role, row.term)).collect()
    }

    /// Whether a master follows, and all have applied as much.
    fn has_caught_up(&self, at: usize) -> bool {
        let rows = self.listed_masters();
        let row = rows.iter().find(|row| row.address == self.masters[at].address());
        row.is_some_and(|row| row.role == "shadow")
            && rows.iter().all(|it| it.applied == rows[0].applied)
    }

    /// A command against the masters at these addresses.
    fn ask_at(&self, at: &str, arguments: &[&str]) -> Result<String, String> {
        let asked = self.program().ask(&[arguments, &["--cell", at]].concat());
        asked.map_err(|error| error.to_string())
    }

    fn ok_at(&self, at: &str, arguments: &[&str]) -> String {
        self.ask_at(at, arguments).unwrap_or_else(|why| panic!("{arguments:?}: {why}"))
    }
}

#[test]
fn a_cell_outlives_its_master_and_the_one_after_it() {
    let mut cell = GroupCell::start(3);
    let text = "one line and another\n".repeat(1000);
    let local = cell.file("local", text.as_bytes());
    cell.ok(["put", &local, "/file"]);
    let mut lines = String::new();
    for round in 0..2 {
        let line = cell.file("line", format!("line {round}\n").as_bytes());
        cell.ok(["append", "/log", &line]);
        let dead = cell.primary();
        cell.masters[dead].kill();
        let killed = Instant::now();
        cell.ok(["mkdir", &format!("/made-{round}")]);
        println!("creates go on {} ms after the kill", killed.elapsed().as_millis());
        let more = cell.file("more", format!("more {round}\n").as_bytes());
        cell.ok(["append", "/log", &more]);
        println!("appends go on {} ms after the kill", killed.elapsed().as_millis());
        lines += &format!("line {round}\nmore {round}\n");
        assert_eq!(cell.ok(["cat", "/log"]), lines);
        assert_eq!(cell.ok(["cat", "/file"]), text);
        let now = cell.primary();
        assert_ne!(now, dead);
        // The dead one comes back, and follows.
        cell.masters[dead].restart().expect("starts");
        await_until("the one that was dead to have every record", || cell.has_caught_up(dead));
    }
}

#[test]
fn a_master_that_lacks_what_the_others_have_let_go_is_given_a_checkpoint_and_counts_again() {
    let mut cell = GroupCell::start(0);
    let primary = cell.primary();
    let behind = (primary + 1) % 3;
    cell.masters[behind].kill();
    let names = |from: u64| -> Vec<String> {
        (from..from + 2 * CHECKPOINT_EVERY).map(|number| format!("/d{number}")).collect()
    };
    let make = |cell: &GroupCell, from: u64| {
        let names = names(from);
        let words: Vec<&str> =
            ["mkdir"].into_iter().chain(names.iter().map(String::as_str)).collect();
        cell.ok(words);
    };
    make(&cell, 0);
    // Started anew, the others know of nothing before their checkpoints.
    for at in (0..3).filter(|at| *at != behind) {
        cell.masters[at].kill();
        cell.masters[at].restart().expect("starts");
        cell.primary();
    }
    cell.masters[behind].restart().expect("starts");
    make(&cell, 10_000);
    await_until("the one that was behind to have every record", || {
        let rows = cell.listed_masters();
        let applied = rows.iter().map(|row| row.applied.unwrap_or_default());
        cell.has_caught_up(behind) && applied.min() > Some(CHECKPOINT_EVERY)
    });
    let told = std::fs::read_to_string(cell.masters[behind].log()).expect("its log");
    assert!(told.contains("checkpoint of another master taken over"), "{told}");
    // It counts again, and what it took over outlives it.
    cell.masters[behind].kill();
    cell.masters[behind].restart().expect("starts");
    let dead = cell.primary();
    cell.masters[dead].kill();
    cell.ok(["mkdir", "/last"]);
    assert_eq!(cell.ok(["ls", "/"]).lines().count() as u64, 4 * CHECKPOINT_EVERY + 1);
}

#[test]
fn a_cell_of_one_grows_to_three_and_its_first_master_is_replaced_and_it_shrinks_again() {
    let mut cell = GroupCell::with(MastersPlan::Growing(4), 0);
    let at: Vec<String> = cell.masters.iter().map(|it| it.address().to_owned()).collect();
    let all = at.join(",");
    cell.ok_at(&at[0], &["mkdir", "/before"]);
    let two = format!("{},{}", at[1], at[2]);
    let refused = cell.ask_at(&at[0], &["masters", "add", &at[1]]).expect_err("two are no group");
    assert!(refused.contains("one, three or five"), "{refused}");
    let left = cell.ok_at(&at[0], &["masters"]);
    assert!(!left.contains(&at[1]), "nothing of it was done (GS4): {left}");
    let refused = cell.ask_at(&at[0], &["masters", "remove", &at[3]]).expect_err("no member");
    assert!(refused.contains("no member"), "{refused}");
    let members = cell.ok_at(&at[0], &["masters", "add", &two]);
    assert_eq!(members.matches("voter").count(), 3, "{members}");
    assert_eq!(cell.ok_at(&at[0], &["masters", "add", &two]), members, "safe to repeat");
    // What is refused changes nothing: who was in charge is, in the same term.
    let before = cell.roles();
    let refused = cell.ask_at(&all, &["masters", "remove", &at[0]]).expect_err("two are no group");
    assert!(refused.contains("one, three or five"), "{refused}");
    assert_eq!(cell.roles(), before);
    // Whoever knew the first one alone learns of the others; then it may go.
    cell.masters[0].kill();
    cell.ok_at(&all, &["mkdir", "/without-the-first"]);
    let refused = cell.ask_at(&all, &["masters", "remove", &at[0]]).expect_err("two are no group");
    assert!(refused.contains("one, three or five"), "{refused}");
    let members = cell.ok_at(&all, &["masters", "replace", &at[0], &at[3]]);
    assert!(!members.contains(&at[0]) && members.matches("voter").count() == 3, "{members}");
    let again = cell.ok_at(&all, &["masters", "replace", &at[0], &at[3]]);
    assert_eq!(again, members, "safe to repeat");
    // The one that was replaced has nothing to say any more, and sends on whoever knows only it.
    cell.masters[0].restart().expect("starts");
    cell.ok_at(&at[0], &["mkdir", "/sent-on"]);
    cell.masters[0].kill();
    cell.masters[1].kill();
    cell.ok_at(&all, &["mkdir", "/with-the-fourth"]);
    cell.masters[1].restart().expect("starts");
    await_until("the group to shrink to one", || {
        let members = cell.ask_at(&all, &["masters", "remove", &two]);
        members.is_ok_and(|it| it.matches("voter").count() == 1 && it.contains(&at[3]))
    });
    for gone in [1, 2] {
        cell.masters[gone].await_end().expect("whoever was taken out ends");
    }
    let names = cell.ok_at(&at[3], &["ls", "/"]);
    for name in ["before", "without-the-first", "sent-on", "with-the-fourth"] {
        assert!(names.contains(name), "{names}");
    }
    cell.masters[3].kill();
    cell.masters[3].restart().expect("starts");
    cell.ok_at(&at[3], &["mkdir", "/alone"]);
    // One that follows and never votes: any number of voters is left as it is.
    let members = cell.ok_at(&at[3], &["masters", "add", "--shadow", &at[4]]);
    assert_eq!((members.matches("voter").count(), members.matches("learner").count()), (1, 1));
    await_until("the shadow to know what there is", || {
        let said = cell.ask_at(&at[4], &["ls", "--read-only", "/"]);
        said.is_ok_and(|names| names.contains("before") && names.contains("alone"))
    });
    cell.masters[4].kill();
    cell.ok_at(&at[3], &["mkdir", "/without-the-shadow"]);
}

#[test]
fn a_shadow_that_is_taken_out_ends_though_nobody_sends_it_the_log_any_more() {
    let mut cell = GroupCell::with(MastersPlan::Growing(1), 0);
    let at: Vec<String> = cell.masters.iter().map(|it| it.address().to_owned()).collect();
    cell.ok_at(&at[0], &["mkdir", "/d"]);
    cell.ok_at(&at[0], &["masters", "add", "--shadow", &at[1]]);
    await_until("the shadow to know what there is", || {
        let said = cell.ask_at(&at[1], &["ls", "--read-only", "/"]);
        said.is_ok_and(|names| names.contains('d'))
    });
    // It stands still: whatever was on its way to it is lost.
    cell.masters[1].signal(Signal::STOP).expect("runs");
    cell.ok_at(&at[0], &["masters", "remove", &at[1]]);
    cell.masters[0].kill();
    cell.masters[0].restart().expect("starts");
    cell.masters[1].signal(Signal::CONT).expect("is there");
    cell.masters[1].await_end().expect("it is told that it is out");
    await_output(cell.masters[1].log(), "taken out of its group");
}

#[test]
fn a_master_that_lost_its_disk_comes_back_at_its_own_address() {
    let mut cell = GroupCell::start(0);
    cell.ok(["mkdir", "/before"]);
    let lost = (cell.primary() + 1) % 3;
    let at = cell.masters[lost].address().to_owned();
    cell.ok(["masters", "replace", &at, &at]);
    cell.masters[lost].kill();
    let data = cell.directory().join(format!("master-{}", lost + 1));
    std::fs::remove_dir_all(data).expect("its disk is gone");
    cell.masters[lost].restart().expect("starts, and waits for a group");
    let mut members = String::new();
    await_until("the one that was there to be unheard", || {
        let replaced = cell.run(["masters", "replace", &at, &at]);
        members = replaced.text();
        replaced.status.success()
    });
    assert_eq!((members.matches("voter").count(), members.matches(&at).count()), (3, 1));
    assert_eq!(cell.ok(["masters", "replace", &at, &at]), members, "safe to repeat");
    await_until("it to have what there is", || cell.has_caught_up(lost));
    // It counts: with another one gone there is a majority.
    let gone = cell.primary();
    cell.masters[gone].kill();
    cell.ok(["mkdir", "/after"]);
    assert_eq!(cell.ok(["ls", "/"]).lines().count(), 2);
}

/// Seed 105: of the two that are left one was away while the other came into the group.
#[test]
fn a_master_that_was_away_elects_one_that_it_has_never_heard_of_and_has_what_that_has() {
    let mut cell = GroupCell::with(MastersPlan::Growing(3), 0);
    let at: Vec<String> = cell.masters.iter().map(|it| it.address().to_owned()).collect();
    let two = format!("{},{}", at[1], at[2]);
    cell.ok_at(&at[0], &["masters", "add", &two]);
    cell.masters[2].kill();
    let known = format!("{},{}", at[0], at[1]);
    cell.ok_at(&known, &["masters", "replace", &at[0], &at[3]]);
    cell.masters[0].await_end().expect("whoever was taken out ends");
    let left = format!("{},{}", at[1], at[3]);
    cell.ok_at(&left, &["mkdir", "/while-away"]);
    // The one that both of the others know is gone: nobody but the newcomer can be in charge.
    cell.masters[1].kill();
    cell.masters[2].restart().expect("starts");
    cell.ok_at(&at[3], &["--deadline", "20", "mkdir", "/elected"]);
    await_until("it to have what there is", || {
        let names = cell.ask_at(&at[2], &["ls", "--read-only", "/"]);
        names.is_ok_and(|it| it.contains("while-away") && it.contains("elected"))
    });
}

#[test]
fn the_only_master_of_a_cell_is_replaced_in_one_step_and_everybody_follows() {
    let mut cell = GroupCell::with(MastersPlan::Growing(1), 3);
    let at: Vec<String> = cell.masters.iter().map(|it| it.address().to_owned()).collect();
    let local = cell.file("local", b"what was stored before");
    cell.ok_at(&at[0], &["put", &local, "/file"]);
    let refused = cell.ask_at(&at[0], &["masters", "remove", &at[0]]).expect_err("nobody is left");
    assert!(refused.contains("one, three or five"), "{refused}");
    let members = cell.ok_at(&at[0], &["masters", "replace", &at[0], &at[1]]);
    assert!(members.contains(&at[1]) && !members.contains(&at[0]), "{members}");
    assert_eq!(members.matches("voter").count(), 1, "{members}");
    // The old one sends on whoever knows only it, the chunkservers first of all; then it ends.
    cell.ok_at(&at[0], &["mkdir", "/sent-on"]);
    cell.masters[0].await_end().expect("it was taken out");
    let again = cell.ok_at(&at[1], &["masters", "replace", &at[0], &at[1]]);
    assert_eq!(again, members, "safe to repeat");
    assert_eq!(cell.ok_at(&at[1], &["cat", "/file"]), "what was stored before");
    cell.ok_at(&at[1], &["cp", "/file", "/another"]);
    // It needs nobody.
    cell.masters[1].kill();
    cell.masters[1].restart().expect("starts");
    cell.ok_at(&at[1], &["mkdir", "/alone"]);
    let names = cell.ok_at(&at[1], &["ls", "/"]);
    assert_eq!(
        names.split_whitespace().collect::<Vec<_>>(),
        ["alone", "another", "file", "sent-on"]
    );
}

#[test]
fn a_master_that_is_stopped_is_left_and_what_was_asked_of_it_is_done_once() {
    let cell = GroupCell::start(3);
    let line = cell.file("line", b"one line\n");
    cell.ok(["append", "/log", &line]);
    let stopped = cell.primary();
    cell.masters[stopped].signal(Signal::STOP).expect("it runs");
    // Made by one process that asked before anyone had noticed: a second one would be refused.
    cell.ok(["mkdir", "/made"]);
    cell.ok(["append", "/log", &line]);
    assert_eq!(cell.ok(["cat", "/log"]), "one line\none line\n");
    assert!(cell.ask(&["mkdir", "/made"]).is_err());
    let now = cell.primary();
    assert_ne!(now, stopped);
    // It goes on, and follows: whoever knows only it is sent to the one in charge.
    cell.masters[stopped].signal(Signal::CONT).expect("it runs");
    let alone = [&["ls", "/"][..], &["--cell", cell.masters[stopped].address()]].concat();
    let names = cell.program().ask(&alone).expect("it names the primary");
    assert!(names.contains("made") && names.contains("log"), "{names}");
    await_until("the one that was stopped to follow", || cell.has_caught_up(stopped));
}

#[test]
fn a_master_that_is_asked_to_stop_hands_over_and_ends() {
    let mut cell = GroupCell::start(0);
    for round in 0..2 {
        let stopped = cell.primary();
        let term = |cell: &GroupCell| cell.listed_masters().iter().filter_map(|it| it.term).max();
        let before = term(&cell).expect("a term");
        let began = Instant::now();
        cell.masters[stopped].signal(Signal::TERM).expect("it runs");
        cell.ok(["mkdir", &format!("/made-{round}")]);
        println!("creates go on {} ms after it was asked to stop", began.elapsed().as_millis());
        assert_ne!(cell.primary(), stopped);
        assert_eq!(term(&cell), Some(before + 1), "one election, and nobody waited for silence");
        cell.masters[stopped].await_end().expect("it ends");
        cell.masters[stopped].restart().expect("starts");
    }
}

#[test]
fn masters_that_were_told_of_peers_found_no_cell_before_a_person_makes_the_group() {
    let cell = GroupCell::with(MastersPlan::Waiting(3), 0);
    let refused = cell.ask(&["mkdir", "/d", "--deadline", "1"]).expect_err("no cell yet");
    let refused = refused.to_string();
    assert!(refused.contains("group") || refused.contains("answer"), "{refused}");
    let two = cell.address().rsplit_once(',').expect("three").0.to_owned();
    assert!(cell.ask(&["masters", "create", &two]).is_err(), "two are no group");
    let created = cell.ok(["masters", "create", cell.address()]);
    assert!(created.contains("a group of 3 masters"), "{created}");
    cell.primary();
    cell.ok(["mkdir", "/d"]);
    // Doing it again changes nothing.
    assert_eq!(cell.ok(["masters", "create", cell.address()]), created);
    assert!(cell.ok(["ls", "/"]).contains('d'));
}

impl GroupCell {
    fn say(&self, at: &str, arguments: &[&str]) -> Finished {
        self.run(arguments.iter().chain(&["--cell", at]))
    }

    /// Waits until a shadow can send whoever reads this file to its chunkservers.
    fn await_reads_of(&self, at: usize, path: &str, wanted: &str) {
        let at = self.masters[at].address();
        await_until("the shadow to send readers to chunkservers", || {
            let said = self.say(at, &["cat", "--read-only", "--deadline", "2", path]);
            let by_it = said.stderr.contains(&format!("shadow master {at}"));
            said.status.success() && said.text() == wanted && by_it
        });
    }

    /// A change that no master takes, and the one line that says why.
    fn refused(&self, arguments: &[&str]) {
        let said = self.say(self.address(), &[arguments, &["--deadline", "6"]].concat());
        assert!(!said.status.success(), "{arguments:?}: {}", said.text());
        assert_eq!(said.stderr.lines().count(), 1, "{}", said.stderr);
        // The search says so, or one of those that are left, whichever was heard last.
        let says_why = ["no primary master is found", "not in charge"];
        assert!(says_why.iter().any(|why| said.stderr.contains(why)), "{}", said.stderr);
    }

    /// What a shadow answers, which says that it is one.
    fn behind(&self, arguments: &[&str]) -> String {
        let said = self.say(self.address(), arguments);
        assert!(said.status.success(), "{arguments:?}: {}", said.stderr);
        let told = said.stderr.contains("warning: shadow master") && said.stderr.contains("behind");
        assert!(told && said.stderr.lines().count() == 1, "{arguments:?}: {}", said.stderr);
        said.text()
    }
}

#[test]
fn with_the_majority_gone_what_was_stored_is_read_of_a_shadow_and_nothing_is_changed() {
    let mut cell = GroupCell::start(3);
    let text = "one line and another\n".repeat(100_000);
    let local = cell.file("local", text.as_bytes());
    cell.ok(["mkdir", "/d"]);
    cell.ok(["put", &local, "/d/file"]);
    let line = cell.file("line", b"one line\n");
    cell.ok(["append", "/d/log", &line]);
    let stated = cell.ok(["stat", "/d/log"]);
    let primary = cell.primary();
    let (left, other) = ((primary + 1) % 3, (primary + 2) % 3);
    let at = cell.masters[left].address().to_owned();
    // A shadow answers who asks for one, beside a primary, once chunkservers have told it.
    cell.await_reads_of(left, "/d/file", &text);
    cell.await_reads_of(left, "/d/log", "one line\n");
    // Who does not ask for one is sent to the primary.
    let said = cell.say(&at, &["cat", "/d/log"]);
    assert_eq!((said.text().as_str(), said.stderr.as_str()), ("one line\n", ""));

    cell.masters[primary].kill();
    cell.masters[other].kill();
    let killed = Instant::now();
    assert_eq!(cell.behind(&["cat", "/d/file"]), text);
    println!("a read after {} ms", killed.elapsed().as_millis());
    assert_eq!(cell.behind(&["cat", "/d/log"]), "one line\n");
    let names = cell.behind(&["ls", "/d"]);
    assert!(names.contains("file") && names.contains("log"), "{names}");
    assert_eq!(cell.behind(&["stat", "/d/log"]), stated, "the length of an open file too");
    // Chunkservers that start now are taken in by no master, and serve the shadow's readers.
    for server in &mut cell.chunkservers {
        server.kill();
        server.restart().expect("starts");
    }
    await_until("the chunkservers to serve again", || {
        let said = cell.say(cell.address(), &["cat", "--deadline", "4", "/d/file"]);
        said.status.success() && said.text() == text
    });
    cell.refused(&["mkdir", "/e"]);

    cell.masters[other].restart().expect("starts");
    cell.ok(["mkdir", "/e"]);
    cell.ok(["append", "/d/log", &line]);
    let said = cell.say(cell.address(), &["cat", "/d/log"]);
    assert_eq!((said.text().as_str(), said.stderr.as_str()), ("one line\none line\n", ""));
}

#[test]
fn a_cell_of_three_grows_to_five_and_outlives_two_of_them_and_is_read_without_a_third() {
    let mut cell = GroupCell::with(MastersPlan::Growing(4), 3);
    let at: Vec<String> = cell.masters.iter().map(|it| it.address().to_owned()).collect();
    let members = cell.ok_at(&at[0], &["masters", "add", &at[1..3].join(",")]);
    assert_eq!(members.matches("voter").count(), 3, "{members}");
    let mut lines = String::from("line of three\n");
    let line = cell.file("line", lines.as_bytes());
    cell.ok(["append", "/log", &line]);
    let members = cell.ok_at(&at[..3].join(","), &["masters", "add", &at[3..].join(",")]);
    assert_eq!(members.matches("voter").count(), 5, "{members}");

    // Two die one after the other, each of them in charge: three of five are a majority.
    let mut left: Vec<usize> = (0..5).collect();
    for round in 0..2 {
        let dead = cell.primary();
        cell.masters[dead].kill();
        left.retain(|it| *it != dead);
        let killed = Instant::now();
        cell.ok(["mkdir", &format!("/made-{round}")]);
        println!("creates go on {} ms after the kill", killed.elapsed().as_millis());
        let more = format!("line of {}\n", left.len());
        cell.ok(["append", "/log", &cell.file("more", more.as_bytes())]);
        lines += &more;
        assert_eq!(cell.ok(["cat", "/log"]), lines);
    }

    // Without a third one nothing is changed, and each of the two that are left is read.
    let third = cell.primary();
    let shadows: Vec<usize> = left.iter().copied().filter(|it| *it != third).collect();
    shadows.iter().for_each(|shadow| cell.await_reads_of(*shadow, "/log", &lines));
    cell.masters[third].kill();
    let names = cell.behind(&["ls", "/"]);
    assert!(["log", "made-0", "made-1"].iter().all(|name| names.contains(name)), "{names}");
    assert_eq!(cell.behind(&["cat", "/log"]), lines);
    cell.refused(&["mkdir", "/made-by-two"]);
    cell.refused(&["append", "/log", &line]);
    assert_eq!(cell.behind(&["cat", "/log"]), lines, "as it was");

    // With any third one it goes on: this one lacks what was done since it died.
    let first_dead = (0..5).find(|it| !left.contains(it)).expect("two are dead");
    cell.masters[first_dead].restart().expect("starts");
    cell.ok(["mkdir", "/made-2"]);
    cell.ok(["append", "/log", &line]);
    assert_eq!(cell.ok(["cat", "/log"]), lines + "line of three\n");
    let names = cell.ok(["ls", "/"]);
    assert!(["made-0", "made-1", "made-2"].iter().all(|name| names.contains(name)), "{names}");
    assert!(!names.contains("made-by-two"), "it was refused: {names}");
}

impl GroupCell {
    /// Starts a master that was killed on a disk on which somebody else has taken all that its log
    /// has not, and what it took in advance.
    fn fill_disk(&mut self, at: usize, disk: &SmallDisk) {
        let data = self.directory().join(format!("master-{}", at + 1));
        let moved = disk.path().join("data");
        cairn_testkit::copy_tree(&data, &moved).expect("copies");
        std::fs::remove_file(moved.join("log/spare")).expect("is there");
        disk.resize(18);
        let peers = self.address().to_owned();
        let words = ["master", "--data", &moved.display().to_string(), "--peers", &peers];
        let words = words.map(str::to_owned).to_vec();
        self.masters[at].restart_with(words).expect("starts");
    }
}

#[test]
fn two_masters_whose_disks_are_full_leave_charge_to_the_one_that_has_room() {
    // Whichever stands last, or first, among the members.
    for roomy in 0..3 {
        let (Some(one), Some(other)) = (SmallDisk::mount(64), SmallDisk::mount(64)) else {
            eprintln!("SKIPPED: a full disk cannot be had where mounting is not allowed");
            return;
        };
        let mut cell = GroupCell::start(0);
        cell.primary();
        for (at, disk) in (0..3).filter(|at| *at != roomy).zip([&one, &other]) {
            cell.masters[at].kill();
            cell.fill_disk(at, disk);
            cell.await_masters().expect("all answer");
        }
        cell.masters[roomy].kill();
        cell.masters[roomy].restart().expect("starts");
        let began = Instant::now();
        cell.ok(["mkdir", "/made"]);
        println!("creates go on {} ms after it is back", began.elapsed().as_millis());
        await_until("the one with room to be in charge", || {
            cell.in_charge().is_ok_and(|it| it == roomy)
        });
    }
}

#[test]
fn a_group_goes_on_without_the_master_whose_disk_is_full() {
    let Some(disk) = SmallDisk::mount(64) else {
        eprintln!("SKIPPED: a full disk cannot be had where mounting is not allowed (not root?)");
        return;
    };
    let mut cell = GroupCell::start(0);
    let full = (cell.primary() + 1) % 3;
    cell.masters[full].kill();
    cell.fill_disk(full, &disk);
    for round in 0..4 {
        let before = cell.primary();
        cell.masters[before].kill();
        let killed = Instant::now();
        cell.ok(["mkdir", &format!("/round-{round}")]);
        println!("creates go on {} ms after the kill", killed.elapsed().as_millis());
        // Were it elected, it would have handed over by the time that a change is taken.
        await_until("another to be in charge", || cell.in_charge().is_ok_and(|it| it != full));
        cell.masters[before].restart().expect("starts");
        await_until("the one that was killed to follow", || cell.has_caught_up(before));
    }
    assert!(cell.masters[full].runs(), "it waits for room");
    await_output(cell.masters[full].log(), "no room for the operation log");
    disk.resize(64);
    await_until("it to have every record", || cell.has_caught_up(full));
}
