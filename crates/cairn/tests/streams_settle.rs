//! Settling on real processes (R45): what was appended in many small pieces stands in few chunks
//! after a while, the same bytes for old readers and new ones, whatever is killed meanwhile; and
//! what nobody needs any more goes from the disks.

mod cell;

use cairn_client::{Cell as Client, Options, Stream};
use cairn_types::CellPath;
use cell::{Cell, SETTINGS, await_until, run};
use std::path::Path;
use std::time::Duration;

const ROUNDS: usize = 6;
const PRODUCERS: usize = 4;

/// A cell that throws away what it need not keep soon, and settles nothing yet.
fn cell() -> Cell {
    let settings = format!("{SETTINGS}trash_ms = 1000\nsettle_rate = 0\n");
    let cell = Cell::start_with(4, &settings, None);
    cell.ok(["create", "--layout", "stream", "/s"]);
    cell
}

/// Each producer opens anew and appends some lines, several times: a chunk for each opening.
fn append_in_rounds(cell: &Cell, file: &str) {
    for round in 0..ROUNDS {
        for nth in 0..PRODUCERS {
            let name = format!("p{nth}");
            let line =
                |number: usize| format!("{name} {round} {number} {}\n", "x".repeat(number * 7));
            let lines: String = (0..40).map(line).collect();
            let command = cell.command(["append", "--producer", &name, file]);
            let done = run(command, lines.as_bytes());
            assert!(done.status.success(), "{}", done.stderr);
        }
    }
}

/// How many extents a stream has, and how many chunks, once all of it is settled.
fn stat(cell: &Cell, file: &str) -> (u64, usize, bool) {
    let told = cell.json(&["stat", "--chunks", file]);
    let chunks = told["chunks"].as_array().map_or(0, Vec::len);
    let settles = told["settles"].as_bool().expect("it tells");
    (told["extents"].as_u64().expect("a number"), chunks, settles)
}

/// Replicas that lie in the servers' directories.
fn replicas(at: &Path) -> usize {
    let Ok(entries) = std::fs::read_dir(at) else { return 0 };
    let each = entries.flatten().map(|entry| {
        let path = entry.path();
        let is_replica = path.extension().is_some_and(|it| it == "chunk")
            && path.iter().any(|part| part == "chunks");
        if path.is_dir() { replicas(&path) } else { usize::from(is_replica) }
    });
    each.sum()
}

async fn client(address: &str) -> Client {
    let options = Options { deadline: Duration::from_secs(50), ..Options::default() };
    Client::connect(address, options).await.expect("connects")
}

/// All bytes of a stream, frames of its records included.
async fn all_of(stream: &Stream) -> Vec<u8> {
    let (mut reader, mut bytes) = (stream.bytes(0), Vec::new());
    while let Some(piece) = reader.next().await.expect("reads") {
        bytes.extend_from_slice(&piece);
    }
    bytes
}

