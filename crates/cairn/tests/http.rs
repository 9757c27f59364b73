//! The HTTP door of real servers: what it tells, by its rules; and that nothing that clients do
//! there is felt by those who read and write files.

mod cell;

use cairn_testkit::{MastersPlan, PATIENCE};
use cell::{Cell, KilledOnDrop, await_output, await_until, cairn, run};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Where the door of a server is, as its log tells.
fn door(log: &Path) -> String {
    let mut found = None;
    await_until("the address of the HTTP port", || {
        let text = std::fs::read_to_string(log).unwrap_or_default();
        let told = text.lines().filter_map(|line| line.split_once(" http address=")).next_back();
        found = told.map(|(_, address)| address.trim().to_owned());
        found.is_some()
    });
    found.expect("waited for")
}

/// What was answered: the status, the head, the body.
struct Answered {
    status: u16,
    head: String,
    body: String,
}

impl Answered {
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }
}

fn dial(address: &str) -> TcpStream {
    let peer = TcpStream::connect(address).expect("the port is open");
    peer.set_read_timeout(Some(PATIENCE)).expect("can be set");
    peer
}

/// Writes `request` as it is, and reads until the other side ends.
fn exchange(address: &str, request: &[u8]) -> Answered {
    let mut peer = dial(address);
    // It may have been answered, and closed, before all was written.
    let _ = peer.write_all(request);
    let mut raw = Vec::new();
    let _ = peer.read_to_end(&mut raw);
    let text = String::from_utf8_lossy(&raw);
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    let status = head.split(' ').nth(1).and_then(|word| word.parse().ok()).unwrap_or(0);
    Answered { status, head: head.to_lowercase(), body: body.to_owned() }
}

fn ask(address: &str, method: &str, target: &str) -> Answered {
    let request = format!("{method} {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    exchange(address, request.as_bytes())
}

fn get(address: &str, target: &str) -> Answered {
    ask(address, "GET", target)
}

/// The value of a sample.
fn sample(metrics: &str, start: &str) -> Option<f64> {
    let line = metrics
        .lines()
        .find(|line| line.strip_prefix(start).is_some_and(|rest| rest.starts_with(' ')));
    line.and_then(|line| line.rsplit_once(' ')).and_then(|(_, value)| value.parse().ok())
}

/// The name of the metric that a sample is of, by its kind.
fn family<'a>(name: &'a str, kinds: &BTreeMap<&str, &str>) -> &'a str {
    let parts = ["_bucket", "_sum", "_count"].iter().filter_map(|end| name.strip_suffix(end));
    parts.into_iter().find(|name| kinds.get(name) == Some(&"histogram")).unwrap_or(name)
}

/// The published rules of the text format and of names, of every line.
fn obeys_the_rules(metrics: &str) {
    let (mut kinds, mut helped, mut seen) = (BTreeMap::new(), BTreeSet::new(), BTreeSet::new());
    let mut last = "";
    for line in metrics.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').expect("a name and a text");
            assert!(helped.insert(name) && help.ends_with('.'), "{line}");
            continue;
        }
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').expect("a name and a kind");
            assert!(["counter", "gauge", "histogram"].contains(&kind), "{line}");
            assert!(helped.contains(name) && kinds.insert(name, kind).is_none(), "{line}");
            assert_eq!(kind == "counter", name.ends_with("_total"), "{line}");
            last = name;
            continue;
        }
        let (labelled, value) = line.rsplit_once(' ').expect("a sample and a value");
        assert!(value.parse::<f64>().is_ok(), "{line}");
        assert!(seen.insert(labelled), "twice: {line}");
        let name = labelled.split('{').next().expect("a name");
        let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        assert!(name.starts_with("cairn_") && name.chars().all(is_name), "{line}");
        assert_eq!(family(name, &kinds), last, "samples of one metric stand together: {line}");
    }
    assert!(kinds.len() > 20, "{metrics}");
    // Bucket counts only grow, and the last is the count.
    for (labelled, count) in metrics.lines().filter_map(|line| line.rsplit_once(' ')) {
        if let Some(at) = labelled.find("le=\"+Inf\"") {
            let start = labelled[..at].trim_end_matches(['{', ',']);
            let start = start.replace("_bucket", "_count");
            let start = if start.contains('{') { format!("{start}}}") } else { start };
            let all = sample(metrics, &start);
            assert_eq!(all, count.parse().ok(), "{labelled}");
        }
    }
    let Ok(mut promtool) =
        Command::new("promtool").args(["check", "metrics"]).stdin(Stdio::piped()).spawn()
    else {
        return eprintln!("no promtool here: judged by our own rules alone");
    };
    promtool.stdin.take().expect("piped").write_all(metrics.as_bytes()).expect("it reads");
    assert!(promtool.wait().expect("ends").success());
}

