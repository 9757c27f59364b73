//! Drains, balances and copies that nobody can take: what is refused, what ends by itself, and what
//! a person is told (A20, A21).

use super::moves::tell_stored;
use super::{FILE, World, held, members, mutation, report, server};
use crate::record::{AddFile, OpenChunk};
use crate::state::ROOT;
use cairn_protocol::{
    Balance, ChunkGrant, Drain, DrainAnswer, ErrorCode, Explain, Heartbeat, JobKind, JobState,
    ListChunks, ReplicaReport, Response, ServerDuty, WaitReason,
};
use cairn_types::{ChunkHandle, ChunkIndex, ChunkVersion, EntryId, Incarnation, Term};

impl World {
    fn would_drain(&mut self, id: u64) -> Option<DrainAnswer> {
        self.request(7, Drain { server: server(id), dry_run: true });
        match self.reply(7) {
            Some(Ok(Response::Drain(plan))) => Some(plan),
            _ => None,
        }
    }

    pub(super) fn reason(&self, code: &str) -> Option<String> {
        self.reasons().into_iter().find(|it| it.starts_with(&format!("{code}: ")))
    }

    fn drain_job(&self) -> (JobState, String) {
        let job = self.jobs(JobKind::Drain).pop().expect("it is listed");
        (job.state, job.note)
    }

    pub(super) fn waits(&mut self) -> Vec<(WaitReason, u64)> {
        let health = self.with(|chunks, step| chunks.health(&chunks.view(step.now, step.state)));
        health.counts.waiting.into_iter().map(|it| (it.why, it.count)).collect()
    }

    fn is_full(&mut self, id: u64) {
        let (server, incarnation) = (server(id), Incarnation::new(id * 10));
        self.request(901, Heartbeat { server, incarnation, full: true, ..Heartbeat::default() });
        self.reply(901);
    }
}

fn others(all: &[u64], gone: &[u64]) -> Vec<u64> {
    all.iter().copied().filter(|id| !gone.contains(id)).collect()
}

#[test]
fn the_last_servers_that_take_new_chunks_are_not_drained_and_status_says_when_none_does() {
    let (mut world, _, all) = World::settled(3);
    world.drain(1);
    world.drain(2);
    world.pass(250, &all);
    assert_eq!(world.reason("NO_ROOM"), None);
    for dry_run in [true, false] {
        world.request(7, Drain { server: server(3), dry_run });
        let failure = world.reply(7).expect("at once").expect_err("it is the last one");
        assert_eq!(failure.code, ErrorCode::TooFewServers);
        assert!(failure.message.contains("undrain one"), "{failure:?}");
    }
    world.drain(1);
    world.is_full(3);
    let reason = world.reason("NO_ROOM").expect("nothing can be stored");
    assert!(reason.starts_with("NO_ROOM: 3 live chunkservers take no new chunks"), "{reason}");
}

#[test]
fn what_a_server_holds_says_whether_it_can_be_emptied_and_not_what_files_have_by_default() {
    let mut world = World::new(3);
    assert_eq!(world.would_drain(1).map(|it| it.blocked), Some(String::new()), "it has nothing");
    let grant = world.first_chunk();
    world.pass(3000, &[1, 2, 3]);
    for id in members(&grant) {
        world.beat(id, vec![report(&grant)], vec![]);
    }
    let blocked = world.would_drain(1).expect("it is told").blocked;
    assert!(blocked.contains("3 replicas, and 2 other servers"), "{blocked}");
}

#[test]
fn a_drain_says_why_it_does_not_end_where_chunks_lack_replicas_beside_it() {
    let (mut world, grant, all) = World::settled(4);
    let [gone, dead, last] = members(&grant)[..] else { panic!("a set of three") };
    let fourth = others(&all, &members(&grant))[0];
    world.pass(5000, &[gone, last]);
    world.drain(gone);
    world.pass(1000, &[gone, last]);
    let (state, note) = world.drain_job();
    assert!(state == JobState::Waiting && note.contains("1 other servers are left"), "{note}");
    assert!(world.warnings()[0].starts_with("DRAIN_BLOCKED"), "of {dead} and {fourth}");
}

