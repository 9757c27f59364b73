//! One member of the group of masters: the real consensus code, pure.
//!
//! ```text
//!   start ──► (election) ──► primary of a term
//!   propose ─► unsynced ─take─► batch ─(disk)─► durable ─► committed
//!                  └─► messages ─► the others' disks ─► their answers ──┘
//! ```
//! - Q1: a member that is alone begins a new term with every start. Such a term is used once its
//!   first record is durable: of one of which nothing is durable nobody has heard, and it may be
//!   begun again. In a group of several, term and vote are durable before anybody hears (V1).
//! - Q2: a record is handed out as committed when a majority has it on disk, this member among
//!   them.
//! - Q3: committed records come out in the order of their indices, each once.
//! - Q4: who is primary says so of a term that is its own alone; it learns that it is none any more
//!   by a later term, or when no majority has answered for `ELECTION_TICKS`.

use crate::beginning::Beginning;
use crate::checkpoint_offers::{CheckpointOffer, CheckpointOffers};
use crate::consensus_error::ConsensusError;
use crate::election_clock::ElectionClock;
use crate::entries::{change_of, data_of, to_library_change};
use crate::held_messages::HeldMessages;
use crate::leadership::Leadership;
use crate::library_config::library_config;
use crate::marks::Marks;
use crate::member_log::{LogPlace, MemberLog, conf_state, to_stored};
use crate::membership::Membership;
use crate::messages::{from_library, is_ask_for_vote, round_context, round_of, to_library, within};
use crate::output::{CommittedRecord, LogBatch};
use crate::ticks::roughly;
use bytes::Bytes;
use cairn_protocol::{ConsensusKind, ConsensusMessage, OfferedCheckpoint};
use cairn_types::wire::Message as _;
use cairn_types::{LogIndex, Members, MembersChange, ServerId, Term, Time};
use raft::prelude::{Entry, RawNode, SnapshotStatus};
use raft::{Ready, StateRole};

/// Bytes of applied records that are kept in memory for members that lag.
const KEPT_FOR_OTHERS: u64 = 64 << 20;

/// The member, and through it the group.
pub struct Consensus {
    node: RawNode<MemberLog>,
    me: ServerId,
    membership: Membership,
    now: Time,
    /// Taken from the library, not yet by the disk.
    unsynced: Vec<(LogIndex, Bytes)>,
    /// A batch is with the disk.
    syncing: bool,
    /// The library's number for the latest that it has handed out.
    number: u64,
    committed: Vec<CommittedRecord>,
    held: HeldMessages,
    marks: Marks,
    /// The term that it is primary of, and the first record of it.
    leads: Option<(Term, LogIndex)>,
    /// A round of heartbeats has begun in this term.
    asked: bool,
    leadership: Leadership,
    clock: ElectionClock,
    offers: CheckpointOffers,
    /// A checkpoint that is taken over, until that is durable.
    taken_over: Option<u64>,
}

impl std::fmt::Debug for Consensus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut fields = f.debug_struct("Consensus");
        fields.field("me", &self.me).field("term", &self.term()).finish_non_exhaustive()
    }
}

impl Consensus {
    /// Starts the member where its log and state stand. One that is alone wins the election to a
    /// new term at once (Q1).
    ///
    /// # Errors
    /// [`ConsensusError`] when the library refuses.
    ///
    /// # Panics
    /// Where what it starts from does not fit together.
    pub fn start(from: Beginning) -> Result<Self, ConsensusError> {
        let members = match &from.mark {
            Some(mark) => mark.members.clone(),
            None => Members::alone(from.me),
        };
        let storage = from.log(&members);
        let config = library_config(from.me, from.applied.0);
        let quiet = slog::Logger::root(slog::Discard, slog::o!());
        let node = RawNode::new(&config, storage, &quiet)?;
        let mut member = Self {
            node,
            me: from.me,
            membership: Membership::new(from.me, members),
            now: Time::default(),
            unsynced: Vec::new(),
            syncing: false,
            number: 0,
            committed: Vec::new(),
            held: HeldMessages::default(),
            marks: Marks::new(from.votes()),
            leads: None,
            asked: false,
            leadership: Leadership::default(),
            clock: ElectionClock::new(from.seed),
            offers: CheckpointOffers::default(),
            taken_over: None,
        };
        let alone = member.membership.is_alone();
        if alone {
            member.node.campaign()?;
        }
        member.pump()?;
        if alone && member.leads.is_none() {
            return Err(ConsensusError::NotPrimary);
        }
        Ok(member)
    }

