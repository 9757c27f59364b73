//! Why a chunk is as it is, for a person: what is wrong, what is waited for and since when
//! (design §9).

use super::chunk_list::wait;
use super::condition::{Undecided, undecided};
use super::decided_set::{SetDecision, decide};
use super::explain_drain::explain_drain;
use super::good_replicas::{JudgedReplicas, judged};
use super::health::replica_counts;
use super::levelled_unasked::is_to_be_levelled;
use super::members::current;
use super::replica_set::plan_raise;
use crate::fleet::KnownReplica;
use crate::leases::LeaseStatus;
use crate::state::ChunkRecord;
use crate::view::View;
use cairn_protocol::{
    ErrorCode, ExplainAnswer, Failure, LostTail, MESSAGE_SIZE_MAX, ServerState, WaitReason,
};
use cairn_types::{CellPath, ChunkHandle, ChunkIndex, EntryId, Layout, ServerId};

/// Chunks of one file that are explained at once; the rest is counted.
const EXPLAINED_MAX: usize = 64;

/// Bytes of an explanation; a server's own words may stand in it.
const EXPLANATION_SIZE_MAX: usize = 1 << 20;

// Each line costs a few bytes more in the message.
const _: () = assert!(2 * EXPLANATION_SIZE_MAX < MESSAGE_SIZE_MAX as usize);

/// What is under way for a chunk of a file.
#[derive(Debug)]
pub(crate) struct JobLine {
    pub(crate) index: ChunkIndex,
    /// Nothing can be done right now.
    pub(crate) waits: bool,
    pub(crate) line: String,
}

/// Explains a path or a chunk handle.
pub(crate) fn explain(
    view: &View<'_>,
    subject: &str,
    (jobs_of, repair_of): (
        impl Fn(EntryId) -> Vec<JobLine>,
        impl Fn(ChunkHandle) -> Option<String>,
    ),
) -> Result<ExplainAnswer, Failure> {
    let mut answer = ExplainAnswer { lines: Vec::new(), healthy: true, good: u32::MAX };
    if !subject.starts_with('/') {
        let handle = ChunkHandle::parse(subject);
        let is_known = |handle: &ChunkHandle| view.state.chunk(*handle).is_some();
        let unknown = handle.filter(|handle| !is_known(handle));
        if let Some(lines) = unknown.and_then(|handle| explain_unknown(view, handle)) {
            return Ok(ExplainAnswer { lines, ..ExplainAnswer::default() });
        }
        let Some(handle) = handle.filter(is_known) else {
            let line = format!("{subject}: neither a path nor the handle of a chunk");
            return Err(Failure::refused(ErrorCode::NotFound, line));
        };
        explain_chunk(view, handle, repair_of(handle), &mut answer);
        return Ok(finished(answer));
    }
    let path = CellPath::parse(subject)
        .map_err(|error| Failure::refused(ErrorCode::Invalid, format!("{subject}: {error}")))?;
    let file = view.state.resolve(&path)?;
    let chunks = view.state.chunks_of(file, Default::default()).map(|(_, handle)| handle);
    let some: Vec<ChunkHandle> = chunks.take(EXPLAINED_MAX + 1).collect();
    // Of many, holes are counted, too.
    let count = match some.len() > EXPLAINED_MAX {
        true => view.state.entry(file).map_or(some.len() as u64, |entry| entry.chunk_count),
        false => some.len() as u64,
    };
    answer.lines.push(format!("{path}: {count} chunks"));
    answer.lines.extend(explain_settling(view, file));
    for handle in some.iter().take(EXPLAINED_MAX) {
        explain_chunk(view, *handle, repair_of(*handle), &mut answer);
    }
    if some.len() > EXPLAINED_MAX {
        let rest = count - EXPLAINED_MAX as u64;
        answer.lines.push(format!("and {rest} more; ask for one by its handle"));
    }
    let jobs = jobs_of(file);
    answer.healthy &= !jobs.iter().any(|job| job.waits);
    let told = jobs.iter().take(EXPLAINED_MAX);
    answer.lines.extend(told.map(|job| format!("chunk {}: {}", job.index, job.line)));
    Ok(finished(answer))
}

/// An explanation as it is sent.
fn finished(mut answer: ExplainAnswer) -> ExplainAnswer {
    fit(&mut answer.lines);
    if answer.good == u32::MAX {
        // No chunk is explained.
        answer.good = 0;
    }
    answer
}

/// How far a stream is settled (R45).
fn explain_settling(view: &View<'_>, file: EntryId) -> Option<String> {
    let entry = view.state.entry(file).filter(|it| it.layout == Layout::Stream)?;
    let (told, length) = (view.state.streams().settled(), entry.length);
    let how = match (told.is_pending(file), view.state.config().settle_rate) {
        (false, _) => "nothing more is to be put together before more is sealed",
        (true, 0) => "the rest stays as it is: 'settle_rate' is 0",
        (true, _) => "the rest is put together in idle time, once it is sealed",
    };
    Some(format!("settled: {} of {length} bytes; {how}", told.settled_to(file)))
}

