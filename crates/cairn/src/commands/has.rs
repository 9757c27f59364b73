//! `cairn has`: whether a producer's record is in a stream.

use crate::cli_error::{Cause, CliError, Doing};
use crate::exit_codes::Exit;
use crate::output::Output;
use crate::session::Session;
use clap::Args;
use serde_json::json;

/// Arguments of `has`.
#[derive(Args, Debug)]
pub(crate) struct HasArguments {
    /// Say nothing: the exit code tells (3: it is not there)
    #[arg(short, long)]
    quiet: bool,
    /// Which stream
    path: String,
    /// The producer's name
    producer: String,
    /// The record's number, from 1
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    number: u64,
}

/// Runs it.
pub(crate) async fn run(
    has: HasArguments,
    session: &Session,
    output: &Output,
) -> Result<(), CliError> {
    let place = session.remote_path(&has.path).await?;
    let doing = || format!("looking for record {} of {} in {place}", has.number, has.producer);
    let stream = place.cell.open_stream(&place.path).await.doing(doing)?;
    let known = stream.producer(&has.producer).await.doing(doing)?;
    let last = known.map(|known| known.number.get());
    let is_there = last.is_some_and(|last| has.number <= last);
    if output.json() && !has.quiet {
        output.value(&json!({
            "path": place.path.as_str(),
            "producer": has.producer,
            "number": has.number,
            "has": is_there,
            "last": last,
        }))?;
    }
    if is_there {
        return match output.json() || has.quiet {
            true => Ok(()),
            false => output.line("it is there"),
        };
    }
    if output.json() || has.quiet {
        return Err(CliError::told(Exit::NotFound));
    }
    let why = match last {
        Some(last) => format!("it is not there; the producer's last one is {last}"),
        None => "it is not there: the stream has no producer of that name".to_owned(),
    };
    let advice = "'cairn producers' shows them all";
    Err(CliError::new(doing(), Cause::new(Exit::NotFound, why, advice)))
}
