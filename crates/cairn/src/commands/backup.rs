//! `cairn masters backup` and `recover`: a copy of a cell's metadata, taken while it runs; and a
//! master made of one, or of what is left of a group (R3).
//!
//! - BK1: a backup has its name when all of it is there and every page was verified; until then it
//!   lies beside, in a directory whose name ends in `.partial`.
//! - BK2: `recover` says what may be lost and does nothing, until it is told so a second time by
//!   the number of the record that it goes on from.

use super::master_survey::MasterSurvey;
use crate::cell_address::CellAddress;
use crate::cli_error::{Cause, CliError, Doing, warn};
use crate::data_directory::check_apart;
use crate::exit_codes::Exit;
use crate::fresh_seed::fresh_seed;
use crate::output::Output;
use crate::session::Session;
use cairn_client::Masters;
use cairn_env::Disk;
use cairn_env_os::OsDisk;
use cairn_master::{IncomingBackup, RecoveryError, Remains, RemainsError};
use cairn_protocol::ErrorCode;
use cairn_store::LogOpenError;
use cairn_types::{Address, Term};
use clap::Args;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How often a backup is begun whose checkpoint is gone before all of it has come.
const TRIES: usize = 10;
/// So many terms after the last known one are taken for lost: each start of a master, and in a
/// group each election, takes one.
const TERMS_LOST: u64 = 1_000;

/// Arguments of `backup`.
#[derive(Args, Debug)]
pub(crate) struct BackupArguments {
    /// A directory of this machine that is not there yet
    #[arg(value_name = "DIR")]
    into: PathBuf,
    /// Of this master, whatever it is to its group [default: the one in charge]
    #[arg(long, value_name = "MASTER")]
    from: Option<String>,
}

/// Arguments of `recover`.
#[derive(Args, Debug)]
pub(crate) struct RecoverMasterArguments {
    /// A backup, or the data directory of a master that does not run
    #[arg(value_name = "FROM")]
    from: PathBuf,
    /// The new master's data directory; empty, or not there yet
    #[arg(long, value_name = "DIR")]
    into: PathBuf,
    /// The last term that may have been lost; servers name a later one if there was one
    /// [default: a thousand after the last one that FROM knows]
    #[arg(long, value_name = "TERM")]
    past: Option<u64>,
    /// Go on from the newest checkpoint alone, where the operation log does not read
    #[arg(long)]
    without_log: bool,
    /// Do it: the record that it is said to go on from
    #[arg(long, value_name = "RECORD")]
    agree: Option<u64>,
}

impl From<RemainsError> for Cause {
    fn from(error: RemainsError) -> Self {
        let newer = "start the build that wrote it";
        let without = "--without-log goes on from the newest checkpoint alone";
        let disk = "check the disk, or copy the directory to another one first";
        let (exit, advice) = match &error {
            RemainsError::Running(_) => (Exit::Local, ""),
            RemainsError::Nothing(_) => (Exit::Usage, "name the directory that has them"),
            RemainsError::NoState(_) => {
                (Exit::Damaged, "take another backup, or the directory of another master")
            }
            RemainsError::NotEmpty(..) => (Exit::Exists, "name an empty directory"),
            RemainsError::TermsSpent(_) => (Exit::Usage, "name an earlier one"),
            RemainsError::TooMuch => (Exit::Damaged, "take it from another master with --from"),
            RemainsError::Damaged(_) | RemainsError::Disk(_) => (Exit::Local, disk),
            RemainsError::Log(LogOpenError::Disk(_))
            | RemainsError::Recovery(RecoveryError::Disk(_)) => (Exit::Local, disk),
            RemainsError::Recovery(
                RecoveryError::Undecodable { .. }
                | RecoveryError::UndecodableMark
                | RecoveryError::Checkpoint { .. },
            ) => (Exit::Damaged, newer),
            RemainsError::Log(_) | RemainsError::Recovery(_) => (Exit::Damaged, without),
        };
        Self::new(exit, error.to_string(), advice)
    }
}

fn open(directory: &Path) -> Result<Arc<dyn Disk>, Cause> {
    match OsDisk::open(directory) {
        Ok(disk) => Ok(Arc::new(disk)),
        Err(failure) => {
            let advice = "name a directory that this process may write to";
            Err(Cause::new(Exit::Local, format!("{}: {failure}", directory.display()), advice))
        }
    }
}

