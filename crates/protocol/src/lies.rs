//! Requests that can be decoded and are not true, of every rpc that somebody may ask: for tests
//! alone.
//!
//! They are made from the table of rpcs, so a new one is lied in without anyone thinking of it: a
//! sample of its message, some of whose numbers are ones that mean something in the cell, or that
//! stand at a limit.
//!
//! - LI1: what a master looks at only where it knows who speaks is told in the name of a server
//!   that it has taken in ([`LyingServer`]), or nothing of the lie would ever reach it.

use crate::rpc::sample_each;
use crate::{
    Heartbeat, Join, JoinAnswer, ReplicaReport, Request, Response, Role, RpcDirection, ServedReign,
    judge_request,
};
use cairn_types::sample::renumbered;
use cairn_types::{ChunkHandle, ChunkVersion, Incarnation, Random, ReplicaAt};

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

/// Of a thousand lies of a server that a master has taken in, how many are told in no name of its.
const STRANGER_PERMILLE: u64 = 100;
/// Of a thousand replicas and leases that it tells of, how many are of chunks that there are.
const AIMED_PERMILLE: u64 = 500;
/// Bytes that it says its disks have.
const CAPACITY: u64 = 1 << 40;

/// A chunkserver that a master has taken in, and that lies in all that it says from then on (LI1):
/// of itself in its own name, and of chunks that there are.
#[derive(Clone, Debug)]
pub struct LyingServer {
    at: ReplicaAt,
    incarnation: Incarnation,
    /// What others hold, and the versions that they stand at.
    chunks: Vec<(ChunkHandle, ChunkVersion)>,
    joined: Option<JoinAnswer>,
    /// The number of its inventory's next slice.
    slice: u64,
    taken: u64,
}

impl LyingServer {
    /// One that has not joined yet.
    #[must_use]
    pub fn new(
        at: ReplicaAt,
        incarnation: Incarnation,
        chunks: Vec<(ChunkHandle, ChunkVersion)>,
    ) -> Self {
        Self { at, incarnation, chunks, joined: None, slice: 0, taken: 0 }
    }

    /// Its first word, which is true.
    #[must_use]
    pub fn join(&self) -> Join {
        let (at, incarnation, capacity) = (self.at.clone(), self.incarnation, CAPACITY);
        Join { at, incarnation, capacity, ..Join::default() }
    }

    /// A heartbeat with nothing in it but who it is.
    #[must_use]
    pub fn heartbeat(&self) -> Heartbeat {
        let mut beat = Heartbeat { capacity: CAPACITY, ..Heartbeat::default() };
        self.sign(&mut beat);
        beat
    }

    /// Whether the master has taken it in, as far as it knows.
    #[must_use]
    pub fn is_joined(&self) -> bool {
        self.joined.is_some()
    }

    /// How many of its lies the master has taken as the words of a server of its own.
    #[must_use]
    pub fn taken(&self) -> u64 {
        self.taken
    }

    /// Numbers that name it.
    #[must_use]
    pub fn numbers(&self) -> Vec<u64> {
        let joined = self.joined.as_ref();
        let told = joined.map(|it| [it.join.get(), it.term.get(), it.reign.get()]);
        let own = [self.at.server.get(), self.incarnation.get()];
        own.into_iter().chain(told.into_iter().flatten()).collect()
    }

    /// What the master answered; none where it refused.
    pub fn heard(&mut self, asked: &Request, answer: Option<&Response>) {
        match (asked, answer) {
            (_, Some(Response::Join(joined))) => {
                (self.joined, self.slice) = (Some(joined.clone()), 0);
            }
            (_, Some(Response::Inventory(_))) => {
                self.slice += 1;
                self.taken += 1;
            }
            (_, Some(Response::Heartbeat(beat))) if beat.rejoin => self.joined = None,
            (_, Some(Response::Heartbeat(_))) => self.taken += 1,
            // It has lost its place.
            (Request::Inventory(_), None) => self.joined = None,
            _ => {}
        }
    }

    /// One lie of each rpc that it may ask, as [`lies`] has them.
    #[must_use]
    pub fn lies(&self, known: &[u64], random: &mut Random) -> Vec<Request> {
        let lies = lies(Liar::Chunkserver, known, random).into_iter();
        lies.map(|lie| self.in_its_name(lie, random)).collect()
    }

