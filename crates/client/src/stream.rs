//! Streams as readers have them: from any offset, to the end or for ever, or in parts.

use crate::cell::Cell;
use crate::error::Error;
use crate::file::File;
use crate::producer::{Producer, ProducerOptions, check_stream};
use crate::reader::{Reader, Tail};
use crate::record_reader::RecordReader;
use cairn_protocol::{
    ForgetProducer, ListProducers, ProducerStatus, ReadExtents, ReadExtentsAnswer, SkipLost,
};
use cairn_types::{CellPath, ChunkHandle, Content, EntryId, MutationName};

/// Extents and producers asked for at once.
const PAGE_SIZE: u32 = 1000;
/// Of smaller parts none begins within an extent: to look for a record costs a read.
const PART_SIZE_MIN: u64 = 64 << 10;

/// A part of a stream that begins and ends where records do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamSplit {
    /// Where it begins.
    pub offset: u64,
    /// Where it ends.
    pub end: u64,
}

/// A range of a stream that no server of its chunk has any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LostRange {
    /// Where it begins.
    pub offset: u64,
    /// Where it ends.
    pub end: u64,
    /// The chunk that has lost it.
    pub handle: ChunkHandle,
    /// Readers pass over it.
    pub is_hole: bool,
}

/// A stream that is open; clones share it. Made by [`Cell::open_stream`].
///
/// What is in it stays where it is for ever: a reader that has seen a byte at an offset finds it
/// there.
#[derive(Clone, Debug)]
pub struct Stream {
    file: File,
    cell: Cell,
}

impl Cell {
    /// Opens a stream to read it.
    ///
    /// # Errors
    /// `NotFound`; `Invalid` where the file is no stream.
    ///
    /// ```no_run
    /// # async fn example(cell: cairn_client::Cell) -> Result<(), cairn_client::Error> {
    /// # use cairn_client::CellPath;
    /// let path = CellPath::parse("/logs/events").expect("a path");
    /// let stream = cell.open_stream(&path).await?;
    /// let mut records = stream.records_follow(0);
    /// while let Some(record) = records.next().await? {
    ///     println!("{} of {}: {:?}", record.number, record.producer, record.payload);
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn open_stream(&self, path: &CellPath) -> Result<Stream, Error> {
        let file = self.open(path).await?;
        check_stream(path, &file)?;
        Ok(Stream { file, cell: self.clone() })
    }
}

impl Stream {
    /// As any file.
    #[must_use]
    pub fn file(&self) -> &File {
        &self.file
    }

    fn id(&self) -> EntryId {
        self.file.entry().id
    }

    /// How many bytes are committed.
    ///
    /// # Errors
    /// `NotFound` where the file is gone.
    pub async fn length(&self) -> Result<u64, Error> {
        self.file.length().await
    }

    /// The bytes from `offset` to the end.
    #[must_use]
    pub fn bytes(&self, offset: u64) -> Reader {
        self.file.reader(offset)
    }

    /// The bytes from `offset` on, without an end: waits for more to be committed.
    #[must_use]
    pub fn bytes_follow(&self, offset: u64) -> Tail {
        self.file.tail(offset)
    }

    /// The records from `offset` (which need not be the start of one) to the end.
    #[must_use]
    pub fn records(&self, offset: u64) -> RecordReader {
        self.file.records(offset)
    }

    /// The records from `offset` on, without an end: waits for more to be committed.
    #[must_use]
    pub fn records_follow(&self, offset: u64) -> RecordReader {
        self.file.records_follow(offset)
    }

    /// The records of a part.
    #[must_use]
    pub fn records_of(&self, split: StreamSplit) -> RecordReader {
        self.file.records(split.offset).until(split.end)
    }

    /// Up to `count` parts of about the same size, which are the whole of the stream as it is now:
    /// for readers that divide it. None cuts a record: a part ends where an extent does or, where
    /// extents are large, as in a settled stream, where a record does, which is looked for there.
    /// There are fewer where the stream is short. In a stream of bytes, which has no records, parts
    /// end with extents alone.
    ///
    /// # Errors
    /// `NotFound` where the file is gone; `Invalid` for no part at all.
    pub async fn splits(&self, count: u64) -> Result<Vec<StreamSplit>, Error> {
        if count == 0 {
            return Err(Error::invalid("a stream is divided into 1 part at least"));
        }
        let length = self.length().await?;
        let mut ends = Vec::new();
        let mut next = 0;
        while next < length {
            let page = self.extents(next).await?;
            let Some(last) = page.extents.last() else { break };
            next = last.offset.saturating_add(last.size);
            let all = page.extents.iter().map(|extent| extent.offset.saturating_add(extent.size));
            ends.extend(all.filter(|end| *end <= length));
        }
        if self.file.entry().content == Content::Records {
            for wanted in cuts_within(&ends, length, count) {
                ends.extend(self.record_start(wanted).await.filter(|start| *start < length));
            }
            ends.sort_unstable();
            ends.dedup();
        }
        Ok(splits_at(&ends, length, count))
    }

