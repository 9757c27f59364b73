//! Drills of the rules of raises, mutations and closing.

use super::drill::Drill;
use super::script::DrillScript;
use crate::cell::PUSH_BUFFER;
use crate::checkers::Verdict;
use crate::operations::ClientOp;
use crate::simulation::told;
use bytes::Bytes;
use cairn_env_sim::{NodeId, SeenRequest};
use cairn_protocol::{ChunkGrant, Request};
use cairn_types::planted::Rule;
use cairn_types::{CellConfig, Content};
use std::time::Duration;

pub(super) const DRILLS: &[Drill] = &[
    Drill::of_rule(
        Rule::R12,
        "an old lease's forward arrives after the next lease's writes",
        3,
        an_old_leases_forward_arrives_late,
    ),
    Drill::of_rule(
        Rule::R13,
        "a secondary lacks the data of one mutation and has that of the next",
        3,
        a_secondary_lacks_one_push_and_has_the_next,
    ),
    Drill::of_rule(
        Rule::R15,
        "an older connection's write arrives after the next write",
        3,
        an_older_connections_write_arrives_late,
    ),
    Drill::of_rule(Rule::R15, "an append is ordered twice", 3, an_append_is_ordered_twice),
    Drill::of_rule(
        Rule::R15,
        "one name is pushed twice with different bytes",
        3,
        one_name_is_pushed_with_different_bytes,
    ),
    Drill::of_rule(
        Rule::R16,
        "the next primary is shorter than its secondary",
        3,
        the_next_primary_is_shorter,
    ),
];

fn is_forward_to(secondary: NodeId) -> impl FnMut(&SeenRequest<'_>) -> bool {
    move |seen| seen.to == secondary && matches!(seen.request, Request::Forward(_))
}

