//! A group over a small network and small disks: messages that are late or lost, disks that forget
//! what was not synced, members that start anew.
//!
//! - Oracles of its own: one primary in a term; what one member has applied, no other has applied
//!   otherwise; nobody relies on its leadership when another has been elected.

use crate::{Beginning, CommittedRecord, Consensus, ELECTION_TICKS, LogBatch, StoredRecord, TICK};
use bytes::Bytes;
use cairn_format::GroupMark;
use cairn_protocol::{ConsensusKind, ConsensusMessage};
use cairn_types::wire::Message;
use cairn_types::{
    Address, LogIndex, Member, MemberChange, MemberStanding, Members, MembersChange, Random,
    ServerId, Term, Time,
};
use std::collections::BTreeMap;
use std::time::Duration;

const ME: ServerId = ServerId::new(7);

/// What a member's disk has for certain.
#[derive(Clone, Debug, Default)]
struct Disk {
    mark: Option<GroupMark>,
    records: BTreeMap<LogIndex, StoredRecord>,
    /// The checkpoint that was taken over last.
    taken_over: (LogIndex, Term),
}

impl Disk {
    fn write(&mut self, batch: LogBatch) {
        for (index, bytes) in batch.records {
            if index == LogIndex::default() {
                self.mark = Some(GroupMark::decode(&bytes).expect("a mark"));
                continue;
            }
            drop(self.records.split_off(&index));
            self.records.insert(index, StoredRecord::decode(&bytes).expect("a record"));
        }
    }

    /// How a member starts from it: with the whole log, or from what is certainly committed.
    fn beginning(
        &self,
        (me, seed): (ServerId, u64),
        from_state: bool,
        checkpointed: LogIndex,
    ) -> Beginning {
        let committed = self.mark.as_ref().map_or(LogIndex::default(), |mark| mark.committed);
        let base = if checkpointed <= committed { checkpointed } else { LogIndex::default() };
        let base = base.max(self.taken_over.0);
        let applied = if from_state { committed.max(base) } else { base };
        let term_of = |index: LogIndex| {
            let there = self.records.get(&index).map(|stored| stored.term);
            let at_base = (index == self.taken_over.0).then_some(self.taken_over.1);
            there.or(at_base).unwrap_or_default()
        };
        let (term, base) = (term_of(applied), (base, term_of(base)));
        let records = self.records.range(base.0.next()..);
        Beginning {
            me,
            seed,
            mark: self.mark.clone(),
            applied: (applied, term),
            base,
            records: records.map(|(index, it)| (*index, it.clone())).collect(),
            past: Term::default(),
        }
    }
}

struct Machine {
    id: ServerId,
    disk: Disk,
    member: Option<Consensus>,
    /// With the disk, and when that is done.
    syncing: Option<(Time, LogBatch)>,
    applied: LogIndex,
    next_tick: Time,
}

struct World {
    now: Time,
    random: Random,
    machines: Vec<Machine>,
    messages: Vec<(Time, ConsensusMessage)>,
    /// Of a thousand messages, how many are lost.
    lost_permille: u64,
    latency_ms: u64,
    sync_ms: u64,
    cut: Vec<(ServerId, ServerId)>,
    primaries: BTreeMap<Term, ServerId>,
    applied: BTreeMap<LogIndex, CommittedRecord>,
    proposed: u64,
    /// Every machine that has it keeps a checkpoint as of this record.
    checkpointed: LogIndex,
    taken_over: u64,
}

fn members(voters: u64, learners: u64) -> Members {
    let member = |id: u64| Member {
        id: ServerId::new(id),
        address: Address::new(format!("m{id}")),
        standing: if id <= voters { MemberStanding::Voter } else { MemberStanding::Learner },
    };
    Members { all: (1..=voters + learners).map(member).collect(), ..Members::default() }
}

impl World {
    fn new(seed: u64, voters: u64, learners: u64) -> Self {
        let members = members(voters, learners);
        let machine = |member: &Member| {
            let mark = GroupMark { members: members.clone(), ..GroupMark::default() };
            let disk = Disk { mark: Some(mark), ..Disk::default() };
            let (applied, next_tick) = (LogIndex::default(), Time::default());
            Machine { id: member.id, disk, member: None, syncing: None, applied, next_tick }
        };
        let machines = members.all.iter().map(machine).collect();
        let mut world = Self {
            now: Time::default(),
            random: Random::new(seed),
            machines,
            messages: Vec::new(),
            lost_permille: 0,
            latency_ms: 3,
            sync_ms: 5,
            cut: Vec::new(),
            primaries: BTreeMap::new(),
            applied: BTreeMap::new(),
            proposed: 0,
            checkpointed: LogIndex::default(),
            taken_over: 0,
        };
        for at in 0..world.machines.len() {
            world.start(at);
        }
        world
    }

