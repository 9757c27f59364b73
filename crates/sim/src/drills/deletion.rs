//! Drills of what is deleted: it goes when its time has come, and nothing else does.

use super::drill::Drill;
use super::script::DrillScript;
use crate::checkers::Verdict;
use crate::operations::{ClientOp, OpOutput, OpTicket, path};
use bytes::Bytes;
use cairn_env_sim::DiskImage;
use cairn_protocol::{ForgetServer, Request};
use cairn_types::planted::Rule;
use cairn_types::{ChunkHandle, Content, EntryId, Term};
use std::time::Duration;

pub(super) const DRILLS: &[Drill] = &[
    Drill::of_rule(
        Rule::R3,
        "a backup that knows a later chunk and not the one before it throws neither away",
        6,
        a_backup_that_knows_a_later_chunk_and_not_the_one_before_it_throws_neither_away,
    ),
    Drill::of_rule(
        Rule::R33,
        "replicas of a chunk in the making are told of, and stay",
        3,
        replicas_of_a_chunk_in_the_making_are_told_of_and_stay,
    ),
    Drill::of_rule(
        Rule::GB2,
        "a server comes back with a stale replica of a chunk that lacks one, and keeps it",
        4,
        a_stale_replica_stays_while_its_chunk_lacks_one,
    ),
    Drill::of_rule(
        Rule::GB4,
        "a server that was forgotten comes back with what was purged meanwhile, and keeps it",
        4,
        a_server_that_was_forgotten_keeps_what_was_purged_meanwhile,
    ),
    Drill::of_bug(
        "what is deleted goes from all disks, and what is brought back stays on all",
        4,
        what_is_deleted_goes_from_all_disks_and_what_is_brought_back_stays_on_all,
    ),
    Drill::of_bug(
        "a deletion that was told twice is purged at once, and not what was made anew",
        3,
        a_deletion_that_was_told_twice_is_purged_at_once_and_not_what_was_made_anew,
    ),
    Drill::of_bug(
        "a server that was away while a file was purged gives its replica up when it is back",
        4,
        a_server_that_was_away_while_a_file_was_purged_gives_its_replica_up_when_it_is_back,
    ),
    Drill::of_bug(
        "what is deleted makes room on disks that have none left for a line of a journal",
        3,
        what_is_deleted_makes_room_on_disks_that_have_none_left_for_a_line_of_a_journal,
    ),
];

/// Longer than it takes until a server that is silent is dead, and what it could spare is gone.
const LONG: Duration = Duration::from_secs(12);
const BYTES: &[u8] = b"bytes of a file";

/// Deletes it; its hidden name.
pub(super) fn delete(script: &mut DrillScript, at: &str) -> Result<String, String> {
    match script.done(1, ClientOp::Delete { path: path(at), recursive: true })? {
        OpOutput::Hidden(hidden) => Ok(hidden),
        other => Err(format!("deleting {at}: {other:?}")),
    }
}

/// A file with a chunk.
fn written(script: &mut DrillScript, at: &str) -> Result<(EntryId, ChunkHandle), String> {
    let file = script.create(at, Content::Bytes)?;
    script.write(0, file, 0, BYTES)?;
    Ok((file, script.chunk(file, 0)?))
}

fn reads_as_written(script: &mut DrillScript, file: EntryId) -> Verdict {
    let bytes = script.read(2, file, 0, 100)?;
    if bytes == BYTES { Ok(()) } else { Err(format!("it reads as {bytes:?}")) }
}

fn until_nobody_holds(script: &mut DrillScript, chunk: ChunkHandle) -> Verdict {
    script.until("all replicas are gone", |script| script.holders(chunk).is_empty())
}

