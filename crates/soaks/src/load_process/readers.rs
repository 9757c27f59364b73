//! A reader of one file of records: from its start to its end, or following it while it grows.

use crate::load_process::appenders::open;
use crate::load_process::ledger::{ClientReport, Delivered};
use crate::load_process::orders::{Orders, say, tell_count};
use crate::load_process::record::RecordKind;
use anyhow::{Context, Result, bail};
use cairn_client::{Cell, Options, RecordReader};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const DEADLINE: Duration = Duration::from_secs(60);
/// A follower that has not seen all by then, after the last acknowledgement, never will.
const ALL_SEEN_WITHIN: Duration = Duration::from_secs(60);
/// How long a follower waits for what should not come any more: records that it had already.
const LINGER: Duration = Duration::from_secs(1);
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Runs one.
///
/// # Errors
/// When the words make no sense, or the file cannot be read.
pub(crate) async fn run(words: &[&str]) -> Result<()> {
    let [cell, path, kind @ ("small" | "large"), how @ ("read" | "follow")] = words else {
        bail!("it takes CELL FILE small|large read|follow");
    };
    let kind = if *kind == "small" { RecordKind::Small } else { RecordKind::Large };
    let orders = Orders::listen();
    let cell = Cell::connect(cell, Options { deadline: DEADLINE, ..Options::default() }).await?;
    let file = open(&cell, path).await?;
    say("ready");
    let begun = Instant::now();
    let verdict = if *how == "follow" {
        let (delivered, clients) = follow(file.records_follow(0), kind, &orders).await?;
        delivered.judge(&clients)
    } else {
        let clients = clients(&orders.expect("judge")?)?;
        let mut delivered = Delivered::new(kind);
        let mut records = file.records(0);
        while let Some(record) = records.next().await? {
            delivered.see(record.offset, &record.payload);
        }
        delivered.judge(&clients)
    };
    eprintln!("{path}: {how} for {:.1} s", begun.elapsed().as_secs_f64());
    say(&format!("verdict {}", serde_json::to_string(&verdict)?));
    // Stays until its stdin is closed (K1).
    orders.expect("end").map(drop)
}

/// Reads until everything that the order to judge tells of has come, and a moment longer.
async fn follow(
    records: RecordReader,
    kind: RecordKind,
    orders: &Orders,
) -> Result<(Delivered, Vec<ClientReport>)> {
    let count = Arc::new(AtomicU64::new(0));
    tell_count(count.clone());
    let (sender, mut seen) = tokio::sync::mpsc::unbounded_channel();
    tokio::spawn(async move {
        let (mut records, mut told) = (records, String::new());
        loop {
            match records.next().await {
                Ok(Some(record)) => drop(sender.send(record)),
                Ok(None) => break,
                // It may be asked again; what is lost for good shows in the verdict.
                Err(error) => {
                    let error = error.to_string();
                    if error != told {
                        eprintln!("following: {error}");
                        told = error;
                    }
                }
            }
        }
    });
    let mut delivered = Delivered::new(kind);
    let mut judged: Option<(Vec<ClientReport>, Instant)> = None;
    let mut complete: Option<Instant> = None;
    loop {
        // A runtime without timers: the wait is a thread's.
        tokio::task::spawn_blocking(|| std::thread::sleep(LOOK_EVERY)).await?;
        while let Ok(record) = seen.try_recv() {
            delivered.see(record.offset, &record.payload);
            count.fetch_add(1, Ordering::Relaxed);
        }
        if judged.is_none() {
            judged = match orders.came("judge")? {
                Some(file) => Some((clients(&file)?, Instant::now())),
                None => None,
            };
        }
        // Not asked to judge yet.
        let Some((clients, since)) = &judged else { continue };
        if complete.is_none() && delivered.missing(clients).is_empty() {
            eprintln!("following: all there {} ms after the order", since.elapsed().as_millis());
            complete = Some(Instant::now());
        }
        let lingered = complete.is_some_and(|since| since.elapsed() > LINGER);
        if lingered || since.elapsed() > ALL_SEEN_WITHIN {
            return Ok((delivered, clients.clone()));
        }
    }
}

fn clients(file: &str) -> Result<Vec<ClientReport>> {
    let text = std::fs::read_to_string(file).with_context(|| file.to_owned())?;
    Ok(serde_json::from_str(&text)?)
}