    fn span(&mut self, max_ms: u64) -> Duration {
        Duration::from_micros(1 + self.random.below(1000 * max_ms.max(1)))
    }

    fn start(&mut self, at: usize) {
        let (seed, from_state) = (self.random.next_u64(), self.random.chance(500));
        let first_tick = self.span(100);
        let id = self.machines[at].id;
        if let Some(mark) = &self.machines[at].disk.mark
            && mark.members.get(id).is_none()
        {
            // It was taken out, and may have been taken in again: who does that tells it.
            let known = self.machines.iter().filter_map(|it| it.member.as_ref());
            let newest = known.map(Consensus::members).max_by_key(|members| members.as_of);
            let members = newest.cloned().unwrap_or_default();
            let is_in = members.get(id).is_some();
            let mark = self.machines[at].disk.mark.as_mut().filter(|_| is_in);
            let Some(mark) = mark else { return };
            mark.members = members;
        }
        let machine = &mut self.machines[at];
        // Recovery replays what the mark says is committed; one that is alone begins its term at
        // once, and must have applied what made it so.
        let mark = machine.disk.mark.as_ref();
        let from_state = from_state || mark.is_some_and(|it| it.members.is_alone(id));
        let from = machine.disk.beginning((machine.id, seed), from_state, self.checkpointed);
        machine.applied = from.applied.0;
        let (index, term) = from.base;
        let mut member = Consensus::start(from).expect("starts");
        if index > LogIndex::default() {
            member.has_checkpoint(index, term);
        }
        machine.member = Some(member);
        machine.next_tick = self.now + first_tick;
    }

    /// The machine goes; what was with the disk is on it, or in part, or not.
    fn crash(&mut self, at: usize) {
        let survives = self.random.chance(300);
        let machine = &mut self.machines[at];
        machine.member = None;
        if let Some((_, mut batch)) = machine.syncing.take()
            && survives
        {
            let kept = self.random.below(batch.records.len() as u64 + 1);
            batch.records.truncate(usize::try_from(kept).expect("small"));
            machine.disk.write(batch);
        }
    }

    fn primary(&self) -> Option<usize> {
        self.machines.iter().position(|machine| {
            let member = machine.member.as_ref();
            member.is_some_and(|member| member.is_confirmed(self.now, 0))
        })
    }

    fn propose(&mut self, at: usize) {
        self.proposed += 1;
        let record = format!("record {}", self.proposed).into_bytes();
        if let Some(member) = &mut self.machines[at].member {
            // Who is no primary says so.
            let _ = member.propose(record);
        }
    }

    /// Does all that a machine has to do now.
    fn settle(&mut self, at: usize) {
        let done_at = self.now + self.span(self.sync_ms);
        let machine = &mut self.machines[at];
        let Some(member) = &mut machine.member else { return };
        if let Some(offer) = member.take_offer().filter(|it| it.checkpoint.index > machine.applied)
        {
            let at = (offer.checkpoint.index, offer.checkpoint.term);
            if member.take_over(self.now, offer).expect("takes over") {
                (machine.disk.taken_over, machine.applied) = (at, at.0);
                self.taken_over += 1;
            }
        }
        for record in member.committed().expect("hands out") {
            assert_eq!(record.index, machine.applied.next(), "Q3");
            machine.applied = record.index;
            let known = self.applied.entry(record.index).or_insert_with(|| record.clone());
            assert_eq!(*known, record, "all apply the same");
            assert!(machine.disk.records.contains_key(&record.index), "Q2");
        }
        if machine.syncing.is_none()
            && let Some(batch) = member.take().expect("takes")
        {
            machine.syncing = Some((done_at, batch));
        }
        if let Some((term, _)) = member.leads() {
            let primary = self.primaries.entry(term).or_insert(machine.id);
            assert_eq!(*primary, machine.id, "one primary in term {term}");
        }
        for message in member.messages() {
            let is_cut = self.cut.contains(&(message.from, message.to));
            if !is_cut && !self.random.chance(self.lost_permille) {
                let at = self.now + self.span(self.latency_ms);
                self.messages.push((at, message));
            }
        }
        self.check_leadership();
    }

    /// Nobody relies on leadership that another may have taken over (R21).
    fn check_leadership(&self) {
        let leads = |machine: &Machine| machine.member.as_ref().and_then(Consensus::leads);
        let newest = self.machines.iter().filter_map(leads).map(|(term, _)| term).max();
        for machine in &self.machines {
            let Some(member) = &machine.member else { continue };
            if member.is_confirmed(self.now, 0) {
                assert_eq!(Some(member.term()), newest, "R21: {} at {:?}", machine.id, self.now);
            }
        }
    }

