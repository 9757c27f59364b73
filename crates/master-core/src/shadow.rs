//! What a master answers that is not in charge (GFS §5.1.3): reads, from the state as applied and
//! from what chunkservers tell it as well.
//!
//! ```text
//!   TellShadow ──► fleet: who is there, who holds what
//!                    │ ▲ rules::reading, as at the primary master
//!   question ────────┴─┴──► word
//! ```
//! - SM1: it grants nothing, orders nothing, concludes nothing from anybody's silence: it knows no
//!   lease and has no way to ask a chunkserver anything (R21, R23, R33).
//! - SM2: what a server told counts for the join that it was told under: whom this shadow does not
//!   know, or not any more, tells all anew.
//!
//! Knows nothing of the group; who owns it says how far behind it may be.

use crate::batch_looks::BatchLooks;
use crate::fleet::Fleet;
use crate::frozen_trees::FrozenTrees;
use crate::leases::Leases;
use crate::parked_followers::ParkedFollowers;
use crate::permissions::Asker;
use crate::reads;
use crate::state::State;
use crate::stream_extents::{extents, stream};
use crate::this_term::ThisTerm;
use crate::troubles::Troubles;
use crate::underway::Underway;
use crate::view::View;
use cairn_env::{Caller, Now};
use cairn_protocol::{
    Batch, BatchAnswer, BatchEntry, CellInfoAnswer, ErrorCode, Failure, Join, ShadowQuestion,
    ShadowWord, TellShadow, TellShadowAnswer, WaitLength, WaitLengthAnswer,
};
use cairn_types::planted::{Rule, broken};
use cairn_types::{ChunkHandle, EntryId, Identity, JoinId, LogIndex, Term, Time};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Chunks that one answer names as unknown.
const UNKNOWN_MAX: usize = 4096;
/// Joins of one life, of which there is at most one in a millisecond.
const JOINS_PER_LIFE: u64 = 1 << 20;

/// What it knows of chunkservers, which is as soft as what the primary knows.
#[derive(Debug)]
pub struct ShadowCore {
    fleet: Fleet,
    /// No master's: it counts the time since this shadow began, and no lease is older than it.
    term: ThisTerm,
    last_join: JoinId,
    /// When it looked last who is dead.
    passed: Time,
    /// Who waits here for a stream to be longer.
    followers: ParkedFollowers,
    // Those are of who is in charge: empty.
    leases: Leases,
    troubles: Troubles,
    underway: Underway,
    frozen: FrozenTrees,
}

impl ShadowCore {
    /// Knows of the servers that the log knows, and waits to be told by them.
    #[must_use]
    pub fn new(now: Now, state: &State) -> Self {
        let (mut fleet, mut term) = (Fleet::default(), ThisTerm::new(Term::default()));
        term.begin(now.time, state.config());
        fleet.begin(now.time, state.config(), state.servers());
        // No other shadow of this member's gave out such joins (SM2).
        let last_join = JoinId::new(now.wall.as_millis().saturating_mul(JOINS_PER_LIFE));
        let (leases, troubles, underway, frozen) = Default::default();
        let (passed, followers) = (now.time, ParkedFollowers::default());
        Self { fleet, term, last_join, passed, followers, leases, troubles, underway, frozen }
    }

    fn view<'a>(&'a self, now: Now, state: &'a State) -> View<'a> {
        let Self { fleet, term, leases, troubles, underway, frozen, .. } = self;
        assert!(leases.is_empty(), "a shadow knows no leases (SM1)");
        View { now, state, term, fleet, leases, troubles, underway, frozen }
    }

