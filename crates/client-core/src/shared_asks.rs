//! Questions that many tasks want answered at once: locations and grants, asked once for all.

use crate::ask::{Ask, Asked};
use crate::context::Context;
use crate::locations::usable_until;
use crate::settings::LOCATE_COUNT;
use crate::task::TaskId;
use cairn_protocol::{
    CellInfo, ChunkLocations, ErrorCode, Failure, Lease, LeasePurpose, Locate, Request, Response,
};
use cairn_types::{ChunkIndex, ChunkVersion, EntryId, ServerId, Time};

/// What is to be known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Want {
    /// The cell and its settings.
    Cell,
    /// Where a chunk and those after it lie.
    Location { file: EntryId, index: ChunkIndex },
    /// Who orders a chunk's mutations.
    Grant {
        file: EntryId,
        index: ChunkIndex,
        purpose: LeasePurpose,
        failed: Option<(ServerId, ChunkVersion)>,
    },
}

/// Who wants it, and until when. No waiter: a prefetch.
#[derive(Debug)]
pub(crate) struct Wanted {
    pub(crate) want: Want,
    /// Only the answer to a question with a higher number will do.
    pub(crate) newer_than: u64,
    pub(crate) waiter: Option<TaskId>,
    pub(crate) deadline: Time,
}

/// A question under way, and who waits for it.
#[derive(Debug)]
pub(crate) struct SharedAsk {
    pub(crate) want: Want,
    pub(crate) waiters: Vec<TaskId>,
}

impl Want {
    pub(crate) fn request(&self) -> Request {
        match *self {
            Self::Cell => CellInfo {}.into(),
            Self::Location { file, index } => {
                Locate { file, first: index, count: LOCATE_COUNT }.into()
            }
            Self::Grant { file, index, purpose, failed } => {
                let (failed, failed_version) = failed.unwrap_or_default();
                Lease { file, index, purpose, failed, failed_version }.into()
            }
        }
    }

    /// Whether the answer to this question also answers `other`.
    fn covers(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Location { file, index: first }, Self::Location { file: other_file, index }) => {
                let reach = first.get().saturating_add(u64::from(LOCATE_COUNT));
                file == other_file && (first.get()..reach).contains(&index.get())
            }
            _ => self == other,
        }
    }
}

impl SharedAsk {
    /// Whether a task that wants `wanted` may wait for this one. A question that rests will be
    /// asked anew, with a higher number than any before.
    pub(crate) fn serves(&self, ask: &Ask, wanted: &Wanted) -> bool {
        let young = ask.asked().is_none_or(|asked| asked > wanted.newer_than);
        young && self.want.covers(&wanted.want)
    }
}

/// Takes an answer into the caches.
pub(crate) fn absorb(cx: &mut Context, want: &Want, asked: Asked) -> Result<(), Failure> {
    let ttl_ms = cx.config.as_ref().map_or(0, |config| config.location_ttl_ms);
    let until = usable_until(asked.sent, ttl_ms);
    match (*want, asked.response) {
        (Want::Location { file, index }, Response::Locate(answer)) => {
            let locations = &mut cx.file(file).locations;
            locations.absorb(&answer.entry, index, answer.chunks, asked.asked, until);
            Ok(())
        }
        (Want::Grant { file, purpose, .. }, Response::Lease(grant)) => {
            if purpose == LeasePurpose::Level {
                let primary = Some(grant.primary.server);
                let mut replicas = vec![grant.primary];
                replicas.extend(grant.secondaries);
                let chunk = ChunkLocations {
                    index: grant.index,
                    handle: grant.handle,
                    version: grant.version,
                    closed: false,
                    replicas,
                    primary,
                };
                cx.file(file).locations.absorb_grant(chunk, asked.asked, until);
            } else {
                cx.file(file).keep_grant(purpose, grant);
            }
            Ok(())
        }
        (_, response) => Err(mismatched(&response)),
    }
}

/// A master that answers something else than it was asked.
pub(crate) fn mismatched(response: &Response) -> Failure {
    Failure::unknown(
        ErrorCode::Internal,
        format!("the answer is of rpc {}, which was not asked for", response.kind()),
    )
}
