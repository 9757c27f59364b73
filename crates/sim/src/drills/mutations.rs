//! Drills of the rules of raises, mutations and closing.

use super::play::Play;
use super::{Drill, Verdict};
use crate::cell::PUSH_BUFFER;
use crate::operations::Op;
use crate::stage::told;
use bytes::Bytes;
use cairn_env_sim::{NodeId, Seen};
use cairn_protocol::{ChunkGrant, Request};
use cairn_types::planted::Rule;
use cairn_types::{ClusterConfig, Content};
use std::time::Duration;

pub(super) const DRILLS: &[Drill] = &[
    Drill {
        rule: Some(Rule::R12),
        name: "an old lease's forward arrives after the next lease's writes",
        servers: 3,
        play: an_old_leases_forward_arrives_late,
    },
    Drill {
        rule: Some(Rule::R13),
        name: "a secondary lacks the data of one mutation and has that of the next",
        servers: 3,
        play: a_secondary_lacks_one_push_and_has_the_next,
    },
    Drill {
        rule: Some(Rule::R15),
        name: "an older connection's write arrives after the next write",
        servers: 3,
        play: an_older_connections_write_arrives_late,
    },
    Drill {
        rule: Some(Rule::R15),
        name: "an append is ordered twice",
        servers: 3,
        play: an_append_is_ordered_twice,
    },
    Drill {
        rule: Some(Rule::R15),
        name: "one name is pushed twice with different bytes",
        servers: 3,
        play: one_name_is_pushed_with_different_bytes,
    },
    Drill {
        rule: Some(Rule::R16),
        name: "the next primary is shorter than its secondary",
        servers: 3,
        play: the_next_primary_is_shorter,
    },
];

fn is_forward_to(secondary: NodeId) -> impl FnMut(&Seen<'_>) -> bool {
    move |seen| seen.to == secondary && matches!(seen.request, Request::Forward(_))
}

/// Whether each replica of a set gives these bytes at the start of its chunk.
fn all_give(play: &mut Play, grant: &ChunkGrant, acknowledged: &[u8]) -> Verdict {
    for server in play.set_of(grant).all() {
        let bytes = play.read_at(server, grant, acknowledged.len() as u64)?;
        if bytes != acknowledged {
            let (given, meant) = (bytes.escape_ascii(), acknowledged.escape_ascii());
            return Err(format!("{server:?} gives \"{given}\" where \"{meant}\" was acknowledged"));
        }
    }
    Ok(())
}

/// A primary sends three mutations in one batch to a secondary that has the one before; the
/// network holds the batch, and the primary dies having told nobody else of them. The two that
/// are left get a lease of their own, whose serial numbers begin again below the batch's end.
/// The batch arrives: its version and lease are over, and its old bytes must not cover new ones.
fn an_old_leases_forward_arrives_late(play: &mut Play) -> Verdict {
    let file = play.create("/f", Content::Bytes)?;
    play.write(0, file, 0, b"first")?;
    let grant = play.grant(file)?;
    let set = play.set_of(&grant);
    let (cut_off, late) = (set.secondaries[0], set.secondaries[1]);
    let old: Vec<_> = (1..=4).map(|n| play.data(n, 0, b"older")).collect();
    for data in &old {
        play.push(&set.all(), data)?;
    }
    play.part(set.primary, cut_off);
    play.stall(move |seen| match seen.request {
        Request::Forward(forward) => seen.to == late && forward.mutations.len() >= 3,
        _ => false,
    });
    for data in &old {
        play.order_write(&grant, data);
    }
    play.until_stalled()?;
    play.kill(set.primary);
    // The dead one is waited for before two become the set (R11).
    play.pass(Duration::from_secs(6));
    let grant = play.grant(file)?;
    play.write(1, file, 0, b"newer")?;
    play.release();
    play.pass(Duration::from_millis(200));
    all_give(play, &grant, b"newer")
}

/// Two appends follow each other. On one secondary the first one's data has aged out of the
/// buffer, the second one's is there: it must not apply the second without the first.
fn a_secondary_lacks_one_push_and_has_the_next(play: &mut Play) -> Verdict {
    let file = play.create("/f", Content::Bytes)?;
    play.append(0, file, b"first")?;
    let grant = play.grant(file)?;
    let set = play.set_of(&grant);
    let late = set.secondaries[0];
    play.stall(is_forward_to(late));
    let lacked = play.data(1, 0, b"aged out on one");
    play.push(&set.all(), &lacked)?;
    let lacking = play.order_append(&grant, &lacked);
    play.until_stalled()?;
    let much = vec![1; usize::try_from(PUSH_BUFFER).expect("small")];
    let much = play.data(2, 0, &much);
    play.push(&[late], &much)?;
    let next = play.data(3, 0, b"there on all");
    play.push(&set.all(), &next)?;
    let following = play.order_append(&grant, &next);
    play.pass(Duration::from_millis(100));
    play.release();
    // The set goes on without the one that cannot apply the first (R14).
    play.appended(&lacking)?;
    play.appended(&following).map(drop)
}

