//! What a person has told the cell to do with its servers: empty some of them, or make all equally
//! full. It goes on after a restart of the master.
//!
//! - DU1: only a server that the log knows is drained.

use crate::applied::{Applied, Changed};
use crate::record::{SetBalance, SetDrain};
use cairn_protocol::{ErrorCode, Failure};
use cairn_types::{ServerId, WallTime};
use std::collections::BTreeMap;
use std::sync::Arc;

cairn_types::message! {
    /// A server that is to be emptied, and since when.
    #[derive(Copy)]
    pub struct DrainOrder { 1 => server: ServerId, 2 => began: WallTime }
}
cairn_types::message! {
    /// All servers are to be equally full, but for so many thousandths; and since when.
    #[derive(Copy)]
    pub struct BalanceOrder { 1 => threshold_permille: u32, 2 => began: WallTime }
}

/// All of it; clones share it until one of them changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Duties {
    drains: Arc<BTreeMap<ServerId, DrainOrder>>,
    balance: Option<BalanceOrder>,
}

impl Duties {
    /// From what an image has.
    pub(super) fn of(drains: Vec<DrainOrder>, balance: Option<BalanceOrder>) -> Self {
        let drains = drains.into_iter().map(|drain| (drain.server, drain));
        Self { drains: Arc::new(drains.collect()), balance }
    }

    /// The servers that are to be emptied, by id.
    pub(crate) fn drains(&self) -> impl ExactSizeIterator<Item = &DrainOrder> {
        self.drains.values()
    }

    /// Whether a server is to be emptied: what it holds counts for no goal.
    pub(crate) fn is_draining(&self, server: ServerId) -> bool {
        self.drains.contains_key(&server)
    }

    /// Whether chunks are moved until all servers are equally full.
    pub(crate) fn balance(&self) -> Option<BalanceOrder> {
        self.balance
    }

    /// `known`: the log knows the server (DU1).
    pub(super) fn set_drain(&mut self, record: &SetDrain, known: bool) -> Result<Applied, Failure> {
        let SetDrain { time: began, server, drains } = *record;
        if drains && !known {
            let line = format!("server {server}: no such chunkserver");
            return Err(Failure::refused(ErrorCode::NotFound, line));
        }
        match (drains, self.drains.contains_key(&server)) {
            (true, false) => {
                Arc::make_mut(&mut self.drains).insert(server, DrainOrder { server, began });
            }
            (false, true) => self.forget(server),
            // It is so already.
            (true, true) | (false, false) => {}
        }
        assert!(!drains || self.drains.contains_key(&server), "it is drained from now on");
        Ok(Applied::Changed(Changed::default()))
    }

    pub(super) fn set_balance(&mut self, record: &SetBalance) -> Applied {
        let SetBalance { time, balances, threshold_permille } = *record;
        let began = self.balance.map_or(time, |balance| balance.began);
        self.balance = balances.then_some(BalanceOrder { threshold_permille, began });
        Applied::Changed(Changed::default())
    }

    /// The server will not come back.
    pub(super) fn forget(&mut self, server: ServerId) {
        if self.drains.contains_key(&server) {
            Arc::make_mut(&mut self.drains).remove(&server);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Duties;
    use crate::record::{SetBalance, SetDrain};
    use cairn_types::{ServerId, WallTime};

    #[test]
    fn what_is_said_twice_is_done_once_and_goes_on_since_the_first_time() {
        let mut duties = Duties::default();
        let server = ServerId::new(3);
        let at = |millis| WallTime::from_millis(millis);
        let drain = |time, drains| SetDrain { time: at(time), server, drains };
        assert!(duties.set_drain(&drain(5, true), false).is_err(), "nobody knows it (DU1)");
        for time in [5, 9] {
            assert!(duties.set_drain(&drain(time, true), true).is_ok());
            assert_eq!(duties.drains().map(|drain| drain.began).collect::<Vec<_>>(), [at(5)]);
        }
        assert!(duties.set_drain(&drain(9, false), true).is_ok());
        assert_eq!((duties.drains().len(), duties.is_draining(server)), (0, false));
        let balance = |time, balances, threshold_permille| SetBalance {
            time: at(time),
            balances,
            threshold_permille,
        };
        duties.set_balance(&balance(5, true, 100));
        duties.set_balance(&balance(9, true, 50));
        let order = duties.balance().expect("it balances");
        assert_eq!((order.threshold_permille, order.began), (50, at(5)));
        duties.set_balance(&balance(9, false, 0));
        assert_eq!(duties.balance(), None);
    }
}
