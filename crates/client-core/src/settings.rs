//! What a client is told at its start.

use cairn_types::{Address, Identity, Rack};
use std::time::Duration;

/// Chunks located by one request, the following ones included (A7).
pub(crate) const LOCATE_COUNT: u32 = 16;
/// Tries at one primary before the master is asked again (§3.1: steps 3 to 7, then from the
/// beginning).
pub(crate) const TRIES_AT_PRIMARY: u32 = 3;
/// A read that is not answered by then is asked of another replica too.
pub(crate) const HEDGE_AFTER: Duration = Duration::from_secs(1);
/// How long an answer of the master is waited for before another try.
pub(crate) const MASTER_PATIENCE: Duration = Duration::from_secs(5);

/// Whether a client takes what may be behind: the word of masters that are not in charge, and of
/// chunkservers that no master vouches for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ShadowReads {
    /// It does not: while no primary master is found, it waits.
    #[default]
    Never,
    /// Only while no primary master is found, for about a second.
    WhenNoPrimary,
    /// Always: the primary master is asked what no shadow answers.
    First,
}

/// Who the client is and whom it asks.
#[derive(Clone, Debug)]
pub struct ClientSettings {
    /// The masters; the one that answers as primary master is kept to.
    pub masters: Vec<Address>,
    /// Where this client is; near replicas are preferred.
    pub rack: Rack,
    /// For the session's name and for jitter. Two clients must not have the same one.
    pub seed: u128,
    /// Whether shadow masters may be asked.
    pub shadow_reads: ShadowReads,
    /// As whom it asks.
    pub identity: Identity,
}
