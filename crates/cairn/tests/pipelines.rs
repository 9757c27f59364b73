//! The guide's pipeline, killed at every stage: each line is in both of its streams once.

mod cell;

use cell::{Cell, await_until, guide};
use rustix::process::{Pid, Signal, kill_process_group};
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions, rename};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

const PAGE: &str = include_str!("../../../docs/guide/pipelines.md");
/// Lines that are there before each life of the pipeline.
const LINES: u64 = 40;
/// Of so many lines one is an error.
const ERROR_EACH: u64 = 3;
/// Lives, until every stage was met; most end earlier.
const LIVES_MAX: u64 = 120;
/// Times that each stage has to be met.
const MET: u64 = 2;

/// Stages that are too short to be met by chance: before it has done anything, and right behind it.
const SHORT: [&str; 2] = ["grep", "mv"];

fn line(number: u64) -> String {
    let kind = if number.is_multiple_of(ERROR_EACH) { "ERROR" } else { "ok" };
    format!("{number} {kind} {}", "x".repeat((number * 37 % 300) as usize))
}

/// Log lines, and a rotation now and then.
fn grow(logs: &Path, life: u64, written: &mut u64) {
    let path = logs.join("web.log");
    let open = OpenOptions::new().create(true).append(true).open(&path);
    let mut file = open.expect("opens");
    for _ in 0..LINES {
        *written += 1;
        writeln!(file, "{}", line(*written)).expect("writes");
    }
    if life.is_multiple_of(5) {
        rename(&path, logs.join(format!("web.log.{life}"))).expect("rotates");
    }
}

/// One life of the pipeline, which is killed after `delay` with all that it runs: the stage that it
/// was in; none where it had ended.
fn killed_in(cell: &Cell, script: &str, delay: Duration) -> Option<String> {
    let told = cell.local("stages");
    let mut command = guide::shell_command(cell, script);
    command.stdin(Stdio::null()).stdout(Stdio::null());
    command.stderr(File::create(&told).expect("makes")).process_group(0);
    let mut child = command.spawn().expect("starts");
    // No event tells of any moment: that is what is wanted.
    let begun = Instant::now();
    await_until("the moment to kill it", || begun.elapsed() >= delay);
    let has_ended = child.try_wait().expect("waits").is_some();
    let group = Pid::from_raw(child.id().cast_signed()).expect("a process");
    // Fails only where all of it has ended.
    let _ = kill_process_group(group, Signal::KILL);
    child.wait().expect("ends");
    let told = std::fs::read_to_string(&told).expect("reads");
    let stage = told.lines().filter_map(|line| line.strip_prefix("+ ")).next_back();
    let words = |line: &str| line.split(' ').take(2).collect::<Vec<_>>().join(" ");
    stage.map(words).filter(|_| !has_ended)
}

/// Puts a program of that name into a directory, that kills all of its process group where it is
/// told to: before the real one, which it runs, or behind it.
fn stand_in(directory: &Path, name: &str) {
    let real = ["/usr/bin", "/bin"].map(|at| format!("{at}/{name}"));
    let real = real.iter().find(|at| Path::new(at).exists()).expect("the real one");
    let kill = |when: &str| format!("[ \"$KILLED_AT\" != \"{when} {name}\" ] || kill -KILL 0\n");
    let (before, behind) = (kill("before"), kill("behind"));
    let script = format!("#!/bin/sh\n{before}{real} \"$@\"\nis=$?\n{behind}exit $is\n");
    let path = directory.join(name);
    std::fs::write(&path, script).expect("writes");
    let may_run = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(&path, may_run).expect("sets its mode");
}

/// One life of the pipeline, which is killed there.
fn killed_at(cell: &Cell, script: &str, stand_ins: &Path, moment: &str) {
    let mut command = guide::shell_command(cell, script);
    let path = command.get_envs().find(|(name, _)| *name == "PATH");
    let path = path.and_then(|(_, path)| path?.to_str()).expect("a path").to_owned();
    command.env("PATH", format!("{}:{path}", stand_ins.display())).env("KILLED_AT", moment);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
    let status = command.status().expect("starts");
    assert_eq!(status.signal(), Some(Signal::KILL.as_raw()), "{moment}: {status}");
}

#[test]
fn the_guides_pipeline_is_killed_at_every_stage_and_each_line_is_there_once() {
    let cell = Cell::start(3);
    let blocks = guide::blocks(PAGE, "sh");
    let [once, pipeline] = blocks[..] else { panic!("{blocks:?}") };
    guide::shell(&cell, once, &[]);
    let (logs, mut written) = (cell.local("logs"), 0);
    grow(&logs, 1, &mut written);
    let begun = Instant::now();
    guide::shell(&cell, pipeline, &[]);
    let all_of_it = begun.elapsed();
    let traced = format!("set -x\n{pipeline}");
    let stages = ["cairn ship", "cairn get", "cairn append"];
    let mut met: BTreeMap<&str, u64> = BTreeMap::new();
    for life in 1..=LIVES_MAX {
        if stages.iter().all(|stage| met.get(stage).is_some_and(|count| *count >= MET)) {
            break;
        }
        grow(&logs, life, &mut written);
        // Anywhere in it, a little later each time.
        let delay = all_of_it.mul_f64((life * 61 % 100) as f64 / 100.0);
        if let Some(stage) = killed_in(&cell, &traced, delay)
            && let Some(known) = stages.iter().find(|known| stage == **known)
        {
            *met.entry(known).or_default() += 1;
        }
    }
    let enough = |stage: &&str| met.get(stage).is_some_and(|count| *count >= MET);
    assert!(stages.iter().all(enough), "killed at {met:?}");
    let stand_ins = cell.local("stand-ins");
    std::fs::create_dir(&stand_ins).expect("makes");
    SHORT.iter().for_each(|name| stand_in(&stand_ins, name));
    let moments =
        SHORT.iter().flat_map(|name| [format!("before {name}"), format!("behind {name}")]);
    for (life, moment) in (LIVES_MAX + 1..).zip(moments) {
        grow(&logs, life, &mut written);
        killed_at(&cell, pipeline, &stand_ins, &moment);
    }
    guide::shell(&cell, pipeline, &[]);
    let raw = cell.ok(["cat", "/pipe/raw"]);
    let mut sorted: Vec<&str> = raw.lines().collect();
    sorted.sort_by_key(|line| number_of(line));
    let wanted: Vec<String> = (1..=written).map(line).collect();
    assert!(sorted == wanted, "{} lines of {written}", sorted.len());
    let errors: Vec<&str> = raw.lines().filter(|line| line.contains("ERROR")).collect();
    let passed_on = cell.ok(["cat", "/pipe/errors"]);
    let passed_on: Vec<&str> = passed_on.lines().collect();
    assert!(passed_on == errors, "{} of {} errors", passed_on.len(), errors.len());
}

fn number_of(line: &str) -> u64 {
    line.split(' ').next().and_then(|word| word.parse().ok()).expect("a number")
}
