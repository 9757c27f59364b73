//! The simulator's own books on every chunk, kept from what is seen at the seam: what the log
//! says, what each disk has applied, what was acknowledged. Never the system's opinion.

use crate::checkers::Verdict;
use crate::copy_ledger::{CopyLedger, CopySource};
use crate::inventories::ToldInventories;
use crate::replica_ledger::{BegunBundle, ReplicaLedger};
use crate::stopped_nodes::StoppedNodes;
use crate::stream_book::{CommittedNote, StreamBook, bundle_name};
use cairn_env::{ChunkJob, CloneWork, JournalEntry};
use cairn_env_sim::{NodeId, WorldTime};
use cairn_master_core::record::SetVersion;
use cairn_master_core::stream_records::ReplaceRange;
use cairn_protocol::{Fetch, Heartbeat, Inventory, ReplicaReport, Request};
use cairn_types::{ChunkHandle, ChunkIndex, ChunkVersion, EntryId, PushId, SerialNumber};
use std::collections::{BTreeMap, BTreeSet};

/// An acknowledged mutation.
#[derive(Clone, Debug)]
pub(crate) struct AcknowledgedMutation {
    pub(crate) push: PushId,
    pub(crate) at: WorldTime,
    pub(crate) serial: SerialNumber,
    pub(crate) holders: BTreeSet<NodeId>,
}

/// One chunk.
#[derive(Clone, Debug, Default)]
pub(crate) struct ChunkLedger {
    /// Replicas as they were when their nodes' disks were set back to old images.
    pub(crate) set_back: BTreeMap<NodeId, ReplicaLedger>,
    pub(crate) file: EntryId,
    pub(crate) index: ChunkIndex,
    /// Versions in the log, with the size of the set that each was logged for.
    pub(crate) logged: BTreeMap<ChunkVersion, u32>,
    pub(crate) logged_at: BTreeMap<ChunkVersion, WorldTime>,
    pub(crate) closed: bool,
    /// A version that was logged while nobody ran who had all that was acknowledged, and an old
    /// image of another's disk did: whoever comes back later stands lower, and is not asked.
    pub(crate) went_on_at: ChunkVersion,
    /// A set that may have less than another replica was decided on (R28): what it lacks is lost
    /// for readers, whoever else has it.
    pub(crate) decided: bool,
    /// The last version of such a set.
    pub(crate) decided_at: ChunkVersion,
    pub(crate) replicas: BTreeMap<NodeId, ReplicaLedger>,
    /// Nodes that lost their replica while they ran, with its directory, and do not know it yet.
    pub(crate) unnoticed: BTreeSet<NodeId>,
    pub(crate) acknowledged: Vec<AcknowledgedMutation>,
    /// Pushes of which a client may have been told that all disks have them.
    pub(crate) told_synced: BTreeSet<PushId>,
    /// Copies that are being made of it.
    copies: BTreeMap<NodeId, CopyLedger>,
    /// Nodes that have ever applied a push, and under which version, whatever became of their
    /// disks.
    pub(crate) appliers: BTreeMap<PushId, BTreeMap<NodeId, ChunkVersion>>,
}

impl ChunkLedger {
    /// The log knows a version, for a set of so many.
    pub(crate) fn raised(&mut self, version: ChunkVersion, set_size: u32, at: WorldTime) {
        self.logged.insert(version, set_size);
        self.logged_at.insert(version, at);
    }

    /// The version that holds.
    pub(crate) fn version(&self) -> Option<(ChunkVersion, u32)> {
        self.logged.last_key_value().map(|(version, size)| (*version, *size))
    }

    fn copy(&mut self, node: NodeId) -> &mut CopyLedger {
        self.copies.entry(node).or_default()
    }

    /// A node's copy is a replica.
    fn adopt(&mut self, node: NodeId, replica: ReplicaLedger) {
        for (push, (version, _)) in &replica.applied {
            self.appliers.entry(*push).or_default().insert(node, *version);
        }
        self.replicas.insert(node, replica);
    }
}

/// All chunks.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    pub(crate) chunks: BTreeMap<ChunkHandle, ChunkLedger>,
    pub(crate) by_place: BTreeMap<(EntryId, ChunkIndex), ChunkHandle>,
    /// Snapshots that are being made, and the copies of files in them.
    growing: BTreeMap<EntryId, Vec<EntryId>>,
    /// What is in streams.
    pub(crate) streams: StreamBook,
    inventories: ToldInventories,
    /// Nodes of which a replica may be absent.
    with_absent: BTreeSet<NodeId>,
    pub(crate) stopped: StoppedNodes,
    /// How often each machine's power went, and its disks alone.
    boots: BTreeMap<NodeId, (u64, u64)>,
    /// Whose disks say of some syncs that they are done when they are not.
    pub(crate) liars: BTreeSet<NodeId>,
    /// Whose disks were set back, and whose processes have not told what they hold since then.
    pub(crate) untold: BTreeMap<NodeId, WorldTime>,
    /// A copy of another's disk was taken out of these: who that was passes for live for a while.
    pub(crate) taken_away: BTreeMap<NodeId, WorldTime>,
    /// Whose disks failed reads for a while: what could not be read then counts as damaged, for
    /// good, and which that is only their servers can tell.
    pub(crate) poor_readers: BTreeSet<NodeId>,
}

