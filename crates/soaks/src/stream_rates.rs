//! What a stream carries over the links of a laboratory, beside what the laboratory itself carries
//! there (row B7; TFS §3).
//!
//! ```text
//!   gfs   c01 … c16 ── 100 Mbit/s ── s01 … s16     16 producers on 16 hosts, one stream
//!   tfs   c01       ── 1 Gbit/s ──── s01 … s09     1 and 10 producers, and readers, on one host
//!         c01 … c04 ── 1 Gbit/s ──── s01 … s09     4 producers on 4 hosts: what a GiB costs
//! ```
//! - SR1: the ceiling is the laboratory's own generator, which keeps nothing, between the same
//!   hosts: its median, measured before the cell is there and again when it is gone; the mean of
//!   the two.
//! - SR2: a rate counts all bytes, over the time from when the first process is started to when the
//!   last has ended.
//! - SR3: of producers the rate is judged that all have together while they are at work, as the
//!   stream's length tells between a twentieth and three fifths of all bytes: the laboratory's
//!   generator has no beginning and no end either. The other is told beside it.
//! - SR4: how long a stream was, and when, is both told by the master: the time of the commit that
//!   made it so long. By the looker's own clock a look that waited, behind the data on a full link
//!   or for a core, told rates of one and a half times what that link carries. Of a GFS file the
//!   two are not of one moment: its rate is told as a whole (SR2).
//! - SR5: from several hosts this machine's cores are the limit, which stand for those of all:
//!   what a GiB takes of them is told, beside what it takes of the laboratory's generator. That
//!   keeps nothing on disks and sums nothing, so nothing is asked of the two: the bare chain, which
//!   keeps what it is sent, is that of `cairn bench streams`.
//!
//! Each figure is a line: what was measured, what is asked, and the verdict.

use crate::lab::Lab;
use crate::lab_cell::{LabCell, LabCellPlan};
use crate::options::SoakOptions;
use crate::report::Report;
use crate::source_tree::generate;
use crate::teller::Teller;
use anyhow::{Context, Result, bail};
use cairn_testkit::Program;
use serde_json::Value;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Bytes of a record of a stream.
const RECORD_SIZE: u64 = 64 << 10;
/// Bytes of a record of the GFS file.
const FILE_RECORD_SIZE: u64 = 1 << 20;
/// What a producer appends on links of 100 Mbit/s, and to the GFS file.
const SLOW_SIZE: u64 = 96 << 20;
const FILE_SIZE: u64 = 8 << 20;
/// What all together append, and each reader reads, at 1 Gbit/s.
const FAST_SIZE: u64 = 1280 << 20;
/// How often it is asked how long a stream is, and between which parts of all its bytes it is
/// judged, in percent (SR3).
const LOOK_EVERY: Duration = Duration::from_millis(250);
const JUDGED_PERCENT: [u64; 2] = [5, 60];
/// Of the ceiling.
const SLOW_SHARE: f64 = 0.9;
const FAST_SHARE: f64 = 0.97;
/// How long the laboratory's own generator runs each time, and how often.
const CEILING_SECONDS: &str = "4";
const CEILING_RUNS: &str = "3";

/// Runs it: both topologies, or those named.
///
/// # Errors
/// With whatever did not go as asked.
pub(crate) fn run(program: &Program, options: &SoakOptions, teller: &Teller) -> Result<()> {
    let path = options.lab.as_deref().context("it takes --lab PATH, the laboratory's program")?;
    if let Some(other) = options.names.iter().find(|it| !["gfs", "tfs"].contains(&it.as_str())) {
        bail!("{other}: there are gfs and tfs");
    }
    let mut report = Report::default();
    for (name, measure) in [("gfs", gfs as Measure), ("tfs", tfs)] {
        if options.names.is_empty() || options.names.iter().any(|it| it == name) {
            measure(path, (program, options), teller, &mut report)?;
        }
    }
    report.verdict()
}

type Measure = fn(&str, (&Program, &SoakOptions), &Teller, &mut Report) -> Result<()>;

/// What the laboratory's own generator carries.
#[derive(Clone, Copy, Debug)]
struct Pattern {
    name: &'static str,
    clients: &'static str,
    streams: &'static str,
}

