//! The demo's servers: processes of this very program, each with a log of its own.

use crate::cli_error::{Cause, CliError, Doing};
use crate::exit_codes::Exit;
use crate::janitor::Janitor;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

/// A master with ten million files has much to read before it is ready.
const READY_WITHIN: Duration = Duration::from_secs(600);

/// One server.
pub(crate) struct Server<'j> {
    /// `master`, `chunkserver 3`.
    pub(crate) name: String,
    /// Where it listens, from its first start on.
    pub(crate) address: String,
    /// Its process's number.
    pub(crate) pid: u32,
    arguments: Vec<String>,
    log: PathBuf,
    child: Child,
    janitor: &'j Janitor,
}

impl<'j> Server<'j> {
    /// Starts `cairn <arguments> --listen 127.0.0.1:0` and waits until it is ready.
    ///
    /// # Errors
    /// With the last line of its log where it is not.
    pub(crate) fn start(
        name: &str,
        arguments: Vec<String>,
        directory: &Path,
        janitor: &'j Janitor,
    ) -> Result<Self, CliError> {
        let log = directory.join(format!("{}.log", name.replace(' ', "-")));
        let (child, address) = spawn(name, &arguments, "127.0.0.1:0", &log, janitor)?;
        let name = name.to_owned();
        Ok(Self { name, address, pid: child.id(), arguments, log, child, janitor })
    }

    /// `kill -9`.
    pub(crate) fn kill(&mut self) {
        // Fails only for a process that has ended, and then there is nothing to end.
        let _ = self.child.kill();
        let _ = self.child.wait();
        self.janitor.forget(self.pid);
    }

    /// Starts it again where it was, with other arguments.
    ///
    /// # Errors
    /// As for `start`.
    pub(crate) fn restart_with(&mut self, arguments: Vec<String>) -> Result<(), CliError> {
        self.arguments = arguments;
        self.restart()
    }

    /// Starts it again where it was.
    ///
    /// # Errors
    /// As for `start`.
    pub(crate) fn restart(&mut self) -> Result<(), CliError> {
        let (name, arguments) = (self.name.clone(), self.arguments.clone());
        let (child, address) = spawn(&name, &arguments, &self.address, &self.log, self.janitor)?;
        (self.pid, self.child, self.address) = (child.id(), child, address);
        Ok(())
    }
}

impl Drop for Server<'_> {
    fn drop(&mut self) {
        self.kill();
    }
}

fn spawn(
    name: &str,
    arguments: &[String],
    listen: &str,
    log: &Path,
    janitor: &Janitor,
) -> Result<(Child, String), CliError> {
    let doing = || format!("starting the {name}");
    let stderr = File::options().create(true).append(true).open(log).doing(doing)?;
    let mut command = Command::new(std::env::current_exe().doing(doing)?);
    command.args(arguments).args(["--listen", listen]);
    // The demo's cell is its own, whatever this shell is set up for.
    for (variable, _) in std::env::vars_os() {
        if variable.to_string_lossy().starts_with("CAIRN_") {
            command.env_remove(variable);
        }
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(stderr);
    let mut child = command.spawn().doing(doing)?;
    janitor.watch(child.id());
    match ready_address(&mut child) {
        Some(address) => Ok((child, address)),
        None => {
            let _ = child.kill();
            let _ = child.wait();
            janitor.forget(child.id());
            let text = std::fs::read_to_string(log).unwrap_or_default();
            let why = text.lines().last().unwrap_or("it did not get ready in time").to_owned();
            Err(CliError::new(doing(), Cause::new(Exit::Failed, why, "")))
        }
    }
}

/// Waits for `… ready on <address>`.
fn ready_address(child: &mut Child) -> Option<String> {
    let stdout = child.stdout.take()?;
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            if let Some((_, address)) = line.split_once(" ready on ") {
                let _ = sender.send(address.to_owned());
            }
        }
    });
    receiver.recv_timeout(READY_WITHIN).ok()
}
