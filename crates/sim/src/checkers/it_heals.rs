//! It heals: once nothing breaks any more, within a bounded time every live chunk is at its goal,
//! with replicas at the logged version on servers that run, nothing is left on any disk that no
//! chunk needs, and the master says the same of the cell (design §13, promises H1 to H5).
//!
//! ```text
//!   the log, replayed by a checker ─┐
//!   the ledger ─────────────────────┼─► what is amiss ─► none: compared with what the master tells
//!   the files on the disks ─────────┘
//! ```
//! - IH1: which chunks there are and what each shall have is what the log says; who has a replica
//!   is what was seen at the disks. What the master believes is compared with it, and never asked.
//! - IH2: a chunk is excused of which no up-to-date replica is left on a server that runs but
//!   those that are damaged, or lie in a directory that was given up: nobody can bring it back.
//!   What is left of it stays.
//! - IH3: a stale replica that takes the only place that is left stays where it and one good one
//!   are all there is of a chunk: only beside two others may it go (R33).
//! - IH4: where too few replicas are sure to hold all that was acknowledged, a decision is asked
//!   of a person, who is there (`persons_decisions.rs`), as for what is kept (R28); then it has to
//!   heal.

use crate::ledger::{ChunkLedger, Ledger};
use crate::stored_files::{StoredFile, cloned, stored};
use cairn_env_sim::{NodeId, SimDisk};
use cairn_master_core::State;
use cairn_master_core::state::ChunkRecord;
use cairn_protocol::{ChunkCounts, JobKind, JobState, JobStatus};
use cairn_types::{ChunkHandle, ServerId};
use std::collections::BTreeSet;

/// Replicas that have to be sure of what was acknowledged, where goal and set allow as many (R11).
const SURE_LEAST: usize = 2;

/// A chunkserver that runs.
pub(crate) struct ServerAtRest {
    pub(crate) node: NodeId,
    pub(crate) name: String,
    pub(crate) rack: usize,
    /// It is to be emptied.
    pub(crate) drains: bool,
    pub(crate) disks: Vec<SimDisk>,
}

/// A cell that nothing happens to any more.
pub(crate) struct CellAtRest<'a> {
    pub(crate) state: &'a State,
    pub(crate) ledger: &'a Ledger,
    pub(crate) servers: Vec<ServerAtRest>,
}

/// What is amiss, and of which chunk, where it is one.
#[derive(Debug)]
pub(crate) struct Amiss {
    pub(crate) chunk: Option<ChunkHandle>,
    pub(crate) what: String,
}

impl From<String> for Amiss {
    fn from(what: String) -> Self {
        Self { chunk: None, what }
    }
}

/// What is less than it should be, and cannot be otherwise.
#[derive(Debug, Default)]
pub(crate) struct Excused {
    /// Chunks without a replica that can be read whole (IH2).
    pub(crate) hopeless: BTreeSet<ChunkHandle>,
    /// Chunks that shall have more replicas than there are servers that may hold them.
    short: u64,
    /// Chunks of which one good replica is left, and a stale one in the way of more (IH3).
    blocked: BTreeSet<ChunkHandle>,
    /// Chunks on a server that is to be emptied, with too few others.
    stuck: u64,
    /// Up-to-date replicas of which some bytes were damaged once, whether they are mended or not:
    /// none of a chunk that the log has no more (healing seed 152).
    pub(crate) doubted: Vec<(NodeId, ChunkHandle)>,
}

/// One chunk, what the log says of it, and who has it.
struct ChunkAtRest<'a> {
    handle: ChunkHandle,
    record: ChunkRecord,
    book: &'a ChunkLedger,
}

impl<'a> CellAtRest<'a> {
    /// What is amiss, if something is.
    pub(crate) fn judge(&self) -> Result<Excused, Amiss> {
        let mut excused = Excused::default();
        for (handle, record) in self.state.chunks() {
            let Some(book) = self.ledger.chunks.get(&handle) else {
                let what = format!("chunk {} is logged and on no disk", handle.short());
                return Err(Amiss { chunk: Some(handle), what });
            };
            self.judge_chunk(&ChunkAtRest { handle, record, book }, &mut excused)?;
        }
        for server in &self.servers {
            server.disks.iter().try_for_each(|disk| self.judge_disk(server, disk, &excused))?;
        }
        Ok(excused)
    }