/// What a node's disk held at some time.
#[derive(Clone, Debug)]
pub(crate) struct ServerLedger {
    replicas: BTreeMap<ChunkHandle, ReplicaLedger>,
    boots: (u64, u64),
}

impl Ledger {
    pub(crate) fn chunk(&mut self, handle: ChunkHandle) -> &mut ChunkLedger {
        self.chunks.entry(handle).or_default()
    }

    /// A chunkserver's disk has done this.
    pub(crate) fn disk_did(&mut self, node: NodeId, job: &ChunkJob) {
        match job {
            ChunkJob::Apply { handle, version, mutations, sync, .. } => {
                let levels = mutations.iter().any(|mutation| mutation.push.is_none());
                // It has fetched all that it lacked (R16).
                if levels {
                    self.levelled(node, (*handle, *version));
                }
                let chunk = self.chunk(*handle);
                let replica = chunk.replicas.entry(node).or_default();
                for mutation in mutations {
                    if let Some(push) = mutation.push {
                        replica.store(push, (*version, mutation.serial));
                        chunk.appliers.entry(push).or_default().insert(node, *version);
                    }
                }
                replica.dirty = !*sync;
                if *sync {
                    replica.synced = replica.applied.keys().copied().collect();
                }
            }
            ChunkJob::Extend { handle, version, extent, sync } => {
                let bundle = bundle_name(*handle, extent.serial);
                let chunk = self.chunk(*handle);
                let replica = chunk.replicas.entry(node).or_default();
                replica.dirty |= replica.store(bundle, (*version, extent.serial));
                replica.begun.remove(&bundle);
                chunk.appliers.entry(bundle).or_default().insert(node, *version);
                if *sync {
                    replica.synced = replica.applied.keys().copied().collect();
                    replica.dirty = false;
                }
            }
            ChunkJob::Sync { handle } => {
                let replica = self.chunk(*handle).replicas.entry(node).or_default();
                replica.synced = replica.applied.keys().copied().collect();
                replica.dirty = false;
            }
            ChunkJob::Journal(entries) => {
                entries.iter().for_each(|entry| self.journaled(node, entry));
            }
            ChunkJob::Trash { handle, .. } => {
                let chunk = self.chunk(*handle);
                chunk.copies.get_mut(&node).into_iter().for_each(CopyLedger::trashed);
                chunk.replicas.remove(&node);
            }
            ChunkJob::Clone { handle, work } => self.clone_did(node, *handle, work),
            _ => {}
        }
    }

    /// A node's journal has this.
    fn journaled(&mut self, node: NodeId, entry: &JournalEntry) {
        if let JournalEntry::Adopt { handle, .. } = entry {
            let chunk = self.chunk(*handle);
            let replica = chunk.copy(node).adopt();
            chunk.adopt(node, replica);
        }
        if let JournalEntry::Raise { handle, .. } = entry {
            let chunk = self.chunk(*handle);
            let adopted = chunk.copies.get_mut(&node).and_then(CopyLedger::raised);
            adopted.into_iter().for_each(|replica| chunk.adopt(node, replica));
        }
        if let JournalEntry::Cleared(handle) = entry {
            let replica = self.chunk(*handle).replicas.entry(node).or_default();
            (replica.suspect, replica.told_suspect) = (false, false);
        }
        if let JournalEntry::Raise { handle, version, .. }
        | JournalEntry::Adopt { handle, version, .. } = entry
        {
            let replica = self.chunk(*handle).replicas.entry(node).or_default();
            replica.version = *version;
            replica.dirty = true;
            (replica.unknown, replica.forgotten) = (false, false);
        }
    }

    /// A chunkserver's disk has failed at this, or its process ended meanwhile: a bundle, or an
    /// adopted clone, may be there all the same.
    pub(crate) fn disk_failed_at(&mut self, node: NodeId, job: &ChunkJob) {
        if let ChunkJob::Extend { handle, version, extent, .. } = job {
            let bundle = bundle_name(*handle, extent.serial);
            let replica = self.chunk(*handle).replicas.entry(node).or_default();
            let (version, serial, ended) = (*version, extent.serial, false);
            replica.begun.insert(bundle, BegunBundle { version, serial, ended });
            replica.dirty = true;
        }
        let ChunkJob::Journal(entries) = job else { return };
        for entry in entries {
            let JournalEntry::Adopt { handle, version, .. } = entry else { continue };
            self.chunk(*handle).copy(node).may_be_adopted(*version);
        }
    }

