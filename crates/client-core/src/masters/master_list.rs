//! The cell's masters, and which of them is asked.

use cairn_types::Address;

/// The masters; the one that answers as primary master is kept to.
#[derive(Debug)]
pub(crate) struct MasterList {
    addresses: Vec<Address>,
    current: usize,
}

impl MasterList {
    /// # Panics
    /// Without an address: a client of no cell can do nothing.
    pub(crate) fn new(addresses: Vec<Address>) -> Self {
        assert!(!addresses.is_empty(), "a client is told of one master at least");
        Self { addresses, current: 0 }
    }

    /// The one to ask.
    pub(crate) fn current(&self) -> &Address {
        &self.addresses[self.current]
    }

    /// The one asked last does not answer, or is not the primary master.
    pub(crate) fn next(&mut self) {
        self.current = (self.current + 1) % self.addresses.len();
    }
}
