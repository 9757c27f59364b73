//! `cairn status`: the cell on one screen, with a health word and reason codes.

use crate::cli_error::{CliError, Doing};
use crate::commands::servers::{ServerJson, state_text, table};
use crate::commands::{jobs, resources};
use crate::exit_codes::Exit;
use crate::http_addresses::HttpAddresses;
use crate::output::{Output, size_text, span_text, time_text};
use crate::session::Session;
use cairn_client::{CellConfig, JobStatus};
use cairn_protocol::{
    MasterRole, ReasonCode, ScrubProgress, ServerState, ServerStatus, StatusAnswer, TrafficRates,
};
use cairn_types::Address;
use clap::Args;
use serde_json::json;

/// Servers that are shown; `cairn servers` shows all.
const SERVERS_SHOWN: usize = 4;
/// Jobs that are shown; `cairn jobs` shows all.
const JOBS_SHOWN: usize = 2;
/// Reasons that are shown.
const REASONS_SHOWN: usize = 3;

/// Arguments of `status`.
#[derive(Args, Debug)]
pub(crate) struct StatusArguments {
    /// Tell programs by the exit code too: 0 healthy, 14 degraded, 7 unavailable
    #[arg(long)]
    check: bool,
    /// What each process takes of memory and descriptors, and may take
    #[arg(long, conflicts_with = "check")]
    resources: bool,
}

/// How the cell is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Health {
    Healthy,
    /// The master has started, and does not know yet how the cell is.
    Starting,
    Degraded,
    Unavailable,
}

impl Health {
    /// As the master tells it.
    pub(crate) fn of(status: &StatusAnswer) -> Self {
        let says = |code: ReasonCode| {
            let code = format!("{}:", code.code());
            status.reasons.iter().any(|reason| reason.starts_with(&code))
        };
        if status.unavailable > 0 || (status.chunk_count > 0 && says(ReasonCode::NoServers)) {
            Self::Unavailable
        } else if says(ReasonCode::Starting) {
            Self::Starting
        } else if status.reasons.is_empty() && status.under_replicated == 0 {
            Self::Healthy
        } else {
            Self::Degraded
        }
    }

    /// As people call it.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Healthy => "healthy",
            Self::Starting => "starting",
            Self::Degraded => "degraded",
            Self::Unavailable => "unavailable",
        }
    }

    /// For whoever asks by the exit code; what it means stands on stdout already.
    fn check(self) -> Result<(), CliError> {
        match self {
            Self::Healthy => Ok(()),
            Self::Starting | Self::Degraded => Err(CliError::told(Exit::Degraded)),
            Self::Unavailable => Err(CliError::told(Exit::NotNow)),
        }
    }
}

/// Runs it.
pub(crate) async fn run(
    arguments: StatusArguments,
    session: &Session,
    output: &Output,
) -> Result<(), CliError> {
    if arguments.resources {
        return resources::tell(session, output).await;
    }
    let cell = session.cell().await?;
    let doing = || format!("asking the cell at {} for its state", session.address());
    let (status, servers, jobs, config) =
        tokio::join!(cell.status(), cell.servers(), cell.jobs(), cell.settings());
    let (status, servers, jobs) = (status.doing(doing)?, servers.doing(doing)?, jobs.doing(doing)?);
    let config = config.doing(doing)?;
    // Who has answered just now.
    let (address, said) = cell.master().await.doing(doing)?;
    let http = HttpAddresses::ask(&cell, address.as_str()).await;
    let master = AnsweringMaster { address, role: said.role, http };
    let health = Health::of(&status);
    if output.json() {
        let mut value = to_json(&status, &master, (&servers, &jobs), health);
        value["limits"] = limits_json(&config);
        value["scrub"] = ScrubSum::of(&servers).json();
        output.value(&value)?;
    } else {
        let lines = lines(&status, &master, (&servers, &jobs), &config);
        lines.iter().try_for_each(|line| output.line(line))?;
    }
    if arguments.check { health.check() } else { Ok(()) }
}

/// The master that has answered.
#[derive(Debug, Default)]
struct AnsweringMaster {
    address: Address,
    role: MasterRole,
    /// Its own HTTP port, and those of the chunkservers.
    http: HttpAddresses,
}

