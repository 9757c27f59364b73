//! Finding C7: hung servers and dead primaries keep clients waiting for longer than the guide says.

use crate::checkers::Verdict;
use crate::drills::drill::Drill;
use crate::drills::script::DrillScript;
use crate::operations::ClientOp;
use bytes::Bytes;
use cairn_env_sim::NodeId;
use cairn_types::{Content, EntryId};
use std::time::Duration;

pub(super) const DRILLS: &[Drill] = &[
    Drill::of_finding("C7", "a primary hangs, and a client appends", 6, |script| {
        go_on(script, APPENDS, Hurt::HangPrimary)
    })
    .with_real_times(),
    Drill::of_finding("C7", "a secondary hangs, and a client appends", 6, |script| {
        go_on(script, APPENDS, Hurt::HangSecondary)
    })
    .with_real_times(),
    Drill::of_finding("C7", "a primary is killed, and a client appends", 6, |script| {
        go_on(script, APPENDS, Hurt::KillPrimary)
    })
    .with_real_times(),
    Drill::of_finding("C7", "a primary hangs, and a client writes", 6, |script| {
        go_on(script, WRITES, Hurt::HangPrimary)
    })
    .with_real_times(),
    Drill::of_finding("C7", "a secondary hangs, and a client writes", 6, |script| {
        go_on(script, WRITES, Hurt::HangSecondary)
    })
    .with_real_times(),
    Drill::of_finding("C7", "a primary is killed, and a client writes", 6, |script| {
        go_on(script, WRITES, Hurt::KillPrimary)
    })
    .with_real_times(),
];

/// How long the fault lasts: beyond `dead_ms`.
const FAULT: Duration = Duration::from_secs(45);

/// What a client does, and the longest that it may wait.
struct Doing {
    content: Content,
    operation: fn(EntryId) -> ClientOp,
    wait_max: Duration,
}

const APPENDS: Doing =
    Doing { content: Content::Records, operation: append, wait_max: Duration::from_secs(5) };
/// One lease and a half.
const WRITES: Doing =
    Doing { content: Content::Bytes, operation: write, wait_max: Duration::from_secs(15) };

/// What befalls a chunk's replicas.
#[derive(Clone, Copy)]
enum Hurt {
    HangPrimary,
    HangSecondary,
    KillPrimary,
}

fn append(file: EntryId) -> ClientOp {
    ClientOp::Append { file, bytes: Bytes::from_static(b"record"), sync: false }
}

fn write(file: EntryId) -> ClientOp {
    ClientOp::Write { file, offset: 0, bytes: Bytes::from_static(b"bytes"), sync: false }
}

fn hurt(script: &mut DrillScript, how: Hurt, primary: NodeId, secondary: NodeId) {
    match how {
        Hurt::HangPrimary => script.pause(primary, FAULT),
        Hurt::HangSecondary => script.pause(secondary, FAULT),
        Hurt::KillPrimary => script.kill(primary),
    }
}

/// A client goes on all the time; nothing that it asks takes too long.
fn go_on(script: &mut DrillScript, doing: Doing, how: Hurt) -> Verdict {
    let file = script.create("/f", doing.content)?;
    for _ in 0..3 {
        script.done(0, (doing.operation)(file))?;
    }
    let chunk = script.chunk(file, 0)?;
    let primary = script.primary(chunk)?;
    let secondary = script.holders(chunk).into_iter().find(|it| *it != primary);
    hurt(script, how, primary, secondary.ok_or("no secondary")?);
    let (end, mut done) = (script.sim.now().after(FAULT), script.sim.now());
    while script.sim.now() < end {
        let ticket = script.ask(0, (doing.operation)(file));
        let result = script.wait(ticket);
        let now = script.sim.now();
        let waited = Duration::from_nanos(now.0 - done.0);
        if waited > doing.wait_max {
            return Err(format!("a client waited for {} ms: {result:?}", waited.as_millis()));
        }
        if result.is_ok() {
            done = now;
        }
        script.pass(Duration::from_millis(50));
    }
    if matches!(how, Hurt::KillPrimary) {
        script.restart(primary)?;
    }
    Ok(())
}
