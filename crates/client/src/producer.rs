//! Producers of streams: records gathered to bundles, each in the stream exactly once (R38).
//!
//! ```text
//!   append ──► gathered ──► bundles on their way ──► committed, in order
//!              goes at once where none is on its way, else once it has 1 MiB; or when the oldest
//!              has waited for `linger`; more only where many wait that soon go (`bundle_rate.rs`)
//! ```
//! - PD1: records have their numbers in the order in which they were taken.
//! - PD2: a cursor belongs to the last record of its bundle: what comes behind it without a cursor
//!   of its own begins another bundle.
//! - PD3: what is taken and not committed has `buffer_size` bytes at the most; who has more waits.

use crate::bundle_rate::{BUNDLE_SIZE_WANTED, BundleRate};
use crate::cell::Cell;
use crate::error::Error;
use crate::file::File;
use crate::link::Link;
use bytes::Bytes;
use cairn_client_core::{OpenedProducer, Operation, Output, ProducerKey, ProducerMode};
use cairn_format::{RecordSource, encode_record};
use cairn_protocol::{
    Cursor, ErrorCode, Failure, Outcome, PAYLOAD_SIZE_MAX, PRODUCER_NAME_SIZE_MAX,
};
use cairn_types::{CellPath, Content, Layout, ProducerId, RecordNumber, SessionId};
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::sync::{Notify, Semaphore, oneshot};

/// So many bundles are on their way before the next ones grow beyond that.
const BUNDLES_UNDER_WAY: usize = 8;
/// What a record takes of the buffer beside its bytes.
const RECORD_COST: usize = 64;

/// How a producer gathers what it is given.
#[derive(Clone, Copy, Debug)]
pub struct ProducerOptions {
    /// How long a record may wait for others to go with it. Zero: what is there goes at once, and
    /// while one bundle is on its way the next gathers.
    pub linger: Duration,
    /// The most bytes of a bundle; a quarter of a chunk where that is less.
    pub bundle_size: usize,
    /// The most bytes that are taken and not committed: whoever appends more waits.
    pub buffer_size: usize,
    /// Done only once it is on the disks of all who hold it, also where the file does not say so.
    pub sync: bool,
    /// Where somebody has the stream exclusively, what is appended fails at once with
    /// `StreamLocked`, and does not wait until the deadline.
    pub fails_if_locked: bool,
}

impl Default for ProducerOptions {
    fn default() -> Self {
        let (bundle_size, buffer_size) = (8 << 20, 64 << 20);
        Self {
            linger: Duration::ZERO,
            bundle_size,
            buffer_size,
            sync: false,
            fails_if_locked: false,
        }
    }
}

/// A record that is in the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Committed {
    /// Its number; in a stream of bytes, its bundle's.
    pub number: u64,
    /// Where in the file it stands; none where it was committed and nobody knows where any more.
    pub offset: Option<u64>,
}

type Told = Result<Committed, Error>;

/// A record that is taken, and not committed. It is on its way whether or not this is waited for.
#[derive(Debug)]
pub struct PendingAppend {
    answer: oneshot::Receiver<Told>,
}

impl Future for PendingAppend {
    type Output = Result<Committed, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.answer).poll(cx).map(|told| told.unwrap_or(Err(Error::stopped())))
    }
}

/// Who waits for one record.
#[derive(Debug)]
struct Waiter {
    /// Where the record stands in its bundle.
    at: usize,
    /// Which of the bundle it is.
    nth: u64,
    tell: oneshot::Sender<Told>,
}

/// Records that go together.
#[derive(Debug, Default)]
struct Gathered {
    bytes: Vec<u8>,
    count: u64,
    cursor: Option<Bytes>,
    waiters: Vec<Waiter>,
    /// What they take of the buffer (PD3).
    cost: usize,
    /// Of its bytes, once they are sent.
    size: usize,
}

#[derive(Debug)]
struct ProducerState {
    /// The number of the next bundle's first record.
    next: u64,
    gathered: Gathered,
    /// Bytes of the bundle that was sent last.
    sent_size: usize,
    /// Bundles on their way.
    under_way: usize,
    rate: BundleRate,
    committed: u64,
    cursor: Option<Cursor>,
    /// The first failure: unknown, where that is the outcome of any record, and refused otherwise.
    failed: Option<Failure>,
    /// An alarm is set for what is gathered.
    lingers: bool,
}

