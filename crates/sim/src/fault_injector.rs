//! The faults of a run: drawn from the seed, fired at the world, and ended again.

mod of_machines;
mod of_masters;

use crate::disk_damage::{flip_some_bit, lose_some_sector, misdirect_some_write};
use crate::fault_endings::{FaultEnd, FaultEndings, defuse, make_room, one_less, set_at_ease};
use crate::fault_mix::{FaultKind, FaultMix};
use crate::group_faults::GroupFaults;
use crate::machine_faults::MachineFaults;
use crate::masters_tender::TEND;
use crate::simulation::Simulation;
use cairn_env_sim::{DiskFaults, NodeId, SimDisk};
use cairn_protocol::Request;
use of_masters::MasterFiles;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

/// The script token that fires the next fault.
pub(crate) const NEXT_FAULT: u64 = 1;
/// The longest that a job of a slow disk takes to come back to its process.
const TOLD_WITHIN: Duration = Duration::from_secs(3);

/// The injector.
pub(crate) struct FaultInjector {
    mix: FaultMix,
    endings: FaultEndings,
    /// What nothing undoes.
    machines: MachineFaults,
    /// Of masters, where they are a group.
    group: GroupFaults,
    /// Of a master's own files.
    master_files: MasterFiles,
    over: bool,
    /// Whose processes may end by themselves, because of how many faults of their disks.
    may_halt: BTreeMap<NodeId, u32>,
    /// Where files cannot be opened, or nothing more be written: what runs there goes on, what
    /// starts may not.
    cramped: BTreeMap<NodeId, u32>,
    /// Whose disk lies about syncs, if one does.
    liar: Option<NodeId>,
}

impl FaultInjector {
    pub(crate) fn new(mix: FaultMix) -> Self {
        Self {
            mix,
            endings: FaultEndings::default(),
            machines: MachineFaults::default(),
            group: GroupFaults::default(),
            master_files: MasterFiles::default(),
            over: false,
            may_halt: BTreeMap::new(),
            cramped: BTreeMap::new(),
            liar: None,
        }
    }

    /// Before anything happens.
    pub(crate) fn start(&self, sim: &mut Simulation) {
        if self.mix.tears_pages {
            for node in sim.nodes.with_disks() {
                sim.world.disks(node).iter().for_each(SimDisk::tear_pages);
            }
        }
        self.arrange_next(sim);
    }

    /// Somebody tends the group of masters, which has so many members and spare ones beside them;
    /// tells whether it is as it should be.
    pub(crate) fn tend_masters(&mut self, sim: &mut Simulation, members: usize) -> Rc<Cell<bool>> {
        self.group.start(sim, members)
    }

    /// Arranges for the next fault.
    fn arrange_next(&self, sim: &mut Simulation) {
        if self.mix.every_ms > 0 && !self.over {
            let wait = sim.random().below(2 * self.mix.every_ms) + 1;
            sim.world.script(Duration::from_millis(wait), NEXT_FAULT);
        }
    }

    /// A script token of its own has come.
    pub(crate) fn on_token(&mut self, sim: &mut Simulation, token: u64) {
        self.take_halts(sim);
        if token == TEND {
            return self.group.look(sim);
        } else if token != NEXT_FAULT {
            if let Some(ending) = self.endings.take(token) {
                self.end(sim, ending);
            }
            return;
        }
        if self.over {
            return;
        }
        if let Some(kind) = self.mix.draw(sim.random()) {
            self.fire(sim, kind);
        }
        self.arrange_next(sim);
    }

    fn later(&mut self, sim: &mut Simulation, max_ms: u64, ending: FaultEnd) {
        self.endings.within(sim, max_ms, ending);
    }

    fn some_server(sim: &mut Simulation) -> NodeId {
        let servers = sim.nodes.servers.clone();
        *sim.random().pick(&servers).expect("a cell has servers")
    }

    fn someone(sim: &mut Simulation) -> NodeId {
        let mut all = sim.nodes.with_disks();
        all.extend(&sim.nodes.clients);
        *sim.random().pick(&all).expect("a cell has machines")
    }

