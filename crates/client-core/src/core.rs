//! The one entrance: operations in, effects out; tasks moved until none can move.

use crate::context::ClientContext;
use crate::ids::{OperationId, TaskId};
use crate::masters::joined_opens::{JoinedAnswer, JoinedOpen, JoinedOpens};
use crate::masters::lookup::{Lookup, LookupRequest};
use crate::masters::mutation_window::MutationWindow;
use crate::masters::shared_lookups::{
    SharedLookup, SharedLookups, keep_extents, keep_grant, keep_locations,
};
use crate::no_disk::NoJob;
use crate::operation::{Command, Operation, Output, ProducerMode, TroubleNotice};
use crate::operations::master_answers::ask_for_chunks;
use crate::operations::operation_state::OperationState;
use crate::operations::operation_table::OperationTable;
use crate::outbox::{Alarm, CallOwner};
use crate::producers::ProducerKey;
use crate::producers::producer_table::{NewBundle, ProducerMove, ProducerTable};
use crate::retry::at_deadline;
use crate::settings::ClientSettings;
use crate::tasks::master_call::{MasterAnswer, MasterCall, told_first};
use crate::tasks::server_call::ServerCall;
use crate::tasks::task::{Task, TaskOwner, TaskResult};
use crate::tasks::task_context::{Progress, TaskInput};
use crate::tasks::task_table::TaskTable;
use cairn_env::{Answer, Completion, Effect, EffectId, Event, Now};
use cairn_protocol::{
    CellInfo, CellInfoAnswer, ErrorCode, Failure, Hello, OpenProducer, Outcome, Request, Response,
    Role, Rpc,
};
use cairn_types::wire::Message;
use cairn_types::{CellId, EntryId, Incarnation, ServerId};
use std::task::Poll;
use std::time::Duration;

/// A client's state machine. See the crate's page.
pub struct ClientCore {
    client: ClientContext,
    tasks: TaskTable,
    operations: OperationTable,
    lookups: SharedLookups,
    opens: JoinedOpens,
    mutations: MutationWindow,
    producers: ProducerTable,
    /// Operations on files that wait for the cell's settings.
    waiting: Vec<(OperationId, Operation)>,
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
    ///
    /// # Panics
    /// Without the address of a master.
    #[must_use]
    pub fn new(settings: ClientSettings) -> Self {
        Self {
            client: ClientContext::new(settings),
            tasks: TaskTable::default(),
            operations: OperationTable::default(),
            lookups: SharedLookups::default(),
            opens: JoinedOpens::default(),
            mutations: MutationWindow::default(),
            producers: ProducerTable::default(),
            waiting: Vec::new(),
        }
    }

    /// Takes one event; effects are pushed to `effects`.
    pub fn step(
        &mut self,
        now: Now,
        event: Event<Command, NoJob>,
        effects: &mut Vec<Effect<NoJob>>,
    ) {
        self.client.now = self.client.now.max(now.time);
        match event {
            Event::Started => self.identify(CellId::default()),
            Event::Command(command) => self.start(command),
            Event::Completed { id, result: Completion::Answered(result) } => {
                self.on_answer(id, result);
            }
            Event::Completed { result: Completion::Woken, .. } => self.client.outbox.woken(),
            Event::Completed { result: Completion::Disk(job), .. } => match job {},
            // A client answers nobody, so it keeps nothing for a connection that is gone.
            Event::Identified { .. } | Event::Disconnected { .. } => {}
            Event::Request { from, .. } => {
                let why = Failure::refused(ErrorCode::Invalid, "a client serves no requests");
                self.client.outbox.refuse(from, why);
            }
        }
        self.settle();
        while let Some(alarm) = self.client.outbox.due_alarm(self.client.now) {
            self.ring(alarm);
            self.settle();
        }
        self.client.outbox.hand_over(effects);
    }

    /// All that was at hand is dealt with: asks what was kept until now, and tells the callers that
    /// were not told at once.
    pub fn end_of_batch(&mut self, now: Now, effects: &mut Vec<Effect<NoJob>>) {
        self.client.now = self.client.now.max(now.time);
        if !self.opens.is_empty() {
            self.ask_opens();
            self.settle();
            assert!(self.opens.is_empty(), "J1: what joins leaves when the batch ends");
            self.client.outbox.hand_over(effects);
        }
        self.operations.tell_answers();
    }

