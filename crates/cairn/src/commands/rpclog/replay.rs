//! `cairn rpclog replay`: a log as load for another cell.

use super::opening::{open, reading, warn_of_gaps};
use crate::cli_error::{Cause, CliError, Doing, warn};
use crate::exit_codes::Exit;
use crate::output::{Output, Table, size_text};
use crate::session::Session;
use cairn_rpclog::{Merged, Plan, ReplayReport, prepare};
use clap::Args;
use serde_json::json;
use std::path::PathBuf;
use std::str::FromStr;

/// Arguments of `rpclog replay`.
#[derive(Args, Debug)]
pub(super) struct ReplayArguments {
    /// How fast: 1.0 as it was, 2.0 in half the time, max as fast as its order lets it
    #[arg(long, value_name = "FACTOR", default_value = "1.0")]
    speed: Speed,
    /// A directory of the cell, empty or not there yet, under which all names lie
    #[arg(long, value_name = "PATH", default_value = "/replay")]
    under: String,
    /// Data directories of servers, directories of many, or files
    #[arg(value_name = "DIR", required = true)]
    paths: Vec<PathBuf>,
}

/// How fast.
#[derive(Clone, Copy, Debug)]
struct Speed(Option<f64>);

impl FromStr for Speed {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "max" {
            return Ok(Self(None));
        }
        match text.parse::<f64>() {
            Ok(factor) if (0.001..=1000.0).contains(&factor) => Ok(Self(Some(factor))),
            _ => Err("write it as 1.0, 0.5, 10 or max".to_owned()),
        }
    }
}

/// Runs it.
pub(super) async fn run(
    arguments: ReplayArguments,
    session: &Session,
    output: &Output,
) -> Result<(), CliError> {
    let merged = Merged::new(open(&arguments.paths)?).doing(reading)?;
    let plan = Plan::of(merged).doing(reading)?;
    warn_of_gaps(plan.dropped, plan.damaged);
    let doing = || "replaying the diagnostic log".to_owned();
    if plan.steps.is_empty() {
        let advice = "name the logs of all masters and chunkservers of the cell";
        let why = "clients did nothing in this log that can be done again";
        return Err(CliError::new(doing(), Cause::new(Exit::Local, why, advice)));
    }
    let under = session.remote_path(&arguments.under).await?;
    check_empty(&under.cell, &under.path).await.doing(doing)?;
    let prepared = prepare(&plan, &under.cell, &under.path).await;
    let replay = match prepared {
        Ok(replay) => replay,
        Err((path, error)) => {
            return Err(CliError::new(format!("preparing {path} for the replay"), error));
        }
    };
    let report = replay.run(&plan, arguments.speed.0).await;
    if output.json() {
        tell_json(&plan, &report, output)?;
    } else {
        tell_text(&plan, &report, output)?;
    }
    output.flush()?;
    report.errors.iter().for_each(|error| warn(error));
    if report.failed() > 0 {
        let why =
            format!("{} of the operations failed that had not failed before", report.failed());
        let advice = "see 'cairn status' of the cell, and the warnings above";
        return Err(CliError::new(doing(), Cause::new(Exit::Failed, why, advice)));
    }
    Ok(())
}

/// A directory with something in it is somebody's.
async fn check_empty(
    cell: &cairn_client::Cell,
    under: &cairn_client::CellPath,
) -> Result<(), Cause> {
    match cell.list(under).await {
        Ok(entries) if entries.is_empty() => Ok(()),
        Ok(_) => {
            let why = format!("{under} is not empty");
            Err(Cause::new(Exit::Exists, why, "choose another directory with --under"))
        }
        Err(error) if error.code() == cairn_protocol::ErrorCode::NotFound => Ok(()),
        Err(error) => Err(error.into()),
    }
}

#[allow(clippy::cast_precision_loss, reason = "rates with one digit behind the point")]
fn rate(count: u64, seconds: f64) -> f64 {
    count as f64 / seconds.max(1e-6)
}

fn tell_text(plan: &Plan, report: &ReplayReport, output: &Output) -> Result<(), CliError> {
    let took = report.took.as_secs_f64();
    let mut table = Table::new(&[false, true, true, true, true, true]);
    table.row(["KIND", "DONE", "FAILED", "A SECOND", "BYTES", "MEAN"].map(str::to_owned));
    for (name, kind) in &report.kinds {
        let all = kind.done + kind.failed + kind.succeeded_anyway;
        table.row([
            (*name).to_owned(),
            kind.done.to_string(),
            kind.failed.to_string(),
            format!("{:.1}", rate(kind.done, took)),
            size_text(kind.bytes, true),
            super::opening::micros_text(kind.took_us / all.max(1)),
        ]);
    }
    for line in table.lines() {
        output.line(&line)?;
    }
    output.line("")?;
    #[allow(clippy::cast_precision_loss, reason = "seconds with one digit behind the point")]
    let before = plan.span_us().1 as f64 / 1e6;
    output.line(&format!(
        "{} done and {} failed in {took:.1} s; in the log it took {before:.1} s; at the most \
         {:.1} s behind its time",
        report.done(),
        report.failed(),
        report.late.as_secs_f64(),
    ))?;
    let anyway: u64 = report.kinds.values().map(|kind| kind.succeeded_anyway).sum();
    if anyway > 0 {
        output.line(&format!("{anyway} succeeded that had failed in the log"))?;
    }
    let left: u64 = plan.left_out.values().sum();
    if left == 0 {
        return Ok(());
    }
    output.line(&format!(
        "{left} requests of the log are not replayed: they come by themselves, ask about the cell, \
         or change attributes, policies, quotas or the cell:"
    ))?;
    let names: Vec<_> =
        plan.left_out.iter().map(|(name, count)| format!("{name} {count}")).collect();
    output.line(&format!("  {}", names.join(", ")))
}

fn tell_json(plan: &Plan, report: &ReplayReport, output: &Output) -> Result<(), CliError> {
    let took = report.took.as_secs_f64();
    let kinds: serde_json::Map<_, _> = report
        .kinds
        .iter()
        .map(|(name, kind)| {
            let told = json!({
                "done": kind.done,
                "failed": kind.failed,
                "succeeded_anyway": kind.succeeded_anyway,
                "bytes": kind.bytes,
                "per_second": rate(kind.done, took),
                "took_us": kind.took_us,
            });
            ((*name).to_owned(), told)
        })
        .collect();
    output.value(&json!({
        "done": report.done(),
        "failed": report.failed(),
        "seconds": took,
        "log_us": plan.span_us().1,
        "late_seconds": report.late.as_secs_f64(),
        "kinds": kinds,
        "left_out": plan.left_out,
        "dropped": plan.dropped,
        "damaged": plan.damaged,
    }))
}

#[cfg(test)]
mod tests {
    use super::Speed;

    #[test]
    fn a_speed_is_a_factor_or_the_most_there_is() {
        let speed = |text: &str| text.parse::<Speed>().map(|speed| speed.0);
        assert_eq!(speed("max"), Ok(None));
        assert_eq!(speed("2.5"), Ok(Some(2.5)));
        for bad in ["0", "-1", "fast", "NaN", "inf", "1e9"] {
            assert!(speed(bad).is_err(), "{bad}");
        }
    }
}