    /// Where the first record begins that begins at `offset` or behind; none where there is none,
    /// or nothing can be read there: that part is not divided then.
    async fn record_start(&self, offset: u64) -> Option<u64> {
        let record = self.records(offset).one_read_ahead().next().await.ok()??;
        Some(record.offset)
    }

    /// The extents from the one that has byte `offset` on, and where their chunks lie.
    ///
    /// # Errors
    /// `NotFound` where the file is gone.
    pub async fn extents(&self, offset: u64) -> Result<ReadExtentsAnswer, Error> {
        let (file, limit) = (self.id(), PAGE_SIZE);
        self.cell.ask(ReadExtents { file, offset, limit, ..ReadExtents::default() }).await
    }

    /// What of the stream is lost, in order: reads of it fail, or have zeros where it is a hole.
    ///
    /// # Errors
    /// `NotFound` where the file is gone.
    pub async fn lost_ranges(&self) -> Result<Vec<LostRange>, Error> {
        let length = self.length().await?;
        let (mut lost, mut next) = (Vec::new(), 0);
        while next < length {
            let page = self.extents(next).await?;
            let Some(last) = page.extents.last() else { break };
            next = last.offset.saturating_add(last.size);
            for extent in &page.extents {
                let tail = page.lost.iter().find(|tail| tail.handle == extent.handle);
                let Some(tail) = tail else { continue };
                let size = tail.lost_of(extent.chunk_offset, extent.size);
                let end = extent.offset.saturating_add(extent.size);
                if size > 0 {
                    let (offset, handle) = (end.saturating_sub(size), tail.handle);
                    lost.push(LostRange { offset, end, handle, is_hole: tail.is_hole });
                }
            }
        }
        Ok(lost)
    }

    /// Makes a hole of what a chunk has lost, in all files that have the chunk: readers of bytes
    /// have zeros there from then on, readers of records pass over it, and
    /// [`File::holes_read`] tells of it. Should a server come back with the bytes, and be taken
    /// (`cairn recover`), it is a hole no more.
    ///
    /// # Errors
    /// `NotFound` where that chunk of the stream has lost nothing.
    pub async fn skip_lost(&self, handle: ChunkHandle) -> Result<(), Error> {
        self.cell.ask(SkipLost { file: self.id(), handle }).await.map(drop)
    }

    /// Opens a producer of this stream, under whatever path it is by now; otherwise as
    /// [`Cell::open_producer`].
    ///
    /// # Errors
    /// `NotFound` where the file is gone; `Invalid` where the name is none.
    pub async fn open_producer(
        &self,
        name: &str,
        options: ProducerOptions,
    ) -> Result<Producer, Error> {
        self.cell.producer_of(self.file.clone(), name, options).await
    }

    /// The producers that have a name in the stream, in order of their names.
    ///
    /// # Errors
    /// `NotFound` where the file is gone.
    pub async fn producers(&self) -> Result<Vec<ProducerStatus>, Error> {
        let (mut all, mut after) = (Vec::new(), String::new());
        loop {
            let (file, limit, only) = (self.id(), PAGE_SIZE, String::new());
            let page = self.cell.ask(ListProducers { file, after, limit, only }).await?;
            after = page.producers.last().map(|last| last.name.clone()).unwrap_or_default();
            let is_last = !page.more || page.producers.is_empty();
            all.extend(page.producers);
            if is_last {
                return Ok(all);
            }
        }
    }

    /// How the producer of that name stands; none where there is none.
    ///
    /// # Errors
    /// `NotFound` where the file is gone.
    pub async fn producer(&self, name: &str) -> Result<Option<ProducerStatus>, Error> {
        let (file, after, only) = (self.id(), String::new(), name.to_owned());
        let page = self.cell.ask(ListProducers { file, after, limit: 1, only }).await?;
        Ok(page.producers.into_iter().find(|producer| producer.name == name))
    }

