//! What the clones of an open file, its readers and its writers share.

use crate::error::Error;
use crate::link::Link;
use bytes::Bytes;
use cairn_client_core::Output;
use cairn_types::Entry;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A file that is open; the last who holds it forgets it, unless it was closed.
#[derive(Debug)]
pub(crate) struct OpenFile {
    pub(crate) link: Arc<Link>,
    pub(crate) entry: Entry,
    closed: AtomicBool,
    doubted: AtomicBool,
}

impl OpenFile {
    pub(crate) fn new(link: Arc<Link>, entry: Entry) -> Self {
        Self { link, entry, closed: AtomicBool::new(false), doubted: AtomicBool::new(false) }
    }

    /// The bytes of a read and whether the file ends behind them; its warning is kept (R28).
    pub(crate) fn take_read(&self, output: Output) -> Result<(Vec<Bytes>, bool), Error> {
        let Output::Read { pieces, end, suspect } = output else { return Err(Error::mismatched()) };
        if suspect {
            self.doubted.store(true, Ordering::Relaxed);
        }
        Ok((pieces, end))
    }

    /// Whether any read so far came with a warning.
    pub(crate) fn is_doubted(&self) -> bool {
        self.doubted.load(Ordering::Relaxed)
    }

    /// Marks it closed; true the first time.
    pub(crate) fn close(&self) -> bool {
        !self.closed.swap(true, Ordering::Relaxed)
    }
}

impl Drop for OpenFile {
    fn drop(&mut self) {
        if !*self.closed.get_mut() {
            self.link.forget(self.entry.id);
        }
    }
}
