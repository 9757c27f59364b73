//! The location cache of one file (A7; GFS §2.3, §2.7.1): limited in time, dropped at open.
//!
//! - H1: an answer never replaces what was learnt by a later question.
//! - H2: each location remembers the number of the question that brought it, so that R19 can ask
//!   for one that is younger than a try.
//! - H3: whoever waited for an answer may use it once, however short its time or late its coming.

use crate::settings::LOCATE_COUNT;
use cairn_protocol::ChunkLocations;
use cairn_types::{ChunkIndex, Entry, Time};
use std::collections::VecDeque;

/// Chunks of one file that are remembered.
const CHUNKS_MAX: usize = 1024;

// What one answer tells, and the end of the file behind it, is kept together (H3).
const _: () = assert!(CHUNKS_MAX > 2 * LOCATE_COUNT as usize);

/// What the master said of one chunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KnownChunk {
    /// None where the file has no such chunk.
    pub(crate) chunk: Option<ChunkLocations>,
    /// Whether the file has chunks behind this one, so that what lacks here is a hole.
    pub(crate) inner: bool,
    /// The number of the question.
    pub(crate) asked: u64,
    /// When that was sent.
    pub(crate) sent: Time,
    /// A master said so that is not in charge.
    pub(crate) is_shadow: bool,
    until: Time,
}

/// The question that brought a location.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LocationQuestion {
    /// Its number.
    pub(crate) asked: u64,
    pub(crate) sent: Time,
    /// A master that is not in charge answered it.
    pub(crate) is_shadow: bool,
    /// Until when the answer may be used.
    pub(crate) until: Time,
}

