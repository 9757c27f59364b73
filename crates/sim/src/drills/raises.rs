//! Drills of the rules of raises and of closing.

use super::play::Play;
use super::{Drill, Verdict};
use crate::operations::{Done, Op};
use bytes::Bytes;
use cairn_protocol::{Create, Request, Response};
use cairn_types::planted::Rule;
use cairn_types::{Content, EntryId, MutationName, MutationNumber, SessionId};
use std::time::Duration;

pub(super) const DRILLS: &[Drill] = &[
    Drill {
        rule: Some(Rule::R8),
        name: "a raise takes hold where its answer was not waited for",
        servers: 4,
        play: a_raise_takes_hold_where_nobody_waited_for_it,
    },
    Drill {
        rule: Some(Rule::R10),
        name: "a replica is created after its chunk was opened without it",
        servers: 3,
        play: a_replica_is_created_after_its_chunk_was_opened_without_it,
    },
    Drill {
        rule: Some(Rule::R11),
        name: "two of three servers die, and a write waits for one of them",
        servers: 3,
        play: a_set_of_one_is_none,
    },
    Drill {
        rule: Some(Rule::R18),
        name: "a primary cut off from the master is asked to append after the close",
        servers: 6,
        play: a_cut_off_primary_is_asked_to_append_after_the_close,
    },
];

/// A file of four replicas.
fn create_on_four(play: &mut Play) -> Result<EntryId, String> {
    let mutation = MutationName { session: SessionId::new(0xd012), number: MutationNumber::new(1) };
    let path = crate::workloads::path("/f");
    let request = Create { mutation, path, replication: 4, ..Create::default() };
    let master = play.nodes().master;
    match play.probe(master, request, Bytes::new()).map(|answer| answer.response) {
        Ok(Response::Create(done)) => Ok(done.entry.id),
        other => Err(format!("creating a file: {other:?}")),
    }
}

/// One replica of three is left: what it alone acknowledged would be gone with it. With a second
/// one back the write is done.
fn a_set_of_one_is_none(play: &mut Play) -> Verdict {
    let file = play.create("/f", Content::Bytes)?;
    play.write(0, file, 0, b"first")?;
    let grant = play.grant(file)?;
    let set = play.set_of(&grant);
    let (one, other) = (set.secondaries[0], set.secondaries[1]);
    play.kill(one);
    play.kill(other);
    // Both are dead for the master.
    play.pass(Duration::from_secs(10));
    let bytes = Bytes::from_static(b"again");
    play.refused(1, Op::Write { file, offset: 0, bytes, sync: false })?;
    play.restart(one)?;
    play.write(1, file, 0, b"again")?;
    play.done(1, Op::Delete { path: crate::workloads::path("/f"), recursive: false }).map(drop)
}

/// Of four replicas one dies; the raise that leaves it out reaches two of the others and is held
/// on its way to the third. The two go on without it, and only then it takes the raise. It lacks
/// what was acknowledged since: with the two gone, it must not pass for up to date.
fn a_raise_takes_hold_where_nobody_waited_for_it(play: &mut Play) -> Verdict {
    let file = create_on_four(play)?;
    play.write(0, file, 0, b"first")?;
    let grant = play.grant(file)?;
    play.write(0, file, 0, b"older")?;
    let set = play.set_of(&grant);
    let (stays, outsider, dead) = (set.secondaries[0], set.secondaries[1], set.secondaries[2]);
    play.kill(dead);
    play.stall(move |seen| seen.to == outsider && matches!(seen.request, Request::Raise(_)));
    play.write(0, file, 0, b"older")?;
    play.until_stalled()?;
    play.write(0, file, 0, b"newer")?;
    play.release();
    // Its server tells the master where it stands now.
    play.pass(Duration::from_secs(1));
    play.kill(set.primary);
    play.kill(stays);
    let read = play.ask(1, Op::Read { file, offset: 0, size: 5, fresh: true });
    match play.wait(read) {
        Ok(Done::Bytes(bytes, _)) => {
            let given = bytes.escape_ascii();
            Err(format!("\"{given}\" is read; \"newer\" was acknowledged, by replicas now away"))
        }
        _ => Ok(()),
    }
}

/// Of three servers that are asked to create replicas one is reached late. The chunk is opened on
/// the two others and written to. The third then makes its replica, which lacks all of it: it must
/// not stand at the version that was logged.
fn a_replica_is_created_after_its_chunk_was_opened_without_it(play: &mut Play) -> Verdict {
    let late = play.nodes().servers[2];
    let file = play.create("/f", cairn_types::Content::Bytes)?;
    play.stall(move |seen| seen.to == late && matches!(seen.request, Request::Raise(_)));
    play.write(0, file, 0, b"written")?;
    play.release();
    play.pass(Duration::from_secs(1));
    match &play.read(1, file, 0, 7)?[..] {
        b"written" => Ok(()),
        given => Err(format!("\"{}\" is read; \"written\" was acknowledged", given.escape_ascii())),
    }
}

/// A primary does not hear the master any more and still hears its clients. The master gives up on
/// it and opens the next chunk. While its lease lasts by its own clock, a client of it appends:
/// readers have gone on to the next chunk and would never see the record.
fn a_cut_off_primary_is_asked_to_append_after_the_close(play: &mut Play) -> Verdict {
    let file = play.create("/f", cairn_types::Content::Bytes)?;
    let grant = play.grant(file)?;
    let set = play.set_of(&grant);
    play.append(0, file, b"first")?;
    let (master, record) = (play.nodes().master, play.data(1, 0, b"late"));
    play.push(&set.all(), &record)?;
    play.part(set.primary, master);
    // The fence may take longer than the master lets a client wait.
    let next = match play.grant_doubting(file, Some(&grant)) {
        Ok(next) => next,
        Err(_) => play.grant(file)?,
    };
    if next.handle == grant.handle {
        return Err("the master did not close the chunk".to_owned());
    }
    let ordered = play.order_append(&grant, &record);
    match play.appended(&ordered) {
        Ok(offset) => Err(format!("a record is acknowledged at {offset} of a closed chunk")),
        Err(_) => Ok(()),
    }
}
