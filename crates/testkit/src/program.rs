//! The binary under test, run with nothing of this shell's settings.

use crate::error::HarnessError;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A `cairn` binary.
#[derive(Clone, Debug)]
pub struct Program {
    path: PathBuf,
    /// A command that runs it, word by word; none: it is run by itself.
    runner: Vec<String>,
}

impl Program {
    /// The one at `path`.
    #[must_use]
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), runner: Vec::new() }
    }

    /// The one that runs this code.
    ///
    /// # Errors
    /// Where the system does not say which that is.
    pub fn this() -> Result<Self, HarnessError> {
        let path = std::env::current_exe();
        Ok(Self::at(path.map_err(HarnessError::local("looking for this program"))?))
    }

    /// The same, run by a command that becomes it: the program and its arguments follow `runner`.
    #[must_use]
    pub fn run_by(&self, runner: &[&str]) -> Self {
        let runner = runner.iter().map(|word| (*word).to_owned()).collect();
        Self { path: self.path.clone(), runner }
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A command of it: stdin is empty, and no `CAIRN_…` of this shell reaches it.
    #[must_use]
    pub fn command<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Command {
        let words = self.runner.iter().map(OsStr::new).chain([self.path.as_os_str()]);
        let mut words = words.collect::<Vec<_>>().into_iter();
        let mut command = Command::new(words.next().expect("the program at least"));
        command.args(words).args(arguments).stdin(Stdio::null());
        for (variable, _) in std::env::vars_os() {
            if variable.to_string_lossy().starts_with("CAIRN_") {
                command.env_remove(variable);
            }
        }
        command
    }

    /// Runs a command to its end, as a person would; what it wrote to stdout.
    ///
    /// # Errors
    /// With its last failure where it fails.
    pub fn ask(&self, arguments: &[&str]) -> Result<String, HarnessError> {
        let command = || format!("cairn {}", arguments.join(" "));
        let output = self.command(arguments).output().map_err(HarnessError::local(command()))?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        let why = reason(&output.stderr, &output.stdout);
        Err(HarnessError::Command { command: command(), why })
    }
}

/// The last failure that a command told; long work may have told of its progress after that. Where
/// it told none it has failed by what it found, which is all that it has written.
fn reason(stderr: &[u8], stdout: &[u8]) -> String {
    let told = String::from_utf8_lossy(stderr);
    let mut lines = told.lines().rev();
    let failure = lines.clone().find(|line| line.starts_with("cairn: "));
    match failure.or_else(|| lines.next()) {
        Some(failure) => failure.to_owned(),
        None => String::from_utf8_lossy(stdout).trim().replace('\n', "; "),
    }
}

#[cfg(test)]
mod tests {
    use super::reason;

    #[test]
    fn a_failure_is_told_and_not_the_progress_after_it() {
        let told = b"put: 1M of 4M\ncairn: putting a to /a: no space left\nput: 2M of 4M\n";
        assert_eq!(reason(told, b""), "cairn: putting a to /a: no space left");
        assert_eq!(reason(b"thread panicked\nat the end\n", b"1"), "at the end");
        assert_eq!(reason(b"", b"one is bad\ntwo\n"), "one is bad; two");
    }
}
