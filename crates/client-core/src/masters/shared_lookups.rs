//! Lookups that many tasks wait for: one question to the masters for all of them.
//!
//! - S1: a task joins a question under way only if its answer will be young enough for it.

use crate::context::ClientContext;
use crate::ids::TaskId;
use crate::masters::lookup::{Lookup, LookupRequest};
use crate::tasks::master_call::{MasterAnswer, MasterCall};
use crate::tasks::task::{Task, TaskOwner};
use crate::tasks::task_table::TaskTable;
use cairn_protocol::{
    ChunkLocations, ErrorCode, Failure, Lease, LeasePurpose, Locate, ReadExtents, Rpc,
};
use cairn_types::{ChunkIndex, EntryId, Layout};
use std::collections::BTreeMap;

/// A question under way, and who waits for its answer.
#[derive(Debug)]
pub(crate) struct SharedLookup {
    pub(crate) lookup: Lookup,
    pub(crate) waiters: Vec<TaskId>,
}

/// The questions under way, by the task that asks each.
#[derive(Debug, Default)]
pub(crate) struct SharedLookups {
    under_way: BTreeMap<TaskId, SharedLookup>,
}

impl SharedLookups {
    /// Joins a question under way that will do, or asks a new one (S1).
    pub(crate) fn ask(&mut self, tasks: &mut TaskTable, request: LookupRequest) {
        let LookupRequest { lookup, newer_than, waiter, deadline } = request;
        for (id, shared) in &mut self.under_way {
            // One that rests will be asked anew, with a higher number than any before.
            let young = tasks.master_call(*id).asked().is_none_or(|asked| asked > newer_than);
            if young && shared.lookup.covers(&lookup) {
                shared.waiters.extend(waiter);
                tasks.extend_deadline(*id, deadline);
                return;
            }
        }
        let call = Task::MasterCall(MasterCall::new(lookup.request()));
        let id = tasks.start(TaskOwner::Lookup, deadline, call);
        let waiters = waiter.into_iter().collect();
        let same = self.under_way.insert(id, SharedLookup { lookup, waiters });
        assert!(same.is_none(), "a lookup has a task of its own");
    }

    /// A question is answered, or cannot be.
    pub(crate) fn take(&mut self, id: TaskId) -> SharedLookup {
        self.under_way.remove(&id).expect("a lookup is under way until its task is over")
    }

    /// The questions for the cell's settings, and those that one of `tasks` waits for.
    pub(crate) fn questions_for(
        &self,
        tasks: &[TaskId],
        cell: bool,
    ) -> impl Iterator<Item = TaskId> {
        let concerns = move |shared: &SharedLookup| {
            (cell && shared.lookup == Lookup::Cell)
                || shared.waiters.iter().any(|waiter| tasks.contains(waiter))
        };
        self.under_way.iter().filter(move |(_, shared)| concerns(shared)).map(|(id, _)| *id)
    }
}

/// Keeps where the chunks from `first` on lie.
///
/// # Errors
/// The answer is of another kind.
pub(crate) fn keep_locations(
    client: &mut ClientContext,
    file: EntryId,
    first: ChunkIndex,
    answer: MasterAnswer,
) -> Result<(), Failure> {
    let MasterAnswer { response, by } = answer;
    let answer = Locate::answer(Ok(response))?;
    if answer.entry.layout == Layout::Stream {
        let why = "a stream is read by its extents: open it first";
        return Err(Failure::refused(ErrorCode::Invalid, why));
    }
    let question = client.question(by);
    client.files.file(file).locations.absorb(&answer.entry, first, answer.chunks, question);
    Ok(())
}

/// Keeps the extents of a stream.
///
/// # Errors
/// The answer is of another kind, or about no stream.
pub(crate) fn keep_extents(
    client: &mut ClientContext,
    (file, offset): (EntryId, u64),
    answer: MasterAnswer,
) -> Result<(), Failure> {
    let MasterAnswer { response, by } = answer;
    let answer = ReadExtents::answer(Ok(response))?;
    let question = client.question(by);
    client.log_seen = client.log_seen.max(answer.log);
    // It may have been closed meanwhile.
    if let Some(stream) = client.files.file(file).stream_mut() {
        stream.absorb(offset, answer, question);
    }
    Ok(())
}

/// Keeps a grant for all who mutate; where it was only to level replicas, keeps where these lie.
///
/// # Errors
/// The answer is of another kind.
pub(crate) fn keep_grant(
    client: &mut ClientContext,
    file: EntryId,
    purpose: LeasePurpose,
    answer: MasterAnswer,
) -> Result<(), Failure> {
    let MasterAnswer { response, by } = answer;
    let grant = Lease::answer(Ok(response))?;
    if purpose != LeasePurpose::Level {
        client.files.file(file).keep_grant(purpose, grant);
        return Ok(());
    }
    let primary = Some(grant.primary.server);
    let mut replicas = vec![grant.primary];
    replicas.extend(grant.secondaries);
    let (index, handle, version) = (grant.index, grant.handle, grant.version);
    let known = ChunkLocations { index, handle, version, ..ChunkLocations::default() };
    let chunk = ChunkLocations { replicas, primary, ..known };
    let question = client.question(by);
    client.files.file(file).locations.absorb_grant(chunk, question);
    Ok(())
}