    /// Servers that run and have a replica that is up to date (R9), in a directory that they use.
    fn current(&self, chunk: &ChunkAtRest<'_>) -> Vec<&ServerAtRest> {
        let has = |server: &&ServerAtRest| {
            let replica = chunk.book.replicas.get(&server.node);
            replica.is_some_and(|it| it.is_at(chunk.record.version) && !it.absent)
        };
        self.servers.iter().filter(has).collect()
    }

    /// The servers on which a stale replica stands in the way (IH3).
    fn stale_in_the_way(&self, chunk: &ChunkAtRest<'_>, current: &[&ServerAtRest]) -> usize {
        let holds = |server: &&ServerAtRest| chunk.book.replicas.contains_key(&server.node);
        let is_current =
            |server: &ServerAtRest| current.iter().any(|other| other.node == server.node);
        let stale = self.servers.iter().filter(holds).filter(|it| !is_current(it));
        let stale: Vec<&ServerAtRest> = stale.collect();
        let is_alone = current.len() == 1 && stale.len() == 1;
        stale.iter().filter(|server| is_alone && !server.drains).count()
    }

    /// Chunks that wait for a person's decision (IH4).
    pub(crate) fn undecided(&self) -> Vec<ChunkHandle> {
        let book = |(handle, record)| {
            let book = self.ledger.chunks.get(&handle)?;
            Some(ChunkAtRest { handle, record, book })
        };
        let chunks = self.state.chunks().filter_map(book);
        let waits = |chunk: &ChunkAtRest<'_>| {
            let nodes: Vec<NodeId> = self.current(chunk).iter().map(|it| it.node).collect();
            let size = chunk.record.set_size.min(chunk.record.goal) as usize;
            chunk.book.lacks_sure(&nodes, size.clamp(1, SURE_LEAST))
        };
        chunks.filter(waits).map(|chunk| chunk.handle).collect()
    }

    fn judge_chunk(&self, chunk: &ChunkAtRest<'_>, excused: &mut Excused) -> Result<(), Amiss> {
        let current = self.current(chunk);
        if is_hopeless(chunk, &current) {
            excused.hopeless.insert(chunk.handle);
            return Ok(());
        }
        let is_doubted = |server: &&&ServerAtRest| chunk.book.replicas[&server.node].flipped;
        let doubted = current.iter().filter(is_doubted);
        excused.doubted.extend(doubted.map(|server| (server.node, chunk.handle)));
        let goal = chunk.record.goal as usize;
        let in_the_way = self.stale_in_the_way(chunk, &current);
        let all_places = self.servers.iter().filter(|server| !server.drains).count();
        let places = match all_places - in_the_way {
            // With another place it is copied there, and the stale one goes then.
            free @ 0..SURE_LEAST => free,
            _ => all_places,
        };
        let counted: Vec<_> = current.iter().filter(|server| !server.drains).collect();
        let leaving: Vec<_> = current.iter().filter(|server| server.drains).collect();
        let wanted = goal.min(places);
        if counted.len() != wanted {
            return Err(self.tell(chunk, &format!("is to have {wanted} replicas")));
        }
        excused.short += u64::from(current.len() < goal);
        if places < all_places {
            excused.blocked.insert(chunk.handle);
        }
        if places < goal {
            excused.stuck += u64::from(!leaving.is_empty());
        } else if let Some(server) = leaving.first() {
            return Err(self.tell(chunk, &format!("is on {}, which is drained", server.name)));
        }
        let racks: BTreeSet<usize> = counted.iter().map(|server| server.rack).collect();
        let elsewhere =
            self.servers.iter().any(|server| !server.drains && !racks.contains(&server.rack));
        if counted.len() > 1
            && racks.len() == 1
            && elsewhere
            && !self.state.sharing().is_hidden(chunk.handle, &chunk.record)
        {
            return Err(self.tell(chunk, "stands in one rack, and another has room"));
        }
        Ok(())
    }

    /// H3: what is on a disk is there for a chunk.
    fn judge_disk(
        &self,
        server: &ServerAtRest,
        disk: &SimDisk,
        excused: &Excused,
    ) -> Result<(), Amiss> {
        let name = &server.name;
        // Of a directory that was given up nothing is removed (healing seeds 219, 220).
        if !disk.is_in_use() {
            return Ok(());
        }
        if let Some(path) = cloned(disk).first() {
            return Err(format!("{name} keeps {path}, and nothing is copied").into());
        }
        for StoredFile { path, chunk: handle, .. } in stored(disk) {
            let Some(record) = self.state.chunk(handle) else {
                return Err(format!("{name} keeps {path}, of which the log knows nothing").into());
            };
            let book = &self.ledger.chunks[&handle];
            let replica = book.replicas.get(&server.node);
            let needed = replica.is_some_and(|it| it.is_at(record.version));
            let stays = excused.hopeless.contains(&handle) || excused.blocked.contains(&handle);
            if !needed && !stays {
                return Err(self.tell(
                    &ChunkAtRest { handle, record, book },
                    &format!("lies on {name} as {path}, where nothing needs it"),
                ));
            }
        }
        Ok(())
    }

    fn tell(&self, chunk: &ChunkAtRest<'_>, what: &str) -> Amiss {
        let ChunkAtRest { handle, record, book } = chunk;
        let has = |server: &ServerAtRest| {
            let replica = book.replicas.get(&server.node)?;
            let (name, version) = (&server.name, replica.version.short());
            let doubt = if replica.suspect { " (suspect)" } else { "" };
            let drains = if server.drains { " (drained)" } else { "" };
            let is_told_gone = replica.absent || replica.forgotten;
            let gone = if is_told_gone { " (told as gone)" } else { "" };
            Some(format!("{name} at {version}{doubt}{drains}{gone}"))
        };
        let all: Vec<String> = self.servers.iter().filter_map(has).collect();
        let path = self.state.path_of(record.file).unwrap_or_default();
        let what = format!(
            "chunk {} of {path} at version {}, goal {}, set of {}: {what}; {all:?}",
            handle.short(),
            record.version.short(),
            record.goal,
            record.set_size
        );
        Amiss { chunk: Some(*handle), what }
    }
}

