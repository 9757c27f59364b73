//! Drills of a group of masters in which charge passes from one to another: leadership (R21),
//! leases that the one before has granted (R22), when an answer may leave (R23), and outcomes that
//! the next one remembers (R24).

use super::drill::Drill;
use super::masters::{leased_file, stop_primary_before_it_acknowledges};
use super::names::{delete, make_anew, stat, still_there, until_seen};
use super::script::DrillScript;
use crate::checkers::Verdict;
use crate::operations::path;
use crate::prober::send;
use bytes::Bytes;
use cairn_env_sim::{NodeId, SeenRequest};
use cairn_protocol::{ConsensusMessage, Request, Stat};
use cairn_types::planted::Rule;
use cairn_types::{Content, LogIndex};
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

pub(super) const DRILLS: &[Drill] = &[
    Drill::of_rule(
        Rule::R21,
        "a master that stood still is asked what another has changed meanwhile",
        3,
        look_up_at_a_former_primary,
    )
    .with_a_group(),
    Drill::of_rule(
        Rule::R22,
        "another master takes over and is asked for a lease while the former holder stands still",
        3,
        another_takes_over_while_the_holder_stands_still,
    )
    .with_a_group()
    .with_real_times(),
    Drill::of_rule(
        Rule::R23,
        "a change is answered, and all masters lose power",
        3,
        all_lose_power_when_it_is_answered,
    )
    .with_a_group(),
    Drill::of_rule(
        Rule::R23,
        "a master that has just been elected is asked what the one before has answered",
        3,
        look_up_at_one_that_has_not_applied_it,
    )
    .with_a_group(),
    Drill::of_rule(
        Rule::R23,
        "a master that stood still, and asks nobody whether it is in charge, is asked",
        3,
        look_up_at_a_former_primary,
    )
    .with_a_group(),
    Drill::of_rule(
        Rule::R24,
        "a deletion is retried at the master that has taken over since",
        3,
        deletion_retried_at_the_next_master,
    )
    .with_a_group(),
];

/// Longer than any election takes.
const PAST_ELECTIONS: Duration = Duration::from_secs(10);
/// Longer than another takes to be in charge.
const PAST_A_TAKE_OVER: Duration = Duration::from_millis(3_000);
/// Of a real lease: longer than all others take to join the next master, shorter than it runs.
const WITHIN_A_REAL_LEASE: Duration = Duration::from_secs(7);
const PAST_A_REAL_LEASE: Duration = Duration::from_secs(12);
/// What a disk's work takes longer by: far longer than answers are on their way.
const SLOW_DISK: u32 = 50;

/// The master in charge, and the two others.
fn by_charge(script: &mut DrillScript) -> Result<(NodeId, [NodeId; 2]), String> {
    let in_charge = script.master_in_charge()?;
    let others = script.nodes().masters.iter().copied().filter(|node| *node != in_charge);
    let others: Vec<NodeId> = others.collect();
    let others = <[NodeId; 2]>::try_from(others).map_err(|_| "not three masters".to_owned())?;
    Ok((in_charge, others))
}

/// The master in charge stands still. Meanwhile another one takes over, and a file is deleted. What
/// the first one is asked in that time it answers when it goes on, before it knows of the other.
fn look_up_at_a_former_primary(script: &mut DrillScript) -> Verdict {
    script.create("/f", Content::Bytes)?;
    let former = script.master_in_charge()?;
    script.pause(former, PAST_A_TAKE_OVER);
    script.pass(Duration::from_millis(200));
    let prober = script.prober;
    let to = script.address(former);
    let stat = Stat { path: path("/f") };
    let asked = send(&mut script.sim, prober, to, (stat.into(), Bytes::new()));
    let deleted = script.done(1, delete("/f"))?;
    if asked.borrow().is_some() {
        return Err(format!("it does not stand still: {deleted:?}"));
    }
    let answer = asked.clone();
    script.until("the former one answers", move |_| answer.borrow().is_some())?;
    match asked.take().expect("waited for") {
        Err(_) => Ok(()),
        Ok(answer) => Err(format!("deleted, and yet it is there: {:?}", answer.response)),
    }
}

/// A chunk's primary stands still just before it acknowledges, and the master that granted its
/// lease dies. Another one is in charge long before that lease is over; the two other replicas join
/// it, another client wants to write, and nobody tells of the lease.
fn another_takes_over_while_the_holder_stands_still(script: &mut DrillScript) -> Verdict {
    let (file, handle) = leased_file(script, "/f")?;
    let granter = script.master_in_charge()?;
    stop_primary_before_it_acknowledges(script, (file, handle), WITHIN_A_REAL_LEASE)?;
    script.kill(granter);
    script.write(2, file, 0, b"third")?;
    script.pass(PAST_A_REAL_LEASE);
    script.restart(granter)?;
    match script.read(0, file, 0, 11)? {
        bytes if bytes == "thirdsecond" => Ok(()),
        other => Err(format!("written and acknowledged, and read as {other:?}")),
    }
}

