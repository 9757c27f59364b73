//! `cairn df`: how much room the cell has, and how much of it is Cairn's.

use crate::cli_error::{CliError, Doing};
use crate::output::{Output, Table, size_text};
use crate::session::Session;
use clap::Args;
use serde_json::json;

/// Arguments of `df`.
#[derive(Args, Debug)]
pub(crate) struct DfArguments {
    /// Sizes for people
    #[arg(short = 'h', long = "human-readable")]
    human: bool,
}

/// Runs it. Only live servers' disks are room; a file system with several of them is counted once.
pub(crate) async fn run(
    df: DfArguments,
    session: &Session,
    output: &Output,
) -> Result<(), CliError> {
    let cell = session.cell().await?;
    let doing = || format!("asking the cell at {} for its room", session.address());
    let status = cell.status().await.doing(doing)?;
    let (size, used, stored) = (status.capacity, status.used, status.stored);
    let available = size.saturating_sub(used);
    let name = session.address().to_string();
    if output.json() {
        let value = json!({
            "cell": name, "size": size, "used": used, "stored": stored, "available": available,
        });
        return output.value(&value);
    }
    let mut table = Table::new(&[false, true, true, true, true, true]);
    table.row(["CELL", "SIZE", "USED", "STORED", "AVAILABLE", "USE%"].map(str::to_owned));
    let part = (used * 100).div_ceil(size.max(1));
    let [size, used, stored, available] =
        [size, used, stored, available].map(|bytes| size_text(bytes, df.human));
    table.row([name, size, used, stored, available, format!("{part}%")]);
    table.lines().iter().try_for_each(|line| output.line(line))
}
