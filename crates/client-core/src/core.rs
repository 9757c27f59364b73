//! The one entrance: operations in, effects out; tasks moved until none can move.

use crate::ask::Ask;
use crate::context::{Alarm, Context};
use crate::driver::NoJob;
use crate::joined_opens::JoinedOpen;
use crate::length_operation::LengthWork;
use crate::mutation::Change;
use crate::operation::{Command, Done, Operation, Output};
use crate::read_operation::ReadWork;
use crate::retry::at_deadline;
use crate::settings::ClientSettings;
use crate::shared_asks::{SharedAsk, Want, Wanted, absorb, mismatched};
use crate::sync_operation::SyncWork;
use crate::task::{Input, Machine, Me, OperationId, Owner, Progress, Task, TaskId, TaskResult};
use crate::timers::TimerKey;
use crate::write_operation::WriteWork;
use cairn_env::{Completion, Effect, Event, Now};
use cairn_protocol::{CellInfoAnswer, ErrorCode, Failure, Hello, Outcome, Response, Role};
use cairn_types::{CellId, EntryId, Incarnation, MutationNumber, ServerId, Time};
use std::collections::{BTreeMap, VecDeque};

/// What an operation still has to do.
#[derive(Debug)]
pub(crate) enum Work {
    /// Its task's answer is the answer.
    Ask,
    /// The same, of a request that opens files.
    Open,
    Read(ReadWork),
    Write(WriteWork),
    Append {
        file: EntryId,
        sync: bool,
    },
    Sync(SyncWork),
    Length(LengthWork),
    /// A timer is all there is.
    Pause,
}

/// An operation under way.
pub(crate) struct Active {
    pub(crate) work: Work,
    done: Done,
    deadline: Time,
    alarm: TimerKey,
    /// In the order of their numbers; few.
    pub(crate) tasks: Vec<TaskId>,
    /// Some of it has been done.
    pub(crate) changed: bool,
    /// The first number of the names' mutations that it asks for.
    pub(crate) first_mutation: Option<MutationNumber>,
    /// The question for many that its own is part of.
    pub(crate) joined: Option<TaskId>,
}

/// A client's state machine. See the crate's page.
pub struct ClientCore {
    pub(crate) cx: Context,
    /// Boxed, as the tasks are: a map moves what stands in it with each neighbour that goes.
    pub(crate) operations: BTreeMap<OperationId, Box<Active>>,
    pub(crate) tasks: BTreeMap<TaskId, Box<Task>>,
    shared: BTreeMap<TaskId, SharedAsk>,
    /// Opens that wait for the turn's end.
    pub(crate) opens: Vec<JoinedOpen>,
    /// Those that one question was asked for.
    pub(crate) joined: BTreeMap<TaskId, Vec<JoinedOpen>>,
    /// Operations on files that wait for the cell's settings.
    waiting: Vec<(OperationId, Operation)>,
    ready: VecDeque<(TaskId, Input)>,
    /// Operations that are answered, and not told yet.
    over: Vec<(Done, Result<Output, Failure>)>,
    next: u64,
}

impl std::fmt::Debug for ClientCore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClientCore")
            .field("operations", &self.operations.len())
            .field("tasks", &self.tasks)
            .finish_non_exhaustive()
    }
}

impl ClientCore {
    /// A client that has asked nothing yet.
    #[must_use]
    pub fn new(settings: ClientSettings) -> Self {
        Self {
            cx: Context::new(settings),
            operations: BTreeMap::new(),
            tasks: BTreeMap::new(),
            shared: BTreeMap::new(),
            opens: Vec::new(),
            joined: BTreeMap::new(),
            waiting: Vec::new(),
            ready: VecDeque::new(),
            over: Vec::new(),
            next: 0,
        }
    }

