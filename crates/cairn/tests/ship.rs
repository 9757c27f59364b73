//! `cairn ship` on real processes: lines of log files that grow and are rotated, each in the stream
//! exactly once, whatever is killed and started again.

mod cell;

use cell::row::{Row, judge};
use cell::{Cell, Finished, KilledOnDrop, await_output, await_until};
use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process, prlimit};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::ops::Range;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A cell with a stream, and a directory with logs.
struct Ship {
    cell: Cell,
    stream: &'static str,
    directory: PathBuf,
}

/// `ship` at work.
struct Following {
    child: KilledOnDrop,
    out: PathBuf,
    err: PathBuf,
}

impl Ship {
    fn new() -> Self {
        Self::to("/s")
    }

    fn to(stream: &'static str) -> Self {
        let cell = Cell::start(3);
        if let Some((directory, _)) = stream.rsplit_once('/').filter(|(at, _)| !at.is_empty()) {
            cell.ok(["mkdir", directory]);
        }
        cell.ok(["create", "--layout", "stream", stream]);
        let directory = cell.local("logs");
        fs::create_dir(&directory).expect("makes");
        Self { cell, stream, directory }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// Adds to a file, as a program does that logs.
    fn log(&self, name: &str, text: &str) {
        let file = OpenOptions::new().append(true).create(true).open(self.at(name));
        file.and_then(|mut file| file.write_all(text.as_bytes())).expect("logs");
    }

    fn rename(&self, from: &str, to: &str) {
        fs::rename(self.at(from), self.at(to)).expect("renames");
    }

    fn arguments<'a>(&'a self, options: &[&'a str]) -> Vec<&'a str> {
        let directory = self.directory.to_str().expect("text");
        [&["ship", "--name", "web1"], options, &[directory, self.stream]].concat()
    }

    /// Ships what is there.
    fn once(&self, options: &[&str]) -> Finished {
        self.cell.run(self.arguments(&[&["--once"], options].concat()))
    }

    fn follow(&self, options: &[&str]) -> Following {
        let (out, err) = (self.cell.local("ship.out"), self.cell.local("ship.err"));
        let mut command = self.cell.command(self.arguments(options));
        let new = |path: &Path| File::create(path).expect("creates");
        command.stdin(Stdio::null()).stdout(new(&out)).stderr(new(&err));
        Following { child: KilledOnDrop(command.spawn().expect("starts")), out, err }
    }

    /// How many lines are in the stream.
    fn committed(&self) -> u64 {
        let text = self.cell.ok(["--json", "producers", self.stream]);
        let all = text.lines().map(|line| {
            serde_json::from_str::<serde_json::Value>(line).expect("a value for each producer")
        });
        all.filter_map(|one| one["number"].as_u64()).sum()
    }

    fn await_committed(&self, count: u64) {
        await_until(&format!("{count} lines"), || self.committed() >= count);
    }

    fn shipped(&self) -> String {
        self.cell.ok(["cat", self.stream])
    }
}

impl Following {
    fn interrupt(&self) {
        let pid = Pid::from_child(&self.child.0);
        kill_process(pid, Signal::INT).expect("it runs");
    }

    /// Ends it as ctrl-C does; its exit code.
    fn end(&mut self) -> Option<i32> {
        self.interrupt();
        self.child.0.wait().expect("it ends").code()
    }

    fn said(&self) -> String {
        fs::read_to_string(&self.err).expect("text")
    }
}

/// Lines of these numbers.
fn numbered(numbers: Range<u64>) -> String {
    numbers.map(|number| format!("{number}\n")).collect()
}

/// Numbered lines that are rotated, and which file has which.
struct Rotated<'a> {
    ship: &'a Ship,
    written: u64,
    /// The first line of each file.
    firsts: Vec<u64>,
}

impl Rotated<'_> {
    fn write(&mut self, count: u64) {
        let text = (self.written + 1..=self.written + count)
            .map(|number| format!("{number} {}\n", "x".repeat((number * 37 % 300) as usize)));
        self.ship.log("app.log", &text.collect::<String>());
        self.written += count;
    }

    /// As logrotate does: all older ones go one further, and the program begins a new file.
    fn rotate(&mut self) {
        for nth in (1..self.firsts.len()).rev() {
            self.ship.rename(&format!("app.log.{nth}"), &format!("app.log.{}", nth + 1));
        }
        self.ship.rename("app.log", "app.log.1");
        self.firsts.push(self.written + 1);
    }

