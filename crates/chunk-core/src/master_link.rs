//! The chunkserver's side of its talk with the master: join, inventory, heartbeat (GFS §2.3).
//!
//! ```text
//!   start ──► Join ──┬─► Heartbeat every heartbeat_ms
//!               ▲    └─► Inventory, slice by slice (`inventory.rs`)
//!               └────────── rejoin, or no answer for long
//! ```
//! - M1: a higher term is made durable before anything of it is obeyed; a lower one is refused
//!   (R2).
//! - M2: a lease is extended from when the heartbeat was *sent* (R4), and only while it lasts.
//! - M3: it is a server of one master at a time: another one that is found to be in charge takes it
//!   in anew, at once, and is told which leases it holds (R22).

use crate::chunk_core_config::{CellSettings, ChunkCoreConfig};
use crate::cloning::Clones;
use crate::inventory::InventoryProgress;
use crate::master_search::MasterSearch;
use crate::obeyed_term::ObeyedTerm;
use crate::outbox::{AskedSlice, CallPurpose, DiskPurpose, Outbox, WakePurpose};
use crate::replica_table::{ReplicaTable, UNTOLD_AT_ONCE};
use crate::scrub::Scrub;
use crate::standing::Standing;
use crate::traffic::Traffic;
use crate::trash_rounds::TrashRounds;
use cairn_env::{ChunkJob, ChunkResult, Effect, JournalEntry, LogEvent, Now, ServerSpace};
use cairn_protocol::{
    ChoiceNumber, ErrorCode, Failure, FindPrimaryAnswer, Heartbeat, HeartbeatAnswer, Hello,
    Inventory, InventoryAnswer, Join, JoinAnswer, ReplicaReport, ReportSlice, Request, Role,
    ServedReign,
};
use cairn_types::planted::{Rule, broken};
use cairn_types::{Address, CellId, ChunkHandle, JoinId, LogIndex, ReignId, ServerId, Term, Time};
use std::time::Duration;

/// Replicas that a heartbeat reports in turn, so that the master can name what is garbage.
const HELD_PER_HEARTBEAT: usize = 200;
/// The same while some of what was reported is garbage: there is more of it, mostly.
const HELD_WHILE_SHEDDING: usize = 1000;
/// Replicas that a heartbeat names as lost, as damaged, or as sound again: some of each.
const NAMED_PER_HEARTBEAT: usize = 10_000;
/// Pause before another try to join.
const JOIN_RETRY: Duration = Duration::from_millis(500);
/// How long one call to the master may take.
const MASTER_DEADLINE: Duration = Duration::from_secs(2);
/// Heartbeats between looks at the trash.
const TRASH_EVERY: u64 = 20;

/// Where this server stands with its master.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LinkState {
    /// Not joined; the next try is due then.
    Away(Time),
    /// A join is under way.
    Joining,
    /// Joined; the next heartbeat is due then.
    Joined(Time),
}

/// What the link may look at and touch besides itself.
pub(crate) struct LinkContext<'a> {
    pub(crate) now: Now,
    pub(crate) me: &'a ChunkCoreConfig,
    pub(crate) settings: &'a mut CellSettings,
    pub(crate) table: &'a mut ReplicaTable,
    pub(crate) clones: &'a Clones,
    pub(crate) scrub: &'a Scrub,
    pub(crate) traffic: &'a Traffic,
    pub(crate) out: &'a mut Outbox,
}

#[derive(Debug)]
pub(crate) struct MasterLink {
    state: LinkState,
    /// The inventory that is under way.
    inventory: Option<InventoryProgress>,
    /// The highest term heard of (R2).
    term: ObeyedTerm,
    /// Whose term it was that took this server in last (R1).
    reign: (Term, ReignId),
    /// The last record that it told of as applied, in this process's life.
    log: LogIndex,
    cell: CellId,
    /// How full the disks were when last asked, and what the process took.
    space: ServerSpace,
    /// No new chunk has room.
    is_full: bool,
    trash: TrashRounds,
    /// Which of the masters is talked to.
    search: MasterSearch,
    /// The one that took this server in, or is asked to.
    choice: ChoiceNumber,
    beats: u64,
    /// Heartbeats have told of replicas in turn up to here.
    held_told: ChunkHandle,
    /// Some of what was told last was garbage.
    sheds: bool,
    /// Since when another incarnation is in the way (R5).
    refused_since: Option<Time>,
    /// When the master last answered.
    heard: Time,
    /// What that is worth to readers.
    standing: Standing,
    /// The last news of this join that were heeded, by number.
    heeded: u64,
    /// When the last heartbeat was sent, and what it told as lost and as sound again.
    told: (Time, [Vec<ChunkHandle>; 2]),
    /// Since when no master took this server in.
    away_since: Option<Time>,
    /// What was said last of why none did.
    said: String,
}

