//! One client appends while faults last, and has to get on wherever enough servers can reach each
//! other, the master and the client: a fault elsewhere is no excuse (design §5).
//!
//! - W1: servers that have been well together for [`settling`] before an append began, and until it
//!   ended, are enough of them for it, if they are as many as a chunk has replicas.

use crate::operations::{ClientOp, OpOutput, OpResult, OpTicket, path, tell};
use crate::simulation::{DEADLINE, Simulation, Workload};
use bytes::Bytes;
use cairn_env_sim::{NodeId, WorldTime};
use cairn_types::{CellConfig, Content, EntryId};
use std::collections::BTreeMap;
use std::time::Duration;

/// How often it is looked who is well.
const LOOK: Duration = Duration::from_millis(100);
const NAME: &str = "/progress";

/// How long the traces of earlier faults may last: deaths that are not believed yet, leases that
/// have not run out, one after the other.
fn settling(config: &CellConfig) -> Duration {
    Duration::from_millis(config.dead_ms + config.silent_ms) + 2 * config.lease()
}

/// The client.
pub(crate) struct Progress {
    client: usize,
    file: Option<EntryId>,
    under_way: Option<(OpTicket, WorldTime)>,
    /// Servers that can all reach each other, and since when.
    well: BTreeMap<Vec<NodeId>, WorldTime>,
    over: bool,
}

impl Progress {
    pub(crate) fn new(client: usize) -> Self {
        Self { client, file: None, under_way: None, well: BTreeMap::new(), over: false }
    }

    fn look(&mut self, sim: &Simulation) {
        let size = sim.cell_config.replication as usize;
        let now = sim.now();
        let groups = groups_that_are_well(sim, self.client, size);
        self.well.retain(|group, _| groups.contains(group));
        for group in groups {
            self.well.entry(group).or_insert(now);
        }
    }

    fn ask(&mut self, sim: &mut Simulation) {
        let op = match self.file {
            None => ClientOp::Create { path: path(NAME), content: Content::Records, or_open: true },
            Some(file) => {
                ClientOp::Append { file, bytes: Bytes::from_static(b"getting on"), sync: false }
            }
        };
        let ticket = sim.ask(self.client, op);
        self.under_way = Some((ticket, sim.now()));
    }

    /// W1.
    fn judge(&self, sim: &mut Simulation, began: WorldTime, what: &str) {
        let settled = settling(&sim.cell_config);
        let since = |at: &WorldTime| at.after(settled) <= began;
        let Some((group, at)) = self.well.iter().find(|(_, at)| since(at)) else { return };
        let message = format!(
            "{NAME}: {what} (begun at {:.3}s), though {group:?}, the master and the client have \
             been well and reached each other since {:.3}s",
            began.seconds(),
            at.seconds()
        );
        sim.fail("gets_on", message);
    }
}

/// Groups of so many servers that are well and reach each other, the master and a client.
fn groups_that_are_well(sim: &Simulation, client: usize, size: usize) -> Vec<Vec<NodeId>> {
    let hubs = [sim.nodes.master, sim.nodes.clients[client]];
    let together = |a: NodeId, b: NodeId| sim.world.reaches(a, b) && sim.world.reaches(b, a);
    if !hubs.iter().all(|hub| sim.world.is_well(*hub)) || !together(hubs[0], hubs[1]) {
        return Vec::new();
    }
    let mut groups: Vec<Vec<NodeId>> = vec![Vec::new()];
    for server in &sim.nodes.servers {
        if !sim.world.is_well(*server) || !hubs.iter().all(|hub| together(*hub, *server)) {
            continue;
        }
        let joined = groups
            .iter()
            .filter(|group| group.len() < size && group.iter().all(|it| together(*it, *server)))
            .map(|group| group.iter().copied().chain([*server]).collect())
            .collect::<Vec<Vec<NodeId>>>();
        groups.extend(joined);
    }
    groups.retain(|group| group.len() == size);
    groups
}

impl Workload for Progress {
    fn start(&mut self, sim: &mut Simulation) {
        sim.wake_after(LOOK);
    }

    fn ended(&mut self, sim: &mut Simulation, _: OpTicket, result: OpResult) {
        let (_, began) = self.under_way.take().expect("one append at a time");
        self.look(sim);
        match result {
            Ok(OpOutput::Entry(entry)) => self.file = Some(entry.id),
            Ok(_) => {
                let settled = settling(&sim.cell_config);
                if self.well.values().any(|at| at.after(settled) <= began) {
                    sim.reach("append while enough servers were well");
                }
            }
            Err(_) => self.judge(sim, began, &tell(&result)),
        }
    }

    fn woken(&mut self, sim: &mut Simulation) {
        self.look(sim);
        if self.under_way.is_none() {
            if sim.closing {
                self.over = true;
                return;
            }
            self.ask(sim);
        } else if let Some((_, began)) = self.under_way
            && began.after(DEADLINE * 2) < sim.now()
        {
            self.judge(sim, began, "no answer within twice the deadline");
        }
        sim.wake_after(LOOK);
    }

    fn finished(&self) -> bool {
        self.over
    }
}