    fn fire(&mut self, sim: &mut Simulation, kind: FaultKind) {
        sim.world.trace().line(|| format!("fault: {kind:?}"));
        match kind {
            FaultKind::Kill => self.stop_some_server(sim, false),
            FaultKind::KillInWrite => self.kill_in_write(sim),
            FaultKind::PowerLoss => self.stop_some_server(sim, true),
            FaultKind::KillMaster => self.stop_some_master(sim, false),
            FaultKind::PowerLossMaster => self.stop_some_master(sim, true),
            FaultKind::KillAll => self.kill_all(sim),
            FaultKind::PowerLossAll => self.power_loss_all(sim),
            FaultKind::Partition => self.partition(sim),
            FaultKind::BreakConnection => sim.world.break_some_connection(),
            FaultKind::Pause => {
                let node = Self::someone(sim);
                let span = 1 + sim.random().below(6_000);
                sim.world.pause(node, Duration::from_millis(span));
            }
            FaultKind::Slow => self.slow(sim),
            FaultKind::SlowDisk => self.slow_disk(sim),
            FaultKind::JumpWall => Self::jump_wall(sim),
            FaultKind::Corrupt => {
                sim.reach("payloads damaged for a while");
                sim.world.corrupt(100);
                self.later(sim, 3_000, FaultEnd::Clean);
            }
            FaultKind::OldImage => self.old_image(sim),
            FaultKind::FullDisk => {
                let node = Self::some_server(sim);
                self.full_disk(sim, node);
            }
            FaultKind::FullMasterDisk => {
                let master = sim.some_master();
                self.full_disk(sim, master);
            }
            FaultKind::FlipBit => Self::damage_some_server(sim, flip_some_bit),
            FaultKind::UnreadableSector => Self::damage_some_server(sim, lose_some_sector),
            FaultKind::MisdirectedWrite => Self::damage_some_server(sim, misdirect_some_write),
            FaultKind::FailedSync => self.failed_sync(sim),
            FaultKind::Outage => self.outage(sim),
            FaultKind::DeviceErrors => self.device_errors(sim),
            FaultKind::LyingSyncs => self.lying_syncs(sim),
            FaultKind::NoDescriptors => self.no_descriptors(sim),
            FaultKind::CutOffFromPeers => self.cut_off_from_peers(sim),
            FaultKind::LateMember => self.late_member(sim),
            FaultKind::GoneForGood => {
                let server = Self::some_server(sim);
                self.machines.end(sim, server);
            }
            FaultKind::Emptied => {
                let server = Self::some_server(sim);
                if self.machines.wipe(sim, server) {
                    self.later(sim, 3_000, FaultEnd::Restart(server));
                }
            }
            FaultKind::LessThanBefore => {
                let server = Self::some_server(sim);
                if self.machines.lose_some_files(sim, server) {
                    self.later(sim, 800, FaultEnd::Restart(server));
                }
            }
            FaultKind::LostDirectory => self.lost_directory(sim),
            FaultKind::CopiedDisk => self.copied_disk(sim),
            FaultKind::LongPause => Self::long_pause(sim),
            FaultKind::ChangeMasters | FaultKind::LostMasterDisk | FaultKind::CutMaster => {
                self.fire_at_group(sim, kind);
            }
            FaultKind::UnreadablePage => self.lose_some_page(sim),
            FaultKind::UnreadableLog => self.lose_some_log_page(sim),
            FaultKind::MasterSetBack => self.set_master_back(sim),
        }
    }

    fn fire_at_group(&mut self, sim: &mut Simulation, kind: FaultKind) {
        if kind == FaultKind::ChangeMasters {
            self.group.change(sim);
        } else if kind == FaultKind::CutMaster {
            for (from, to) in GroupFaults::cut(sim) {
                self.later(sim, 8_000, FaultEnd::Heal(from, to));
            }
        } else if let Some(lost) = self.group.lose_disk(sim) {
            self.later(sim, 3_000, FaultEnd::Restart(lost));
        }
    }

    fn damage_some_server(sim: &mut Simulation, damage: fn(&mut Simulation, NodeId)) {
        let server = Self::some_server(sim);
        damage(sim, server);
    }

    fn stop_some_master(&mut self, sim: &mut Simulation, power: bool) {
        let master = sim.some_master();
        self.stop(sim, master, power);
    }

    fn stop_some_server(&mut self, sim: &mut Simulation, power: bool) {
        let server = Self::some_server(sim);
        self.stop(sim, server, power);
    }

    fn kill_in_write(&mut self, sim: &mut Simulation) {
        let server = Self::some_server(sim);
        let steps = sim.random().below(60);
        sim.world.kill_in_write(server, steps);
        self.later(sim, 8_000, FaultEnd::Defuse(server));
    }

    fn power_loss_all(&mut self, sim: &mut Simulation) {
        sim.reach("all chunkservers lost power at once");
        for node in sim.nodes.servers.clone() {
            self.stop(sim, node, true);
        }
    }