/// The first of two chunks is in the making while the second is logged and a backup of the master
/// taken; then the first is logged, too, and written to. The backup comes back: the chunk that it
/// does not know is older than one that it knows, and no garbage (R3).
fn a_backup_that_knows_a_later_chunk_and_not_the_one_before_it_throws_neither_away(
    script: &mut DrillScript,
) -> Verdict {
    let Some((first, second, writing, backup)) = later_logged_first(script)? else {
        return Err("the first chunk is logged before the second, each time".to_owned());
    };
    script.release();
    script.wait(writing).map_err(|why| format!("the first is not written: {why:?}"))?;
    let [lost, known] = [script.chunk(first, 0)?, script.chunk(second, 0)?];
    if lost > known {
        return Err("the chunks were made in the other order".to_owned());
    }
    script.restore_master(&backup);
    script.pass(Duration::from_secs(8));
    let gone = |script: &DrillScript| script.holders(lost).is_empty();
    if gone(script) {
        return Err("a chunk that a later log knows is gone".to_owned());
    }
    // Servers that were told of what the backup lacks refuse it until a person has it go on.
    let master = script.nodes().master;
    script.kill(master);
    script.sim.observer.borrow_mut().recover_past = Some(Term::new(2));
    script.restart(master)?;
    script.pass(Duration::from_secs(8));
    if gone(script) {
        return Err("a chunk that a lost history knows is gone".to_owned());
    }
    reads_as_written(script, second)
}

/// Files and the first one's write, where the second's chunk is logged before the first's, which
/// was given out before it; and a backup of the master that was taken then.
type LaterLoggedFirst = (EntryId, EntryId, OpTicket, DiskImage);

fn later_logged_first(script: &mut DrillScript) -> Result<Option<LaterLoggedFirst>, String> {
    for attempt in 0..8 {
        let name = |which: &str| format!("/{which}-{attempt}");
        let first = script.create(&name("first"), Content::Bytes)?;
        let second = script.create(&name("second"), Content::Bytes)?;
        script.stall(|seen| matches!(seen.request, Request::Raise(raise) if raise.create));
        let bytes = Bytes::from_static(BYTES);
        let write = ClientOp::Write { file: first, offset: 0, bytes, sync: false };
        let writing = script.ask(1, write);
        script.until_stalled()?;
        // Logged at other servers, while the first waits for one of its own.
        script.write(0, second, 0, BYTES)?;
        let backup = script.backup_of_master();
        if script.chunk(first, 0).is_err() {
            return Ok(Some((first, second, writing, backup)));
        }
        // They had one server in common.
        script.release();
        script.wait(writing).map_err(|why| format!("the first is not written: {why:?}"))?;
    }
    Ok(None)
}

/// Two of three servers have made their replicas of a new chunk and tell of them, while the order
/// to the third is under way: no record knows of the chunk, and it is no garbage (R33).
fn replicas_of_a_chunk_in_the_making_are_told_of_and_stay(script: &mut DrillScript) -> Verdict {
    let file = script.create("/f", Content::Bytes)?;
    script.stall(|seen| matches!(seen.request, Request::Raise(raise) if raise.create));
    let bytes = Bytes::from_static(BYTES);
    let write = ClientOp::Write { file, offset: 0, bytes, sync: false };
    let writing = script.ask(1, write);
    script.until_stalled()?;
    // Two heartbeats, and less than the patience of who makes the chunk.
    script.pass(Duration::from_millis(600));
    script.release();
    script.wait(writing).map_err(|why| format!("it is not written: {why:?}"))?;
    reads_as_written(script, file)
}

/// Two files are deleted; one is brought back in time. The other's replicas go from all disks.
fn what_is_deleted_goes_from_all_disks_and_what_is_brought_back_stays_on_all(
    script: &mut DrillScript,
) -> Verdict {
    let (_, gone) = written(script, "/gone")?;
    let (back, kept) = written(script, "/back")?;
    delete(script, "/gone")?;
    delete(script, "/back")?;
    script.pass(Duration::from_secs(6));
    if script.holders(gone).is_empty() {
        return Err("a file went before its time".to_owned());
    }
    script.done(1, ClientOp::Undelete { path: path("/back") })?;
    script.done(1, ClientOp::Stat { path: path("/back") })?;
    until_nobody_holds(script, gone)?;
    script.pass(Duration::from_secs(10));
    if script.holders(kept).len() < 3 {
        return Err("what was brought back has lost replicas".to_owned());
    }
    reads_as_written(script, back)
}

fn a_deletion_that_was_told_twice_is_purged_at_once_and_not_what_was_made_anew(
    script: &mut DrillScript,
) -> Verdict {
    script.done(1, ClientOp::MakeDirectory { path: path("/d") })?;
    let (_, old) = written(script, "/d/f")?;
    let hidden = delete(script, "/d")?;
    script.done(1, ClientOp::MakeDirectory { path: path("/d") })?;
    let (anew, kept) = written(script, "/d/f")?;
    delete(script, &hidden)?;
    until_nobody_holds(script, old)?;
    script.pass(Duration::from_secs(15));
    if script.holders(kept).len() < 3 {
        return Err("what was made anew has lost replicas".to_owned());
    }
    reads_as_written(script, anew)
}

