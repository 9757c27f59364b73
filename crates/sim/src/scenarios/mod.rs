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
    let of_groups = [
        (58, "two masters that were to go handed the charge to each other for ever"),
        (1_000, "a member whose identity was not on disk forgot that it had voted"),
        (
            1_012,
            "a master that started anew before it was told of its group could not come in again",
        ),
    ];
    let of_groups_with_people = [
        (19, "a master refused whom it had answered in the turn in which it lost charge"),
        (105, "a member that came back did not know where who was in charge is, and stayed behind"),
    ];
    let healing = [
        (10, "a copy of a server's disk was leased a chunk while the server's own lease ran"),
        (88, "a balance that was ordered while the last one's end was logged had no end"),
        (152, "a server was asked to verify what the log had no more, and the server neither"),
        (195, "a machine had its own disks back before it could open a file again"),
    ];
    let of_streams = [(
        18,
        "a bundle that a server was killed at was on its disk, and in nobody's books (the ledger)",
    )];
    let alone = found.map(|(seed, name)| Scenario { name, config: as_pinned(seed) });
    let group = |(seed, name)| {
        let config = RunConfig { people: false, ..RunConfig::hard(seed).with_group() };
        Scenario { name, config }
    };
    let group_with_people =
        |(seed, name)| Scenario { name, config: RunConfig::hard(seed).with_group() };
    let heals = |(seed, name)| {
        let config = RunConfig { people: false, ..RunConfig::healing(seed) };
        Scenario { name, config }
    };
    let stream = |(seed, name)| {
        let config = RunConfig { people: false, ..RunConfig::hard(seed).with_streams() };
        Scenario { name, config }
    };
    let groups = of_groups.map(group).into_iter();
    let groups = groups.chain(of_groups_with_people.map(group_with_people));
    let others = groups.chain(healing.map(heals));
    alone.into_iter().chain(others).chain(of_streams.map(stream)).collect()
}

/// The run of a seed as it was when the pinned ones were found: without what was not there yet.
#[must_use]
pub fn as_pinned(seed: u64) -> RunConfig {
    let config = RunConfig::of(seed);
    let faults = config.faults.with(FaultKind::PowerLossAll, 0);
    RunConfig { faults, batches: false, levels: false, snapshots: false, ..config }
}
