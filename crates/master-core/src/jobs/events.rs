//! What jobs are told, and what they see.

use super::waiters::Wants;
use crate::applied::Applied;
use crate::chunk_place::ChunkPlace;
use crate::view::View;
use cairn_protocol::{
    AssembleChunkAnswer, CloneChunkAnswer, CopyChunkAnswer, Failure, GrantLeaseAnswer, ProbeAnswer,
    ReplicaReport,
};
use cairn_types::{ServerId, Time};

/// What has come of something that a job wanted done.
#[derive(Debug)]
pub(crate) enum JobEvent<'a> {
    /// A replica stands at the raise's version, or has not said so.
    RaiseAnswered(ServerId, Result<ReplicaReport, Failure>),
    /// The primary has said how it stands, or has not.
    ProbeAnswered(Result<ProbeAnswer, Failure>),
    /// The new primary serves, or has not said so.
    GrantAnswered(Result<GrantLeaseAnswer, Failure>),
    /// The holder has given its lease back, or has not said so.
    RevokeAnswered(Result<(), Failure>),
    /// A clone is finished, or is not.
    CloneAnswered(Result<CloneChunkAnswer, Failure>),
    /// A replica has been copied on its server, or has not.
    CopyAnswered(ServerId, Result<CopyChunkAnswer, Failure>),
    /// A chunk is put together on a server, or is not.
    AssembleAnswered(ServerId, Result<AssembleChunkAnswer, Failure>),
    /// The job's record is applied.
    Applied(&'a Applied),
}

/// What a job sees.
#[derive(Debug)]
pub(crate) struct PlaceView<'a> {
    pub(crate) view: View<'a>,
    pub(crate) place: ChunkPlace,
    /// Since when something is under way at this place.
    pub(crate) since: Time,
    pub(crate) wants: Wants,
}
