//! Finding C6 (and P7): a live server that was left out of a set goes on serving old bytes.

use crate::checkers::Verdict;
use crate::drills::drill::Drill;
use crate::drills::script::DrillScript;
use cairn_env_sim::DiskFaults;
use cairn_types::Content;
use std::time::Duration;

pub(super) const DRILLS: &[Drill] = &[Drill::of_finding(
    "C6",
    "a set goes on without a member whose disk takes nothing, and readers ask it",
    3,
    a_member_that_was_left_out_is_asked_by_readers,
)
.unmended("master-core, chunk-core")];

/// A secondary's disk takes no writes, and the set goes on without it; master and readers reach it
/// as ever. A reader that knows it from before asks it, at the version from before: within a
/// few heartbeats it must not give bytes that have been overwritten.
fn a_member_that_was_left_out_is_asked_by_readers(script: &mut DrillScript) -> Verdict {
    let file = script.create("/f", Content::Bytes)?;
    script.write(0, file, 0, b"older")?;
    let grant = script.grant(file)?;
    let set = script.set_of(&grant);
    let left_out = set.secondaries[0];
    script.fail_disk(left_out, DiskFaults { write_errors_permille: 1000, ..DiskFaults::default() });
    script.write(0, file, 0, b"newer")?;
    script.pass(Duration::from_secs(3));
    match script.read_at(left_out, &grant, 5) {
        Ok(bytes) if bytes == b"older" => {
            Err("three seconds later a member that was left out serves old bytes".to_owned())
        }
        other => Err(format!("DEBUG {other:?}")),
    }
}
