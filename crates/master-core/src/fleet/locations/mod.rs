//! What is known of each chunk's replicas: soft, told by the servers that hold them (§2.6.2).
//!
//! ```text
//!                    all replicas sound and alike, all told since the last lease
//!   unsettled ─────────────────────────────────────────────────────────────────────► settled
//!   a map of replicas ◄──────────────────────────────────────────────── a few bytes in a page
//!                    one differs · is damaged · a lease ends
//! ```
//! Nearly all chunks of a large cell are settled: nobody changes them, and their replicas are
//! alike. What they are is written down once for all of them (`entry.rs`), and who holds them by
//! number (`server_numbers.rs`).
//!
//! - L1: within one life of a server what it told never goes back: a word that was overtaken on
//!   its way changes nothing.
//! - L2: a replica at the logged version or above is up to date (R9).
//! - L3: of those, with no lease live, the ones that lack what was acknowledged are stale (R29).
//! - L4: a chunk is settled or unsettled, never both, and settled whenever it can be. When its
//!   replicas told, and since when no lease is known, is forgotten then: all of them told since.
//! - L5: what a server told in a life that is over does not count, whether it is swept away yet or
//!   not.
//! - L6: what a server held that died is remembered, for people and for what may be kept for them,
//!   until it joins again or the chunk has gone on without it.
//! - L7: only chunks of the chunk table are here: a page remembers which of its handles the table
//!   has, and for those it is not asked again. What the table loses is forgotten at once.

mod entry;
#[cfg(test)]
mod model_test;
mod page;
mod pages;
mod replica;
mod server_numbers;

pub(crate) use replica::{KnownReplica, behind};

use cairn_protocol::ReplicaReport;
use cairn_types::{ChunkHandle, ChunkVersion, ServerId, Time};
use entry::{HOLDERS_MAX, HolderNumbers, put_facts, put_server};
use page::{Scratch, Slot};
use pages::{GroupNumber, Pages, in_one_page, page_around};
use server_numbers::{ServerNumber, ServerNumbers};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;

/// Groups of 8 192 handles, and unsettled chunks, that one sweep looks at: a millisecond or two.
const GROUPS_SWEPT: usize = 8;
const UNSETTLED_SWEPT: usize = 4096;
/// Pages that one step of a walk looks at.
const PAGES_WALKED: usize = 1024;

/// Where a walk over all chunks goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WalkPlace {
    /// Settled ones, from this one's page.
    Settled(ChunkHandle),
    /// Unsettled ones, from this one.
    Unsettled(ChunkHandle),
}

impl Default for WalkPlace {
    fn default() -> Self {
        Self::Settled(ChunkHandle::default())
    }
}

/// A chunk whose replicas are not, or not known to be, all alike.
#[derive(Debug, Default)]
struct Unsettled {
    /// In order of server.
    replicas: Vec<(ServerNumber, KnownReplica)>,
    /// No lease is known to have been live since then.
    quiet: Time,
}

/// All replicas that are known.
#[derive(Debug, Default)]
pub(crate) struct LocationTable {
    numbers: ServerNumbers,
    settled: Pages,
    unsettled: BTreeMap<ChunkHandle, Unsettled>,
    /// Where the sweep goes on, in either map.
    swept: (GroupNumber, ChunkHandle),
    /// A page that is being written anew.
    scratch: Scratch,
}

/// What came of a report beside the entry of its chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EntryChange {
    /// It stands there already.
    Known,
    /// The entry was written with it.
    Written,
    /// It does not fit the entry.
    Unlike,
}

/// Writes the entry of a chunk with one holder more; `known` is the entry that is there.
fn joined(
    numbers: &mut ServerNumbers,
    (number, server): (ServerNumber, ServerId),
    base: ChunkVersion,
    heard: &KnownReplica,
    known: Option<&[u8]>,
    entry: &mut Vec<u8>,
) -> EntryChange {
    let start = entry.len();
    put_facts(entry, base, heard);
    let Some(known) = known else {
        put_server(entry, number);
        numbers.retain(number);
        return EntryChange::Written;
    };
    let Some(known) = known.strip_prefix(&entry[start..]).map(HolderNumbers) else {
        return EntryChange::Unlike;
    };
    if known.into_iter().any(|other| other == number) {
        return EntryChange::Known;
    }
    if known.count() >= HOLDERS_MAX {
        return EntryChange::Unlike;
    }
    let mut waits = Some(number);
    for other in known {
        let Some(id) = numbers.holder(other) else {
            numbers.release(other);
            continue;
        };
        if id > server
            && let Some(number) = waits.take()
        {
            put_server(entry, number);
        }
        put_server(entry, other);
    }
    if let Some(number) = waits {
        put_server(entry, number);
    }
    numbers.retain(number);
    EntryChange::Written
}

