//! `cairn producers`: who writes a stream, how far each is, and forgetting one (R47).

use crate::cli_error::{CliError, Doing};
use crate::commands::touch::wall_time;
use crate::exit_codes::{Exit, PRODUCER_ADVICE};
use crate::output::{Output, Table, span_text};
use crate::session::{RemotePath, Session};
use cairn_client::ProducerStatus;
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use std::time::SystemTime;

/// Bytes of a cursor that are shown.
const CURSOR_SHOWN_MAX: usize = 60;

/// Arguments of `producers`.
#[derive(Args, Debug)]
pub(crate) struct ProducersArguments {
    /// Of which stream
    path: String,
    #[command(subcommand)]
    verb: Option<ProducersVerb>,
}

/// What to do with them.
#[derive(Debug, Subcommand)]
enum ProducersVerb {
    /// Forget a producer: its records stay, and its name begins anew with number 1
    Forget {
        /// Its name
        name: String,
    },
}

/// Runs it.
pub(crate) async fn run(
    producers: ProducersArguments,
    session: &Session,
    output: &Output,
) -> Result<(), CliError> {
    let place = session.remote_path(&producers.path).await?;
    match producers.verb {
        None => list(&place, output).await,
        Some(ProducersVerb::Forget { name }) => {
            let doing = || format!("forgetting the producer {name} of {place}");
            let stream = place.cell.open_stream(&place.path).await.doing(doing)?;
            let forgotten = stream.forget_producer(&name).await.doing(doing);
            forgotten.map_err(|error| error.advising(Exit::NotFound, PRODUCER_ADVICE))?;
            let value = json!({ "path": place.path.as_str(), "forgotten": name });
            output.done(false, &value, String::new)
        }
    }
}

async fn list(place: &RemotePath, output: &Output) -> Result<(), CliError> {
    let doing = || format!("asking for the producers of {place}");
    let stream = place.cell.open_stream(&place.path).await.doing(doing)?;
    let all = stream.producers().await.doing(doing)?;
    let now_ms = wall_time(SystemTime::now()).as_millis();
    if output.json() {
        return all.iter().try_for_each(|one| output.value(&value(one, now_ms)));
    }
    if all.is_empty() {
        return output.line("no producers");
    }
    let mut table = Table::new(&[false, false, true, true, false, false]);
    table.row(["PRODUCER", "EPOCH", "NUMBER", "AGE", "STATE", "CURSOR"].map(str::to_owned));
    for one in &all {
        let cursor = one.cursor.as_ref().map(|cursor| {
            let text = String::from_utf8_lossy(&cursor.text);
            let short: String = text.chars().take(CURSOR_SHOWN_MAX).collect();
            let more = if short.len() < text.len() { "…" } else { "" };
            // Where the last records came without one, it is that of an earlier.
            let of = if cursor.number == one.number {
                String::new()
            } else {
                format!(" (of {})", cursor.number)
            };
            format!("{short}{more}{of}")
        });
        table.row([
            one.name.clone(),
            one.epoch.short(),
            one.number.to_string(),
            span_text(now_ms.saturating_sub(one.changed.as_millis())),
            state(one).to_owned(),
            cursor.unwrap_or_default(),
        ]);
    }
    table.lines().iter().try_for_each(|line| output.line(&output.name(line)))
}

fn state(one: &ProducerStatus) -> &'static str {
    if one.closed { "closed" } else { "open" }
}

/// The same for programs.
fn value(one: &ProducerStatus, now_ms: u64) -> Value {
    let cursor = one.cursor.as_ref().map(|cursor| {
        json!({ "number": cursor.number.get(), "text": String::from_utf8_lossy(&cursor.text) })
    });
    json!({
        "producer": one.name,
        "epoch": one.epoch.short(),
        "number": one.number.get(),
        "cursor": cursor,
        "changed_ms": one.changed.as_millis(),
        "age_ms": now_ms.saturating_sub(one.changed.as_millis()),
        "open_chunks": one.open_chunks,
        "state": state(one),
    })
}
