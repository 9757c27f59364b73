//! Asks servers for the replicas that the master believes in, several at once, and judges what they
//! say.

use super::broken;
use super::findings::{CheckedChunk, Finding, FindingCode};
use crate::cli_error::{CliError, Doing};
use crate::progress::WorkProgress;
use cairn_client::{Cell, Error};
use cairn_protocol::{
    CheckReplica, ErrorCode, ListedChunk, ListedReplica, ReplicaFault, ReplicaReport, ServerStatus,
};
use cairn_transfer::Progress;
use cairn_types::{ChunkHandle, ReplicaAt, ServerId};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use tokio::task::JoinSet;

/// Replicas that are asked for at once; of those that are read whole, fewer.
const AT_ONCE: usize = 32;
const READ_AT_ONCE: usize = 4;
/// Bad blocks of one replica that are named.
const BAD_BLOCKS_MAX: usize = 16;

/// What a server says of one replica.
#[derive(Debug, Default)]
struct ReplicaCheck {
    replica: ReplicaReport,
    /// With where each is.
    faults: Vec<(ReplicaFault, u64)>,
    damaged: bool,
    bytes: u64,
}

/// Whom is asked, and how.
pub(crate) struct Checker {
    pub(crate) cell: Cell,
    pub(crate) servers: BTreeMap<ServerId, ReplicaAt>,
    pub(crate) progress: Arc<WorkProgress>,
    data: bool,
}

impl Checker {
    /// # Errors
    /// Where the master does not answer.
    pub(crate) async fn new(cell: &Cell, data: bool) -> Result<Self, CliError> {
        let doing = || "asking the master for its chunkservers".to_owned();
        let servers: Vec<ServerStatus> = cell.servers().await.doing(doing)?;
        let total = servers.iter().map(|status| status.stored).sum();
        let servers = servers.into_iter().map(|status| (status.at.server, status.at)).collect();
        let progress = Arc::new(WorkProgress::new("fsck", data.then_some(total)));
        Ok(Self { cell: cell.clone(), servers, progress, data })
    }

    /// Checks some chunks.
    ///
    /// # Errors
    /// None but defects: that a server does not answer is a finding.
    pub(crate) async fn check(
        &self,
        chunks: Vec<ListedChunk>,
    ) -> Result<Vec<CheckedChunk>, CliError> {
        let mut wanted: VecDeque<(ChunkHandle, ReplicaAt)> = VecDeque::new();
        for chunk in &chunks {
            let known = chunk.replicas.iter().filter_map(|it| self.servers.get(&it.server));
            wanted.extend(known.map(|at| (chunk.handle, at.clone())));
        }
        let at_once = if self.data { READ_AT_ONCE } else { AT_ONCE };
        let (mut told, mut running) = (BTreeMap::new(), JoinSet::new());
        loop {
            while running.len() < at_once
                && let Some((handle, at)) = wanted.pop_front()
            {
                let (cell, data, progress) =
                    (self.cell.clone(), self.data, Arc::clone(&self.progress));
                running.spawn(async move {
                    let check = check_replica(&cell, (&at, handle), data, &progress).await;
                    (handle, at.server, check)
                });
            }
            let Some(done) = running.join_next().await else { break };
            let (handle, server, check) = done.map_err(|error| broken(error.to_string()))?;
            told.insert((handle, server), check);
        }
        Ok(chunks.iter().map(|chunk| self.judge(chunk, &told)).collect())
    }

    fn judge(
        &self,
        chunk: &ListedChunk,
        told: &BTreeMap<(ChunkHandle, ServerId), Result<ReplicaCheck, Error>>,
    ) -> CheckedChunk {
        let ListedChunk { handle, goal, .. } = *chunk;
        let (mut findings, mut sound, mut bytes) = (Vec::new(), Vec::new(), 0);
        for replica in &chunk.replicas {
            let Some(at) = self.servers.get(&replica.server) else { continue };
            let before = findings.len();
            match told.get(&(handle, replica.server)) {
                Some(Ok(check)) => {
                    bytes += check.bytes;
                    judge_replica(chunk, (replica, at), check, &mut findings);
                    if findings.len() == before {
                        sound.push((at, &check.replica));
                    }
                }
                Some(Err(error)) if error.code() == ErrorCode::NoSuchChunk => {
                    let what = "the master believes that it is there, the server has it not";
                    findings.push(Finding::of(chunk, FindingCode::Missing, what).on(at));
                }
                Some(Err(error)) => {
                    let what = format!("the server could not be asked: {error}");
                    findings.push(Finding::of(chunk, FindingCode::NotAsked, what).on(at));
                }
                None => {}
            }
        }
        findings.extend(different_lengths(chunk, &sound));
        let good = u32::try_from(sound.len()).unwrap_or(u32::MAX);
        let count = format!("{good} of {goal} replicas are good");
        if good == 0 {
            let named = chunk.missing.iter().map(|it| it.at.address.to_string());
            let named = named.collect::<Vec<_>>().join(", ");
            let whom = if named.is_empty() { "nobody known".to_owned() } else { named };
            let what = format!("no replica is good; those that died held it: {whom}");
            findings.push(Finding::of(chunk, FindingCode::NoGoodReplica, what));
        } else if good < goal {
            findings.push(Finding::of(chunk, FindingCode::BelowGoal, count));
        }
        let replicas = chunk.replicas.len() as u64;
        CheckedChunk { handle, goal, good, replicas, bytes, findings }
    }
}

