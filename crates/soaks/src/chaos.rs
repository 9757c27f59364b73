//! Everything at once, for minutes: servers are killed and stopped, bits flipped, chunk files
//! removed, a disk filled and, in a laboratory, links cut, while clients append and files come and
//! go.
//!
//! - H1: what destroys bytes for good strikes one server in a round, so that no chunk loses more
//!   than one replica before the cell had time to heal; processes die anywhere.
//! - H2: a round ends with every process running, and the cell has to be healthy by itself then;
//!   what was destroyed and nobody has met yet, `fsck --data` finds, and it is repaired: a second
//!   one finds nothing. Where several of a chunk's servers were dead at once, one that comes back
//!   with more than the set went on with keeps it for a person (R28): the soak lets go of that and
//!   of nothing else, says how often, and H3 tells whether anything acknowledged was in it.
//! - H3: every acknowledged record of every round is read again in the end, and every file.

use crate::cell::{SoakCell, await_nothing_found, findings, told};
use crate::chaos_faults::{ChaosFault, Wreckage};
use crate::file_workload::FileWorkload;
use crate::load::{Appended, Appenders, LoadPlace, Readers};
use crate::options::SoakOptions;
use crate::teller::Teller;
use anyhow::{Context, Result, bail};
use cairn_testkit::{CellProcesses, ServerProcess, await_until};
use cairn_types::Random;
use serde_json::Value;
use std::time::{Duration, Instant};

/// How long faults go on in a round.
const ROUND: Duration = Duration::from_secs(40);
/// How long a cell may take from the end of a round's faults until it is healthy.
const HEALTHY_WITHIN: Duration = Duration::from_secs(180);

/// Runs it.
///
/// # Errors
/// With whatever did not go as promised.
pub(crate) fn run(soak: &mut SoakCell, options: &SoakOptions, teller: &Teller) -> Result<()> {
    let mut random = Random::new(options.seed);
    teller.say(format_args!("seed {}, {} minutes", options.seed, options.minutes));
    if soak.disk.is_none() {
        teller.say("no disk is filled: this user may not mount, or it is a laboratory");
    }
    soak.processes.ask(&["mkdir", "/files"])?;
    let (program, address) = (soak.processes.program().clone(), soak.place.cell.clone());
    let files = FileWorkload::start(program, &address, options.seed);
    let begun = Instant::now();
    let mut rounds: Vec<Appended> = Vec::new();
    let mut longest = Duration::ZERO;
    while rounds.is_empty() || begun.elapsed() < Duration::from_secs(60 * options.minutes) {
        let (appended, healed) = round(soak, rounds.len(), options, &mut random, teller)
            .with_context(|| format!("round {}", rounds.len() + 1))?;
        longest = longest.max(healed);
        soak.processes.ask(&["mv", "/soak", &format!("/soak-{}", rounds.len())])?;
        rounds.push(appended);
        files.check().context("files that came and went")?;
    }
    let counts = files.end()?;
    teller.say(format_args!(
        "{} files stored, {} read back as they were, {} moved, {} removed; {} commands came to \
         nothing while servers were away",
        counts.stored, counts.read, counts.moved, counts.removed, counts.unanswered
    ));
    for (number, appended) in rounds.iter().enumerate() {
        let cell = &soak.processes;
        cell.ask(&["mv", &format!("/soak-{number}"), "/soak"])?;
        Readers::start(&soak.place, "read")?.judge(appended, teller)?;
        cell.ask(&["mv", "/soak", &format!("/soak-{number}")])?;
    }
    teller.say(format_args!(
        "{} rounds; healthy {:.1} s after the last fault of a round at the latest",
        rounds.len(),
        longest.as_secs_f64()
    ));
    Ok(())
}

