//! Snapshots on their way (GFS §3.4): the tree is locked, made still, copied slice by slice into
//! the hidden directory, and gets its name by one last record.
//!
//! ```text
//!   locks held ─► Stilling: leases revoked, replicas fenced ─► lengths recorded
//!       ─► Copying: CopyEntries … several at a time ─► SnapshotTree ─► applied: answered, thawed
//!                         └─► one failed, or it takes too long: DiscardSnapshot, refused
//! ```
//! - SW1: from before the first lease is asked back until the last record is applied nobody changes
//!   anything below the source: its names are locked, its chunks frozen. So all of the copy is of
//!   one instant.
//! - SW2: a slice is small: whoever looks a name up waits for one at most (the driver's D8), and
//!   whoever changes one for those that are on their way, which are few. In a large tree they are
//!   larger by and by.
//! - SW3: nobody stands still for long: a tree that is not still soon, or not copied before a
//!   server would count as dead, is let go of, and whoever asked is told.
//!
//! Knows names by the state alone; what chunkservers are asked is the scheduler's business.

use crate::applied::Applied;
use crate::chunks::Chunks;
use crate::outbox::ProposalId;
use crate::path_locks::Ticket;
use crate::record::{CopiedAnew, CopyEntries, DiscardSnapshot, Record, SnapshotTree};
use crate::scheduler::Fences;
use crate::snapshot_walk::{SnapshotWalk, StreamToCopy};
use crate::step::Step;
use crate::stream_records::CopyStream;
use cairn_env::LogEvent;
use cairn_protocol::{ErrorCode, Failure};
use cairn_types::{EntryId, MutationName, Time};
use std::collections::BTreeSet;
use std::time::Duration;

/// Slices on their way into the log: so many are flushed together, and applied one by one. A
/// creation that comes meanwhile stands behind them in the log, and waits for them.
const SLICES_MAX: usize = 5;
/// Slices that are begun together: one is applied, and two are walked through, until all that may
/// be are on their way.
const SLICES_AT_ONCE: usize = 2;
/// Extents and producers of a stream in one slice, as long a turn as one of names.
const STREAM_ROWS: u32 = 256;
/// Times after which a server is silent that a tree may take to be still: for so long nobody can
/// write there. Who asks anew comes after whoever waited meanwhile.
const PATIENCE: u32 = 2;

/// What a snapshot is of, and where it goes: looked up while the locks are held.
#[derive(Clone, Debug)]
pub(crate) struct SnapshotPlan {
    pub(crate) mutation: MutationName,
    pub(crate) source: EntryId,
    pub(crate) to_parent: EntryId,
    pub(crate) to_name: String,
    /// Bytes of the path that the copy gets.
    pub(crate) path_size: usize,
    /// The copy of a file that is as if it had been made anew.
    pub(crate) anew: Option<CopiedAnew>,
}

impl SnapshotPlan {
    fn told(&self, name: &'static str) -> LogEvent {
        LogEvent::debug(name).with("source", self.source.short()).with("name", &self.to_name)
    }

    /// What its last record has made of it.
    fn told_end(&self, applied: &Applied) -> LogEvent {
        match applied {
            Applied::SnapshotMade(made) => {
                let event = self.told("snapshot taken").with("entry", made.id.short());
                event.with_number("entries", made.entries)
            }
            Applied::Failed(failure) => self.told("snapshot refused").with("why", &failure.message),
            _ => self.told("snapshot refused"),
        }
    }
}

/// How far a snapshot is.
#[derive(Debug)]
enum SnapshotPhase {
    /// The tree is not still yet.
    Stilling(Fences),
    /// Slices are on their way.
    Copying { walk: Box<SnapshotWalk>, slices: BTreeSet<ProposalId>, entries: u64 },
    /// The last record is on its way; the top of the copy, if there is one.
    Ending(ProposalId, Option<EntryId>),
}

#[derive(Debug)]
struct SnapshotUnderWay {
    ticket: Ticket,
    plan: SnapshotPlan,
    /// When its phase began.
    since: Time,
    phase: SnapshotPhase,
}

/// How a snapshot ends: with this record, or refused.
type Ending = (Ticket, Result<Record, Failure>);

/// All of one term.
#[derive(Debug, Default)]
pub(crate) struct SnapshotWork(Vec<SnapshotUnderWay>);

impl SnapshotWork {
    /// Whether none is under way.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The locks of one are held.
    pub(crate) fn begin(
        &mut self,
        step: &mut Step<'_>,
        chunks: &mut Chunks,
        (ticket, plan): (Ticket, SnapshotPlan),
    ) {
        assert!(self.0.iter().all(|it| it.ticket != ticket), "a snapshot begins once");
        step.out.debug(|| plan.told("snapshot begun"));
        chunks.freeze(plan.source);
        let (since, phase) = (step.now.time, SnapshotPhase::Stilling(Fences::default()));
        self.0.push(SnapshotUnderWay { ticket, plan, since, phase });
    }

    /// Takes the next steps of all; gives those whose last record is to be proposed.
    pub(crate) fn go_on(&mut self, step: &mut Step<'_>, chunks: &mut Chunks) -> Vec<Ending> {
        let mut ended = Vec::new();
        for snapshot in &mut self.0 {
            let outcome = match &mut snapshot.phase {
                SnapshotPhase::Stilling(_) => snapshot.still(step, chunks),
                SnapshotPhase::Copying { .. } => Ok(()),
                SnapshotPhase::Ending(..) => continue,
            };
            match outcome.and_then(|()| snapshot.copy(step)) {
                Ok(None) => {}
                Ok(Some(last)) => ended.push((snapshot.ticket, Ok(last))),
                Err(failure) => ended.push((snapshot.ticket, Err(failure))),
            }
        }
        ended
    }

