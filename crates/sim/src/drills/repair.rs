//! Drills of repair: clones that join while clients go on (R30), and chunks that heal with nobody
//! asking for them (H1, H5), and what is kept beside them (R28).

use super::drill::Drill;
use super::script::DrillScript;
use crate::checkers::Verdict;
use crate::operations::ClientOp;
use bytes::Bytes;
use cairn_env_sim::NodeId;
use cairn_protocol::{
    ChunkCounts, Lease, LeasePurpose, LetGoOfLost, ListLost, Recover, Request, Response, Status,
};
use cairn_types::planted::Rule;
use cairn_types::{ChunkHandle, ChunkIndex, Content, EntryId};
use std::collections::VecDeque;
use std::time::Duration;

pub(super) const DRILLS: &[Drill] = &[
    Drill::of_rule(
        Rule::R30,
        "a clone joins its set while a client writes",
        4,
        a_clone_joins_while_a_client_writes,
    ),
    Drill::of_bug(
        "a server is gone for ever while records are appended, and the chunk heals",
        4,
        a_chunk_heals_while_records_are_appended,
    ),
    Drill::of_rule(
        Rule::H1,
        "a whole cell loses power, nobody asks for anything, and a server is gone for ever",
        4,
        suspects_heal_though_nobody_asks,
    ),
    Drill::of_rule(
        Rule::R28,
        "who alone has what a power failure took from the set that goes on is kept",
        5,
        who_alone_has_what_a_power_failure_took_is_kept,
    ),
    Drill::of_bug(
        "who has no more than the suspect that was decided on makes room for copies",
        3,
        who_has_no_more_than_the_suspect_makes_room,
    ),
    Drill::of_rule(
        Rule::H5,
        "a server is gone for ever, and what it held is whole and told so",
        4,
        what_a_dead_server_held_is_whole_and_told_so,
    ),
];

/// What the master answers.
fn probe(script: &mut DrillScript, request: impl Into<Request>) -> Result<Response, String> {
    let master = script.nodes().master;
    let answer = script.probe(master, request, Bytes::new());
    answer.map(|answer| answer.response).map_err(|failure| failure.to_string())
}

/// What the master tells of its chunks.
fn counts(script: &mut DrillScript) -> Result<ChunkCounts, String> {
    match probe(script, Status {})? {
        Response::Status(status) => Ok(status.now.counts),
        other => Err(format!("{other:?}")),
    }
}

/// Waits until the master tells of no chunk that lacks anything.
fn await_whole(script: &mut DrillScript) -> Verdict {
    let mut told = counts(script)?;
    for _ in 0..120 {
        script.pass(Duration::from_millis(500));
        told = counts(script)?;
        let ails = told.below_goal + told.damaged + told.suspect + told.stale;
        if !told.gathering && !told.counting && ails == 0 {
            return Ok(());
        }
    }
    Err(format!("after a minute the master tells {told:?}"))
}

/// One of three replicas is gone with its server; the fourth server gets one, and then the master
/// tells of no chunk that lacks any.
fn what_a_dead_server_held_is_whole_and_told_so(script: &mut DrillScript) -> Verdict {
    let file = script.create("/f", Content::Bytes)?;
    script.write_synced(0, file, 0, b"bytes")?;
    let chunk = script.chunk(file, 0)?;
    let dead = script.holders(chunk)[0];
    script.kill(dead);
    let others =
        |script: &DrillScript| script.holders(chunk).iter().filter(|node| **node != dead).count();
    script.until("three servers that run have a replica", |script| others(script) == 3)?;
    await_whole(script)
}

