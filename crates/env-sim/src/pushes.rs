//! Pushed data, served below the seam (E5): verified, kept, passed on down the chain.
//!
//! ```text
//!   Push arrives ─► verify ─┬─► store ─► Service::keep ─┐
//!                           └─► Push to the next ───────┴─► answer when both are done
//! ```
//! Keeping and passing on run side by side, so a process may die with either of them half done.

use crate::network::CallOwner;
use crate::node::NodeId;
use crate::queue::ScheduledEvent;
use crate::world::SimWorld;
use bytes::Bytes;
use cairn_env::buffer_pool::SEGMENT_SIZE;
use cairn_env::{Caller, Payload, PushedData};
use cairn_protocol::{Append, ErrorCode, Failure, Push, PushAnswer, Request, Response};
use cairn_types::{BLOCK_SIZE, Random, ServerId};
use std::collections::BTreeMap;
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
    /// What is asked of its process once all of the chain hold it.
    order: Option<Append>,
    next: ServerId,
    kept: Option<Result<(), Failure>>,
    passed_on: Option<Result<(), Failure>>,
}

/// The pushes that are being served, by the order in which they came.
#[derive(Debug, Default)]
pub(crate) struct PushJobs {
    last: u64,
    by_id: BTreeMap<u64, PushJob>,
}

impl PushJobs {
    fn begin(&mut self, job: PushJob) -> u64 {
        self.last += 1;
        self.by_id.insert(self.last, job);
        self.last
    }

    /// On which machine a push is served, until it has been answered.
    pub(crate) fn node_of(&self, id: u64) -> Option<NodeId> {
        self.by_id.get(&id).map(|job| job.node)
    }

    /// Takes out a push that has both been kept and passed on, or not: with what came of it.
    fn take_finished(&mut self, id: u64) -> Option<(PushJob, Result<(), Failure>)> {
        let job = &self.by_id[&id];
        let (kept, passed_on) = (job.kept.clone()?, job.passed_on.clone()?);
        let job = self.by_id.remove(&id).expect("looked at above");
        Some((job, kept.and(passed_on)))
    }
}

fn block_size(push: &Push) -> u32 {
    if push.block_size == 0 { BLOCK_SIZE } else { push.block_size }
}

impl SimWorld {
    pub(crate) fn serve_push(
        &mut self,
        node: NodeId,
        caller: Caller,
        mut push: Push,
        payload: Bytes,
    ) {
        let block = block_size(&push);
        if block as usize > SEGMENT_SIZE || push.block_offset >= block || payload.is_empty() {
            self.time.reach("push refused: impossible");
            let why = "what the message says cannot be true of its payload";
            return self.answer_push(caller, &Err(Failure::refused(ErrorCode::Invalid, why)));
        }
        if let Err(failure) = push.check_order(payload.len()) {
            return self.answer_push(caller, &Err(failure));
        }
        if !push.checksums.verify(u64::from(push.block_offset), &payload, block) {
            self.time.reach("push refused: checksum");
            let failure = Failure::not_done(ErrorCode::ChecksumMismatch, "pushed data is damaged");
            return self.answer_push(caller, &Err(failure));
        }
        let order = push.take_order(payload.len() as u64);
        let onward = push
            .chain
            .split_first()
            .map(|(next, rest)| (next.clone(), Push { chain: rest.to_vec(), ..push.clone() }));
        let id = self.pushes.begin(PushJob {
            node,
            life: self.nodes[node.0].life,
            caller,
            push,
            payload: payload.clone(),
            order,
            next: onward.as_ref().map_or(ServerId::default(), |(next, _)| next.server),
            kept: None,
            passed_on: if onward.is_none() { Some(Ok(())) } else { None },
        });
        let max = self.time.settings.latency_max;
        let slow = self.nodes[node.0].slow;
        let at = self.time.now.after(self.time.span(Duration::ZERO, max, slow));
        self.time.queue.push(at, ScheduledEvent::PushStored { push: id });
        if let Some((next, onward)) = onward {
            let deadline = self.time.now.after(CHAIN_TIMEOUT);
            let request = Request::Push(onward);
            let owner = CallOwner::Chain(id);
            let to = (&next.address, next.server);
            self.with_network(|net| net.call(node, owner, to, &request, payload, deadline));
        }
    }

    pub(crate) fn push_stored(&mut self, id: u64) {
        // Its process may have died, and the push with it.
        let Some(job) = self.pushes.by_id.get_mut(&id) else { return };
        let node = &self.nodes[job.node.0];
        let Some(process) = node.process.as_ref().filter(|_| node.life == job.life) else {
            self.pushes.by_id.remove(&id);
            return;
        };
        let segments = segments(&job.push, &job.payload, &mut self.time.random);
        let data = PushedData {
            block_offset: job.push.block_offset,
            block_size: block_size(&job.push),
            checksums: job.push.checksums.clone(),
            segments,
        };
        job.kept = Some(process.keep(job.push.push, data));
        self.finish_push(id);
    }

    /// The next server of the chain has answered, or not.
    pub(crate) fn push_passed_on(&mut self, id: u64, result: Result<(), Failure>) {
        // As in `push_stored`.
        let Some(job) = self.pushes.by_id.get_mut(&id) else { return };
        let next = job.next;
        job.passed_on = Some(result.map_err(|failure| chain_failure(failure, next)));
        if job.passed_on.as_ref().is_some_and(Result::is_err) {
            self.time.reach("push chain broken");
        }
        self.finish_push(id);
    }

    fn finish_push(&mut self, id: u64) {
        // One of the two halves may still be under way.
        let Some((job, result)) = self.pushes.take_finished(id) else { return };
        if !self.lives(job.node, job.life) {
            return;
        }
        match (result, job.order) {
            (Ok(()), Some(order)) => {
                let Caller { connection, request } = job.caller;
                self.time.reach("append that came with its push");
                self.with_network(|net| net.asked(connection, request, Request::Append(order)));
            }
            (result, _) => {
                self.answer_push(job.caller, &result.map(|()| Response::Push(PushAnswer {})));
            }
        }
    }

    fn answer_push(&mut self, caller: Caller, answer: &Result<Response, Failure>) {
        let kind = Request::Push(Push::default()).kind();
        self.with_network(|net| net.send_answer(caller, kind, answer, Payload::default()));
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