#[test]
fn metrics_obey_the_published_rules_and_count_what_was_done() {
    let cell = Cell::start(2);
    let bytes = vec![7; 300_000];
    cell.ok_with(["put", "-", "/f"], &bytes);
    assert_eq!(cell.ok_with(["cat", "/f"], b""), bytes);
    let missing = cell.run(["cat", "/nothing"]);
    assert_eq!(missing.code(), 3);
    let master = get(&door(cell.masters[0].log()), "/metrics");
    assert_eq!(master.status, 200);
    assert!(master.head.contains("content-type: text/plain; version=0.0.4"), "{}", master.head);
    obeys_the_rules(&master.body);
    let of = |start: &str| sample(&master.body, start).unwrap_or_else(|| panic!("{start}"));
    assert!(of("cairn_requests_total{rpc=\"Create\",outcome=\"done\"}") >= 1.0);
    assert!(of("cairn_requests_total{rpc=\"Open\",outcome=\"failed\"}") >= 1.0);
    assert!(of("cairn_log_flush_duration_seconds_count") >= 1.0);
    assert!(of("cairn_log_applied_index") >= of("cairn_log_records_total") / 2.0);
    assert_eq!((of("cairn_master_in_charge"), of("cairn_cell_answers")), (1.0, 1.0));
    assert_eq!(of("cairn_cell_servers{state=\"live\"}"), 2.0);
    assert_eq!(of("cairn_cell_files"), cell.status("file_count") as f64);
    let (mut pushed, mut read, mut chunks) = (0.0, 0.0, 0.0);
    for server in &cell.chunkservers {
        let told = get(&door(server.log()), "/metrics").body;
        obeys_the_rules(&told);
        let of = |start: &str| sample(&told, start).unwrap_or_default();
        pushed += of("cairn_received_bytes_total{rpc=\"Push\"}");
        read += of("cairn_sent_bytes_total{rpc=\"Read\"}");
        chunks += of("cairn_replicas");
        assert_eq!(of("cairn_chunkserver_joined"), 1.0);
        assert!(told.contains("cairn_disk_size_bytes{path=\""), "{told}");
        assert!(!told.contains("cairn_cell_"), "only the master in charge tells of the cell");
    }
    assert_eq!((pushed, chunks), (2.0 * bytes.len() as f64, 2.0));
    // What a disk holds is told as the last heartbeat found it.
    await_until("the disks to be looked at", || {
        cell.chunkservers.iter().all(|server| {
            let told = get(&door(server.log()), "/metrics").body;
            let lies = |line: &str| line.starts_with("cairn_disk_chunks{") && line.ends_with(" 1");
            sample(&told, "cairn_disks_age_seconds").is_some_and(|age| age < 10.0)
                && told.lines().any(lies)
        })
    });
    assert!(read >= bytes.len() as f64, "{read}");
}

