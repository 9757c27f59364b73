//! Drills of the rules of raises, mutations and closing.

use super::Drill;

pub(super) const DRILLS: &[Drill] = &[];