    /// Takes one event; effects are pushed to `effects`.
    pub fn step(
        &mut self,
        now: Now,
        event: Event<Command, NoJob>,
        effects: &mut Vec<Effect<NoJob>>,
    ) {
        self.cx.now = self.cx.now.max(now.time);
        match event {
            Event::Started => self.identify(CellId::default()),
            Event::Command(command) => self.start(command),
            Event::Completed { id, result: Completion::Answered(result) } => {
                if let Some(task) = self.cx.take_call(id) {
                    self.ready.push_back((task, Input::Answered(id, result)));
                }
            }
            Event::Completed { result: Completion::Woken, .. } => self.cx.timers.woken(),
            Event::Completed { result: Completion::Disk(_), .. } | Event::Disconnected { .. } => {}
            Event::Request { from, .. } => {
                let why = Failure::refused(ErrorCode::Invalid, "a client serves no requests");
                let answer = Err(why);
                self.cx.effects.push(Effect::Reply {
                    to: from,
                    answer,
                    payload: Default::default(),
                });
            }
        }
        self.settle();
        while let Some(alarm) = self.cx.timers.pop(self.cx.now) {
            self.ring(alarm);
            self.settle();
        }
        self.hand_over(effects);
    }

    /// All that was at hand is dealt with: asks what was kept until now, and tells the callers that
    /// were not told at once.
    pub fn end_of_batch(&mut self, now: Now, effects: &mut Vec<Effect<NoJob>>) {
        self.cx.now = self.cx.now.max(now.time);
        if !self.opens.is_empty() {
            self.ask_opens();
            self.settle();
            self.hand_over(effects);
        }
        for (done, result) in self.over.drain(..) {
            done(result);
        }
    }

    fn hand_over(&mut self, effects: &mut Vec<Effect<NoJob>>) {
        if let Some(at) = self.cx.timers.arm() {
            let id = self.cx.effect_id();
            self.cx.effects.push(Effect::Wake { id, at });
        }
        effects.append(&mut self.cx.effects);
    }

    /// Moves tasks until all of them wait for the world.
    fn settle(&mut self) {
        loop {
            if let Some((task, input)) = self.ready.pop_front() {
                self.move_task(task, input);
            } else if let Some(task) = self.cx.write_order.next_passed() {
                self.move_task(task, Input::Passed);
            } else if let Some(wanted) = self.cx.wants.pop_front() {
                self.take_want(wanted);
            } else if let Some((operation, held)) = self.cx.mutations.next_held() {
                self.ask_named(operation, held.request, held.work);
            } else {
                return;
            }
        }
    }

    fn move_task(&mut self, id: TaskId, input: Input) {
        let Some(task) = self.tasks.get_mut(&id) else { return };
        let me = Me { id, deadline: task.deadline };
        let Progress::Over(result) = task.machine.on(&mut self.cx, me, input) else { return };
        let owner = task.owner;
        self.tasks.remove(&id);
        match owner {
            Owner::Operation(operation) => self.task_over(operation, id, result),
            Owner::Shared => self.shared_over(id, result),
            Owner::Opens => self.joined_over(id, result),
        }
    }

    /// Starts a task; it begins once the present event is dealt with.
    pub(crate) fn spawn(&mut self, operation: OperationId, machine: Machine) -> TaskId {
        let Some(deadline) = self.deadline_of(operation) else { return TaskId::default() };
        let id = self.begin_task(Task { owner: Owner::Operation(operation), deadline, machine });
        if let Some(active) = self.operations.get_mut(&operation) {
            active.tasks.push(id);
        }
        id
    }

    /// The same, of a task that serves more than one operation.
    pub(crate) fn begin_task(&mut self, task: Task) -> TaskId {
        self.next += 1;
        let id = TaskId(self.next);
        self.tasks.insert(id, Box::new(task));
        self.ready.push_back((id, Input::Begin));
        id
    }

    pub(crate) fn deadline_of(&self, operation: OperationId) -> Option<Time> {
        self.operations.get(&operation).map(|active| active.deadline)
    }

    fn take_want(&mut self, wanted: Wanted) {
        for (id, shared) in &mut self.shared {
            let Some(task) = self.tasks.get_mut(id) else { continue };
            if let Machine::Ask(ask) = &task.machine
                && shared.serves(ask, &wanted)
            {
                shared.waiters.extend(wanted.waiter);
                task.deadline = task.deadline.max(wanted.deadline);
                return;
            }
        }
        let machine = Machine::Ask(Ask::new(wanted.want.request()));
        let (owner, deadline) = (Owner::Shared, wanted.deadline);
        let id = self.begin_task(Task { owner, deadline, machine });
        let waiters = wanted.waiter.into_iter().collect();
        self.shared.insert(id, SharedAsk { want: wanted.want, waiters });
    }

