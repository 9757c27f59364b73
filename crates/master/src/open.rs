//! Opening a master's directory: lock, identity, recovery.

use crate::driver::Master;
use crate::master_disk::MasterDisk;
use crate::member_directory::is_untouched;
use crate::recovery::{self, RecoveredState, RecoveryError};
use cairn_consensus::{Beginning, Consensus, ConsensusError};
use cairn_env::{Disk, DiskError, IoFailure};
use cairn_format::{Identity, IdentityKind};
use cairn_protocol::{Hello, Role};
use cairn_store::{
    Checkpoints, IdentityError, PageFileLimits, SEGMENT_SIZE_STANDARD, read_identity,
    write_identity,
};
use cairn_types::{CellConfig, CellId, ConfigError, Incarnation, LogIndex, Random, ServerId, Term};
use std::sync::Arc;

/// Whoever holds this file's lock is the directory's master.
pub(crate) const LOCK_FILE: &str = "lock";

/// What a master is started with.
#[derive(Clone, Debug)]
pub struct MasterConfig {
    /// The settings that a new cell gets; a cell that is founded keeps its own.
    pub cluster: CellConfig,
    /// Feeds every choice and id that this process draws; must differ from start to start.
    pub seed: u64,
    /// A checkpoint is made after so many records, or more where the last one was dear.
    pub checkpoint_every_records: u64,
    /// When a checkpoint is written whole into a fresh page file.
    pub page_file_limits: PageFileLimits,
    /// About so many bytes the operation log may have, whatever its records' sizes: then a
    /// checkpoint goes into a fresh page file, on which what is kept of the log hangs.
    pub log_size_max: u64,
    /// Bytes that a segment of the operation log has.
    pub segment_size: u64,
    /// The term up to which servers know of changes that are lost with a newer directory: the first
    /// start with it begins a history past that term (R3), later ones find it begun.
    pub recover_past: Option<Term>,
}

impl MasterConfig {
    /// What suits a real machine.
    #[must_use]
    pub fn standard(cluster: CellConfig, seed: u64) -> Self {
        Self {
            cluster,
            seed,
            checkpoint_every_records: 100_000,
            page_file_limits: PageFileLimits::standard(),
            log_size_max: 1 << 30,
            segment_size: SEGMENT_SIZE_STANDARD,
            recover_past: None,
        }
    }
}

/// Why a master does not start.
#[derive(Debug, thiserror::Error)]
pub enum MasterOpenError {
    /// Another process runs on the directory.
    #[error("{directory}: another server is running on this directory; stop it first")]
    Running {
        /// Where.
        directory: String,
    },
    /// The directory is of another kind of server.
    #[error("{directory}: belongs to a chunkserver; give the master a directory of its own")]
    NotAMaster {
        /// Where.
        directory: String,
    },
    /// No master starts on a backup: what came after it would be unknown to it (R3).
    #[error(
        "{directory}: this is a backup; cairn masters recover makes a master's directory of it"
    )]
    Backup {
        /// Where.
        directory: String,
    },
    /// It has no identity, and is not empty (MD2).
    #[error(
        "{directory}: a master's log or checkpoints are in it, and no identity: cairn masters \
         recover makes a master of them"
    )]
    Remains {
        /// Where.
        directory: String,
    },
    /// The settings do not fit together.
    #[error("{0}")]
    Config(#[from] ConfigError),
    /// The disk refused.
    #[error("{directory}: {error}")]
    Disk {
        /// Where.
        directory: String,
        /// What it said.
        error: DiskError,
    },
    /// Whose directory it is cannot be told.
    #[error(transparent)]
    Identity(IdentityError),
    /// What is on disk gives no state.
    #[error("{directory}: {error}")]
    Recovery {
        /// Where.
        directory: String,
        /// Why not.
        error: RecoveryError,
    },
    /// There is no term after the one that is lost.
    #[error("no term comes after that: give the one that the master named")]
    TermsSpent,
    /// It has an identity, and what a master begins with it is not there any more.
    #[error(
        "{directory}: the operation log that was begun here is gone, and with it what this master \
         knew; where the others of its group have it, give it an empty directory and put it in the \
         old one's place (cairn masters replace), or else start from a backup (cairn masters \
         recover)"
    )]
    LogGone {
        /// Where.
        directory: String,
    },
    /// The group goes on without it.
    #[error("{directory}: this master was taken out of its group; give it an empty directory")]
    TakenOut {
        /// Where.
        directory: String,
    },
    /// A history begins at a master that is alone.
    #[error("one of a group of masters begins no history by itself: the others may know more")]
    RecoverGroup,
    /// The consensus library refuses.
    #[error("{0}")]
    Consensus(#[from] ConsensusError),
}