fn to_json(
    status: &StatusAnswer,
    master: &AnsweringMaster,
    (servers, jobs): (&[ServerStatus], &[JobStatus]),
    health: Health,
) -> serde_json::Value {
    let server = |status: &ServerStatus| ServerJson::of(status, &master.http);
    json!({
            "health": health.word(),
            "reasons": status.reasons,
            "cell": status.cell.to_string(),
            "master": {
                "address": master.address.as_str(),
                "role": master.role.name(),
                "http": master.http.master,
            },
            "term": status.term.get(),
            "log_index": status.log_index,
            "started_ms": status.started.as_millis(),
            "file_count": status.file_count,
            "directory_count": status.directory_count,
            "hidden_count": status.hidden_count,
            "chunk_count": status.chunk_count,
            // While servers gather nothing of it is known.
            "under_replicated": (!status.now.counts.gathering).then_some(status.under_replicated),
            "unavailable": (!status.now.counts.gathering).then_some(status.unavailable),
            "chunks": (!status.now.counts.gathering).then(|| chunks_json(status)),
            "counting": status.now.counts.counting,
            "traffic": traffic_json(&status.now.traffic),
            "capacity": status.capacity,
            "used": status.used,
            "stored": status.stored,
            "jobs": jobs.iter().map(jobs::to_json).collect::<Vec<_>>(),
            "servers": servers.iter().map(server).collect::<Vec<_>>(),
    })
}

/// Chunks by what ails them.
fn chunks_json(status: &StatusAnswer) -> serde_json::Value {
    let counts = &status.now.counts;
    let waiting = counts.waiting.iter().map(|it| (it.why.code().to_owned(), it.count.into()));
    json!({
        "below_goal": counts.below_goal,
        "one_left": counts.one_left,
        "copied": counts.copied,
        "waiting": waiting.collect::<serde_json::Map<_, _>>(),
        "damaged": counts.damaged,
        "suspect": counts.suspect,
        "unavailable": counts.unavailable,
        "stale": counts.stale,
        "lost": counts.lost,
        "unknown": counts.unknown,
    })
}

/// Bytes a second.
pub(crate) fn traffic_json(traffic: &TrafficRates) -> serde_json::Value {
    json!({
        "read": traffic.read,
        "written": traffic.written,
        "replicated": traffic.replicated,
        "cloned": traffic.cloned,
        "scrubbed": traffic.scrubbed,
    })
}

/// What holds repair back.
fn limits_json(config: &CellConfig) -> serde_json::Value {
    json!({
        "clone_rate": (config.clone_rate > 0).then_some(config.clone_rate),
        "clones_per_server": config.clones_per_server,
        "clones_per_cell": config.clones_per_cell,
    })
}

/// The same for a person.
fn limits_line(config: &CellConfig) -> String {
    let rate = match config.clone_rate {
        0 => "no limit of bytes".to_owned(),
        rate => format!("{} a second", size_text(rate, true)),
    };
    let (server, cell) = (config.clones_per_server, config.clones_per_cell);
    format!("limits   copies to a server: {rate}, {server} at once; {cell} at once in the cell")
}

/// How far all servers are with verifying what they store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct ScrubSum {
    verified: u64,
    total: u64,
    /// Bytes a second.
    rate: u64,
    bad: u64,
    /// Servers that are at it.
    under_way: usize,
}

impl ScrubSum {
    fn of(servers: &[ServerStatus]) -> Self {
        let live = servers.iter().filter(|server| server.state == ServerState::Live);
        live.fold(Self::default(), |sum, server| {
            let ScrubProgress { verified, total, began_ms, bad, is_over } = server.scrub;
            let at_it = began_ms > 0 && !is_over;
            let (verified, total) = if at_it { (verified, total) } else { (0, 0) };
            Self {
                verified: sum.verified.saturating_add(verified),
                total: sum.total.saturating_add(total),
                rate: sum.rate.saturating_add(server.traffic.scrubbed),
                bad: sum.bad.saturating_add(bad),
                under_way: sum.under_way + usize::from(at_it),
            }
        })
    }

    fn left_ms(self) -> Option<u64> {
        self.total.saturating_sub(self.verified).checked_mul(1000)?.checked_div(self.rate)
    }

