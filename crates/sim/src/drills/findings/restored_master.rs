//! Finding C2: a restored backup of the master reuses numbers, and files swap contents.

use crate::checkers::Verdict;
use crate::drills::drill::Drill;
use crate::drills::script::DrillScript;
use crate::operations::{ClientOp, OpOutput, OpTicket, path};
use bytes::Bytes;
use cairn_types::{Content, EntryId};
use std::time::Duration;

pub(super) const DRILLS: &[Drill] = &[Drill::of_finding(
    "C2",
    "a master is restored from a backup, and new files are made",
    6,
    a_master_is_restored_and_new_files_are_made,
)];

/// Files of each half.
const FILES: usize = 12;
/// Of the new files there are more, until all numbers that servers know of are given out again.
const NEW_FILES: usize = 60;

/// A backup of the master's disk is taken, the master is restarted, and files are written; half of
/// the servers are away during the second half. Then the backup comes back, and with it the number
/// of the term in which all that was. New files are made, until every server takes this master for
/// theirs: each reads as what was written to it, never as one of those that the backup does not
/// know.
fn a_master_is_restored_and_new_files_are_made(script: &mut DrillScript) -> Verdict {
    script.create("/before", Content::Bytes)?;
    let backup = script.backup_of_master();
    let master = script.nodes().master;
    script.kill(master);
    script.restart(master)?;
    let away = script.nodes().servers[3..].to_vec();
    write_files(script, "first-half")?;
    away.iter().for_each(|server| script.kill(*server));
    script.pass(Duration::from_secs(6));
    write_files(script, "second-half")?;
    for server in away {
        script.restart(server)?;
    }
    script.restore_master(&backup);
    script.pass(Duration::from_secs(10));
    let mut files = Vec::new();
    for at in 0..NEW_FILES {
        let path = path(&format!("/new-{at}"));
        let create = ClientOp::Create { path, content: Content::Bytes, or_open: false };
        let create = script.ask(1, create);
        if let Ok(OpOutput::Entry(entry)) = script.wait(create) {
            let (file, bytes) = (entry.id, Bytes::from_static(b"new"));
            // Who waits for a server that has not joined yet waits.
            let write = script.ask(1, ClientOp::Write { file, offset: 0, bytes, sync: false });
            files.push((file, write));
        }
        script.pass(Duration::from_millis(300));
    }
    script.pass(Duration::from_secs(20));
    files.into_iter().try_for_each(|(file, write)| holds_its_own(script, file, write))
}

fn write_files(script: &mut DrillScript, half: &str) -> Verdict {
    for at in 0..FILES {
        let file = script.create(&format!("/{half}-{at}"), Content::Bytes)?;
        script.write(0, file, 0, b"of a file that the backup does not know")?;
    }
    Ok(())
}

/// A new file reads as what was written to it, or as nothing.
fn holds_its_own(script: &mut DrillScript, file: EntryId, write: OpTicket) -> Verdict {
    let written = script.wait(write).is_ok();
    let read = script.ask(2, ClientOp::Read { file, offset: 0, size: 100, fresh: true });
    match script.wait(read) {
        Ok(OpOutput::Bytes(bytes, _)) if bytes != "new" && (written || !bytes.is_empty()) => {
            let given = bytes.escape_ascii();
            Err(format!("a new file reads as \"{given}\" (written: {written})"))
        }
        _ => Ok(()),
    }
}
