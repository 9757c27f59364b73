//! `cairn status --resources`: what each process of the cell takes of memory and descriptors, and
//! what it may take.

use crate::cli_error::{CliError, Doing};
use crate::output::{Output, Table, size_text};
use crate::session::Session;
use cairn_client::ResourceUse;
use serde_json::json;

/// `used / bound`, or only what is used where there is no bound.
fn of(used: String, bound: String) -> String {
    if bound == "0" { used } else { format!("{used} / {bound}") }
}

/// Asks, and tells.
pub(crate) async fn tell(session: &Session, output: &Output) -> Result<(), CliError> {
    let cell = session.cell().await?;
    let doing = || format!("asking the cell at {} what it takes", session.address());
    let answer = cell.resources().await.doing(doing)?;
    let master = ("master", session.address().to_string(), answer.master);
    let servers = answer.servers.into_iter();
    let servers = servers.map(|one| ("chunkserver", one.at.address.to_string(), one.resources));
    let all: Vec<(&str, String, ResourceUse)> = std::iter::once(master).chain(servers).collect();
    if output.json() {
        return all.iter().try_for_each(|(kind, address, it)| {
            output.value(&json!({
                "process": kind,
                "address": address,
                "resident": it.resident,
                "peers_memory": it.peers,
                "peers_memory_max": it.peers_max,
                "pushes_memory": it.pushes,
                "pushes_memory_max": it.pushes_max,
                "descriptors": it.descriptors,
                "descriptors_max": it.descriptors_max,
                "connections": it.connections,
                "connections_max": it.connections_max,
            }))
        });
    }
    let mut table = Table::new(&[false, false, true, true, true, true, true]);
    let head =
        ["PROCESS", "ADDRESS", "RESIDENT", "FOR PEERS", "PUSHES", "DESCRIPTORS", "CONNECTIONS"];
    table.row(head.map(str::to_owned));
    for (kind, address, it) in all {
        let (sizes, counts) = (|bytes| size_text(bytes, true), |count: u64| count.to_string());
        table.row([
            kind.to_owned(),
            address,
            sizes(it.resident),
            of(sizes(it.peers), sizes(it.peers_max)),
            of(sizes(it.pushes), sizes(it.pushes_max)),
            of(counts(it.descriptors), counts(it.descriptors_max)),
            of(counts(it.connections), counts(it.connections_max)),
        ]);
    }
    table.lines().iter().try_for_each(|line| output.line(line))
}