#[test]
fn a_drain_says_so_where_each_server_with_room_has_a_replica_already() {
    let (mut world, grant, all) = World::settled(4);
    let fourth = others(&all, &members(&grant))[0];
    let gone = members(&grant)[0];
    assert_eq!(world.would_drain(gone).map(|it| it.blocked), Some(String::new()));
    world.is_full(fourth);
    let blocked = world.would_drain(gone).expect("it is told").blocked;
    assert!(blocked.contains("each server with room has a replica"), "{blocked}");
    world.drain(gone);
    for _ in 0..4 {
        world.pass(250, &members(&grant));
        world.is_full(fourth);
    }
    assert!(world.orders().is_empty(), "nobody can take a copy");
    let (state, note) = world.drain_job();
    assert!(state == JobState::Waiting && note.contains("has a replica"), "{state:?}: {note}");
    assert!(world.warnings()[0].starts_with("DRAIN_BLOCKED"), "{:?}", world.warnings());
    world.pass(500, &all);
    assert_eq!(world.drain_job(), (JobState::Running, String::new()), "there is room now");
    assert_eq!(world.copy_all(), [fourth]);
}

#[test]
fn a_drain_says_so_where_what_is_left_there_has_no_good_replica_to_copy() {
    let (mut world, grant, all) = World::settled(4);
    let three = members(&grant);
    let tell = |world: &mut World, damaged: bool| {
        for id in &three {
            let (server, incarnation) = (server(*id), Incarnation::new(id * 10));
            let beat = Heartbeat { server, incarnation, ..Heartbeat::default() };
            let bad = vec![grant.handle];
            world.request(
                901,
                match damaged {
                    true => Heartbeat { damaged: bad, ..beat },
                    false => Heartbeat { sound: bad, ..beat },
                },
            );
            assert!(matches!(world.reply(901), Some(Ok(_))));
        }
        world.pass(500, &all);
    };
    tell(&mut world, true);
    world.drain(three[0]);
    world.pass(500, &all);
    let (state, note) = world.drain_job();
    let says = note.starts_with("1 of its chunks have no good replica");
    assert!(state == JobState::Waiting && says, "{state:?}: {note}");
    assert!(world.warnings()[0].starts_with("DRAIN_BLOCKED"), "{:?}", world.warnings());
    tell(&mut world, false);
    assert_eq!(world.drain_job().0, JobState::Running, "they could be read after all");
}

/// A member is drained: its chunk is copied, and the set goes on without it. Which one that is.
fn left_out_for_good(world: &mut World, grant: &ChunkGrant, all: &[u64]) -> u64 {
    let gone = members(grant)[0];
    world.drain(gone);
    world.pass(500, all);
    world.copy_all();
    world.pass(250, all);
    world.accept_raises(&[]);
    gone
}

#[test]
fn a_server_that_was_emptied_and_is_off_is_missed_by_nobody_after_a_restart_too() {
    let (mut world, grant, all) = World::settled(4);
    let gone = left_out_for_good(&mut world, &grant, &all);
    let sets = world.sets();
    world.beat(gone, vec![], vec![]);
    world.tell_stale(gone, &grant);
    world.pass(1000, &all);
    assert_eq!(world.duty(gone), ServerDuty::Drained);
    let left = others(&all, &[gone]);
    world.pass(3500, &left);
    assert_eq!(world.reasons(), Vec::<String>::new(), "it is silent");
    world.pass(3000, &left);
    assert_eq!(world.reasons(), Vec::<String>::new(), "it is dead");
    let (state, note) = world.drain_job();
    assert!(state == JobState::Done && note.contains("--forget"), "{note}");
    let mut world = world.restarted(2);
    let version = sets[0].version;
    for id in &left {
        world.join(*id, vec![ReplicaReport { version, ..report(&grant) }], vec![]);
    }
    world.pass(6000, &left);
    assert_eq!((world.duty(gone), world.reasons()), (ServerDuty::Drained, vec![]));
}

