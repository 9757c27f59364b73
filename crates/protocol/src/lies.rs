//! Requests that can be decoded and are not true, of every rpc that somebody may ask: for tests
//! alone.
//!
//! They are made from the table of rpcs, so a new one is lied in without anyone thinking of it: a
//! sample of its message, some of whose numbers are ones that mean something in the cell, or that
//! stand at a limit.

use crate::rpc::sample_each;
use crate::{Directed, Request};
use cairn_types::Random;
use cairn_types::sample::renumbered;

/// Who lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Liar {
    /// Somebody with the tools of a client.
    Client,
    /// A chunkserver.
    Chunkserver,
}

impl Liar {
    /// Whether such a one asks this of anyone.
    fn asks(self, request: &Request) -> bool {
        match request.clone().directed() {
            Directed::Handshake(_) | Directed::MasterToChunkserver(_) => false,
            Directed::ClientToMaster(_) | Directed::ClientToChunkserver(_) => true,
            Directed::ChunkserverToMaster(_)
            | Directed::PrimaryToSecondary(_)
            | Directed::ReplicaToReplica(_) => self == Self::Chunkserver,
        }
    }
}

/// One lie of each rpc; `known` are numbers that mean something where it is told.
#[must_use]
pub fn lies(liar: Liar, known: &[u64], random: &mut Random) -> Vec<Request> {
    let samples = sample_each(random).into_iter().map(|(request, _)| request);
    let asked: Vec<Request> = samples.filter(|request| liar.asks(request)).collect();
    let lie = |request: Request| {
        let mut message = Vec::new();
        request.encode(&mut message);
        let lie = renumbered(&message, known, random).expect("it was written just now");
        // A number may be none of those that a field can have.
        Request::decode(request.kind(), &lie).ok().flatten().unwrap_or(request)
    };
    asked.into_iter().map(lie).collect()
}

#[cfg(test)]
mod tests {
    use super::{Liar, lies};
    use crate::{Directed, Request};
    use cairn_types::{ChunkHandle, Random};

    #[test]
    fn lies_tell_of_what_is_there_and_of_limits() {
        let known = 0x0123_4567_89ab;
        let random = &mut Random::new(7);
        let mut reads = (false, false);
        for _ in 0..300 {
            for lie in lies(Liar::Client, &[known], random) {
                assert!(!matches!(lie.clone().directed(), Directed::MasterToChunkserver(_)));
                if let Request::Read(read) = &lie {
                    reads.0 |= read.handle == ChunkHandle::new(known);
                    reads.1 |= read.offset == u64::MAX;
                }
            }
        }
        assert_eq!(reads, (true, true));
        let of_chunkserver = lies(Liar::Chunkserver, &[known], random);
        assert!(of_chunkserver.iter().any(|lie| matches!(lie, Request::Heartbeat(_))));
    }
}