/// What the producer shares with its bundles on their way.
#[derive(Debug)]
struct SharedProducer {
    link: Arc<Link>,
    key: ProducerKey,
    /// Who readers see; none in a stream of bytes.
    framed_as: Option<RecordSource>,
    options: ProducerOptions,
    /// Bytes that are free (PD3).
    room: Semaphore,
    state: Mutex<ProducerState>,
    progress: Notify,
    /// The client's loop has stopped.
    stopped: AtomicBool,
}

/// A bundle on its way: it tells who waits, however it ends.
struct BundleOnItsWay {
    shared: Arc<SharedProducer>,
    first: u64,
    bundle: Option<Gathered>,
}

impl BundleOnItsWay {
    fn over(mut self, result: Result<Output, Failure>) {
        let bundle = self.bundle.take().expect("it is over once");
        let offset = match result {
            Ok(Output::BundleCommitted { offset }) => Ok(offset),
            Ok(_) => Err(Failure::unknown(ErrorCode::Internal, "no bundle's answer")),
            Err(failure) => Err(failure),
        };
        self.shared.bundle_over(self.first, bundle, offset);
    }
}

impl Drop for BundleOnItsWay {
    fn drop(&mut self) {
        // The state may be locked here: who waits for its records hears by their channels.
        if self.bundle.is_some() {
            self.shared.stopped.store(true, Ordering::Relaxed);
            self.shared.room.close();
            self.shared.progress.notify_waiters();
        }
    }
}

/// What stands in the frames of a producer's records. Of a name that was forgotten numbers come
/// again: who reads a copy of the bytes, in a file where records may stand twice, has to tell the
/// two apart (R37, R47).
pub(crate) fn framed_as(name: &str, id: ProducerId) -> RecordSource {
    RecordSource::of(name, SessionId::new(id.get().into()))
}

impl SharedProducer {
    fn state(&self) -> MutexGuard<'_, ProducerState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a record (PD1, PD2).
    fn take(
        self: &Arc<Self>,
        record: &[u8],
        cursor: Option<Bytes>,
        cost: usize,
    ) -> Result<PendingAppend, Error> {
        let mut state = self.state();
        if let Some(failure) = &state.failed {
            // This record, whatever became of those before it.
            return Err(Failure { outcome: Outcome::Refused, ..failure.clone() }.into());
        }
        if state.gathered.cursor.is_some() && cursor.is_none() {
            self.send(&mut state);
        }
        // As large as the last bundle became: one that grows by doubling is copied, and costs fresh
        // pages, twice over.
        let before = state.sent_size.min(self.options.bundle_size);
        if state.gathered.bytes.capacity() == 0 {
            state.gathered.bytes.reserve_exact(before);
        }
        // Framed where it stays: no record is copied once more.
        let mut at = state.gathered.bytes.len();
        let number = state.next + state.gathered.count;
        match self.framed_as {
            Some(producer) => encode_record(producer, number, record, &mut state.gathered.bytes),
            None => state.gathered.bytes.extend_from_slice(record),
        }
        let (size, most) = (state.gathered.bytes.len() - at, self.options.bundle_size);
        if size > most {
            state.gathered.bytes.truncate(at);
            // It may have been far larger than all that is gathered.
            state.gathered.bytes.shrink_to_fit();
            let why = match self.framed_as {
                Some(_) => format!(
                    "a record of {} bytes has {size} with its frame, and a bundle has at most \
                     {most}",
                    record.len(),
                ),
                None => format!("a record of {size} bytes: a bundle has at most {most}"),
            };
            return Err(Failure::refused(ErrorCode::RecordTooLarge, why).into());
        }
        if at > 0 && at + size > state.rate.limit(most) {
            let framed = state.gathered.bytes.split_off(at);
            self.send(&mut state);
            state.gathered.bytes = framed;
            at = 0;
        }
        let (tell, answer) = oneshot::channel();
        let gathered = &mut state.gathered;
        let nth = gathered.count;
        gathered.waiters.push(Waiter { at, nth, tell });
        // In a stream of bytes a bundle has one number.
        gathered.count = if self.framed_as.is_some() { nth + 1 } else { 1 };
        gathered.cursor = cursor;
        gathered.cost += cost;
        self.send_what_may_go(&mut state);
        Ok(PendingAppend { answer })
    }

