//! Acknowledged bytes stand on the whole set: at the acknowledgement as many replicas have applied
//! the mutation as the logged version has members (R14), and their disks stand at a version that
//! no later raise leaves behind: the next set's members hold it, or it is lost with the old ones.

use super::checker::{Checker, Verdict};
use crate::acknowledged_mutation::acknowledges;
use crate::ledger::Ledger;
use cairn_env_sim::SeenRequest;
use cairn_protocol::{Failure, Request, Response};

pub(crate) struct AckSet;

impl Checker for AckSet {
    fn name(&self) -> &'static str {
        "acknowledged_bytes"
    }

    fn answered(
        &mut self,
        seen: &SeenRequest<'_>,
        answer: &Result<Response, Failure>,
        ledger: &Ledger,
    ) -> Verdict {
        if let (Request::GrantLease(grant), Ok(_)) = (seen.request, answer) {
            return new_primary_knows_all(seen, grant.handle, ledger);
        }
        let Some((handle, push, _)) = acknowledges(seen.request, answer) else { return Ok(()) };
        let chunk = &ledger.chunks[&handle];
        let Some((_, set_size)) = chunk.version() else {
            return Err(format!(
                "{push:?} on chunk {} is acknowledged; no log knows it",
                handle.short()
            ));
        };
        let holders = chunk.appliers.get(&push).map_or(0, |nodes| nodes.len());
        if holders < set_size as usize {
            return Err(format!(
                "{push:?} on chunk {} is acknowledged on {holders} replicas of a set of {set_size}",
                handle.short()
            ));
        }
        Ok(())
    }
}

/// Whoever takes a lease holds everything acknowledged so far, unless no intact and undoubted
/// replica is left.
fn new_primary_knows_all(
    seen: &SeenRequest<'_>,
    handle: cairn_types::ChunkHandle,
    ledger: &Ledger,
) -> Verdict {
    let chunk = ledger.chunks.get(&handle);
    if chunk.is_some_and(|chunk| chunk.unnoticed.contains(&seen.to)) {
        // Its directory went a moment ago: it will say so, and is no primary then.
        return Ok(());
    }
    let held = chunk.and_then(|chunk| Some((chunk, chunk.replicas.get(&seen.to)?)));
    let Some((chunk, replica)) = held else {
        return Err(format!(
            "{:?} takes a lease on chunk {}, of which its disk holds nothing",
            seen.to,
            handle.short()
        ));
    };
    let intact = chunk.intact();
    // R28: with only doubted replicas left in the set, one of them is the truth by decision.
    if chunk.known_good().is_empty() {
        return Ok(());
    }
    // What a power loss may have taken and the replica says that it has is the last reading's
    // business: its blocks passed their checksums when it was recovered.
    let lacking = chunk.acknowledged.iter().find(|done| match replica.applied.get(&done.push) {
        None => true,
        Some(applied) => {
            replica.lost && !replica.synced.contains(&done.push) && replica.claimed < *applied
        }
    });
    match lacking {
        Some(done) => Err(format!(
            "{:?} takes a lease on chunk {} and lacks {:?} (serial {}, acknowledged at {:.3}s on \
             {:?}); {intact:?} are intact",
            seen.to,
            handle.short(),
            done.push,
            done.serial,
            done.at.seconds(),
            done.holders,
        )),
        None => Ok(()),
    }
}
