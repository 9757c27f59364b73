//! Which extents of a stream are put together next (R45): a pure choice.
//!
//! ```text
//!   settled        | small small large small small ...      | written
//!                  └ a window: at most a chunk's bytes ┘
//! ```
//! - WI1: what has a quarter of a chunk is as it shall be, and is passed over; so is what nobody
//!   has whole any more (R28).
//! - WI2: a window that ends because nothing more has room in its chunk, and the next extent beside
//!   it, have more than a chunk together: so there is at most an extent for each quarter of a
//!   chunk, and one for each range that cannot be settled.
//! - WI3: at the end of what is sealed there are a few more: those of which each is larger than all
//!   behind it together. Bytes that were put together are copied again only where they become twice
//!   as many.

use crate::fleet::KnownReplica;
use crate::jobs::assemble::AssemblyPlan;
use crate::rules::good_replicas::{counted, good};
use crate::rules::placement::choose_holders;
use crate::state::{EntryRecord, Extent};
use crate::stream_records::ReplacedRange;
use crate::view::View;
use cairn_protocol::AssembledSource;
use cairn_types::{ChunkHandle, EntryId, Random, ReplicaAt, ServerId};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Extents of one window.
pub(super) const RANGES_MAX: usize = 1024;
/// Chunks that they may lie in: a job names the servers of each.
const SOURCES_MAX: usize = 256;
/// Extents that are looked at in one turn: those of a window, and as many that are passed over.
const LOOKED_AT_MAX: usize = 2 * RANGES_MAX;
/// While a stream grows, so many of its last extents are put together at once.
const GROWING_COUNT: usize = 8;

/// What is to be done for a file.
#[derive(Debug)]
pub(super) enum SettleStep {
    /// These are put together.
    Window(AssemblyPlan),
    /// It is settled up to there; with `done` there is nothing behind that could be.
    Note { settled_to: u64, done: bool },
    /// This chunk is written, or its servers are away.
    Waits(ChunkHandle),
    /// This one is written, and has kept much from being settled for long.
    Seal(ChunkHandle),
    /// Nothing now: it grows.
    Nothing,
}

/// Extents that are small and stand side by side.
#[derive(Debug, Default)]
struct ExtentRun {
    extents: Vec<(Extent, ChunkHandle)>,
    size: u64,
    sources: BTreeMap<ChunkHandle, Vec<SourceReplica>>,
}

/// Where a chunk may be taken of, and how many bytes are stored there.
type SourceReplica = (ReplicaAt, u64);

/// Why a run ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RunEnd {
    /// The next has no room beside it, or cannot be put together with anything.
    Full,
    /// There may be more than were looked at.
    Count,
    /// The file ends.
    EndOfFile,
    /// This chunk is written, or its servers are away.
    At(ChunkHandle),
}

/// How a chunk of a stream may be taken of.
enum ChunkAsSource {
    Good(Vec<SourceReplica>),
    /// A producer writes it.
    Written,
    /// Its servers are away.
    Away,
    /// What is left of it has less (R28), or it is gone.
    Lacks,
}

/// What was found behind what is settled.
struct FoundRun {
    /// Up to there it is as it shall be.
    passed: u64,
    run: ExtentRun,
    end: RunEnd,
}

/// What comes next; `waited`: for which chunk, and for how long.
pub(super) fn next_window(
    view: &View<'_>,
    (file, entry): (EntryId, &EntryRecord),
    waited: Option<(ChunkHandle, Duration)>,
    random: &mut Random,
) -> SettleStep {
    let config = view.state.config();
    let patience = Duration::from_millis(config.settle_after_ms);
    let before = view.state.streams().settled().settled_to(file);
    let over = waited.filter(|(_, waited)| *waited >= patience).map(|(handle, _)| handle);
    let FoundRun { mut passed, run, end } = find(view, (file, before), over);
    let age = view.now.wall.as_millis().saturating_sub(entry.modified.as_millis());
    let is_quiet = u128::from(age) >= patience.as_millis();
    let least = if is_quiet { 2 } else { GROWING_COUNT };
    let first = match end {
        RunEnd::Full if run.extents.len() > 1 => Some(0),
        RunEnd::Full => None,
        _ => first_of_last(&run.extents, least),
    };
    let run_end = run.extents.last().map_or(passed, |(extent, _)| extent.end);
    if let Some(first) = first {
        let settled_to = (end == RunEnd::Full).then_some(run_end);
        return plan(view, entry, (run, first), settled_to, random)
            .map_or(SettleStep::Nothing, SettleStep::Window);
    }
    // One that stands alone is as large as it gets.
    if end == RunEnd::Full {
        passed = run_end;
    }
    let done = end == RunEnd::EndOfFile && is_quiet;
    if passed > before || done {
        return SettleStep::Note { settled_to: passed, done };
    }
    let RunEnd::At(handle) = end else { return SettleStep::Nothing };
    let is_written = view.state.streams().open_chunk(handle).is_some();
    let behind = entry.length.saturating_sub(run_end);
    match is_written && over == Some(handle) && behind >= config.chunk_size {
        true => SettleStep::Seal(handle),
        false => SettleStep::Waits(handle),
    }
}

