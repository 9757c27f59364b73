//! What fsck finds, under names that stay as they are.

use crate::cli_error::CliError;
use crate::output::Output;
use cairn_protocol::{ListedChunk, ReplicaFault, WaitReason};
use cairn_types::{ChunkHandle, ReplicaAt};
use serde_json::json;
use std::collections::BTreeSet;

/// One kind of finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FindingCode {
    /// Fewer good replicas than the goal.
    BelowGoal,
    /// No good replica.
    NoGoodReplica,
    /// A server does not hold what the master believes that it does.
    Missing,
    /// A chunk file is gone from its disk.
    FileMissing,
    /// A sidecar is gone from its disk.
    SidecarMissing,
    /// Files have fewer bytes than they should, or replicas that should be alike differ in length.
    WrongLength,
    /// A block does not match its checksum.
    BadBlock,
    /// Known as damaged before.
    Damaged,
    /// May have lost bytes in a power failure.
    Suspect,
    /// The others have gone on without it.
    Stale,
    /// The server did not answer.
    NotAsked,
    /// A stream has lost what was committed: no server of the chunk has it any more.
    LostBytes,
    /// The same, and a person has made a hole of it.
    Hole,
    /// On a server, and no file refers to it: it is on its way to be collected.
    Unreferenced,
    /// On a server, and the master's log does not know it.
    LostAndFound,
}

impl FindingCode {
    /// Every kind.
    #[cfg(test)]
    pub(crate) const ALL: [Self; 15] = [
        Self::BelowGoal,
        Self::NoGoodReplica,
        Self::Missing,
        Self::FileMissing,
        Self::SidecarMissing,
        Self::WrongLength,
        Self::BadBlock,
        Self::Damaged,
        Self::Suspect,
        Self::Stale,
        Self::NotAsked,
        Self::LostBytes,
        Self::Hole,
        Self::Unreferenced,
        Self::LostAndFound,
    ];

    pub(crate) fn code(self) -> &'static str {
        match self {
            Self::BelowGoal => "BELOW_GOAL",
            Self::NoGoodReplica => "NO_GOOD_REPLICA",
            Self::Missing => "MISSING",
            Self::FileMissing => "FILE_MISSING",
            Self::SidecarMissing => "SIDECAR_MISSING",
            Self::WrongLength => "WRONG_LENGTH",
            Self::BadBlock => "BAD_BLOCK",
            Self::Damaged => "DAMAGED",
            Self::Suspect => "SUSPECT",
            Self::Stale => "STALE",
            Self::NotAsked => "NOT_ASKED",
            Self::LostBytes => "LOST_BYTES",
            Self::Hole => "HOLE",
            Self::Unreferenced => "UNREFERENCED",
            Self::LostAndFound => "LOST_AND_FOUND",
        }
    }

    /// What a server says of a replica on its disk.
    pub(crate) fn of_fault(fault: ReplicaFault) -> Option<Self> {
        match fault {
            ReplicaFault::Sound => None,
            ReplicaFault::NoFile => Some(Self::FileMissing),
            ReplicaFault::NoSidecar => Some(Self::SidecarMissing),
            ReplicaFault::Short => Some(Self::WrongLength),
            ReplicaFault::BadBlock => Some(Self::BadBlock),
            ReplicaFault::Lost => Some(Self::Damaged),
        }
    }

    /// Whether the server says it to who asks, and not to the master.
    pub(crate) fn is_told_to_nobody_else(self) -> bool {
        matches!(self, Self::Missing | Self::WrongLength)
    }

    /// Whether nothing is the worse for it: it goes by itself, or a person knows of it.
    fn is_harmless(self) -> bool {
        let goes = matches!(self, Self::Stale | Self::Unreferenced);
        goes || matches!(self, Self::Hole | Self::LostAndFound)
    }
}

/// Whether no waiting for repair helps.
pub(crate) fn is_stuck(why: WaitReason) -> bool {
    matches!(why, WaitReason::NoSource | WaitReason::NoServer)
}

/// One finding.
#[derive(Clone, Debug)]
pub(crate) struct Finding {
    pub(crate) code: FindingCode,
    pub(crate) handle: ChunkHandle,
    /// Of which file, and which of its chunks; none where no file has it.
    pub(crate) place: Option<(String, u64)>,
    /// Where it was found.
    pub(crate) at: Option<ReplicaAt>,
    pub(crate) offset: Option<u64>,
    /// A line's rest.
    pub(crate) what: String,
}

impl Finding {
    pub(crate) fn of(chunk: &ListedChunk, code: FindingCode, what: impl Into<String>) -> Self {
        let place = Some((chunk.path.clone(), chunk.index.get()));
        let (handle, what) = (chunk.handle, what.into());
        Self { code, handle, place, at: None, offset: None, what }
    }

    pub(crate) fn on(self, at: &ReplicaAt) -> Self {
        Self { at: Some(at.clone()), ..self }
    }

