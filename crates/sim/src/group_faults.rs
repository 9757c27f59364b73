//! What befalls a group of masters: a disk is lost for good, members change, words get lost between
//! masters; and the person who tends the group (`masters_tender.rs`).
//!
//! - GF1: a disk is lost only of a group of three whose other two have kept theirs: what a majority
//!   had is then still on one of those, and both are needed to elect.
//! - GF2: an emptied disk's machine is put in nobody's place: it waits until a person has use for
//!   it, and who it was is taken out (R25).

use crate::masters_tender::{MastersTender, WantedGroup};
use crate::simulation::Simulation;
use cairn_env_sim::{NodeId, SimDisk};
use cairn_master::{JOINED, TAKEN_OUT};
use std::cell::Cell;
use std::rc::Rc;

/// How a master is told that starts with the directory of one who is a member no more.
const IS_TAKEN_OUT: &str = "was taken out of its group";

/// How a master's process ends whose empty disk has no room for a member's files.
const NO_ROOM: [&str; 2] = ["operation log: no space left", "disk: too many open files"];

/// The faults of a group, and its tender.
#[derive(Default)]
pub(crate) struct GroupFaults {
    tender: MastersTender,
}

impl GroupFaults {
    /// Somebody tends the group of the first masters, of so many; whether it is as it should be.
    pub(crate) fn start(&mut self, sim: &mut Simulation, voters: usize) -> Rc<Cell<bool>> {
        self.tender.start(sim, voters);
        self.tender.settled()
    }

    /// The tender looks.
    pub(crate) fn look(&mut self, sim: &mut Simulation) {
        self.tender.look(sim);
    }

    /// Masters that belong to nothing, with the group as it is; none while it changes.
    fn spares(&self, sim: &Simulation) -> Option<(WantedGroup, Vec<NodeId>)> {
        let wanted = self.tender.as_wanted()?.clone();
        let is_spare =
            |node: &&NodeId| !wanted.voters.contains(node) && !wanted.learners.contains(node);
        let spares = sim.nodes.masters.iter().filter(is_spare).copied().collect();
        Some((wanted, spares))
    }

    /// A master's disk is emptied while it is down, and a spare one comes in its place (GF1); which
    /// it is, to be started later.
    pub(crate) fn lose_disk(&mut self, sim: &mut Simulation) -> Option<NodeId> {
        let (mut wanted, spares) = self.spares(sim)?;
        let voters: Vec<NodeId> = wanted.voters.iter().copied().collect();
        if voters.len() < 3 || spares.is_empty() {
            return None;
        }
        let lost = *sim.random().pick(&voters).expect("three at least");
        let comes = *sim.random().pick(&spares).expect("looked at just now");
        sim.reach("master's disk lost");
        if sim.world.is_alive(lost) {
            sim.world.kill(lost);
        }
        empty(sim, lost);
        wanted.voters.remove(&lost);
        wanted.voters.insert(comes);
        self.tender.want(wanted);
        self.tender.unsettle();
        Some(lost)
    }

    /// A person has the group changed.
    pub(crate) fn change(&mut self, sim: &mut Simulation) {
        let Some((mut wanted, mut spares)) = self.spares(sim) else { return };
        let voters: Vec<NodeId> = wanted.voters.iter().copied().collect();
        let some_voter = *sim.random().pick(&voters).expect("somebody votes");
        let some_spare = sim.random().pick(&spares).copied();
        let learner = wanted.learners.first().copied();
        let drawn = sim.random().below(4);
        match (drawn, some_spare, learner) {
            (0, ..) if voters.len() == 3 => {
                sim.reach("group to be shrunk to one");
                wanted.voters = [some_voter].into();
            }
            (0, Some(_), _) if voters.len() == 1 => {
                sim.reach("group to be grown to three");
                spares.truncate(2);
                wanted.voters.extend(spares);
            }
            (1, Some(spare), None) => {
                sim.reach("member that never votes to be added");
                wanted.learners.insert(spare);
            }
            (1, _, Some(learner)) => {
                sim.reach("member that never votes to be taken out");
                wanted.learners.remove(&learner);
            }
            (2, Some(spare), _) if voters.len() == 1 => {
                sim.reach("only master to be replaced");
                wanted.voters = [spare].into();
            }
            (_, Some(spare), _) if voters.len() == 3 => {
                sim.reach("master to be replaced");
                wanted.voters.remove(&some_voter);
                wanted.voters.insert(spare);
            }
            _ => return,
        }
        self.tender.want(wanted);
    }