impl MasterLink {
    pub(crate) fn new(me: &ChunkCoreConfig, space: ServerSpace) -> Self {
        let search = MasterSearch::new(me.masters.clone(), me.incarnation.get());
        Self {
            state: LinkState::Away(Time::default()),
            inventory: None,
            term: ObeyedTerm::kept(me.term),
            reign: me.reign,
            log: LogIndex::default(),
            cell: me.cell,
            space,
            is_full: false,
            trash: TrashRounds::default(),
            choice: search.choice(),
            search,
            beats: 0,
            held_told: ChunkHandle::default(),
            sheds: false,
            refused_since: None,
            heard: Time::default(),
            standing: Standing::default(),
            heeded: 0,
            told: Default::default(),
            away_since: None,
            said: String::new(),
        }
    }

    /// The master that is talked to.
    /// Whether it is joined, and the highest term heard of.
    pub(crate) fn joined(&self) -> (bool, Term) {
        (matches!(self.state, LinkState::Joined(_)), self.term.heard())
    }

    pub(crate) fn master(&self) -> &Address {
        self.search.master()
    }

    /// The other masters, and the cell that they are of.
    pub(crate) fn others(&self) -> (CellId, Vec<Address>) {
        (self.cell, self.search.others())
    }

    pub(crate) fn standing(&self) -> Standing {
        self.standing
    }

    /// How full the disks are, and whether a new chunk has room on any of them.
    pub(crate) fn learn_space(&mut self, space: ServerSpace, is_full: bool) {
        (self.space, self.is_full) = (space, is_full);
    }

    /// Whatever time asks of the link.
    pub(crate) fn tick(&mut self, cx: &mut LinkContext<'_>) {
        for master in self.search.tick(cx.now.time) {
            cx.out.find_primary(master, cx.now.time);
        }
        if !self.search.is_known() {
            return self.leave_if_silent(cx);
        }
        match self.state {
            LinkState::Away(due) if cx.now.time >= due => self.join(cx),
            LinkState::Joined(due) if cx.now.time >= due => self.beat(cx),
            LinkState::Away(_) | LinkState::Joining | LinkState::Joined(_) => {}
        }
    }

    fn call(
        &mut self,
        cx: &mut LinkContext<'_>,
        purpose: impl FnOnce(ChoiceNumber) -> CallPurpose,
        request: impl Into<Request>,
    ) {
        let purpose = purpose(self.search.asks(cx.now.time));
        let to = self.master().clone();
        cx.out.call(purpose, to, ServerId::default(), request, cx.now.time + MASTER_DEADLINE);
    }

    /// The master has answered as one in charge.
    fn hear(&mut self, cx: &mut LinkContext<'_>) {
        self.heard = cx.now.time;
        if self.search.heard(cx.now.time) {
            cx.out.find_primary(self.master().clone(), cx.now.time);
        }
    }

    /// The master did not do what it was asked; perhaps it names another one.
    fn fail(&mut self, cx: &mut LinkContext<'_>, failure: &Failure) {
        if self.search.failed(failure) {
            self.go_to_found(cx, false);
            self.tick(cx);
        }
    }

    /// A master says whether it is in charge, or does not.
    pub(crate) fn on_master_told(
        &mut self,
        cx: &mut LinkContext<'_>,
        from: &Address,
        result: Result<FindPrimaryAnswer, Failure>,
    ) {
        let was_known = self.search.is_known();
        if self.search.told(cx.now.time, from, result) {
            self.go_to_found(cx, was_known);
            self.tick(cx);
        }
    }

    /// There is a master to talk to: another one takes this server in anew (M3), the same is told
    /// at once that it is here, unless it was only slow.
    fn go_to_found(&mut self, cx: &mut LinkContext<'_>, was_known: bool) {
        self.state = match self.state {
            same if self.search.choice() == self.choice && was_known => same,
            LinkState::Joined(_) if self.search.choice() == self.choice => {
                LinkState::Joined(cx.now.time)
            }
            LinkState::Joining if self.search.choice() == self.choice => LinkState::Joining,
            _ => {
                self.inventory = None;
                LinkState::Away(cx.now.time)
            }
        };
    }

    /// Nobody is in charge: after a while no master counts this server in.
    fn leave_if_silent(&mut self, cx: &mut LinkContext<'_>) {
        let patience = Duration::from_millis(cx.settings.config().silent_ms);
        if cx.now.time.since(self.heard) <= patience {
            return;
        }
        if let LinkState::Joined(_) = self.state {
            self.inventory = None;
            self.state = LinkState::Away(cx.now.time);
        }
        if let Some(why) = self.search.why().cloned() {
            self.say_why_away(cx, &why);
        }
    }

