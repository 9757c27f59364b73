//! After the faults: the cell is let alone until it has healed, or for so long that it should have.
//!
//! - HE1: it is looked at every [`LOOK_EVERY`]; what is amiss at the last look is the complaint.
//! - HE2: what the cell may not decide by itself a person decides, when it has had time to do all
//!   that it may (`persons_decisions.rs`).

use crate::cell::{add_prober, master_addresses, rack_number};
use crate::checkers::it_heals::{Amiss, Excused, ServerAtRest, compare, judge_jobs};
use crate::persons_decisions::decide_all;
use crate::prober::ask;
use crate::simulation::Simulation;
use cairn_env_sim::{NodeId, WorldStep};
use cairn_protocol::{
    CheckReplica, Explain, JobStatus, ListDegraded, ListJobs, ReplicaFault, Request, Response,
    Role, Status, StatusAnswer,
};
use cairn_types::{Address, ChunkHandle, ServerId};
use std::time::Duration;

/// How often it is looked.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// The longest that healing may take: deaths that are not believed in yet, decisions that wait for
/// the dead, what was deleted last, a round of the scrub, and copies one after the other.
const HEALS_WITHIN: Duration = Duration::from_secs(120);
/// How long the cell is let alone, before a person decides what only a person may.
const LEFT_ALONE: Duration = Duration::from_secs(30);
/// How often a person does.
const PERSON_EVERY: Duration = Duration::from_secs(5);
/// The script token of a look; of the run's own, as the injector's are.
const LOOK: u64 = 2;

/// Waits until the cell has healed.
pub(crate) fn heal(sim: &mut Simulation) {
    let end = sim.now().after(HEALS_WITHIN);
    let began = sim.now();
    let mut person_acts = began.after(LEFT_ALONE);
    let asker = add_prober(&mut sim.world, "healer", Role::Client);
    while let Err(Amiss { chunk, what }) = look(sim, asker) {
        if sim.observer.borrow().failure.is_some() {
            return;
        }
        sim.world.trace().line(|| format!("not healed: {what}"));
        if sim.now() > end {
            let chunk = chunk.or_else(|| some_degraded(sim, asker));
            let explained = chunk.map(|chunk| explain(sim, asker, chunk)).unwrap_or_default();
            let message = format!("after {HEALS_WITHIN:?} {what}{explained}");
            return sim.fail("it_heals", message);
        }
        if sim.now() >= person_acts {
            // HE2
            person_acts = sim.now().after(PERSON_EVERY);
            decide_all(sim, asker);
        }
        sim.world.script(LOOK_EVERY, LOOK);
        while sim.world.step() != WorldStep::Script(LOOK) {}
    }
    let seconds = (sim.now().0 - began.0) / 1_000_000_000;
    sim.reach(match seconds {
        0..5 => "healed within 5 s",
        5..20 => "healed within 20 s",
        20..60 => "healed within a minute",
        _ => "healed later",
    });
}

fn look(sim: &mut Simulation, asker: NodeId) -> Result<(), Amiss> {
    let excused = at_rest(sim)?;
    let told = status(sim, asker)?;
    compare(&excused, &told.now.counts)?;
    let jobs = jobs(sim, asker)?;
    judge_jobs(&excused, &jobs, &running(sim))?;
    for (node, handle) in excused.doubted.iter().copied() {
        verify(sim, asker, (node, handle))?;
    }
    if !excused.hopeless.is_empty() {
        sim.reach("chunk excused: no good replica is left");
    }
    Ok(())
}

/// What the simulator itself sees of the cell.
fn at_rest(sim: &Simulation) -> Result<Excused, Amiss> {
    let servers = servers_at_rest(sim);
    sim.observer.borrow_mut().judge_at_rest(sim.nodes.master, servers)
}

/// Chunkservers that run.
pub(crate) fn servers_at_rest(sim: &Simulation) -> Vec<ServerAtRest> {
    let observer = sim.observer.borrow();
    let servers =
        sim.nodes.servers.iter().enumerate().filter(|(_, node)| sim.world.is_alive(**node));
    let server = |(at, node): (usize, &NodeId)| ServerAtRest {
        node: *node,
        name: sim.world.name(*node).to_owned(),
        rack: rack_number(at),
        drains: observer.servers.is_draining(*node),
        disks: sim.world.disks(*node).to_vec(),
    };
    servers.map(server).collect()
}

/// Servers that run.
fn running(sim: &Simulation) -> Vec<ServerId> {
    let servers = &sim.observer.borrow().servers;
    let alive = sim.nodes.servers.iter().filter(|node| sim.world.is_alive(**node));
    alive.filter_map(|node| servers.server_at(*node)).collect()
}

/// H2: all of a replica's blocks match their checksums.
fn verify(
    sim: &mut Simulation,
    asker: NodeId,
    (node, handle): (NodeId, ChunkHandle),
) -> Result<(), String> {
    let name = sim.world.name(node).to_owned();
    let at = sim.nodes.servers.iter().position(|server| *server == node).expect("a chunkserver");
    let address = Address::new(format!("server{at}:7401"));
    let mut offset = Some(0);
    while let Some(from) = offset {
        let check = CheckReplica { handle, offset: from, data: true };
        let answer = ask(sim, asker, address.clone(), check.into());
        let answer = answer.map_err(|failure| format!("{name} checks no replica: {failure}"))?;
        let Response::CheckReplica(found) = answer.response else { unreachable!("as asked") };
        if found.fault != ReplicaFault::Sound {
            let what = found.fault;
            return Err(format!("chunk {} is {what:?} on {name}", handle.short()));
        }
        offset = found.next;
    }
    sim.reach("damaged replica found mended");
    Ok(())
}

/// A chunk that the master takes for one that lacks replicas, and that is not excused.
fn some_degraded(sim: &mut Simulation, asker: NodeId) -> Option<ChunkHandle> {
    let hopeless = at_rest(sim).map(|excused| excused.hopeless).unwrap_or_default();
    let limit = u32::try_from(hopeless.len() + 1).expect("few");
    match of_master(sim, asker, ListDegraded { limit, ..ListDegraded::default() }) {
        Ok(Response::ListDegraded(listed)) => {
            let mut all = listed.chunks.iter().map(|chunk| chunk.handle);
            all.find(|handle| !hopeless.contains(handle))
        }
        _ => None,
    }
}

/// What the master says of a chunk, for a complaint.
fn explain(sim: &mut Simulation, asker: NodeId, chunk: ChunkHandle) -> String {
    match of_master(sim, asker, Explain { subject: chunk.short() }) {
        Ok(Response::Explain(told)) => format!("; the master says: {}", told.lines.join(" / ")),
        other => format!("; {other:?}"),
    }
}

fn status(sim: &mut Simulation, asker: NodeId) -> Result<StatusAnswer, String> {
    match of_master(sim, asker, Status {})? {
        Response::Status(answer) => Ok(*answer),
        other => unreachable!("{other:?} is no status"),
    }
}

fn jobs(sim: &mut Simulation, asker: NodeId) -> Result<Vec<JobStatus>, String> {
    match of_master(sim, asker, ListJobs {})? {
        Response::ListJobs(answer) => Ok(answer.jobs),
        other => unreachable!("{other:?} lists no jobs"),
    }
}

pub(crate) fn of_master(
    sim: &mut Simulation,
    asker: NodeId,
    request: impl Into<Request>,
) -> Result<Response, String> {
    let master = master_addresses(1).remove(0);
    let answer = ask(sim, asker, master, request.into());
    answer.map(|answer| answer.response).map_err(|failure| format!("the master says: {failure}"))
}
