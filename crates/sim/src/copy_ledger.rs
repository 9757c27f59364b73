//! What a node's copy of a chunk is made of, and whether it has become a replica, as far as the
//! ledger knows.

use crate::replica_ledger::ReplicaLedger;
use cairn_env::CloneWork;
use cairn_env_sim::NodeId;
use cairn_types::{ChunkHandle, ChunkVersion};

/// What a node that copies a chunk has come to.
#[derive(Clone, Debug, Default)]
pub(crate) struct CopyLedger {
    /// From whom it last fetched blocks, and at which version: for a copy, or to be levelled.
    fetched: Option<(NodeId, ChunkVersion)>,
    /// Of which chunk of its own it copies this one.
    copied_of: Option<ChunkHandle>,
    /// It puts it together of ranges of others (R45).
    is_assembled: bool,
    /// It is finished, and not adopted.
    finished: Option<ReplicaLedger>,
    /// Its adoption, at that version, was on its way to the disk when a process ended: it is a
    /// replica or not, which the inventory tells (healing seed 138 at b7fbed5a).
    begun_adoption: Option<ChunkVersion>,
}

/// What a finished copy has its bytes from.
#[derive(Clone, Copy, Debug)]
pub(crate) enum CopySource {
    /// Ranges of other chunks.
    Ranges,
    /// A chunk of the same node.
    Own(ChunkHandle),
    /// Another node's replica, where one was asked.
    Other(Option<NodeId>),
}

impl CopyLedger {
    /// Blocks of another's replica were given, or none were lacked.
    pub(crate) fn fetch(&mut self, from: NodeId, version: ChunkVersion) {
        self.fetched = Some((from, version));
    }

    /// From whom it has fetched at this version, if it has.
    pub(crate) fn fetched_at(&self, version: ChunkVersion) -> Option<NodeId> {
        self.fetched.filter(|(_, at)| *at == version).map(|(from, _)| from)
    }

    /// The disk has done some of the work; what the copy has its bytes from, where that ends it.
    pub(crate) fn worked(&mut self, work: &CloneWork) -> Option<CopySource> {
        match work {
            CloneWork::Finish { .. } if std::mem::take(&mut self.is_assembled) => {
                return Some(CopySource::Ranges);
            }
            CloneWork::Finish { .. } => {
                let other = CopySource::Other(self.fetched.map(|(from, _)| from));
                return Some(self.copied_of.map_or(other, CopySource::Own));
            }
            CloneWork::Begin { anew: false } => {}
            CloneWork::Gather { .. } | CloneWork::Add { .. } => self.is_assembled = true,
            CloneWork::Copy { of, .. } => (self.copied_of, self.finished) = (Some(*of), None),
            CloneWork::Begin { anew: true } | CloneWork::Install { .. } | CloneWork::Drop => {
                (self.copied_of, self.finished, self.is_assembled) = (None, None, false);
            }
        }
        None
    }

    pub(crate) fn finish(&mut self, copy: ReplicaLedger) {
        self.finished = Some(copy);
    }

    /// It is a replica from here on: what it has.
    pub(crate) fn adopt(&mut self) -> ReplicaLedger {
        self.begun_adoption = None;
        self.finished.take().unwrap_or_default()
    }

    /// A process ended while it was to become a replica.
    pub(crate) fn may_be_adopted(&mut self, version: ChunkVersion) {
        self.begun_adoption = Some(version);
    }

    /// It is raised, as only a replica is (R30): what it has, if nobody has seen it become one.
    pub(crate) fn raised(&mut self) -> Option<ReplicaLedger> {
        self.begun_adoption.is_some().then(|| self.adopt())
    }

    /// Its server has told all that it holds, and this at that version: what it has, if it is a
    /// replica by that.
    pub(crate) fn told(&mut self, version: Option<ChunkVersion>) -> Option<ReplicaLedger> {
        let begun = self.begun_adoption.take()?;
        (version == Some(begun)).then(|| ReplicaLedger {
            version: begun,
            dirty: true,
            ..self.adopt()
        })
    }

    /// Whatever it may have become is gone.
    pub(crate) fn trashed(&mut self) {
        self.begun_adoption = None;
    }
}