    /// Whether record `number` of that producer is in the stream: it is once it is, for ever.
    ///
    /// # Errors
    /// `NotFound` where the file is gone.
    pub async fn has(&self, producer: &str, number: u64) -> Result<bool, Error> {
        let known = self.producer(producer).await?;
        Ok(known.is_some_and(|known| (1..=known.number.get()).contains(&number)))
    }

    /// Forgets a producer: its records stay, and its name may be used anew, from number 1.
    ///
    /// # Errors
    /// `NotFound` where there is none of that name.
    pub async fn forget_producer(&self, name: &str) -> Result<(), Error> {
        let (mutation, file, name) = (MutationName::default(), self.id(), name.to_owned());
        self.cell.ask(ForgetProducer { mutation, file, name }).await.map(drop)
    }
}

/// Where parts would end that are all the same, as far as no extent ends near there, within an
/// eighth of a part, and parts are large enough to be looked for.
fn cuts_within(ends: &[u64], length: u64, count: u64) -> Vec<u64> {
    let share = length.div_ceil(count);
    if share < PART_SIZE_MIN {
        return Vec::new();
    }
    let cuts = (1..count).map_while(|nth| nth.checked_mul(share).filter(|cut| *cut < length));
    let has_near = |cut: u64| {
        let from = ends.partition_point(|end| *end < cut.saturating_sub(share / 8));
        ends.get(from).is_some_and(|end| *end <= cut.saturating_add(share / 8))
    };
    cuts.filter(|cut| !has_near(*cut)).collect()
}

/// Parts of `0..length`, each up to the first of `ends` at which it has its share, or nearly: an
/// eighth may lack.
fn splits_at(ends: &[u64], length: u64, count: u64) -> Vec<StreamSplit> {
    let (mut parts, mut offset) = (Vec::new(), 0);
    for end in ends.iter().copied() {
        let left = count.saturating_sub(parts.len() as u64);
        if left <= 1 {
            break;
        }
        let share = (length - offset).div_ceil(left);
        if end - offset >= (share - share / 8).max(1) {
            parts.push(StreamSplit { offset, end });
            offset = end;
        }
    }
    if offset < length {
        parts.push(StreamSplit { offset, end: length });
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::{StreamSplit, cuts_within, splits_at};

    #[test]
    fn parts_are_about_the_same_and_all_of_it_and_end_where_extents_do() {
        let ends: Vec<u64> = (1..=10).map(|nth| nth * 100).collect();
        for count in [1, 2, 3, 7, 10, 50] {
            let parts = splits_at(&ends, 1000, count);
            assert!(parts.len() as u64 <= count);
            assert_eq!((parts[0].offset, parts[parts.len() - 1].end), (0, 1000));
            assert!(parts.windows(2).all(|two| two[0].end == two[1].offset));
            assert!(parts.iter().all(|part| part.end % 100 == 0 && part.end > part.offset));
            let largest = parts.iter().map(|part| part.end - part.offset).max();
            assert!(largest <= Some(1000 / count.min(10) + 100), "{count}: {parts:?}");
        }
        assert_eq!(splits_at(&[500], 500, 4), [StreamSplit { offset: 0, end: 500 }]);
        assert_eq!(splits_at(&[], 0, 4), []);
    }

    #[test]
    fn records_are_looked_for_where_no_extent_ends_near_and_nowhere_else() {
        const K: u64 = 1 << 10;
        let cuts = |ends: &[u64], length: u64, count: u64| {
            let ends: Vec<u64> = ends.iter().map(|end| end * K).collect();
            let cuts = cuts_within(&ends, length * K, count).into_iter();
            cuts.map(|cut| cut / K).collect::<Vec<u64>>()
        };
        assert_eq!(cuts(&[900], 900, 3), [300, 600], "one extent");
        assert_eq!(cuts(&[290, 900], 900, 3), [600]);
        assert_eq!(cuts(&[338, 562, 900], 900, 3), [300, 600], "more than an eighth away");
        let small: Vec<u64> = (1..=90).map(|nth| nth * 10).collect();
        for (ends, length, count) in
            [(&small[..], 900, 3), (&[300][..], 300, 5), (&[900][..], 900, 1), (&[][..], 0, 5)]
        {
            assert_eq!(cuts(ends, length, count), [] as [u64; 0], "{length} by {count}");
        }
        let parts = splits_at(&[303, 601, 900], 900, 3);
        let ends: Vec<u64> = parts.iter().map(|part| part.end).collect();
        assert_eq!(ends, [303, 601, 900]);
    }
}
