//! Applying records about policies: what is said, and bringing what exists to it.
//!
//! ```text
//!   ChangePolicy ─► said ─┬─► a file: its level and durability, and its first chunks at once
//!                         └─► what is left, or lies below a directory: a job
//!   ApplyPolicy ─► a slice of the job … ─► all done: no job          EndPolicyJob ─► no job
//! ```

use super::chunk_table::ChunkTable;
use super::entry_record::EntryRecord;
use super::names::NameTree;
use super::policies::{Policies, PolicyTable};
use super::policy_job::{PolicyJob, PolicySlice};
use super::shared_chunks::SharedChunks;
use crate::applied::{Applied, Changed, PolicyApplied, PolicyChanged};
use crate::record::{ApplyPolicy, ChangePolicy, EndPolicyJob};
use cairn_protocol::{ErrorCode, Failure};
use cairn_types::{CellConfig, EntryKind, JobId, Layout, PolicyPartNames, REPLICATION_MAX};

/// Names and chunks that one record may look at: a few milliseconds.
pub(crate) const SLICE_COUNT_MAX: u32 = 256;
/// Jobs at once: each stands in every checkpoint's root.
const JOBS_MAX: usize = 64;

/// What a record about policies may change.
pub(super) struct PolicyChanges<'a> {
    pub(super) names: &'a mut NameTree,
    pub(super) chunks: &'a mut ChunkTable,
    pub(super) shared: &'a SharedChunks,
    pub(super) policies: &'a mut PolicyTable,
    pub(super) config: &'a CellConfig,
}

fn invalid(line: String) -> Failure {
    Failure::refused(ErrorCode::Invalid, line)
}

fn no_job(id: JobId) -> Failure {
    let line = format!("job {}: it is over, or there never was one", id.short());
    Failure::refused(ErrorCode::NotFound, line)
}

/// Refuses what no file can have.
fn check_parts(record: &ChangePolicy) -> Result<(), Failure> {
    if !record.set.names().any() && !record.inherit.any() && !record.apply {
        return Err(invalid("a change of a policy that changes nothing".to_owned()));
    }
    let is_odd = |level: &u32| *level == 0 || *level > REPLICATION_MAX;
    if let Some(level) = record.set.replication.filter(is_odd) {
        return Err(invalid(format!("{level} replicas; from 1 to {REPLICATION_MAX} are possible")));
    }
    if let Some(count) = record.set.commit_replicas.filter(is_odd) {
        let line =
            format!("commits that {count} replicas hold; 1 to {REPLICATION_MAX} may have to");
        return Err(invalid(line));
    }
    Ok(())
}

impl PolicyChanges<'_> {
    pub(super) fn change_policy(&mut self, record: &ChangePolicy) -> Result<Applied, Failure> {
        check_parts(record)?;
        let id = record.entry;
        let entry = self.names.entry(id).filter(|_| !self.names.is_hidden(id));
        let Some(entry) = entry else {
            let line = format!("entry {}: no such file or directory, or deleted", id.short());
            return Err(Failure::refused(ErrorCode::NotFound, line));
        };
        if entry.kind == EntryKind::File
            && entry.layout != Layout::Stream
            && record.set.commit_replicas.is_some()
        {
            return Err(invalid(format!(
                "file {}: it is no stream, and commits nothing",
                id.short()
            )));
        }
        let is_long = entry.kind == EntryKind::File && entry.chunk_count > SLICE_COUNT_MAX.into();
        let others = self.policies.jobs().values().filter(|job| job.top != id);
        if (record.apply || is_long) && others.count() >= JOBS_MAX {
            let line = "too many policies are being applied at once: 'cairn jobs' lists them";
            return Err(Failure::refused(ErrorCode::Busy, line));
        }
        let said = record.set.or(self.policies.said(id).without(record.inherit));
        self.policies.say(id, said);
        let left = match entry.kind {
            EntryKind::File => self.bring_file(record, entry),
            EntryKind::Directory if record.apply => {
                // Where nothing is named, all that files have of policies is meant.
                let named = record.set.names().and(record.inherit);
                let parts = if named.any() { named } else { PolicyPartNames::ALL };
                Some(PolicyJob::below(record.job, id, record.time, parts))
            }
            EntryKind::Directory => None,
        };
        if left.is_some() {
            // What was being done there is done anew.
            self.policies.jobs_mut().retain(|_, job| job.top != id);
        }
        let job = left.as_ref().map(|job| job.id).unwrap_or_default();
        self.policies.jobs_mut().extend(left.map(|job| (job.id, job)));
        Ok(Applied::PolicyChanged(PolicyChanged { entry: id, job }))
    }

    /// The file gets what is said now, and its first chunks do; what is left to do.
    fn bring_file(&mut self, record: &ChangePolicy, file: EntryRecord) -> Option<PolicyJob> {
        let id = record.entry;
        let policies = Policies { table: self.policies, names: self.names, config: self.config };
        let inherited = policies.in_directory(file.parent);
        let named = record.set.names().and(record.inherit);
        // With --apply it gets all that it would get, were it made now.
        let named = if record.apply { PolicyPartNames::ALL } else { named };
        let wanted = policies.said(id).over(inherited);
        self.names.set(id, &file.brought_to(wanted, named));
        if !named.replication || file.chunk_count == 0 {
            return None;
        }
        let mut job = PolicyJob::of_file(record.job, id, record.time);
        let whole = self.slice(SLICE_COUNT_MAX).go_on(&mut job);
        (!whole).then_some(job)
    }

    fn slice(&mut self, count: u32) -> PolicySlice<'_> {
        PolicySlice {
            names: self.names,
            chunks: self.chunks,
            shared: self.shared,
            policies: self.policies,
            config: self.config,
            left: count.clamp(1, SLICE_COUNT_MAX) as usize,
            changed: Vec::new(),
        }
    }

    /// A slice of a job.
    pub(super) fn apply_policy(&mut self, record: &ApplyPolicy) -> Result<Applied, Failure> {
        let id = record.job;
        let mut job = self.policies.jobs_mut().remove(&id).ok_or_else(|| no_job(id))?;
        let mut slice = self.slice(record.count);
        let whole = slice.go_on(&mut job);
        let chunks = slice.changed;
        assert!(chunks.len() <= SLICE_COUNT_MAX as usize, "a slice is small");
        if !whole {
            self.policies.jobs_mut().insert(id, job);
        }
        Ok(Applied::PolicyApplied(PolicyApplied { job: id, whole, chunks }))
    }

    /// A job is given up; what it has done stays.
    pub(super) fn end_job(&mut self, record: &EndPolicyJob) -> Result<Applied, Failure> {
        let ended = self.policies.jobs_mut().remove(&record.job);
        ended.ok_or_else(|| no_job(record.job))?;
        Ok(Applied::Changed(Changed::default()))
    }
}
