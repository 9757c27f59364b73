//! What comes with the binary: completions, manual pages, units of systemd.

mod cell;

use cell::{Cell, cairn, run};
use std::io::PipeWriter;
use std::process::{Command, Stdio};
use tempfile::TempDir;

fn ok(arguments: &[&str]) -> String {
    let done = run(cairn(arguments), b"");
    assert!(done.status.success(), "{arguments:?}: {}", done.stderr);
    done.text()
}

#[test]
fn each_shell_is_told_every_command_and_flag() {
    for (shell, start) in
        [("bash", "_cairn() {"), ("zsh", "#compdef cairn"), ("fish", "complete -c cairn")]
    {
        let text = ok(&["completions", shell]);
        assert!(text.contains(start), "{shell}: {}", &text[..200]);
        for part in ["undelete", "keep-deleted", "chunkserver"] {
            assert!(text.contains(part), "{shell} lacks {part}");
        }
    }
    let done = run(cairn(["completions", "tcsh"]), b"");
    assert_eq!((done.code(), done.stderr.contains("'tcsh'")), (2, true), "{}", done.stderr);
}

#[test]
fn whoever_reads_no_further_ends_it_in_silence() {
    for words in [&["completions", "bash"][..], &["man"], &["version"]] {
        let mut command = cairn(words);
        command.stdout(read_by_nobody());
        let done = command.output().expect("starts");
        let said = String::from_utf8_lossy(&done.stderr);
        assert_eq!((done.status.code(), &*said), (Some(141), ""), "{words:?}");
    }
}

/// Where what a command says goes to nobody.
fn read_by_nobody() -> PipeWriter {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    writer
}

#[test]
fn whether_anybody_reads_what_it_complains_of_changes_nothing_of_how_it_ends() {
    let cell = Cell::start(0);
    // The beginning of a log, of which the rest is damaged: it is shown, with a warning.
    let mut torn = b"CAIRNRPC\x01\0\0\0".to_vec();
    torn.resize(40, 0);
    let torn = cell.file("torn.rpclog", &torn);
    let rows: [(&[&str], i32); 7] = [
        (&["ls", "/nope"], 3),
        (&["ls", "/nope", "/nope", "--json"], 3),
        (&["ls", "relative"], 2),
        (&["ls", "--colour"], 2),
        (&["rpclog", "show", "/nope"], 12),
        (&["rpclog", "show", &torn], 0),
        (&["rpclog", "show", &torn, "--json"], 0),
    ];
    for (words, code) in rows {
        assert!(!cell.run(words).stderr.is_empty(), "{words:?}: nothing was to be heard");
        for out in [Stdio::null(), read_by_nobody().into()] {
            let mut command = cell.command(words);
            command.stdout(out).stderr(read_by_nobody());
            let done = command.status().expect("starts");
            assert_eq!(done.code(), Some(code), "{words:?}");
        }
    }
}

#[test]
fn bash_takes_what_it_is_given_and_completes_with_it() {
    let scratch = TempDir::new().expect("a scratch directory");
    let file = scratch.path().join("cairn.bash");
    std::fs::write(&file, ok(&["completions", "bash"])).expect("writes");
    let script = "source \"$1\"; COMP_WORDS=(cairn undel); COMP_CWORD=1; \
                  _cairn cairn undel cairn; echo \"${COMPREPLY[@]}\"";
    let bash = Command::new("bash").args(["-c", script, "bash"]).arg(&file).output();
    let Ok(told) = bash else { return eprintln!("no bash here: not tried") };
    assert_eq!(String::from_utf8_lossy(&told.stdout).trim(), "undelete", "{told:?}");
}

#[test]
fn there_is_a_manual_page_for_every_command_and_they_are_pages() {
    let first = ok(&["man"]);
    assert!(first.contains(".TH cairn 1"), "{first}");
    let scratch = TempDir::new().expect("a scratch directory");
    let dir = scratch.path().join("man1");
    ok(&["man", "--dir", &dir.display().to_string()]);
    let page = |name: &str| std::fs::read_to_string(dir.join(name)).expect("is there");
    assert!(page("cairn.1").contains("cairn\\-put(1)"));
    assert!(page("cairn-put.1").contains("\\-\\-replication"));
    // What stands everywhere stands in each of them, but where it means nothing.
    assert!(page("cairn-ls.1").contains("\\-\\-cell"));
    assert!(!page("cairn-master.1").contains("\\-\\-cell"));
    assert!(!dir.join("cairn-janitor.1").exists(), "it is for us alone");
    let names = std::fs::read_dir(&dir).expect("lists");
    let names = names.map(|entry| entry.expect("is there").file_name().into_string());
    let names: Vec<String> = names.map(|name| name.expect("UTF-8")).collect();
    let helps: Vec<&String> = names.iter().filter(|name| name.contains("-help")).collect();
    assert!(helps.is_empty() && names.len() > 50, "{} pages; {helps:?}", names.len());
    for name in ["cairn-masters-add.1", "cairn-rpclog-show.1"] {
        assert!(names.iter().any(|it| it == name), "{name}: {names:?}");
    }
    assert!(!first.contains("cairn\\-help(1)"), "it would lead nowhere: {first}");
}

#[test]
fn the_units_of_systemd_are_good_ones() {
    let units = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/systemd");
    let scratch = TempDir::new().expect("a scratch directory");
    for name in ["cairn-master.service", "cairn-chunkserver.service"] {
        let text = std::fs::read_to_string(format!("{units}/{name}")).expect("is there");
        let kind = if name.contains("master") { "master" } else { "chunkserver" };
        let start = format!("ExecStart=/usr/bin/cairn {kind} --config /etc/cairn/cairn.toml");
        assert!(text.lines().any(|line| line == start), "{text}");
        // The binary has to be there for the judge: this one is.
        let here = text.replace("/usr/bin/cairn", env!("CARGO_BIN_EXE_cairn"));
        let file = scratch.path().join(name);
        std::fs::write(&file, here).expect("writes");
        match Command::new("systemd-analyze").args(["--man=no", "verify"]).arg(&file).output() {
            Err(_) => eprintln!("no systemd-analyze here: not judged"),
            Ok(told) => assert!(told.status.success(), "{told:?}"),
        }
    }
}
