//! What a soak runs beside a cell: processes of clients that append, readers, clients that do
//! one thing steadily, and who looks at all chunks.
//!
//! ```text
//!   soak                                     soak load append | deliver
//!     │ ◄─────────── "ready" ────────────────── connected, file open
//!     │ ── "go" ──────────────────────────────► append: every client starts
//!     │ ◄─────────── "count N" ─────────────── so many records acknowledged, or delivered
//!     │ ── "stop" ────────────────────────────► append: finish what is under way
//!     │ ── "judge FILE" ──────────────────────► deliver: read up to what FILE says was appended
//!     │ ◄─────────── "client {…}"  "verdict {…}"
//! ```
//! - K1: the end of stdin ends the process, so that none outlives the soak that started it.

mod appenders;
mod ledger;
mod looker;
mod orders;
mod producer;
mod readers;
mod record;
mod steady;

pub(crate) use looker::{CellSeen, ChunkSeen};
pub(crate) use producer::{
    BROKEN as PRODUCER_BROKEN, acknowledged as acknowledged_to, line as producer_line,
};
pub(crate) use steady::SteadyFigures;

use anyhow::{Result, bail};

const USAGE: &str = "\
usage: soak load append CELL SMALL-FILE LARGE-FILE FIRST-CLIENT CLIENTS SMALL LARGE
       soak load deliver CELL FILE small|large read|follow
       soak load steady CELL look-up|ask-shadow|read|append|append-small|create PATH
       soak load look CELL
       soak load produce CELL STREAM NAME RECORDS SIZE FILE";

/// Runs one process of a load.
///
/// # Errors
/// When the words make no sense, or the cell cannot be used.
pub(crate) fn run(words: &[&str]) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        match words {
            ["append", rest @ ..] => appenders::run(rest).await,
            ["deliver", rest @ ..] => readers::run(rest).await,
            ["look", rest @ ..] => looker::run(rest).await,
            ["produce", rest @ ..] => producer::run(rest).await,
            ["steady", rest @ ..] => steady::run(rest).await,
            _ => bail!("{USAGE}"),
        }
    })
}
