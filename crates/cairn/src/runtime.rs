//! The runtimes that the client library runs in, and what waits for signals.

use std::io::Result;
use tokio::runtime::{Builder, Runtime};

/// One thread, the caller's: for whoever does nothing else meanwhile.
pub(crate) fn one_thread() -> Result<Runtime> {
    Builder::new_current_thread().enable_all().build()
}

/// The client's loop has a thread beside its caller's, who reads and writes local files.
pub(crate) fn beside_the_caller() -> Result<Runtime> {
    Builder::new_multi_thread().worker_threads(1).thread_name("cairn-client").enable_all().build()
}
