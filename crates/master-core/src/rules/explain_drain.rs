//! Why a chunk still lies on a server that is to be emptied, for a person: what has to come first.

use super::good_replicas::{counted, judged};
use super::members::current;
use super::not_copied::{NotCopied, why_not_copied};
use super::placement::CopyTakers;
use super::surplus::plan_leave_out;
use crate::state::ChunkRecord;
use crate::view::View;
use cairn_types::{ChunkHandle, ServerId};

/// A line about the servers to be emptied on which the chunk lies; none: it lies on no such server.
/// `is_copied`: a copy of it is being made.
pub(super) fn explain_drain(
    view: &View<'_>,
    (handle, chunk): (ChunkHandle, &ChunkRecord),
    is_copied: bool,
) -> Option<String> {
    let duties = view.state.known_servers().duties();
    let holders = view.fleet.locations().of(handle).map(|(server, _)| server);
    let drained: Vec<ServerId> = holders.filter(|server| duties.is_draining(*server)).collect();
    let address = |server: &ServerId| view.fleet.at(*server).map(|at| at.address.as_str());
    let shown: Vec<&str> = drained.iter().filter_map(address).collect();
    let is_of_set = |server: &ServerId| current(view, handle, chunk).any(|(it, _)| it == *server);
    let what = match drained.iter().find(|server| is_of_set(server)) {
        Some(server) => what_comes_first(view, (handle, chunk), *server, is_copied),
        None if drained.is_empty() => return None,
        None => "what is there is stale, and is thrown away".to_owned(),
    };
    let are = if shown.len() == 1 { "is" } else { "are" };
    Some(format!("  {} {are} to be emptied: {what}", shown.join(", ")))
}

/// What has to be done before a server to be emptied can be left out of the chunk's set.
fn what_comes_first(
    view: &View<'_>,
    (handle, chunk): (ChunkHandle, &ChunkRecord),
    server: ServerId,
    is_copied: bool,
) -> String {
    let good = judged(view, handle, chunk).good;
    let (goal, elsewhere) = (chunk.goal as usize, counted(view, &good).len());
    if elsewhere >= goal {
        return match plan_leave_out(view, (handle, chunk), server) {
            Ok(_) => format!("{elsewhere} good replicas are elsewhere, so that it is left out now"),
            Err(blocked) => format!(
                "{elsewhere} good replicas are elsewhere, and it is left out when nothing is in \
                 the way any more: {}",
                blocked.why
            ),
        };
    }
    let why = if is_copied {
        "one is being made"
    } else if view.fleet.servers().is_gathering(view.now.time) {
        "nothing is copied before all servers have told what they hold"
    } else {
        match why_not_copied(view, (handle, chunk), &CopyTakers::of(view)) {
            Some(NotCopied::DeletedSuspect) => {
                "it is a deleted file's, and may have lost bytes in a power failure: it goes when \
                 that is purged, or can be copied once it is brought back"
            }
            Some(NotCopied::NoGood) => "there is no good one to copy",
            Some(NotCopied::Undecided) => "its set has to be decided on before",
            Some(NotCopied::NoTaker) => {
                "each server with room has one already: add servers, or make room on the others"
            }
            None => "it waits for its turn",
        }
    };
    format!(
        "{elsewhere} of {goal} good replicas are elsewhere, more have to be copied first; {why}"
    )
}
