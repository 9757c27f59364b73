//! Finding C2: a restored backup of the master reuses numbers, and files swap contents (R1).

use crate::checkers::Verdict;
use crate::drills::drill::Drill;
use crate::drills::script::DrillScript;
use crate::operations::{ClientOp, OpOutput, OpTicket, path};
use bytes::Bytes;
use cairn_protocol::{ErrorCode, Response, Status};
use cairn_types::planted::Rule;
use cairn_types::{Content, EntryId, Term};
use std::time::Duration;

pub(super) const DRILLS: &[Drill] = &[
    Drill::of_finding(
        "C2",
        "a master is restored from a backup, and new files are made",
        6,
        a_master_is_restored_and_new_files_are_made,
    ),
    Drill::of_finding(
        "C2",
        "a master is restored from a backup, and told to go on",
        4,
        a_master_is_restored_and_told_to_go_on,
    )
    .that_shows(Rule::R1),
];

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
        let create = script.ask(1, make(&format!("/new-{at}")));
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

/// A backup of the master's disk is taken, then a file is overwritten while one of its servers is
/// cut off, and another one made. The backup comes back: it takes no change, and says which term it
/// lacks. Told to go on past that, it begins a history: the file reads as it was written last,
/// though the log knows of an older version and one server still has that, new files are made, and
/// what the log does not know is kept.
fn a_master_is_restored_and_told_to_go_on(script: &mut DrillScript) -> Verdict {
    let file = script.create("/before", Content::Bytes)?;
    script.write_synced(0, file, 0, b"first")?;
    let chunk = script.chunk(file, 0)?;
    // All its servers hear that this is acknowledged.
    script.pass(Duration::from_secs(8));
    let (backup, master) = (script.backup_of_master(), script.nodes().master);
    script.kill(master);
    script.restart(master)?;
    let away = script.holders(chunk)[2];
    let others = [script.nodes().servers.clone(), script.nodes().clients.clone()].concat();
    let others: Vec<_> = others.into_iter().chain([master]).filter(|it| *it != away).collect();
    others.iter().for_each(|other| script.part(away, *other));
    script.pass(Duration::from_secs(20));
    script.write_synced(1, file, 0, b"newer")?;
    let lost = script.create("/lost", Content::Bytes)?;
    script.write_synced(1, lost, 0, b"lost")?;
    let lost = script.chunk(lost, 0)?;
    script.restore_master(&backup);
    others.iter().for_each(|other| script.heal(away, *other));
    script.pass(Duration::from_secs(10));
    let refusal = script.refused(2, make("/refused"))?;
    if refusal.code != ErrorCode::NotPrimaryMaster {
        return Err(format!("a change is refused: {}", refusal.message));
    }
    let Ok(Response::Status(status)) =
        script.probe(master, Status::default(), Bytes::new()).map(|answer| answer.response)
    else {
        return Err("no status".to_owned());
    };
    if !status.reasons.iter().any(|reason| reason.contains("--recover-past 2")) {
        return Err(format!("nobody is told how to go on: {:?}", status.reasons));
    }
    script.kill(master);
    script.sim.observer.borrow_mut().recover_past = Some(Term::new(2));
    // Who has the older bytes joins first: nobody is given them.
    let newer = script.holders(chunk).into_iter().filter(|node| *node != away);
    let newer: Vec<_> = newer.collect();
    newer.iter().for_each(|server| script.part(*server, master));
    script.restart(master)?;
    script.pass(Duration::from_secs(3));
    let early = script.ask(2, ClientOp::Read { file, offset: 0, size: 5, fresh: true });
    script.pass(Duration::from_millis(500));
    newer.iter().for_each(|server| script.heal(*server, master));
    match script.wait(early) {
        Ok(OpOutput::Bytes(bytes, _)) if bytes == "newer" => {}
        other => return Err(format!("read before all have told: {other:?}")),
    }
    script.kill(master);
    // A start that finds the history begun goes on in it.
    for client in 0..2 {
        script.restart(master)?;
        script.pass(Duration::from_secs(15));
        for reader in 0..3 {
            let read = script.read(reader, file, 0, 5)?;
            if read != "newer" {
                return Err(format!("{read:?} is what was there before"));
            }
        }
        let new = script.done(client, make(&format!("/new-{client}")))?;
        let OpOutput::Entry(new) = new else { return Err(format!("{new:?}")) };
        script.write(client, new.id, 0, b"new")?;
        script.kill(master);
    }
    script.restart(master)?;
    script.pass(Duration::from_secs(15));
    script.write(2, file, 0, b"again")?;
    if script.holders(lost).is_empty() {
        return Err("what the log does not know is gone".to_owned());
    }
    Ok(())
}

fn make(name: &str) -> ClientOp {
    ClientOp::Create { path: path(name), content: Content::Bytes, or_open: false }
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