    /// Sends what is gathered, or lets it wait.
    fn send_what_may_go(self: &Arc<Self>, state: &mut ProducerState) {
        let size = state.gathered.bytes.len();
        if size == 0 || state.failed.is_some() {
            return;
        }
        let linger = self.options.linger;
        let is_large = size >= BUNDLE_SIZE_WANTED.min(self.options.bundle_size);
        if (is_large && state.under_way < BUNDLES_UNDER_WAY)
            || (linger.is_zero() && state.under_way == 0)
        {
            self.send(state);
        } else if !linger.is_zero() && !state.lingers {
            state.lingers = true;
            let shared = Arc::clone(self);
            let rung = Box::new(move |_| {
                let mut state = shared.state();
                state.lingers = false;
                shared.send(&mut state);
            });
            self.link.hand_over(Operation::Pause(linger), linger, rung);
        }
    }

    /// Sends what is gathered.
    fn send(self: &Arc<Self>, state: &mut ProducerState) {
        if state.gathered.bytes.is_empty() || state.failed.is_some() {
            return;
        }
        let mut bundle = std::mem::take(&mut state.gathered);
        let (first, count) = (state.next, bundle.count);
        bundle.size = bundle.bytes.len();
        state.sent_size = bundle.size;
        state.next += count;
        state.under_way += 1;
        let operation = Operation::SendBundle {
            producer: self.key,
            first: RecordNumber::new(first),
            count,
            bytes: Bytes::from(std::mem::take(&mut bundle.bytes)),
            cursor: bundle.cursor.clone(),
            sync: self.options.sync,
            replaces: None,
        };
        let way = BundleOnItsWay { shared: Arc::clone(self), first, bundle: Some(bundle) };
        let done = Box::new(move |result| way.over(result));
        self.link.hand_over(operation, self.link.deadline(), done);
    }

    /// A bundle is committed, or never will be.
    fn bundle_over(
        self: &Arc<Self>,
        first: u64,
        bundle: Gathered,
        result: Result<Option<u64>, Failure>,
    ) {
        let mut state = self.state();
        state.under_way -= 1;
        let mut unsent = Gathered::default();
        if let Err(failure) = &result {
            let refused = || Failure { outcome: Outcome::Refused, ..failure.clone() };
            let failed = state.failed.get_or_insert_with(refused);
            if failure.outcome == Outcome::Unknown {
                failed.outcome = Outcome::Unknown;
            }
            unsent = std::mem::take(&mut state.gathered);
        } else {
            let number = first + bundle.count - 1;
            state.committed = number;
            state.rate.add(Instant::now(), bundle.size);
            if let Some(text) = bundle.cursor {
                let number = RecordNumber::new(number);
                state.cursor = Some(Cursor { number, text });
            }
        }
        self.send_what_may_go(&mut state);
        drop(state);
        self.room.add_permits(bundle.cost + unsent.cost);
        for Waiter { at, nth, tell } in bundle.waiters {
            let told = result.clone().map_err(Error::from).map(|offset| Committed {
                number: if self.framed_as.is_some() { first + nth } else { first },
                offset: offset.map(|offset| offset.saturating_add(at as u64)),
            });
            // Nobody may wait for it.
            let _ = tell.send(told);
        }
        if let Err(failure) = result {
            let not_done = Failure { outcome: Outcome::NotDone, ..failure };
            for waiter in unsent.waiters {
                let _ = waiter.tell.send(Err(not_done.clone().into()));
            }
        }
        self.progress.notify_waiters();
    }
}

/// A producer of a stream; by its name there is one in the file, and a later opening of that name
/// ends this one: it is told so by `ProducerFenced`. Made by [`Cell::open_producer`].
///
/// Many appends may be under way at once; records stand in the stream in the order in which they
/// were taken, each exactly once. After an error this producer takes nothing more: the outcome
/// tells of each record whether it is in the stream (`Unknown`: perhaps), and opening the producer
/// anew tells up to which number it has all of them. Dropped without [`close`](Self::close), what
/// is on its way may or may not be committed.
#[derive(Debug)]
pub struct Producer {
    shared: Arc<SharedProducer>,
    epoch: u64,
    cursor_gone: bool,
    // The file is open as long as this is.
    _file: File,
}