    /// A node's disk has worked on a clone, or on a copy of a chunk of its own.
    fn clone_did(&mut self, node: NodeId, handle: ChunkHandle, work: &CloneWork) {
        let source = self.chunk(handle).copy(node).worked(work);
        let (Some(source), CloneWork::Finish { stands }) = (source, work) else { return };
        let replica = |of: ChunkHandle, at: NodeId| self.chunks.get(&of)?.replicas.get(&at);
        let copied = |source: Option<&ReplicaLedger>| source.map(|source| source.copied(stands));
        let copy = match source {
            CopySource::Ranges => {
                // Each block was verified when it was read, and all of it is on disk.
                let bundle = bundle_name(handle, stands.serial);
                let applied = [(bundle, (stands.mutated_version, stands.serial))].into();
                ReplicaLedger { applied, synced: [bundle].into(), ..Default::default() }
            }
            CopySource::Own(of) => {
                let source = replica(of, node);
                // It may be a clone of the file: what rots is in both.
                let flipped = source.is_some_and(|source| source.flipped);
                ReplicaLedger { flipped, ..copied(source).unwrap_or_default() }
            }
            CopySource::Other(from) => {
                copied(from.and_then(|from| replica(handle, from))).unwrap_or_default()
            }
        };
        self.chunk(handle).copy(node).finish(copy);
    }

    /// A range of a stream stands in a chunk of its own from now on; the file has let go of some
    /// places (R45).
    pub(crate) fn range_replaced(
        &mut self,
        record: &ReplaceRange,
        left: &[ChunkIndex],
        at: WorldTime,
    ) {
        let (file, handle, serial) = (record.file, record.handle, SerialNumber::new(1));
        self.by_place.insert((file, record.index), handle);
        for index in left {
            self.by_place.remove(&(file, *index));
        }
        let chunk = self.chunk(handle);
        (chunk.file, chunk.index, chunk.closed) = (file, record.index, true);
        chunk.raised(record.version, record.set_size, at);
        self.acknowledge(handle, bundle_name(handle, serial), serial, at);
    }

    /// A snapshot has a copy of these places of a file.
    pub(crate) fn copied(
        &mut self,
        top: EntryId,
        (file, copy): (EntryId, EntryId),
        (first, count): (ChunkIndex, u64),
    ) {
        self.growing.entry(top).or_default().push(copy);
        let end = ChunkIndex::new(first.get().saturating_add(count));
        let places = self.by_place.range((file, first)..(file, end));
        let places: Vec<_> = places.map(|((_, index), chunk)| ((copy, *index), *chunk)).collect();
        self.by_place.extend(places);
    }

    /// A snapshot is there, or came to nothing: then what it had of chunks is nobody's.
    pub(crate) fn snapshot_over(&mut self, top: EntryId, stands: bool) {
        let copies = self.growing.remove(&top).unwrap_or_default();
        if !stands {
            self.by_place.retain(|(file, _), _| !copies.contains(file));
        }
    }

    /// The master of another term begins: what is not there comes to nothing (R34).
    pub(crate) fn snapshots_given_up(&mut self) {
        let tops: Vec<EntryId> = self.growing.keys().copied().collect();
        tops.into_iter().for_each(|top| self.snapshot_over(top, false));
    }

    /// The files that have a chunk.
    pub(crate) fn files_of(&self, handle: ChunkHandle) -> Vec<EntryId> {
        let all = self.by_place.iter().filter(|(_, chunk)| **chunk == handle);
        all.map(|((file, _), _)| *file).collect()
    }

    /// A file has a copy of a chunk that it shared: what was acknowledged there is asked of it
    /// too.
    pub(crate) fn copied_on_write(&mut self, shared: ChunkHandle, copy: ChunkHandle) {
        let ChunkLedger { acknowledged, told_synced, closed, .. } = self.chunk(shared).clone();
        let copy = self.chunk(copy);
        copy.closed = closed;
        copy.acknowledged = acknowledged;
        copy.told_synced = told_synced;
    }

    /// A node was given blocks of another's replica, or was told that it lacks none.
    pub(crate) fn fetched(&mut self, to: NodeId, from: NodeId, fetch: &Fetch) {
        self.chunk(fetch.handle).copy(to).fetch(from, fetch.version);
    }

