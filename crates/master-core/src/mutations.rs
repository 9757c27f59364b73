//! Namespace mutations on their way: locks, then ids, then a record, then the answer (§4.1).
//!
//! ```text
//!   request ──► locks asked ──► held: ids resolved, record proposed ──► applied: answered
//!      └─ a retry of what is on its way waits with it; of what is done gets its outcome (R24)
//! ```
//! An entry of a batch goes the same way, and its answer into the batch's.
//!
//! - U1: ids are resolved once the locks are held, which are held until the record is applied
//!   (R35).
//! - U2: a refusal that hangs on the names as they are is a record too. The caller may have sent
//!   the request twice; the other copy comes when the names have changed, and must find the answer.

use crate::batches::{Batches, Waiter};
use crate::outbox::ProposalId;
use crate::outcome::Outcome;
use crate::path_locks::{LockSet, PathLocks, Ticket};
use crate::record::{AddDirectories, AddFile, HideEntry, MoveEntry, NewDirectory, Record, Refuse};
use crate::state::{EntryRecord, HIDDEN_NAME, ROOT, Remembered, State};
use crate::step::Step;
use cairn_env::Caller;
use cairn_protocol::{
    BatchAnswer, BatchResult, Create, CreateAnswer, Delete, DeleteAnswer, ErrorCode, Failure,
    MakeDirectory, MakeDirectoryAnswer, Rename, RenameAnswer, Request, Response,
};
use cairn_types::planted::{Rule, broken};
use cairn_types::{CellPath, EntryId, EntryKind, MutationName};
use std::collections::BTreeMap;

/// The most replicas that a file may ask for.
const REPLICATION_MAX: u32 = 16;

/// What the locks being held leads to.
enum Resolved {
    Propose(Record),
    /// The names have moved meanwhile: other locks are needed.
    LockAgain,
}

#[derive(Debug)]
struct Operation {
    mutation: MutationName,
    request: Request,
    /// Who asked, and who asked again.
    waiters: Vec<Waiter>,
    /// The path that is locked for writing; of a rename, the new one.
    locked: CellPath,
}

/// An entry of a batch.
#[derive(Debug)]
pub(crate) enum Entry {
    /// It changes names.
    Mutation(Request),
    /// It only asked for what is known already.
    Known(BatchResult),
}

impl Entry {
    fn known(self) -> Option<BatchResult> {
        match self {
            Self::Mutation(_) => None,
            Self::Known(result) => Some(result),
        }
    }
}

/// All namespace mutations on their way.
#[derive(Debug, Default)]
pub(crate) struct Mutations {
    batches: Batches,
    locks: PathLocks,
    operations: BTreeMap<Ticket, Operation>,
    by_mutation: BTreeMap<MutationName, Ticket>,
    by_proposal: BTreeMap<ProposalId, Ticket>,
}

impl Mutations {
    /// Takes a request that changes names.
    pub(crate) fn on_request(&mut self, step: &mut Step<'_>, from: Caller, request: Request) {
        let mut ready = Vec::new();
        self.take(step, Waiter::Caller(from), request, &mut ready);
        self.run(step, ready);
    }

    /// Takes a batch. Everything that can run at once is proposed in this step, and so shares one
    /// flush (§2.6.3).
    pub(crate) fn on_batch(&mut self, step: &mut Step<'_>, from: Caller, entries: Vec<Entry>) {
        if !entries.iter().any(|entry| matches!(entry, Entry::Mutation(_))) {
            let results = entries.into_iter().filter_map(Entry::known).collect();
            return step.out.reply(from, Ok(Response::Batch(BatchAnswer { results })));
        }
        let batch = self.batches.begin(from, entries.len());
        let mut ready = Vec::new();
        for (index, entry) in entries.into_iter().enumerate() {
            match entry {
                Entry::Known(result) => self.batches.settle(step.out, batch, index, result),
                Entry::Mutation(request) => {
                    self.take(step, Waiter::Entry(batch, index), request, &mut ready);
                }
            }
        }
        self.run(step, ready);
    }

