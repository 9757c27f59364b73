//! Finding C1: one flipped bit in a sidecar gives silent zeros.

use crate::checkers::Verdict;
use crate::drills::drill::Drill;
use crate::drills::script::DrillScript;
use crate::operations::{ClientOp, OpOutput};
use cairn_types::Content;
use std::time::Duration;

pub(super) const DRILLS: &[Drill] = &[Drill::of_finding(
    "C1",
    "one bit rots in a sidecar beside a closed chunk that was never synced",
    3,
    a_bit_rots_in_a_sidecar,
)];

/// Bytes of one append: four fill a chunk.
const RECORD: usize = 1000;

/// A server is stopped, one bit of its sidecar rots, and it starts again. Readers are given what
/// was written; and nothing, not zeros and no end, where that server alone is left.
fn a_bit_rots_in_a_sidecar(script: &mut DrillScript) -> Verdict {
    let file = script.create("/f", Content::Bytes)?;
    for _ in 0..6 {
        script.append(0, file, &[b'x'; RECORD])?;
    }
    let chunk = script.chunk(file, 0)?;
    let rotten = script.holders(chunk)[0];
    script.pass(Duration::from_secs(1));
    let whole = script.read(1, file, 0, 2 * RECORD as u64)?;
    script.kill(rotten);
    script.flip_in(rotten, (chunk, "meta"), 100)?;
    script.restart(rotten)?;
    for round in 0..30 {
        if script.read(round % 3, file, 0, whole.len() as u64)? != whole {
            return Err("a reader was given other bytes than were written".to_owned());
        }
        script.pass(Duration::from_millis(200));
    }
    for other in script.holders(chunk) {
        if other != rotten {
            script.kill(other);
        }
    }
    let (offset, size) = (0, whole.len() as u64);
    let read = script.ask(2, ClientOp::Read { file, offset, size, fresh: true });
    match script.wait(read) {
        Ok(OpOutput::Bytes(bytes, _)) if bytes != whole => {
            Err(format!("{} bytes, {:?} …", bytes.len(), bytes.get(..4)))
        }
        _ => Ok(()),
    }
}