    /// Says in handshakes from now on who this server is.
    pub(crate) fn identify(&self, me: &ChunkCoreConfig, out: &mut Outbox) {
        let hello = Hello::new(self.cell, Role::Chunkserver, me.at.server, me.incarnation);
        out.push(Effect::Identify(hello));
    }

    fn join(&mut self, cx: &mut LinkContext<'_>) {
        (self.state, self.choice) = (LinkState::Joining, self.search.choice());
        let (mut highest_handle, mut highest_version) =
            (cx.me.highest_handle, cx.me.highest_version);
        for replica in cx.table.all() {
            highest_handle = highest_handle.max(replica.stored().handle());
            highest_version = highest_version.max(replica.stored().version());
        }
        let (capacity, used) = self.space.sum();
        let request = Join {
            at: cx.me.at.clone(),
            incarnation: cx.me.incarnation,
            cell: self.cell,
            capacity,
            used,
            term: self.term.heard(),
            highest_handle,
            highest_version,
            served: self.served(),
        };
        self.call(cx, |asked| CallPurpose::Join { asked }, request);
    }

    pub(crate) fn on_joined(
        &mut self,
        cx: &mut LinkContext<'_>,
        asked: ChoiceNumber,
        result: Result<JoinAnswer, Failure>,
    ) {
        if asked != self.search.choice() {
            // Of a master that is talked to no more (MS2).
            return;
        }
        // Nothing is counted by settings that do not fit together.
        let result = result.and_then(|answer| {
            // Of a master that has no limits for clones yet.
            let config = answer.config.completed();
            config.validate()?;
            Ok(JoinAnswer { config: Box::new(config), ..answer })
        });
        let taken_in = result.and_then(|answer| {
            if !self.cell.is_none() && self.cell != answer.cell {
                let why = format!("the master's cell is {}", answer.cell);
                return Err(Failure::refused(ErrorCode::WrongCell, why));
            }
            self.obey_term(answer.term, cx.out)?;
            self.take_reign(answer.term, answer.reign, cx.out)?;
            Ok(answer)
        });
        let answer = match taken_in {
            Ok(answer) => answer,
            Err(failure) => return self.retry_join(cx, &failure),
        };
        if self.cell.is_none() {
            self.cell = answer.cell;
            let entry = JournalEntry::Joined(answer.cell, cx.me.at.server);
            cx.out.journal(DiskPurpose::Nobody, entry);
            self.identify(cx.me, cx.out);
        }
        cx.settings.learn(*answer.config);
        self.standing.join(cx.now.time, cx.settings.config());
        self.heeded = 0;
        // The inventory tells what is held; nothing else is.
        cx.table.forget_lost();
        self.hear(cx);
        self.refused_since = None;
        self.state = LinkState::Joined(cx.now.time);
        self.inventory = Some(InventoryProgress::of(answer.join, cx.table));
        self.held_told = ChunkHandle::default();
        self.tell_slice(cx);
    }

    /// Tries again later; what can never succeed ends the process with its reason.
    fn retry_join(&mut self, cx: &mut LinkContext<'_>, failure: &Failure) {
        match failure.code {
            ErrorCode::WrongCell => {
                let (cell, master) = (self.cell, self.master());
                cx.out.push(Effect::Halt(format!(
                    "this data directory belongs to cell {cell}, and the master at {master} is \
                     another cell's ({}); name a master of its own cell, or give --data an empty \
                     directory",
                    failure.message
                )));
            }
            ErrorCode::VersionUnsupported => cx.out.push(Effect::Halt(failure.message.clone())),
            // R5: another incarnation of this server lives, longer than it takes to be buried.
            ErrorCode::WrongServer => {
                let since = *self.refused_since.get_or_insert(cx.now.time);
                let dead = Duration::from_millis(cx.settings.config().dead_ms);
                if cx.now.time.since(since) > dead {
                    cx.out.push(Effect::Halt(failure.message.clone()));
                }
            }
            // Whatever else it is may be over at the next try.
            _ => {}
        }
        self.say_why_away(cx, failure);
        self.state = LinkState::Away(cx.now.time + JOIN_RETRY);
        self.inventory = None;
        self.fail(cx, failure);
    }

