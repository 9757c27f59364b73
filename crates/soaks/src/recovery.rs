//! Recovery as GFS measured it (§6.2.5): a server with gigabytes dies, and every chunk of it is
//! copied from the servers that are left to each other, over links of a laboratory.
//!
//! ```text
//!   rack-a  s01                      holds a replica of every chunk, and dies
//!   rack-b  s02 … s16                hold the others, and take what s01 had
//! ```
//! - RC1: the rate is what all receivers took, from when the server counts as dead to the last
//!   chunk whole; it is set against what their links could take together, or what they are allowed.
//! - RC2: with `--clients` one reads and one appends meanwhile; what they get is set against what
//!   they got before. Copies give way to them, so that no rate is asked of those then.
//!
//! Each figure is a line: what was measured, what is asked, and the verdict.

use crate::heals::priorities::PriorityWatch;
use crate::lab::Lab;
use crate::lab_cell::{LabCell, LabCellPlan};
use crate::load::LoadPlace;
use crate::options::SoakOptions;
use crate::recovery_clients::{ClientRates, TURN_SIZE, measure};
use crate::report::Report;
use crate::source_tree::generate;
use crate::teller::Teller;
use anyhow::{Context, Result, bail};
use cairn_testkit::{Program, await_until};
use std::path::Path;
use std::time::{Duration, Instant};

const SERVERS: usize = 16;
const CLIENTS: u64 = 8;
const CHUNK_SIZE: u64 = 8 << 20;
/// As in a cell where nobody has set it.
const CLONES_PER_SERVER: usize = 2;
/// What TCP carries over a link of 100 Mbit/s: 1448 of 1538 bytes of a frame.
const LINK_BYTES_A_SECOND: f64 = 100e6 / 8.0 * 1448.0 / 1538.0;
/// Of what the links could take together.
const SHARE_MIN: f64 = 0.7;
/// Of the rate allowed.
const ALLOWED_SHARE_MIN: f64 = 0.9;
/// Of what clients get where nothing is copied.
const CLIENTS_SHARE_MIN: f64 = 0.8;
/// From the kill to the first chunk whole, as silence of `dead_ms` begins it.
const FIRST_WITHIN: [f64; 2] = [35.0, 5.0];
/// From the kill until the server counts as dead, by default and in a small cell.
const DEAD_AFTER: [Duration; 2] = [Duration::from_secs(30), Duration::from_secs(4)];
/// Clients are measured for so long where nothing is copied.
const QUIET: Duration = Duration::from_secs(20);
const LOOK_EVERY: Duration = Duration::from_millis(200);
const STORED_WITHIN: Duration = Duration::from_secs(1_200);
const WHOLE_WITHIN: Duration = Duration::from_secs(600);

/// A cell of which one server dies.
#[derive(Debug)]
struct RecoveringCell(LabCell);

impl RecoveringCell {
    fn start(program: Program, lab: Lab, options: &SoakOptions) -> Result<Self> {
        let rate = options.clone_rate;
        let settings = format!("[new_cell]\nchunk_size = {CHUNK_SIZE}\nclone_rate = {rate}\n");
        let rack = |number| if number == 1 { "/rack-a" } else { "/rack-b" };
        let plan = LabCellPlan { name: "recovery", servers: SERVERS, settings: &settings, rack };
        Ok(Self(LabCell::start(program, lab, &plan, options)?))
    }

    /// Chunks that lack replicas.
    fn lacking(&self) -> Result<usize> {
        let address = self.0.processes.address();
        let program = self.0.processes.program();
        let mut command = program.command(["fsck", "--quick", "--json", "--cell", address]);
        // It fails by its exit code where there are any.
        let told = command.output().context("starting fsck")?.stdout;
        Ok(String::from_utf8_lossy(&told).matches("\"goal\"").count())
    }