    fn next_time(&self) -> Time {
        let live = self.machines.iter().filter(|machine| machine.member.is_some());
        let ticks = live.map(|machine| machine.next_tick);
        let syncs = self.machines.iter().filter_map(|it| it.syncing.as_ref().map(|s| s.0));
        let messages = self.messages.iter().map(|(at, _)| *at);
        ticks.chain(syncs).chain(messages).min().unwrap_or(self.now + TICK)
    }

    fn step(&mut self) {
        self.now = self.now.max(self.next_time());
        let now = self.now;
        if let Some(due) = self.messages.iter().position(|(at, _)| *at <= now) {
            let (_, message) = self.messages.swap_remove(due);
            let to = self.machines.iter().position(|machine| machine.id == message.to);
            // Who is to be a member and is not started yet.
            let Some(to) = to else { return };
            if let Some(member) = &mut self.machines[to].member {
                member.receive(now, message).expect("takes");
            }
            return self.settle(to);
        }
        for at in 0..self.machines.len() {
            let machine = &mut self.machines[at];
            let Some(member) = &mut machine.member else { continue };
            if let Some((_, batch)) = machine.syncing.take_if(|(done, _)| *done <= now) {
                let number = batch.number;
                machine.disk.write(batch);
                member.durable(now, number).expect("goes on");
            }
            if machine.next_tick <= now {
                machine.next_tick = now + TICK;
                member.tick(now).expect("ticks");
            }
            self.settle(at);
        }
    }

    fn run(&mut self, span: Duration, mut each: impl FnMut(&mut Self)) {
        let end = self.now + span;
        while self.now < end {
            each(self);
            self.step();
        }
    }

    /// One of the things that go wrong, now and then.
    fn suffer(&mut self, trouble: &mut Random) {
        if trouble.chance(20) {
            (0..self.machines.len()).for_each(|at| self.propose(at));
        }
        let count = self.machines.len() as u64;
        let at = usize::try_from(trouble.below(count)).expect("small");
        match trouble.below(4_000) {
            0..4 if self.machines[at].member.is_some() => self.crash(at),
            4..14 if self.machines[at].member.is_none() => self.start(at),
            14..17 => {
                let (a, b) = (1 + trouble.below(count), 1 + trouble.below(count));
                self.cut.push((ServerId::new(a), ServerId::new(b)));
            }
            17..22 => self.cut.clear(),
            22 => {
                if let Some(member) = &mut self.machines[at].member {
                    // Who is no primary has nothing to hand over.
                    let _ = member.hand_over(&[]);
                }
            }
            // From now on whoever is started lets go of what is before it.
            23..26 => {
                let applied = self.machines.iter().map(|machine| machine.applied).max();
                self.checkpointed = applied.unwrap_or_default();
            }
            _ => {}
        }
    }

    /// Lets time pass until all have applied so much.
    fn until_all_applied(&mut self, index: LogIndex) {
        let end = self.now + Duration::from_secs(20);
        while self.machines.iter().any(|machine| machine.applied < index) {
            assert!(self.now < end, "all get all records in the end");
            self.step();
        }
    }

    fn elect(&mut self) -> usize {
        let end = self.now + Duration::from_secs(10);
        while self.primary().is_none() {
            assert!(self.now < end, "somebody is elected");
            self.step();
        }
        self.primary().expect("seen just now")
    }
}

fn alone(last: (LogIndex, Term)) -> Consensus {
    let from = Beginning { me: ME, applied: last, base: last, ..Beginning::default() };
    Consensus::start(from).expect("starts")
}

const EMPTY: (LogIndex, Term) = (LogIndex::new(0), Term::new(0));

fn drain(group: &mut Consensus) -> Vec<CommittedRecord> {
    while let Some(batch) = group.take().expect("takes") {
        group.durable(Time::default(), batch.number).expect("goes on");
    }
    group.committed().expect("hands out")
}

#[test]
fn a_record_is_committed_when_it_is_durable_and_not_before() {
    let mut group = alone(EMPTY);
    let index = group.propose(b"one".to_vec()).expect("proposes");
    let batch = group.take().expect("takes").expect("a batch");
    assert_eq!(batch.records.last().map(|record| record.0), Some(index));
    assert_eq!(group.committed().expect("hands out"), [], "Q2");
    group.durable(Time::default(), batch.number).expect("goes on");
    let committed = group.committed().expect("hands out");
    assert_eq!(committed.last().map(|c| &c.data[..]), Some(&b"one"[..]));
    assert_eq!(group.take().expect("takes"), None);
}