    /// Each line is there once, and those of each file in their order.
    fn judge(&self) {
        let text = self.ship.shipped();
        let mut next: BTreeMap<u64, u64> = self.firsts.iter().map(|it| (*it, *it)).collect();
        let mut count = 0;
        for line in text.lines() {
            let number: u64 = line.split(' ').next().expect("a number").parse().expect("first");
            let (_, wanted) = next.range_mut(..=number).next_back().expect("of a file");
            assert_eq!(number, *wanted, "each once and in order");
            *wanted += 1;
            count += 1;
        }
        assert_eq!(count, self.written, "all of them");
    }
}

#[test]
fn lines_are_shipped_once_though_it_is_killed_and_files_are_rotated_at_any_time() {
    let ship = Ship::new();
    let mut logs = Rotated { ship: &ship, written: 0, firsts: vec![1] };
    for round in 0..5 {
        let mut following = ship.follow(&[]);
        logs.write(300);
        if round % 2 == 1 {
            // It is somewhere in the midst.
            ship.await_committed(ship.committed() + 1);
        }
        logs.rotate();
        logs.write(200 + round * 50);
        logs.rotate();
        logs.write(100);
        match round {
            0 => {}
            4 => ship.await_committed(logs.written),
            _ => ship.await_committed(logs.written - 300),
        }
        following.child.0.kill().expect("it runs");
        following.child.0.wait().expect("killed");
        // While nobody ships.
        logs.write(150);
        logs.rotate();
        logs.write(50);
    }
    let mut following = ship.follow(&["-v"]);
    ship.await_committed(logs.written);
    logs.write(10);
    ship.await_committed(logs.written);
    // Gone, and finished: nothing of it comes again.
    fs::remove_file(ship.at("app.log.2")).expect("removes");
    await_output(&following.err, "app.log.2 is gone, and was read to its end");
    assert_eq!(following.end(), Some(0), "{}", following.said());
    let told = fs::read_to_string(&following.out).expect("text");
    assert!(
        told.contains(" lines (") && told.contains("1 file gone, and read to the end"),
        "{told}"
    );
    logs.judge();
    let again = ship.once(&[]);
    assert!(again.text().contains("0 lines (0) of 0 files shipped"), "{again:?}");
    logs.judge();
}

#[test]
fn a_file_that_is_rotated_and_removed_at_once_is_read_to_its_end_also_without_a_newline() {
    let ship = Ship::new();
    let mut following = ship.follow(&["--include", "*.log"]);
    ship.log("app.log", "one\n");
    ship.await_committed(1);
    ship.rename("app.log", "app.old");
    ship.log("app.old", "two\nthree");
    fs::remove_file(ship.at("app.old")).expect("removes");
    ship.log("app.log", "new\n");
    ship.await_committed(4);
    assert_eq!(following.end(), Some(0), "{}", following.said());
    let shipped = ship.shipped();
    let mut lines: Vec<&str> = shipped.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["new", "one", "three", "two"]);
}

/// Found by a review: shipping ended with the directory, and what was open of it was not read on.
#[test]
fn files_of_a_directory_that_is_removed_are_read_to_their_end_and_then_it_ends() {
    let ship = Ship::new();
    let mut following = ship.follow(&[]);
    ship.log("app.log", &numbered(1..6));
    ship.await_committed(5);
    ship.log("app.log", &numbered(6..20_000));
    fs::remove_dir_all(&ship.directory).expect("removes");
    let ended = following.child.0.wait().expect("it ends");
    let said = following.said();
    assert_eq!(ended.code(), Some(12), "{said}");
    assert!(said.contains("logs: the directory is gone; make it anew"), "{said}");
    assert!(ship.shipped() == numbered(1..20_000), "all of it, in order: {said}");
}

/// Found by a review: too many open files, for a moment, ended it.
#[test]
fn a_directory_that_cannot_be_listed_for_a_while_is_told_of_once_and_listed_again() {
    let ship = Ship::new();
    let mut following = ship.follow(&[]);
    ship.log("app.log", "one\n");
    ship.await_committed(1);
    let process = Some(Pid::from_child(&following.child.0));
    let before = getrlimit(Resource::Nofile);
    prlimit(process, Resource::Nofile, Rlimit { current: Some(0), ..before }).expect("sets");
    await_output(&following.err, "tried again, and what is open is shipped meanwhile");
    ship.log("app.log", "two\n");
    ship.await_committed(2);
    ship.log("new.log", "three\n");
    prlimit(process, Resource::Nofile, before).expect("sets");
    ship.await_committed(3);
    assert_eq!(following.end(), Some(0), "{}", following.said());
    assert_eq!(following.said().lines().count(), 1, "{}", following.said());
    assert_eq!(ship.shipped(), "one\ntwo\nthree\n");
}

