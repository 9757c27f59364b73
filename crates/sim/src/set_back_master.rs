//! A master that runs with an old copy of its directory for a while, and what may not come of it.
//!
//! - SM1: what it does is in no history: nothing is compared with it, and what is known of its own
//!   directory is kept until that is back.
//! - SM2: it takes no chunkserver in that has served a later term than the copy knows, so it orders
//!   nothing: neither that a replica goes, nor anything else (R1, R3).

use crate::checkers::replay_is_state::ReplayIsState;
use cairn_env_sim::{NodeId, SeenRequest, WorldTime};
use cairn_protocol::{Failure, Request, Response};
use cairn_types::Term;
use std::collections::BTreeMap;

/// The master, and who knows better.
#[derive(Default)]
pub(crate) struct SetBackMaster {
    /// Which it is, and what is known of its own directory.
    master: Option<(NodeId, Option<ReplayIsState>)>,
    /// The term of the master that took each server in last, as it says, and since when it has.
    served: BTreeMap<NodeId, (Term, WorldTime)>,
}

impl SetBackMaster {
    /// As reports name what is judged here.
    pub(crate) const NAME: &'static str = "set_back_master";

    /// A server told whom it has served.
    pub(crate) fn note_served(&mut self, server: NodeId, (term, at): (Term, WorldTime)) {
        if self.served.get(&server).is_none_or(|(known, _)| *known != term) {
            self.served.insert(server, (term, at));
        }
    }

    /// What a server tells of that, and since when.
    pub(crate) fn served(&self, server: NodeId) -> Option<(Term, WorldTime)> {
        self.served.get(&server).copied()
    }

    /// What a server has told is not on its disk any more.
    pub(crate) fn forget(&mut self, server: NodeId) {
        self.served.remove(&server);
    }

    /// SM1
    pub(crate) fn begin(&mut self, master: NodeId, own: Option<ReplayIsState>) {
        assert!(self.master.is_none(), "one at a time");
        self.master = Some((master, own));
    }

    /// It has its own directory again.
    pub(crate) fn end(&mut self, master: NodeId) -> Option<ReplayIsState> {
        let (node, own) = self.master.take().expect("it was set back");
        assert_eq!(node, master, "one at a time");
        own
    }

    pub(crate) fn is(&self, node: NodeId) -> bool {
        self.master.as_ref().is_some_and(|(master, _)| *master == node)
    }

    /// SM2; what was reached, if anything.
    pub(crate) fn judge(
        &self,
        seen: &SeenRequest<'_>,
        answer: &Result<Response, Failure>,
    ) -> Result<Option<&'static str>, String> {
        if !self.is(seen.to) {
            return Ok(None);
        }
        let takes_in = match answer {
            Ok(Response::Join(_) | Response::Inventory(_)) => true,
            Ok(Response::Heartbeat(beat)) => !beat.rejoin,
            _ => false,
        };
        if takes_in {
            return Err(format!(
                "a master that was started from an old copy of its directory takes in {:?}, which \
                 has served a later term",
                seen.from
            ));
        }
        let asks = matches!(seen.request, Request::Join(_) | Request::Heartbeat(_));
        Ok(asks.then_some("server refused by a master that was set back"))
    }
}