    /// That one's last record, or its refusal, is on its way.
    pub(crate) fn ending(&mut self, ticket: Ticket, proposal: ProposalId) {
        let snapshot = self.0.iter_mut().find(|it| it.ticket == ticket);
        let snapshot = snapshot.expect("it has just come to its end");
        assert!(!matches!(snapshot.phase, SnapshotPhase::Ending(..)), "it ends once");
        let top = match &snapshot.phase {
            SnapshotPhase::Copying { walk, .. } => walk.top(),
            SnapshotPhase::Stilling(_) | SnapshotPhase::Ending(..) => None,
        };
        snapshot.phase = SnapshotPhase::Ending(proposal, top);
    }

    /// A record is applied.
    pub(crate) fn on_applied(
        &mut self,
        step: &mut Step<'_>,
        chunks: &mut Chunks,
        proposal: ProposalId,
        applied: &Applied,
    ) {
        for snapshot in &mut self.0 {
            snapshot.note_slice(proposal, applied);
        }
        let ends = |it: &SnapshotUnderWay| match it.phase {
            SnapshotPhase::Ending(last, _) => last == proposal,
            SnapshotPhase::Stilling(_) | SnapshotPhase::Copying { .. } => false,
        };
        let Some(at) = self.0.iter().position(ends) else { return };
        let snapshot = self.0.remove(at);
        assert!(!snapshot.plan.source.is_none(), "what was frozen thaws");
        step.out.debug(|| snapshot.plan.told_end(applied));
        chunks.thaw(step, snapshot.plan.source);
        if let (SnapshotPhase::Ending(_, Some(top)), Applied::Failed(_)) = (snapshot.phase, applied)
        {
            step.out.propose(DiscardSnapshot { time: step.now.wall, top });
        }
    }
}

impl SnapshotUnderWay {
    /// Goes on making the tree still; then its copy begins.
    fn still(&mut self, step: &mut Step<'_>, chunks: &mut Chunks) -> Result<(), Failure> {
        let SnapshotPhase::Stilling(fences) = &mut self.phase else { return Ok(()) };
        let config = step.state.config();
        let patience = PATIENCE * Duration::from_millis(config.silent_ms);
        match chunks.still(step, self.plan.source, fences) {
            Ok(lengths) => {
                for length in lengths {
                    step.out.propose(length);
                }
                let SnapshotPlan { source, path_size, anew, .. } = self.plan.clone();
                let walk = SnapshotWalk::new(source, path_size, anew).into();
                self.phase = SnapshotPhase::Copying { walk, slices: BTreeSet::new(), entries: 0 };
                self.since = step.now.time;
                Ok(())
            }
            Err(why) if step.now.time.since(self.since) > patience => {
                let line = format!("no snapshot could be taken: {why}; nothing has changed");
                // It is logged as the answer: the same request is never done.
                Err(Failure::refused(ErrorCode::Busy, line))
            }
            Err(_) => Ok(()),
        }
    }

    /// Proposes slices; gives the last record when all of them are applied.
    fn copy(&mut self, step: &mut Step<'_>) -> Result<Option<Record>, Failure> {
        let SnapshotPhase::Copying { walk, slices, entries } = &mut self.phase else {
            return Ok(None);
        };
        if let Some(failure) = walk.failure() {
            return Err(failure);
        }
        let patience = Duration::from_millis(step.state.config().dead_ms);
        // SW3
        if step.now.time.since(self.since) > patience {
            let line = format!(
                "a snapshot of so many names takes longer than the {} ms for which others wait at \
                 most; take it of the directories in there, one by one",
                patience.as_millis()
            );
            return Err(Failure::refused(ErrorCode::Invalid, line));
        }
        for _ in 0..SLICES_AT_ONCE.min(SLICES_MAX.saturating_sub(slices.len())) {
            let (now, name) = ((step.state, &mut *step.numbers), &self.plan.to_name);
            let slice = walk.next_slice(now, name, *entries)?;
            if slice.is_empty() {
                break;
            }
            *entries += slice.len() as u64;
            let top = walk.top().expect("a slice begins with the top");
            assert!(slice.iter().all(|it| it.source != it.id), "a copy is another entry");
            let record = CopyEntries { time: step.now.wall, top, entries: slice };
            slices.insert(step.out.propose(record));
        }
        let Some(top) = walk.top().filter(|_| slices.is_empty()) else { return Ok(None) };
        if let Some(stream) = walk.next_stream() {
            // One slice after the other: each says where the next goes on.
            let StreamToCopy { source, copy: id, from, after } = stream.clone();
            let (time, count) = (step.now.wall, STREAM_ROWS);
            let record = CopyStream { time, top, source, id, from, after, count };
            slices.insert(step.out.propose(record));
            return Ok(None);
        }
        let SnapshotPlan { mutation, to_parent, to_name, .. } = self.plan.clone();
        let (time, entries) = (step.now.wall, *entries);
        let last = SnapshotTree { time, mutation, top, entries, to_parent, to_name };
        Ok(Some(last.into()))
    }

    /// A slice of it may have been applied.
    fn note_slice(&mut self, proposal: ProposalId, applied: &Applied) {
        if let SnapshotPhase::Copying { walk, slices, .. } = &mut self.phase
            && slices.remove(&proposal)
        {
            match applied {
                Applied::Failed(failure) => walk.fail(failure.clone()),
                Applied::StreamCopied(copied) => walk.copied(copied),
                _ => {}
            }
        }
    }
}
