//! This master's term, as the rules about chunks need to know it.

use cairn_types::{CellConfig, Term, Time};
use std::time::Duration;

/// The number of the term, when it began to be served, and the settings that hold in it.
#[derive(Clone, Debug)]
pub(crate) struct ThisTerm {
    pub(crate) number: Term,
    pub(crate) started: Time,
    pub(crate) config: CellConfig,
}

impl ThisTerm {
    /// A term that is not served yet.
    pub(crate) fn new(number: Term) -> Self {
        Self { number, started: Time::default(), config: CellConfig::default() }
    }

    /// A record of this term is applied: requests come, and time counts.
    pub(crate) fn begin(&mut self, now: Time, config: &CellConfig) {
        let [silent, lease, dead] = [config.silent_ms, config.lease_ms, config.dead_ms];
        assert!(silent <= dead && lease <= dead, "settings are checked before they hold (R6)");
        self.started = now;
        self.config = config.clone();
    }

    /// In the first while of a term servers are still joining.
    pub(crate) fn is_starting(&self, now: Time) -> bool {
        now < self.started + self.silent()
    }

    pub(crate) fn heartbeat(&self) -> Duration {
        Duration::from_millis(self.config.heartbeat_ms)
    }

    pub(crate) fn silent(&self) -> Duration {
        Duration::from_millis(self.config.silent_ms)
    }

    pub(crate) fn dead(&self) -> Duration {
        Duration::from_millis(self.config.dead_ms)
    }
}
