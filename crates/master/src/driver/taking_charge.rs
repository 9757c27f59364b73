//! The driver's part in taking charge of a term, and in being in charge no more.

use crate::driver::Master;
use crate::role::Role;
use cairn_env::{Caller, Effect, Event, Now};
use cairn_master_core::MasterEffect;
use cairn_protocol::Request;
use cairn_types::Term;

impl Master {
    /// Takes charge, or stops being in charge; whether anything has changed.
    pub(super) fn look_at_role(&mut self, now: Now, wishes: &mut Vec<MasterEffect>) -> bool {
        let leads = self.group.consensus().leads();
        match (&self.role, leads) {
            (Role::Primary(primary), Some((term, _))) if primary.term() == term => false,
            (Role::Primary(_), _) => {
                self.step_down(wishes);
                true
            }
            (Role::Shadow(state), Some((term, first))) if state.applied().next() >= first => {
                self.take_charge(now, term, wishes);
                true
            }
            (Role::Shadow(_), _) => false,
        }
    }

    fn take_charge(&mut self, now: Now, term: Term, wishes: &mut Vec<MasterEffect>) {
        let mut primary = self.reigns.primary(self.role.take_state(), term);
        let core = primary.core_mut();
        core.know_callers(self.group.callers().clone());
        core.set_log_space(self.room.space(self.group.has_company()));
        core.set_warning(self.warning.clone());
        core.begin(now, (self.group.hello().cell, self.config.cluster.clone()), wishes);
        self.role = Role::Primary(primary.into());
        wishes.extend(self.group.role_event("in charge").map(MasterEffect::Env));
    }

    fn step_down(&mut self, wishes: &mut Vec<MasterEffect>) {
        let refusal = self.group.not_in_charge();
        // What its core wished last and nobody did is of a term that is over.
        wishes.retain(|wish| matches!(wish, MasterEffect::Env(_)));
        // What it answered in this very turn is an answer, and the only one.
        for wish in &*wishes {
            if let MasterEffect::Env(Effect::Reply { to, .. }) = wish {
                self.role.primary().answered(*to);
            }
        }
        self.reigns.end(self.role.step_down(&refusal, wishes));
        wishes.extend(self.group.role_event("not in charge any more").map(MasterEffect::Env));
    }

    /// R23 broken: who is elected answers look-ups at once, by what it happens to have applied.
    /// False where it is not elected.
    pub(super) fn answer_unapplied(
        &mut self,
        now: Now,
        (from, request): (Caller, Request),
        wishes: &mut Vec<MasterEffect>,
    ) -> bool {
        let Some((term, _)) = self.group.consensus().leads() else { return false };
        let mut early = self.reigns.primary(self.role.state().clone(), term);
        early.core_mut().know_callers(self.group.callers().clone());
        let mut said = Vec::new();
        early.step(now, Event::Request { from, request }, &mut said);
        let is_answer = |it: &MasterEffect| matches!(it, MasterEffect::Env(Effect::Reply { .. }));
        wishes.extend(said.into_iter().filter(is_answer));
        true
    }
}
