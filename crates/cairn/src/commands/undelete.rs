//! `cairn undelete`: brings back what was removed, as long as it is kept (§4.4).

use crate::cli_error::{CliError, Doing, Tally};
use crate::exit_codes::Exit;
use crate::many_paths::the_one;
use crate::output::Output;
use crate::session::{RemotePath, Session};
use clap::Args;
use serde_json::json;

/// Arguments of `undelete`.
#[derive(Args, Debug)]
pub(crate) struct UndeleteArguments {
    /// Where it comes back to, instead of where it was
    #[arg(long, value_name = "PATH")]
    to: Option<String>,
    /// Say where it came back to
    #[arg(short, long)]
    verbose: bool,
    /// What was removed: where it was (what was removed there last comes back), or a hidden name
    #[arg(required = true)]
    paths: Vec<String>,
}

/// Runs it.
pub(crate) async fn run(
    undelete: UndeleteArguments,
    session: &Session,
    output: &Output,
) -> Result<(), CliError> {
    let to = match &undelete.to {
        Some(_) if undelete.paths.len() > 1 => {
            let (why, advice) = ("--to is a place for one of them", "bring them back one by one");
            return Err(CliError::usage("bringing back several", why, advice));
        }
        Some(to) => Some(session.remote_path(to).await?),
        None => None,
    };
    let mut tally = Tally::default();
    for text in &undelete.paths {
        tally.note(undelete.one(text, to.as_ref(), session, output).await)?;
    }
    tally.finish()
}

impl UndeleteArguments {
    async fn one(
        &self,
        text: &str,
        to: Option<&RemotePath>,
        session: &Session,
        output: &Output,
    ) -> Result<(), CliError> {
        let place = the_one(session, text).await?;
        if let Some(to) = to.filter(|to| to.address != place.address) {
            let advice = "bring it back where it was, then cp -r copies it";
            let doing = format!("bringing {place} back to {to}");
            return Err(CliError::usage(doing, "it is in another cell", advice));
        }
        let done = place.cell.undelete(&place.path, to.map(|to| &to.path)).await;
        let done = done.doing(|| format!("bringing back {place}"));
        let advice = "--to brings it back to another name";
        let path = done.map_err(|it| it.advising(Exit::Exists, advice))?;
        let value = json!({ "restored": place.path.as_str(), "path": path });
        output.done(self.verbose, &value, || format!("{place} -> {path}"))
    }
}
