//! A real tree and a large file go in and come out; and what then lies on the servers' disks.
//!
//! - Q1: a chunk is a plain file of at most 64 MiB that holds the file's bytes and nothing else.
//! - Q2: the space used is the bytes times their replicas, a sidecar for each chunk, and a small
//!   cap for journals and what is kept ready.

use crate::cell::{chunks, holder};
use crate::source_tree::{Sum, compare, files, gather, generate, same};
use crate::teller::Teller;
use anyhow::{Context, Result, bail};
use cairn_testkit::{CellProcesses, HarnessError};
use cairn_types::ChunkHandle;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Instant;

const REPLICAS: u64 = 3;
const LARGE_SIZE: u64 = 2 << 30;
const CHUNK_SIZE_MAX: u64 = 64 << 20;
/// The disk's own unit: a file may take up to one more than its bytes.
const DISK_BLOCK_SIZE: u64 = 4 << 10;
const CAP_PER_SERVER: u64 = 64 << 20;

/// Runs it.
///
/// # Errors
/// With whatever did not go as promised.
pub(crate) fn run(cell: &CellProcesses, teller: &Teller) -> Result<()> {
    let at = |name: &str| cell.directory().join(name);
    let tree = gather(&at("source"))?;
    generate(&at("large"), LARGE_SIZE)?;
    teller.say(format_args!(
        "{} real files, {} MB, and one of 2 GiB",
        tree.files,
        mega(tree.bytes)
    ));
    let large = Sum { files: 1, bytes: LARGE_SIZE };
    timed(teller, "put -r of the tree", tree, || {
        command(cell, "put", "-r", &at("source"), "/tree")
    })?;
    timed(teller, "put of the large file", large, || {
        command(cell, "put", "-f", &at("large"), "/large")
    })?;
    timed(teller, "get -r of the tree", tree, || {
        cell.ask(&["get", "-r", "/tree", &text(&at("tree-back"))])
    })?;
    timed(teller, "get of the large file", large, || {
        cell.ask(&["get", "/large", &text(&at("large-back"))])
    })?;
    let back = compare(&at("source"), &at("tree-back"))?;
    if at("large-back").metadata()?.len() != LARGE_SIZE {
        bail!("the large file came back with another length");
    }
    same(&at("large"), 0, &at("large-back"))?;
    teller.say(format_args!("{} files and the large one came back, byte for byte", back.files));
    let plain = check_plain(cell, &at("large"))?;
    teller.say(format_args!("{plain} chunk files hold the large file's bytes and nothing else"));
    check_space(cell, Sum { files: tree.files + 1, bytes: tree.bytes + LARGE_SIZE }, teller)
}

fn command(
    cell: &CellProcesses,
    verb: &str,
    flag: &str,
    local: &Path,
    path: &str,
) -> Result<String, HarnessError> {
    cell.ask(&[verb, flag, &text(local), path])
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

fn mega(bytes: u64) -> u64 {
    bytes / 1_000_000
}

fn timed(
    teller: &Teller,
    what: &str,
    sum: Sum,
    work: impl FnOnce() -> Result<String, HarnessError>,
) -> Result<()> {
    let started = Instant::now();
    work()?;
    let seconds = started.elapsed().as_secs_f64();
    let (rate, files) = (sum.rate(seconds), sum.files as f64 / seconds);
    teller.say(format_args!("{what}: {seconds:.1} s, {rate:.0} MB/s, {files:.0} files/s"));
    Ok(())
}

/// Compares each replica of each chunk of the large file with the file (Q1); how many there are.
fn check_plain(cell: &CellProcesses, large: &Path) -> Result<u64> {
    let (mut count, mut bytes) = (0, 0);
    for chunk in chunks(cell, "/large")? {
        let handle =
            chunk["handle"].as_str().and_then(ChunkHandle::parse).context("a handle")?.get();
        let index = chunk["index"].as_u64().context("an index")?;
        for at in chunk["replicas"].as_array().into_iter().flatten() {
            let place = holder(cell, at).context("a server that is none of ours")?;
            let name = format!("chunks/{:02x}/{handle:016x}.chunk", handle & 0xff);
            let path = cell.data_of(place + 1).join(name);
            bytes += same(large, index * CHUNK_SIZE_MAX, &path)?;
            count += 1;
        }
    }
    if bytes != LARGE_SIZE * REPLICAS {
        bail!("its chunk files hold {bytes} bytes, not {REPLICAS} times {LARGE_SIZE}");
    }
    Ok(count)
}

/// Adds up what lies in the data directories (Q1, Q2).
fn check_space(cell: &CellProcesses, stored: Sum, teller: &Teller) -> Result<()> {
    let (mut bytes, mut chunks, mut used, mut sidecars) = (0, 0, 0, 0);
    for number in 1..=cell.chunkservers.len() {
        for file in files(&cell.data_of(number))? {
            let metadata = match file.metadata() {
                Ok(metadata) => metadata,
                // The server lives, and writes now and then to see that it can; a chunk file that
                // is gone is missed in the sum.
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                Err(error) => return Err(error.into()),
            };
            used += metadata.blocks() * 512;
            match file.extension().and_then(|extension| extension.to_str()) {
                Some("chunk") if metadata.len() > CHUNK_SIZE_MAX => {
                    bail!("{} has {} bytes", file.display(), metadata.len());
                }
                Some("chunk") => {
                    bytes += metadata.len();
                    chunks += 1;
                }
                Some("meta") => sidecars += metadata.len().next_multiple_of(DISK_BLOCK_SIZE),
                _ => {}
            }
        }
    }
    if bytes != stored.bytes * REPLICAS {
        bail!("chunk files hold {bytes} bytes, not {REPLICAS} times {}", stored.bytes);
    }
    let rounding = chunks * DISK_BLOCK_SIZE;
    let cap = CAP_PER_SERVER * cell.chunkservers.len() as u64;
    let allowed = bytes + rounding + sidecars + cap;
    teller.say(format_args!(
        "on disk: {chunks} chunk files, {} MB; {} MB of sidecars; in all, with the disk's \
         rounding, {} MB are used; {} MB are allowed",
        mega(bytes),
        mega(sidecars),
        mega(used),
        mega(allowed)
    ));
    if used > allowed {
        bail!("{used} bytes are used, more than {allowed}");
    }
    Ok(())
}
