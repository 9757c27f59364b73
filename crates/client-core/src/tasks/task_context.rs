//! What a task is moved by, and what it may use.

use crate::context::ClientContext;
use crate::file_state::FileState;
use crate::ids::TaskId;
use crate::masters::lookup::{Lookup, LookupRequest};
use crate::masters::primary_watch::AskedMaster;
use crate::outbox::{Alarm, CallOwner, OutgoingCall};
use crate::timers::TimerKey;
use bytes::Bytes;
use cairn_env::{Answer, EffectId};
use cairn_protocol::{Failure, LeasePurpose, ReportBadBlock, Request};
use cairn_types::{Address, ChunkIndex, ChunkVersion, EntryId, ServerId, Time};
use std::task::Poll;
use std::time::Duration;

/// What moves a task.
#[derive(Debug)]
pub(crate) enum TaskInput {
    /// Its first.
    Begin,
    /// An alarm that it set.
    Alarm,
    /// A call that it made.
    Answered(EffectId, Result<Answer, Failure>),
    /// The write that it waited for holds it up no more.
    Passed,
    /// Its data may be pushed now.
    Turn,
    /// What it looked up is known now, or cannot be.
    LookedUp(Result<(), Failure>),
    /// A master is trusted to be in charge that was not, or is again.
    MasterFound,
}

/// How far a task or an operation is: it waits for another input, or is over.
pub(crate) type Progress<T> = Poll<Result<T, Failure>>;

/// One task's view of the client.
#[derive(Debug)]
pub(crate) struct TaskContext<'a> {
    pub(crate) client: &'a mut ClientContext,
    pub(crate) id: TaskId,
    /// When its operation gives up.
    pub(crate) deadline: Time,
    /// The alarm that the task has set last, until it rings.
    pub(crate) alarm: &'a mut Option<TimerKey>,
}

impl TaskContext<'_> {
    pub(crate) fn now(&self) -> Time {
        self.client.now
    }

    pub(crate) fn file(&mut self, file: EntryId) -> &mut FileState {
        self.client.files.file(file)
    }

    /// Asks a chunkserver.
    pub(crate) fn call(
        &mut self,
        (to, server): (Address, ServerId),
        request: impl Into<Request>,
        payload: Bytes,
        patience: Duration,
    ) -> EffectId {
        let deadline = self.deadline.min(self.client.now + patience);
        let request = request.into();
        let call = OutgoingCall { to, server, request, payload, deadline };
        self.client.outbox.call(CallOwner::Task(self.id), call)
    }

    /// Asks the master that is trusted; asks nobody where none is, and is moved once one is found.
    pub(crate) fn call_master(
        &mut self,
        request: &Request,
        patience: Duration,
    ) -> Option<(EffectId, AskedMaster)> {
        let (masters, mut cx) = self.client.masters();
        let Some(to) = masters.trusted().cloned() else {
            masters.holds(&mut cx);
            return None;
        };
        let asked = masters.asks(&mut cx);
        let deadline = self.deadline.min(self.client.now + patience);
        let (server, request, payload) = (ServerId::default(), request.clone(), Bytes::new());
        let call = OutgoingCall { to, server, request, payload, deadline };
        let owner = CallOwner::MasterTask(self.id, asked);
        Some((self.client.outbox.call(owner, call), asked))
    }

    /// Somebody is looked for who is in charge, though nothing waits for that.
    pub(crate) fn seek_master(&mut self) {
        let (masters, mut cx) = self.client.masters();
        if masters.trusted().is_none() {
            masters.holds(&mut cx);
        }
    }

    /// Tells the master of bytes that fail their checksum (R31); nobody waits for the answer.
    pub(crate) fn report_bad_block(&mut self, report: ReportBadBlock) {
        let call = OutgoingCall {
            to: self.client.masters.latest().clone(),
            server: ServerId::default(),
            request: report.into(),
            payload: Bytes::new(),
            deadline: self.client.now + self.client.patience(),
        };
        self.client.outbox.tell(call);
    }

    /// Is moved by an alarm `after` so long, which takes the place of one set before (TT1).
    pub(crate) fn set_alarm(&mut self, after: Duration) {
        self.drop_alarm();
        let at = self.client.now + after;
        *self.alarm = Some(self.client.outbox.set_alarm(at, Alarm::Task(self.id)));
    }

    /// Is moved by no alarm.
    pub(crate) fn drop_alarm(&mut self) {
        if let Some(alarm) = self.alarm.take() {
            self.client.outbox.cancel_alarm(alarm);
        }
    }

    /// Looks up where a chunk lies, by a question younger than `newer_than`.
    pub(crate) fn look_up_location(&mut self, file: EntryId, index: ChunkIndex, newer_than: u64) {
        self.look_up(Lookup::Location { file, index }, newer_than, Some(self.id));
    }

    /// Looks up the extents of a stream from `offset` on, by a question younger than `newer_than`.
    pub(crate) fn look_up_extents(&mut self, file: EntryId, offset: u64, newer_than: u64) {
        self.look_up(Lookup::Extents { file, offset }, newer_than, Some(self.id));
    }

    /// Has it looked up where the chunks from `index` on lie; nobody waits for it (A7).
    pub(crate) fn prefetch_locations(&mut self, file: EntryId, index: ChunkIndex) {
        self.look_up(Lookup::Location { file, index }, 0, None);
    }

    /// Looks up who orders a chunk's mutations; `failed`: a primary that did not do, and under
    /// which version.
    pub(crate) fn look_up_grant(
        &mut self,
        file: EntryId,
        index: ChunkIndex,
        purpose: LeasePurpose,
        failed: Option<(ServerId, ChunkVersion)>,
    ) {
        self.look_up(Lookup::Grant { file, index, purpose, failed }, 0, Some(self.id));
    }

    fn look_up(&mut self, lookup: Lookup, newer_than: u64, waiter: Option<TaskId>) {
        let deadline = self.deadline;
        self.client.lookups.push_back(LookupRequest { lookup, newer_than, waiter, deadline });
    }
}
