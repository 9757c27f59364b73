//! `cairn bench meta`: everything that a master alone is asked to do, with as many files as wanted.
//!
//! ```text
//!   bench-seed     ──► a master's directory: records applied, one checkpoint
//!   bench-servers  ──► sixteen chunkservers without bytes: the real state machine over no disk
//!   bench-load     ──► client processes
//! ```
//! The steps, each in a file of its own: `memory`, `start`, `rates` (look-ups, changes), `quotas`,
//! `snapshots`, `mixes`, `listing`, `checkpoints`, `groups`, `growth`. HDFS is run beside by
//! scripts (`hdfs`).

mod arguments;
mod checkpoints;
mod figures;
mod groups;
mod growth;
mod hdfs;
mod hollow_servers;
mod listing;
mod memory;
mod mixes;
mod plot;
pub(crate) mod population;
mod quotas;
mod rates;
mod rig;
mod seeding;
mod snapshots;
mod start;
mod watch;

pub(crate) use arguments::Meta;
pub(crate) use figures::{Figure, Figures};
pub(crate) use hollow_servers::ServersPart;
pub(crate) use rig::Rig;
pub(crate) use seeding::SeedPart;

use crate::error::BenchError;
use crate::surroundings::Surroundings;
use arguments::MetaStep;

/// Says before anything is begun what cannot be done.
///
/// # Errors
/// Where a peer is missing.
pub(crate) fn check(meta: &Meta) -> Result<(), BenchError> {
    meta.hdfs_scripts().map_or(Ok(()), hdfs::check)
}

/// Runs the steps.
///
/// # Errors
/// With what was in the way.
pub(crate) fn run(meta: &Meta, around: &Surroundings) -> Result<(), BenchError> {
    let mut figures = Figures::new(&around.printer);
    if let Some(scripts) = meta.hdfs_scripts() {
        figures.beside(hdfs::measure(scripts, meta.files)?);
    }
    figures.title(meta.files, meta.names)?;
    let figures = &mut figures;
    // One filled master serves all steps that only add to it.
    let shared = &mut SharedRig { meta, around, rig: None };
    for step in meta.steps() {
        match step {
            MetaStep::Memory => shared.rig = Some(memory::measure(meta, around, figures)?),
            MetaStep::Start => start::measure(shared.full(figures)?, figures)?,
            MetaStep::LookUps => rates::look_ups(meta, shared.full(figures)?, figures)?,
            MetaStep::Changes => rates::changes(meta, shared.full(figures)?, figures)?,
            MetaStep::Quotas => quotas::measure(meta, shared.full(figures)?, figures)?,
            MetaStep::Snapshots => snapshots::measure(meta, shared.full(figures)?, figures)?,
            MetaStep::Mix => mixes::measure(meta, shared.full(figures)?, figures)?,
            MetaStep::List => listing::measure(meta, around, figures)?,
            MetaStep::Checkpoint => checkpoints::measure(meta, shared.full(figures)?, figures)?,
            MetaStep::Groups => groups::measure(meta, around, figures)?,
            MetaStep::Growth => growth::measure(meta, around, figures)?,
        }
    }
    Ok(())
}

/// The filled master that several steps have in common.
struct SharedRig<'a> {
    meta: &'a Meta,
    around: &'a Surroundings,
    rig: Option<Rig>,
}

impl SharedRig<'_> {
    /// It, filled when it is first asked for.
    fn full(&mut self, figures: &Figures<'_>) -> Result<&mut Rig, BenchError> {
        match &mut self.rig {
            Some(rig) => Ok(rig),
            none => {
                let population = self.meta.population();
                Ok(none.insert(Rig::filled(self.around, "cell", population, figures)?))
            }
        }
    }
}