    /// Tells a person why no master takes this server in: once for each reason, and not for what
    /// is over in a moment.
    fn say_why_away(&mut self, cx: &mut LinkContext<'_>, failure: &Failure) {
        let since = *self.away_since.get_or_insert(cx.now.time);
        let patience = Duration::from_millis(cx.settings.config().silent_ms);
        if cx.now.time.since(since) >= patience && self.said != failure.message {
            let (master, why) = (self.master(), &failure.message);
            let event = LogEvent::warn("not in the cell").with("master", master).with("why", why);
            cx.out.push(Effect::Log(event));
            self.said.clone_from(&failure.message);
        }
    }

    /// A master has taken this server in, and all that it holds.
    fn say_joined(&mut self, cx: &mut LinkContext<'_>) {
        self.away_since = None;
        self.said.clear();
        let event = LogEvent::info("in the cell").with("master", self.master());
        cx.out.push(Effect::Log(event));
    }

    /// Sends the next slice of the inventory.
    fn tell_slice(&mut self, cx: &mut LinkContext<'_>) {
        let inventory = self.inventory.as_mut().expect("an inventory is under way");
        let slice = inventory.next_slice(cx.table, cx.settings.config());
        let (join, number, last) = (inventory.join(), inventory.number(), slice.last);
        // At first, so that a lease goes on under this master (R22); at last, so that it knows
        // which do not.
        let tells_leases = last || number == 0;
        let leases = if tells_leases { cx.table.held_leases(cx.now.time, false) } else { vec![] };
        let request = Inventory {
            server: cx.me.at.server,
            incarnation: cx.me.incarnation,
            replicas: ReportSlice(slice.replicas),
            last,
            leases,
            join,
            number,
        };
        let slice = AskedSlice { join, number, last };
        self.call(cx, |asked| CallPurpose::Inventory { asked, slice }, request);
    }

    /// A slice of that join's inventory is answered, or its fate is not known.
    pub(crate) fn on_slice_answered(
        &mut self,
        cx: &mut LinkContext<'_>,
        (asked, slice): (ChoiceNumber, AskedSlice),
        result: Result<InventoryAnswer, Failure>,
    ) {
        let is_meant =
            |it: &InventoryProgress| (it.join(), it.number()) == (slice.join, slice.number);
        if asked != self.search.choice() || !self.inventory.as_ref().is_some_and(is_meant) {
            // Of an earlier join: it is over, and the present one has slices of its own (I3, MS2).
            return;
        }
        let answer = match result {
            Ok(answer) => answer,
            Err(failure) => return self.retry_join(cx, &failure),
        };
        self.hear(cx);
        if slice.last {
            self.inventory = None;
            return self.say_joined(cx);
        }
        let inventory = self.inventory.as_mut().expect("looked at above");
        inventory.slice_answered(&answer);
        if answer.pause_ms == 0 {
            self.tell_slice(cx);
        } else {
            let at = cx.now.time + Duration::from_millis(answer.pause_ms);
            cx.out.wake(WakePurpose::NextSlice(slice.join), at);
        }
    }

    /// The pause between two slices is over.
    pub(crate) fn on_pause_over(&mut self, cx: &mut LinkContext<'_>, join: JoinId) {
        // Otherwise another join has begun since.
        if self.inventory.as_ref().is_some_and(|inventory| inventory.join() == join) {
            self.tell_slice(cx);
        }
    }

    /// What a heartbeat tells of replicas: first of those that changed since they were told of,
    /// as far as there is room, and then of the others in turn, of some however many have changed.
    fn replicas_to_tell(&mut self, table: &mut ReplicaTable) -> Vec<ReplicaReport> {
        let most = if self.sheds { HELD_WHILE_SHEDDING } else { HELD_PER_HEARTBEAT };
        let mut held = table.take_untold();
        let wanted = most.saturating_sub(held.len()).max(most / 2);
        let in_turn = table.behind(self.held_told).take(wanted);
        let in_turn: Vec<ReplicaReport> = in_turn.map(|it| it.stored().report()).collect();
        self.held_told = match in_turn.last() {
            Some(report) if in_turn.len() == wanted => report.handle,
            _ => ChunkHandle::default(),
        };
        held.extend(in_turn);
        assert!(held.len() <= UNTOLD_AT_ONCE + most, "{} replicas in a heartbeat", held.len());
        held
    }