    /// A replica is levelled to the one that it has fetched from at this version, if it has.
    fn levelled(&mut self, node: NodeId, (handle, version): (ChunkHandle, ChunkVersion)) {
        let Some(from) = self.chunk(handle).copy(node).fetched_at(version) else { return };
        let is_liar = self.liars.contains(&from);
        let chunk = self.chunk(handle);
        let Some(source) = chunk.replicas.get(&from).cloned() else { return };
        let replica = chunk.replicas.entry(node).or_default();
        replica.level_to(&source);
        if is_liar {
            replica.lose_with(&source);
        }
    }

    /// A replica says, being raised, how far it has come.
    pub(crate) fn raised(&mut self, node: NodeId, report: &ReplicaReport) {
        let chunk = self.chunk(report.handle);
        let replica = chunk.replicas.entry(node).or_default();
        replica.claimed = (report.mutated_version, report.serial);
        for (bundle, version) in replica.count_begun(report.serial) {
            chunk.appliers.entry(bundle).or_default().entry(node).or_insert(version);
        }
    }

    /// A machine lost power: what it had not synced may be gone.
    pub(crate) fn power_lost(&mut self, node: NodeId) {
        self.boots.entry(node).or_default().0 += 1;
        self.page_cache_lost(node);
    }

    /// A machine's disks were away for a moment: what it had not synced may be gone.
    pub(crate) fn outage(&mut self, node: NodeId) {
        self.boots.entry(node).or_default().1 += 1;
        self.page_cache_lost(node);
    }

    /// What a machine had not synced may be gone; of a disk that lies, what it had synced too.
    fn page_cache_lost(&mut self, node: NodeId) {
        let lied = self.liars.contains(&node);
        self.inventories.forget(node);
        for chunk in self.chunks.values_mut() {
            if let Some(replica) = chunk.replicas.get_mut(&node) {
                if lied {
                    replica.synced.clear();
                    // Where nothing was applied, the version that it was raised to may be gone.
                    replica.lost = true;
                    replica.unknown = true;
                }
                replica.suspect |= replica.dirty;
                replica.lost |= replica.applied.len() > replica.synced.len();
                replica.lost |= !replica.begun.is_empty();
                replica.untold = true;
                let unsynced = replica.applied.keys().filter(|it| !replica.synced.contains(it));
                replica.gone.extend(unsynced.chain(replica.begun.keys()));
            }
        }
    }

    /// A sync failed: nothing that was not synced before can be trusted on that disk (R27).
    pub(crate) fn sync_failed(&mut self, node: NodeId) {
        for chunk in self.chunks.values_mut() {
            if let Some(replica) = chunk.replicas.get_mut(&node) {
                replica.suspect |= replica.dirty;
            }
        }
    }

    /// What a node's disk holds.
    pub(crate) fn server_ledger(&self, node: NodeId) -> ServerLedger {
        let replica = |(handle, chunk): (&ChunkHandle, &ChunkLedger)| {
            chunk.replicas.get(&node).map(|replica| (*handle, replica.clone()))
        };
        let replicas = self.chunks.iter().filter_map(replica).collect();
        ServerLedger { replicas, boots: self.boots.get(&node).copied().unwrap_or_default() }
    }

    /// Whether a machine has lost its memory since a page was taken.
    pub(crate) fn has_rebooted_since(&self, node: NodeId, page: &ServerLedger) -> bool {
        self.boots.get(&node).copied().unwrap_or_default() != page.boots
    }

    /// A node's disk holds what it held when this page was taken.
    pub(crate) fn turn_back(&mut self, node: NodeId, mut page: ServerLedger, at: WorldTime) {
        self.with_absent.insert(node);
        self.untold.insert(node, at);
        // A mark that was made before the machine's last boot is doubted (R27).
        let rebooted = self.has_rebooted_since(node, &page);
        for (handle, chunk) in &mut self.chunks {
            if let Some(before) = chunk.replicas.get(&node) {
                chunk.set_back.insert(node, before.clone());
            }
            match page.replicas.remove(handle) {
                Some(replica) => {
                    let suspect = replica.suspect || (rebooted && replica.dirty);
                    let replica = ReplicaLedger { turned_back: Some(at), suspect, ..replica };
                    chunk.replicas.insert(node, replica);
                }
                None => drop(chunk.replicas.remove(&node)),
            }
        }
    }

    /// A node's disks have lost these replicas, and nothing brings them back.
    pub(crate) fn lost_for_good(&mut self, node: NodeId, lost: impl Fn(ChunkHandle) -> bool) {
        for (_, chunk) in self.chunks.iter_mut().filter(|(handle, _)| lost(**handle)) {
            chunk.replicas.remove(&node);
        }
    }

