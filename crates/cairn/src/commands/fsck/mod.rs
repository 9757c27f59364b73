//! `cairn fsck`: the namespace against the chunkservers: every chunk that files need is asked of
//! the servers themselves, and with `--data` every byte of every replica is verified there.
//!
//! ```text
//!   master: chunks, replicas as it knows them ─► each server: is it on your disk, as you know it?
//!                                                   └► with --data: block by block
//!   each server: all that you hold ─► is there a chunk of that handle?
//! ```
//! - FS1: whatever a server finds bad is told to the master by that server, and repaired as damage
//!   that the scrub finds is; fsck itself changes nothing, but for `--skip-lost`.

mod check;
mod findings;
mod lost_bytes;
mod pace;
mod quick;
mod silent_servers;
mod unreferenced;

use crate::cli_error::{Cause, CliError, Doing};
use crate::exit_codes::Exit;
use crate::limit_arguments::MemorySize;
use crate::many_paths::the_one;
use crate::output::{Output, size_text};
use crate::session::Session;
use crate::stderr::say;
use cairn_client::Cell;
use cairn_protocol::ListedChunk;
use cairn_types::{CellPath, ChunkHandle};
use check::Checker;
use clap::Args;
use findings::{CheckedChunk, Tally, is_stuck};
use lost_bytes::LostBytes;
use pace::ReadPace;
use serde_json::json;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Looks again so often while repair is waited for.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Heartbeats within which a replica that was replaced goes, if it is not kept for a person.
const GOES_WITHIN: u32 = 12;

/// Arguments of `fsck`.
#[derive(Args, Debug)]
pub(crate) struct FsckArguments {
    /// The files at or below this path; where none is named, all, and what no file refers to
    path: Option<String>,
    /// Read and verify every byte of every replica
    #[arg(long)]
    data: bool,
    /// Bytes a second to read of all servers together, with --data [default: as fast as they can]
    #[arg(long, value_name = "SIZE", requires = "data")]
    rate: Option<MemorySize>,
    /// Wait until whatever can be repaired is
    #[arg(long)]
    repair: bool,
    /// Let readers of the streams at or below the path pass over what is lost of them for good
    #[arg(long, requires = "path")]
    skip_lost: bool,
    /// Ask the master alone which chunks lack replicas
    #[arg(long, conflicts_with_all = ["path", "data", "repair", "skip_lost"])]
    quick: bool,
}

/// Runs it.
pub(crate) async fn run(
    arguments: FsckArguments,
    session: &Session,
    output: &Output,
) -> Result<(), CliError> {
    if arguments.quick {
        return quick::run(session, output).await;
    }
    let (cell, under) = match &arguments.path {
        Some(path) => {
            let place = the_one(session, path).await?;
            (place.cell, Some(place.path))
        }
        None => (session.cell().await?, None),
    };
    let reading = arguments.data.then(|| ReadPace::new(arguments.rate.map(MemorySize::bytes)));
    let checker = Checker::new(&cell, under.is_none(), reading).await?;
    let mut tally = Tally::default();
    let mut lost = LostBytes::new(&cell, arguments.skip_lost);
    let handles = check_chunks(&checker, &mut lost, under.as_ref(), (output, &mut tally)).await?;
    if under.is_none() {
        for finding in unreferenced::find(&checker, &handles).await? {
            finding.tell(output)?;
            tally.note(&finding);
        }
    }
    checker.progress.finish();
    if arguments.repair {
        await_repair(&checker, &mut tally).await?;
    }
    tell_summary(&arguments, &tally, output)?;
    lost.end()?;
    verdict(&tally)
}

/// Checks every chunk, page by page; tells what is found, and which there are.
async fn check_chunks(
    checker: &Checker,
    lost: &mut LostBytes<'_>,
    under: Option<&CellPath>,
    (output, tally): (&Output, &mut Tally),
) -> Result<Vec<ChunkHandle>, CliError> {
    let doing = || "asking the master for its chunks".to_owned();
    let (mut after, mut handles) = (ChunkHandle::default(), Vec::new());
    loop {
        let (chunks, resume) = checker.cell.listed_chunks(under, after).await.doing(doing)?;
        handles.extend(chunks.iter().map(|chunk| chunk.handle));
        let of_lost = chunks.iter().filter(|chunk| chunk.lost.is_some());
        let mut of_lost: BTreeMap<ChunkHandle, ListedChunk> =
            of_lost.map(|chunk| (chunk.handle, chunk.clone())).collect();
        let checked = checker.check(chunks).await?;
        for mut chunk in checked {
            if let Some(listed) = of_lost.remove(&chunk.handle) {
                chunk.findings.push(lost.find(listed).await?);
            }
            name(checker, &mut chunk).await?;
            for finding in &chunk.findings {
                finding.tell(output)?;
                tally.note(finding);
            }
            tally.count(&chunk);
        }
        output.flush()?;
        match resume {
            Some(resume) => after = resume,
            None => return Ok(handles),
        }
    }
}

