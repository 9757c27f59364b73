//! All replicas of a server, and which of them need a look.
//!
//! - W1: ticks look at the watched ones only: those that hold a lease, and those touched since the
//!   last tick. The others may be millions, and where a disk fails so may the damaged ones.
//! - W2: what is watched, damaged, untold, uncounted or unsynced is here.

use crate::outbox::{DiskPurpose, Outbox};
use crate::replica::Replica;
use crate::stored_replica::StoredReplica;
use cairn_env::{ChunkResult, ConnectionId, JournalEntry};
use cairn_protocol::{ErrorCode, Failure, HeldLease, ReplicaReport};
use cairn_types::planted::{Rule, broken};
use cairn_types::{ChunkHandle, ChunkVersion, LeaseId, Time};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::time::Duration;

/// Replicas that somebody asked for, and that are not here, of which a master is to hear.
const ABSENT_TOLD_MAX: usize = 1024;
/// Changed replicas that are told of at once, with a heartbeat. Where more change from one to the
/// next, some wait, look as if they were behind the others of their set, and are copied for nothing
/// (R29): of 100, where a thousand small files a second were put (`soak tree`).
pub(crate) const UNTOLD_AT_ONCE: usize = 4096;

#[derive(Debug, Default)]
pub(crate) struct ReplicaTable {
    replicas: BTreeMap<ChunkHandle, Replica>,
    watched: BTreeSet<ChunkHandle>,
    /// Those that were found damaged since the last tick are among the watched alone.
    damaged: BTreeSet<ChunkHandle>,
    /// Up to here the damaged ones were told, this time round.
    damaged_told: ChunkHandle,
    /// Whose damage may have come, gone or changed since this was asked for last.
    doubted: BTreeSet<ChunkHandle>,
    /// Changed since a heartbeat told of them.
    untold: BTreeSet<ChunkHandle>,
    /// Changed, or gone, since this was asked for last; none while nobody asks.
    changed: Option<BTreeSet<ChunkHandle>>,
    /// Damaged, and a journal was told so; whether it has it, durably.
    noted: BTreeMap<ChunkHandle, bool>,
    /// Turned out to be sound; told until a master has heard of it.
    sound: BTreeSet<ChunkHandle>,
    /// Gone with their disk, and no master was told so.
    lost: BTreeSet<ChunkHandle>,
    /// Garbage that the disk was asked to throw away, and it has not answered. No replica of these
    /// chunks is taken in: its answer would be taken for one about that.
    collecting: BTreeSet<ChunkHandle>,
    /// Changed since they were last brought to disk, and when.
    unsynced: BTreeMap<ChunkHandle, Time>,
    /// Changed since their bytes were counted.
    uncounted: BTreeSet<ChunkHandle>,
    /// Stored bytes of all, as last counted; each replica knows what it counts for.
    stored_size: u64,
}

impl ReplicaTable {
    /// What the data directories were found to hold.
    pub(crate) fn of_recovered(recovered: &[ReplicaReport]) -> Self {
        let replica = |it: &ReplicaReport| Replica::of(StoredReplica::from_recovered(it));
        let replicas = recovered.iter().map(|it| (it.handle, replica(it))).collect();
        let sound = recovered.iter().filter(|it| !it.suspect);
        let unsynced = sound.map(|it| (it.handle, Time::default())).collect();
        let stored_size = recovered.iter().map(|it| it.length).sum();
        Self { replicas, unsynced, stored_size, ..Self::default() }
    }

    /// Refuses where the chunk has a replica here, or one that may be going still.
    pub(crate) fn check_absent(&self, handle: ChunkHandle) -> Result<(), Failure> {
        let name = handle.short();
        if self.replicas.contains_key(&handle) {
            let why = format!("chunk {name} is here already");
            return Err(Failure::not_done(ErrorCode::AlreadyExists, why));
        }
        if self.collecting.contains(&handle) {
            let why = format!("chunk {name} is on its way to the trash; try again");
            return Err(Failure::not_done(ErrorCode::Busy, why));
        }
        Ok(())
    }

