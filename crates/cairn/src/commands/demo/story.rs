//! The demo's story, step by step.

use crate::cli_error::{CliError, Doing};
use crate::commands::demo::appenders::{DemoAppended, DemoClients, RecordCount};
use crate::commands::demo::healing::{Healed, HealingWatch};
use crate::commands::demo::source_files;
use crate::commands::demo::verdict::failed;
use crate::output::size_text;
use cairn_client::{Cell, Options};
use cairn_testkit::{CellPlan, CellProcesses, HarnessError, await_until};
use cairn_types::{CellPath, Content};
use std::fmt::Display;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The longest that any step may take.
const WITHIN: Duration = Duration::from_secs(30);
const LOG_PATH: &str = "/demo/log";

/// Tells the story line by line, with the time since the start.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Storyteller {
    started: Instant,
}

impl Storyteller {
    /// From now on.
    pub(crate) fn start() -> Self {
        Self { started: Instant::now() }
    }

    /// One line, at once.
    pub(crate) fn say(&self, line: impl Display) {
        let mut stdout = std::io::stdout().lock();
        // A demo whose reader has gone still cleans up and ends by itself.
        let _ = writeln!(stdout, "[{:5.1} s] {line}", self.started.elapsed().as_secs_f64());
        let _ = stdout.flush();
    }
}

/// How much of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DemoSize {
    /// Clients that append at once.
    pub(crate) clients: u64,
    /// Of files to store.
    pub(crate) megabytes: u64,
}

/// The cell while it stands.
struct DemoCell<'a> {
    teller: &'a Storyteller,
    processes: CellProcesses,
    runtime: tokio::runtime::Runtime,
    options: &'a Options,
    cell: Cell,
}

/// Tells it; the answer is the verdict's last words.
///
/// # Errors
/// With whatever did not go as promised.
pub(crate) fn tell(
    size: DemoSize,
    plan: CellPlan,
    options: &Options,
    teller: &Storyteller,
) -> Result<String, CliError> {
    let mut demo = DemoCell::start(plan, options, teller)?;
    let source = demo.store_files(size.megabytes)?;
    let (appended, healing, killed) = demo.append_and_kill(size.clients)?;
    let Healed { first_copy, whole } = healing.finish()?;
    let bytes = demo.read_files_back(&source)?;
    let records = demo.count_records(&appended)?;
    demo.restart(killed)?;
    Ok(format!(
        "{bytes} bytes and {records} records came back, each byte the same and each acknowledged \
         record exactly once; with a server killed, the longest pause of any client was {} ms, \
         the first copy began after {:.1} s and all was whole again after {:.1} s",
        appended.pause.as_millis(),
        first_copy.as_secs_f64(),
        whole.as_secs_f64(),
    ))
}

impl<'a> DemoCell<'a> {
    fn start(
        plan: CellPlan,
        options: &'a Options,
        teller: &'a Storyteller,
    ) -> Result<Self, CliError> {
        let processes = CellProcesses::start(plan).doing(|| "starting the cell".to_owned())?;
        for server in processes.masters.iter().chain(&processes.chunkservers) {
            let (name, address) = (server.name(), server.address());
            let pid = server.pid().map(|pid| format!(" (process {pid})")).unwrap_or_default();
            teller.say(format_args!("{name} runs on {address}{pid}"));
        }
        let runtime = crate::runtime::one_thread().doing(|| "starting".to_owned())?;
        let connecting = Cell::connect(processes.address(), options.clone());
        let cell = runtime.block_on(connecting).doing(|| "reaching the cell".to_owned())?;
        Ok(Self { teller, processes, runtime, options, cell })
    }

    fn await_live(&self, wanted: usize) -> Result<(), CliError> {
        let waited = self.processes.await_live(wanted);
        waited.map(drop).doing(|| "waiting for the chunkservers".to_owned())
    }

    /// Runs one `cairn` command against the cell, as a person would.
    fn command(&self, arguments: &[&str]) -> Result<(), CliError> {
        let deadline = self.options.deadline.as_secs().to_string();
        let done = self.processes.ask(&[arguments, &["--deadline", &deadline]].concat());
        done.map(drop).doing(|| "taking the demo's next step".to_owned())
    }

    fn store_files(&self, megabytes: u64) -> Result<PathBuf, CliError> {
        let source = self.processes.directory().join("source");
        let sum = source_files::make(&source, megabytes)?;
        let started = Instant::now();
        self.command(&["mkdir", "/demo"])?;
        self.command(&["put", "-r", &source.display().to_string(), "/demo/files"])?;
        let spent = started.elapsed();
        self.teller.say(format_args!(
            "put -r stored {} files, {} in {:.1} s, each chunk on three servers",
            sum.files,
            size_text(sum.bytes, true),
            spent.as_secs_f64()
        ));
        Ok(source)
    }

