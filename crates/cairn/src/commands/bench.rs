//! `cairn bench`: measures a cell with the client library, as any application would use it.

use crate::complaint::{Complaint, Doing};
use crate::exit_codes::Exit;
use crate::output::{Output, size_text};
use crate::session::{Place, Session};
use bytes::Bytes;
use cairn_client::CreateOptions;
use cairn_types::Content;
use clap::{Args, ValueEnum};
use serde_json::json;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

const PIECE_SIZE: u64 = 1 << 20;

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Kind {
    /// One stream written per client
    Write,
    /// One stream read per client (writes it first)
    Read,
    /// Records appended to one file by all clients
    Append,
    /// Look-ups of one path by all clients
    Meta,
}

/// Arguments of `bench`.
#[derive(Args, Debug)]
pub(crate) struct Bench {
    /// What to measure
    kind: Kind,
    /// Clients at once
    #[arg(long, default_value_t = 1, value_name = "COUNT")]
    clients: u64,
    /// Megabytes for each client (write, read)
    #[arg(long, default_value_t = 256, value_name = "MB")]
    megabytes: u64,
    /// Operations for each client (append, meta)
    #[arg(long, default_value_t = 10_000, value_name = "COUNT")]
    operations: u64,
    /// Bytes of each record (append)
    #[arg(long, default_value_t = 1024, value_name = "BYTES")]
    record_size: usize,
    /// A directory for its files; made, and removed in the end
    #[arg(long, default_value = "/bench", value_name = "PATH")]
    path: String,
}

/// Runs it.
pub(crate) async fn run(bench: Bench, session: &Session, output: &Output) -> Result<(), Complaint> {
    let place = session.place(&bench.path).await?;
    let doing = || format!("measuring in {place}");
    place.cell.make_directory(&place.path, false).await.doing(doing)?;
    let measured = measure(&bench, &place).await;
    // The measurement is what is told; files that stay behind are seen by ls.
    let _ = place.cell.delete(&place.path, true).await;
    let (operations, bytes, spent) = measured?;
    let seconds = spent.as_secs_f64();
    let rate = operations as f64 / seconds;
    if output.json() {
        return output.value(&json!({
            "kind": format!("{:?}", bench.kind).to_lowercase(),
            "clients": bench.clients,
            "operations": operations,
            "bytes": bytes,
            "seconds": seconds,
            "operations_a_second": rate,
            "bytes_a_second": bytes as f64 / seconds,
        }));
    }
    let volume = size_text(bytes, true);
    let megabytes = bytes as f64 / 1e6 / seconds;
    let rates = format!("{rate:.0} a second, {megabytes:.0} MB/s");
    output.line(&format!("{operations} operations, {volume} in {seconds:.2} s: {rates}"))
}

/// Operations, bytes and the time they took together.
type Measured = (u64, u64, Duration);

async fn measure(bench: &Bench, place: &Place) -> Result<Measured, Complaint> {
    if bench.kind == Kind::Read {
        run_clients(bench, Kind::Write, place).await?;
    }
    let started = Instant::now();
    let (operations, bytes) = run_clients(bench, bench.kind, place).await?;
    Ok((operations, bytes, started.elapsed()))
}

async fn run_clients(bench: &Bench, kind: Kind, place: &Place) -> Result<(u64, u64), Complaint> {
    let mut running = JoinSet::new();
    for client in 0..bench.clients {
        let (operations, size) = (bench.operations, bench.record_size);
        let (place, megabytes) = (place.clone(), bench.megabytes);
        running.spawn(async move {
            match kind {
                Kind::Write => write(&place.join(&format!("file-{client}"))?, megabytes).await,
                Kind::Read => read(&place.join(&format!("file-{client}"))?).await,
                Kind::Append => append(&place.join("records")?, client, operations, size).await,
                Kind::Meta => look_up(&place, operations).await,
            }
        });
    }
    let mut sum = (0, 0);
    while let Some(done) = running.join_next().await {
        let cause = |why: String| crate::complaint::Cause::new(Exit::Failed, why, "");
        let done = done.map_err(|error| cause(error.to_string()));
        let (operations, bytes) = done.doing(|| format!("measuring in {place}"))??;
        sum = (sum.0 + operations, sum.1 + bytes);
    }
    Ok(sum)
}

async fn write(place: &Place, megabytes: u64) -> Result<(u64, u64), Complaint> {
    let doing = || format!("writing {place}");
    let create = CreateOptions { or_open: true, ..CreateOptions::default() };
    let file = place.cell.create(&place.path, create).await.doing(doing)?;
    let piece = Bytes::from(vec![0xa5; PIECE_SIZE as usize]);
    let mut writer = file.writer(0);
    for _ in 0..megabytes {
        writer.write(piece.clone()).await.doing(doing)?;
    }
    writer.finish().await.doing(doing)?;
    file.close().await.doing(doing)?;
    Ok((megabytes, megabytes * PIECE_SIZE))
}

async fn read(place: &Place) -> Result<(u64, u64), Complaint> {
    let doing = || format!("reading {place}");
    let file = place.cell.open(&place.path).await.doing(doing)?;
    let (mut pieces, mut bytes) = (0, 0);
    let mut reader = file.reader(0);
    while let Some(piece) = reader.next().await.doing(doing)? {
        pieces += 1;
        bytes += piece.len() as u64;
    }
    Ok((pieces, bytes))
}

async fn append(
    place: &Place,
    client: u64,
    operations: u64,
    size: usize,
) -> Result<(u64, u64), Complaint> {
    let doing = || format!("appending to {place}");
    let create = CreateOptions { content: Content::Records, or_open: true, ..Default::default() };
    let file = place.cell.create(&place.path, create).await.doing(doing)?;
    let writer = file.record_writer(&format!("bench-{client}"));
    let record = vec![0xa5; size];
    for _ in 0..operations {
        writer.append(&record).await.doing(doing)?;
    }
    Ok((operations, operations * size as u64))
}

async fn look_up(place: &Place, operations: u64) -> Result<(u64, u64), Complaint> {
    for _ in 0..operations {
        place.cell.stat(&place.path).await.doing(|| format!("looking up {place}"))?;
    }
    Ok((operations, 0))
}