    fn line(self) -> String {
        let bad = if self.bad > 0 { format!(", {} bad", self.bad) } else { String::new() };
        if self.under_way == 0 {
            return format!("scrub    no server is at it{bad}");
        }
        let percent = self.verified.saturating_mul(100).checked_div(self.total).unwrap_or(100);
        let left = self.left_ms().map_or(String::new(), |it| format!(", {} left", span_text(it)));
        let (servers, rate) = (self.under_way, size_text(self.rate, true));
        format!("scrub    {percent}% on {servers} servers, {rate} a second{left}{bad}")
    }

    fn json(self) -> serde_json::Value {
        json!({
            "verified": self.verified,
            "total": self.total,
            "rate": self.rate,
            "bad_count": self.bad,
            "server_count": self.under_way,
            "left_ms": self.left_ms().filter(|_| self.under_way > 0),
        })
    }
}

/// The first jobs, a line each.
fn job_lines(jobs: &[JobStatus]) -> Vec<String> {
    let first = jobs.iter().take(JOBS_SHOWN).filter_map(|job| jobs::lines(job).into_iter().next());
    let mut lines: Vec<String> = first.map(|line| format!("job      {line}")).collect();
    if jobs.len() > JOBS_SHOWN {
        lines.push(format!("job      … {} in all: cairn jobs", jobs.len()));
    }
    lines
}

/// What ails how many chunks, as far as anything does.
fn chunk_lines(status: &StatusAnswer) -> Vec<String> {
    if status.now.counts.gathering {
        return vec![format!(
            "chunks   {}; servers still tell which they hold",
            status.chunk_count
        )];
    }
    let counts = &status.now.counts;
    let ails = [
        (counts.unavailable, "unavailable"),
        (counts.one_left, "with one replica left"),
        (counts.below_goal, "below goal"),
        (counts.damaged, "damaged"),
        (counts.suspect, "suspect"),
        (counts.stale, "with a stale replica"),
        (counts.lost, "of streams with lost bytes"),
        (counts.unknown, "unknown to the log"),
    ];
    let ails: Vec<String> = ails
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{count} {what}"))
        .collect();
    let more = if status.now.counts.counting { " (still counting)" } else { "" };
    let all = if ails.is_empty() { "all well".to_owned() } else { ails.join(", ") };
    let mut lines = vec![format!("chunks   {}: {all}{more}", status.chunk_count)];
    if counts.below_goal > 0 {
        let waits = counts.waiting.iter().map(|it| format!("{} {}", it.count, it.why.code()));
        let waits: Vec<String> = waits.collect();
        let waits = if waits.is_empty() { "none".to_owned() } else { waits.join(", ") };
        lines.push(format!("repair   {} being copied; waiting: {waits}", counts.copied));
    }
    lines
}