/// The servers that keep what only a person may throw away.
fn keepers<'a>(view: &View<'a>, handle: ChunkHandle) -> Vec<&'a str> {
    let fleet = view.fleet;
    let address = |server| fleet.at(server).map(|at| at.address.as_str());
    fleet.holders_of_unknown(handle).filter_map(address).collect()
}

/// Of a chunk that servers hold and no record knows.
fn explain_unknown(view: &View<'_>, handle: ChunkHandle) -> Option<Vec<String>> {
    let holders = keepers(view, handle);
    let line = format!(
        "chunk {}: kept by {}; this master's log does not know it (was a backup of it \
         restored?)",
        handle.short(),
        holders.join(", ")
    );
    (!holders.is_empty()).then(|| vec![line])
}

fn explain_chunk(
    view: &View<'_>,
    handle: ChunkHandle,
    repair: Option<String>,
    answer: &mut ExplainAnswer,
) {
    // Its file names it, so it is there; unless its page cannot be read.
    let Some(chunk) = view.state.chunk(handle) else { return };
    let (sound, _) = replica_counts(view, handle, &chunk);
    answer.healthy &= sound >= chunk.goal as usize;
    answer.good = answer.good.min(u32::try_from(sound).unwrap_or(u32::MAX));
    answer.lines.push(format!(
        "chunk {} {}: version {}, set of {}, {}; {sound} of {} good replicas reachable",
        chunk.index,
        handle.short(),
        chunk.version.short(),
        chunk.set_size,
        state_of(view, handle, &chunk),
        chunk.goal,
    ));
    let is_stream = view.state.entry(chunk.file).is_some_and(|it| it.layout == Layout::Stream);
    if !is_stream && view.state.sharing().is_shared(handle) {
        let files = view.state.sharing().files_of(handle, &chunk).count();
        let line =
            "have it since a snapshot: the first write to any of them copies it for that one";
        answer.lines.push(format!("  {files} files {line}"));
    }
    for (server, replica) in view.fleet.locations().of(handle) {
        answer.lines.push(explain_replica(view, &chunk, handle, (server, &replica)));
    }
    answer.lines.extend(explain_missing(view, &chunk, handle));
    if let Some(lease) = view.leases.possible(handle, view.now.time) {
        let left = lease.until.since(view.now.time).as_millis();
        let doubt = if lease.status == LeaseStatus::Serving { "" } else { ", in doubt" };
        let holder = &lease.holder.address;
        answer.lines.push(format!("  leased to {holder} for {left} ms more{doubt}"));
    } else if let Err(blocked) = plan_raise(view, handle, &chunk) {
        answer.lines.push(format!("  no lease can be granted: {}", blocked.why));
    } else if let SetDecision::Set(set) = decide(view, handle, &chunk) {
        answer.lines.push(format!(
            "  the next lease goes to {} replicas alone: the others lack acknowledged \
             bytes, or may have lost some ('cairn recover {}' does that now)",
            set.len(),
            handle.short()
        ));
    }
    if let Some(LostTail { held, committed, is_hole, .. }) = view.state.lost().get(handle) {
        answer.healthy &= is_hole;
        let how = match is_hole {
            true => "a person has made a hole of it",
            false => "readers fail there; 'cairn fsck FILE --skip-lost' lets them pass over it",
        };
        answer.lines.push(format!(
            "  bytes {held} to {committed} of it were committed, and are lost: no server of its \
             set has them; {how}"
        ));
    }
    for address in keepers(view, handle) {
        // GB5 of the garbage
        answer.healthy = false;
        let handle = handle.short();
        answer.lines.push(format!(
            "  {address} keeps more of it than the set had that was decided on: 'cairn recover \
             {handle} --from {address}' goes on with that, 'cairn lost --let-go {handle}' throws \
             it away"
        ));
    }
    answer.lines.extend(explain_drain(view, (handle, &chunk), repair.is_some()));
    if sound < chunk.goal as usize {
        let waits = || explain_wait(view, (handle, &chunk));
        answer.lines.push(repair.unwrap_or_else(waits));
    } else {
        // It moves, or leaves a server that is to be emptied.
        answer.lines.extend(repair);
    }
}

