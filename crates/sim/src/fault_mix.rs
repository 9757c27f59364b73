//! Which faults a run has, and how often.

use cairn_types::Random;
use std::collections::BTreeMap;

/// One kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FaultKind {
    /// A chunkserver's process is killed.
    Kill,
    /// A chunkserver's process is killed in the middle of a disk write.
    KillInWrite,
    /// A chunkserver's machine loses power.
    PowerLoss,
    /// The master's process is killed.
    KillMaster,
    /// The master's machine loses power.
    PowerLossMaster,
    /// All processes are killed at once.
    KillAll,
    /// Two machines cannot reach each other, one way or both ways.
    Partition,
    /// A connection breaks after an unknown prefix.
    BreakConnection,
    /// A process stands still.
    Pause,
    /// A machine's network is slow.
    Slow,
    /// A machine's disk is slow.
    SlowDisk,
    /// A wall clock jumps.
    JumpWall,
    /// A stored bit flips.
    FlipBit,
    /// Payloads are damaged on the wire for a while.
    Corrupt,
    /// A chunkserver comes back with an image of its disk that was taken earlier.
    OldImage,
    /// A chunkserver's disk is full for a while.
    FullDisk,
    /// All chunkservers lose power at once.
    PowerLossAll,
    /// A sync fails; the process is started again, and its machine may lose power then.
    FailedSync,
    /// A disk goes away and comes back within one boot: the page cache is gone.
    Outage,
    /// Some reads and writes of a disk fail for a while.
    DeviceErrors,
    /// A sector of a stored chunk cannot be read any more.
    UnreadableSector,
    /// A page of one chunk's files lies in the place of another's.
    MisdirectedWrite,
    /// One chunkserver's disk says of some syncs that they are done, and loses pages.
    LyingSyncs,
    /// A process has no file descriptors left for a while.
    NoDescriptors,
    /// The master's disk is full for a while.
    FullMasterDisk,
    /// A chunkserver reaches master and clients and not its peers, for many leases.
    CutOffFromPeers,
    /// A chunkserver gets one request of the master seconds late.
    LateMember,
    /// A chunkserver ends and never comes back.
    GoneForGood,
    /// A chunkserver comes back with nothing, and is a new one.
    Emptied,
    /// A chunkserver comes back without files of some of its chunks.
    LessThanBefore,
    /// One of a chunkserver's data directories vanishes; an empty one may take its place.
    LostDirectory,
    /// A machine runs for a while with a copy of another chunkserver's disks.
    CopiedDisk,
    /// A process stands still beyond its leases, and until it is taken for dead.
    LongPause,
    /// A master's disk is emptied; a person puts a spare master in its place.
    LostMasterDisk,
    /// A person has a master replaced, added, or taken out, or the group shrunk or grown.
    ChangeMasters,
    /// A master's word reaches some or all of the other masters no more, while it hears them; or
    /// the other way round, or both.
    CutMaster,
    /// A page of a master's newest checkpoint cannot be read for a while, under its mapping.
    UnreadablePage,
    /// A page of a master's operation log cannot be read for a while.
    UnreadableLog,
    /// A master is started from an older copy of its directory, by mistake; the newer one is put in
    /// its place again.
    MasterSetBack,
}

impl FaultKind {
    /// Those that came with issue 15: drawn for some seeds of a hard run only.
    pub const HARD: [Self; 10] = [
        Self::FailedSync,
        Self::Outage,
        Self::DeviceErrors,
        Self::UnreadableSector,
        Self::MisdirectedWrite,
        Self::LyingSyncs,
        Self::NoDescriptors,
        Self::FullMasterDisk,
        Self::CutOffFromPeers,
        Self::LateMember,
    ];

    /// Those that came with issue 16, and that a cell has to heal from: drawn likewise.
    pub const HEALS: [Self; 6] = [
        Self::GoneForGood,
        Self::Emptied,
        Self::LessThanBefore,
        Self::LostDirectory,
        Self::CopiedDisk,
        Self::LongPause,
    ];

    /// What befalls a master's own files: drawn likewise.
    pub const MASTER_FILES: [Self; 3] =
        [Self::UnreadablePage, Self::MasterSetBack, Self::UnreadableLog];

    /// What befalls groups of masters: drawn likewise for runs with such a group.
    pub const GROUP: [Self; 5] = [
        Self::LostMasterDisk,
        Self::ChangeMasters,
        Self::CutMaster,
        Self::FullMasterDisk,
        Self::KillMaster,
    ];
}

/// How often which fault comes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FaultMix {
    /// The usual time between two faults, in milliseconds; zero: no faults at all.
    pub every_ms: u64,
    /// What is not here never comes.
    weights: BTreeMap<FaultKind, u64>,
    /// Whether a power loss may save a page in parts.
    pub tears_pages: bool,
}

/// Of a thousand runs with a group of masters, how many have a given kind of [`FaultKind::GROUP`].
const GROUP_PERMILLE: u64 = 600;

/// Of a thousand seeds of a hard run, how many have a given kind of [`FaultKind::HARD`], or of
/// [`FaultKind::HEALS`].
const HARD_PERMILLE: u64 = 250;

impl FaultMix {
    /// None.
    #[must_use]
    pub fn calm() -> Self {
        Self::default()
    }

    /// These weights, and a fault about every so often.
    #[must_use]
    pub fn every(every_ms: u64, weights: &[(FaultKind, u64)]) -> Self {
        let weights = weights.iter().copied().collect();
        Self { every_ms, weights, tears_pages: false }
    }

    /// The same with another weight for one kind; zero: it never comes.
    #[must_use]
    pub fn with(mut self, kind: FaultKind, weight: u64) -> Self {
        self.weights.insert(kind, weight);
        self.weights.retain(|_, weight| *weight > 0);
        self
    }