    fn slow(&mut self, sim: &mut Simulation) {
        let node = Self::someone(sim);
        let times = u32::try_from(2 + sim.random().below(200)).expect("small");
        sim.world.slow(node, times);
        self.later(sim, 5_000, FaultEnd::Quick(node));
    }

    fn slow_disk(&mut self, sim: &mut Simulation) {
        let nodes = sim.nodes.with_disks();
        let node = *sim.random().pick(&nodes).expect("a cell has machines");
        let times = u32::try_from(2 + sim.random().below(300)).expect("small");
        sim.world.slow_disk(node, times);
        self.later(sim, 5_000, FaultEnd::QuickDisk(node));
    }

    fn kill_all(&mut self, sim: &mut Simulation) {
        sim.reach("all killed at once");
        for node in sim.nodes.with_disks() {
            self.stop(sim, node, false);
        }
    }

    fn full_disk(&mut self, sim: &mut Simulation, node: NodeId) {
        let is_master = sim.nodes.masters.contains(&node);
        sim.reach(if is_master {
            "master's disk full for a while"
        } else {
            "disk full for a while"
        });
        sim.world.disks(node).iter().for_each(|disk| disk.set_capacity(1));
        *self.cramped.entry(node).or_default() += 1;
        self.later(sim, 4_000, FaultEnd::Roomy(node));
    }

    /// Takes an image of some server's disk; the next time, that server wakes up with it.
    fn old_image(&mut self, sim: &mut Simulation) {
        if self.master_files.is_set_back() {
            return;
        }
        let Some(node) = self.machines.old_image(sim, Self::some_server) else { return };
        sim.observer.borrow_mut().set_back.forget(node);
        self.later(sim, 800, FaultEnd::Restart(node));
    }

    fn stop(&mut self, sim: &mut Simulation, node: NodeId, power: bool) {
        if !sim.world.is_alive(node) {
            return;
        }
        if power {
            sim.world.power_loss(node);
            sim.observer.borrow_mut().ledger.power_lost(node);
        } else {
            sim.world.kill(node);
        }
        let away = if sim.random().chance(500) { 800 } else { 10_000 };
        self.later(sim, away, FaultEnd::Restart(node));
    }

    fn partition(&mut self, sim: &mut Simulation) {
        let (a, b) = (Self::someone(sim), Self::someone(sim));
        let both = sim.random().chance(500);
        if a == b || self.keeps_apart(sim, &[a, b]) {
            return;
        }
        sim.world.partition(a, b);
        self.later(sim, 8_000, FaultEnd::Heal(a, b));
        if both {
            sim.world.partition(b, a);
            self.later(sim, 8_000, FaultEnd::Heal(b, a));
        }
    }

    fn end(&mut self, sim: &mut Simulation, ending: FaultEnd) {
        match ending {
            FaultEnd::Restart(node) => self.restart(sim, node),
            FaultEnd::Defuse(node) => {
                defuse(sim, node);
                self.restart(sim, node);
            }
            FaultEnd::Heal(a, b) => sim.world.heal(a, b),
            FaultEnd::Quick(node) => sim.world.slow(node, 1),
            FaultEnd::QuickDisk(node) => sim.world.slow_disk(node, 1),
            FaultEnd::Clean => sim.world.corrupt(0),
            FaultEnd::Roomy(node) => {
                make_room(sim, node);
                one_less(&mut self.cramped, node);
            }
            FaultEnd::Sound(node) => {
                self.mend_disk(sim, node);
                self.endings.after(sim, TOLD_WITHIN, FaultEnd::Told(node));
            }
            FaultEnd::Told(node) => self.must_not_halt(sim, node),
            FaultEnd::Descriptors(node) => {
                self.mend_disk(sim, node);
                one_less(&mut self.cramped, node);
            }
            FaultEnd::FailedSync(node) => self.end_failed_sync(sim, node),
            FaultEnd::Release => sim.world.release(),
            FaultEnd::Rejoin(node) => {
                for peer in sim.nodes.peers(node) {
                    sim.world.heal(node, peer);
                    sim.world.heal(peer, node);
                }
            }
            FaultEnd::PowerLoss(node) => self.stop(sim, node, true),
            FaultEnd::NewDirectories(node) => MachineFaults::put_directories(sim, node),
            FaultEnd::OwnDisks(node) => self.own_disks(sim, node),
            FaultEnd::Rested(node) => {
                self.machines.rested(node);
                self.restart(sim, node);
            }
            FaultEnd::Readable(node) => self.make_readable(sim, node),
            FaultEnd::PutForward(node) => self.put_master_forward(sim, node),
        }
    }

    /// Whether some machine is down until a copy of it is taken for dead.
    pub(crate) fn lets_rest(&self) -> bool {
        self.machines.lets_rest()
    }

