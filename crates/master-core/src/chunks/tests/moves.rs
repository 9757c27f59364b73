//! Servers are emptied and filled, and replicas too many go (A21): what is copied, who is left out
//! and when, and that nothing is before enough others are sound.

use super::{FILE, World, held, lease, members, report, server};
use crate::record::{OpenChunk, Record, SetVersion};
use cairn_env::EffectId;
use cairn_protocol::{
    Balance, CancelJob, ChunkGrant, CloneChunk, CloneChunkAnswer, Drain, ErrorCode, Garbage,
    Heartbeat, JobKind, JobState, JobStatus, LeasePurpose, LeftOut, ReplicaReport, Request,
    Response, RevokeLeaseAnswer, ServerDuty,
};
use cairn_types::{ChunkHandle, ChunkIndex, ChunkVersion, Incarnation, Term};
use std::collections::{BTreeMap, BTreeSet};

impl World {
    /// A chunk that nobody leases; everybody has told.
    pub(super) fn settled(servers: u64) -> (Self, ChunkGrant, Vec<u64>) {
        let mut world = Self::new(servers);
        let grant = world.first_chunk();
        let all: Vec<u64> = (1..=servers).collect();
        world.pass(3000, &all);
        for id in members(&grant) {
            world.beat(id, vec![report(&grant)], vec![]);
        }
        world.pass(500, &all);
        (world, grant, all)
    }

    pub(super) fn drain(&mut self, id: u64) {
        self.request(7, Drain { server: server(id), dry_run: false });
        self.commit();
        assert!(matches!(self.reply(7), Some(Ok(Response::Drain(_)))));
    }

    pub(super) fn jobs(&self, kind: JobKind) -> Vec<JobStatus> {
        let jobs = self.chunks.jobs(self.moment(), &self.state);
        jobs.filter(|job| job.kind == kind).collect()
    }

    pub(super) fn warnings(&self) -> Vec<String> {
        self.chunks.warnings(&self.chunks.view(self.moment(), &self.state))
    }

    pub(super) fn duty(&self, id: u64) -> ServerDuty {
        let view = self.chunks.view(self.moment(), &self.state);
        let all = self.chunks.servers(&view).servers;
        all.iter().find(|it| it.at.server == server(id)).expect("it is known").duty
    }

    pub(super) fn orders(&mut self) -> Vec<(EffectId, CloneChunk)> {
        let (clones, others) = std::mem::take(&mut self.sent)
            .into_iter()
            .partition(|sent| matches!(sent.request, Request::CloneChunk(_)));
        self.sent = others;
        let clone = |sent: super::Sent| match sent.request {
            Request::CloneChunk(clone) => (sent.id, clone),
            _ => unreachable!("they were looked for"),
        };
        Vec::into_iter(clones).map(clone).collect()
    }

    /// Whatever is ordered to be copied is, and joins; tells to whom.
    pub(super) fn copy_all(&mut self) -> Vec<u64> {
        let mut to = Vec::new();
        loop {
            let orders = self.orders();
            if orders.is_empty() {
                to.dedup();
                return to;
            }
            for (id, order) in orders {
                to.push(order.server.get());
                self.answer(id, Ok(Response::CloneChunk(CloneChunkAnswer::default())));
            }
            self.accept_raises(&[]);
            self.commit();
        }
    }

    pub(super) fn sets(&mut self) -> Vec<SetVersion> {
        let set = |record| match record {
            Record::SetVersion(set) => Some(set),
            _ => None,
        };
        self.commit().into_iter().filter_map(set).collect()
    }

    /// A server tells of what it has, in an older version than the set's.
    pub(super) fn tell_stale(&mut self, id: u64, grant: &ChunkGrant) -> Vec<Garbage> {
        self.beat(id, vec![report(grant)], vec![]).garbage
    }
}

pub(super) fn asked(raises: &[(EffectId, u64, cairn_protocol::Raise)]) -> Vec<u64> {
    let mut asked: Vec<u64> = raises.iter().map(|it| it.1).collect();
    asked.sort_unstable();
    asked
}

