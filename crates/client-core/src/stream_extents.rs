//! What is known of one stream: its extents, and where their chunks lie (R44).
//!
//! ```text
//!   file    0 ······ 100 ···· 160 ········ 300 = length, as of some question
//!           chunk A     chunk B    chunk A            A: committed up to 240
//! ```
//! - SE1: bytes that are committed never change, so an extent may be old; where its chunk lies may
//!   not (A7). Where a range was replaced (R46), extents from before and behind it are not mixed.
//! - SE2: how much of a chunk is committed, and how long the file is, only grow here.

use crate::locations::LocationQuestion;
use cairn_protocol::{ChunkLocations, LostTail, ReadExtentsAnswer, StreamExtent};
use cairn_types::{ChunkHandle, RecordNumber, Time};
use std::collections::BTreeMap;

/// Extents of one file that are remembered.
const EXTENTS_KEPT_MAX: usize = 1 << 16;
/// The same of chunks.
const CHUNKS_KEPT_MAX: usize = 1 << 16;

/// What the master said of a chunk.
#[derive(Clone, Debug)]
pub(crate) struct KnownStreamChunk {
    pub(crate) locations: ChunkLocations,
    /// How much of it is committed, at least.
    pub(crate) committed: u64,
    /// What it has lost of that (R41).
    pub(crate) lost: Option<LostTail>,
    /// The question that told where it lies.
    pub(crate) question: LocationQuestion,
}

/// A part of an extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ExtentPart {
    /// Where it stands in the file.
    pub(crate) offset: u64,
    pub(crate) size: u64,
    pub(crate) handle: ChunkHandle,
    pub(crate) chunk_offset: u64,
}

/// The cache.
#[derive(Debug, Default)]
pub(crate) struct StreamExtents {
    /// By their offsets, each with the number of the question that told of it.
    extents: BTreeMap<u64, (StreamExtent, u64)>,
    chunks: BTreeMap<ChunkHandle, KnownStreamChunk>,
    length: u64,
    /// The number of the last question that told of the length.
    asked: u64,
    /// About what on the last question was that was answered.
    answered: Option<u64>,
    /// How many ranges were replaced before the extents were told (SE1).
    replaced: RecordNumber,
}

impl StreamExtents {
    /// Of a file that is so long as of this question.
    pub(crate) fn new(length: u64, asked: u64) -> Self {
        Self { length, asked, ..Self::default() }
    }

    /// Whether the last question that was answered was about what begins there: what it did not
    /// tell of that, the master does not say.
    pub(crate) fn was_answered_at(&self, offset: u64) -> bool {
        self.answered == Some(offset)
    }

    /// The length, if a question younger than `newer_than` told of it.
    pub(crate) fn length(&self, newer_than: u64) -> Option<u64> {
        (self.asked > newer_than).then_some(self.length)
    }

    /// What is known of a chunk by a question younger than `newer_than`.
    pub(crate) fn chunk(
        &self,
        handle: ChunkHandle,
        now: Time,
        newer_than: u64,
    ) -> Option<&KnownStreamChunk> {
        self.told(handle, newer_than).filter(|known| now < known.question.until)
    }

    /// The same, however long ago: for whoever has just been told.
    pub(crate) fn told(&self, handle: ChunkHandle, newer_than: u64) -> Option<&KnownStreamChunk> {
        self.chunks.get(&handle).filter(|known| known.question.asked > newer_than)
    }

    /// What a chunk has lost, as the last answer about it has said.
    pub(crate) fn lost(&self, handle: ChunkHandle) -> Option<LostTail> {
        self.chunks.get(&handle).and_then(|known| known.lost)
    }

    /// Whether an answer says that a chunk has lost some which is younger than `began`, or, of a
    /// hole, not old yet: a server may have come back with the bytes.
    pub(crate) fn is_lost_by_now(&self, lost: &LostTail, now: Time, began: u64) -> bool {
        let told = self.chunks.get(&lost.handle).map(|known| known.question);
        told.is_some_and(|told| told.asked > began || (lost.is_hole && now < told.until))
    }

    /// The extents of `offset..end` from the front on, as far as questions younger than
    /// `newer_than` have told of them without a gap.
    pub(crate) fn parts(&self, offset: u64, end: u64, newer_than: u64) -> Vec<ExtentPart> {
        let (mut at, mut parts) = (offset, Vec::new());
        while at < end {
            let before = self.extents.range(..=at).next_back();
            let Some((_, (extent, asked))) = before else { break };
            let within = at - extent.offset;
            if *asked <= newer_than || within >= extent.size {
                break;
            }
            let size = (extent.size - within).min(end - at);
            let (handle, chunk_offset) = (extent.handle, extent.chunk_offset + within);
            parts.push(ExtentPart { offset: at, size, handle, chunk_offset });
            at += size;
        }
        parts
    }

    /// Takes in an answer.
    pub(crate) fn absorb(
        &mut self,
        offset: u64,
        answer: ReadExtentsAnswer,
        question: LocationQuestion,
    ) {
        let ReadExtentsAnswer { entry, extents, chunks, replaced, lost, .. } = answer;
        self.answered = Some(offset);
        if replaced < self.replaced {
            // It was long on its way: whoever asked asks again.
            return;
        }
        if replaced > self.replaced {
            self.extents.clear();
            self.replaced = replaced;
        }
        self.asked = self.asked.max(question.asked);
        self.length = self.length.max(entry.length);
        if self.extents.len() > EXTENTS_KEPT_MAX {
            self.extents.clear();
        }
        // Apart from the extents: runs that were made of these read on by what is known of chunks.
        if self.chunks.len() > CHUNKS_KEPT_MAX {
            self.chunks.clear();
        }
        let lost: BTreeMap<ChunkHandle, LostTail> =
            lost.into_iter().map(|lost| (lost.handle, lost)).collect();
        for locations in chunks {
            let lost = lost.get(&locations.handle).copied();
            self.learn_chunk(locations, lost, question);
        }
        for extent in extents {
            self.learn_extent(extent, question.asked);
        }
    }

