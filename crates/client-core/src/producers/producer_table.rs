//! The producers that this client has opened.
//!
//! - PT1: a key is given once, so that a late word for one producer never moves another.

use crate::context::ClientContext;
use crate::ids::{OperationId, TaskId};
use crate::operation::{OpenedProducer, ProducerMode};
use crate::producers::ProducerKey;
use crate::producers::bundle_queue::{BundleState, WaitingBundle};
use crate::producers::producer::ProducerEpoch;
use crate::producers::producer_context::{FinishedOperations, ProducerContext};
use crate::tasks::task::TaskResult;
use crate::tasks::task_table::TaskTable;
use bytes::Bytes;
use cairn_protocol::{
    CURSOR_SIZE_MAX, CloseProducer, ErrorCode, Failure, OpenProducerAnswer, Outcome,
    PAYLOAD_SIZE_MAX,
};
use cairn_types::{EntryId, RecordNumber, Time};
use std::collections::BTreeMap;

/// A bundle as its caller hands it over.
#[derive(Debug)]
pub(crate) struct NewBundle {
    pub(crate) operation: OperationId,
    pub(crate) deadline: Time,
    pub(crate) first: RecordNumber,
    pub(crate) count: u64,
    pub(crate) bytes: Bytes,
    pub(crate) cursor: Option<Bytes>,
    pub(crate) sync: bool,
    pub(crate) replaces: Option<u64>,
}

/// What moves a producer, and what came of it.
pub(crate) struct ProducerMove<'a> {
    pub(crate) client: &'a mut ClientContext,
    pub(crate) tasks: &'a mut TaskTable,
    pub(crate) finished: &'a mut FinishedOperations,
}

impl ProducerMove<'_> {
    fn of(&mut self, key: ProducerKey) -> ProducerContext<'_> {
        let Self { client, tasks, finished } = self;
        ProducerContext { client, tasks, finished, key }
    }
}

/// All of one client.
#[derive(Debug, Default)]
pub(crate) struct ProducerTable {
    producers: BTreeMap<ProducerKey, Box<ProducerEpoch>>,
    last: u64,
}

impl ProducerTable {
    /// A producer is open.
    pub(crate) fn opened(
        &mut self,
        (file, mode): (EntryId, ProducerMode),
        answer: OpenProducerAnswer,
    ) -> OpenedProducer {
        self.last += 1;
        let producer = ProducerKey(self.last);
        let opened = ProducerEpoch::new((file, mode), &answer);
        let same = self.producers.insert(producer, Box::new(opened));
        assert!(same.is_none(), "PT1");
        let OpenProducerAnswer { producer: id, epoch, number, cursor, cursor_gone, lease_ms } =
            answer;
        OpenedProducer { producer, id, epoch, number, cursor, cursor_gone, lease_ms }
    }

    /// Takes a bundle.
    ///
    /// # Errors
    /// It cannot be one: nothing was done, and nothing is different for the next.
    pub(crate) fn send(
        &mut self,
        cx: &mut ProducerMove<'_>,
        key: ProducerKey,
        bundle: NewBundle,
    ) -> Result<(), Failure> {
        let producer = self.get_mut(key)?;
        if let Some(why) = producer.over() {
            let message = format!("{}; this opening takes nothing more", why.message);
            return Err(Failure { message, outcome: Outcome::Refused, ..why.clone() });
        }
        let NewBundle { operation, deadline, first, count, bytes, cursor, sync, replaces } = bundle;
        let last = check_numbers(producer.last(), first, count)?;
        let cell = cx.client.cell();
        check_sizes(&bytes, cursor.as_ref(), cell.append_size_max())?;
        let state = BundleState::Waiting;
        let bundle = WaitingBundle {
            operation,
            deadline,
            first,
            last,
            bytes,
            cursor,
            sync,
            replaces,
            state,
            may_be_there: false,
        };
        producer.send(&mut cx.of(key), bundle);
        Ok(())
    }

    fn get_mut(&mut self, key: ProducerKey) -> Result<&mut ProducerEpoch, Failure> {
        let why = || Failure::refused(ErrorCode::Invalid, "the producer is not open here");
        self.producers.get_mut(&key).map(|producer| &mut **producer).ok_or_else(why)
    }