    /// All faults end.
    pub(crate) fn clear(&mut self, sim: &mut Simulation) {
        self.over = true;
        self.take_halts(sim);
        self.may_halt.clear();
        self.endings.clear();
        for node in sim.nodes.with_disks() {
            set_at_ease(sim, node);
            self.mend_disk(sim, node);
        }
        for master in sim.nodes.masters.clone() {
            sim.world.disks(master).iter().for_each(SimDisk::make_readable);
        }
        // It starts, so its disk is well by then (seed 1 of dc4515c0).
        let master = sim.nodes.master;
        self.put_master_forward(sim, master);
        // Once a machine can open files, and write them (healing seed 195).
        for node in self.machines.borrowers() {
            self.own_disks(sim, node);
        }
        sim.world.release();
        sim.world.heal_all();
        sim.world.corrupt(0);
        for node in sim.nodes.with_disks() {
            defuse(sim, node);
            if sim.world.disks(node).len() > 1 && sim.world.is_alive(node) {
                // One that gave up a directory takes it in again at a start (DD2).
                sim.world.kill(node);
            }
            self.restart(sim, node);
        }
        sim.nodes.clients.clone().into_iter().for_each(|client| sim.world.slow(client, 1));
    }
}

// The faults of issue 15.
impl FaultInjector {
    fn some_with_disk(sim: &mut Simulation) -> NodeId {
        if sim.random().chance(200) { sim.some_master() } else { Self::some_server(sim) }
    }

    /// A sync fails, and what it was to save is never saved though it looks as if it were.
    fn failed_sync(&mut self, sim: &mut Simulation) {
        let node = Self::some_with_disk(sim);
        let (good, count) = (sim.random().below(30), 1 + sim.random().below(3));
        sim.world.disks(node).iter().for_each(|disk| disk.fail_syncs_after(good, count));
        *self.may_halt.entry(node).or_default() += 1;
        self.later(sim, 6_000, FaultEnd::FailedSync(node));
    }

    /// The process is gone by now, or goes; it starts again from what the page cache says, and
    /// then power may show what the disk says.
    fn end_failed_sync(&mut self, sim: &mut Simulation, node: NodeId) {
        if sim.world.is_alive(node) {
            sim.world.kill(node);
        }
        self.restart(sim, node);
        self.must_not_halt(sim, node);
        if sim.random().chance(600) {
            sim.reach("failed sync, restart, power loss");
            self.later(sim, 3_000, FaultEnd::PowerLoss(node));
        }
    }

    fn outage(&mut self, sim: &mut Simulation) {
        let node = Self::some_with_disk(sim);
        sim.world.outage(node);
        sim.observer.borrow_mut().ledger.outage(node);
        self.later(sim, 3_000, FaultEnd::Restart(node));
    }

    fn device_errors(&mut self, sim: &mut Simulation) {
        let node = Self::some_with_disk(sim);
        let permille = |sim: &mut Simulation| match sim.random().below(3) {
            0 => 0,
            1 => 1 + sim.random().below(50),
            _ => 1 + sim.random().below(1_000),
        };
        let (read_errors_permille, write_errors_permille) = (permille(sim), permille(sim));
        let lying_syncs_permille = self.lies_of(node);
        if read_errors_permille > 0 {
            sim.observer.borrow_mut().ledger.poor_readers.insert(node);
        }
        let faults = DiskFaults {
            read_errors_permille,
            write_errors_permille,
            lying_syncs_permille,
            ..DiskFaults::default()
        };
        self.set_disk_faults(sim, node, faults);
        *self.may_halt.entry(node).or_default() += 1;
        self.later(sim, 5_000, FaultEnd::Sound(node));
    }

    fn no_descriptors(&mut self, sim: &mut Simulation) {
        let node = Self::some_with_disk(sim);
        let lying_syncs_permille = self.lies_of(node);
        let faults =
            DiskFaults { no_descriptors: true, lying_syncs_permille, ..DiskFaults::default() };
        self.set_disk_faults(sim, node, faults);
        *self.cramped.entry(node).or_default() += 1;
        self.later(sim, 4_000, FaultEnd::Descriptors(node));
    }

    /// From now on one server's disk lies; its power goes now and then to show it.
    fn lying_syncs(&mut self, sim: &mut Simulation) {
        let drawn = Self::some_server(sim);
        let liar = *self.liar.get_or_insert(drawn);
        sim.observer.borrow_mut().ledger.liars.insert(liar);
        let lying_syncs_permille = self.lies_of(liar);
        self.set_disk_faults(
            sim,
            liar,
            DiskFaults { lying_syncs_permille, ..DiskFaults::default() },
        );
        self.later(sim, 6_000, FaultEnd::PowerLoss(liar));
    }