/// It is away while the file is purged, and the master is started anew before it comes back: what
/// was purged is in the log.
fn a_server_that_was_away_while_a_file_was_purged_gives_its_replica_up_when_it_is_back(
    script: &mut DrillScript,
) -> Verdict {
    let (_, chunk) = written(script, "/f")?;
    let away = script.holders(chunk)[0];
    script.kill(away);
    delete(script, "/f")?;
    script.until("the others gave it up", |script| script.holders(chunk) == [away])?;
    let master = script.nodes().master;
    script.kill(master);
    script.restart(master)?;
    written(script, "/other")?;
    script.restart(away)?;
    until_nobody_holds(script, chunk)
}

/// A member is away while its chunk is written to. When it is back its replica is stale, and two
/// are good; the third is on its way to a server that has none, and is held up. Before it is there
/// the stale one is all that is left should both others be lost.
fn a_stale_replica_stays_while_its_chunk_lacks_one(script: &mut DrillScript) -> Verdict {
    let (file, chunk) = written(script, "/f")?;
    let primary = script.primary(chunk)?;
    let away = script.holders(chunk).into_iter().find(|node| *node != primary);
    let away = away.ok_or("nobody but the primary has a replica")?;
    script.stall(|seen| matches!(seen.request, Request::CloneChunk(_)));
    script.kill(away);
    script.write(0, file, 0, BYTES)?;
    script.restart(away)?;
    script.pass(Duration::from_secs(3));
    let goes_on_without_it = script.set_size(chunk) == 2;
    if !goes_on_without_it || !script.holders(chunk).contains(&away) {
        return Err(format!(
            "a set of {} goes on, and {:?} have replicas",
            script.set_size(chunk),
            script.holders(chunk)
        ));
    }
    script.release();
    reads_as_written(script, file)
}

/// A server is away while a file is purged, and a person forgets it. When it comes back, nobody
/// knows whose past it has: what it holds of a chunk that is no more is a person's to let go of
/// (`cairn lost`).
fn a_server_that_was_forgotten_keeps_what_was_purged_meanwhile(
    script: &mut DrillScript,
) -> Verdict {
    let (_, chunk) = written(script, "/f")?;
    let away = script.holders(chunk)[0];
    script.kill(away);
    delete(script, "/f")?;
    script.until("the others gave it up", |script| script.holders(chunk) == [away])?;
    let master = script.nodes().master;
    script.kill(master);
    script.restart(master)?;
    script.pass(LONG);
    let server = script.sim.observer.borrow().servers.server_at(away).ok_or("nobody knows it")?;
    let forgotten = script.probe(master, ForgetServer { server }, Bytes::new());
    forgotten.map_err(|failure| failure.to_string())?;
    script.restart(away)?;
    script.pass(LONG);
    if script.holders(chunk) == [away] {
        Ok(())
    } else {
        Err("what a server has of a past that nobody can tell is thrown away".to_owned())
    }
}

/// Each server is started on a full disk, so that nothing is written to its journal any more, or
/// fills up while it runs.
fn what_is_deleted_makes_room_on_disks_that_have_none_left_for_a_line_of_a_journal(
    script: &mut DrillScript,
) -> Verdict {
    let files = ["/a", "/b", "/c"].map(|at| written(script, at));
    let chunks = files.into_iter().collect::<Result<Vec<_>, _>>()?;
    let servers = script.nodes().servers.clone();
    script.pass(Duration::from_secs(2));
    for (at, server) in servers.iter().enumerate() {
        let has_begun = at == 0;
        if !has_begun {
            script.kill(*server);
            script.fill_disks(*server);
            script.restart(*server)?;
        }
        script.fill_disks(*server);
    }
    let full: Vec<u64> = servers.iter().map(|server| script.disk_used(*server)).collect();
    script.pass(Duration::from_secs(2));
    let hidden = delete(script, "/a")?;
    delete(script, &hidden)?;
    until_nobody_holds(script, chunks[0].1)?;
    script.until("all disks have room", |script| {
        servers.iter().zip(&full).all(|(server, full)| script.disk_used(*server) < *full)
    })?;
    chunks[1..].iter().try_for_each(|(file, _)| reads_as_written(script, *file))
}