/// Found by a review: what was not read yet went with the command, which said that it waits.
#[test]
fn a_file_that_is_gone_is_read_to_its_end_before_a_signal_ends_it() {
    let ship = Ship::new();
    let mut following = ship.follow(&[]);
    ship.log("app.log", &numbered(1..6));
    ship.await_committed(5);
    ship.log("app.log", &numbered(6..60_000));
    ship.log("app.log", "last");
    fs::remove_file(ship.at("app.log")).expect("removes");
    assert_eq!(following.end(), Some(0), "{}", following.said());
    let told = fs::read_to_string(&following.out).expect("text");
    for part in ["/s: 60000 lines", "1 file gone, and read to the end\n"] {
        assert!(told.contains(part), "{told}");
    }
    assert!(following.said().contains("app.log is gone, and is read to its end first"));
    assert!(ship.shipped() == format!("{}last\n", numbered(1..60_000)), "each once, in order");
}

/// Found by a review: whoever still wrote to it kept the first signal from ending anything.
#[test]
fn a_signal_ends_it_though_a_file_that_is_gone_is_written_all_the_time() {
    let ship = Ship::new();
    let mut following = ship.follow(&[]);
    ship.log("app.log", "one\n");
    ship.await_committed(1);
    let mut open = OpenOptions::new().append(true).open(ship.at("app.log")).expect("opens");
    fs::remove_file(ship.at("app.log")).expect("removes");
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            // For a minute at most, whatever becomes of the test.
            for _ in 0..60_000 {
                open.write_all(b"more\n").expect("writes");
                std::thread::park_timeout(Duration::from_millis(1));
                if is_over.load(Ordering::Relaxed) {
                    return true;
                }
            }
            false
        });
        let ended = following.end();
        is_over.store(true, Ordering::Relaxed);
        assert_eq!(ended, Some(0), "{}", following.said());
        assert!(writer.join().expect("ends"), "it waited for who writes");
    });
    let shipped = ship.shipped();
    let rest = shipped.strip_prefix("one\n").expect("it is there");
    let lines = rest.trim_end_matches(|letter| "more".contains(letter)).lines();
    assert!(lines.clone().all(|line| line == "more"), "each whole, but for the last");
}

#[test]
fn a_second_signal_ends_it_at_once_and_what_is_lost_of_a_file_that_is_gone_is_told() {
    let mut ship = Ship::new();
    let mut following = ship.follow(&["--deadline", "2"]);
    ship.log("app.log", "one\n");
    ship.log("stays.log", "two\n");
    ship.await_committed(2);
    ship.cell.masters[0].kill();
    ship.log("app.log", "three\n");
    ship.log("stays.log", "four\n");
    fs::remove_file(ship.at("app.log")).expect("removes");
    following.interrupt();
    await_output(&following.err, "a second signal ends at once");
    assert_eq!(following.end(), Some(130), "{}", following.said());
    let said = following.said();
    assert!(said.contains("app.log is gone, and its last 6 bytes were not shipped"), "{said}");
    assert!(!said.contains("stays.log"), "{said}");
}

/// Found by a review: in a stream of bytes the next producer's line was glued to it.
#[test]
fn a_last_line_without_a_newline_is_a_line_in_a_stream_of_bytes_too() {
    let ship = Ship::new();
    ship.cell.ok(["create", "--layout", "stream", "--content", "bytes", "/b"]);
    let ship = Ship { stream: "/b", ..ship };
    let mut following = ship.follow(&[]);
    let lines = |text: &str| ship.shipped() == text;
    ship.log("a.log", "one\n");
    await_until("the first line", || lines("one\n"));
    ship.log("a.log", "two");
    fs::remove_file(ship.at("a.log")).expect("removes");
    await_until("the rest of a file that is gone", || lines("one\ntwo\n"));
    ship.log("b.log", "three\n");
    await_until("the other file", || lines("one\ntwo\nthree\n"));
    assert_eq!(following.end(), Some(0), "{}", following.said());
    let told = fs::read_to_string(&following.out).expect("text");
    assert!(told.contains("/b: 3 lines (13)"), "as many bytes as the files had: {told}");
}

