//! What an operation may use, and what all operations have in common.

use crate::context::ClientContext;
use crate::ids::{OperationId, TaskId};
use crate::operation::OnDone;
use crate::tasks::task::{Task, TaskOwner};
use crate::tasks::task_table::TaskTable;
use crate::timers::TimerKey;
use cairn_types::{MutationNumber, Time};

/// What every operation has, whatever it does.
pub(crate) struct OperationHeader {
    pub(crate) id: OperationId,
    pub(crate) begun: Time,
    pub(crate) deadline: Time,
    pub(crate) on_done: OnDone,
    pub(crate) alarm: TimerKey,
    /// Its tasks under way, in the order of their numbers; few.
    pub(crate) tasks: Vec<TaskId>,
    /// Some of it has been done.
    pub(crate) changed: bool,
    /// The first number of the names' mutations that it asks for.
    pub(crate) first_mutation: Option<MutationNumber>,
}

/// One operation's view of the client.
pub(crate) struct OperationContext<'a> {
    pub(crate) client: &'a mut ClientContext,
    tasks: &'a mut TaskTable,
    header: &'a mut OperationHeader,
}

impl<'a> OperationContext<'a> {
    pub(crate) fn new(
        client: &'a mut ClientContext,
        tasks: &'a mut TaskTable,
        header: &'a mut OperationHeader,
    ) -> Self {
        Self { client, tasks, header }
    }

    /// Starts a task of this operation.
    pub(crate) fn start(&mut self, task: Task) -> TaskId {
        let owner = TaskOwner::Operation(self.header.id);
        let id = self.tasks.start(owner, self.header.deadline, task);
        self.header.tasks.push(id);
        id
    }

    /// Takes a task away whose result is not wanted any more.
    pub(crate) fn cancel(&mut self, task: TaskId) {
        self.header.tasks.retain(|other| *other != task);
        self.tasks.remove(self.client, task);
    }

    pub(crate) fn tasks_under_way(&self) -> usize {
        self.header.tasks.len()
    }

    /// Some of it has been done: whatever fails from now on, the whole is not undone.
    pub(crate) fn has_changed_the_file(&mut self) {
        self.header.changed = true;
    }
}
