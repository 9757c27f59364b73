//! What quotas and permissions cost: creations and look-ups by the superuser with no quota, by the
//! superuser with one, and by somebody else with one, in turn.
//!
//! The quota is the root's and reached by nothing, so that all that is created is checked against
//! it and counted in it. The superuser is asked for no permission; of anybody else each directory
//! on the way is looked at. What a ratio is worth is told by the first side, run twice a round.

use super::arguments::Meta;
use super::figures::{Figure, Figures};
use super::rates::{create, tell_rounds};
use super::rig::Rig;
use crate::error::{BenchError, Doing};
use crate::load::{CallerJob, Load, LoadFigures};
use crate::pairs::Series;
use cairn_client::{AttributeChange, CellPath, QuotaChange};

/// Somebody who is not the superuser, as `--as` has it.
const SOMEBODY: &str = "1000:100";

/// Whom creations and look-ups are by, and whether a quota holds.
#[derive(Clone, Copy)]
struct QuotaSide {
    name: &'static str,
    title: &'static str,
    limited: bool,
    who: Option<&'static str>,
}

const SIDES: [QuotaSide; 4] = [
    QuotaSide { name: "free", title: "no quota", limited: false, who: None },
    QuotaSide { name: "again", title: "no quota, again", limited: false, who: None },
    QuotaSide { name: "limited", title: "with a quota", limited: true, who: None },
    QuotaSide {
        name: "somebody",
        title: "with a quota and permissions",
        limited: true,
        who: Some(SOMEBODY),
    },
];

fn limit(rig: &Rig, limited: bool) -> Result<(), BenchError> {
    let doing = || "setting a quota".to_owned();
    let most = limited.then_some(1 << 50);
    let change = QuotaChange { names: most, bytes: most, clears: !limited };
    rig.with_cell(doing, |cell| async move {
        let root = CellPath::parse("/").expect("a path");
        cell.set_quota(&root, change).await.doing(doing)
    })
}

/// A directory for one run, of whoever creates in it.
fn place(rig: &Rig, path: &str, side: QuotaSide) -> Result<(), BenchError> {
    let doing = || format!("making {path}");
    let path = CellPath::parse(path).expect("a path");
    rig.with_cell(doing, |cell| async move {
        cell.make_directory(&path, true).await.doing(doing)?;
        if side.who.is_some() {
            let (owner, group) = (Some(1000), Some(100));
            let change = AttributeChange { owner, group, ..AttributeChange::default() };
            cell.set_attributes(&path, change).await.doing(doing)?;
        }
        Ok(())
    })
}

/// The step.
pub(super) fn measure(meta: &Meta, rig: &Rig, figures: &mut Figures<'_>) -> Result<(), BenchError> {
    let (population, operations) = (rig.population, meta.operations * 5);
    let run = |job, side: QuotaSide| {
        let load = rig.load(job, meta.processes(), meta.callers());
        rig.run(&Load { by: side.who, ..load })
    };
    let (mut creates, mut looks) = ([(); 4].map(|()| Vec::new()), [(); 4].map(|()| Vec::new()));
    for round in 0..meta.rounds {
        // None comes first always: what the first leaves behind would be one other's alone.
        let first = usize::try_from(round).unwrap_or_default() % SIDES.len();
        for at in (first..SIDES.len()).chain(0..first) {
            let side = SIDES[at];
            limit(rig, side.limited)?;
            let root = format!("/bench/{}-{round}", side.name);
            place(rig, &root, side)?;
            creates[at].push(run(create(meta.names, &root, meta), side)?);
            looks[at].push(run(CallerJob::LookUp { population, operations, at_most: None }, side)?);
        }
    }
    limit(rig, false)?;
    for (what, sides) in [("creates", creates), ("look-ups", looks)] {
        for (side, rounds) in SIDES.iter().zip(&sides) {
            tell_rounds(&format!("{what}, {}", side.title), rounds, ("", ""), figures)?;
        }
        for (side, rounds) in SIDES.iter().zip(&sides).skip(1) {
            let wanted = if side.limited { "at least 0.95" } else { "" };
            tell_ratio(&format!("{what} {}", side.title), (rounds, &sides[0]), wanted, figures)?;
        }
    }
    Ok(())
}

/// The rates beside those of the first side, of each round alone: a disk that is slow for some of
/// them is so for all sides.
fn tell_ratio(
    what: &str,
    (with, without): (&[LoadFigures], &[LoadFigures]),
    wanted: &str,
    figures: &Figures<'_>,
) -> Result<(), BenchError> {
    let pairs = with.iter().zip(without).map(|(with, without)| with.rate() / without.rate());
    let (what, value) = (format!("{what}, beside without"), Series::of(pairs).median());
    figures.tell(&Figure { what: &what, value, digits: 2, unit: "times", wanted })
}