/// Looks at the extents from there on; `over`: a chunk that was waited for long enough.
fn find(view: &View<'_>, (file, from): (EntryId, u64), over: Option<ChunkHandle>) -> FoundRun {
    let chunk_size = view.state.config().chunk_size;
    let mut found = FoundRun { passed: from, run: ExtentRun::default(), end: RunEnd::EndOfFile };
    for (looked_at, extent) in view.state.streams().extents_from(file, from).enumerate() {
        if looked_at >= LOOKED_AT_MAX {
            found.end = RunEnd::Count;
            return found;
        }
        let handle = view.state.chunk_at(file, extent.index);
        let run = &mut found.run;
        let source = match handle {
            Some(handle) => source_of(view, handle, &extent, run),
            None => ChunkAsSource::Lacks,
        };
        let handle = handle.unwrap_or_default();
        let passes = match &source {
            ChunkAsSource::Good(_) => {
                run.extents.is_empty() && extent.size >= (chunk_size / 4).max(1)
            }
            ChunkAsSource::Lacks => true,
            // What was away for so long is not waited for.
            ChunkAsSource::Away => over == Some(handle),
            ChunkAsSource::Written => false,
        };
        let ChunkAsSource::Good(replicas) = source else {
            if passes && run.extents.is_empty() {
                found.passed = extent.end;
                continue;
            }
            found.end = if passes { RunEnd::Full } else { RunEnd::At(handle) };
            return found;
        };
        if passes {
            found.passed = extent.end;
            continue;
        }
        let is_known = run.sources.contains_key(&handle);
        let has_room = run.size + extent.size <= chunk_size;
        if !has_room || (!is_known && run.sources.len() == SOURCES_MAX) {
            found.end = RunEnd::Full;
            return found;
        }
        if run.extents.len() == RANGES_MAX {
            found.end = RunEnd::Count;
            return found;
        }
        run.sources.insert(handle, replicas);
        run.size += extent.size;
        run.extents.push((extent, handle));
    }
    found
}

/// From which on the last ones are put together: no one of them is larger than all behind it
/// together; none where that are fewer than `least` (WI3).
fn first_of_last(extents: &[(Extent, ChunkHandle)], least: usize) -> Option<usize> {
    let all: u64 = extents.iter().map(|(it, _)| it.size).sum();
    let mut behind = all;
    let first = extents.iter().position(|(it, _)| {
        behind -= it.size;
        it.size <= behind
    });
    first.filter(|first| extents.len() - first >= least.max(2))
}

/// How a chunk may be taken of, up to the end of an extent.
fn source_of(
    view: &View<'_>,
    handle: ChunkHandle,
    extent: &Extent,
    run: &ExtentRun,
) -> ChunkAsSource {
    let Some(chunk) = view.state.chunk(handle) else { return ChunkAsSource::Lacks };
    if !chunk.closed || view.state.streams().open_chunk(handle).is_some() {
        return ChunkAsSource::Written;
    }
    let needed = extent.chunk_offset + extent.size;
    if let Some(known) = run.sources.get(&handle) {
        let has = known.iter().filter(|(_, length)| *length >= needed);
        let has: Vec<SourceReplica> = has.cloned().collect();
        return if has.is_empty() { ChunkAsSource::Lacks } else { ChunkAsSource::Good(has) };
    }
    let good = good(view, handle, &chunk);
    let has = good.iter().filter(|(_, replica)| replica.length >= needed);
    let live = has.clone().filter(|(it, _)| view.fleet.servers().is_live(view.now.time, *it));
    let at = |(server, replica): &(ServerId, KnownReplica)| {
        Some((view.fleet.at(*server)?.clone(), replica.length))
    };
    let live: Vec<SourceReplica> = live.filter_map(at).collect();
    match (live.is_empty(), good.is_empty(), has.count()) {
        (false, ..) => ChunkAsSource::Good(live),
        (true, false, 0) => ChunkAsSource::Lacks,
        _ => ChunkAsSource::Away,
    }
}

