//! What a producer may use.

use crate::context::ClientContext;
use crate::ids::{OperationId, TaskId};
use crate::operation::Output;
use crate::outbox::Alarm;
use crate::producers::ProducerKey;
use crate::tasks::task::{Task, TaskOwner};
use crate::tasks::task_table::TaskTable;
use crate::timers::TimerKey;
use cairn_protocol::Failure;
use cairn_types::Time;
use std::time::Duration;

/// Operations that are over, and what came of them.
pub(crate) type FinishedOperations = Vec<(OperationId, Result<Output, Failure>)>;

/// One producer's view of the client.
pub(crate) struct ProducerContext<'a> {
    pub(crate) client: &'a mut ClientContext,
    pub(crate) tasks: &'a mut TaskTable,
    pub(crate) finished: &'a mut FinishedOperations,
    pub(crate) key: ProducerKey,
}

impl ProducerContext<'_> {
    /// Starts a task of this producer.
    pub(crate) fn start(&mut self, deadline: Time, task: Task) -> TaskId {
        self.tasks.start(TaskOwner::Producer(self.key), deadline, task)
    }

    /// Takes a task away whose result is not wanted any more.
    pub(crate) fn cancel(&mut self, task: TaskId) {
        self.tasks.remove(self.client, task);
    }

    /// Is moved by an alarm `after` so long.
    pub(crate) fn set_alarm(&mut self, after: Duration) -> TimerKey {
        let at = self.client.now + after;
        self.client.outbox.set_alarm(at, Alarm::Producer(self.key))
    }

    pub(crate) fn finish(&mut self, operation: OperationId, result: Result<Output, Failure>) {
        self.finished.push((operation, result));
    }
}