/// A rate, and what it costs.
#[derive(Clone, Copy, Debug)]
struct Carried {
    /// MB/s.
    rate: f64,
    /// Seconds of a core for a GiB, of all that ran on the machine.
    cpu: f64,
}

impl Carried {
    fn new(rate: f64, cores: f64) -> Self {
        Self { rate, cpu: cores * (1_u64 << 30) as f64 / 1e6 / rate }
    }
}

impl Pattern {
    /// The median.
    fn carries(&self, lab: &Lab) -> Result<Carried> {
        let words = ["limits", "--patterns", self.name, "--counts", self.clients];
        let times = ["--streams", self.streams, "--seconds", CEILING_SECONDS];
        let told = lab.run(&[&words[..], &times, &["--repeat", CEILING_RUNS]].concat())?;
        let told: Value = serde_json::from_str(&told).context("limits as JSON")?;
        let told = &told["results"][0];
        let percent = |name: &str| told["machine_cpu_percent"][name].as_f64().context("its CPU");
        let busy = percent("user")? + percent("system")? + percent("softirq")?;
        let rate = told["measured_mb_s"].as_f64().context("a rate")?;
        Ok(Carried::new(rate, busy / 100.0))
    }
}

/// A figure to be set against a ceiling.
#[derive(Debug)]
struct RateFigure {
    what: &'static str,
    pattern: Pattern,
    asked: f64,
    /// MB/s before the cell was there.
    before: f64,
    /// MB/s of the stream.
    rate: f64,
}

impl RateFigure {
    fn new(what: &'static str, pattern: Pattern, asked: f64, lab: &Lab) -> Result<Self> {
        Ok(Self { what, pattern, asked, before: pattern.carries(lab)?.rate, rate: 0.0 })
    }

    /// SR1
    fn judge(&self, lab: &Lab, report: &mut Report) -> Result<()> {
        let ceiling = f64::midpoint(self.before, self.pattern.carries(lab)?.rate);
        let what = format!("{}: {:.1} MB/s, part of {ceiling:.1}", self.what, self.rate);
        report.at_least(&what, self.asked, self.rate / ceiling);
        Ok(())
    }
}

/// Sixteen hosts with a producer each, and the same hosts with one GFS file.
fn gfs(
    path: &str,
    (program, options): (&Program, &SoakOptions),
    teller: &Teller,
    report: &mut Report,
) -> Result<()> {
    const HOSTS: usize = 16;
    let lab = Lab::up(path, &["--topology", "gfs"])?;
    let pattern = Pattern { name: "write", clients: "16", streams: "1" };
    let what = "gfs: 16 producers on 16 hosts";
    let mut figure = RateFigure::new(what, pattern, SLOW_SHARE, &lab)?;
    let plan = LabCellPlan { name: "gfs", servers: HOSTS, settings: "", rack: |_| "/a" };
    let cell = LabCell::start(program.clone(), lab, &plan, options)?;
    let host = |number: usize| format!("c{:02}", number + 1);
    let sizes = (HOSTS, SLOW_SIZE, RECORD_SIZE);
    figure.rate = appended_to_stream(&cell, "/stream", host, sizes, teller)?;
    let of_file =
        appended(&cell, ("/file", GFS_FILE), host, (HOSTS, FILE_SIZE, FILE_RECORD_SIZE), teller)?;
    teller.say(format_args!("one GFS file from the same hosts: {:.1} MB/s", of_file.rate));
    figure.judge(&alone(cell), report)
}

