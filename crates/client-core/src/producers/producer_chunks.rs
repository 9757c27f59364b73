//! The chunks that one producer may write (R40).
//!
//! ```text
//!   asked for ──► Open ──► Full, or Broken ──► its last bundle is committed or elsewhere ──► left
//! ```
//! - PC1: a bundle goes behind all bytes that ever went to the chunk: never to a place where
//!   others were sent.
//! - PC2: the bundles of a chunk are in it in the order of their numbers, so that they can be
//!   committed in that order.
//! - PC3: a chunk is left only once nothing in it waits for a commit.
//! - PC4: what was left once is never written again, whoever offers it (R40).

use crate::tasks::bundle_store::BundlePlace;
use cairn_protocol::{AllocateChunksAnswer, OpenStreamChunk, PRODUCER_CHUNKS_MAX};
use cairn_types::{
    ChunkHandle, ChunkVersion, RecordNumber, ReplicaAt, SerialNumber, ServerId, Time,
};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// For how long a server that could not be reached is told to the master.
const UNREACHABLE_FOR: Duration = Duration::from_secs(30);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ChunkStanding {
    Open,
    /// There was no room for a bundle.
    Full,
    /// Some server failed, or the master has closed it.
    Broken,
}

#[derive(Debug)]
struct ProducerChunk {
    handle: ChunkHandle,
    version: ChunkVersion,
    servers: Vec<ReplicaAt>,
    /// Where the next bundle goes.
    end: u64,
    /// The last bundle's.
    serial: SerialNumber,
    /// The last record that was sent here (PC2).
    last: RecordNumber,
    /// So many of the servers have to hold a bundle (TFS §2.4).
    needed: usize,
    /// Bundles here that are not committed.
    uncommitted: u32,
    standing: ChunkStanding,
}

impl ProducerChunk {
    /// `usual`: how many have to hold a bundle where nothing is said of the chunk itself.
    fn new(chunk: OpenStreamChunk, usual: u32) -> Self {
        let OpenStreamChunk { handle, version, replicas, length, serial, .. } = chunk;
        let needed = if chunk.commit_replicas > 0 { chunk.commit_replicas } else { usual };
        let needed = usize::try_from(needed).unwrap_or(usize::MAX).max(1);
        // With fewer servers than that nothing in it would ever be committed: it is left.
        let can_do = replicas.len() >= needed;
        Self {
            handle,
            version,
            standing: if can_do { ChunkStanding::Open } else { ChunkStanding::Broken },
            needed,
            servers: replicas,
            end: length,
            serial,
            last: RecordNumber::default(),
            uncommitted: 0,
        }
    }

    fn is_done_with(&self) -> bool {
        self.standing != ChunkStanding::Open && self.uncommitted == 0
    }
}

/// What a bundle needs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BundleNeeds {
    pub(crate) first: RecordNumber,
    pub(crate) last: RecordNumber,
    pub(crate) size: u64,
    pub(crate) chunk_size: u64,
}

/// What the master is asked for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct AllocationWish {
    pub(crate) count: u32,
    pub(crate) leaves: Vec<ChunkHandle>,
    pub(crate) unreachable: Vec<ServerId>,
    /// The answer will have one more than there are.
    pub(crate) brings_one: bool,
}

/// All of one producer.
#[derive(Debug, Default)]
pub(crate) struct ProducerChunks {
    chunks: Vec<ProducerChunk>,
    /// Left, and the master has not confirmed it.
    leaving: BTreeSet<ChunkHandle>,
    /// All that were ever left. A master that took over offers them anew, for what is left is soft:
    /// but servers may have bundles of this producer in them that went elsewhere (PC4).
    left: BTreeSet<ChunkHandle>,
    /// Until when each is told to the master.
    unreachable: BTreeMap<ServerId, Time>,
}

impl ProducerChunks {
    fn get_mut(&mut self, handle: ChunkHandle) -> &mut ProducerChunk {
        let chunk = self.chunks.iter_mut().find(|chunk| chunk.handle == handle);
        chunk.expect("PC3: a chunk with bundles is kept")
    }

    /// Gives a bundle its place, if a chunk can take it (PC1, PC2).
    pub(crate) fn place(&mut self, needs: BundleNeeds) -> Option<BundlePlace> {
        let BundleNeeds { first, last, size, chunk_size } = needs;
        for chunk in &mut self.chunks {
            if chunk.standing != ChunkStanding::Open || chunk.last >= first {
                continue;
            }
            if chunk.end.saturating_add(size) > chunk_size {
                chunk.standing = ChunkStanding::Full;
                continue;
            }
            let offset = chunk.end;
            chunk.serial = SerialNumber::new(chunk.serial.get().saturating_add(1));
            (chunk.end, chunk.last) = (offset + size, last);
            chunk.uncommitted += 1;
            let &mut ProducerChunk { handle, version, serial, .. } = chunk;
            return Some(BundlePlace { handle, version, serial, offset });
        }
        None
    }

    /// The servers of a chunk, and how many of them will do.
    pub(crate) fn servers(&mut self, handle: ChunkHandle) -> (Vec<ReplicaAt>, usize) {
        let chunk = self.get_mut(handle);
        assert!(chunk.needed <= chunk.servers.len(), "a chunk that cannot do is left");
        (chunk.servers.clone(), chunk.needed)
    }

    /// So many bundles of a chunk are committed, or elsewhere.
    pub(crate) fn resolved(&mut self, handle: ChunkHandle, count: u32) {
        let chunk = self.get_mut(handle);
        assert!(chunk.uncommitted >= count, "PC3: a bundle is resolved once");
        chunk.uncommitted -= count;
    }