/// Asks for the name of the file of which there is something to tell, where it was not told with
/// all others.
async fn name(checker: &Checker, chunk: &mut CheckedChunk) -> Result<(), CliError> {
    if !chunk.unnamed || chunk.findings.is_empty() {
        return Ok(());
    }
    let doing = || "asking the master whose chunk it is".to_owned();
    let listed = checker.cell.listed_chunk(chunk.handle).await.doing(doing)?;
    for finding in chunk.findings.iter_mut() {
        if let (Some((path, _)), Some(listed)) = (&mut finding.place, &listed) {
            path.clone_from(&listed.path);
        }
    }
    Ok(())
}

/// How far repair is: where that stays the same for long, nothing gets on.
#[derive(Debug, PartialEq, Eq)]
struct RepairMark {
    to_repair: usize,
    below_goal: u64,
    clones: Vec<(ChunkHandle, u64, bool)>,
}

impl RepairMark {
    async fn now(cell: &Cell, tally: &Tally) -> Result<Self, CliError> {
        let doing = || "asking the master how far repair is".to_owned();
        let status = cell.repair_status().await.doing(doing)?;
        let below_goal = status.below_goal.iter().map(|it| it.count).sum();
        let clones = status.clones.iter().map(|it| (it.handle, it.copied, it.joins)).collect();
        Ok(Self { to_repair: tally.to_repair.len(), below_goal, clones })
    }
}

