//! Finding P1: `sync()` is vouched for by replicas that lost the bytes.

use crate::checkers::Verdict;
use crate::drills::drill::Drill;
use crate::drills::script::DrillScript;
use crate::operations::{ClientOp, OpOutput};
use cairn_types::{Content, EntryId};
use std::time::Duration;

pub(super) const DRILLS: &[Drill] = &[
    Drill::of_finding(
        "P1",
        "a secondary loses unsynced bytes within a lease, and a client syncs",
        2,
        a_secondary_loses_bytes_and_a_client_syncs,
    ),
    Drill::of_finding(
        "P1",
        "a set loses unsynced bytes, another client writes past them, and the first syncs",
        3,
        another_writes_past_lost_bytes,
    ),
];

/// "first" is synced, " second" acknowledged. The secondary loses power, and with it " second"; it
/// is back within the lease, at the same version. The client syncs: by the word of that secondary
/// it must not be told that all is on disk. (When it counts as dead, the primary's replica alone is
/// the set, and a sync of it counts.)
fn a_secondary_loses_bytes_and_a_client_syncs(script: &mut DrillScript) -> Verdict {
    let file = script.create("/f", Content::Bytes)?;
    script.write_synced(0, file, 0, b"first")?;
    script.write(0, file, 5, b" second")?;
    let chunk = script.chunk(file, 0)?;
    let primary = script.primary(chunk)?;
    let secondary = script.holders(chunk).into_iter().find(|it| *it != primary);
    let secondary = secondary.ok_or("no secondary")?;
    script.power_loss_of_all_unsynced(secondary);
    script.restart(secondary)?;
    // Until the primary knows that its connection to the old process is broken.
    script.pass(Duration::from_millis(1600));
    let sync = script.ask(0, ClientOp::Sync { file });
    script.pass(Duration::from_secs(2));
    match script.ended(sync) {
        Some(Ok(_)) => Err("synced, by the word of one that has lost it".to_owned()),
        Some(Err(_)) | None => Ok(()),
    }
}

/// A whole set loses power, and with it what the first client wrote and did not sync. Another
/// client writes further on, so that the chunk is as long as it was. Whether its bytes are there is
/// more than its length can tell: the first client's sync must not say that they are.
fn another_writes_past_lost_bytes(script: &mut DrillScript) -> Verdict {
    let file = script.create("/f", Content::Bytes)?;
    script.write_synced(0, file, 0, b"first")?;
    script.write(0, file, 5, b" second")?;
    let chunk = script.chunk(file, 0)?;
    for server in script.holders(chunk) {
        script.power_loss_of_all_unsynced(server);
    }
    for server in script.holders(chunk) {
        script.restart(server)?;
    }
    script.pass(Duration::from_secs(60));
    script.write(1, file, 20, b"third")?;
    let ticket = script.ask(0, ClientOp::Sync { file });
    if script.wait(ticket).is_err() {
        return Ok(());
    }
    all_read(script, file, b"first second")
}

/// What was told to be on disk is read.
fn all_read(script: &mut DrillScript, file: EntryId, synced: &[u8]) -> Verdict {
    let size = synced.len() as u64;
    let read = script.ask(1, ClientOp::Read { file, offset: 0, size, fresh: true });
    match script.wait(read) {
        Ok(OpOutput::Bytes(bytes, _)) if bytes == synced => Ok(()),
        Ok(OpOutput::Bytes(bytes, _)) => {
            let (there, synced) = (bytes.escape_ascii(), synced.escape_ascii());
            Err(format!("\"{synced}\" was synced, \"{there}\" is read"))
        }
        other => Err(format!("synced, and cannot be read: {other:?}")),
    }
}
