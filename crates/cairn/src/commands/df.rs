//! `cairn df`: how much room the cell has.

use crate::cli_error::{CliError, Doing};
use crate::output::{Output, Table, size_text};
use crate::session::Session;
use cairn_protocol::ServerState;
use clap::Args;
use serde_json::json;

/// Arguments of `df`.
#[derive(Args, Debug)]
pub(crate) struct DfArguments {
    /// Sizes for people
    #[arg(short = 'h', long = "human-readable")]
    human: bool,
}

/// Runs it. Dead servers' disks are no room.
pub(crate) async fn run(
    df: DfArguments,
    session: &Session,
    output: &Output,
) -> Result<(), CliError> {
    let cell = session.cell().await?;
    let doing = || format!("asking the cell at {} for its servers", session.address());
    let servers = cell.servers().await.doing(doing)?;
    let there = servers.iter().filter(|server| server.state != ServerState::Dead);
    let (size, used) =
        there.fold((0, 0), |(size, used), server| (size + server.capacity, used + server.used));
    let available = size.saturating_sub(used);
    let name = session.address().to_string();
    if output.json() {
        let value = json!({ "cell": name, "size": size, "used": used, "available": available });
        return output.value(&value);
    }
    let mut table = Table::new(&[false, true, true, true, true]);
    table.row(["CELL", "SIZE", "USED", "AVAILABLE", "USE%"].map(str::to_owned));
    let part = (used * 100).div_ceil(size.max(1));
    let [size, used, available] = [size, used, available].map(|bytes| size_text(bytes, df.human));
    table.row([name, size, used, available, format!("{part}%")]);
    table.lines().iter().try_for_each(|line| output.line(line))
}
