//! What a person sees when something fails: one line.
//!
//! ```text
//!   cairn: putting x to /a: no such directory; look with 'cairn ls' what is there
//!          ──────────────── ─────────────────  ────────────────────────────────
//!          what was done    why it failed      what to do
//! ```
//! - C1: one line, whatever bytes the names in it have.
//! - C2: nobody else writes to stderr about a failure; no failure is told twice.
//! - C3: with `--json` the line is a JSON value.

use crate::exit_codes::{Exit, advice};
use crate::stderr::say;
use cairn_bench::{BenchCause, BenchError};
use cairn_testkit::HarnessError;
use std::cell::Cell;
use std::convert::Infallible;
use std::fmt;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether failures of this process are told as JSON, as `--json` asks for.
static TELL_PROGRAMS: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// Whether failures on this thread are told by whoever asked, and not on stderr.
    static QUIET: Cell<bool> = const { Cell::new(false) };
}

/// What fails on this thread from now on is for those who ask it, and nothing of it goes to stderr.
pub(crate) fn keep_quiet_here() {
    QUIET.set(true);
}

/// From now on failures and warnings are told as JSON, one value a line.
pub(crate) fn tell_programs() {
    TELL_PROGRAMS.store(true, Ordering::Relaxed);
}

/// Tells on stderr what a person should know, though nothing has failed.
pub(crate) fn warn(text: &str) {
    if QUIET.get() {
        return;
    }
    if TELL_PROGRAMS.load(Ordering::Relaxed) {
        say(serde_json::json!({ "warning": text }));
    } else {
        say(format_args!("cairn: warning: {}", one_line(text)));
    }
}

/// Why something failed, before it is known what was being done.
#[derive(Clone, Debug)]
pub(crate) struct Cause {
    /// One line.
    pub(crate) why: String,
    /// What to do about it; empty where there is nothing to say.
    pub(crate) advice: String,
    /// How the process ends.
    pub(crate) exit: Exit,
}

impl Cause {
    /// A cause with its advice.
    pub(crate) fn new(exit: Exit, why: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { why: why.into(), advice: advice.into(), exit }
    }
}

impl From<io::Error> for Cause {
    fn from(error: io::Error) -> Self {
        let (why, advice) = match error.kind() {
            io::ErrorKind::NotFound => ("no such file on this machine", "check the name"),
            io::ErrorKind::PermissionDenied => ("permission denied", "check owner and mode"),
            io::ErrorKind::AlreadyExists => ("it is there already", "choose another name"),
            io::ErrorKind::StorageFull => ("no space left on this machine", "make room"),
            io::ErrorKind::IsADirectory => ("it is a directory", "name a file, or use -r"),
            io::ErrorKind::NotADirectory => ("a part of the path is a file", "check the name"),
            _ => return Self::new(Exit::Local, error.to_string(), ""),
        };
        Self::new(Exit::Local, why, advice)
    }
}

impl From<Infallible> for Cause {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}

impl From<cairn_types::PathError> for Cause {
    fn from(error: cairn_types::PathError) -> Self {
        Self::new(Exit::Usage, error.to_string(), "write it as /directory/name")
    }
}

impl From<cairn_client::Error> for Cause {
    fn from(error: cairn_client::Error) -> Self {
        let (code, outcome) = (error.code(), error.outcome());
        Self::new(Exit::of(code, outcome), error.to_string(), advice(code, outcome))
    }
}

impl From<HarnessError> for Cause {
    fn from(error: HarnessError) -> Self {
        let exit = match &error {
            HarnessError::Local { .. } => Exit::Local,
            HarnessError::NotReady { .. }
            | HarnessError::Command { .. }
            | HarnessError::InVain { .. } => Exit::Failed,
        };
        Self::new(exit, error.to_string(), "")
    }
}

impl From<BenchError> for CliError {
    fn from(BenchError { doing, cause }: BenchError) -> Self {
        let cause = match cause {
            BenchCause::Local(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                Cause::new(Exit::ReaderGone, "", "")
            }
            BenchCause::Local(error) => error.into(),
            BenchCause::Cell(error) => error.into(),
            BenchCause::Harness(error) => error.into(),
            BenchCause::Missing { why, advice } => Cause::new(Exit::Local, why, advice),
            BenchCause::WrongAnswer(why) => Cause::new(Exit::Damaged, why, ""),
            BenchCause::Part(why) => Cause::new(Exit::Failed, why, ""),
        };
        Self::new(doing, cause)
    }
}

/// A failure as it is told.
#[derive(Clone, Debug)]
pub(crate) struct CliError {
    doing: String,
    cause: Cause,
    told: bool,
}

impl CliError {
    /// `cause` while `doing`.
    pub(crate) fn new(doing: impl Into<String>, cause: impl Into<Cause>) -> Self {
        Self { doing: doing.into(), cause: cause.into(), told: false }
    }