/// One of three replicas is gone for ever. The master stands still for a while when the clone is
/// told to fetch what it lacks, and clients write bytes after bytes until it has joined. In that
/// moment all others die: the clone has all that was acknowledged before.
fn a_clone_joins_while_a_client_writes(script: &mut DrillScript) -> Verdict {
    let file = script.create("/f", Content::Bytes)?;
    script.write(0, file, 0, b"first")?;
    let chunk = script.chunk(file, 0)?;
    let primary = script.primary(chunk)?;
    let old = script.holders(chunk);
    let dead = old.iter().copied().find(|it| *it != primary).ok_or("no secondary")?;
    script.kill(dead);
    // It is left out by this one.
    script.write(0, file, 5, b"x")?;
    script.stall(move |seen| match seen.request {
        Request::CloneChunk(clone) => clone.finish && clone.handle == chunk,
        _ => false,
    });
    // Both know the version that the others stand at now.
    script.write(0, file, 6, b"x")?;
    script.write(1, file, 7, b"x")?;
    script.until_stalled()?;
    script.release();
    let master = script.master_in_charge()?;
    script.pause(master, Duration::from_millis(100));
    // So many at a time, of two clients, that one is always between the primary and the others.
    let (mut length, mut under_way) = (8, VecDeque::new());
    while script.set_size(chunk) < 3 {
        while under_way.len() < 8 {
            let (offset, bytes) = (length + under_way.len() as u64, Bytes::from_static(b"x"));
            let write = ClientOp::Write { file, offset, bytes, sync: false };
            under_way.push_back(script.ask((offset % 2) as usize, write));
        }
        let oldest = under_way[0];
        let or_joined = "a write is acknowledged, or the clone has joined";
        script.until(or_joined, |it| it.ended(oldest).is_some() || it.set_size(chunk) == 3)?;
        while let Some(oldest) = under_way.front().copied()
            && script.ended(oldest).is_some()
        {
            script.wait(oldest).map_err(|failure| failure.to_string())?;
            under_way.pop_front();
            length += 1;
        }
    }
    for server in old.into_iter().filter(|it| *it != dead) {
        script.kill(server);
    }
    let given = script.read(1, file, 0, length)?;
    let missing = given.iter().skip(5).position(|byte| *byte != b'x');
    match missing.map(|at| at + 5).or((given.len() as u64 != length).then_some(given.len())) {
        Some(at) => Err(format!("byte {at} of {length} is not on the clone that joined")),
        None => Ok(()),
    }
}

/// One of three servers is gone for ever while a client appends, record after record. Each is
/// acknowledged, and within a bounded time the set has three members again, of which none is the
/// dead one.
fn a_chunk_heals_while_records_are_appended(script: &mut DrillScript) -> Verdict {
    let file = script.create("/f", Content::Bytes)?;
    script.append(0, file, b"record;")?;
    let chunk = script.chunk(file, 0)?;
    let primary = script.primary(chunk)?;
    let dead = script.holders(chunk).into_iter().find(|it| *it != primary);
    script.kill(dead.ok_or("no secondary")?);
    let mut count = 1;
    while script.set_size(chunk) == 3 && count < 20 || script.set_size(chunk) < 3 {
        script.append(0, file, b"record;")?;
        count += 1;
        if count == 400 {
            return Err("it does not heal".to_owned());
        }
        script.pass(Duration::from_millis(50));
    }
    let given = script.read(1, file, 0, 7 * count)?;
    let whole = b"record;".repeat(usize::try_from(count).expect("few"));
    if given == whole { Ok(()) } else { Err(format!("{} bytes of {count} records", given.len())) }
}

/// All chunkservers lose power, and with it what was not synced; they come back, and each replica
/// is suspect. Nobody reads or writes. Then one of them is gone for ever: each chunk is copied, for
/// the master has made current what is left of it. In the end the two others that were of the set
/// are gone too, and what was synced is read from the copy (R28).
fn suspects_heal_though_nobody_asks(script: &mut DrillScript) -> Verdict {
    let file = script.create("/f", Content::Bytes)?;
    script.write_synced(0, file, 0, b"first")?;
    script.write(0, file, 5, b" second")?;
    let chunk = script.chunk(file, 0)?;
    let before = script.version(chunk);
    let servers = script.nodes().servers.clone();
    servers.iter().for_each(|server| script.power_loss_of_all_unsynced(*server));
    for server in &servers {
        script.restart(*server)?;
    }
    // Who misses the raise on a connection of before is left out, and another takes its place.
    let is_whole = |it: &DrillScript| it.set_size(chunk) == 3 && it.holders(chunk).len() == 3;
    script.until("it is raised, and whole", |it| it.version(chunk) > before && is_whole(it))?;
    script.pass(Duration::from_secs(1));
    let (set, level) = (script.holders(chunk), script.version(chunk));
    let [gone, left @ ..] = &set[..] else { return Err("no replica".into()) };
    script.kill(*gone);
    script.until("a copy joins", |it| it.version(chunk) > level && it.set_size(chunk) == 3)?;
    left.iter().for_each(|server| script.kill(*server));
    let given = script.read(1, file, 0, 5)?;
    if given == b"first"[..] { Ok(()) } else { Err(format!("the copy gives {given:?}")) }
}

