//! How much fits on a disk, and how much there is.

use super::SimDisk;

impl SimDisk {
    /// Sets how much fits.
    pub fn set_capacity(&self, capacity: u64) {
        self.state().capacity = capacity;
    }

    /// Bytes that files take of it, whole pages, whether anybody is on it or not.
    #[must_use]
    pub fn used(&self) -> u64 {
        self.state().used()
    }
}
