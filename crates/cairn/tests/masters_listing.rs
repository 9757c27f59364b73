//! What `cairn masters` shows of a group of real processes, and of which master `cairn masters
//! backup` is, whichever addresses they are told and whoever of these is silent (A25).

mod cell;

use cairn_testkit::{Host, MastersPlan, Program, Signal, free_addresses};
use cell::{Cell, Finished, program, run};
use serde_json::Value;
use std::time::{Duration, Instant};

/// With a deadline of four seconds, one that is waited for until then takes longer than this.
const SOON: Duration = Duration::from_millis(3_500);

fn group() -> Cell {
    Cell::start_plan(0, |plan| plan.masters = MastersPlan::Group(3))
}

/// A command against the masters at these addresses.
fn at(program: &Program, addresses: &str, arguments: &[&str]) -> Finished {
    let words = [arguments, &["--deadline", "4", "--cell", addresses]].concat();
    let done = run(program.command(words), b"");
    assert!(done.status.success(), "{arguments:?} at {addresses}: {}", done.stderr);
    done
}

/// Address, standing and role of each master, as a program is told of them.
fn listed(addresses: &str) -> Vec<[String; 3]> {
    rows(&at(&program(), addresses, &["masters", "--json"]))
}

fn rows(told: &Finished) -> Vec<[String; 3]> {
    let told: Value = serde_json::from_str(told.text().trim()).expect("one JSON value");
    let word = |row: &Value, key: &str| row[key].as_str().unwrap_or("-").to_owned();
    let row = |row: &Value| ["address", "standing", "role"].map(|key| word(row, key));
    told["masters"].as_array().expect("a list").iter().map(row).collect()
}

/// The master in charge, and the others.
fn primary_and_others(cell: &Cell) -> (usize, [usize; 2]) {
    let primary = cell.in_charge().expect("a master in charge");
    (primary, [(primary + 1) % 3, (primary + 2) % 3])
}

/// Takes a backup; of which master it is.
fn backed_up(program: &Program, cell: &Cell, name: &str, addresses: &str) -> (String, Finished) {
    let into = cell.scratch().join(name).display().to_string();
    let done = at(program, addresses, &["masters", "backup", &into, "--json"]);
    let told: Value = serde_json::from_str(done.text().trim()).expect("one JSON value");
    (told["master"].as_str().expect("an address").to_owned(), done)
}

#[test]
fn a_master_that_stands_still_keeps_nobody_waiting_for_what_the_others_say() {
    let cell = group();
    let (_, [stopped, _]) = primary_and_others(&cell);
    cell.masters[stopped].signal(Signal::STOP).expect("it runs");
    let silent = cell.masters[stopped].address();
    // It stands first, and each stands there twice.
    let told = format!("{silent},{},{}", cell.address(), cell.address());
    let began = Instant::now();
    let rows = listed(&told);
    let took = began.elapsed();
    assert!(took < SOON, "{took:?}");
    assert_eq!(rows.len(), 3, "{rows:?}");
    let of = |role: &str| rows.iter().filter(|row| row[1] == "voter" && row[2] == role).count();
    assert_eq!((of("primary"), of("shadow"), of("-")), (1, 1, 1), "{rows:?}");
    let text = at(&program(), &told, &["masters"]).text();
    let line = text.lines().find(|line| line.starts_with(silent)).expect("it is shown");
    assert!(line.ends_with("does not answer"), "{text}");
}

/// A program for which, and for nobody else, a name leads to three addresses of this machine; none
/// where that cannot be had.
fn with_a_name(cell: &Cell) -> Option<Program> {
    let lines: String = (1..=3).map(|last| format!("127.0.0.{last} all-masters\n")).collect();
    let hosts = cell.file("hosts", lines.as_bytes());
    let script = format!("mount --bind '{hosts}' /etc/hosts && exec \"$@\"");
    let runner = ["unshare", "--mount", "sh", "-c", &script, "sh"];
    let leads = |found: &str| (1..=3).all(|last| found.contains(&format!("127.0.0.{last}")));
    let mut look = std::process::Command::new(runner[0]);
    let found = look.args(&runner[1..]).args(["getent", "ahosts", "all-masters"]).output().ok()?;
    let is_so = found.status.success() && leads(&String::from_utf8_lossy(&found.stdout));
    is_so.then(|| program().run_by(&runner))
}

/// A group whose masters listen on one port of three addresses.
fn group_on_one_port() -> (Cell, String) {
    let free = free_addresses(1).expect("a free port").swap_remove(0);
    let port = free.rsplit_once(':').expect("a port").1.to_owned();
    let host = |last: u8| Host {
        program: program(),
        listen: format!("127.0.0.{last}:{port}"),
        rack: String::new(),
    };
    let cell = Cell::start_plan(0, |plan| {
        plan.masters = MastersPlan::Group(3);
        plan.master_hosts = (1..=3).map(host).collect();
    });
    (cell, format!("all-masters:{port}"))
}