impl LocationTable {
    /// Takes in what a server says of several replicas, one after the other (L1), and answers those
    /// of chunks that the table has not (L7). In handle order they cost least: each page is written
    /// anew once for all of its chunks.
    ///
    /// `table` gives those chunks of a range of handles that the chunk table has.
    pub(super) fn report_all<'a, T: Iterator<Item = ChunkHandle>>(
        &mut self,
        now: Time,
        server: ServerId,
        mut reports: &'a [ReplicaReport],
        table: impl Fn(RangeInclusive<ChunkHandle>) -> T,
    ) -> Vec<&'a ReplicaReport> {
        let mut unlisted = Vec::new();
        // Numbers do not run out before servers do; what is not taken in is told again.
        let Some(number) = self.number_of(server) else { return unlisted };
        // To ask for all of a page at once costs what a few cost one by one.
        let asks_pages = reports.len() > 1;
        while !reports.is_empty() {
            let together = reports.windows(2).take_while(|pair| {
                pair[0].handle < pair[1].handle && in_one_page(pair[0].handle, pair[1].handle)
            });
            let (run, rest) = reports.split_at(1 + together.count());
            reports = rest;
            let listed = self.listed(run, asks_pages, &table);
            let left = self.report_settled(now, (number, server), (run, listed));
            for report in left {
                if !Slot::of(report.handle).is_in(listed) {
                    unlisted.push(report);
                    continue;
                }
                self.unsettle(report.handle);
                self.report_unsettled(
                    (number, server),
                    report.handle,
                    KnownReplica::of(report, now),
                );
                self.settle(report.handle);
            }
        }
        unlisted
    }

    /// Which chunks of a page the table has, a bit each, those of these reports at least.
    fn listed<T: Iterator<Item = ChunkHandle>>(
        &self,
        run: &[ReplicaReport],
        asks_pages: bool,
        table: impl Fn(RangeInclusive<ChunkHandle>) -> T,
    ) -> u128 {
        let Some(ReplicaReport { handle, .. }) = run.first() else { return 0 };
        let known = self.settled.listed(*handle);
        let is_known = |report: &ReplicaReport| Slot::of(report.handle).is_in(known);
        if run.iter().all(is_known) {
            return known;
        }
        let asked = if asks_pages { page_around(*handle) } else { *handle..=*handle };
        table(asked).fold(known, |listed, handle| listed | Slot::of(handle).bit())
    }

    /// Takes in reports of one page, in handle order, that leave their chunks settled, or make new
    /// ones so: most do. Answers the others, and those of chunks that are not `listed`.
    fn report_settled<'a>(
        &mut self,
        now: Time,
        at: (ServerNumber, ServerId),
        (run, listed): (&'a [ReplicaReport], u128),
    ) -> Vec<&'a ReplicaReport> {
        let may_settle = |report: &&ReplicaReport| {
            KnownReplica::of(report, now).is_sound()
                && Slot::of(report.handle).is_in(listed)
                && !self.unsettled.contains_key(&report.handle)
        };
        let (alike, mut left): (Vec<&ReplicaReport>, Vec<_>) = run.iter().partition(may_settle);
        let Some(first) = alike.first() else { return left };
        // What is new is always written: no page stays empty (PG1 of the pages).
        let page = self.settled.page_of(first.handle, first.version);
        page.list(listed);
        let (base, numbers) = (page.base(), &mut self.numbers);
        let slots = alike.iter().map(|report| (Slot::of(report.handle), *report));
        page.rewrite(slots, &mut self.scratch, |report, known, entry| {
            let outcome = joined(numbers, at, base, &KnownReplica::of(report, now), known, entry);
            if outcome == EntryChange::Unlike {
                left.push(report);
            }
            outcome == EntryChange::Written
        });
        left
    }

    fn report_unsettled(
        &mut self,
        (number, server): (ServerNumber, ServerId),
        handle: ChunkHandle,
        heard: KnownReplica,
    ) {
        let chunk = self.unsettled.entry(handle).or_default();
        match chunk.replicas.iter_mut().find(|(known, _)| *known == number) {
            Some((_, known)) if heard.order() < known.order() => {}
            Some((_, known)) => {
                let (damaged, closed) = (known.damaged, heard.closed | known.closed);
                *known = KnownReplica { damaged, closed, ..heard };
            }
            None => {
                let numbers = &mut self.numbers;
                let after = |(other, _): &(ServerNumber, KnownReplica)| {
                    numbers.holder(*other).is_some_and(|other| other > server)
                };
                let at = chunk.replicas.iter().position(after).unwrap_or(chunk.replicas.len());
                chunk.replicas.insert(at, (number, heard));
                numbers.retain(number);
            }
        }
    }

    /// The number of a server. Where all are given away, those of lives that are over are freed
    /// first, at the cost of a walk.
    fn number_of(&mut self, server: ServerId) -> Option<ServerNumber> {
        self.numbers.number_of(server).or_else(|| {
            self.swept = Default::default();
            self.sweep(usize::MAX, usize::MAX);
            self.numbers.number_of(server)
        })
    }

    /// Takes a chunk out of its page, so that its replicas may differ (L4).
    fn unsettle(&mut self, handle: ChunkHandle) {
        let Some((facts, servers)) = self.settled.get(handle) else { return };
        let replicas = servers.map(|number| (number, facts)).collect();
        self.settled.remove(handle);
        let unsettled = Unsettled { replicas, quiet: Time::default() };
        let both = self.unsettled.insert(handle, unsettled);
        assert!(both.is_none(), "a chunk is settled or unsettled, never both (L4)");
    }

    /// Puts a chunk into its page if it can be there (L4); forgets one that nobody holds.
    fn settle(&mut self, handle: ChunkHandle) {
        let numbers = &mut self.numbers;
        let Some(chunk) = self.unsettled.get_mut(&handle) else { return };
        chunk.replicas.retain(|(number, _)| {
            let counts = numbers.holder(*number).is_some();
            if !counts {
                numbers.release(*number);
            }
            counts
        });
        // L6
        let live = |(number, _): &&(ServerNumber, KnownReplica)| numbers.server(*number).is_some();
        let newest = chunk.replicas.iter().filter(live).map(|(_, replica)| replica.version).max();
        chunk.replicas.retain(|(number, replica)| {
            let left = numbers.server(*number).is_none() && Some(replica.version) < newest;
            if left {
                numbers.release(*number);
            }
            !left
        });
        let Some((_, first)) = chunk.replicas.first().copied() else {
            self.unsettled.remove(&handle);
            return;
        };
        let settled = chunk.replicas.iter().all(|(_, replica)| {
            replica.is_sound() && replica.is_like(&first) && replica.reported >= chunk.quiet
        });
        if !settled || chunk.replicas.len() > HOLDERS_MAX {
            return;
        }
        let both = self.settled.get(handle);
        assert!(both.is_none(), "a chunk is settled or unsettled, never both (L4)");
        let page = self.settled.page_of(handle, first.version);
        let base = page.base();
        let slot = (Slot::of(handle), &chunk.replicas);
        page.rewrite([slot].into_iter(), &mut self.scratch, |replicas, _, entry| {
            put_facts(entry, base, &first);
            replicas.iter().for_each(|(number, _)| put_server(entry, *number));
            true
        });
        self.unsettled.remove(&handle);
    }

    /// The replicas of a chunk, in order of server.
    pub(crate) fn of(&self, handle: ChunkHandle) -> impl Iterator<Item = (ServerId, KnownReplica)> {
        // L5
        let server = |(number, replica)| Some((self.numbers.server(number)?, replica));
        self.named(handle).filter_map(server)
    }

    /// The replicas of a chunk that servers held when they died (L6).
    pub(crate) fn lost(
        &self,
        handle: ChunkHandle,
    ) -> impl Iterator<Item = (ServerId, KnownReplica)> {
        let server = |(number, replica)| Some((self.numbers.buried(number)?, replica));
        self.named(handle).filter_map(server)
    }

    /// Whatever stands there of a chunk.
    fn named(
        &self,
        handle: ChunkHandle,
    ) -> impl Iterator<Item = (ServerNumber, KnownReplica)> + use<'_> {
        let settled = self.settled.get(handle);
        let unsettled = if settled.is_some() { None } else { self.unsettled.get(&handle) };
        let settled = settled.into_iter();
        let settled = settled.flat_map(|(facts, servers)| servers.map(move |at| (at, facts)));
        let unsettled = unsettled.into_iter().flat_map(|chunk| chunk.replicas.iter().copied());
        settled.chain(unsettled)
    }

    /// Has what is known of these chunks fetched from memory, all at once.
    pub(crate) fn touch(&self, handles: &[ChunkHandle]) {
        self.settled.touch(handles);
    }

    pub(crate) fn get(&self, handle: ChunkHandle, server: ServerId) -> Option<KnownReplica> {
        self.of(handle).find(|(at, _)| *at == server).map(|(_, replica)| replica)
    }

    /// How many replicas each server holds, or held when it died.
    pub(crate) fn counts(&self) -> BTreeMap<ServerId, u64> {
        self.numbers.counts()
    }

    /// A replica has bad blocks from here on, or none any more.
    pub(super) fn mark_damage(&mut self, handle: ChunkHandle, server: ServerId, damaged: bool) {
        let Some(number) = self.numbers.present(server) else { return };
        self.unsettle(handle);
        if let Some(chunk) = self.unsettled.get_mut(&handle) {
            let replica = chunk.replicas.iter_mut().find(|(known, _)| *known == number);
            if let Some((_, replica)) = replica {
                replica.damaged = damaged;
            }
        }
        self.settle(handle);
    }

    /// A lease has just ended: what is told from now on is where the bytes stay.
    pub(super) fn quiet_since(&mut self, handle: ChunkHandle, now: Time) {
        self.unsettle(handle);
        // Of a chunk that nobody holds nothing is told but from now on.
        if let Some(chunk) = self.unsettled.get_mut(&handle) {
            chunk.quiet = now;
        }
        self.settle(handle);
    }

    /// Since when no lease is known to have been live.
    pub(crate) fn quiet(&self, handle: ChunkHandle) -> Time {
        self.unsettled.get(&handle).map(|chunk| chunk.quiet).unwrap_or_default()
    }

    pub(super) fn remove(&mut self, handle: ChunkHandle, server: ServerId) {
        let Some(number) = self.numbers.present(server) else { return };
        self.unsettle(handle);
        if let Some(chunk) = self.unsettled.get_mut(&handle)
            && let Some(at) = chunk.replicas.iter().position(|(known, _)| *known == number)
        {
            chunk.replicas.remove(at);
            self.numbers.release(number);
        }
        self.settle(handle);
    }

    /// The table has the chunk no more (L7).
    pub(super) fn forget_chunk(&mut self, handle: ChunkHandle) {
        self.unsettle(handle);
        let chunk = self.unsettled.remove(&handle);
        for (number, _) in chunk.into_iter().flat_map(|chunk| chunk.replicas) {
            self.numbers.release(number);
        }
        self.settled.unlist(handle);
    }

    /// The server is dead: what it held counts no more (L6).
    pub(super) fn bury_server(&mut self, server: ServerId) {
        self.numbers.bury(server);
    }

    /// Forgets what a server held: it tells anew, or never will (L5).
    pub(super) fn remove_server(&mut self, server: ServerId) {
        self.numbers.end_life(server);
    }

    /// Sweeps away some of what is left of lives that are over, so that their numbers can be given
    /// again; to be called now and then.
    pub(super) fn sweep_some(&mut self) {
        self.sweep(GROUPS_SWEPT, UNSETTLED_SWEPT);
    }

    fn sweep(&mut self, groups: usize, chunks: usize) {
        if !self.numbers.any_dead() {
            return;
        }
        let (group, handle_from) = self.swept;
        let (numbers, mut removed) = (&self.numbers, Vec::new());
        let counts = |number| numbers.holder(number).is_some();
        let group = self.settled.retain((group, groups), counts, &mut removed);
        removed.into_iter().for_each(|number| self.numbers.release(number));
        let mut rest = self.unsettled.range(handle_from..).map(|(handle, _)| *handle);
        let handles: Vec<ChunkHandle> = rest.by_ref().take(chunks).collect();
        self.swept = (group, rest.next().unwrap_or_default());
        handles.into_iter().for_each(|handle| self.settle(handle));
    }

    /// Walks on over all chunks, until so many are found or enough was looked at: those that are
    /// unsettled, and of the others those that a server held which is dead, or which joined anew
    /// and has not told of them; or, where a server is named, those that it holds. Answers where to
    /// go on; nowhere at the end.
    pub(super) fn walk(
        &self,
        place: WalkPlace,
        holder: Option<ServerId>,
        count: usize,
        found: &mut Vec<ChunkHandle>,
    ) -> Option<WalkPlace> {
        match place {
            WalkPlace::Settled(handle) => Some(self.walk_settled(handle, (holder, count), found)),
            WalkPlace::Unsettled(handle) => {
                let mut rest = self.unsettled.range(handle..).map(|(handle, _)| *handle);
                found.extend(rest.by_ref().take(count));
                rest.next().map(WalkPlace::Unsettled)
            }
        }
    }

    fn walk_settled(
        &self,
        mut handle: ChunkHandle,
        (holder, count): (Option<ServerId>, usize),
        found: &mut Vec<ChunkHandle>,
    ) -> WalkPlace {
        let enough = found.len() + count;
        // One that holds nothing has no number, and nobody's is found.
        let wanted = |number| match holder {
            Some(holder) => self.numbers.server(number) == Some(holder),
            None => self.numbers.server(number).is_none(),
        };
        for _ in 0..PAGES_WALKED {
            let Some((first, page)) = self.settled.page_from(handle) else {
                return WalkPlace::Unsettled(ChunkHandle::default());
            };
            page.each(|slot, mut holders| {
                if holders.any(wanted) {
                    found.push(slot.handle(first));
                }
            });
            handle = ChunkHandle::new(page_around(first).end().get() + 1);
            if found.len() >= enough {
                break;
            }
        }
        WalkPlace::Settled(handle)
    }
}

