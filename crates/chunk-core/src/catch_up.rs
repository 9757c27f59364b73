//! Catching up: a replica takes over the blocks in which it differs from one that has gone further,
//! before it takes part in a lease (R16).
//!
//! ```text
//!   own checksums ──► Fetch, from the source ──► none differs: the lease goes on
//!                       ▲        └──► blocks ──► stored here ─┐
//!                       └─────────────────────────────────────┘
//! ```
//! - CU1: bytes are never taken from a replica that has applied less.
//! - CU2: until all of them are here the serial number stays behind. What was fetched stays too: a
//!   catch-up that breaks off claims nothing, and the next one has less to do.

use crate::fetched_blocks::FetchedBlocks;
use crate::outbox::{CallPurpose, ReplicaCall, ReplicaJob};
use crate::replica_context::ReplicaContext;
use crate::stored_replica::StoredReplica;
use bytes::Bytes;
use cairn_env::ChunkJob;
use cairn_protocol::{ErrorCode, Failure, Fetch, FetchAnswer, LevelSource};
use cairn_types::planted::{Rule, broken};
use cairn_types::{BlockChecksums, ChunkVersion};

/// Whether there is more to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CatchUpProgress {
    UnderWay,
    /// The bytes are the source's.
    Done,
}

/// A catch-up under way.
#[derive(Debug)]
pub(crate) struct CatchUp {
    source: LevelSource,
    version: ChunkVersion,
    /// Up to here the bytes are the source's.
    offset: u64,
    /// Bytes that were here at the start, and the checksums of their blocks from `offset` on.
    length: u64,
    known: BlockChecksums,
    /// The source was asked.
    asking: bool,
}

impl CatchUp {
    /// Begins, unless this replica stands as the source does.
    pub(crate) fn start(
        stored: &StoredReplica,
        cx: &mut ReplicaContext<'_>,
        source: &LevelSource,
    ) -> Result<Option<Self>, Failure> {
        if source.serial < stored.serial() {
            // CU1
            let (theirs, ours) = (source.serial, stored.serial());
            let why =
                format!("{ours} mutations are applied here, {theirs} where it is levelled from");
            return Err(Failure::not_done(ErrorCode::OutOfOrder, why));
        }
        // One that may have lost bytes is not believed without a look at each block (R28).
        let stands_level = stored.stands_as(source) && !stored.is_suspect();
        if stands_level || broken(Rule::R16) {
            return Ok(None);
        }
        let handle = stored.handle();
        cx.out.replica_job(handle, ReplicaJob::Checksums, ChunkJob::Checksums { handle });
        let (source, version) = (source.clone(), stored.version());
        let (offset, length, known) = (0, 0, BlockChecksums::default());
        Ok(Some(Self { source, version, offset, length, known, asking: false }))
    }

    pub(crate) fn is_at(&self, version: ChunkVersion) -> bool {
        self.version == version
    }

    /// Whether nothing of it is under way but a question.
    pub(crate) fn is_asking(&self) -> bool {
        self.asking
    }

    /// This replica's own checksums.
    pub(crate) fn on_checksums(
        &mut self,
        stored: &StoredReplica,
        cx: &mut ReplicaContext<'_>,
        (length, known): (u64, BlockChecksums),
    ) -> CatchUpProgress {
        (self.length, self.known) = (length, known);
        self.ask(stored, cx);
        CatchUpProgress::UnderWay
    }

    fn ask(&mut self, stored: &StoredReplica, cx: &mut ReplicaContext<'_>) {
        assert!(!self.asking, "one question at a time");
        self.asking = true;
        let (handle, version) = (stored.handle(), self.version);
        let (offset, length, known) = (self.offset, self.length, self.known.clone());
        let fetch = Fetch { handle, version, offset, length, known, size_max: 0 };
        let purpose = CallPurpose::Replica(handle, ReplicaCall::Fetch { version });
        let (to, server) = (self.source.at.address.clone(), self.source.at.server);
        let deadline = cx.replica_deadline();
        cx.out.call(purpose, to, server, fetch, deadline);
    }

    /// The source's answer, and the blocks that came with it.
    pub(crate) fn on_fetched(
        &mut self,
        stored: &StoredReplica,
        cx: &mut ReplicaContext<'_>,
        result: Result<(FetchAnswer, Bytes), Failure>,
    ) -> Result<CatchUpProgress, Failure> {
        self.asking = false;
        let asked = self.offset;
        let blocks = result.and_then(|(FetchAnswer { offset, checksums, .. }, bytes)| {
            FetchedBlocks::of(asked, (offset, checksums), bytes, cx.config)
        });
        let Some(blocks) = blocks.map_err(|it| self.failed(&it))? else {
            return Ok(CatchUpProgress::Done);
        };
        let end = blocks.end();
        let FetchedBlocks { offset, checksums, bytes } = blocks;
        let block_size = u64::from(cx.config.block_size);
        let passed = end.div_ceil(block_size) - self.offset / block_size;
        let passed = usize::try_from(passed).unwrap_or(usize::MAX).min(self.known.0.len());
        self.known.0.drain(..passed);
        self.offset = end;
        let (handle, version) = (stored.handle(), self.version);
        let job = ChunkJob::Install { handle, version, offset, checksums, bytes };
        cx.out.replica_job(handle, ReplicaJob::Apply, job);
        Ok(CatchUpProgress::UnderWay)
    }

    /// The blocks are stored.
    pub(crate) fn on_installed(
        &mut self,
        stored: &StoredReplica,
        cx: &mut ReplicaContext<'_>,
    ) -> CatchUpProgress {
        // Only a chunk's last block may be partial.
        if !self.offset.is_multiple_of(u64::from(cx.config.block_size)) {
            return CatchUpProgress::Done;
        }
        self.ask(stored, cx);
        CatchUpProgress::UnderWay
    }

    /// What is told of a source that does not give its bytes.
    fn failed(&self, failure: &Failure) -> Failure {
        let at = &self.source.at;
        let why = format!("no bytes came from {}: {}", at.address, failure.message);
        Failure { server: at.server, ..Failure::not_done(ErrorCode::ReplicaFailed, why) }
    }
}
