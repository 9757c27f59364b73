//! Settings of the cell that a person changes while it runs: into the log, and then they hold.

use crate::applied::Applied;
use crate::outbox::ProposalId;
use crate::record;
use crate::step::Step;
use cairn_env::{Caller, LogEvent};
use cairn_protocol::{ChangeSettings, ChangeSettingsAnswer, Response};
use std::collections::BTreeMap;

/// Changes on their way into the log, and who asked for them.
#[derive(Debug, Default)]
pub(crate) struct SettingChanges {
    asked: BTreeMap<ProposalId, Caller>,
}

impl SettingChanges {
    /// A person wants settings to be otherwise.
    pub(crate) fn on_request(&mut self, step: &mut Step<'_>, from: Caller, wish: ChangeSettings) {
        let ChangeSettings { clone_rate, clones_per_server, clones_per_cell, .. } = wish;
        let ChangeSettings { settle_rate, settle_after_ms, cursors_kept_ms, .. } = wish;
        let change = record::SetCellSettings {
            time: step.now.wall,
            clone_rate,
            clones_per_server,
            clones_per_cell,
            settle_rate,
            settle_after_ms,
            cursors_kept_ms,
        };
        let proposal = step.out.propose(change);
        let other = self.asked.insert(proposal, from);
        assert!(other.is_none(), "a record changes settings for one person");
    }

    /// A record is applied.
    pub(crate) fn on_applied(
        &mut self,
        step: &mut Step<'_>,
        proposal: ProposalId,
        applied: &Applied,
    ) {
        let Some(from) = self.asked.remove(&proposal) else { return };
        if let Applied::Failed(failure) = applied {
            return step.out.reply(from, Err(failure.clone()));
        }
        let config = Box::new(step.state.config().clone());
        let event = LogEvent::info("settings changed")
            .with("clone_rate", config.clone_rate)
            .with("clones_per_server", config.clones_per_server)
            .with("clones_per_cell", config.clones_per_cell)
            .with("settle_rate", config.settle_rate)
            .with("settle_after_ms", config.settle_after_ms)
            .with("cursors_kept_ms", config.cursors_kept_ms);
        step.out.log(event);
        step.out.reply(from, Ok(Response::ChangeSettings(ChangeSettingsAnswer { config })));
    }
}
