//! What every part of the world shares: true time, what is to come, and the one generator (W1).

use crate::clock::WorldTime;
use crate::queue::{EventQueue, ScheduledEvent};
use crate::trace::Trace;
use cairn_types::Random;
use std::collections::BTreeMap;
use std::time::Duration;

/// How fast things are in this world.
#[derive(Clone, Debug)]
pub struct WorldSettings {
    /// The seed.
    pub seed: u64,
    /// Tell each event on standard error.
    pub verbose: bool,
    /// The least time a frame takes.
    pub latency_min: Duration,
    /// The usual most.
    pub latency_max: Duration,
    /// Of a thousand frames or disk jobs, how many take up to fifty times as long.
    pub stragglers_permille: u64,
    /// Of a thousand payloads, how many arrive with a bit flipped.
    pub corrupt_permille: u64,
    /// What a batch of disk jobs usually takes at most.
    pub disk_max: Duration,
    /// Of a thousand batches, how many take as long as a frame (W3).
    pub long_batches_permille: u64,
}

impl WorldSettings {
    /// A world like one rack of machines.
    #[must_use]
    pub fn rack(seed: u64) -> Self {
        Self {
            seed,
            verbose: false,
            latency_min: Duration::from_micros(50),
            latency_max: Duration::from_micros(500),
            stragglers_permille: 10,
            corrupt_permille: 0,
            disk_max: Duration::from_millis(1),
            long_batches_permille: 100,
        }
    }
}

/// True time and what is to come.
pub(crate) struct Timeline {
    pub(crate) settings: WorldSettings,
    pub(crate) now: WorldTime,
    pub(crate) queue: EventQueue,
    pub(crate) random: Random,
    pub(crate) reached: BTreeMap<&'static str, u64>,
    pub(crate) trace: Trace,
}

impl Timeline {
    pub(crate) fn new(settings: WorldSettings) -> Self {
        Self {
            random: Random::new(settings.seed),
            trace: Trace::new(settings.verbose),
            settings,
            now: WorldTime(0),
            queue: EventQueue::default(),
            reached: BTreeMap::new(),
        }
    }

    /// Counts something reached.
    pub(crate) fn reach(&mut self, what: &'static str) {
        *self.reached.entry(what).or_default() += 1;
    }

    /// Arranges for an event that much later.
    pub(crate) fn schedule(&mut self, after: Duration, event: ScheduledEvent) {
        self.queue.push(self.now.after(after), event);
    }

    /// A span between `min` and `max`, rarely up to fifty times as long.
    pub(crate) fn span(&mut self, min: Duration, max: Duration, slow: u32) -> Duration {
        let nanos = |span: Duration| u64::try_from(span.as_nanos()).expect("short spans");
        let mut span = nanos(min) + self.random.below(nanos(max) - nanos(min) + 1);
        if self.random.chance(self.settings.stragglers_permille) {
            span += self.random.below(50 * nanos(max));
        }
        Duration::from_nanos(span) * slow
    }

    /// The time that a frame takes between two machines of this slowness.
    pub(crate) fn latency(&mut self, slow: u32) -> Duration {
        let (min, max) = (self.settings.latency_min, self.settings.latency_max);
        self.span(min, max, slow)
    }
}
