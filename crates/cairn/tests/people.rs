//! What people stumbled over (findings U1, U2, U4, U5, U7, U9, U10, U11, U13 and the hints that led
//! astray), row by row.

mod cell;

use cell::row::{Row, judge};
use cell::{Cell, Finished, KilledOnDrop, await_until};
use serde_json::Value;
use std::fs::{File, Permissions};
use std::io::Read;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

fn shown(path: &Path) -> String {
    path.display().to_string()
}

#[test]
fn u1_get_replaces_nothing_but_plain_files() {
    let cell = Cell::start(1);
    cell.ok_with(["put", "-", "/f"], b"from the cell");
    // Not the machine's own: a test that fails would take it away from everybody.
    let device = cell.local("null");
    let made = Command::new("mknod").args([&shown(&device), "c", "1", "3"]).status();
    if made.is_ok_and(|status| status.success()) {
        cell.ok(["get", "-f", "/f", &shown(&device)]);
        let kind = device.metadata().expect("there").file_type();
        assert!(kind.is_char_device(), "a device is written through");
    }
    let pipe = cell.local("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().expect("starts").success());
    let mut get = cell.command(["get", "-f", "/f", &shown(&pipe)]);
    let mut get = KilledOnDrop(get.stdin(Stdio::null()).spawn().expect("starts"));
    let mut text = String::new();
    std::fs::File::open(&pipe).expect("opens").read_to_string(&mut text).expect("reads");
    assert!(get.0.wait().expect("ends").success());
    assert_eq!(text, "from the cell");
    assert!(pipe.metadata().expect("there").file_type().is_fifo(), "and a pipe");
    let (real, link) = (cell.local("real"), cell.local("link"));
    std::fs::write(&real, b"old").expect("writes");
    std::fs::set_permissions(&real, Permissions::from_mode(0o751)).expect("sets");
    symlink("real", &link).expect("links");
    cell.ok(["get", "-f", "/f", &shown(&link)]);
    assert!(link.symlink_metadata().expect("there").is_symlink(), "a link is followed");
    assert_eq!(std::fs::read(&real).expect("reads"), b"from the cell");
    let mode = real.metadata().expect("there").permissions().mode() & 0o777;
    assert_eq!(mode, 0o751, "the mode is kept");
}

#[test]
fn u5_a_file_with_fewer_replicas_than_were_asked_for_is_told() {
    let mut cell = Cell::start(4);
    let file = cell.file("file", b"precious");
    let many = cell.run(["put", "--replication", "16", &file, "/many"]);
    assert!(many.status.success(), "{}", many.stderr);
    assert!(many.stderr.contains("/many has 4 of 16 replicas"), "{}", many.stderr);
    assert_eq!(cell.run(["put", &file, "/usual"]).stderr, "", "as many as it wants");
    for number in 1..4 {
        cell.chunkservers[number].kill();
    }
    cell.await_live(1).expect("three are missed");
    let one = cell.run(["put", &file, "/one"]);
    assert!(one.status.success(), "{}", one.stderr);
    assert!(one.stderr.contains("/one has 1 of 3 replicas"), "{}", one.stderr);
    let empty = cell.file("empty", b"");
    assert_eq!(cell.run(["put", &empty, "/empty"]).stderr, "", "it has no chunk");
}

#[test]
fn u2_a_server_that_does_not_come_back_is_missed_by_name_and_its_files_are_listed() {
    let mut cell = Cell::start(3);
    cell.ok_with(["put", "-", "/f"], b"on three servers");
    assert!(cell.ok(["fsck"]).starts_with("0 chunks lack replicas"));
    let (gone, here) =
        (cell.chunkservers[1].address().to_owned(), cell.chunkservers[0].address().to_owned());
    cell.chunkservers[1].kill();
    // Whatever the master had been told is gone with it.
    cell.masters[0].kill();
    cell.masters[0].restart().expect("starts again");
    await_until("it is dead", || {
        let servers = cell.ok(["servers"]);
        servers.lines().any(|line| line.contains(&gone) && line.contains("dead"))
    });
    await_until("the others have told", || cell.run(["status", "--check"]).code() == 14);
    assert!(cell.ok(["status"]).contains(&format!("1 chunkservers are dead: {gone}")));
    assert!(cell.ok(["explain", "/f"]).contains(&gone), "the machine that must come back");
    let suffering = cell.run(["fsck"]);
    assert_eq!(suffering.code(), 14, "{}", suffering.stderr);
    assert!(suffering.text().contains("/f: chunk 0 "), "{}", suffering.text());
    let refused = cell.run(["servers", "--forget", &here]);
    assert!(refused.stderr.contains("is not dead: stop it first"), "{}", refused.stderr);
    assert_eq!(cell.run(["servers", "--forget", "nobody:1"]).code(), 2);
    cell.ok(["servers", "--forget", &gone]);
    assert!(!cell.ok(["servers"]).contains(&gone), "missed no more");
}

#[test]
fn u4_a_file_whose_servers_are_all_dead_is_told_at_once_with_who_must_come_back() {
    let mut cell = Cell::start(2);
    cell.ok_with(["put", "-", "/f"], b"on two servers");
    let at = |number: usize, cell: &Cell| cell.chunkservers[number].address().to_owned();
    let both = [at(0, &cell), at(1, &cell)];
    cell.chunkservers[0].kill();
    cell.chunkservers[1].kill();
    await_until("both are dead", || {
        let servers = cell.ok(["servers"]);
        servers.lines().filter(|line| line.contains("dead")).count() == 2
    });
    let began = Instant::now();
    let done = cell.run(["cat", "/f"]);
    assert_eq!(done.code(), 7, "{}", done.stderr);
    assert!(began.elapsed() < Duration::from_secs(15), "half of what it waited before");
    assert!(both.iter().all(|address| done.stderr.contains(address)), "{}", done.stderr);
    cell.chunkservers[0].restart().expect("starts again");
    cell.chunkservers[1].restart().expect("starts again");
    await_until("it is read again", || cell.run(["cat", "/f"]).text() == "on two servers");
}

/// Sends a signal to a process that was started here.
fn signal(name: &str, process: &KilledOnDrop) {
    let pid = process.0.id().to_string();
    assert!(Command::new("kill").args([name, &pid]).status().expect("starts").success());
}

#[test]
fn u7_whoever_is_interrupted_takes_away_what_is_not_whole() {
    let cell = Cell::start(1);
    // Signals of the terminal, of `kill`, and of a connection that was lost.
    for (name, code) in [("-INT", 130), ("-TERM", 143), ("-HUP", 129)] {
        let mut put = cell.command(["put", "-", "/f"]);
        let mut put = KilledOnDrop(put.stdin(Stdio::piped()).spawn().expect("starts"));
        cell::feed(&mut put.0, &[7; 3 << 20]);
        let partial = || cell.ok(["ls", "-a", "/"]).contains(".f.put-");
        await_until("a partial file", partial);
        signal(name, &put);
        assert_eq!(put.0.wait().expect("ends").code(), Some(code), "{name}");
        assert_eq!(cell.ok(["ls", "-a", "/"]), "", "{name}: nothing is left");
        let kept = || cell.ok(["ls", "--deleted", "--json", "/"]);
        await_until("nothing of it is kept", || kept().is_empty());
    }
    cell.ok_with(["put", "-", "/large"], &vec![7; 20 << 20]);
    let target = cell.local("large");
    let mut get = cell.command(["get", "/large", &shown(&target)]);
    let mut get = KilledOnDrop(get.spawn().expect("starts"));
    signal("-INT", &get);
    // Either it was done before, or nothing is left.
    let code = get.0.wait().expect("ends").code();
    let names = std::fs::read_dir(cell.scratch()).expect("lists").filter_map(Result::ok);
    let partial = |name: &str| name.starts_with(".large.get-");
    let left = names.filter(|entry| partial(&entry.file_name().to_string_lossy())).count();
    assert_eq!(left, 0, "{code:?}");
}

#[test]
fn u7_who_fetches_into_a_pipe_hears_signals_though_nobody_reads_it() {
    let cell = Cell::start(1);
    cell.ok_with(["put", "-", "/large"], &vec![7; 20 << 20]);
    let pipe = cell.local("pipe");
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, mode).expect("makes a pipe");
    let fetch = |flags| {
        let mut get = cell.command(["get", flags, "/large", &shown(&pipe)]);
        KilledOnDrop(get.spawn().expect("starts"))
    };
    // Whoever finds nobody there, or nothing, goes on.
    let open = || {
        let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
        File::options().read(true).custom_flags(flags).open(&pipe).expect("opens")
    };
    let code_of = |mut get: KilledOnDrop| {
        await_until("it ends", || get.0.try_wait().expect("is a child").is_some());
        get.0.wait().expect("has ended").code()
    };
    // Nobody has it open; then somebody has, and reads no more than this.
    let get = fetch("-f");
    await_until("it listens for signals", || handles_interrupts(get.0.id()));
    signal("-INT", &get);
    assert_eq!(code_of(get), Some(130));
    let (mut reader, get) = (open(), fetch("-f"));
    await_until("some is read", || reader.read(&mut [0; 4096]).is_ok_and(|size| size > 0));
    signal("-TERM", &get);
    assert_eq!(code_of(get), Some(143));
    drop(reader);
    // All of it; what is no plain file is given no mode, nor opened once more.
    let (mut reader, mut get, mut read) = (open(), fetch("-pf"), Vec::new());
    await_until("all is read", || {
        let is_over = get.0.try_wait().expect("is a child").is_some();
        // What there is, before there is none for a moment.
        let _ = reader.read_to_end(&mut read);
        is_over
    });
    assert_eq!(code_of(get), Some(0));
    assert!(read == vec![7; 20 << 20]);
}

