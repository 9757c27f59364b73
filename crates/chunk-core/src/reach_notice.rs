//! Tells a person that the master does not reach this server at the address that it gives: its
//! heartbeats are answered, and all else that the cell wants of it comes to nothing.

use crate::outbox::Outbox;
use cairn_env::{Effect, LogEvent};
use cairn_types::Address;

/// Whether it was told of.
#[derive(Debug, Default)]
pub(crate) struct ReachNotice(bool);

impl ReachNotice {
    /// The master says why it does not reach this server; empty: it does. Told when it changes.
    pub(crate) fn heed(&mut self, out: &mut Outbox, address: &Address, why: &str) {
        let is_unreached = !why.is_empty();
        if std::mem::replace(&mut self.0, is_unreached) == is_unreached {
            return;
        }
        let event = match is_unreached {
            true => LogEvent::warn("the master does not reach this server")
                .with("address", address)
                .with("why", why)
                .with("hint", "--advertise HOST:PORT says where others reach it"),
            false => LogEvent::info("the master reaches this server").with("address", address),
        };
        out.push(Effect::Log(event));
    }
}
