//! Asks servers for the replicas that the master believes in, several at once, and judges what they
//! say.

use super::broken;
use super::findings::{CheckedChunk, Finding, FindingCode};
use super::pace::ReadPace;
use super::silent_servers::{SilentServers, is_answer};
use crate::cli_error::{CliError, Doing};
use crate::output::{size_text, span_text};
use crate::progress::WorkProgress;
use crate::stderr::say;
use cairn_client::{Cell, Error};
use cairn_protocol::{
    CheckReplica, ErrorCode, ListedChunk, ListedReplica, ReplicaFault, ReplicaReport, ServerState,
    ServerStatus, WaitReason,
};
use cairn_transfer::Progress;
use cairn_types::{ChunkHandle, ReplicaAt, ServerId};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use tokio::task::JoinSet;

/// Replicas that are asked for at once; of those that are read whole, fewer.
const AT_ONCE: usize = 32;
const READ_AT_ONCE: usize = 4;
/// Of what takes as long as that, the estimate is told before it begins.
const TOLD_FROM_MS: u64 = 10_000;
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
    /// How fast replicas are read; none: they are only asked for.
    reading: Option<Arc<ReadPace>>,
    silent: SilentServers,
    /// What is kept for a person, and where.
    pub(crate) lost: BTreeSet<(ChunkHandle, ServerId)>,
}

impl Checker {
    /// # Errors
    /// Where the master does not answer.
    pub(crate) async fn new(
        cell: &Cell,
        all: bool,
        reading: Option<ReadPace>,
    ) -> Result<Self, CliError> {
        let doing = || "asking the master for its chunkservers".to_owned();
        let servers: Vec<ServerStatus> = cell.servers().await.doing(doing)?;
        let there = servers.iter().filter(|status| status.state != ServerState::Dead);
        let stored: u64 = there.map(|status| status.stored).sum();
        let servers = servers.into_iter().map(|status| (status.at.server, status.at)).collect();
        let progress = if reading.is_some() {
            WorkProgress::new("fsck", all.then_some(stored))
        } else {
            let status = cell.status().await.doing(doing)?;
            WorkProgress::of_chunks("fsck", all.then_some(status.chunk_count))
        };
        if let Some(rate) = reading.as_ref().and_then(ReadPace::rate).filter(|_| all) {
            tell_estimate(stored, rate);
        }
        let (progress, reading) = (Arc::new(progress), reading.map(Arc::new));
        let lost = lost_replicas(cell).await?;
        let silent = SilentServers::default();
        Ok(Self { cell: cell.clone(), servers, progress, reading, silent, lost })
    }

    /// Asks the servers of one chunk again, and reads nothing.
    ///
    /// # Errors
    /// None but defects.
    pub(crate) async fn ask_again(
        &self,
        chunk: ListedChunk,
    ) -> Result<Option<CheckedChunk>, CliError> {
        self.silent.forget();
        self.check_as(vec![chunk], None).await.map(|mut checked| checked.pop())
    }

    /// Checks some chunks.
    ///
    /// # Errors
    /// None but defects: that a server does not answer is a finding.
    pub(crate) async fn check(
        &self,
        chunks: Vec<ListedChunk>,
    ) -> Result<Vec<CheckedChunk>, CliError> {
        let count = chunks.len() as u64;
        let checked = self.check_as(chunks, self.reading.as_ref()).await?;
        if self.reading.is_none() {
            self.progress.add(count);
        }
        Ok(checked)
    }

    async fn check_as(
        &self,
        chunks: Vec<ListedChunk>,
        reading: Option<&Arc<ReadPace>>,
    ) -> Result<Vec<CheckedChunk>, CliError> {
        let mut wanted: VecDeque<(ChunkHandle, ReplicaAt)> = VecDeque::new();
        for chunk in &chunks {
            let known = chunk.replicas.iter().filter_map(|it| self.servers.get(&it.server));
            wanted.extend(known.map(|at| (chunk.handle, at.clone())));
        }
        let at_once = if reading.is_some() { READ_AT_ONCE } else { AT_ONCE };
        let (mut told, mut running) = (BTreeMap::new(), JoinSet::new());
        loop {
            while running.len() < at_once
                && let Some((handle, at)) = wanted.pop_front()
            {
                if let Some(why) = self.silent.why_not(at.server) {
                    told.insert((handle, at.server), Err(why));
                    continue;
                }
                let (cell, reading, progress) =
                    (self.cell.clone(), reading.cloned(), Arc::clone(&self.progress));
                running.spawn(async move {
                    let reading = reading.as_deref();
                    let check = check_replica(&cell, (&at, handle), reading, &progress).await;
                    (handle, at.server, check)
                });
            }
            let Some(done) = running.join_next().await else { break };
            let (handle, server, check) = done.map_err(|error| broken(error.to_string()))?;
            self.silent.note(server, check.as_ref().err().is_none_or(is_answer));
            told.insert((handle, server), check);
        }
        Ok(chunks.iter().map(|chunk| judge((&self.servers, &self.lost), chunk, &told)).collect())
    }
}