/// It asked again and again, without a pause, and heard no signal before the deadline.
#[test]
fn signals_end_it_while_what_it_sent_is_under_way() {
    let ship = Ship::new();
    let mut following = ship.follow(&["--deadline", "85"]);
    ship.log("app.log", "one\n");
    ship.await_committed(1);
    ship.cell.masters[0].signal(Signal::STOP).expect("stops");
    ship.log("app.log", "two\n");
    let mut looks = 0;
    await_until("many looks", || {
        looks += 1;
        looks == 100
    });
    let since = Instant::now();
    await_until("the end", || {
        following.interrupt();
        following.child.0.try_wait().expect("can be asked").is_some()
    });
    assert!(since.elapsed() < Duration::from_secs(40), "{:?}", since.elapsed());
    ship.cell.masters[0].signal(Signal::CONT).expect("goes on");
}

/// Found by a review: the directory was not looked at while the cell was asked about another file.
#[test]
fn a_file_that_came_and_went_while_the_cell_was_away_is_shipped() {
    let ship = Ship::new();
    let mut following = ship.follow(&["--deadline", "80"]);
    ship.log("app.log", "one\n");
    ship.await_committed(1);
    ship.cell.masters[0].signal(Signal::STOP).expect("stops");
    let opened = |name: &str| {
        let all = fs::read_dir(format!("/proc/{}/fd", following.child.0.id())).expect("it runs");
        let mut all = all.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
        all.any(|path| path.ends_with(Path::new("logs").join(name)))
    };
    // The cell is asked about this one, and does not answer.
    ship.log("first.log", "two\n");
    await_until("the first is open", || opened("first.log"));
    ship.log("short.log", "three\n");
    await_until("the other is open", || opened("short.log"));
    fs::remove_file(ship.at("short.log")).expect("removes");
    fs::remove_file(ship.at("first.log")).expect("removes");
    ship.cell.masters[0].signal(Signal::CONT).expect("goes on");
    ship.await_committed(3);
    assert_eq!(following.end(), Some(0), "{}", following.said());
    let shipped = ship.shipped();
    let mut lines: Vec<&str> = shipped.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["one", "three", "two"]);
}

#[test]
fn a_renamed_file_is_read_to_its_end_after_a_restart_though_its_name_is_not_asked_for() {
    let ship = Ship::new();
    ship.log("app.log", "one\n");
    ship.log("web.log", "never\n");
    ship.log("app.log.1.gz", "never\n");
    ship.log(".app.log.swp", "never\n");
    let options = ["--include", "app*", "--exclude", "*.old"];
    assert!(ship.once(&options).status.success());
    ship.log("app.log", "two\n");
    ship.rename("app.log", "app.old");
    ship.log("other.old", "never\n");
    ship.log("app.log", "new\n");
    let done = ship.once(&options);
    assert!(done.text().contains("/s: 2 lines (8) of 2 files shipped"), "{done:?}");
    assert_eq!(ship.shipped().lines().count(), 3);
    assert!(ship.shipped().contains("two\n"), "{}", ship.shipped());
}

/// Found by a review: its name was another's when the stream had answered, and it was left alone.
#[test]
fn a_begun_file_that_is_renamed_while_the_stream_is_asked_is_looked_at_under_its_next_name() {
    let ship = Ship::new();
    let options = ["--include", "app.log"];
    ship.log("app.log", "one\n");
    assert!(ship.once(&options).status.success());
    let away = ship.cell.local("away.log");
    fs::rename(ship.at("app.log"), &away).expect("renames");
    let mut following = ship.follow(&options);
    ship.log("app.log", "two\n");
    ship.await_committed(2);
    ship.cell.masters[0].signal(Signal::STOP).expect("stops");
    let rotated = |nth: u32| ship.at(&format!("app.log.{nth}"));
    fs::rename(&away, rotated(1)).expect("renames");
    let mut file = OpenOptions::new().append(true).open(rotated(1)).expect("opens");
    file.write_all(b"three\n").expect("logs");
    // It is listed meanwhile, five times a second, under a name that it does not keep.
    let mut nth = 1;
    await_until("many renames", || {
        fs::rename(rotated(nth), rotated(nth + 1)).expect("renames");
        nth += 1;
        nth == 60
    });
    ship.cell.masters[0].signal(Signal::CONT).expect("goes on");
    ship.await_committed(3);
    assert_eq!(following.end(), Some(0), "{}", following.said());
    assert_eq!(ship.shipped(), "one\ntwo\nthree\n");
}

/// Found by a review: files of one run went to two streams, and came twice with the next run.
#[test]
fn a_stream_that_is_renamed_has_all_lines_of_the_run_and_one_that_is_removed_ends_it() {
    let ship = Ship::new();
    let mut following = ship.follow(&[]);
    ship.log("app.log", "one\n");
    ship.await_committed(1);
    ship.cell.ok(["mv", "/s", "/old"]);
    ship.cell.ok(["create", "--layout", "stream", "/s"]);
    ship.log("new.log", "two\n");
    await_until("two lines", || ship.cell.ok(["cat", "/old"]).lines().count() == 2);
    assert_eq!(ship.shipped(), "");
    ship.cell.ok(["rm", "/old"]);
    ship.log("third.log", "three\n");
    let ended = following.child.0.wait().expect("it ends");
    assert_eq!(ended.code(), Some(3), "{}", following.said());
}

