//! `cairn touch`: sets when files were changed last, and makes those that are not there.

use crate::cli_error::{CliError, Doing, Tally};
use crate::output::Output;
use crate::session::{RemotePath, Session};
use cairn_client::{AttributeChange, CreateOptions, ErrorCode};
use cairn_types::WallTime;
use clap::Args;
use serde_json::json;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

/// Arguments of `touch`.
#[derive(Args, Debug)]
pub(crate) struct TouchArguments {
    /// The time of this local file
    #[arg(short, long, value_name = "FILE", conflicts_with = "date")]
    reference: Option<PathBuf>,
    /// This time, in UTC: a day, `2026-11-25 13:45[:07]`, or @SECONDS since 1970 [default: now]
    #[arg(short, long, value_name = "TIME", value_parser = time)]
    date: Option<WallTime>,
    /// Make no file that is not there
    #[arg(short = 'c', long)]
    no_create: bool,
    /// Say what was set
    #[arg(short, long)]
    verbose: bool,
    /// Files and directories
    #[arg(required = true)]
    paths: Vec<String>,
}

/// Milliseconds of a day.
const DAY_MS: u64 = 86_400_000;

/// A time as people write it.
pub(crate) fn time(text: &str) -> Result<WallTime, String> {
    let write_it = || "write it as 2026-11-25, 2026-11-25 13:45:07 or @SECONDS".to_owned();
    let number = |text: &str, digits: usize| {
        let is_number = text.len() == digits && text.bytes().all(|byte| byte.is_ascii_digit());
        is_number.then(|| text.parse::<u64>().ok()).flatten().ok_or_else(write_it)
    };
    if let Some(seconds) = text.strip_prefix('@') {
        let seconds: u64 = seconds.parse().map_err(|_| write_it())?;
        return Ok(WallTime::from_millis(seconds.checked_mul(1000).ok_or_else(write_it)?));
    }
    let text = text.trim_end_matches('Z').trim_end_matches(" UTC");
    let (date, clock) = text.split_once([' ', 'T']).unwrap_or((text, "00:00"));
    let [year, month, day] = parts(date, '-').ok_or_else(write_it)?;
    let (year, month, day) = (number(year, 4)?, number(month, 2)?, number(day, 2)?);
    let clock = if clock.matches(':').count() == 1 { format!("{clock}:00") } else { clock.into() };
    let [hour, minute, second] = parts(&clock, ':').ok_or_else(write_it)?;
    let (hour, minute, second) = (number(hour, 2)?, number(minute, 2)?, number(second, 2)?);
    if !(1970..=9999).contains(&year)
        || !(1..=12).contains(&month)
        || !(1..=days_of(year, month)).contains(&day)
        || hour > 23
        || minute > 59
        || second > 59
    {
        return Err("there is no such time after 1970".to_owned());
    }
    let years: u64 = (1970..year).map(|year| if is_leap(year) { 366 } else { 365 }).sum();
    let months: u64 = (1..month).map(|month| days_of(year, month)).sum();
    let seconds = (hour * 60 + minute) * 60 + second;
    Ok(WallTime::from_millis((years + months + day - 1) * DAY_MS + seconds * 1000))
}

fn parts(text: &str, between: char) -> Option<[&str; 3]> {
    text.split(between).collect::<Vec<_>>().try_into().ok()
}

fn is_leap(year: u64) -> bool {
    year.is_multiple_of(4) && !year.is_multiple_of(100) || year.is_multiple_of(400)
}

fn days_of(year: u64, month: u64) -> u64 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// The time of this machine's clock that is meant.
pub(crate) fn wall_time(time: SystemTime) -> WallTime {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    WallTime::from_millis(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

impl TouchArguments {
    fn time(&self) -> Result<WallTime, CliError> {
        if let Some(date) = self.date {
            return Ok(date);
        }
        let Some(file) = &self.reference else { return Ok(wall_time(SystemTime::now())) };
        let doing = || format!("reading the time of {}", file.display());
        let modified = std::fs::metadata(file).and_then(|file| file.modified()).doing(doing)?;
        Ok(wall_time(modified))
    }

    async fn one(
        &self,
        place: &RemotePath,
        time: WallTime,
        output: &Output,
    ) -> Result<(), CliError> {
        let doing = || format!("setting the time of {place}");
        let change = AttributeChange { modified: Some(time), ..AttributeChange::default() };
        let mut done = place.cell.set_attributes(&place.path, change).await;
        if done.as_ref().is_err_and(|error| error.code() == ErrorCode::NotFound) {
            if self.no_create {
                return Ok(());
            }
            let create = CreateOptions { or_open: true, ..CreateOptions::default() };
            let made = || format!("making {place}");
            let file = place.cell.create(&place.path, create).await.doing(made)?;
            file.close().await.doing(made)?;
            done = place.cell.set_attributes(&place.path, change).await;
        }
        let entry = done.doing(doing)?;
        let (path, modified) = (place.path.as_str(), entry.modified.as_millis());
        let value = json!({ "path": path, "modified_ms": modified });
        output.done(self.verbose, &value, || place.to_string())
    }
}

/// Runs it.
pub(crate) async fn run(
    touch: TouchArguments,
    session: &Session,
    output: &Output,
) -> Result<(), CliError> {
    let time = touch.time()?;
    let mut tally = Tally::default();
    for text in &touch.paths {
        let done = match session.remote_path(text).await {
            Ok(place) => touch.one(&place, time, output).await,
            Err(error) => Err(error),
        };
        tally.note(done)?;
    }
    tally.finish()
}

#[cfg(test)]
mod tests {
    use super::time;
    use crate::output::time_text;

    #[test]
    fn a_time_is_read_as_it_is_shown() {
        let shown = |text: &str| time_text(time(text).expect("a time"));
        assert!(shown("2026-11-25 13:45:07").starts_with("2026-11-25 13:45"));
        assert_eq!(time("1970-01-02").map(|time| time.as_millis()), Ok(86_400_000));
        assert_eq!(time("2000-03-01T00:00Z").map(|time| time.as_millis()), Ok(951_868_800_000));
        assert_eq!(time("@12").map(|time| time.as_millis()), Ok(12_000));
        for wrong in ["", "yesterday", "2026-02-29", "2026-1-1", "2026-01-01 25:00", "@-1"] {
            assert!(time(wrong).is_err(), "{wrong}");
        }
    }
}