    fn shared_over(&mut self, id: TaskId, result: Result<TaskResult, Failure>) {
        let Some(shared) = self.shared.remove(&id) else { return };
        let result = result.map(|result| match result {
            TaskResult::Asked(asked) => asked,
            other => unreachable!("a shared task asks: {other:?}"),
        });
        let result = result.and_then(|asked| match (&shared.want, asked.response) {
            (Want::Cell, Response::CellInfo(info)) => self.learn_cell(&info),
            (Want::Cell, other) => Err(mismatched(&other)),
            (want, response) => absorb(&mut self.cx, want, crate::ask::Asked { response, ..asked }),
        });
        if let (Want::Cell, Err(failure)) = (&shared.want, &result) {
            for (operation, _) in std::mem::take(&mut self.waiting) {
                self.finish(operation, Err(failure.clone()));
            }
        }
        for waiter in shared.waiters {
            self.ready.push_back((waiter, Input::Wanted(result.clone())));
        }
    }

    /// Which cell this is: from now on servers of another one refuse this client.
    ///
    /// # Errors
    /// Settings that do not fit together: nothing is learnt.
    pub(crate) fn learn_cell(&mut self, info: &CellInfoAnswer) -> Result<(), Failure> {
        info.config.validate()?;
        if self.cx.config.is_none() {
            self.identify(info.cell);
        }
        self.cx.config = Some(info.config.clone());
        for (operation, what) in std::mem::take(&mut self.waiting) {
            self.begin(operation, what);
        }
        Ok(())
    }

    fn identify(&mut self, cell: CellId) {
        let hello = Hello::new(cell, Role::Client, ServerId::default(), Incarnation::default());
        self.cx.effects.push(Effect::Identify(hello));
    }

    fn start(&mut self, command: Command) {
        let Command { operation, deadline, done, .. } = command;
        if let Operation::Forget { file } = operation {
            self.cx.closed(file);
            done(Ok(Output::Forgotten));
            return;
        }
        self.next += 1;
        let id = OperationId(self.next);
        let alarm = match operation {
            Operation::Pause(span) => {
                let at = (self.cx.now + span).min(deadline);
                self.cx.timers.set(at, Alarm::Pause(id))
            }
            _ => self.cx.timers.set(deadline, Alarm::Deadline(id)),
        };
        let (work, tasks) = (Work::Pause, Vec::new());
        let active = Active {
            work,
            done,
            deadline,
            alarm,
            tasks,
            changed: false,
            first_mutation: None,
            joined: None,
        };
        self.operations.insert(id, Box::new(active));
        let needs_cell =
            !matches!(operation, Operation::Ask(_) | Operation::Open(_) | Operation::Pause(_));
        if needs_cell && self.cx.config.is_none() {
            self.waiting.push((id, operation));
            self.cx.wants.push_back(Wanted {
                want: Want::Cell,
                newer_than: 0,
                waiter: None,
                deadline,
            });
        } else {
            self.begin(id, operation);
        }
    }

    fn begin(&mut self, id: OperationId, operation: Operation) {
        match operation {
            Operation::Ask(request) => self.begin_ask(id, request, Work::Ask),
            Operation::Open(request) => self.begin_ask(id, request, Work::Open),
            Operation::ReadAt { file, offset, size, fresh } => {
                self.begin_read(id, file, offset, size, fresh);
            }
            Operation::WriteAt { file, offset, bytes, sync } => {
                self.begin_write(id, file, offset, bytes, sync);
            }
            Operation::Append { file, bytes, sync } => self.begin_append(id, file, bytes, sync),
            Operation::Sync { file } => self.begin_sync(id, file, true, false),
            Operation::Close { file, sync } => self.begin_sync(id, file, sync, true),
            Operation::Length { file } => self.begin_length(id, file),
            // Dealt with at its start, and a timer is all there is.
            Operation::Forget { .. } | Operation::Pause(_) => {}
        }
    }

    pub(crate) fn set_work(&mut self, id: OperationId, work: Work) {
        if let Some(active) = self.operations.get_mut(&id) {
            active.work = work;
        }
    }

    /// Starts a mutation of one chunk.
    pub(crate) fn spawn_mutation(
        &mut self,
        id: OperationId,
        file: EntryId,
        change: Change,
    ) -> TaskId {
        let mutation = crate::mutation::Mutation::new(&self.cx, file, change);
        self.spawn(id, Machine::Mutation(mutation))
    }