/// Whether a process has a handler for SIGINT.
fn handles_interrupts(pid: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).expect("as ever");
    u64::from_str_radix(caught.trim(), 16).expect("a number") & 2 != 0
}

#[test]
fn u9_a_cell_that_is_not_there_is_waited_for_as_long_as_is_said() {
    let run = |arguments: &[&str]| {
        let begun = Instant::now();
        (cell::run(cell::cairn(arguments), b""), begun.elapsed())
    };
    // No name may have two dots in a row.
    let (mistyped, took) = run(&["ls", "/", "--cell", "m1..example:7400"]);
    assert!(took < Duration::from_secs(4), "a mistyped name is not waited for: {took:?}");
    let says = &["m1..example:7400: ", "check --cell", "--deadline SECONDS"][..];
    judge(&Row { what: "a mistyped name", done: mistyped, code: 6, says });
    let (silent, took) = run(&["ls", "/", "--cell", "127.0.0.1:1"]);
    assert!(took >= Duration::from_secs(5), "{took:?}");
    assert!(!silent.stderr.contains("until the deadline"), "it gave up before: {}", silent.stderr);
    let says = &["tried for 5 s", "--deadline SECONDS waits longer"][..];
    judge(&Row { what: "nobody listens", done: silent, code: 6, says });
    let (chosen, took) = run(&["ls", "/", "--cell", "m1..example:7400", "--deadline", "2"]);
    assert!(took >= Duration::from_secs(2), "a name may come to be: {took:?}");
    let says = &["tried until the deadline"][..];
    judge(&Row { what: "a chosen deadline", done: chosen, code: 6, says });
    let help = run(&["ls", "--help"]).0.text();
    assert!(help.contains("[default: 30; 5 for a cell that never answered]"), "{help}");
}