    /// A chunkserver tells what it holds.
    ///
    /// # Errors
    /// It is another cell's, or another process lives under its id.
    pub fn told(
        &mut self,
        now: Now,
        state: &State,
        tell: &TellShadow,
    ) -> Result<TellShadowAnswer, Failure> {
        let server = tell.at.server;
        if tell.cell != state.cell() {
            let line = format!("server {server} is of cell {}, not {}", tell.cell, state.cell());
            return Err(Failure::refused(ErrorCode::WrongCell, line));
        }
        self.fleet.wake(now.time);
        if now.time.since(self.passed) >= self.term.heartbeat() {
            self.passed = now.time;
            // Whom it takes for dead it sends no reader to; nothing else comes of it.
            self.fleet.pass(now.time);
        }
        if !self.fleet.is_told_by(now.time, tell) {
            return self.take_in(now, state, tell);
        }
        let reports = &tell.replicas.0;
        let unknown = self.fleet.note_replicas((now.time, state), server, reports);
        let unknown = unknown.into_iter().take(UNKNOWN_MAX).map(|report| report.handle).collect();
        tell.gone.iter().for_each(|handle| self.fleet.forget_replica(*handle, server));
        // Of those that are told of the damaged are named: what is told and not named is sound.
        let damaged: BTreeSet<ChunkHandle> = tell.damaged.iter().copied().collect();
        for report in reports.iter().filter(|report| !damaged.contains(&report.handle)) {
            let known = self.fleet.locations().get(report.handle, server);
            if known.is_some_and(|replica| replica.damaged) {
                self.fleet.mark_sound(report.handle, server);
            }
        }
        damaged.iter().for_each(|handle| self.fleet.mark_damaged(*handle, server));
        Ok(TellShadowAnswer { join: tell.join, unknown, config: None })
    }

    /// It is to tell all anew, under this join (SM2).
    fn take_in(
        &mut self,
        now: Now,
        state: &State,
        tell: &TellShadow,
    ) -> Result<TellShadowAnswer, Failure> {
        let (at, incarnation, cell) = (tell.at.clone(), tell.incarnation, tell.cell);
        let join = Join { at, incarnation, cell, ..Join::default() };
        let id = self.last_join.next();
        self.fleet.join(now.time, &join, id)?;
        self.last_join = id;
        let config = Some(Box::new(state.config().clone()));
        Ok(TellShadowAnswer { join: id, unknown: Vec::new(), config })
    }

    /// Answers from what is applied and told. `term` is the latest that this member has heard of.
    /// None: whoever asks waits here for a stream to be longer.
    #[must_use]
    pub fn answer(
        &mut self,
        now: Now,
        (state, term): (&State, Term),
        (who, from, question): (&Arc<Identity>, Caller, &ShadowQuestion),
    ) -> Option<ShadowWord> {
        self.fleet.wake(now.time);
        let asker = Asker { state, who };
        if let Err(denied) = asker.check_question(question) {
            return Some(ShadowWord::Failed(denied));
        }
        if let ShadowQuestion::WaitLength(wish) = question {
            return self.wait(now, state, (from, wish));
        }
        let view = self.view(now, state);
        let answer = match question {
            ShadowQuestion::CellInfo(_) => {
                let (cell, config) = (state.cell(), state.config().clone().into());
                Ok(ShadowWord::CellInfo(CellInfoAnswer { cell, config, term }))
            }
            ShadowQuestion::Stat(stat) => reads::stat(&view, stat).map(ShadowWord::Stat),
            ShadowQuestion::Open(open) => reads::open(asker, &view, open).map(ShadowWord::Open),
            ShadowQuestion::Locate(wish) => reads::locate(&view, wish).map(ShadowWord::Locate),
            ShadowQuestion::List(list) => reads::list(state, list).map(ShadowWord::List),
            ShadowQuestion::Find(find) => crate::find::find(asker, find).map(ShadowWord::Find),
            ShadowQuestion::Batch(batch) => looks(&view, asker, batch).map(ShadowWord::Batch),
            ShadowQuestion::ReadExtents(wish) => has_applied(state, wish.seen)
                .and_then(|()| extents(&view, wish))
                .map(ShadowWord::ReadExtents),
            ShadowQuestion::WaitLength(_) => unreachable!("it was taken above"),
        };
        Some(answer.unwrap_or_else(ShadowWord::Failed))
    }

