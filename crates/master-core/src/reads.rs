//! Requests that are answered at once from applied state; they take no lock, because they see
//! all of a record or nothing of it.

use crate::permissions::Asker;
use crate::rules::health::Health;
use crate::rules::reading;
use crate::state::{EntryRecord, HIDDEN_NAME, HIDDEN_ROOT, ROOT, State};
use crate::stream_extents::{WantedExtents, extents_of};
use crate::view::View;
use cairn_pagetree::MULTI_GET_MAX;
use cairn_protocol::{
    BATCH_OPEN_COUNT_MAX, CellNow, ChunkLocations, CountShared, CountSharedAnswer, ErrorCode,
    Failure, LOCATE_COUNT_MAX, List, ListAnswer, ListDisks, ListDisksAnswer, Locate, LocateAnswer,
    Looked, OPEN_EXTENTS_CHUNKS_MAX, OPEN_EXTENTS_MAX, Open, OpenAnswer, ResourceUse,
    ResourcesAnswer, Response, SHARED_FILES_MAX, SharedPart, SharedSum, Stat, StatAnswer,
    StatusAnswer,
};
use cairn_types::{CellPath, ChunkHandle, ChunkIndex, Entry, EntryId, EntryKind, Layout};
use std::ops::Range;

/// Names in one answer to `List` or `Find`, however many are asked for.
pub(crate) const PAGE_SIZE_MAX: u32 = 1000;
/// Names that a `List` may skip: a few pages. It walks past each of them.
const SKIP_MAX: usize = 16_000;
/// Files and chunks that one `CountShared` looks at: a few milliseconds.
const REFERENCES_MAX: u64 = 4096;

/// The names that one page holds, of the many asked for; zero: as many as there may be.
pub(crate) fn page_size(limit: u32) -> usize {
    let size = if limit == 0 { PAGE_SIZE_MAX } else { limit.min(PAGE_SIZE_MAX) };
    usize::try_from(size).expect("a small number")
}

fn found(state: &State, id: EntryId) -> Result<EntryRecord, Failure> {
    state.entry(id).ok_or_else(|| no_such_file(id))
}

fn no_such_file(id: EntryId) -> Failure {
    Failure::refused(ErrorCode::NotFound, format!("file {}: no such file", id.short()))
}

/// The last name of a path; the root has none.
fn name(path: &CellPath) -> &str {
    path.name().unwrap_or_default()
}

/// What paths lead to, looked up together: what one waits for from memory, all wait for at once.
fn find_each<'a>(
    state: &State,
    paths: impl Iterator<Item = &'a CellPath>,
) -> Vec<Result<(EntryId, EntryRecord), Failure>> {
    let ids = state.resolve_each(paths);
    let known: Vec<EntryId> = ids.iter().flatten().copied().collect();
    let mut records = state.entry_each(&known).into_iter();
    let mut with_record = |id| {
        let record = records.next().flatten();
        record.map(|record| (id, record)).ok_or_else(|| no_such_file(id))
    };
    let found: Vec<_> = ids.into_iter().map(|id| id.and_then(&mut with_record)).collect();
    assert!(records.next().is_none(), "each record is of one path");
    found
}

pub(crate) fn stat(view: &View<'_>, stat: &Stat) -> Result<StatAnswer, Failure> {
    let id = view.state.resolve(&stat.path)?;
    let record = found(view.state, id)?;
    let last = last_of(view, (id, &record));
    let located = |handle| reading::of_file(view, id, reading::locations(view, handle));
    let last = last.map(|(_, handle)| located(handle));
    // A closed chunk nobody leases has no length but the recorded one.
    let last = last.filter(|chunk| !chunk.closed || chunk.primary.is_some());
    let entry = view.state.described((id, &record), name(&stat.path));
    Ok(StatAnswer { entry, last: last.map(Box::new) })
}

/// A file's last chunk, whose primary may know of more bytes; none of a stream: its length is in
/// the log (R38).
fn last_of(
    view: &View<'_>,
    (id, record): (EntryId, &EntryRecord),
) -> Option<(ChunkIndex, ChunkHandle)> {
    let last = view.state.last_chunk_of(id, record);
    last.filter(|_| record.layout != Layout::Stream)
}

