//! Drills of the rules of names: outcomes that are remembered (R24), path locks (R35).

use super::drill::Drill;
use super::script::DrillScript;
use crate::checkers::Verdict;
use crate::operations::path;
use crate::operations::{ClientOp, OpOutput, tell};
use cairn_env_sim::NodeId;
use cairn_protocol::Request;
use cairn_types::planted::Rule;
use cairn_types::{Content, EntryId};
use std::time::Duration;

pub(super) const DRILLS: &[Drill] = &[
    Drill::of_rule(
        Rule::R24,
        "a deletion whose answer is lost is retried after the name was made anew",
        3,
        deletion_with_a_lost_answer,
    ),
    Drill::of_rule(
        Rule::R24,
        "a deletion is retried at a master that has restarted since",
        3,
        deletion_retried_after_a_restart,
    ),
    Drill::of_rule(
        Rule::R24,
        "an old connection's deletion arrives after the retry and a new file",
        3,
        deletion_that_arrives_twice,
    ),
    Drill::of_rule(
        Rule::R24,
        "an old connection's deletion arrives after it was refused and the name was made",
        3,
        deletion_that_was_refused,
    ),
    Drill::of_rule(
        Rule::R24,
        "a creation whose answer is lost is retried after the file was moved",
        3,
        creation_with_a_lost_answer,
    ),
    Drill::of_rule(
        Rule::R24,
        "a batch whose answer is lost is retried after its names have changed",
        3,
        batch_with_a_lost_answer,
    ),
    Drill::of_rule(
        Rule::R35,
        "a creation finds its directory just before a rename, and makes its file after it",
        3,
        creation_overtaken_by_a_rename,
    ),
    Drill::of_rule(
        Rule::R35,
        "two directories are moved into one another at once",
        3,
        directories_moved_into_one_another,
    ),
];

/// How many times as long the master's disk takes, so that records are on their way together.
const SLOW_DISK: u32 = 500;
/// Long enough for a request to arrive, short beside [`SLOW_DISK`].
const ARRIVAL: Duration = Duration::from_millis(5);

fn create(name: &str) -> ClientOp {
    ClientOp::Create { path: path(name), content: Content::Bytes, or_open: false }
}

pub(super) fn delete(name: &str) -> ClientOp {
    ClientOp::Delete { path: path(name), recursive: false }
}

pub(super) fn stat(name: &str) -> ClientOp {
    ClientOp::Stat { path: path(name) }
}

fn rename(from: &str, to: &str) -> ClientOp {
    ClientOp::Rename { from: path(from), to: path(to), replace: false }
}

fn make_directory(script: &mut DrillScript, name: &str) -> Verdict {
    script.done(0, ClientOp::MakeDirectory { path: path(name) }).map(drop)
}

/// What a client that has just asked finds under a name.
fn found(script: &mut DrillScript, name: &str) -> Option<EntryId> {
    match script.done(2, stat(name)) {
        Ok(OpOutput::Entry(entry)) => Some(entry.id),
        _ => None,
    }
}

/// Waits until another client sees that a name is there, or is not.
pub(super) fn until_seen(script: &mut DrillScript, name: &str, there: bool) -> Verdict {
    for _ in 0..100 {
        if found(script, name).is_some() == there {
            return Ok(());
        }
        script.pass(ARRIVAL);
    }
    Err(format!("{name} does not change"))
}

/// Another client makes `/f` anew.
pub(super) fn make_anew(script: &mut DrillScript) -> Result<EntryId, String> {
    match script.done(2, create("/f"))? {
        OpOutput::Entry(entry) => Ok(entry.id),
        other => Err(format!("/f made anew: {other:?}")),
    }
}

pub(super) fn still_there(script: &mut DrillScript, anew: EntryId) -> Verdict {
    match found(script, "/f") {
        Some(id) if id == anew => Ok(()),
        other => Err(format!("/f was made anew and nobody deleted it since, yet it is {other:?}")),
    }
}