#[test]
fn a_server_is_emptied_by_copies_and_by_leaving_it_out_once_they_have_joined() {
    let (mut world, grant, all) = World::settled(4);
    let gone = members(&grant)[0];
    world.drain(gone);
    world.pass(500, &all);
    assert_eq!((world.duty(gone), world.jobs(JobKind::Drain)[0].total), (ServerDuty::Draining, 1));
    assert!(world.raises().is_empty(), "nothing is left out before there are enough others");
    let fourth = world.copy_all();
    assert!(fourth.len() == 1 && !members(&grant).contains(&fourth[0]), "{fourth:?}");
    assert_eq!(world.state.chunk(grant.handle).expect("it is there").set_size, 4);
    world.pass(250, &all);
    let raises = world.raises();
    let others: Vec<u64> = all.iter().copied().filter(|id| *id != gone).collect();
    assert_eq!(asked(&raises), others, "all but the one that is to go");
    assert!(raises.iter().all(|(.., raise)| raise.sync), "with all they have on disk (E2)");
    for (id, _, raise) in &raises {
        world.accept(*id, raise, ReplicaReport::default());
    }
    assert_ne!(world.duty(gone), ServerDuty::Drained, "not before it is logged and gone");
    let sets = world.sets();
    assert_eq!((sets.len(), sets[0].set_size), (1, 3));
    let left_out = LeftOut { handle: grant.handle, version: sets[0].version };
    assert!(world.beat(gone, vec![], vec![]).left_out.contains(&left_out), "it is told so");
    assert_eq!(world.tell_stale(gone, &grant).len(), 1, "and it goes as garbage");
    world.pass(1000, &all);
    assert_eq!(world.duty(gone), ServerDuty::Drained);
    let job = &world.jobs(JobKind::Drain)[0];
    assert_eq!((job.state, job.note.as_str()), (JobState::Done, "it may be switched off"));
    // New chunks go elsewhere.
    world.request(8, lease(LeasePurpose::Append, 1));
    world.pass(250, &all);
    assert!(world.raises().iter().all(|(_, to, _)| *to != gone));
    // It stays so after a restart, and no longer when a person says so.
    let mut world = world.restarted(2);
    world.join(gone, vec![], vec![]);
    world.pass(1500, &[gone]);
    assert_eq!(world.duty(gone), ServerDuty::Drained);
    let id = world.jobs(JobKind::Drain)[0].id.clone();
    world.request(9, CancelJob { id });
    world.commit();
    assert!(matches!(world.reply(9), Some(Ok(Response::CancelJob(_)))));
    assert_eq!((world.duty(gone), world.jobs(JobKind::Drain)), (ServerDuty::Serving, vec![]));
}

#[test]
fn a_server_without_enough_others_keeps_what_it_has_and_says_why() {
    let (mut world, grant, all) = World::settled(3);
    world.drain(1);
    world.pass(2000, &all);
    assert!(world.raises().is_empty() && world.orders().is_empty());
    let warnings = world.warnings();
    assert!(warnings.len() == 1 && warnings[0].starts_with("DRAIN_BLOCKED: s1:1"), "{warnings:?}");
    let job = &world.jobs(JobKind::Drain)[0];
    assert_eq!((job.state, job.left_ms), (JobState::Waiting, None));
    assert!(job.note.contains("2 other servers"), "{}", job.note);
    assert_eq!(world.state.chunk(grant.handle).expect("it is there").set_size, 3);
    // One more, and it can go on.
    world.join(4, vec![], vec![]);
    world.pass(500, &[1, 2, 3, 4]);
    assert_eq!(world.copy_all(), [4]);
    assert_eq!(world.warnings(), Vec::<String>::new());
}

#[test]
fn where_one_of_the_others_does_not_answer_the_set_stays_as_it_is() {
    let (mut world, grant, all) = World::settled(4);
    let gone = members(&grant)[0];
    world.drain(gone);
    world.pass(500, &all);
    world.copy_all();
    world.pass(250, &all);
    let other = members(&grant)[1];
    world.accept_raises(&[other]);
    assert!(world.sets().is_empty(), "two of a goal of three are not enough (R11)");
    assert!(world.raises().is_empty(), "it is tried again later");
    world.pass(2000, &all);
    assert!(!world.raises().is_empty());
}