/// The `Stat`s of a batch: no locations, only whether a primary may know of more bytes.
pub(crate) fn look_each(view: &View<'_>, wishes: &[&Stat]) -> Vec<Result<Looked, Failure>> {
    let found = find_each(view.state, wishes.iter().map(|wish| &wish.path));
    let look = |(wish, found): (&&Stat, Result<(EntryId, EntryRecord), Failure>)| {
        let (id, record) = found?;
        let last = last_of(view, (id, &record));
        let leased = last.is_some_and(|(_, handle)| reading::is_leased(view, handle));
        Ok(Looked { entry: view.state.described((id, &record), name(&wish.path)), leased })
    };
    std::iter::zip(wishes, found).map(look).collect()
}

/// Opens a file for whoever may.
pub(crate) fn open(asker: Asker<'_>, view: &View<'_>, open: &Open) -> Result<OpenAnswer, Failure> {
    asker.opened(open, found_open(view, open))
}

fn found_open(view: &View<'_>, open: &Open) -> Result<OpenAnswer, Failure> {
    let id = view.state.resolve(&open.path)?;
    let record = found(view.state, id)?;
    if record.layout == Layout::Stream && open.extents > 0 {
        return Ok(opened_stream(view, open, (id, &record)));
    }
    opened(view, open, (id, record), None)
}

/// A stream with its extents from the beginning on, as far as one answer tells them (TFS §2.3).
fn opened_stream(
    view: &View<'_>,
    open: &Open,
    (id, record): (EntryId, &EntryRecord),
) -> OpenAnswer {
    let limit = (open.extents as usize).min(OPEN_EXTENTS_MAX);
    let wanted = WantedExtents { offset: 0, limit, chunks: OPEN_EXTENTS_CHUNKS_MAX };
    let told = extents_of(view, (id, record), wanted);
    let entry = view.state.described((id, record), name(&open.path));
    OpenAnswer { entry, stream: Some(told.into()), ..OpenAnswer::default() }
}

pub(crate) fn locate(view: &View<'_>, wish: &Locate) -> Result<LocateAnswer, Failure> {
    // Who asks by id knows the name, and a search for it would cost more than all else here.
    let record = found(view.state, wish.file)?;
    let file = (wish.file, &record);
    let (chunks, next) = match wish.over_holes {
        true => locations_over_holes(view, file, wish),
        false => (locations(view, file, wished(wish.first, wish.count), None), Default::default()),
    };
    Ok(LocateAnswer { entry: view.state.described(file, ""), chunks, next })
}

/// Which bytes of files stand in chunks that other files have too: as much as one turn looks at.
pub(crate) fn shared(state: &State, wish: &CountShared) -> Result<CountSharedAnswer, Failure> {
    if wish.files.len() > SHARED_FILES_MAX {
        let line = format!("{} files; the limit is {SHARED_FILES_MAX}", wish.files.len());
        return Err(Failure::refused(ErrorCode::Invalid, line));
    }
    let mut left = REFERENCES_MAX;
    let mut answer = CountSharedAnswer::default();
    for part in &wish.files {
        if left == 0 {
            break;
        }
        answer.files.push(shared_of(state, part, &mut left));
    }
    assert!(answer.files.len() <= wish.files.len(), "a count for each file at most");
    Ok(answer)
}

fn shared_of(state: &State, part: &SharedPart, left: &mut u64) -> SharedSum {
    let (sharing, mut counted) = (state.sharing(), SharedSum::default());
    *left = left.saturating_sub(1);
    let file = state.entry(part.file).filter(|_| sharing.is_any_shared());
    let Some(file) = file else { return counted };
    if file.layout == Layout::Stream {
        return shared_of_stream(state, part, left);
    }
    let chunk_size = state.config().chunk_size;
    for (index, handle) in state.chunks_of(part.file, part.first) {
        if *left == 0 {
            counted.next = Some(index);
            break;
        }
        *left -= 1;
        if sharing.is_shared(handle) {
            let begin = index.get().saturating_mul(chunk_size);
            counted.shared += file.length.saturating_sub(begin).min(chunk_size);
        }
    }
    counted
}

/// The same of a stream, whose bytes stand where its extents say; it goes on from an offset.
fn shared_of_stream(state: &State, part: &SharedPart, left: &mut u64) -> SharedSum {
    let mut counted = SharedSum::default();
    for extent in state.streams().extents_from(part.file, part.first.get()) {
        if *left == 0 {
            counted.next = Some(ChunkIndex::new(extent.offset()));
            break;
        }
        *left -= 1;
        let handle = state.chunk_at(part.file, extent.index);
        if handle.is_some_and(|handle| state.sharing().is_shared(handle)) {
            counted.shared += extent.size;
        }
    }
    counted
}