    /// All of those that every run may have.
    #[must_use]
    pub fn stormy(every_ms: u64) -> Self {
        use FaultKind as Kind;
        Self::every(
            every_ms,
            &[
                (Kind::Kill, 20),
                (Kind::KillInWrite, 10),
                (Kind::PowerLoss, 6),
                (Kind::KillMaster, 6),
                (Kind::PowerLossMaster, 2),
                (Kind::KillAll, 1),
                (Kind::PowerLossAll, 1),
                (Kind::Partition, 20),
                (Kind::BreakConnection, 30),
                (Kind::Pause, 15),
                (Kind::Slow, 6),
                (Kind::SlowDisk, 6),
                (Kind::JumpWall, 4),
                (Kind::FlipBit, 3),
                (Kind::Corrupt, 3),
                (Kind::OldImage, 2),
                (Kind::FullDisk, 2),
            ],
        )
    }

    /// What a seed's run has: mostly everything, at times one kind alone.
    #[must_use]
    pub fn of(seed: u64) -> Self {
        use FaultKind as Kind;
        let (breaks, pause) = (Kind::BreakConnection, Kind::Pause);
        match seed % 10 {
            0 => Self::every(400, &[(Kind::Kill, 1), (Kind::KillInWrite, 1)]),
            1 => Self::every(300, &[(Kind::Partition, 3), (breaks, 3), (pause, 2)]),
            2 => {
                let masters = [(Kind::KillMaster, 2), (Kind::PowerLossMaster, 1), (Kind::Kill, 2)];
                Self::every(900, &masters)
            }
            3 => Self::every(900, &[(Kind::PowerLoss, 1), (pause, 1), (breaks, 1)]),
            4 => Self::every(2_000, &[(Kind::PowerLossAll, 1), (breaks, 3), (pause, 1)]),
            _ => Self::stormy(400 + 200 * (seed % 7)),
        }
    }

    /// What a seed's hard run has: the same, and some of the kinds that came with issue 15. Many
    /// seeds have none or one of them, so that what one kind does is seen apart from the others.
    #[must_use]
    pub fn hard(seed: u64) -> Self {
        let random = &mut Random::new(seed ^ 0x6861_7264);
        let mut mix = Self::of(seed);
        let total: u64 = mix.weights.values().sum();
        for kind in FaultKind::HARD {
            if random.chance(HARD_PERMILLE) {
                // Up to a fifth of all faults; each lasts for a while.
                let weight = 1 + random.below(total.div_ceil(5));
                mix = mix.with(kind, weight);
            }
        }
        mix.tears_pages = random.chance(500);
        mix.with_master_files(seed, total)
    }

    /// The same, and some of what befalls a master's own files: drawn apart, so that the other
    /// seeds stay as they are. Where a chunkserver's disk may lose what it has synced, no master is
    /// set back: that server might not know of what came after (R3).
    fn with_master_files(mut self, seed: u64, total: u64) -> Self {
        let random = &mut Random::new(seed ^ 0x6d61_7374_6572);
        for kind in FaultKind::MASTER_FILES {
            let weight = 1 + random.below(total.div_ceil(5));
            if random.chance(HARD_PERMILLE) {
                self = self.with(kind, weight);
            }
        }
        self.without_forgotten_terms()
    }

    fn without_forgotten_terms(self) -> Self {
        let loses = [FaultKind::LyingSyncs, FaultKind::FailedSync];
        let forgets = loses.into_iter().chain(FaultKind::HEALS).any(|kind| self.has(kind));
        if forgets { self.with(FaultKind::MasterSetBack, 0) } else { self }
    }

    /// What a seed's run has that has to heal in full: the same, and some of the kinds that came
    /// with issue 16.
    #[must_use]
    pub fn heals(seed: u64) -> Self {
        let random = &mut Random::new(seed ^ 0x6865_616c);
        let mut mix = Self::hard(seed);
        let total: u64 = mix.weights.values().sum();
        for kind in FaultKind::HEALS {
            if random.chance(HARD_PERMILLE) {
                // Up to a tenth: each costs the cell many copies.
                mix = mix.with(kind, 1 + random.below(total.div_ceil(10)));
            }
        }
        mix.without_forgotten_terms()
    }

    /// The same, and some of the kinds that befall groups of masters.
    #[must_use]
    pub fn with_group(mut self, seed: u64) -> Self {
        let random = &mut Random::new(seed ^ 0x6772_6f75_7073);
        let total: u64 = self.weights.values().sum();
        for kind in FaultKind::GROUP {
            if random.chance(GROUP_PERMILLE) {
                let weight = 1 + random.below(total.div_ceil(5));
                self = self.with(kind, weight);
            }
        }
        self
    }

    /// What a seed's run has, and of the kinds that came later this one alone.
    #[must_use]
    pub fn hard_with(seed: u64, kind: FaultKind) -> Self {
        let mix = Self::of(seed);
        let total: u64 = mix.weights.values().sum();
        mix.with(kind, total.div_ceil(5))
    }

    /// Whether a kind may come.
    #[must_use]
    pub fn has(&self, kind: FaultKind) -> bool {
        self.weights.contains_key(&kind)
    }

    /// Draws the next fault; none where there are none.
    pub(crate) fn draw(&self, random: &mut Random) -> Option<FaultKind> {
        let total: u64 = self.weights.values().sum();
        let mut drawn = random.below(total.max(1));
        for (kind, weight) in &self.weights {
            if drawn < *weight {
                return Some(*kind);
            }
            drawn -= weight;
        }
        None
    }
}