    /// The latest term that it has heard of.
    #[must_use]
    pub fn term(&self) -> Term {
        Term::new(self.node.raft.term)
    }

    /// The term that it is primary of, and that term's first record, which is the library's own;
    /// none once it has handed over.
    #[must_use]
    pub fn leads(&self) -> Option<(Term, LogIndex)> {
        self.leads.filter(|_| !self.leadership.is_handed_over())
    }

    /// Who is primary, as far as this member knows.
    #[must_use]
    pub fn primary(&self) -> Option<ServerId> {
        Some(ServerId::new(self.node.raft.leader_id)).filter(|id| *id != ServerId::default())
    }

    /// Who belongs to the group.
    #[must_use]
    pub fn members(&self) -> &Members {
        self.membership.members()
    }

    /// Whether nobody else belongs to it.
    #[must_use]
    pub fn is_alone(&self) -> bool {
        self.membership.is_alone()
    }

    /// Whether nobody else ever did.
    #[must_use]
    pub fn was_always_alone(&self) -> bool {
        !self.marks.are_written()
    }

    /// Whether it is primary and no other member can have been elected yet, where clocks drift no
    /// more than this (R4, R21, R23).
    #[must_use]
    pub fn is_confirmed(&self, now: Time, drift_permille: u64) -> bool {
        let is_confirmed = || self.leadership.is_confirmed(now, drift_permille);
        self.leads.is_some() && (self.is_alone() || is_confirmed())
    }

    /// How far each member's log is known to agree, at a primary.
    #[must_use]
    pub fn matched(&self, id: ServerId) -> LogIndex {
        let progress = self.node.raft.prs().get(id.get());
        LogIndex::new(progress.map_or(0, |progress| progress.matched))
    }

    /// Puts a record at the end of the log and tells where it will stand.
    ///
    /// # Errors
    /// [`ConsensusError`] when this member cannot.
    pub fn propose(&mut self, record: Vec<u8>) -> Result<LogIndex, ConsensusError> {
        if self.leads().is_none() {
            return Err(ConsensusError::NotPrimary);
        }
        self.node.propose(Vec::new(), record)?;
        Ok(LogIndex::new(self.node.raft.raft_log.last_index()))
    }

    /// Puts a step to another group at the end of the log and tells where it stands; it holds, or
    /// its first part does, once that record is committed.
    ///
    /// # Errors
    /// [`ConsensusError`] when this member cannot; [`ConsensusError::Changing`] while another step
    /// is under way.
    pub fn change_members(&mut self, change: &MembersChange) -> Result<LogIndex, ConsensusError> {
        if self.leads().is_none() {
            return Err(ConsensusError::NotPrimary);
        }
        assert!(!change.changes.is_empty(), "the end of a step comes by itself");
        if self.is_changing() {
            return Err(ConsensusError::Changing);
        } else if change.changes.iter().any(|it| it.goes && it.member.id == self.me) {
            return Err(ConsensusError::Malformed("a primary that takes itself out"));
        }
        self.node.propose_conf_change(change.to_bytes(), to_library_change(change))?;
        Ok(LogIndex::new(self.node.raft.raft_log.last_index()))
    }

    /// The last record that is committed, as far as this member knows.
    #[must_use]
    pub fn committed_index(&self) -> LogIndex {
        LogIndex::new(self.node.raft.raft_log.committed)
    }

    /// Whether the members are about to change, at a primary, or its disk does not remember yet
    /// that they have (MS3).
    #[must_use]
    pub fn is_changing(&self) -> bool {
        let is_under_way = self.node.raft.has_pending_conf() || self.members().joint;
        is_under_way || !self.membership.is_durable()
    }

    /// Whether the disk remembers the members that hold: before that, no checkpoint may stand for
    /// the record that made them so.
    #[must_use]
    pub fn remembers_members(&self) -> bool {
        self.membership.is_durable()
    }

    /// Whether somebody may lack records for which no checkpoint stands yet.
    #[must_use]
    pub fn lacks_checkpoint(&self) -> bool {
        let log = self.node.store();
        !self.is_alone() && log.offered().index < log.base().index
    }

    /// When a member was last heard; itself: now.
    #[must_use]
    pub fn heard(&self, id: ServerId) -> Option<Time> {
        if id == self.me { Some(self.now) } else { self.membership.heard(id) }
    }