    /// One of its tasks is over.
    pub(crate) fn task_over(
        &mut self,
        cx: &mut ProducerMove<'_>,
        key: ProducerKey,
        task: TaskId,
        result: Result<TaskResult, Failure>,
    ) {
        let producer = self.producers.get_mut(&key).expect("PT1: its tasks go with a producer");
        producer.task_over(&mut cx.of(key), task, result);
    }

    /// Its alarm rings.
    pub(crate) fn ring(&mut self, cx: &mut ProducerMove<'_>, key: ProducerKey) {
        let producer = self.producers.get_mut(&key).expect("PT1: its alarm goes with a producer");
        producer.ring(&mut cx.of(key));
    }

    /// The time of an operation is over: whether that is a bundle of a producer's.
    pub(crate) fn expire(&mut self, cx: &mut ProducerMove<'_>, operation: OperationId) -> bool {
        self.producers.iter_mut().any(|(key, producer)| {
            let mut cx = cx.of(*key);
            producer.expire(&mut cx, operation)
        })
    }

    /// What went wrong last of what one of the bundles under way waits for.
    pub(crate) fn last_failure<'a>(
        &'a self,
        (client, tasks): (&'a ClientContext, &'a TaskTable),
        operation: OperationId,
    ) -> Option<&'a Failure> {
        let producer = self.producers.values().find(|producer| producer.has(operation))?;
        producer.last_failure(client, tasks)
    }

    /// Nothing more comes of a producer; how the master is told.
    ///
    /// # Errors
    /// Some of it is on its way, or it is not open.
    pub(crate) fn close(
        &mut self,
        cx: &mut ProducerMove<'_>,
        key: ProducerKey,
    ) -> Result<CloseProducer, Failure> {
        let producer = self.get_mut(key)?;
        if !producer.is_idle() {
            let why = "close a producer: some of its records are on their way";
            return Err(Failure::refused(ErrorCode::Invalid, why));
        }
        let (file, producer, epoch) = producer.names();
        self.drop_producer(cx, key);
        Ok(CloseProducer { file, producer, epoch })
    }

    /// A producer is no longer there.
    pub(crate) fn drop_producer(&mut self, cx: &mut ProducerMove<'_>, key: ProducerKey) {
        // Whoever drops it twice has dropped it.
        if let Some(mut producer) = self.producers.remove(&key) {
            let why = Failure::not_done(ErrorCode::Invalid, "the producer was dropped");
            producer.end(&mut cx.of(key), why);
        }
    }
}

/// The last number of a bundle.
fn check_numbers(
    before: RecordNumber,
    first: RecordNumber,
    count: u64,
) -> Result<RecordNumber, Failure> {
    if Some(first.get()) != before.get().checked_add(1) {
        let why = format!("record {first} does not follow record {before} of the producer");
        return Err(Failure::refused(ErrorCode::Invalid, why));
    }
    let last = count.checked_sub(1).and_then(|more| first.get().checked_add(more));
    let why = || Failure::refused(ErrorCode::Invalid, format!("a bundle of {count} records"));
    last.map(RecordNumber::new).ok_or_else(why)
}

fn check_sizes(bytes: &Bytes, cursor: Option<&Bytes>, size_max: u64) -> Result<(), Failure> {
    let size_max = size_max.min(u64::from(PAYLOAD_SIZE_MAX));
    if bytes.is_empty() {
        let why = "append to a stream: there is nothing to append";
        return Err(Failure::refused(ErrorCode::Invalid, why));
    }
    if bytes.len() as u64 > size_max {
        let why = format!(
            "{} bytes at once to a stream: the limit is {size_max}, a quarter of a chunk; write \
             them as several records",
            bytes.len()
        );
        return Err(Failure::refused(ErrorCode::RecordTooLarge, why));
    }
    match cursor.map(Bytes::len).filter(|size| *size > CURSOR_SIZE_MAX) {
        Some(size) => {
            let why = format!("a cursor of {size} bytes: it may have {CURSOR_SIZE_MAX}");
            Err(Failure::refused(ErrorCode::Invalid, why))
        }
        None => Ok(()),
    }
}
