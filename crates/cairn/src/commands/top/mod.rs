//! `cairn top`: a cell at work, looked at each second.
//!
//! ```text
//!   look ── a second ── look ── …      what lies between two is shown
//! ```
//! On a terminal it is a screen; elsewhere a line each second; with `--once` or `--json` it is one
//! sample.

mod sample;
mod screen;

use crate::cli_error::{CliError, Doing};
use crate::interrupt::EndSignals;
use crate::output::Output;
use crate::session::Session;
use clap::Args;
use sample::{Look, TopSample};
use screen::Screen;
use std::io::{IsTerminal, stdin, stdout};
use std::time::Duration;

/// From one look to the next.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// How long the cell may take to answer before the person is told.
const LOOK_TIME_MAX: Duration = Duration::from_secs(2);

/// Arguments of `top`.
#[derive(Args, Debug)]
pub(crate) struct TopArguments {
    /// One sample, and no more
    #[arg(long)]
    once: bool,
}

/// Runs it.
pub(crate) async fn run(
    top: TopArguments,
    session: &Session,
    output: &Output,
) -> Result<(), CliError> {
    let first = Look::take(session).await?;
    if top.once || output.json() {
        return one(&first, session, output).await;
    }
    if stdin().is_terminal() && stdout().is_terminal() {
        return on_screen(first, session).await;
    }
    let mut before = first;
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        let now = Look::take(session).await?;
        output.line(&TopSample::between(&before, &now).line())?;
        output.flush()?;
        before = now;
    }
}

async fn one(first: &Look, session: &Session, output: &Output) -> Result<(), CliError> {
    tokio::time::sleep(LOOK_EVERY).await;
    let now = Look::take(session).await?;
    let sample = TopSample::between(first, &now);
    if output.json() {
        return output.value(&sample.json());
    }
    sample.lines().iter().try_for_each(|line| output.line(&output.name(line)))
}

/// Shows the cell until the person has seen enough. A signal ends it too, and then the process, by
/// the exit code by which a shell knows the signal: when the terminal is as it was before.
async fn on_screen(first: Look, session: &Session) -> Result<(), CliError> {
    let doing = || "showing the cell on the terminal".to_owned();
    let mut signals = EndSignals::listen().doing(doing)?;
    let screen = Screen::take().doing(doing)?;
    let number = tokio::select! {
        left = show_until_left(&screen, first, session) => return left,
        number = signals.next() => number,
    };
    drop(screen);
    std::process::exit(128 + number);
}

/// A cell that does not answer for a while is told of, and asked again.
async fn show_until_left(screen: &Screen, first: Look, session: &Session) -> Result<(), CliError> {
    let doing = || "showing the cell on the terminal".to_owned();
    let mut before = first.clone();
    let mut now = first;
    let mut trouble: Option<String> = None;
    loop {
        let mut lines = trouble.take().into_iter().collect::<Vec<String>>();
        let shown = TopSample::between(&before, &now).lines();
        lines.extend(shown.iter().map(|line| crate::cli_error::one_line(line)));
        screen.show(&lines).doing(doing)?;
        // Keys are waited for in a thread: the client's loop goes on beside it.
        let left = tokio::task::spawn_blocking(|| Screen::is_left(LOOK_EVERY)).await;
        if left.is_ok_and(|left| left.unwrap_or(true)) {
            return Ok(());
        }
        // Not for as long as a command waits: keys are heard in between.
        match tokio::time::timeout(LOOK_TIME_MAX, Look::take(session)).await {
            Ok(Ok(next)) => before = std::mem::replace(&mut now, next),
            Ok(Err(error)) => trouble = Some(error.to_string()),
            Err(_) => trouble = Some(format!("the cell at {} is silent", session.address())),
        }
    }
}
