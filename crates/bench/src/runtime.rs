//! The runtime that a client of a bench runs in.

use tokio::runtime::{Builder, Runtime};

/// A runtime of one thread, the client's loop on it: for whoever does nothing else meanwhile.
pub(crate) fn one_thread() -> std::io::Result<Runtime> {
    Builder::new_current_thread().enable_all().build()
}