    /// The same lie, but for who tells it, and mostly of what there is.
    fn in_its_name(&self, mut lie: Request, random: &mut Random) -> Request {
        if random.chance(STRANGER_PERMILLE) {
            return lie;
        }
        match &mut lie {
            Request::Join(join) => {
                (join.at, join.incarnation) = (self.at.clone(), self.incarnation);
            }
            Request::Inventory(slice) => {
                (slice.server, slice.incarnation) = (self.at.server, self.incarnation);
                slice.join = self.joined.as_ref().map(|it| it.join).unwrap_or_default();
                slice.number = self.slice;
                self.aim_reports(&mut slice.replicas.0, random);
                for held in &mut slice.leases {
                    self.aim((&mut held.handle, &mut held.version), random);
                }
            }
            Request::Heartbeat(beat) => {
                self.sign(beat);
                self.aim_reports(&mut beat.held, random);
                for held in &mut beat.leases {
                    self.aim((&mut held.handle, &mut held.version), random);
                }
            }
            Request::SecondaryFailed(failed) => {
                self.aim((&mut failed.handle, &mut failed.version), random);
            }
            Request::ChunkClosed(closed) => {
                self.aim((&mut closed.handle, &mut closed.version), random);
            }
            _ => {}
        }
        lie
    }

    fn sign(&self, beat: &mut Heartbeat) {
        (beat.server, beat.incarnation) = (self.at.server, self.incarnation);
        // Who has heeded what it was not told joins anew, and nothing else of its word is heard.
        beat.heeded = 0;
        let Some(joined) = &self.joined else { return };
        let (term, reign) = (joined.term, joined.reign);
        (beat.term, beat.served) = (term, ServedReign { term, reign, ..ServedReign::default() });
    }

    fn aim_reports(&self, reports: &mut [ReplicaReport], random: &mut Random) {
        for report in reports {
            self.aim((&mut report.handle, &mut report.version), random);
        }
    }

    /// Makes it mostly one of a chunk that there is, at its version, the next one or a made-up one.
    fn aim(&self, (handle, version): (&mut ChunkHandle, &mut ChunkVersion), random: &mut Random) {
        let Some((there, stands)) = random.pick(&self.chunks).copied() else { return };
        if random.chance(AIMED_PERMILLE) {
            *handle = there;
            *version = match random.below(4) {
                0 => *version,
                1 => ChunkVersion::new(stands.get().saturating_add(1)),
                _ => stands,
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Liar, LyingServer, lies};
    use crate::{JoinAnswer, Request, Response, RpcDirection};
    use cairn_types::{
        Address, ChunkHandle, ChunkVersion, Incarnation, JoinId, Rack, Random, ReignId, ReplicaAt,
        ServerId, Term,
    };

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

    #[test]
    fn a_server_that_was_taken_in_lies_in_its_own_name_of_chunks_that_there_are() {
        let (address, rack) = (Address::new("liar:1"), Rack::new("/r"));
        let at = ReplicaAt { server: ServerId::new(77), address, rack };
        let chunk = (ChunkHandle::new(1 << 40), ChunkVersion::new(1 << 41));
        let mut liar = LyingServer::new(at, Incarnation::new(88), vec![chunk]);
        let (join, term, reign) = (JoinId::new(5), Term::new(6), ReignId::new(7));
        let answer = JoinAnswer { join, term, reign, ..JoinAnswer::default() };
        assert!(!liar.is_joined());
        liar.heard(&liar.join().into(), Some(&Response::Join(answer)));
        let random = &mut Random::new(7);
        let (mut beats, mut slices, mut aimed) = (0, 0, 0);
        for _ in 0..300 {
            for lie in liar.lies(&liar.numbers(), random) {
                match lie {
                    Request::Heartbeat(beat) if beat.served.reign == reign => {
                        beats += u32::from(beat.server == ServerId::new(77) && beat.term == term);
                        let there = beat.held.iter().filter(|it| it.handle == chunk.0);
                        aimed += there.filter(|it| it.version == chunk.1).count();
                    }
                    Request::Inventory(slice) => {
                        slices += u32::from(slice.join == join && slice.number == 0);
                    }
                    _ => {}
                }
            }
        }
        assert!((200..300).contains(&beats) && (200..300).contains(&slices), "{beats}, {slices}");
        assert!(aimed > 50, "{aimed}");
    }
}