#[test]
fn the_api_tells_what_the_commands_tell_and_describes_itself() {
    let cell = Cell::start(2);
    cell.ok(["mkdir", "/d"]);
    cell.ok_with(["put", "-", "/d/f & g"], b"x");
    let door = door(cell.masters[0].log());
    let lines = |arguments: &[&str]| -> Vec<Value> {
        let text = cell.ok(arguments.iter().chain(&["--json"]));
        text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    };
    let listed = |target: &str| get(&door, target).json().as_array().cloned().expect("a list");
    assert_eq!(listed("/api/v1/ls"), lines(&["ls", "/"]));
    assert_eq!(listed("/api/v1/ls?path=/d"), lines(&["ls", "/d"]));
    assert_eq!(listed("/api/v1/ls?recursive=true&all=true"), lines(&["ls", "-Ra", "/"]));
    assert_eq!(listed("/api/v1/ls?directory=true"), lines(&["ls", "-d", "/"]));
    assert_eq!(listed("/api/v1/ls?deleted=true"), lines(&["ls", "--deleted"]));
    let target = "/api/v1/stat?path=/d/f%20%26+g&chunks=true";
    // The lease that the file was written under may end between the two.
    let same = || listed(target) == lines(&["stat", "--chunks", "/d/f & g"]);
    await_until("both tell the same of a file", same);
    assert_eq!(listed("/api/v1/jobs"), lines(&["jobs"]));
    let explained = listed("/api/v1/explain?path=/d/f%20%26%20g");
    assert_eq!(explained[0]["entry"], lines(&["explain", "/d/f & g"])[0]["entry"]);
    let status = get(&door, "/api/v1/status").json();
    let shown = &lines(&["status"])[0];
    for name in ["cell", "term", "file_count", "chunk_count", "master", "limits"] {
        assert_eq!(status[name], shown[name], "{name}");
    }
    let keys = |value: &Value| value.as_object().map(|it| it.keys().cloned().collect::<Vec<_>>());
    assert_eq!(keys(&status), keys(shown));
    let masters = get(&door, "/api/v1/masters").json();
    assert_eq!(keys(&masters), keys(&lines(&["masters"])[0]));
    for name in ["servers", "disks", "resources"] {
        let told = listed(&format!("/api/v1/{name}"));
        assert!(!told.is_empty(), "{name}");
    }
    // All that is described is there, and what is there on the page is described.
    let document = get(&door, "/api/v1/openapi.json").json();
    assert_eq!(document["openapi"], "3.1.0");
    let page = get(&door, "/").body;
    for (path, operations) in document["paths"].as_object().expect("paths") {
        let parameters = operations["get"]["parameters"].as_array().expect("a list");
        let required = parameters.iter().find(|it| it["required"] == true);
        let query = required.map(|it| format!("?{}=/", it["name"].as_str().expect("a name")));
        let answer = get(&door, &format!("{path}{}", query.unwrap_or_default()));
        assert_eq!(answer.status, 200, "{path}: {}", answer.body);
        assert!(page.contains(&format!("href=\"{path}")), "{path}");
    }
}