/// Whether each replica of a set gives these bytes at the start of its chunk.
fn all_give(script: &mut DrillScript, grant: &ChunkGrant, acknowledged: &[u8]) -> Verdict {
    for server in script.set_of(grant).all() {
        let bytes = script.read_at(server, grant, acknowledged.len() as u64)?;
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
fn an_old_leases_forward_arrives_late(script: &mut DrillScript) -> Verdict {
    let file = script.create("/f", Content::Bytes)?;
    script.write(0, file, 0, b"first")?;
    let grant = script.grant(file)?;
    let set = script.set_of(&grant);
    let (cut_off, late) = (set.secondaries[0], set.secondaries[1]);
    let old: Vec<_> = (1..=4).map(|n| script.data(n, 0, b"older")).collect();
    for data in &old {
        script.push(&set.all(), data)?;
    }
    script.part(set.primary, cut_off);
    script.stall(move |seen| match seen.request {
        Request::Forward(forward) => seen.to == late && forward.mutations.len() >= 3,
        _ => false,
    });
    for data in &old {
        script.order_write(&grant, data);
    }
    script.until_stalled()?;
    script.kill(set.primary);
    // The dead one is waited for before two become the set (R11).
    script.pass(Duration::from_secs(6));
    let grant = script.grant(file)?;
    script.write(1, file, 0, b"newer")?;
    script.release();
    script.pass(Duration::from_millis(200));
    all_give(script, &grant, b"newer")
}

/// Two appends follow each other. On one secondary the first one's data has aged out of the
/// buffer, the second one's is there: it must not apply the second without the first.
fn a_secondary_lacks_one_push_and_has_the_next(script: &mut DrillScript) -> Verdict {
    let file = script.create("/f", Content::Bytes)?;
    script.append(0, file, b"first")?;
    let grant = script.grant(file)?;
    let set = script.set_of(&grant);
    let late = set.secondaries[0];
    script.stall(is_forward_to(late));
    let lacked = script.data(1, 0, b"aged out on one");
    script.push(&set.all(), &lacked)?;
    let lacking = script.order_append(&grant, &lacked);
    script.until_stalled()?;
    let much = vec![1; usize::try_from(PUSH_BUFFER).expect("small")];
    let much = script.data(2, 0, &much);
    script.push(&[late], &much)?;
    let next = script.data(3, 0, b"there on all");
    script.push(&set.all(), &next)?;
    let following = script.order_append(&grant, &next);
    script.pass(Duration::from_millis(100));
    script.release();
    // The set goes on without the one that cannot apply the first (R14).
    script.appended(&lacking)?;
    script.appended(&following).map(drop)
}

/// The network holds a client's write, and its connection breaks. The client tries again by a new
/// one and is answered, writes newer bytes to the same place and is answered. What the older
/// connection still held arrives.
fn an_older_connections_write_arrives_late(script: &mut DrillScript) -> Verdict {
    let file = script.create("/f", Content::Bytes)?;
    let grant = script.grant(file)?;
    script.write(0, file, 0, b"first")?;
    let (client, primary) = (script.nodes().clients[0], script.set_of(&grant).primary);
    script.stall(move |seen| seen.from == client && matches!(seen.request, Request::Write(_)));
    let bytes = Bytes::from_static(b"older");
    let older = script.ask(0, ClientOp::Write { file, offset: 0, bytes, sync: false });
    script.until_stalled()?;
    script.break_between(client, primary);
    script.wait(older).map_err(|why| told(&why))?;
    script.write(0, file, 0, b"newer")?;
    script.release();
    script.pass(Duration::from_millis(200));
    all_give(script, &grant, b"newer")
}

/// A client does not hear that its append was done, and asks again: the answer is the first one,
/// and the record stands there once.
fn an_append_is_ordered_twice(script: &mut DrillScript) -> Verdict {
    let file = script.create("/f", Content::Bytes)?;
    let grant = script.grant(file)?;
    let all = script.set_of(&grant).all();
    let record = script.data(1, 0, b"once");
    let mut offsets = Vec::new();
    for _ in 0..2 {
        script.push(&all, &record)?;
        let ordered = script.order_append(&grant, &record);
        offsets.push(script.appended(&ordered)?);
    }
    if offsets[0] == offsets[1] {
        return Ok(());
    }
    Err(format!("one append was done at {} and again at {}", offsets[0], offsets[1]))
}

/// Two clients push under one name; what the last one pushed has reached some servers only. A
/// mutation that means the first one's bytes must not be done with the second one's.
fn one_name_is_pushed_with_different_bytes(script: &mut DrillScript) -> Verdict {
    let file = script.create("/f", Content::Bytes)?;
    let grant = script.grant(file)?;
    let set = script.set_of(&grant);
    let (meant, other) = (script.data(1, 0, b"meant"), script.data(1, 0, b"other"));
    script.push(&set.all(), &meant)?;
    script.push(&set.secondaries[..1], &other)?;
    let ordered = script.order_append(&grant, &meant);
    script.appended(&ordered)?;
    // Who had other bytes is left out of the set (R14); the rest stands at a later version. All
    // of it is told how far readers may go (R17).
    script.pass(Duration::from_millis(500));
    let grant = script.grant(file)?;
    all_give(script, &grant, b"meant")
}

/// A primary dies when one secondary has applied its last record and the other has not. The longer
/// one hears too late that it is to be the next primary, so the shorter one becomes it: it must
/// fetch what it lacks first, or the next record is put over the middle of what the longer one
/// holds.
fn the_next_primary_is_shorter(script: &mut DrillScript) -> Verdict {
    let file = script.create("/f", Content::Bytes)?;
    script.append(0, file, b"first")?;
    let grant = script.grant(file)?;
    let set = script.set_of(&grant);
    let (shorter, longer) = (set.secondaries[0], set.secondaries[1]);
    let last = script.data(1, 0, &[b'x'; 500]);
    script.push(&set.all(), &last)?;
    script.stall(is_forward_to(shorter));
    script.order_append(&grant, &last);
    script.until_stalled()?;
    script.pass(Duration::from_millis(100));
    script.kill(set.primary);
    // The dead one is waited for before two become the set (R11).
    script.pass(Duration::from_secs(6));
    // The longer one is asked first to be primary, and does not hear of it. (For a write: an append
    // would go to another chunk.)
    script.stall(move |seen| seen.to == longer && matches!(seen.request, Request::GrantLease(_)));
    let bytes = Bytes::from_static(b"First");
    let over = script.ask(1, ClientOp::Write { file, offset: 0, bytes, sync: false });
    script.until_stalled()?;
    // Until the master no longer waits for it, and asks for a later version.
    let CellConfig { silent_ms, heartbeat_ms, .. } = script.sim.cell_config;
    script.pass(Duration::from_millis(silent_ms + heartbeat_ms + 20));
    script.release();
    script.wait(over).map_err(|failure| failure.to_string())?;
    script.append(1, file, b"second")?;
    let grant = script.grant(file)?;
    let next = script.set_of(&grant);
    if (next.primary, next.secondaries.as_slice()) != (shorter, &[longer]) {
        return Err(format!("{next:?} is the set, not {shorter:?} and {longer:?}"));
    }
    // With it secondaries hear that the one before is acknowledged (R17).
    script.append(1, file, b"third")?;
    all_give(script, &grant, &[b"First".as_slice(), &[b'x'; 500], b"second"].concat())
}
