//! Finding C6 (and P7): a live server that was left out of a set goes on serving old bytes.

use crate::checkers::Verdict;
use crate::drills::drill::Drill;
use crate::drills::script::DrillScript;
use bytes::Bytes;
use cairn_env_sim::{DiskFaults, NodeId};
use cairn_protocol::{ChunkGrant, Read};
use cairn_types::Content;
use std::time::Duration;

pub(super) const DRILLS: &[Drill] = &[
    Drill::of_finding(
        "C6",
        "a set goes on without a member whose disk takes nothing, and readers ask it",
        3,
        a_member_that_was_left_out_is_asked_by_readers,
    ),
    Drill::of_finding(
        "C6",
        "a set goes on without a member that reaches nobody but readers who know it",
        3,
        a_member_that_is_cut_off_is_asked_by_readers,
    ),
    Drill::of_finding(
        "C6",
        "a set went on without a member that has just started, and readers ask it",
        3,
        a_member_that_comes_back_is_asked_by_readers,
    ),
];

/// A secondary's disk takes no writes, and the set goes on without it; master and readers reach it
/// as ever. A reader that knows it from before asks it, at the version from before: within a
/// few heartbeats it must not give bytes that have been overwritten.
fn a_member_that_was_left_out_is_asked_by_readers(script: &mut DrillScript) -> Verdict {
    let file = script.create("/f", Content::Bytes)?;
    script.write(0, file, 0, b"older")?;
    let grant = script.grant(file)?;
    let left_out = script.set_of(&grant).secondaries[0];
    script.fail_disk(left_out, DiskFaults { write_errors_permille: 1000, ..DiskFaults::default() });
    script.write(0, file, 0, b"newer")?;
    script.pass(Duration::from_secs(3));
    gives_no_old_bytes(script, left_out, &grant, Duration::ZERO)
}

/// A secondary reaches neither the master nor its peers, and the set goes on without it. It cannot
/// be told: but a reader who asked the master before all that must not be given old bytes, once
/// the server has heard nothing for as long as makes it silent.
fn a_member_that_is_cut_off_is_asked_by_readers(script: &mut DrillScript) -> Verdict {
    let file = script.create("/f", Content::Bytes)?;
    script.write(0, file, 0, b"older")?;
    let grant = script.grant(file)?;
    let left_out = script.set_of(&grant).secondaries[0];
    for other in [script.nodes().servers.clone(), vec![script.nodes().master]].concat() {
        if other != left_out {
            script.part(other, left_out);
        }
    }
    script.write(0, file, 0, b"newer")?;
    script.pass(Duration::from_secs(3));
    gives_no_old_bytes(script, left_out, &grant, Duration::from_secs(4))
}

/// A secondary is killed, and the set goes on without it. It starts again, and a reader who asked
/// the master before all that asks it at once, before it can have been told.
fn a_member_that_comes_back_is_asked_by_readers(script: &mut DrillScript) -> Verdict {
    let file = script.create("/f", Content::Bytes)?;
    script.write(0, file, 0, b"older")?;
    let grant = script.grant(file)?;
    let left_out = script.set_of(&grant).secondaries[0];
    script.kill(left_out);
    script.write(0, file, 0, b"newer")?;
    script.restart(left_out)?;
    for _ in 0..40 {
        script.pass(Duration::from_millis(50));
        gives_no_old_bytes(script, left_out, &grant, Duration::from_secs(10))?;
    }
    Ok(())
}

/// A reader whom the master told of this replica so long ago asks it.
fn gives_no_old_bytes(
    script: &mut DrillScript,
    server: NodeId,
    grant: &ChunkGrant,
    age: Duration,
) -> Verdict {
    let location_age_ms = u64::try_from(age.as_millis()).expect("seconds");
    let (handle, version, size) = (grant.handle, grant.version, 5);
    let read = Read { handle, version, size, location_age_ms, ..Read::default() };
    match script.probe(server, read, Bytes::new()) {
        Ok(answer) if answer.payload.starts_with(b"older") => {
            Err("a member that was left out serves old bytes".to_owned())
        }
        Ok(_) | Err(_) => Ok(()),
    }
}