impl Producer {
    /// Whether a stream takes a producer of that name: for who has to know before anything is done.
    ///
    /// # Errors
    /// `Invalid`: it has another size than names may have.
    pub fn check_name(name: &str) -> Result<(), Error> {
        let fits = (1..=PRODUCER_NAME_SIZE_MAX).contains(&name.len());
        let why = || format!("a producer's name has 1 to {PRODUCER_NAME_SIZE_MAX} bytes");
        if fits { Ok(()) } else { Err(Error::invalid(why())) }
    }

    /// The same of a cursor.
    ///
    /// # Errors
    /// `Invalid`: it is too large.
    pub fn check_cursor(cursor: &[u8]) -> Result<(), Error> {
        let (size, most) = (cursor.len(), cairn_protocol::CURSOR_SIZE_MAX);
        let why = || format!("a cursor of {size} bytes: it may have {most}");
        if size <= most { Ok(()) } else { Err(Error::invalid(why())) }
    }

    /// Appends one record; done when it is committed.
    ///
    /// # Errors
    /// `RecordTooLarge` where it does not fit a bundle, framed; `ProducerFenced` where another
    /// opening has taken over; otherwise as the outcome says.
    ///
    /// ```no_run
    /// # async fn example(cell: cairn_client::Cell) -> Result<(), cairn_client::Error> {
    /// # use cairn_client::{CellPath, ProducerOptions};
    /// let path = CellPath::parse("/logs/events").expect("a path");
    /// let producer = cell.open_producer(&path, "collector-7", ProducerOptions::default()).await?;
    /// let committed = producer.append(b"an event").await?;
    /// println!("record {} at {:?}", committed.number, committed.offset);
    /// # Ok(()) }
    /// ```
    pub async fn append(&self, record: &[u8]) -> Result<Committed, Error> {
        self.enqueue(record).await?.await
    }

    /// The same, and has `cursor` (at most 1 KiB) stored with it in one step: the next opening is
    /// given the last one that is committed, with the number of its record.
    ///
    /// # Errors
    /// As [`append`](Self::append); `Invalid` where the cursor is too large.
    pub async fn append_with_cursor(
        &self,
        record: &[u8],
        cursor: Bytes,
    ) -> Result<Committed, Error> {
        self.enqueue_with_cursor(record, cursor).await?.await
    }

    /// Takes one record, which is on its way then: waits only until there is room for it.
    ///
    /// # Errors
    /// As [`append`](Self::append): it was not taken.
    pub async fn enqueue(&self, record: &[u8]) -> Result<PendingAppend, Error> {
        self.take(record, None).await
    }

    /// The same, with a cursor.
    ///
    /// # Errors
    /// As [`append_with_cursor`](Self::append_with_cursor): it was not taken.
    pub async fn enqueue_with_cursor(
        &self,
        record: &[u8],
        cursor: Bytes,
    ) -> Result<PendingAppend, Error> {
        Self::check_cursor(&cursor)?;
        self.take(record, Some(cursor)).await
    }

    async fn take(&self, record: &[u8], cursor: Option<Bytes>) -> Result<PendingAppend, Error> {
        if record.is_empty() && self.shared.framed_as.is_none() {
            return Err(Error::invalid("append to a stream: there is nothing to append"));
        }
        let cost = (record.len() + RECORD_COST).min(self.shared.options.buffer_size);
        let permits = u32::try_from(cost).expect("no more than the buffer has");
        let room = self.shared.room.acquire_many(permits).await.map_err(|_| Error::stopped())?;
        let taken = self.shared.take(record, cursor, cost)?;
        // Given back when it is committed (PD3).
        room.forget();
        Ok(taken)
    }

    /// Waits until all that was taken so far is committed.
    ///
    /// # Errors
    /// What has failed first; `Unknown` where that is the outcome of any record. Each record's own
    /// append tells what became of it.
    pub async fn flush(&self) -> Result<(), Error> {
        let target = {
            let mut state = self.shared.state();
            self.shared.send(&mut state);
            state.next - 1
        };
        loop {
            let progress = self.shared.progress.notified();
            {
                let state = self.shared.state();
                if state.committed >= target {
                    return Ok(());
                }
                // Of those on their way each may tell of something worse.
                if let Some(failure) = state.failed.as_ref().filter(|_| state.under_way == 0) {
                    return Err(failure.clone().into());
                }
            }
            if self.shared.stopped.load(Ordering::Relaxed) {
                return Err(Error::stopped());
            }
            progress.await;
        }
    }

