//! A chunkserver that answers with lies: whoever asks it, a client, a primary, a server that copies
//! from it, or the master, gets an answer of the right kind in which numbers and bytes are others.
//! Nobody panics, and what was stored before on honest disks stays as it is.

use super::drill::Drill;
use super::lies::{BYTES, look};
use super::script::DrillScript;
use crate::checkers::Verdict;
use crate::operations::{ClientOp, OpOutput, path};
use bytes::Bytes;
use cairn_client_core::ProducerKey;
use cairn_env::Answer;
use cairn_env_sim::NodeId;
use cairn_protocol::{Response, lying_answer};
use cairn_types::{Content, EntryId, Random};
use std::time::Duration;

pub(super) const DRILLS: &[Drill] = &[
    Drill::of_bug("a chunkserver answers with lies", 5, a_chunkserver_answers_with_lies),
    Drill::of_bug("a chunkserver answers the master alone with lies", 5, the_master_is_lied_to),
];

/// Rounds of work while answers are lies.
const ROUNDS: u64 = 120;
/// A server that tells the truth is away for some of these rounds, so that leases move, and what it
/// had is copied, from the liar, too.
const AWAY: [(u64, bool); 4] = [(20, false), (45, true), (70, false), (95, true)];
/// Of a thousand answers, how many are no lies: without any the liar would take part in little.
const TRUE_PERMILLE: u64 = 400;
/// Of a thousand lies, how many come with other bytes.
const BYTES_PERMILLE: u64 = 250;

fn a_chunkserver_answers_with_lies(script: &mut DrillScript) -> Verdict {
    work_beside_lies(script, 8, |_, _| true)
}

fn the_master_is_lied_to(script: &mut DrillScript) -> Verdict {
    work_beside_lies(script, 2, |script, asker| asker == script.nodes().master)
}

fn work_beside_lies(
    script: &mut DrillScript,
    seed: u64,
    is_for: fn(&DrillScript, NodeId) -> bool,
) -> Verdict {
    let (liar, spared) = (script.nodes().servers[0], script.nodes().servers[1]);
    let mut known = vec![liar.0 as u64];
    let mut files = Vec::new();
    for at in 0..6 {
        let content = if at % 2 == 0 { Content::Bytes } else { Content::Records };
        let file = script.create(&format!("/file-{at}"), content)?;
        let start = match content {
            Content::Bytes => script.write_synced(0, file, 0, BYTES).map(|()| 0)?,
            Content::Records => script.append(0, file, BYTES)?,
        };
        let handle = script.chunk(file, 0)?;
        known.extend([file.get(), handle.get(), script.version(handle).ok_or("none")?.get()]);
        files.push((file, start));
    }
    let (stream, producer) = stream_with_a_producer(script)?;
    let askers: Vec<NodeId> = script.nodes().all();
    let deceived = askers.into_iter().filter(|asker| is_for(script, *asker)).collect::<Vec<_>>();
    script.sim.observer.borrow_mut().somebody_lies();
    let mut random = Random::new(seed);
    script.sim.world.forge(Box::new(move |seen| {
        let told = seen.from == liar && deceived.contains(&seen.to);
        (told && !random.chance(TRUE_PERMILLE)).then(|| lie(seen.answer, &known, &mut random))
    }));
    let mut under_way = Vec::new();
    for round in 0..ROUNDS {
        match AWAY.iter().find(|(at, _)| *at == round) {
            Some((_, true)) => script.restart(spared)?,
            Some((_, false)) => script.kill(spared),
            None => {}
        }
        for client in 0..3 {
            let ops = work(round, client, &files);
            under_way.extend(ops.into_iter().map(|op| script.ask(client, op)));
        }
        under_way.push(script.ask(0, bundle(producer, round)));
        under_way.push(
            script.ask(1, ClientOp::Read { file: stream, offset: 0, size: 9_000, fresh: true }),
        );
        script.pass(Duration::from_millis(400));
    }
    script.sim.world.forge_no_more();
    // Nobody waits for ever, whatever was answered.
    for ticket in under_way {
        drop(script.wait(ticket));
    }
    // It told of replicas what can be and is not: that is believed until it tells anew.
    script.kill(liar);
    script.pass(Duration::from_secs(5));
    script.restart(liar)?;
    script.pass(Duration::from_secs(60));
    look(script, &files)
}

/// What a client does in a round: it cares for no result.
fn work(round: u64, client: usize, files: &[(EntryId, u64)]) -> Vec<ClientOp> {
    let (file, start) = files[(round as usize + client) % files.len()];
    let (bytes, sync) = (Bytes::from_static(b"more"), round.is_multiple_of(3));
    let change = if round as usize % files.len() % 2 == client % 2 {
        ClientOp::Write { file, offset: 64 + round * 40, bytes, sync }
    } else {
        ClientOp::Append { file, bytes, sync }
    };
    let read = ClientOp::Read { file, offset: start, size: 9_000, fresh: round.is_multiple_of(2) };
    let at = path(&format!("/file-{}", round as usize % files.len()));
    let mut ops = vec![change, read, ClientOp::Stat { path: at.clone() }];
    if round % 4 == client as u64 {
        ops.push(ClientOp::Sync { file });
    }
    if round % 10 == 7 && client == 0 {
        ops.push(ClientOp::Snapshot { from: at, to: path(&format!("/copy-{round}")) });
    }
    ops
}

fn stream_with_a_producer(script: &mut DrillScript) -> Result<(EntryId, ProducerKey), String> {
    let op = ClientOp::CreateStream {
        path: path("/stream"),
        content: Content::Records,
        commit_replicas: None,
    };
    let OpOutput::Entry(entry) = script.done(0, op)? else { return Err("no stream".to_owned()) };
    let (file, name) = (entry.id, "producer".to_owned());
    match script.done(0, ClientOp::OpenProducer { file, name })? {
        OpOutput::Producer(opened) => Ok((file, opened.producer)),
        other => Err(format!("opening a producer: {other:?}")),
    }
}

fn bundle(producer: ProducerKey, round: u64) -> ClientOp {
    let (bytes, cursor) = (Bytes::from_static(b"of a stream"), None);
    let (first, sync, replaces) = (1 + round, round.is_multiple_of(2), None);
    ClientOp::SendBundle { producer, first, count: 1, bytes, cursor, sync, replaces }
}

/// A lie in the place of an answer.
fn lie(answer: &Answer, known: &[u64], random: &mut Random) -> Answer {
    let response: Response = lying_answer(&answer.response, known, random);
    let payload = match random.below(3) {
        _ if !random.chance(BYTES_PERMILLE) => answer.payload.clone(),
        0 => Bytes::new(),
        1 => answer.payload.slice(..answer.payload.len() / 2),
        _ => [&answer.payload[..], &answer.payload[..]].concat().into(),
    };
    Answer { response, payload }
}