#[test]
fn a_line_without_its_end_waits_for_it() {
    let ship = Ship::new();
    ship.log("app.log", "one\ntw");
    let done = ship.once(&[]);
    assert!(done.status.success() && done.stderr.is_empty(), "{}", done.stderr);
    assert_eq!(
        done.text(),
        "/s: 1 line (4) of 1 file shipped; \
         app.log: its last line has no newline yet, and waits (2 bytes)\n"
    );
    let again = ship.once(&["-q"]);
    assert!(again.status.success() && again.text().is_empty());
    let mut following = ship.follow(&[]);
    ship.log("app.log", "o\n\nfou");
    ship.await_committed(3);
    ship.log("app.log", "r");
    assert_eq!(following.end(), Some(0));
    let value = ship.cell.json(&ship.arguments(&["--once"]));
    assert_eq!((&value["lines"], &value["unfinished"]["app.log"]), (&0.into(), &4.into()));
    ship.log("app.log", "\n");
    ship.once(&[]);
    assert_eq!(ship.shipped(), "one\ntwo\n\nfour\n");
}

#[test]
fn a_file_that_shrank_is_told_with_what_it_can_cost_and_shipped_from_its_start() {
    let ship = Ship::new();
    let mut following = ship.follow(&["--include", "app.log"]);
    ship.log("app.log", "one\ntwo\n");
    ship.await_committed(2);
    let truncate = |text: &str| fs::write(ship.at("app.log"), text).expect("writes");
    fs::copy(ship.at("app.log"), ship.at("app.log.1")).expect("copies");
    truncate("3\n");
    ship.await_committed(3);
    let said = following.said();
    assert_eq!(said.lines().count(), 1, "{said}");
    for part in ["app.log shrank", "(8 bytes of it were shipped", "are lost", "twice", "renaming"] {
        assert!(said.contains(part), "{said}");
    }
    // It is longer than it was when it is looked at again.
    truncate("four\nfive\nsix\n");
    ship.await_committed(6);
    assert_eq!(following.end(), Some(0));
    assert_eq!(following.said().lines().count(), 2, "{}", following.said());
    // And while nobody looks.
    truncate("seven\n");
    let done = ship.once(&["--include", "app.log"]);
    assert!(done.status.success() && done.stderr.contains("app.log shrank"), "{}", done.stderr);
    assert_eq!(ship.shipped(), "one\ntwo\n3\nfour\nfive\nsix\nseven\n");
    assert_eq!(ship.once(&["--include", "app.log"]).stderr, "", "told once");
}

/// Found by a review: it went on in the midst of a line, and what was between was in no stream.
#[test]
fn a_file_that_a_power_loss_cut_and_that_has_grown_again_is_told_and_shipped_from_its_start() {
    let ship = Ship::new();
    ship.log("app.log", &numbered(1..1_000));
    assert!(ship.once(&[]).status.success());
    let cut = |size: u64| {
        let file = OpenOptions::new().write(true).open(ship.at("app.log")).expect("opens");
        file.set_len(size).expect("cuts");
    };
    // What was not on the disk is gone, and more comes than that was.
    cut(3_000);
    ship.log("app.log", &format!("\n{}", numbered(5_000..5_500)));
    let done = ship.once(&[]);
    assert!(done.status.success(), "{}", done.stderr);
    for part in ["app.log was cut short and has grown again", "twice", "power loss"] {
        assert!(done.stderr.contains(part), "{}", done.stderr);
    }
    let text = fs::read_to_string(ship.at("app.log")).expect("text");
    assert!(ship.shipped() == format!("{}{text}", numbered(1..1_000)), "all that it has");
    // Renamed to a name that is not asked for, it is still one that was begun.
    cut(3_000);
    ship.rename("app.log", "app.old");
    let done = ship.once(&["--include", "app.log"]);
    assert!(done.stderr.contains("app.old shrank"), "{}", done.stderr);
    assert_eq!(ship.once(&["--include", "app.log"]).stderr, "", "told once");
    ship.log("app.old", "\n");
    assert!(ship.once(&["--include", "app.log"]).text().contains("/s: 1 line"), "goes on there");
}