    fn on_answer(&mut self, id: EffectId, result: Result<Answer, Failure>) {
        match self.client.outbox.take_call(id) {
            Some(CallOwner::Task(task)) => self.tasks.wake(task, TaskInput::Answered(id, result)),
            Some(CallOwner::MasterTask(task, asked)) => {
                let (masters, mut cx) = self.client.masters();
                masters.answered(&mut cx, asked, &result);
                self.tasks.wake(task, TaskInput::Answered(id, result));
            }
            Some(CallOwner::Search(master)) => {
                let (masters, mut cx) = self.client.masters();
                masters.told(&mut cx, &master, result);
            }
            // Nobody waits for it.
            None => {}
        }
    }

    /// Moves tasks until all of them wait for the world.
    fn settle(&mut self) {
        loop {
            if let Some((task, input)) = self.tasks.next_ready() {
                self.step_task(task, input);
            } else if let Some(task) = self.client.write_order.next_passed() {
                self.step_task(task, TaskInput::Passed);
            } else if let Some(task) = self.client.push_lines.next_turn(self.client.now) {
                self.step_task(task, TaskInput::Turn);
            } else if self.client.masters.take_found() {
                self.tasks.master_found();
            } else if let Some(request) = self.client.lookups.pop_front() {
                self.lookups.ask(&mut self.tasks, request);
            } else if let Some((operation, request)) = self.mutations.next_held() {
                self.ask_named(operation, request);
            } else {
                return;
            }
        }
    }

    fn step_task(&mut self, id: TaskId, input: TaskInput) {
        match self.tasks.step(&mut self.client, id, input) {
            None => {}
            Some((TaskOwner::Operation(operation), result)) => {
                self.task_over(operation, id, result)
            }
            Some((TaskOwner::Producer(key), result)) => {
                self.move_producers(|producers, cx| producers.task_over(cx, key, id, result));
            }
            Some((TaskOwner::Lookup, result)) => self.lookup_over(id, only_answer(result)),
            Some((TaskOwner::JoinedOpens, result)) => self.joined_over(id, only_answer(result)),
        }
    }

    fn ring(&mut self, alarm: Alarm) {
        match alarm {
            Alarm::Task(task) => self.tasks.ring(task),
            Alarm::Masters => {
                let is_wanted = self.tasks.has_master_calls();
                let (masters, mut cx) = self.client.masters();
                masters.ring(&mut cx, is_wanted);
            }
            Alarm::Pause(operation) => self.finish(operation, Ok(Output::Paused)),
            Alarm::Producer(key) => self.move_producers(|producers, cx| producers.ring(cx, key)),
            Alarm::Deadline(operation) => {
                if self.move_producers(|producers, cx| producers.expire(cx, operation)) {
                    return;
                }
                let maybe = self.operations.may_have_happened(operation, &self.tasks);
                let told = at_deadline(self.last_failure(operation), maybe);
                self.waiting.retain(|(waiting, _)| *waiting != operation);
                self.mutations.drop_held(operation);
                self.finish(operation, Err(told));
            }
        }
    }

    fn identify(&mut self, cell: CellId) {
        let credentials = self.client.identity.to_bytes().into();
        let hello = Hello::new(cell, Role::Client, ServerId::default(), Incarnation::default());
        let hello = Hello { credentials, ..hello };
        self.client.outbox.identify(hello);
    }

    /// Which cell this is: from now on servers of another one refuse this client.
    ///
    /// # Errors
    /// Settings that do not fit together: nothing is learnt.
    fn learn_cell(&mut self, info: &CellInfoAnswer) -> Result<(), Failure> {
        // A master of an older build does not know of all of them.
        let config = info.config.clone().completed();
        config.validate()?;
        if self.client.config.is_none() {
            self.identify(info.cell);
        } else {
            assert!(self.waiting.is_empty(), "nothing waits for settings that are known");
        }
        self.client.config = Some(config);
        for (operation, what) in std::mem::take(&mut self.waiting) {
            self.begin(operation, what);
        }
        Ok(())
    }
}

