//! One run of a client command: which cell is meant, and the connections made so far.

use crate::cell_address::{CellAddress, DEFAULT_CELL, TargetPath};
use crate::cli_error::{Cause, CliError, Doing, warn};
use crate::exit_codes::{Exit, advice};
use crate::interrupt::remove_on_signal;
use crate::settings::{DEADLINE_DEFAULT_S, SettingsFile};
use crate::shadow_notice::line;
use crate::stderr::say;
use crate::trouble_lines::say_troubles;
use cairn_client::{Cell, Options, ShadowReads};
use cairn_protocol::{ErrorCode, Outcome};
use cairn_transfer::PartialFiles;
use cairn_types::{CellPath, Identity, Rack};
use std::collections::BTreeMap;
use std::fmt;
use std::io::{IsTerminal, stderr};
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;
use tokio::sync::oneshot;

/// What flags and environment say about the client's side.
#[derive(Clone, Debug, Default)]
pub(crate) struct ClientFlags {
    /// `--cell` or `CAIRN_CELL`.
    pub(crate) cell: Option<String>,
    /// `--deadline` or `CAIRN_DEADLINE`, in seconds.
    pub(crate) deadline: Option<u64>,
    /// Seconds that the command gives an operation where nobody said.
    pub(crate) usual_deadline: Option<u64>,
    /// Whether the command takes what may be behind.
    pub(crate) shadow_reads: ShadowReads,
    /// `--as` or `CAIRN_AS`: another than who runs this.
    pub(crate) identity: Option<Identity>,
}

/// Cells by address, each connected to at its first use.
pub(crate) struct Session {
    cell: CellAddress,
    options: Options,
    connected: Mutex<BTreeMap<CellAddress, Cell>>,
    partials: OnceLock<Arc<PartialFiles>>,
    /// A person reads its stderr.
    tells_troubles: bool,
}

/// A path in a cell that is connected to.
#[derive(Clone)]
pub(crate) struct RemotePath {
    /// The cell.
    pub(crate) cell: Cell,
    /// Where that cell is.
    pub(crate) address: CellAddress,
    /// The path in it.
    pub(crate) path: CellPath,
    /// Before the path where it is shown: the cell's address, if the person wrote one.
    prefix: String,
    /// It was written with a `/` at its end.
    pub(crate) directory: bool,
    /// It was written with a `/.` at its end: what is in it is meant.
    pub(crate) content: bool,
}

impl fmt::Display for RemotePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.prefix, self.path)
    }
}

impl RemotePath {
    /// Another path of the same cell.
    pub(crate) fn with_path(&self, path: CellPath) -> Self {
        Self { path, directory: false, content: false, ..self.clone() }
    }

    /// This directory's entry called `name`.
    ///
    /// # Errors
    /// Where the name is unfit for a cell.
    pub(crate) fn join(&self, name: &str) -> Result<Self, CliError> {
        let path = self.path.join(name).doing(|| format!("naming {name} in {self}"))?;
        Ok(self.with_path(path))
    }
}

/// How long a cell that may not be there is waited for, where no deadline was chosen.
const FIRST_WAIT: Duration = Duration::from_secs(5);
/// A person at a terminal is told what is waited for after so long.
const SILENT_WAIT: Duration = Duration::from_secs(1);
/// What the library says of a wait that has an end of its own here.
const TRIED: &str = " (tried until the deadline)";

/// How a client behaves: the deadline of the flag or environment, else of the settings file.
///
/// # Errors
/// Where that deadline can be none.
pub(crate) fn options(deadline: Option<u64>, file: &SettingsFile) -> Result<Options, CliError> {
    let chosen = deadline.or(file.deadline);
    let deadline = chosen.unwrap_or(DEADLINE_DEFAULT_S);
    if deadline == 0 || deadline > 86_400 {
        return Err(CliError::usage(
            "reading the deadline",
            format!("{deadline} is not from 1 to 86400 seconds"),
            "--deadline SECONDS is how long one operation may take",
        ));
    }
    let rack = file.rack.clone().unwrap_or_default();
    // Who has not said how long to wait learns soon that no cell is there.
    let first_wait = chosen.is_none().then_some(FIRST_WAIT);
    let (deadline, rack) = (Duration::from_secs(deadline), Rack::new(rack));
    Ok(Options { deadline, first_wait, rack, ..Options::default() })
}

/// Whatever refuses the first question as none of its business is no master: a chunkserver.
fn no_cell_there(error: cairn_client::Error) -> Cause {
    if error.code() != ErrorCode::Invalid {
        return error.into();
    }
    let why = format!("no master listens there ({error})");
    Cause::new(Exit::Unreachable, why, advice(ErrorCode::Unreachable, Outcome::NotDone))
}

/// Why a cell did not answer: where nobody said how long to wait, with how long that was.
fn told(error: cairn_client::Error, first_wait: Option<Duration>) -> Cause {
    let mut cause = no_cell_there(error);
    if let (Some(waited), Exit::Unreachable) = (first_wait, cause.exit)
        && let Some(why) = cause.why.strip_suffix(TRIED)
    {
        cause.why = format!("{why} (tried for {} s)", waited.as_secs());
        cause.advice.push_str("; --deadline SECONDS waits longer");
    }
    cause
}

