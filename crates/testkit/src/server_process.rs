//! One server: a process with a log, which can be killed and started again where it was.

use crate::await_until::{PATIENCE, await_until};
use crate::error::HarnessError;
use crate::janitor::Janitor;
use crate::program::Program;
use rustix::io::Errno;
pub use rustix::process::Signal;
use rustix::process::{Pid, kill_process};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::{Arc, mpsc};
use std::time::Duration;

/// A master with ten million files has much to read before it is ready.
const READY_WITHIN: Duration = Duration::from_secs(600);

/// A master or a chunkserver.
#[derive(Debug)]
pub struct ServerProcess {
    name: String,
    address: String,
    arguments: Vec<String>,
    log: PathBuf,
    program: Program,
    janitor: Arc<Janitor>,
    /// None while it is dead.
    child: Option<Child>,
}

impl ServerProcess {
    /// Starts `cairn <arguments> --listen 127.0.0.1:0` and waits until it is ready. Its log is
    /// `<name>.log` in `directory`.
    ///
    /// # Errors
    /// With the last line of its log where it does not get ready.
    pub fn start(
        program: &Program,
        name: &str,
        arguments: Vec<String>,
        directory: &Path,
        janitor: &Arc<Janitor>,
    ) -> Result<Self, HarnessError> {
        Self::start_at("127.0.0.1:0", program, name, arguments, (directory, janitor))
    }

    /// The same, listening elsewhere.
    ///
    /// # Errors
    /// As for `start`.
    pub fn start_at(
        listen: &str,
        program: &Program,
        name: &str,
        arguments: Vec<String>,
        (directory, janitor): (&Path, &Arc<Janitor>),
    ) -> Result<Self, HarnessError> {
        let mut server = Self {
            name: name.to_owned(),
            address: listen.to_owned(),
            arguments,
            log: directory.join(format!("{name}.log")),
            program: program.clone(),
            janitor: janitor.clone(),
            child: None,
        };
        server.restart()?;
        Ok(server)
    }

    /// `master`, `chunkserver-3`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where it listens, from its first start on.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.address
    }

    /// What it wrote to stderr, in all its lives.
    #[must_use]
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// Its process's number; none while it is dead.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    /// Whether its process has not ended by itself.
    pub fn runs(&mut self) -> bool {
        self.child.as_mut().is_some_and(|child| matches!(child.try_wait(), Ok(None)))
    }

    /// Sends its process a signal: to stand still, to go on, to end by itself.
    ///
    /// # Errors
    /// Where it does not run.
    pub fn signal(&self, signal: Signal) -> Result<(), HarnessError> {
        let pid = self.pid().and_then(|pid| Pid::from_raw(i32::try_from(pid).ok()?));
        let sent = pid.map_or(Err(Errno::SRCH), |pid| kill_process(pid, signal));
        sent.map_err(|errno| HarnessError::local(format!("signalling {}", self.name))(errno.into()))
    }

    /// Asks its process to end by itself, and waits until it has.
    ///
    /// # Errors
    /// Where it does not run, or does not end.
    pub fn stop(&mut self) -> Result<(), HarnessError> {
        self.signal(Signal::TERM)?;
        self.await_end()
    }

    /// Waits until its process has ended by itself.
    ///
    /// # Errors
    /// Where it does not.
    pub fn await_end(&mut self) -> Result<(), HarnessError> {
        let what = format!("{} to end", self.name);
        await_until(&what, PATIENCE, || Ok::<_, HarnessError>(!self.runs()))?;
        // It is no more: this takes what is left of it from the system's table.
        self.kill();
        Ok(())
    }

    /// `kill -9`, not waited for.
    pub(crate) fn signal_kill(&mut self) {
        if let Some(child) = &mut self.child {
            // Fails only for a process that has ended, and then there is nothing to end.
            let _ = child.kill();
        }
    }

    /// `kill -9`.
    pub fn kill(&mut self) {
        self.signal_kill();
        if let Some(mut child) = self.child.take() {
            let _ = child.wait();
            self.janitor.forget(child.id());
        }
    }

    /// Starts it again where it was, with other arguments.
    ///
    /// # Errors
    /// As for `start`.
    pub fn restart_with(&mut self, arguments: Vec<String>) -> Result<(), HarnessError> {
        self.arguments = arguments;
        self.restart()
    }

    /// From its next start on it is run by this program.
    pub fn run_by(&mut self, program: &Program) {
        self.program = program.clone();
    }

    /// Starts it again where it was.
    ///
    /// # Errors
    /// As for `start`.
    pub fn restart(&mut self) -> Result<(), HarnessError> {
        assert!(self.child.is_none(), "{} is killed before it is started again", self.name);
        let local = || HarnessError::local(format!("starting {}", self.name));
        let log = File::options().create(true).append(true).open(&self.log).map_err(local())?;
        let mut command = self.program.command(&self.arguments);
        command.args(["--listen", &self.address]).stdout(Stdio::piped()).stderr(log);
        let child = command.spawn().map_err(local())?;
        self.janitor.watch(child.id());
        match ready_address(self.child.insert(child)) {
            Some(address) => self.address = address,
            None => {
                self.kill();
                let text = std::fs::read_to_string(&self.log).unwrap_or_default();
                let why = text.lines().last().unwrap_or("it did not get ready in time").to_owned();
                return Err(HarnessError::NotReady { name: self.name.clone(), why });
            }
        }
        Ok(())
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Waits for `… ready on <address>`; none where the process ends before it, or takes too long.
fn ready_address(child: &mut Child) -> Option<String> {
    let stdout = child.stdout.take().expect("piped above");
    let (sender, receiver) = mpsc::channel();
    // Reads on to the process's end, so that no later line of it meets a closed pipe.
    std::thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            if let Some((_, address)) = line.split_once(" ready on ") {
                // Nobody listens once it was too late; the thread then only drains the pipe.
                let _ = sender.send(address.to_owned());
            }
        }
    });
    receiver.recv_timeout(READY_WITHIN).ok()
}