/// Waits until what was found, and can be repaired, is; or nothing gets on any more.
async fn await_repair(checker: &Checker, tally: &mut Tally) -> Result<(), CliError> {
    let cell = &checker.cell;
    let wanted: Vec<ChunkHandle> = tally.to_repair.iter().copied().collect();
    // What servers have found they tell with their next heartbeat.
    let heartbeat = Duration::from_millis(cell.info().config.heartbeat_ms);
    tokio::time::sleep(2 * heartbeat).await;
    // Servers that are silent are dead by then, and whatever rests is tried again.
    let patience = 2 * Duration::from_millis(cell.info().config.dead_ms) + 4 * heartbeat;
    // Before then the only server for a replica may have one that is about to go.
    let stuck_from = Instant::now() + GOES_WITHIN * heartbeat;
    let (mut mark, mut since) = (RepairMark::now(cell, tally).await?, Instant::now());
    for handle in wanted.iter().copied() {
        loop {
            match look_again(checker, handle, tally).await? {
                Wholeness::Whole => break,
                Wholeness::Stuck if Instant::now() > stuck_from => break,
                Wholeness::Stuck | Wholeness::Awaited => {}
            }
            let now = RepairMark::now(cell, tally).await?;
            if now != mark {
                (mark, since) = (now, Instant::now());
            } else if since.elapsed() > patience {
                say("fsck: nothing gets on any more: cairn jobs and cairn explain say why");
                return Ok(());
            }
            say(format_args!("fsck: {} chunks wait to be repaired", tally.to_repair.len()));
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
    await_stale(checker, &wanted).await;
    Ok(())
}

/// Waits for a while until the replicas go that others stand in for now, so that who checks again
/// finds nothing of them. All is repaired: that they stay, or cannot be asked for, is no failure.
async fn await_stale(checker: &Checker, repaired: &[ChunkHandle]) {
    let heartbeat = Duration::from_millis(checker.cell.info().config.heartbeat_ms);
    let until = Instant::now() + GOES_WITHIN * heartbeat;
    for handle in repaired.iter().copied() {
        let has_stale = |chunk: ListedChunk| chunk.replicas.iter().any(|it| it.stale);
        while Instant::now() < until
            && let Ok(Some(chunk)) = listed(checker, handle).await
            && has_stale(chunk)
        {
            say("fsck: replicas that were replaced are about to go");
            tokio::time::sleep(heartbeat).await;
        }
    }
}

/// What the master tells of a chunk; none: it was purged.
async fn listed(checker: &Checker, handle: ChunkHandle) -> Result<Option<ListedChunk>, CliError> {
    let doing = || "asking the master whether what was found is repaired".to_owned();
    checker.cell.listed_chunk(handle).await.doing(doing)
}

/// Whether a chunk is whole again.
#[derive(Clone, Copy, Debug)]
enum Wholeness {
    Whole,
    /// It may get so by itself.
    Awaited,
    /// As things are no waiting helps.
    Stuck,
}

/// How a chunk is that was to be repaired; notes it where it is whole.
async fn look_again(
    checker: &Checker,
    handle: ChunkHandle,
    tally: &mut Tally,
) -> Result<Wholeness, CliError> {
    let chunk = listed(checker, handle).await?;
    let mut is_whole = chunk.as_ref().is_none_or(|chunk| {
        let bad = chunk.replicas.iter().any(|it| !it.stale && (it.damaged || it.suspect));
        chunk.good >= chunk.goal && !bad
    });
    // What the master did not know of, it does not know to be repaired.
    if let Some(chunk) = chunk.clone().filter(|_| is_whole) {
        let again = checker.ask_again(chunk).await?;
        let told = |chunk: CheckedChunk| {
            chunk.findings.iter().any(|finding| finding.code.is_told_to_nobody_else())
        };
        is_whole = !again.is_some_and(told);
    }
    if is_whole {
        tally.repaired(handle);
        return Ok(Wholeness::Whole);
    }
    let stuck = chunk.and_then(|chunk| chunk.waits).is_some_and(|wait| is_stuck(wait.why));
    Ok(if stuck { Wholeness::Stuck } else { Wholeness::Awaited })
}

fn tell_summary(arguments: &FsckArguments, tally: &Tally, output: &Output) -> Result<(), CliError> {
    let (lacking, lost) = (tally.lacking, tally.lost);
    let (left, repaired) = (tally.to_repair.len(), tally.repaired_count);
    if output.json() {
        return output.value(&json!({ "summary": {
            "chunk_count": tally.chunks,
            "replica_count": tally.replicas,
            "bytes_verified": tally.bytes,
            "finding_count": tally.findings,
            "lacking": lacking,
            "lost": lost,
            "to_repair": left,
            "repaired": repaired,
            "beyond_repair": tally.beyond_repair,
        } }));
    }
    output.line(&format!("{lacking} chunks lack replicas, {lost} of them cannot be read now"))?;
    let verified = match arguments.data {
        true => format!(", {} verified", size_text(tally.bytes, true)),
        false => String::new(),
    };
    output.line(&format!(
        "{} chunks in {} replicas asked of their servers{verified}; {} findings",
        tally.chunks, tally.replicas, tally.findings
    ))?;
    if tally.findings == 0 {
        return Ok(());
    }
    let rest = match (left, arguments.repair) {
        (0, _) => String::new(),
        (_, false) if !tally.lacking_servers.is_empty() => {
            let (waiting, others) =
                (tally.lacking_servers.len(), left - tally.lacking_servers.len());
            let others = match (others, tally.doubtful) {
                (0, _) => String::new(),
                (_, true) => format!(", {others} are being repaired, or a server did not answer"),
                (_, false) => format!(", {others} are being repaired"),
            };
            format!("; {waiting} wait for a server that can take a copy{others}")
        }
        (_, true) => format!("; {left} are not repaired yet: cairn explain says why"),
        (_, false) if tally.doubtful => {
            format!("; {left} are being repaired, or a server of theirs did not answer")
        }
        (_, false) => format!("; {left} are being repaired: --repair waits for it"),
    };
    let beyond = tally.beyond_repair;
    output.line(&format!("{repaired} chunks repaired, {beyond} beyond repair{rest}"))
}

fn verdict(tally: &Tally) -> Result<(), CliError> {
    if tally.lost > 0 || tally.beyond_repair > 0 {
        Err(CliError::told(Exit::NotNow))
    } else if tally.lacks_bytes {
        Err(CliError::told(Exit::Damaged))
    } else if tally.to_repair.is_empty() && !tally.doubtful {
        Ok(())
    } else {
        Err(CliError::told(Exit::Degraded))
    }
}

/// A failure of the tool itself.
fn broken(why: impl Into<String>) -> CliError {
    CliError::new("checking chunks", Cause::new(Exit::Failed, why, "run it again"))
}