#[test]
fn a_drained_server_that_died_is_missed_where_it_kept_something_or_others_die_too() {
    for keeps in [false, true] {
        let (mut world, grant, all) = World::settled(5);
        let gone = left_out_for_good(&mut world, &grant, &all);
        let lost = ReplicaReport {
            handle: ChunkHandle::of(grant.handle.term(), 5000),
            length: 7,
            ..report(&grant)
        };
        let kept = if keeps { vec![lost] } else { vec![] };
        assert_eq!(world.beat(gone, kept, vec![]).garbage, []);
        let left = others(&all, &[gone]);
        world.pass(6500, &left);
        let (state, note) = world.drain_job();
        if keeps {
            assert!(state == JobState::Waiting && note.contains("has 1 lost chunks"), "{note}");
            assert!(world.reason("SERVERS_DEAD").is_some(), "it is needed");
            continue;
        }
        assert!(state == JobState::Done && note.contains("--forget"), "{note}");
        // What nobody missed is missed again where there is less of it.
        let also = members(&grant)[1];
        world.pass(6500, &others(&left, &[also]));
        assert_eq!(world.drain_job().0, JobState::Waiting, "it may have the last of something");
    }
}

#[test]
fn what_no_server_can_take_waits_for_a_server_and_not_for_its_turn() {
    for full in [true, false] {
        let (mut world, grant, all) = World::settled(4);
        let fourth = others(&all, &members(&grant))[0];
        let gone = members(&grant)[0];
        if !full {
            world.drain(fourth);
        }
        let left = others(&all, &[gone, fourth]);
        for _ in 0..20 {
            world.pass(250, &left);
            if full {
                world.is_full(fourth);
            } else {
                world.beat(fourth, vec![], vec![]);
            }
        }
        assert_eq!(world.waits(), [(WaitReason::NoServer, 1)], "full: {full}");
        let view = world.chunks.view(world.moment(), &world.state);
        let wish = ListChunks { limit: 9, ..ListChunks::default() };
        let listed = world.chunks.list_chunks(&view, &wish).expect("it is there").chunks;
        let why = listed[0].waits.map(|wait| wait.why);
        assert_eq!(why, Some(WaitReason::NoServer), "full: {full}");
    }
}

/// A chunk that is to have more replicas than there are servers stands on these.
fn add_impossible(world: &mut World, servers: &[u64]) {
    let (id, handle) = (EntryId::new(77), ChunkHandle::of(Term::new(1), 777));
    let version = ChunkVersion::of(Term::new(1), 777);
    let high = AddFile { parent: ROOT, name: "high".into(), id, ..AddFile::default() };
    world.apply(AddFile { mutation: mutation(77), replication: 5, ..high });
    let open = OpenChunk { file: id, handle, version, ..OpenChunk::default() };
    world.apply(OpenChunk { set_size: 4, ..open });
    for id in servers {
        let held = ReplicaReport { handle, version, ..ReplicaReport::default() };
        world.beat(*id, vec![held], vec![]);
    }
}