/// IH2
fn is_hopeless(chunk: &ChunkAtRest<'_>, current: &[&ServerAtRest]) -> bool {
    current.iter().all(|server| chunk.book.replicas[&server.node].flipped)
}

/// H5: whether the master tells the same of a cell that stands like that.
pub(crate) fn compare(excused: &Excused, told: &ChunkCounts) -> Result<(), String> {
    let hopeless = excused.hopeless.len() as u64;
    let is_known = !told.gathering && !told.counting;
    let bad = [told.unavailable, told.damaged, told.suspect];
    let fine = is_known
        && told.below_goal <= excused.short + hopeless
        && (told.below_goal >= excused.short)
        && bad.iter().all(|count| *count <= hopeless)
        && told.unknown <= hopeless
        && told.stale <= hopeless + excused.blocked.len() as u64;
    if fine { Ok(()) } else { Err(format!("the master tells {told:?}, and it is {excused:?}")) }
}

/// H4: no job is left that could get on, or be done with. `running`: servers that run.
pub(crate) fn judge_jobs(
    excused: &Excused,
    jobs: &[JobStatus],
    running: &[ServerId],
) -> Result<(), String> {
    let lacking = excused.short > 0 || !excused.hopeless.is_empty();
    let stuck = excused.stuck > 0 || lacking;
    // One that is dead is told of until somebody forgets it.
    let runs = |job: &JobStatus| running.iter().any(|it| job.id.ends_with(&it.to_string()));
    let may_stand = |job: &&JobStatus| match job.kind {
        // What is on a server that is to be emptied, with no other place for it, waits here, too.
        JobKind::Repair => job.state == JobState::Waiting && stuck,
        JobKind::Drain => job.state == JobState::Done || stuck || !runs(job),
        // It is told of as long as a stream may grow.
        JobKind::Settle => true,
        JobKind::Surplus | JobKind::Purge | JobKind::Balance | JobKind::Policy => false,
    };
    match jobs.iter().find(|job| !may_stand(job)) {
        Some(job) => Err(format!("a job stands still: {job:?}")),
        None => Ok(()),
    }
}