fn json(line: &str) -> Value {
    serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}"))
}

#[test]
fn u10_programs_are_answered_in_json_whatever_happens() {
    let mut cell = Cell::start(1);
    let x = cell.file("x", b"hello");
    let to = shown(&cell.local("back"));
    let answer = |arguments: &[&str]| {
        let done = cell.run(arguments.iter().chain(&["--json"]));
        assert!(done.status.success(), "{arguments:?}: {}", done.stderr);
        json(&done.text())
    };
    let put = answer(&["put", "--replication", "1", &x, "/x"]);
    assert_eq!(
        (&put["path"], &put["from"], &put["length"]),
        (&"/x".into(), &x.as_str().into(), &5.into())
    );
    let get = answer(&["get", "/x", &to]);
    assert_eq!(
        (&get["path"], &get["to"], &get["length"]),
        (&"/x".into(), &to.as_str().into(), &5.into())
    );
    let copied = answer(&["cp", "/x", "/y"]);
    assert_eq!((&copied["path"], &copied["from"]), (&"/y".into(), &"/x".into()));
    let moved = answer(&["mv", "/y", "/z"]);
    assert_eq!((&moved["path"], &moved["from"]), (&"/z".into(), &"/y".into()));
    // A copy is a new file of where it is made.
    cell.ok(["policy", "--replication", "1", "/z"]);
    assert_eq!(answer(&["mkdir", "/d"])["path"], "/d");
    assert_eq!(answer(&["mkdir", "-p", "/d/e/f"])["path"], "/d/e/f");
    for (arguments, exit) in [
        (vec!["cat", "/none", "--json"], 3),
        (vec!["mkdir", "/d", "--json"], 4),
        (vec!["ls", "--json", "--colour"], 2),
        (vec!["put", &x, "--json"], 2),
    ] {
        let done = cell.run(&arguments);
        assert_eq!(done.code(), exit, "{arguments:?}: {}", done.stderr);
        let told = json(&done.stderr);
        assert_eq!(told["exit"], exit, "{arguments:?}: {told}");
        assert!(told["error"].is_string() && told["doing"].is_string(), "{told}");
    }
    let explained = answer(&["explain", "/x"]);
    assert_eq!((&explained["subject"], &explained["healthy"]), (&"/x".into(), &true.into()));
    assert_eq!(explained["entry"]["length"], 5);
    let replica = &explained["chunks"][0]["replicas"][0];
    assert_eq!((&replica["state"], replica["server"].is_string()), (&"live".into(), true));
    assert_eq!(explained["chunks"][0]["missing"], 0);
    assert_eq!(explained["lines"], Value::Null, "prose is for people");
    let probe = |cell: &Cell| cell.run(["status", "--check"]).code();
    assert_eq!(probe(&cell), 0, "{}", cell.ok(["status"]));
    let few = cell.run(["put", &x, "/few", "--json"]);
    assert!(json(&few.stderr)["warning"].as_str().is_some_and(|told| told.contains("1 of 3")));
    await_until("that it lacks replicas", || probe(&cell) == 14);
    assert_eq!(cell.run(["status"]).code(), 0, "as nobody asked");
    cell.chunkservers[0].kill();
    cell.await_live(0).expect("it is missed");
    await_until("unavailability", || probe(&cell) == 7);
    cell.masters[0].kill();
    assert_eq!(probe(&cell), 6);
}