/// Operations: from the command to the caller.
impl ClientCore {
    fn start(&mut self, command: Command) {
        let Command { operation, deadline, done, .. } = command;
        if let Operation::Forget { file } = operation {
            self.client.files.closed(file);
            done(Ok(Output::Forgotten));
            return;
        }
        if let Operation::LearnMasters { masters } = &operation {
            let (watch, mut cx) = self.client.masters();
            watch.learn(&mut cx, masters);
            done(Ok(Output::Forgotten));
            return;
        }
        if operation == Operation::TellMaster {
            done(Ok(Output::Master(self.client.masters.latest().clone())));
            return;
        }
        if operation == Operation::TellShadows {
            done(Ok(Output::Shadows(self.client.shadows.notice().cloned())));
            return;
        }
        if let Operation::TellTrouble { longer_than } = operation {
            done(Ok(Output::Trouble(self.trouble(longer_than))));
            return;
        }
        if let Operation::DropProducer { producer } = operation {
            self.move_producers(|producers, cx| producers.drop_producer(cx, producer));
            done(Ok(Output::Forgotten));
            return;
        }
        let id = self.operations.start(&mut self.client, &operation, deadline, done);
        match operation {
            // Its alarm is all there is.
            Operation::Pause(_) => {}
            Operation::Ask(request) | Operation::Open(request) => self.begin_ask(id, request),
            Operation::AskServer { at, request } => {
                let (_, mut cx) = self.operations.parts(id, &mut self.client, &mut self.tasks);
                cx.start(Task::ServerCall(ServerCall::new(at, request)));
            }
            operation if self.client.config.is_none() => {
                self.waiting.push((id, operation));
                let (lookup, newer_than, waiter) = (Lookup::Cell, 0, None);
                let request = LookupRequest { lookup, newer_than, waiter, deadline };
                self.client.lookups.push_back(request);
            }
            operation => self.begin(id, operation),
        }
    }

    /// Begins an operation on a file.
    fn begin(&mut self, id: OperationId, operation: Operation) {
        let operation = match operation {
            Operation::OpenProducer { file, name, mode } => {
                return self.open_producer(id, file, (name, mode));
            }
            Operation::SendBundle { producer, first, count, bytes, cursor, sync, replaces } => {
                let deadline = self.operations.deadline(id);
                let bundle = NewBundle {
                    operation: id,
                    deadline,
                    first,
                    count,
                    bytes,
                    cursor,
                    sync,
                    replaces,
                };
                return self.send_bundle(producer, bundle);
            }
            Operation::CloseProducer { producer } => return self.close_producer(id, producer),
            operation => operation,
        };
        let (state, mut cx) = self.operations.parts(id, &mut self.client, &mut self.tasks);
        let progress = state.begin(&mut cx, operation);
        self.finish_if_over(id, progress);
    }

    fn begin_ask(&mut self, id: OperationId, mut request: Request) {
        if let Request::Batch(batch) = &request
            && let Some(failure) = batch.oversized()
        {
            // It might not even fit a message.
            return self.finish(id, Err(failure));
        }
        ask_for_chunks(&mut request);
        if let Some(request) = self.mutations.pass(id, request) {
            self.ask_named(id, request);
        }
    }

    /// Names what the request changes, and asks it.
    fn ask_named(&mut self, id: OperationId, mut request: Request) {
        let first = self.mutations.name(self.client.session, &mut request);
        self.operations.set_first_mutation(id, first);
        match request {
            Request::Open(open) => self.opens.join(JoinedOpen { operation: id, open }),
            request => self.ask(id, request),
        }
    }

    fn ask(&mut self, id: OperationId, request: impl Into<Request>) {
        let (_, mut cx) = self.operations.parts(id, &mut self.client, &mut self.tasks);
        cx.start(Task::MasterCall(MasterCall::new(request)));
    }

    fn task_over(&mut self, id: OperationId, task: TaskId, result: Result<TaskResult, Failure>) {
        self.operations.task_over(id, task);
        let progress = match result {
            Ok(TaskResult::Answered(answer)) => return self.answered(id, answer),
            Ok(TaskResult::Told(response)) => {
                return self.finish(id, Ok(Output::Answered(response)));
            }
            Ok(TaskResult::Read(piece)) => {
                let (state, mut cx) = self.operations.parts(id, &mut self.client, &mut self.tasks);
                state.piece_read(&mut cx, task, piece)
            }
            Ok(TaskResult::Stored(stored)) => unreachable!("a producer's: {stored:?}"),
            Ok(TaskResult::LookedUp) => {
                let (state, mut cx) = self.operations.parts(id, &mut self.client, &mut self.tasks);
                state.extents_known(&mut cx)
            }
            Ok(TaskResult::RunRead(read)) => {
                let (state, mut cx) = self.operations.parts(id, &mut self.client, &mut self.tasks);
                state.run_read(&mut cx, task, read)
            }
            Ok(TaskResult::Applied(range)) => {
                let (state, mut cx) = self.operations.parts(id, &mut self.client, &mut self.tasks);
                state.applied(&mut cx, task, &range)
            }
            Err(failure) => {
                let (state, _) = self.operations.parts(id, &mut self.client, &mut self.tasks);
                match state.despite(&failure) {
                    Some(output) => Poll::Ready(Ok(output)),
                    None => return self.fail(id, failure),
                }
            }
        };
        self.finish_if_over(id, progress);
    }

