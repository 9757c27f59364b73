//! `cairn dev`: a whole cell in one process, for development.
//!
//! The servers are the same as elsewhere, each with its own loop and threads; they share nothing
//! but the process, and talk over loopback.

use crate::cli_error::{CliError, Doing};
use crate::commands::master::DEFAULT_LISTEN;
use crate::data_directory::check_dev;
use crate::http::{HttpArguments, HttpDoor, HttpListener, RunCommand};
use crate::limit_arguments::ServerLimits;
use crate::log_arguments::LogArguments;
use crate::server_start::{
    ChunkserverStart, MasterStart, MasterStarted, run_until_halted, say_ready, start_chunkserver,
    start_master,
};
use crate::settings::SettingsFile;
use crate::stderr::say;
use cairn_testkit::{Janitor, Program};
use cairn_types::{Address, CellConfig, Rack};
use clap::Args;
use std::hash::{BuildHasher, RandomState};
use std::path::{Path, PathBuf};

/// Arguments of `dev`.
#[derive(Args, Debug)]
pub(crate) struct DevArguments {
    /// Keep the data here [default: a fresh directory for each run]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Chunkservers
    #[arg(long, default_value_t = 3, value_name = "COUNT")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=100))]
    servers: u64,
    /// Where the master listens
    #[arg(long, default_value = DEFAULT_LISTEN, value_name = "ADDRESS")]
    listen: String,
    #[command(flatten)]
    http: HttpArguments,
    #[command(flatten)]
    log: LogArguments,
}

/// Runs it.
pub(crate) fn run(
    dev: &DevArguments,
    file: &SettingsFile,
    commands: RunCommand,
) -> Result<(), CliError> {
    let fresh = || {
        let name = format!("cairn-dev-{:016x}", RandomState::new().hash_one("dev"));
        std::env::temp_dir().join(name)
    };
    let data = dev.data.clone().unwrap_or_else(fresh);
    check_dev(&data).doing(|| format!("starting a cell in {}", data.display()))?;
    // Held until the end, however that comes: a fresh directory goes with the process.
    let clean_up = || Program::this().and_then(|this| Janitor::start(&this, Some(&data)));
    let janitor = dev.data.is_none().then(clean_up).transpose();
    let _janitor = janitor.doing(|| "starting the janitor".to_owned())?;
    let servers = usize::try_from(dev.servers).map_or(usize::MAX, |count| count.saturating_add(1));
    let http = dev.http.choice(file.master.http.as_ref());
    let bound = HttpListener::bind(http.as_deref(), &dev.listen)?;
    let master = start_master(&MasterStart {
        data: data.join("master"),
        listen: dev.listen.clone(),
        advertise: None,
        checkpoint_every_records: None,
        recover_past: None,
        peers: Vec::new(),
        log: dev.log.settings(file),
        config: file.new_cell.apply(CellConfig::small()),
        servers,
        limits: ServerLimits::default(),
    })?;
    let MasterStarted::Serves(master) = master else {
        unreachable!("only one that was told of peers waits for them")
    };
    let mut chunkservers = Vec::new();
    for number in 1..=dev.servers {
        chunkservers.push(start_chunkserver(&ChunkserverStart {
            data: vec![data.join(format!("chunkserver-{number}"))],
            masters: vec![Address::new(master.address.clone())],
            listen: "127.0.0.1:0".to_owned(),
            advertise: None,
            rack: Rack::new(format!("/rack-{number}")),
            scrub: file.chunkserver.scrub(),
            servers,
            limits: ServerLimits::default(),
            log: dev.log.settings(file),
        })?);
    }
    let asked = Some((master.address.as_str(), commands));
    let all = chunkservers.iter().map(|server| server.seen.clone());
    let all = std::iter::once(master.seen).chain(all).collect();
    let door = HttpDoor::open(bound, all, asked, &dev.log.settings(file).sink())?;
    say_ready("cell", &master.address);
    explain_use(dev, &data, (&master.address, door.address.as_deref()));
    let doing = format!("serving a cell with {}", data.display());
    run_until_halted(&doing, "check the disk and start it again", master.running)
}

fn explain_use(dev: &DevArguments, data: &Path, (address, http): (&str, Option<&str>)) {
    let cell = if address == DEFAULT_LISTEN { String::new() } else { format!(" --cell {address}") };
    say(format_args!(
        "one master and {} chunkservers in this process; data in {}",
        dev.servers,
        data.display()
    ));
    if dev.data.is_none() {
        say("the data goes when the process ends; --data DIR keeps it");
    }
    if let Some(http) = http {
        say(format_args!("metrics, health and JSON: http://{http}/"));
    }
    say(format_args!("try:  cairn put Cargo.toml /{cell}"));
    say(format_args!("      cairn ls -l /{cell}"));
    say(format_args!("      date | cairn append /log{cell}"));
    say(format_args!("      cairn tail -f /log{cell}"));
    say(format_args!("      cairn status{cell}"));
    say("Ctrl-C or kill stops it.");
}