/// Comes back only where none of the names leads anywhere, with the reason: a mistyped name is
/// not waited for.
async fn no_such_name(address: &CellAddress) -> Cause {
    let (tell, told) = oneshot::channel();
    let all: Vec<String> = address.as_str().split(',').map(str::to_owned).collect();
    if all.iter().any(|one| one.parse::<SocketAddr>().is_ok()) {
        return std::future::pending().await;
    }
    // A thread that nobody waits for: a name server may take its time.
    std::thread::spawn(move || {
        let why = all.iter().try_fold(None, |_, one| match one.to_socket_addrs() {
            Ok(_) => Err(()),
            Err(error) => Ok(Some(format!("{one}: {error}"))),
        });
        if let Ok(Some(why)) = why {
            // Where it was answered meanwhile, nobody listens.
            let _ = tell.send(why);
        }
    });
    match told.await {
        Ok(why) => {
            let advice = "check --cell (or CAIRN_CELL); --deadline SECONDS waits for the name";
            Cause::new(Exit::Unreachable, why, advice)
        }
        Err(_) => std::future::pending().await,
    }
}

/// Tells a person at a terminal what takes so long; never ends.
async fn say_waiting(address: &CellAddress, patience: Duration) -> Cause {
    tokio::time::sleep(SILENT_WAIT).await;
    if stderr().is_terminal() {
        let patience = patience.as_secs();
        say(format_args!("cairn: waiting for the cell at {address}, for {patience} s at most"));
    }
    std::future::pending().await
}

impl Session {
    /// Flags and environment before the settings file, before what is built in.
    ///
    /// # Errors
    /// Where the address can never be one.
    pub(crate) fn new(flags: ClientFlags, file: &SettingsFile) -> Result<Self, CliError> {
        let text = flags.cell.or_else(|| file.cell.clone());
        let text = text.as_deref().unwrap_or(DEFAULT_CELL);
        let cell = CellAddress::parse(text).doing(|| format!("reading the cell address {text}"))?;
        let shadow_reads = flags.shadow_reads;
        let mut options = Options { shadow_reads, ..options(flags.deadline, file)? };
        if let (None, Some(usual)) = (flags.deadline.or(file.deadline), flags.usual_deadline) {
            options.deadline = Duration::from_secs(usual);
        }
        let identity = flags.identity.unwrap_or_else(|| options.identity.clone());
        let options = Options { identity, ..options };
        let (connected, partials) = (Mutex::default(), OnceLock::new());
        Ok(Self { cell, options, connected, partials, tells_troubles: false })
    }

    /// The same, which says on stderr what takes long.
    pub(crate) fn for_a_person(self) -> Self {
        Self { tells_troubles: true, ..self }
    }

    /// The cell that is meant where no path names another.
    ///
    /// # Errors
    /// Where it does not answer.
    pub(crate) async fn cell(&self) -> Result<Cell, CliError> {
        self.connect(&self.cell).await
    }

    /// Says once, of each cell, if what was told may have been behind.
    pub(crate) async fn tell_of_shadows(&self) {
        let cells = self.connected.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for (address, cell) in cells {
            // Who cannot be asked any more has told of its own trouble.
            if let Ok(Some(notice)) = cell.shadow_notice().await {
                warn(&line(address.as_str(), &notice));
            }
        }
    }

    /// Names the parts of broken uploads that may be left over in the cell.
    pub(crate) fn tell_of_left_over(&self) {
        for path in self.partials.get().map(|it| it.take_left_over()).unwrap_or_default() {
            warn(&format!(
                "{path} may be left over in the cell, a part of what was not stored: rm removes it"
            ));
        }
    }

    /// How this client behaves.
    pub(crate) fn options(&self) -> &Options {
        &self.options
    }

    /// Where that cell is.
    pub(crate) fn address(&self) -> &CellAddress {
        &self.cell
    }

    /// A path as a person writes it, with its cell connected to.
    ///
    /// # Errors
    /// Where it is no path, or its cell does not answer.
    pub(crate) async fn remote_path(&self, text: &str) -> Result<RemotePath, CliError> {
        let target = TargetPath::parse(text).doing(|| format!("reading the path {text}"))?;
        let prefix = target.cell.as_ref().map(|cell| format!("cairn://{cell}")).unwrap_or_default();
        let address = target.cell.clone().unwrap_or_else(|| self.cell.clone());
        let cell = self.connect(&address).await?;
        let TargetPath { path, directory, content, .. } = target;
        Ok(RemotePath { cell, address, path, prefix, directory, content })
    }

    /// Where files are noted that are not whole yet: from the first call on, a signal has them
    /// removed before it ends the process.
    ///
    /// # Errors
    /// Where this machine does not tell of signals.
    pub(crate) fn partials(&self) -> Result<Arc<PartialFiles>, CliError> {
        if let Some(partials) = self.partials.get() {
            return Ok(partials.clone());
        }
        let partials = self.partials.get_or_init(Arc::default).clone();
        remove_on_signal(partials.clone())?;
        Ok(partials)
    }

    async fn connect(&self, address: &CellAddress) -> Result<Cell, CliError> {
        let known = |cells: &Mutex<BTreeMap<_, Cell>>| {
            cells.lock().unwrap_or_else(PoisonError::into_inner).get(address).cloned()
        };
        if let Some(cell) = known(&self.connected) {
            return Ok(cell);
        }
        let cell = self.reach(address).await.doing(|| format!("reaching the cell at {address}"))?;
        let mut cells = self.connected.lock().unwrap_or_else(PoisonError::into_inner);
        let cell = cells.entry(address.clone()).or_insert_with(|| {
            if self.tells_troubles {
                tokio::spawn(say_troubles(cell.clone()));
            }
            cell
        });
        Ok(cell.clone())
    }

    async fn reach(&self, address: &CellAddress) -> Result<Cell, Cause> {
        let first_wait = self.options.first_wait;
        let patience = first_wait.unwrap_or(self.options.deadline);
        tokio::select! {
            connected = Cell::connect(address.as_str(), self.options.clone()) => {
                connected.map_err(|error| told(error, first_wait))
            }
            cause = no_such_name(address), if first_wait.is_some() => Err(cause),
            cause = say_waiting(address, patience) => Err(cause),
        }
    }
}