    /// Stores so many bytes as one file a client, all clients at once.
    ///
    /// A replica of each goes to the first server, whose link is a wide one meanwhile.
    fn store(&self, bytes: u64) -> Result<()> {
        self.0.lab.run(&["slow", "s01", "1gbit"])?;
        let local = self.0.directory().join("local");
        generate(&local, bytes / CLIENTS)?;
        each_client(|client| {
            let (host, to) = (format!("c{:02}", client + 1), format!("/data-{client}"));
            self.0.ask(&host, &["put", "--deadline", "600", &text(&local), &to]).map(drop)
        })?;
        self.0.lab.run(&["slow", "s01", "normal"]).map(drop)
    }

    /// What a client gets that reads, and one that appends, for as long as `meanwhile` takes.
    fn clients(&self, meanwhile: impl FnOnce() -> Result<()>) -> Result<ClientRates> {
        let turn = text(&self.0.directory().join("turn"));
        let back = text(&self.0.directory().join("read"));
        let read = || self.0.ask("c09", &["get", "-f", "/turn", &back]).map(drop);
        let size = ["append", "--record-size", "1048576", "/log", &turn];
        let append = || self.0.ask("c10", &size).map(drop);
        measure(read, append, meanwhile)
    }

    fn size_of(&self, server: usize) -> Result<u64> {
        Ok(size_below(&self.0.processes.data_of(server + 1).join("chunks"))?)
    }
}

/// Does it for all clients at once.
fn each_client(act: impl Fn(u64) -> Result<()> + Sync) -> Result<()> {
    let act = &act;
    std::thread::scope(|scope| {
        let all: Vec<_> = (0..CLIENTS).map(|client| scope.spawn(move || act(client))).collect();
        all.into_iter().try_for_each(|one| match one.join() {
            Ok(done) => done,
            Err(_) => bail!("the thread of a client panicked"),
        })
    })
}

/// Runs it.
///
/// # Errors
/// With whatever did not go as promised.
pub(crate) fn run(program: &Program, options: &SoakOptions, teller: &Teller) -> Result<()> {
    let mut report = Report::default();
    measure_all(program, options, teller, &mut report)?;
    report.verdict()
}

/// The same, as lines of a report.
///
/// # Errors
/// With whatever did not go at all.
pub(crate) fn measure_all(
    program: &Program,
    options: &SoakOptions,
    teller: &Teller,
    report: &mut Report,
) -> Result<()> {
    let lab = options.lab.as_deref().context("it takes --lab PATH, the laboratory's program")?;
    let lab = Lab::up(lab, &["--topology", "gfs"])?;
    let mut cell = RecoveringCell::start(program.clone(), lab, options)?;
    teller.say(format_args!("{SERVERS} chunkservers behind links of 100 Mbit/s"));
    let begun = Instant::now();
    cell.store(options.gigabytes << 30)?;
    if begun.elapsed() > STORED_WITHIN {
        bail!("storing took {} s", begun.elapsed().as_secs());
    }
    if options.clients {
        recover_beside_clients(&mut cell, options, teller, report)?;
    } else {
        let held = cell.size_of(0)?;
        teller.say(format_args!("s01 holds {} MB; it is killed", held / 1_000_000));
        cell.0.processes.chunkservers[0].kill();
        recover(&cell, (held, options), Instant::now(), teller, report)?;
    }
    two_more(&mut cell, teller, report)
}

/// Kills two more; in which order what they held is copied, and whether all of it is there.
fn two_more(cell: &mut RecoveringCell, teller: &Teller, report: &mut Report) -> Result<()> {
    for at in [1, 2] {
        cell.0.processes.chunkservers[at].kill();
    }
    teller.say("two more are killed");
    let address = cell.0.processes.address().to_owned();
    let place = LoadPlace { cell: address, runners: vec![cell.0.lab.runner("c02")] };
    let mut watch = PriorityWatch::start(&place, CLONES_PER_SERVER)?;
    await_until("every chunk is whole", WHOLE_WITHIN, || watch.look(SERVERS - 3))?;
    watch.report(report);
    let compared = each_client(|client| {
        let back = cell.0.directory().join(format!("back-{client}"));
        let (host, from) = (format!("c{:02}", client + 1), format!("/data-{client}"));
        cell.0.ask(&host, &["get", "-f", "--deadline", "600", &from, &text(&back)])?;
        crate::source_tree::same(&cell.0.directory().join("local"), 0, &back).map(drop)
    });
    report.works("two more killed, none lost", compared.map(|()| "every byte right".to_owned()));
    Ok(())
}