#[test]
fn a_balance_goes_on_though_a_chunk_cannot_have_its_level_and_ends_where_clients_write_to_all() {
    for leased in [false, true] {
        let mut world = World::new(4);
        let grant = world.first_chunk();
        let empty = others(&[1, 2, 3, 4], &members(&grant))[0];
        let chunk = world.state.config().chunk_size;
        let stored: Vec<(u64, u64)> =
            (1..=4).map(|id| (id, if id == empty { 0 } else { 30 * chunk })).collect();
        add_impossible(&mut world, &[1, 2, 3, 4]);
        world.pass(1000, &[1, 2, 3, 4]);
        assert_eq!(world.waits(), [(WaitReason::NoServer, 1)]);
        world.request(7, Balance { threshold_permille: 100, dry_run: false });
        world.commit();
        let primary = grant.primary.server.get();
        let full = ReplicaReport { length: chunk, ..report(&grant) };
        for id in members(&grant) {
            world.beat(id, vec![full.clone()], vec![]);
        }
        let ticks = 4 * 4 * if leased { 22 } else { 2 };
        let mut ended = None;
        for tick in 0..ticks {
            let leases = if leased { vec![held(&grant)] } else { vec![] };
            world.beat(primary, vec![full.clone()], leases);
            tell_stored(&mut world, &stored);
            world.millis += 250;
            world.wake_up();
            world.commit();
            if world.jobs(JobKind::Balance).is_empty() {
                ended = ended.or(Some(tick));
            }
        }
        if leased {
            assert!(ended.is_some_and(|tick| tick > 4 * 4 * 15), "{ended:?}: not at once");
        } else {
            let orders = world.orders();
            let moved = orders.iter().all(|(_, order)| order.handle == grant.handle);
            assert!(ended.is_none() && moved && !orders.is_empty(), "{orders:?}");
        }
    }
}

#[test]
fn a_drained_servers_chunks_are_found_at_once() {
    const CHUNKS: u64 = 20_000;
    let handle = |number: u64| ChunkHandle::of(Term::new(1), 10_000 + 2 * number);
    let version = ChunkVersion::of(Term::new(1), 1);
    let made = |number| ReplicaReport { handle: handle(number), version, ..Default::default() };
    let mut world = World::new(0);
    for number in 0..CHUNKS {
        let (index, handle) = (ChunkIndex::new(number), handle(number));
        let open = OpenChunk { file: FILE, index, handle, version, ..OpenChunk::default() };
        world.apply(OpenChunk { set_size: 3, ..open });
    }
    for id in 1..=6 {
        let held = (0..CHUNKS).filter(|number| (number + id) % 6 < 3).map(made).collect();
        world.join(id, held, vec![]);
    }
    let all = [1, 2, 3, 4, 5, 6];
    world.pass(5000, &all);
    world.drain(1);
    world.pass(2500, &all);
    let status = world.chunks.repair_status(world.moment(), &world.state);
    let found: u64 = status.below_goal.iter().map(|it| it.count).sum();
    assert!(found >= 9_000, "found after ten ticks: {found}");
    assert!(!world.chunks.fleet.looks_for_thinned(), "a death is not looked for behind it");
}

fn explained_lines(world: &mut World) -> String {
    world.request(6, Explain { subject: "/f".into() });
    match world.reply(6) {
        Some(Ok(Response::Explain(answer))) => answer.lines.join("\n"),
        other => panic!("not explained: {other:?}"),
    }
}

#[test]
fn explain_says_which_servers_of_a_chunk_are_to_be_emptied_and_what_comes_first() {
    let (mut world, grant, all) = World::settled(4);
    let fourth = others(&all, &members(&grant))[0];
    let gone = members(&grant)[0];
    assert!(!explained_lines(&mut world).contains("to be emptied"));
    world.drain(gone);
    world.is_full(fourth);
    world.pass(500, &members(&grant));
    world.is_full(fourth);
    let told = explained_lines(&mut world);
    let first = format!("  s{gone}:1 is to be emptied: 2 of 3 good replicas are elsewhere");
    assert!(told.contains(&first) && told.contains("each server with room has one"), "{told}");
    world.pass(500, &all);
    let told = explained_lines(&mut world);
    assert!(told.contains(&first) && told.contains("one is being made"), "{told}");
    let copied = format!("to s{fourth}:1: 0 of ");
    assert!(told.contains("  is copied from ") && told.contains(&copied), "{told}");
    assert_eq!(world.copy_all(), [fourth]);
    let told = explained_lines(&mut world);
    let last = format!("  s{gone}:1 is to be emptied: 3 good replicas are elsewhere");
    assert!(told.contains(&last), "{told}");
}