    /// Time has passed: called every [`TICK`](crate::TICK). One that is alone needs none.
    ///
    /// # Errors
    /// [`ConsensusError`] when the library refuses.
    pub fn tick(&mut self, now: Time) -> Result<(), ConsensusError> {
        self.now = now;
        self.clock.tick();
        // Whose disk is behind stands for no election: the library takes for granted that what it
        // has is durable then.
        let is_behind = self.syncing || !self.unsynced.is_empty() || self.marks.is_due();
        if self.leads.is_some() || !is_behind {
            self.node.tick();
        }
        self.pump()?;
        if self.leads.is_some() && self.leadership.is_handed_over() {
            // Where nobody has taken over in time anybody may, this one too.
            if self.node.raft.lead_transferee.is_none() {
                let term = self.node.raft.term;
                self.node.raft.become_follower(term, raft::INVALID_ID);
            }
            self.pump()?;
        } else if self.leads.is_some() && self.leadership.is_unanswered() {
            let term = self.node.raft.term;
            self.node.raft.become_follower(term, raft::INVALID_ID);
            self.pump()?;
        } else if self.leads.is_some() {
            self.ask_whether_still_primary();
            for id in self.offers.lost(self.node.raft.prs()) {
                self.node.report_snapshot(id.get(), SnapshotStatus::Failure);
            }
            self.pump()?;
        }
        Ok(())
    }

    /// The state as of this record is a checkpoint on disk: whoever lacks records that are no more
    /// in the log is offered it.
    pub fn has_checkpoint(&mut self, index: LogIndex, term: Term) {
        self.node.mut_store().offer(LogPlace { index: index.get(), term: term.get() });
    }

    /// A checkpoint that this member is offered, and by whom; the last one, once.
    pub fn take_offer(&mut self) -> Option<CheckpointOffer> {
        self.offers.take()
    }

    /// The state is that of this checkpoint, which was offered and is durable here: the log goes on
    /// behind it. False where the log knows all that it stands for by now, or the member is primary
    /// of a later term: then nothing is taken over.
    ///
    /// # Errors
    /// [`ConsensusError`] when the library refuses.
    pub fn take_over(&mut self, now: Time, offer: CheckpointOffer) -> Result<bool, ConsensusError> {
        self.now = now;
        let CheckpointOffer { from, checkpoint } = offer;
        if self.leads.is_some() || self.has(&checkpoint) {
            return Ok(false);
        }
        let members = checkpoint.members.clone();
        // It is of committed records, whoever is primary by now.
        let message = ConsensusMessage {
            kind: ConsensusKind::OfferCheckpoint,
            from,
            to: self.me,
            term: self.term(),
            checkpoint: Some(checkpoint),
            ..ConsensusMessage::default()
        };
        self.node.step(to_library(message)?)?;
        let is_taken = self.node.snap().is_some();
        if is_taken && members.as_of >= self.members().as_of {
            self.membership.adopt(members);
        }
        self.pump()?;
        Ok(is_taken)
    }

    /// Whether records up to this one are here, or stood for by a checkpoint.
    fn has(&self, offered: &OfferedCheckpoint) -> bool {
        let log = &self.node.raft.raft_log;
        offered.index.get() <= log.committed
            || log.match_term(offered.index.get(), offered.term.get())
    }

    /// Another round of heartbeats (Q4, R21).
    fn ask_whether_still_primary(&mut self) {
        if self.node.raft.commit_to_current_term() {
            self.asked = true;
            let round = self.leadership.begin(self.now);
            self.node.read_index(round_context(round));
        } else {
            self.node.ping();
        }
    }

    /// Takes a message of another member.
    ///
    /// # Errors
    /// [`ConsensusError`] when it is none, or the library refuses.
    pub fn receive(&mut self, now: Time, message: ConsensusMessage) -> Result<(), ConsensusError> {
        self.now = now;
        if message.to != self.me {
            return Err(ConsensusError::Malformed("a message for another member"));
        }
        let message = within(message, LogIndex::new(self.node.raft.raft_log.last_index()));
        self.membership.hear(message.from, now);
        if is_ask_for_vote(message.kind) && self.clock.is_deaf() {
            return Ok(());
        }
        let message = match message.checkpoint.as_ref().filter(|it| !self.has(it)) {
            Some(_) => self.note_offer(message)?,
            None => message,
        };
        match self.node.step(to_library(message)?) {
            // Who is no member any more answered.
            Ok(()) | Err(raft::Error::StepPeerNotFound) => {}
            Err(error) => return Err(error.into()),
        }
        self.pump()
    }

