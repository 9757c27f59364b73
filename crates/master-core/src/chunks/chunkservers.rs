//! What a primary master makes of its chunkservers' words: whom it takes in, whose leases go on,
//! who may delete what (§3.1, §4.4).
//!
//! - CS1: a server that has obeyed a later term, or a master of a term that this log does not know
//!   or knows as another's, is not this master's to command: this master was started from an old
//!   copy of its directory, and is the past (R1, R3), until a person has it begin a history.
//!   It would give out numbers that were given out before, and files would swap their contents.
//! - CS2: nor is a server that was told of a record which this log lacks, of a term that it has:
//!   the copy is of that very term. What was undeleted after it was made would be purged when due
//!   (GB4).
//! - CS3: a server that comes back at another address is taken in when no lease of the process that
//!   was there can be live: that one may run on, and the other be a copy of its disk (R5, R22).
//!   Who took a raise would count as the former holder, and the former holder would go on.

use super::{Chunks, told_of};
use crate::applied::Applied;
use crate::fleet::{Fleet, SliceNews, is_given_out, is_word, passing};
use crate::record::{self, CloseChunk, KnowServer};
use crate::rules::closing::lacks_close;
use crate::rules::garbage::{is_garbage, is_kept, is_purged, left_out_of, named, since};
use crate::scheduler::Scheduler;
use crate::state::ChunkRecord;
use crate::step::Step;
use crate::told::of_chunk;
use cairn_env::{Caller, LogEvent};
use cairn_protocol::{
    ChunkserverToMaster, ErrorCode, Failure, ForgetServer, ForgetServerAnswer, Garbage, Heartbeat,
    HeartbeatAnswer, Inventory, InventoryAnswer, Join, JoinAnswer, ReplicaReport, Response,
    ServedReign, ServerState,
};
use cairn_types::planted::{Rule, broken};
use cairn_types::{CellId, ChunkHandle, Incarnation, ServerId, Term};
use std::collections::BTreeSet;

impl Chunks {
    /// Takes what a chunkserver says.
    pub(crate) fn on_chunkserver(
        &mut self,
        step: &mut Step<'_>,
        from: Caller,
        request: ChunkserverToMaster,
    ) {
        let answer = match request {
            ChunkserverToMaster::SecondaryFailed(request) => {
                let step = &mut step.with(&mut self.fleet);
                return self.scheduler.on_secondary_failed(step, from, &request);
            }
            ChunkserverToMaster::ChunkClosed(request) => {
                let step = &mut step.with(&mut self.fleet);
                return self.scheduler.on_chunk_closed(step, from, &request);
            }
            ChunkserverToMaster::TellShadow(_) => {
                let line = "a master that is in charge is told as such";
                Err(Failure::refused(ErrorCode::Invalid, line))
            }
            ChunkserverToMaster::Join(join) => self.on_join(step, &join).map(Response::Join),
            ChunkserverToMaster::Inventory(inventory) => {
                self.on_inventory(step, &inventory).map(Response::Inventory)
            }
            ChunkserverToMaster::Heartbeat(beat) => {
                self.on_heartbeat(step, &beat).map(|answer| Response::Heartbeat(answer.into()))
            }
        };
        step.out.reply(from, answer);
    }

    fn on_join(&mut self, step: &mut Step<'_>, join: &Join) -> Result<JoinAnswer, Failure> {
        let (cell, server) = (step.state.cell(), join.at.server);
        if !join.cell.is_none() && join.cell != cell {
            let line = format!(
                "server {server} belongs to cell {}, this is cell {cell}; start it with an empty \
                 data directory, or point it at its own cell",
                join.cell
            );
            return Err(Failure::refused(ErrorCode::WrongCell, line));
        }
        let obeyed = join.term.max(join.highest_handle.term()).max(join.highest_version.term());
        // Past this term as well, or the person's word would be one of a time that is over.
        let newest = obeyed.max(join.served.term).max(self.scheduler.term().number);
        let known = check_history(step, join.cell, join.served, (server, newest))
            .and_then(|()| check_log(step, join.served, (server, newest)))
            .and_then(|()| check_term(self.scheduler.term().number, obeyed, server))
            .and_then(|()| check_numbers(step, join, newest));
        self.unless_ahead(step, (server, join.incarnation), newest, known)?;
        check_place(step, (&self.fleet, &self.scheduler), join)?;
        let id = step.numbers.join();
        let restarted = self.fleet.join(step.now.time, join, id)?;
        if restarted {
            self.scheduler.doubt_holder(server);
        }
        step.out.log(told_of(LogEvent::info("chunkserver joined"), &join.at));
        let (term, config) = (self.scheduler.term().number, Box::new(step.state.config().clone()));
        let since = since(step.state, join, term);
        let known = step.state.server(server).zip(step.state.known_servers().since(server));
        if known != Some((&join.at, since)) {
            // Nobody waits for it: without it the server is missed by nobody after a restart.
            let at = join.at.clone();
            step.out.propose(KnowServer { time: step.now.wall, at, since });
        }
        Ok(JoinAnswer { term, cell, config, join: id, reign: self.reign })
    }

