//! `soak heals`: everything that issue "It heals" promises, each line on fresh cells of real
//! processes, with what was asked and what was measured.
//!
//! ```text
//!   soak heals                        all that takes seconds or minutes
//!   soak heals kill-to-first-clone    some of them
//!   soak heals recovery --lab PATH    those that want a laboratory
//! ```
//! - HL1: a line holds only by what was seen: bytes compared with the local ones, files on the
//!   servers' disks, what commands tell.
//! - HL2: one check that fails ends none of the others, and the soak fails in the end.

mod backups;
mod deletion;
mod disks;
mod heal_cell;
mod integrity;
mod master_cost;
mod moving;
mod policies;
pub(crate) mod priorities;
mod purge;
mod repair;
mod returning;
mod scrub_cost;
mod seeing;

use crate::options::SoakOptions;
use crate::report::Report;
use crate::teller::Teller;
use anyhow::{Result, bail};
use cairn_testkit::Program;

type Check = fn(&Program, &SoakOptions, &Teller, &mut Report) -> Result<()>;

/// Each by its name, in the order of the issue.
const CHECKS: [(&str, Check); 14] = [
    ("repair", |program, _, teller, report| repair::repair(program, teller, report)),
    ("two-killed", |program, _, _, report| repair::two_killed(program, report)),
    ("returning", |program, _, _, report| returning::returning(program, report)),
    ("deletion", |program, _, _, report| deletion::deletion(program, report)),
    ("backup", |program, _, _, report| backups::backup(program, report)),
    ("policies", |program, _, _, report| policies::policies(program, report)),
    ("disks", |program, _, _, report| disks::disks(program, report)),
    ("integrity", |program, _, _, report| integrity::integrity(program, report)),
    ("jobs", |program, _, _, report| moving::moving(program, report)),
    ("seeing", |program, _, _, report| seeing::seeing(program, report)),
    ("demo", |program, _, _, report| seeing::demo(program, report)),
    ("kill-to-first-clone", |program, _, _, report| {
        repair::first_clone_by_default(program, report)
    }),
    ("purge", purge::purge),
    ("scrub-beside-client", |program, _, teller, report| {
        scrub_cost::scrub_cost(program, teller, report)
    }),
];

/// Those that want a laboratory, hours, or another binary: each is run only by its name.
const BY_NAME: [(&str, Check); 5] = [
    ("recovery", |program, options, teller, report| {
        in_the_lab(program, options, teller, report, (0, false))
    }),
    ("recovery-limited", |program, options, teller, report| {
        in_the_lab(program, options, teller, report, (HALF_A_LINK, false))
    }),
    ("recovery-clients", |program, options, teller, report| {
        in_the_lab(program, options, teller, report, (HALF_A_LINK, true))
    }),
    ("ten-million", master_cost::memory),
    ("as-fast-as", master_cost::as_fast_as),
];

/// Runs those that are named, or all that are not run by name alone.
///
/// # Errors
/// When a line does not hold, or there is no such check.
pub(crate) fn run(program: &Program, options: &SoakOptions, teller: &Teller) -> Result<()> {
    let named: Vec<&str> = options.names.iter().map(String::as_str).collect();
    let all = || CHECKS.into_iter().chain(BY_NAME);
    if let Some(unknown) = named.iter().find(|name| all().all(|(known, _)| known != **name)) {
        let names: Vec<&str> = all().map(|(name, _)| name).collect();
        bail!("no check is called {unknown}; there are {}", names.join(", "));
    }
    let usual = |name: &str| named.is_empty() && CHECKS.iter().any(|(it, _)| *it == name);
    let mut report = Report::default();
    for (name, check) in all().filter(|(name, _)| usual(name) || named.contains(name)) {
        teller.say(name);
        if let Err(error) = check(program, options, teller, &mut report) {
            report.works(name, Err(error));
        }
    }
    teller.say(format_args!("{} lines", report.lines()));
    if report.missed().is_empty() {
        return Ok(());
    }
    bail!("{} do not hold: {}", report.missed().len(), report.missed().join("; "))
}

/// What the paper's throttle is: half of a link.
const HALF_A_LINK: u64 = 6_250_000;

fn in_the_lab(
    program: &Program,
    options: &SoakOptions,
    teller: &Teller,
    report: &mut Report,
    (clone_rate, clients): (u64, bool),
) -> Result<()> {
    let options = SoakOptions { clone_rate, clients, ..options.clone() };
    crate::recovery::measure_all(program, &options, teller, report)
}