#[test]
fn u11_what_cannot_be_stored_is_named() {
    let cell = Cell::start(1);
    let tree = cell.local("tree");
    std::fs::create_dir_all(tree.join("d")).expect("makes");
    std::fs::write(tree.join("d/f"), b"").expect("writes");
    symlink("f", tree.join("d/link")).expect("links");
    let _socket = std::os::unix::net::UnixListener::bind(tree.join("socket")).expect("binds");
    let stored = cell.run(["put", "-r", &shown(&tree), "/t"]);
    assert!(stored.status.success(), "{}", stored.stderr);
    let mut told: Vec<&str> = stored.stderr.lines().collect();
    told.sort_unstable();
    let (link, socket) = (shown(&tree.join("d/link")), shown(&tree.join("socket")));
    assert_eq!(
        told,
        [
            format!("cairn: warning: skipping {link}: it is a symbolic link"),
            format!("cairn: warning: skipping {socket}: it is neither file nor directory"),
        ]
    );
    let guide = include_str!("../../../docs/guide/commands.md");
    assert!(guide.contains("Modes and times are kept by `put -p` and `get -p`"));
}

#[test]
fn u13_many_small_files_go_as_fast_as_the_cell_takes_them() {
    let cell = Cell::start(1);
    let tree = cell.local("tree");
    std::fs::create_dir(&tree).expect("makes");
    for number in 0..600 {
        std::fs::write(tree.join(format!("{number}")), [7; 2000]).expect("writes");
    }
    let took = |arguments: &[&str]| {
        let begun = Instant::now();
        cell.ok(arguments);
        begun.elapsed()
    };
    let tree = shown(&tree);
    let first = took(&["put", "-r", &tree, "/warm"]);
    let (mut usual, mut many) = (Duration::MAX, Duration::MAX);
    for round in 0..3 {
        usual = usual.min(took(&["put", "-r", &tree, &format!("/usual-{round}")]));
        many = many.min(took(&["put", "-r", "-j", "64", &tree, &format!("/many-{round}")]));
    }
    assert!(usual < many * 3 / 2, "{usual:?}, with -j 64 {many:?} ({first:?} at first)");
}