/// What is wrong with one replica.
fn judge_replica(
    chunk: &ListedChunk,
    (known, at): (&ListedReplica, &ReplicaAt),
    check: &ReplicaCheck,
    findings: &mut Vec<Finding>,
) {
    let mut find = |code, offset: Option<u64>, what: &str| {
        findings.push(Finding { offset, ..Finding::of(chunk, code, what).on(at) });
    };
    for (fault, offset) in &check.faults {
        let Some(code) = FindingCode::of_fault(*fault) else { continue };
        match code {
            FindingCode::FileMissing => find(code, None, "its chunk file is gone from the disk"),
            FindingCode::SidecarMissing => find(code, None, "its sidecar is gone from the disk"),
            FindingCode::WrongLength => find(code, None, "its files are shorter than they should"),
            FindingCode::BadBlock => {
                let what = format!("the block at offset {offset} does not match its checksum");
                find(code, Some(*offset), &what);
            }
            _ => find(code, None, "what it held was lost before"),
        }
    }
    if check.faults.is_empty() && (check.damaged || known.damaged) {
        find(FindingCode::Damaged, None, "it is known to be damaged");
    }
    if known.suspect || check.replica.suspect {
        find(FindingCode::Suspect, None, "it may have lost bytes in a power failure");
    }
    if known.stale {
        find(FindingCode::Stale, None, "the others have gone on without it; it goes by itself");
    }
}

/// Replicas that nobody writes to and that stand alike have as many bytes.
fn different_lengths(chunk: &ListedChunk, sound: &[(&ReplicaAt, &ReplicaReport)]) -> Vec<Finding> {
    let Some((_, first)) = sound.iter().max_by_key(|(_, replica)| replica.length) else {
        return Vec::new();
    };
    let alike = |replica: &ReplicaReport| {
        (replica.version, replica.serial) == (first.version, first.serial) && !chunk.leased
    };
    let shorter = sound.iter().filter(|(_, it)| alike(it) && it.length < first.length);
    let finding = |(at, replica): &(&ReplicaAt, &ReplicaReport)| {
        let what = format!("{} bytes where another has {}", replica.length, first.length);
        Finding::of(chunk, FindingCode::WrongLength, what).on(at)
    };
    shorter.map(finding).collect()
}

/// Asks a server whether a replica is there, and with `data` whether each block is good.
async fn check_replica(
    cell: &Cell,
    (at, handle): (&ReplicaAt, ChunkHandle),
    data: bool,
    progress: &WorkProgress,
) -> Result<ReplicaCheck, Error> {
    let look = cell.ask_server(at, CheckReplica { handle, offset: 0, data: false }).await?;
    let mut check = ReplicaCheck { damaged: look.damaged, ..ReplicaCheck::default() };
    check.replica = look.replica;
    if look.fault != ReplicaFault::Sound {
        check.faults.push((look.fault, 0));
    }
    let readable = matches!(look.fault, ReplicaFault::Sound | ReplicaFault::Short);
    let mut next = Some(0).filter(|_| data && readable);
    while let Some(offset) = next {
        let part = cell.ask_server(at, CheckReplica { handle, offset, data }).await?;
        check.bytes += part.size;
        progress.add(part.size);
        if part.fault != ReplicaFault::Sound {
            check.faults.push((part.fault, part.bad_offset));
        }
        let more = check.faults.len() < BAD_BLOCKS_MAX;
        next = part.next.filter(|next| *next > offset && more);
    }
    Ok(check)
}
