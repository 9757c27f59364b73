//! Tasks: the small state machines that operations are made of.

use crate::context::ClientContext;
use crate::ids::{OperationId, TaskId};
use crate::producers::ProducerKey;
use crate::tasks::bundle_store::{BundleStore, StoredBundle};
use crate::tasks::chunk_mutation::{AppliedRange, ChunkMutation};
use crate::tasks::extent_lookup::ExtentLookup;
use crate::tasks::master_call::{MasterAnswer, MasterCall};
use crate::tasks::piece_read::PieceRead;
use crate::tasks::read_piece::ReadPiece;
use crate::tasks::read_run::ReadRun;
use crate::tasks::server_call::ServerCall;
use crate::tasks::task_context::{Progress, TaskContext, TaskInput};
use cairn_protocol::{Failure, Response};

/// One of the state machines.
#[derive(Debug)]
pub(crate) enum Task {
    MasterCall(MasterCall),
    ServerCall(ServerCall),
    ReadPiece(ReadPiece),
    ChunkMutation(ChunkMutation),
    BundleStore(BundleStore),
    ExtentLookup(ExtentLookup),
    ReadRun(ReadRun),
}

/// What a task came to.
#[derive(Debug)]
pub(crate) enum TaskResult {
    Answered(MasterAnswer),
    Told(Response),
    Read(PieceRead),
    Applied(AppliedRange),
    Stored(StoredBundle),
    /// What was to be known is.
    LookedUp,
    /// None: the bytes are elsewhere by now.
    RunRead(Option<PieceRead>),
}

/// Whom a task serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TaskOwner {
    /// One operation.
    Operation(OperationId),
    /// All tasks that look the same up.
    Lookup,
    /// Those whose files it opens.
    JoinedOpens,
    /// A producer of a stream.
    Producer(ProducerKey),
}

impl Task {
    pub(crate) fn on(
        &mut self,
        cx: &mut TaskContext<'_>,
        input: TaskInput,
    ) -> Progress<TaskResult> {
        match self {
            Self::MasterCall(call) => call.on(cx, input).map_ok(TaskResult::Answered),
            Self::ServerCall(call) => call.on(cx, input).map_ok(TaskResult::Told),
            Self::ReadPiece(piece) => piece.on(cx, input).map_ok(TaskResult::Read),
            Self::ChunkMutation(mutation) => mutation.on(cx, input).map_ok(TaskResult::Applied),
            Self::BundleStore(store) => store.on(cx, input).map_ok(TaskResult::Stored),
            Self::ExtentLookup(lookup) => lookup.on(cx, input).map_ok(|()| TaskResult::LookedUp),
            Self::ReadRun(run) => run.on(cx, input).map_ok(TaskResult::RunRead),
        }
    }

    /// It is taken away before it is over.
    pub(crate) fn leave(&self, client: &mut ClientContext, id: TaskId) {
        match self {
            Self::MasterCall(_)
            | Self::ServerCall(_)
            | Self::ReadPiece(_)
            | Self::ExtentLookup(_)
            | Self::ReadRun(_) => {}
            Self::ChunkMutation(mutation) => mutation.leave(client, id),
            Self::BundleStore(_) => BundleStore::leave(client, id),
        }
    }

    /// Whether something that changes the cell may come of requests already sent (K1).
    pub(crate) fn may_have_happened(&self) -> bool {
        match self {
            Self::MasterCall(call) => call.may_have_happened(),
            // A bundle is in the file once it is committed, and not before.
            Self::ServerCall(_)
            | Self::ReadPiece(_)
            | Self::BundleStore(_)
            | Self::ExtentLookup(_)
            | Self::ReadRun(_) => false,
            Self::ChunkMutation(mutation) => mutation.may_have_happened(),
        }
    }

    /// The last thing that went wrong.
    pub(crate) fn last_failure(&self) -> Option<&Failure> {
        match self {
            Self::MasterCall(call) => call.last_failure(),
            // It is asked once: what went wrong is told.
            Self::ServerCall(_) => None,
            // What failed is told to its producer.
            Self::BundleStore(_) => None,
            // The lookup that it waits for tells.
            Self::ExtentLookup(_) => None,
            Self::ReadRun(run) => run.last_failure(),
            Self::ReadPiece(piece) => piece.last_failure(),
            Self::ChunkMutation(mutation) => mutation.last_failure(),
        }
    }
}