    /// A question of an operation is answered.
    fn answered(&mut self, id: OperationId, answer: MasterAnswer) {
        if let Response::CellInfo(info) = &answer.response
            && let Err(failure) = self.learn_cell(info)
        {
            return self.finish(id, Err(failure));
        }
        if let Response::WaitLength(told) = &answer.response {
            self.client.log_seen = self.client.log_seen.max(told.log);
        }
        let (state, mut cx) = self.operations.parts(id, &mut self.client, &mut self.tasks);
        if let OperationState::OpenProducer { file, mode } = *state {
            return self.producer_opened(id, (file, mode), answer.response);
        }
        let progress = state.answered(&mut cx, answer);
        self.finish_if_over(id, progress);
    }

    fn finish_if_over(&mut self, id: OperationId, progress: Progress<Output>) {
        if let Poll::Ready(result) = progress {
            self.finish(id, result);
        }
    }

    /// One task failed, and with it the whole: what else is under way may still happen.
    fn fail(&mut self, id: OperationId, failure: Failure) {
        let maybe = self.operations.may_have_happened(id, &self.tasks);
        let outcome = if maybe { Outcome::Unknown } else { failure.outcome };
        self.finish(id, Err(Failure { outcome, ..failure }));
    }

    /// The caller is told, or will be; whatever is still under way no longer matters (K1).
    fn finish(&mut self, id: OperationId, result: Result<Output, Failure>) {
        let first = self.operations.finish(id, &mut self.client, &mut self.tasks, result);
        if let Some(first) = first {
            self.mutations.over(first);
        }
    }

    /// What went wrong last for an operation, be it in a question that it shares with others.
    fn last_failure(&self, id: OperationId) -> Option<Failure> {
        if let Some(held) = self.mutations.why_held(id) {
            return Some(held);
        }
        let own = self.operations.tasks_of(id);
        let awaits_cell = self.waiting.iter().any(|(waiting, _)| *waiting == id);
        let lookups = self.lookups.questions_for(own, awaits_cell);
        let all = lookups.chain(self.opens.question_of(id)).chain(own.iter().copied());
        let mut all = all.map(|task| self.tasks.get(task)).peekable();
        let asks_masters = matches!(all.peek(), Some(Task::MasterCall(_)));
        let why_held = self.client.masters.why_held().filter(|_| asks_masters);
        told_first(all.find_map(Task::last_failure), why_held).cloned()
    }
}

/// Operations that a trouble is looked for among: one of the oldest has it, or none that matters.
const LOOKED_AT_MAX: usize = 64;

/// What a person is told while it waits.
impl ClientCore {
    /// The oldest operation that is being tried for longer than that and has failed so far.
    fn trouble(&self, longer_than: Duration) -> Option<TroubleNotice> {
        let now = self.client.now;
        let with = (&self.client, &self.tasks);
        let failure =
            |id| self.last_failure(id).or_else(|| self.producers.last_failure(with, id).cloned());
        let mut old = self.operations.begun_before(now - longer_than).take(LOOKED_AT_MAX);
        old.find_map(|(id, begun, deadline)| {
            let (tried, left) = (now.since(begun), deadline.since(now));
            failure(id).map(|why| TroubleNotice { tried, left, why })
        })
    }
}

