//! The person who tends the group of masters: masters are to belong to it, and he does what `cairn
//! masters add`, `remove` and `replace` do until they are what belongs to it (R25).
//!
//! ```text
//!   every POLL: ask each master who it is ──► does whoever is in charge say what is wanted?
//!      ├─ no member yet: it learns ──► its empty disk is told of the group ──► its process starts
//!      ├─ all who come have their records: one step, in which they vote and the others go
//!      └─ as wanted: settled
//! ```
//! - MT1: what he wants changes only when it has been reached; one disk is lost at a time.
//! - MT2: he knows what the masters say, and which disks he has emptied; what becomes of a question
//!   he learns from the answers to the next ones.

use crate::cell::{add_prober, master_addresses};
use crate::prober::{PendingAnswer, send};
use crate::simulation::Simulation;
use bytes::Bytes;
use cairn_env_sim::NodeId;
use cairn_protocol::{
    ChangeMasters, JoinGroup, ListMasters, ListMastersAnswer, MasterRole, Request, Response, Role,
};
use cairn_types::{Address, Member, MemberChange, MemberStanding, Members};
use std::cell::Cell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

/// How often he looks.
const POLL: Duration = Duration::from_millis(400);
/// The script token of a look; of the run's own.
pub(crate) const TEND: u64 = 3;
/// Records that a new member may lack when it gets its vote.
const LAG_MAX: u64 = 500;

/// Who is to belong to the group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct WantedGroup {
    pub(crate) voters: BTreeSet<NodeId>,
    pub(crate) learners: BTreeSet<NodeId>,
}

/// He.
#[derive(Default)]
pub(crate) struct MastersTender {
    prober: Option<NodeId>,
    wanted: WantedGroup,
    settled: Rc<Cell<bool>>,
    /// What each master is asked about itself.
    asked: Vec<(NodeId, PendingAnswer)>,
    /// What was asked for last, and what it is.
    wish: Option<(&'static str, PendingAnswer)>,
    /// The group as the answer to its last change said.
    members: Members,
}

impl MastersTender {
    /// Begins, in a cell with a group and a spare master.
    pub(crate) fn start(&mut self, sim: &mut Simulation, voters: usize) {
        self.prober = Some(add_prober(&mut sim.world, "tender", Role::Client));
        self.wanted.voters = sim.nodes.masters[..voters].iter().copied().collect();
        self.settled.set(true);
        sim.world.script(POLL, TEND);
    }

    /// Whether the group is as it should be; told to whoever waits for it.
    pub(crate) fn settled(&self) -> Rc<Cell<bool>> {
        self.settled.clone()
    }

    /// Who is to belong to the group, where they all do (MT1).
    pub(crate) fn as_wanted(&self) -> Option<&WantedGroup> {
        (self.prober.is_some() && self.settled.get()).then_some(&self.wanted)
    }

    /// Others are to belong to it.
    pub(crate) fn want(&mut self, wanted: WantedGroup) {
        self.settled.set(self.wanted == wanted && self.settled.get());
        self.wanted = wanted;
    }

    /// A disk was emptied: what he knew of its machine is not so any more.
    pub(crate) fn unsettle(&mut self) {
        self.settled.set(false);
        self.asked.clear();
    }

    /// He looks.
    pub(crate) fn look(&mut self, sim: &mut Simulation) {
        let Some(prober) = self.prober else { return };
        sim.world.script(POLL, TEND);
        if let Some((what, answer)) = &self.wish {
            let Some(answer) = answer.take() else { return };
            match answer {
                Ok(answer) => {
                    sim.reach(what);
                    if let Response::ChangeMasters(answer) = answer.response {
                        self.members = answer.members;
                    }
                }
                Err(why) => {
                    sim.world.trace().line(|| format!("{what}: {why}"));
                    sim.reach("step of the group refused, or not answered");
                }
            }
            self.wish = None;
        }
        if self.asked.is_empty() {
            let all = sim.nodes.masters.clone();
            self.asked = all.into_iter().map(|node| (node, ask_one(sim, prober, node))).collect();
            return;
        }
        let is_open = |(_, answer): &(NodeId, PendingAnswer)| answer.borrow().is_none();
        if self.asked.iter().any(is_open) {
            return;
        }
        let told =
            self.asked.drain(..).filter_map(|(node, answer)| match answer.take()?.ok()?.response {
                Response::ListMasters(answer) => Some((node, answer)),
                _ => None,
            });
        let told: Vec<(NodeId, ListMastersAnswer)> = told.collect();
        let primary = told.iter().filter(|(_, it)| it.role == MasterRole::Primary);
        let Some((_, group)) = primary.max_by_key(|(_, it)| it.term) else { return };
        if let Some((what, to, request)) = self.next_wish(sim, group, &told) {
            self.settled.set(false);
            let answer = send(sim, prober, to, (request, Bytes::new()));
            self.wish = Some((what, answer));
        }
    }