#[test]
fn what_cannot_be_answered_is_refused_with_the_commands_line_and_changes_nothing() {
    let cell = Cell::start(1);
    cell.ok(["mkdir", "-m", "0700", "/closed"]);
    cell.ok_with(["put", "-", "/closed/f"], b"x");
    let door = door(cell.masters[0].log());
    for (method, target, status, part) in [
        ("GET", "/api/v1/stat?path=/no", 404, "\"exit\":3"),
        ("GET", "/api/v1/stat?path=/closed/f", 403, "\"exit\":15"),
        ("GET", "/api/v1/ls?path=/closed", 403, "\"exit\":15"),
        ("GET", "/api/v1/explain?path=/closed/f", 403, "\"exit\":15"),
        ("GET", "/api/v1/explain?path=1.1", 400, "no path of this cell"),
        ("GET", "/api/v1/stat", 400, "path is not said"),
        ("GET", "/api/v1/ls?path=cairn://127.0.0.1:1/", 400, "no path of this cell"),
        ("GET", "/api/v1/ls?long=true", 400, "'long'"),
        ("GET", "/api/v1/stat?path=/&path=/d", 400, "said twice"),
        ("GET", "/api/v1/rm?path=/d", 404, "no such page"),
        ("GET", "/admin", 404, "no such page"),
        ("POST", "/api/v1/status", 405, "read only"),
        ("DELETE", "/api/v1/ls?path=/", 405, "read only"),
        ("PUT", "/metrics", 405, "read only"),
    ] {
        let answer = ask(&door, method, target);
        assert_eq!(answer.status, status, "{method} {target}: {}", answer.body);
        assert!(answer.body.contains(part), "{method} {target}: {}", answer.body);
    }
    let head = ask(&door, "HEAD", "/metrics");
    assert_eq!((head.status, head.body.as_str()), (200, ""));
    assert!(head.head.contains("content-length: "), "{}", head.head);
    assert_eq!(cell.ok(["ls", "/"]), "closed\n");
    // Nothing of it was told to whoever runs the server.
    let log = std::fs::read_to_string(cell.masters[0].log()).expect("reads");
    assert!(!log.contains("no path of this cell"), "{log}");
}

#[test]
fn a_file_of_too_many_chunks_is_refused_before_they_are_asked_for() {
    let cell = Cell::start_with(1, &cell::tiny_chunks(), None);
    let door = door(cell.masters[0].log());
    for (path, count) in [("/few", 600), ("/many", 1_025)] {
        cell.ok_with(["put", "-", path], &vec![7; count * 4096]);
    }
    for ask in ["stat?chunks=true&path", "explain?path"] {
        let told = get(&door, &format!("/api/v1/{ask}=/few")).json();
        assert_eq!(told[0]["chunks"].as_array().map(Vec::len), Some(600), "{ask}");
    }
    let asked = || {
        let metrics = get(&door, "/metrics").body;
        let of = |rpc: &str| {
            let start = format!("cairn_requests_total{{rpc=\"{rpc}\",outcome=\"done\"}}");
            sample(&metrics, &start).unwrap_or_default()
        };
        [of("Locate"), of("ListChunks")]
    };
    for (ask, command) in [("stat?chunks=true&path", "stat --chunks"), ("explain?path", "explain")]
    {
        let before = asked();
        let refused = get(&door, &format!("/api/v1/{ask}=/many"));
        assert_eq!(refused.status, 400, "{}", refused.body);
        let told = refused.json();
        let why = "it has more than 1024 chunks, and one answer tells of no more";
        assert_eq!(told["error"], why);
        assert_eq!(
            told["advice"],
            format!("'cairn {command} --json' on a command line tells of all")
        );
        let [located, listed] = asked();
        assert!(located - before[0] <= 6.0, "{ask}: {located} {before:?}");
        assert_eq!(listed, before[1], "{ask}: all the rest is not asked for at all");
        let words: Vec<&str> = command.split(' ').chain(["/many"]).collect();
        let told = cell.json(&words);
        assert_eq!(told["chunks"].as_array().map(Vec::len), Some(1_025), "{command}");
    }
}