#[test]
fn a_lease_in_use_is_left_alone_for_a_while_and_then_asked_back_once() {
    let mut world = World::new(4);
    let grant = world.first_chunk();
    let all = [1, 2, 3, 4];
    world.drain(members(&grant)[0]);
    let is_revoke = |sent: &super::Sent| matches!(sent.request, Request::RevokeLease(_));
    // The copy is made under the lease, which is asked back when it joins.
    world.beat(grant.primary.server.get(), vec![report(&grant)], vec![held(&grant)]);
    world.pass(250, &all);
    let (id, _) = world.orders().pop().expect("it is copied under the lease");
    world.answer(id, Ok(Response::CloneChunk(CloneChunkAnswer::default())));
    let revoke = world.sent.iter().position(is_revoke).expect("to join it");
    let id = world.sent.remove(revoke).id;
    let given_back = RevokeLeaseAnswer { replica: report(&grant) };
    world.answer(id, Ok(Response::RevokeLease(given_back)));
    world.copy_all();
    // Somebody gets the next one at once.
    world.request(5, lease(LeasePurpose::Write, 0));
    world.accept_raises(&[]);
    world.commit();
    world.accept_grant();
    let grant = world.granted(5);
    let lease_ms = world.state.config().lease_ms;
    let use_it = |world: &mut World, millis: u64| {
        for _ in 0..millis / 250 {
            world.beat(grant.primary.server.get(), vec![], vec![held(&grant)]);
            world.pass(250, &all);
        }
    };
    use_it(&mut world, 2 * lease_ms);
    assert!(!world.sent.iter().any(is_revoke), "clients go first");
    use_it(&mut world, 3 * lease_ms);
    assert_eq!(world.sent.iter().filter(|sent| is_revoke(sent)).count(), 1);
}

#[test]
fn a_dry_run_changes_nothing_and_what_nobody_knows_is_not_drained() {
    let (mut world, grant, all) = World::settled(4);
    let id = members(&grant)[0];
    world.request(7, Drain { server: server(id), dry_run: true });
    let Some(Ok(Response::Drain(plan))) = world.reply(7) else { panic!("it is told at once") };
    assert_eq!((plan.chunk_count, plan.blocked.as_str()), (1, ""));
    world.request(7, Drain { server: server(77), dry_run: false });
    assert_eq!(world.code(7), Some(ErrorCode::NotFound));
    world.request(7, Balance { threshold_permille: 100, dry_run: true });
    assert!(matches!(world.reply(7), Some(Ok(Response::Balance(_)))));
    world.request(7, Balance { threshold_permille: 0, dry_run: true });
    assert_eq!(world.code(7), Some(ErrorCode::Invalid));
    world.request(7, CancelJob { id: "repair".into() });
    assert_eq!(world.code(7), Some(ErrorCode::NotFound));
    assert!(world.proposed.is_empty(), "nothing is logged");
    world.pass(1000, &all);
    assert_eq!((world.duty(id), world.orders().len()), (ServerDuty::Serving, 0));
}

/// Each of these servers tells how much it stores.
pub(super) fn tell_stored(world: &mut World, stored: &[(u64, u64)]) {
    for (id, stored) in stored.iter().copied() {
        let (capacity, incarnation) = (1 << 40, Incarnation::new(id * 10));
        let server = server(id);
        let beat = Heartbeat { server, incarnation, stored, capacity, ..Heartbeat::default() };
        world.request(901, beat);
        assert!(matches!(world.reply(901), Some(Ok(_))));
    }
}

/// Its members tell of a chunk that is full.
fn tell_full(world: &mut World, grant: &ChunkGrant) {
    let length = world.state.config().chunk_size;
    for id in members(grant) {
        world.beat(id, vec![ReplicaReport { length, ..report(grant) }], vec![]);
    }
}

#[test]
fn a_chunk_without_bytes_is_moved_for_nobody_and_the_balance_is_over() {
    let (mut world, grant, _) = World::settled(4);
    let empty = (1..=4).find(|id| !members(&grant).contains(id)).expect("one of four");
    let chunk = world.state.config().chunk_size;
    let stored: Vec<(u64, u64)> =
        (1..=4).map(|id| (id, if id == empty { 0 } else { 30 * chunk })).collect();
    world.request(7, Balance { threshold_permille: 100, dry_run: false });
    world.commit();
    for _ in 0..12 {
        tell_stored(&mut world, &stored);
        world.millis += 250;
        world.wake_up();
        assert_eq!(world.orders().len(), 0, "nobody would be nearer to its share");
    }
    world.commit();
    assert_eq!(world.jobs(JobKind::Balance), []);
}

