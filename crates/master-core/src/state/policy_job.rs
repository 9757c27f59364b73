//! A policy job: what exists below a directory is brought to what the policies say, slice by slice;
//! where it is stands in the state, so that the next master goes on there.
//!
//! ```text
//!   way   top ─► the directory that it is in ─► … ─► the deepest      each with the last name done
//!   file  the file whose chunks it is at, and which of them is next
//! ```
//! - PJ1: names go in order, depth first; a slice begins where the one before ended, whatever was
//!   renamed or deleted meanwhile. What is moved while the job runs may be met twice or not at
//!   all; to begin it once more does no harm.
//! - PJ2: each file gets what holds where it stands when it is met: what a directory in between or
//!   the file itself says is heeded.

use super::chunk_table::{ChunkRecord, ChunkTable};
use super::names::NameTree;
use super::policies::{Policies, PolicyTable};
use super::shared_chunks::SharedChunks;
use cairn_types::{
    CellConfig, ChunkHandle, ChunkIndex, EntryId, EntryKind, JobId, PolicyPartNames, WallTime,
};

cairn_types::message! {
    /// A directory on the way to where a job is.
    pub struct PolicyStep {
        1 => directory: EntryId,
        /// The last name in it that was done, or begun.
        2 => after: String,
    }
}
cairn_types::message! {
    /// What is being brought to what the policies say.
    pub struct PolicyJob {
        1 => id: JobId,
        /// The directory, or the file.
        2 => top: EntryId,
        3 => began: WallTime,
        /// The parts that files get.
        4 => parts: PolicyPartNames,
        5 => way: Vec<PolicyStep>,
        /// The file whose chunks it is at; zero: none.
        6 => file: EntryId,
        7 => chunk: ChunkIndex,
        /// Names it has looked at.
        8 => looked_at: u64,
        /// Files that were otherwise.
        9 => changed: u64,
    }
}

impl PolicyJob {
    /// One that begins with all below a directory.
    pub(super) fn below(id: JobId, top: EntryId, began: WallTime, parts: PolicyPartNames) -> Self {
        let way = vec![PolicyStep { directory: top, after: String::new() }];
        Self { id, top, began, parts, way, ..Self::default() }
    }

    /// One for the chunks of a file, which has its level already.
    pub(super) fn of_file(id: JobId, file: EntryId, began: WallTime) -> Self {
        let parts = PolicyPartNames { replication: true, ..PolicyPartNames::default() };
        Self { id, top: file, began, parts, file, looked_at: 1, changed: 1, ..Self::default() }
    }
}

/// A slice of a job.
pub(super) struct PolicySlice<'a> {
    pub(super) names: &'a mut NameTree,
    pub(super) chunks: &'a mut ChunkTable,
    pub(super) shared: &'a SharedChunks,
    pub(super) policies: &'a PolicyTable,
    pub(super) config: &'a CellConfig,
    /// How many more names and chunks are looked at.
    pub(super) left: usize,
    /// Chunks that have another goal now.
    pub(super) changed: Vec<ChunkHandle>,
}

impl PolicySlice<'_> {
    /// Goes on with a job; whether all of it is done.
    pub(super) fn go_on(&mut self, job: &mut PolicyJob) -> bool {
        self.find_the_way(job);
        loop {
            if !job.file.is_none() && !self.bring_chunks(job) {
                return false;
            }
            let Some(step) = job.way.last_mut() else { return true };
            if self.left == 0 {
                return false;
            }
            let directory = step.directory;
            let next = self.names.children(directory, &step.after).next();
            let Some((name, id, kind)) = next else {
                job.way.pop();
                continue;
            };
            step.after = name;
            self.left -= 1;
            job.looked_at += 1;
            match kind {
                EntryKind::Directory => {
                    job.way.push(PolicyStep { directory: id, after: String::new() });
                }
                EntryKind::File => self.bring_file(job, directory, id),
            }
        }
    }

    /// Since the slice before, what it was at may have been moved or deleted (PJ1).
    fn find_the_way(&self, job: &mut PolicyJob) {
        if self.names.is_hidden(job.top) {
            job.way.clear();
            job.file = EntryId::default();
            return;
        }
        let stands = |pair: &[PolicyStep]| {
            let below = self.names.entry(pair[1].directory);
            below.is_some_and(|below| below.parent == pair[0].directory)
        };
        let broken = job.way.windows(2).position(|pair| !stands(pair));
        if let Some(at) = broken {
            job.way.truncate(at + 1);
        }
        if !job.file.is_none() && self.names.is_hidden(job.file) {
            job.file = EntryId::default();
        }
    }

    fn bring_file(&mut self, job: &mut PolicyJob, directory: EntryId, id: EntryId) {
        // Nothing is known of what is damaged, which was noted.
        let Some(file) = self.names.entry(id) else { return };
        let policies = Policies { table: self.policies, names: self.names, config: self.config };
        let wanted = policies.said(id).over(policies.in_directory(directory));
        let brought = file.brought_to(wanted, job.parts);
        if brought != file {
            self.names.set(id, &brought);
            job.changed += 1;
        }
        if job.parts.replication && file.chunk_count > 0 {
            (job.file, job.chunk) = (id, ChunkIndex::default());
        }
    }

    /// The chunks of the file that the job is at get its level; whether all have it.
    fn bring_chunks(&mut self, job: &mut PolicyJob) -> bool {
        if let Some(file) = self.names.entry(job.file) {
            let goal = file.replication;
            let zero = ChunkIndex::default();
            let first = file.first.filter(|_| job.chunk == zero).map(|handle| (zero, handle));
            let behind = self.chunks.of_file(job.file, job.chunk.max(zero.next()));
            let next = first.into_iter().chain(behind).take(self.left + 1);
            for (index, handle) in next.collect::<Vec<_>>() {
                job.chunk = index;
                if self.left == 0 {
                    return false;
                }
                self.left -= 1;
                let Some(chunk) = self.chunks.get(handle) else { continue };
                let goal = self.goal_beside(handle, &chunk, goal);
                if chunk.goal != goal {
                    self.chunks.set(handle, &ChunkRecord { goal, ..chunk });
                    self.changed.push(handle);
                }
            }
        }
        job.file = EntryId::default();
        true
    }

    /// The goal of a chunk of which one file has this level: that of its file with the highest.
    fn goal_beside(&self, handle: ChunkHandle, chunk: &ChunkRecord, level: u32) -> u32 {
        let mut others = self.shared.others(handle).peekable();
        if others.peek().is_none() {
            return level;
        }
        let all = std::iter::once(chunk.file).chain(others);
        let levels = all.filter_map(|file| self.names.entry(file)).map(|file| file.replication);
        levels.fold(level, u32::max)
    }
}