/// Client 1 asks for a deletion of what is not there; the network holds the request, the connection
/// breaks, and by another one the client hears that there is no such file. Client 2 makes it. Then
/// what was held arrives (seed 9 once failed so).
fn deletion_that_was_refused(script: &mut DrillScript) -> Verdict {
    let (client, master) = (script.nodes().clients[1], script.nodes().master);
    script.stall(|seen| matches!(seen.request, Request::Delete(_)));
    let ticket = script.ask(1, delete("/f"));
    script.until_stalled()?;
    script.break_between(client, master);
    let refused = script.wait(ticket);
    if refused.is_ok() {
        return Err(format!("/f, which nobody made, is deleted: {}", tell(&refused)));
    }
    let anew = make_anew(script)?;
    script.release();
    script.pass(Duration::from_secs(1));
    still_there(script, anew)
}

/// `/f` is made, and client 1, which is connected, hears the master no more.
fn file_and_deaf_client(script: &mut DrillScript) -> Result<(NodeId, NodeId), String> {
    script.create("/f", Content::Bytes)?;
    let (master, client) = (script.nodes().master, script.nodes().clients[1]);
    script.done(1, stat("/f"))?;
    script.mute(master, client);
    Ok((master, client))
}

/// Client 1 asks for a deletion, which is done; its answer does not reach the client, which tries
/// again when client 2 has made the name anew. The retry gets the first try's outcome.
fn deletion_with_a_lost_answer(script: &mut DrillScript) -> Verdict {
    let (master, client) = file_and_deaf_client(script)?;
    let deletion = script.ask(1, delete("/f"));
    until_seen(script, "/f", false)?;
    let anew = make_anew(script)?;
    script.break_between(client, master);
    script.heal(master, client);
    let ended = script.wait(deletion);
    still_there(script, anew)?;
    ended.map(drop).map_err(|_| "the deletion was done, and its retry is refused".to_owned())
}

/// Of a batch one entry deletes, one makes, one is refused. Its answer is lost, and before the
/// retry client 2 turns all names round: the retry gets the first try's outcomes and does nothing.
fn batch_with_a_lost_answer(script: &mut DrillScript) -> Verdict {
    let (master, client) = file_and_deaf_client(script)?;
    let entries = vec![delete("/f"), create("/g"), delete("/none")];
    let batch = script.ask(1, ClientOp::Batch { entries });
    until_seen(script, "/f", false)?;
    until_seen(script, "/g", true)?;
    let anew = make_anew(script)?;
    script.done(2, delete("/g"))?;
    script.done(2, create("/none"))?;
    script.break_between(client, master);
    script.heal(master, client);
    let ended = script.wait(batch);
    still_there(script, anew)?;
    if found(script, "/g").is_some() || found(script, "/none").is_none() {
        return Err("the retry made /g anew or deleted /none".to_owned());
    }
    match ended {
        Ok(OpOutput::Many(results)) => {
            let done: Vec<bool> = results.iter().map(Result::is_ok).collect();
            let told = || format!("the retry of the batch is told {results:?}");
            if done == [true, true, false] { Ok(()) } else { Err(told()) }
        }
        other => Err(format!("the retry of the batch is told {other:?}")),
    }
}

/// As a deletion with a lost answer, but the master is killed and started again before the retry:
/// outcomes are in the operation log.
fn deletion_retried_after_a_restart(script: &mut DrillScript) -> Verdict {
    let (master, client) = file_and_deaf_client(script)?;
    let deletion = script.ask(1, delete("/f"));
    until_seen(script, "/f", false)?;
    script.mute(client, master);
    script.kill(master);
    script.restart(master)?;
    let anew = make_anew(script)?;
    script.break_between(client, master);
    script.heal(master, client);
    let ended = script.wait(deletion);
    still_there(script, anew)?;
    ended.map(drop).map_err(|_| "the deletion was done, and its retry is refused".to_owned())
}

