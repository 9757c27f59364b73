//! `cairn servers`: the chunkservers as the master sees them.

use crate::cli_error::{CliError, Doing};
use crate::commands::status::traffic_json;
use crate::http_addresses::HttpAddresses;
use crate::output::{Output, Table, size_text, span_text};
use crate::session::Session;
use cairn_client::{Cell, DiskStatus, ServerDuty};
use cairn_protocol::{ScrubProgress, ServerState, ServerStatus};
use clap::Args;
use serde::Serialize;
use serde_json::json;

/// Arguments of `servers`.
#[derive(Args, Debug)]
pub(crate) struct ServersArguments {
    /// Sizes in bytes
    #[arg(short)]
    bytes: bool,
    /// Their data directories, each with its state
    #[arg(long)]
    disks: bool,
    /// What each moves, in bytes a second over the last ten
    #[arg(long, conflicts_with = "disks")]
    traffic: bool,
    /// Miss this dead server no more: its address or its id
    #[arg(long, value_name = "SERVER", conflicts_with = "disks")]
    forget: Option<String>,
}

/// A chunkserver as `--json` shows it. Sizes in bytes.
#[derive(Debug, Serialize)]
pub(crate) struct ServerJson {
    server: String,
    address: String,
    rack: String,
    state: &'static str,
    duty: &'static str,
    full: bool,
    unreached: bool,
    capacity: u64,
    used: u64,
    stored: u64,
    chunk_count: u64,
    bad_count: u64,
    lease_count: u64,
    disk_count: u64,
    disk_failed_count: u64,
    heartbeat_age_ms: u64,
    traffic: serde_json::Value,
    scrub: serde_json::Value,
    http: Option<String>,
}

impl ServerJson {
    /// Of a server, and where the HTTP ports are.
    pub(crate) fn of(status: &ServerStatus, http: &HttpAddresses) -> Self {
        Self {
            server: status.at.server.to_string(),
            address: status.at.address.to_string(),
            rack: status.at.rack.to_string(),
            state: state_text(status.state),
            duty: duty_text(status.duty),
            full: status.full,
            unreached: status.unreached,
            capacity: status.capacity,
            used: status.used,
            stored: status.stored,
            chunk_count: status.chunk_count,
            bad_count: status.bad_count,
            lease_count: status.lease_count,
            disk_count: status.disk_count,
            disk_failed_count: status.disk_failed_count,
            heartbeat_age_ms: status.heartbeat_age_ms,
            traffic: traffic_json(&status.traffic),
            scrub: scrub_json(status),
            http: http.of(status.at.server).map(str::to_owned),
        }
    }
}

/// How far a server is with verifying what it stores.
fn scrub_json(status: &ServerStatus) -> serde_json::Value {
    let ScrubProgress { verified, total, began_ms, bad, is_over } = status.scrub;
    json!({
        "verified": verified,
        "total": total,
        "began_ms": (began_ms > 0).then_some(began_ms),
        "bad_count": bad,
        "over": is_over,
        "left_ms": scrub_left_ms(status),
    })
}

/// When the round will be over, at the rate of the last seconds; none: it is over, or none knows.
fn scrub_left_ms(status: &ServerStatus) -> Option<u64> {
    let ScrubProgress { verified, total, began_ms, is_over, .. } = status.scrub;
    let left = total.saturating_sub(verified);
    if is_over || began_ms == 0 {
        return None;
    }
    left.saturating_mul(1000).checked_div(status.traffic.scrubbed)
}

/// `37%, 3m 20s left`, `done`, or nothing where there was no round.
fn scrub_text(status: &ServerStatus) -> String {
    let ScrubProgress { verified, total, began_ms, bad, is_over } = status.scrub;
    let mut text = match (began_ms, is_over) {
        (0, _) => "-".to_owned(),
        (_, true) => "done".to_owned(),
        (_, false) => {
            let percent = verified.saturating_mul(100).checked_div(total).unwrap_or(100);
            let left = scrub_left_ms(status).map(|left| format!(", {} left", span_text(left)));
            format!("{}%{}", percent.min(99), left.unwrap_or_default())
        }
    };
    if bad > 0 {
        text += &format!(", {bad} bad");
    }
    text
}

