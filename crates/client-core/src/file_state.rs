//! What a client keeps of one file: locations, grants, and what is not synced yet.

use crate::locations::Locations;
use crate::stream_extents::StreamExtents;
use cairn_protocol::{ChunkGrant, LeasePurpose};
use cairn_types::planted::{Rule, broken};
use cairn_types::{ChunkIndex, ChunkVersion, LeaseId};
use std::collections::BTreeMap;

/// Grants for writes that are kept for one file.
const GRANTS_MAX: usize = 64;

/// What was written to a chunk since the last sync.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Unsynced {
    /// The count of the acknowledgement that came last.
    pub(crate) last: u64,
    /// Where in the chunk the furthest acknowledged byte ends.
    pub(crate) end: u64,
    /// The oldest life of the chunk's unsynced bytes that any of it was acknowledged in.
    pub(crate) life: u64,
}

/// Everything of one file.
#[derive(Debug, Default)]
pub(crate) struct FileState {
    pub(crate) locations: Locations,
    /// How often it was opened and not closed.
    pub(crate) opens: u32,
    writes: BTreeMap<ChunkIndex, ChunkGrant>,
    append: Option<ChunkGrant>,
    /// What is known of it, if it is a stream.
    stream: Option<Box<StreamExtents>>,
    /// Chunks written since the last sync.
    pub(crate) unsynced: BTreeMap<ChunkIndex, Unsynced>,
    acknowledged: u64,
}

impl FileState {
    /// What is known of a stream; none where it is none, or nobody has opened it here.
    pub(crate) fn stream(&self) -> Option<&StreamExtents> {
        self.stream.as_deref()
    }

    /// The same, to learn more.
    pub(crate) fn stream_mut(&mut self) -> Option<&mut StreamExtents> {
        self.stream.as_deref_mut()
    }

    /// It is opened, and a stream so long as of the question `asked`.
    pub(crate) fn is_stream(&mut self, length: u64, asked: u64) {
        self.stream = Some(Box::new(StreamExtents::new(length, asked)));
    }

    /// The grant to use: of a chunk, or of the file's end.
    pub(crate) fn grant(&self, purpose: LeasePurpose, index: ChunkIndex) -> Option<&ChunkGrant> {
        let of_append = self.append.as_ref();
        match purpose {
            LeasePurpose::Append => of_append,
            LeasePurpose::Write | LeasePurpose::Level => {
                self.writes.get(&index).or_else(|| of_append.filter(|grant| grant.index == index))
            }
        }
    }

    /// Keeps a grant for all who come after.
    pub(crate) fn keep_grant(&mut self, purpose: LeasePurpose, grant: ChunkGrant) {
        match purpose {
            LeasePurpose::Append => self.append = Some(grant),
            LeasePurpose::Write => {
                let index = grant.index;
                self.writes.insert(index, grant);
                if self.writes.len() > GRANTS_MAX {
                    // Any other than this one: someone waits for it.
                    let is_first =
                        self.writes.first_key_value().is_some_and(|(at, _)| *at == index);
                    if is_first {
                        self.writes.pop_last()
                    } else {
                        self.writes.pop_first()
                    };
                }
                assert!(self.writes.len() <= GRANTS_MAX, "one grant too many goes with each");
            }
            // Nobody mutates by it; what it tells of locations is kept with these.
            LeasePurpose::Level => {}
        }
    }

    /// Drops a grant that was refused (R12), unless a newer one has taken its place.
    pub(crate) fn drop_grant(&mut self, lease: LeaseId, version: ChunkVersion) {
        if broken(Rule::R12) {
            return;
        }
        let other = |grant: &ChunkGrant| grant.lease != lease || grant.version != version;
        self.writes.retain(|_, grant| other(grant));
        self.append = self.append.take().filter(|grant| other(grant));
    }

    /// A mutation up to `end` of a chunk was acknowledged that may not be on disk yet.
    pub(crate) fn written(&mut self, index: ChunkIndex, end: u64, life: u64) {
        self.acknowledged += 1;
        let first = Unsynced { life, ..Unsynced::default() };
        let before = self.unsynced.get(&index).copied().unwrap_or(first);
        let (end, life) = (before.end.max(end), before.life.min(life));
        self.unsynced.insert(index, Unsynced { last: self.acknowledged, end, life });
    }

    /// Whether nothing would be lost by forgetting it.
    pub(crate) fn is_idle(&self) -> bool {
        self.opens == 0 && self.unsynced.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::{FileState, GRANTS_MAX};
    use cairn_protocol::{ChunkGrant, LeasePurpose};
    use cairn_types::{ChunkIndex, ChunkVersion, LeaseId};

    #[test]
    fn a_grant_just_given_is_kept_however_many_of_later_chunks_are() {
        let mut file = FileState::default();
        for index in (0..=2 * GRANTS_MAX as u64).rev() {
            let index = ChunkIndex::new(index);
            file.keep_grant(LeasePurpose::Write, ChunkGrant { index, ..ChunkGrant::default() });
            assert!(file.grant(LeasePurpose::Write, index).is_some(), "{index}");
        }
        assert_eq!(file.writes.len(), GRANTS_MAX);
    }

    #[test]
    fn a_refused_grant_is_dropped_but_not_the_one_that_replaced_it() {
        let grant = |lease, version| ChunkGrant {
            lease: LeaseId::new(lease),
            version: ChunkVersion::new(version),
            ..ChunkGrant::default()
        };
        let mut file = FileState::default();
        file.keep_grant(LeasePurpose::Append, grant(1, 2));
        file.drop_grant(LeaseId::new(1), ChunkVersion::new(1));
        let kept = file.grant(LeasePurpose::Append, ChunkIndex::default());
        assert_eq!(kept, Some(&grant(1, 2)));
        file.drop_grant(LeaseId::new(1), ChunkVersion::new(2));
        assert_eq!(file.grant(LeasePurpose::Append, ChunkIndex::default()), None);
    }
}