    /// The process that runs on a node says which it has no more, and which it has: of those that
    /// were lost it may have got a copy while the word was on its way.
    pub(crate) fn told_of(&mut self, node: NodeId, beat: &Heartbeat) {
        beat.damaged.iter().for_each(|handle| self.found_damaged(node, *handle));
        if !beat.lost.is_empty() {
            self.with_absent.insert(node);
        }
        // Each heartbeat tells what is held: nearly never is any of it news.
        if !self.with_absent.contains(&node) {
            return;
        }
        let lost = beat.lost.iter().map(|handle| (*handle, true));
        let held = beat.held.iter().map(|report| (report.handle, false));
        for (handle, absent) in lost.chain(held) {
            let Some(chunk) = self.chunks.get_mut(&handle) else { continue };
            if absent {
                chunk.unnoticed.remove(&node);
            }
            if let Some(replica) = chunk.replicas.get_mut(&node) {
                replica.absent = absent;
            }
        }
    }

    /// A process tells what it holds: when it has told all, it is known what its disk has kept.
    pub(crate) fn inventory(&mut self, node: NodeId, slice: &Inventory) {
        let Some(held) = self.inventories.slice(node, slice) else { return };
        self.untold.remove(&node);
        for (handle, chunk) in &mut self.chunks {
            let told = held.get(handle);
            let at = told.map(|told| told.version);
            let adopted = chunk.copies.get_mut(&node).and_then(|copy| copy.told(at));
            adopted.into_iter().for_each(|replica| chunk.adopt(node, replica));
            let Some(replica) = chunk.replicas.get_mut(&node) else { continue };
            replica.told_suspect = told.is_some_and(|told| told.suspect);
            let sure = told.filter(|_| self.liars.is_empty() && !replica.flipped);
            sure.into_iter().for_each(|told| replica.settle(told.serial));
            if std::mem::take(&mut replica.unknown) {
                replica.forgotten = told.is_none_or(|told| told.version < replica.version);
                replica.stands_at = at;
                replica.suspect |= replica.told_suspect;
            }
        }
    }

    /// A version is logged.
    pub(crate) fn note_went_on(&mut self, set: &SetVersion, at: WorldTime) {
        let Some(chunk) = self.chunks.get_mut(&set.handle) else { return };
        chunk.goes_on(set.version, &self.stopped, at);
    }

    /// A process starts on a node: it looks at all directories.
    pub(crate) fn started(&mut self, node: NodeId) {
        self.stopped.started(node);
        self.with_absent.remove(&node);
        for chunk in self.chunks.values_mut() {
            if let Some(replica) = chunk.replicas.get_mut(&node) {
                replica.absent = false;
                replica.begun.values_mut().for_each(|begun| begun.ended = true);
            }
        }
    }

    /// The process on a node runs without the directory that holds these.
    pub(crate) fn passed_over(&mut self, node: NodeId, held: &BTreeSet<ChunkHandle>) {
        self.with_absent.insert(node);
        for (_, chunk) in self.chunks.iter_mut().filter(|(handle, _)| held.contains(*handle)) {
            if let Some(replica) = chunk.replicas.get_mut(&node) {
                replica.absent = true;
            }
        }
    }

    /// A stored bit of this chunk flipped there.
    pub(crate) fn flipped(&mut self, node: NodeId, handle: ChunkHandle) {
        self.chunk(handle).replicas.entry(node).or_default().flipped = true;
    }

    /// A server has found a replica damaged. That is so, for all that anybody else can tell, where
    /// its power went with unsynced bytes, or its disks failed reads for a while.
    fn found_damaged(&mut self, node: NodeId, handle: ChunkHandle) {
        let poor_reader = self.poor_readers.contains(&node);
        if let Some(replica) = self.chunk(handle).replicas.get_mut(&node) {
            replica.flipped |= poor_reader || replica.suspect || replica.lost;
        }
    }

    /// A node's process has started while reads of its disk failed: what it could not read counts
    /// as damaged with it, and with a decision that is made meanwhile (R28), for good.
    pub(crate) fn started_unread(&mut self, node: NodeId) {
        for chunk in self.chunks.values_mut() {
            if let Some(replica) = chunk.replicas.get_mut(&node) {
                replica.flipped = true;
            }
        }
    }

    /// The chunks of a file.
    pub(crate) fn chunks_of(&self, file: EntryId) -> impl Iterator<Item = &ChunkLedger> {
        self.by_place
            .range((file, ChunkIndex::new(0))..=(file, ChunkIndex::new(u64::MAX)))
            .filter_map(|(_, handle)| self.chunks.get(handle))
    }

    /// A primary acknowledges a mutation.
    pub(crate) fn acknowledge(
        &mut self,
        handle: ChunkHandle,
        push: PushId,
        serial: SerialNumber,
        at: WorldTime,
    ) {
        let chunk = self.chunk(handle);
        if chunk.acknowledged.iter().any(|done| done.push == push) {
            return;
        }
        let holders = chunk
            .replicas
            .iter()
            .filter(|(_, replica)| replica.applied.contains_key(&push))
            .map(|(node, _)| *node)
            .collect();
        chunk.acknowledged.push(AcknowledgedMutation { push, at, serial, holders });
    }