/// Two of three servers die; the third loses power, and of what was not on disk some. It is decided
/// on, and the chunk copied. Where it has lost the last mutation, the two are kept, who come back
/// sound, and a person can turn the decision round; where it has lost none, they go.
fn who_alone_has_what_a_power_failure_took_is_kept(script: &mut DrillScript) -> Verdict {
    for round in 0..4 {
        let LastHolder { file, chunk, suspect, away } =
            all_but_one_die(script, &format!("/f{round}"))?;
        script.power_loss(suspect);
        script.restart(suspect)?;
        decide(script, (file, chunk))?;
        script.until("the chunk is whole", |script| script.set_size(chunk) == 3)?;
        for server in away {
            script.restart(server)?;
        }
        script.pass(Duration::from_secs(20));
        if script.read(1, file, 0, 11)? != b"firstsecond"[..] {
            turns_round(script, (file, chunk))?;
        }
        let given = script.read(1, file, 0, 11)?;
        if given != b"firstsecond"[..] {
            return Err(format!("round {round}: it gives {given:?}"));
        }
        await_whole(script)?;
    }
    Ok(())
}

/// Three servers: two die, the third loses power and nothing else, and is decided on. The two come
/// back sound, and have what it has: they go, and the chunk has three replicas again.
fn who_has_no_more_than_the_suspect_makes_room(script: &mut DrillScript) -> Verdict {
    let LastHolder { file, chunk, suspect, away } = all_but_one_die(script, "/f")?;
    let (mut image, page) = script.image(suspect);
    image.write_back();
    script.power_loss_of_all_unsynced(suspect);
    script.restart(suspect)?;
    script.set_back(suspect, (image, page))?;
    decide(script, (file, chunk))?;
    for server in away {
        script.restart(server)?;
    }
    await_whole(script)?;
    let given = script.read(1, file, 0, 11)?;
    if given == b"firstsecond"[..] { Ok(()) } else { Err(format!("it gives {given:?}")) }
}

/// A chunk of which all servers but one are away.
struct LastHolder {
    file: EntryId,
    chunk: ChunkHandle,
    suspect: NodeId,
    away: Vec<NodeId>,
}

/// "first" is on all disks, "second" in memory, and all servers but one that have them die.
fn all_but_one_die(script: &mut DrillScript, path: &str) -> Result<LastHolder, String> {
    let file = script.create(path, Content::Bytes)?;
    script.write_synced(0, file, 0, b"first")?;
    script.write(0, file, 5, b"second")?;
    let chunk = script.chunk(file, 0)?;
    let holders = script.holders(chunk);
    let (suspect, away) = holders.split_first().ok_or("no replica")?;
    away.iter().for_each(|server| script.kill(*server));
    Ok(LastHolder { file, chunk, suspect: *suspect, away: away.to_vec() })
}

/// Asks for a chunk until its set is decided on: without that, nothing is.
fn decide(script: &mut DrillScript, (file, chunk): (EntryId, ChunkHandle)) -> Verdict {
    let level = script.version(chunk);
    for _ in 0..200 {
        drop(level_now(script, file));
        script.pass(Duration::from_millis(500));
        if script.version(chunk) > level {
            return Ok(());
        }
    }
    Err("nothing is decided".to_owned())
}

/// Has a chunk go on with what is kept of it for a person.
fn turns_round(script: &mut DrillScript, (file, handle): (EntryId, ChunkHandle)) -> Verdict {
    let kept = match probe(script, ListLost { limit: 9, ..ListLost::default() })? {
        Response::ListLost(lost) => lost.chunks,
        other => return Err(format!("{other:?}")),
    };
    let kept = kept.iter().find(|lost| lost.handle == handle).ok_or("nothing of it is kept")?;
    let (subject, server) = (handle.short(), kept.servers[0].server);
    probe(script, Recover { subject, server, ..Recover::default() })?;
    level_now(script, file)?;
    probe(script, LetGoOfLost { handle })?;
    Ok(())
}

/// Has the replicas of a file's first chunk made level.
fn level_now(script: &mut DrillScript, file: EntryId) -> Verdict {
    let (index, purpose) = (ChunkIndex::new(0), LeasePurpose::Level);
    probe(script, Lease { file, index, purpose, ..Lease::default() })?;
    Ok(())
}
