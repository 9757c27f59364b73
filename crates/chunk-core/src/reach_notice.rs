//! Tells a person that the master does not reach this server at the address that it gives: its
//! heartbeats are answered, and all else that the cell wants of it comes to nothing.

use crate::outbox::Outbox;
use cairn_env::{Effect, LogEvent};
use cairn_types::Address;

/// Whether it was told of.
#[derive(Debug, Default)]
pub(crate) struct ReachNotice(bool);

impl ReachNotice {
    /// The master says why it does not reach this server, or that it does; neither where it has not
    /// asked yet, or is of a build that does not. Told when it changes.
    pub(crate) fn heed(
        &mut self,
        out: &mut Outbox,
        address: &Address,
        (why, reached): (&str, bool),
    ) {
        let is_unreached = !why.is_empty() || (self.0 && !reached);
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

#[cfg(test)]
mod tests {
    use super::ReachNotice;
    use crate::outbox::Outbox;
    use cairn_types::Address;

    #[test]
    fn it_is_told_once_and_the_end_of_it_when_the_master_has_reached_the_server() {
        let (mut notice, address) = (ReachNotice::default(), Address::new("s:1"));
        let mut told = |why, reached| {
            let mut out = Outbox::default();
            notice.heed(&mut out, &address, (why, reached));
            let mut effects = Vec::new();
            out.drain(&mut effects);
            effects.len()
        };
        assert_eq!([told("", false), told("", true)], [0, 0]);
        assert_eq!([told("refused", false), told("refused", false)], [1, 0]);
        assert_eq!(told("", false), 0, "another master, which has not asked yet");
        assert_eq!([told("", true), told("", true)], [1, 0]);
    }
}
