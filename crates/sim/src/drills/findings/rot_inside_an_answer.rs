//! Finding C3: readers report the wrong block, so that rot is never believed.

use crate::checkers::Verdict;
use crate::drills::drill::Drill;
use crate::drills::script::DrillScript;
use crate::operations::ClientOp;
use bytes::Bytes;
use cairn_env_sim::NodeId;
use cairn_protocol::{Lease, LeasePurpose, Locate, Response};
use cairn_types::{ChunkHandle, ChunkIndex, Content, EntryId};
use std::time::Duration;

pub(super) const DRILLS: &[Drill] = &[
    Drill::of_finding(
        "C3",
        "a block rots that is not the first of what readers are given",
        2,
        a_block_rots_that_is_not_the_first_of_an_answer,
    ),
    Drill::of_finding("C3", "two replicas rot, and a reader reads the third", 3, two_replicas_rot),
    Drill::of_finding(
        "C3",
        "two replicas rot, and the whole one stands at another version",
        3,
        the_whole_one_stands_at_another_version,
    ),
];

/// Ten blocks.
const SIZE: u64 = 640;
/// In the sixth.
const ROTTEN: u64 = 350;

fn written_file(script: &mut DrillScript) -> Result<(EntryId, ChunkHandle), String> {
    let file = script.create("/f", Content::Bytes)?;
    script.write_synced(0, file, 0, &[b'x'; SIZE as usize])?;
    let chunk = script.chunk(file, 0)?;
    script.pass(Duration::from_secs(8));
    Ok((file, chunk))
}

/// Clients read the whole chunk again and again; one of its two replicas has a rotten block in the
/// middle. Soon the master names it to no reader any more.
fn a_block_rots_that_is_not_the_first_of_an_answer(script: &mut DrillScript) -> Verdict {
    let (file, chunk) = written_file(script)?;
    let rotten = script.holders(chunk)[0];
    script.flip(rotten, chunk, ROTTEN)?;
    for round in 0..30 {
        let bytes = script.read(round % 3, file, 0, SIZE)?;
        if bytes != Bytes::from_static(&[b'x'; SIZE as usize]) {
            return Err(format!("it reads as {} other bytes", bytes.len()));
        }
        script.pass(Duration::from_millis(300));
    }
    if named(script, file)?.contains(&rotten) {
        return Err("thirty reads later, the rotten replica counts as good".to_owned());
    }
    Ok(())
}

/// Who the master says holds the file's first chunk.
fn named(script: &mut DrillScript, file: EntryId) -> Result<Vec<NodeId>, String> {
    let master = script.nodes().master;
    let ask = Locate { file, count: 1, ..Locate::default() };
    match script.probe(master, ask, Bytes::new()).map(|answer| answer.response) {
        Ok(Response::Locate(answer)) => {
            let replicas = answer.chunks.iter().flat_map(|chunk| &chunk.replicas);
            Ok(replicas.map(|at| script.node_at(at)).collect())
        }
        other => Err(format!("asked where the file is: {other:?}")),
    }
}

/// A raise reached one of three replicas before its master died; the two others rot. Readers find
/// the whole one, at the version that only it stands at (R9).
fn the_whole_one_stands_at_another_version(script: &mut DrillScript) -> Verdict {
    let (file, chunk) = written_file(script)?;
    let (master, holders) = (script.nodes().master, script.holders(chunk));
    let logged = script.version(chunk);
    for rotten in &holders[..2] {
        script.mute(master, *rotten);
    }
    let index = ChunkIndex::new(0);
    let lease = Lease { file, index, purpose: LeasePurpose::Write, ..Lease::default() };
    drop(script.send(master, lease, Bytes::new()));
    script.pass(Duration::from_millis(200));
    script.kill(master);
    for rotten in &holders[..2] {
        script.heal(master, *rotten);
        script.flip(*rotten, chunk, ROTTEN)?;
    }
    if script.version(chunk) != logged {
        return Err("the raise is logged".to_owned());
    }
    script.restart(master)?;
    for client in 0..3 {
        let bytes = script.read(client, file, 0, SIZE)?;
        if bytes != Bytes::from_static(&[b'x'; SIZE as usize]) {
            return Err(format!("it reads as {} other bytes", bytes.len()));
        }
    }
    let at_once = named(script, file)?;
    if script.version(chunk) != logged || at_once != holders[2..] {
        return Err(format!("readers are sent to {at_once:?}, of {holders:?}"));
    }
    script.pass(Duration::from_secs(8));
    let named = named(script, file)?;
    // Who is found to be rotten first may have been made anew meanwhile.
    let is_rotten = named.iter().any(|node| script.is_rotten(*node, chunk));
    if is_rotten || !named.contains(&holders[2]) {
        return Err(format!("readers are sent to {named:?}, of {holders:?}"));
    }
    Ok(())
}

/// Two of three replicas have a rotten block each; whoever reads reads the third, and writers go
/// on.
fn two_replicas_rot(script: &mut DrillScript) -> Verdict {
    let (file, chunk) = written_file(script)?;
    let holders = script.holders(chunk);
    for rotten in &holders[..2] {
        script.flip(*rotten, chunk, ROTTEN)?;
    }
    for round in 0..10 {
        script.read(round % 3, file, 0, SIZE)?;
        script.pass(Duration::from_millis(500));
    }
    let bytes = Bytes::from_static(b"again");
    let write = script.ask(0, ClientOp::Write { file, offset: 0, bytes, sync: false });
    drop(script.wait(write));
    script.pass(Duration::from_secs(60));
    let bytes = script.read(1, file, 100, SIZE - 100)?;
    if bytes.iter().all(|byte| *byte == b'x') { Ok(()) } else { Err(format!("{bytes:?}")) }
}
