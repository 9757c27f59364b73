//! What the peers of a driver may make its process hold.

/// What the peers of a driver may make its process hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaunchLimits {
    /// Connections that may be open to it. Turned by who has more clients than that.
    pub accepted_max: usize,
    /// Connections that it may open to others.
    pub dialled_max: usize,
    /// Bytes that all who are connected to it may make it hold, beside a few kilobytes for each:
    /// requests that are not answered, answers that are not taken, pushes half arrived. Turned by
    /// who has little memory, or very many clients that read much at once.
    pub memory_max: usize,
}

impl LaunchLimits {
    /// With less memory the largest requests would never be served.
    pub const MEMORY_MIN: usize = 96 << 20;
}

impl Default for LaunchLimits {
    fn default() -> Self {
        Self { accepted_max: 10_000, dialled_max: 4_000, memory_max: 256 << 20 }
    }
}