    /// A checkpoint is offered that is to be fetched first: its sender is heard, and no more yet.
    fn note_offer(
        &mut self,
        message: ConsensusMessage,
    ) -> Result<ConsensusMessage, ConsensusError> {
        let ConsensusMessage { from, to, term, checkpoint, .. } = message;
        let checkpoint = checkpoint.expect("looked at just now");
        if checkpoint.members.get(self.me).is_none() {
            return Err(ConsensusError::Malformed("a checkpoint of a group of others"));
        }
        if term >= self.term() {
            self.offers.note(CheckpointOffer { from, checkpoint });
        }
        let kind = ConsensusKind::Heartbeat;
        Ok(ConsensusMessage { kind, from, to, term, ..ConsensusMessage::default() })
    }

    /// Has the member that has most of the log take over, one of `avoided` only where there is no
    /// other: it stands for election at once. Until a later term nobody relies on this member any
    /// more, whatever comes of it. Who it is; nothing changes where no other member votes.
    ///
    /// # Errors
    /// [`ConsensusError`] when it is not primary, or the library refuses.
    pub fn hand_over(&mut self, avoided: &[ServerId]) -> Result<Option<ServerId>, ConsensusError> {
        if self.leads().is_none() {
            return Err(ConsensusError::NotPrimary);
        }
        let next = self.membership.successor(self.me, |id| {
            (!avoided.contains(id), self.heard(*id).map(roughly), self.matched(*id))
        });
        if let Some(next) = next {
            self.leadership.hand_over();
            self.node.transfer_leader(next.get());
            self.pump()?;
        }
        Ok(next)
    }

    /// What was sent to a member may not have come.
    ///
    /// # Errors
    /// [`ConsensusError`] when the library refuses.
    pub fn unreachable(&mut self, member: ServerId) -> Result<(), ConsensusError> {
        self.node.report_unreachable(member.get());
        self.pump()
    }

    /// Messages for other members.
    pub fn messages(&mut self) -> Vec<ConsensusMessage> {
        self.held.take()
    }

    /// What has come since the last time and must be made durable; none where nothing.
    ///
    /// # Errors
    /// [`ConsensusError`] when the library refuses.
    ///
    /// # Panics
    /// While the last batch is not durable: one is on its way at a time.
    pub fn take(&mut self) -> Result<Option<LogBatch>, ConsensusError> {
        assert!(!self.syncing, "one batch is on its way at a time");
        self.pump()?;
        let mut records = std::mem::take(&mut self.unsynced);
        if records.is_empty() && !self.marks.is_due() {
            return Ok(None);
        }
        // What is not durable here may be overwritten in the log that this mark stands in.
        let log = &self.node.raft.raft_log;
        let (votes, committed) = (self.votes(), LogIndex::new(log.committed.min(log.persisted)));
        if let Some(mark) = self.marks.begin(votes, committed, self.membership.members()) {
            records.insert(0, (LogIndex::default(), mark.to_bytes().into()));
        }
        self.syncing = true;
        Ok(Some(LogBatch { number: self.number, records }))
    }

    /// The batch of this number, and all before it, are durable (Q2).
    ///
    /// # Errors
    /// [`ConsensusError`] when the library refuses.
    pub fn durable(&mut self, now: Time, number: u64) -> Result<(), ConsensusError> {
        self.now = now;
        self.syncing = false;
        self.membership.durable(self.marks.end());
        self.node.on_persist_ready(number);
        self.held.release(number);
        // All before it counts as applied only once it is durable.
        let persisted = self.node.raft.raft_log.persisted;
        if let Some(index) = self.taken_over.take_if(|index| persisted >= *index) {
            self.node.advance_apply_to(index);
        }
        self.pump()
    }

    /// What is committed and was not yet handed out, in order (Q3). The caller applies it at once.
    ///
    /// # Errors
    /// [`ConsensusError`] when the library refuses.
    pub fn committed(&mut self) -> Result<Vec<CommittedRecord>, ConsensusError> {
        let committed = std::mem::take(&mut self.committed);
        if let Some(last) = committed.last() {
            let index = last.index.get();
            self.node.advance_apply_to(index);
            let alone = self.is_alone();
            let log = self.node.mut_store();
            // Whoever lacks what is dropped is offered a checkpoint that stands for it.
            match alone {
                true => log.drop_up_to(index, 0),
                false => log.drop_up_to(index.min(log.offered().index), KEPT_FOR_OTHERS),
            }
        }
        Ok(committed)
    }