/// The network holds a client's write, and its connection breaks. The client tries again by a new
/// one and is answered, writes newer bytes to the same place and is answered. What the older
/// connection still held arrives.
fn an_older_connections_write_arrives_late(play: &mut Play) -> Verdict {
    let file = play.create("/f", Content::Bytes)?;
    let grant = play.grant(file)?;
    play.write(0, file, 0, b"first")?;
    let (client, primary) = (play.nodes().clients[0], play.set_of(&grant).primary);
    play.stall(move |seen| seen.from == client && matches!(seen.request, Request::Write(_)));
    let bytes = Bytes::from_static(b"older");
    let older = play.ask(0, Op::Write { file, offset: 0, bytes, sync: false });
    play.until_stalled()?;
    play.break_between(client, primary);
    play.wait(older).map_err(|why| told(&why))?;
    play.write(0, file, 0, b"newer")?;
    play.release();
    play.pass(Duration::from_millis(200));
    all_give(play, &grant, b"newer")
}

/// A client does not hear that its append was done, and asks again: the answer is the first one,
/// and the record stands there once.
fn an_append_is_ordered_twice(play: &mut Play) -> Verdict {
    let file = play.create("/f", Content::Bytes)?;
    let grant = play.grant(file)?;
    let all = play.set_of(&grant).all();
    let record = play.data(1, 0, b"once");
    let mut offsets = Vec::new();
    for _ in 0..2 {
        play.push(&all, &record)?;
        let ordered = play.order_append(&grant, &record);
        offsets.push(play.appended(&ordered)?);
    }
    if offsets[0] == offsets[1] {
        return Ok(());
    }
    Err(format!("one append was done at {} and again at {}", offsets[0], offsets[1]))
}

/// Two clients push under one name; what the last one pushed has reached some servers only. A
/// mutation that means the first one's bytes must not be done with the second one's.
fn one_name_is_pushed_with_different_bytes(play: &mut Play) -> Verdict {
    let file = play.create("/f", Content::Bytes)?;
    let grant = play.grant(file)?;
    let set = play.set_of(&grant);
    let (meant, other) = (play.data(1, 0, b"meant"), play.data(1, 0, b"other"));
    play.push(&set.all(), &meant)?;
    play.push(&set.secondaries[..1], &other)?;
    let ordered = play.order_append(&grant, &meant);
    play.appended(&ordered)?;
    // Who had other bytes is left out of the set (R14); the rest stands at a later version. All
    // of it is told how far readers may go (R17).
    play.pass(Duration::from_millis(500));
    let grant = play.grant(file)?;
    all_give(play, &grant, b"meant")
}

/// A primary dies when one secondary has applied its last record and the other has not. The longer
/// one hears too late that it is to be the next primary, so the shorter one becomes it: it must
/// level to the longest first, or the next record is put over the middle of what the longer one
/// holds.
fn the_next_primary_is_shorter(play: &mut Play) -> Verdict {
    let file = play.create("/f", Content::Bytes)?;
    play.append(0, file, b"first")?;
    let grant = play.grant(file)?;
    let set = play.set_of(&grant);
    let (shorter, longer) = (set.secondaries[0], set.secondaries[1]);
    let last = play.data(1, 0, &[b'x'; 500]);
    play.push(&set.all(), &last)?;
    play.stall(is_forward_to(shorter));
    play.order_append(&grant, &last);
    play.until_stalled()?;
    play.pass(Duration::from_millis(100));
    play.kill(set.primary);
    // The dead one is waited for before two become the set (R11).
    play.pass(Duration::from_secs(6));
    // The longer one is asked first to be primary, and does not hear of it. (For a write: an append
    // would go to another chunk.)
    play.stall(move |seen| seen.to == longer && matches!(seen.request, Request::GrantLease(_)));
    let bytes = Bytes::from_static(b"First");
    let over = play.ask(1, Op::Write { file, offset: 0, bytes, sync: false });
    play.until_stalled()?;
    // Until the master no longer waits for it, and asks for a later version.
    let ClusterConfig { silent_ms, heartbeat_ms, .. } = play.stage.cluster;
    play.pass(Duration::from_millis(silent_ms + heartbeat_ms + 20));
    play.release();
    play.wait(over).map_err(|failure| failure.to_string())?;
    play.append(1, file, b"second")?;
    let next = play.grant(file)?;
    let next = play.set_of(&next);
    if (next.primary, next.secondaries.as_slice()) != (shorter, &[longer]) {
        return Err(format!("{next:?} is the set, not {shorter:?} and {longer:?}"));
    }
    Ok(())
}