#[test]
fn an_inode_that_is_used_again_is_a_new_file() {
    let ship = Ship::new();
    ship.log("app.log", "header\nsame\n");
    assert!(ship.once(&[]).status.success());
    let inode = |name: &str| fs::metadata(ship.at(name)).expect("there").ino();
    let before = inode("app.log");
    fs::remove_file(ship.at("app.log")).expect("removes");
    let mut names = (0..200).map(|nth| format!("n{nth}")).inspect(|name| ship.log(name, ""));
    let Some(again) = names.find(|name| inode(name) == before) else {
        eprintln!("this file system gives inodes new numbers: nothing to be seen here");
        return;
    };
    ship.log(&again, "header\nsame\nmore\n");
    let done = ship.once(&[]);
    assert!(done.status.success() && done.stderr.is_empty(), "{}", done.stderr);
    assert_eq!(ship.shipped(), "header\nsame\nheader\nsame\nmore\n");
    assert_eq!(ship.cell.ok(["--json", "producers", "/s"]).lines().count(), 1, "of that inode");
}

#[test]
fn no_more_files_are_open_than_may_be_and_who_waits_is_told_of_and_gets_a_turn() {
    let ship = Ship::new();
    for name in ["a", "b", "c"] {
        ship.log(name, &format!("{name}1\n{name}2\n"));
    }
    assert!(ship.once(&["--open-max", "1"]).status.success());
    assert_eq!(ship.committed(), 6);
    for name in ["a", "b", "c"] {
        ship.log(name, &format!("{name}3\n"));
    }
    let mut following = ship.follow(&["--open-max", "1"]);
    await_output(&following.err, "2 files wait");
    ship.await_committed(9);
    assert_eq!(following.end(), Some(0));
    let said = following.said();
    assert!(said.contains("--open-max") && said.lines().count() <= 2, "{said}");
    let mut lines: Vec<String> = ship.shipped().lines().map(str::to_owned).collect();
    lines.sort_unstable();
    assert_eq!(lines, ["a1", "a2", "a3", "b1", "b2", "b3", "c1", "c2", "c3"]);
}

#[test]
fn a_cell_that_is_away_is_told_of_and_nothing_is_lost_or_there_twice() {
    let mut ship = Ship::new();
    let mut following = ship.follow(&["--deadline", "2"]);
    let mut lines = String::new();
    for number in 0..50 {
        lines.push_str(&format!("{number}\n"));
    }
    ship.log("app.log", &lines);
    ship.await_committed(50);
    ship.cell.masters[0].kill();
    ship.log("app.log", &lines);
    await_output(&following.err, "tried again, at the latest after 30 seconds");
    ship.log("app.log", &lines);
    ship.cell.masters[0].restart().expect("starts again");
    ship.await_committed(150);
    await_output(&following.err, "shipping goes on");
    assert_eq!(following.end(), Some(0), "{}", following.said());
    assert_eq!(ship.shipped(), lines.repeat(3));
    assert!(fs::read_to_string(&following.out).expect("text").contains("/s: 150 lines"));
}

/// Found by a review: the place of a file whose last lines were not committed was given to another.
#[test]
fn a_file_whose_lines_are_not_committed_makes_no_room_and_they_come_though_it_is_removed() {
    let mut ship = Ship::new();
    ship.log("a.log", "a1\n");
    ship.log("c.log", "c1\n");
    ship.log("waits.log", "");
    let options = ["-v", "--open-max", "2", "--deadline", "2"];
    let mut following = ship.follow(&options);
    ship.await_committed(2);
    ship.cell.masters[0].kill();
    ship.log("a.log", "a2\n");
    await_output(&following.err, "nothing is lost meanwhile");
    fs::remove_file(ship.at("a.log")).expect("removes");
    // It is quiet later than the other, and of what was read of it all is there that can be.
    ship.log("c.log", "c");
    ship.log("waits.log", "w1\n");
    await_output(&following.err, "waits.log: from byte 0 on");
    ship.cell.masters[0].restart().expect("starts again");
    ship.log("c.log", "2\n");
    ship.await_committed(5);
    await_output(&following.err, "shipping goes on");
    await_output(&following.err, "a.log is gone, and was read to its end");
    assert_eq!(following.end(), Some(0), "{}", following.said());
    let shipped = ship.shipped();
    let mut lines: Vec<&str> = shipped.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["a1", "a2", "c1", "c2", "w1"]);
}