/// The same with clients that read and append (RC2).
fn recover_beside_clients(
    cell: &mut RecoveringCell,
    options: &SoakOptions,
    teller: &Teller,
    report: &mut Report,
) -> Result<()> {
    generate(&cell.0.directory().join("turn"), TURN_SIZE)?;
    cell.0.ask("c09", &["put", &text(&cell.0.directory().join("turn")), "/turn"])?;
    let before = cell.clients(|| {
        std::thread::sleep(QUIET);
        Ok(())
    })?;
    let held = cell.size_of(0)?;
    teller.say(format_args!("s01 holds {} MB; it is killed", held / 1_000_000));
    cell.0.processes.chunkservers[0].kill();
    let killed = Instant::now();
    // Until it is dead nothing is copied, and clients have their own troubles.
    await_until("chunks that lack replicas", WHOLE_WITHIN, || {
        std::thread::sleep(LOOK_EVERY);
        Ok::<_, anyhow::Error>(cell.lacking()? > 0)
    })?;
    let during = cell.clients(|| recover(cell, (held, options), killed, teller, report))?;
    let shares = [during.read / before.read, during.append / before.append];
    for (what, share, was) in
        [("reads", shares[0], before.read), ("appends", shares[1], before.append)]
    {
        let line = format!("part of {:.1} MB/s that a client that {what} keeps", was / 1e6);
        report.at_least(&line, CLIENTS_SHARE_MIN, share);
    }
    Ok(())
}

/// Waits until every chunk is whole, and judges how fast that went (RC1).
fn recover(
    cell: &RecoveringCell,
    (held, options): (u64, &SoakOptions),
    killed: Instant,
    teller: &Teller,
    report: &mut Report,
) -> Result<()> {
    let mut most = 0;
    let mut first = None;
    await_until("every chunk is whole", WHOLE_WITHIN, || {
        std::thread::sleep(LOOK_EVERY);
        let lacking = cell.lacking()?;
        if lacking < most && first.is_none() {
            first = Some(Instant::now());
        }
        most = most.max(lacking);
        Ok::<_, anyhow::Error>(most > 0 && lacking == 0)
    })?;
    let first = first.context("some chunk is whole first")?;
    let dead_after = DEAD_AFTER[usize::from(options.small_cell)];
    let took = killed.elapsed().saturating_sub(dead_after).as_secs_f64().max(0.1);
    let links = (SERVERS - 1) as f64;
    let together = LINK_BYTES_A_SECOND * links;
    let rate = held as f64 / took;
    let waited = first.duration_since(killed).as_secs_f64();
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split(' ').next().unwrap_or_default();
    teller.say(format_args!(
        "{most} chunks whole within {took:.1} s: {:.0} MB/s over {links} links; load {load}",
        rate / 1e6
    ));
    let within = FIRST_WITHIN[usize::from(options.small_cell)];
    report.at_most("seconds to the first clone", "s", within, waited);
    if options.clients {
        return Ok(());
    }
    match options.clone_rate {
        0 => report.at_least("part of what the links could take", SHARE_MIN, rate / together),
        limit => {
            let share = rate / (limit as f64 * links);
            report.at_least("part of the rate allowed", ALLOWED_SHARE_MIN, share);
        }
    }
    Ok(())
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

fn size_below(directory: &Path) -> std::io::Result<u64> {
    let mut sum = 0;
    for entry in std::fs::read_dir(directory)? {
        let (entry, path) = entry.map(|entry| (entry.metadata(), entry.path()))?;
        let entry = entry?;
        if entry.is_dir() {
            sum += size_below(&path)?;
        } else if path.extension().is_some_and(|kind| kind == "chunk") {
            sum += entry.len();
        }
    }
    Ok(sum)
}
