//! The simulated world behind the seam: one queue, one seed
