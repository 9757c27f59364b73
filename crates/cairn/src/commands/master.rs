//! `cairn master`: runs a master until it is killed.

use crate::cell_address::{CellAddress, check_advertise};
use crate::cli_error::{CliError, Doing};
use crate::http::{HttpArguments, HttpDoor, HttpListener, RunCommand, ServerSeen};
use crate::interrupt::stop_on_signal;
use crate::limit_arguments::LimitArguments;
use crate::log_arguments::LogArguments;
use crate::server_start::{
    MasterStart, MasterStarted, await_group, run_until_halted, say_ready, start_master,
};
use crate::settings::SettingsFile;
use cairn_types::{CellConfig, Term};
use clap::Args;
use std::path::PathBuf;

/// Where a master listens unless told otherwise: on this machine only.
pub(crate) const DEFAULT_LISTEN: &str = "127.0.0.1:7400";

/// Arguments of `master`.
#[derive(Args, Debug)]
pub(crate) struct MasterArguments {
    /// Its data directory; made where there is none
    #[arg(long, env = "CAIRN_DATA", value_name = "DIR")]
    data: Option<PathBuf>,
    /// Where it listens [default: 127.0.0.1:7400]
    #[arg(long, env = "CAIRN_LISTEN", value_name = "ADDRESS")]
    listen: Option<String>,
    /// How other masters reach it, where that is not where it listens
    #[arg(long, env = "CAIRN_ADVERTISE", value_name = "ADDRESS")]
    advertise: Option<String>,
    /// Found the cell with the settings of a small one: deaths are believed sooner
    #[arg(long)]
    small_cell: bool,
    /// Make a checkpoint after so many records: for benches, which have not all day
    #[arg(long, hide = true, value_name = "COUNT")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    checkpoint_every_records: Option<u64>,
    /// Go on from an old copy of the directory, past the TERM that the master has named: a newer
    /// directory is lost, and with it the names that it alone knows. Other starts with it change
    /// nothing more
    #[arg(long, value_name = "TERM")]
    recover_past: Option<u64>,
    /// The masters that are to be a group, this one among them, as others reach them: with an
    /// empty data directory it founds no cell, and waits for `cairn masters create`
    #[arg(long, value_name = "MASTERS")]
    peers: Option<String>,
    #[command(flatten)]
    limits: LimitArguments,
    #[command(flatten)]
    http: HttpArguments,
    #[command(flatten)]
    log: LogArguments,
}

/// Runs it.
pub(crate) fn run(
    arguments: MasterArguments,
    file: &SettingsFile,
    commands: RunCommand,
) -> Result<(), CliError> {
    let Some(data) = arguments.data.or_else(|| file.master.data.clone()) else {
        return Err(CliError::usage(
            "starting the master",
            "no data directory is named",
            "--data DIR, CAIRN_DATA, or data under [master] in the settings file",
        ));
    };
    let listen = arguments.listen.or_else(|| file.master.listen.clone());
    let base = if arguments.small_cell { CellConfig::small() } else { CellConfig::standard() };
    let limits = arguments.limits.of_master(file.master.limits());
    let limits = limits.doing(|| "starting the master".to_owned())?;
    let peers = match arguments.peers.or_else(|| file.master.peers.clone()) {
        Some(text) => {
            let reading = || format!("reading the peers {text}");
            CellAddress::parse(&text).doing(reading)?.addresses()
        }
        None => Vec::new(),
    };
    let advertise = arguments.advertise.or_else(|| file.master.advertise.clone());
    let starting = || "starting the master".to_owned();
    advertise.as_deref().map_or(Ok(()), check_advertise).doing(starting)?;
    let mut start = MasterStart {
        peers,
        data,
        listen: listen.unwrap_or_else(|| DEFAULT_LISTEN.to_owned()),
        advertise,
        config: file.new_cell.apply(base),
        checkpoint_every_records: arguments.checkpoint_every_records,
        recover_past: arguments.recover_past.map(Term::new),
        servers: 1,
        limits,
        log: arguments.log.settings(file),
    };
    let http = arguments.http.choice(file.master.http.as_ref());
    let mut bound = Some(HttpListener::bind(http.as_deref(), &start.listen)?);
    let mut door: Option<HttpDoor> = None;
    let mut show = |address: &str, seen: &ServerSeen| -> Result<(), CliError> {
        if let Some(bound) = bound.take() {
            let (seen, log) = (vec![seen.clone()], start.log.sink());
            door = Some(HttpDoor::open(bound, seen, Some((address, commands)), &log)?);
        } else if let Some(door) = &door {
            door.show(vec![seen.clone()]);
        }
        Ok(())
    };
    let doing = format!("serving as a master with {}", start.data.display());
    loop {
        match start_master(&start)? {
            MasterStarted::Serves(started) => {
                show(&started.address, &started.seen)?;
                say_ready("master", &started.address);
                stop_on_signal(started.running.sender()).doing(|| doing.clone())?;
                let advice = "check the disk and start it again";
                return run_until_halted(&doing, advice, started.running);
            }
            MasterStarted::Waits(waiting) => {
                show(&waiting.address, &waiting.seen)?;
                say_ready("master without a group", &waiting.address);
                start.listen.clone_from(&waiting.address);
                await_group(&doing, waiting)?;
            }
        }
    }
}