#[test]
fn many_small_pieces_become_few_chunks_and_nobody_reads_anything_else() {
    let mut cell = cell();
    append_in_rounds(&cell, "/s");
    let text = cell.ok(["cat", "/s"]);
    let (extents, chunks, _) = stat(&cell, "/s");
    let made = ROUNDS * PRODUCERS;
    assert!(extents as usize >= made && chunks >= made, "{extents} extents, {chunks} chunks");
    cell.ok(["snapshot", "/s", "/copy"]);
    let runtime = tokio::runtime::Runtime::new().expect("starts");
    let address = cell.address().to_owned();
    // A reader that knows where all of it stands now.
    let old = runtime.block_on(async {
        let client = client(&address).await;
        let path = CellPath::parse("/s").expect("a path");
        let stream = client.open_stream(&path).await.expect("opens");
        let bytes = all_of(&stream).await;
        (stream, bytes)
    });
    cell.ok(["settings", "settle_rate=16M", "settle_after_ms=500"]);
    cell.chunkservers[0].kill();
    let few = |cell: &Cell, file: &str| {
        let (extents, chunks, settles) = stat(cell, file);
        !settles && extents <= 6 && chunks as u64 <= extents
    };
    await_until("the stream is settled with a server away", || few(&cell, "/s"));
    // The next master goes on where this one was. (One that is killed while a chunk that is made
    // waits for its record leaves replicas that it cannot tell from those of a longer log.)
    cell.ok(["settings", "settle_rate=0"]);
    let is_at_work = |file: &str| cell.ok(["explain", file]).contains("settling: ");
    await_until("nothing is under way", || !["/s", "/copy"].into_iter().any(is_at_work));
    cell.masters[0].kill();
    cell.masters[0].restart().expect("starts again");
    cell.chunkservers[0].restart().expect("starts again");
    cell.ok(["settings", "settle_rate=16M"]);
    await_until("the copy is settled, too", || few(&cell, "/copy"));
    for file in ["/s", "/copy"] {
        assert!(cell.ok(["cat", file]) == text, "the same bytes in {file}");
    }
    let read = runtime.block_on(all_of(&old.0));
    assert!(read == old.1, "and for who knew where they were");
    let explained = cell.ok(["explain", "/s"]);
    assert!(explained.contains("settled: "), "{explained}");
    // Of the pieces nothing is left on any disk; and of the rest nothing once it is deleted.
    let wanted = 3 * (stat(&cell, "/s").1 + stat(&cell, "/copy").1);
    let scratch = cell.scratch().to_owned();
    assert_eq!(cell.ok(["lost"]), "0 lost chunks\n");
    await_until("what nobody needs is gone", || replicas(&scratch) <= wanted);
    await_until("all of it is whole", || cell.run(["fsck"]).status.success());
    // It goes on as before.
    append_in_rounds(&cell, "/s");
    assert!(cell.ok(["cat", "/s"]).starts_with(&text), "offsets stay");
    await_until("that is settled, too", || few(&cell, "/s"));
    assert_eq!(cell.ok(["cat", "/s"]).lines().count(), 2 * text.lines().count());
}

#[test]
fn small_runs_of_ship_leave_few_chunks_and_a_job_tells_what_is_left() {
    let cell = cell();
    cell.ok(["settings", "settle_rate=16M", "settle_after_ms=600000"]);
    let logs = cell.local("logs");
    std::fs::create_dir(&logs).expect("made");
    let (log, directory) = (logs.join("app.log"), logs.display().to_string());
    let mut text = String::new();
    for run in 0..30 {
        text += &(0..20).map(|line| format!("run {run} line {line}\n")).collect::<String>();
        std::fs::write(&log, &text).expect("written");
        cell.ok(["ship", "--once", &directory, "/s"]);
    }
    // While it grows, the last few stay, and it is told that they will not.
    await_until("most of it is settled", || stat(&cell, "/s").1 < 16);
    let told = cell.ok(["--json", "jobs"]);
    let jobs = told.lines().filter_map(|it| serde_json::from_str::<serde_json::Value>(it).ok());
    let job = jobs.into_iter().find(|job| job["kind"] == "settle").expect("it is told");
    assert_eq!((&job["id"], &job["unit"]), (&"settle".into(), &"bytes".into()));
    assert!(cell.ok(["jobs"]).contains("settle: "), "people, too");
    cell.ok(["settings", "settle_after_ms=200"]);
    await_until("all of it is settled", || !stat(&cell, "/s").2);
    let (extents, chunks, _) = stat(&cell, "/s");
    assert!(extents <= 6 && chunks <= 6, "{extents} extents, {chunks} chunks");
    assert!(cell.ok(["cat", "/s"]) == text);
    let told = cell.ok(["--json", "jobs"]);
    assert!(!told.contains("\"settle\""), "nothing is left to do: {told}");
    let said = cell.ok(["stat", "--chunks", "/s"]);
    assert!(said.contains("nothing more is to be put together"), "{said}");
}
