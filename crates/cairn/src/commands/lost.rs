//! `cairn lost`: chunks that servers keep and the master's log does not know, and letting go of
//! them (R3).

use crate::cli_error::{CliError, Doing, Tally};
use crate::exit_codes::Exit;
use crate::output::{Output, size_text};
use crate::session::Session;
use cairn_client::Cell;
use cairn_protocol::LostChunk;
use cairn_types::ChunkHandle;
use clap::Args;
use serde_json::json;

/// Arguments of `lost`.
#[derive(Args, Debug)]
pub(crate) struct LostArguments {
    /// Let go of these chunks: their servers throw them away
    #[arg(long, value_name = "HANDLE", num_args = 1.., conflicts_with = "let_go_of_all")]
    let_go: Vec<String>,
    /// Let go of all of them
    #[arg(long)]
    let_go_of_all: bool,
}

/// Runs it.
pub(crate) async fn run(
    lost: LostArguments,
    session: &Session,
    output: &Output,
) -> Result<(), CliError> {
    let cell = session.cell().await?;
    if !lost.let_go.is_empty() {
        return let_go_of_named(&cell, &lost.let_go).await;
    }
    let mut found = FoundLost::default();
    let done = all_lost(&lost, (&cell, session), output, &mut found).await;
    // What was done is told, whatever came then.
    if lost.let_go_of_all || done.is_ok() {
        found.tell(&lost, output)?;
    }
    done
}

/// All that is lost, listed or let go of.
async fn all_lost(
    lost: &LostArguments,
    (cell, session): (&Cell, &Session),
    output: &Output,
    found: &mut FoundLost,
) -> Result<(), CliError> {
    let doing = || format!("asking the cell at {} for lost chunks", session.address());
    let mut after = ChunkHandle::default();
    loop {
        let (chunks, resume) = cell.lost_chunks(after).await.doing(doing)?;
        for chunk in &chunks {
            if lost.let_go_of_all {
                found.note(let_go(cell, chunk.handle).await)?;
            } else {
                found.count += 1;
                print(output, chunk)?;
            }
        }
        match resume {
            Some(resume) => after = resume,
            None => return Ok(()),
        }
    }
}

/// Those that somebody named: each gets its turn, and one that is none is told.
async fn let_go_of_named(cell: &Cell, named: &[String]) -> Result<(), CliError> {
    let parse = |text: &String| {
        ChunkHandle::parse(text).ok_or_else(|| {
            let (why, advice) = ("it is no handle", "'cairn lost' lists them");
            CliError::usage(format!("letting go of {text}"), why, advice)
        })
    };
    // What is mistyped is told before anything is thrown away.
    let handles: Vec<ChunkHandle> = named.iter().map(parse).collect::<Result<_, _>>()?;
    let mut tally = Tally::default();
    for handle in handles {
        tally.note(let_go(cell, handle).await)?;
    }
    tally.finish()
}

/// How many there were.
#[derive(Debug, Default, PartialEq, Eq)]
struct FoundLost {
    /// Listed, or let go of.
    count: u64,
    /// Listed, and kept by nobody any more when it was their turn: somebody else let go of them, or
    /// who kept them is dead.
    gone: u64,
}

impl FoundLost {
    /// Takes in what came of letting go of one; one that is gone keeps nobody from the others.
    fn note(&mut self, done: Result<(), CliError>) -> Result<(), CliError> {
        match done {
            Ok(()) => self.count += 1,
            Err(failure) if failure.exit() == Exit::NotFound => self.gone += 1,
            Err(failure) => return Err(failure),
        }
        Ok(())
    }

    fn tell(&self, lost: &LostArguments, output: &Output) -> Result<(), CliError> {
        let (count, gone) = (self.count, self.gone);
        match (output.json(), lost.let_go_of_all) {
            (true, true) => output.value(&json!({ "let_go": count, "gone": gone })),
            (true, false) => Ok(()),
            (false, true) if gone > 0 => {
                output.line(&format!("{count} chunks were let go of, {gone} were gone already"))
            }
            (false, true) => output.line(&format!("{count} chunks were let go of")),
            (false, false) => output.line(&format!("{count} lost chunks")),
        }
    }
}

async fn let_go(cell: &Cell, handle: ChunkHandle) -> Result<(), CliError> {
    let done = cell.let_go_of_lost(handle).await;
    let done = done.doing(|| format!("letting go of chunk {}", handle.short()));
    done.map_err(|it| it.advising(Exit::NotFound, "'cairn lost' lists them"))
}

fn print(output: &Output, chunk: &LostChunk) -> Result<(), CliError> {
    let LostChunk { handle, length, servers } = chunk;
    let handle = handle.short();
    let addresses: Vec<&str> = servers.iter().map(|at| at.address.as_str()).collect();
    if output.json() {
        return output.value(&json!({ "handle": handle, "length": length, "servers": addresses }));
    }
    let size = size_text(*length, true);
    output.line(&format!("chunk {handle}: {size}, kept by {}", addresses.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::FoundLost;
    use crate::cli_error::{Cause, CliError};
    use crate::exit_codes::Exit;

    #[test]
    fn one_that_is_gone_is_counted_and_any_other_failure_ends_it() {
        let mut found = FoundLost::default();
        let failure = |exit| CliError::new("letting go", Cause::new(exit, "why", ""));
        assert!(found.note(Ok(())).is_ok());
        assert!(found.note(Err(failure(Exit::NotFound))).is_ok());
        assert!(found.note(Ok(())).is_ok());
        assert_eq!(found, FoundLost { count: 2, gone: 1 });
        assert!(found.note(Err(failure(Exit::Full))).is_err());
        assert_eq!(found, FoundLost { count: 2, gone: 1 });
    }
}