/// The masters' disks are slow, and a file is made. At the moment at which its client is answered
/// all masters lose power, and with it what is not on disk.
fn all_lose_power_when_it_is_answered(script: &mut DrillScript) -> Verdict {
    let masters = script.nodes().masters.clone();
    masters.iter().for_each(|master| script.sim.world.slow_disk(*master, SLOW_DISK));
    script.create("/f", Content::Bytes)?;
    masters.iter().for_each(|master| script.power_loss_of_all_unsynced(*master));
    for master in masters {
        script.sim.world.slow_disk(master, 1);
        script.restart(master)?;
    }
    script.pass(PAST_ELECTIONS);
    script.done(1, stat("/f")).map(drop)
}

/// What one member says to another in this request.
fn said<'a>(
    seen: &SeenRequest<'a>,
    (from, to): (NodeId, NodeId),
) -> impl Iterator<Item = &'a ConsensusMessage> {
    let messages = match seen.request {
        Request::ConsensusMessages(them) if (seen.from, seen.to) == (from, to) => {
            &them.messages[..]
        }
        _ => &[],
    };
    messages.iter()
}

/// One that follows gets the next record, and does not hear any more that it is committed.
fn keep_from_hearing_of_the_commit(script: &mut DrillScript, between: (NodeId, NodeId)) {
    let mut got: Option<LogIndex> = None;
    script.stall(move |seen| {
        let is_told = |message: &ConsensusMessage| got.is_some_and(|it| message.committed >= it);
        let tells = said(seen, between).any(is_told);
        let entries = said(seen, between).flat_map(|message| &message.entries);
        got = got.or(entries.map(|entry| entry.index).max());
        tells
    });
}

/// Of three masters one is cut off while a file is deleted. The other one that follows has the
/// record, and when the client has been answered, the one in charge dies: nobody has told the other
/// yet that the record is committed. It is elected by the one that was cut off, and asked before
/// anything of its own term is applied: it may not say that the file is there.
fn look_up_at_one_that_has_not_applied_it(script: &mut DrillScript) -> Verdict {
    script.create("/f", Content::Bytes)?;
    script.pass(Duration::from_secs(1));
    let (former, [next, lacks]) = by_charge(script)?;
    [former, next].into_iter().for_each(|other| script.part(lacks, other));
    keep_from_hearing_of_the_commit(script, (former, next));
    script.done(1, delete("/f"))?;
    script.until_stalled()?;
    script.kill(former);
    // The first record of its term does not reach the one that votes for it.
    let elected = Rc::new(Cell::new(false));
    let noted = elected.clone();
    script.stall(move |seen| {
        let is_first = said(seen, (next, lacks)).any(|message| !message.entries.is_empty());
        noted.set(noted.get() || is_first);
        is_first
    });
    script.heal(lacks, next);
    script.until("another is elected", |_| elected.get())?;
    for _ in 0..10 {
        if let Ok(answer) = script.probe(next, Stat { path: path("/f") }, Bytes::new()) {
            return Err(format!("deleted, and yet it is there: {:?}", answer.response));
        }
        script.pass(Duration::from_millis(5));
    }
    script.release();
    script.heal(lacks, former);
    script.restart(former)?;
    script.pass(PAST_ELECTIONS);
    script.refused(1, stat("/f"))?;
    script.create("/after", Content::Bytes).map(drop)
}

/// A client's deletion is done, and its answer lost. Another client makes the name anew, and the
/// master dies: the retry gets the first try's outcome of the one that takes over.
fn deletion_retried_at_the_next_master(script: &mut DrillScript) -> Verdict {
    script.create("/f", Content::Bytes)?;
    let (former, client) = (script.master_in_charge()?, script.nodes().clients[1]);
    script.done(1, stat("/f"))?;
    script.mute(former, client);
    let deletion = script.ask(1, delete("/f"));
    until_seen(script, "/f", false)?;
    let anew = make_anew(script)?;
    script.kill(former);
    script.heal(former, client);
    let ended = script.wait(deletion);
    script.restart(former)?;
    still_there(script, anew)?;
    ended.map(drop).map_err(|_| "the deletion was done, and its retry is refused".to_owned())
}