/// Producers of streams.
impl ClientCore {
    /// Has producers moved, and tells the callers whose bundles are over.
    fn move_producers<T>(
        &mut self,
        step: impl FnOnce(&mut ProducerTable, &mut ProducerMove<'_>) -> T,
    ) -> T {
        let mut finished = Vec::new();
        let Self { client, tasks, producers, .. } = self;
        let value = step(producers, &mut ProducerMove { client, tasks, finished: &mut finished });
        for (operation, result) in finished {
            self.finish(operation, result);
        }
        value
    }

    fn open_producer(
        &mut self,
        id: OperationId,
        file: EntryId,
        (name, mode): (String, ProducerMode),
    ) {
        let (state, _) = self.operations.parts(id, &mut self.client, &mut self.tasks);
        *state = OperationState::OpenProducer { file, mode };
        let exclusive = mode.exclusive;
        self.begin_ask(id, OpenProducer { file, name, exclusive, ..Default::default() }.into());
    }

    fn send_bundle(&mut self, key: ProducerKey, bundle: NewBundle) {
        let operation = bundle.operation;
        if let Err(why) = self.move_producers(|producers, cx| producers.send(cx, key, bundle)) {
            self.finish(operation, Err(why));
        }
    }

    fn close_producer(&mut self, id: OperationId, key: ProducerKey) {
        match self.move_producers(|producers, cx| producers.close(cx, key)) {
            Ok(close) => {
                let (state, _) = self.operations.parts(id, &mut self.client, &mut self.tasks);
                *state = OperationState::CloseProducer;
                self.ask(id, close);
            }
            Err(why) => self.finish(id, Err(why)),
        }
    }

    /// A producer is open.
    fn producer_opened(
        &mut self,
        id: OperationId,
        (file, mode): (EntryId, ProducerMode),
        response: Response,
    ) {
        let opened = OpenProducer::answer(Ok(response));
        let opened = opened.map(|answer| self.producers.opened((file, mode), answer));
        self.finish(id, opened.map(Output::ProducerOpened));
    }
}

/// Questions that are asked for many.
impl ClientCore {
    fn lookup_over(&mut self, id: TaskId, result: Result<MasterAnswer, Failure>) {
        let SharedLookup { lookup, waiters } = self.lookups.take(id);
        let result = match (lookup, result) {
            (_, Err(failure)) => Err(failure),
            (Lookup::Cell, Ok(answer)) => {
                CellInfo::answer(Ok(answer.response)).and_then(|info| self.learn_cell(&info))
            }
            (Lookup::Location { file, index }, Ok(answer)) => {
                keep_locations(&mut self.client, file, index, answer)
            }
            (Lookup::Extents { file, offset }, Ok(answer)) => {
                keep_extents(&mut self.client, (file, offset), answer)
            }
            (Lookup::Grant { file, purpose, .. }, Ok(answer)) => {
                keep_grant(&mut self.client, file, purpose, answer)
            }
        };
        if let (Lookup::Cell, Err(failure)) = (lookup, &result) {
            for (operation, _) in std::mem::take(&mut self.waiting) {
                self.finish(operation, Err(failure.clone()));
            }
        }
        for waiter in waiters {
            self.tasks.wake(waiter, TaskInput::LookedUp(result.clone()));
        }
    }

    /// The batch is over: what was to be opened in it is asked for.
    fn ask_opens(&mut self) {
        // Some may be past their deadline already.
        self.opens.retain_waiting(|operation| self.operations.is_under_way(operation));
        while let Some(mut group) = self.opens.take_group() {
            if let [JoinedOpen { operation, .. }] = group[..] {
                let alone = group.swap_remove(0);
                self.ask(operation, alone.open);
                continue;
            }
            let deadlines = group.iter().map(|joined| self.operations.deadline(joined.operation));
            let deadline = deadlines.max().expect("a group of several");
            let question = Task::MasterCall(MasterCall::new(JoinedOpens::question(&group)));
            let id = self.tasks.start(TaskOwner::JoinedOpens, deadline, question);
            self.opens.asked(id, group);
        }
    }

    fn joined_over(&mut self, id: TaskId, result: Result<MasterAnswer, Failure>) {
        for (JoinedOpen { operation, open }, answer) in self.opens.answered(id, result) {
            // It may be past its deadline.
            if !self.operations.is_under_way(operation) {
                continue;
            }
            match answer {
                JoinedAnswer::Answered(answer) => self.answered(operation, answer),
                JoinedAnswer::Failed(failure) => self.fail(operation, failure),
                JoinedAnswer::JoinsAgain => self.opens.join(JoinedOpen { operation, open }),
                JoinedAnswer::AsksAlone => self.ask(operation, open),
            }
        }
    }
}

/// What came of a task that asks the masters.
fn only_answer(result: Result<TaskResult, Failure>) -> Result<MasterAnswer, Failure> {
    result.map(|result| match result {
        TaskResult::Answered(answer) => answer,
        other => unreachable!("it asks the masters: {other:?}"),
    })
}