    fn append_and_kill(
        &mut self,
        clients: u64,
    ) -> Result<(DemoAppended, HealingWatch, usize), CliError> {
        let path = CellPath::parse(LOG_PATH).doing(|| "naming the log".to_owned())?;
        let create =
            cairn_client::CreateOptions { content: Content::Records, ..Default::default() };
        let created = self.runtime.block_on(self.cell.create(&path, create));
        created.doing(|| format!("making {path}"))?;
        let appenders = DemoClients::start(clients, self.processes.address(), self.options, &path);
        self.teller.say(format_args!("{clients} clients append to {path}, all at once"));
        await_acknowledged(&appenders, 1_000)?;
        self.kill_the_master(&appenders, clients)?;
        let killed = self.kill_the_primary(&path)?;
        let (at_kill, moment) = (appenders.acknowledged(), Instant::now());
        let address = self.processes.address();
        let healing = HealingWatch::start(address, self.options, moment, self.teller);
        await_acknowledged(&appenders, at_kill + clients * 4)?;
        let resumed = moment.elapsed().as_millis();
        self.teller.say(format_args!("the clients go on {resumed} ms after the kill"));
        self.await_live(self.processes.chunkservers.len() - 1)?;
        let missed = moment.elapsed().as_millis();
        self.teller.say(format_args!("the master misses the server {missed} ms after the kill"));
        self.explain(&path)?;
        await_acknowledged(&appenders, at_kill + 4_000)?;
        let appended = appenders.stop()?;
        let pause = appended.pause.as_millis();
        self.teller.say(format_args!("the longest pause that any client saw: {pause} ms"));
        Ok((appended, healing, killed))
    }

    fn kill_the_primary(&mut self, path: &CellPath) -> Result<usize, CliError> {
        let doing = || format!("looking for the primary of {path}");
        let chunks = self.runtime.block_on(self.cell.chunks(path)).doing(doing)?;
        let address = chunks.last().and_then(|chunk| {
            let primary = chunk.primary?;
            chunk.replicas.iter().find(|at| at.server == primary).map(|at| at.address.to_string())
        });
        let address = address.ok_or_else(|| failed(&doing(), "the last chunk has no primary"))?;
        let found = self.processes.chunkserver_at(&address);
        let killed = found.ok_or_else(|| failed(&doing(), format!("{address} is none of ours")))?;
        let server = &mut self.processes.chunkservers[killed];
        let pid = server.pid().ok_or_else(|| failed(&doing(), "it has ended by itself"))?;
        server.kill();
        let name = server.name();
        self.teller.say(format_args!(
            "kill -9 {pid}: {name}, the primary of the last chunk, is gone in mid-append"
        ));
        Ok(killed)
    }

    /// Kills the master that is in charge, and waits until the clients go on.
    fn kill_the_master(&mut self, appenders: &DemoClients, clients: u64) -> Result<(), CliError> {
        let doing = || "looking for the master in charge".to_owned();
        let at = self.processes.in_charge().doing(doing)?;
        let master = &mut self.processes.masters[at];
        let pid = master.pid().ok_or_else(|| failed(&doing(), "it has ended by itself"))?;
        let name = master.name().to_owned();
        master.kill();
        let moment = Instant::now();
        self.teller.say(format_args!("kill -9 {pid}: {name}, the master in charge, is gone"));
        self.command(&["mkdir", "/demo/after-the-master"])?;
        let made = moment.elapsed().as_millis();
        self.teller
            .say(format_args!("another master took over: a directory is made after {made} ms"));
        let acknowledged = appenders.acknowledged();
        await_acknowledged(appenders, acknowledged + clients * 4)?;
        let master = &mut self.processes.masters[at];
        master.restart().doing(|| format!("starting {name} again"))?;
        self.teller.say(format_args!("{name} is started again, and follows"));
        Ok(())
    }

    fn explain(&self, path: &CellPath) -> Result<(), CliError> {
        let answer = self.runtime.block_on(self.cell.explain(path.as_str()));
        let answer = answer.doing(|| format!("explaining {path}"))?;
        self.teller.say(format_args!("cairn explain {path} says:"));
        for line in answer.lines.iter().take(12) {
            self.teller.say(format_args!("    {line}"));
        }
        Ok(())
    }

    fn read_files_back(&self, source: &Path) -> Result<u64, CliError> {
        let back = self.processes.directory().join("back");
        self.command(&["get", "-r", "/demo/files", &back.display().to_string()])?;
        let sum = source_files::compare(source, &back)?;
        self.teller.say(format_args!(
            "get -r fetched all {} files with one server dead: every byte is the same",
            sum.files
        ));
        Ok(sum.bytes)
    }

    fn count_records(&self, appended: &DemoAppended) -> Result<u64, CliError> {
        let doing = || format!("reading {LOG_PATH}");
        let path = CellPath::parse(LOG_PATH).doing(doing)?;
        let mut count = RecordCount::new();
        self.runtime.block_on(async {
            let file = self.cell.open(&path).await.doing(doing)?;
            let mut records = file.records(0);
            while let Some(record) = records.next().await.doing(doing)? {
                count.see(&record.payload);
            }
            Ok::<(), CliError>(())
        })?;
        let total = count.judge(appended)?;
        self.teller.say(format_args!("all {total} acknowledged records are there, each once"));
        Ok(total)
    }

    fn restart(&mut self, killed: usize) -> Result<(), CliError> {
        let started = Instant::now();
        let server = &mut self.processes.chunkservers[killed];
        server.restart().doing(|| "starting the killed server again".to_owned())?;
        self.await_live(self.processes.chunkservers.len())?;
        let name = self.processes.chunkservers[killed].name();
        let spent = started.elapsed().as_millis();
        self.teller.say(format_args!(
            "{name} is back after {spent} ms; what others hold in its place, it lets go of"
        ));
        Ok(())
    }
}

fn await_acknowledged(appenders: &DemoClients, wanted: u64) -> Result<(), CliError> {
    let waited = await_until("acknowledgements", WITHIN, || {
        Ok::<_, HarnessError>(appenders.acknowledged() >= wanted || appenders.one_ended())
    });
    waited.map(drop).doing(|| "appending".to_owned())
}