/// `1.2M`, or `-` for none.
fn rate_text(bytes: u64) -> String {
    if bytes == 0 { "-".to_owned() } else { size_text(bytes, true) }
}

/// `live`, `silent` or `dead`.
pub(crate) fn state_text(state: ServerState) -> &'static str {
    match state {
        ServerState::Live => "live",
        ServerState::Silent => "silent",
        ServerState::Dead => "dead",
    }
}

pub(crate) fn duty_text(duty: ServerDuty) -> &'static str {
    match duty {
        ServerDuty::Serving => "serving",
        ServerDuty::Draining => "draining",
        ServerDuty::Drained => "drained",
    }
}

/// `live`; `unreached`; `full`; `draining`; or `dead, draining`.
fn shown_state(status: &ServerStatus) -> String {
    match (status.state, status.duty) {
        (ServerState::Live, ServerDuty::Serving) if status.unreached => "unreached".to_owned(),
        (ServerState::Live, duty) if status.unreached => {
            format!("unreached, {}", duty_text(duty))
        }
        (ServerState::Live, ServerDuty::Serving) if status.full => "full".to_owned(),
        (state, ServerDuty::Serving) => state_text(state).to_owned(),
        (ServerState::Live, duty) => duty_text(duty).to_owned(),
        (state, duty) => format!("{}, {}", state_text(state), duty_text(duty)),
    }
}

/// The server that is called so: by its address or its id.
pub(crate) async fn find(
    cell: &Cell,
    which: &str,
    doing: impl Fn() -> String + Copy,
) -> Result<ServerStatus, CliError> {
    let all = cell.servers().await.doing(doing)?;
    let is_it = |status: &ServerStatus| {
        status.at.address.as_str() == which || status.at.server.to_string() == *which
    };
    all.into_iter().find(is_it).ok_or_else(|| {
        let why = "the cell knows of no such server".to_owned();
        CliError::usage(doing(), why, "cairn servers lists them")
    })
}

/// `4`, or `3/4` where one of four has failed.
fn disks_text(status: &ServerStatus) -> String {
    let working = status.disk_count.saturating_sub(status.disk_failed_count);
    if working == status.disk_count {
        working.to_string()
    } else {
        format!("{working}/{}", status.disk_count)
    }
}

/// The servers as lines, with a head.
pub(crate) fn table(servers: &[ServerStatus], http: &HttpAddresses, human: bool) -> Vec<String> {
    let mut table = Table::new(&[
        false, false, false, true, true, true, true, true, true, true, true, false, false,
    ]);
    let head = [
        "ADDRESS", "RACK", "STATE", "CHUNKS", "BAD", "LEASES", "STORED", "USED", "OF", "DISKS",
        "HEARD", "SCRUB", "HTTP",
    ];
    table.row(head.map(str::to_owned));
    for status in servers {
        table.row([
            status.at.address.to_string(),
            status.at.rack.to_string(),
            shown_state(status),
            status.chunk_count.to_string(),
            status.bad_count.to_string(),
            status.lease_count.to_string(),
            size_text(status.stored, human),
            size_text(status.used, human),
            size_text(status.capacity, human),
            disks_text(status),
            format!("{} ago", span_text(status.heartbeat_age_ms)),
            scrub_text(status),
            http.of(status.at.server).unwrap_or("-").to_owned(),
        ]);
    }
    table.lines()
}

/// What each server moves a second, with a head.
fn traffic_table(servers: &[ServerStatus]) -> Vec<String> {
    let mut table = Table::new(&[false, false, true, true, true, true, true]);
    let head = ["ADDRESS", "STATE", "READ", "WRITTEN", "REPLICATED", "COPIED", "SCRUBBED"];
    table.row(head.map(str::to_owned));
    for status in servers {
        let traffic = &status.traffic;
        table.row([
            status.at.address.to_string(),
            state_text(status.state).to_owned(),
            rate_text(traffic.read),
            rate_text(traffic.written),
            rate_text(traffic.replicated),
            rate_text(traffic.cloned),
            rate_text(traffic.scrubbed),
        ]);
    }
    table.lines()
}