/// The chunks of an answer of which no replica is known.
pub(crate) fn unlocated(answer: &Response) -> impl Iterator<Item = ChunkHandle> {
    let chunks = match answer {
        Response::Open(open) => open.chunks.as_slice(),
        Response::Locate(locate) => locate.chunks.as_slice(),
        Response::Stat(stat) => stat.last.as_deref().map_or(&[][..], std::slice::from_ref),
        _ => &[],
    };
    nowhere(chunks)
}

/// Those without a replica.
pub(crate) fn nowhere(chunks: &[ChunkLocations]) -> impl Iterator<Item = ChunkHandle> {
    chunks.iter().filter(|chunk| chunk.replicas.is_empty()).map(|chunk| chunk.handle)
}

/// The `Open`s of a batch, whose answers have so many bytes for locations together; none from the
/// first that does not fit.
pub(crate) fn open_each(
    view: &View<'_>,
    wishes: &[&Open],
    mut room: usize,
) -> Vec<Result<OpenAnswer, Failure>> {
    let mut answers = Vec::with_capacity(wishes.len());
    // Not many more are looked up than can be told.
    for wishes in wishes.chunks(MULTI_GET_MAX) {
        let found = if room > 0 { find_with_first(view, wishes) } else { Vec::new() };
        let mut found = found.into_iter();
        for wish in wishes {
            let answer = match found.next() {
                _ if wish.count > BATCH_OPEN_COUNT_MAX => Err(too_many(wish)),
                Some((file, first)) if room > 0 => {
                    file.and_then(|file| opened(view, wish, file, first))
                }
                _ => Err(no_room()),
            };
            let size = answer.as_ref().map_or(0, OpenAnswer::locations_size);
            let left = room.checked_sub(size);
            room = left.unwrap_or(0);
            answers.push(if left.is_some() { answer } else { Err(no_room()) });
        }
    }
    assert_eq!(answers.len(), wishes.len(), "each is answered, in order");
    answers
}

/// What an `Open` finds first: the file, and where its first chunk is, if that is asked for.
type Found = (Result<(EntryId, EntryRecord), Failure>, Option<ChunkLocations>);

/// Names, entries and first chunks are looked up together, and nearly always that is all.
fn find_with_first(view: &View<'_>, wishes: &[&Open]) -> Vec<Found> {
    let found = find_each(view.state, wishes.iter().map(|wish| &wish.path));
    let first = |(wish, found): (&&Open, &Result<(EntryId, EntryRecord), Failure>)| {
        let (_, record) = found.as_ref().ok()?;
        record.first_within(&wished(wish.first, wish.count))
    };
    let handles: Vec<Option<ChunkHandle>> = std::iter::zip(wishes, &found).map(first).collect();
    let known: Vec<ChunkHandle> = handles.iter().flatten().copied().collect();
    let mut located = reading::locations_each(view, &known).into_iter();
    let firsts = handles.into_iter().map(|handle| handle.and_then(|_| located.next()));
    std::iter::zip(found, firsts).collect()
}

fn too_many(wish: &Open) -> Failure {
    let line = format!(
        "{}: {} chunks asked for in a batch; the limit is {BATCH_OPEN_COUNT_MAX}",
        wish.path, wish.count
    );
    Failure::refused(ErrorCode::Invalid, line)
}

fn no_room() -> Failure {
    Failure::not_done(ErrorCode::Busy, "more locations than a batch is told at once: ask again")
}

fn opened(
    view: &View<'_>,
    wish: &Open,
    (id, record): (EntryId, EntryRecord),
    first: Option<ChunkLocations>,
) -> Result<OpenAnswer, Failure> {
    if record.kind == EntryKind::Directory {
        let line = format!("{}: a directory where a file is meant", wish.path);
        return Err(Failure::refused(ErrorCode::IsADirectory, line));
    }
    let indexes = wished(wish.first, wish.count);
    let chunks = locations(view, (id, &record), indexes, first);
    let entry = view.state.described((id, &record), name(&wish.path));
    Ok(OpenAnswer { entry, chunks, ..OpenAnswer::default() })
}

/// The indexes that are asked for.
fn wished(first: ChunkIndex, count: u32) -> Range<u64> {
    first.get()..first.get().saturating_add(u64::from(count.min(LOCATE_COUNT_MAX)))
}

