//! Recovery as GFS measured it (§6.2.5): a server with gigabytes dies, and every chunk of it is
//! copied from the servers that are left to each other, over links of a laboratory.
//!
//! ```text
//!   rack-a  s01                      holds a replica of every chunk, and dies
//!   rack-b  s02 … s16                hold the others, and take what s01 had
//! ```
//! - RC1: the rate is what all receivers took, from the first chunk that was whole again to the
//!   last; it is set against what their links could take together.

use crate::options::SoakOptions;
use crate::source_tree::generate;
use crate::teller::Teller;
use anyhow::{Context, Result, bail};
use cairn_testkit::{Janitor, Program, ServerProcess, await_until};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

const SERVERS: usize = 16;
const CLIENTS: u64 = 8;
const CHUNK_SIZE: u64 = 8 << 20;
/// What TCP carries over a link of 100 Mbit/s: 1448 of 1538 bytes of a frame.
const LINK_BYTES_A_SECOND: f64 = 100e6 / 8.0 * 1448.0 / 1538.0;
/// Of what the links could take together.
const SHARE_MIN: f64 = 0.7;
const STORED_WITHIN: Duration = Duration::from_secs(1_200);
const WHOLE_WITHIN: Duration = Duration::from_secs(600);

/// A laboratory, taken down in the end.
#[derive(Debug)]
struct Lab {
    path: String,
    prefix: String,
}

impl Lab {
    fn up(path: &str) -> Result<Self> {
        let lab = Self { path: path.to_owned(), prefix: format!("cs{}", std::process::id()) };
        lab.run(&["up", "--topology", "gfs"])?;
        Ok(lab)
    }