    /// Takes over whatever the library has ready.
    fn pump(&mut self) -> Result<(), ConsensusError> {
        loop {
            while self.node.has_ready() {
                self.take_ready()?;
            }
            self.note_role();
            if self.node.has_ready() {
                continue;
            }
            // What has nothing to be written is durable with what was written before.
            if self.syncing || !self.unsynced.is_empty() || self.marks.is_due() {
                return Ok(());
            }
            self.node.on_persist_ready(self.number);
            self.held.release(self.number);
            if !self.node.has_ready() {
                return Ok(());
            }
        }
    }

    /// A committed entry: what is not for the state is done here.
    fn take_committed(&mut self, entry: Entry) -> Result<(), ConsensusError> {
        let (index, term) = (LogIndex::new(entry.index), Term::new(entry.term));
        if let Some(change) = change_of(&entry)
            && self.membership.apply(&mut self.node, (index, &change))?
        {
            self.marks.set_due();
            self.leadership.forget();
            if self.is_alone() {
                // To whom it had handed over is out.
                self.leadership.begin_term();
            }
            self.asked = false;
        }
        self.committed.push(CommittedRecord { index, term, data: data_of(&entry) });
        Ok(())
    }

    fn take_ready(&mut self) -> Result<(), ConsensusError> {
        let mut ready = self.node.ready();
        self.number = ready.number();
        if let Some(state) = ready.hs().cloned() {
            let votes = (Term::new(state.term), ServerId::new(state.vote));
            self.marks.note(votes);
            self.node.mut_store().set_hard_state(state);
        }
        if !ready.snapshot().is_empty() {
            let metadata = ready.snapshot().get_metadata();
            let base = LogPlace { index: metadata.index, term: metadata.term };
            self.node.mut_store().begin_behind(base, conf_state(self.membership.members()));
            // What was to be applied before it stands in it.
            self.committed.clear();
            self.taken_over = Some(base.index);
            self.marks.set_due();
        }
        let entries = ready.take_entries();
        self.unsynced.extend(entries.iter().map(to_store));
        self.node.mut_store().append(&entries);
        for entry in ready.take_committed_entries() {
            self.take_committed(entry)?;
        }
        self.take_messages(&mut ready);
        for state in ready.take_read_states() {
            self.leadership.confirm(round_of(&state.request_ctx));
        }
        self.node.advance_append_async(ready);
        Ok(())
    }

    /// Messages that may leave at once, and those that wait for the disk (V1).
    fn take_messages(&mut self, ready: &mut Ready) {
        let votes = self.votes();
        let votes_wait = self.marks.forgets(votes);
        let members = self.membership.members();
        let with_members = |mut message: ConsensusMessage| {
            if let Some(checkpoint) = &mut message.checkpoint {
                checkpoint.members = members.clone();
            }
            message
        };
        let messages = ready.take_messages().into_iter().flat_map(from_library);
        for message in messages.map(with_members) {
            self.held.put(message);
        }
        for message in ready.take_persisted_messages().into_iter().flat_map(from_library) {
            self.held.hold(self.number, votes_wait, message);
        }
    }

    fn votes(&self) -> (Term, ServerId) {
        let raft = &self.node.raft;
        (Term::new(raft.term), ServerId::new(raft.vote))
    }

    /// Notices that it has become primary, or is none any more.
    fn note_role(&mut self) {
        let raft = &mut self.node.raft;
        let (term, role) = (raft.term, raft.state);
        let patience = self.clock.patience(term, role);
        raft.set_randomized_election_timeout(patience);
        let leads = (role == StateRole::Leader).then_some(Term::new(term));
        let led = self.leads.map(|(term, _)| term);
        if leads != led {
            let is_given_up = leads.is_none() && led == Some(Term::new(term));
            if is_given_up && !self.leadership.is_handed_over() {
                let told = self.membership.take_over_message(Term::new(term));
                told.into_iter().for_each(|message| self.held.put(message));
            }
            // Nothing has been proposed yet: the last entry is the library's own.
            let first = LogIndex::new(raft.raft_log.last_index());
            self.leads = leads.map(|term| (term, first));
            self.leadership.begin_term();
            self.asked = false;
        }
        let is_led = self.leads.is_some() && !self.membership.is_alone();
        if is_led && !self.asked && self.node.raft.commit_to_current_term() {
            self.ask_whether_still_primary();
        }
    }
}

fn to_store(entry: &Entry) -> (LogIndex, Bytes) {
    (LogIndex::new(entry.index), to_stored(entry).into())
}