/// One host, with producers and then with readers; and producers on several.
fn tfs(
    path: &str,
    (program, options): (&Program, &SoakOptions),
    teller: &Teller,
    report: &mut Report,
) -> Result<()> {
    const SERVERS: usize = 9;
    const HOSTS: usize = 4;
    let lab = Lab::up(path, &["--topology", "tfs", "--clients", &HOSTS.to_string()])?;
    let pattern = |name, streams| Pattern { name, clients: "1", streams };
    let mut figures = [
        RateFigure::new("tfs: 1 producer", pattern("write", "1"), FAST_SHARE, &lab)?,
        RateFigure::new("tfs: 10 producers on a host", pattern("write", "10"), FAST_SHARE, &lab)?,
        RateFigure::new("tfs: 1 reader", pattern("read", "1"), FAST_SHARE, &lab)?,
        RateFigure::new("tfs: 10 readers on a host", pattern("read", "10"), FAST_SHARE, &lab)?,
    ];
    let several = Pattern { name: "write", clients: "4", streams: "1" };
    let before = several.carries(&lab)?;
    let plan = LabCellPlan { name: "tfs", servers: SERVERS, settings: "", rack: |_| "/a" };
    let cell = LabCell::start(program.clone(), lab, &plan, options)?;
    let host = |_| "c01".to_owned();
    let [one, ten, read_by_one, read_by_ten] = &mut figures;
    one.rate = appended_to_stream(&cell, "/one", host, (1, FAST_SIZE, RECORD_SIZE), teller)?;
    ten.rate = appended_to_stream(&cell, "/ten", host, (10, FAST_SIZE / 10, RECORD_SIZE), teller)?;
    read_by_one.rate = read(&cell, "/ten", (1, FAST_SIZE), teller)?;
    read_by_ten.rate = read(&cell, "/ten", (10, FAST_SIZE), teller)?;
    let each = |number: usize| format!("c{:02}", number + 1);
    let sizes = (HOSTS, FAST_SIZE / HOSTS as u64, RECORD_SIZE);
    let from_several = appended(&cell, ("/several", STREAM), each, sizes, teller)?;
    let lab = alone(cell);
    figures.iter().try_for_each(|figure| figure.judge(&lab, report))?;
    // SR5
    let floor = f64::midpoint(before.cpu, several.carries(&lab)?.cpu);
    let Carried { rate, cpu } = from_several;
    teller.say(format_args!(
        "{HOSTS} producers on {HOSTS} hosts: {rate:.1} MB/s, {cpu:.1} s of a core for a GiB; the \
         laboratory's generator {floor:.1}"
    ));
    Ok(())
}

/// The laboratory, when the cell in it has ended.
fn alone(cell: LabCell) -> Lab {
    let LabCell { processes, lab, .. } = cell;
    drop(processes);
    lab
}

/// What is appended to is made so.
const STREAM: [&str; 2] = ["--layout", "stream"];
const GFS_FILE: [&str; 2] = ["--content", "records"];

/// So many clients append so many bytes each, in records of a size, to what is made for it (SR2).
fn appended(
    cell: &LabCell,
    (to, made): (&str, [&str; 2]),
    host: impl Fn(usize) -> String,
    (clients, size, record_size): (usize, u64, u64),
    teller: &Teller,
) -> Result<Carried> {
    cell.ask("c01", &["create", made[0], made[1], to])?;
    let local = cell.directory().join(format!("local{}", to.replace('/', "-")));
    generate(&local, size)?;
    let command = |number: usize| {
        let (record_size, producer) = (record_size.to_string(), format!("p{number:02}"));
        let words = ["append", "--deadline", "120", "--record-size", &record_size];
        let names = ["--producer", &producer, to, text(&local)];
        (host(number), words.iter().chain(&names).map(|it| (*it).to_owned()).collect())
    };
    let commands: Vec<(String, Vec<String>)> = (0..clients).map(command).collect();
    let all = size * clients as u64;
    let carried = timed(cell, &commands, all, teller, to)?;
    let (_, length) = length_of(cell, to)?;
    if length < all {
        bail!("{to} holds {length} bytes of {all}");
    }
    Ok(carried)
}

/// The same to a stream; MB/s while all are at work, where that could be told (SR3).
fn appended_to_stream(
    cell: &LabCell,
    to: &str,
    host: impl Fn(usize) -> String,
    sizes: (usize, u64, u64),
    teller: &Teller,
) -> Result<f64> {
    let has_ended = AtomicBool::new(false);
    let (rate, seen) = std::thread::scope(|scope| {
        let looks = scope.spawn(|| lengths(cell, to, &has_ended));
        let rate = appended(cell, (to, STREAM), host, sizes, teller);
        has_ended.store(true, Ordering::Relaxed);
        (rate, looks.join())
    });
    let (rate, Ok(seen)) = (rate?, seen) else { bail!("the looks at {to} have panicked") };
    let Some(at_work) = rate_at_work(&seen, sizes.0 as u64 * sizes.1) else { return Ok(rate.rate) };
    teller.say(format_args!("{to}: {at_work:.1} MB/s while all are at work"));
    Ok(at_work)
}

