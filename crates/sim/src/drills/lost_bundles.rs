//! Drills of what all holders of a stream's bundle lose: before the master has heard of it (R43),
//! and after (R41).

use super::drill::Drill;
use super::script::DrillScript;
use super::streams::{ManualProducer, committed, open, read, reads, send, stream, stream_with};
use crate::checkers::Verdict;
use crate::operations::{ClientOp, path};
use crate::simulation::told;
use bytes::Bytes;
use cairn_protocol::{
    BundleHolder, ErrorCode, ExtendAnswer, ReadExtents, Request, Response, SkipLost,
};
use cairn_types::planted::Rule;
use cairn_types::{ChunkHandle, Content, EntryId};
use std::time::Duration;

pub(super) const DRILLS: &[Drill] = &[
    Drill::of_rule(
        Rule::R43,
        "all holders lose a bundle between its push and its commit",
        3,
        all_holders_lose_a_bundle_before_its_commit,
    ),
    Drill::of_rule(
        Rule::R41,
        "all holders lose a bundle that was committed, and come back",
        3,
        all_holders_lose_a_bundle_that_was_committed,
    ),
    Drill::of_bug(
        "a suspect that alone has what is committed is beside two that are sound",
        3,
        a_suspect_alone_has_what_is_committed,
    ),
];

/// All servers lose what was not synced, and come back.
fn lose_power(script: &mut DrillScript) -> Verdict {
    let joined = script.reached("server joined");
    for node in script.nodes().servers.clone() {
        script.power_loss_of_all_unsynced(node);
        script.restart(node)?;
    }
    script
        .until("all have joined anew", move |script| script.reached("server joined") >= joined + 3)
}

/// The commit is held back until those that it names have lost power, and are there again.
fn all_holders_lose_a_bundle_before_its_commit(script: &mut DrillScript) -> Verdict {
    let file = stream(script)?;
    let producer = open(script, 0, file)?;
    let client = script.nodes().clients[0];
    script.stall(move |seen| {
        seen.from == client && matches!(seen.request, Request::CommitBundles(_))
    });
    let first = send(script, 0, &producer, (1, b"one,"));
    script.until_stalled()?;
    lose_power(script)?;
    script.release();
    match script.wait(first) {
        Ok(_) => reads(script, 2, file, b"one,"),
        // It may be told that it is not known, or not done; then nothing of it is there.
        Err(_) => reads(script, 2, file, b""),
    }
}

/// What was on no disk is lost. The chunk is closed with what is left all the same, and what was
/// synced before is read (DS7). What was lost is told as lost until a person makes a hole of it,
/// and what comes behind it is read.
fn all_holders_lose_a_bundle_that_was_committed(script: &mut DrillScript) -> Verdict {
    let file = stream(script)?;
    let producer = open(script, 0, file)?;
    let synced = ClientOp::SendBundle {
        producer: producer.producer,
        first: 1,
        count: 1,
        bytes: Bytes::from_static(b"one,"),
        cursor: None,
        sync: true,
        replaces: None,
    };
    let first = script.ask(0, synced);
    committed(script, first)?;
    let second = send(script, 0, &producer, (2, b"two,"));
    committed(script, second)?;
    lose_power(script)?;
    script.until("the chunk is sealed without it", |script| {
        script.reached("stream's chunk sealed by decision") > 0
    })?;
    let given = read(script, 1, file, 4)?;
    if given != b"one,"[..] {
        return Err(format!("what was synced reads as {given:?}"));
    }
    let third = send(script, 0, &producer, (3, b"thr,"));
    committed(script, third)?;
    let lost = ClientOp::Read { file, offset: 4, size: 1000, fresh: false };
    for client in [1, 2] {
        script.done(client, ClientOp::Open { path: path("/stream") })?;
        let told = script.refused(client, lost.clone())?;
        if told.code != ErrorCode::LostBytes {
            return Err(format!("what is lost is told as {told:?}"));
        }
    }
    let handle = first_chunk(script, file)?;
    // Told twice, as a client does that got no answer.
    for _ in 0..2 {
        script.done(1, ClientOp::Order { order: Box::new(SkipLost { file, handle }.into()) })?;
    }
    reads(script, 2, file, b"one,\0\0\0\0thr,")?;
    let behind = script.read(1, file, 6, 3)?;
    if behind == b"\0\0t"[..] { Ok(()) } else { Err(format!("across its end: {behind:?}")) }
}

/// The chunk in which the stream begins.
fn first_chunk(script: &mut DrillScript, file: EntryId) -> Result<ChunkHandle, String> {
    let master = script.nodes().master;
    let wish = ReadExtents { file, ..ReadExtents::default() };
    let answer = script.probe(master, wish, Bytes::new()).map_err(|why| format!("{why:?}"))?;
    match answer.response {
        Response::ReadExtents(told) if !told.extents.is_empty() => Ok(told.extents[0].handle),
        other => Err(format!("no extents: {other:?}")),
    }
}

/// Nobody takes its place, and makes room for a copy of theirs, before the chunk is sealed with
/// what it has (stream seed 1180 of fd899807).
fn a_suspect_alone_has_what_is_committed(script: &mut DrillScript) -> Verdict {
    let file = stream_with(script, Content::Records, Some(1))?;
    let mut producer = ManualProducer::open(script, file)?;
    let [first, second]: [(u64, u64, &'static [u8]); 2] = [(1, 0, b"one,"), (2, 4, b"two,")];
    let holders = producer.store(script, first)?;
    producer.commit(script, (1, 1), first, holders).map_err(|why| told(&why))?;
    let alone = producer.servers(script)[0];
    let ExtendAnswer { server, incarnation, .. } = producer.extend(script, alone, second)?;
    let holders = vec![BundleHolder { server, incarnation }];
    producer.commit(script, (2, 1), second, holders).map_err(|why| told(&why))?;
    // By luck all of it is on its disk when power goes.
    let (mut image, page) = script.image(alone);
    image.write_back();
    script.power_loss_of_all_unsynced(alone);
    script.restart(alone)?;
    script.set_back(alone, (image, page))?;
    // Long enough for whatever the master does with it by itself.
    script.pass(Duration::from_secs(90));
    open(script, 1, file)?;
    script.until("the chunk is sealed", |script| script.reached("stream's chunk sealed") > 0)?;
    script.pass(Duration::from_secs(2));
    reads(script, 2, file, b"one,two,")
}