    /// Somebody wants a stream to be longer; the word, where he need not wait.
    fn wait(
        &mut self,
        now: Now,
        state: &State,
        (from, wish): (Caller, &WaitLength),
    ) -> Option<ShadowWord> {
        let view = self.view(now, state);
        let record = has_applied(state, wish.seen).and_then(|()| stream(&view, wish.file));
        let length = match record {
            Ok(record) => record.length,
            Err(failure) => return Some(ShadowWord::Failed(failure)),
        };
        if length > wish.length || wish.patience_ms == 0 {
            return Some(length_word(state, length));
        }
        self.followers.park(now.time, from, wish).err().map(ShadowWord::Failed)
    }

    /// A record was applied that made a stream longer: who is told of it, and what.
    pub fn grown(&mut self, state: &State, file: EntryId) -> Vec<(Caller, ShadowWord)> {
        if self.followers.count() == 0 {
            return Vec::new();
        }
        let length = state.entry(file).map_or(0, |entry| entry.length);
        let told = self.followers.take_longer(file, length);
        told.into_iter().map(|from| (from, length_word(state, length))).collect()
    }

    /// Time has passed: who has waited for as long as he would, and what he is told.
    pub fn over(&mut self, now: Now, state: &State) -> Vec<(Caller, ShadowWord)> {
        let told = self.followers.take_over(now.time);
        let word = |(file, from)| match state.entry(file) {
            Some(entry) => (from, length_word(state, entry.length)),
            None => {
                let gone = Failure::refused(ErrorCode::NotFound, "the file is gone");
                (from, ShadowWord::Failed(gone))
            }
        };
        told.into_iter().map(word).collect()
    }

    /// It is a shadow no more: who waited here.
    pub fn leave_followers(&mut self) -> Vec<Caller> {
        self.followers.take_all()
    }
}

fn length_word(state: &State, length: u64) -> ShadowWord {
    ShadowWord::WaitLength(WaitLengthAnswer { length, log: state.applied() })
}

/// Whether all is applied here that a reader has seen: what he has seen he finds for ever (R44).
fn has_applied(state: &State, seen: LogIndex) -> Result<(), Failure> {
    let applied = state.applied();
    if applied >= seen || broken(Rule::R44) {
        return Ok(());
    }
    let line = format!(
        "this master has applied the log up to record {applied}, and the reader has seen up to \
         {seen}"
    );
    Err(Failure::not_done(ErrorCode::Busy, line))
}

/// A batch in which nothing is to be changed.
fn looks(view: &View<'_>, asker: Asker<'_>, batch: &Batch) -> Result<BatchAnswer, Failure> {
    if let Some(failure) = batch.oversized() {
        return Err(failure);
    }
    if batch.entries.iter().any(BatchEntry::is_mutation) {
        let line = "a master that is not in charge changes nothing";
        return Err(Failure::not_primary_master(line, None));
    }
    let mut looks = BatchLooks::of(view, batch);
    let result = |entry: &BatchEntry| match (entry.as_stat(), entry.as_open()) {
        (Some(stat), _) => looks.stat(asker, stat),
        (_, Some(open)) => looks.open(asker, open),
        (None, None) => unreachable!("nothing is changed here, and yet: {entry:?}"),
    };
    let results = batch.entries.iter().map(result).collect();
    looks.end();
    Ok(BatchAnswer { results })
}

#[cfg(test)]
mod tests {
    use super::ShadowCore;
    use crate::record::{AddFile, FoundCell, OpenChunk, Record};
    use crate::state::{ROOT, State};
    use cairn_env::{Caller, Now};
    use cairn_protocol::{
        Batch, BatchEntry, ChunkLocations, Delete, ErrorCode, Locate, ReadExtents, ReplicaReport,
        ReportSlice, RequestId, ShadowQuestion, ShadowWord, Stat, TellShadow, TellShadowAnswer,
        WaitLength,
    };
    use cairn_types::{
        Address, CellConfig, CellId, CellPath, ChunkHandle, ChunkIndex, ChunkVersion, EntryId,
        Incarnation, JoinId, LogIndex, ReplicaAt, ServerId, Term, Time, WallTime,
    };
    use std::sync::Arc;
    use std::time::Duration;

