//! `cairn masters`: the group of masters; and making one.
//!
//! - GM1: a group is made once, of masters whose disks are empty and who were told of each other
//!   with `--peers` (R25). Who does it again with the same masters finishes what was cut short.

use super::backup::{BackupArguments, RecoverMasterArguments, back_up, recover};
use super::group_step::{GroupStep, START_ONE};
use super::masters_listing::list;
use crate::cell_address::CellAddress;
use crate::cli_error::{Cause, CliError, Doing};
use crate::exit_codes::Exit;
use crate::fresh_seed::fresh_seed;
use crate::output::Output;
use crate::session::Session;
use cairn_client::{ListMastersAnswer, Masters};
use cairn_protocol::JoinGroup;
use cairn_types::{Address, CellId, Member, MemberStanding, Members, Random};
use clap::{Args, Subcommand};
use serde_json::json;

/// Arguments of `masters`.
#[derive(Args, Debug)]
pub(crate) struct MastersArguments {
    #[command(subcommand)]
    verb: Option<MastersVerb>,
}

#[derive(Debug, Subcommand)]
enum MastersVerb {
    /// Make a group, and with it a cell, of masters that were started with --peers on empty disks
    Create {
        /// All of them: one, three or five addresses, commas between
        #[arg(value_name = "MASTERS")]
        masters: String,
    },
    /// Take masters into the group that were started with --peers on empty disks; they get what
    /// there is first, and vote then. Safe to repeat
    Add {
        /// Addresses, commas between: a group has one, three or five masters that vote
        #[arg(value_name = "MASTERS")]
        masters: String,
        /// They never vote: they follow, and answer reads
        #[arg(long)]
        shadow: bool,
    },
    /// Take masters out of the group, dead ones too
    Remove {
        /// Addresses, commas between: a group has one, three or five masters that vote
        #[arg(value_name = "MASTERS")]
        masters: String,
    },
    /// Put a master that was started with --peers on an empty disk in the place of another one
    Replace {
        /// The one that goes, dead or alive
        #[arg(value_name = "OLD")]
        old: String,
        /// The one that comes
        #[arg(value_name = "NEW")]
        new: String,
    },
    /// Copy the metadata of the cell, as they are now, into a directory of this machine: names,
    /// and which chunks belong to which file; no file's bytes
    Backup(BackupArguments),
    /// Make an empty directory that of a master which goes on from a backup, or from what is left
    /// of a group that lost its majority. Says first what may be lost
    Recover(RecoverMasterArguments),
}

/// Runs it.
pub(crate) async fn run(
    arguments: MastersArguments,
    session: &Session,
    output: &Output,
) -> Result<(), CliError> {
    match arguments.verb {
        Some(MastersVerb::Create { masters }) => create(&masters, session, output).await,
        Some(MastersVerb::Add { masters, shadow }) => {
            let step = GroupStep { comes: &masters, goes: "", learns_only: shadow };
            step.take(session, output).await
        }
        Some(MastersVerb::Remove { masters }) => {
            let step = GroupStep { comes: "", goes: &masters, learns_only: false };
            step.take(session, output).await
        }
        Some(MastersVerb::Replace { old, new }) => {
            let step = GroupStep { comes: &new, goes: &old, learns_only: false };
            step.take(session, output).await
        }
        Some(MastersVerb::Backup(it)) => back_up(it, session, output).await,
        Some(MastersVerb::Recover(it)) => recover(&it, output),
        None => list(session, output).await,
    }
}

async fn create(text: &str, session: &Session, output: &Output) -> Result<(), CliError> {
    let doing = || format!("making a group of masters of {text}");
    let all = CellAddress::parse(text).doing(doing)?.addresses();
    let distinct: std::collections::BTreeSet<&Address> = all.iter().collect();
    if !cairn_master::VOTERS.contains(&all.len()) || distinct.len() != all.len() {
        let why = "a group has one, three or five masters";
        return Err(CliError::usage(doing(), why, "name each once, with commas between"));
    }
    let masters = Masters::new(&all, session.options()).doing(doing)?;
    let mut found = Vec::new();
    for address in &all {
        let asking = || format!("asking the master at {address}");
        let told = masters.list(address).await.doing(asking);
        found.push(told.map_err(|error| error.advising(Exit::Unreachable, START_ONE))?);
    }
    let group = group_of(&all, &found).doing(doing)?;
    for address in &all {
        let telling = || format!("making the master at {address} a member");
        masters.join(address, group.clone()).await.doing(telling)?;
    }
    let cell = group.cell;
    if output.json() {
        return output.value(&json!({ "cell": cell.to_string(), "masters": all.len() }));
    }
    output.line(&format!("cell {cell}: a group of {} masters", all.len()))
}

/// The group that these masters are to be: the one that some of them are already, or a new one.
fn group_of(all: &[Address], found: &[ListMastersAnswer]) -> Result<JoinGroup, Cause> {
    if let Some(made) = found.iter().find(|answer| !answer.cell.is_none()) {
        let all = made.members.iter().map(|status| status.member.clone()).collect();
        return Ok(JoinGroup { cell: made.cell, members: Members { all, ..Members::default() } });
    }
    let member = |(address, answer): (&Address, &ListMastersAnswer)| Member {
        id: answer.me,
        address: address.clone(),
        standing: MemberStanding::Voter,
    };
    let all = all.iter().zip(found).map(member).collect();
    let members = Members { all, ..Members::default() };
    let cell = CellId::new(Random::new(fresh_seed()?).next_u128() | 1);
    Ok(JoinGroup { cell, members })
}
