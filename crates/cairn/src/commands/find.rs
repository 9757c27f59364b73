//! `cairn find`: paths by name, in order, as far below as they go.

use crate::cli_error::{CliError, Doing};
use crate::entry_text::EntryJson;
use crate::output::Output;
use crate::session::Session;
use cairn_types::EntryKind;
use clap::{Args, ValueEnum};

const PAGE_PATHS: u32 = 1000;

/// Arguments of `find`.
#[derive(Args, Debug)]
pub(crate) struct FindArguments {
    /// A pattern for names: * ? [a-z]; also written -name
    #[arg(long, value_name = "PATTERN", conflicts_with = "pattern")]
    name: Option<String>,
    /// Only files (f) or only directories (d); also written -type
    #[arg(long = "type", value_name = "KIND")]
    kind: Option<FoundKind>,
    /// Below which directory
    #[arg(default_value = "/")]
    path: String,
    /// A pattern for names
    pattern: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum FoundKind {
    #[value(name = "f")]
    File,
    #[value(name = "d")]
    Directory,
}

/// Runs it.
pub(crate) async fn run(
    find: FindArguments,
    session: &Session,
    output: &Output,
) -> Result<(), CliError> {
    let place = session.remote_path(&find.path).await?;
    let pattern = find.name.or(find.pattern).unwrap_or_else(|| "*".to_owned());
    let mut after = String::new();
    loop {
        let page = place
            .cell
            .find(&place.path, &pattern, &after, PAGE_PATHS)
            .await
            .doing(|| format!("looking for {pattern} below {place}"))?;
        for found in page.found {
            let kind = match found.entry.kind {
                EntryKind::File => FoundKind::File,
                EntryKind::Directory => FoundKind::Directory,
            };
            if find.kind.is_some_and(|wanted| wanted != kind) {
                continue;
            }
            if output.json() {
                output.value(&EntryJson::new(found.path, &found.entry))?;
            } else {
                output.line(&output.name(&found.path))?;
            }
        }
        if page.resume.is_empty() {
            return Ok(());
        }
        after = page.resume;
    }
}