    /// Answers what is known already, or asks for locks; what has them joins `ready`.
    fn take(
        &mut self,
        step: &mut Step<'_>,
        waiter: Waiter,
        request: Request,
        ready: &mut Vec<Ticket>,
    ) {
        let mutation = match check(&request) {
            Ok(mutation) => mutation,
            Err(failure) => return self.batches.answer(step.out, waiter, Err(failure)),
        };
        if !broken(Rule::R24) {
            match step.state.remembered(mutation) {
                Remembered::New => {}
                Remembered::Done(outcome) => {
                    let answer = answer(step.state, &request, &outcome);
                    return self.batches.answer(step.out, waiter, answer);
                }
                Remembered::TooOld => {
                    let line = "the mutation is older than what the master remembers";
                    let failure = Failure::unknown(ErrorCode::TooOld, line);
                    return self.batches.answer(step.out, waiter, Err(failure));
                }
            }
            // The first try is on its way: one answer will serve both.
            if let Some(ticket) = self.by_mutation.get(&mutation)
                && let Some(operation) = self.operations.get_mut(ticket)
            {
                return operation.waiters.push(waiter);
            }
        }
        let (waiters, locked) = (vec![waiter], CellPath::root());
        self.lock(step.state, Operation { mutation, request, waiters, locked }, ready);
    }

    /// A record is applied: answers, gives the locks back, and lets the next ones run (U1).
    pub(crate) fn on_applied(&mut self, step: &mut Step<'_>, id: ProposalId, outcome: &Outcome) {
        let Some(ticket) = self.by_proposal.remove(&id) else { return };
        if let Some(operation) = self.end(ticket) {
            let answer = answer(step.state, &operation.request, outcome);
            let mut waiters = operation.waiters;
            let last = waiters.pop();
            for waiter in waiters {
                self.batches.answer(step.out, waiter, answer.clone());
            }
            // Mostly the only one.
            if let Some(waiter) = last {
                self.batches.answer(step.out, waiter, answer);
            }
        }
        let mut ready = Vec::new();
        self.locks.release(ticket, &mut ready);
        self.run(step, ready);
    }

    /// Asks for the operation's locks; it joins `ready` where they are free.
    fn lock(&mut self, state: &State, mut operation: Operation, ready: &mut Vec<Ticket>) {
        let locks;
        (locks, operation.locked) = lock_set(state, &operation.request);
        let (ticket, runs) = self.locks.request(locks);
        self.by_mutation.insert(operation.mutation, ticket);
        self.operations.insert(ticket, operation);
        ready.extend(runs.then_some(ticket));
    }

    /// Runs operations whose locks are held, in the order in which they came, and those that they
    /// let run by ending at once.
    fn run(&mut self, step: &mut Step<'_>, mut ready: Vec<Ticket>) {
        let mut next = 0;
        while let Some(&ticket) = ready.get(next) {
            next += 1;
            let Some(operation) = self.operations.get(&ticket) else { continue };
            let record = match resolve(step, operation) {
                Ok(Resolved::Propose(record)) => record,
                Ok(Resolved::LockAgain) => {
                    let ended = self.end(ticket);
                    self.locks.release(ticket, &mut ready);
                    if let Some(operation) = ended {
                        self.lock(step.state, operation, &mut ready);
                    }
                    continue;
                }
                Err(failure) => {
                    let (time, mutation) = (step.now.wall, operation.mutation);
                    Record::from(Refuse { time, mutation, failure })
                }
            };
            let id = step.out.propose(record);
            self.by_proposal.insert(id, ticket);
        }
    }

    fn end(&mut self, ticket: Ticket) -> Option<Operation> {
        let operation = self.operations.remove(&ticket)?;
        if self.by_mutation.get(&operation.mutation) == Some(&ticket) {
            self.by_mutation.remove(&operation.mutation);
        }
        Some(operation)
    }
}

fn invalid(line: String) -> Failure {
    Failure::refused(ErrorCode::Invalid, line)
}

/// What can be said of a request without looking at any name; tells how it is called.
fn check(request: &Request) -> Result<MutationName, Failure> {
    let (mutation, path) = match request {
        Request::MakeDirectory(request) => (request.mutation, &request.path),
        Request::Create(request) => (request.mutation, &request.path),
        Request::Rename(request) => (request.mutation, &request.to),
        Request::Delete(request) => (request.mutation, &request.path),
        other => return Err(invalid(format!("{} changes no name", other.name()))),
    };
    if mutation.session.is_none() || mutation.number.get() == 0 {
        let line = format!("{path}: the request names no session and number of its own");
        return Err(invalid(line));
    }
    if path.names().next() == Some(HIDDEN_NAME) {
        let line = format!("{path}: deleted files are read and restored, not changed");
        return Err(invalid(line));
    }
    match request {
        Request::Create(create) if create.replication > REPLICATION_MAX => {
            let asked = create.replication;
            Err(invalid(format!("{path}: {asked} replicas; the limit is {REPLICATION_MAX}")))
        }
        Request::Rename(rename) => check_rename(rename).map(|()| mutation),
        Request::Create(_) if path.is_root() => {
            Err(Failure::refused(ErrorCode::IsADirectory, "/: the root is a directory"))
        }
        Request::Delete(_) if path.is_root() => Err(invalid("/: the root stays".to_owned())),
        _ => Ok(mutation),
    }
}

