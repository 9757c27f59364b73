//! The terms that this process is in charge of: what the core of each begins with.
//!
//! - RG1: a core's effects are numbered on from those of the one before, whose answers may still
//!   come.

use crate::primary::Primary;
use cairn_env::EffectId;
use cairn_master_core::{MasterCore, State};
use cairn_types::{Random, Term};

/// What is handed on from one term in charge to the next.
#[derive(Debug)]
pub(crate) struct Reigns {
    /// Feeds the cores.
    random: Random,
    /// The first of the terms begins a history (R3).
    begins_history: bool,
    /// The last effect that a core of this process numbered (RG1).
    last_effect: EffectId,
    /// Somebody looks for changes of state.
    tells_debug: bool,
}

impl Reigns {
    pub(crate) fn new(seed: u64) -> Self {
        let random = Random::new(seed);
        let last_effect = EffectId::default();
        Self { random, begins_history: false, last_effect, tells_debug: false }
    }

    /// Changes of state are told in the terms to come.
    pub(crate) fn tell_debug(&mut self) {
        self.tells_debug = true;
    }

    /// The first term begins a history: a person says so (R3).
    pub(crate) fn begin_history(&mut self) {
        self.begins_history = true;
    }

    /// In charge of a term, over what is applied.
    pub(crate) fn primary(&mut self, state: State, term: Term) -> Primary {
        let mut core = MasterCore::new(state, term, self.random.next_u64());
        if std::mem::take(&mut self.begins_history) {
            core.begin_history();
        }
        if self.tells_debug {
            core.tell_debug();
        }
        Primary::new(core, self.last_effect)
    }

    /// A term is over, in which the core numbered effects up to this one.
    pub(crate) fn end(&mut self, last_effect: EffectId) {
        self.last_effect = last_effect;
    }
}