    fn run(&self, words: &[&str]) -> Result<String> {
        let mut command = Command::new(&self.path);
        let output = command.args(["--prefix", &self.prefix]).args(words).output();
        let output = output.with_context(|| format!("starting {}", self.path))?;
        if !output.status.success() {
            bail!("lab {}: {}", words.join(" "), String::from_utf8_lossy(&output.stderr).trim());
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// The address of each host by name.
    fn address(&self, host: &str) -> Result<String> {
        let hosts: Value = serde_json::from_str(&self.run(&["hosts", "--json"])?)?;
        let all = hosts.as_array().context("a list of hosts")?;
        let found = all.iter().find(|entry| entry["name"] == host);
        let address = found.and_then(|entry| entry["address"].as_str());
        Ok(address.with_context(|| format!("no host {host}"))?.to_owned())
    }

    fn program(&self, program: &Program, host: &str) -> Program {
        program.run_by(&[&self.path, "--prefix", &self.prefix, "exec", host, "--"])
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        // Nothing more can be done about a laboratory that does not go.
        let _ = self.run(&["down"]);
    }
}

/// A cell in it: the master on `m0`, a chunkserver on each `s..`.
#[derive(Debug)]
struct LabCell {
    chunkservers: Vec<ServerProcess>,
    _master: ServerProcess,
    address: String,
    program: Program,
    directory: PathBuf,
    lab: Lab,
    _janitor: Arc<Janitor>,
}

impl LabCell {
    fn start(program: Program, lab: Lab, options: &SoakOptions) -> Result<Self> {
        let directory = std::env::temp_dir().join(format!("cairn-soak-{}", std::process::id()));
        std::fs::create_dir_all(&directory)?;
        let kept = (!options.keep).then_some(directory.as_path());
        let janitor = Arc::new(Janitor::start(&program, kept)?);
        let settings = directory.join("settings.toml");
        let new_cell = format!("[new_cell]\nchunk_size = {CHUNK_SIZE}\n");
        std::fs::write(&settings, new_cell)?;
        let start = |host: &str, mut arguments: Vec<String>| -> Result<ServerProcess> {
            let data = directory.join(host);
            arguments.extend(["--data".to_owned(), data.display().to_string()]);
            let listen = format!("{}:7400", lab.address(host)?);
            let around = (directory.as_path(), &janitor);
            let program = lab.program(&program, host);
            Ok(ServerProcess::start_at(&listen, &program, host, arguments, around)?)
        };
        let mut of_master = vec!["master".to_owned()];
        of_master.extend(["--config".to_owned(), settings.display().to_string()]);
        if options.small_cell {
            of_master.push("--small-cell".to_owned());
        }
        let master = start("m0", of_master)?;
        let chunkserver = |number: usize| {
            let rack = if number == 1 { "/rack-a" } else { "/rack-b" };
            let words = ["chunkserver", "--master", master.address(), "--rack", rack];
            start(&format!("s{number:02}"), words.map(str::to_owned).to_vec())
        };
        let chunkservers = (1..=SERVERS).map(chunkserver).collect::<Result<Vec<_>>>()?;
        let address = master.address().to_owned();
        let cell = Self {
            chunkservers,
            _master: master,
            address,
            program,
            directory,
            lab,
            _janitor: janitor,
        };
        await_until("all chunkservers", Duration::from_secs(60), || {
            let servers = cell.ask("c01", &["servers", "--json"])?;
            Ok::<_, anyhow::Error>(servers.matches("\"state\":\"live\"").count() == SERVERS)
        })?;
        Ok(cell)
    }

    fn ask(&self, host: &str, arguments: &[&str]) -> Result<String> {
        let program = self.lab.program(&self.program, host);
        Ok(program.ask(&[arguments, &["--cell", &self.address]].concat())?)
    }

    /// Chunks that lack replicas.
    fn lacking(&self) -> Result<usize> {
        let program = self.lab.program(&self.program, "c01");
        let mut command = program.command(["fsck", "--quick", "--json", "--cell", &self.address]);
        // It fails by its exit code where there are any.
        let told = command.output().context("starting fsck")?.stdout;
        Ok(String::from_utf8_lossy(&told).matches("\"goal\"").count())
    }

    /// Stores so many bytes as one file a client, all clients at once.
    fn store(&self, bytes: u64) -> Result<()> {
        let local = self.directory.join("local");
        generate(&local, bytes / CLIENTS)?;
        let put = |client: u64| {
            let (host, to) = (format!("c{:02}", client + 1), format!("/data-{client}"));
            self.ask(&host, &["put", "--deadline", "600", &text(&local), &to]).map(drop)
        };
        std::thread::scope(|scope| {
            let all: Vec<_> = (0..CLIENTS).map(|client| scope.spawn(move || put(client))).collect();
            all.into_iter().try_for_each(|one| match one.join() {
                Ok(stored) => stored,
                Err(_) => bail!("a thread that stores panicked"),
            })
        })
    }

    fn size_of(&self, server: usize) -> Result<u64> {
        Ok(size_below(&self.directory.join(format!("s{:02}", server + 1)).join("chunks"))?)
    }
}

/// Runs it.
///
/// # Errors
/// With whatever did not go as promised.
pub(crate) fn run(program: Program, options: &SoakOptions, teller: &Teller) -> Result<()> {
    let lab = options.lab.as_deref().context("it takes --lab PATH, the laboratory's program")?;
    let mut cell = LabCell::start(program, Lab::up(lab)?, options)?;
    teller.say(format_args!("{SERVERS} chunkservers behind links of 100 Mbit/s"));
    let begun = Instant::now();
    cell.store(options.gigabytes << 30)?;
    if begun.elapsed() > STORED_WITHIN {
        bail!("storing took {} s", begun.elapsed().as_secs());
    }
    let held = cell.size_of(0)?;
    teller.say(format_args!("s01 holds {} MB; it is killed", held / 1_000_000));
    cell.chunkservers[0].kill();
    let killed = Instant::now();
    recover(&cell, held, killed, teller)?;
    for at in [1, 2] {
        cell.chunkservers[at].kill();
    }
    teller.say("two more are killed");
    await_until("no chunk lacks replicas", WHOLE_WITHIN, || {
        let seen = cell.lacking()?;
        Ok::<_, anyhow::Error>(seen > 0)
    })?;
    await_whole(&cell)?;
    for client in 0..CLIENTS {
        let back = cell.directory.join("back");
        cell.ask(
            "c01",
            &["get", "-f", "--deadline", "600", &format!("/data-{client}"), &text(&back)],
        )?;
        crate::source_tree::same(&cell.directory.join("local"), 0, &back)?;
    }
    teller.say("every byte is there");
    Ok(())
}

/// Waits until every chunk is whole, and judges how fast that went (RC1).
fn recover(cell: &LabCell, held: u64, killed: Instant, teller: &Teller) -> Result<()> {
    let mut most = 0;
    let mut first = None;
    await_until("every chunk is whole", WHOLE_WITHIN, || {
        let lacking = cell.lacking()?;
        if lacking < most && first.is_none() {
            first = Some(Instant::now());
        }
        most = most.max(lacking);
        Ok::<_, anyhow::Error>(most > 0 && lacking == 0)
    })?;
    let first = first.context("some chunk is whole first")?;
    let took = first.elapsed().as_secs_f64();
    let together = LINK_BYTES_A_SECOND * (SERVERS - 1) as f64;
    let rate = held as f64 / took;
    let share = rate / together;
    teller.say(format_args!(
        "first of {most} chunks whole {:.1} s after the kill, the last {took:.1} s later: \
         {:.0} MB/s, {:.2} of what {} links could take",
        first.duration_since(killed).as_secs_f64(),
        rate / 1e6,
        share,
        SERVERS - 1,
    ));
    if share < SHARE_MIN {
        bail!("at least {SHARE_MIN} of it is asked");
    }
    Ok(())
}

fn await_whole(cell: &LabCell) -> Result<()> {
    await_until("every chunk is whole", WHOLE_WITHIN, || {
        Ok::<_, anyhow::Error>(cell.lacking()? == 0)
    })?;
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
