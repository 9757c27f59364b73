//! How busy clients keep this server: what may wait gives way to them.

use crate::reads::READ_SIZE_MAX;
use cairn_protocol::Request;
use cairn_types::Time;
use std::time::Duration;

/// What clients moved is counted over so long.
const WINDOW: Duration = Duration::from_secs(1);
/// Bytes in a window from which on clients are busy: a hundredth of what one disk or link gives.
const BUSY_SIZE: u64 = 1 << 20;
/// What a request costs beside its bytes, in bytes.
const REQUEST_SIZE: u64 = 16 << 10;
/// What is left of a rate while clients are busy: one part in so many.
const BUSY_SHARE: u64 = 4;

/// Bytes that clients moved in this window, and in the one before.
#[derive(Debug, Default)]
pub(crate) struct ClientLoad {
    since: Time,
    moved: u64,
    before: u64,
}

impl ClientLoad {
    fn turn(&mut self, now: Time) {
        let age = now.since(self.since);
        if age >= WINDOW {
            self.before = if age < 2 * WINDOW { self.moved } else { 0 };
            (self.since, self.moved) = (now, 0);
        }
    }

    /// A request of a client, or of one that a client waits for, that moves so many bytes.
    fn note(&mut self, now: Time, size: u64) {
        self.turn(now);
        self.moved = self.moved.saturating_add(size).saturating_add(REQUEST_SIZE);
    }

    /// The same for what only clients, and those that they wait for, ask for.
    pub(crate) fn note_request(&mut self, now: Time, request: &Request) {
        let size = match request {
            Request::Read(read) => read.size.min(READ_SIZE_MAX),
            Request::Write(write) => write.size,
            Request::Append(append) => append.size,
            Request::Extend(extend) => extend.size,
            Request::Forward(forward) => {
                forward.mutations.iter().map(|it| it.size).fold(0, u64::saturating_add)
            }
            _ => return,
        };
        self.note(now, size);
    }

    /// Whether clients are busy.
    pub(crate) fn is_busy(&self, now: Time) -> bool {
        let age = now.since(self.since);
        let most = if age < WINDOW { self.moved.max(self.before) } else { self.moved };
        age < 2 * WINDOW && most >= BUSY_SIZE
    }

    /// What of a rate may be used now; zero: there is no limit.
    pub(crate) fn allowed(&self, now: Time, rate: u64) -> u64 {
        if rate > 0 && self.is_busy(now) { (rate / BUSY_SHARE).max(1) } else { rate }
    }
}

/// How long so many bytes take at a rate.
pub(crate) fn time_at(size: u64, rate: u64) -> Duration {
    match rate {
        0 => Duration::ZERO,
        rate => Duration::from_micros(size.saturating_mul(1_000_000) / rate),
    }
}

#[cfg(test)]
mod tests {
    use super::{BUSY_SIZE, ClientLoad, time_at};
    use cairn_types::Time;
    use std::time::Duration;

    #[test]
    fn what_may_wait_has_a_quarter_of_its_rate_while_clients_are_busy() {
        let at = |millis| Time::default() + Duration::from_millis(millis);
        let mut load = ClientLoad::default();
        assert_eq!(load.allowed(at(5_000), 400), 400);
        load.note(at(5_100), BUSY_SIZE / 2);
        assert_eq!(load.allowed(at(5_100), 400), 400, "a read now and then");
        load.note(at(5_200), BUSY_SIZE);
        assert_eq!(load.allowed(at(5_300), 400), 100);
        assert_eq!(load.allowed(at(6_100), 400), 100, "in the last second");
        assert_eq!(load.allowed(at(5_300), 0), 0, "no limit is no limit");
        assert_eq!(load.allowed(at(8_000), 400), 400);
        assert_eq!(time_at(200, 400), Duration::from_millis(500));
        assert_eq!(time_at(200, 0), Duration::ZERO);
    }
}
