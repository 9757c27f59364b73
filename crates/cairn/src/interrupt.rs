//! Ctrl-C, kill and hang-up: while files are on their way, what is not whole goes first; a server
//! is asked to stop.

use crate::cli_error::{CliError, Doing};
use crate::runtime::one_thread;
use cairn_env_os::Sender;
use cairn_transfer::PartialFiles;
use std::sync::Arc;
use std::time::Duration;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// A cell that does not answer keeps nobody from leaving.
const REMOVED_WITHIN: Duration = Duration::from_secs(5);

/// From now on a signal that ends the process has it remove `partials` first. The exit code is the
/// one by which a shell knows a signal; a second signal does not wait.
///
/// On a task of its own: the command's may wait in a read of stdin for ever.
///
/// # Errors
/// Where this machine does not tell of signals.
pub(crate) fn remove_on_signal(partials: Arc<PartialFiles>) -> Result<(), CliError> {
    let mut signals = EndSignals::listen().doing(|| "listening for signals".to_owned())?;
    tokio::spawn(async move {
        let number = signals.next().await;
        tokio::select! {
            _ = tokio::time::timeout(REMOVED_WITHIN, partials.remove_all()) => {}
            _ = signals.next() => {}
        }
        std::process::exit(128 + number);
    });
    Ok(())
}

/// From now on a signal that ends a server asks it to stop first; a second one does not wait.
///
/// # Errors
/// Where this machine does not tell of signals.
pub(crate) fn stop_on_signal(server: Sender<()>) -> std::io::Result<()> {
    let runtime = one_thread()?;
    let mut signals = {
        let _within = runtime.enter();
        EndSignals::listen()?
    };
    let wait = move || {
        runtime.block_on(signals.next());
        // Nobody takes it who has stopped.
        let _ = server.send(());
        let number = runtime.block_on(signals.next());
        std::process::exit(128 + number);
    };
    std::thread::Builder::new().name("signals".to_owned()).spawn(wait).map(drop)
}

/// The signals by which people and shells end a command.
pub(crate) struct EndSignals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
}

impl EndSignals {
    /// From now on they end nothing by themselves.
    ///
    /// # Errors
    /// Where this machine does not tell of signals.
    pub(crate) fn listen() -> std::io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    /// The number of the next one.
    pub(crate) async fn next(&mut self) -> i32 {
        let kind = tokio::select! {
            _ = self.interrupt.recv() => SignalKind::interrupt(),
            _ = self.terminate.recv() => SignalKind::terminate(),
            _ = self.hangup.recv() => SignalKind::hangup(),
        };
        kind.as_raw_value()
    }
}
