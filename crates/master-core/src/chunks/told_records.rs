//! What a record has made of chunks and their sets, told to whoever looks for a reason.

use crate::fleet::Fleet;
use crate::outbox::MasterOutbox;
use crate::record::{CloseChunk, CopyOnWrite, OpenChunk, Record, SetVersion};
use crate::state::State;
use crate::step::Step;
use crate::stream_records::{AbandonChunk, AllocateChunk, ReplaceRange, SealChunk};
use crate::told::{listed, of_chunk};
use cairn_env::LogEvent;
use cairn_types::{ChunkHandle, ChunkVersion};

/// Tells of a record that has just been applied.
pub(super) fn tell_record(step: &mut Step<'_>, fleet: &Fleet, record: &Record) {
    if !step.out.tells_debug() {
        return;
    }
    let (state, out) = (step.state, &mut *step.out);
    match record {
        Record::OpenChunk(OpenChunk { handle, version, set_size, closes, .. }) => {
            // Another may have had the place.
            if state.chunk(*handle).is_some() {
                out.log(created(*handle, *version, *set_size));
            }
            closes.iter().for_each(|closed| tell_closed(out, state, *closed));
        }
        Record::AllocateChunk(AllocateChunk { handle, version, set_size, .. }) => {
            out.log(created(*handle, *version, *set_size));
        }
        Record::CloseChunk(CloseChunk { handle, .. }) => tell_closed(out, state, *handle),
        Record::SetVersion(SetVersion { handle, version, .. }) => {
            tell_set(out, fleet, ("set raised", *handle, *version));
        }
        Record::SealChunk(SealChunk { handle, version, .. }) => {
            tell_set(out, fleet, ("chunk sealed", *handle, *version));
        }
        Record::CopyOnWrite(copied) => {
            let CopyOnWrite { shared, shared_version, handle, version, set_size, .. } = copied;
            tell_set(out, fleet, ("set raised", *shared, *shared_version));
            let event = of_chunk("chunk copied on write", *handle, *version);
            let replicas = u64::from(*set_size);
            out.log(event.with_number("replicas", replicas).with("of", shared.short()));
        }
        Record::ReplaceRange(ReplaceRange { handle, version, set_size, .. }) => {
            let event = of_chunk("chunk assembled", *handle, *version);
            out.log(event.with_number("replicas", u64::from(*set_size)));
        }
        Record::AbandonChunk(AbandonChunk { handle, .. }) => {
            out.log(LogEvent::debug("chunk abandoned").with("chunk", handle.short()));
        }
        _ => {}
    }
}

fn created(handle: ChunkHandle, version: ChunkVersion, set_size: u32) -> LogEvent {
    of_chunk("chunk created", handle, version).with_number("replicas", u64::from(set_size))
}

fn tell_closed(out: &mut MasterOutbox, state: &State, handle: ChunkHandle) {
    if let Some(chunk) = state.chunk(handle) {
        out.log(of_chunk("chunk closed", handle, chunk.version));
    }
}

/// Tells who is of a chunk's set, and who is left out: whoever stands below its version is stale.
fn tell_set(
    out: &mut MasterOutbox,
    fleet: &Fleet,
    (name, handle, version): (&'static str, ChunkHandle, ChunkVersion),
) {
    assert!(version > ChunkVersion::default(), "what is logged of a set has a version");
    let known: Vec<_> = fleet.locations().of(handle).collect();
    let (set, stale): (Vec<_>, Vec<_>) =
        known.into_iter().partition(|(_, replica)| replica.is_current(version));
    let serial = set.iter().map(|(_, replica)| replica.serial).max().unwrap_or_default();
    let event = of_chunk(name, handle, version).with_number("serial", serial.get());
    out.log(event.with("servers", listed(set.iter().map(|(server, _)| *server))));
    for (server, replica) in stale {
        let event = of_chunk("replica left out", handle, replica.version);
        let event = event.with_number("serial", replica.serial.get());
        out.log(event.with("server", server).with("set_version", version.short()));
    }
}