    fn lies_of(&self, node: NodeId) -> u64 {
        if self.liar == Some(node) { 300 } else { 0 }
    }

    fn set_disk_faults(&self, sim: &mut Simulation, node: NodeId, faults: DiskFaults) {
        let seed = sim.random().next_u64();
        sim.world.disks(node).iter().for_each(|disk| disk.set_faults(faults, seed));
    }

    /// The disk's own faults end, but for its lies.
    fn mend_disk(&mut self, sim: &mut Simulation, node: NodeId) {
        let lying_syncs_permille = if self.over { 0 } else { self.lies_of(node) };
        let faults = DiskFaults { lying_syncs_permille, ..DiskFaults::default() };
        sim.world.disks(node).iter().for_each(|disk| {
            disk.set_faults(faults, node.0 as u64);
            disk.fail_syncs(0);
        });
    }

    /// One of the faults that may end a process is over.
    fn must_not_halt(&mut self, sim: &mut Simulation, node: NodeId) {
        self.take_halts(sim);
        one_less(&mut self.may_halt, node);
    }

    /// For many leases; the master and the clients reach it all the time.
    fn cut_off_from_peers(&mut self, sim: &mut Simulation) {
        let server = Self::some_server(sim);
        let one_way = sim.random().chance(300);
        sim.reach("server cut off from its peers");
        sim.world
            .trace()
            .line(|| format!("cut off from its peers: {server:?}, one way: {one_way}"));
        for peer in sim.nodes.peers(server) {
            sim.world.partition(server, peer);
            if !one_way {
                sim.world.partition(peer, server);
            }
        }
        let longest = if sim.random().chance(300) { 120_000 } else { 20_000 };
        self.later(sim, longest, FaultEnd::Rejoin(server));
    }

    /// The next raise or grant for a server comes seconds late; what it sends is not held up.
    fn late_member(&mut self, sim: &mut Simulation) {
        if sim.world.is_stalled() {
            return;
        }
        let late = Self::some_server(sim);
        let raises = sim.random().chance(700);
        sim.world.stall(Box::new(move |seen| {
            let chosen = match seen.request {
                Request::Raise(_) => raises,
                Request::GrantLease(_) => !raises,
                _ => false,
            };
            chosen && seen.to == late
        }));
        self.later(sim, 5_000, FaultEnd::Release);
    }

    /// Processes whose disks failed may have ended by themselves: they are started again, as a
    /// supervisor would.
    fn take_halts(&mut self, sim: &mut Simulation) {
        for node in GroupFaults::take_halts(sim) {
            self.restart(sim, node);
        }
        let surprise =
            sim.world.halts().iter().find(|(_, node, _)| !self.may_halt.contains_key(node));
        if let Some((at, node, why)) = surprise.cloned() {
            let name = sim.world.name(node).to_owned();
            return sim
                .fail("starts_again", format!("{name} halted at {:.3}s: {why}", at.seconds()));
        }
        for node in self.may_halt.keys().copied().collect::<Vec<_>>() {
            if let Some(why) = sim.world.take_halt(node) {
                sim.world.trace().line(|| format!("halted as it may: {why}"));
                sim.reach("process ended by its failing disk");
                self.later(sim, 2_000, FaultEnd::Restart(node));
            }
        }
    }

    /// Starts a process that is down. One that does not start is a finding, unless its disk fails
    /// just then, or lied; those are tried again.
    fn restart(&mut self, sim: &mut Simulation, node: NodeId) {
        if sim.world.is_alive(node) || !self.machines.may_run(node) {
            return;
        }
        for disk in sim.world.disks(node) {
            disk.crash();
        }
        let unread = sim.world.disks(node).iter().any(SimDisk::fails_reads);
        let Err(why) = sim.world.restart(node) else {
            return MachineFaults::note_started(sim, node, unread);
        };
        if GroupFaults::is_taken_out(sim, node, &why) {
            return self.restart(sim, node);
        }
        let name = sim.world.name(node).to_owned();
        let handicapped = self.may_halt.contains_key(&node) || self.cramped.contains_key(&node);
        if handicapped && !self.over {
            sim.reach("process not started: its disk fails or is full");
            self.later(sim, 2_000, FaultEnd::Restart(node));
        } else if self.liar == Some(node) {
            sim.reach("process not started: its disk lied");
        } else {
            sim.fail("starts_again", format!("{name} does not start: {why}"));
        }
    }
}
