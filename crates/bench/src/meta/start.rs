//! A master that is killed and started again: until it answers, until it knows where chunks are.
//!
//! ```text
//!   start ──► first answer ──► a chunk's first replica is known ──► every replica is known
//!             │                     four clients look up files at random all the time
//! ```

use super::figures::{Figure, Figures};
use super::rig::Rig;
use super::watch::watch;
use crate::error::BenchError;
use std::time::{Duration, Instant};

/// The step.
pub(super) fn measure(rig: &mut Rig, figures: &mut Figures<'_>) -> Result<(), BenchError> {
    let begun = Instant::now();
    rig.restart(None)?;
    let seen = watch(rig.address(), rig.population, begun)?;
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
    figures.tell(&Figure { what, value: p99, digits: 2, unit: "ms", wanted: "at most 50" })
}
