//! `cairn top` of a real cell: one sample, a line each second, a screen.

mod cell;

use cell::{Cell, KilledOnDrop, await_until, guide};
use serde_json::Value;
use std::fs::File;
use std::path::PathBuf;
use std::process::Stdio;

fn sample(cell: &Cell) -> Value {
    cell.json(&["top"])
}

#[test]
fn every_command_of_the_guides_page_does_what_it_says() {
    let cell = Cell::start(3);
    cell.ok_with(["put", "-", "/file"], b"it has all its replicas");
    await_until("all is well", || cell.run(["status", "--check"]).code() == 0);
    let told = guide::run_page(&cell, include_str!("../../../docs/guide/seeing-it.md"));
    let [told] = &told[..] else { panic!("{told:?}") };
    let sample = told.lines().next().expect("a sample first");
    let sample: Value = serde_json::from_str(sample).expect("JSON");
    for field in ["requests", "traffic", "health", "job_count", "servers", "busiest_clients"] {
        assert!(!sample[field].is_null(), "{field}: {sample}");
    }
    assert_eq!(sample["health"], "healthy", "{sample}");
    for word in ["chunks   1: all well", "/: 0 chunks", " live ", "no jobs"] {
        assert!(told.contains(word), "{word}: {told}");
    }
}

