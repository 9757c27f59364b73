//! Finding P6: a live member that is late with one raise is dropped at once.

use crate::checkers::Verdict;
use crate::drills::drill::Drill;
use crate::drills::script::DrillScript;
use crate::operations::ClientOp;
use bytes::Bytes;
use cairn_protocol::Request;
use cairn_types::Content;
use std::time::Duration;

pub(super) const DRILLS: &[Drill] = &[Drill::of_finding(
    "P6",
    "a member that heartbeats is late with one raise",
    3,
    a_member_that_heartbeats_is_late_with_one_raise,
)];

/// A lease has ended. A client writes, and the raise that this takes reaches one of the three
/// members two seconds late; its heartbeats come all the time. Whoever is not dead is waited for
/// (R11): the set has three members when all is over.
fn a_member_that_heartbeats_is_late_with_one_raise(script: &mut DrillScript) -> Verdict {
    let file = script.create("/f", Content::Bytes)?;
    script.write(0, file, 0, b"first")?;
    let chunk = script.chunk(file, 0)?;
    script.pass(Duration::from_secs(8));
    let late = script.holders(chunk)[2];
    script.stall(move |seen| {
        seen.to == late && matches!(seen.request, Request::Raise(raise) if raise.handle == chunk)
    });
    let bytes = Bytes::from_static(b"again");
    let write = script.ask(1, ClientOp::Write { file, offset: 0, bytes, sync: false });
    script.until_stalled()?;
    script.pass(Duration::from_secs(2));
    script.release();
    script.wait(write).map_err(|failure| failure.message)?;
    script.write(2, file, 0, b"third")?;
    match script.set_size(chunk) {
        3 => Ok(()),
        size => Err(format!("three members live all the time, and the set has {size}")),
    }
}
