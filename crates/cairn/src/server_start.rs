//! Starting servers in this process: what `master`, `chunkserver` and `dev` have in common.
//!
//! - V1: a server says that it is ready only when its address is bound and its data is recovered.
//! - V2: there is no clean way to stop: kill is the normal way, and always safe (design §5).

use crate::cell_address::check_listen;
use crate::cli_error::{Cause, CliError, Doing};
use crate::data_directory::{check_ours, is_missing};
use crate::exit_codes::Exit;
use crate::fresh_seed::fresh_seed;
use crate::http::{PartSeen, ServerSeen};
use crate::limit_arguments::ServerLimits;
use crate::log_form::LogSettings;
use cairn_chunkserver::{
    Chunkserver, ChunkserverConfig, ChunkserverOpenError, ScrubSettings, TRASH_LANE,
};
use cairn_env::{Disk, DiskError, IoFailure, LogEvent};
use cairn_env_os::{
    BindError, DescriptorBudget, DescriptorShare, HaltReason, LaunchError, LaunchLimits,
    LaunchOptions, LogSink, OsDisk, ProcessMeter, Running, TooFewDescriptors, UnopenedDisk,
};
use cairn_master::{
    CHECKPOINT_LANE, JOINED, Master, MasterConfig, MasterOpenError, RecoveryError, STOPPED,
    TAKEN_OUT, WaitingMember,
};
use cairn_store::{LogOpenError, StoreOpenError};
use cairn_types::{Address, CellConfig, Rack, Term};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// A connection of a master's own to another server is given up after so long without a sign of the
/// other machine: the kernel asks ever more seldom whether a cut link is there again, and the next
/// election may need it.
const MASTERS_UNTAKEN_MAX: Duration = Duration::from_secs(2);
/// Threads for a master's disk work: the log, and pieces of checkpoints that others read, which no
/// flush of the log has to wait for. Checkpoints are made in one of their own.
const MASTER_WORKERS: usize = 2;
/// Threads for a chunkserver's disk work.
const CHUNKSERVER_WORKERS: usize = 4;

impl From<BindError> for Cause {
    fn from(error: BindError) -> Self {
        // The error's own line says what to do.
        Self::new(Exit::Local, error.to_string(), "")
    }
}

impl From<LaunchError> for Cause {
    fn from(error: LaunchError) -> Self {
        Self::new(Exit::Local, error.to_string(), "")
    }
}

impl From<TooFewDescriptors> for Cause {
    fn from(error: TooFewDescriptors) -> Self {
        Self::new(Exit::Local, error.to_string(), "")
    }
}

impl From<MasterOpenError> for Cause {
    fn from(error: MasterOpenError) -> Self {
        let exit = match &error {
            MasterOpenError::Config(_)
            | MasterOpenError::TermsSpent
            | MasterOpenError::RecoverGroup => Exit::Usage,
            MasterOpenError::NotAMaster { .. }
            | MasterOpenError::Backup { .. }
            | MasterOpenError::Remains { .. }
            | MasterOpenError::TakenOut { .. } => Exit::Stranger,
            MasterOpenError::Disk { error, .. }
            | MasterOpenError::Recovery {
                error: RecoveryError::Disk(error) | RecoveryError::Log(LogOpenError::Disk(error)),
                ..
            } => exit_of_disk(error),
            MasterOpenError::Recovery { .. }
            | MasterOpenError::Identity(_)
            | MasterOpenError::LogGone { .. } => Exit::Damaged,
            MasterOpenError::Running { .. } | MasterOpenError::Consensus(_) => Exit::Local,
        };
        Self::new(exit, error.to_string(), "")
    }
}

impl From<ChunkserverOpenError> for Cause {
    fn from(error: ChunkserverOpenError) -> Self {
        let exit = match &error {
            ChunkserverOpenError::Config(_) => Exit::Usage,
            ChunkserverOpenError::Store(StoreOpenError::Foreign { .. }) => Exit::Stranger,
            ChunkserverOpenError::Store(
                StoreOpenError::Journal { .. } | StoreOpenError::JournalMissing { .. },
            ) => Exit::Damaged,
            ChunkserverOpenError::Store(StoreOpenError::Disk { error, .. }) => exit_of_disk(error),
            ChunkserverOpenError::Store(_) => Exit::Local,
        };
        Self::new(exit, error.to_string(), "")
    }
}

fn exit_of_disk(error: &DiskError) -> Exit {
    match error {
        DiskError::NoSpace | DiskError::NoSpaceMidway => Exit::Full,
        DiskError::Io(_) | DiskError::SyncFailed(_) => Exit::Local,
    }
}

