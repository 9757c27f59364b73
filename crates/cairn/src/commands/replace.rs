//! `cairn replace`: bytes of a stream by others, as many, while nobody else writes it (R46).

use crate::cli_error::{Cause, CliError, Doing};
use crate::exit_codes::Exit;
use crate::output::Output;
use crate::session::Session;
use cairn_client::ExclusiveOptions;
use cairn_protocol::ErrorCode;
use clap::Args;
use serde_json::json;
use std::io::Read;
use std::path::PathBuf;

/// Arguments of `replace`.
#[derive(Args, Debug)]
pub(crate) struct ReplaceArguments {
    /// Where in the stream the first byte goes
    #[arg(long, value_name = "BYTES")]
    offset: u64,
    /// Where somebody else has the stream exclusively, wait and do not fail at once
    #[arg(long)]
    wait: bool,
    /// Done only once it is on the disks of all who hold it
    #[arg(long)]
    synced: bool,
    /// Say what was replaced
    #[arg(short, long)]
    verbose: bool,
    /// Which stream of bytes
    path: String,
    /// A local file, or - for stdin
    #[arg(default_value = "-")]
    source: PathBuf,
}

/// Runs it.
pub(crate) async fn run(
    replace: ReplaceArguments,
    session: &Session,
    output: &Output,
) -> Result<(), CliError> {
    let place = session.remote_path(&replace.path).await?;
    let doing = || format!("replacing bytes of {place} from {} on", replace.offset);
    let options = ExclusiveOptions { waits: replace.wait, sync: replace.synced };
    let mut input = open(&replace.source)?;
    let mut stream = place.cell.open_exclusive(&place.path, options).await.doing(doing)?;
    let (mut at, piece_size) = (replace.offset, stream.piece_size());
    let done = loop {
        // On a thread of its own: the opening goes on while stdin says nothing.
        let reading = move || (next_piece(&mut *input, piece_size), input);
        let Ok((read, back)) = tokio::task::spawn_blocking(reading).await else { break Ok(()) };
        input = back;
        let piece = match read {
            Ok(piece) if piece.is_empty() => break Ok(()),
            Ok(piece) => piece,
            Err(why) => {
                let reading = format!("reading {}", replace.source.display());
                break Err(CliError::new(reading, Cause::from(why)));
            }
        };
        let size = piece.len() as u64;
        if let Err(why) = stream.replace(at, piece.into()).await {
            break Err(CliError::new(doing(), told(why)));
        }
        at += size;
    };
    let closed = stream.close().await.doing(doing);
    let size = at - replace.offset;
    if done.is_ok() && size == 0 {
        let advice = "as many bytes of the stream are replaced as the input has";
        return Err(CliError::new(doing(), Cause::new(Exit::Usage, "the input is empty", advice)));
    }
    if done.is_err() && size > 0 {
        crate::cli_error::warn(&format!("{place}: {size} bytes before that are replaced"));
    }
    done.and(closed)?;
    let value = json!({ "path": place.path.as_str(), "offset": replace.offset, "size": size });
    output.done(replace.verbose, &value, || format!("{place}: {size} bytes replaced"))
}

/// Why a range is not replaced.
fn told(why: cairn_client::Error) -> Cause {
    if why.code() == ErrorCode::ProducerFenced {
        let advice = "run it again: the same bytes may be replaced twice";
        return Cause::new(Exit::Fenced, why.to_string(), advice);
    }
    Cause::from(why)
}

fn open(source: &PathBuf) -> Result<Box<dyn Read + Send>, CliError> {
    if source.as_os_str() == "-" {
        return Ok(Box::new(std::io::stdin()));
    }
    let opened = std::fs::File::open(source);
    let file = opened
        .map_err(|why| CliError::new(format!("reading {}", source.display()), Cause::from(why)))?;
    Ok(Box::new(file))
}

/// As many bytes as are replaced in one step, or all that is left.
fn next_piece(input: &mut dyn Read, size: usize) -> std::io::Result<Vec<u8>> {
    let mut piece = Vec::new();
    input.take(size as u64).read_to_end(&mut piece)?;
    Ok(piece)
}
