//! The demo's story, step by step.

use crate::cli_error::{Cause, CliError, Doing};
use crate::commands::demo::appenders::{Appended, Appenders, Count};
use crate::commands::demo::processes::Server;
use crate::commands::demo::{Demo, Teller, failed, source_files};
use crate::exit_codes::Exit;
use crate::janitor::Janitor;
use crate::output::size_text;
use cairn_client::{Cell, Options};
use cairn_protocol::ServerState;
use cairn_types::{CellPath, Content};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const SERVERS: usize = 4;
const WAIT: Duration = Duration::from_secs(30);
const LOOK_EVERY: Duration = Duration::from_millis(20);
const LOG_PATH: &str = "/demo/log";

/// The cell while it stands.
struct Stage<'a> {
    directory: &'a Path,
    teller: &'a Teller,
    master: Server<'a>,
    servers: Vec<Server<'a>>,
    runtime: tokio::runtime::Runtime,
    options: &'a Options,
    cell: Cell,
}

/// Tells it; the answer is the verdict's last words.
///
/// # Errors
/// With whatever did not go as promised.
pub(crate) fn tell(
    demo: &Demo,
    options: &Options,
    directory: &Path,
    janitor: &Janitor,
    teller: &Teller,
) -> Result<String, CliError> {
    let mut stage = Stage::set(options, directory, janitor, teller)?;
    let source = stage.store_files(demo.megabytes)?;
    let (appended, killed) = stage.append_and_kill(demo.clients)?;
    let bytes = stage.read_files_back(&source)?;
    let records = stage.count_records(&appended)?;
    stage.restart(killed)?;
    Ok(format!(
        "{bytes} bytes and {records} records came back, each byte the same and each acknowledged \
         record exactly once; the longest pause of any client was {} ms, with a server killed",
        appended.pause.as_millis()
    ))
}

impl<'a> Stage<'a> {
    fn set(
        options: &'a Options,
        directory: &'a Path,
        janitor: &'a Janitor,
        teller: &'a Teller,
    ) -> Result<Self, CliError> {
        let text = |path: PathBuf| path.display().to_string();
        let data = text(directory.join("master"));
        let arguments = ["master", "--small-cell", "--data", &data].map(str::to_owned).to_vec();
        let master = Server::start("master", arguments, directory, janitor)?;
        teller.say(format_args!("master runs on {} (process {})", master.address, master.pid));
        let mut servers = Vec::new();
        for number in 1..=SERVERS {
            let name = format!("chunkserver {number}");
            let data = text(directory.join(format!("chunkserver-{number}")));
            let rack = format!("/rack-{}", 1 + (number - 1) / 2);
            let arguments =
                ["chunkserver", "--master", &master.address, "--data", &data, "--rack", &rack];
            let arguments = arguments.map(str::to_owned).to_vec();
            let server = Server::start(&name, arguments, directory, janitor)?;
            let (address, pid) = (&server.address, server.pid);
            teller.say(format_args!("{name} runs on {address} (process {pid}, {rack})"));
            servers.push(server);
        }
        let runtime = crate::runtime::one_thread().doing(|| "starting".to_owned())?;
        let connecting = Cell::connect(&master.address, options.clone());
        let cell = runtime.block_on(connecting).doing(|| "reaching the cell".to_owned())?;
        let stage = Self { directory, teller, master, servers, runtime, options, cell };
        stage.await_live(SERVERS)?;
        Ok(stage)
    }

    fn await_live(&self, wanted: usize) -> Result<(), CliError> {
        let doing = "waiting for the chunkservers";
        await_until(doing, || {
            let servers = self.runtime.block_on(self.cell.servers());
            let servers = servers.doing(|| doing.to_owned())?;
            let live = servers.iter().filter(|server| server.state == ServerState::Live);
            Ok(live.count() == wanted)
        })
    }

    /// Runs one `cairn` command against the cell, as a person would.
    fn command(&self, arguments: &[&str]) -> Result<(), CliError> {
        let shown = format!("cairn {}", arguments.join(" "));
        let doing = || shown.clone();
        let mut command = Command::new(std::env::current_exe().doing(doing)?);
        let deadline = self.options.deadline.as_secs().to_string();
        command.args(arguments).args(["--cell", &self.master.address, "--deadline", &deadline]);
        command.stdin(Stdio::null());
        let output = command.output().doing(doing)?;
        if output.status.success() {
            return Ok(());
        }
        let stderr = String::from_utf8_lossy(&output.stderr);
        let line = stderr.lines().last().unwrap_or("no reason given").to_owned();
        Err(CliError::new(shown, Cause::new(Exit::Failed, line, "")))
    }