#[test]
fn hints_lead_where_they_say() {
    let cell = Cell::start(1);
    let file = cell.file("file", b"x");
    cell.ok(["mkdir", "/d"]);
    cell.ok(["put", "--replication", "1", &file, "/d/f"]);
    let missing = shown(&cell.local("missing"));
    let into = format!("{missing}/x");
    let directory = format!("{missing}/");
    let run = |line: &[&str]| -> Finished { cell.run(line) };
    let row = |what, done, code, says| Row { what, done, code, says };
    for row in [
        row("mkdir of what exists", run(&["mkdir", "/d"]), 4, &["'mkdir -p' takes"][..]),
        row("mkdir below nothing", run(&["mkdir", "/no/x"]), 3, &["'mkdir -p' makes"]),
        row(
            "put below nothing",
            run(&["put", &file, "/no/x"]),
            3,
            &["storing /no/x", "there is no directory /no", "put --parents", "mkdir -p /no"],
        ),
        row(
            "cp below nothing",
            run(&["cp", "/d/f", "/no/x"]),
            3,
            &["no directory /no", "mkdir -p"],
        ),
        row("put below a file", run(&["put", &file, "/d/f/x"]), 5, &["/d/f/x"]),
        row("get into nothing", run(&["get", "/d/f", &into]), 12, &["no directory", &missing]),
        row("get into no directory", run(&["get", "/d/f", &directory]), 12, &["no such directory"]),
        row("put without a destination", run(&["put", &file]), 2, &["DESTINATION", "cairn put"]),
        row("cp without a destination", run(&["cp", "/d"]), 2, &["DESTINATION", "cairn cp"]),
        row("mv without a destination", run(&["mv", "/d"]), 2, &["DESTINATION", "cairn mv"]),
        row("explain of nothing", run(&["explain", ""]), 2, &["a path", "a chunk"]),
        row("explain of a word", run(&["explain", "nonsense"]), 2, &["nonsense", "a path"]),
        row("rm of nothing", run(&["rm"]), 2, &["PATHS"]),
    ] {
        assert!(!row.done.stderr.contains(".put-"), "{}: {}", row.what, row.done.stderr);
        assert!(!row.done.stderr.contains("SOURCES"), "{}: {}", row.what, row.done.stderr);
        judge(&row);
    }
    assert_eq!(cell.ok(["ls", "-a", "/d"]), "f\n");
}

#[test]
fn where_a_name_is_taken_only_those_who_can_replace_what_is_there_say_so() {
    let cell = Cell::start(1);
    let file = cell.file("file", b"x");
    cell.ok(["mkdir", "/d"]);
    cell.ok(["put", "--replication", "1", &file, "/d/f"]);
    cell.ok(["cp", "/d/f", "/d/g"]);
    cell.ok(["rm", "/d/g"]);
    cell.ok(["cp", "/d/f", "/d/g"]);
    let rows: [(&[&str], i32, bool); 9] = [
        (&["snapshot", "/d/f", "/d/g"], 4, false),
        (&["create", "/d/f"], 4, false),
        (&["mkdir", "/d"], 4, false),
        (&["undelete", "/d/g"], 4, false),
        (&["mv", "/d/f", "/d/g"], 4, true),
        (&["cp", "/d/f", "/d/g"], 4, true),
        (&["put", &file, "/d/f"], 4, true),
        (&["get", "/d/f", &file], 4, true),
        // Of a directory, which no option puts into the place of a file.
        (&["get", "-r", "-f", "/d", &file], 12, false),
    ];
    for (line, code, replaces) in rows {
        let done = cell.run(line);
        let advice = done.stderr.rsplit_once("; ").map(|(_, advice)| advice.trim_end().to_owned());
        let advice = advice.unwrap_or_else(|| panic!("{line:?}: {}", done.stderr));
        assert_eq!(advice.contains("-f"), replaces, "{line:?}: {}", done.stderr);
        judge(&Row { what: &line.join(" "), done, code, says: &[] });
    }
    let done = cell.run(["man", "--dir", &file]);
    judge(&Row { what: "man", done, code: 12, says: &["is there already; choose another name"] });
}