#[test]
fn all_who_stand_behind_a_name_are_asked_whichever_of_them_is_silent() {
    let (cell, name) = group_on_one_port();
    let Some(program) = with_a_name(&cell) else {
        eprintln!("SKIPPED: a name of several addresses needs unshare, and who may mount (root)");
        return;
    };
    for silent in 0..3 {
        cell.in_charge().expect("a master in charge");
        cell.await_masters().expect("all answer");
        cell.masters[silent].signal(Signal::STOP).expect("it runs");
        let began = Instant::now();
        let rows = rows(&at(&program, &name, &["masters", "--json"]));
        let took = began.elapsed();
        assert!(took < SOON, "{took:?}");
        let mut shown: Vec<(&str, bool)> =
            rows.iter().map(|[address, _, role]| (address.as_str(), role != "-")).collect();
        shown.sort_unstable();
        let wanted = |it: usize| (cell.masters[it].address(), it != silent);
        assert_eq!(shown, (0..3).map(wanted).collect::<Vec<_>>());
        // Another is in charge after a while: it is found, whoever answers to the name first.
        let primary = cell.in_charge().expect("another in charge");
        let (of, done) = backed_up(&program, &cell, &format!("backup-{silent}"), &name);
        assert_eq!((of.as_str(), done.stderr.as_str()), (cell.masters[primary].address(), ""));
        cell.masters[silent].signal(Signal::CONT).expect("it is there");
    }
}

#[test]
fn one_that_lost_its_disk_and_one_of_another_cell_are_shown_as_that_beside_the_whole_group() {
    let mut cell = group();
    let another = Cell::start(0);
    let (primary, [emptied, shadow]) = primary_and_others(&cell);
    cell.masters[emptied].kill();
    let data = cell.directory().join(format!("master-{}", emptied + 1));
    std::fs::remove_dir_all(data).expect("its disk is gone");
    cell.masters[emptied].restart().expect("starts, without a group");
    let [of_primary, of_shadow, lost] =
        [primary, shadow, emptied].map(|it| cell.masters[it].address().to_owned());
    let told = format!("{lost},{},{of_shadow},{of_primary}", another.address());
    let rows = listed(&told);
    let mut members: Vec<[&str; 3]> = vec![
        [&of_primary, "voter", "primary"],
        [&of_shadow, "voter", "shadow"],
        [&lost, "voter", "-"],
    ];
    let (mut shown, others) = (rows[..3].to_vec(), &rows[3..]);
    shown.sort();
    members.sort_unstable();
    assert_eq!(shown, members);
    let mut wanted = [[lost.as_str(), "waiting", "-"], [another.address(), "stranger", "primary"]];
    wanted.sort_unstable();
    assert_eq!(others, wanted);
    // Of itself it cannot say who the others were.
    assert_eq!(listed(&lost), [[lost.as_str(), "waiting", "-"]]);
    let text = at(&program(), &told, &["masters"]).text();
    for wanted in ["does not answer; another one does there", "has no cell", "of cell "] {
        assert_eq!(text.matches(wanted).count(), 1, "{wanted}: {text}");
    }
}

#[test]
fn one_that_was_taken_out_is_no_voter_any_more_though_it_is_asked_first_and_remembers_otherwise() {
    let mut cell = Cell::start_plan(0, |plan| plan.masters = MastersPlan::Growing(3));
    let all: Vec<String> = cell.masters.iter().map(|it| it.address().to_owned()).collect();
    let two = format!("{},{}", all[1], all[2]);
    let change = |words: &[&str]| {
        let words = [&["masters"], words, &["--cell", &all[0]]].concat();
        program().ask(&words).expect("it is done");
    };
    change(&["add", &two]);
    // It is dead when it is taken out: what is on its disk says that it votes.
    cell.masters[2].kill();
    change(&["replace", &all[2], &all[3]]);
    cell.masters[2].restart().expect("starts");
    let rows = listed(&format!("{},{},{},{}", all[2], all[0], all[1], all[3]));
    let (voters, others): (Vec<_>, Vec<_>) = rows.iter().partition(|row| row[1] == "voter");
    let mut voters: Vec<&String> = voters.iter().map(|row| &row[0]).collect();
    let mut wanted = vec![&all[0], &all[1], &all[3]];
    voters.sort();
    wanted.sort();
    assert_eq!(voters, wanted, "{rows:?}");
    // It ends once it has been told.
    assert!(others.iter().all(|row| row[0] == all[2] && row[1] == "outside"), "{rows:?}");
}

#[test]
fn a_backup_is_of_the_master_in_charge_though_only_another_was_told_and_a_third_is_silent() {
    let cell = group();
    let (primary, [told, silent]) = primary_and_others(&cell);
    let [primary, told] = [primary, told].map(|it| cell.masters[it].address());
    let (of, done) = backed_up(&program(), &cell, "of-the-primary", told);
    assert_eq!((of.as_str(), done.stderr.as_str()), (primary, ""));
    cell.masters[silent].signal(Signal::STOP).expect("it runs");
    let both = format!("{},{told}", cell.masters[silent].address());
    let began = Instant::now();
    let (of, done) = backed_up(&program(), &cell, "with-one-silent", &both);
    assert_eq!((of.as_str(), done.stderr.as_str()), (primary, ""));
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
    // Whoever is named is asked, whatever it is.
    let into = cell.scratch().join("of-a-shadow").display().to_string();
    let named = at(&program(), told, &["masters", "backup", &into, "--json", "--from", told]);
    let of: Value = serde_json::from_str(named.text().trim()).expect("one JSON value");
    assert_eq!((of["master"].as_str(), named.stderr.as_str()), (Some(told), ""));
}