#[test]
fn a_full_quota_is_told_of_once_and_tried_less_and_less_often_until_there_is_room() {
    let ship = Ship::to("/q/s");
    ship.cell.ok(["quota", "set", "--bytes", "2000", "/q"]);
    let mut following = ship.follow(&["--deadline", "5"]);
    ship.log("app.log", "one\n");
    ship.await_committed(1);
    let epoch = || ship.cell.json(&["producers", "/q/s"])["epoch"].to_string();
    let mut epochs = BTreeSet::from([epoch()]);
    let since = Instant::now();
    let long = "y".repeat(3000);
    ship.log("app.log", &format!("{long}\n"));
    // Each try is an opening: after one second, two more and four more.
    await_until("three tries", || {
        epochs.insert(epoch());
        epochs.len() > 3
    });
    assert!(since.elapsed() >= Duration::from_secs(7), "{:?}", since.elapsed());
    let said = following.said();
    assert_eq!(said.lines().count(), 1, "told once: {said}");
    for part in ["/q: its quota is 2000 bytes", "tried again, at the latest after 30 seconds"] {
        assert!(said.contains(part), "{said}");
    }
    ship.cell.ok(["quota", "set", "--bytes", "1M", "/q"]);
    ship.await_committed(2);
    await_output(&following.err, "shipping goes on");
    assert_eq!(following.end(), Some(0), "{}", following.said());
    assert_eq!(following.said().lines().count(), 2, "{}", following.said());
    assert_eq!(ship.shipped(), format!("one\n{long}\n"));
}

/// Found by a review: the opening in vain let go of the cursor, and the file was shut out for good.
#[test]
fn a_file_whose_cursor_is_old_goes_on_after_appends_in_vain() {
    let ship = Ship::to("/q/s");
    ship.cell.ok(["settings", "cursors_kept_ms=1000"]);
    ship.log("app.log", &numbered(1..6));
    assert!(ship.once(&[]).status.success());
    let producer = || ship.cell.json(&["producers", "/q/s"]);
    await_until("its cursor is old", || producer()["age_ms"].as_u64() > Some(1_100));
    ship.cell.ok(["quota", "set", "--bytes", "1000", "/q"]);
    let mut following = ship.follow(&["--deadline", "5"]);
    let long = "y".repeat(3000);
    ship.log("app.log", &format!("{long}\n"));
    let mut epochs = BTreeSet::new();
    await_until("two tries", || {
        epochs.insert(producer()["epoch"].to_string());
        epochs.len() > 2
    });
    assert_eq!(following.said().lines().count(), 1, "told once: {}", following.said());
    ship.cell.ok(["quota", "set", "--bytes", "1M", "/q"]);
    ship.await_committed(6);
    await_output(&following.err, "shipping goes on");
    assert_eq!(following.end(), Some(0), "{}", following.said());
    let told = fs::read_to_string(&following.out).expect("text");
    assert!(told.contains("/q/s: 1 line ("), "what is there is counted: {told}");
    assert_eq!(ship.shipped(), format!("{}{long}\n", numbered(1..6)));
}

/// Found by a review: it ended the command, with a hint to look for a path.
#[test]
fn a_producer_that_is_forgotten_while_it_is_open_begins_its_file_anew_and_that_is_told() {
    let ship = Ship::new();
    let mut following = ship.follow(&[]);
    ship.log("app.log", "one\n");
    ship.await_committed(1);
    let name = ship.cell.json(&["producers", "/s"])["producer"].clone();
    ship.cell.ok(["producers", "/s", "forget", name.as_str().expect("a name")]);
    ship.log("app.log", "two\n");
    ship.log("other.log", "three\n");
    await_output(&following.err, "the producer of app.log was forgotten: it is shipped from its");
    ship.await_committed(3);
    assert_eq!(following.end(), Some(0), "{}", following.said());
    assert_eq!(following.said().lines().count(), 1, "{}", following.said());
    let shipped = ship.shipped();
    let mut lines: Vec<&str> = shipped.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["one", "one", "three", "two"]);
    judge(&Row {
        what: "a producer that there is none of",
        done: ship.cell.run(["producers", "/s", "forget", "nobody"]),
        code: 3,
        says: &["no such producer", "'cairn producers' shows which there are"],
    });
}