    fn beat(&mut self, cx: &mut LinkContext<'_>) {
        self.beats += 1;
        let (config, sent) = (cx.settings.config(), cx.now.time);
        self.state = LinkState::Joined(sent + Duration::from_millis(config.heartbeat_ms));
        cx.out.server_job(DiskPurpose::Space, ChunkJob::Space);
        if self.beats.is_multiple_of(TRASH_EVERY) {
            self.trash.begin((cx.now, config), cx.out);
        }
        cx.table.journal_damage(cx.out);
        let (capacity, used) = self.space.sum();
        let request = Heartbeat {
            server: cx.me.at.server,
            incarnation: cx.me.incarnation,
            capacity,
            used,
            leases: cx.table.held_leases(cx.now.time, true),
            damaged: cx.table.damaged_in_turn(NAMED_PER_HEARTBEAT),
            held: self.replicas_to_tell(cx.table),
            term: self.term.heard(),
            heeded: self.heeded,
            served: self.served(),
            clones: cx.clones.progress(),
            lost: cx.table.lost(NAMED_PER_HEARTBEAT),
            full: self.is_full,
            scrub: Box::new(cx.scrub.progress()),
            stored: cx.table.stored_size(),
            disks: self.space.disks.clone(),
            resources: Box::new(self.space.resources),
            traffic: Box::new(cx.traffic.totals()),
            sound: cx.table.sound(NAMED_PER_HEARTBEAT),
        };
        self.told = (sent, [request.lost.clone(), request.sound.clone()]);
        self.call(cx, |asked| CallPurpose::Heartbeat { asked, sent }, request);
    }

    /// A slice of the trash is through.
    pub(crate) fn on_trash_emptied(&mut self, cx: &mut LinkContext<'_>, result: &ChunkResult) {
        self.trash.on_emptied((cx.now, cx.settings.config()), result, cx.out);
    }

    /// The master's answer to a heartbeat, if there is something in it to heed.
    pub(crate) fn on_heartbeat_answer(
        &mut self,
        cx: &mut LinkContext<'_>,
        (asked, sent): (ChoiceNumber, Time),
        result: Result<HeartbeatAnswer, Failure>,
    ) -> Option<HeartbeatAnswer> {
        if asked != self.search.choice() {
            // MS2.
            return None;
        }
        let answer = match result {
            Ok(answer) => answer,
            Err(failure) => {
                let silence = cx.now.time.since(self.heard);
                if silence > Duration::from_millis(cx.settings.config().silent_ms) {
                    self.retry_join(cx, &failure);
                } else {
                    self.fail(cx, &failure);
                }
                return None;
            }
        };
        if let Err(failure) = self.obey_term(answer.term, cx.out) {
            // A master that is one no more: as good as no answer (M1).
            self.fail(cx, &failure);
            return None;
        }
        self.hear(cx);
        self.sheds = !answer.garbage.is_empty();
        if answer.rejoin {
            self.state = LinkState::Away(cx.now.time);
            self.inventory = None;
            self.standing.leave();
            return None;
        }
        if sent == self.told.0 {
            cx.table.heard(&self.told.1);
        }
        if answer.term == self.reign.0 {
            self.log = self.log.max(answer.log);
        }
        self.heed_news(cx.table, &answer);
        self.standing.hear(sent);
        Some(answer)
    }

    /// Sets go on without replicas that are here: nobody is served from these any more.
    fn heed_news(&mut self, table: &mut ReplicaTable, answer: &HeartbeatAnswer) {
        for set in &answer.left_out {
            // What is gone serves nobody.
            if let Some(replica) = table.touch(set.handle) {
                replica.stored_mut().leave_out(set.version);
            }
        }
        self.heeded = self.heeded.max(answer.news);
    }

    /// Takes over a higher term; refuses a lower one (M1).
    pub(crate) fn obey_term(&mut self, term: Term, out: &mut Outbox) -> Result<(), Failure> {
        self.term.obey(term, out)
    }

    /// The last master that took this server in.
    fn served(&self) -> ServedReign {
        let (term, reign) = self.reign;
        ServedReign { term, reign, log: self.log }
    }

    /// A master takes this server in: from here on no other of the same term does (R1).
    fn take_reign(&mut self, term: Term, reign: ReignId, out: &mut Outbox) -> Result<(), Failure> {
        let (known_term, known) = self.reign;
        let another = term == known_term && known != ReignId::default() && reign != known;
        if another && !broken(Rule::R1) {
            let why = "another master of this very term has taken this server in before";
            return Err(Failure::refused(ErrorCode::NotPrimaryMaster, why));
        }
        // One that knows of no reigns says none.
        if reign != ReignId::default() && (term, reign) != self.reign {
            (self.reign, self.log) = ((term, reign), LogIndex::default());
            out.journal(DiskPurpose::Nobody, JournalEntry::Reign(term, reign));
        }
        Ok(())
    }

    /// A higher term is durable now, or could not be made so.
    pub(crate) fn on_term_written(&mut self, term: Term, is_kept: bool) {
        self.term.on_written(term, is_kept);
    }
}
