//! Finding P4: a server that reaches the master and not its peers stops writes and appends.

use crate::checkers::Verdict;
use crate::drills::drill::Drill;
use crate::drills::script::DrillScript;
use crate::operations::ClientOp;
use bytes::Bytes;
use cairn_env_sim::NodeId;
use cairn_types::{Content, EntryId};
use std::time::Duration;

pub(super) const DRILLS: &[Drill] = &[
    Drill::of_finding(
        "P4",
        "a secondary reaches the master and not its peers, and clients append",
        6,
        appends_go_on_without_a_secondary,
    ),
    Drill::of_finding(
        "P4",
        "a secondary reaches the master and not its peers, and clients write",
        6,
        writes_go_on_without_a_secondary,
    ),
    Drill::of_finding(
        "P4",
        "a primary reaches the master and not its peers, and clients append",
        6,
        appends_go_on_without_a_primary,
    ),
    Drill::of_finding(
        "P4",
        "a primary reaches the master and not its peers, and clients write",
        6,
        writes_go_on_without_a_primary,
    ),
];

/// How long the fault lasts: many leases, and far beyond `dead_ms`.
const FAULT: Duration = Duration::from_secs(90);
/// The longest that mutations may stand still while it does (leases of 2 s, dead after 4).
const STILL_MAX: Duration = Duration::from_secs(15);

/// Asks again and again for so long as the fault lasts; the longest time without an end.
fn mutations_go_on(
    script: &mut DrillScript,
    operation: impl Fn(EntryId) -> ClientOp,
    file: EntryId,
) -> Verdict {
    let end = script.sim.now().after(FAULT);
    let mut last = script.sim.now();
    while script.sim.now() < end {
        let ticket = script.ask(0, operation(file));
        let result = script.wait(ticket);
        let now = script.sim.now();
        let still = Duration::from_nanos(now.0 - last.0);
        if still > STILL_MAX {
            let still = still.as_secs();
            return Err(format!(
                "five of six servers are well, and {still} s went by without a mutation: {result:?}"
            ));
        }
        if result.is_ok() {
            last = now;
        }
        script.pass(Duration::from_millis(200));
    }
    Ok(())
}

/// Nothing passes between this server and the others; all reach the master and the clients.
fn cut_off(script: &mut DrillScript, server: NodeId) {
    for other in script.nodes().servers.clone() {
        if other != server {
            script.part(server, other);
        }
    }
}

fn append(file: EntryId) -> ClientOp {
    ClientOp::Append { file, bytes: Bytes::from_static(b"record"), sync: false }
}

fn write(file: EntryId) -> ClientOp {
    ClientOp::Write { file, offset: 0, bytes: Bytes::from_static(b"bytes"), sync: false }
}

/// A file with one chunk of three replicas; cuts off its primary, or one of its secondaries.
fn cut_off_one(
    script: &mut DrillScript,
    content: Content,
    primary: bool,
) -> Result<EntryId, String> {
    let file = script.create("/f", content)?;
    script.append(0, file, b"first")?;
    let chunk = script.chunk(file, 0)?;
    let holder = script.primary(chunk)?;
    let secondary = script.holders(chunk).into_iter().find(|it| *it != holder);
    cut_off(script, if primary { holder } else { secondary.ok_or("no secondary")? });
    Ok(file)
}

fn appends_go_on_without_a_secondary(script: &mut DrillScript) -> Verdict {
    let file = cut_off_one(script, Content::Records, false)?;
    mutations_go_on(script, append, file)
}

fn writes_go_on_without_a_secondary(script: &mut DrillScript) -> Verdict {
    let file = cut_off_one(script, Content::Bytes, false)?;
    mutations_go_on(script, write, file)
}

fn appends_go_on_without_a_primary(script: &mut DrillScript) -> Verdict {
    let file = cut_off_one(script, Content::Records, true)?;
    mutations_go_on(script, append, file)
}

fn writes_go_on_without_a_primary(script: &mut DrillScript) -> Verdict {
    let file = cut_off_one(script, Content::Bytes, true)?;
    mutations_go_on(script, write, file)
}
