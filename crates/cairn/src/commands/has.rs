//! `cairn has`: whether a producer's record is in a stream, where, of which epoch, and whether it
//! can be read (R41, R47).

use crate::cli_error::{Cause, CliError, Doing};
use crate::exit_codes::Exit;
use crate::output::Output;
use crate::session::Session;
use cairn_client::{ProducerStatus, RecordEpoch, RecordPlace, epoch_of};
use clap::Args;
use serde_json::{Value, json};

/// Arguments of `has`.
#[derive(Args, Debug)]
pub(crate) struct HasArguments {
    /// Say nothing: the exit code tells (3: it is not there; others: it cannot be read)
    #[arg(short, long)]
    quiet: bool,
    /// Ask the master alone whether it is committed: not where it is, and whether it can be read
    #[arg(long)]
    committed: bool,
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
    let epoch = known.as_ref().and_then(|known| epoch_of(known, has.number));
    let Some((known, epoch)) = known.as_ref().zip(epoch) else {
        return not_there(&has, known.as_ref(), output, place.path.as_str(), doing);
    };
    let found = match has.committed {
        true => None,
        false => stream.place_of(known, has.number).await.doing(doing)?,
    };
    if output.json() && !has.quiet {
        let mut value = told(&has, Some(known), place.path.as_str());
        let (RecordEpoch::In(of) | RecordEpoch::UpTo(of)) = epoch;
        value["epoch"] = json!(of.short());
        value["or_an_epoch_before"] = json!(matches!(epoch, RecordEpoch::UpTo(_)));
        tell_place(&mut value, found.as_ref());
        output.value(&value)?;
    }
    let epoch = match epoch {
        RecordEpoch::In(epoch) => format!("of epoch {}", epoch.short()),
        RecordEpoch::UpTo(epoch) => format!("of epoch {} or one before it", epoch.short()),
    };
    let line = match found {
        Some(RecordPlace::Unreadable { offset, end, error }) => {
            let cause = Cause::from(error);
            if output.json() || has.quiet {
                return Err(CliError::told(cause.exit));
            }
            let why = format!(
                "it is committed, {epoch}, and cannot be read: it is in bytes {offset} to {end}, \
                 and {}",
                cause.why
            );
            let advice = "ask again when all chunkservers are there ('cairn servers'); what a \
                          power failure took from all that held it stays lost";
            return Err(CliError::new(doing(), Cause::new(cause.exit, why, advice)));
        }
        Some(RecordPlace::Lost { offset, end }) => {
            if output.json() || has.quiet {
                return Err(CliError::told(Exit::Damaged));
            }
            let why = format!(
                "it is committed, {epoch}, and lost: it was in bytes {offset} to {end}, which no \
                 server of its chunk has any more"
            );
            let advice = "readers pass over it, since a person said so ('cairn fsck --skip-lost')";
            return Err(CliError::new(doing(), Cause::new(Exit::Damaged, why, advice)));
        }
        Some(RecordPlace::At(offset)) => format!("it is there, at offset {offset}, {epoch}"),
        Some(RecordPlace::Unknown) => {
            format!("it is there, {epoch}; nothing in the stream tells where")
        }
        None => format!("it is committed, {epoch}"),
    };
    if output.json() || has.quiet { Ok(()) } else { output.line(&line) }
}

fn told(has: &HasArguments, known: Option<&ProducerStatus>, path: &str) -> Value {
    let last = known.map(|known| known.number.get());
    json!({
        "path": path,
        "producer": has.producer,
        "number": has.number,
        "has": last.is_some_and(|last| has.number <= last),
        "last": last,
    })
}

/// Nothing where nobody looked, or nobody can tell.
fn tell_place(value: &mut Value, found: Option<&RecordPlace>) {
    let (offset, readable) = match found {
        Some(RecordPlace::At(offset)) => (Some(*offset), Some(true)),
        Some(RecordPlace::Unreadable { offset, end, error }) => {
            value["unreadable"] = json!({ "offset": offset, "end": end, "why": error.to_string() });
            (None, Some(false))
        }
        Some(RecordPlace::Lost { offset, end }) => {
            value["lost"] = json!({ "offset": offset, "end": end });
            (None, Some(false))
        }
        Some(RecordPlace::Unknown) | None => (None, None),
    };
    value["offset"] = json!(offset);
    value["readable"] = json!(readable);
}

fn not_there(
    has: &HasArguments,
    known: Option<&ProducerStatus>,
    output: &Output,
    path: &str,
    doing: impl FnOnce() -> String,
) -> Result<(), CliError> {
    if output.json() && !has.quiet {
        output.value(&told(has, known, path))?;
    }
    if output.json() || has.quiet {
        return Err(CliError::told(Exit::NotFound));
    }
    let why = match known {
        Some(known) => format!("it is not there; the producer's last one is {}", known.number),
        None => "it is not there: the stream has no producer of that name".to_owned(),
    };
    let advice = "'cairn producers' shows them all";
    Err(CliError::new(doing(), Cause::new(Exit::NotFound, why, advice)))
}
