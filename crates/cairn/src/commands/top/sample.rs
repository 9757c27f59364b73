//! One sample of a cell at work: what was asked of it between two looks, and how it stood at the
//! second.

use crate::cli_error::{CliError, Doing};
use crate::commands::servers::state_text;
use crate::commands::status::{Health, traffic_json};
use crate::output::{Table, size_text, time_text};
use crate::session::Session;
use cairn_protocol::{
    Busiest, BusiestAnswer, LatencyBucket, ServerState, ServerStatus, StatusAnswer, TrafficRates,
};
use cairn_types::WallTime;
use serde_json::{Value, json};
use std::cmp::Reverse;
use std::time::{Duration, Instant};

/// What was asked of a master so far.
#[derive(Clone, Debug)]
pub(crate) struct Look {
    at: Instant,
    wall: WallTime,
    status: StatusAnswer,
    servers: Vec<ServerStatus>,
    job_count: usize,
    /// None: the master is of a version that does not count it.
    busiest: Option<BusiestAnswer>,
}

impl Look {
    /// Asks the cell.
    ///
    /// # Errors
    /// Where it does not answer.
    pub(crate) async fn take(session: &Session) -> Result<Self, CliError> {
        let cell = session.cell().await?;
        let doing = || format!("asking the cell at {} what it is at", session.address());
        let (status, servers, jobs, busiest) =
            tokio::join!(cell.status(), cell.servers(), cell.jobs(), cell.ask(Busiest {}));
        let mut servers = servers.doing(doing)?;
        servers.sort_by_key(|server| Reverse(moved(&server.traffic)));
        Ok(Self {
            at: Instant::now(),
            wall: cairn_env_os::clock::wall_time(),
            status: status.doing(doing)?,
            servers,
            job_count: jobs.doing(doing)?.len(),
            busiest: busiest.ok(),
        })
    }
}

/// Bytes a second, for whomever.
fn moved(traffic: &TrafficRates) -> u64 {
    let parts = [traffic.read, traffic.written, traffic.replicated, traffic.cloned];
    parts.into_iter().fold(0, u64::saturating_add)
}

/// What was answered between two looks, a second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct AskedRates {
    answered: f64,
    failed: f64,
    mean_us: u64,
    /// 99 of 100 took no longer; none: longer than the last bucket's end, or nobody asked.
    most_us: Option<u64>,
}

impl AskedRates {
    /// None: another master, or another life of it, has begun to count.
    fn between(before: &BusiestAnswer, after: &BusiestAnswer, span: Duration) -> Option<Self> {
        let answered = after.answered.checked_sub(before.answered)?;
        let failed = after.failed.checked_sub(before.failed)?;
        let took = after.took_ns.checked_sub(before.took_ns)?;
        let seconds = span.as_secs_f64().max(0.001);
        Some(Self {
            answered: answered as f64 / seconds,
            failed: failed as f64 / seconds,
            mean_us: took.checked_div(answered).unwrap_or(0) / 1_000,
            most_us: most_us(&before.took, &after.took),
        })
    }
}

/// The end of the bucket below which 99 of 100 lie that came in between.
fn most_us(before: &[LatencyBucket], after: &[LatencyBucket]) -> Option<u64> {
    let count = |bucket: &LatencyBucket| {
        let same = before.iter().find(|it| it.up_to_us == bucket.up_to_us);
        bucket.count.saturating_sub(same.map_or(0, |it| it.count))
    };
    let all: u64 = after.iter().map(count).sum();
    let mut below = 0;
    let most = after.iter().find(|bucket| {
        below += count(bucket);
        below * 100 >= all * 99
    });
    most.map(|bucket| bucket.up_to_us).filter(|end| *end > 0 && all > 0)
}

/// Two looks, and what lies between them.
pub(crate) struct TopSample<'a> {
    now: &'a Look,
    asked: Option<AskedRates>,
}

