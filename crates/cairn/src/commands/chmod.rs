//! `cairn chmod`, `cairn chown`: who may do what, and whose it is.

use crate::cli_error::{CliError, Doing, Tally};
use crate::local_users::{NameList, of_somebody};
use crate::many_paths::{Lengths, entries};
use crate::modes::ModeChange;
use crate::output::Output;
use crate::session::{RemotePath, Session};
use cairn_client::AttributeChange;
use cairn_types::{Entry, EntryKind};
use clap::Args;
use serde_json::json;

/// Arguments of `chmod`.
#[derive(Args, Debug)]
pub(crate) struct ChmodArguments {
    /// What is below directories, too
    #[arg(short = 'R', long)]
    recursive: bool,
    /// Say what was changed
    #[arg(short, long)]
    verbose: bool,
    /// 0640, or u+rwx,g-w,o=r; X: x of directories, and of what somebody may execute
    #[arg(value_name = "MODE", allow_hyphen_values = true, value_parser = ModeChange::parse)]
    mode: ModeChange,
    /// Files and directories
    #[arg(required = true)]
    paths: Vec<String>,
}

/// Arguments of `chown`.
#[derive(Args, Debug)]
pub(crate) struct ChownArguments {
    /// What is below directories, too
    #[arg(short = 'R', long)]
    recursive: bool,
    /// Say what was changed
    #[arg(short, long)]
    verbose: bool,
    /// OWNER, OWNER:GROUP or :GROUP, by name as this machine knows it or by number
    #[arg(value_name = "OWNER[:GROUP]", value_parser = owners)]
    owners: Owners,
    /// Files and directories
    #[arg(required = true)]
    paths: Vec<String>,
}

/// Arguments of `chgrp`.
#[derive(Args, Debug)]
pub(crate) struct ChgrpArguments {
    /// What is below directories, too
    #[arg(short = 'R', long)]
    recursive: bool,
    /// Say what was changed
    #[arg(short, long)]
    verbose: bool,
    /// A group, by name as this machine knows it or by number
    #[arg(value_name = "GROUP", value_parser = group)]
    group: u32,
    /// Files and directories
    #[arg(required = true)]
    paths: Vec<String>,
}

/// Whose it shall be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Owners {
    owner: Option<u32>,
    group: Option<u32>,
}

fn group(text: &str) -> Result<u32, String> {
    let unknown = || format!("this machine knows no group {text}; write its number");
    NameList::Groups.number(text).ok_or_else(unknown).and_then(of_somebody)
}

fn owners(text: &str) -> Result<Owners, String> {
    let (owner, of_group) = text.split_once(':').unwrap_or((text, ""));
    if owner.is_empty() && of_group.is_empty() {
        return Err("write it as OWNER, OWNER:GROUP or :GROUP".to_owned());
    }
    let unknown = || format!("this machine knows no user {owner}; write the number");
    let user = |owner| NameList::Users.number(owner).ok_or_else(unknown).and_then(of_somebody);
    Ok(Owners {
        owner: Some(owner).filter(|owner| !owner.is_empty()).map(user).transpose()?,
        group: Some(of_group).filter(|name| !name.is_empty()).map(group).transpose()?,
    })
}

/// What is to become of each.
struct Change<'a> {
    of: Box<dyn Fn(&Entry) -> AttributeChange + 'a>,
    recursive: bool,
    verbose: bool,
}

/// Runs `chmod`.
pub(crate) async fn chmod(
    chmod: ChmodArguments,
    session: &Session,
    output: &Output,
) -> Result<(), CliError> {
    let ChmodArguments { recursive, verbose, mode, paths } = chmod;
    let umask = session.options().umask;
    let of = |entry: &Entry| {
        let mode = mode.apply(entry.kind, entry.attributes().mode, umask);
        AttributeChange { mode: Some(mode), ..AttributeChange::default() }
    };
    let change = Change { of: Box::new(of), recursive, verbose };
    change.all(session, &paths, output).await
}

/// Runs `chown`.
pub(crate) async fn chown(
    chown: ChownArguments,
    session: &Session,
    output: &Output,
) -> Result<(), CliError> {
    let ChownArguments { recursive, verbose, owners: Owners { owner, group }, paths } = chown;
    let of = |_: &Entry| AttributeChange { owner, group, ..AttributeChange::default() };
    let change = Change { of: Box::new(of), recursive, verbose };
    change.all(session, &paths, output).await
}

/// Runs `chgrp`.
pub(crate) async fn chgrp(
    chgrp: ChgrpArguments,
    session: &Session,
    output: &Output,
) -> Result<(), CliError> {
    let ChgrpArguments { recursive, verbose, group, paths } = chgrp;
    let of = |_: &Entry| AttributeChange { group: Some(group), ..AttributeChange::default() };
    let change = Change { of: Box::new(of), recursive, verbose };
    change.all(session, &paths, output).await
}

impl Change<'_> {
    async fn all(
        &self,
        session: &Session,
        paths: &[String],
        output: &Output,
    ) -> Result<(), CliError> {
        let mut tally = Tally::default();
        for found in entries(session, paths, "looking up", Lengths::Recorded).await {
            match found {
                Ok((place, entry)) => self.from(place, entry, output, &mut tally).await?,
                Err(complaint) => tally.note(Err(complaint))?,
            }
        }
        tally.finish()
    }

    /// One, and what is below it where that is meant. A directory is done before what is in it is
    /// listed: who takes the right to look into it from himself has meant it.
    async fn from(
        &self,
        place: RemotePath,
        entry: Entry,
        output: &Output,
        tally: &mut Tally,
    ) -> Result<(), CliError> {
        let mut waiting = vec![(place, entry)];
        while let Some((place, entry)) = waiting.pop() {
            tally.note(self.one(&place, &entry, output).await)?;
            if self.recursive && entry.kind == EntryKind::Directory {
                match below(&place).await {
                    Ok(more) => waiting.extend(more),
                    Err(error) => tally.note(Err(error))?,
                }
            }
        }
        Ok(())
    }

    async fn one(
        &self,
        place: &RemotePath,
        entry: &Entry,
        output: &Output,
    ) -> Result<(), CliError> {
        let doing = || format!("changing the attributes of {place}");
        let change = (self.of)(entry);
        let now = place.cell.set_attributes(&place.path, change).await.doing(doing)?.attributes();
        let value = json!({
            "path": place.path.as_str(),
            "owner": now.owner,
            "group": now.group,
            "mode": format!("{:04o}", now.mode),
        });
        output.done(self.verbose, &value, || format!("{place}: {now}"))
    }
}

/// What is in a directory.
async fn below(place: &RemotePath) -> Result<Vec<(RemotePath, Entry)>, CliError> {
    let doing = || format!("listing {place}");
    let (mut listing, mut all) = (place.cell.listing(&place.path, false), Vec::new());
    while let Some(page) = listing.next_page().await.doing(doing)? {
        for entry in page {
            all.push((place.join(&entry.name)?, entry));
        }
    }
    Ok(all)
}
