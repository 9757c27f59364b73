//! Drills of the rules of raises and of closing.

use super::drill::Drill;
use super::script::DrillScript;
use crate::checkers::Verdict;
use crate::operations::{ClientOp, OpOutput};
use bytes::Bytes;
use cairn_protocol::{Create, Request, Response};
use cairn_types::planted::Rule;
use cairn_types::{Content, EntryId, MutationName, MutationNumber, SessionId};
use std::time::Duration;

pub(super) const DRILLS: &[Drill] = &[
    Drill::of_rule(
        Rule::R8,
        "a raise takes hold where its answer was not waited for",
        4,
        a_raise_takes_hold_where_nobody_waited_for_it,
    ),
    Drill::of_rule(
        Rule::R10,
        "a replica is created after its chunk was opened without it",
        3,
        a_replica_is_created_after_its_chunk_was_opened_without_it,
    ),
    Drill::of_rule(
        Rule::R11,
        "two of three servers die, and a write waits for one of them",
        3,
        a_set_of_one_is_none,
    ),
    Drill::of_rule(
        Rule::R18,
        "a primary cut off from the master is asked to append after the close",
        6,
        a_cut_off_primary_is_asked_to_append_after_the_close,
    ),
];

/// A file of four replicas.
fn create_on_four(script: &mut DrillScript) -> Result<EntryId, String> {
    let mutation = MutationName { session: SessionId::new(0xd012), number: MutationNumber::new(1) };
    let path = crate::operations::path("/f");
    let request = Create { mutation, path, replication: 4, ..Create::default() };
    let master = script.nodes().master;
    match script.probe(master, request, Bytes::new()).map(|answer| answer.response) {
        Ok(Response::Create(done)) => Ok(done.entry.id),
        other => Err(format!("creating a file: {other:?}")),
    }
}

/// One replica of three is left: what it alone acknowledged would be gone with it. With a second
/// one back the write is done.
fn a_set_of_one_is_none(script: &mut DrillScript) -> Verdict {
    let file = script.create("/f", Content::Bytes)?;
    script.write(0, file, 0, b"first")?;
    let grant = script.grant(file)?;
    let set = script.set_of(&grant);
    let (one, other) = (set.secondaries[0], set.secondaries[1]);
    script.kill(one);
    script.kill(other);
    // Both are dead for the master.
    script.pass(Duration::from_secs(10));
    let bytes = Bytes::from_static(b"again");
    script.refused(1, ClientOp::Write { file, offset: 0, bytes, sync: false })?;
    script.restart(one)?;
    script.write(1, file, 0, b"again")?;
    script
        .done(1, ClientOp::Delete { path: crate::operations::path("/f"), recursive: false })
        .map(drop)
}

/// Of four replicas one dies; the raise that leaves it out reaches two of the others and is held
/// on its way to the third. The two go on without it, and only then it takes the raise. It lacks
/// what was acknowledged since: with the two gone, it must not pass for up to date.
fn a_raise_takes_hold_where_nobody_waited_for_it(script: &mut DrillScript) -> Verdict {
    let file = create_on_four(script)?;
    script.write(0, file, 0, b"first")?;
    let grant = script.grant(file)?;
    script.write(0, file, 0, b"older")?;
    let set = script.set_of(&grant);
    let (stays, outsider, dead) = (set.secondaries[0], set.secondaries[1], set.secondaries[2]);
    script.kill(dead);
    script.stall(move |seen| seen.to == outsider && matches!(seen.request, Request::Raise(_)));
    script.write(0, file, 0, b"older")?;
    script.until_stalled()?;
    script.write(0, file, 0, b"newer")?;
    script.release();
    // Its server tells the master where it stands now.
    script.pass(Duration::from_secs(1));
    script.kill(set.primary);
    script.kill(stays);
    let read = script.ask(1, ClientOp::Read { file, offset: 0, size: 5, fresh: true });
    match script.wait(read) {
        // Its own replica has gone by then, and it has a clone of theirs.
        Ok(OpOutput::Bytes(bytes, _)) if bytes[..] != b"newer"[..] => {
            let given = bytes.escape_ascii();
            Err(format!("\"{given}\" is read; \"newer\" was acknowledged, by replicas now away"))
        }
        _ => Ok(()),
    }
}

/// Of three servers that are asked to create replicas one is reached late. The chunk is opened on
/// the two others and written to. The third then makes its replica, which lacks all of it: it must
/// not stand at the version that was logged.
fn a_replica_is_created_after_its_chunk_was_opened_without_it(script: &mut DrillScript) -> Verdict {
    let late = script.nodes().servers[2];
    let file = script.create("/f", cairn_types::Content::Bytes)?;
    script.stall(move |seen| seen.to == late && matches!(seen.request, Request::Raise(_)));
    script.write(0, file, 0, b"written")?;
    script.release();
    script.pass(Duration::from_secs(1));
    match &script.read(1, file, 0, 7)?[..] {
        b"written" => Ok(()),
        given => Err(format!("\"{}\" is read; \"written\" was acknowledged", given.escape_ascii())),
    }
}

/// A primary does not hear the master any more and still hears its clients. The master gives up on
/// it and opens the next chunk. While its lease lasts by its own clock, a client of it appends:
/// readers have gone on to the next chunk and would never see the record.
fn a_cut_off_primary_is_asked_to_append_after_the_close(script: &mut DrillScript) -> Verdict {
    let file = script.create("/f", cairn_types::Content::Bytes)?;
    let grant = script.grant(file)?;
    let set = script.set_of(&grant);
    script.append(0, file, b"first")?;
    let (master, record) = (script.nodes().master, script.data(1, 0, b"late"));
    script.push(&set.all(), &record)?;
    script.part(set.primary, master);
    // The fence may take longer than the master lets a client wait.
    let next = match script.grant_doubting(file, Some(&grant)) {
        Ok(next) => next,
        Err(_) => script.grant(file)?,
    };
    if next.handle == grant.handle {
        return Err("the master did not close the chunk".to_owned());
    }
    let ordered = script.order_append(&grant, &record);
    match script.appended(&ordered) {
        Ok(offset) => Err(format!("a record is acknowledged at {offset} of a closed chunk")),
        Err(_) => Ok(()),
    }
}
