//! A group of three masters beside one that is alone, on this machine, in pairs.
//!
//! ```text
//!   one     ─ look-ups ─ creates ─┐
//!   three   ─ look-ups ─ creates ─┤  take turns at going first
//!   another ─ look-ups ─ creates ─┘  of one: beside the first it shows what a ratio is worth
//!   three   ─ creates, while a shadow is asked how far behind it is
//! ```

use super::arguments::Meta;
use super::figures::{Figure, Figures};
use super::rig::Rig;
use crate::error::{BenchError, Doing};
use crate::load::CallerJob;
use crate::pairs::Series;
use crate::surroundings::Surroundings;
use cairn_client::{Cell, Options, ShadowReads};
use cairn_types::CellPath;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How often a shadow is asked.
const ASK_EVERY: Duration = Duration::from_millis(20);

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum GroupSide {
    One,
    Three,
    OneAgain,
}

const SIDES: [GroupSide; 3] = [GroupSide::One, GroupSide::Three, GroupSide::OneAgain];

/// The step.
pub(super) fn measure(
    meta: &Meta,
    around: &Surroundings,
    figures: &mut Figures<'_>,
) -> Result<(), BenchError> {
    let filled = |name: &str| Rig::filled(around, name, meta.population(), figures);
    let (one, again) = (filled("one")?, filled("again")?);
    let mut three = filled("three")?;
    let took = three.grow(around)?.as_secs_f64();
    let tell = |what: &str, value: f64, digits: usize, unit: &str, wanted: &str| {
        figures.tell(&Figure { what, value, digits, unit, wanted })
    };
    tell("two empty members have all and vote", took, 1, "s", "at most 10")?;
    let (mut looked, mut created) = (Ratios::default(), Ratios::default());
    for round in 0..meta.rounds {
        let mut sides = SIDES;
        sides.rotate_left(usize::try_from(round).unwrap_or_default() % SIDES.len());
        let (mut rates, mut creates) = (Vec::new(), Vec::new());
        for side in sides {
            let rig = match side {
                GroupSide::One => &one,
                GroupSide::Three => &three,
                GroupSide::OneAgain => &again,
            };
            let (population, operations) = (rig.population, meta.operations * 5);
            let job = CallerJob::LookUp { population, operations, at_most: None };
            rates.push((side, rig.run(&load(meta, rig, job))?.rate()));
            let creating = create(meta, format!("/bench/{side:?}-{round}"));
            creates.push((side, rig.run(&load(meta, rig, creating))?.rate()));
        }
        looked.push(&rates);
        created.push(&creates);
    }
    for (what, ratios, wanted) in
        [("look-ups", &looked, "at least 0.90"), ("creates", &created, "at least 0.50")]
    {
        let each = |suffix: &str| format!("{what}, {suffix}");
        tell(&each("of one"), ratios.one.median(), 0, "a second", "")?;
        tell(&each("three beside one"), ratios.three.median(), 2, "×", wanted)?;
        tell(&each("one beside another one"), ratios.again.median(), 2, "×", "1.00")?;
    }
    let lags = lags(meta, &three)?;
    let p99 = lags.quantile(0.99);
    tell("a shadow's lag under creates, p50", lags.median(), 0, "ms", "")?;
    tell("a shadow's lag under creates, p99", p99, 0, "ms", "at most 200")
}

fn create(meta: &Meta, root: String) -> CallerJob {
    let (naming, operations, batch) = (meta.names, meta.operations, meta.batch);
    CallerJob::Create { root, naming, operations, batch, at_most: None }
}

fn load(meta: &Meta, rig: &Rig, job: CallerJob) -> crate::load::Load {
    rig.load(job, meta.processes(), meta.callers())
}

/// Rates of one, and of the others as parts of it, round by round.
#[derive(Debug, Default)]
struct Ratios {
    one: Series,
    three: Series,
    again: Series,
}

impl Ratios {
    fn push(&mut self, rates: &[(GroupSide, f64)]) {
        let rate = |side| rates.iter().find(|(of, _)| *of == side).expect("each was run").1;
        let one = rate(GroupSide::One);
        self.one.push(one);
        self.three.push(rate(GroupSide::Three) / one);
        self.again.push(rate(GroupSide::OneAgain) / one);
    }
}

/// How far behind a shadow says that it may be while names are created: milliseconds. Apart from
/// what is compared: who asks takes time of these processors.
fn lags(meta: &Meta, three: &Rig) -> Result<Series, BenchError> {
    let shadow = three.company().next().expect("it has grown").to_owned();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let asking = scope.spawn(|| ask_until(&over, &shadow, &three.options));
        let run = |round| {
            let creating = create(meta, format!("/bench/lag-{round}"));
            three.run(&load(meta, three, creating)).map(drop)
        };
        let done = (0..meta.rounds).try_for_each(run);
        over.store(true, Ordering::Relaxed);
        let told = asking.join().expect("it does not panic")?;
        done.map(|()| Series::of(told.into_iter()))
    })
}

fn ask_until(over: &AtomicBool, shadow: &str, options: &Options) -> Result<Vec<f64>, BenchError> {
    let doing = || format!("asking the shadow master at {shadow}");
    let runtime = crate::runtime::one_thread().doing(doing)?;
    let mut lags = Vec::new();
    runtime.block_on(async {
        while !over.load(Ordering::Relaxed) {
            // A client of its own each time: one remembers the worst that it heard.
            let options = Options { shadow_reads: ShadowReads::First, ..options.clone() };
            let cell = Cell::connect(shadow, options).await.doing(doing)?;
            cell.stat(&CellPath::root()).await.doing(doing)?;
            if let Some(notice) = cell.shadow_notice().await.doing(doing)?
                && let Some(behind) = notice.behind
            {
                lags.push(behind.as_secs_f64() * 1e3);
            }
            tokio::time::sleep(ASK_EVERY).await;
        }
        Ok(lags)
    })
}