    /// A master is cut off from another, or from all others: its word does not reach them, theirs
    /// does not reach it, or neither. Whose word does not reach whom.
    pub(crate) fn cut(sim: &mut Simulation) -> Vec<(NodeId, NodeId)> {
        let (one, masters) = (sim.some_master(), sim.nodes.masters.clone());
        let mut others: Vec<NodeId> = masters.into_iter().filter(|it| *it != one).collect();
        if sim.random().chance(400) {
            let other = *sim.random().pick(&others).expect("masters of a group");
            others = vec![other];
        }
        if sim.random().chance(250) {
            return Self::divide(sim, one);
        }
        let way = sim.random().below(3);
        sim.reach(match way {
            0 => "master's word lost on its way to others",
            1 => "others' word lost on its way to a master",
            _ => "master cut off from others",
        });
        let mut cut = Vec::new();
        if way != 1 {
            cut.extend(others.iter().map(|other| (one, *other)));
        }
        if way != 0 {
            cut.extend(others.iter().map(|other| (*other, one)));
        }
        for (from, to) in &cut {
            sim.world.partition(*from, *to);
        }
        cut
    }

    /// The network falls into two parts: a master with some of the chunkservers, and the others
    /// with the rest. Clients reach both.
    fn divide(sim: &mut Simulation, one: NodeId) -> Vec<(NodeId, NodeId)> {
        sim.reach("network divided, a master and chunkservers in each part");
        let (mut here, mut there) = (vec![one], Vec::new());
        there.extend(sim.nodes.masters.iter().copied().filter(|it| *it != one));
        for server in sim.nodes.servers.clone() {
            let part = if sim.random().chance(500) { &mut here } else { &mut there };
            part.push(server);
        }
        let mut cut = Vec::new();
        for (a, b) in here.iter().flat_map(|a| there.iter().map(move |b| (*a, *b))) {
            cut.extend([(a, b), (b, a)]);
        }
        for (from, to) in &cut {
            sim.world.partition(*from, *to);
        }
        cut
    }

    /// Masters whose processes ended because they became members, or are none any more, or could
    /// not become members: the first go on as masters, the second are given an empty directory.
    /// They are to be started.
    pub(crate) fn take_halts(sim: &mut Simulation) -> Vec<NodeId> {
        let mut ended = Vec::new();
        for (_, node, why) in sim.world.halts().to_vec() {
            if why == JOINED {
                sim.reach("empty master became a member");
            } else if why == TAKEN_OUT {
                sim.reach("master heard that it was taken out");
                empty(sim, node);
            } else if NO_ROOM.iter().any(|it| why.starts_with(it)) {
                sim.reach("empty master ended: no room to become a member");
            } else {
                continue;
            }
            drop(sim.world.take_halt(node));
            ended.push(node);
        }
        ended
    }

    /// Whether a master does not start because it is a member no more: then its directory is
    /// empty.
    pub(crate) fn is_taken_out(sim: &mut Simulation, node: NodeId, why: &str) -> bool {
        let is_out = sim.nodes.masters.contains(&node) && why.contains(IS_TAKEN_OUT);
        if is_out {
            sim.reach("master started that was taken out");
            empty(sim, node);
        }
        is_out
    }
}

/// Nothing is left of who this master was.
pub(crate) fn empty(sim: &mut Simulation, node: NodeId) {
    sim.world.disks(node).iter().for_each(SimDisk::wipe);
    sim.observer.borrow_mut().master_emptied(node);
}
