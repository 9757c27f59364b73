//! Finding P5: a close mark is told before it is durable.

use crate::checkers::Verdict;
use crate::drills::drill::Drill;
use crate::drills::script::DrillScript;
use crate::operations::{ClientOp, OpOutput};
use bytes::Bytes;
use cairn_env_sim::DiskFaults;
use cairn_types::Content;
use std::time::Duration;

pub(super) const DRILLS: &[Drill] = &[Drill::of_finding(
    "P5",
    "a fence meets a disk that does not take the close mark",
    3,
    a_fence_meets_a_disk_that_does_not_take_the_mark,
)];

/// The only replica that is left is asked to take the close mark, and its disk refuses. A reader
/// asks it how far the chunk goes; it dies, and the two others come back and take records. Where
/// the reader was told of zeros there must be none.
fn a_fence_meets_a_disk_that_does_not_take_the_mark(script: &mut DrillScript) -> Verdict {
    let file = script.create("/log", Content::Records)?;
    script.append(0, file, b"first")?;
    let chunk = script.chunk(file, 0)?;
    let primary = script.primary(chunk)?;
    let secondaries: Vec<_> =
        script.holders(chunk).into_iter().filter(|it| *it != primary).collect();
    let [left, other] = secondaries[..] else { return Err("not three replicas".into()) };
    script.kill(primary);
    script.kill(other);
    script.fail_disk(left, DiskFaults { write_errors_permille: 1000, ..DiskFaults::default() });
    let bytes = Bytes::from_static(b"goes elsewhere");
    let append = script.ask(0, ClientOp::Append { file, bytes, sync: false });
    script.until("the fence was refused", |script| script.reached("raise refused") > 0)?;
    let size = script.sim.cell_config.chunk_size;
    let read = script.ask(1, ClientOp::Read { file, offset: 0, size, fresh: true });
    let told = script.wait(read);
    script.kill(left);
    drop(script.wait(append));
    script.restart(primary)?;
    script.restart(other)?;
    script.pass(Duration::from_secs(20));
    let offset = script.append(2, file, b"late")?;
    match told {
        Ok(OpOutput::Bytes(bytes, _)) if bytes.len() as u64 > offset => Err(format!(
            "a record is acknowledged at {offset}; a reader was told of {} bytes",
            bytes.len()
        )),
        _ => Ok(()),
    }
}
