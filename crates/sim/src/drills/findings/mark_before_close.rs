//! Finding P2: a fence's close mark reaches readers before the close is logged.

use crate::checkers::Verdict;
use crate::drills::drill::Drill;
use crate::drills::script::DrillScript;
use crate::operations::{ClientOp, OpOutput};
use bytes::Bytes;
use cairn_types::Content;
use std::time::Duration;

pub(super) const DRILLS: &[Drill] = &[Drill::of_finding(
    "P2",
    "a reader moves past a chunk by a close mark that is never logged",
    3,
    a_reader_moves_on_by_a_mark_that_is_never_logged,
)];

/// A primary and one of its secondaries are away; the master fences the other one, and dies before
/// it has logged the close. A reader reads zeros to the chunk's end there, and goes on in the next
/// chunk. That replica goes away, the two others come back: they never saw the mark. A record must
/// not be acknowledged where the reader has been told that there is none.
fn a_reader_moves_on_by_a_mark_that_is_never_logged(script: &mut DrillScript) -> Verdict {
    let file = script.create("/log", Content::Records)?;
    script.append(0, file, b"first")?;
    let chunk = script.chunk(file, 0)?;
    let (master, primary) = (script.nodes().master, script.primary(chunk)?);
    let secondaries: Vec<_> =
        script.holders(chunk).into_iter().filter(|it| *it != primary).collect();
    let [marked, other] = secondaries[..] else { return Err("not three replicas".into()) };
    script.kill(primary);
    script.kill(other);
    let bytes = Bytes::from_static(b"goes elsewhere");
    let elsewhere = script.ask(0, ClientOp::Append { file, bytes, sync: false });
    script.until("the fence has reached one replica", |script| {
        script.reached("raise with the close mark") > 0
    })?;
    script.kill(master);
    drop(script.wait(elsewhere));
    script.restart(master)?;
    script.pass(Duration::from_secs(2));
    let size = script.sim.cell_config.chunk_size;
    let read = script.ask(1, ClientOp::Read { file, offset: 0, size, fresh: true });
    let told = match script.wait(read) {
        Ok(OpOutput::Bytes(bytes, _)) => bytes.len() as u64,
        _ => 0,
    };
    script.kill(marked);
    script.restart(primary)?;
    script.restart(other)?;
    script.pass(Duration::from_secs(30));
    let offset = script.append(2, file, b"late")?;
    if offset >= told {
        return Ok(());
    }
    Err(format!("a record is acknowledged at {offset}; a reader was told of zeros up to {told}"))
}
