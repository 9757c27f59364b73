//! Finding P3: levelling copies nothing.

use crate::checkers::Verdict;
use crate::drills::drill::Drill;
use crate::drills::script::DrillScript;
use cairn_types::{Content, EntryId};
use std::time::Duration;

pub(super) const DRILLS: &[Drill] = &[Drill::of_finding(
    "P3",
    "a replica is set back, and nobody left knows what was acknowledged",
    3,
    a_replica_is_set_back_and_nobody_knows_the_mark,
)];

/// What stands on all replicas at the end.
const WHOLE: &[u8] = b"First second";

/// " second" is acknowledged, and the primary dies before it has told how far that goes. One of
/// the two others comes back with an image of its disk from before. The next primary writes: each
/// replica that counts as current must give what was acknowledged.
fn a_replica_is_set_back_and_nobody_knows_the_mark(script: &mut DrillScript) -> Verdict {
    let file = script.create("/f", Content::Bytes)?;
    script.write_synced(0, file, 0, b"first")?;
    let chunk = script.chunk(file, 0)?;
    let primary = script.primary(chunk)?;
    let set_back = script.holders(chunk).into_iter().find(|it| *it != primary);
    let set_back = set_back.ok_or("no secondary")?;
    script.pass(Duration::from_millis(500));
    let image = script.image(set_back);
    script.write(0, file, 5, b" second")?;
    script.kill(primary);
    script.set_back(set_back, image)?;
    script.pass(Duration::from_secs(30));
    script.write(1, file, 0, b"First")?;
    all_current_replicas_give(script, file)
}

fn all_current_replicas_give(script: &mut DrillScript, file: EntryId) -> Verdict {
    let grant = script.grant(file)?;
    for server in script.set_of(&grant).all() {
        let bytes = script.read_at(server, &grant, WHOLE.len() as u64)?;
        if bytes != WHOLE {
            let (given, meant) = (bytes.escape_ascii(), WHOLE.escape_ascii());
            return Err(format!("{server:?} gives \"{given}\" where \"{meant}\" was acknowledged"));
        }
    }
    Ok(())
}