#[test]
fn what_is_proposed_during_a_flush_goes_with_the_next_one() {
    let mut group = alone(EMPTY);
    let first = group.take().expect("takes").expect("the term's own entry");
    for record in [b"a", b"b", b"c"] {
        group.propose(record.to_vec()).expect("proposes");
    }
    group.durable(Time::default(), first.number).expect("goes on");
    assert_eq!(group.committed().expect("hands out").len(), 1);
    let second = group.take().expect("takes").expect("a batch");
    assert_eq!(second.records.len(), 3);
    group.durable(Time::default(), second.number).expect("goes on");
    let indices: Vec<u64> =
        group.committed().expect("hands out").iter().map(|c| c.index.get()).collect();
    assert_eq!(indices, [2, 3, 4], "Q3");
}

#[test]
fn every_start_of_one_alone_begins_a_new_term_behind_the_last_durable_record() {
    let mut last = EMPTY;
    for term in 1..5 {
        let mut group = alone(last);
        assert_eq!(group.term(), Term::new(term), "Q1");
        assert!(group.is_confirmed(Time::default(), 10), "there is nobody else");
        for _ in 0..50 {
            group.propose(b"x".to_vec()).expect("proposes");
        }
        let committed = drain(&mut group);
        assert_eq!(committed.first().map(|c| c.index), Some(last.0.next()));
        assert_eq!(committed.len(), 51);
        last = committed.last().map(|c| (c.index, c.term)).expect("51 of them");
    }
}

#[test]
fn one_alone_writes_no_mark_and_says_nothing_to_anyone() {
    let mut group = alone(EMPTY);
    group.propose(b"one".to_vec()).expect("proposes");
    let batch = group.take().expect("takes").expect("a batch");
    assert!(batch.records.iter().all(|(index, _)| *index > LogIndex::default()));
    assert!(group.messages().is_empty());
}

#[test]
fn a_history_begins_past_the_term_that_is_lost() {
    let from = Beginning { me: ME, past: Term::new(9), ..Beginning::default() };
    assert_eq!(Consensus::start(from).expect("starts").term(), Term::new(10));
}

#[test]
fn three_elect_one_and_all_apply_its_records() {
    let mut world = World::new(1, 3, 0);
    let primary = world.elect();
    for _ in 0..100 {
        world.propose(primary);
    }
    world.until_all_applied(LogIndex::new(101));
    let records: Vec<Bytes> = world.applied.values().map(|record| record.data.clone()).collect();
    assert_eq!(records[0], Bytes::new(), "the term's own");
    assert_eq!(records[100], Bytes::from_static(b"record 100"));
    let follower = (primary + 1) % 3;
    let member = world.machines[follower].member.as_mut().expect("alive");
    assert!(member.propose(b"x".to_vec()).is_err(), "who is not primary takes nothing");
    assert_eq!(member.primary(), Some(ServerId::new(primary as u64 + 1)));
}

#[test]
fn a_dead_primary_is_replaced_and_what_was_committed_stays() {
    let mut world = World::new(2, 3, 0);
    let first = world.elect();
    for _ in 0..10 {
        world.propose(first);
    }
    world.until_all_applied(LogIndex::new(11));
    world.crash(first);
    let began = world.now;
    let second = world.elect();
    assert_ne!(first, second);
    assert!(world.now.since(began) < Duration::from_secs(2), "{:?}", world.now.since(began));
    world.propose(second);
    world.start(first);
    world.until_all_applied(LogIndex::new(13));
}

/// By a lie, or by who counts on what this member had acknowledged before its disk was set back.
#[test]
fn a_heartbeat_of_more_than_a_member_has_commits_nothing_and_ends_nobody() {
    let mut world = World::new(4, 3, 0);
    let first = world.elect();
    world.propose(first);
    world.until_all_applied(LogIndex::new(2));
    let (from, now) = (world.machines[first].id, world.now);
    let term = world.machines[first].member.as_ref().expect("alive").term();
    let other = world.machines.iter().position(|it| it.id != from).expect("three");
    let to = world.machines[other].id;
    let member = world.machines[other].member.as_mut().expect("alive");
    let heartbeat = ConsensusMessage {
        kind: ConsensusKind::Heartbeat,
        from,
        to,
        term,
        committed: LogIndex::new(u64::MAX),
        ..ConsensusMessage::default()
    };
    member.receive(now, heartbeat).expect("it is taken");
    world.propose(first);
    world.until_all_applied(LogIndex::new(3));
}

#[test]
fn a_primary_that_reaches_nobody_stops_relying_on_it_and_steps_down() {
    let mut world = World::new(3, 3, 0);
    let first = world.elect();
    let id = world.machines[first].id;
    let others = [1, 2, 3].map(ServerId::new).into_iter().filter(|other| *other != id);
    // One way: it hears the others, who do not hear it.
    world.cut = others.map(|other| (id, other)).collect();
    let began = world.now;
    let leadership = TICK * u32::try_from(ELECTION_TICKS).expect("few");
    while world.primary() == Some(first) {
        world.step();
        assert!(world.now.since(began) <= leadership, "R21");
    }
    world.run(Duration::from_secs(4), |_| ());
    let second = world.primary().expect("the others have elected one");
    assert_ne!(second, first);
    let old = world.machines[first].member.as_ref().expect("alive");
    assert_eq!(old.leads(), None, "Q4");
}