    /// A person says that a server will not come back.
    pub(crate) fn on_forget_server(
        &mut self,
        step: &mut Step<'_>,
        from: Caller,
        request: &ForgetServer,
    ) {
        let server = request.server;
        if let Some((state, at)) = self.fleet.servers().state_and_place(step.now.time, server)
            && state != ServerState::Dead
        {
            let line = format!("server {server} at {} is not dead: stop it first", at.address);
            // Nobody is to ask again until it dies.
            return step.out.reply(from, Err(Failure::refused(ErrorCode::Invalid, line)));
        }
        let proposal = step.out.propose(record::ForgetServer { time: step.now.wall, server });
        let other = self.forgetting.insert(proposal, (from, server));
        assert!(other.is_none(), "a record forgets one server");
    }

    pub(super) fn on_forgotten(
        &mut self,
        step: &mut Step<'_>,
        from: Caller,
        server: ServerId,
        applied: &Applied,
    ) {
        if let Applied::Failed(failure) = applied {
            return step.out.reply(from, Err(failure.clone()));
        }
        // It may have come back meanwhile: then it is taken in anew with its next word.
        self.fleet.forget_server(server);
        step.out.reply(from, Ok(Response::ForgetServer(ForgetServerAnswer {})));
    }

    /// Remembers a server that is refused because it knows more than the log, for the person who
    /// has to decide how to go on (R3). What is said in the name of one that lives here as another
    /// process is nothing that it knows.
    fn unless_ahead(
        &mut self,
        step: &mut Step<'_>,
        (server, incarnation): (ServerId, Incarnation),
        newest: Term,
        known: Result<(), Failure>,
    ) -> Result<(), Failure> {
        let servers = self.fleet.servers();
        let another = servers.get(server).is_some_and(|it| it.incarnation != incarnation);
        if let Err(failure) = &known
            && step.state.server(server).is_some()
            && !(another && servers.is_live(step.now.time, server))
            && self.fleet.note_ahead(step.now.time, server, newest)
        {
            let event = LogEvent::error("behind the cell").with("why", &failure.message);
            step.out.log(event);
        }
        known
    }

    fn on_inventory(
        &mut self,
        step: &mut Step<'_>,
        inventory: &Inventory,
    ) -> Result<InventoryAnswer, Failure> {
        match self.fleet.hear_slice(step.now.time, inventory)? {
            SliceNews::Next => {
                self.take_reports(step, inventory.server, &inventory.replicas.0);
                let holder = (inventory.server, inventory.incarnation);
                for held in &inventory.leases {
                    self.scheduler.adopt(&mut step.with(&mut self.fleet), holder, held);
                }
                if inventory.last {
                    let at = self.fleet.at(inventory.server).expect("its slice was taken just now");
                    self.scheduler.end_former_leases(at, inventory);
                }
            }
            SliceNews::Repeated => {}
        }
        Ok(self.fleet.answer_slice(inventory))
    }

    /// Takes in what a server says of its replicas.
    fn take_reports(&mut self, step: &Step<'_>, server: ServerId, reports: &[ReplicaReport]) {
        let (when, last) = ((step.now.time, step.state), step.numbers.last_version());
        // BE3
        let runs = passing(reports, |report| is_given_out(step.state, last, report));
        let fleet = &mut self.fleet;
        let others: Vec<&ReplicaReport> =
            runs.flat_map(|run| fleet.note_replicas(when, server, run)).collect();
        for report in others {
            // One in the making will have its record in a moment.
            let purged = is_purged(step.state, server, report.handle);
            if !purged && !self.scheduler.makes(report.handle) {
                self.fleet.note_unknown(server, report);
            }
        }
    }

