//! D4: a page of the state turned out to be damaged: the checkpoint is marked, and the process
//! stops.

use cairn_env::{Completion, Effect, EffectId, Event};
use cairn_master_core::{LogJob, LogResult};
use cairn_pagetree::Damaged;

/// The mark on its way, if there is damage.
#[derive(Debug, Default)]
pub(crate) struct DamageMark {
    marking: Option<(EffectId, Damaged)>,
}

impl DamageMark {
    /// Nothing is done any more but to mark the checkpoint.
    pub(crate) fn is_set(&self) -> bool {
        self.marking.is_some()
    }

    /// The page file of the state is being marked, by this effect.
    pub(crate) fn set(&mut self, id: EffectId, damaged: Damaged) {
        self.marking = Some((id, damaged));
    }

    /// The end of the process, once the checkpoint is marked.
    pub(crate) fn on_marked(&self, event: &Event<(), LogResult>) -> Option<Effect<LogJob>> {
        let (marking, damaged) = self.marking?;
        let Event::Completed { id, result: Completion::Disk(result) } = event else { return None };
        if *id != marking {
            return None;
        }
        let next = match result {
            Ok(_) => "it will not be read again; start the master again, and it takes one before"
                .to_owned(),
            Err(error) => format!("it could not be set aside: {error}"),
        };
        Some(Effect::Halt(format!("the checkpoint in use is damaged: {damaged}; {next}")))
    }
}