#[test]
fn servers_say_when_they_are_ready_and_a_chosen_port_is_where_it_was_chosen() {
    let scratch = tempfile::TempDir::new().expect("a scratch directory");
    let [log, said] = ["log", "said"].map(|name| scratch.path().join(name));
    let start = |more: &[&str]| {
        let data = scratch.path().join("data").display().to_string();
        // Nobody is a master there.
        let arguments = ["chunkserver", "--data", &data, "--listen", "127.0.0.1:0"];
        let mut command = cairn(arguments.iter().chain(&["--master", "127.0.0.1:1"]).chain(more));
        let file = |path| std::fs::File::create(path).expect("creates");
        command.stderr(file(&log)).stdout(file(&said)).stdin(Stdio::null());
        KilledOnDrop(command.spawn().expect("starts"))
    };
    let lonely = start(&[]);
    let at = door(&log);
    assert_eq!(get(&at, "/healthz").body, "ok\n");
    let ready = get(&at, "/readyz");
    assert_eq!(ready.status, 503);
    assert!(ready.body.contains("no master has taken it in"), "{}", ready.body);
    assert_eq!(get(&at, "/api/v1/status").status, 404, "it has no cell to ask");
    drop(lonely);
    // The port that has just become free.
    let again = start(&["--http", &at]);
    assert_eq!(door(&log), at);
    drop(again);
    let off = start(&["--http", "none"]);
    await_output(&said, "ready");
    assert!(!std::fs::read_to_string(&log).expect("reads").contains("http"));
    drop(off);
    let cell = Cell::start(1);
    assert_eq!(get(&door(cell.masters[0].log()), "/readyz").status, 200);
    let joined = get(&door(cell.chunkservers[0].log()), "/readyz");
    assert!(joined.status == 200 && joined.body.contains("joined"), "{}", joined.body);
}

#[test]
fn of_several_masters_one_tells_of_the_cell_and_all_of_them_answer_for_it() {
    let mut cell = Cell::start_plan(1, |plan| plan.masters = MastersPlan::Group(3));
    let doors: Vec<String> = cell.masters.iter().map(|master| door(master.log())).collect();
    let in_charge = |body: &str| sample(body, "cairn_master_in_charge") == Some(1.0);
    let before = cell.in_charge().expect("one is");
    await_until("all to be ready", || doors.iter().all(|it| get(it, "/readyz").status == 200));
    for (number, door) in doors.iter().enumerate() {
        let told = get(door, "/metrics").body;
        obeys_the_rules(&told);
        assert_eq!(in_charge(&told), number == before, "{told}");
        assert_eq!(told.contains("cairn_cell_chunks "), number == before, "{told}");
        assert_eq!(get(door, "/api/v1/status").json()["file_count"], 0);
    }
    cell.masters[before].kill();
    await_until("another to tell of the cell", || {
        let others = doors.iter().enumerate().filter(|(number, _)| *number != before);
        let told: Vec<String> = others.map(|(_, door)| get(door, "/metrics").body).collect();
        told.iter().filter(|body| in_charge(body) && body.contains("cairn_cell_chunks ")).count()
            == 1
    });
    // One that waits for its group says so.
    let data = cell.local("new").display().to_string();
    let arguments =
        ["master", "--listen", "127.0.0.1:0", "--data", &data, "--peers", "x:1,y:1,z:1"];
    let mut command = cairn(arguments);
    let log = cell.local("new.log");
    command.stderr(std::fs::File::create(&log).expect("creates")).stdout(Stdio::null());
    let _waiting = KilledOnDrop(command.spawn().expect("starts"));
    let ready = get(&door(&log), "/readyz");
    assert!(ready.status == 503 && ready.body.contains("member of a group"), "{}", ready.body);
}

#[test]
fn an_address_that_is_none_or_taken_is_refused_at_the_start() {
    let scratch = tempfile::TempDir::new().expect("a scratch directory");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let taken = taken.local_addr().map(|at| (taken, at.to_string())).expect("is bound");
    for (http, code, part) in [("nonsense", 2, "'nonsense'"), (&taken.1, 12, "cannot listen on")] {
        let data = scratch.path().join("data").display().to_string();
        let start = ["master", "--data", &data, "--listen", "127.0.0.1:0", "--http", http];
        let done = run(cairn(start), b"");
        assert_eq!(done.code(), code, "{}", done.stderr);
        assert!(done.stderr.contains(part), "{}", done.stderr);
        assert!(!scratch.path().join("data").exists(), "no cell was founded");
    }
}