    /// What is to be done next, if anything.
    fn next_wish(
        &self,
        sim: &Simulation,
        group: &ListMastersAnswer,
        told: &[(NodeId, ListMastersAnswer)],
    ) -> Option<(&'static str, Address, Request)> {
        use MemberStanding::{Entering, Learner, Leaving, Voter};
        let at = |node: NodeId| address_of(sim, node);
        let in_charge = group.members.iter().find(|it| it.member.id == group.me)?.member.clone();
        let under_way = |it: &Member| matches!(it.standing, Entering | Leaving);
        if group.members.iter().any(|it| under_way(&it.member)) {
            return None;
        }
        let wanted = self.wanted.voters.iter().chain(&self.wanted.learners);
        let mut coming = Vec::new();
        for node in wanted {
            // Who does not answer is what it was.
            let Some((_, one)) = told.iter().find(|(it, _)| it == node) else { continue };
            let member = Member { id: one.me, address: at(*node), standing: Learner };
            let known = group.members.iter().find(|it| it.member.id == one.me);
            let is_said = self.members.get(one.me).is_some();
            let known = match known {
                Some(known) if !one.cell.is_none() => known,
                // What holds already is no change: the answer says as of which record it does.
                Some(_) if is_said => {
                    let request = JoinGroup { cell: group.cell, members: self.members.clone() };
                    return Some(("empty master told of its group", at(*node), request.into()));
                }
                _ => {
                    let change = MemberChange { member, goes: false };
                    let request = ChangeMasters { changes: vec![change] };
                    return Some(("master taken in to learn", in_charge.address, request.into()));
                }
            };
            if self.wanted.voters.contains(node) && known.member.standing == Learner {
                if known.matched.get() + LAG_MAX < group.applied.get() {
                    return None;
                }
                let member = Member { standing: Voter, ..known.member.clone() };
                coming.push(MemberChange { member, goes: false });
            }
        }
        let wanted_at: BTreeSet<Address> =
            self.wanted.voters.iter().chain(&self.wanted.learners).map(|it| at(*it)).collect();
        let is_stranger = |it: &&Member| !wanted_at.contains(&it.address);
        let going = group.members.iter().map(|it| &it.member).filter(is_stranger);
        coming.extend(going.map(|it| MemberChange { member: it.clone(), goes: true }));
        let here = |nodes: &BTreeSet<NodeId>, standing: MemberStanding| {
            let count = group.members.iter().filter(|it| it.member.standing == standing).count();
            count == nodes.len()
        };
        if coming.is_empty() {
            let is_so = here(&self.wanted.voters, Voter) && here(&self.wanted.learners, Learner);
            self.settled.set(is_so);
            return None;
        }
        let request = ChangeMasters { changes: coming };
        Some(("members of the group changed", in_charge.address, request.into()))
    }
}

fn address_of(sim: &Simulation, node: NodeId) -> Address {
    let masters = &sim.nodes.masters;
    let at = masters.iter().position(|master| *master == node).expect("one of the masters");
    master_addresses(masters.len()).remove(at)
}

fn ask_one(sim: &mut Simulation, prober: NodeId, node: NodeId) -> PendingAnswer {
    let to = address_of(sim, node);
    send(sim, prober, to, (ListMasters {}.into(), Bytes::new()))
}
