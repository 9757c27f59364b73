//! Producers of one stream that are killed and started again, beside servers and masters that are:
//! each record is in it once, counted from what `cairn cat` says.
//!
//! ```text
//!   24 producers of the library ─┐
//!    8 `cairn append`           ─┼─► /soak/stream ──► cairn cat ──► counted here, line by line
//!   log files that rotate ─ ship ┘
//! ```
//! - ST1: each producer's records stand in their order, from 1 to the last, each once; each line of
//!   the log files stands there once.
//! - ST2: what was acknowledged to a life of a producer is known to the next (PK1).

use crate::cell::await_nothing_found;
use crate::load_process::{PRODUCER_BROKEN, acknowledged_to, producer_line};
use crate::options::SoakOptions;
use crate::stream_logs::{LogFileWriter, Shipped};
use crate::teller::Teller;
use anyhow::{Context, Result, bail, ensure};
use cairn_testkit::{CellProcesses, Janitor};
use cairn_types::Random;
use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

pub(crate) const STREAM: &str = "/soak/stream";
const PRODUCERS: usize = 32;
/// Every so many-th of them is a `cairn append`.
const COMMAND_EACH: usize = 4;
/// One line of a log file for so many records.
const LOG_LINE_EACH: u64 = 50;
/// How often something is killed.
const KILL_EVERY: Duration = Duration::from_millis(400);
/// Of so many kills one is a chunkserver's, and one a master's.
const OF_SERVER: u64 = 12;
const OF_MASTER: u64 = 40;
/// How long a server stays away.
const AWAY: Duration = Duration::from_millis(700);
/// Nothing may stand still for so long.
const PROGRESS: Duration = Duration::from_secs(300);
const WHOLE: Duration = Duration::from_secs(300);
const TELL_EVERY: Duration = Duration::from_secs(15);
const DEADLINE_S: &str = "60";

/// A process that may be killed at any time; it ends with this.
#[derive(Debug)]
pub(crate) struct Killable {
    child: Child,
    janitor: Arc<Janitor>,
}

impl Killable {
    pub(crate) fn start(mut command: Command, janitor: &Arc<Janitor>) -> Result<Self> {
        let child = command.spawn().context("starting a client")?;
        janitor.watch(child.id());
        Ok(Self { child, janitor: janitor.clone() })
    }

    /// Its exit code, once it has ended by itself; a signal has none.
    fn ended(&mut self) -> Result<Option<Option<i32>>> {
        Ok(self.child.try_wait()?.map(|status| status.code()))
    }
}

impl Drop for Killable {
    fn drop(&mut self) {
        // Fails only for a process that has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
        self.janitor.forget(self.child.id());
    }
}

/// One name, and who has it.
struct KilledProducer {
    name: String,
    /// The lines of a `cairn append`; none for a producer of the library.
    input: Option<PathBuf>,
    /// What was acknowledged to one of the library.
    beside: PathBuf,
    running: Option<Killable>,
    is_done: bool,
}

/// All that produces.
struct StreamSoak {
    address: String,
    program: cairn_testkit::Program,
    janitor: Arc<Janitor>,
    records: u64,
    size: usize,
    producers: Vec<KilledProducer>,
    /// Lives that another one has taken over from; they do not know yet.
    zombies: Vec<Killable>,
    shipper: Option<Killable>,
    logs: PathBuf,
    random: Random,
    kills: [u64; 4],
}

/// Runs it.
///
/// # Errors
/// With whatever did not go as promised.
pub(crate) fn run(cell: &mut CellProcesses, options: &SoakOptions, teller: &Teller) -> Result<()> {
    let directory = cell.directory().join("clients");
    let logs = directory.join("logs");
    std::fs::create_dir_all(&logs)?;
    cell.ask(&["mkdir", "/soak"])?;
    cell.ask(&["create", "--layout", "stream", STREAM])?;
    let janitor = Arc::new(Janitor::start(cell.program(), None)?);
    let records = options.records.div_ceil(PRODUCERS as u64);
    let mut soak = StreamSoak {
        address: cell.address().to_owned(),
        program: cell.program().clone(),
        janitor,
        records,
        size: options.record_size,
        producers: Vec::new(),
        zombies: Vec::new(),
        shipper: None,
        logs: logs.clone(),
        random: Random::new(options.seed),
        kills: [0; 4],
    };
    for number in 0..PRODUCERS {
        soak.producers.push(soak.new_producer(number, &directory)?);
    }
    let writer = LogFileWriter::start(&logs, (records * PRODUCERS as u64).div_ceil(LOG_LINE_EACH));
    soak.go_on_until_done(cell, &writer, teller)?;
    let lines = writer.finish()?;
    soak.end_shipping()?;
    let [producers, servers, masters, zombies] = soak.kills;
    teller.say(format_args!(
        "all is sent: {producers} kills of producers and shippers, {zombies} names taken over, \
         {servers} kills of chunkservers, {masters} of masters; reading"
    ));
    soak.judge(lines, teller)?;
    await_nothing_found(cell, WHOLE)?;
    teller.say("fsck --data finds nothing");
    Ok(())
}