#[test]
fn status_and_servers_say_where_the_doors_are() {
    let cell = Cell::start(2);
    let wanted = [&cell.chunkservers[0], &cell.chunkservers[1]].map(|server| {
        let door = door(server.log());
        (server.address().to_owned(), door)
    });
    // Heartbeats tell of them.
    let told = || {
        let mut told: Vec<(String, String)> = Vec::new();
        for server in cell.json(&["status"])["servers"].as_array().expect("servers") {
            let text = |name: &str| server[name].as_str().unwrap_or_default().to_owned();
            told.push((text("address"), text("http")));
        }
        told
    };
    await_until("each server's door is told", || {
        let told = told();
        wanted.iter().all(|server| told.contains(server))
    });
    let master = door(cell.masters[0].log());
    await_until("the master's too", || cell.json(&["status"])["master"]["http"] == master.as_str());
    assert!(cell.ok(["status"]).contains(&format!(", http {master}\n")));
    let lines = cell.ok(["servers"]);
    for (address, door) in &wanted {
        let line = lines.lines().find(|line| line.starts_with(address.as_str()));
        assert!(line.is_some_and(|line| line.ends_with(door.as_str())), "{lines}");
    }
    let servers = cell.ok(["servers", "--json"]);
    assert!(wanted.iter().all(|(_, door)| servers.contains(&format!("\"http\":\"{door}\""))));
}

#[test]
fn every_command_of_the_guides_page_is_answered() {
    let cell = Cell::start(2);
    let door = door(cell.masters[0].log());
    let page = include_str!("../../../docs/guide/metrics.md");
    let block = page.split("```sh\n").nth(1).and_then(|rest| rest.split("```").next());
    let mut count = 0;
    for line in block.expect("a block of commands").lines() {
        let target = line.split("http://127.0.0.1:8400").nth(1).expect("an address");
        let target = target.split(['\'', ' ']).next().expect("a path");
        let answer = get(&door, target);
        assert_eq!(answer.status, 200, "{target}: {}", answer.body);
        count += 1;
    }
    assert!(count > 10, "{count}");
    // Each metric of the page is told by one of the servers.
    cell.ok_with(["put", "-", "/f"], b"x");
    let told = [cell.masters[0].log(), cell.chunkservers[0].log()];
    let told = told.map(|log| get(&self::door(log), "/metrics").body).concat();
    let names = page.split('`').filter(|part| part.starts_with("cairn_"));
    for name in names.map(|part| part.split(['{', ' ', '=', ')']).next().expect("a name")) {
        let is_told = told.contains(&format!("# TYPE {name} "));
        // Of jobs there are none.
        assert!(is_told || name == "cairn_cell_jobs", "{name} is told by nobody");
    }
}

/// The most memory that a process has taken so far.
fn resident_max(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).expect("as ever");
    let kib = line.split_whitespace().nth(1).and_then(|text| text.parse::<u64>().ok());
    kib.expect("a number") << 10
}

#[test]
fn readers_who_never_pause_keep_nobody_out_and_are_answered() {
    let cell = Cell::start(1);
    let door = door(cell.masters[0].log());
    // As many as there may be, each with more to ask whenever it is answered: all are busy.
    let asks = b"GET /api/v1/status HTTP/1.1\r\nHost: x\r\n\r\n".repeat(200);
    let mut readers: Vec<_> = (0..32)
        .map(|_| {
            let mut peer = dial(&door);
            peer.write_all(&asks).expect("it is open");
            peer
        })
        .collect();
    for peer in &mut readers {
        let mut start = [0; 12];
        peer.read_exact(&mut start).expect("each is answered");
        assert_eq!(&start, b"HTTP/1.1 200");
    }
    let answer = get(&door, "/healthz");
    assert_eq!((answer.status, answer.body.as_str()), (200, "ok\n"));
    assert_eq!(get(&door, "/metrics").status, 200);
    // The oldest has gone for that, and nobody else.
    let mut rest = Vec::new();
    let oldest = readers[0].read_to_end(&mut rest);
    assert!(oldest.is_err() || rest.len() < 200 * 100, "{} bytes more", rest.len());
    for peer in &mut readers[1..] {
        peer.read_exact(&mut [0; 1000]).expect("it is answered on");
    }
}

