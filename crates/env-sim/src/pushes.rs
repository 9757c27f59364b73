//! Pushed data, served below the seam (E5): verified, kept, passed on down the chain.
//!
//! ```text
//!   Push arrives ─► verify ─┬─► store ─► Service::keep ─┐
//!                           └─► Push to the next ───────┴─► answer when both are done
//! ```
//! Keeping and passing on run side by side, so a process may die with either of them half done.

use crate::network::Owner;
use crate::queue::Happening;
use crate::world::{NodeId, SimWorld};
use bytes::Bytes;
use cairn_env::{Caller, ConnectionId, Payload, PushedData};
use cairn_protocol::{ErrorCode, Failure, Push, PushAnswer, Request, RequestId, Response};
use cairn_types::{BLOCK_SIZE, Random, ServerId};
use std::time::Duration;

/// How long a server waits for the rest of its chain.
const CHAIN_TIMEOUT: Duration = Duration::from_secs(5);

/// A push that is being served.
#[derive(Debug)]
pub(crate) struct PushJob {
    pub(crate) node: NodeId,
    life: u64,
    caller: Caller,
    push: Push,
    payload: Bytes,
    next: ServerId,
    kept: Option<Result<(), Failure>>,
    passed_on: Option<Result<(), Failure>>,
}

fn block_size(push: &Push) -> u32 {
    if push.block_size == 0 { BLOCK_SIZE } else { push.block_size }
}

impl SimWorld {
    pub(crate) fn serve_push(
        &mut self,
        connection: ConnectionId,
        request: RequestId,
        push: Push,
        payload: Bytes,
    ) {
        let node = self.connections[&connection].to;
        let caller = Caller { connection, request };
        if !push.checksums.verify(u64::from(push.block_offset), &payload, block_size(&push)) {
            self.reach("push refused: checksum");
            let failure = Failure::not_done(ErrorCode::ChecksumMismatch, "pushed data is damaged");
            return self.answer_push(caller, &Err(failure));
        }
        self.next_push += 1;
        let id = self.next_push;
        let onward = push
            .chain
            .split_first()
            .map(|(next, rest)| (next.clone(), Push { chain: rest.to_vec(), ..push.clone() }));
        self.pushes.insert(
            id,
            PushJob {
                node,
                life: self.nodes[node.0].life,
                caller,
                push,
                payload: payload.clone(),
                next: onward.as_ref().map_or(ServerId::default(), |(next, _)| next.server),
                kept: None,
                passed_on: if onward.is_none() { Some(Ok(())) } else { None },
            },
        );
        let max = self.settings.latency_max;
        let slow = self.nodes[node.0].slow;
        let at = self.now.after(self.span(Duration::ZERO, max, slow));
        self.queue.push(at, Happening::PushStored { push: id });
        if let Some((next, onward)) = onward {
            let deadline = self.now.after(CHAIN_TIMEOUT);
            let request = Request::Push(onward);
            let owner = Owner::Chain(id);
            self.call(node, owner, &next.address, next.server, &request, payload, deadline);
        }
    }

    pub(crate) fn push_stored(&mut self, id: u64) {
        let Some(job) = self.pushes.get_mut(&id) else { return };
        let node = &self.nodes[job.node.0];
        let Some(machine) = node.machine.as_ref().filter(|_| node.life == job.life) else {
            self.pushes.remove(&id);
            return;
        };
        let segments = segments(&job.push, &job.payload, &mut self.random);
        let data = PushedData {
            block_offset: job.push.block_offset,
            block_size: block_size(&job.push),
            checksums: job.push.checksums.clone(),
            segments,
        };
        job.kept = Some(machine.keep(job.push.push, data));
        self.finish_push(id);
    }

    /// The next server of the chain has answered, or not.
    pub(crate) fn push_passed_on(&mut self, id: u64, result: Result<(), Failure>) {
        let Some(job) = self.pushes.get_mut(&id) else { return };
        let next = job.next;
        job.passed_on = Some(result.map_err(|failure| chain_failure(failure, next)));
        if job.passed_on.as_ref().is_some_and(Result::is_err) {
            self.reach("push chain broken");
        }
        self.finish_push(id);
    }

    fn finish_push(&mut self, id: u64) {
        let job = &self.pushes[&id];
        let (Some(kept), Some(passed_on)) = (&job.kept, &job.passed_on) else { return };
        let answer = kept.clone().and(passed_on.clone());
        let (caller, node, life) = (job.caller, job.node, job.life);
        self.pushes.remove(&id);
        if self.lives(node, life) {
            self.answer_push(caller, &answer.map(|()| Response::Push(PushAnswer {})));
        }
    }

    fn answer_push(&mut self, caller: Caller, answer: &Result<Response, Failure>) {
        let kind = Request::Push(Push::default()).kind();
        self.send_answer(caller, kind, answer, Payload::default());
    }
}

/// A next server that does not answer breaks the chain; what it says itself passes unchanged.
fn chain_failure(failure: Failure, next: ServerId) -> Failure {
    match failure.code {
        ErrorCode::Unreachable
        | ErrorCode::DeadlineExceeded
        | ErrorCode::WrongServer
        | ErrorCode::WrongCell
        | ErrorCode::Busy => {
            let why = format!("passing pushed data on to server {next}: {}", failure.message);
            Failure { server: next, ..Failure::not_done(ErrorCode::ChainBroken, why) }
        }
        _ => failure,
    }
}

/// The bytes as they may have come in: cut anywhere between pieces.
fn segments(push: &Push, payload: &Bytes, random: &mut Random) -> Vec<Bytes> {
    let block = u64::from(block_size(push));
    let lead = u64::from(push.block_offset);
    let blocks = (payload.len() as u64 + lead) / block;
    if blocks == 0 || random.chance(500) {
        return vec![payload.clone()];
    }
    let cut = (1 + random.below(blocks)) * block - lead;
    let cut = usize::try_from(cut).expect("within the payload").min(payload.len());
    let (front, back) = (payload.slice(..cut), payload.slice(cut..));
    [front, back].into_iter().filter(|segment| !segment.is_empty()).collect()
}
