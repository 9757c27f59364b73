//! Drills of how a group of masters is made (R25): once, of masters on empty disks, each of which
//! has drawn an id that no other disk ever had.

use super::drill::Drill;
use super::script::DrillScript;
use crate::checkers::Verdict;
use crate::group_faults::{GroupFaults, empty};
use crate::operations::{ClientOp, OpOutput, path};
use bytes::Bytes;
use cairn_env_sim::NodeId;
use cairn_protocol::{Failure, JoinGroup, ListMasters, ListMastersAnswer, Response};
use cairn_types::planted::Rule;
use cairn_types::{CellId, Content, Member, MemberStanding, Members};
use std::time::Duration;

pub(super) const DRILLS: &[Drill] = &[
    Drill::of_rule(
        Rule::R25,
        "an empty disk takes an old id and votes again",
        3,
        an_empty_disk_is_asked_to_be_who_it_was,
    )
    .with_waiting_masters(),
    Drill::of_rule(
        Rule::R25,
        "a group is created twice, before its members have started as such",
        3,
        two_groups_of_the_same_masters,
    )
    .with_waiting_masters(),
];

const CELL: CellId = CellId::new(0xce11);
const OTHER_CELL: CellId = CellId::new(0x07ce11);
/// Longer than any election takes.
const PAST_ELECTIONS: Duration = Duration::from_secs(10);

/// What a master says of itself.
fn list(script: &mut DrillScript, node: NodeId) -> Result<ListMastersAnswer, String> {
    match script.probe(node, ListMasters {}, Bytes::new()).map(|answer| answer.response) {
        Ok(Response::ListMasters(answer)) => Ok(answer),
        other => Err(format!("who it is: {other:?}")),
    }
}

/// The group that a person makes of all masters, as they are now.
fn group(script: &mut DrillScript, cell: CellId) -> Result<JoinGroup, String> {
    let mut members = Members::default();
    for node in script.nodes().masters.clone() {
        let (id, address) = (list(script, node)?.me, script.address(node));
        members.all.push(Member { id, address, standing: MemberStanding::Voter });
    }
    Ok(JoinGroup { cell, members })
}

/// A person has a master become a member.
fn join(script: &mut DrillScript, node: NodeId, group: &JoinGroup) -> Result<(), Failure> {
    script.probe(node, group.clone(), Bytes::new()).map(drop)
}

/// The processes of those who have become members go on as such.
fn start_members(script: &mut DrillScript, count: usize) -> Verdict {
    let mut ended = Vec::new();
    for _ in 0..100 {
        ended.extend(GroupFaults::take_halts(&mut script.sim));
        if ended.len() == count {
            return ended.into_iter().try_for_each(|node| script.restart(node));
        }
        script.pass(Duration::from_millis(20));
    }
    Err(format!("{} of {count} masters have become members", ended.len()))
}

/// A group is made of all masters, and one of them is in charge.
fn make_group(script: &mut DrillScript) -> Result<(JoinGroup, NodeId), String> {
    let group = group(script, CELL)?;
    let masters = script.nodes().masters.clone();
    for node in &masters {
        join(script, *node, &group).map_err(|why| why.to_string())?;
    }
    start_members(script, masters.len())?;
    script.pass(PAST_ELECTIONS);
    let in_charge = script.master_in_charge()?;
    Ok((group, in_charge))
}

fn is_there(script: &mut DrillScript, name: &str) -> Verdict {
    match script.done(0, ClientOp::Stat { path: path(name) })? {
        OpOutput::Entry(_) => Ok(()),
        other => Err(format!("{name}: {other:?}")),
    }
}

/// A file is made while one of three masters is cut off. Of the two that know of it one dies, and
/// the other's disk is lost; a person, who does not know what is the matter, makes the same group
/// again. The master on the empty disk is nobody's: it does not vote with the one that knows
/// nothing of the file.
fn an_empty_disk_is_asked_to_be_who_it_was(script: &mut DrillScript) -> Verdict {
    let (group, first) = make_group(script)?;
    script.create("/before", Content::Bytes)?;
    let others: Vec<NodeId> =
        script.nodes().masters.iter().copied().filter(|node| *node != first).collect();
    let [emptied, behind] = others[..] else { return Err("three masters".to_owned()) };
    script.part(behind, first);
    script.part(behind, emptied);
    script.create("/f", Content::Bytes)?;
    script.kill(first);
    script.kill(emptied);
    empty(&mut script.sim, emptied);
    script.restart(emptied)?;
    let again = join(script, emptied, &group);
    if again.is_ok() {
        start_members(script, 1)?;
    }
    script.heal(behind, emptied);
    script.heal(behind, first);
    script.pass(PAST_ELECTIONS);
    if let Ok(in_charge) = script.master_in_charge() {
        is_there(script, "/f")?;
        return Err(format!("{in_charge:?} is in charge without a majority"));
    }
    script.restart(first)?;
    script.pass(PAST_ELECTIONS);
    is_there(script, "/f")?;
    script.create("/after", Content::Bytes).map(drop)
}

/// Two people make a group of the same masters: the second is quick, and no master has started as a
/// member yet. What the first was told stays true.
fn two_groups_of_the_same_masters(script: &mut DrillScript) -> Verdict {
    let masters = script.nodes().masters.clone();
    let group = group(script, CELL)?;
    let other = JoinGroup { cell: OTHER_CELL, ..group.clone() };
    for node in &masters {
        join(script, *node, &group).map_err(|why| why.to_string())?;
        // Refused, or this master is another cell's now: the first was told otherwise.
        drop(join(script, *node, &other));
    }
    start_members(script, masters.len())?;
    script.pass(PAST_ELECTIONS);
    for node in &masters {
        let cell = list(script, *node)?.cell;
        if cell != CELL {
            return Err(format!("{node:?} belongs to cell {cell}, and was made one of {CELL}"));
        }
        if join(script, *node, &other).is_ok() {
            return Err(format!("{node:?} says that it belongs to two cells"));
        }
    }
    script.create("/f", Content::Bytes)?;
    is_there(script, "/f")
}
