//! Finding C5: an acknowledged append makes a file unreadable.

use crate::checkers::Verdict;
use crate::drills::drill::Drill;
use crate::drills::script::DrillScript;
use crate::operations::ClientOp;
use bytes::Bytes;
use cairn_types::Content;
use std::time::Duration;

pub(super) const DRILLS: &[Drill] = &[Drill::of_finding(
    "C5",
    "two of three servers die one after the other, and a client appends",
    3,
    two_of_three_die_and_a_client_appends,
)];

/// One server dies and, when the master counts it as dead, another. The file can be read. A client
/// appends, and the file can be read as before, with what was appended where that was acknowledged.
fn two_of_three_die_and_a_client_appends(script: &mut DrillScript) -> Verdict {
    let file = script.create("/f", Content::Bytes)?;
    script.append(0, file, b"first")?;
    let chunk = script.chunk(file, 0)?;
    let holders = script.holders(chunk);
    // Its lease ends, and all know what is acknowledged.
    script.pass(Duration::from_secs(8));
    script.kill(holders[0]);
    script.pass(Duration::from_secs(6));
    script.kill(holders[1]);
    script.pass(Duration::from_secs(6));
    let before = script.read(1, file, 0, 5)?;
    if before != "first" {
        return Err(format!("with one replica left it reads as {before:?}"));
    }
    let bytes = Bytes::from_static(b" second");
    let append = script.ask(0, ClientOp::Append { file, bytes, sync: false });
    let appended = script.wait(append);
    script.pass(Duration::from_secs(20));
    let whole = 2 * script.sim.cell_config.chunk_size;
    let after = script.read(1, file, 0, whole)?;
    if !after.starts_with(b"first") {
        return Err(format!("after an append ({appended:?}) it has {} bytes", after.len()));
    }
    if appended.is_ok() && !after.ends_with(b" second") {
        return Err("an acknowledged append is not read".to_owned());
    }
    Ok(())
}