#[test]
fn a_second_one_fences_the_first_which_ends_and_each_line_is_there_once() {
    let ship = Ship::new();
    let mut first = ship.follow(&[]);
    ship.log("app.log", "one\n");
    ship.await_committed(1);
    // It takes the name with the next line; the first hears with the one after that.
    let mut second = ship.cell.command(ship.arguments(&[]));
    second.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let _second = KilledOnDrop(second.spawn().expect("starts"));
    let mut written = 1;
    let mut code = None;
    await_until("the first has ended", || {
        written += 1;
        ship.log("app.log", &format!("line {written}\n"));
        ship.await_committed(written);
        code = first.child.0.try_wait().expect("can be asked");
        code.is_some()
    });
    assert_eq!(code.and_then(|code| code.code()), Some(17), "{}", first.said());
    assert_eq!(first.said().lines().count(), 1, "{}", first.said());
    let wanted = (2..=written).map(|number| format!("line {number}\n"));
    assert_eq!(ship.shipped(), format!("one\n{}", wanted.collect::<String>()));
}

#[test]
fn a_line_that_is_longer_than_a_record_goes_as_several_and_a_stream_of_bytes_keeps_newlines() {
    let ship = Ship::new();
    let long = "y".repeat(300_000);
    ship.log("app.log", &format!("one\n{long}\ntwo\n"));
    let done = ship.once(&[]);
    assert!(done.status.success(), "{}", done.stderr);
    assert_eq!(done.stderr.lines().count(), 1, "{}", done.stderr);
    assert!(done.stderr.contains("app.log: the line at byte 4 is longer than"), "{}", done.stderr);
    assert_eq!(ship.shipped().replace('\n', ""), format!("one{long}two"));
    ship.cell.ok(["create", "--layout", "stream", "--content", "bytes", "/b"]);
    let directory = ship.directory.to_str().expect("text");
    ship.cell.ok(["ship", "--once", directory, "/b"]);
    assert_eq!(ship.cell.ok(["cat", "/b"]), format!("one\n{long}\ntwo\n"));
    let producers = ship.cell.ok(["producers", "/b"]);
    assert!(producers.contains(":/") && producers.contains("ship app.log, tail "), "{producers}");
    assert!(producers.contains(", offset 300009, "), "{producers}");
}

#[test]
fn a_link_is_not_followed_and_said_so_unless_its_file_is_shipped_all_the_same() {
    let ship = Ship::new();
    ship.log("app.log", "one\n");
    let elsewhere = ship.cell.file("elsewhere", b"two\n");
    let links = [("far.log", elsewhere.as_str()), ("now.log", "app.log"), ("none.log", "gone")];
    for (name, to) in links {
        symlink(to, ship.at(name)).expect("links");
    }
    let done = ship.once(&[]);
    let said = "far.log is a symbolic link, and not followed";
    assert!(done.status.success() && done.stderr.matches(said).count() == 1, "{done:?}");
    assert!(!done.stderr.contains("now.log") && !done.stderr.contains("none.log"), "{done:?}");
    assert!(ship.once(&["--exclude", "far*"]).stderr.is_empty());
    assert_eq!(ship.shipped(), "one\n");
}

#[test]
fn what_cannot_be_shipped_is_told_in_one_line_that_says_what_to_do() {
    let ship = Ship::new();
    ship.cell.ok(["mkdir", "/d"]);
    ship.cell.ok_with(["put", "-", "/plain"], b"x\n");
    ship.log("app.log", "one\n");
    let directory = ship.directory.to_str().expect("text");
    let file = ship.at("app.log").display().to_string();
    let inode = fs::metadata(&file).expect("there").ino();
    ship.cell.ok_with(["append", "--producer", &format!("w/{inode}"), "/s"], b"x\n");
    let long = "n".repeat(250);
    let run = |arguments: &[&str]| ship.cell.run([&["ship", "--once"], arguments].concat());
    let rows: [(&str, &[&str], i32, &[&str]); 8] = [
        ("no directory", &["/no/such", "/s"], 12, &["no such directory on this machine"]),
        ("a file", &[&file, "/s"], 2, &["it is no directory", "--include 'app.log*'"]),
        (
            "no file in the cell",
            &[directory, "/logs"],
            3,
            &["/logs", "'cairn create --layout stream /logs' makes it"],
        ),
        ("no stream", &[directory, "/plain"], 2, &["it is no stream", "cairn create --layout"]),
        ("a directory of the cell", &[directory, "/d"], 5, &["a directory where a file is meant"]),
        ("a long name", &["--name", &long, directory, "/s"], 2, &["250 bytes", "--name NAME"]),
        ("no files at all", &["--open-max", "0", directory, "/s"], 2, &["0 is not in 1.."]),
        (
            "a producer of somebody else",
            &["-q", "--name", "w", directory, "/s"],
            2,
            &["app.log: its producer has records of another source", "producers /s forget w/"],
        ),
    ];
    for (what, arguments, code, says) in rows {
        judge(&Row { what, done: run(arguments), code, says });
    }
    assert_eq!(ship.shipped(), "x\n");
}
