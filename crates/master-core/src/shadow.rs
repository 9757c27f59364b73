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

use crate::fleet::Fleet;
use crate::frozen_trees::FrozenTrees;
use crate::leases::Leases;
use crate::permissions::Asker;
use crate::reads;
use crate::state::State;
use crate::this_term::ThisTerm;
use crate::troubles::Troubles;
use crate::underway::Underway;
use crate::view::View;
use cairn_env::Now;
use cairn_protocol::{
    BATCH_LOCATIONS_SIZE_MAX, Batch, BatchAnswer, BatchEntry, BatchResult, CellInfoAnswer,
    ErrorCode, Failure, Join, Open, ShadowQuestion, ShadowWord, Stat, TellShadow, TellShadowAnswer,
};
use cairn_types::{Identity, JoinId, Term, Time};
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
        let passed = now.time;
        Self { fleet, term, last_join, passed, leases, troubles, underway, frozen }
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
        // All that are damaged are named each time: what is held and not named is not, any more.
        for report in reports.iter().filter(|report| !tell.damaged.contains(&report.handle)) {
            let known = self.fleet.locations().get(report.handle, server);
            if known.is_some_and(|replica| replica.damaged) {
                self.fleet.mark_sound(report.handle, server);
            }
        }
        tell.damaged.iter().for_each(|handle| self.fleet.mark_damaged(*handle, server));
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
    #[must_use]
    pub fn answer(
        &mut self,
        now: Now,
        (state, term): (&State, Term),
        (who, question): (&Arc<Identity>, &ShadowQuestion),
    ) -> ShadowWord {
        self.fleet.wake(now.time);
        let asker = Asker { state, who };
        if let Err(denied) = asker.check_question(question) {
            return ShadowWord::Failed(denied);
        }
        let view = self.view(now, state);
        let answer = match question {
            ShadowQuestion::CellInfo(_) => {
                let (cell, config) = (state.cell(), state.config().clone());
                Ok(ShadowWord::CellInfo(CellInfoAnswer { cell, config, term }))
            }
            ShadowQuestion::Stat(stat) => reads::stat(&view, stat).map(ShadowWord::Stat),
            ShadowQuestion::Open(open) => reads::open(&view, open).map(ShadowWord::Open),
            ShadowQuestion::Locate(wish) => reads::locate(&view, wish).map(ShadowWord::Locate),
            ShadowQuestion::List(list) => reads::list(state, list).map(ShadowWord::List),
            ShadowQuestion::Find(find) => crate::find::find(asker, find).map(ShadowWord::Find),
            ShadowQuestion::Batch(batch) => looks(&view, asker, batch).map(ShadowWord::Batch),
        };
        answer.unwrap_or_else(ShadowWord::Failed)
    }
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
    let stats: Vec<&Stat> = batch.entries.iter().filter_map(BatchEntry::as_stat).collect();
    let opens: Vec<&Open> = batch.entries.iter().filter_map(BatchEntry::as_open).collect();
    let mut looked = reads::look_each(view, &stats).into_iter();
    let mut opened = reads::open_each(view, &opens, BATCH_LOCATIONS_SIZE_MAX).into_iter();
    let result = |entry: &BatchEntry| {
        if entry.as_stat().is_some() {
            let looked = looked.next().expect("each was looked at above");
            let looked = asker.check_look(entry).and(looked);
            return looked.map_or_else(BatchResult::failed, BatchResult::Stat);
        }
        let opened = opened.next().expect("each was opened above");
        let opened = asker.check_look(entry).and(opened);
        opened.map_or_else(BatchResult::failed, BatchResult::Open)
    };
    let results = batch.entries.iter().map(result).collect();
    assert!(looked.next().is_none(), "what was looked at is some entry's");
    assert!(opened.next().is_none(), "what was opened is some entry's");
    Ok(BatchAnswer { results })
}

#[cfg(test)]
mod tests {
    use super::ShadowCore;
    use crate::record::{AddFile, FoundCell, OpenChunk, Record};
    use crate::state::{ROOT, State};
    use cairn_env::Now;
    use cairn_protocol::{
        Batch, BatchEntry, ChunkLocations, Delete, ErrorCode, Locate, ReplicaReport, ReportSlice,
        ShadowQuestion, ShadowWord, Stat, TellShadow, TellShadowAnswer,
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
            let of = (&self.state, Term::new(1));
            self.shadow.answer(Self::now(self.millis), of, (&Arc::default(), &question.into()))
        }

        fn locations(&mut self) -> Vec<ServerId> {
            let locate = Locate { file: FILE, first: ChunkIndex::default(), count: 1 };
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
}