#[cfg(test)]
mod tests {
    use super::{LocationTable, WalkPlace, behind};
    use cairn_protocol::ReplicaReport;
    use cairn_types::{ChunkHandle, ChunkVersion, SerialNumber, ServerId, Time};
    use std::cell::Cell;
    use std::ops::RangeInclusive;
    use std::time::Duration;

    const HANDLE: ChunkHandle = ChunkHandle::new(7);

    fn server(id: u64) -> ServerId {
        ServerId::new(id)
    }

    fn tell(locations: &mut LocationTable, now: Time, server: ServerId, report: ReplicaReport) {
        let unlisted = locations.report_all(now, server, &[report], |_| [HANDLE].into_iter()).len();
        assert_eq!(unlisted, 0);
    }

    #[test]
    fn a_word_that_was_overtaken_changes_nothing() {
        let mut locations = LocationTable::default();
        let report = |version: u64| ReplicaReport {
            handle: HANDLE,
            version: ChunkVersion::new(version),
            ..ReplicaReport::default()
        };
        let at = |millis| Time::default() + Duration::from_millis(millis);
        tell(&mut locations, at(2), server(1), report(6));
        locations.quiet_since(HANDLE, at(3));
        tell(&mut locations, at(4), server(1), report(5));
        let known = locations.get(HANDLE, server(1)).expect("reported");
        assert_eq!(known.version, ChunkVersion::new(6));
        assert!(known.reported < locations.quiet(HANDLE), "it has told nothing since");
    }