/// What is to be made of the last of a run; none where it would be kept worse than what it is of.
fn plan(
    view: &View<'_>,
    entry: &EntryRecord,
    (run, first): (ExtentRun, usize),
    settled_to: Option<u64>,
    random: &mut Random,
) -> Option<AssemblyPlan> {
    let extents = &run.extents[first..];
    let offset = extents.first()?.0.offset();
    let mut has: BTreeMap<ServerId, u64> = BTreeMap::new();
    let mut sources: Vec<AssembledSource> = Vec::new();
    let (mut replaced, mut size, mut kept) = (Vec::with_capacity(extents.len()), 0, 0);
    let mut named: BTreeSet<ChunkHandle> = BTreeSet::new();
    for (extent, handle) in extents {
        let (handle, range) = (*handle, extent.size);
        let replicas = || run.sources[&handle].iter().map(|(at, _)| at);
        for at in replicas() {
            *has.entry(at.server).or_default() += range;
        }
        if named.insert(handle) {
            let chunk = view.state.chunk(handle)?;
            // Its set as it is logged: of those that hold it not all have told, perhaps.
            let held = counted(view, &good(view, handle, &chunk)).len();
            kept = kept.max(held).max(chunk.set_size as usize);
            let (version, replicas) = (chunk.version, replicas().cloned().collect());
            sources.push(AssembledSource { handle, version, replicas });
        }
        replaced.push(ReplacedRange { handle, offset: extent.chunk_offset, size: range });
        size += range;
    }
    let goal = entry.replication as usize;
    let servers = choose_holders(view, &has, goal, random);
    let is_enough = !servers.is_empty() && servers.len() >= kept.min(goal);
    assert!(size <= view.state.config().chunk_size, "a window has room in a chunk");
    is_enough.then_some(AssemblyPlan { offset, size, replaced, sources, servers, settled_to })
}

#[cfg(test)]
mod tests {
    use super::{LOOKED_AT_MAX, SettleStep, first_of_last, next_window};
    use crate::chunks::test_world::{STREAM, World, chunk_of, written_by};
    use crate::state::Extent;
    use crate::stream_records::SealChunk;
    use cairn_protocol::ReplicaReport;
    use cairn_types::{ChunkHandle, ChunkIndex, ChunkVersion, Term};
    use std::time::Duration;

    fn first(sizes: &[u64], least: usize) -> Option<usize> {
        let index = ChunkIndex::default();
        let extent = |size: &u64| Extent { end: *size, index, chunk_offset: 0, size: *size };
        let extents: Vec<_> =
            sizes.iter().map(|size| (extent(size), ChunkHandle::default())).collect();
        first_of_last(&extents, least)
    }

    #[test]
    fn the_last_are_put_together_where_none_is_larger_than_all_behind_it() {
        assert_eq!(first(&[1, 1], 2), Some(0));
        assert_eq!(first(&[2, 1], 2), None);
        assert_eq!(first(&[9, 3, 1, 1, 1], 2), Some(1));
        assert_eq!(first(&[9, 3, 1, 1, 1], 5), None);
        assert_eq!(first(&[1; 8], 8), Some(0));
        assert_eq!(first(&[], 2), None);
        assert_eq!(first(&[5], 2), None);
    }

    #[test]
    fn enough_looked_at_is_not_the_end_of_the_file() {
        let mut world = World::new(3);
        let bundles = LOOKED_AT_MAX as u64 / 2 + 10;
        // In turns, so that each is an extent of its own.
        written_by(&mut world, 2, (bundles, 1));
        let version = |of| ChunkVersion::of(Term::new(1), 90 + of);
        for of in 1..=2 {
            let (handle, version) = (chunk_of(of).0, version(of));
            world.apply(SealChunk { handle, version, set_size: 3, ..SealChunk::default() });
        }
        let mut world = world.restarted(2);
        // What their chunks have is lost (R28): they are passed over.
        let told = |of| ReplicaReport {
            handle: chunk_of(of).0,
            version: version(of),
            closed: true,
            ..ReplicaReport::default()
        };
        for server in 1..=3 {
            world.join(server, vec![told(1), told(2)], vec![]);
        }
        world.pass(600_000, &[1, 2, 3]);
        let entry = world.state.entry(STREAM).expect("there");
        assert_eq!(entry.length, 2 * bundles);
        let next = world.with(|chunks, step| {
            let view = chunks.view(step.now, step.state);
            next_window(&view, (STREAM, &entry), None::<(ChunkHandle, Duration)>, step.random)
        });
        let SettleStep::Note { settled_to, done } = next else { panic!("{next:?}") };
        assert_eq!((settled_to, done), (LOOKED_AT_MAX as u64, false), "there is more behind");
    }

    #[test]
    fn what_comes_one_by_one_is_copied_a_few_times_and_leaves_few() {
        // Each time that a thousand of one size come one after the other, as soon as may be.
        let (mut sizes, mut copied) = (Vec::new(), 0);
        for _ in 0..1000 {
            sizes.push(1);
            while let Some(first) = first(&sizes, 8) {
                let sum: u64 = sizes.drain(first..).sum();
                copied += sum;
                sizes.push(sum);
            }
            assert!(sizes.len() < 8 + 10, "{sizes:?}");
        }
        assert!(copied < 10 * 1000, "{copied}");
        while let Some(first) = first(&sizes, 2) {
            let sum: u64 = sizes.drain(first..).sum();
            sizes.push(sum);
        }
        assert!(sizes.len() <= 10, "{sizes:?}");
    }
}