/// Where chunks of a file are; `first`: where the one at index 0 is, if that is known already.
fn locations(
    view: &View<'_>,
    (id, file): (EntryId, &EntryRecord),
    indexes: Range<u64>,
    first: Option<ChunkLocations>,
) -> Vec<ChunkLocations> {
    let handles = view.state.chunks_between(id, file, indexes);
    let unknown = handles.skip(usize::from(first.is_some()));
    let unknown = unknown.map(|handle| reading::locations(view, handle));
    let all = first.into_iter().chain(unknown);
    all.map(|found| reading::of_file(view, id, found)).collect()
}

/// Where the next chunks of a file are that are there, and the index to go on at. Who wants all of
/// a sparse file would else ask for its holes, which may be far more than all chunks of the cell.
fn locations_over_holes(
    view: &View<'_>,
    (id, file): (EntryId, &EntryRecord),
    wish: &Locate,
) -> (Vec<ChunkLocations>, ChunkIndex) {
    let count = wish.count.min(LOCATE_COUNT_MAX) as usize;
    let mut walk = view.state.chunks_of(id, wish.first);
    let told: Vec<ChunkHandle> = walk.by_ref().take(count).map(|(_, handle)| handle).collect();
    let end = ChunkIndex::new(file.chunk_count);
    let next = walk.next().map_or(end, |(index, _)| index);
    let found = |handle| reading::of_file(view, id, reading::locations(view, handle));
    (told.into_iter().map(found).collect(), next)
}

/// The names of a directory. The hidden root is listed by its own path, `/.deleted`; in the root
/// it shows only to who asks for hidden names.
pub(crate) fn list(state: &State, list: &List) -> Result<ListAnswer, Failure> {
    let id = state.resolve(&list.path)?;
    if state.entry(id).is_some_and(|entry| entry.kind == EntryKind::File) {
        let line = format!("{}: a file where a directory is meant", list.path);
        return Err(Failure::refused(ErrorCode::NotADirectory, line));
    }
    let limit = page_size(list.limit);
    let skip = usize::try_from(list.skip).unwrap_or(usize::MAX);
    if skip > SKIP_MAX {
        let line = format!("{skip} names to be skipped; the limit is {SKIP_MAX}");
        return Err(Failure::refused(ErrorCode::Invalid, line));
    }
    let mut skipped = String::new();
    if skip > 0 {
        match state.children(id, &list.after).skip_names(skip) {
            Some(last) => skipped = last,
            None => return Ok(ListAnswer::default()),
        }
    }
    let after = if skipped.is_empty() { &list.after } else { &skipped };
    let mut entries: Vec<Entry> = state.list(id, after).take(limit + 1).collect();
    if list.hidden && id == ROOT {
        let hidden = state.describe(HIDDEN_ROOT, HIDDEN_NAME);
        entries.extend(hidden.filter(|entry| entry.name > *after));
        entries.sort_by(|a, b| a.name.cmp(&b.name));
    }
    let more = entries.len() > limit;
    entries.truncate(limit);
    Ok(ListAnswer { entries, more, skipped })
}

/// What each process takes; the master's own is told by its driver.
pub(crate) fn resources(view: &View<'_>, master: ResourceUse) -> Response {
    let servers = view.fleet.servers().resources(view.now.time);
    Response::Resources(ResourcesAnswer { master, servers })
}

pub(crate) fn disks(view: &View<'_>, wish: &ListDisks) -> ListDisksAnswer {
    view.fleet.servers().disks(wish.after)
}

pub(crate) fn status(view: &View<'_>, health: Health) -> StatusAnswer {
    let state = view.state;
    let (capacity, used, stored) = view.fleet.servers().room(view.now.time);
    StatusAnswer {
        cell: state.cell(),
        term: view.term.number,
        file_count: state.file_count(),
        directory_count: state.directory_count(),
        chunk_count: state.chunk_count(),
        under_replicated: health.counts.below_goal,
        unavailable: health.counts.unavailable,
        reasons: health.reasons,
        started: state.term_began(),
        log_index: state.applied().get(),
        hidden_count: state.hidden_count(),
        capacity,
        used,
        stored,
        now: Box::new(CellNow {
            counts: health.counts,
            traffic: view.fleet.servers().traffic(view.now.time),
        }),
    }
}