#[test]
fn hostile_clients_of_the_door_are_felt_by_nobody_else() {
    let cell = Cell::start(2);
    let doors = [door(cell.masters[0].log()), door(cell.chunkservers[0].log())];
    let pids = [&cell.masters[0], &cell.chunkservers[0]].map(|it| it.pid().expect("it runs"));
    let before = pids.map(resident_max);
    let bytes: Vec<u8> = (0..700_000_u32).map(|at| (at % 251) as u8).collect();
    cell.ok_with(["put", "-", "/f"], &bytes);
    for door in &doors {
        // Garbage, and what is almost a request.
        for garbage in [
            &b"\x00\xff\x16\x03\x01garbage\r\n\r\n"[..],
            b"GET / HTTP/9.9\r\n\r\n",
            b"GET /../../etc/passwd HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
            b"GET / HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\n",
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
            b"POST /metrics HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n",
        ] {
            let answer = exchange(door, garbage);
            assert!(!answer.body.contains("root:"), "{}", answer.body);
            assert_ne!(answer.status, 200, "{}", String::from_utf8_lossy(garbage));
        }
        // A head without end, and one with more headers than anybody has.
        let long = format!("GET / HTTP/1.1\r\nX: {}\r\n\r\n", "y".repeat(1 << 20));
        assert!([0, 431].contains(&exchange(door, long.as_bytes()).status));
        let many = format!("GET / HTTP/1.1\r\n{}\r\n", "A: b\r\n".repeat(1000));
        assert!([0, 431].contains(&exchange(door, many.as_bytes()).status));
    }
    // 200 connections to each that say a little, and then nothing: they keep nobody out.
    let slow = |door: &String| {
        let mut all = Vec::new();
        for _ in 0..200 {
            let mut peer = dial(door);
            let _ = peer.write_all(b"GET /metrics HTTP/1.1\r\nHo");
            all.push(peer);
        }
        all
    };
    let held: Vec<_> = doors.iter().map(slow).collect();
    for door in &doors {
        let began = Instant::now();
        assert_eq!(get(door, "/healthz").status, 200);
        assert_eq!(get(door, "/metrics").status, 200);
        assert!(began.elapsed() < PATIENCE);
    }
    // Many who ask and do not read.
    let deaf: Vec<_> = (0..60)
        .map(|_| {
            let mut peer = dial(&doors[0]);
            let _ = peer.write_all(&b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n".repeat(100));
            peer
        })
        .collect();
    for _ in 0..5 {
        assert_eq!(cell.ok_with(["cat", "/f"], b""), bytes);
        cell.ok_with(["put", "-f", "-", "/g"], &bytes);
        assert_eq!(cell.ok_with(["cat", "/g"], b""), bytes);
    }
    // Each of the slow is sent away in its time, by a close or by a newcomer.
    for mut peer in held.into_iter().flatten() {
        let mut rest = Vec::new();
        let ended = peer.set_read_timeout(Some(PATIENCE + Duration::from_secs(10)));
        ended.expect("can be set");
        let told = peer.read_to_end(&mut rest);
        let is_over = told
            .as_ref()
            .map_or_else(|it| it.kind() == std::io::ErrorKind::ConnectionReset, |_| true);
        assert!(is_over, "{told:?}");
    }
    drop(deaf);
    for (pid, before) in pids.into_iter().zip(before) {
        let more = resident_max(pid).saturating_sub(before);
        assert!(more < 96 << 20, "{more} more bytes of memory");
    }
    assert_eq!(get(&doors[0], "/readyz").status, 200);
}
