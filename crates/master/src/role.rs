//! What this member is to its group: in charge of a term, with a core, or a shadow, with the state
//! alone.

use crate::primary::Primary;
use cairn_consensus::CommittedRecord;
use cairn_env::{EffectId, Now};
use cairn_master_core::{MasterCore, MasterEffect, Record, State};
use cairn_pagetree::{Backing, FileId};
use cairn_protocol::Failure;
use cairn_types::wire::Message;
use cairn_types::{EntryId, LogIndex};
use std::sync::Arc;

/// A committed record that this build cannot read.
#[derive(Debug, thiserror::Error)]
#[error("record {0} does not decode; was it written by a newer build?")]
pub(crate) struct Undecodable(LogIndex);

/// In charge or not.
#[derive(Debug)]
pub(crate) enum Role {
    /// It applies what is committed.
    Shadow(Box<State>),
    /// It decides.
    Primary(Box<Primary>),
}

impl Role {
    /// The durable state as applied.
    pub(crate) fn state(&self) -> &State {
        match self {
            Self::Shadow(state) => state,
            Self::Primary(primary) => primary.core().state(),
        }
    }

    /// See [`MasterCore::adopt`].
    pub(crate) fn adopt(&mut self, backing: &Arc<dyn Backing>, file: FileId) -> Option<State> {
        match self {
            Self::Shadow(state) => state.adopt_image(backing, file),
            Self::Primary(primary) => primary.core_mut().adopt(backing, file),
        }
    }

    /// Tells the core, where there is one.
    pub(crate) fn with_core(&mut self, tell: impl FnOnce(&mut MasterCore)) {
        if let Self::Primary(primary) = self {
            tell(primary.core_mut());
        }
    }

    /// The primary that it is.
    pub(crate) fn primary(&mut self) -> &mut Primary {
        match self {
            Self::Primary(primary) => primary,
            Self::Shadow(_) => unreachable!("only who is in charge wishes anything"),
        }
    }

    /// The state of a shadow that is about to take charge.
    pub(crate) fn take_state(&mut self) -> State {
        match self {
            Self::Shadow(state) => std::mem::take(state),
            Self::Primary(_) => unreachable!("a shadow takes charge"),
        }
    }

    /// Another state takes the place of a shadow's, which is given.
    pub(crate) fn replace_state(&mut self, state: State) -> State {
        match self {
            Self::Shadow(own) => std::mem::replace(own, state),
            Self::Primary(_) => unreachable!("who is in charge lacks no record"),
        }
    }

    /// It is in charge no more: whoever waits is answered with `refusal`. Gives the last effect
    /// that the core numbered.
    pub(crate) fn step_down(
        &mut self,
        refusal: &Failure,
        answers: &mut Vec<MasterEffect>,
    ) -> EffectId {
        let shadow = Self::Shadow(Box::default());
        let Self::Primary(primary) = std::mem::replace(self, shadow) else {
            unreachable!("who is in charge steps down")
        };
        let (state, last, owed) = primary.end(refusal);
        answers.extend(owed);
        *self = Self::Shadow(state.into());
        last
    }

    /// Applies a committed record; of a shadow, which stream is longer by it.
    ///
    /// # Errors
    /// [`Undecodable`]: a build that is older than the one in charge cannot go on.
    pub(crate) fn apply(
        &mut self,
        now: Now,
        committed: &CommittedRecord,
        wishes: &mut Vec<MasterEffect>,
    ) -> Result<Option<EntryId>, Undecodable> {
        let (index, term) = (committed.index, committed.term);
        match self {
            Self::Primary(primary) => primary.apply(now, committed, wishes),
            Self::Shadow(state) if committed.data.is_empty() => state.skip_to(index, term),
            Self::Shadow(state) => {
                let record = Record::decode(&committed.data).map_err(|_| Undecodable(index))?;
                // What comes of it is for whoever proposed it.
                let _ = state.apply(index, term, &record);
                if let Record::CommitBundles(commit) = record {
                    return Ok(Some(commit.file));
                }
            }
        }
        Ok(None)
    }
}