    /// Whether a replica is collected from now on that the master calls garbage at that version
    /// (R33). One that is being collected is named again as often as it is told of.
    pub(crate) fn begin_collecting(&mut self, handle: ChunkHandle, version: ChunkVersion) -> bool {
        let may_go = self.get(handle).is_some_and(|replica| {
            replica.can_go() && (replica.stored().version() <= version || broken(Rule::R33))
        });
        may_go && self.collecting.insert(handle)
    }

    /// The disk has answered. Nothing has come in its place meanwhile.
    pub(crate) fn end_collecting(&mut self, handle: ChunkHandle) {
        let was_collecting = self.collecting.remove(&handle);
        assert!(was_collecting, "{handle:?} is collected once");
    }

    /// Makes room for a replica of a new chunk; the raise then gives it its version (R10).
    pub(crate) fn create(&mut self, handle: ChunkHandle) -> Result<(), Failure> {
        if handle == ChunkHandle::default() {
            let why = "a chunk's handle is never zero";
            return Err(Failure::refused(ErrorCode::Invalid, why));
        }
        self.check_absent(handle)?;
        self.insert(StoredReplica::to_be_created(handle));
        Ok(())
    }

    /// Takes in a replica that is about to be; the raise then gives it its version (R10).
    pub(crate) fn insert(&mut self, stored: StoredReplica) {
        let handle = stored.handle();
        self.stored_size += stored.length();
        let before = self.replicas.insert(handle, Replica::of(stored));
        assert!(before.is_none(), "two replicas of {handle:?} on one server");
        self.lost.remove(&handle);
    }

    /// A replica, to do something with it. From here on it is watched.
    pub(crate) fn touch(&mut self, handle: ChunkHandle) -> Option<&mut Replica> {
        let replica = self.replicas.get_mut(&handle)?;
        assert_eq!(replica.stored().handle(), handle, "another chunk's replica");
        self.watched.insert(handle);
        Some(replica)
    }

    pub(crate) fn get(&self, handle: ChunkHandle) -> Option<&Replica> {
        self.replicas.get(&handle)
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.replicas.len()
    }

