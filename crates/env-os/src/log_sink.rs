//! Where the events that a driver and its world log go.

use cairn_env::{LogEvent, LogLevel};
use cairn_types::WallTime;
use std::fmt;
use std::sync::Arc;

type WriteEvent = dyn Fn(WallTime, &LogEvent) + Send + Sync;

/// Writes events down; clones write to the same place. By default nobody does.
#[derive(Clone, Default)]
pub struct LogSink {
    /// The least urgent level that is written down, and who writes.
    to: Option<(LogLevel, Arc<WriteEvent>)>,
}

impl LogSink {
    /// Has events of this level and the more urgent ones written by `write`, which may be called
    /// by several threads at once, and must not wait for long: the loop waits with it.
    #[must_use]
    pub fn new(
        level: LogLevel,
        write: impl Fn(WallTime, &LogEvent) + Send + Sync + 'static,
    ) -> Self {
        Self { to: Some((level, Arc::new(write))) }
    }

    /// Writes an event down, where its level is wanted.
    pub fn put(&self, time: WallTime, event: &LogEvent) {
        if let Some((least, write)) = &self.to
            && event.level <= *least
        {
            write(time, event);
        }
    }
}

impl fmt::Debug for LogSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let level = self.to.as_ref().map(|(level, _)| level);
        f.debug_struct("LogSink").field("level", &level).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::LogSink;
    use cairn_env::{LogEvent, LogLevel};
    use cairn_types::WallTime;
    use std::sync::{Arc, Mutex};

    #[test]
    fn events_of_the_wanted_levels_are_written() {
        let written = Arc::new(Mutex::new(Vec::new()));
        let lines = Arc::clone(&written);
        let sink = LogSink::new(LogLevel::Warn, move |time, event| {
            lines.lock().expect("unpoisoned").push((time, event.name));
        });
        let time = WallTime::from_millis(5);
        let events = [LogEvent::error("a"), LogEvent::warn("b"), LogEvent::info("c")];
        events.iter().for_each(|event| sink.put(time, event));
        LogSink::default().put(time, &LogEvent::error("to nobody"));
        assert_eq!(*written.lock().expect("unpoisoned"), [(time, "a"), (time, "b")]);
    }
}
