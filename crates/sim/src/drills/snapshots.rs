//! Drills of snapshots: what one file's writers do is never seen in another's bytes (R32, R34).

use super::deletion::delete;
use super::drill::Drill;
use super::script::DrillScript;
use super::streams::{committed, open, reads, send, stream};
use crate::checkers::Verdict;
use crate::operations::{ClientOp, OpOutput, path};
use cairn_protocol::{ErrorCode, Request};
use cairn_types::planted::Rule;
use cairn_types::{Content, EntryId};
use std::time::Duration;

pub(super) const DRILLS: &[Drill] = &[
    Drill::of_rule(
        Rule::R32,
        "a file is written to after a snapshot, and its copy after that",
        3,
        a_file_and_then_its_copy_are_written_to,
    ),
    Drill::of_rule(
        Rule::R32,
        "an append after a snapshot does not close the chunk that the copy has",
        3,
        an_append_does_not_close_what_the_copy_has,
    ),
    Drill::of_rule(
        Rule::R34,
        "a write under a lease of before comes after a snapshot",
        3,
        a_write_under_an_old_lease_comes_late,
    ),
    Drill::of_rule(
        Rule::R34,
        "a write is under way while a snapshot is taken",
        3,
        a_write_is_under_way,
    ),
    Drill::of_rule(
        Rule::R34,
        "a snapshot is asked for when its servers are away, and nobody asks for anything else",
        3,
        a_snapshot_when_its_servers_are_away,
    ),
    Drill::of_rule(
        Rule::R16,
        "a write that only its primary has is done again after a snapshot",
        3,
        a_write_that_one_replica_has_is_done_again,
    ),
    Drill::of_rule(
        Rule::R42,
        "a copy of a stream is purged while its producer writes, and then a server dies",
        4,
        a_copy_of_a_stream_is_purged_while_its_producer_writes,
    ),
];

/// Takes a snapshot of a file; gives the copy.
fn snapshot(script: &mut DrillScript, from: &str, to: &str) -> Result<EntryId, String> {
    match script.done(2, ClientOp::Snapshot { from: path(from), to: path(to) })? {
        OpOutput::Entry(entry) => Ok(entry.id),
        other => Err(format!("a snapshot is answered by {other:?}")),
    }
}

fn holds(script: &mut DrillScript, file: EntryId, bytes: &[u8]) -> Verdict {
    holds_for(script, 1, file, bytes)
}

/// Each client prefers another replica.
fn holds_for(script: &mut DrillScript, client: usize, file: EntryId, bytes: &[u8]) -> Verdict {
    let given = script.read(client, file, 0, bytes.len() as u64)?;
    if given == bytes {
        return Ok(());
    }
    let (given, meant) = (given.escape_ascii(), bytes.escape_ascii());
    Err(format!("file {} holds \"{given}\" and not \"{meant}\"", file.short()))
}

/// A file has a lease when all servers go. A snapshot of it ends by itself, refused, and leaves
/// nothing; when they are back there is one.
fn a_snapshot_when_its_servers_are_away(script: &mut DrillScript) -> Verdict {
    let file = script.create("/f", Content::Bytes)?;
    script.write(0, file, 0, b"first")?;
    let servers = script.nodes().servers.clone();
    servers.iter().for_each(|server| script.kill(*server));
    let refused = script.refused(2, ClientOp::Snapshot { from: path("/f"), to: path("/g") })?;
    if refused.code != ErrorCode::Busy || !refused.message.contains("nothing has changed") {
        return Err(format!("the snapshot is refused so: {refused}"));
    }
    for server in servers {
        script.restart(server)?;
    }
    script.refused(1, ClientOp::Stat { path: path("/g") })?;
    script.pass(Duration::from_secs(5));
    let copy = snapshot(script, "/f", "/g")?;
    holds(script, copy, b"first")
}

/// Each of two files gets what was written to it, and the other nothing of that.
fn a_file_and_then_its_copy_are_written_to(script: &mut DrillScript) -> Verdict {
    let file = script.create("/f", Content::Bytes)?;
    script.write(0, file, 0, b"first")?;
    let copy = snapshot(script, "/f", "/g")?;
    let shared = script.chunk(file, 0)?;
    script.write(0, file, 0, b"newer")?;
    holds(script, copy, b"first")?;
    if script.chunk(copy, 0)? != shared {
        return Err("the copy lost the chunk that it had".to_owned());
    }
    script.write(1, copy, 0, b"other")?;
    holds(script, copy, b"other")?;
    holds(script, file, b"newer")
}