/// How to start a master.
pub(crate) struct MasterStart {
    /// Its data directory.
    pub(crate) data: PathBuf,
    /// Where it listens; port 0 takes any that is free.
    pub(crate) listen: String,
    /// How others reach it, where that is not where it listens.
    pub(crate) advertise: Option<String>,
    /// What the cell agrees on, where this master founds it.
    pub(crate) config: CellConfig,
    /// Records from one checkpoint to the next; none: as it is built in.
    pub(crate) checkpoint_every_records: Option<u64>,
    /// The term up to which changes are lost with a newer directory (R3).
    pub(crate) recover_past: Option<Term>,
    /// The masters that are to be a group, this one among them; empty: it founds a cell by itself.
    pub(crate) peers: Vec<Address>,
    /// Servers in this process, this one among them: they share its descriptors.
    pub(crate) servers: usize,
    /// What it tells the person who runs it.
    pub(crate) log: LogSettings,
    /// What it may take of its machine.
    pub(crate) limits: ServerLimits,
}

/// How to start a chunkserver.
pub(crate) struct ChunkserverStart {
    /// Its data directories, one per disk.
    pub(crate) data: Vec<PathBuf>,
    /// The cell's masters.
    pub(crate) masters: Vec<Address>,
    /// Where it listens; port 0 takes any that is free.
    pub(crate) listen: String,
    /// How others reach it, where that is not where it listens.
    pub(crate) advertise: Option<String>,
    /// Where it stands.
    pub(crate) rack: Rack,
    /// How often its blocks are verified, and how fast.
    pub(crate) scrub: ScrubSettings,
    /// Servers in this process, this one among them: they share its descriptors.
    pub(crate) servers: usize,
    /// What it tells the person who runs it.
    pub(crate) log: LogSettings,
    /// What it may take of its machine.
    pub(crate) limits: ServerLimits,
}

/// A server at work.
pub(crate) struct StartedServer<C> {
    /// Where it listens.
    pub(crate) address: String,
    /// Its loop.
    pub(crate) running: Running<C>,
    /// Where it notes what its HTTP door tells.
    pub(crate) seen: ServerSeen,
}

/// Recovers a master's data, or founds a cell, and serves.
///
/// # Errors
/// One line that says what is in the way.
pub(crate) fn start_master(start: &MasterStart) -> Result<MasterStarted, CliError> {
    let doing = || format!("starting the master on {}", start.data.display());
    check_listen(&start.listen).doing(doing)?;
    // First the address: a master that cannot serve founds no cell.
    let listener = cairn_env_os::bind(&start.listen).doing(doing)?;
    let address = listener.local_addr().doing(doing)?.to_string();
    let log = start.log.sink();
    let (descriptors, limits, meter) = bounds(start.limits, 1, start.servers, &log).doing(doing)?;
    let disk = open_disk(&start.data, descriptors).doing(doing)?;
    let seed = fresh_seed().doing(doing)?;
    if !start.peers.is_empty() && needs_group(&disk).doing(doing)? {
        return Ok(MasterStarted::Waits(wait_for_group(start, disk, (listener, address), seed)?));
    }
    let mut config = MasterConfig::standard(start.config.clone(), seed);
    if let Some(count) = start.checkpoint_every_records {
        config.checkpoint_every_records = count;
    }
    config.recover_past = start.recover_past;
    cairn_env_os::end_at_unreadable_pages(Exit::Halted.number()).doing(doing)?;
    let (mut driver, service) = Master::open(disk, config).doing(doing)?;
    if start.peers.len() > 1 && driver.was_always_alone() {
        let why = "its directory is that of a cell with one master";
        let advice = "start it without --peers, and take others in with 'cairn masters add'";
        return Err(CliError::usage(doing(), why, advice));
    }
    if let Some(at) = reached_at(start, &address) {
        driver.reach_at(at);
    }
    driver.measure(meter.clone());
    if start.log.tells_debug() {
        driver.tell_debug();
    }
    let part = PartSeen::Master(driver.gauges());
    let seen = ServerSeen { address: address.clone(), meter: meter.clone(), part };
    let options = LaunchOptions {
        listener: Some(listener),
        workers: MASTER_WORKERS,
        background: Some(CHECKPOINT_LANE),
        limits,
        untaken_max: MASTERS_UNTAKEN_MAX,
        meter,
        log,
        rpc_log: start.log.rpc_log.within(&start.data),
        ..LaunchOptions::new("master")
    };
    let running = cairn_env_os::launch(driver, service, options).doing(doing)?;
    Ok(MasterStarted::Serves(StartedServer { address, running, seen }))
}