/// Healing seed 88.
#[test]
fn a_balance_that_is_ordered_while_the_end_of_the_last_is_logged_comes_to_an_end_too() {
    let (mut world, grant, _) = World::settled(3);
    tell_full(&mut world, &grant);
    let chunk = world.state.config().chunk_size;
    let stored = [(1, 10 * chunk), (2, 40 * chunk), (3, 40 * chunk)];
    let order = Balance { threshold_permille: 50, dry_run: false };
    let pass_until_it_ends = |world: &mut World| {
        for _ in 0..20 {
            tell_stored(world, &stored);
            world.millis += 250;
            world.wake_up();
            if !world.proposed.is_empty() {
                return;
            }
        }
        panic!("every server has every chunk, and the balance goes on");
    };
    world.request(7, order.clone());
    world.commit();
    pass_until_it_ends(&mut world);
    world.request(8, order);
    world.commit();
    assert!(matches!(world.reply(8), Some(Ok(Response::Balance(_)))));
    assert_eq!(world.jobs(JobKind::Balance).len(), 1, "it was ordered after the other's end");
    pass_until_it_ends(&mut world);
    world.commit();
    assert_eq!(world.jobs(JobKind::Balance), []);
}

#[test]
fn a_fuller_server_gives_chunks_to_an_emptier_one_until_both_are_near_enough() {
    let (mut world, grant, _) = World::settled(4);
    tell_full(&mut world, &grant);
    let empty = (1..=4).find(|id| !members(&grant).contains(id)).expect("one of four");
    let chunk = world.state.config().chunk_size;
    let full = members(&grant)[1];
    let of = |id: u64| {
        if id == full {
            40
        } else if id == empty {
            0
        } else {
            20
        }
    };
    let before: Vec<(u64, u64)> = (1..=4).map(|id| (id, of(id) * chunk)).collect();
    world.request(7, Balance { threshold_permille: 100, dry_run: false });
    world.commit();
    assert!(matches!(world.reply(7), Some(Ok(Response::Balance(_)))));
    // Who keeps telling how much it stores is alive.
    let pass = |world: &mut World, stored: &[(u64, u64)]| {
        tell_stored(world, stored);
        world.millis += 250;
        world.wake_up();
    };
    (0..4).for_each(|_| pass(&mut world, &before));
    assert_eq!(world.jobs(JobKind::Balance).len(), 1);
    assert_eq!(world.copy_all(), [empty]);
    (0..2).for_each(|_| pass(&mut world, &before));
    let raises = world.raises();
    let others: Vec<u64> = (1..=4).filter(|id| *id != full).collect();
    assert_eq!(asked(&raises), others, "the fullest is left out");
    for (id, _, raise) in &raises {
        world.accept(*id, raise, ReplicaReport::default());
    }
    assert_eq!(world.sets()[0].set_size, 3);
    world.tell_stale(full, &grant);
    // They tell that they are alike: it ends by itself.
    let alike: Vec<(u64, u64)> = (1..=4).map(|id| (id, 20 * chunk)).collect();
    (0..12).for_each(|_| pass(&mut world, &alike));
    world.commit();
    assert_eq!(world.jobs(JobKind::Balance), []);
    assert_eq!(world.state.known_servers().duties().balance(), None);
}

/// Of 8, 7, 6 and 6 chunks one is too many, and none lacks a whole one: the first gives it away all
/// the same, and both are nearer.
#[test]
fn what_is_too_much_finds_a_taker_where_others_lack_less_than_a_chunk() {
    let (mut world, grant, _) = World::settled(4);
    tell_full(&mut world, &grant);
    let empty = (1..=4).find(|id| !members(&grant).contains(id)).expect("one of four");
    let chunk = world.state.config().chunk_size;
    let mut members = members(&grant).into_iter();
    let most = members.next().expect("a primary");
    let rest: Vec<(u64, u64)> = members.zip([7 * chunk, 6 * chunk]).collect();
    let stored = [vec![(most, 8 * chunk), (empty, 6 * chunk)], rest].concat();
    world.request(7, Balance { threshold_permille: 100, dry_run: false });
    world.commit();
    for _ in 0..8 {
        tell_stored(&mut world, &stored);
        world.millis += 250;
        world.wake_up();
    }
    assert_eq!(world.copy_all(), [empty]);
}