/// When a stream was written last, and how long it was from then on (SR4).
fn length_of(cell: &LabCell, path: &str) -> Result<(Duration, u64)> {
    let told = cell.ask("m0", &["stat", "--json", path])?;
    let stored: Value = serde_json::from_str(&told).context("stat as JSON")?;
    let number = |name: &str| {
        stored[name].as_u64().with_context(|| format!("{path}: no {name} in what stat tells"))
    };
    Ok((Duration::from_millis(number("modified_ms")?), number("length")?))
}

/// How long a stream was, and when, until its producers have ended.
fn lengths(cell: &LabCell, path: &str, has_ended: &AtomicBool) -> Vec<(Duration, u64)> {
    let mut seen = Vec::new();
    while !has_ended.load(Ordering::Relaxed) {
        // One look fewer: the rate is of those that were had.
        seen.extend(length_of(cell, path));
        std::thread::sleep(LOOK_EVERY);
    }
    seen
}

/// MB/s between the first look at which a twentieth was there and the last at which no more than
/// three fifths were (SR3); none where there are no two such looks.
fn rate_at_work(seen: &[(Duration, u64)], all: u64) -> Option<f64> {
    let [least, most] = JUDGED_PERCENT.map(|percent| all / 100 * percent);
    let judged = || seen.iter().filter(|(_, length)| (least..=most).contains(length));
    let ((began, first), (ended, last)) = (judged().next()?, judged().next_back()?);
    let took = ended.saturating_sub(*began).as_secs_f64();
    (took > 0.0).then(|| (last - first) as f64 / 1e6 / took)
}

/// So many readers read all of a stream each; MB/s.
fn read(
    cell: &LabCell,
    stream: &str,
    (readers, size): (usize, u64),
    teller: &Teller,
) -> Result<f64> {
    let words = ["cat", "--raw", "--deadline", "120", stream].map(str::to_owned).to_vec();
    let commands = vec![("c01".to_owned(), words); readers];
    Ok(timed(cell, &commands, size * readers as u64, teller, stream)?.rate)
}

/// SR2
fn timed(
    cell: &LabCell,
    commands: &[(String, Vec<String>)],
    bytes: u64,
    teller: &Teller,
    what: &str,
) -> Result<Carried> {
    let (began, busy) = (Instant::now(), busy_ticks()?);
    cell.run_all(commands)?;
    let took = began.elapsed().as_secs_f64();
    let rate = bytes as f64 / 1e6 / took;
    let busy = (busy_ticks()? - busy) as f64 / 100.0 / took;
    teller.say(format_args!(
        "{what}: {} of them, {rate:.1} MB/s for {took:.1} s; {busy:.2} cores were busy",
        commands.len()
    ));
    Ok(Carried::new(rate, busy))
}

/// What all of this machine's cores have worked so far, in hundredths of a second.
fn busy_ticks() -> Result<u64> {
    let told = std::fs::read_to_string("/proc/stat")?;
    let line = told.lines().next().context("a line of all cores")?;
    let ticks = line.split_whitespace().skip(1).map(str::parse);
    let ticks: Vec<u64> = ticks.collect::<Result<_, _>>().context("numbers of ticks")?;
    // user nice system idle iowait irq softirq steal …, of which two are rest
    Ok(ticks.iter().enumerate().filter(|(at, _)| ![3, 4].contains(at)).map(|(_, it)| it).sum())
}

fn text(path: &Path) -> &str {
    path.to_str().expect("names of the soak's own")
}

#[cfg(test)]
mod tests {
    use super::rate_at_work;
    use std::time::Duration;

    #[test]
    fn a_rate_is_judged_while_all_are_at_work_and_not_by_how_they_begin_and_end() {
        let at = |second: u64, megabytes: u64| (Duration::from_secs(second), megabytes * 1_000_000);
        let seen = [at(0, 0), at(5, 1), at(6, 10), at(7, 20), at(9, 50), at(20, 90), at(40, 100)];
        let rate = rate_at_work(&seen, 100_000_000).expect("looks enough");
        assert!((rate - 40.0 / 3.0).abs() < 1e-6, "{rate}");
        assert_eq!(rate_at_work(&seen[..3], 100_000_000), None, "one look tells no rate");
    }
}