/// One round; what was appended in it, and how long the cell took to be healthy afterwards.
fn round(
    soak: &mut SoakCell,
    number: usize,
    options: &SoakOptions,
    random: &mut Random,
    teller: &Teller,
) -> Result<(Appended, Duration)> {
    soak.processes.ask(&["mkdir", "/soak"])?;
    let place: LoadPlace = soak.place.clone();
    let mut appenders = Appenders::start(&place, [options.records, options.large_records])?;
    let followers = Readers::start(&place, "follow")?;
    appenders.go()?;
    let servers = soak.processes.chunkservers.len();
    let wreckage = Wreckage::on(random.below(servers as u64) as usize);
    let begun = Instant::now();
    let mut told: Vec<String> = Vec::new();
    while begun.elapsed() < ROUND {
        let fault = ChaosFault::draw(random, soak);
        let done = fault.carry_out(soak, &wreckage, random);
        told.push(done.with_context(|| format!("{fault:?} after {}", told.join(", ")))?);
    }
    let told = told.join(", ");
    appenders.stop()?;
    // What was done to its journal, a start finds.
    soak.processes.chunkservers[wreckage.server].kill();
    soak.processes.chunkservers[wreckage.server].restart()?;
    let (healed, kept) = heal(&soak.processes).with_context(|| format!("after {told}"))?;
    teller.say(format_args!(
        "{told}; healthy after {:.1} s; {kept} chunks kept for a person, and let go of",
        healed.as_secs_f64()
    ));
    let reports = soak.processes.directory().join(format!("round-{number}"));
    std::fs::create_dir(&reports)?;
    let appended = appenders.finish(&reports)?;
    followers.judge(&appended, teller)?;
    if !soak.processes.chunkservers.iter_mut().all(ServerProcess::runs) {
        bail!("a chunkserver has ended by itself");
    }
    Ok((appended, healed))
}

/// Lets go, as a person does, of what holds more than a set that was decided on, and of nothing
/// else: what the master's log does not know is a failure. How many there were.
fn let_go_of_kept(cell: &CellProcesses) -> Result<usize> {
    let lost = told(cell, &["lost"])?;
    for chunk in &lost {
        let handle = chunk["handle"].as_str().context("a handle")?;
        // That all is not well it says by its exit code, too.
        let explain = ["explain", handle, "--cell", cell.address()];
        let output = cell.program().command(explain).output().context("starting cairn")?;
        let why = String::from_utf8_lossy(&output.stdout);
        if !why.contains("keeps more of it than the set had") {
            bail!("{handle} is kept, and not for what a decision left out: {why}");
        }
        cell.ask(&["lost", "--let-go", handle])?;
    }
    Ok(lost.len())
}

/// Waits until the cell is healthy, and has it look at every byte (H2); how long the first took,
/// and how many chunks were kept for a person.
fn heal(cell: &CellProcesses) -> Result<(Duration, usize)> {
    let calm = Instant::now();
    let healthy = || {
        await_until("a healthy cell", HEALTHY_WITHIN, || {
            Ok::<_, anyhow::Error>(cell.ask(&["status", "--check"]).is_ok())
        })
        .with_context(|| last_words(cell))
    };
    await_until("what is kept for a person and nothing else", HEALTHY_WITHIN, || {
        let status: Value = serde_json::from_str(&cell.ask(&["status", "--json"])?)?;
        let reasons = status["reasons"].as_array().context("reasons")?;
        let is_kept = |it: &Value| it.as_str().is_some_and(|it| it.starts_with("UNKNOWN_CHUNKS"));
        Ok::<_, anyhow::Error>(reasons.iter().all(is_kept))
    })
    .with_context(|| last_words(cell))?;
    let kept = let_go_of_kept(cell)?;
    healthy()?;
    let healed = calm.elapsed();
    let repaired = cell.ask(&["fsck", "--data", "--repair", "--deadline", "180"]);
    repaired.with_context(|| format!("{:?}; {}", findings(cell, &[]), last_words(cell)))?;
    healthy()?;
    await_nothing_found(cell, HEALTHY_WITHIN)?;
    Ok((healed, kept))
}

/// What the cell says of itself.
fn last_words(cell: &CellProcesses) -> String {
    cell.ask(&["status"]).unwrap_or_else(|error| error.to_string())
}
