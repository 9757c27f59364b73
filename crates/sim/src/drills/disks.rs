//! Drills of the rules of what a disk may do.

use super::Drill;

pub(super) const DRILLS: &[Drill] = &[];