    /// Of what the output has told already: only the exit code is left.
    pub(crate) fn told(exit: Exit) -> Self {
        Self { told: true, ..Self::new("", Cause::new(exit, "", "")) }
    }

    /// Of arguments that can never be right.
    pub(crate) fn usage(
        doing: impl Into<String>,
        why: impl Into<String>,
        advice: impl Into<String>,
    ) -> Self {
        Self::new(doing, Cause::new(Exit::Usage, why, advice))
    }

    /// With this advice, where it ends like that: the general one is about files.
    pub(crate) fn advising(mut self, exit: Exit, advice: &str) -> Self {
        if self.exit() == exit {
            advice.clone_into(&mut self.cause.advice);
        }
        self
    }

    /// How the process ends.
    pub(crate) fn exit(&self) -> Exit {
        self.cause.exit
    }

    /// Why, without the name at its start that `doing` has just said.
    fn why(&self) -> &str {
        match self.cause.why.split_once(": ") {
            Some((name, rest)) if self.doing.ends_with(&format!(" {name}")) => rest,
            _ => &self.cause.why,
        }
    }

    /// Writes the line to stderr, once (C2).
    pub(crate) fn tell(&mut self) {
        if !self.told && self.exit() != Exit::ReaderGone && !QUIET.get() {
            if TELL_PROGRAMS.load(Ordering::Relaxed) {
                say(self.to_json());
            } else {
                say(format_args!("cairn: {self}"));
            }
        }
        self.told = true;
    }

    /// The same for programs.
    pub(crate) fn to_json(&self) -> serde_json::Value {
        serde_json::json!({
            "error": self.why(),
            "doing": self.doing,
            "advice": self.cause.advice,
            "exit": self.exit().number(),
        })
    }
}

impl fmt::Display for CliError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut line = format!("{}: {}", self.doing, self.why());
        if !self.cause.advice.is_empty() {
            line.push_str("; ");
            line.push_str(&self.cause.advice);
        }
        f.write_str(&one_line(&line))
    }
}

/// The text with control characters written as escapes (C1).
pub(crate) fn one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_control() {
            line.extend(character.escape_default());
        } else {
            line.push(character);
        }
    }
    line
}

/// Says what was being done when a result turns out to be a failure.
pub(crate) trait Doing<T> {
    /// `what` is asked for only on failure.
    fn doing(self, what: impl FnOnce() -> String) -> Result<T, CliError>;
}

impl<T, E: Into<Cause>> Doing<T> for Result<T, E> {
    fn doing(self, what: impl FnOnce() -> String) -> Result<T, CliError> {
        self.map_err(|error| CliError::new(what(), error))
    }
}

/// Several sources, one after the other: a failure of one is told and the others still get their
/// turn; in the end the first failure's exit code counts.
#[derive(Default)]
pub(crate) struct Tally {
    first: Option<CliError>,
}

impl Tally {
    /// Takes in what came of one source.
    ///
    /// # Errors
    /// Only where going on makes no sense: nobody reads what we write.
    pub(crate) fn note(&mut self, result: Result<(), CliError>) -> Result<(), CliError> {
        if let Err(mut complaint) = result {
            if complaint.exit() == Exit::ReaderGone {
                return Err(complaint);
            }
            complaint.tell();
            self.first.get_or_insert(complaint);
        }
        Ok(())
    }

    /// The first failure, told already.
    ///
    /// # Errors
    /// Where there was one.
    pub(crate) fn finish(self) -> Result<(), CliError> {
        self.first.map_or(Ok(()), Err)
    }
}

#[cfg(test)]
mod tests {
    use super::{CliError, Tally};
    use crate::exit_codes::Exit;

    #[test]
    fn a_name_with_a_newline_does_not_break_the_line() {
        let complaint = CliError::usage("removing /a\nb", "no \u{1b}[31mway", "stop");
        assert_eq!(complaint.to_string(), "removing /a\\nb: no \\u{1b}[31mway; stop");
    }

    #[test]
    fn a_name_is_not_said_twice() {
        let complaint = CliError::usage("removing /a", "/a: no such file", "stop");
        assert_eq!(complaint.to_string(), "removing /a: no such file; stop");
        let complaint = CliError::usage("removing /a", "/: no such file", "stop");
        assert_eq!(complaint.to_string(), "removing /a: /: no such file; stop");
    }

    #[test]
    fn the_first_failure_of_several_gives_the_exit_code() {
        let mut tally = Tally::default();
        assert!(tally.note(Ok(())).is_ok());
        let failure = |exit| CliError::new("x", super::Cause::new(exit, "y", ""));
        assert!(tally.note(Err(failure(Exit::NotFound))).is_ok());
        assert!(tally.note(Err(failure(Exit::Full))).is_ok());
        assert_eq!(tally.finish().map_err(|c| c.exit()), Err(Exit::NotFound));
    }
}
