//! `cairn chunkserver`: runs a chunkserver until it is killed.

use crate::cell_address::{CellAddress, DEFAULT_CELL, check_advertise};
use crate::cli_error::{CliError, Doing};
use crate::data_directory::check_apart;
use crate::http::{HttpArguments, HttpDoor, HttpListener};
use crate::limit_arguments::LimitArguments;
use crate::log_arguments::LogArguments;
use crate::server_start::{ChunkserverStart, run_until_halted, say_ready, start_chunkserver};
use crate::settings::SettingsFile;
use cairn_types::Rack;
use clap::Args;
use std::path::PathBuf;

/// Where a chunkserver listens unless told otherwise: on this machine only.
const DEFAULT_LISTEN: &str = "127.0.0.1:7401";

/// Arguments of `chunkserver`.
#[derive(Args, Debug)]
pub(crate) struct ChunkserverArguments {
    /// A data directory; several, one per disk, by several --data or after commas
    #[arg(long, env = "CAIRN_DATA", value_name = "DIR", value_delimiter = ',')]
    data: Vec<PathBuf>,
    /// The cell's master, or several after commas, or a name of all [default: 127.0.0.1:7400]
    #[arg(
        long = "masters",
        visible_alias = "master",
        env = "CAIRN_MASTER",
        value_name = "ADDRESS"
    )]
    master: Option<String>,
    /// Where it listens [default: 127.0.0.1:7401]
    #[arg(long, env = "CAIRN_LISTEN", value_name = "ADDRESS")]
    listen: Option<String>,
    /// How others reach it, where that is not where it listens
    #[arg(long, env = "CAIRN_ADVERTISE", value_name = "ADDRESS")]
    advertise: Option<String>,
    /// Where it stands, such as /dc1/r7; replicas are spread over racks
    #[arg(long, env = "CAIRN_RACK", value_name = "PATH")]
    rack: Option<String>,
    #[command(flatten)]
    limits: LimitArguments,
    #[command(flatten)]
    http: HttpArguments,
    #[command(flatten)]
    log: LogArguments,
}

/// Runs it.
pub(crate) fn run(arguments: ChunkserverArguments, file: &SettingsFile) -> Result<(), CliError> {
    let doing = || "starting a chunkserver".to_owned();
    let limits = arguments.limits.of_chunkserver(file.chunkserver.limits()).doing(doing)?;
    let section = file.chunkserver.clone();
    let data = if arguments.data.is_empty() { section.data } else { arguments.data };
    if data.is_empty() {
        return Err(CliError::usage(
            doing(),
            "no data directory is named",
            "--data DIR, CAIRN_DATA, or data under [chunkserver] in the settings file",
        ));
    }
    let master = arguments.master.or(section.master).unwrap_or_else(|| DEFAULT_CELL.to_owned());
    let masters = CellAddress::parse(&master).doing(doing)?;
    let rack = arguments.rack.or(section.rack).unwrap_or_default();
    if !rack.is_empty() && !rack.starts_with('/') {
        let advice = "a rack is a path such as /dc1/r7";
        return Err(CliError::usage(doing(), format!("'{rack}' is no rack"), advice));
    }
    let advertise = arguments.advertise.or(section.advertise);
    advertise.as_deref().map_or(Ok(()), check_advertise).doing(doing)?;
    check_apart(&data).doing(doing)?;
    let start = ChunkserverStart {
        data,
        masters: masters.addresses(),
        listen: arguments.listen.or(section.listen).unwrap_or_else(|| DEFAULT_LISTEN.to_owned()),
        advertise,
        rack: Rack::new(rack),
        scrub: file.chunkserver.scrub(),
        servers: 1,
        limits,
        log: arguments.log.settings(file),
    };
    let http = arguments.http.choice(section.http.as_ref());
    let bound = HttpListener::bind(http.as_deref(), &start.listen)?;
    let started = start_chunkserver(&start)?;
    let _door = HttpDoor::open(bound, vec![started.seen], None, &start.log.sink())?;
    say_ready("chunkserver", &started.address);
    let data: Vec<String> = start.data.iter().map(|path| path.display().to_string()).collect();
    let doing = format!("serving the cell at {masters} with {}", data.join(", "));
    let advice = "check --masters, --data and the disk, and start it again";
    run_until_halted(&doing, advice, started.running)
}
