//! A master that is killed and started again: until it answers, until it knows where chunks are.
//!
//! ```text
//!   start ──► first answer ──► a chunk's first replica is known ──► every replica is known
//!             │                     four clients look up files at random all the time
//! ```

use super::figures::{Figure, Figures};
use super::rig::Rig;
use crate::bench::latencies::Latencies;
use crate::bench::load::MasterLink;
use crate::complaint::{Cause, Complaint, Doing};
use crate::exit_codes::Exit;
use cairn_client::Error;
use cairn_protocol::{Open, Response};
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
struct Seen {
    first: Option<Duration>,
    /// The end of the last look-up that was told of no replica, and of fewer than three.
    without_any: Duration,
    without_all: Duration,
    latencies: Latencies,
}

impl Seen {
    fn merge(&mut self, other: &Self) {
        self.first = [self.first, other.first].into_iter().flatten().min();
        self.without_any = self.without_any.max(other.without_any);
        self.without_all = self.without_all.max(other.without_all);
        self.latencies.merge(&other.latencies);
    }
}

/// The step.
pub(super) fn measure(rig: &mut Rig<'_>, figures: &mut Figures<'_>) -> Result<(), Complaint> {
    let begun = Instant::now();
    rig.restart(None)?;
    let seen = watch(rig, begun)?;
    let tell =
        |what, value, unit, wanted| figures.tell(&Figure { what, value, digits: 0, unit, wanted });
    let millis = |span: Duration| span.as_secs_f64() * 1e3;
    let first = millis(seen.first.unwrap_or_default());
    tell("start until a look-up is answered", first, "ms", "at most 1000")?;
    let (any, all) = (millis(seen.without_any), millis(seen.without_all));
    tell("start until every chunk has a location", any.max(first), "ms", "at most 10000")?;
    tell("start until every replica is known", all.max(first), "ms", "")?;
    let p99 = seen.latencies.quantile_us(0.99) / 1e3;
    let what = "look-ups meanwhile, p99";
    figures.tell(&Figure { what, value: p99, digits: 2, unit: "ms", wanted: "at most 50" })?;
    rig.wait_until_told()
}

fn watch(rig: &Rig<'_>, begun: Instant) -> Result<Seen, Complaint> {
    let doing = || "watching the master start".to_owned();
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().doing(doing)?;
    let link = MasterLink::start(&rig.master.address, AT_MOST).doing(doing)?;
    let population = rig.population;
    runtime.block_on(async {
        let mut callers = JoinSet::new();
        for caller in 0..CALLERS {
            let (link, mut random) = (link.clone(), Random::new(caller));
            callers.spawn(async move {
                let mut seen = Seen::default();
                while begun.elapsed() < seen.without_all + QUIET + seen.first.unwrap_or_default() {
                    let path = population.any_path(&mut random);
                    let asked = Instant::now();
                    let open = Open { path, count: 1, ..Open::default() };
                    let answer = link.ask(open).await.map_err(Error::from)?;
                    let now = begun.elapsed();
                    // The first one waited for the start, not for the master.
                    if seen.first.is_none() {
                        seen.first = Some(now);
                    } else {
                        seen.latencies.push(asked.elapsed());
                    }
                    let Response::Open(answer) = answer else { continue };
                    let replicas = answer.chunks.first().map_or(0, |chunk| chunk.replicas.len());
                    if replicas == 0 {
                        seen.without_any = now;
                    }
                    if replicas < 3 {
                        seen.without_all = now;
                    }
                    if now > AT_MOST {
                        let why = "chunks without a location are left";
                        return Err(Cause::new(Exit::Failed, why, ""));
                    }
                }
                Ok::<Seen, Cause>(seen)
            });
        }
        let mut all = Seen::default();
        while let Some(seen) = callers.join_next().await {
            let gone =
                |error: tokio::task::JoinError| Cause::new(Exit::Failed, error.to_string(), "");
            all.merge(&seen.map_err(gone).doing(doing)?.doing(doing)?);
        }
        Ok(all)
    })
}
