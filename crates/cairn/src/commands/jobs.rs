//! `cairn jobs`: what the cell is at by itself or because somebody said so, and ending it.

use crate::cli_error::{CliError, Doing};
use crate::exit_codes::Exit;
use crate::output::{Output, size_text, span_text, time_text};
use crate::session::Session;
use cairn_client::{JobKind, JobState, JobStatus, JobUnit};
use clap::{Args, Subcommand};
use serde_json::json;

/// Arguments of `jobs`.
#[derive(Args, Debug)]
pub(crate) struct JobsArguments {
    #[command(subcommand)]
    action: Option<JobsAction>,
}

/// What is done with a job.
#[derive(Debug, Subcommand)]
enum JobsAction {
    /// End a job that somebody began; what it has done stays
    Cancel {
        /// Its id, as 'cairn jobs' shows it
        #[arg(value_name = "ID")]
        id: String,
    },
}

/// Runs it.
pub(crate) async fn run(
    jobs: JobsArguments,
    session: &Session,
    output: &Output,
) -> Result<(), CliError> {
    let cell = session.cell().await?;
    if let Some(JobsAction::Cancel { id }) = jobs.action {
        let done = cell.cancel_job(&id).await.doing(|| format!("cancelling job {id}"));
        done.map_err(|it| it.advising(Exit::NotFound, "'cairn jobs' lists them"))?;
        return output.done(false, &json!({ "cancelled": id }), String::new);
    }
    let doing = || format!("asking the cell at {} for its jobs", session.address());
    let jobs = cell.jobs().await.doing(doing)?;
    if output.json() {
        return jobs.iter().try_for_each(|job| output.value(&to_json(job)));
    }
    if jobs.is_empty() {
        return output.line("no jobs: the cell has nothing to do");
    }
    jobs.iter().flat_map(lines).try_for_each(|line| output.line(&line))
}

/// A job as `--json` shows it.
pub(crate) fn to_json(job: &JobStatus) -> serde_json::Value {
    json!({
        "id": job.id,
        "kind": kind_text(job.kind),
        "subject": job.subject,
        "state": state_text(job.state),
        "done": job.done,
        "total": job.total,
        "unit": unit_text(job.unit),
        "rate_a_second": rate(job),
        "left_ms": job.left_ms,
        "note": job.note,
        "began_ms": job.began.as_millis(),
    })
}

/// As people write it.
pub(crate) fn kind_text(kind: JobKind) -> &'static str {
    match kind {
        JobKind::Repair => "repair",
        JobKind::Surplus => "surplus",
        JobKind::Purge => "purge",
        JobKind::Drain => "drain",
        JobKind::Balance => "balance",
        JobKind::Policy => "policy",
        JobKind::Settle => "settle",
    }
}

fn state_text(state: JobState) -> &'static str {
    match state {
        JobState::Running => "running",
        JobState::Waiting => "waiting",
        JobState::Done => "done",
    }
}

fn unit_text(unit: JobUnit) -> &'static str {
    match unit {
        JobUnit::Chunks => "chunks",
        JobUnit::Bytes => "bytes",
        JobUnit::Names => "names",
    }
}

#[expect(clippy::cast_precision_loss, reason = "a rate for people")]
fn rate(job: &JobStatus) -> f64 {
    job.rate_milli as f64 / 1000.0
}

/// How far it is: `120 of 4000 chunks, 12.5 a second, 5 min left`.
pub(crate) fn progress_text(job: &JobStatus) -> String {
    let (done, total) = match job.unit {
        JobUnit::Bytes => (size_text(job.done, true), size_text(job.total, true)),
        JobUnit::Chunks | JobUnit::Names => (job.done.to_string(), job.total.to_string()),
    };
    let mut text = format!("{done} of {total} {}", unit_text(job.unit));
    if job.state == JobState::Running && job.rate_milli > 0 {
        match job.unit {
            JobUnit::Bytes => text += &format!(", {}/s", size_text(job.rate_milli / 1000, true)),
            JobUnit::Chunks | JobUnit::Names => text += &format!(", {:.1} a second", rate(job)),
        }
    }
    if let Some(left) = job.left_ms {
        text += &format!(", {} left", span_text(left));
    }
    text
}

/// A line for each job, and one more where there is something to say.
pub(crate) fn lines(job: &JobStatus) -> Vec<String> {
    let subject = if job.subject.is_empty() { "" } else { &format!(" ({})", job.subject) };
    let (began, state) = (time_text(job.began), state_text(job.state));
    let progress = progress_text(job);
    let mut lines = vec![format!("{}{subject}: {state} since {began} UTC, {progress}", job.id)];
    if !job.note.is_empty() {
        lines.push(format!("  {}", job.note));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::{lines, progress_text};
    use cairn_client::{JobState, JobStatus, JobUnit};

    #[test]
    fn a_job_says_how_far_it_is_how_fast_and_how_long_the_rest_takes() {
        let job = JobStatus {
            id: "repair".into(),
            done: 5,
            total: 20,
            rate_milli: 2500,
            left_ms: Some(6000),
            note: "2 copies under way".into(),
            ..JobStatus::default()
        };
        assert_eq!(progress_text(&job), "5 of 20 chunks, 2.5 a second, 6s left");
        assert_eq!(lines(&job)[1], "  2 copies under way");
        let waiting = JobStatus { state: JobState::Waiting, left_ms: None, ..job.clone() };
        assert_eq!(progress_text(&waiting), "5 of 20 chunks");
        let bytes = JobStatus { unit: JobUnit::Bytes, total: 20 << 20, ..job };
        assert_eq!(progress_text(&bytes), "5 of 20M bytes, 2/s, 6s left");
    }
}