    #[test]
    fn the_replicas_of_a_chunk_take_few_bytes() {
        const COUNT: u64 = 8 * 8192;
        let mut locations = LocationTable::default();
        let table = |range: RangeInclusive<ChunkHandle>| {
            (range.start().get()..=range.end().get()).map(ChunkHandle::new)
        };
        // One chunk for each second number: the other was its file's. Three replicas of each on
        // sixteen servers.
        for id in 0..16 {
            let held = (0..COUNT).step_by(2).filter(|n| (n / 2 + 16 - id) % 16 < 3);
            let reports: Vec<ReplicaReport> = held
                .map(|number| ReplicaReport {
                    handle: ChunkHandle::new(number),
                    version: ChunkVersion::new(number + 1),
                    mutated_version: ChunkVersion::new(number + 1),
                    serial: SerialNumber::new(2),
                    acknowledged_serial: SerialNumber::new(2),
                    length: 60_000_000 + number,
                    acknowledged: 60_000_000 + number,
                    closed: true,
                    ..ReplicaReport::default()
                })
                .collect();
            for slice in reports.chunks(4096) {
                locations.report_all(Time::default(), server(1001 * id), slice, table);
            }
        }
        assert_eq!(locations.of(ChunkHandle::new(4096)).count(), 3);
        let each = locations.settled.memory_size() as u64 / (COUNT / 2);
        assert!(each <= 16, "{each} bytes a chunk");
    }