fn check_rename(rename: &Rename) -> Result<(), Failure> {
    let (from, to) = (&rename.from, &rename.to);
    if from.is_root() || to.is_root() {
        return Err(invalid(format!("{from} to {to}: the root stays where it is")));
    }
    if from.names().next() == Some(HIDDEN_NAME) && from.names().count() == 1 {
        return Err(invalid(format!("{from}: the place of deleted files stays where it is")));
    }
    if to != from && to.is_within(from) {
        return Err(invalid(format!("{from} to {to}: a directory cannot be moved into itself")));
    }
    Ok(())
}

/// The locks of an operation, as the names stand now, and the path that it writes.
fn lock_set(state: &State, request: &Request) -> (LockSet, CellPath) {
    let locks = LockSet::default();
    let path = match request {
        Request::MakeDirectory(make) if make.parents => topmost_missing(state, &make.path),
        Request::MakeDirectory(make) => make.path.clone(),
        Request::Create(create) => create.path.clone(),
        Request::Delete(delete) => delete.path.clone(),
        Request::Rename(rename) => {
            return (locks.write(&rename.from).write(&rename.to), rename.to.clone());
        }
        _ => return (locks, CellPath::root()),
    };
    (locks.write(&path), path)
}

/// The highest name along a path that is not there; the path itself where all are. Whoever writes
/// that name excludes everyone below it.
fn topmost_missing(state: &State, path: &CellPath) -> CellPath {
    let (_, missing) = walk(state, path);
    let kept = path.names().count() - missing.len().saturating_sub(1);
    let text: String = path.names().take(kept).flat_map(|name| ["/", name]).collect();
    CellPath::parse(&text).unwrap_or_else(|_| path.clone())
}

/// How far a path leads, and the names beyond.
fn walk<'a>(state: &State, path: &'a CellPath) -> (EntryId, Vec<&'a str>) {
    let mut at = ROOT;
    let mut names = path.names();
    while let Some(name) = names.next() {
        match state.child(at, name) {
            Some(child) => at = child,
            None => return (at, std::iter::once(name).chain(names).collect()),
        }
    }
    (at, Vec::new())
}

/// Looks ids up and says what to do, the locks being held.
fn resolve(step: &mut Step<'_>, operation: &Operation) -> Result<Resolved, Failure> {
    match &operation.request {
        Request::MakeDirectory(make) => resolve_make_directory(step, make, &operation.locked),
        Request::Create(create) => resolve_create(step, create),
        Request::Rename(rename) => resolve_rename(step, rename),
        Request::Delete(delete) => resolve_delete(step, delete),
        other => Err(invalid(format!("{} changes no name", other.name()))),
    }
}

/// The directory that shall hold `path`, and the last name of it.
fn parent<'a>(state: &State, path: &'a CellPath) -> Result<(EntryId, &'a str), Failure> {
    let (Some(directory), Some(name)) = (path.parent(), path.name()) else {
        return Err(invalid(format!("{path}: the root stays as it is")));
    };
    let (id, kind) = state.resolve_kind(&directory).map_err(|failure| Failure {
        message: format!("{path}: {}", failure.message),
        ..failure
    })?;
    if kind == EntryKind::File {
        let line = format!("{path}: {directory} is a file and holds no names");
        return Err(Failure::refused(ErrorCode::NotADirectory, line));
    }
    Ok((id, name))
}