/// How others reach a master: none where it listens at whatever address its machine has, and
/// nobody has said which that is.
fn reached_at(start: &MasterStart, listens: &str) -> Option<Address> {
    let named = start.advertise.clone();
    let bound = listens.parse::<std::net::SocketAddr>().ok();
    let own = bound.filter(|at| !at.ip().is_unspecified()).map(|at| at.to_string());
    named.or(own).map(Address::new)
}

/// A master that was started.
pub(crate) enum MasterStarted {
    /// It is one.
    Serves(StartedServer<<Master as cairn_env::Driver>::Command>),
    /// It waits to be made a member of a group; then its loop ends.
    Waits(StartedServer<()>),
}

/// Whether a directory is nobody's yet.
fn needs_group(disk: &Arc<dyn Disk>) -> Result<bool, Cause> {
    let identity = cairn_store::read_identity(disk.as_ref());
    let identity = identity.map_err(|error| Cause::new(Exit::Damaged, error.to_string(), ""))?;
    Ok(identity.is_none())
}

fn wait_for_group(
    start: &MasterStart,
    disk: Arc<dyn Disk>,
    (listener, address): (std::net::TcpListener, String),
    seed: u64,
) -> Result<StartedServer<()>, CliError> {
    let doing = || format!("starting the master on {}", start.data.display());
    let size = cairn_store::SEGMENT_SIZE_STANDARD;
    let (driver, service) = WaitingMember::new(disk, size, start.peers.clone(), seed);
    let (log, meter) = (start.log.sink(), Arc::<ProcessMeter>::default());
    let (address_seen, part) = (address.clone(), PartSeen::Waiting);
    let seen = ServerSeen { address: address_seen, meter: meter.clone(), part };
    let listener = Some(listener);
    let options = LaunchOptions { listener, log, meter, ..LaunchOptions::new("waiting-master") };
    let running = cairn_env_os::launch(driver, service, options).doing(doing)?;
    Ok(StartedServer { address, running, seen })
}

/// Waits until a master has become a member of its group.
///
/// # Errors
/// The reason why it ended otherwise.
pub(crate) fn await_group(doing: &str, waiting: StartedServer<()>) -> Result<(), CliError> {
    match waiting.running.wait() {
        Err(HaltReason(why)) if why == JOINED => Ok(()),
        Err(HaltReason(why)) => {
            let advice = "check the disk and start it again";
            Err(CliError::new(doing, Cause::new(Exit::Halted, why, advice)))
        }
        Ok(()) => unreachable!("nobody stops it"),
    }
}

/// Recovers a chunkserver's data and serves; it joins the cell as soon as a master answers.
///
/// # Errors
/// One line that says what is in the way.
pub(crate) fn start_chunkserver(
    start: &ChunkserverStart,
) -> Result<StartedServer<<Chunkserver as cairn_env::Driver>::Command>, CliError> {
    let shown: Vec<String> = start.data.iter().map(|path| path.display().to_string()).collect();
    let doing = || format!("starting a chunkserver on {}", shown.join(", "));
    check_listen(&start.listen).doing(doing)?;
    let log = start.log.sink();
    let (descriptors, limits, meter) =
        bounds(start.limits, start.data.len(), start.servers, &log).doing(doing)?;
    let disks = open_disks(&start.data, descriptors).doing(doing)?;
    let seed = fresh_seed().doing(doing)?;
    let listener = cairn_env_os::bind(&start.listen).doing(doing)?;
    let address = listener.local_addr().doing(doing)?;
    if start.advertise.is_none() && address.ip().is_unspecified() {
        return Err(CliError::usage(
            doing(),
            format!("it listens on {address}, which is no address that others can reach"),
            "--advertise HOST:PORT says how they reach it",
        ));
    }
    let address = address.to_string();
    let mut masters = start.masters.clone();
    masters.extend(cairn_env_os::behind_names(&masters));
    let config = ChunkserverConfig {
        address: Address::new(start.advertise.clone().unwrap_or_else(|| address.clone())),
        rack: start.rack.clone(),
        masters,
        seed,
        push_buffer_size: start.limits.pushes,
        scrub: start.scrub,
    };
    let (mut driver, service) = Chunkserver::open(disks, config).doing(doing)?;
    if start.log.tells_debug() {
        driver.tell_debug();
    }
    service.measure(meter.clone());
    let works = service.directories().iter().position(|it| it.failure.is_none());
    let part = PartSeen::Chunkserver(driver.gauges());
    let seen = ServerSeen { address: address.clone(), meter: meter.clone(), part };
    let options = LaunchOptions {
        listener: Some(listener),
        workers: CHUNKSERVER_WORKERS,
        background: Some(TRASH_LANE),
        limits,
        meter,
        log,
        // A server has one, beside the chunks of its first disk that works.
        rpc_log: works.and_then(|at| start.log.rpc_log.within(&start.data[at])),
        ..LaunchOptions::new("chunkserver")
    };
    let running = cairn_env_os::launch(driver, service, options).doing(doing)?;
    Ok(StartedServer { address, running, seen })
}

