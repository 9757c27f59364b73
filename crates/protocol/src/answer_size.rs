//! How large the answer to a request may be: what a server has to have room for before it begins.
//!
//! - Z1: an answer is no larger than said here, but for texts that servers chose for themselves
//!   (addresses and racks), which are taken to be of common length.

use crate::{
    BATCH_LOCATIONS_SIZE_MAX, BATCH_OPEN_COUNT_MAX, BUSIEST_COUNT_MAX, Batch, BatchEntry,
    CURSOR_SIZE_MAX, EXTENTS_CHUNKS_MAX, EXTENTS_MAX, LOCATE_COUNT_MAX, MESSAGE_SIZE_MAX,
    OPEN_EXTENTS_CHUNKS_MAX, OPEN_EXTENTS_MAX, PAYLOAD_SIZE_MAX, PRODUCER_NAME_SIZE_MAX,
    QUOTAS_TOLD_MAX, Request,
};
use cairn_types::{NAME_SIZE_MAX, PATH_SIZE_MAX};

/// An answer of a few numbers, or a failure's line beside what the request itself said.
pub const SMALL_ANSWER_SIZE: usize = 1 << 10;
/// An entry of a directory: a name, ids, times.
const ENTRY_SIZE: usize = NAME_SIZE_MAX + 128;
/// A chunk with its replicas, as most cells have them.
const LOCATION_SIZE: usize = 1 << 10;
/// An extent of a stream: offsets, sizes, a handle.
const EXTENT_SIZE: usize = 48;
/// Entries of a page, where the request does not say fewer.
const PAGE_COUNT: usize = 1000;
/// A page of paths ends where it has so many bytes.
const PATHS_SIZE: usize = (1 << 20) + 4 * PATH_SIZE_MAX;

impl Request {
    /// Bytes that its answer may have (Z1), payload included.
    #[must_use]
    pub fn answer_size_max(&self) -> usize {
        let whole = MESSAGE_SIZE_MAX as usize;
        match self {
            Self::Read(read) => {
                let payload = size_of_count(read.size).min(PAYLOAD_SIZE_MAX as usize);
                // A checksum for each block, which may be as small as a page.
                payload + payload / 1024 + SMALL_ANSWER_SIZE
            }
            // Whole blocks, as many as a read's answer.
            Self::Fetch(_) => 2 * whole,
            Self::List(list) => SMALL_ANSWER_SIZE + page(list.limit) * ENTRY_SIZE,
            Self::Find(find) => {
                let found = page(find.limit) * (PATH_SIZE_MAX + ENTRY_SIZE);
                SMALL_ANSWER_SIZE + found.min(PATHS_SIZE)
            }
            Self::ListDegraded(list) => (SMALL_ANSWER_SIZE
                + page(list.limit) * (PATH_SIZE_MAX + SMALL_ANSWER_SIZE))
                .min(whole),
            Self::ListDeleted(list) => (SMALL_ANSWER_SIZE
                + page(list.limit) * 2 * (PATH_SIZE_MAX + SMALL_ANSWER_SIZE))
                .min(whole),
            Self::ListLost(list) => {
                (SMALL_ANSWER_SIZE + page(list.limit) * LOCATION_SIZE).min(whole)
            }
            Self::Open(open) => {
                let extents = (open.extents as usize).min(OPEN_EXTENTS_MAX);
                let chunks = located(open.count).max(extents.min(OPEN_EXTENTS_CHUNKS_MAX));
                SMALL_ANSWER_SIZE + chunks * LOCATION_SIZE + extents * EXTENT_SIZE
            }
            Self::ReadExtents(ask) => {
                let limit = if ask.limit == 0 { EXTENTS_MAX } else { ask.limit as usize };
                let extents = limit.min(EXTENTS_MAX);
                let chunks = extents.min(EXTENTS_CHUNKS_MAX);
                SMALL_ANSWER_SIZE + chunks * LOCATION_SIZE + extents * EXTENT_SIZE
            }
            Self::ListProducers(list) => {
                let producer = PRODUCER_NAME_SIZE_MAX + CURSOR_SIZE_MAX + 256;
                (SMALL_ANSWER_SIZE + page(list.limit) * producer).min(whole)
            }
            Self::Locate(locate) => SMALL_ANSWER_SIZE + located(locate.count) * LOCATION_SIZE,
            Self::GetPolicy(_) => SMALL_ANSWER_SIZE + 4 * PATH_SIZE_MAX,
            Self::Busiest(_) => SMALL_ANSWER_SIZE + BUSIEST_COUNT_MAX * (PATH_SIZE_MAX + 512),
            Self::GetQuota(_) => SMALL_ANSWER_SIZE + QUOTAS_TOLD_MAX * 2 * PATH_SIZE_MAX,
            Self::CountShared(count) => SMALL_ANSWER_SIZE + 32 * count.files.len(),
            Self::Batch(batch) => batch.answer_size_max().min(whole),
            Self::ListChunks(list) => {
                let chunk = PATH_SIZE_MAX + 8 * SMALL_ANSWER_SIZE;
                (SMALL_ANSWER_SIZE + page(list.limit) * chunk).min(whole)
            }
            Self::AskShadow(ask) => {
                SMALL_ANSWER_SIZE + Self::from(ask.question.clone()).answer_size_max()
            }
            // All that it tells of may be unknown.
            Self::TellShadow(tell) => SMALL_ANSWER_SIZE + 16 * tell.replicas.0.len(),
            Self::ListHeld(list) => SMALL_ANSWER_SIZE + page(list.limit) * 64,
            Self::Servers(_)
            | Self::Status(_)
            | Self::Explain(_)
            | Self::Recover(_)
            | Self::Inventory(_)
            | Self::RepairStatus(_)
            | Self::Resources(_)
            | Self::ListDisks(_)
            | Self::RecentRpcs(_) => whole / 2,
            // All that it tells of may be garbage.
            Self::Heartbeat(beat) => {
                4 * SMALL_ANSWER_SIZE + 16 * beat.leases.len() + 32 * beat.held.len()
            }
            Self::ReadBackup(_) => whole,
            Self::FetchCheckpoint(fetch) => {
                whole + size_of_count(fetch.size).min(PAYLOAD_SIZE_MAX as usize)
            }
            _ => SMALL_ANSWER_SIZE,
        }
    }
}

