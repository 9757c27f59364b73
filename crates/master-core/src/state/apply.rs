//! Applying a record: the one way in which durable state changes (S1).

use super::apply_chunks::{ChunkChanges, handle_taken};
use super::apply_policy::PolicyChanges;
use super::apply_purge::Purges;
use super::apply_settings::change_settings;
use super::{KeptAbove, Remembered, State};
use crate::applied::{Applied, Changed};
use crate::record::{Begin, FoundCell, Record};
use cairn_protocol::{ErrorCode, Failure};
use cairn_types::planted::{Rule, broken};
use cairn_types::{LogIndex, Term};
use std::time::Duration;

/// Log time ends where a checkpoint can no longer say it, which no honest clock comes near to.
pub(super) const LOG_TIME_MAX: Duration = Duration::from_millis(u64::MAX);

/// Answered where the record of a mutation may have come a second time: its outcome, if there was
/// one, is gone.
fn too_old() -> Failure {
    let line = "this mutation is older than what the master remembers; it may have been done";
    Failure::unknown(ErrorCode::TooOld, line)
}

impl State {
    /// Applies the record at `index`, proposed in `term`, and says what came of it.
    ///
    /// Total: a record whose preconditions no longer hold changes nothing but the remembered
    /// outcome (R23).
    pub fn apply(&mut self, index: LogIndex, term: Term, record: &Record) -> Applied {
        self.skip_to(index, term);
        self.pass_time(record);
        self.outcomes.forget(self.log_time, Duration::from_millis(self.config.retry_window_ms));
        let mutation = record.mutation().filter(|_| !broken(Rule::R24));
        if let Some(mutation) = mutation {
            match self.outcomes.get(mutation) {
                Remembered::New => {}
                Remembered::Done(outcome) => return outcome,
                Remembered::TooOld => return Applied::Failed(too_old()),
            }
        }
        let outcome = self.change(record).unwrap_or_else(Applied::Failed);
        if let Some(mutation) = mutation {
            self.outcomes.keep(self.log_time, mutation, outcome.clone());
        }
        outcome
    }

    /// Passes an entry of the log that holds no record (the consensus library's own).
    pub fn skip_to(&mut self, index: LogIndex, term: Term) {
        assert!(index > self.applied, "the log is applied in order");
        self.applied = index;
        self.applied_term = term;
    }

    /// Log time goes by between the records of one term (S2).
    fn pass_time(&mut self, record: &Record) {
        let time = record.time();
        if matches!(record, Record::Begin(_) | Record::FoundCell(_)) {
            self.last_record = time;
            return;
        }
        self.log_time = self.log_time_at(time);
        self.last_record = self.last_record.max(time);
    }

    fn change(&mut self, record: &Record) -> Result<Applied, Failure> {
        match record {
            Record::Begin(record) => Ok(self.begin(record)),
            Record::FoundCell(record) => self.found_cell(record),
            Record::AddDirectories(record) => self.names.add_directories(record),
            Record::AddFile(record) => self.names.add_file(record),
            Record::MoveEntry(record) => self.names.move_entry(record, self.log_time),
            Record::HideEntry(record) => self.names.hide_entry(record, self.log_time),
            Record::OpenChunk(record) => {
                purges(self).raise_floor(record.floor);
                // What was let go of is garbage somewhere.
                if self.is_purged(record.handle) && !broken(Rule::R1) {
                    return Err(handle_taken(record.handle));
                }
                chunk_changes(self).open_chunk(record)
            }
            Record::CloseChunk(record) => chunk_changes(self).close_chunk(record),
            Record::SetVersion(record) => {
                let set = chunk_changes(self).set_version(record)?;
                if let Some(serial) = record.keeps_above {
                    let decision = KeptAbove { serial, decided: record.version };
                    self.purged.keep_above(record.handle, decision);
                }
                Ok(set)
            }
            Record::SetLength(record) => chunk_changes(self).set_length(record),
            Record::Refuse(record) => Err(record.failure.clone()),
            Record::KnowServer(record) => self.servers.know_server(record),
            Record::ForgetServer(record) => self.servers.forget_server(record),
            Record::SetDrain(record) => self.servers.set_drain(record),
            Record::SetBalance(record) => Ok(self.servers.set_balance(record)),
            Record::Expedite(record) => purges(self).expedite(record),
            Record::Purge(record) => purges(self).purge(record),
            Record::LetGo(record) => purges(self).let_go(record),
            Record::ChangePolicy(record) => policy_changes(self).change_policy(record),
            Record::ApplyPolicy(record) => policy_changes(self).apply_policy(record),
            Record::EndPolicyJob(record) => policy_changes(self).end_job(record),
            Record::SetCellSettings(record) => change_settings(&mut self.config, record),
        }
    }

    fn begin(&mut self, record: &Begin) -> Applied {
        self.term = record.term;
        self.term_began = record.time;
        let reign = (record.term, record.reign);
        self.history.begin(reign, record.new_history, self.applied);
        Applied::Changed(Changed::default())
    }

    fn found_cell(&mut self, record: &FoundCell) -> Result<Applied, Failure> {
        if !self.cell.is_none() {
            let line = format!("cell {} is founded already", self.cell);
            return Err(Failure::refused(ErrorCode::AlreadyExists, line));
        }
        self.cell = record.cell;
        self.config = record.config.clone().completed();
        Ok(Applied::Changed(Changed::default()))
    }
}

fn policy_changes(state: &mut State) -> PolicyChanges<'_> {
    let (names, chunks) = (&mut state.names, &mut state.chunks);
    PolicyChanges { names, chunks, policies: &mut state.policies, config: &state.config }
}

fn purges(state: &mut State) -> Purges<'_> {
    Purges {
        names: &mut state.names,
        chunks: &mut state.chunks,
        policies: &mut state.policies,
        purged: &mut state.purged,
        history: &mut state.history,
        log_time: state.log_time,
    }
}

fn chunk_changes(state: &mut State) -> ChunkChanges<'_> {
    let chunk_size = state.config.chunk_size;
    ChunkChanges { names: &mut state.names, chunks: &mut state.chunks, chunk_size }
}