    const FILE: EntryId = EntryId::new(100);
    const CELL: CellId = CellId::new(5);

    struct Member {
        millis: u64,
        state: State,
        shadow: ShadowCore,
    }

    impl Member {
        fn now(millis: u64) -> Now {
            let time = Time::default() + Duration::from_millis(millis);
            Now { time, wall: WallTime::from_millis(millis) }
        }

        fn new() -> Self {
            let mut state = State::default();
            let config = CellConfig { replication: 3, ..CellConfig::tiny() };
            let founding = FoundCell { time: WallTime::default(), cell: CELL, config };
            let _ = state.apply(LogIndex::new(1), Term::new(1), &founding.into());
            let shadow = ShadowCore::new(Self::now(5), &state);
            let mut member = Self { millis: 5, state, shadow };
            member.apply(AddFile {
                parent: ROOT,
                name: "f".into(),
                id: FILE,
                replication: 3,
                ..AddFile::default()
            });
            member
        }

        fn apply(&mut self, record: impl Into<Record>) {
            let index = self.state.applied().next();
            let _ = self.state.apply(index, Term::new(1), &record.into());
        }

        fn open_chunk(&mut self) {
            let (handle, version) = (handle(), ChunkVersion::of(Term::new(1), 1));
            let index = ChunkIndex::default();
            let open = OpenChunk { file: FILE, index, handle, version, ..OpenChunk::default() };
            self.apply(OpenChunk { set_size: 2, floor: handle, ..open });
        }

        fn tell(&mut self, tell: TellShadow) -> TellShadowAnswer {
            self.shadow.told(Self::now(self.millis), &self.state, &tell).expect("is taken")
        }

        fn ask(&mut self, question: impl Into<ShadowQuestion>) -> ShadowWord {
            let (of, question) = ((&self.state, Term::new(1)), question.into());
            let asked = (&Arc::default(), Caller::default(), &question);
            self.shadow.answer(Self::now(self.millis), of, asked).expect("it need not wait")
        }

        fn locations(&mut self) -> Vec<ServerId> {
            let locate = Locate { file: FILE, count: 1, ..Locate::default() };
            let ShadowWord::Locate(answer) = self.ask(locate) else { panic!("no locations") };
            let [ChunkLocations { replicas, primary: None, .. }] = answer.chunks.as_slice() else {
                panic!("{answer:?}")
            };
            replicas.iter().map(|at| at.server).collect()
        }
    }

    fn handle() -> ChunkHandle {
        ChunkHandle::of(Term::new(1), 9)
    }

    fn server(id: u64) -> ServerId {
        ServerId::new(id)
    }

    fn word_of(id: u64, join: JoinId) -> TellShadow {
        let address = Address::new(format!("s{id}:1"));
        let at = ReplicaAt { server: server(id), address, ..ReplicaAt::default() };
        TellShadow {
            at,
            incarnation: Incarnation::new(id),
            cell: CELL,
            join,
            ..TellShadow::default()
        }
    }

    fn held() -> ReportSlice {
        let version = ChunkVersion::of(Term::new(1), 1);
        ReportSlice(vec![ReplicaReport { handle: handle(), version, ..ReplicaReport::default() }])
    }

    fn holds(id: u64, join: JoinId) -> TellShadow {
        TellShadow { replicas: held(), all: true, ..word_of(id, join) }
    }

