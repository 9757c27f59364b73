//! Requests that can be decoded and are not true, of every rpc that somebody may ask: for tests
//! alone.
//!
//! They are made from the table of rpcs, so a new one is lied in without anyone thinking of it: a
//! sample of its message, some of whose numbers are ones that mean something in the cell, or that
//! stand at a limit.

use crate::rpc::sample_each;
use crate::{Request, Response, Role, RpcDirection, judge_request};
use cairn_types::Random;
use cairn_types::sample::renumbered;

/// How often, in a thousand, a liar asks what is not for one of its role.
const OUT_OF_ROLE_PERMILLE: u64 = 5;

/// Who lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Liar {
    /// Somebody with the tools of a client.
    Client,
    /// A chunkserver.
    Chunkserver,
}

impl Liar {
    /// What it says that it is.
    #[must_use]
    pub fn role(self) -> Role {
        match self {
            Self::Client => Role::Client,
            Self::Chunkserver => Role::Chunkserver,
        }
    }
}

/// One lie of each rpc that one of its role may ask, and now and then one of another, for which it
/// is shown the door (R2); `known` are numbers that mean something where it is told.
#[must_use]
pub fn lies(liar: Liar, known: &[u64], random: &mut Random) -> Vec<Request> {
    let samples = sample_each(random);
    let told = |request: &Request| match request.direction() {
        RpcDirection::Handshake => false,
        _ => judge_request(liar.role(), request).is_ok() || random.chance(OUT_OF_ROLE_PERMILLE),
    };
    let samples = samples.into_iter().map(|(request, _)| request);
    let asked: Vec<Request> = samples.filter(told).collect();
    let lie = |request: Request| {
        let mut message = Vec::new();
        request.encode(&mut message);
        let lie = renumbered(&message, known, random).expect("it was written just now");
        // A number may be none of those that a field can have.
        Request::decode(request.kind(), &lie).ok().flatten().unwrap_or(request)
    };
    asked.into_iter().map(lie).collect()
}

/// A lie in an answer's place: of the same rpc, as whoever asked expects it.
#[must_use]
pub fn lying_answer(answer: &Response, known: &[u64], random: &mut Random) -> Response {
    let mut message = Vec::new();
    answer.encode(&mut message);
    let lie = renumbered(&message, known, random).expect("it was written just now");
    // As above.
    Response::decode(answer.kind(), &lie).ok().flatten().unwrap_or_else(|| answer.clone())
}

/// What somebody answers to a request of this rpc who lies; none of an rpc that there is not.
#[must_use]
pub fn lie_in_answer_to(rpc: u16, known: &[u64], random: &mut Random) -> Option<Response> {
    let samples = sample_each(random).into_iter();
    let answer = samples.map(|(_, answer)| answer).find(|answer| answer.kind() == rpc)?;
    Some(lying_answer(&answer, known, random))
}

#[cfg(test)]
mod tests {
    use super::{Liar, lies};
    use crate::{Request, RpcDirection};
    use cairn_types::{ChunkHandle, Random};

    #[test]
    fn lies_tell_of_what_is_there_and_of_limits() {
        let known = 0x0123_4567_89ab;
        let random = &mut Random::new(7);
        let (mut reads, mut orders) = ((false, false), 0);
        for _ in 0..300 {
            for lie in lies(Liar::Client, &[known], random) {
                assert_ne!(lie.direction(), RpcDirection::Handshake);
                orders += u32::from(lie.direction() == RpcDirection::MasterToChunkserver);
                if let Request::Read(read) = &lie {
                    reads.0 |= read.handle == ChunkHandle::new(known);
                    reads.1 |= read.offset == u64::MAX;
                }
            }
        }
        assert_eq!(reads, (true, true));
        assert!((1..100).contains(&orders), "now and then it gives a master's orders: {orders}");
        let of_chunkserver = lies(Liar::Chunkserver, &[known], random);
        assert!(of_chunkserver.iter().any(|lie| matches!(lie, Request::Heartbeat(_))));
    }
}