    fn on_heartbeat(
        &mut self,
        step: &mut Step<'_>,
        beat: &Heartbeat,
    ) -> Result<HeartbeatAnswer, Failure> {
        let newest = beat.term.max(beat.served.term).max(self.scheduler.term().number);
        let server = beat.server;
        let known = check_history(step, step.state.cell(), beat.served, (server, newest))
            .and_then(|()| check_log(step, beat.served, (server, newest)))
            .and_then(|()| check_term(self.scheduler.term().number, beat.term, server));
        self.unless_ahead(step, (server, beat.incarnation), newest, known)?;
        let term = self.scheduler.term().number;
        if !self.fleet.hear_heartbeat(step.now.time, beat) {
            return Ok(HeartbeatAnswer { term, rejoin: true, ..HeartbeatAnswer::default() });
        }
        let news = self.fleet.news_for(beat, beat.term == term);
        if news.lost {
            return Ok(HeartbeatAnswer { term, rejoin: true, ..HeartbeatAnswer::default() });
        }
        self.take_reports(step, beat.server, &beat.held);
        for handle in &beat.lost {
            self.fleet.forget_replica(*handle, beat.server);
        }
        self.repair.note_progress(step.now.time, beat.server, &beat.clones);
        self.take_conditions(step, beat);
        let holder = (beat.server, beat.incarnation);
        let mut extended = Vec::new();
        for held in &beat.leases {
            self.scheduler.adopt(&mut step.with(&mut self.fleet), holder, held);
            if self.scheduler.extend(&mut step.with(&mut self.fleet), holder, held) {
                extended.push(held.lease);
            }
        }
        let (view, last) = (self.view(step.now, step.state), step.numbers.last_version());
        let told = beat.held.iter().filter(|report| is_word(step.state, last, report));
        for report in told.filter(|report| lacks_close(&view, report)) {
            step.out.propose(CloseChunk { time: step.now.wall, handle: report.handle });
        }
        for report in beat.held.iter().filter(|report| is_kept(step.state, report)) {
            self.fleet.note_unknown(beat.server, report);
        }
        let chunk = |report: &ReplicaReport| step.state.chunk(report.handle);
        let chunks: Vec<Option<ChunkRecord>> = beat.held.iter().map(chunk).collect();
        let garbage = self.take_garbage(step, beat, &chunks);
        let mut left_out = news.left_out;
        let held = beat.held.iter().zip(&chunks);
        left_out.extend(held.filter_map(|(report, chunk)| left_out_of(chunk.as_ref(), report)));
        let verify = self.fleet.take_bad_blocks(beat.server);
        let (news, clone_rate) = (news.last, step.state.config().clone_rate);
        let rejoin = false;
        let log = step.state.applied();
        let known =
            self.fleet.servers().get(beat.server).expect("its heartbeat was taken just now");
        let unreached = known.reach.why().unwrap_or_default().to_owned();
        let reached = known.reach.is_reached();
        Ok(HeartbeatAnswer {
            term,
            extended,
            garbage,
            rejoin,
            verify,
            left_out,
            news,
            log,
            unreached,
            reached,
            clone_rate,
        })
    }

    /// Which replicas a server has found bad, and which of these sound again.
    fn take_conditions(&mut self, step: &mut Step<'_>, beat: &Heartbeat) {
        for handle in &beat.damaged {
            let known = self.fleet.locations().get(*handle, beat.server);
            if known.is_some_and(|replica| !replica.damaged) {
                let event = LogEvent::error("replica damaged").with("chunk", handle.short());
                let at = self.fleet.at(beat.server).expect("its heartbeat was taken just now");
                step.out.log(told_of(event, at));
            }
            self.fleet.mark_damaged(*handle, beat.server);
        }
        let damaged: BTreeSet<ChunkHandle> = beat.damaged.iter().copied().collect();
        for handle in beat.sound.iter().filter(|handle| !damaged.contains(handle)) {
            self.fleet.mark_sound(*handle, beat.server);
        }
    }

