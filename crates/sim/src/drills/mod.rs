//! Drills: short scripts in a small cell, told step by step, each of which brings about the one
//! interleaving that a rule of protocol.md closes.
//!
//! A drill passes in a whole cell; with its rule broken on purpose, a checker complains or the
//! drill itself sees bytes or answers that must not be. The fault injector finds what nobody
//! thought of; a drill finds again what the rule's author thought of.

mod deletion;
mod disks;
mod drill;
mod findings;
mod group_founding;
mod lies;
mod lost_bundles;
mod lying_answers;
mod manual_client;
mod masters;
mod moves;
mod mutations;
mod names;
mod permissions;
mod policies;
mod quotas;
mod raises;
mod repair;
mod script;
mod settling;
mod snapshots;
mod streams;
mod taking_charge;

pub use drill::{Drill, run_drill};

/// All of them.
#[must_use]
pub fn drills() -> Vec<Drill> {
    let of_rules =
        [names::DRILLS, masters::DRILLS, mutations::DRILLS, raises::DRILLS, disks::DRILLS];
    let of_rules = [&of_rules.concat()[..], group_founding::DRILLS, taking_charge::DRILLS];
    let of_names = [deletion::DRILLS, policies::DRILLS, quotas::DRILLS, snapshots::DRILLS].concat();
    let of_lies = [lies::DRILLS.to_vec(), lying_answers::DRILLS.to_vec()].concat();
    let of_names = [of_names, permissions::DRILLS.to_vec(), of_lies].concat();
    let of_streams = [streams::DRILLS, settling::DRILLS, lost_bundles::DRILLS].concat();
    let of_heals = [repair::DRILLS.to_vec(), moves::DRILLS.to_vec(), of_streams].concat();
    [of_rules.concat(), of_names, of_heals, findings::drills()].concat()
}
