//! The tasks under way, and which of them are to be moved.

use crate::context::ClientContext;
use crate::ids::TaskId;
use crate::tasks::master_call::MasterCall;
use crate::tasks::task::{Task, TaskOwner, TaskResult};
use crate::tasks::task_context::{TaskContext, TaskInput};
use crate::timers::TimerKey;
use cairn_protocol::Failure;
use cairn_types::Time;
use std::collections::{BTreeMap, VecDeque};
use std::task::Poll;

#[derive(Debug)]
struct RunningTask {
    owner: TaskOwner,
    deadline: Time,
    /// The one that it has set last, until it rings.
    alarm: Option<TimerKey>,
    task: Task,
}

/// All tasks of one client.
///
/// - TT1: a task has one alarm at a time, and none once it is over: those of mutations would
///   otherwise wake the client once more for each of them, a second after it.
#[derive(Debug, Default)]
pub(crate) struct TaskTable {
    /// Boxed: a map moves what stands in it with each neighbour that goes.
    running: BTreeMap<TaskId, Box<RunningTask>>,
    ready: VecDeque<(TaskId, TaskInput)>,
    last_id: u64,
}

impl TaskTable {
    /// Starts a task; it begins once the present event is dealt with.
    pub(crate) fn start(&mut self, owner: TaskOwner, deadline: Time, task: Task) -> TaskId {
        self.last_id += 1;
        let id = TaskId(self.last_id);
        let same =
            self.running.insert(id, Box::new(RunningTask { owner, deadline, alarm: None, task }));
        assert!(same.is_none(), "each task has a number of its own");
        self.ready.push_back((id, TaskInput::Begin));
        id
    }

    /// Has a task moved by `input` after all that is ready now.
    pub(crate) fn wake(&mut self, id: TaskId, input: TaskInput) {
        self.ready.push_back((id, input));
    }

    /// The alarm that a task has set has rung.
    pub(crate) fn ring(&mut self, id: TaskId) {
        let running = self.running.get_mut(&id).expect("TT1: the alarm of a task that is over");
        let rung = running.alarm.take();
        assert!(rung.is_some(), "TT1: {id:?} has set no alarm");
        self.wake(id, TaskInput::Alarm);
    }

    /// The next to be moved.
    pub(crate) fn next_ready(&mut self) -> Option<(TaskId, TaskInput)> {
        self.ready.pop_front()
    }

    /// Moves a task; tells whom it served and what it came to, once it is over.
    pub(crate) fn step(
        &mut self,
        client: &mut ClientContext,
        id: TaskId,
        input: TaskInput,
    ) -> Option<(TaskOwner, Result<TaskResult, Failure>)> {
        // It may have been taken away while an answer for it was on its way.
        let running = self.running.get_mut(&id)?;
        let RunningTask { owner, deadline, alarm, task } = &mut **running;
        let mut cx = TaskContext { client, id, deadline: *deadline, alarm };
        let Poll::Ready(result) = task.on(&mut cx, input) else { return None };
        let owner = *owner;
        cx.drop_alarm();
        self.running.remove(&id);
        Some((owner, result))
    }

    /// Takes a task away, before it is over or after.
    pub(crate) fn remove(&mut self, client: &mut ClientContext, id: TaskId) {
        if let Some(running) = self.running.remove(&id) {
            if let Some(alarm) = running.alarm {
                client.outbox.cancel_alarm(alarm);
            }
            running.task.leave(client, id);
        }
    }

    /// Whether any task asks the masters, or wants to.
    pub(crate) fn has_master_calls(&self) -> bool {
        self.running.values().any(|running| matches!(running.task, Task::MasterCall(_)))
    }

    /// Has every task moved that asks the masters, or wants to.
    pub(crate) fn master_found(&mut self) {
        for (id, running) in &self.running {
            if let Task::MasterCall(_) = running.task {
                self.ready.push_back((*id, TaskInput::MasterFound));
            }
        }
    }

    /// A task that is not over.
    pub(crate) fn get(&self, id: TaskId) -> &Task {
        &self.running.get(&id).expect("whoever knows a task's id forgets it once it is over").task
    }

    /// A question of [`TaskOwner::Lookup`].
    pub(crate) fn master_call(&self, id: TaskId) -> &MasterCall {
        match self.get(id) {
            Task::MasterCall(call) => call,
            other => unreachable!("a lookup's task asks the masters: {other:?}"),
        }
    }

    /// Someone wants the task's answer until `deadline`.
    pub(crate) fn extend_deadline(&mut self, id: TaskId, deadline: Time) {
        let running = self.running.get_mut(&id).expect("a lookup under way has a task");
        running.deadline = running.deadline.max(deadline);
    }
}