    /// A producer is told that a bundle is on the disks that have it.
    pub(crate) fn bundle_synced(&mut self, note: &CommittedNote) {
        self.synced(note.handle, bundle_name(note.handle, note.serial));
    }

    fn synced(&mut self, handle: ChunkHandle, push: PushId) {
        self.chunk(handle).told_synced.insert(push);
    }

    /// A bundle is committed: as many have stored it as have to (R43).
    pub(crate) fn bundle_committed(&mut self, note: &CommittedNote, at: WorldTime) -> Verdict {
        let bundle = bundle_name(note.handle, note.serial);
        self.acknowledge(note.handle, bundle, note.serial, at);
        let chunk = self.chunk(note.handle);
        let set_size = chunk.version().map_or(0, |(_, size)| size as usize);
        let (file, holders) = (chunk.file, chunk.appliers.get(&bundle).map_or(0, BTreeMap::len));
        let needed = self.streams.replicas_needed(file, set_size);
        if holders < needed {
            let set = format!("{holders} of a set of {set_size}");
            return Err(format!("{note:?} is committed on {set}, and {needed} have to have it"));
        }
        Ok(())
    }

    /// A client is told that what it asks about is on all disks.
    pub(crate) fn note_synced(&mut self, request: &Request) {
        match request {
            Request::Write(write) if write.sync => self.synced(write.handle, write.push),
            Request::Append(append) if append.sync => self.synced(append.handle, append.push),
            Request::SyncChunk(sync) => {
                let chunk = self.chunk(sync.handle);
                // What all have lost before, nobody can bring to disk any more.
                let is_somewhere = |push: &PushId| {
                    let has = |it: &ReplicaLedger| {
                        it.applied.contains_key(push) && !it.gone.contains(push)
                    };
                    chunk.replicas.values().any(has)
                };
                let acknowledged = chunk.acknowledged.iter().map(|done| done.push);
                chunk.told_synced.extend(acknowledged.filter(is_somewhere));
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{BTreeMap, ChunkLedger, Ledger, ReplicaLedger, ServerLedger, bundle_name};
    use cairn_env::{ApplyMutation, ChunkJob, JournalEntry};
    use cairn_env_sim::{NodeId, WorldTime};
    use cairn_master_core::record::SetVersion;
    use cairn_protocol::{Inventory, ReplicaReport, ReportSlice};
    use cairn_types::SessionId;
    use cairn_types::{BlockChecksums, ChunkHandle, ChunkVersion, JoinId, MutationNumber};
    use cairn_types::{PushId, SerialNumber};

    const SOURCE: NodeId = NodeId(1);
    const LEVELLED: NodeId = NodeId(2);

    fn push() -> PushId {
        PushId { session: SessionId::new(1), number: MutationNumber::new(1) }
    }

    /// One replica holds an acknowledged mutation, which is not synced; the other, an old image,
    /// never had it.
    fn acknowledged_on_one() -> (Ledger, ChunkHandle) {
        let handle = ChunkHandle::new(1);
        let mut ledger = Ledger::default();
        let place = (ChunkVersion::new(1), SerialNumber::new(1));
        let chunk: &mut ChunkLedger = ledger.chunk(handle);
        let applied = [(push(), place)].into();
        chunk.replicas.insert(SOURCE, ReplicaLedger { applied, ..ReplicaLedger::default() });
        chunk.replicas.insert(LEVELLED, ReplicaLedger::default());
        ledger.acknowledge(handle, push(), SerialNumber::new(1), WorldTime(1));
        (ledger, handle)
    }

    /// A server was stopped while it stored the second bundle of a stream's chunk.
    fn stopped_at_the_second() -> (Ledger, ChunkHandle, PushId) {
        let (mut ledger, handle) = (Ledger::default(), ChunkHandle::new(1));
        let serial = SerialNumber::new(2);
        let (push, checksums) = (Some(push()), BlockChecksums::default());
        let extent = ApplyMutation { serial, offset: 8, size: 8, push, checksums };
        let version = ChunkVersion::new(1);
        ledger.disk_failed_at(SOURCE, &ChunkJob::Extend { handle, version, extent, sync: true });
        (ledger, handle, bundle_name(handle, serial))
    }

    #[test]
    fn a_bundle_that_a_server_was_stopped_at_is_there_where_it_counts_it_and_only_there() {
        for (serial, is_there) in [(1, false), (2, true)] {
            let (mut ledger, handle, bundle) = stopped_at_the_second();
            let serial = SerialNumber::new(serial);
            ledger.raised(SOURCE, &ReplicaReport { handle, serial, ..ReplicaReport::default() });
            let replica = &ledger.chunk(handle).replicas[&SOURCE];
            assert_eq!((replica.applied.contains_key(&bundle), replica.lost), (is_there, false));
        }
    }

    #[test]
    fn a_bundle_that_failed_is_there_where_the_next_process_counts_it_and_not_the_one_after() {
        for first in [1, 2] {
            let (mut ledger, handle, bundle) = stopped_at_the_second();
            let mut counts = |serial| {
                let serial = SerialNumber::new(serial);
                let report = ReplicaReport { handle, serial, ..ReplicaReport::default() };
                ledger.raised(SOURCE, &report);
                let is_there = ledger.chunk(handle).replicas[&SOURCE].applied.contains_key(&bundle);
                ledger.started(SOURCE);
                is_there
            };
            assert!(!counts(1), "who failed does not count it");
            assert_eq!(counts(first), first == 2);
            assert_eq!(counts(2), first == 2, "what one that looked did not find is not there");
        }
    }

    #[test]
    fn a_bundle_that_failed_and_was_stored_and_synced_then_survives_a_power_loss() {
        let (mut ledger, handle, bundle) = stopped_at_the_second();
        let (serial, checksums) = (SerialNumber::new(2), BlockChecksums::default());
        let extent = ApplyMutation { serial, offset: 8, size: 8, push: Some(push()), checksums };
        let version = ChunkVersion::new(1);
        ledger.disk_did(SOURCE, &ChunkJob::Extend { handle, version, extent, sync: true });
        ledger.power_lost(SOURCE);
        let replica = &ledger.chunk(handle).replicas[&SOURCE];
        assert!(!replica.lost && !replica.gone.contains(&bundle));
    }

    #[test]
    fn a_bundle_that_a_server_was_stopped_at_is_there_by_luck_when_power_went() {
        let (mut ledger, handle, bundle) = stopped_at_the_second();
        ledger.power_lost(SOURCE);
        let serial = SerialNumber::new(2);
        ledger.raised(SOURCE, &ReplicaReport { handle, serial, ..ReplicaReport::default() });
        let replica = &ledger.chunk(handle).replicas[&SOURCE];
        assert!(replica.applied.contains_key(&bundle) && replica.gone.contains(&bundle));
        assert!(replica.lost);
    }

    #[test]
    fn a_clone_whose_adoption_a_process_ended_at_is_a_replica_where_its_server_tells_of_it() {
        let version = ChunkVersion::new(2);
        for (told, is_there) in [(Some((ChunkHandle::new(1), 2)), true), (None, false)] {
            let (mut ledger, handle) = acknowledged_on_one();
            let chunk = ledger.chunk(handle);
            let clone = chunk.replicas[&SOURCE].clone();
            chunk.replicas.remove(&LEVELLED);
            chunk.copy(LEVELLED).finish(clone);
            let adopt = JournalEntry::Adopt { handle, version, close: true };
            ledger.disk_failed_at(LEVELLED, &ChunkJob::Journal(vec![adopt]));
            assert_eq!(ledger.chunk(handle).intact(), [SOURCE], "nobody can tell yet");
            ledger.inventory(LEVELLED, &slice(0, true, told));
            assert_eq!(ledger.chunk(handle).intact().contains(&LEVELLED), is_there);
        }
    }

    #[test]
    fn who_comes_back_late_is_not_asked_where_an_old_image_was_gone_on_with() {
        let (mut ledger, handle) = acknowledged_on_one();
        let old = ledger.chunk(handle).replicas.get_mut(&LEVELLED).expect("made above");
        old.turned_back = Some(WorldTime(1));
        let (later, earlier) = (WorldTime(3_000_000_000), WorldTime(2_000_000_000));
        let set = |version| SetVersion { handle, version, ..SetVersion::default() };
        let version = ChunkVersion::new(5);
        ledger.chunk(handle).replicas.get_mut(&LEVELLED).expect("made above").version = version;
        ledger.stopped.dead = std::time::Duration::from_secs(2);
        let went_on = |ledger: &mut Ledger, version, at| {
            ledger.chunk(handle).went_on_at = ChunkVersion::default();
            ledger.note_went_on(&set(version), at);
            ledger.chunk(handle).went_on_at == version
        };
        assert!(!went_on(&mut ledger, version, later), "the other runs");
        ledger.stopped.note(SOURCE, WorldTime(1_000_000_000));
        assert!(!went_on(&mut ledger, version, earlier), "it is not away for long");
        let next = ChunkVersion::new(version.get() + 1);
        assert!(!went_on(&mut ledger, next, later), "the old image is not of that set");
        assert!(went_on(&mut ledger, version, later));
        ledger.started(SOURCE);
        assert_eq!(ledger.chunk(handle).intact(), []);
    }

    #[test]
    fn what_was_set_back_counts_as_held_until_its_server_has_told() {
        let (mut ledger, handle) = acknowledged_on_one();
        let push = *ledger.chunk(handle).replicas[&SOURCE].applied.keys().next().expect("one");
        let version = ledger.chunk(handle).replicas[&SOURCE].version;
        let before = ServerLedger { replicas: BTreeMap::new(), boots: (0, 0) };
        let had = |ledger: &Ledger, version| {
            ledger.chunks[&handle].had_untold(ledger.untold.keys(), &push, version)
        };
        assert!(!had(&ledger, version), "it is there");
        ledger.turn_back(SOURCE, before, WorldTime(1));
        let above = ChunkVersion::new(version.get() + 1);
        assert!(had(&ledger, version) && !had(&ledger, above));
        ledger.inventory(SOURCE, &slice(0, true, None));
        assert!(!had(&ledger, version), "everybody may know");
    }

    fn level(ledger: &mut Ledger, handle: ChunkHandle) {
        let chunk = ledger.chunk(handle);
        let source = chunk.replicas[&SOURCE].clone();
        chunk.replicas.get_mut(&LEVELLED).expect("made above").level_to(&source);
    }

    #[test]
    fn a_replica_levelled_to_one_that_lost_bytes_is_not_intact() {
        let (mut ledger, handle) = acknowledged_on_one();
        ledger.power_lost(SOURCE);
        level(&mut ledger, handle);
        assert_eq!(ledger.chunk(handle).intact(), []);
    }

    /// Healing seed 13: nobody could tell that the source's disk had lied.
    #[test]
    fn a_replica_that_had_what_a_liar_lost_has_it_no_more_when_it_is_levelled_to_that() {
        let (mut ledger, handle) = acknowledged_on_one();
        level(&mut ledger, handle);
        ledger.liars.insert(SOURCE);
        ledger.power_lost(SOURCE);
        assert_eq!(ledger.chunk(handle).intact(), [LEVELLED]);
        let chunk = ledger.chunk(handle);
        let source = chunk.replicas[&SOURCE].clone();
        chunk.replicas.get_mut(&LEVELLED).expect("made above").lose_with(&source);
        assert_eq!(chunk.intact(), []);
    }

    #[test]
    fn a_replica_levelled_before_the_other_lost_its_bytes_is_intact() {
        let (mut ledger, handle) = acknowledged_on_one();
        level(&mut ledger, handle);
        ledger.power_lost(SOURCE);
        assert_eq!(ledger.chunk(handle).intact(), [LEVELLED]);
    }

    #[test]
    fn only_replicas_that_are_undamaged_undoubted_and_lack_nothing_are_sure() {
        let (mut ledger, handle) = acknowledged_on_one();
        let nodes = [SOURCE, LEVELLED];
        let lacks = |ledger: &mut Ledger, least| ledger.chunk(handle).lacks_sure(&nodes, least);
        assert!(!lacks(&mut ledger, 1) && lacks(&mut ledger, 2), "one lacks what the other has");
        level(&mut ledger, handle);
        assert!(!lacks(&mut ledger, 2));
        ledger.flipped(LEVELLED, handle);
        assert!(lacks(&mut ledger, 2), "one is damaged");
        ledger.chunk(handle).replicas.get_mut(&SOURCE).expect("made above").suspect = true;
        assert!(lacks(&mut ledger, 1), "the other is doubted");
    }

    fn slice(number: u64, last: bool, told: Option<(ChunkHandle, u64)>) -> Inventory {
        let report = |(handle, version)| ReplicaReport {
            handle,
            version: ChunkVersion::new(version),
            ..ReplicaReport::default()
        };
        let replicas = ReportSlice(told.map(report).into_iter().collect());
        Inventory { number, last, replicas, join: JoinId::new(7), ..Inventory::default() }
    }

    #[test]
    fn what_a_disk_that_lies_has_kept_is_known_when_its_server_has_told_all() {
        let told_lower = |version| Some((ChunkHandle::new(1), version));
        for (lies, told, forgotten) in [
            (true, None, true),
            (true, told_lower(1), true),
            (true, told_lower(2), false),
            (false, None, false),
        ] {
            let (mut ledger, handle) = acknowledged_on_one();
            ledger.chunk(handle).replicas.get_mut(&SOURCE).expect("made above").version =
                ChunkVersion::new(2);
            if lies {
                ledger.liars.insert(SOURCE);
            }
            ledger.power_lost(SOURCE);
            ledger.inventory(SOURCE, &slice(0, false, told));
            assert!(!ledger.chunk(handle).replicas[&SOURCE].forgotten, "there may be more");
            ledger.inventory(SOURCE, &slice(1, true, None));
            assert_eq!(ledger.chunk(handle).replicas[&SOURCE].forgotten, forgotten, "{told:?}");
        }
    }
}
