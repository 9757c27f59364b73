//! Where a producer's record stands in a stream, and whether it can be read there (R41, R47).
//!
//! ```text
//!   │ · · p 7 · · p 9 · │ · q · · p 12 · · · ◌◌◌◌ · · p 15 · │     ◌: cannot be read
//!     lo                  mid ──► p 12                       hi
//! ```
//! - RS1: a producer's numbers rise with the offsets (R38), so halves are ruled out by the first
//!   record of the producer behind the middle; in the worst case all of the stream is read once.
//! - RS2: what cannot be read is stepped over, extent by extent: a record that is nowhere else is
//!   there.

use crate::error::Error;
use crate::producer::framed_as;
use crate::record_reader::RecordReader;
use crate::stream::Stream;
use cairn_format::RecordSource;
use cairn_protocol::ProducerStatus;
use cairn_types::{Content, Epoch};

/// Of less than that all records are looked at, one after the other.
const NEAR: u64 = 1 << 20;

/// Where a record that is committed stands.
#[derive(Clone, Debug)]
pub enum RecordPlace {
    /// It begins at this byte of the file, and was read.
    At(u64),
    /// All else could be read: it begins in this range, which could not.
    Unreadable {
        /// Where the range begins.
        offset: u64,
        /// Where it ends.
        end: u64,
        /// Why it could not be read.
        error: Error,
    },
    /// All else could be read: it begins in this range, which is lost and a hole.
    Lost {
        /// Where the range begins.
        offset: u64,
        /// Where it ends.
        end: u64,
    },
    /// Nobody can tell: in a stream of bytes nothing says which bundle was which.
    Unknown,
}

/// In which epoch a record was committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordEpoch {
    /// In this.
    In(Epoch),
    /// In this, or in one before it: of those nothing is kept.
    UpTo(Epoch),
}

/// A range that could not be read.
#[derive(Clone, Debug)]
struct UnreadRange {
    offset: u64,
    end: u64,
    error: Error,
}

/// Looks for a record.
struct RecordSearch<'a> {
    stream: &'a Stream,
    producer: RecordSource,
    unread: Vec<UnreadRange>,
    /// Where the last record of the producer was met that has a lower number.
    before: u64,
}

impl Stream {
    /// Where record `number` of a producer stands, as [`producer`](Self::producer) has told of it;
    /// none where it is not committed. Reads some of the stream, and of one in which the producer
    /// has few records perhaps all of it.
    ///
    /// # Errors
    /// `NotFound` where the file is gone. What cannot be read is no error, but an answer.
    pub async fn place_of(
        &self,
        known: &ProducerStatus,
        number: u64,
    ) -> Result<Option<RecordPlace>, Error> {
        if !(1..=known.number.get()).contains(&number) {
            return Ok(None);
        }
        if self.file().entry().content != Content::Records {
            return Ok(Some(RecordPlace::Unknown));
        }
        let producer = framed_as(&known.name, known.producer);
        let length = self.length().await?;
        let mut search = RecordSearch { stream: self, producer, unread: Vec::new(), before: 0 };
        search.find(number, length).await.map(Some)
    }
}

/// In which epoch a record of that producer was committed, if it is.
#[must_use]
pub fn epoch_of(known: &ProducerStatus, number: u64) -> Option<RecordEpoch> {
    if !(1..=known.number.get()).contains(&number) {
        return None;
    }
    let ended = known.ended.iter().position(|ended| number <= ended.number.get());
    Some(match ended {
        Some(0) => RecordEpoch::UpTo(known.ended[0].epoch),
        Some(nth) => RecordEpoch::In(known.ended[nth].epoch),
        None => RecordEpoch::In(known.epoch),
    })
}