    /// Nothing more goes to this chunk.
    pub(crate) fn break_off(&mut self, handle: ChunkHandle) {
        self.get_mut(handle).standing = ChunkStanding::Broken;
    }

    /// A server could not be reached.
    pub(crate) fn missed(&mut self, server: ServerId, now: Time) {
        self.unreachable.insert(server, now + UNREACHABLE_FOR);
    }

    /// What to ask the master for: `needs_one` where no chunk takes the next bundle. None where
    /// nothing is to be asked.
    pub(crate) fn wanted(
        &mut self,
        needs_one: bool,
        chunk_size: u64,
        now: Time,
    ) -> Option<AllocationWish> {
        let done: Vec<ChunkHandle> =
            self.chunks.iter().filter(|it| it.is_done_with()).map(|it| it.handle).collect();
        self.chunks.retain(|chunk| !chunk.is_done_with());
        self.leaving.extend(done);
        let mut open = self.chunks.iter().filter(|it| it.standing == ChunkStanding::Open);
        // The last one is half full: another will be needed.
        let ahead = match (open.next(), open.next()) {
            (Some(only), None) => only.end > chunk_size / 2,
            _ => false,
        };
        let more = usize::from(needs_one || ahead);
        // One at least: a producer that has none has nothing to be told.
        let count = (self.chunks.len() + more).clamp(1, PRODUCER_CHUNKS_MAX);
        if more == 0 && self.leaving.is_empty() {
            return None;
        }
        self.unreachable.retain(|_, until| now < *until);
        Some(AllocationWish {
            count: u32::try_from(count).expect("a few"),
            leaves: self.leaving.iter().copied().collect(),
            unreachable: self.unreachable.keys().copied().collect(),
            brings_one: count > self.chunks.len(),
        })
    }

    /// The master says what is open; false where it still has one that was left.
    pub(crate) fn allocated(&mut self, answer: AllocateChunksAnswer) -> bool {
        let is_named = |handle| answer.chunks.iter().any(|chunk| chunk.handle == handle);
        for chunk in self.chunks.iter_mut().filter(|chunk| !is_named(chunk.handle)) {
            // It was closed for another reason; what is committed of it stays.
            chunk.standing = ChunkStanding::Broken;
        }
        self.left.extend(&self.leaving);
        // PC4
        self.leaving = self.left.iter().copied().filter(|handle| is_named(*handle)).collect();
        for chunk in answer.chunks.into_iter().take(PRODUCER_CHUNKS_MAX) {
            let known = self.chunks.iter().any(|it| it.handle == chunk.handle);
            if !known && !self.leaving.contains(&chunk.handle) {
                self.chunks.push(ProducerChunk::new(chunk, answer.commit_replicas));
            }
        }
        self.leaving.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::{BundleNeeds, ProducerChunks};
    use cairn_protocol::{AllocateChunksAnswer, OpenStreamChunk};
    use cairn_types::{Address, ChunkHandle, Rack, RecordNumber, ReplicaAt, ServerId, Time};

    fn answer(handles: &[u64]) -> AllocateChunksAnswer {
        let server = |id| ReplicaAt {
            server: ServerId::new(id),
            address: Address::new("s:1"),
            rack: Rack::default(),
        };
        let chunk = |handle: &u64| OpenStreamChunk {
            handle: ChunkHandle::new(*handle),
            replicas: vec![server(1), server(2)],
            ..OpenStreamChunk::default()
        };
        let chunks = handles.iter().map(chunk).collect();
        AllocateChunksAnswer { chunks, commit_replicas: 2 }
    }

    #[test]
    fn each_chunk_has_a_number_of_its_own_that_have_to_hold_a_bundle_and_what_cannot_is_left() {
        let (mut chunks, mut told) = (ProducerChunks::default(), answer(&[1, 2, 3]));
        let lone = told.chunks[1].replicas[..1].to_vec();
        (told.chunks[1].replicas, told.chunks[1].commit_replicas) = (lone.clone(), 1);
        told.chunks[2].replicas = lone;
        assert!(chunks.allocated(told));
        let needed = |chunks: &mut ProducerChunks, handle| {
            let (servers, needed) = chunks.servers(ChunkHandle::new(handle));
            (servers.len(), needed)
        };
        assert_eq!((needed(&mut chunks, 1), needed(&mut chunks, 2)), ((2, 2), (1, 1)));
        let wanted = chunks.wanted(false, 1000, Time::default()).expect("one is to be left");
        assert_eq!(wanted.leaves, [ChunkHandle::new(3)]);
    }

    #[test]
    fn what_was_left_is_not_written_again_though_a_master_that_took_over_offers_it() {
        let mut chunks = ProducerChunks::default();
        let needs = |number| {
            let number = RecordNumber::new(number);
            BundleNeeds { first: number, last: number, size: 10, chunk_size: 1000 }
        };
        assert!(chunks.allocated(answer(&[1])));
        let place = chunks.place(needs(1)).expect("it takes it");
        chunks.break_off(place.handle);
        chunks.resolved(place.handle, 1);
        let wanted = chunks.wanted(true, 1000, Time::default()).expect("another");
        assert_eq!(wanted.leaves, [place.handle]);
        assert!(chunks.allocated(answer(&[2])), "it is left");
        assert!(!chunks.allocated(answer(&[1, 2])), "that master does not know (PC4)");
        let wanted = chunks.wanted(false, 1000, Time::default()).expect("it is left once more");
        assert_eq!(wanted.leaves, [place.handle]);
        let next = chunks.place(needs(1)).expect("there is another");
        assert_eq!(next.handle, ChunkHandle::new(2));
        assert!(chunks.place(needs(1)).is_none());
    }
}
