//! The operations under way, and the callers who are to be told.
//!
//! - OT1: each operation is finished exactly once.

use crate::context::ClientContext;
use crate::ids::{OperationId, TaskId};
use crate::operation::{OnDone, Operation, Output};
use crate::operations::operation_context::{OperationContext, OperationHeader};
use crate::operations::operation_state::OperationState;
use crate::outbox::Alarm;
use crate::tasks::task_table::TaskTable;
use cairn_protocol::Failure;
use cairn_types::{MutationNumber, Time};
use std::collections::BTreeMap;

struct ActiveOperation {
    state: OperationState,
    header: OperationHeader,
}

/// All operations of one client.
#[derive(Default)]
pub(crate) struct OperationTable {
    /// Boxed: a map moves what stands in it with each neighbour that goes.
    active: BTreeMap<OperationId, Box<ActiveOperation>>,
    /// Operations that are answered, and not told yet.
    answers: Vec<(OnDone, Result<Output, Failure>)>,
    last_id: u64,
}

impl OperationTable {
    /// Takes in an operation, with an alarm for its end.
    pub(crate) fn start(
        &mut self,
        client: &mut ClientContext,
        operation: &Operation,
        deadline: Time,
        on_done: OnDone,
    ) -> OperationId {
        self.last_id += 1;
        let id = OperationId(self.last_id);
        let (state, at, alarm) = match operation {
            Operation::Pause(span) => {
                let at = (client.now + *span).min(deadline);
                (OperationState::Pause, at, Alarm::Pause(id))
            }
            Operation::Ask(_) | Operation::AskServer { .. } => {
                (OperationState::Ask, deadline, Alarm::Deadline(id))
            }
            Operation::Open(_) => (OperationState::Open, deadline, Alarm::Deadline(id)),
            _ => (OperationState::AwaitingCell, deadline, Alarm::Deadline(id)),
        };
        let alarm = client.outbox.set_alarm(at, alarm);
        let (tasks, changed, first_mutation) = (Vec::new(), false, None);
        let begun = client.now;
        let header =
            OperationHeader { id, begun, deadline, on_done, alarm, tasks, changed, first_mutation };
        let same = self.active.insert(id, Box::new(ActiveOperation { state, header }));
        assert!(same.is_none(), "each operation has a number of its own");
        id
    }

    pub(crate) fn len(&self) -> usize {
        self.active.len()
    }

    pub(crate) fn is_under_way(&self, id: OperationId) -> bool {
        self.active.contains_key(&id)
    }

    fn get(&self, id: OperationId) -> &ActiveOperation {
        self.active.get(&id).expect("OT1: whoever moves an operation knows that it is under way")
    }

    fn get_mut(&mut self, id: OperationId) -> &mut ActiveOperation {
        self.active.get_mut(&id).expect("OT1: whoever moves an operation knows it is under way")
    }

    pub(crate) fn deadline(&self, id: OperationId) -> Time {
        self.get(id).header.deadline
    }

    /// Operations that began before then, the oldest first: which, when, and their deadlines.
    pub(crate) fn begun_before(
        &self,
        then: Time,
    ) -> impl Iterator<Item = (OperationId, Time, Time)> {
        let headers = self.active.values().map(|active| &active.header);
        let headers = headers.take_while(move |header| header.begun < then);
        headers.map(|header| (header.id, header.begun, header.deadline))
    }

    pub(crate) fn tasks_of(&self, id: OperationId) -> &[TaskId] {
        &self.get(id).header.tasks
    }

    /// An operation's state, and what it may use.
    pub(crate) fn parts<'a>(
        &'a mut self,
        id: OperationId,
        client: &'a mut ClientContext,
        tasks: &'a mut TaskTable,
    ) -> (&'a mut OperationState, OperationContext<'a>) {
        let ActiveOperation { state, header } = self.get_mut(id);
        (state, OperationContext::new(client, tasks, header))
    }

    /// One of its tasks is over.
    pub(crate) fn task_over(&mut self, id: OperationId, task: TaskId) {
        let tasks = &mut self.get_mut(id).header.tasks;
        let count = tasks.len();
        tasks.retain(|other| *other != task);
        assert_eq!(tasks.len() + 1, count, "a task serves the operation that started it");
    }

    /// Names of what it asks for were given out, the first of which this is.
    pub(crate) fn set_first_mutation(&mut self, id: OperationId, first: Option<MutationNumber>) {
        let header = &mut self.get_mut(id).header;
        assert_eq!(header.first_mutation, None, "R24: a mutation is named once");
        header.first_mutation = first;
    }

    /// Whether some of it was done, or may yet be by requests already sent (OT1).
    pub(crate) fn may_have_happened(&self, id: OperationId, tasks: &TaskTable) -> bool {
        let header = &self.get(id).header;
        header.changed || header.tasks.iter().any(|task| tasks.get(*task).may_have_happened())
    }

    /// The caller is told, or will be; whatever is still under way no longer matters (OT1). Gives
    /// back the first number of the mutations of names that it asked for.
    pub(crate) fn finish(
        &mut self,
        id: OperationId,
        client: &mut ClientContext,
        tasks: &mut TaskTable,
        result: Result<Output, Failure>,
    ) -> Option<MutationNumber> {
        let active = self.active.remove(&id).expect("OT1: an operation is finished once");
        let header = active.header;
        client.outbox.cancel_alarm(header.alarm);
        for task in header.tasks {
            tasks.remove(client, task);
        }
        match result {
            // Small answers come many at once, and those who get them ask again.
            Ok(Output::Answered(_)) => self.answers.push((header.on_done, result)),
            // Whoever gets bytes has work to do while the next ones arrive.
            _ => (header.on_done)(result),
        }
        header.first_mutation
    }

    /// Tells the callers that were not told at once.
    pub(crate) fn tell_answers(&mut self) {
        for (on_done, result) in self.answers.drain(..) {
            on_done(result);
        }
    }
}