/// A run of CI: of four servers one kept a chunk more than its share and what is near enough.
#[test]
fn a_balance_ends_only_when_what_an_earlier_one_left_too_many_is_gone() {
    let (mut world, grant, _) = World::settled(4);
    tell_full(&mut world, &grant);
    let chunk = world.state.config().chunk_size;
    let empty = (1..=4).find(|id| !members(&grant).contains(id)).expect("one of four");
    let before: Vec<(u64, u64)> =
        (1..=4).map(|id| (id, if id == empty { 0 } else { 9 * chunk })).collect();
    let order = Balance { threshold_permille: 50, dry_run: false };
    let pass = |world: &mut World, stored: &[(u64, u64)]| {
        tell_stored(world, stored);
        world.millis += 250;
        world.wake_up();
    };
    world.request(7, order.clone());
    world.commit();
    (0..4).for_each(|_| pass(&mut world, &before));
    assert_eq!(world.copy_all(), [empty]);
    world.request(8, CancelJob { id: "balance".into() });
    world.commit();
    assert_eq!(world.state.chunk(grant.handle).expect("it is there").set_size, 4);
    // With the copies that are too many, what they tell is near enough.
    let enough: Vec<(u64, u64)> =
        (1..=4).map(|id| (id, if id == empty { 7 } else { 8 } * chunk)).collect();
    pass(&mut world, &enough);
    world.request(9, order);
    world.commit();
    (0..20).for_each(|_| pass(&mut world, &enough));
    assert!(world.proposed.is_empty(), "it has not ended: there is one too many");
    assert_eq!(world.jobs(JobKind::Balance).len(), 1);
    while world.state.chunk(grant.handle).expect("it is there").set_size > 3 {
        world.accept_raises(&[]);
        world.commit();
        pass(&mut world, &enough);
    }
    (0..12).for_each(|_| pass(&mut world, &enough));
    world.commit();
    assert_eq!(world.jobs(JobKind::Balance), []);
}

#[test]
fn a_balance_does_not_end_while_the_server_that_it_is_to_fill_is_silent_for_a_moment() {
    let (mut world, grant, _) = World::settled(4);
    tell_full(&mut world, &grant);
    let chunk = world.state.config().chunk_size;
    let empty = (1..=4).find(|id| !members(&grant).contains(id)).expect("one of four");
    let all: Vec<(u64, u64)> =
        (1..=4).map(|id| (id, if id == empty { 0 } else { 9 * chunk })).collect();
    let others: Vec<(u64, u64)> = all.iter().copied().filter(|it| it.0 != empty).collect();
    let pass = |world: &mut World, stored: &[(u64, u64)]| {
        tell_stored(world, stored);
        world.millis += 250;
        world.wake_up();
    };
    pass(&mut world, &all);
    (0..6).for_each(|_| pass(&mut world, &others));
    world.request(7, Balance { threshold_permille: 50, dry_run: false });
    world.commit();
    (0..6).for_each(|_| pass(&mut world, &others));
    assert!(world.proposed.is_empty(), "all that are heard of are near enough, and one is silent");
    (0..4).for_each(|_| pass(&mut world, &all));
    assert_eq!(world.copy_all(), [empty]);
}

