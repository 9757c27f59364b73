//! Ranges of streams that are replaced by who has them exclusively (R46), and who that is.

use super::streams::{Extent, ProducerRecord, StreamTables};
use cairn_types::{ChunkIndex, EntryId, ProducerId, RecordNumber};
use std::collections::{BTreeMap, BTreeSet};

impl StreamTables {
    /// Who has a file exclusively, or had it last (OE4).
    pub(crate) fn exclusive(&self, file: EntryId) -> Option<(ProducerId, ProducerRecord)> {
        let id = self.named(file, "")?;
        self.producer(file, id).map(|record| (id, record))
    }

    /// How many ranges of a file were ever replaced.
    pub(crate) fn replaced(&self, file: EntryId) -> RecordNumber {
        self.exclusive(file).map(|(_, record)| record.number).unwrap_or_default()
    }

    /// Puts bytes of a chunk in the place of as many that stand at `offset` of a file (OE1); how
    /// many of which chunks these were.
    pub(super) fn replace_extents(
        &mut self,
        file: EntryId,
        offset: u64,
        (index, chunk_offset, size): (ChunkIndex, u64, u64),
    ) -> BTreeMap<ChunkIndex, u64> {
        assert!(size > 0, "an extent has bytes (OE1)");
        let end = offset + size;
        let within = self.extents_from(file, offset).take_while(|it| it.offset() < end);
        let mut cut = BTreeMap::new();
        for extent in &within.collect::<Vec<_>>() {
            self.remove_extent(file, extent);
            let before = offset.saturating_sub(extent.offset());
            if before > 0 {
                let left = Extent { end: offset, size: before, ..*extent };
                self.set_extent(file, &left);
            }
            let behind = extent.end.saturating_sub(end);
            if behind > 0 {
                let chunk_offset = extent.chunk_offset + (extent.size - behind);
                let right = Extent { size: behind, chunk_offset, ..*extent };
                self.set_extent(file, &right);
            }
            *cut.entry(extent.index).or_default() += extent.size - before - behind;
        }
        let put = Extent { end, index, chunk_offset, size };
        self.set_extent(file, &put);
        cut
    }

    /// What a file has left of chunks of which so many bytes were replaced: by what is counted
    /// (SS1), and by its extents where nobody has counted.
    pub(super) fn left_of(
        &self,
        file: EntryId,
        cut: &BTreeMap<ChunkIndex, u64>,
    ) -> BTreeMap<ChunkIndex, u64> {
        let counted = |index| self.settled().left(file, index);
        let unknown = cut.keys().copied().filter(|index| counted(*index).is_none());
        let mut left = self.bytes_of(file, &unknown.collect());
        for (index, cut) in cut {
            if let Some(before) = counted(*index) {
                left.insert(*index, before.saturating_sub(*cut));
            }
        }
        left
    }

    /// How many bytes of these chunks a file's extents have; it walks over all of them.
    pub(super) fn bytes_of(
        &self,
        file: EntryId,
        of: &BTreeSet<ChunkIndex>,
    ) -> BTreeMap<ChunkIndex, u64> {
        let mut bytes: BTreeMap<ChunkIndex, u64> = of.iter().map(|index| (*index, 0)).collect();
        if of.is_empty() {
            return bytes;
        }
        for extent in self.extents_from(file, 0) {
            if let Some(sum) = bytes.get_mut(&extent.index) {
                *sum += extent.size;
            }
        }
        bytes
    }
}