    fn learn_chunk(
        &mut self,
        locations: ChunkLocations,
        lost: Option<LostTail>,
        question: LocationQuestion,
    ) {
        let known = self.chunks.get(&locations.handle);
        let committed = known.map_or(0, |known| known.committed);
        if known.is_none_or(|known| known.question.asked < question.asked) {
            let handle = locations.handle;
            self.chunks.insert(handle, KnownStreamChunk { locations, committed, lost, question });
        }
    }

    fn learn_extent(&mut self, extent: StreamExtent, asked: u64) {
        let StreamExtent { offset, size, handle, chunk_offset } = extent;
        let (Some(end), Some(chunk_end)) =
            (offset.checked_add(size), chunk_offset.checked_add(size))
        else {
            // Nothing is there: a master's word that cannot be true.
            return;
        };
        if let Some(known) = self.chunks.get_mut(&handle) {
            known.committed = known.committed.max(chunk_end);
        }
        // What stood there for an older question has grown, or is in another chunk by now.
        let inside = self.extents.range(offset..end).map(|(at, (_, asked))| (*at, *asked));
        let inside: Vec<(u64, u64)> = inside.collect();
        if inside.iter().all(|(_, known)| *known <= asked) && size > 0 {
            for (at, _) in inside {
                self.extents.remove(&at);
            }
            self.extents.insert(offset, (extent, asked));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{ExtentPart, StreamExtents};
    use crate::locations::LocationQuestion;
    use cairn_protocol::{ChunkLocations, ReadExtentsAnswer, StreamExtent};
    use cairn_types::{ChunkHandle, Entry, Time};

    fn extent(offset: u64, size: u64, handle: u64, chunk_offset: u64) -> StreamExtent {
        StreamExtent { offset, size, handle: ChunkHandle::new(handle), chunk_offset }
    }

    fn part(offset: u64, size: u64, handle: u64, chunk_offset: u64) -> ExtentPart {
        ExtentPart { offset, size, handle: ChunkHandle::new(handle), chunk_offset }
    }

    fn absorb(known: &mut StreamExtents, asked: u64, length: u64, extents: &[StreamExtent]) {
        let chunk =
            |it: &StreamExtent| ChunkLocations { handle: it.handle, ..ChunkLocations::default() };
        let chunks = extents.iter().map(chunk).collect();
        let entry = Entry { length, ..Entry::default() };
        let answer = ReadExtentsAnswer {
            entry: entry.into(),
            extents: extents.to_vec(),
            chunks,
            ..Default::default()
        };
        let until = Time::from_nanos(100);
        let question = LocationQuestion { asked, sent: Time::default(), is_shadow: false, until };
        known.absorb(0, answer, question);
    }

    #[test]
    fn a_range_is_found_in_parts_up_to_the_first_gap() {
        let mut known = StreamExtents::default();
        absorb(&mut known, 5, 400, &[extent(0, 100, 1, 0), extent(100, 50, 2, 7)]);
        absorb(&mut known, 6, 400, &[extent(200, 50, 1, 100)]);
        assert_eq!(known.parts(90, 120, 0), [part(90, 10, 1, 90), part(100, 20, 2, 7)]);
        assert_eq!(known.parts(120, 300, 0), [part(120, 30, 2, 27)], "a gap at 150");
        assert_eq!(known.parts(120, 300, 5), [], "a younger answer is wanted");
        assert_eq!(known.parts(210, 900, 5), [part(210, 40, 1, 110)]);
        assert_eq!((known.length(5), known.length(6)), (Some(400), None));
    }

    #[test]
    fn an_extent_that_has_grown_or_moved_takes_the_place_of_what_was_known() {
        let mut known = StreamExtents::default();
        absorb(&mut known, 5, 150, &[extent(0, 100, 1, 0), extent(100, 50, 2, 0)]);
        absorb(&mut known, 6, 200, &[extent(0, 200, 3, 0)]);
        assert_eq!(known.parts(0, 999, 0), [part(0, 200, 3, 0)]);
        absorb(&mut known, 4, 120, &[extent(0, 100, 1, 0)]);
        assert_eq!(known.parts(0, 999, 0), [part(0, 200, 3, 0)], "it was overtaken");
        assert_eq!(known.length(5), Some(200), "SE2");
    }

    #[test]
    fn of_a_chunk_so_much_is_committed_as_any_extent_tells_and_its_place_is_known_for_a_while() {
        let mut known = StreamExtents::default();
        absorb(&mut known, 5, 300, &[extent(0, 100, 1, 0), extent(200, 60, 1, 100)]);
        absorb(&mut known, 6, 300, &[extent(0, 100, 1, 0)]);
        let chunk = ChunkHandle::new(1);
        let at = |nanos| known.chunk(chunk, Time::from_nanos(nanos), 5).map(|it| it.committed);
        assert_eq!((at(99), at(100)), (Some(160), None));
        assert!(known.told(chunk, 5).is_some() && known.told(chunk, 6).is_none());
    }

    #[test]
    fn what_cannot_be_an_extent_is_nothing() {
        let mut known = StreamExtents::default();
        let all = [extent(u64::MAX - 1, 9, 1, 0), extent(5, 9, 1, u64::MAX), extent(3, 0, 1, 0)];
        absorb(&mut known, 5, 300, &all);
        assert_eq!(known.parts(3, u64::MAX, 0), []);
    }
}