impl Batch {
    fn answer_size_max(&self) -> usize {
        let (mut all, mut locations) = (SMALL_ANSWER_SIZE, 0);
        for entry in &self.entries {
            // What failed says of which path.
            all += SMALL_ANSWER_SIZE + entry.paths_size();
            if let BatchEntry::Open(open) = entry {
                locations += located(open.count.min(BATCH_OPEN_COUNT_MAX)) * LOCATION_SIZE;
            }
        }
        all + locations.min(BATCH_LOCATIONS_SIZE_MAX)
    }
}

fn page(limit: u32) -> usize {
    match limit {
        0 => PAGE_COUNT,
        limit => (limit as usize).min(PAGE_COUNT),
    }
}

fn located(count: u32) -> usize {
    count.min(LOCATE_COUNT_MAX) as usize
}

fn size_of_count(size: u64) -> usize {
    usize::try_from(size).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::SMALL_ANSWER_SIZE;
    use crate::{
        Batch, BatchEntry, Find, List, ListAnswer, ListDegraded, Locate, MESSAGE_SIZE_MAX, Open,
        PAYLOAD_SIZE_MAX, Probe, Read, Request, Stat,
    };
    use cairn_types::wire::Message;
    use cairn_types::{Attributes, Entry, NAME_SIZE_MAX};

    #[test]
    fn no_number_in_a_request_makes_its_answer_larger_than_a_frame() {
        let most = u32::MAX;
        let entry = BatchEntry::Open(Open { count: most, ..Open::default() });
        let requests: [Request; 7] = [
            Read { size: u64::MAX, ..Read::default() }.into(),
            List { limit: most, ..List::default() }.into(),
            Find { limit: most, ..Find::default() }.into(),
            ListDegraded { limit: most, ..ListDegraded::default() }.into(),
            Open { count: most, ..Open::default() }.into(),
            Locate { count: most, ..Locate::default() }.into(),
            Batch { entries: vec![entry; 100_000] }.into(),
        ];
        for request in requests {
            let size = request.answer_size_max();
            let limit = match &request {
                Request::Read(_) => PAYLOAD_SIZE_MAX / 1024 * 1025 + 1024,
                _ => MESSAGE_SIZE_MAX,
            };
            assert!(size <= limit as usize, "{}: {size}", request.name());
        }
    }

    #[test]
    fn a_full_page_of_the_longest_names_is_no_larger_than_said() {
        let attributes =
            Some(Attributes { owner: u32::MAX, group: u32::MAX, mode: u32::MAX }.into());
        let name = "n".repeat(NAME_SIZE_MAX);
        let entry = Entry { name, attributes, ..Entry::default() };
        let answer = ListAnswer { entries: vec![entry; 1000], ..ListAnswer::default() };
        let said = Request::from(List { limit: 1000, ..List::default() }).answer_size_max();
        assert!(answer.to_bytes().len() <= said);
    }

    #[test]
    fn a_few_numbers_are_answered_with_little() {
        for request in [Request::from(Probe::default()), Stat::default().into()] {
            assert_eq!(request.answer_size_max(), SMALL_ANSWER_SIZE);
        }
    }
}
