//! Writing records: framed, numbered, each appended at least once and delivered once (§2.7.2).
//!
//! - W1: the numbers on their way are never further apart than the window that readers remember
//!   (R37); whoever would overtake it waits.

use crate::error::Error;
use crate::link::wait;
use crate::open_file::OpenFile;
use bytes::Bytes;
use cairn_client_core::{Operation, Output};
use cairn_format::{RECORD_WINDOW, RecordSource, encode_record};
use cairn_types::SessionId;
use std::collections::BTreeSet;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{Notify, oneshot};

#[derive(Debug, Default)]
struct RecordNumbers {
    next: u64,
    /// First numbers of the appends on their way.
    under_way: BTreeSet<u64>,
}

/// The numbers of a writer, and who waits for some.
#[derive(Debug, Default)]
struct NumberWindow {
    numbers: Mutex<RecordNumbers>,
    answered: Notify,
}

/// One producer of records. Made by [`File::record_writer`](crate::File::record_writer). Many
/// appends may be waited for at once; a producer that waits for each gets them in its order.
#[derive(Debug)]
pub struct RecordWriter {
    file: Arc<OpenFile>,
    producer: RecordSource,
    window: Arc<NumberWindow>,
}

/// Numbers on their way; given back when the append is over, whether or not it is waited for.
#[derive(Debug)]
struct ReservedNumbers {
    window: Arc<NumberWindow>,
    first: u64,
}

impl Drop for ReservedNumbers {
    fn drop(&mut self) {
        self.window.numbers().under_way.remove(&self.first);
        self.window.answered.notify_waiters();
    }
}

impl NumberWindow {
    fn numbers(&self) -> MutexGuard<'_, RecordNumbers> {
        self.numbers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until `count` more numbers fit into the window behind the oldest on its way (W1).
    async fn reserve(self: &Arc<Self>, count: u64) -> ReservedNumbers {
        loop {
            let answered = self.answered.notified();
            {
                let mut numbers = self.numbers();
                let first = numbers.next;
                let oldest = numbers.under_way.first().copied().unwrap_or(first);
                assert!(oldest <= first, "W1: {oldest} is on its way and {first} was not given");
                if first + count - oldest <= RECORD_WINDOW {
                    numbers.next += count;
                    let is_new = numbers.under_way.insert(first);
                    assert!(is_new, "R37: a number is given out once");
                    return ReservedNumbers { window: Arc::clone(self), first };
                }
            }
            answered.await;
        }
    }
}

impl RecordWriter {
    pub(crate) fn new(file: Arc<OpenFile>, producer: &str) -> Self {
        let half = || u128::from(RandomState::new().hash_one(producer));
        let session = SessionId::new(half() << 64 | half());
        let producer = RecordSource::of(producer, session);
        Self { file, producer, window: Arc::default() }
    }

    /// Who readers will see: the name and a session drawn for this writer (R37).
    #[must_use]
    pub fn producer(&self) -> RecordSource {
        self.producer
    }

    /// Appends one record and answers where its frame stands. Framed, it may have a quarter of a
    /// chunk at most.
    ///
    /// # Errors
    /// `RecordTooLarge`; otherwise as the outcome says: with `Unknown` the record may be there,
    /// and appending it again makes another record, with a number of its own.
    ///
    /// ```no_run
    /// # async fn example(file: cairn_client::File) -> Result<(), cairn_client::Error> {
    /// let writer = file.record_writer("crawler-7");
    /// writer.append(b"one record").await?;
    /// # Ok(()) }
    /// ```
    pub async fn append(&self, payload: &[u8]) -> Result<u64, Error> {
        self.append_all(&[payload]).await
    }

    /// Appends several records as one: all of them stand behind each other, or none does. Framed,
    /// they may have a quarter of a chunk together, and be as many as the window
    /// ([`RECORD_WINDOW`](crate::RECORD_WINDOW)). Answers where the first stands.
    ///
    /// # Errors
    /// As [`append`](Self::append); `Invalid` where there are none or too many.
    pub async fn append_all(&self, payloads: &[&[u8]]) -> Result<u64, Error> {
        let count = payloads.len() as u64;
        if count == 0 || count > RECORD_WINDOW {
            let why = format!("{count} records at once: from 1 to {RECORD_WINDOW} can be");
            return Err(Error::invalid(why));
        }
        let reserved = self.window.reserve(count).await;
        let mut framed = Vec::new();
        for (number, payload) in (reserved.first..).zip(payloads) {
            encode_record(self.producer, number, payload, &mut framed);
        }
        let (file, sync) = (self.file.entry.id, self.file.entry.synced);
        let append = Operation::Append { file, bytes: Bytes::from(framed), sync };
        // Who no longer waits ends nothing: it may be repeated until its deadline.
        let (tell, answer) = oneshot::channel();
        let done = Box::new(move |result| {
            drop(reserved);
            drop(tell.send(result));
        });
        self.file.link.hand_over(append, self.file.link.deadline(), done);
        match wait(answer).await? {
            Output::Appended { offset } => Ok(offset),
            _ => Err(Error::mismatched()),
        }
    }
}
