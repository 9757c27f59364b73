//! Exclusive openings of streams (TFS §2.5, R46): until when each counts.
//!
//! ```text
//!   opened ──(any word of its holder: renewed)──► open ──┬─ closed by its holder ──► over
//!                                                        └─ its lease is over: logged ─► over
//! ```
//! - EX1: who has a stream exclusively stands in the log. Until when that counts without a word of
//!   its holder is soft, and begins anew with each master: nobody is put out too early, and whoever
//!   was put out is refused by the log (OM4 of the state).
//! - EX2: that it is over is logged, as the end of any epoch, before anybody else may write.

use crate::outbox::ProposalId;
use crate::state::locked;
use crate::step::Step;
use crate::stream_records::CloseProducerRecord;
use crate::view::View;
use cairn_protocol::{ErrorCode, Failure, OpenProducer, OpenProducerAnswer};
use cairn_types::planted::{Rule, broken};
use cairn_types::{EntryId, Epoch, ProducerId, Time};
use std::collections::BTreeMap;

/// Those that somebody has asked for lately, or waits for.
#[derive(Debug, Default)]
pub(super) struct ExclusiveOpenings {
    until: BTreeMap<EntryId, (Epoch, Time)>,
    /// Ends that are on their way into the log.
    ending: BTreeMap<ProposalId, EntryId>,
}

impl ExclusiveOpenings {
    /// Which opening has a file exclusively, and until when that counts (EX1).
    pub(super) fn holder(&mut self, view: &View<'_>, file: EntryId) -> Option<(Epoch, Time)> {
        let (_, holder) = view.state.streams().exclusive(file).filter(|(_, it)| !it.closed)?;
        let fresh = (holder.epoch, view.now.time + view.term.config.lease());
        let known = self.until.entry(file).or_insert(fresh);
        if known.0 != holder.epoch {
            *known = fresh;
        }
        Some(*known)
    }

    /// A producer has spoken: where it has the stream exclusively, that counts for longer; where
    /// another has it, that other's time runs from now on at the latest.
    pub(super) fn heard(
        &mut self,
        view: &View<'_>,
        (file, producer, epoch): (EntryId, ProducerId, Epoch),
    ) {
        let exclusive = view.state.streams().exclusive(file).filter(|(_, it)| !it.closed);
        let Some((id, holder)) = exclusive else { return };
        let fresh = (holder.epoch, view.now.time + view.term.config.lease());
        if (id, holder.epoch) == (producer, epoch) {
            self.until.insert(file, fresh);
        } else {
            self.until.entry(file).or_insert(fresh);
        }
    }

    /// Its holder wants it for longer.
    pub(super) fn renew(
        &mut self,
        view: &View<'_>,
        open: &OpenProducer,
    ) -> Result<OpenProducerAnswer, Failure> {
        let exclusive = view.state.streams().exclusive(open.file);
        let open_one = exclusive.filter(|(_, it)| it.epoch == open.renews && !it.closed);
        let Some((producer, record)) = open_one else {
            let (file, epoch) = (open.file.short(), open.renews.short());
            let line = format!("file {file}: its exclusive opening {epoch} is over");
            return Err(Failure::refused(ErrorCode::ProducerFenced, line));
        };
        self.heard(view, (open.file, producer, record.epoch));
        Ok(OpenProducerAnswer {
            producer,
            epoch: record.epoch,
            number: record.number,
            lease_ms: view.term.config.lease_ms,
            ..OpenProducerAnswer::default()
        })
    }

    /// Which opening a new one takes over from: none, or one whose lease is over.
    pub(super) fn taken_over_from(
        &mut self,
        view: &View<'_>,
        file: EntryId,
    ) -> Result<Epoch, Failure> {
        let Some((epoch, until)) = self.holder(view, file) else { return Ok(Epoch::default()) };
        let now = view.now.time;
        if until <= now || broken(Rule::R46) {
            return Ok(epoch);
        }
        let Failure { message, .. } = locked(file, epoch);
        let left = until.since(now).as_millis();
        let line = format!("{message}; without a word of its holder for {left} ms more");
        Err(Failure::not_done(ErrorCode::StreamLocked, line))
    }

    pub(super) fn on_applied(&mut self, proposal: ProposalId) {
        self.ending.remove(&proposal);
    }

    /// Time has passed: those whose lease is over are ended (EX2).
    pub(super) fn on_tick(&mut self, step: &mut Step<'_>) {
        let (state, now) = (step.state, step.now);
        self.until.retain(|file, (epoch, _)| {
            let exclusive = state.streams().exclusive(*file);
            exclusive.is_some_and(|(_, it)| it.epoch == *epoch && !it.closed)
        });
        for (file, (epoch, until)) in &self.until {
            if *until > now.time || self.ending.values().any(|it| it == file) {
                continue;
            }
            let Some((producer, _)) = state.streams().exclusive(*file) else { continue };
            let (file, epoch, time) = (*file, *epoch, now.wall);
            let proposal = step.out.propose(CloseProducerRecord { time, file, producer, epoch });
            self.ending.insert(proposal, file);
        }
        assert!(self.ending.len() <= self.until.len(), "each is ended once (EX2)");
    }
}