/// Client 1's deletion stalls in the network; its connection breaks, a retry by a new one is done,
/// and client 2 makes the name anew. Then the first one arrives.
fn deletion_that_arrives_twice(script: &mut DrillScript) -> Verdict {
    script.create("/f", Content::Bytes)?;
    let (master, client) = (script.nodes().master, script.nodes().clients[1]);
    script.done(1, stat("/f"))?;
    script.stall(|seen| matches!(seen.request, Request::Delete(_)));
    let deletion = script.ask(1, delete("/f"));
    script.until_stalled()?;
    script.break_between(client, master);
    let ended = script.wait(deletion);
    ended.map_err(|failure| format!("the retry: {failure:?}"))?;
    let anew = make_anew(script)?;
    script.release();
    script.pass(Duration::from_secs(1));
    still_there(script, anew)
}

/// Client 1's creation is done, its answer is lost; client 2 moves the file away before client 1
/// tries again. One creation makes one file.
fn creation_with_a_lost_answer(script: &mut DrillScript) -> Verdict {
    let (master, client) = (script.nodes().master, script.nodes().clients[1]);
    script.done(1, stat("/"))?;
    script.mute(master, client);
    let creation = script.ask(1, create("/f"));
    until_seen(script, "/f", true)?;
    script.done(2, rename("/f", "/g"))?;
    script.break_between(client, master);
    script.heal(master, client);
    let ended = script.wait(creation);
    match (found(script, "/f"), found(script, "/g")) {
        (None, Some(_)) if ended.is_ok() => Ok(()),
        (None, _) => Err(format!("the creation was done and ends so: {}", tell(&ended))),
        (second, first) => Err(format!("one creation made two files: {first:?} and {second:?}")),
    }
}

/// A creation resolves `/d` while the record that renames `/d` to `/e` is on its way to the log,
/// and its own record follows. Whoever looks into `/e` between the two finds nothing; so the file
/// cannot have been made before the rename, and after it there is no `/d`.
fn creation_overtaken_by_a_rename(script: &mut DrillScript) -> Verdict {
    make_directory(script, "/d")?;
    let master = script.nodes().master;
    script.sim.world.slow_disk(master, SLOW_DISK);
    let moved = script.ask(0, rename("/d", "/e"));
    script.pass(ARRIVAL);
    let creation = script.ask(1, create("/d/x"));
    let moved = script.wait(moved);
    moved.map_err(|failure| format!("the rename: {failure:?}"))?;
    let seen = found(script, "/e/x");
    let made = script.wait(creation);
    script.sim.world.slow_disk(master, 1);
    match (seen, made) {
        (None, Ok(done)) => Err(format!(
            "/d/x is made ({done:?}), but after the rename of /d to /e it was not in /e"
        )),
        _ => Ok(()),
    }
}

/// `/a` is moved into `/b` while `/b` is moved into `/a`: whichever comes first, the other one's
/// new parent is gone.
fn directories_moved_into_one_another(script: &mut DrillScript) -> Verdict {
    make_directory(script, "/a")?;
    make_directory(script, "/b")?;
    let master = script.nodes().master;
    script.sim.world.slow_disk(master, SLOW_DISK);
    let first = script.ask(0, rename("/a", "/b/a"));
    script.pass(ARRIVAL);
    let second = script.ask(1, rename("/b", "/a/b"));
    let (first, second) = (script.wait(first), script.wait(second));
    script.sim.world.slow_disk(master, 1);
    let reached = ["/a", "/b", "/b/a"].map(|name| found(script, name).is_some());
    if first.is_ok() && second.is_ok() || reached != [false, true, true] {
        return Err(format!(
            "/a into /b: {}, /b into /a: {}; of /a, /b and /b/a there are {reached:?}",
            tell(&first),
            tell(&second)
        ));
    }
    Ok(())
}