/// The records of two files part where the snapshot was taken.
fn an_append_does_not_close_what_the_copy_has(script: &mut DrillScript) -> Verdict {
    let file = script.create("/f", Content::Bytes)?;
    let first = script.append(0, file, b"first")?;
    let copy = snapshot(script, "/f", "/g")?;
    let (one, other) = (script.append(0, file, b"one")?, script.append(1, copy, b"other")?);
    let behind = first + b"first".len() as u64;
    if (one, other) != (behind, behind) {
        return Err(format!("appended at {one} and {other}, behind {behind}"));
    }
    holds(script, file, b"firstone")?;
    holds(script, copy, b"firstother")
}

/// A client has a lease's grant, and orders a write by it when the snapshot has been taken: it is
/// refused, because the lease was taken back.
fn a_write_under_an_old_lease_comes_late(script: &mut DrillScript) -> Verdict {
    let file = script.create("/f", Content::Bytes)?;
    script.write(0, file, 0, b"first")?;
    let grant = script.grant(file)?;
    let servers = script.set_of(&grant).all();
    let late = script.data(1, 0, b"after");
    script.push(&servers, &late)?;
    let copy = snapshot(script, "/f", "/g")?;
    script.order_write(&grant, &late);
    script.pass(Duration::from_millis(200));
    holds(script, copy, b"first")
}

/// A write is on its way to a secondary when the snapshot is asked for, and arrives when that has
/// been answered: the copy has it or has it not, and does not change any more.
fn a_write_is_under_way(script: &mut DrillScript) -> Verdict {
    let file = script.create("/f", Content::Bytes)?;
    script.write(0, file, 0, b"first")?;
    let grant = script.grant(file)?;
    let set = script.set_of(&grant);
    let secondary = set.secondaries[0];
    let late = script.data(1, 0, b"after");
    script.push(&set.all(), &late)?;
    script.stall(move |seen| seen.to == secondary && matches!(seen.request, Request::Forward(_)));
    script.order_write(&grant, &late);
    script.until_stalled()?;
    let copy = snapshot(script, "/f", "/g")?;
    let before = script.read(1, copy, 0, 5)?;
    script.release();
    script.pass(Duration::from_secs(1));
    let bytes = before.to_vec();
    for client in 0..script.nodes().clients.len() {
        holds_for(script, client, copy, &bytes)?;
    }
    script.write(0, file, 0, b"newer")?;
    holds(script, copy, &bytes)
}

/// A primary has applied a write that reached nobody else, and dies. When it is back a snapshot is
/// taken, and the write done again, in the file. Who reads the copy is given the same from then on,
/// with that server or without.
fn a_write_that_one_replica_has_is_done_again(script: &mut DrillScript) -> Verdict {
    let file = script.create("/f", Content::Bytes)?;
    script.write(0, file, 0, b"first")?;
    let grant = script.grant(file)?;
    let set = script.set_of(&grant);
    let late = script.data(1, 0, b"after");
    script.push(&set.all(), &late)?;
    set.secondaries.iter().for_each(|to| script.part(set.primary, *to));
    script.order_write(&grant, &late);
    script.pass(Duration::from_millis(200));
    script.kill(set.primary);
    script.restart(set.primary)?;
    set.secondaries.iter().for_each(|to| script.heal(set.primary, *to));
    let copy = snapshot(script, "/f", "/g")?;
    script.write(0, file, 0, b"after")?;
    let given = script.read(1, copy, 0, 5)?.to_vec();
    script.kill(set.primary);
    script.pass(Duration::from_secs(15));
    for client in 0..script.nodes().clients.len() {
        holds_for(script, client, copy, &given)?;
    }
    holds(script, file, b"after")
}

/// The chunk that the producer writes stays his, and is sealed and given back what it lacks once
/// one of its servers is dead.
fn a_copy_of_a_stream_is_purged_while_its_producer_writes(script: &mut DrillScript) -> Verdict {
    let file = stream(script)?;
    let producer = open(script, 0, file)?;
    let first = send(script, 0, &producer, (1, b"one,"));
    committed(script, first)?;
    snapshot(script, "/stream", "/copy")?;
    let hidden = delete(script, "/copy")?;
    // Once more: it goes at once.
    delete(script, &hidden)?;
    // Nothing tells of it: the replicas stay.
    script.pass(Duration::from_secs(20));
    let second = send(script, 0, &producer, (2, b"two,"));
    committed(script, second)?;
    let chunk = script.chunk(file, 0)?;
    let holders = script.holders(chunk);
    script.kill(holders[0]);
    script.until("it is sealed", move |script| script.is_closed(chunk))?;
    script.until("it has three again", move |script| {
        script.holders(chunk).iter().filter(|at| script.is_alive(**at)).count() == 3
    })?;
    reads(script, 2, file, b"one,two,")
}