    #[test]
    fn the_table_is_asked_once_for_the_chunks_of_a_page() {
        let (mut locations, asked) = (LocationTable::default(), Cell::new(0));
        let handles = || (0..100).map(ChunkHandle::new);
        let table = |range: RangeInclusive<ChunkHandle>| {
            asked.set(asked.get() + 1);
            handles().filter(move |handle| range.contains(handle))
        };
        for (id, step) in [(1, 7), (2, 1), (3, 3)] {
            let reports: Vec<ReplicaReport> = handles()
                .step_by(step)
                .map(|handle| ReplicaReport { handle, ..ReplicaReport::default() })
                .collect();
            let unlisted = locations.report_all(Time::default(), server(id), &reports, table);
            assert_eq!((unlisted.len(), asked.get()), (0, 1));
        }
        assert_eq!(locations.of(ChunkHandle::new(21)).count(), 3);
    }

    #[test]
    fn a_walk_finds_some_with_each_step_and_all_that_a_dead_server_held() {
        let mut locations = LocationTable::default();
        let handles = || (0..9000).map(|number| ChunkHandle::new(3 * number));
        let table = |range: RangeInclusive<ChunkHandle>| {
            handles().filter(move |handle| range.contains(handle))
        };
        let holds = |id: u64, handle: &ChunkHandle| id < 3 || handle.get() % 2 == 1;
        for id in 1..=3 {
            let report = |handle| ReplicaReport { handle, ..ReplicaReport::default() };
            let held = handles().filter(|handle| holds(id, handle)).map(report);
            locations.report_all(Time::default(), server(id), &held.collect::<Vec<_>>(), table);
        }
        // One is unsettled: whatever it is, it is looked at.
        locations.mark_damage(ChunkHandle::new(300), server(1), true);
        let walked = |locations: &LocationTable| {
            let (mut found, mut steps, mut place) = (Vec::new(), 0, Some(WalkPlace::default()));
            while let Some(at) = place {
                let before = found.len();
                place = locations.walk(at, None, 500, &mut found);
                assert!(found.len() < before + 500 + 128, "a page more at the most");
                steps += 1;
            }
            found.sort_unstable();
            (found, steps)
        };
        assert_eq!(walked(&locations).0, [ChunkHandle::new(300)]);
        locations.bury_server(server(3));
        let held: Vec<ChunkHandle> =
            handles().filter(|at| holds(3, at) || at.get() == 300).collect();
        let (found, steps) = walked(&locations);
        assert_eq!(found, held);
        assert!(steps > held.len() / 700, "{steps} steps");
    }

    #[test]
    fn reads_judge_a_replica_only_by_what_it_told_since_the_lease_ended() {
        let mut locations = LocationTable::default();
        let report = |serial: u64| ReplicaReport {
            handle: HANDLE,
            serial: SerialNumber::new(serial),
            acknowledged_serial: SerialNumber::new(serial),
            ..ReplicaReport::default()
        };
        let at = |millis| Time::default() + Duration::from_millis(millis);
        tell(&mut locations, at(1), server(1), report(3));
        tell(&mut locations, at(2), server(2), report(9));
        let left = |locations: &LocationTable| behind(&locations.of(HANDLE).collect::<Vec<_>>());
        assert_eq!(left(&locations), [server(1)], "it may have been set back");
        tell(&mut locations, at(3), server(1), report(4));
        assert_eq!(left(&locations), [server(1)]);
        tell(&mut locations, at(4), server(1), report(9));
        assert_eq!(left(&locations), [], "it had gone on");
    }
}