fn lines(
    status: &StatusAnswer,
    master: &AnsweringMaster,
    (servers, jobs): (&[ServerStatus], &[JobStatus]),
    config: &CellConfig,
) -> Vec<String> {
    let mut lines =
        vec![format!("{}  cell {}", Health::of(status).word().to_uppercase(), status.cell)];
    lines.extend(status.reasons.iter().take(REASONS_SHOWN).map(|reason| format!("  {reason}")));
    if status.reasons.len() > REASONS_SHOWN {
        lines.push(format!("  … and {} more reasons", status.reasons.len() - REASONS_SHOWN));
    }
    let started = time_text(status.started);
    let (term, index) = (status.term, status.log_index);
    let (role, address) = (master.role.name(), &master.address);
    let http = master.http.master.as_ref().map(|at| format!(", http {at}")).unwrap_or_default();
    lines.push(format!(
        "master   {role} at {address}, term {term}, log at {index}, started {started} UTC{http}"
    ));
    lines.push(format!(
        "names    {} files, {} directories, {} deleted",
        status.file_count, status.directory_count, status.hidden_count
    ));
    lines.extend(chunk_lines(status));
    let count = |state| servers.iter().filter(|server| server.state == state).count();
    let states = [ServerState::Live, ServerState::Silent, ServerState::Dead];
    let states = states.map(|state| format!("{} {}", count(state), state_text(state))).join(", ");
    lines.push(format!("servers  {states}"));
    let [stored, used, capacity] =
        [status.stored, status.used, status.capacity].map(|bytes| size_text(bytes, true));
    lines.push(format!("room     {stored} stored; {used} used of {capacity} by anybody"));
    let TrafficRates { read, written, cloned, scrubbed, .. } = status.now.traffic;
    let [read, written, cloned, scrubbed] =
        [read, written, cloned, scrubbed].map(|bytes| size_text(bytes, true));
    lines.push(format!(
        "traffic  {read} read, {written} written, {cloned} copied, {scrubbed} scrubbed a second"
    ));
    lines.push(ScrubSum::of(servers).line());
    lines.push(limits_line(config));
    lines.extend(job_lines(jobs));
    lines.push(String::new());
    let shown = &servers[..servers.len().min(SERVERS_SHOWN)];
    lines.extend(table(shown, &master.http, true));
    if servers.len() > SERVERS_SHOWN {
        lines.push(format!("… {} in all: cairn servers", servers.len()));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::{AnsweringMaster, Health, ScrubSum, limits_json, limits_line, lines, to_json};
    use cairn_client::{CellConfig, JobStatus};
    use cairn_protocol::{
        CellNow, ChunkCounts, ScrubProgress, ServerState, ServerStatus, StatusAnswer,
    };
    use serde_json::json;

    #[test]
    fn a_hundred_servers_and_reasons_still_fit_one_screen() {
        let master = AnsweringMaster::default();
        let status =
            StatusAnswer { reasons: vec!["dead-server: x".into(); 100], ..StatusAnswer::default() };
        let counts = ChunkCounts { below_goal: 9, one_left: 1, ..ChunkCounts::default() };
        let now = Box::new(CellNow { counts, ..CellNow::default() });
        let status = StatusAnswer { now, ..status };
        let (servers, jobs) = (vec![ServerStatus::default(); 100], vec![JobStatus::default(); 9]);
        let lines = lines(&status, &master, (&servers, &jobs), &CellConfig::default());
        assert!(lines.len() <= 24, "{}", lines.len());
    }

    #[test]
    fn the_limits_in_force_and_how_far_the_scrub_of_all_servers_is_are_told() {
        let config = CellConfig { clones_per_server: 3, clones_per_cell: 64, ..Default::default() };
        let limited = CellConfig { clone_rate: 16 << 20, ..config.clone() };
        assert_eq!(
            limits_line(&limited),
            "limits   copies to a server: 16M a second, 3 at once; 64 at once in the cell"
        );
        assert!(limits_line(&config).contains("no limit of bytes"));
        assert_eq!(limits_json(&config)["clone_rate"], json!(null));
        let mut servers = vec![ServerStatus { state: ServerState::Live, ..Default::default() }; 3];
        assert_eq!(ScrubSum::of(&servers).line(), "scrub    no server is at it");
        for server in &mut servers[..2] {
            let (verified, total, began_ms) = (300 << 20, 1000 << 20, 5);
            server.scrub = ScrubProgress { verified, total, began_ms, bad: 1, is_over: false };
            server.traffic.scrubbed = 7 << 20;
        }
        let sum = ScrubSum::of(&servers);
        assert_eq!(sum.line(), "scrub    30% on 2 servers, 14M a second, 1m 40s left, 2 bad");
        assert_eq!(sum.json()["left_ms"], 100_000);
        servers[1].state = ServerState::Dead;
        assert_eq!(ScrubSum::of(&servers).under_way, 1);
    }

    #[test]
    fn the_health_word_says_the_worst() {
        let master = AnsweringMaster::default();
        let base = StatusAnswer::default();
        assert_eq!(Health::of(&base), Health::Healthy);
        let degraded = StatusAnswer { under_replicated: 1, ..base.clone() };
        assert_eq!(Health::of(&degraded), Health::Degraded);
        let unavailable = StatusAnswer { unavailable: 1, ..degraded };
        assert_eq!(Health::of(&unavailable), Health::Unavailable);
        let reasons = vec!["STARTING: 1 of 4".to_owned(), "NO_SERVERS: 1 cell".to_owned()];
        let counts = ChunkCounts { gathering: true, ..ChunkCounts::default() };
        let now = Box::new(CellNow { counts, ..CellNow::default() });
        let starting = StatusAnswer { reasons, now, ..StatusAnswer::default() };
        assert_eq!(Health::of(&starting), Health::Starting);
        assert_eq!(
            to_json(&starting, &master, (&[], &[]), Health::Starting)["under_replicated"],
            json!(null)
        );
        let unserved = StatusAnswer { chunk_count: 3, ..starting };
        assert_eq!(Health::of(&unserved), Health::Unavailable, "whatever they hold");
    }
}