    /// To whoever asked.
    pub(crate) fn tell(&self, output: &Output) -> Result<(), CliError> {
        let handle = self.handle.short();
        if output.json() {
            return output.value(&json!({
                "code": self.code.code(),
                "path": self.place.as_ref().map(|(path, _)| path),
                "index": self.place.as_ref().map(|(_, index)| index),
                "handle": self.handle.to_string(),
                "server": self.at.as_ref().map(|at| at.server.to_string()),
                "address": self.at.as_ref().map(|at| at.address.to_string()),
                "offset": self.offset,
                "what": self.what,
            }));
        }
        let place = match &self.place {
            Some((path, index)) => format!("{}: chunk {index} {handle}", output.name(path)),
            None => format!("chunk {handle}"),
        };
        let at = self.at.as_ref().map(|at| format!(" on {}", at.address)).unwrap_or_default();
        output.line(&format!("{place}{at}: {}: {}", self.code.code(), self.what))
    }
}

/// A chunk that was checked.
#[derive(Debug, Default)]
pub(crate) struct CheckedChunk {
    pub(crate) handle: ChunkHandle,
    pub(crate) goal: u32,
    /// Only deleted files have it.
    pub(crate) deleted: bool,
    /// Its file's name is not known yet.
    pub(crate) unnamed: bool,
    /// No copy comes of what there is before a person decides, or a server comes back.
    pub(crate) to_person: bool,
    /// Each server that could take a copy has a replica, is full, or not reached.
    pub(crate) lacks_server: bool,
    /// Replicas that are good, as their servers say.
    pub(crate) good: u32,
    /// Replicas whose servers could not be asked: neither good nor bad.
    pub(crate) unasked: u32,
    /// Replicas that nothing ails but that they may have lost bytes: they can be read, and the
    /// master takes them for current by itself where all of a set are here (R28).
    pub(crate) doubted: u32,
    /// Replicas that were asked for.
    pub(crate) replicas: u64,
    /// Bytes that were verified.
    pub(crate) bytes: u64,
    pub(crate) findings: Vec<Finding>,
}

impl CheckedChunk {
    /// Whether nothing of it can be read.
    fn is_lost(&self) -> bool {
        self.good + self.unasked + self.doubted == 0
    }

    /// Replicas in doubt of a deleted file: nobody asks for them until it is brought back.
    pub(crate) fn resting(&self) -> u32 {
        if self.deleted { self.doubted } else { 0 }
    }

    /// Whether no waiting helps.
    pub(crate) fn is_beyond_repair(&self) -> bool {
        self.good + self.unasked == 0 && (self.doubted == 0 || self.to_person)
    }

    /// Whether something is to be done for it, and will be.
    fn is_to_repair(&self) -> bool {
        let rests = |code| self.deleted && code == FindingCode::Suspect;
        let ails = |it: &Finding| {
            !it.code.is_harmless() && !rests(it.code) && it.code != FindingCode::LostBytes
        };
        !self.is_beyond_repair() && self.findings.iter().any(ails)
    }
}

/// All that was found.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) chunks: u64,
    pub(crate) replicas: u64,
    pub(crate) bytes: u64,
    pub(crate) findings: u64,
    pub(crate) lacking: u64,
    pub(crate) lost: u64,
    pub(crate) beyond_repair: u64,
    pub(crate) repaired_count: u64,
    pub(crate) to_repair: BTreeSet<ChunkHandle>,
    /// Of these, those that no server could take a copy of when they were looked at.
    pub(crate) lacking_servers: BTreeSet<ChunkHandle>,
    /// A server was not asked.
    pub(crate) doubtful: bool,
    /// A stream that is not deleted has lost bytes.
    pub(crate) lacks_bytes: bool,
}

impl Tally {
    pub(crate) fn note(&mut self, finding: &Finding) {
        self.findings += 1;
        self.doubtful |= finding.code == FindingCode::NotAsked;
    }

    pub(crate) fn count(&mut self, chunk: &CheckedChunk) {
        self.chunks += 1;
        self.replicas += chunk.replicas;
        self.bytes += chunk.bytes;
        self.lacking += u64::from(chunk.good + chunk.resting() < chunk.goal);
        self.lost += u64::from(chunk.is_lost());
        let lacks_bytes = chunk.findings.iter().any(|it| it.code == FindingCode::LostBytes);
        self.lacks_bytes |= lacks_bytes && !chunk.deleted;
        self.beyond_repair += u64::from(chunk.is_beyond_repair());
        if chunk.is_to_repair() {
            self.to_repair.insert(chunk.handle);
            self.lacking_servers.extend(chunk.lacks_server.then_some(chunk.handle));
        }
    }

    pub(crate) fn repaired(&mut self, handle: ChunkHandle) {
        self.repaired_count += u64::from(self.to_repair.remove(&handle));
        self.lacking_servers.remove(&handle);
    }
}

#[cfg(test)]
mod tests {
    use super::FindingCode;

    #[test]
    fn the_guide_has_a_row_for_each_finding_and_for_no_other() {
        let page = include_str!("../../../../../docs/guide/seeing-it.md");
        let part = page.split("## What fsck finds").nth(1).expect("the page has that heading");
        let part = part.split("\n## ").next().unwrap_or_default();
        let rows = part.lines().filter_map(|line| line.strip_prefix("| `"));
        let codes: Vec<&str> =
            rows.filter_map(|row| row.split_once('`')).map(|(code, _)| code).collect();
        assert_eq!(codes, FindingCode::ALL.map(FindingCode::code));
    }
}