#[test]
fn a_primary_that_hears_nobody_and_is_heard_leaves_it_to_another_at_once() {
    for seed in 0..30 {
        let mut world = World::new(seed, 3, 0);
        let first = world.elect();
        world.propose(first);
        world.run(Duration::from_millis(500 + 7 * seed), |_| ());
        let id = world.machines[first].id;
        let others = [1, 2, 3].map(ServerId::new).into_iter().filter(|other| *other != id);
        world.cut = others.map(|other| (other, id)).collect();
        let began = world.now;
        // What it has logged meanwhile nobody has acknowledged.
        world.propose(first);
        while world.primary().is_none_or(|at| at == first) {
            world.step();
            let took = world.now.since(began);
            assert!(took < TICK * 12, "seed {seed}: LD5");
        }
    }
}

#[test]
fn a_learner_gets_every_record_and_decides_nothing() {
    let mut world = World::new(4, 1, 1);
    let primary = world.elect();
    assert_eq!(primary, 0, "a learner is never elected");
    world.propose(primary);
    world.until_all_applied(LogIndex::new(2));
    // Without it the one voter goes on; without the voter it does not.
    world.crash(1);
    world.propose(primary);
    world.run(Duration::from_secs(3), |_| ());
    assert!(world.machines[0].applied >= LogIndex::new(3));
    world.start(1);
    world.until_all_applied(LogIndex::new(3));
    world.crash(0);
    world.run(Duration::from_secs(5), |_| ());
    assert_eq!(world.primary(), None);
}

#[test]
fn who_starts_anew_does_not_vote_while_its_answers_are_relied_upon() {
    for seed in 0..100 {
        let mut world = World::new(seed, 3, 0);
        let first = world.elect();
        let [a, b, c] = [first, (first + 1) % 3, (first + 2) % 3];
        let [id_a, id_b, id_c] = [a, b, c].map(|at| world.machines[at].id);
        // One hears nothing of the primary and stands for election; the other is content.
        world.cut = vec![(id_a, id_b), (id_b, id_a)];
        world.run(Duration::from_millis(2_000 + 13 * seed), |_| ());
        assert_eq!(world.primary(), Some(a), "it has a majority");
        // That one starts anew, has forgotten that it was content, and is asked for its vote.
        world.cut.push((id_a, id_c));
        world.crash(c);
        world.start(c);
        // What another's election would break is looked at after each step (R21).
        world.run(Duration::from_secs(3), |_| ());
        assert!(world.primary().is_some_and(|at| at != a), "they elect another, later");
    }
}

#[test]
fn a_member_that_lacks_what_the_others_have_let_go_takes_over_a_checkpoint() {
    let mut world = World::new(6, 3, 0);
    let primary = world.elect();
    let behind = (primary + 1) % 3;
    world.crash(behind);
    for _ in 0..50 {
        world.propose(primary);
        world.run(Duration::from_millis(50), |_| ());
    }
    // The others keep a checkpoint, start anew, and have nothing before it.
    world.checkpointed = LogIndex::new(40);
    for at in (0..3).filter(|at| *at != behind) {
        world.crash(at);
        world.start(at);
    }
    world.start(behind);
    let now = world.elect();
    world.propose(now);
    world.until_all_applied(LogIndex::new(53));
    assert_eq!(world.taken_over, 1);
    // What it took over outlives it.
    world.crash(behind);
    world.start(behind);
    world.propose(now);
    world.until_all_applied(LogIndex::new(54));
}

#[test]
fn who_hands_over_is_relied_upon_no_more_and_another_is_elected_at_once() {
    let mut world = World::new(5, 3, 0);
    let first = world.elect();
    world.propose(first);
    world.until_all_applied(LogIndex::new(2));
    let began = world.now;
    world.machines[first].member.as_mut().expect("alive").hand_over(&[]).expect("it is primary");
    assert_eq!(world.primary(), None);
    world.settle(first);
    let second = world.elect();
    assert_ne!(second, first);
    assert!(world.now.since(began) < TICK * 2, "nobody's time has to run out");
}

#[test]
fn who_is_avoided_takes_over_only_where_there_is_no_other() {
    for avoided in [&[1_usize][..], &[2], &[1, 2]] {
        let mut world = World::new(11, 3, 3);
        let first = world.elect();
        let ids: Vec<ServerId> =
            avoided.iter().map(|step| world.machines[(first + step) % 3].id).collect();
        let member = world.machines[first].member.as_mut().expect("alive");
        let next = member.hand_over(&ids).expect("it is primary").expect("others vote");
        assert_eq!(ids.contains(&next), ids.len() == 2, "{next} of {ids:?}");
    }
}