/// An entry, the directory that holds it, and its name there.
fn standing<'a>(
    state: &State,
    path: &'a CellPath,
) -> Result<(EntryId, (EntryId, &'a str)), Failure> {
    if let Ok(place) = parent(state, path)
        && let Some(entry) = state.child(place.0, place.1)
    {
        return Ok((entry, place));
    }
    let entry = state.resolve(path)?;
    Ok((entry, parent(state, path)?))
}

fn resolve_make_directory(
    step: &mut Step<'_>,
    make: &MakeDirectory,
    locked: &CellPath,
) -> Result<Resolved, Failure> {
    let (parent, names) = if make.parents {
        walk(step.state, &make.path)
    } else if make.path.is_root() {
        return Err(Failure::refused(ErrorCode::AlreadyExists, "/: exists already"));
    } else {
        let (parent, name) = parent(step.state, &make.path)?;
        (parent, vec![name])
    };
    let is_file = |entry: EntryRecord| entry.kind == EntryKind::File;
    if step.state.entry(parent).is_some_and(is_file) {
        let file = step.state.path_of(parent).unwrap_or_default();
        let line = format!("{}: {file} is a file where a directory is meant", make.path);
        return Err(Failure::refused(ErrorCode::NotADirectory, line));
    }
    // The lock is on the topmost name that was missing then; one above it may be missing now.
    if !topmost_missing(step.state, &make.path).is_within(locked) {
        return Ok(Resolved::LockAgain);
    }
    let mut directory =
        |name: &&str| NewDirectory { id: step.numbers.entry(), name: (*name).to_owned() };
    Ok(Resolved::Propose(Record::from(AddDirectories {
        time: step.now.wall,
        mutation: make.mutation,
        parent,
        directories: names.iter().map(&mut directory).collect(),
        existing_is_fine: make.parents,
    })))
}

fn resolve_create(step: &mut Step<'_>, create: &Create) -> Result<Resolved, Failure> {
    let (parent, name) = parent(step.state, &create.path)?;
    let standard = step.state.config().replication;
    let replication = if create.replication == 0 { standard } else { create.replication };
    Ok(Resolved::Propose(Record::from(AddFile {
        time: step.now.wall,
        mutation: create.mutation,
        parent,
        name: name.to_owned(),
        id: step.numbers.entry(),
        content: create.content,
        replication,
        synced: create.synced,
        or_open: create.or_open,
    })))
}

fn resolve_rename(step: &mut Step<'_>, rename: &Rename) -> Result<Resolved, Failure> {
    let (entry, (from_parent, from_name)) = standing(step.state, &rename.from)?;
    let (to_parent, to_name) = match rename.to.name() {
        Some(name) if rename.to.parent() == rename.from.parent() => (from_parent, name),
        _ => parent(step.state, &rename.to)?,
    };
    Ok(Resolved::Propose(Record::from(MoveEntry {
        time: step.now.wall,
        mutation: rename.mutation,
        entry,
        from_parent,
        from_name: from_name.to_owned(),
        to_parent,
        to_name: to_name.to_owned(),
        replace: rename.replace,
    })))
}

fn resolve_delete(step: &mut Step<'_>, delete: &Delete) -> Result<Resolved, Failure> {
    let (entry, (parent, name)) = standing(step.state, &delete.path)?;
    Ok(Resolved::Propose(Record::from(HideEntry {
        time: step.now.wall,
        mutation: delete.mutation,
        entry,
        parent,
        name: name.to_owned(),
        recursive: delete.recursive,
    })))
}

/// The answer to `request`, of which `outcome` came.
fn answer(state: &State, request: &Request, outcome: &Outcome) -> Result<Response, Failure> {
    let entry = |id, path: &CellPath| {
        state.describe(id, path.name().unwrap_or_default()).unwrap_or_default()
    };
    match (request, outcome) {
        (_, Outcome::Failed(failure)) => Err(failure.clone()),
        (Request::MakeDirectory(make), Outcome::DirectoryMade(made)) => {
            let entry = entry(made.id, &make.path);
            Ok(Response::MakeDirectory(MakeDirectoryAnswer { entry }))
        }
        (Request::Create(create), Outcome::FileMade(made)) => {
            let entry = entry(made.id, &create.path);
            Ok(Response::Create(CreateAnswer { entry, created: made.created }))
        }
        (Request::Rename(_), Outcome::EntryMoved(_)) => {
            Ok(Response::Rename(RenameAnswer::default()))
        }
        (Request::Delete(_), Outcome::EntryHidden(hidden)) => {
            Ok(Response::Delete(DeleteAnswer { hidden: hidden.hidden.clone() }))
        }
        _ => Err(invalid(format!(
            "{}: its session and number belong to another request",
            request.name()
        ))),
    }
}