/// A server's part of the process's descriptors, what its peers may make it hold, and who measures
/// that; warns where a server of its own has few.
fn bounds(
    limits: ServerLimits,
    directories: usize,
    servers: usize,
    log: &LogSink,
) -> Result<(DescriptorShare, LaunchLimits, Arc<ProcessMeter>), TooFewDescriptors> {
    let budget = match limits.descriptors {
        Some(count) => DescriptorBudget::choose(count)?,
        None => DescriptorBudget::raise(),
    };
    let share = budget.share(directories, servers)?;
    // Whoever chose the limit knows it, and a whole cell in one process serves one person.
    let is_known = limits.descriptors.is_some() || servers > 1;
    if share.accepted_max < LaunchLimits::default().accepted_max && !is_known {
        let event = LogEvent::warn("few file descriptors")
            .with_number("limit", budget.limit() as u64)
            .with_number("connections", share.accepted_max as u64)
            .with_number("files_per_directory", share.files_per_directory as u64);
        log.put(cairn_env_os::clock::wall_time(), &event);
    }
    let DescriptorShare { accepted_max, dialled_max, .. } = share;
    let launch = LaunchLimits { accepted_max, dialled_max, memory_max: limits.peers };
    let meter = Arc::new(ProcessMeter::new(launch, budget.limit()));
    Ok((share, launch, meter))
}

/// Waits for the end, which comes by a kill (V2) or by a halt that says why.
///
/// # Errors
/// The reason of the halt, with `advice`.
pub(crate) fn run_until_halted<C>(
    doing: &str,
    advice: &str,
    running: Running<C>,
) -> Result<(), CliError> {
    match running.wait() {
        Err(HaltReason(why)) if why == STOPPED => Ok(()),
        Err(HaltReason(why)) if why == TAKEN_OUT => {
            let advice = "to take it in again, start it with --peers on an empty directory";
            Err(CliError::new(doing, Cause::new(Exit::Halted, why, advice)))
        }
        Err(HaltReason(why)) => Err(CliError::new(doing, Cause::new(Exit::Halted, why, advice))),
        Ok(()) => Ok(()),
    }
}

/// Says on stdout that a server is ready, in a line that scripts can wait for. A reader that has
/// gone is no reason to stop.
pub(crate) fn say_ready(what: &str, address: &str) {
    use std::io::Write;
    let mut stdout = std::io::stdout().lock();
    let _ = writeln!(stdout, "cairn: {what} ready on {address}");
    let _ = stdout.flush();
}

fn open_disk(data: &Path, descriptors: DescriptorShare) -> Result<Arc<dyn Disk>, Cause> {
    check_ours(data)?;
    match OsDisk::open_within(data, descriptors.files_per_directory) {
        Ok(disk) => Ok(Arc::new(disk)),
        Err(failure) => Err(not_opened(data, &failure)),
    }
}

fn not_opened(data: &Path, failure: &IoFailure) -> Cause {
    let advice = "name a directory that this process may write to";
    Cause::new(Exit::Local, format!("{}: {failure}", data.display()), advice)
}

/// The disks of a chunkserver, as long as one of them can be opened: whether it starts without the
/// others is decided when it is known what that one holds.
fn open_disks(all: &[PathBuf], descriptors: DescriptorShare) -> Result<Vec<Arc<dyn Disk>>, Cause> {
    let (mut disks, mut unopened) = (Vec::<Arc<dyn Disk>>::new(), Vec::new());
    for data in all {
        check_ours(data)?;
        let opened = match is_missing(data, all) {
            true => Err(IoFailure::NotFound),
            false => OsDisk::open_within(data, descriptors.files_per_directory),
        };
        match opened {
            Ok(disk) => disks.push(Arc::new(disk)),
            Err(failure) => {
                unopened.push(not_opened(data, &failure));
                let count = descriptors.files_per_directory;
                disks.push(Arc::new(UnopenedDisk::new(data, count, failure)));
            }
        }
    }
    let is_any_opened = unopened.len() < disks.len();
    match unopened.into_iter().next() {
        Some(cause) if !is_any_opened => Err(cause),
        Some(_) | None => Ok(disks),
    }
}