    /// The number of the last record that is committed, and the last cursor with the number of its
    /// record.
    #[must_use]
    pub fn committed(&self) -> (u64, Option<Cursor>) {
        let state = self.shared.state();
        (state.committed, state.cursor.clone())
    }

    /// Whether there was a cursor at the opening that has gone with its time.
    #[must_use]
    pub fn is_cursor_gone(&self) -> bool {
        self.cursor_gone
    }

    /// Which opening of the producer this is; later ones have higher numbers.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Waits until everything is committed, and ends the opening: its chunks are sealed.
    ///
    /// # Errors
    /// What has failed. Where all was committed and the end could not be told, the cell finds out
    /// by itself.
    pub async fn close(self) -> Result<(), Error> {
        self.flush().await?;
        let close = Operation::CloseProducer { producer: self.shared.key };
        self.shared.link.run(close).await.map(drop)
    }
}

impl Drop for Producer {
    fn drop(&mut self) {
        let forget = Operation::DropProducer { producer: self.shared.key };
        self.shared.link.hand_over(forget, Duration::ZERO, Box::new(drop));
    }
}

impl Cell {
    /// Opens a producer of the stream at `path`, by a name that the application chooses: it goes on
    /// behind the last record that it has in the stream, and whoever had it open is fenced.
    ///
    /// # Errors
    /// `NotFound`; `Invalid` where the file is no stream, or the name is none.
    pub async fn open_producer(
        &self,
        path: &CellPath,
        name: &str,
        options: ProducerOptions,
    ) -> Result<Producer, Error> {
        Producer::check_name(name)?;
        let file = self.open(path).await?;
        check_stream(path, &file)?;
        self.producer_of(file, name, options).await
    }

    pub(crate) async fn producer_of(
        &self,
        file: File,
        name: &str,
        options: ProducerOptions,
    ) -> Result<Producer, Error> {
        Producer::check_name(name)?;
        let fails_if_locked = options.fails_if_locked;
        let mode = ProducerMode { fails_if_locked, ..ProducerMode::default() };
        let (id, name) = (file.entry().id, name.to_owned());
        let open = Operation::OpenProducer { file: id, name: name.clone(), mode };
        let Output::ProducerOpened(opened) = self.link.run(open).await? else {
            return Err(Error::mismatched());
        };
        let OpenedProducer { producer: key, id, epoch, number, cursor, cursor_gone, .. } = opened;
        let framed_as = framed_as(&name, id);
        let size_max = self.info().config.append_size_max().min(u64::from(PAYLOAD_SIZE_MAX));
        let size_max = usize::try_from(size_max).unwrap_or(usize::MAX);
        let buffer_size = options.buffer_size.clamp(1, u32::MAX as usize);
        let options = ProducerOptions {
            bundle_size: options.bundle_size.clamp(1, size_max),
            buffer_size,
            sync: options.sync || file.entry().synced,
            ..options
        };
        let is_framed = file.entry().content == Content::Records;
        let state = ProducerState {
            next: number.get().saturating_add(1),
            gathered: Gathered::default(),
            sent_size: 0,
            under_way: 0,
            rate: BundleRate::new(Instant::now()),
            committed: number.get(),
            cursor,
            failed: None,
            lingers: false,
        };
        let shared = SharedProducer {
            link: Arc::clone(&self.link),
            key,
            framed_as: is_framed.then_some(framed_as),
            options,
            room: Semaphore::new(buffer_size),
            state: Mutex::new(state),
            progress: Notify::new(),
            stopped: AtomicBool::new(false),
        };
        let (shared, epoch) = (Arc::new(shared), epoch.get());
        Ok(Producer { shared, epoch, cursor_gone, _file: file })
    }
}

/// Refuses whatever is no stream.
pub(crate) fn check_stream(path: &CellPath, file: &File) -> Result<(), Error> {
    if file.entry().layout == Layout::Stream {
        return Ok(());
    }
    let why = format!("{path} is no stream; 'cairn create --layout stream' makes one");
    Err(Error::invalid(why))
}