impl StreamSoak {
    fn new_producer(&self, number: usize, directory: &Path) -> Result<KilledProducer> {
        let name = format!("p{number}");
        let beside = directory.join(format!("{name}.acknowledged"));
        let mut input = None;
        if number.is_multiple_of(COMMAND_EACH) {
            let path = directory.join(format!("{name}.lines"));
            let mut file = BufWriter::new(File::create(&path)?);
            for number in 1..=self.records {
                writeln!(file, "{}", producer_line(&name, number, self.size))?;
            }
            file.flush()?;
            input = Some(path);
        }
        Ok(KilledProducer { name, input, beside, running: None, is_done: false })
    }

    /// Another life for a name.
    fn life_of(&self, producer: &KilledProducer) -> Result<Killable> {
        let name = producer.name.as_str();
        let mut command = match &producer.input {
            Some(lines) => {
                let lines = lines.display().to_string();
                let about = ["--cell", &self.address, "--deadline", DEADLINE_S];
                let append = ["append", "--producer", name, "--resume-lines", STREAM, &lines];
                self.program.command([&about[..], &append].concat())
            }
            None => {
                let mut command = Command::new(std::env::current_exe()?);
                let (records, size) = (self.records.to_string(), self.size.to_string());
                command.args(["load", "produce", &self.address, STREAM, name, &records, &size]);
                command.arg(&producer.beside);
                command
            }
        };
        command.stdin(Stdio::piped()).stdout(Stdio::null());
        Killable::start(command, &self.janitor)
    }

    fn start_shipper(&self, once: bool) -> Result<Killable> {
        let logs = self.logs.display().to_string();
        let about = ["--cell", &self.address, "--deadline", DEADLINE_S];
        let mut ship = vec!["ship", "--name", "soak"];
        ship.extend(once.then_some("--once"));
        ship.extend([logs.as_str(), STREAM]);
        let mut command = self.program.command([&about[..], &ship].concat());
        command.stdin(Stdio::null()).stdout(Stdio::null());
        Killable::start(command, &self.janitor)
    }

    /// Kills and starts again, until every producer has ended well.
    fn go_on_until_done(
        &mut self,
        cell: &mut CellProcesses,
        writer: &LogFileWriter,
        teller: &Teller,
    ) -> Result<()> {
        let (mut seen, mut last_progress) = ((0, 0), Instant::now());
        let mut told = Instant::now();
        for round in 1u64.. {
            self.start_what_is_not_running()?;
            if self.producers.iter().all(|it| it.is_done) && writer.is_done() {
                return Ok(());
            }
            std::thread::sleep(KILL_EVERY);
            self.kill_one(cell, round)?;
            let now = self.acknowledged()?;
            if now != seen {
                (seen, last_progress) = (now, Instant::now());
            }
            ensure!(last_progress.elapsed() < PROGRESS, "nothing went on for {PROGRESS:?}");
            if told.elapsed() > TELL_EVERY {
                told = Instant::now();
                teller.say(format_args!(
                    "{round} kills; {} records acknowledged to the library's producers; {} of \
                     {PRODUCERS} have ended",
                    now.0, now.1
                ));
            }
        }
        Ok(())
    }

    /// Records acknowledged to the library's producers, and how many of all have ended.
    fn acknowledged(&self) -> Result<(u64, usize)> {
        let mut sum = 0;
        for producer in &self.producers {
            if producer.input.is_none() && producer.beside.exists() {
                sum += acknowledged_to(&File::open(&producer.beside)?)?;
            }
        }
        Ok((sum, self.producers.iter().filter(|it| it.is_done).count()))
    }