    fn task_over(&mut self, id: OperationId, task: TaskId, result: Result<TaskResult, Failure>) {
        let Some(active) = self.operations.get_mut(&id) else { return };
        active.tasks.retain(|other| *other != task);
        let result = match result {
            Ok(result) => result,
            Err(failure) => return self.fail(id, failure),
        };
        match (&mut active.work, result) {
            (Work::Ask, TaskResult::Asked(asked)) => self.asked(id, asked),
            (Work::Open, TaskResult::Asked(asked)) => self.opened(id, asked),
            (Work::Read(_), TaskResult::Piece(piece)) => self.piece_read(id, task, piece),
            (Work::Write(_), TaskResult::Mutated(done)) => self.piece_written(id, &done),
            (Work::Append { .. }, TaskResult::Mutated(done)) => self.appended(id, &done),
            (Work::Sync(_), TaskResult::Mutated(done)) => self.chunk_synced(id, task, &done),
            (Work::Sync(_), TaskResult::Asked(asked)) => self.length_recorded(id, &asked),
            (Work::Length(_), TaskResult::Asked(asked)) => self.located_for_length(id, asked),
            (Work::Length(_), TaskResult::Piece(piece)) => self.length_known(id, &piece),
            (work, result) => unreachable!("{work:?} has no task that gives {result:?}"),
        }
    }

    /// One task failed, and with it the whole: what else is under way may still happen.
    pub(crate) fn fail(&mut self, id: OperationId, failure: Failure) {
        let outcome = if self.may_have_happened(id) { Outcome::Unknown } else { failure.outcome };
        self.finish(id, Err(Failure { outcome, ..failure }));
    }

    fn may_have_happened(&self, id: OperationId) -> bool {
        self.operations.get(&id).is_some_and(|active| {
            let mut tasks = active.tasks.iter().filter_map(|task| self.tasks.get(task));
            active.changed || tasks.any(|task| task.machine.may_have_happened())
        })
    }

    /// The caller is told, or will be; whatever is still under way no longer matters (K1).
    pub(crate) fn finish(&mut self, id: OperationId, result: Result<Output, Failure>) {
        let Some(active) = self.operations.remove(&id) else { return };
        self.cx.timers.cancel(active.alarm);
        if let Some(first) = active.first_mutation {
            self.cx.mutations.over(first);
        }
        for id in &active.tasks {
            if let Some(mut task) = self.tasks.remove(id) {
                task.machine.leave(&mut self.cx, *id);
            }
        }
        match result {
            // Small answers come many at once, and those who get them ask again.
            Ok(Output::Answered(_)) => self.over.push((active.done, result)),
            // Whoever gets bytes has work to do while the next ones arrive.
            _ => (active.done)(result),
        }
    }

    fn ring(&mut self, alarm: Alarm) {
        match alarm {
            Alarm::Task(task) => self.ready.push_back((task, Input::Alarm)),
            Alarm::Pause(operation) => self.finish(operation, Ok(Output::Paused)),
            Alarm::Deadline(operation) => {
                let maybe = self.may_have_happened(operation);
                let told = at_deadline(self.last_failure(operation), maybe);
                self.waiting.retain(|(waiting, _)| *waiting != operation);
                self.cx.mutations.drop_held(operation);
                self.finish(operation, Err(told));
            }
        }
    }

    /// What went wrong last for an operation, be it in a question that it shares with others.
    fn last_failure(&self, id: OperationId) -> Option<Failure> {
        if let Some(held) = self.cx.mutations.why_held(id) {
            return Some(held);
        }
        let active = self.operations.get(&id)?;
        let of_task = |task: &TaskId| self.tasks.get(task)?.machine.last_failure();
        let waits = self.waiting.iter().any(|(waiting, _)| *waiting == id);
        let shared = self.shared.iter().filter(|(_, shared)| {
            (waits && shared.want == Want::Cell)
                || shared.waiters.iter().any(|waiter| active.tasks.contains(waiter))
        });
        let shared = shared.map(|(task, _)| task).chain(active.joined.as_ref());
        shared.filter_map(of_task).next().or_else(|| active.tasks.iter().find_map(of_task)).cloned()
    }
}