    fn store_files(&self, megabytes: u64) -> Result<PathBuf, CliError> {
        let source = self.directory.join("source");
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

    fn append_and_kill(&mut self, clients: usize) -> Result<(Appended, usize), CliError> {
        let path = CellPath::parse(LOG_PATH).doing(|| "naming the log".to_owned())?;
        let create =
            cairn_client::CreateOptions { content: Content::Records, ..Default::default() };
        let created = self.runtime.block_on(self.cell.create(&path, create));
        created.doing(|| format!("making {path}"))?;
        let appenders = Appenders::start(clients, &self.master.address, self.options, &path);
        self.teller.say(format_args!("{clients} clients append to {path}, all at once"));
        await_acknowledged(&appenders, 2_000)?;
        let killed = self.kill_the_primary(&path)?;
        let (at_kill, moment) = (appenders.acknowledged(), Instant::now());
        await_acknowledged(&appenders, at_kill + clients as u64 * 4)?;
        let resumed = moment.elapsed().as_millis();
        self.teller.say(format_args!("the clients go on {resumed} ms after the kill"));
        self.await_live(SERVERS - 1)?;
        let missed = moment.elapsed().as_millis();
        self.teller.say(format_args!("the master misses the server {missed} ms after the kill"));
        self.explain(&path)?;
        await_acknowledged(&appenders, at_kill + 4_000)?;
        let appended = appenders.stop()?;
        let pause = appended.pause.as_millis();
        self.teller.say(format_args!("the longest pause that any client saw: {pause} ms"));
        Ok((appended, killed))
    }

    fn kill_the_primary(&mut self, path: &CellPath) -> Result<usize, CliError> {
        let doing = || format!("looking for the primary of {path}");
        let chunks = self.runtime.block_on(self.cell.chunks(path)).doing(doing)?;
        let address = chunks.last().and_then(|chunk| {
            let primary = chunk.primary?;
            chunk.replicas.iter().find(|at| at.server == primary).map(|at| at.address.to_string())
        });
        let address = address.ok_or_else(|| failed(&doing(), "the last chunk has no primary"))?;
        let found = self.servers.iter().position(|server| server.address == address);
        let killed = found.ok_or_else(|| failed(&doing(), format!("{address} is none of ours")))?;
        let server = &mut self.servers[killed];
        server.kill();
        let (name, pid) = (&server.name, server.pid);
        self.teller.say(format_args!(
            "kill -9 {pid}: {name}, the primary of the last chunk, is gone in mid-append"
        ));
        Ok(killed)
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
        let back = self.directory.join("back");
        self.command(&["get", "-r", "/demo/files", &back.display().to_string()])?;
        let sum = source_files::compare(source, &back)?;
        self.teller.say(format_args!(
            "get -r fetched all {} files with one server dead: every byte is the same",
            sum.files
        ));
        Ok(sum.bytes)
    }

    fn count_records(&self, appended: &Appended) -> Result<u64, CliError> {
        let doing = || format!("reading {LOG_PATH}");
        let path = CellPath::parse(LOG_PATH).doing(doing)?;
        let mut count = Count::new();
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
        self.servers[killed].restart()?;
        self.await_live(SERVERS)?;
        let (name, spent) = (&self.servers[killed].name, started.elapsed().as_millis());
        self.teller.say(format_args!("{name} is back after {spent} ms, with all it had"));
        Ok(())
    }
}

fn await_acknowledged(appenders: &Appenders, wanted: u64) -> Result<(), CliError> {
    await_until("waiting for acknowledgements", || {
        Ok(appenders.acknowledged() >= wanted || appenders.one_ended())
    })
}

fn await_until(
    doing: &str,
    mut is_so: impl FnMut() -> Result<bool, CliError>,
) -> Result<(), CliError> {
    let started = Instant::now();
    while !is_so()? {
        if started.elapsed() > WAIT {
            return Err(failed(doing, format!("it took more than {} s", WAIT.as_secs())));
        }
        std::thread::sleep(LOOK_EVERY);
    }
    Ok(())
}