#[test]
fn a_hand_over_that_comes_to_nothing_leaves_the_group_a_primary_all_the_same() {
    for seed in 20..30 {
        let mut world = World::new(seed, 3, 0);
        let first = world.elect();
        world.propose(first);
        world.until_all_applied(LogIndex::new(2));
        // Whoever is to take over hears nothing of it, and later nobody does.
        let id = world.machines[first].id;
        world.cut = (1..=3).map(ServerId::new).map(|other| (id, other)).collect();
        world.machines[first]
            .member
            .as_mut()
            .expect("alive")
            .hand_over(&[])
            .expect("it is primary");
        world.settle(first);
        world.run(TICK, |_| ());
        world.cut.clear();
        let began = world.now;
        let next = world.elect();
        assert!(world.now.since(began) < TICK * 40, "nor does it last");
        world.propose(next);
        let last = *world.applied.keys().last().expect("some");
        world.until_all_applied(last.next());
    }
}

impl World {
    /// A machine that is to be a member, as whoever adds it tells it.
    fn add_machine(&mut self, id: u64, members: Members) -> usize {
        let mark = GroupMark { members, ..GroupMark::default() };
        let disk = Disk { mark: Some(mark), ..Disk::default() };
        let (applied, next_tick) = (LogIndex::default(), Time::default());
        let id = ServerId::new(id);
        self.machines.push(Machine { id, disk, member: None, syncing: None, applied, next_tick });
        self.machines.len() - 1
    }

    /// Has whoever is primary take this step, and waits until it is over.
    fn change(&mut self, changes: &[(u64, MemberStanding, bool)]) -> Members {
        let one = |(id, standing, goes): &(u64, MemberStanding, bool)| {
            let (id, address) = (ServerId::new(*id), Address::new(format!("m{id}")));
            MemberChange { member: Member { id, address, standing: *standing }, goes: *goes }
        };
        let change = MembersChange { changes: changes.iter().map(one).collect() };
        let end = self.now + Duration::from_secs(30);
        loop {
            assert!(self.now < end, "a step is over in the end");
            let at = self.elect();
            let member = self.machines[at].member.as_mut().expect("elected");
            let known = member.members();
            let holds = change.changes.iter().all(|it| match known.get(it.member.id) {
                Some(member) => !it.goes && member.standing == it.member.standing,
                None => it.goes,
            });
            if holds && !member.is_changing() {
                return known.clone();
            }
            // Another step is under way, or this one is.
            let _ = member.change_members(&change);
            self.settle(at);
            self.run(Duration::from_millis(100), |_| ());
        }
    }

    /// Lets time pass until a machine has applied so much.
    fn until_applied(&mut self, at: usize, index: LogIndex) {
        let end = self.now + Duration::from_secs(20);
        while self.machines[at].applied < index {
            assert!(self.now < end, "it gets all records in the end");
            self.step();
        }
    }
}

#[test]
fn a_group_of_one_grows_to_three_and_its_first_member_is_replaced() {
    use MemberStanding::{Learner, Voter};
    for seed in 0..6 {
        let mut world = World::new(seed, 1, 0);
        world.machines[0].disk.mark = None;
        world.start(0);
        let first = world.elect();
        for _ in 0..5 {
            world.propose(first);
            world.run(Duration::from_millis(20), |_| ());
        }
        let members = world.change(&[(2, Learner, false), (3, Learner, false)]);
        for id in [2, 3] {
            let at = world.add_machine(id, members.clone());
            world.start(at);
        }
        // What it has become outlives its process.
        world.crash(0);
        world.start(0);
        let now = world.elect();
        world.propose(now);
        let last = *world.applied.keys().last().expect("some");
        world.until_all_applied(last.next());
        world.change(&[(2, Voter, false), (3, Voter, false)]);
        // Any of the three may go now.
        world.crash(0);
        let next = world.elect();
        assert_ne!(next, 0);
        let members = world.change(&[(4, Learner, false)]);
        let fourth = world.add_machine(4, members);
        world.start(fourth);
        world.propose(next);
        world.until_applied(fourth, *world.applied.keys().last().expect("some"));
        let members = world.change(&[(1, Voter, true), (4, Voter, false)]);
        assert_eq!(members.voters_to_be(), [2, 3, 4].map(ServerId::new));
        // Whoever is no member any more comes back, and changes nothing.
        world.start(0);
        let at = world.elect();
        let term = world.machines[at].member.as_ref().expect("alive").term();
        world.run(Duration::from_secs(5), |_| ());
        let at = world.elect();
        assert_eq!(world.machines[at].member.as_ref().expect("alive").term(), term);
        // And back to one.
        let gone: Vec<_> =
            (2..=4).filter(|id| world.machines[at].id != ServerId::new(*id)).collect();
        let members = world.change(&[(gone[0], Voter, true), (gone[1], Voter, true)]);
        assert!(members.is_alone(world.machines[at].id));
        for at in (0..4).filter(|other| *other != at) {
            world.crash(at);
        }
        world.propose(at);
        world.until_applied(at, *world.applied.keys().last().expect("some"));
    }
}