    #[test]
    fn readers_are_sent_where_chunkservers_said_that_they_hold_a_chunk_and_no_more_once_gone() {
        let mut member = Member::new();
        member.open_chunk();
        let joins = [1, 2].map(|id| member.tell(holds(id, JoinId::default())).join);
        assert_eq!(member.locations(), [], "SM2: they were taken in, and told nothing yet");
        for (id, join) in [1, 2].into_iter().zip(joins) {
            let told = member.tell(holds(id, join));
            assert_eq!(told, TellShadowAnswer { join, ..TellShadowAnswer::default() });
        }
        assert_eq!(member.locations(), [server(1), server(2)]);
        member.tell(TellShadow { gone: vec![handle()], ..word_of(2, joins[1]) });
        assert_eq!(member.locations(), [server(1)]);
        member.tell(TellShadow { damaged: vec![handle()], ..word_of(1, joins[0]) });
        member.tell(holds(2, joins[1]));
        assert_eq!(member.locations(), [server(2)], "a damaged one only where there is no other");
        member.tell(holds(1, joins[0]));
        assert_eq!(member.locations(), [server(1), server(2)], "it turned out to be sound");
    }

    #[test]
    fn what_the_log_does_not_know_yet_is_asked_for_again() {
        let mut member = Member::new();
        let join = member.tell(word_of(1, JoinId::default())).join;
        assert_eq!(member.tell(holds(1, join)).unknown, [handle()]);
        member.open_chunk();
        assert_eq!(member.tell(holds(1, join)).unknown, []);
        assert_eq!(member.locations(), [server(1)]);
    }

    #[test]
    fn who_was_silent_for_long_or_started_again_tells_all_anew() {
        let mut member = Member::new();
        member.open_chunk();
        let join = member.tell(word_of(1, JoinId::default())).join;
        member.tell(holds(1, join));
        let config = member.state.config().clone();
        member.millis += 2 * config.dead_ms;
        // It was the shadow that stood still for so long; now it is the server.
        member.tell(word_of(2, JoinId::default()));
        for _ in 0..4 * config.dead_ms / config.silent_ms {
            member.millis += config.silent_ms / 2;
            member.tell(word_of(2, JoinId::default()));
        }
        assert_eq!(member.locations(), [], "it counts as dead");
        let again = member.tell(holds(1, join)).join;
        assert_ne!(again, join, "SM2");
        assert_eq!(member.locations(), []);
        member.tell(holds(1, again));
        assert_eq!(member.locations(), [server(1)]);
        let other_life = TellShadow { incarnation: Incarnation::new(77), ..holds(1, again) };
        assert_ne!(member.tell(other_life).join, again);
        assert_eq!(member.locations(), []);
    }

    #[test]
    fn names_are_told_as_applied_and_a_batch_that_changes_anything_is_refused() {
        let mut member = Member::new();
        let path = CellPath::parse("/f").expect("a path");
        let ShadowWord::Stat(stat) = member.ask(Stat { path: path.clone() }) else { panic!() };
        assert_eq!(stat.entry.id, FILE);
        let look = BatchEntry::Stat(Stat { path });
        let mut batch = Batch { entries: vec![look] };
        let ShadowWord::Batch(answer) = member.ask(batch.clone()) else { panic!() };
        assert_eq!(answer.results.len(), 1);
        batch.entries.push(BatchEntry::Delete(Delete::default()));
        let ShadowWord::Failed(failure) = member.ask(batch) else { panic!("SM1") };
        assert_eq!(failure.code, ErrorCode::NotPrimaryMaster);
    }

    #[test]
    fn a_server_of_another_cell_is_not_heard() {
        let mut member = Member::new();
        let other = TellShadow { cell: CellId::new(6), ..word_of(1, JoinId::default()) };
        let refused = member.shadow.told(Member::now(6), &member.state, &other);
        assert_eq!(refused.map_err(|failure| failure.code), Err(ErrorCode::WrongCell));
    }