/// What servers keep for a person (`cairn lost`), as far as this one may know of it: of what he may
/// not, the copies are told as stale ones.
async fn lost_replicas(cell: &Cell) -> Result<BTreeSet<(ChunkHandle, ServerId)>, CliError> {
    let (mut lost, mut after) = (BTreeSet::new(), ChunkHandle::default());
    loop {
        let doing = || "asking the master for lost chunks".to_owned();
        let listed = cell.lost_chunks(after).await;
        if listed.as_ref().is_err_and(|error| error.code() == ErrorCode::PermissionDenied) {
            return Ok(lost);
        }
        let (chunks, resume) = listed.doing(doing)?;
        for chunk in chunks {
            lost.extend(chunk.servers.iter().map(|at| (chunk.handle, at.server)));
        }
        match resume {
            Some(resume) => after = resume,
            None => return Ok(lost),
        }
    }
}

/// How long all of it will take, where that is worth a line.
fn tell_estimate(stored: u64, rate: u64) {
    let left_ms = stored.saturating_mul(1000) / rate.max(1);
    if left_ms >= TOLD_FROM_MS {
        let (stored, rate) = (size_text(stored, true), size_text(rate, true));
        let left = span_text(left_ms);
        say(format_args!("fsck: {stored} to verify at {rate} a second: about {left}"));
    }
}

/// What the servers say of one chunk's replicas; `told`: of each that was asked.
fn judge(
    (servers, lost): (&BTreeMap<ServerId, ReplicaAt>, &BTreeSet<(ChunkHandle, ServerId)>),
    chunk: &ListedChunk,
    told: &BTreeMap<(ChunkHandle, ServerId), Result<ReplicaCheck, Error>>,
) -> CheckedChunk {
    let ListedChunk { handle, goal, deleted, unnamed, .. } = *chunk;
    let to_person = chunk.waits.is_some_and(|wait| wait.why == WaitReason::NoSource);
    let lacks_server = chunk.waits.is_some_and(|wait| wait.why == WaitReason::NoServer);
    let told_so = CheckedChunk { handle, goal, deleted, unnamed, ..Default::default() };
    let mut checked = CheckedChunk { to_person, lacks_server, ..told_so };
    let (mut findings, mut sound) = (Vec::new(), Vec::new());
    for replica in &chunk.replicas {
        let Some(at) = servers.get(&replica.server) else { continue };
        let before = findings.len();
        match told.get(&(handle, replica.server)) {
            Some(Ok(check)) => {
                checked.bytes += check.bytes;
                let kept = lost.contains(&(handle, replica.server));
                judge_replica(chunk, (replica, at, kept), check, &mut findings);
                match findings.get(before..) {
                    Some([Finding { code: FindingCode::Suspect, .. }]) => checked.doubted += 1,
                    Some([]) => sound.push((at, &check.replica)),
                    _ => {}
                }
            }
            Some(Err(error)) if error.code() == ErrorCode::NoSuchChunk => {
                let what = "the master believes that it is there, the server has it not";
                findings.push(Finding::of(chunk, FindingCode::Missing, what).on(at));
            }
            Some(Err(error)) => {
                let what = format!("the server could not be asked: {error}");
                findings.push(Finding::of(chunk, FindingCode::NotAsked, what).on(at));
                checked.unasked += 1;
            }
            None => {}
        }
    }
    findings.extend(different_lengths(chunk, &sound));
    checked.good = u32::try_from(sound.len()).unwrap_or(u32::MAX);
    checked.replicas = chunk.replicas.len() as u64;
    findings.extend(what_is_lacking(chunk, &checked));
    CheckedChunk { findings, ..checked }
}

