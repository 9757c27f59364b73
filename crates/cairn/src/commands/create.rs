//! `cairn create`: empty files, and how they are written from then on.

use crate::cli_error::{CliError, Doing, Tally};
use crate::entry_text::{EntryJson, LayoutName};
use crate::output::Output;
use crate::session::{RemotePath, Session};
use cairn_client::CreateOptions;
use cairn_types::{Content, Layout, REPLICATION_MAX};
use clap::{Args, ValueEnum};

/// Arguments of `create`.
#[derive(Args, Debug)]
pub(crate) struct CreateArguments {
    /// How they are written: chunk by chunk, or by producers, each record exactly once
    /// [default: what the directory's policy says]
    #[arg(long, value_name = "HOW")]
    layout: Option<LayoutName>,
    /// What they hold [default: records in a stream, else bytes]
    #[arg(long, value_name = "WHAT")]
    content: Option<ContentName>,
    /// Replicas of each chunk [default: what the directory's policy says]
    #[arg(long, visible_alias = "replicas", value_name = "COUNT")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=i64::from(REPLICATION_MAX)))]
    replication: Option<u32>,
    /// Of a stream: how many servers have to hold records before they count; 1 as in TFS [default:
    /// what the directory's policy says, or else 2]
    #[arg(long, value_name = "COUNT")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=i64::from(REPLICATION_MAX)))]
    commit_replicas: Option<u32>,
    /// Say what was made
    #[arg(short, long)]
    verbose: bool,
    /// What to make
    #[arg(required = true)]
    paths: Vec<String>,
}

/// What a file holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ContentName {
    /// Bytes as they are.
    Bytes,
    /// Records, each framed and checked.
    Records,
}

/// Runs it.
pub(crate) async fn run(
    create: CreateArguments,
    session: &Session,
    output: &Output,
) -> Result<(), CliError> {
    let mut tally = Tally::default();
    for text in &create.paths {
        let done = match session.remote_path(text).await {
            Ok(place) => create.one(&place, output).await,
            Err(error) => Err(error),
        };
        tally.note(done)?;
    }
    tally.finish()
}

impl CreateArguments {
    async fn one(&self, place: &RemotePath, output: &Output) -> Result<(), CliError> {
        let doing = || format!("making {place}");
        let layout = self.layout.map(LayoutName::layout);
        let options = CreateOptions {
            replication: self.replication.unwrap_or_default(),
            content: self.content(place, layout).await,
            layout,
            commit_replicas: self.commit_replicas,
            ..CreateOptions::default()
        };
        let file = place.cell.create(&place.path, options).await.doing(doing)?;
        let entry = file.entry().clone();
        file.close().await.doing(doing)?;
        let value = EntryJson::new(place.path.as_str(), &entry);
        output.done(self.verbose, &value, || place.to_string())
    }

    /// A stream is one of records where nobody says otherwise.
    async fn content(&self, place: &RemotePath, layout: Option<Layout>) -> Content {
        match (self.content, layout) {
            (Some(ContentName::Bytes), _) | (None, Some(Layout::Chunks)) => Content::Bytes,
            (Some(ContentName::Records), _) | (None, Some(Layout::Stream)) => Content::Records,
            (None, None) => {
                let Some(above) = place.path.parent() else { return Content::Bytes };
                // Where it cannot be asked, making the file says why.
                let policy = place.cell.policy(&above).await;
                match policy.map(|answer| answer.policy.layout) {
                    Ok(Layout::Stream) => Content::Records,
                    Ok(Layout::Chunks) | Err(_) => Content::Bytes,
                }
            }
        }
    }
}