    /// A stream of as many bytes as are committed by it.
    fn stream(member: &mut Member) {
        use crate::stream_records::{AllocateChunk, OpenProducerRecord};
        let id = EntryId::new(101);
        member.apply(crate::record::RaiseLevel { level: 9, ..Default::default() });
        let (parent, name, layout) = (ROOT, "s".to_owned(), cairn_types::Layout::Stream);
        let named = |number| cairn_types::MutationName {
            session: cairn_types::SessionId::new(9),
            number: cairn_types::MutationNumber::new(number),
        };
        let (mutation, replication) = (named(1), 3);
        member.apply(AddFile {
            mutation,
            parent,
            name,
            id,
            replication,
            layout,
            ..AddFile::default()
        });
        let (producer, epoch) = (cairn_types::ProducerId::new(5), cairn_types::Epoch::new(6));
        let name = "p".to_owned();
        let mutation = named(2);
        member.apply(OpenProducerRecord {
            mutation,
            file: id,
            name,
            producer,
            epoch,
            ..Default::default()
        });
        let (version, set_size, floor) = (ChunkVersion::of(Term::new(1), 1), 2, handle());
        let chunk = AllocateChunk {
            file: id,
            handle: handle(),
            version,
            set_size,
            floor,
            ..Default::default()
        };
        member.apply(AllocateChunk { producer, epoch, ..chunk });
    }

    fn commit(member: &mut Member, number: u64) -> Vec<(Caller, ShadowWord)> {
        use crate::stream_records::{CommitBundlesRecord, CommittedBundle};
        let file = EntryId::new(101);
        let (producer, epoch) = (cairn_types::ProducerId::new(5), cairn_types::Epoch::new(6));
        let bundle = CommittedBundle {
            first: cairn_types::RecordNumber::new(number),
            count: 1,
            handle: handle(),
            offset: 10 * (number - 1),
            size: 10,
            serial: cairn_types::SerialNumber::new(number),
            ..CommittedBundle::default()
        };
        let bundles = vec![bundle];
        member.apply(CommitBundlesRecord { file, producer, epoch, bundles, ..Default::default() });
        member.shadow.grown(&member.state, file)
    }

    #[test]
    fn a_follower_waits_at_a_shadow_until_the_log_has_come_to_it_and_one_that_is_ahead_is_told_so()
    {
        let mut member = Member::new();
        stream(&mut member);
        assert!(commit(&mut member, 1).is_empty(), "nobody waits");
        let (file, patience_ms) = (EntryId::new(101), 500);
        let caller = Caller { request: RequestId(7), ..Caller::default() };
        let now = Member::now(member.millis);
        let ask = |member: &mut Member, question: ShadowQuestion| {
            let of = (&member.state, Term::new(1));
            member.shadow.answer(now, of, (&Arc::default(), caller, &question))
        };
        let wait =
            |length, seen| ShadowQuestion::from(WaitLength { file, length, patience_ms, seen });
        let seen = member.state.applied();
        let told = ask(&mut member, wait(5, seen));
        let Some(ShadowWord::WaitLength(told)) = told else { panic!("{told:?}") };
        assert_eq!((told.length, told.log), (10, seen));
        // R44: what this reader has seen elsewhere is not here yet.
        for question in [
            wait(5, seen.next()),
            ReadExtents { file, seen: seen.next(), ..Default::default() }.into(),
        ] {
            let told = ask(&mut member, question);
            let Some(ShadowWord::Failed(why)) = told else { panic!("{told:?}") };
            assert_eq!(why.code, ErrorCode::Busy, "{why}");
        }
        assert_eq!(ask(&mut member, wait(10, seen)), None, "it waits");
        let told = commit(&mut member, 2);
        let [(_, ShadowWord::WaitLength(longer))] = told.as_slice() else { panic!("{told:?}") };
        assert_eq!((longer.length, longer.log), (20, member.state.applied()));
        assert_eq!(ask(&mut member, wait(20, seen)), None);
        let later = Member::now(member.millis + 500);
        let told = member.shadow.over(later, &member.state);
        let [(_, ShadowWord::WaitLength(same))] = told.as_slice() else { panic!("{told:?}") };
        assert_eq!(same.length, 20, "its time is over");
        let read = ReadExtents { file, seen, ..ReadExtents::default() };
        let Some(ShadowWord::ReadExtents(told)) = ask(&mut member, read.into()) else { panic!() };
        assert_eq!((told.extents.len(), told.entry.length), (1, 20));
    }
}