/// Takes a backup.
pub(crate) async fn back_up(
    arguments: BackupArguments,
    session: &Session,
    output: &Output,
) -> Result<(), CliError> {
    let into = &arguments.into;
    let doing = || format!("taking a backup into {}", into.display());
    check_free(into).doing(doing)?;
    let told = session.address().addresses();
    let masters = Masters::new(&told, session.options()).doing(doing)?;
    let from = match &arguments.from {
        Some(from) => CellAddress::parse(from).doing(doing)?.addresses().swap_remove(0),
        None => best_of(&masters, &told).await.doing(doing)?,
    };
    let beside = beside(into).doing(doing)?;
    let fetched = fetch(&masters, &from, &beside).await;
    if fetched.is_err() {
        // It is this process's own; what does not go is told of by the next backup (BK1).
        let _ = std::fs::remove_dir_all(&beside);
    }
    let remains = fetched.doing(doing)?;
    put_in_place(&beside, into).doing(doing)?;
    let (state, cell) = (remains.state(), remains.cell);
    let (record, term) = (state.applied(), state.applied_term());
    if output.json() {
        return output.value(&json!({
            "backup": into.display().to_string(), "cell": cell.to_string(),
            "record": record.get(), "term": term.get(), "master": from.as_str(),
            "files": state.file_count(), "directories": state.directory_count(),
        }));
    }
    output.line(&format!(
        "{}: cell {cell} as of record {record}, term {term}: {}",
        into.display(),
        names_text(&remains)
    ))
}

fn names_text(remains: &Remains) -> String {
    let state = remains.state();
    let counted = |count: u64, one: &str, more: &str| match count {
        1 => format!("1 {one}"),
        count => format!("{count} {more}"),
    };
    let files = counted(state.file_count(), "file", "files");
    format!("{files}, {}", counted(state.directory_count(), "directory", "directories"))
}

/// Refuses a name that is taken, or cannot be given.
fn check_free(into: &Path) -> Result<(), Cause> {
    if into.file_name().is_none() {
        return Err(Cause::new(Exit::Usage, "that is no directory's name", "name a new one"));
    } else if into.symlink_metadata().is_ok() {
        let why = format!("{} is there already", into.display());
        return Err(Cause::new(Exit::Exists, why, "name one that is not there yet"));
    } else if !above(into).is_dir() {
        let why = format!("there is no directory {}", above(into).display());
        return Err(Cause::new(Exit::Local, why, "make it first"));
    }
    Ok(())
}

/// Makes the directory where a backup lies until it is whole (BK1): nobody else has made it.
fn beside(into: &Path) -> Result<PathBuf, Cause> {
    let mut name = into.file_name().expect("checked before").to_owned();
    name.push(".partial");
    let beside = into.with_file_name(name);
    match std::fs::create_dir(&beside) {
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            let why = format!("{} is there already", beside.display());
            let advice = "a backup is being taken there, or was cut short: then remove it";
            Err(Cause::new(Exit::Exists, why, advice))
        }
        made => Ok(made.map(|()| beside)?),
    }
}

fn above(path: &Path) -> &Path {
    match path.parent() {
        Some(above) if !above.as_os_str().is_empty() => above,
        _ => Path::new("."),
    }
}

/// The master in charge, whoever was told; where none is, the one that has most.
async fn best_of(masters: &Masters, told: &[Address]) -> Result<Address, Cause> {
    let survey = MasterSurvey::until_primary(masters, told).await;
    if let Some(primary) = survey.primary() {
        return Ok(primary.at.clone());
    }
    let Some(furthest) = survey.furthest() else {
        return Err(survey.refusal.expect("a cell has an address").into());
    };
    let address = furthest.at.clone();
    warn(&format!("no master is in charge: {address} may lack what came last"));
    Ok(address)
}

/// Fetches a master's checkpoint into `beside`, and makes a backup of it there.
async fn fetch(masters: &Masters, from: &Address, beside: &Path) -> Result<Remains, Cause> {
    cairn_env_os::end_at_unreadable_pages(Exit::Damaged.number())?;
    let disk = open(&beside.join("coming"))?;
    let mut incoming: Option<IncomingBackup> = None;
    for _ in 0..TRIES {
        let index = masters.back_up(from).await?;
        let root = match masters.read_backup(from, index, (0, 0)).await {
            // A later one has taken its place already.
            Err(error) if error.code() == ErrorCode::NotFound => continue,
            root => root?,
        };
        let is_root = match &mut incoming {
            Some(incoming) => incoming.go_on(&root),
            None => {
                incoming = IncomingBackup::begin(Arc::clone(&disk), &root)?;
                incoming.is_some()
            }
        };
        if !is_root {
            let advice = "take it from another master with --from";
            return Err(Cause::new(Exit::Damaged, "the checkpoint does not read there", advice));
        }
        let mut coming = incoming.take().expect("it was begun");
        while let Some(piece) = coming.next() {
            match masters.read_backup(from, index, piece).await {
                Err(error) if error.code() == ErrorCode::NotFound => break,
                Ok(bytes) if bytes.is_empty() => break,
                bytes => coming.keep(&bytes?)?,
            }
        }
        if coming.next().is_none() {
            let into = open(&beside.join("whole"))?;
            return Ok(coming.finish(&into)?);
        }
        incoming = Some(coming);
    }
    let why = format!("checkpoints went faster than they came, {TRIES} times");
    Err(Cause::new(Exit::NotNow, why, "try it again"))
}

