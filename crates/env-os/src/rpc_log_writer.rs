//! The thread that writes a diagnostic log, and the ring of its latest batches in memory
//! (GFS §5.3).
//!
//! ```text
//!   the loop ── hand_over ──► ring (the last megabyte, for who asks the server)
//!                        └──► queue (bounded) ──► writer thread ──► files
//! ```
//! - RW1: handing over waits for nothing: where the queue is full the batch is dropped, and its
//!   entries are counted.
//! - RW2: what was dropped, before the disk or by it, is told with the next batch.

use crate::log_sink::LogSink;
use crate::rpc_log_files::{RpcLogFiles, Written};
use crate::rpc_log_options::RpcLogOptions;
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::{Builder, JoinHandle};

/// Bytes of batches in memory.
const RING_SIZE: usize = 1 << 20;
/// Batches that may wait for the disk.
const QUEUE_COUNT_MAX: usize = 64;

/// A batch, with the number of its entries.
type Batch = (Arc<Vec<u8>>, u64);

/// The loop's way to its writer.
#[derive(Debug)]
pub(crate) struct RpcLogWriter {
    queue: Option<SyncSender<Batch>>,
    /// Entries that the disk did not take.
    refused: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
    ring: VecDeque<Arc<Vec<u8>>>,
    ring_size: usize,
    /// Batches ever handed over: the number of the last one.
    handed: u64,
}

/// What the ring has behind a batch.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Recent {
    pub(crate) batches: Vec<Arc<Vec<u8>>>,
    /// The number of the last of them.
    pub(crate) last: u64,
    /// Batches behind the one named that are no longer there.
    pub(crate) missed: u64,
}

impl RpcLogWriter {
    /// Starts the thread. `log` is told where the log cannot be written.
    ///
    /// # Errors
    /// The system has no thread.
    pub(crate) fn start(
        name: &str,
        options: RpcLogOptions,
        run: u64,
        log: LogSink,
    ) -> io::Result<Self> {
        let (sender, receiver) = sync_channel(QUEUE_COUNT_MAX);
        let refused = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&refused);
        let files = RpcLogFiles::new(options, run);
        let write = move || write_all(files, &receiver, &counted, &log);
        let thread = Builder::new().name(format!("{name}-rpclog")).spawn(write)?;
        Ok(Self {
            queue: Some(sender),
            refused,
            thread: Some(thread),
            ring: VecDeque::new(),
            ring_size: 0,
            handed: 0,
        })
    }

    /// Takes a batch of so many entries; how many were dropped since the last time (RW1, RW2).
    pub(crate) fn hand_over(&mut self, bytes: Vec<u8>, count: u64) -> u64 {
        let batch = Arc::new(bytes);
        self.ring_size += batch.len();
        self.ring.push_back(Arc::clone(&batch));
        self.handed += 1;
        while self.ring_size > RING_SIZE {
            let oldest = self.ring.pop_front().expect("it is over its bound");
            self.ring_size -= oldest.len();
        }
        let dropped = self.refused.swap(0, Ordering::Relaxed);
        let queue = self.queue.as_ref().expect("there until it is dropped");
        match queue.try_send((batch, count)) {
            Ok(()) => dropped,
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => dropped + count,
        }
    }

    /// What was handed over after batch `after` and is still in memory.
    pub(crate) fn recent(&self, after: u64) -> Recent {
        let first = self.handed - self.ring.len() as u64;
        // Who names a batch of an earlier life of the server begins anew.
        let after = if after > self.handed { 0 } else { after };
        let skipped = after.saturating_sub(first);
        let skipped = usize::try_from(skipped).unwrap_or(usize::MAX);
        Recent {
            batches: self.ring.iter().skip(skipped).cloned().collect(),
            last: self.handed,
            missed: first.saturating_sub(after),
        }
    }
}

/// What was handed over is written before the loop's end is told.
impl Drop for RpcLogWriter {
    fn drop(&mut self) {
        self.queue = None;
        if let Some(thread) = self.thread.take() {
            // It panics nowhere; and if it did, the log is all that is lost.
            let _ = thread.join();
        }
    }
}

fn write_all(
    mut files: RpcLogFiles,
    batches: &Receiver<Batch>,
    refused: &AtomicU64,
    log: &LogSink,
) {
    for (batch, count) in batches {
        let event = match files.write(&batch) {
            Written::Yes(event) => event,
            Written::No(event) => {
                refused.fetch_add(count, Ordering::Relaxed);
                event
            }
        };
        if let Some(event) = event {
            log.put(crate::clock::wall_time(), &event);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{RING_SIZE, RpcLogWriter};
    use crate::log_sink::LogSink;
    use crate::rpc_log_options::RpcLogOptions;
    use cairn_env::LogLevel;
    use std::sync::{Arc, Barrier, Mutex};

    fn options(scratch: &tempfile::TempDir) -> RpcLogOptions {
        RpcLogOptions::within(scratch.path(), 1 << 20)
    }

    #[test]
    fn the_latest_batches_are_in_memory_and_who_asks_late_is_told_what_was_missed() {
        let scratch = tempfile::tempdir().expect("a scratch directory");
        let mut writer =
            RpcLogWriter::start("t", options(&scratch), 1, LogSink::default()).expect("a thread");
        assert_eq!(writer.recent(0).batches.len(), 0);
        for number in 0..24u8 {
            writer.hand_over(vec![number; RING_SIZE / 8], 1);
        }
        let all = writer.recent(0);
        assert_eq!((all.batches.len(), all.last, all.missed), (8, 24, 16));
        let some = writer.recent(22);
        assert_eq!((some.batches.len(), some.batches[0][0], some.missed), (2, 22, 0));
        assert_eq!(writer.recent(24).batches.len(), 0);
        assert_eq!(writer.recent(1000).batches.len(), 8, "of another life");
    }

    #[test]
    fn a_writer_that_falls_behind_holds_nobody_up_and_what_is_dropped_is_counted() {
        let scratch = tempfile::tempdir().expect("a scratch directory");
        std::fs::write(scratch.path().join("rpclog"), "in the way").expect("writes");
        // The writer stands still where it says that it cannot write.
        let (gate, said) = (Arc::new(Barrier::new(2)), Arc::new(Mutex::new(Vec::new())));
        let (waits, lines) = (Arc::clone(&gate), Arc::clone(&said));
        let log = LogSink::new(LogLevel::Info, move |_, event| {
            lines.lock().expect("unpoisoned").push(event.to_string());
            waits.wait();
            waits.wait();
        });
        let mut writer = RpcLogWriter::start("t", options(&scratch), 1, log).expect("a thread");
        assert_eq!(writer.hand_over(vec![1], 5), 0);
        gate.wait();
        let handed = 100;
        let dropped: u64 = (0..handed).map(|_| writer.hand_over(vec![1], 2)).sum();
        let waiting = super::QUEUE_COUNT_MAX as u64;
        assert_eq!(dropped, 5 + 2 * (handed - waiting), "the first by the disk, the others before");
        gate.wait();
        drop(writer);
        assert_eq!(said.lock().expect("unpoisoned").len(), 1, "said once");
    }
}