#[test]
fn a_balance_that_is_called_off_drops_what_it_copies_and_waits_for_clients_until_then() {
    let mut world = World::new(4);
    let grant = world.first_chunk();
    let empty = (1..=4).find(|id| !members(&grant).contains(id)).expect("one of four");
    let chunk = world.state.config().chunk_size;
    let stored: Vec<(u64, u64)> =
        (1..=4).map(|id| (id, if id == empty { 0 } else { 30 * chunk })).collect();
    world.request(7, Balance { threshold_permille: 100, dry_run: false });
    world.commit();
    let primary = grant.primary.server.get();
    let pass = |world: &mut World, leases: Vec<cairn_protocol::HeldLease>| {
        tell_full(world, &grant);
        world.beat(primary, vec![], leases);
        tell_stored(world, &stored);
        world.millis += 250;
        world.wake_up();
    };
    (0..20).for_each(|_| pass(&mut world, vec![held(&grant)]));
    world.commit();
    assert_eq!(world.orders().len(), 0, "what is leased is left alone");
    assert_eq!(world.jobs(JobKind::Balance).len(), 1, "and waited for");
    (0..20).for_each(|_| pass(&mut world, vec![]));
    assert_eq!(world.orders().len(), 1);
    world.request(8, CancelJob { id: "balance".into() });
    world.commit();
    assert!(matches!(world.reply(8), Some(Ok(Response::CancelJob(_)))));
    pass(&mut world, vec![]);
    assert_eq!(world.jobs(JobKind::Balance), []);
    let drops = |sent: &&super::Sent| matches!(sent.request, Request::DropClone(_));
    assert_eq!(
        world.sent.iter().filter(drops).map(|sent| sent.to).collect::<Vec<_>>(),
        [server(empty)]
    );
    assert_eq!(world.state.chunk(grant.handle).expect("it is there").set_size, 3);
}

#[test]
fn a_chunk_in_one_rack_gets_into_another_that_has_come_to_have_room() {
    let mut world = World::new(3);
    let grant = world.first_chunk();
    let all = [1, 2, 3, 4];
    world.pass(3000, &[1, 2, 3]);
    for id in members(&grant) {
        world.beat(id, vec![report(&grant)], vec![]);
    }
    world.pass(1000, &[1, 2, 3]);
    assert!(world.orders().is_empty(), "there is no other rack");
    world.other_rack_from = 4;
    world.join(4, vec![], vec![]);
    world.pass(1000, &all);
    assert_eq!(world.copy_all(), [4]);
    world.pass(250, &all);
    let raises = world.raises();
    assert!(raises.len() == 3 && asked(&raises).contains(&4), "one of the crowded rack goes");
    for (id, _, raise) in &raises {
        world.accept(*id, raise, ReplicaReport::default());
    }
    let sets = world.sets();
    assert_eq!((sets.len(), sets[0].set_size), (1, 3));
    assert_ne!(sets[0].version, ChunkVersion::default());
    world.pass(2000, &all);
    assert!(world.orders().is_empty() && world.raises().is_empty(), "and there it stays");
}

/// As where the level of a tree is lowered: no server tells of what was left out before it has gone
/// there, and all chunks would be left out on the same one until then.
#[test]
fn of_many_chunks_that_have_one_too_many_each_server_keeps_its_part() {
    const CHUNKS: u64 = 60;
    let version = ChunkVersion::of(Term::new(1), 1);
    let handle = |number: u64| ChunkHandle::of(Term::new(1), 10_000 + 2 * number);
    let mut world = World::new(0);
    for number in 0..CHUNKS {
        let (index, handle) = (ChunkIndex::new(number), handle(number));
        let open = OpenChunk { file: FILE, index, handle, version, ..OpenChunk::default() };
        world.apply(OpenChunk { set_size: 4, ..open });
    }
    let (all, made) = ([1, 2, 3, 4], |number| ReplicaReport {
        handle: handle(number),
        version,
        ..ReplicaReport::default()
    });
    for id in all {
        world.join(id, (0..CHUNKS).map(made).collect(), vec![]);
    }
    let mut stay: BTreeMap<ChunkHandle, BTreeSet<u64>> = BTreeMap::new();
    for _ in 0..40 {
        world.pass(250, &all);
        for (_, id, raise) in world.raises() {
            stay.entry(raise.handle).or_default().insert(id);
        }
        if !stay.is_empty() {
            break;
        }
    }
    assert_eq!(stay.len() as u64, CHUNKS, "all at once");
    for id in all {
        let gone = stay.values().filter(|stay| stay.len() == 3 && !stay.contains(&id)).count();
        assert!((5..=30).contains(&gone), "{gone} chunks leave server {id}: {stay:?}");
    }
}
