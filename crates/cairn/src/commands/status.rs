//! `cairn status`: the cell on one screen, with a health word and reason codes.

use crate::cli_error::{CliError, Doing};
use crate::commands::resources;
use crate::commands::servers::{ServerJson, state_text, table};
use crate::exit_codes::Exit;
use crate::output::{Output, size_text, time_text};
use crate::session::Session;
use cairn_protocol::{ServerState, ServerStatus, StatusAnswer};
use clap::Args;
use serde_json::json;

/// Servers that are shown; `cairn servers` shows all.
const SERVERS_SHOWN: usize = 8;
/// Reasons that are shown.
const REASONS_SHOWN: usize = 5;

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
enum Health {
    Healthy,
    Degraded,
    Unavailable,
}

impl Health {
    fn of(status: &StatusAnswer) -> Self {
        if status.unavailable > 0 {
            Self::Unavailable
        } else if status.reasons.is_empty() && status.under_replicated == 0 {
            Self::Healthy
        } else {
            Self::Degraded
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::Healthy => "healthy",
            Self::Degraded => "degraded",
            Self::Unavailable => "unavailable",
        }
    }

    /// For whoever asks by the exit code; what it means stands on stdout already.
    fn check(self) -> Result<(), CliError> {
        match self {
            Self::Healthy => Ok(()),
            Self::Degraded => Err(CliError::told(Exit::Degraded)),
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
    let (status, servers) = tokio::join!(cell.status(), cell.servers());
    let (status, servers) = (status.doing(doing)?, servers.doing(doing)?);
    let health = Health::of(&status);
    if output.json() {
        output.value(&to_json(&status, &servers, health))?;
    } else {
        lines(&status, &servers).iter().try_for_each(|line| output.line(line))?;
    }
    if arguments.check { health.check() } else { Ok(()) }
}

fn to_json(status: &StatusAnswer, servers: &[ServerStatus], health: Health) -> serde_json::Value {
    json!({
            "health": health.word(),
            "reasons": status.reasons,
            "cell": status.cell.to_string(),
            "term": status.term.get(),
            "log_index": status.log_index,
            "started_ms": status.started.as_millis(),
            "file_count": status.file_count,
            "directory_count": status.directory_count,
            "hidden_count": status.hidden_count,
            "chunk_count": status.chunk_count,
            "under_replicated": status.under_replicated,
            "unavailable": status.unavailable,
            "capacity": status.capacity,
            "used": status.used,
            "stored": status.stored,
            "servers": servers.iter().map(ServerJson::from).collect::<Vec<_>>(),
    })
}

fn lines(status: &StatusAnswer, servers: &[ServerStatus]) -> Vec<String> {
    let mut lines =
        vec![format!("{}  cell {}", Health::of(status).word().to_uppercase(), status.cell)];
    lines.extend(status.reasons.iter().take(REASONS_SHOWN).map(|reason| format!("  {reason}")));
    if status.reasons.len() > REASONS_SHOWN {
        lines.push(format!("  … and {} more reasons", status.reasons.len() - REASONS_SHOWN));
    }
    let started = time_text(status.started);
    let (term, index) = (status.term, status.log_index);
    lines.push(format!("master   term {term}, log at {index}, started {started} UTC"));
    lines.push(format!(
        "names    {} files, {} directories, {} deleted",
        status.file_count, status.directory_count, status.hidden_count
    ));
    lines.push(format!(
        "chunks   {}, of them {} under-replicated, {} unavailable",
        status.chunk_count, status.under_replicated, status.unavailable
    ));
    let count = |state| servers.iter().filter(|server| server.state == state).count();
    let states = [ServerState::Live, ServerState::Silent, ServerState::Dead];
    let states = states.map(|state| format!("{} {}", count(state), state_text(state))).join(", ");
    lines.push(format!("servers  {states}"));
    let [stored, used, capacity] =
        [status.stored, status.used, status.capacity].map(|bytes| size_text(bytes, true));
    lines.push(format!("room     {stored} stored; {used} used of {capacity} by anybody"));
    lines.push(String::new());
    let shown = &servers[..servers.len().min(SERVERS_SHOWN)];
    lines.extend(table(shown, true));
    if servers.len() > SERVERS_SHOWN {
        lines.push(format!("… {} in all: cairn servers", servers.len()));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::{Health, lines};
    use cairn_protocol::{ServerStatus, StatusAnswer};

    #[test]
    fn a_hundred_servers_and_reasons_still_fit_one_screen() {
        let status =
            StatusAnswer { reasons: vec!["dead-server: x".into(); 100], ..StatusAnswer::default() };
        let lines = lines(&status, &vec![ServerStatus::default(); 100]);
        assert!(lines.len() <= 24, "{}", lines.len());
    }

    #[test]
    fn the_health_word_says_the_worst() {
        let base = StatusAnswer::default();
        assert_eq!(Health::of(&base), Health::Healthy);
        let degraded = StatusAnswer { under_replicated: 1, ..base.clone() };
        assert_eq!(Health::of(&degraded), Health::Degraded);
        let unavailable = StatusAnswer { unavailable: 1, ..degraded };
        assert_eq!(Health::of(&unavailable), Health::Unavailable);
    }
}