impl World {
    /// Whoever is told that it is out ends, and its disk is given to somebody else.
    fn end_who_is_told(&mut self) {
        let knows = |it: &Consensus| it.remembers_members() && !it.members().joint;
        let remaining = self.machines.iter().filter_map(|machine| {
            let member = machine.member.as_ref().filter(|it| knows(it))?;
            member.members().get(machine.id).map(|_| member.members().clone())
        });
        let Some(told) = remaining.max_by_key(|members| members.as_of) else { return };
        for machine in self.machines.iter_mut().filter(|it| told.get(it.id).is_none()) {
            (machine.member, machine.syncing) = (None, None);
        }
    }

    /// Whether any of the machines knows by its own log that it is out.
    fn somebody_knows_that_it_is_out(&self) -> bool {
        let is_out = |machine: &Machine| {
            let member = machine.member.as_ref();
            member.is_none_or(|it| it.members().get(machine.id).is_none())
        };
        self.machines.iter().any(is_out)
    }
}

/// A group shrinks to one, or its only member is exchanged. Whoever is left loses power at the
/// moment in which the first of those who go knows that it has gone; and whoever was in charge may
/// be one of those.
#[test]
fn who_is_left_alone_needs_nobody_who_was_told_that_it_is_out() {
    use MemberStanding::{Learner, Voter};
    for seed in 0..200 {
        let mut world = World::new(seed, [3, 1][usize::from(seed % 2 == 1)], seed % 2);
        let mut first = world.elect();
        if seed % 2 == 1 {
            world.change(&[(2, Voter, false)]);
            let old = world.machines[first].member.as_mut().expect("elected");
            old.hand_over(&[]).expect("it is primary");
            world.settle(first);
            while world.primary().is_none_or(|at| at == first) {
                world.step();
            }
            first = 1;
        }
        let stays = world.machines[first].id;
        let going: Vec<ServerId> =
            world.machines.iter().map(|it| it.id).filter(|id| *id != stays).collect();
        let changes = going.iter().map(|id| MemberChange {
            member: Member { id: *id, standing: Learner, ..Member::default() },
            goes: true,
        });
        let change = MembersChange { changes: changes.collect() };
        let member = world.machines[first].member.as_mut().expect("elected");
        member.change_members(&change).expect("begins");
        world.settle(first);
        if seed % 4 == 0 {
            // One who is to go is in charge when the step ends.
            world.run(Duration::from_millis(seed / 4), |_| ());
            if let Some(member) = &mut world.machines[first].member {
                let _ = member.hand_over(&[]);
            }
            world.settle(first);
        }
        let end = world.now + Duration::from_secs(20);
        while !world.somebody_knows_that_it_is_out() {
            assert!(world.now < end, "seed {seed}: somebody hears of it");
            world.step();
            world.end_who_is_told();
        }
        (world.machines[first].member, world.machines[first].syncing) = (None, None);
        world.start(first);
        let end = world.now + Duration::from_secs(20);
        while world.primary() != Some(first)
            || world.machines.iter().any(|it| it.id != stays && it.member.is_some())
        {
            assert!(world.now < end, "seed {seed}: it is in charge, and the others are told");
            world.step();
            world.end_who_is_told();
        }
        let it = world.machines[first].member.as_ref().expect("alive");
        assert!(it.is_alone(), "seed {seed}");
    }
}

#[test]
fn after_a_step_leadership_counts_once_the_new_group_has_confirmed_it() {
    let mut world = World::new(7, 3, 1);
    let primary = world.elect();
    let fourth = Member { standing: MemberStanding::Voter, ..members(4, 0).all.remove(3) };
    let change = MembersChange { changes: vec![MemberChange { member: fourth, goes: false }] };
    let member = world.machines[primary].member.as_mut().expect("elected");
    let index = member.change_members(&change).expect("begins");
    world.settle(primary);
    while world.machines[primary].applied < index {
        assert_eq!(world.primary(), Some(primary), "a step on its way takes nothing");
        world.step();
    }
    assert_eq!(world.primary(), None, "LD3");
    assert_eq!(world.elect(), primary);
}