/// Tells the data directories of all servers.
async fn tell_disks(cell: &Cell, human: bool, output: &Output) -> Result<(), CliError> {
    let mut all = cell.disks().await.doing(|| "asking for the servers' disks".to_owned())?;
    all.sort_by(|a, b| a.at.address.cmp(&b.at.address));
    let each = all.iter().flat_map(|one| one.disks.iter().map(move |disk| (&one.at, disk)));
    if output.json() {
        return each.into_iter().try_for_each(|(at, disk)| {
            output.value(&json!({
                "server": at.server.to_string(),
                "address": at.address.to_string(),
                "path": disk.path,
                "state": disk_state(disk),
                "file_system": format!("{:016x}", disk.file_system),
                "capacity": disk.capacity,
                "used": disk.used,
                "chunk_count": disk.chunk_count,
            }))
        });
    }
    let mut table = Table::new(&[false, false, false, true, true, true]);
    table.row(["ADDRESS", "DISK", "STATE", "CHUNKS", "USED", "OF"].map(str::to_owned));
    for (at, disk) in each {
        table.row([
            at.address.to_string(),
            output.name(&disk.path).into_owned(),
            disk_state(disk).to_owned(),
            disk.chunk_count.to_string(),
            size_text(disk.used, human),
            size_text(disk.capacity, human),
        ]);
    }
    table.lines().iter().try_for_each(|line| output.line(line))
}

fn disk_state(disk: &DiskStatus) -> &'static str {
    if disk.failed { "failed" } else { "working" }
}

/// Runs it.
pub(crate) async fn run(
    servers: ServersArguments,
    session: &Session,
    output: &Output,
) -> Result<(), CliError> {
    let cell = session.cell().await?;
    if servers.disks {
        return tell_disks(&cell, !servers.bytes, output).await;
    }
    if let Some(which) = &servers.forget {
        let doing = || format!("forgetting server {which}");
        let found = find(&cell, which, doing).await?;
        cell.forget_server(found.at.server).await.doing(doing)?;
        let (server, address) = (found.at.server.to_string(), found.at.address.as_str());
        let value = json!({ "server": server, "address": address, "forgotten": true });
        return output.done(true, &value, || format!("forgot server {server} at {address}"));
    }
    let doing = || format!("asking the cell at {} for its servers", session.address());
    let all = cell.servers().await.doing(doing)?;
    if servers.traffic && !output.json() {
        return traffic_table(&all).iter().try_for_each(|line| output.line(line));
    }
    let http = HttpAddresses::ask(&cell, "").await;
    if output.json() {
        return all.iter().try_for_each(|status| output.value(&ServerJson::of(status, &http)));
    }
    table(&all, &http, !servers.bytes).iter().try_for_each(|line| output.line(line))
}

#[cfg(test)]
mod tests {
    use super::{scrub_left_ms, scrub_text};
    use cairn_protocol::{ScrubProgress, ServerStatus};

    #[test]
    fn the_scrub_says_how_far_it_is_when_it_will_be_over_and_what_it_found() {
        let mut status = ServerStatus::default();
        assert_eq!((scrub_text(&status), scrub_left_ms(&status)), ("-".to_owned(), None));
        status.scrub =
            ScrubProgress { verified: 300, total: 1000, began_ms: 5, bad: 0, is_over: false };
        assert_eq!(scrub_text(&status), "30%", "it stands still, or nothing is known");
        status.traffic.scrubbed = 7;
        assert_eq!(scrub_text(&status), "30%, 1m 40s left");
        status.scrub.bad = 2;
        status.scrub.is_over = true;
        assert_eq!((scrub_text(&status), scrub_left_ms(&status)), ("done, 2 bad".to_owned(), None));
    }
}