/// How old a location is that was asked for at `sent`, rounded up: a server that is not sure
/// refuses what is too old.
pub(crate) fn age_ms(sent: Time, now: Time) -> u64 {
    let nanos = now.since(sent).as_nanos();
    u64::try_from(nanos.div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

impl KnownChunk {
    fn of(chunk: Option<ChunkLocations>, inner: bool, question: LocationQuestion) -> Self {
        let LocationQuestion { asked, sent, is_shadow, until } = question;
        Self { chunk, inner, asked, sent, is_shadow, until }
    }
}

/// The cache.
#[derive(Debug, Default)]
pub(crate) struct Locations {
    /// In order of their indices; most files have few chunks, and those of large ones are learnt
    /// from the first to the last.
    known: VecDeque<(ChunkIndex, KnownChunk)>,
    /// Chunks of the file, when last heard.
    pub(crate) chunk_count: u64,
    /// Its recorded length, when last heard: it is no less.
    pub(crate) length: u64,
}

impl Locations {
    /// What is known of a chunk by a question younger than `newer_than`.
    pub(crate) fn find(
        &self,
        index: ChunkIndex,
        now: Time,
        newer_than: u64,
    ) -> Option<&KnownChunk> {
        self.told(index, newer_than).filter(|known| now < known.until)
    }

    /// The same, however long ago: for whoever has just been told (H3).
    pub(crate) fn told(&self, index: ChunkIndex, newer_than: u64) -> Option<&KnownChunk> {
        let place = self.place(index).ok()?;
        Some(&self.known[place].1).filter(|known| known.asked > newer_than)
    }

    /// Takes in the answer to a question about `LOCATE_COUNT` chunks from `first` on.
    pub(crate) fn absorb(
        &mut self,
        entry: &Entry,
        first: ChunkIndex,
        mut chunks: Vec<ChunkLocations>,
        question: LocationQuestion,
    ) {
        self.chunk_count = self.chunk_count.max(entry.chunk_count);
        self.length = self.length.max(entry.length);
        for place in first.get()..first.get().saturating_add(u64::from(LOCATE_COUNT)) {
            let index = ChunkIndex::new(place);
            let at = chunks.iter().position(|chunk| chunk.index == index);
            let chunk = at.map(|at| chunks.swap_remove(at));
            let chunk = chunk.filter(|chunk| !chunk.handle.is_none());
            let inner = place + 1 < entry.chunk_count;
            self.learn(first, index, KnownChunk::of(chunk, inner, question));
            if place >= entry.chunk_count {
                break;
            }
        }
    }

    /// A lease grant tells of one chunk.
    pub(crate) fn absorb_grant(&mut self, chunk: ChunkLocations, question: LocationQuestion) {
        let index = chunk.index;
        let inner = index.get() + 1 < self.chunk_count;
        self.learn(index, index, KnownChunk::of(Some(chunk), inner, question));
    }

    /// Where a chunk stands, or would.
    fn place(&self, index: ChunkIndex) -> Result<usize, usize> {
        self.known.binary_search_by_key(&index, |(index, _)| *index)
    }

    /// Keeps what an answer about the chunks from `first` on tells of one of them.
    fn learn(&mut self, first: ChunkIndex, index: ChunkIndex, known: KnownChunk) {
        match self.place(index) {
            Ok(place) if self.known[place].1.asked < known.asked => self.known[place].1 = known,
            // H1: a later question was answered sooner.
            Ok(_) => {}
            Err(place) => self.known.insert(place, (index, known)),
        }
        if self.known.len() > CHUNKS_MAX {
            // Files are read from the front to the back, so the first goes, but never what this
            // very answer told: someone waits for it (H3).
            let front = self.known.front().map(|(index, _)| *index);
            if front < Some(first) {
                self.known.pop_front()
            } else {
                self.known.pop_back()
            };
        }
        assert!(self.known.len() <= CHUNKS_MAX, "one too many goes with each");
    }

    /// The first of the chunks soon to be read that is not known, for prefetching.
    pub(crate) fn lacking_after(&self, index: ChunkIndex, now: Time) -> Option<ChunkIndex> {
        let soon = [index.next(), index.next().next()];
        soon.into_iter()
            .find(|next| next.get() < self.chunk_count && self.find(*next, now, 0).is_none())
    }
}

#[cfg(test)]
mod tests {
    use super::{CHUNKS_MAX, LocationQuestion, Locations};
    use cairn_protocol::ChunkLocations;
    use cairn_types::{ChunkHandle, ChunkIndex, Entry, Term, Time};

    fn chunk(index: u64, counter: u64) -> ChunkLocations {
        ChunkLocations {
            index: ChunkIndex::new(index),
            handle: ChunkHandle::of(Term::new(1), counter),
            ..ChunkLocations::default()
        }
    }

    fn entry(chunk_count: u64) -> Entry {
        Entry { chunk_count, ..Entry::default() }
    }

    fn question(asked: u64, until: Time) -> LocationQuestion {
        LocationQuestion { asked, sent: Time::default(), is_shadow: false, until }
    }

    #[test]
    fn a_location_is_used_for_a_limited_time_and_not_where_a_younger_one_is_wanted() {
        let (at, index) = (Time::from_nanos, ChunkIndex::new(0));
        let mut locations = Locations::default();
        locations.absorb(&entry(1), index, vec![chunk(0, 1)], question(5, at(100)));
        assert!(locations.find(index, at(99), 4).is_some());
        assert!(locations.find(index, at(99), 5).is_none(), "R19");
        assert!(locations.find(index, at(100), 4).is_none(), "too old");
    }

    #[test]
    fn what_the_answer_leaves_out_is_a_hole_before_the_last_chunk_and_the_end_behind_it() {
        let mut locations = Locations::default();
        let first = ChunkIndex::new(0);
        let asked = question(1, Time::from_nanos(9));
        locations.absorb(&entry(3), first, vec![chunk(0, 1), chunk(2, 2)], asked);
        let found = |place| {
            let known = locations.find(ChunkIndex::new(place), Time::default(), 0);
            known.map(|known| (known.chunk.is_some(), known.inner))
        };
        assert_eq!(found(1), Some((false, true)));
        assert_eq!(found(2), Some((true, false)));
        assert_eq!(found(3), Some((false, false)));
        assert_eq!(found(4), None, "nothing was learnt of it");
    }

    #[test]
    fn what_was_just_told_is_kept_however_many_later_chunks_are_known() {
        let (until, all) = (Time::from_nanos(9), 4 * CHUNKS_MAX as u64);
        let mut locations = Locations::default();
        for first in (0..all / 16).rev().map(|nth| 16 * nth) {
            let chunks = (first..first + 16).map(|index| chunk(index, index)).collect();
            locations.absorb(&entry(all), ChunkIndex::new(first), chunks, question(1, until));
            for index in first..first + 16 {
                assert!(locations.told(ChunkIndex::new(index), 0).is_some(), "{index} (H3)");
            }
        }
        assert!(locations.known.len() <= CHUNKS_MAX);
    }

    #[test]
    fn an_answer_that_was_overtaken_changes_nothing() {
        let mut locations = Locations::default();
        let first = ChunkIndex::new(0);
        locations.absorb(&entry(1), first, vec![chunk(0, 2)], question(8, Time::from_nanos(9)));
        locations.absorb(&entry(1), first, vec![chunk(0, 1)], question(7, Time::from_nanos(9)));
        let known = locations.find(first, Time::default(), 0).expect("known");
        assert_eq!(known.chunk, Some(chunk(0, 2)));
    }
}
