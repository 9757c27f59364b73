//! Drills of the master's rules: terms, servers, times, leases, outcomes, names.

use super::Drill;

pub(super) const DRILLS: &[Drill] = &[];