/// What a chunk waits for that lacks replicas and is not being copied.
fn explain_wait(view: &View<'_>, (handle, chunk): (ChunkHandle, &ChunkRecord)) -> String {
    let JudgedReplicas { good, unheard, .. } = judged(view, handle, chunk);
    let count = |count: usize| u32::try_from(count).expect("a cell has few servers");
    let good = count(good.len());
    if good + count(unheard.len()) >= chunk.goal {
        return "  a server that has it is silent: it is copied when that counts as dead"
            .to_owned();
    }
    let why = wait(view, (handle, chunk), good, None).why;
    let line = match (undecided(view, (handle, chunk)), why) {
        (Undecided::LeftToPerson, _) => "is copied when a person has decided, as it says above",
        (Undecided::Yet, _) => "is copied when its set is decided on, as it says above",
        (_, WaitReason::NoServer) => {
            "no live server can take a copy: each has a replica already, is full, not reached, or \
             is to be emptied; start another, or one that held it"
        }
        (_, WaitReason::NoSource) if current(view, handle, chunk).any(|(_, it)| it.damaged) => {
            "no good replica is there to be copied: a server that held one has to come back; where \
             none is left, 'cairn cp --data' makes a whole copy if every block is good somewhere, \
             and 'cairn get --salvage' fetches what can be read"
        }
        (_, WaitReason::NoSource) => {
            "no good replica is there to be copied: a server that held one has to come back"
        }
        _ if is_to_be_levelled(view, (handle, chunk)) => {
            "waits to be levelled by the master itself; then it is copied"
        }
        (_, WaitReason::Turn | WaitReason::Rest) => {
            "waits for a copy to be made, or for its servers to come back"
        }
    };
    format!("  {}: {line}", why.code())
}

/// Which machines must come back: those that held the chunk when they died, and where replicas are
/// missing that nobody has told of, those that may.
fn explain_missing(view: &View<'_>, chunk: &ChunkRecord, handle: ChunkHandle) -> Vec<String> {
    let (now, servers) = (view.now.time, view.fleet.servers());
    let heard = |server: ServerId| {
        let known = servers.get(server)?;
        let ago = now.since(known.heard).as_secs();
        Some((known.at.address.as_str(), ago))
    };
    let lost = view.fleet.locations().lost(handle);
    let mut lines: Vec<String> = lost
        .filter(|(_, replica)| replica.is_current(chunk.version))
        .filter_map(|(server, replica)| {
            let (address, ago) = heard(server)?;
            let length = replica.length;
            Some(format!("  {address} (dead, not heard of for {ago} s): held {length} bytes"))
        })
        .collect();
    let told = current(view, handle, chunk).count() + lines.len();
    let missing = (chunk.set_size as usize).saturating_sub(told);
    let absent: Vec<&str> = servers.absent(now).map(|at| at.address.as_str()).collect();
    if missing > 0 && !absent.is_empty() {
        let absent = absent.join(", ");
        lines.push(format!("  {missing} more of its set: perhaps on {absent}, not heard of yet"));
    }
    lines
}

/// Who may write a chunk.
fn state_of(view: &View<'_>, handle: ChunkHandle, chunk: &ChunkRecord) -> String {
    match view.state.streams().open_chunk(handle) {
        Some(row) if row.producer.is_none() => {
            format!(
                "of a stream that let go of it, to be sealed: {} bytes are committed",
                row.length
            )
        }
        Some(row) => format!(
            "written by producer {} of a stream, {} bytes are committed",
            row.producer.short(),
            row.length
        ),
        None if chunk.closed => "closed".to_owned(),
        None => "open to appends".to_owned(),
    }
}

fn explain_replica(
    view: &View<'_>,
    chunk: &ChunkRecord,
    handle: ChunkHandle,
    (server, replica): (ServerId, &KnownReplica),
) -> String {
    let address = view.fleet.at(server).map(|at| at.address.as_str()).unwrap_or("?");
    let state = match view.fleet.servers().state(view.now.time, server) {
        Some(ServerState::Live) => "live",
        Some(ServerState::Silent) => "silent",
        Some(ServerState::Dead) | None => "dead",
    };
    let mut words = Vec::new();
    if !replica.is_current(chunk.version) {
        words.push("stale".to_owned());
    }
    if replica.suspect {
        words.push("suspect: may have lost bytes in a power failure".to_owned());
    }
    if replica.damaged {
        words.push("damaged: blocks cannot be read, or do not match their checksums".to_owned());
    }
    let hints = view.fleet.bad_block_count(handle, server);
    if hints > 0 {
        words.push(format!("{hints} reports of bad blocks by readers"));
    }
    let words = if words.is_empty() { "good".to_owned() } else { words.join(", ") };
    let (version, length) = (replica.version.short(), replica.length);
    format!("  {address} ({state}): version {version}, {length} bytes, {words}")
}
/// Cuts an explanation to what a message holds.
fn fit(lines: &mut Vec<String>) {
    let mut size = 0;
    let whole = lines.iter().take_while(|line| {
        size += line.len();
        size <= EXPLANATION_SIZE_MAX
    });
    let (kept, all) = (whole.count(), lines.len());
    if kept < all {
        lines.truncate(kept);
        lines.push(format!("and {} more lines", all - kept));
    }
}

#[cfg(test)]
mod tests {
    use super::{EXPLANATION_SIZE_MAX, fit};

    #[test]
    fn an_explanation_that_quotes_a_huge_failure_is_cut() {
        let mut lines = vec!["short".to_owned(), "x".repeat(EXPLANATION_SIZE_MAX), "more".into()];
        fit(&mut lines);
        assert_eq!(lines, ["short", "and 2 more lines"]);
    }
}
