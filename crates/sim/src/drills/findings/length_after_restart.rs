//! Finding C4: a file's recorded length stays too short after a master's restart.

use crate::checkers::Verdict;
use crate::drills::drill::Drill;
use crate::drills::script::DrillScript;
use crate::operations::{ClientOp, OpOutput, path};
use bytes::Bytes;
use cairn_protocol::{RecordLength, Response};
use cairn_types::Content;
use std::time::Duration;

pub(super) const DRILLS: &[Drill] = &[Drill::of_finding(
    "C4",
    "a client closes a file before any server has told a restarted master",
    3,
    a_client_closes_before_any_server_has_told,
)];

/// A master has just started, and no server has joined yet, when a writer closes its file. The
/// length that is recorded then has to be the file's, once the servers are there.
fn a_client_closes_before_any_server_has_told(script: &mut DrillScript) -> Verdict {
    let file = script.create("/f", Content::Bytes)?;
    script.append(0, file, b"eleven byte")?;
    let (master, servers) = (script.nodes().master, script.nodes().servers.clone());
    script.kill(master);
    servers.iter().for_each(|server| script.part(*server, master));
    script.restart(master)?;
    // As soon as the master's term has begun.
    script.pass(Duration::from_millis(100));
    let recorded = script.send(master, RecordLength { file, closes: true }, Bytes::new());
    script.pass(Duration::from_millis(500));
    servers.iter().for_each(|server| script.heal(*server, master));
    let answer = script.answer(&recorded);
    script.pass(Duration::from_secs(15));
    if let Ok(Response::RecordLength(told)) = answer.map(|answer| answer.response)
        && told.length != 11
    {
        return Err(format!("{} bytes are recorded at its close, 11 were appended", told.length));
    }
    match script.done(1, ClientOp::Stat { path: path("/f") })? {
        OpOutput::Entry(entry) if entry.length == 11 => Ok(()),
        OpOutput::Entry(entry) => Err(format!("{} bytes by stat, 11 were appended", entry.length)),
        other => Err(format!("stat: {other:?}")),
    }
}
