//! What a file of bytes may read as, byte by byte: the simulator's own oracle for regions (Table
//! 1), bad bytes and lost acknowledged bytes.
//!
//! ```text
//!   write: |invoked ────────── returned|            read: |from ───── until|
//! ```
//! - M1: a byte is that of a write invoked before the read ended, or zero.
//! - M2: a write that another, acknowledged one followed (in true time, and acknowledged before
//!   the read began) is seen no more; after any acknowledged write zero is seen no more.
//! - M3: a write that failed as *not done* is never seen. One that is *unknown* may be seen until
//!   an acknowledged later write of the same client covers it (R15), and by nobody's leave after.
//! - M4: a read is as long as the acknowledged writes, and not longer than all that were tried. (A
//!   write of several chunks that failed as not done may have made the later ones: the file is
//!   longer by zeros then, and by zeros only.)
//! - M5: where what is only in the page cache may be lost (§5), all of this is asked of synced
//!   writes as it is of acknowledged ones elsewhere; and never is a byte what nobody wrote there.

use cairn_env_sim::WorldTime;

/// How a write ended, so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MutationEnd {
    Pending,
    Acknowledged(WorldTime),
    Unknown(WorldTime),
    NotDone,
}

/// Which writes a read must show, or what came after them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadDemand {
    Acknowledged,
    /// Only those that were synced: the others may be lost (M5).
    Synced,
    /// None.
    Nothing,
}

/// One write.
#[derive(Clone, Debug)]
pub(crate) struct WriteNote {
    pub(crate) client: usize,
    pub(crate) offset: u64,
    pub(crate) size: u64,
    pub(crate) invoked: WorldTime,
    pub(crate) ended: MutationEnd,
    /// When it was acknowledged to be on all disks.
    pub(crate) synced: Option<WorldTime>,
}

/// A read's range and time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReadNote {
    pub(crate) client: usize,
    pub(crate) offset: u64,
    pub(crate) size: u64,
    pub(crate) from: WorldTime,
    pub(crate) until: WorldTime,
}

/// All writes of one file.
#[derive(Debug, Default)]
pub(crate) struct FileModel {
    pub(crate) writes: Vec<WriteNote>,
}

