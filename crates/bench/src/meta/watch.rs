//! What a client sees of a master that learns where its chunks are.

use super::population::{Population, REPLICAS};
use crate::error::{BenchCause, BenchError, Doing};
use crate::latencies::Latencies;
use cairn_client::{Cell, Options};
use cairn_protocol::Open;
use cairn_types::Random;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

/// Callers that look up files meanwhile.
const CALLERS: u64 = 4;
/// All is known when nothing was found missing for so long.
const QUIET: Duration = Duration::from_secs(1);
const AT_MOST: Duration = Duration::from_secs(300);

/// What one caller saw, times since the start of the process.
#[derive(Default)]
pub(super) struct StartSeen {
    pub(super) first: Option<Duration>,
    /// The end of the last look-up that was told of no replica, and of fewer than three.
    pub(super) without_any: Duration,
    pub(super) without_all: Duration,
    pub(super) latencies: Latencies,
}

impl StartSeen {
    fn merge(&mut self, other: &Self) {
        self.first = [self.first, other.first].into_iter().flatten().min();
        self.without_any = self.without_any.max(other.without_any);
        self.without_all = self.without_all.max(other.without_all);
        self.latencies.merge(&other.latencies);
    }
}

/// Looks up files at random until every replica of each is told. Asking the master for counts would
/// keep it from its work.
///
/// # Errors
/// Where some are missing for too long.
pub(super) fn watch(
    master: &str,
    population: Population,
    begun: Instant,
) -> Result<StartSeen, BenchError> {
    let doing = || "looking up files until every replica is known".to_owned();
    let runtime = crate::runtime::one_thread().doing(doing)?;
    runtime.block_on(async {
        let options = Options { deadline: AT_MOST, ..Options::default() };
        let cell = Cell::connect(master, options).await.doing(doing)?;
        let mut callers = JoinSet::new();
        for caller in 0..CALLERS {
            let (cell, mut random) = (cell.clone(), Random::new(caller));
            callers.spawn(async move {
                let mut seen = StartSeen::default();
                loop {
                    let path = population.any_path(&mut random);
                    let asked = Instant::now();
                    let open = Open { path, count: 1, ..Open::default() };
                    let answer = cell.ask(open).await?;
                    let now = begun.elapsed();
                    // The first one may have waited for the start, not for the master.
                    if seen.first.is_none() {
                        seen.first = Some(now);
                    } else {
                        seen.latencies.push(asked.elapsed());
                    }
                    let replicas = answer.chunks.first().map_or(0, |chunk| chunk.replicas.len());
                    if replicas == 0 {
                        seen.without_any = now;
                    }
                    if (replicas as u64) < REPLICAS {
                        seen.without_all = now;
                    }
                    let quiet_since = seen.without_all.max(seen.first.unwrap_or(now));
                    if now >= quiet_since + QUIET {
                        return Ok::<StartSeen, BenchCause>(seen);
                    }
                    if now > AT_MOST {
                        let why = "chunks without a location are left";
                        return Err(BenchCause::Part(why.to_owned()));
                    }
                }
            });
        }
        let mut all = StartSeen::default();
        while let Some(seen) = callers.join_next().await {
            all.merge(&seen.doing(doing)?.doing(doing)?);
        }
        Ok(all)
    })
}
