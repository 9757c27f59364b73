//! Commits of bundles: whose word about who holds them is taken (R43).

use crate::rules::commit_replicas::replicas_needed;
use crate::rules::members::current;
use crate::state::{ChunkRecord, locked};
use crate::stream_records::{CommitBundlesRecord, CommittedBundle};
use crate::view::View;
use cairn_protocol::{
    BUNDLES_MAX, Bundle, BundleAnswer, BundleHolder, CURSOR_SIZE_MAX, CommitBundles,
    CommitBundlesAnswer, CommitOutcome, ErrorCode, Failure,
};
use cairn_types::planted::{Rule, broken};
use cairn_types::{ChunkHandle, EntryId, ProducerId, ServerId};
use std::collections::BTreeSet;

/// The record of a commit, of bundles that enough are believed to hold.
///
/// # Errors
/// What is answered at once: a failure, or what became of the first bundle.
pub(super) fn consider(
    view: &View<'_>,
    commit: CommitBundles,
) -> Result<CommitBundlesRecord, Result<CommitBundlesAnswer, Failure>> {
    let CommitBundles { file, producer: id, epoch, bundles } = commit;
    if bundles.is_empty() || bundles.len() > BUNDLES_MAX {
        let line = format!("{} bundles in one commit; from 1 to {BUNDLES_MAX}", bundles.len());
        return Err(Err(Failure::refused(ErrorCode::Invalid, line)));
    }
    let is_long = |it: &Bundle| it.cursor.as_ref().is_some_and(|it| it.len() > CURSOR_SIZE_MAX);
    if bundles.iter().any(is_long) {
        let line = format!("a cursor has at most {CURSOR_SIZE_MAX} bytes");
        return Err(Err(Failure::refused(ErrorCode::Invalid, line)));
    }
    // Each record has a byte at least: a number that ran ahead of them would leave none for others.
    if let Some(it) = bundles.iter().find(|it| it.count > it.size) {
        let line = format!("a bundle of {} records in {} bytes", it.count, it.size);
        return Err(Err(Failure::refused(ErrorCode::Invalid, line)));
    }
    if view.is_frozen(file) {
        let line = "a snapshot of it is being taken; try again";
        return Err(Err(Failure::not_done(ErrorCode::Busy, line)));
    }
    check_writer(view, (file, id), &bundles).map_err(Err)?;
    let number = view.state.streams().producer(file, id).map(|it| it.number).unwrap_or_default();
    let mut believed = Vec::with_capacity(bundles.len());
    for bundle in bundles {
        // What is committed already is answered by what is kept of it (R38).
        if bundle.first > number
            && let Err(why) = check_holders(view, &bundle)
        {
            if !believed.is_empty() {
                break;
            }
            return Err(match why {
                NotHeld::Untold(failure) => Err(failure),
                NotHeld::Lost => {
                    let lost = BundleAnswer { outcome: CommitOutcome::ChunkLost, offset: 0 };
                    Ok(CommitBundlesAnswer { bundles: vec![lost], number })
                }
            });
        }
        let Bundle { first, count, handle, offset, size, serial, cursor, replaces, .. } = bundle;
        believed.push(CommittedBundle {
            first,
            count,
            handle,
            offset,
            size,
            serial,
            cursor,
            replaces,
        });
    }
    let time = view.now.wall;
    Ok(CommitBundlesRecord { time, file, producer: id, epoch, bundles: believed })
}

/// Refuses at once what the log would refuse, so that who waits for a stream that somebody has
/// exclusively (R46) costs no record.
fn check_writer(
    view: &View<'_>,
    (file, id): (EntryId, ProducerId),
    bundles: &[Bundle],
) -> Result<(), Failure> {
    let streams = view.state.streams();
    let Some((holder, exclusive)) = streams.exclusive(file) else { return Ok(()) };
    let number = streams.producer(file, id).map(|it| it.number).unwrap_or_default();
    let is_new = bundles.iter().any(|it| it.first > number);
    if holder != id && !exclusive.closed && is_new {
        return Err(locked(file, exclusive.epoch));
    }
    Ok(())
}

/// Why a bundle is not committed.
enum NotHeld {
    /// Servers have not told yet.
    Untold(Failure),
    /// Too few hold it.
    Lost,
}

/// Whether enough of the chunk's set hold a bundle, as far as they are believed: those in the life
/// in which they stored it (R43).
fn check_holders(view: &View<'_>, bundle: &Bundle) -> Result<(), NotHeld> {
    let handle = bundle.handle;
    let Some(chunk) = view.state.chunk(handle) else { return Err(NotHeld::Lost) };
    let believed: BTreeSet<ServerId> = bundle
        .holders
        .iter()
        .filter(|holder| is_believed(view, (handle, &chunk), holder))
        .map(|holder| holder.server)
        .collect();
    let Some(stream) = view.state.entry(chunk.file) else {
        let line = format!("chunk {}: its file's record cannot be read", handle.short());
        return Err(NotHeld::Untold(Failure::not_done(ErrorCode::Busy, line)));
    };
    let needed = replicas_needed(&stream, chunk.set_size);
    let needed = needed as usize;
    assert!(needed > 0, "a bundle that nobody holds is not committed");
    if believed.len() >= needed {
        return Ok(());
    }
    let starting =
        view.term.is_starting(view.now.time) || view.fleet.servers().is_gathering(view.now.time);
    if starting {
        let line = format!("chunk {}: its servers have not told yet", handle.short());
        return Err(NotHeld::Untold(Failure::not_done(ErrorCode::Busy, line)));
    }
    Err(NotHeld::Lost)
}

fn is_believed(
    view: &View<'_>,
    (handle, chunk): (ChunkHandle, &ChunkRecord),
    holder: &BundleHolder,
) -> bool {
    if broken(Rule::R43) {
        return true;
    }
    let servers = view.fleet.servers();
    let of_set = current(view, handle, chunk).any(|(server, _)| server == holder.server);
    let same_life =
        servers.get(holder.server).is_some_and(|it| it.incarnation == holder.incarnation);
    of_set && same_life && servers.is_live(view.now.time, holder.server)
}