    /// What of what a server holds can go; `chunks` are those of its reports.
    fn take_garbage(
        &mut self,
        step: &mut Step<'_>,
        beat: &Heartbeat,
        chunks: &[Option<ChunkRecord>],
    ) -> Vec<Garbage> {
        let mut garbage = Vec::new();
        for (report, chunk) in beat.held.iter().zip(chunks) {
            let view = self.view(step.now, step.state);
            if is_garbage(&view, beat.server, report, chunk.as_ref()) {
                garbage.push(named(report));
                let server = beat.server;
                let event = || of_chunk("replica collected", report.handle, report.version);
                step.out.debug(|| event().with("server", server));
                // It goes with the answer; where that is lost, it is told of again.
                self.fleet.forget_replica(report.handle, beat.server);
            }
        }
        garbage
    }
}

/// CS1. A group of one cannot win back a term that it does not remember.
fn check_term(term: Term, heard: Term, server: ServerId) -> Result<(), Failure> {
    if heard <= term || broken(Rule::R1) {
        return Ok(());
    }
    let line = format!(
        "server {server} has obeyed a master of term {heard}, this one is of term {term}: {}",
        how_to_go_on(heard)
    );
    Err(Failure::not_done(ErrorCode::NotPrimaryMaster, line))
}

/// CS1. A server that belongs to no cell has no history.
fn check_history(
    step: &Step<'_>,
    cell: CellId,
    served: ServedReign,
    (server, newest): (ServerId, Term),
) -> Result<(), Failure> {
    let ServedReign { term, reign, .. } = served;
    if cell.is_none() || step.state.may_have_had(term, reign) || broken(Rule::R1) {
        return Ok(());
    }
    let line = format!(
        "server {server} has served a master of term {term} whose changes are not in this \
         one's log: {}",
        how_to_go_on(newest)
    );
    Err(Failure::not_done(ErrorCode::NotPrimaryMaster, line))
}

/// CS2
fn check_log(
    step: &Step<'_>,
    served: ServedReign,
    (server, newest): (ServerId, Term),
) -> Result<(), Failure> {
    let end = step.state.end_of_term(served.term).filter(|end| *end < served.log);
    let Some(end) = end.filter(|_| !broken(Rule::R3)) else { return Ok(()) };
    let line = format!(
        "server {server} was told of record {} by the master of term {}, which ends at {end} \
         in this one's log: {}",
        served.log,
        served.term,
        how_to_go_on(newest)
    );
    Err(Failure::not_done(ErrorCode::NotPrimaryMaster, line))
}

fn how_to_go_on(newest: Term) -> String {
    format!(
        "was the master started from an old copy of its directory? start the newer one, or, if it \
         is lost, this one with --recover-past {newest}"
    )
}

/// CS3. Where the process at the other address lives, this one is refused for that (V1).
fn check_place(
    step: &Step<'_>,
    (fleet, scheduler): (&Fleet, &Scheduler),
    join: &Join,
) -> Result<(), Failure> {
    let (now, server) = (step.now.time, join.at.server);
    let known = fleet.servers().get(server);
    let until = scheduler.may_hold_until(server);
    let is_same = known.is_some_and(|known| known.incarnation == join.incarnation);
    let is_free = is_same || fleet.servers().is_live(now, server) || now >= until;
    let places = [known.map(|known| &known.at), step.state.server(server)];
    let was_at = places.into_iter().flatten().find(|at| at.address != join.at.address);
    let Some(was_at) = was_at.filter(|_| !is_free && !broken(Rule::R5)) else { return Ok(()) };
    let line = format!(
        "server {server} joins from {} and was at {}: it is taken in when no lease that it may \
         hold there can run any more, in {} ms",
        join.at.address,
        was_at.address,
        until.since(now).as_millis()
    );
    Err(Failure::not_done(ErrorCode::Busy, line))
}

/// CS1: numbers of this term come from here alone.
fn check_numbers(step: &Step<'_>, join: &Join, newest: Term) -> Result<(), Failure> {
    let handles = join.highest_handle <= step.numbers.last_handle();
    let versions = join.highest_version <= step.numbers.last_version();
    if (handles && versions) || broken(Rule::R1) {
        return Ok(());
    }
    let line = format!(
        "server {} knows of numbers that this master has not given out yet: {}",
        join.at.server,
        how_to_go_on(newest)
    );
    Err(Failure::not_done(ErrorCode::NotPrimaryMaster, line))
}
