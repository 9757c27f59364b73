//! What one replica's disk holds, as far as the ledger knows.

use cairn_env_sim::WorldTime;
use cairn_protocol::ReplicaReport;
use cairn_types::{ChunkVersion, PushId, SerialNumber};
use std::collections::{BTreeMap, BTreeSet};

/// A bundle that a replica's server did not come to the end of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BegunBundle {
    pub(crate) version: ChunkVersion,
    pub(crate) serial: SerialNumber,
    /// The process that began it has ended: the next one has looked whether it is on disk.
    pub(crate) ended: bool,
}

/// What a replica's disk holds.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReplicaLedger {
    /// The version journaled last.
    pub(crate) version: ChunkVersion,
    /// Pushes applied, with the version and serial number under which.
    pub(crate) applied: BTreeMap<PushId, (ChunkVersion, SerialNumber)>,
    /// Bundles that it began to store and was stopped at: there, or not.
    pub(crate) begun: BTreeMap<PushId, BegunBundle>,
    /// Of what is applied, what a power loss cannot take.
    pub(crate) synced: BTreeSet<PushId>,
    /// Those that were not synced at a power loss, as long as its server has not told that they are
    /// there.
    pub(crate) gone: BTreeSet<PushId>,
    /// Those that it had, and was levelled to one that had lost them: they are not there, and the
    /// cell was not to do that to one that was sound.
    pub(crate) levelled_over: BTreeSet<PushId>,
    /// Power was lost, and its server has not told since how far it has come.
    pub(crate) untold: bool,
    /// Its server may have changed something that is not synced (R27).
    pub(crate) dirty: bool,
    /// It lost power while dirty: its server has to doubt it.
    pub(crate) suspect: bool,
    /// Its server has told that it doubts it, and may have no need to: what a full disk keeps it
    /// from noting it doubts at the next power loss (healing seed 176).
    pub(crate) told_suspect: bool,
    /// It lost power with unsynced bytes, or on a disk that lies.
    pub(crate) lost: bool,
    /// The disk that lost power lied: which version it stands at, or whether it is there at all, is
    /// not known before its server has looked, and told.
    pub(crate) unknown: bool,
    /// It has told then that it is not there, or stands lower; and where, if anywhere.
    pub(crate) forgotten: bool,
    pub(crate) stands_at: Option<ChunkVersion>,
    /// An old image of its disk came back then; neither it nor whoever knows where it is can tell,
    /// before a raise compares the replicas (R29).
    pub(crate) turned_back: Option<WorldTime>,
    /// How far it said that it has come, when it was last raised.
    pub(crate) claimed: (ChunkVersion, SerialNumber),
    /// The process that runs has given up the directory that it lies in, and told so.
    pub(crate) absent: bool,
    /// A bit of it flipped, which its server cannot know before it reads the block; or it could not
    /// be read when its server started.
    pub(crate) flipped: bool,
}

impl ReplicaLedger {
    /// Whether it stands at that version or beyond, as far as its server has told or was seen.
    pub(crate) fn is_at(&self, version: ChunkVersion) -> bool {
        let at = if self.forgotten { self.stands_at } else { Some(self.version) };
        at.is_some_and(|at| at >= version)
    }

    /// Its server counts bundles up to this one, by what it verifies: which of those that it did
    /// not come to the end of are there, with their versions. Who began one and failed does not
    /// count it; who starts there may.
    pub(crate) fn count_begun(&mut self, counted: SerialNumber) -> Vec<(PushId, ChunkVersion)> {
        let mut there = Vec::new();
        self.begun.retain(|bundle, &mut BegunBundle { version, serial, ended }| {
            if serial > counted {
                return !ended;
            }
            self.applied.entry(*bundle).or_insert((version, serial));
            there.push((*bundle, version));
            false
        });
        there
    }

    /// Its server tells how far it has come; the first time since power came back it is known what
    /// of it is gone: all up to there it has read from its disk, and verified (R26). Not where
    /// disks lie: nor is the word of one sure, nor that of whoever was levelled to it.
    pub(crate) fn settle(&mut self, told: SerialNumber) {
        if !std::mem::take(&mut self.untold) {
            return;
        }
        let applied = &mut self.applied;
        let is_there = |push: &PushId| applied.get(push).is_some_and(|(_, at)| *at <= told);
        let there: Vec<PushId> = self.gone.extract_if(.., |push| is_there(push)).collect();
        self.synced.extend(there);
        // What comes to be in its place has higher numbers (R28).
        applied.retain(|push, _| !self.gone.contains(push));
    }

    /// It has stored one; whether it had it not.
    pub(crate) fn store(&mut self, push: PushId, place: (ChunkVersion, SerialNumber)) -> bool {
        let is_new = self.applied.insert(push, place).is_none();
        self.levelled_over.remove(&push);
        self.gone.remove(&push) || is_new
    }

    /// It has the bytes of another (R16), and nothing that this one has lost.
    pub(crate) fn level_to(&mut self, first: &Self) {
        // What that one may have lost is not known to be.
        let is_lost = |push: &&PushId| !first.applied.contains_key(push);
        let lost = first.gone.iter().filter(is_lost).chain(&first.levelled_over);
        self.levelled_over.extend(lost.filter(|push| self.applied.contains_key(push)));
        for (push, place) in &first.applied {
            self.begun.remove(push);
            let lacks = !self.applied.contains_key(push) || self.gone.contains(push);
            if first.levelled_over.contains(push) || !(lacks || self.levelled_over.contains(push)) {
                continue;
            }
            self.store(*push, *place);
            if first.gone.contains(push) {
                self.gone.insert(*push);
            }
        }
    }

    /// It was levelled to one whose disk had lied about its syncs, and lost bytes that this one may
    /// have had: nobody in the cell can tell (R28).
    pub(crate) fn lose_with(&mut self, source: &Self) {
        self.lost |= source.lost;
        self.gone.extend(source.gone.iter().filter(|push| self.applied.contains_key(push)));
    }

    /// Its file is gone: what was in it is nowhere on this disk, which its server finds when it
    /// reads it. Where a person has the cell go on with it all the same, it is empty.
    pub(crate) fn lose_file(&mut self) {
        self.flipped = true;
        self.gone.extend(self.applied.keys());
    }

    /// What a copy of it has that is on disk as one that stands so: each block was verified when it
    /// was read (R30).
    pub(crate) fn copied(&self, stands: &ReplicaReport) -> Self {
        let has =
            |(_, (_, serial)): &(&PushId, &(ChunkVersion, SerialNumber))| *serial <= stands.serial;
        let applied: BTreeMap<_, _> =
            self.applied.iter().filter(has).map(|(push, place)| (*push, *place)).collect();
        let (gone, synced) = applied.keys().partition(|push| self.gone.contains(push));
        let levelled_over = self.levelled_over.clone();
        Self { applied, gone, synced, levelled_over, lost: self.lost, ..Self::default() }
    }
}