/// The byte that write number `write` has at `position` of the file; never zero.
pub(crate) fn byte_of(write: usize, position: u64) -> u8 {
    let mixed = (write as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ position;
    let mixed = (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    u8::try_from((mixed >> 33) % 255).expect("below 255") + 1
}

/// What a write of this number puts at `offset`.
pub(crate) fn bytes_of(write: usize, offset: u64, size: u64) -> Vec<u8> {
    (offset..offset + size).map(|position| byte_of(write, position)).collect()
}

impl WriteNote {
    fn end(&self) -> u64 {
        self.offset + self.size
    }

    fn covers(&self, position: u64) -> bool {
        (self.offset..self.end()).contains(&position)
    }

    fn acknowledged_by(&self, at: WorldTime) -> bool {
        matches!(self.ended, MutationEnd::Acknowledged(when) if when <= at)
    }

    fn is_demanded(&self, demand: ReadDemand, at: WorldTime) -> bool {
        match demand {
            ReadDemand::Acknowledged => self.acknowledged_by(at),
            ReadDemand::Synced => self.synced.is_some_and(|when| when <= at),
            ReadDemand::Nothing => false,
        }
    }

    /// Whether, once `later` is acknowledged, nothing of this one is seen where it covers (M2, M3).
    fn hidden_by(&self, later: &Self) -> bool {
        match self.ended {
            MutationEnd::Acknowledged(when) => when <= later.invoked,
            MutationEnd::Unknown(when) => when <= later.invoked && self.client == later.client,
            MutationEnd::Pending | MutationEnd::NotDone => false,
        }
    }
}

impl FileModel {
    /// A write begins; its number.
    pub(crate) fn begin(
        &mut self,
        client: usize,
        offset: u64,
        size: u64,
        invoked: WorldTime,
    ) -> usize {
        let ended = MutationEnd::Pending;
        self.writes.push(WriteNote { client, offset, size, invoked, ended, synced: None });
        self.writes.len() - 1
    }

    /// A write has ended.
    pub(crate) fn end(&mut self, write: usize, ended: MutationEnd) {
        self.writes[write].ended = ended;
    }

    /// What was acknowledged to a client by `since` and is not `lost` is on all disks at `now`.
    pub(crate) fn synced(
        &mut self,
        client: usize,
        since: WorldTime,
        now: WorldTime,
        lost: impl Fn(&WriteNote) -> bool,
    ) {
        let own = self.writes.iter_mut().filter(|write| write.client == client);
        for write in own.filter(|it| it.acknowledged_by(since) && !lost(it)) {
            write.synced.get_or_insert(now);
        }
    }

    /// Judges what a read gave.
    pub(crate) fn judge(
        &self,
        read: ReadNote,
        bytes: &[u8],
        demand: ReadDemand,
    ) -> Result<(), String> {
        self.judge_length(read, bytes.len() as u64, demand)?;
        self.judge_bytes(read, bytes, demand)
    }

    /// Judges the bytes that a read gave, however few they are.
    pub(crate) fn judge_bytes(
        &self,
        read: ReadNote,
        bytes: &[u8],
        demand: ReadDemand,
    ) -> Result<(), String> {
        let end = read.offset + bytes.len() as u64;
        let mut cuts: Vec<u64> = self
            .writes
            .iter()
            .flat_map(|write| [write.offset, write.end()])
            .filter(|cut| (read.offset..end).contains(cut))
            .chain([read.offset, end])
            .collect();
        cuts.sort_unstable();
        cuts.dedup();
        for pair in cuts.windows(2) {
            let (candidates, zero) = self.candidates(pair[0], read, demand);
            for position in pair[0]..pair[1] {
                let index = usize::try_from(position - read.offset).expect("within the read");
                let byte = bytes[index];
                let fits = (byte == 0 && zero)
                    || candidates.iter().any(|write| byte_of(*write, position) == byte);
                if !fits {
                    return Err(self.complaint(position, byte, &candidates, zero));
                }
            }
        }
        Ok(())
    }

    fn complaint(&self, position: u64, byte: u8, candidates: &[usize], zero: bool) -> String {
        let whose: Vec<usize> = (0..self.writes.len())
            .filter(|write| {
                self.writes[*write].covers(position) && byte_of(*write, position) == byte
            })
            .collect();
        let notes: Vec<String> = whose
            .iter()
            .chain(candidates)
            .map(|write| format!("{write}: {:?}", self.writes[*write]))
            .collect();
        format!(
            "byte {byte:#x} at {position} is of none of the writes {candidates:?} (zero allowed: \
             {zero}); it looks like that of {whose:?}; {notes:?}"
        )
    }

    /// Which writes a byte may be of, and whether it may be zero.
    fn candidates(&self, position: u64, read: ReadNote, demand: ReadDemand) -> (Vec<usize>, bool) {
        let covering: Vec<usize> =
            (0..self.writes.len()).filter(|at| self.writes[*at].covers(position)).collect();
        let settled: Vec<&WriteNote> = covering
            .iter()
            .map(|at| &self.writes[*at])
            .filter(|write| write.is_demanded(demand, read.from))
            .collect();
        let zero = settled.is_empty();
        let candidates = covering
            .into_iter()
            .filter(|at| {
                let write = &self.writes[*at];
                write.ended != MutationEnd::NotDone
                    && write.invoked <= read.until
                    && !settled.iter().any(|later| write.hidden_by(later))
            })
            .collect();
        (candidates, zero)
    }

    fn judge_length(&self, read: ReadNote, got: u64, demand: ReadDemand) -> Result<(), String> {
        let demanded = self.writes.iter().filter(|write| write.is_demanded(demand, read.from));
        let end = demanded.map(WriteNote::end).max().unwrap_or(0);
        let least = end.saturating_sub(read.offset).min(read.size);
        let most = self
            .writes
            .iter()
            .filter(|write| write.invoked <= read.until)
            .map(WriteNote::end)
            .max()
            .unwrap_or(0)
            .saturating_sub(read.offset)
            .min(read.size);
        if got < least {
            return Err(format!(
                "{got} bytes at {} where {least} are demanded ({demand:?})",
                read.offset
            ));
        }
        if got > most {
            return Err(format!("{got} bytes at {} where only {most} were tried", read.offset));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{FileModel, MutationEnd, ReadDemand, ReadNote, bytes_of};
    use cairn_env_sim::WorldTime;

    const ALL: ReadDemand = ReadDemand::Acknowledged;

    fn read(at: u64, size: u64) -> ReadNote {
        ReadNote { client: 0, offset: 0, size, from: WorldTime(at), until: WorldTime(at + 1) }
    }

    fn written(ends: &[(u64, MutationEnd)]) -> FileModel {
        let mut model = FileModel::default();
        for (invoked, ended) in ends {
            let write = model.begin(0, 0, 10, WorldTime(*invoked));
            model.end(write, *ended);
        }
        model
    }

    #[test]
    fn an_acknowledged_write_must_be_seen_and_what_it_covered_must_not() {
        let model = written(&[
            (1, MutationEnd::Acknowledged(WorldTime(2))),
            (3, MutationEnd::Acknowledged(WorldTime(4))),
        ]);
        assert_eq!(model.judge(read(5, 10), &bytes_of(1, 0, 10), ALL), Ok(()));
        assert!(model.judge(read(5, 10), &bytes_of(0, 0, 10), ALL).is_err(), "M2");
        assert!(model.judge(read(5, 10), &[0; 10], ALL).is_err(), "M2");
        assert!(model.judge(read(5, 10), &bytes_of(1, 0, 9), ALL).is_err(), "M4");
    }

    #[test]
    fn a_pending_write_may_be_seen_in_parts_and_one_not_done_never() {
        let model =
            written(&[(1, MutationEnd::Acknowledged(WorldTime(2))), (3, MutationEnd::Pending)]);
        let mixed = [bytes_of(0, 0, 4), bytes_of(1, 4, 6)].concat();
        assert_eq!(model.judge(read(5, 10), &mixed, ALL), Ok(()));
        let model =
            written(&[(1, MutationEnd::Acknowledged(WorldTime(2))), (3, MutationEnd::NotDone)]);
        assert!(model.judge(read(5, 10), &mixed, ALL).is_err(), "M3");
    }

    #[test]
    fn an_unknown_write_does_not_come_back_after_a_later_one_of_the_same_client() {
        let model = written(&[
            (1, MutationEnd::Unknown(WorldTime(2))),
            (3, MutationEnd::Acknowledged(WorldTime(4))),
        ]);
        assert!(model.judge(read(5, 10), &bytes_of(0, 0, 10), ALL).is_err(), "M3");
        let model = written(&[
            (1, MutationEnd::Acknowledged(WorldTime(2))),
            (3, MutationEnd::Unknown(WorldTime(4))),
        ]);
        assert_eq!(model.judge(read(5, 10), &bytes_of(1, 0, 10), ALL), Ok(()));
    }

    #[test]
    fn a_synced_write_must_be_seen_and_one_that_was_not_may_be_lost_to_what_stood_before() {
        let mut model = written(&[
            (1, MutationEnd::Acknowledged(WorldTime(2))),
            (3, MutationEnd::Acknowledged(WorldTime(4))),
            (6, MutationEnd::Acknowledged(WorldTime(7))),
        ]);
        model.synced(0, WorldTime(5), WorldTime(6), |_| false);
        let judge =
            |write: usize| model.judge(read(8, 10), &bytes_of(write, 0, 10), ReadDemand::Synced);
        assert_eq!((judge(1), judge(2)), (Ok(()), Ok(())));
        assert!(judge(0).is_err(), "M5");
        assert!(model.judge(read(8, 10), &[0; 10], ReadDemand::Synced).is_err(), "M5");
        assert_eq!(model.judge(read(8, 10), &[0; 10], ReadDemand::Nothing), Ok(()));
        assert!(model.judge(read(8, 10), &[1; 10], ReadDemand::Nothing).is_err(), "M5");
    }
}