impl<'a> TopSample<'a> {
    /// What lies between two looks.
    pub(crate) fn between(before: &Look, now: &'a Look) -> Self {
        let span = now.at.duration_since(before.at);
        let both = before.busiest.as_ref().zip(now.busiest.as_ref());
        let asked = both.and_then(|(before, now)| AskedRates::between(before, now, span));
        Self { now, asked }
    }

    /// For programs.
    pub(crate) fn json(&self) -> Value {
        let Look { wall, status, servers, job_count, busiest, .. } = self.now;
        let asked = self.asked.map(|it| {
            json!({
                "answered_a_second": it.answered,
                "failed_a_second": it.failed,
                "mean_us": it.mean_us,
                "p99_up_to_us": it.most_us,
            })
        });
        let servers = servers.iter().map(|server| {
            json!({
                "address": server.at.address.as_str(),
                "state": state_text(server.state),
                "traffic": traffic_json(&server.traffic),
                "chunk_count": server.chunk_count,
                "lease_count": server.lease_count,
            })
        });
        let (span, clients, files) = busiest.as_ref().map_or((0, Vec::new(), Vec::new()), |it| {
            let client = |it: &cairn_protocol::BusyClient| {
                json!({ "address": it.address, "requests": it.requests })
            };
            let file = |it: &cairn_protocol::BusyFile| {
                json!({ "path": it.path, "id": it.file.short(), "requests": it.requests })
            };
            let clients = it.clients.iter().map(client).collect();
            (it.span_ms, clients, it.files.iter().map(file).collect())
        });
        json!({
            "time_ms": wall.as_millis(),
            "health": Health::of(status).word(),
            "requests": asked,
            "traffic": traffic_json(&status.now.traffic),
            "job_count": job_count,
            "servers": servers.collect::<Vec<_>>(),
            "busiest_span_ms": span,
            "busiest_clients": clients,
            "busiest_files": files,
        })
    }

    fn requests_text(&self) -> String {
        let Some(asked) = self.asked else { return "not counted".to_owned() };
        let most = match asked.most_us {
            Some(us) => format!(", 99% within {}", span_us(us)),
            None => String::new(),
        };
        format!(
            "{:.0} a second, {:.0} of them failed; mean {}{most}",
            asked.answered,
            asked.failed,
            span_us(asked.mean_us)
        )
    }

    /// One line, for whoever has no terminal.
    pub(crate) fn line(&self) -> String {
        let Look { wall, status, job_count, .. } = self.now;
        let TrafficRates { read, written, cloned, .. } = status.now.traffic;
        let [read, written, cloned] = [read, written, cloned].map(|it| size_text(it, true));
        format!(
            "{} {}  requests {}  read {read} written {written} copied {cloned}  jobs {job_count}",
            time_text(*wall),
            Health::of(status).word(),
            self.requests_text()
        )
    }

    /// A screen.
    pub(crate) fn lines(&self) -> Vec<String> {
        let Look { wall, status, servers, job_count, .. } = self.now;
        let health = Health::of(status).word().to_uppercase();
        let mut lines = vec![format!("{health}  cell {}  {} UTC", status.cell, time_text(*wall))];
        lines.extend(status.reasons.first().map(|reason| format!("  {reason}")));
        lines.push(format!("requests {}", self.requests_text()));
        let TrafficRates { read, written, replicated, cloned, scrubbed } = status.now.traffic;
        let [read, written, replicated, cloned, scrubbed] =
            [read, written, replicated, cloned, scrubbed].map(|bytes| size_text(bytes, true));
        lines.push(format!(
            "traffic  {read} read, {written} written, {replicated} replicated, {cloned} copied, \
             {scrubbed} scrubbed a second"
        ));
        let live = servers.iter().filter(|server| server.state == ServerState::Live).count();
        lines.push(format!(
            "cell     {} files, {} chunks, {live} of {} servers live, {job_count} jobs",
            status.file_count,
            status.chunk_count,
            servers.len()
        ));
        lines.push(String::new());
        lines.extend(self.busy_lines());
        lines.extend(server_lines(servers));
        lines
    }