    fn start_what_is_not_running(&mut self) -> Result<()> {
        for number in 0..self.producers.len() {
            let producer = &mut self.producers[number];
            if let Some(life) = &mut producer.running {
                match life.ended()? {
                    None => continue,
                    Some(Some(0)) => {
                        producer.is_done = true;
                    }
                    Some(Some(PRODUCER_BROKEN)) => bail!("{}: see above", producer.name),
                    Some(_) => {}
                }
                producer.running = None;
            }
            if !producer.is_done {
                let life = self.life_of(&self.producers[number])?;
                self.producers[number].running = Some(life);
            }
        }
        if let Some(shipper) = &mut self.shipper
            && shipper.ended()?.is_some()
        {
            self.shipper = None;
        }
        if self.shipper.is_none() {
            self.shipper = Some(self.start_shipper(false)?);
        }
        Ok(())
    }

    fn kill_one(&mut self, cell: &mut CellProcesses, round: u64) -> Result<()> {
        if round.is_multiple_of(OF_MASTER) {
            cell.await_masters()?;
            let gone = cell.in_charge()?;
            cell.masters[gone].kill();
            std::thread::sleep(AWAY);
            cell.masters[gone].restart()?;
            self.kills[2] += 1;
        } else if round.is_multiple_of(OF_SERVER) {
            let count = cell.chunkservers.len() as u64;
            let which = usize::try_from(self.random.below(count))?;
            cell.chunkservers[which].kill();
            std::thread::sleep(AWAY);
            cell.chunkservers[which].restart()?;
            self.kills[1] += 1;
        } else {
            self.kill_client()?;
        }
        Ok(())
    }

    /// A producer or the shipper; or another life takes over from one that goes on for a while.
    fn kill_client(&mut self) -> Result<()> {
        let which = usize::try_from(self.random.below(PRODUCERS as u64 + 1))?;
        self.zombies.clear();
        if which == PRODUCERS {
            self.shipper = None;
        } else if self.producers[which].running.is_some() && self.random.chance(200) {
            let heir = self.life_of(&self.producers[which])?;
            self.zombies.extend(self.producers[which].running.replace(heir));
            self.kills[3] += 1;
            return Ok(());
        } else if let Some(life) = &mut self.producers[which].running {
            if life.ended()?.is_some() {
                // Its end is looked at first.
                return Ok(());
            }
            self.producers[which].running = None;
        }
        self.kills[0] += 1;
        Ok(())
    }

    fn end_shipping(&mut self) -> Result<()> {
        self.shipper = None;
        let began = Instant::now();
        loop {
            let mut last = self.start_shipper(true)?;
            match last.child.wait()?.code() {
                Some(0) => return Ok(()),
                code => ensure!(began.elapsed() < PROGRESS, "cairn ship --once ends with {code:?}"),
            }
        }
    }

    /// Reads the whole stream by the command line, and counts (ST1).
    fn judge(&self, log_lines: u64, teller: &Teller) -> Result<()> {
        let about = ["--cell", &self.address, "--deadline", DEADLINE_S, "cat", STREAM];
        let mut command = self.program.command(about);
        let mut child = command.stdout(Stdio::piped()).spawn().context("starting cairn cat")?;
        let lines = BufReader::new(child.stdout.take().context("piped")?).lines();
        let mut last = [0u64; PRODUCERS];
        let mut shipped = Shipped::new(log_lines);
        let mut count = 0u64;
        for line in lines {
            let line = line?;
            count += 1;
            if shipped.take(&line)? {
                continue;
            }
            self.take(&line, &mut last).with_context(|| format!("line {count}: {line}"))?;
        }
        ensure!(child.wait()?.success(), "cairn cat failed after {count} lines");
        for (number, last) in last.iter().enumerate() {
            ensure!(*last == self.records, "p{number} has {last} of {} records", self.records);
        }
        shipped.judge()?;
        teller.say(format_args!(
            "{count} records: {} of each of {PRODUCERS} producers in their order, and {log_lines} \
             lines of log files, each once",
            self.records
        ));
        Ok(())
    }

    fn take(&self, line: &str, last: &mut [u64; PRODUCERS]) -> Result<()> {
        let mut words = line.split(' ');
        let name = words.next().context("no name")?;
        let number: u64 = words.next().context("no number")?.parse()?;
        let which: usize = name.strip_prefix('p').context("nobody's")?.parse()?;
        let last = last.get_mut(which).context("nobody's")?;
        ensure!(number == *last + 1, "{number} comes after {last}");
        ensure!(line == producer_line(name, number, self.size), "it is not what was sent");
        *last = number;
        Ok(())
    }
}
