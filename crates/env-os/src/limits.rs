//! What the peers of a driver may make its process hold.

/// What the peers of a driver may make its process hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaunchLimits {
    /// Connections that may be open to it. Turned by who has more clients than that.
    pub accepted_max: usize,
    /// Connections that it may open to others.
    pub dialled_max: usize,
}

impl Default for LaunchLimits {
    fn default() -> Self {
        Self { accepted_max: 10_000, dialled_max: 4_000 }
    }
}