    /// Who asks the most, and for which files.
    fn busy_lines(&self) -> Vec<String> {
        let Some(busiest) = &self.now.busiest else { return Vec::new() };
        let seconds = busiest.span_ms as f64 / 1000.0;
        let rate = |requests: u64| match requests {
            _ if seconds <= 0.0 => "-".to_owned(),
            requests => format!("{:.1}", requests as f64 / seconds),
        };
        let mut lines = Vec::new();
        if !busiest.clients.is_empty() {
            let mut table = Table::new(&[false, true]);
            table.row(["BUSIEST CLIENTS", "REQUESTS A SECOND"].map(str::to_owned));
            let shown = busiest.clients.iter().take(BUSY_SHOWN);
            shown.for_each(|it| table.row([it.address.clone(), rate(it.requests)]));
            lines.extend(table.lines());
            lines.push(String::new());
        }
        if !busiest.files.is_empty() {
            let mut table = Table::new(&[true, false]);
            table.row(["LOOK-UPS A SECOND", "BUSIEST FILES"].map(str::to_owned));
            let shown = busiest.files.iter().take(BUSY_SHOWN);
            shown.for_each(|it| table.row([rate(it.requests), it.path.clone()]));
            lines.extend(table.lines());
            lines.push(String::new());
        }
        lines
    }
}

/// Clients and files on a screen; servers take what is left of it.
const BUSY_SHOWN: usize = 5;

/// The busiest first.
fn server_lines(servers: &[ServerStatus]) -> Vec<String> {
    let mut table = Table::new(&[false, false, true, true, true, true, true, true]);
    let head = ["SERVER", "STATE", "READ", "WRITTEN", "REPLICATED", "COPIED", "CHUNKS", "LEASES"];
    table.row(head.map(str::to_owned));
    for server in servers {
        let TrafficRates { read, written, replicated, cloned, .. } = server.traffic;
        let [read, written, replicated, cloned] =
            [read, written, replicated, cloned].map(|bytes| size_text(bytes, true));
        table.row([
            server.at.address.to_string(),
            state_text(server.state).to_owned(),
            read,
            written,
            replicated,
            cloned,
            server.chunk_count.to_string(),
            server.lease_count.to_string(),
        ]);
    }
    table.lines()
}

/// `340 µs`, `2.5 ms` or `1.2 s`.
fn span_us(us: u64) -> String {
    match us {
        0..1_000 => format!("{us} µs"),
        1_000..1_000_000 => format!("{:.1} ms", us as f64 / 1e3),
        _ => format!("{:.1} s", us as f64 / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::{AskedRates, most_us, span_us};
    use cairn_protocol::{BusiestAnswer, LatencyBucket};
    use std::time::Duration;

    fn told(answered: u64, failed: u64, took_ns: u64, counts: [u64; 3]) -> BusiestAnswer {
        let bucket = |(up_to_us, count)| LatencyBucket { up_to_us, count };
        let took = [100, 5_000, 0].into_iter().zip(counts).map(bucket).collect();
        BusiestAnswer { answered, failed, took_ns, took, ..BusiestAnswer::default() }
    }

    #[test]
    fn rates_are_of_what_came_between_two_looks() {
        let before = told(1_000, 5, 9_000_000, [1_000, 0, 0]);
        let after = told(1_200, 7, 13_000_000, [1_197, 2, 1]);
        let rates = AskedRates::between(&before, &after, Duration::from_secs(2));
        let expected =
            AskedRates { answered: 100.0, failed: 1.0, mean_us: 20, most_us: Some(5_000) };
        assert_eq!(rates, Some(expected));
        let none = AskedRates::between(&after, &before, Duration::from_secs(2));
        assert_eq!(none, None, "another life of the master");
        assert_eq!(most_us(&after.took, &after.took), None, "nobody asked");
        assert_eq!(most_us(&[], &told(0, 0, 0, [0, 0, 9]).took), None, "longer than any end");
    }

    #[test]
    fn spans_are_written_as_people_read_them() {
        let shown = [340, 2_500, 1_200_000].map(span_us);
        assert_eq!(shown, ["340 µs", "2.5 ms", "1.2 s"]);
    }
}