#[test]
fn a_sample_tells_rates_and_the_busiest_clients_and_files() {
    let cell = Cell::start(2);
    for name in ["/busy", "/quiet"] {
        cell.ok_with(["put", "-", name], &vec![7; 100_000]);
    }
    cell.ok(["cat", "/quiet"]);
    // A client that goes on for as long as it is looked at.
    let script = "while :; do \"$0\" cat /busy /busy /busy; \"$0\" append /log </dev/null; done";
    let mut busy = std::process::Command::new("sh");
    busy.args(["-c", script, env!("CARGO_BIN_EXE_cairn")]).env("CAIRN_CELL", cell.address());
    busy.stdout(Stdio::null()).stderr(Stdio::null());
    let busy = KilledOnDrop(busy.spawn().expect("starts"));
    let mut told = Value::Null;
    await_until("a span of time with work in it", || {
        told = sample(&cell);
        let files = told["busiest_files"].as_array().expect("a list");
        files.first().is_some_and(|file| file["path"] == "/busy")
    });
    // Names may lie in closed directories: only the superuser is told them.
    let of_user = cell.json(&["--as", "1000", "top"]);
    assert_eq!(of_user["busiest_files"].as_array().map(Vec::len), Some(0), "{of_user}");
    assert!(of_user["requests"]["answered_a_second"].is_number(), "{of_user}");
    let requests = &told["requests"];
    assert!(requests["answered_a_second"].as_f64().is_some_and(|rate| rate > 1.0), "{told}");
    assert!(requests["mean_us"].as_u64().is_some_and(|us| us > 0), "{told}");
    assert_eq!(told["servers"].as_array().map(Vec::len), Some(2));
    assert!(told["traffic"]["read"].as_u64().is_some());
    let shown = cell.ok(["top", "--once"]);
    for part in ["requests ", "BUSIEST FILES", "/busy", "SERVER", "a second"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    drop(busy);
}

#[test]
fn clients_are_told_by_the_address_that_they_come_from_while_they_are_there() {
    let cell = Cell::start(1);
    cell.ok_with(["put", "-", "/log"], b"");
    // It asks the master again and again where the end is, and stays connected.
    let follow = || {
        let mut follower = cell.command(["tail", "-F", "/log"]);
        follower.stdout(Stdio::null()).stderr(Stdio::null());
        KilledOnDrop(follower.spawn().expect("starts"))
    };
    let followers = [follow(), follow()];
    await_until("the followers' address", || {
        let told = sample(&cell);
        let clients = told["busiest_clients"].as_array().expect("a list");
        let is_known = |client: &Value| {
            let count = client["requests"].as_u64().is_some_and(|count| count > 0);
            client["address"] == "127.0.0.1" && count
        };
        // However many connections the machine has, it is one client.
        assert!(clients.len() <= 1, "{told}");
        clients.iter().any(is_known)
    });
    drop(followers);
}

#[test]
fn without_a_terminal_there_is_a_line_each_second() {
    let cell = Cell::start(1);
    let said = cell.local("said");
    let mut top = cell.command(["top"]);
    top.stdin(Stdio::null()).stdout(File::create(&said).expect("creates"));
    let _top = KilledOnDrop(top.spawn().expect("starts"));
    let read = || std::fs::read_to_string(&said).unwrap_or_default();
    await_until("two lines", || read().lines().count() >= 2);
    let text = read();
    assert!(
        text.lines().all(|line| line.contains("requests ") && line.contains("read ")),
        "{text}"
    );
    assert!(!text.contains('\u{1b}'), "{text}");
}

/// `cairn top` on a terminal, and what is left of that.
struct OnTerminal {
    script: KilledOnDrop,
    said: PathBuf,
}

impl OnTerminal {
    /// `script` gives it a terminal, and hands on what we type; none where there is no script.
    fn start(cell: &Cell) -> Option<Self> {
        let said = cell.local("said");
        let top = env!("CARGO_BIN_EXE_cairn");
        let line = format!("stty rows 24 cols 80; '{top}' top; echo code=$?; stty -a");
        let mut script = std::process::Command::new("script");
        script.args(["-q", "-c", &line, "/dev/null"]).env("CAIRN_CELL", cell.address());
        script.env("TERM", "xterm").stdin(Stdio::piped()).stderr(Stdio::null());
        script.stdout(File::create(&said).expect("creates"));
        let Ok(child) = script.spawn() else {
            eprintln!("no script here: not tried");
            return None;
        };
        let started = Self { script: KilledOnDrop(child), said };
        await_until("a screen, and another", || started.read().matches("q quits").count() >= 2);
        Some(started)
    }

    fn read(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(&self.said).unwrap_or_default()).into_owned()
    }

    /// The process of `cairn top` itself, which knows this cell.
    fn pid(cell: &Cell) -> Option<i32> {
        let knows = format!("CAIRN_CELL={}", cell.address());
        let all = std::fs::read_dir("/proc").expect("lists").flatten();
        let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        pids.into_iter().find(|pid| {
            let read = |name| std::fs::read(format!("/proc/{pid}/{name}")).unwrap_or_default();
            let line = [env!("CARGO_BIN_EXE_cairn"), "top", ""].join("\0");
            let environment = read("environ");
            let mut variables = environment.split(|byte| *byte == 0);
            read("cmdline") == line.as_bytes() && variables.any(|it| it == knows.as_bytes())
        })
    }

    /// When it has ended: how, and that the terminal is as it was before.
    fn end(mut self) -> String {
        await_until("its end", || self.script.0.try_wait().expect("can be asked").is_some());
        let text = self.read();
        let (screen, after) = text.split_once("\u{1b}[?1049l").expect("the screen is given back");
        assert!(screen.contains("\u{1b}[?1049h") && screen.contains("SERVER"), "{screen}");
        assert!(after.contains(" echo ") && after.contains(" icanon "), "{after}");
        let code = after.split("code=").nth(1).expect("its exit code");
        code.lines().next().expect("a line").trim().to_owned()
    }
}

#[test]
fn on_a_terminal_it_is_a_screen_until_q_and_the_terminal_is_as_before() {
    let cell = Cell::start(1);
    let Some(mut top) = OnTerminal::start(&cell) else { return };
    cell::feed(&mut top.script.0, b"q");
    assert_eq!(top.end(), "0");
}

#[test]
fn whoever_ends_it_by_a_signal_has_the_terminal_as_before() {
    let cell = Cell::start(1);
    for (signal, code) in [("TERM", "143"), ("HUP", "129")] {
        let Some(top) = OnTerminal::start(&cell) else { return };
        let pid = OnTerminal::pid(&cell).expect("it runs").to_string();
        let sent = std::process::Command::new("kill").args(["-s", signal, &pid]).status();
        assert!(sent.expect("kill is there").success());
        assert_eq!(top.end(), code, "{signal}");
    }
}
