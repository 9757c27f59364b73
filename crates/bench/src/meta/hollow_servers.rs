//! Chunkservers without bytes: the real state machine of a chunkserver, over a disk that says yes.
//!
//! ```text
//!   master ◄─ Join, Inventory, Heartbeat ─┐
//!          ── Raise, GrantLease ─────────►│ ChunkCore × 16, one driver each ──► NoBytes
//! ```
//! To the master they are sixteen servers with millions of replicas; what they report follows from
//! the population.

use super::population::{Population, SERVERS};
use crate::error::{BenchCause, BenchError, Doing};
use cairn_chunk_core::{ChunkCore, ChunkCoreConfig, ScrubSettings};
use cairn_env::{
    ChunkDone, ChunkError, ChunkJob, ChunkResult, Driver, Effect, Event, Now, ServerSpace, Service,
};
use cairn_env_os::{LaunchOptions, Running};
use cairn_protocol::{DiskStatus, ReplicaFault, ReplicaReport};
use cairn_testkit::Janitor;
use cairn_types::{
    Address, CellId, ChunkHandle, ChunkVersion, Incarnation, Rack, ReplicaAt, ServerId, Term,
};
use clap::Args;
use std::hash::{BuildHasher, RandomState};
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

/// Racks that the servers stand in.
const RACKS: u64 = 4;
const CAPACITY: u64 = 64 << 40;

/// A hidden command: the servers of a population.
#[derive(Args, Debug)]
pub struct ServersPart {
    #[arg(long)]
    master: String,
    #[arg(long, value_parser = parse_population)]
    population: Population,
}

/// A population as it is handed from process to process.
pub(super) fn parse_population(text: &str) -> Result<Population, String> {
    serde_json::from_str(text).map_err(|error| error.to_string())
}

impl ServersPart {
    /// Serves until stdin ends.
    pub(crate) fn run(&self) -> Result<(), BenchError> {
        let mut running = Vec::new();
        for server in 0..SERVERS {
            running.push(self.start(server)?);
        }
        println!("ready");
        let mut rest = Vec::new();
        std::io::stdin().lock().read_to_end(&mut rest).doing(|| "waiting".to_owned())?;
        drop(running);
        Ok(())
    }

    fn start(&self, server: u64) -> Result<Running<()>, BenchError> {
        let doing = || "starting a bench's chunkserver".to_owned();
        let listener = cairn_env_os::bind("127.0.0.1:0").doing(doing)?;
        let address = Address::new(listener.local_addr().doing(doing)?.to_string());
        let rack = Rack::new(format!("/rack-{}", server % RACKS));
        let settings = ChunkCoreConfig {
            at: ReplicaAt { server: ServerId::new(server + 1), address, rack },
            incarnation: Incarnation::new(RandomState::new().hash_one(server).max(1)),
            masters: vec![Address::new(self.master.as_str())],
            cell: CellId::default(),
            term: Term::default(),
            reign: Default::default(),
            highest_handle: ChunkHandle::default(),
            highest_version: ChunkVersion::default(),
            scrub: ScrubSettings { rate: 0, ..ScrubSettings::default() },
            scrubbed: Default::default(),
        };
        let held: Vec<ReplicaReport> = self.population.replicas(server).collect();
        let used = held.iter().map(|replica| replica.length).sum();
        let disk = DiskStatus { capacity: CAPACITY, used, ..DiskStatus::default() };
        let space = ServerSpace { disks: vec![disk], ..ServerSpace::default() };
        let driver = HollowServer { core: ChunkCore::new(settings, &held, space.clone()) };
        let options =
            LaunchOptions { listener: Some(listener), ..LaunchOptions::new("hollow-server") };
        cairn_env_os::launch(driver, Arc::new(NoBytes { space }), options).doing(doing)
    }
}

struct HollowServer {
    core: ChunkCore,
}

impl Driver for HollowServer {
    type Service = NoBytes;
    type Command = ();

    fn handle(
        &mut self,
        now: Now,
        event: Event<(), ChunkResult>,
        effects: &mut Vec<Effect<ChunkJob>>,
    ) {
        self.core.step(now, event, effects);
    }
}

/// A disk that holds nothing and does whatever it is asked.
struct NoBytes {
    space: ServerSpace,
}

impl NoBytes {
    fn one(&self, job: ChunkJob) -> ChunkResult {
        Ok(match job {
            ChunkJob::Apply { mutations, .. } => {
                let ends = mutations.iter().map(|mutation| mutation.offset + mutation.size);
                let length = ends.max().unwrap_or_default();
                let serial = mutations.last().map(|last| last.serial).unwrap_or_default();
                ChunkDone::Applied { length, serial }
            }
            ChunkJob::Extend { extent, .. } => {
                let length = extent.offset + extent.size;
                ChunkDone::Applied { length, serial: extent.serial }
            }
            ChunkJob::Journal(_) => ChunkDone::Journaled,
            ChunkJob::Read { .. }
            | ChunkJob::Checksums { .. }
            | ChunkJob::Fetch { .. }
            | ChunkJob::Install { .. }
            | ChunkJob::Reopen { .. }
            | ChunkJob::Clone { .. } => return Err(ChunkError::NoSuchChunk),
            ChunkJob::Verify { .. } => ChunkDone::Verified { good: true },
            ChunkJob::Look { .. } => {
                ChunkDone::Looked { fault: ReplicaFault::Sound, reflinked: false }
            }
            ChunkJob::Scrub { .. } => ChunkDone::Scrubbed { size: 0, next: None, bad: None },
            ChunkJob::ScrubJournal(_) => {
                ChunkDone::JournalScrubbed { size: 0, next: None, told: None }
            }
            ChunkJob::Sync { .. } => ChunkDone::Synced,
            ChunkJob::Settle { .. } => ChunkDone::Settled,
            ChunkJob::Trash { .. } => ChunkDone::Trashed { gone: true },
            ChunkJob::EmptyTrash { .. } => ChunkDone::TrashEmptied { more: false },
            ChunkJob::Space => ChunkDone::Space(self.space.clone()),
        })
    }
}

impl Service for NoBytes {
    type Job = ChunkJob;
    type JobResult = ChunkResult;

    fn run(&self, jobs: Vec<ChunkJob>) -> Vec<ChunkResult> {
        jobs.into_iter().map(|job| self.one(job)).collect()
    }
}

/// The process of them, seen from the bench; ended when dropped.
pub(super) struct HollowServers {
    child: Child,
    janitor: Arc<Janitor>,
}

impl HollowServers {
    /// Starts them and waits until they try to join.
    pub(super) fn start(
        master: &str,
        population: Population,
        janitor: &Arc<Janitor>,
    ) -> Result<Self, BenchError> {
        let doing = || "starting the bench's chunkservers".to_owned();
        let text = serde_json::to_string(&population).map_err(std::io::Error::from).doing(doing)?;
        let mut command = Command::new(std::env::current_exe().doing(doing)?);
        command.args(["bench-servers", "--master", master, "--population", &text]);
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().doing(doing)?;
        janitor.watch(child.id());
        let stdout = child.stdout.take();
        let servers = Self { child, janitor: janitor.clone() };
        let mut line = String::new();
        if let Some(stdout) = stdout {
            BufReader::new(stdout).read_line(&mut line).doing(doing)?;
        }
        if line.is_empty() {
            let cause = BenchCause::Part("they ended; their reason stands above".to_owned());
            return Err(BenchError::new(doing(), cause));
        }
        Ok(servers)
    }
}

impl Drop for HollowServers {
    fn drop(&mut self) {
        // Fails only for a process that has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
        self.janitor.forget(self.child.id());
    }
}
