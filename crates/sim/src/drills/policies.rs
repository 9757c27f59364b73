//! Drills of policies: what exists is brought to another level, whatever becomes of masters and
//! servers meanwhile.

use super::drill::Drill;
use super::script::DrillScript;
use crate::checkers::Verdict;
use crate::operations::{ClientOp, OpOutput, path};
use cairn_types::planted::Rule;
use cairn_types::{ChunkHandle, Content};
use std::time::Duration;

pub(super) const DRILLS: &[Drill] = &[
    Drill::of_bug(
        "a level that was raised under a policy is reached though a server and the master die",
        5,
        a_level_that_was_raised_is_reached_though_a_server_and_the_master_die,
    ),
    Drill::of_bug(
        "what lies below a directory is brought to its policy by the next master",
        3,
        what_lies_below_a_directory_is_brought_to_its_policy_by_the_next_master,
    ),
    Drill::of_rule(
        Rule::R24,
        "a policy that was asked for twice counts once, though another came between",
        3,
        a_policy_that_was_asked_for_twice_counts_once,
    ),
];

fn says(script: &mut DrillScript, at: &str, level: u32, apply: bool) -> Verdict {
    let level = Some(level);
    script.done(1, ClientOp::SetPolicy { path: path(at), level, apply }).map(drop)
}

fn level(script: &mut DrillScript, at: &str) -> Result<u32, String> {
    match script.done(2, ClientOp::Stat { path: path(at) })? {
        OpOutput::Entry(entry) => Ok(entry.replication),
        other => Err(format!("{at}: {other:?}")),
    }
}

fn await_level(script: &mut DrillScript, at: &str, wanted: u32) -> Verdict {
    for _ in 0..100 {
        if level(script, at)? == wanted {
            return Ok(());
        }
        script.pass(Duration::from_millis(50));
    }
    Err(format!("{at} has another level than {wanted} yet"))
}

fn restart_master(script: &mut DrillScript) -> Verdict {
    let master = script.nodes().master;
    script.kill(master);
    script.restart(master)
}

/// A file of several chunks is to have five replicas of each, on five servers. One of these dies
/// and comes back, and the master is started anew, while they are copied.
fn a_level_that_was_raised_is_reached_though_a_server_and_the_master_die(
    script: &mut DrillScript,
) -> Verdict {
    let file = script.create("/f", Content::Bytes)?;
    let chunk_size = script.sim.cell_config.chunk_size;
    for index in 0..3 {
        script.write(0, file, index * chunk_size, b"bytes of a chunk")?;
    }
    let chunks: Vec<ChunkHandle> =
        (0..3).map(|index| script.chunk(file, index)).collect::<Result<_, _>>()?;
    says(script, "/f", 5, false)?;
    let away = script.holders(chunks[0])[0];
    script.kill(away);
    restart_master(script)?;
    script.restart(away)?;
    for chunk in &chunks {
        script.until("each server has a replica", |it| it.set_size(*chunk) == 5)?;
    }
    for index in 0..3 {
        if script.read(2, file, index * chunk_size, 16)? != b"bytes of a chunk"[..] {
            return Err(format!("chunk {index} reads otherwise"));
        }
    }
    Ok(())
}

/// More files than a slice takes lie below a directory. The master is started anew right after it
/// said that they shall have another level, and goes on where it was.
fn what_lies_below_a_directory_is_brought_to_its_policy_by_the_next_master(
    script: &mut DrillScript,
) -> Verdict {
    script.done(0, ClientOp::MakeDirectory { path: path("/d") })?;
    for batch in 0..30 {
        let create = |at: u32| ClientOp::Create {
            path: path(&format!("/d/{:03}", batch * 20 + at)),
            content: Content::Bytes,
            or_open: false,
        };
        script.done(0, ClientOp::Batch { entries: (0..20).map(create).collect() })?;
    }
    says(script, "/d", 2, true)?;
    restart_master(script)?;
    script.create("/d/new", Content::Bytes)?;
    for at in ["/d/new", "/d/000", "/d/300", "/d/599"] {
        await_level(script, at, 2)?;
    }
    Ok(())
}

/// The answer to a change is lost, and the client asks again when another has changed it once more:
/// it hears that it was done, and nothing is done (R24).
fn a_policy_that_was_asked_for_twice_counts_once(script: &mut DrillScript) -> Verdict {
    script.create("/f", Content::Bytes)?;
    let (master, client) = (script.nodes().master, script.nodes().clients[0]);
    script.mute(master, client);
    let first = ClientOp::SetPolicy { path: path("/f"), level: Some(2), apply: false };
    let first = script.ask(0, first);
    await_level(script, "/f", 2)?;
    says(script, "/f", 1, false)?;
    script.break_between(client, master);
    script.heal(master, client);
    script.wait(first).map_err(|why| why.to_string())?;
    match level(script, "/f")? {
        1 => Ok(()),
        other => Err(format!("the level is {other}: the first change was done twice")),
    }
}
