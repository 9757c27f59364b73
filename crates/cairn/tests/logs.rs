//! What servers tell the person who runs them: which events, how much, in which form.

mod cell;

use cell::row::{Row, judge};
use cell::{Cell, KilledOnDrop, await_output, await_until, cairn, run};
use std::fs::File;
use std::path::Path;
use std::process::Stdio;

/// Another chunkserver of a cell, which writes its log where the caller says.
fn chunkserver(cell: &Cell, log: &Path, more: &[&str], settings: &[(&str, &str)]) -> KilledOnDrop {
    let data = log.with_extension("data").display().to_string();
    let arguments = ["chunkserver", "--listen", "127.0.0.1:0", "--data", &data, "--master"];
    let mut command = cairn(arguments.iter().chain(&[cell.address()]).chain(more));
    command.envs(settings.iter().copied());
    command.stdout(Stdio::null()).stderr(File::create(log).expect("creates"));
    KilledOnDrop(command.spawn().expect("starts"))
}

#[test]
fn events_have_a_time_a_level_and_a_name_in_the_form_that_was_asked_for() {
    let mut cell = Cell::start(0);
    let (text, json, few) = (cell.local("text"), cell.local("json"), cell.local("few"));
    let _text = chunkserver(&cell, &text, &[], &[]);
    let _json = chunkserver(&cell, &json, &["--log-format", "json"], &[("CAIRN_LOG", "debug")]);
    let _few = chunkserver(&cell, &few, &["--log", "error"], &[("CAIRN_LOG", "debug")]);
    await_output(&text, " INFO in the cell ");
    await_output(&json, "\"event\":\"in the cell\"");
    cell.await_live(3).expect("all three");
    cell.master.kill();
    await_output(&text, " WARN not in the cell ");
    await_output(&json, "\"event\":\"not in the cell\"");
    for line in std::fs::read_to_string(&text).expect("reads").lines() {
        let (time, rest) = line.split_once(' ').expect("a time");
        assert!(time.starts_with("20") && time.ends_with('Z') && time.contains('T'), "{line}");
        let level = rest.split(' ').next().expect("a level");
        assert!(["ERROR", "WARN", "INFO"].contains(&level), "{line}");
    }
    for line in std::fs::read_to_string(&json).expect("reads").lines() {
        let event: serde_json::Value = serde_json::from_str(line).expect("JSON");
        for field in ["time", "level", "event"] {
            assert!(event[field].is_string(), "{line}");
        }
    }
    assert_eq!(std::fs::read_to_string(&few).expect("reads"), "", "nothing so urgent");
}

#[test]
fn the_settings_file_says_it_too_and_nonsense_is_refused() {
    let cell = Cell::start(0);
    let settings = cell.file("settings.toml", b"[log]\nlevel = \"info\"\nformat = \"json\"\n");
    let log = cell.local("log");
    let _server = chunkserver(&cell, &log, &["--config", &settings], &[]);
    await_until("an event", || {
        std::fs::read_to_string(&log).is_ok_and(|text| text.starts_with("{\"time\":"))
    });
    let row = |what, done, says| Row { what, done, code: 2, says };
    let start = |more: &[&str]| run(cairn(["master", "--data", "/none"].iter().chain(more)), b"");
    let wrong = cell.file("wrong.toml", b"[log]\nlevel = \"loud\"\n");
    for row in [
        row(
            "a level that is none",
            start(&["--log", "loud"]),
            &["'loud'", "error, warn, info"][..],
        ),
        row("a form that is none", start(&["--log-format", "xml"]), &["'xml'", "text, json"]),
        row("a setting that is none", start(&["--config", &wrong]), &["line 2", "loud"]),
    ] {
        judge(&row);
    }
}