    /// All, in handle order.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Replica> {
        self.replicas.values()
    }

    /// Those behind `handle`, in handle order.
    pub(crate) fn behind(&self, handle: ChunkHandle) -> impl Iterator<Item = &Replica> {
        let behind = (Bound::Excluded(handle), Bound::Unbounded);
        self.replicas.range(behind).map(|(_, replica)| replica)
    }

    /// A replica is no longer here.
    pub(crate) fn remove(&mut self, handle: ChunkHandle) {
        if let Some(replica) = self.replicas.remove(&handle) {
            self.stored_size -= replica.stored().counted();
        }
        self.uncounted.remove(&handle);
        self.watched.remove(&handle);
        if self.damaged.remove(&handle) {
            self.doubted.insert(handle);
        }
        self.untold.remove(&handle);
        self.changed.as_mut().map(|changed| changed.insert(handle));
        self.noted.remove(&handle);
        self.sound.remove(&handle);
        self.unsynced.remove(&handle);
    }

    /// A replica is gone with its disk, and the master is to hear of it.
    pub(crate) fn tell_lost(&mut self, handle: ChunkHandle) {
        assert!(!self.replicas.contains_key(&handle), "{handle:?} is held, and said to be lost");
        self.lost.insert(handle);
    }

    /// Somebody was sent here for a replica that is not here: the master is to hear of it, too.
    pub(crate) fn tell_absent(&mut self, handle: ChunkHandle) {
        // Whoever asks for what nobody ever sent him to takes no room with that.
        if !self.replicas.contains_key(&handle) && self.lost.len() < ABSENT_TOLD_MAX {
            self.lost.insert(handle);
        }
        let is_here = self.replicas.contains_key(&handle) && self.lost.contains(&handle);
        assert!(!is_here, "{handle:?} is held, and said to be absent");
    }

    /// Up to `count_max` of those that no master was told of.
    pub(crate) fn lost(&self, count_max: usize) -> Vec<ChunkHandle> {
        self.lost.iter().copied().take(count_max).collect()
    }

    /// A master has heard of what was lost, and of what turned out to be sound.
    pub(crate) fn heard(&mut self, [lost, sound]: &[Vec<ChunkHandle>; 2]) {
        for handle in lost {
            self.lost.remove(handle);
        }
        for handle in sound {
            self.sound.remove(handle);
        }
    }

    /// A master hears of all that is held.
    pub(crate) fn forget_lost(&mut self) {
        self.lost.clear();
    }

    /// What is stored of it, or its version, has changed.
    pub(crate) fn note_change(&mut self, handle: ChunkHandle, now: Time) {
        if self.replicas.contains_key(&handle) {
            self.untold.insert(handle);
            self.changed.as_mut().map(|changed| changed.insert(handle));
            self.uncounted.insert(handle);
            self.unsynced.insert(handle, now);
        }
    }

    /// What has changed, or is gone, since this was asked last; `goes_on`: it will be asked again.
    pub(crate) fn take_changed(&mut self, goes_on: bool) -> BTreeSet<ChunkHandle> {
        std::mem::replace(&mut self.changed, goes_on.then(BTreeSet::new)).unwrap_or_default()
    }

    /// Bytes that all replicas store.
    pub(crate) fn stored_size(&mut self) -> u64 {
        for handle in std::mem::take(&mut self.uncounted) {
            let replica = self.replicas.get_mut(&handle).expect("what is uncounted is here (W2)");
            let (before, now) = replica.stored_mut().count();
            self.stored_size = self.stored_size - before + now;
        }
        self.stored_size
    }

    fn each_watched(&mut self, mut act: impl FnMut(&mut Replica)) {
        for handle in &self.watched {
            act(self.replicas.get_mut(handle).expect("what is watched is here (W2)"));
        }
    }

    /// Lets time pass for those that hold a lease; the others are watched no more (W1).
    pub(crate) fn tick(&mut self, mut tick: impl FnMut(&mut Replica)) {
        let Self { replicas, watched, damaged, doubted, changed, .. } = self;
        watched.retain(|handle| {
            let replica = replicas.get_mut(handle).expect("what is watched is here (W2)");
            if replica.role().primary().is_some() {
                tick(replica);
            }
            if replica.stored().is_damaged() {
                if damaged.insert(*handle) {
                    // Shadow masters hear of it with what has changed.
                    changed.as_mut().map(|changed| changed.insert(*handle));
                }
                doubted.insert(*handle);
            }
            replica.role().primary().is_some()
        });
    }

    pub(crate) fn forget_connection(&mut self, connection: ConnectionId) {
        self.each_watched(|replica| replica.forget_connection(connection));
    }

    /// Leases that are held and live; `clear`: their use is counted anew from here on.
    pub(crate) fn held_leases(&mut self, now: Time, clear: bool) -> Vec<HeldLease> {
        let mut held = Vec::new();
        self.each_watched(|replica| held.extend(replica.held_lease(now, clear)));
        held
    }

    pub(crate) fn extend_leases(&mut self, extended: &[LeaseId], now: Time, until: Time) {
        self.each_watched(|replica| replica.extend_lease(extended, now, until));
    }

    /// In handle order.
    pub(crate) fn damaged(&self) -> BTreeSet<ChunkHandle> {
        let is_damaged = |handle: &&ChunkHandle| {
            self.replicas.get(handle).is_some_and(|replica| replica.stored().is_damaged())
        };
        let mut damaged = self.damaged.clone();
        damaged.extend(self.watched.iter().filter(is_damaged));
        damaged
    }

    /// Up to `count_max` of the damaged ones, and the next time those behind them. A master takes
    /// none for mended that is not named: that is said of each (`sound`). So that where there are
    /// more, as of a disk that failed, all are named in turn, and again to a master of later; one
    /// that was not named yet is as one that was not found yet.
    pub(crate) fn damaged_in_turn(&mut self, count_max: usize) -> Vec<ChunkHandle> {
        let all = self.damaged();
        let behind = all.range((Bound::Excluded(self.damaged_told), Bound::Unbounded));
        let round = behind.chain(all.range(..=self.damaged_told));
        let mut told: Vec<ChunkHandle> = round.copied().take(count_max).collect();
        self.damaged_told = told.last().copied().unwrap_or_default();
        told.sort_unstable();
        told
    }

    /// Whose damage may have come, gone or changed since this was asked last.
    pub(crate) fn take_doubted(&mut self) -> BTreeSet<ChunkHandle> {
        std::mem::take(&mut self.doubted)
    }

    /// A journal knows that it is damaged.
    pub(crate) fn note_damage(&mut self, handle: ChunkHandle) {
        assert!(self.replicas.contains_key(&handle), "{handle:?} is not here");
        self.noted.insert(handle, true);
    }

    /// Of those that are damaged a journal is to know it, too.
    pub(crate) fn journal_damage(&mut self, out: &mut Outbox) {
        for handle in self.damaged() {
            self.noted.entry(handle).or_insert_with(|| {
                out.journal(DiskPurpose::DamageNoted(handle), JournalEntry::Damaged(handle));
                false
            });
        }
    }

    /// Whether a restart would know of all that is damaged.
    pub(crate) fn is_damage_kept(&self) -> bool {
        self.damaged().iter().all(|handle| self.noted.get(handle) == Some(&true))
    }

    /// A journal has taken that it is damaged, or has not: its disk may be full. A restart would
    /// count it as good then, so that it is noted again with the next heartbeat.
    pub(crate) fn on_damage_noted(&mut self, handle: ChunkHandle, result: &ChunkResult) {
        match self.noted.get_mut(&handle) {
            Some(kept) if result.is_ok() => *kept = true,
            Some(_) => drop(self.noted.remove(&handle)),
            // It is gone, or sound again.
            None => {}
        }
    }

    /// Every block of a replica that was found bad was verified again; whether it is sound now:
    /// it may have gone meanwhile, or have lost bytes.
    pub(crate) fn turn_out_sound(&mut self, handle: ChunkHandle) -> bool {
        let may_be = |replica: &&mut Replica| replica.stored().may_turn_out_sound();
        self.doubted.insert(handle);
        let Some(replica) = self.replicas.get_mut(&handle).filter(may_be) else { return false };
        replica.stored_mut().turn_out_sound();
        self.damaged.remove(&handle);
        self.noted.remove(&handle);
        self.sound.insert(handle);
        // Shadow masters hear of it with what has changed.
        self.changed.as_mut().map(|changed| changed.insert(handle));
        true
    }

    /// A start could not read this one; one that has gone meanwhile has nothing to read.
    pub(crate) fn leave_unread(&mut self, handle: ChunkHandle) {
        if let Some(replica) = self.touch(handle) {
            replica.stored_mut().leave_unread();
        }
    }

    /// A replica that a start could not read has been read; whether that is how it stands: it may
    /// have gone, or be the set's to say, meanwhile.
    pub(crate) fn reopen(&mut self, now: Time, stands: &ReplicaReport) -> bool {
        let replica = self.replicas.get_mut(&stands.handle);
        let reopened = replica.is_some_and(|replica| replica.stored_mut().reopen(stands));
        if reopened {
            self.doubted.insert(stands.handle);
            self.note_change(stands.handle, now);
        }
        reopened
    }

    /// Up to `count_max` of those that turned out to be sound, and of which no master has heard;
    /// none that was found bad once more.
    pub(crate) fn sound(&self, count_max: usize) -> Vec<ChunkHandle> {
        let is_sound = |handle: &&ChunkHandle| {
            self.replicas.get(handle).is_some_and(|replica| !replica.stored().is_damaged())
        };
        self.sound.iter().filter(is_sound).copied().take(count_max).collect()
    }

    /// Whether nobody has been told of its last change.
    pub(crate) fn is_untold(&self, handle: ChunkHandle) -> bool {
        self.untold.contains(&handle)
    }

    /// Reports of up to [`UNTOLD_AT_ONCE`] that nobody has been told of.
    pub(crate) fn take_untold(&mut self) -> Vec<ReplicaReport> {
        let mut reports = Vec::new();
        while reports.len() < UNTOLD_AT_ONCE
            && let Some(handle) = self.untold.pop_first()
        {
            let replica = self.replicas.get(&handle).expect("what is untold is here (W2)");
            reports.push(replica.stored().report());
        }
        reports
    }

    /// Up to `count_max` of those that have not changed for `still`; from here on they count as
    /// synced.
    pub(crate) fn take_unsynced(
        &mut self,
        now: Time,
        still: Duration,
        count_max: usize,
    ) -> Vec<ChunkHandle> {
        let due = self.unsynced.iter().filter(|(_, changed)| now.since(**changed) >= still);
        let due: Vec<ChunkHandle> = due.map(|(handle, _)| *handle).take(count_max).collect();
        for handle in &due {
            self.unsynced.remove(handle);
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::ReplicaTable;
    use crate::outbox::Outbox;
    use crate::stored_replica::StoredReplica;
    use cairn_protocol::ReplicaReport;
    use cairn_types::{ChunkHandle, SerialNumber, Time};

    #[test]
    fn the_bytes_of_all_are_counted_as_they_come_and_go() {
        let held = (1..=3).map(ChunkHandle::new);
        let held: Vec<_> =
            held.map(|handle| ReplicaReport { handle, length: 7, ..Default::default() }).collect();
        let mut table = ReplicaTable::of_recovered(&held);
        assert_eq!(table.stored_size(), 21);
        let [gone, grows, fresh, cloned] = [1, 2, 4, 5].map(ChunkHandle::new);
        let clone = ReplicaReport { handle: cloned, length: 10_000, ..Default::default() };
        table.insert(StoredReplica::from_recovered(&clone));
        assert_eq!(table.stored_size(), 10_021);
        table.remove(cloned);
        table.remove(gone);
        table.insert(StoredReplica::to_be_created(fresh));
        for (handle, length) in [(grows, 100), (fresh, 1000)] {
            let replica = table.touch(handle).expect("here");
            replica.stored_mut().changed(length, SerialNumber::default());
            table.note_change(handle, Time::default());
        }
        assert_eq!(table.stored_size(), 1107);
        table.remove(fresh);
        assert_eq!(table.stored_size(), 107);
    }

    #[test]
    fn ticks_and_heartbeats_look_at_what_is_in_use_or_damaged_and_at_nothing_else() {
        let held = (1..=1000).map(ChunkHandle::new);
        let held: Vec<_> =
            held.map(|handle| ReplicaReport { handle, ..ReplicaReport::default() }).collect();
        let mut table = ReplicaTable::of_recovered(&held);
        let [read, damaged] = [7, 8].map(ChunkHandle::new);
        assert!(table.touch(read).is_some());
        table.touch(damaged).expect("it is held").on_verified(&mut Outbox::default(), false);
        assert_eq!(table.watched.len(), 2);
        table.tick(|replica| panic!("no lease is held: {replica:?}"));
        assert!(table.watched.is_empty());
        assert_eq!(table.damaged(), [damaged].into());
        assert_eq!(table.take_doubted(), [damaged].into());
        table.tick(|replica| panic!("no lease is held: {replica:?}"));
        assert!(table.take_doubted().is_empty(), "nothing about it has changed");
        table.remove(damaged);
        assert!(table.watched.is_empty() && table.damaged().is_empty());
        assert_eq!(table.take_doubted(), [damaged].into());
    }

    #[test]
    fn thousands_that_have_changed_are_told_of_at_once_and_once() {
        let changed = (1..=3000).map(ChunkHandle::new);
        let mut table = ReplicaTable::default();
        for handle in changed.clone() {
            table.insert(StoredReplica::to_be_created(handle));
            table.touch(handle).expect("here").stored_mut().changed(7, SerialNumber::new(1));
            table.note_change(handle, Time::default());
        }
        let told: Vec<ChunkHandle> = table.take_untold().iter().map(|it| it.handle).collect();
        assert!(told.iter().copied().eq(changed), "{} are told of", told.len());
        assert!(table.take_untold().is_empty(), "once");
    }
}