/// Whether a chunk has fewer good replicas than it should, or none.
fn what_is_lacking(chunk: &ListedChunk, checked: &CheckedChunk) -> Option<Finding> {
    let CheckedChunk { goal, good, unasked, doubted, .. } = *checked;
    let find = |code, what| Some(Finding::of(chunk, code, what));
    if checked.is_beyond_repair() {
        let named = chunk.missing.iter().map(|it| it.at.address.to_string());
        let named = named.collect::<Vec<_>>().join(", ");
        let whom = if named.is_empty() { "nobody known".to_owned() } else { named };
        let what = format!("no replica is good; those that died held it: {whom}");
        return find(FindingCode::NoGoodReplica, what);
    }
    if good + unasked + checked.resting() >= goal {
        return None;
    }
    let also = match (unasked, doubted) {
        (0, 0) => String::new(),
        (0, _) => format!(", {doubted} are in doubt"),
        (_, 0) => format!(", {unasked} could not be asked for"),
        _ => format!(", {unasked} could not be asked for, {doubted} are in doubt"),
    };
    find(FindingCode::BelowGoal, format!("{good} of {goal} replicas are good{also}"))
}

/// What is wrong with one replica.
fn judge_replica(
    chunk: &ListedChunk,
    (known, at, kept): (&ListedReplica, &ReplicaAt, bool),
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
    if known.stale && kept {
        let what = "it holds more than the set that was decided on, and is kept: cairn lost";
        find(FindingCode::LostAndFound, None, what);
    } else if known.stale {
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

/// Asks a server whether a replica is there, and where they are read, whether each block is good.
async fn check_replica(
    cell: &Cell,
    (at, handle): (&ReplicaAt, ChunkHandle),
    reading: Option<&ReadPace>,
    progress: &WorkProgress,
) -> Result<ReplicaCheck, Error> {
    let look = cell.ask_server(at, CheckReplica { handle, offset: 0, data: false }).await?;
    let mut check = ReplicaCheck { damaged: look.damaged, ..ReplicaCheck::default() };
    check.replica = look.replica;
    if look.fault != ReplicaFault::Sound {
        check.faults.push((look.fault, 0));
    }
    let readable = matches!(look.fault, ReplicaFault::Sound | ReplicaFault::Short);
    let Some(pace) = reading.filter(|_| readable) else { return Ok(check) };
    let mut next = Some(0);
    while let Some(offset) = next {
        let part = cell.ask_server(at, CheckReplica { handle, offset, data: true }).await?;
        check.bytes += part.size;
        progress.add(part.size);
        if part.fault != ReplicaFault::Sound {
            check.faults.push((part.fault, part.bad_offset));
        }
        pace.took(part.size).await;
        let more = check.faults.len() < BAD_BLOCKS_MAX;
        next = part.next.filter(|next| *next > offset && more);
    }
    Ok(check)
}

#[cfg(test)]
mod tests {
    use super::{FindingCode, ReplicaCheck, judge};
    use crate::commands::fsck::findings::Tally;
    use cairn_client::Error;
    use cairn_protocol::{ChunkWait, ErrorCode, Failure, ListedChunk, ListedReplica, WaitReason};
    use cairn_types::{ChunkHandle, ReplicaAt, ServerId};
    use std::collections::{BTreeMap, BTreeSet};

    #[test]
    fn what_a_server_has_not_and_who_cannot_be_asked_are_named_and_count_for_nothing() {
        let handle = ChunkHandle::new(7);
        let server = ServerId::new;
        let servers: BTreeMap<ServerId, ReplicaAt> = (1..=3)
            .map(|id| (server(id), ReplicaAt { server: server(id), ..ReplicaAt::default() }))
            .collect();
        let replica = |id| ListedReplica { server: server(id), ..ListedReplica::default() };
        let replicas = (1..=3).map(replica).collect();
        let chunk = ListedChunk { handle, goal: 3, good: 3, replicas, ..ListedChunk::default() };
        let failed = |code| Err(Error::from(Failure::not_done(code, "no")));
        let mut told = BTreeMap::from([
            ((handle, server(1)), Ok(ReplicaCheck::default())),
            ((handle, server(2)), failed(ErrorCode::NoSuchChunk)),
            ((handle, server(3)), failed(ErrorCode::Unreachable)),
        ]);
        let lost = BTreeSet::new();
        let checked = judge((&servers, &lost), &chunk, &told);
        let codes: Vec<(FindingCode, Option<u64>)> = checked
            .findings
            .iter()
            .map(|it| (it.code, it.at.as_ref().map(|at| at.server.get())))
            .collect();
        let expected = [
            (FindingCode::Missing, Some(2)),
            (FindingCode::NotAsked, Some(3)),
            (FindingCode::BelowGoal, None),
        ];
        assert_eq!((checked.good, codes), (1, expected.to_vec()));
        let mut tally = Tally::default();
        checked.findings.iter().for_each(|finding| tally.note(finding));
        tally.count(&checked);
        assert!(tally.doubtful && tally.to_repair.contains(&handle), "--repair waits for it");
        assert!(tally.lacking_servers.is_empty(), "it is about to be copied");
        // With three servers, of which one is dead, nobody copies anything.
        let waits = Some(ChunkWait { why: WaitReason::NoServer, left_ms: 0 });
        tally.count(&judge((&servers, &lost), &ListedChunk { waits, ..chunk.clone() }, &told));
        assert!(tally.lacking_servers.contains(&handle), "a person is told so");
        tally.repaired(handle);
        assert!(tally.lacking_servers.is_empty() && tally.to_repair.is_empty());
        // One that could not be asked is neither good nor bad.
        told.insert((handle, server(1)), failed(ErrorCode::Unreachable));
        told.insert((handle, server(2)), failed(ErrorCode::Unreachable));
        let checked = judge((&servers, &lost), &chunk, &told);
        let codes = checked.findings.iter().map(|it| it.code);
        assert!(codes.eq([FindingCode::NotAsked; 3]), "perhaps none lacks: {:?}", checked.findings);
        let mut tally = Tally::default();
        tally.count(&checked);
        assert_eq!((tally.lacking, tally.lost, tally.beyond_repair), (1, 0, 0));
        // Where nobody has it, no waiting helps.
        for id in 1..=3 {
            told.insert((handle, server(id)), failed(ErrorCode::NoSuchChunk));
        }
        let checked = judge((&servers, &lost), &chunk, &told);
        assert_eq!(checked.findings[3].code, FindingCode::NoGoodReplica);
        let mut tally = Tally::default();
        tally.count(&checked);
        assert_eq!((tally.lost, tally.beyond_repair, tally.to_repair.len()), (1, 1, 0));
    }

    #[test]
    fn what_is_only_in_doubt_is_repaired_by_itself_or_rests_or_waits_for_a_person() {
        let handle = ChunkHandle::new(7);
        let ids = || (1..=3).map(ServerId::new);
        let at = |server| (server, ReplicaAt { server, ..ReplicaAt::default() });
        let servers: BTreeMap<ServerId, ReplicaAt> = ids().map(at).collect();
        let doubted = |server| ListedReplica { server, suspect: true, ..ListedReplica::default() };
        let wait = |why| Some(ChunkWait { why, left_ms: 0 });
        let all = ListedChunk {
            handle,
            goal: 3,
            replicas: ids().map(doubted).collect(),
            waits: wait(WaitReason::Turn),
            ..ListedChunk::default()
        };
        let told = ids().map(|server| ((handle, server), Ok(ReplicaCheck::default()))).collect();
        let found = |chunk: &ListedChunk| {
            let checked = judge((&servers, &BTreeSet::new()), chunk, &told);
            let mut tally = Tally::default();
            tally.count(&checked);
            let said = checked.findings.get(3).map(|it| it.code);
            let repaired = tally.to_repair.len();
            (said, [tally.lacking, tally.lost, tally.beyond_repair], repaired)
        };
        assert_eq!(found(&all), (Some(FindingCode::BelowGoal), [1, 0, 0], 1), "H1");
        let deleted = ListedChunk { deleted: true, ..all.clone() };
        assert_eq!(found(&deleted), (None, [0, 0, 0], 0), "nobody asks for it");
        let to_person = ListedChunk { waits: wait(WaitReason::NoSource), ..all };
        let stands = (Some(FindingCode::NoGoodReplica), [1, 0, 1], 0);
        assert_eq!(found(&to_person), stands, "it can be read, and nothing goes on by itself");
    }
}