impl Master {
    /// Opens the directory, founding a cell in an empty one, and recovers its state.
    ///
    /// # Errors
    /// [`MasterOpenError`], one line for a person.
    pub fn open(
        disk: Arc<dyn Disk>,
        config: MasterConfig,
    ) -> Result<(Self, Arc<MasterDisk>), MasterOpenError> {
        let directory = disk.describe();
        let refuse = |error| MasterOpenError::Disk { directory: directory.clone(), error };
        let unrecovered = |error| MasterOpenError::Recovery { directory: directory.clone(), error };
        config.cluster.validate()?;
        let lock = disk.lock(LOCK_FILE).map_err(|failure| match failure {
            IoFailure::Locked => MasterOpenError::Running { directory: directory.clone() },
            other => refuse(other.into()),
        })?;
        let mut random = Random::new(config.seed);
        let unidentified = |error| match error {
            IdentityError::Disk(error) => refuse(error),
            malformed => MasterOpenError::Identity(malformed),
        };
        let identity = match read_identity(disk.as_ref()).map_err(unidentified)? {
            Some(identity) => identity,
            None if is_untouched(disk.as_ref()).map_err(refuse)? => {
                found_cell(disk.as_ref(), &mut random).map_err(refuse)?
            }
            None => return Err(MasterOpenError::Remains { directory }),
        };
        match identity.kind {
            IdentityKind::Master => {}
            IdentityKind::Chunkserver => return Err(MasterOpenError::NotAMaster { directory }),
            IdentityKind::Backup => return Err(MasterOpenError::Backup { directory }),
        }
        let cell = identity.cell;
        let mut checkpoints =
            Checkpoints::open(Arc::clone(&disk), cell, config.page_file_limits).map_err(refuse)?;
        let me = ServerId::new(identity.id);
        let whose = (cell, me);
        let recovered = recovery::recover(&disk, whose, config.segment_size, &mut checkpoints);
        let RecoveredState { state, log, from, mark, base, records, told } =
            recovered.map_err(unrecovered)?;
        let is_first_start = records.is_empty() && base.0 == LogIndex::default();
        // MD3 of member_directory.rs
        if identity.begun && is_first_start && mark.is_none() {
            return Err(MasterOpenError::LogGone { directory });
        }
        say_whose(disk.as_ref(), &identity, is_first_start).map_err(refuse)?;
        if mark.as_ref().is_some_and(|mark| mark.members.get(me).is_none()) {
            return Err(MasterOpenError::TakenOut { directory });
        }
        let lost = config.recover_past.filter(|past| *past >= state.applied_term());
        let past = lost.unwrap_or(state.applied_term());
        if past >= Term::LAST {
            return Err(MasterOpenError::TermsSpent);
        }
        let is_alone = mark.as_ref().is_none_or(|mark| mark.members.is_alone(me));
        if lost.is_some() && !is_alone {
            return Err(MasterOpenError::RecoverGroup);
        }
        let applied = (state.applied(), state.applied_term());
        let seed = random.next_u64();
        let mut consensus =
            Consensus::start(Beginning { me, seed, mark, applied, base, records, past })?;
        if base.0 > LogIndex::default() && !is_alone {
            consensus.has_checkpoint(base.0, base.1);
        }
        let hello = Hello::new(cell, Role::Master, me, Incarnation::new(random.next_u64()));
        let service = MasterDisk::new(disk, log, checkpoints, config.log_size_max, lock);
        let mut master = Self::new(state, consensus, config, hello, from);
        master.told = told;
        if lost.is_some() {
            master.begin_history();
        }
        Ok((master, Arc::new(service)))
    }
}

/// Makes durable whose directory this is, and that a log was begun in it (MD3).
fn say_whose(disk: &dyn Disk, identity: &Identity, is_first_start: bool) -> Result<(), DiskError> {
    if is_first_start {
        // Whoever made the directory may have failed to sync what is read here, and a power failure
        // would then leave an empty disk that has voted (R25).
        return write_identity(disk, identity);
    }
    if identity.begun {
        return Ok(());
    }
    match write_identity(disk, &Identity { begun: true, ..*identity }) {
        // The next start may have room for it; this one goes without.
        Ok(()) | Err(DiskError::NoSpace) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Makes an empty directory the first master's of a new cell (R25).
fn found_cell(disk: &dyn Disk, random: &mut Random) -> Result<Identity, DiskError> {
    let cell = CellId::new(random.next_u128() | 1);
    let id = random.next_u64() | 1;
    let identity = Identity { kind: IdentityKind::Master, cell, id, begun: false };
    write_identity(disk, &identity)?;
    Ok(identity)
}