/// Gives a whole backup its name, durably (BK1).
fn put_in_place(beside: &Path, into: &Path) -> Result<(), Cause> {
    std::fs::rename(beside.join("whole"), into)?;
    std::fs::File::open(above(into))?.sync_all()?;
    if let Err(error) = std::fs::remove_dir_all(beside) {
        warn(&format!("what lay in {} is of no more use: {error}", beside.display()));
    }
    Ok(())
}

/// Makes a master of what is left of one.
pub(crate) fn recover(arguments: &RecoverMasterArguments, output: &Output) -> Result<(), CliError> {
    let (from, into) = (&arguments.from, &arguments.into);
    let doing = || format!("making a master's directory {} of {}", into.display(), from.display());
    if !from.is_dir() {
        let why = format!("{} is no directory", from.display());
        return Err(CliError::usage(doing(), why, "name a backup, or a master's data directory"));
    }
    check_apart(&[from.clone(), into.clone()]).doing(doing)?;
    cairn_env_os::end_at_unreadable_pages(Exit::Damaged.number()).doing(doing)?;
    let disk = open(from).doing(doing)?;
    let remains = Remains::of(&disk, arguments.without_log).map_err(Cause::from).doing(doing)?;
    let record = remains.state().applied();
    let last = remains.term.get();
    let past = Term::new(arguments.past.unwrap_or(last.saturating_add(TERMS_LOST)).max(last));
    if arguments.agree != Some(record.get()) {
        plan(&remains, arguments, past, output)?;
        let why = match arguments.agree {
            None => "nothing is done yet".to_owned(),
            Some(agreed) => format!("it goes on from record {record}, not {agreed}"),
        };
        let advice = format!("if that is what you want, the same with --agree {record}");
        return Err(CliError::usage(doing(), why, advice));
    }
    let disk = open(into).doing(doing)?;
    let begun = (cairn_env_os::clock::wall_time(), fresh_seed().doing(doing)?);
    remains.begin_history(&disk, past, begun).map_err(Cause::from).doing(doing)?;
    let first = past.get() + 1;
    if output.json() {
        return output.value(&json!({
            "cell": remains.cell.to_string(), "record": record.get(), "term": first,
            "data": into.display().to_string(),
        }));
    }
    output.line(&format!(
        "{}: the only master of cell {}, in a history that begins with term {first}; start it: \
         cairn master --data {}",
        into.display(),
        remains.cell,
        into.display()
    ))
}

/// Says what would be done, and what may be lost.
fn plan(
    remains: &Remains,
    arguments: &RecoverMasterArguments,
    past: Term,
    output: &Output,
) -> Result<(), CliError> {
    let state = remains.state();
    let (record, term, committed) = (state.applied(), state.applied_term(), remains.committed);
    let group = remains
        .group
        .as_ref()
        .map(|group| group.all.iter().map(|member| member.address.as_str()).collect::<Vec<_>>());
    let told: Vec<String> = remains.told.iter().map(ToString::to_string).collect();
    if output.json() {
        return output.value(&json!({
            "cell": remains.cell.to_string(), "backup": remains.is_backup,
            "record": record.get(), "term": term.get(), "agreed_until": committed.get(),
            "members": group, "past": past.get(), "passed_over": told,
            "files": state.file_count(), "directories": state.directory_count(),
        }));
    }
    let is_alone = group.as_ref().is_some_and(|group| group.len() <= 1);
    let what = match &group {
        _ if remains.is_backup => "a backup".to_owned(),
        None => {
            "the directory of a master (its log, which is not read, tells its group)".to_owned()
        }
        Some(_) if is_alone => "the directory of a master that was alone".to_owned(),
        Some(group) => format!("the directory of one of the masters {}", group.join(", ")),
    };
    let from = arguments.from.display();
    output.line(&format!("{from}: {what} of cell {}", remains.cell))?;
    for event in told {
        output.line(&format!("does not read: {event}"))?;
    }
    output.line(&format!("as of record {record}, term {term}: {}", names_text(remains)))?;
    if committed > record {
        output.line(&format!("records up to {committed} were done, and cannot be read here"))?;
    } else if committed < record && !is_alone {
        output.line(&format!(
            "records after {committed}: the others may not have had them; they count as done"
        ))?;
    }
    output.line(&format!(
        "lost for good: what was changed after record {record}. Files made since are not there, \
         files deleted since are there again and may have no bytes; chunks that are not known stay \
         on their servers ('cairn lost')"
    ))?;
    if is_alone {
        output.line("start no older directory of this cell again")?;
    } else {
        output.line(
            "if so many of its masters can be started that they are a majority, start them \
             instead: nothing is lost then. Otherwise start none of them again",
        )?;
    }
    Ok(())
}
