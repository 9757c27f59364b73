//! The replicas that a read is asking: one, or another too because it is slow.

use crate::tasks::short_answer::AskedReplica;
use cairn_env::EffectId;

/// The calls to them.
#[derive(Debug)]
pub(crate) struct CallsUnderWay([Option<(EffectId, AskedReplica)>; 2]);

impl CallsUnderWay {
    pub(crate) fn of(call: EffectId, replica: AskedReplica) -> Self {
        Self([Some((call, replica)), None])
    }

    /// Another one is asked beside the one that is.
    pub(crate) fn add(&mut self, call: EffectId, replica: AskedReplica) {
        let free = self.0.iter_mut().find(|slot| slot.is_none());
        *free.expect("at most two are asked") = Some((call, replica));
    }

    /// The replica that this call asked; none where another one has answered in its place.
    pub(crate) fn take(&mut self, call: EffectId) -> Option<AskedReplica> {
        let slot = self.0.iter_mut().find(|slot| slot.is_some_and(|(id, _)| id == call))?;
        slot.take().map(|(_, replica)| replica)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.iter().all(Option::is_none)
    }

    /// The only replica that is being asked.
    pub(crate) fn alone(&self) -> Option<AskedReplica> {
        match self.0 {
            [Some((_, replica)), None] | [None, Some((_, replica))] => Some(replica),
            _ => None,
        }
    }
}