impl RecordSearch<'_> {
    async fn find(&mut self, number: u64, length: u64) -> Result<RecordPlace, Error> {
        let (mut low, mut high) = (0, length);
        // Where a record of a higher number begins.
        let mut behind = length;
        while high - low > NEAR {
            let middle = low + (high - low) / 2;
            match self.first((middle, high), 0).await? {
                Some((there, offset)) if there == number => return Ok(RecordPlace::At(offset)),
                Some((there, offset)) if there < number => low = offset + 1,
                // RS2: in what could not be read it may be yet, and is, if it is nowhere else.
                found => {
                    behind = found.map_or(behind, |(_, offset)| offset);
                    high = middle;
                }
            }
        }
        match self.first((low, high), number).await? {
            Some((there, offset)) if there == number => return Ok(RecordPlace::At(offset)),
            found => behind = found.map_or(behind, |(_, offset)| offset),
        }
        let may_have = |range: &&UnreadRange| range.end > low && range.offset < behind;
        // What was passed over in looking for this one (R41), behind the last record before it.
        let low = low.max(self.before);
        let passed = self.stream.file().holes_read();
        let passed = passed.ranges().filter(|(from, to)| *to > low && *from < behind);
        let range = self.unread.iter().filter(may_have).min_by_key(|range| range.offset);
        if let (None, Some((offset, end))) = (range, passed.min()) {
            return Ok(RecordPlace::Lost { offset, end });
        }
        Ok(range.map_or(RecordPlace::Unknown, |UnreadRange { offset, end, error }| {
            RecordPlace::Unreadable { offset: *offset, end: *end, error: error.clone() }
        }))
    }

    /// Number and place of the producer's first record that begins in a range and has that number
    /// at least.
    async fn first(
        &mut self,
        (from, to): (u64, u64),
        at_least: u64,
    ) -> Result<Option<(u64, u64)>, Error> {
        let mut at = from;
        while at < to {
            if let Some(range) = self.unread.iter().find(|it| (it.offset..it.end).contains(&at)) {
                at = range.end;
                continue;
            }
            let stopped_at = match self.scan(self.stream.records(at).until(to), at_least).await {
                Ok(found) => return Ok(found),
                // A read may fail for what lies behind: the extent is read alone.
                Err((offset, _)) => offset.max(at),
            };
            if stopped_at >= to {
                return Ok(None);
            }
            let end = self.extent_end(stopped_at).await?;
            let alone = self.stream.records(stopped_at).until(to.min(end)).no_further_than(end);
            match self.scan(alone, at_least).await {
                Ok(Some(found)) => return Ok(Some(found)),
                Ok(None) => {}
                Err((offset, error)) => {
                    let offset = offset.max(stopped_at);
                    self.unread.push(UnreadRange { offset, end, error });
                }
            }
            at = end;
        }
        Ok(None)
    }

    /// The same of what a reader has; where it stopped, if it could not go on.
    async fn scan(
        &mut self,
        mut records: RecordReader,
        at_least: u64,
    ) -> Result<Option<(u64, u64)>, (u64, Error)> {
        loop {
            let next = records.next().await.map_err(|error| (records.consumed(), error))?;
            let Some(record) = next else { return Ok(None) };
            if record.producer == self.producer && record.number >= at_least {
                return Ok(Some((record.number, record.offset)));
            }
            if record.producer == self.producer {
                self.before = self.before.max(record.offset);
            }
        }
    }

    /// Where the extent ends that has a byte.
    async fn extent_end(&self, offset: u64) -> Result<u64, Error> {
        let told = self.stream.extents(offset).await?;
        let end = told.extents.first().map(|it| it.offset.saturating_add(it.size));
        end.filter(|end| *end > offset).ok_or_else(Error::mismatched)
    }
}

#[cfg(test)]
mod tests {
    use super::{RecordEpoch, epoch_of};
    use cairn_protocol::{EndedEpoch, ProducerStatus};
    use cairn_types::{Epoch, RecordNumber};

    #[test]
    fn a_record_is_of_the_first_epoch_that_ended_behind_it() {
        let ended = [(3, 10), (4, 10), (6, 25)].map(|(epoch, number)| EndedEpoch {
            epoch: Epoch::new(epoch),
            number: RecordNumber::new(number),
        });
        let known = ProducerStatus {
            epoch: Epoch::new(7),
            number: RecordNumber::new(30),
            ended: ended.into(),
            ..ProducerStatus::default()
        };
        let is = |epoch| Some(RecordEpoch::In(Epoch::new(epoch)));
        assert_eq!(epoch_of(&known, 10), Some(RecordEpoch::UpTo(Epoch::new(3))));
        let told = [11, 25, 26, 30].map(|number| epoch_of(&known, number));
        assert_eq!(told, [is(6), is(6), is(7), is(7)]);
        assert_eq!([0, 31].map(|number| epoch_of(&known, number)), [None, None]);
        let first = ProducerStatus { ended: Vec::new(), ..known };
        assert_eq!(epoch_of(&first, 1), is(7), "it was never opened before");
    }
}
