//! Clients that append to two files, each with a connection of its own, each waiting for its
//! answer before it sends the next.

use crate::load_process::ledger::{ClientReport, Sent};
use crate::load_process::orders::{Orders, say, tell_count};
use crate::load_process::record::{RecordKind, make};
use anyhow::{Result, bail};
use cairn_client::{Cell, CellPath, Content, CreateOptions, File, Options, RecordWriter};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};
use tokio::task::JoinSet;

/// Longer than a restart of the whole cell takes.
const DEADLINE: Duration = Duration::from_secs(60);
/// Errors that a client tells.
const ERRORS_MAX: usize = 4;
/// A client whose appends fail at once does not turn in circles.
const REST_AFTER_FAILURE: Duration = Duration::from_millis(100);

/// What clients of one process have in common.
#[derive(Default)]
struct ProcessState {
    acknowledged: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
}

/// One client's task.
struct AppendPlan {
    client: u32,
    small: u64,
    large: u64,
}

/// Runs one process of clients.
///
/// # Errors
/// When the words make no sense, or the cell cannot be reached at all.
pub(crate) async fn run(words: &[&str]) -> Result<()> {
    let [cell, small_path, large_path, first, clients, small, large] = words else {
        bail!("it takes CELL SMALL-FILE LARGE-FILE FIRST-CLIENT CLIENTS SMALL LARGE");
    };
    let (first, clients): (u32, u32) = (first.parse()?, clients.parse()?);
    let plan = |client| -> Result<AppendPlan> {
        Ok(AppendPlan { client, small: small.parse()?, large: large.parse()? })
    };
    let orders = Orders::listen();
    let shared = Arc::new(ProcessState { stop: orders.stop.clone(), ..ProcessState::default() });
    let mut ready = Vec::new();
    for client in first..first + clients {
        let cell =
            Cell::connect(cell, Options { deadline: DEADLINE, ..Options::default() }).await?;
        let files = (open(&cell, small_path).await?, open(&cell, large_path).await?);
        ready.push((plan(client)?, files));
    }
    say("ready");
    orders.expect("go")?;
    tell_count(shared.acknowledged.clone());
    let mut running = JoinSet::new();
    for (plan, files) in ready {
        running.spawn(append(plan, files, shared.clone()));
    }
    while let Some(client) = running.join_next().await {
        say(&format!("client {}", serde_json::to_string(&client?)?));
    }
    say("done");
    // Stays until its stdin is closed (K1).
    orders.expect("end").map(drop)
}

/// Opens a file of records, or makes it.
///
/// # Errors
/// When the cell refuses.
pub(crate) async fn open(cell: &Cell, path: &str) -> Result<File> {
    let options = CreateOptions { content: Content::Records, or_open: true, ..Default::default() };
    Ok(cell.create(&CellPath::parse(path)?, options).await?)
}

async fn append(plan: AppendPlan, files: (File, File), shared: Arc<ProcessState>) -> ClientReport {
    let name = format!("soak-{}", plan.client);
    let writers = (files.0.record_writer(&name), files.1.record_writer(&name));
    let mut client = ClientReport { client: plan.client, ..ClientReport::default() };
    let mut last = Instant::now();
    while let Some(kind) = next(&plan, &client).filter(|_| !shared.stop.load(Ordering::Relaxed)) {
        let (sent, writer) = match kind {
            RecordKind::Small => (&mut client.small, &writers.0),
            RecordKind::Large => (&mut client.large, &writers.1),
        };
        if let Err(error) = append_one(kind, plan.client, sent, writer).await {
            if client.errors.len() < ERRORS_MAX {
                client.errors.push(error);
            }
            let _ = tokio::task::spawn_blocking(|| std::thread::sleep(REST_AFTER_FAILURE)).await;
            continue;
        }
        shared.acknowledged.fetch_add(1, Ordering::Relaxed);
        let gap_ms = last.elapsed().as_millis() as u64;
        last = Instant::now();
        if gap_ms > client.gap_ms {
            (client.gap_ms, client.gap_ended_ms) = (gap_ms, unix_ms());
        }
    }
    client
}

/// Small and large in turn, so that both end together.
fn next(plan: &AppendPlan, done: &ClientReport) -> Option<RecordKind> {
    let (small, large) = (plan.small - done.small.next, plan.large - done.large.next);
    match (small, large) {
        (0, 0) => None,
        (_, 0) => Some(RecordKind::Small),
        (0, _) => Some(RecordKind::Large),
        // Large ones are behind where their share of what is left is the larger one.
        _ if u128::from(large) * u128::from(plan.small)
            > u128::from(small) * u128::from(plan.large) =>
        {
            Some(RecordKind::Large)
        }
        _ => Some(RecordKind::Small),
    }
}

async fn append_one(
    kind: RecordKind,
    client: u32,
    sent: &mut Sent,
    writer: &RecordWriter,
) -> Result<(), String> {
    let number = sent.next;
    let begun = Instant::now();
    let appended = writer.append(&make(kind, client, number)).await;
    sent.next += 1;
    appended.map(drop).map_err(|error| {
        sent.unanswered.insert(number);
        let (spent, outcome) = (begun.elapsed().as_millis(), error.outcome());
        format!("{kind:?} {number} after {spent} ms, {outcome:?}: {error}")
    })
}

fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| since.as_millis() as u64)
}

#[cfg(test)]
mod tests {
    use super::{AppendPlan, next};
    use crate::load_process::ledger::ClientReport;
    use crate::load_process::record::RecordKind;

    #[test]
    fn small_and_large_records_end_together() {
        let plan = AppendPlan { client: 0, small: 40, large: 2 };
        let mut done = ClientReport::default();
        let mut order = Vec::new();
        while let Some(kind) = next(&plan, &done) {
            match kind {
                RecordKind::Small => done.small.next += 1,
                RecordKind::Large => done.large.next += 1,
            }
            order.push(kind);
        }
        assert_eq!((order.len(), done.small.next, done.large.next), (42, 40, 2));
        let first = order.iter().position(|kind| *kind == RecordKind::Large).expect("one is large");
        assert!(first <= 20, "the first large one came as number {first}");
    }
}