/// Several members come that have no vote: the step has two parts all the same, and between them
/// the process ends.
#[test]
fn who_starts_anew_in_the_middle_of_a_step_ends_it_though_nobodys_vote_changes() {
    let mut group = alone(EMPTY);
    let mut disk = Disk::default();
    let learner =
        |id: u64| MemberChange { member: members(0, id).all.pop().expect("some"), goes: false };
    let change = MembersChange { changes: vec![learner(2), learner(3)] };
    group.change_members(&change).expect("begins");
    let is_end =
        |stored: &StoredRecord| stored.change.as_ref().is_some_and(|it| it.changes.is_empty());
    while !disk.records.values().any(is_end) {
        let batch = group.take().expect("takes").expect("a step gets on by itself");
        let number = batch.number;
        disk.write(batch);
        group.durable(Time::default(), number).expect("goes on");
        group.committed().expect("hands out");
    }
    // Its end is on disk; the members that are remembered are those of its first part.
    let mut world = World::new(1, 1, 0);
    world.machines[0].id = ME;
    world.machines[0].disk = disk;
    world.start(0);
    world.elect();
    world.run(Duration::from_secs(1), |_| ());
    let group = world.machines[0].member.as_ref().expect("alive");
    assert!(!group.is_changing());
    assert_eq!(group.members().all.len(), 3);
}

#[test]
fn members_are_exchanged_in_trouble_and_one_log_is_applied() {
    use MemberStanding::{Learner, Voter};
    let (mut steps, mut applied) = (0, 0);
    for seed in 100..120 {
        let mut world = World::new(seed, 3, 2);
        world.lost_permille = 30;
        (world.latency_ms, world.sync_ms) = (40, 30);
        let mut trouble = Random::new(seed);
        world.run(Duration::from_secs(60), |world| {
            world.suffer(&mut trouble);
            let Some(at) = world.primary().filter(|_| trouble.chance(5)) else { return };
            let member = world.machines[at].member.as_mut().expect("primary");
            let members = member.members().clone();
            let voters = members.voters_to_be();
            let others: Vec<u64> =
                (1..=5).filter(|id| !voters.contains(&ServerId::new(*id))).collect();
            let out = voters[usize::try_from(trouble.below(voters.len() as u64)).expect("small")];
            let Some(into) = others.get(usize::try_from(trouble.below(3)).expect("small")) else {
                return;
            };
            let change = |id: u64, standing, goes| {
                let address = Address::new(format!("m{id}"));
                MemberChange { member: Member { id: ServerId::new(id), address, standing }, goes }
            };
            let changes = match trouble.below(4) {
                0 => vec![change(*into, Learner, false)],
                3 => others.iter().map(|id| change(*id, Learner, false)).collect(),
                1 if voters.len() < 4 => vec![change(*into, Voter, false)],
                _ => vec![change(*into, Voter, false), change(out.get(), Voter, true)],
            };
            steps += u32::from(member.change_members(&MembersChange { changes }).is_ok());
        });
        world.cut.clear();
        world.lost_permille = 0;
        for at in 0..world.machines.len() {
            if world.machines[at].member.is_none() {
                world.start(at);
            }
        }
        // A step that is under way ends, and may take the primary out.
        world.elect();
        world.run(Duration::from_secs(2), |_| ());
        let primary = world.elect();
        world.propose(primary);
        let last = world.applied.keys().last().copied().unwrap_or_default();
        let members = world.machines[primary].member.as_ref().expect("alive").members().clone();
        assert!(!members.joint, "a step ends: {members:?}");
        for member in &members.all {
            let at = world.machines.iter().position(|it| it.id == member.id).expect("known");
            let knows = world.machines[at].member.as_ref().map(Consensus::members);
            if knows.is_none_or(|members| members.get(member.id).is_none()) {
                // Taken out, and in again since.
                world.crash(at);
                world.start(at);
            }
            world.until_applied(at, last.next());
        }
        applied += last.get();
    }
    assert!(steps > 100, "members are exchanged: {steps}");
    assert!(applied > 20 * 50, "they get on in trouble too: {applied}");
}

#[test]
fn a_group_in_trouble_applies_one_log_and_goes_on_when_it_is_over() {
    let (mut applied, mut taken_over) = (0, 0);
    for seed in 0..40 {
        let mut world = World::new(seed, [3, 5][usize::from(seed % 4 == 3)], seed % 2);
        world.lost_permille = 30;
        (world.latency_ms, world.sync_ms) = (40, 30);
        let mut trouble = Random::new(seed);
        world.run(Duration::from_secs(60), |world| world.suffer(&mut trouble));
        world.cut.clear();
        world.lost_permille = 0;
        for at in 0..world.machines.len() {
            if world.machines[at].member.is_none() {
                world.start(at);
            }
        }
        let primary = world.elect();
        world.propose(primary);
        let last = world.applied.keys().last().copied().unwrap_or_default();
        world.until_all_applied(last.next());
        applied += last.get();
        taken_over += world.taken_over;
    }
    assert!(taken_over > 5, "some are given a checkpoint: {taken_over}");
    assert!(applied > 40 * 50, "they get on in trouble too: {applied}");
}
