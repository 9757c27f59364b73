//! What becomes of a chunk whose replicas lost different amounts (R28, R29), and of chunks that
//! the log does not know.

use super::{World, lease, lost_answer, members, report, server};
use crate::record::{CloseChunk, Record, SetVersion};
use cairn_protocol::{
    ChunkGrant, ErrorCode, Explain, Join, LeasePurpose, LetGoOfLost, ListLost, Recover,
    RecoverAnswer, ReplicaReport, ReportBadBlock, Request, Response, WaitReason, WaitingCount,
};
use cairn_types::{ChunkHandle, ChunkVersion, LogIndex, ReplicaAt, SerialNumber, Term, WallTime};
use std::collections::BTreeMap;

/// What each server's disk holds of the one chunk.
pub(super) type Disks = BTreeMap<u64, ReplicaReport>;

/// A replica that has applied `serial` and knows `acknowledged` to be acknowledged.
fn replica(grant: &ChunkGrant, (serial, acknowledged): (u64, u64), suspect: bool) -> ReplicaReport {
    ReplicaReport {
        serial: SerialNumber::new(serial),
        length: 10 * serial,
        acknowledged_serial: SerialNumber::new(acknowledged),
        acknowledged: 10 * acknowledged,
        suspect,
        ..report(grant)
    }
}

/// A chunk on three servers, of which those that are given came back after a power failure as
/// they tell; the master too has started anew.
pub(super) fn after_power_loss(told: &[((u64, u64), bool)]) -> (World, Disks) {
    after_power_loss_of(3, told)
}

/// The same of a chunk on so many servers.
pub(super) fn after_power_loss_of(servers: u64, told: &[((u64, u64), bool)]) -> (World, Disks) {
    let mut world = World::new(servers);
    let grant = world.first_chunk();
    let mut world = world.restarted(2);
    let ids = members(&grant).into_iter().zip(told);
    let disks: Disks =
        ids.map(|(id, (told, suspect))| (id, replica(&grant, *told, *suspect))).collect();
    for (id, disk) in &disks {
        world.join(*id, vec![disk.clone()], vec![]);
    }
    (world, disks)
}

/// Asks for a lease, again and again, for so long; all calls are answered truly.
fn ask_for(
    world: &mut World,
    disks: &mut Disks,
    purpose: LeasePurpose,
    millis: u64,
) -> Option<ChunkGrant> {
    let alive: Vec<u64> = disks.keys().copied().collect();
    let end = world.millis + millis;
    world.request(5, lease(purpose, 0));
    while world.millis < end {
        for (id, to, raise) in world.raises() {
            let disk = disks.entry(to).or_default();
            let there = ReplicaReport { handle: raise.handle, ..disk.clone() };
            world.accept(id, &raise, there.clone());
            disk.version = raise.to;
        }
        world.commit();
        if world.sent.iter().any(|sent| matches!(sent.request, Request::GrantLease(_))) {
            world.accept_grant();
        }
        match world.reply(5) {
            Some(Ok(Response::Lease(grant))) => return Some(grant),
            Some(other) => {
                assert_eq!(other.expect_err("a failure").code, ErrorCode::Busy);
                world.request(5, lease(purpose, 0));
            }
            None => world.pass(250, &alive),
        }
    }
    None
}

fn explained(world: &mut World) -> String {
    world.request(6, Explain { subject: "/f".into() });
    match world.reply(6) {
        Some(Ok(Response::Explain(answer))) => answer.lines.join("\n"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn with_ragged_tails_the_one_that_holds_all_that_was_acknowledged_becomes_the_set_after_a_wait() {
    for purpose in [LeasePurpose::Level, LeasePurpose::Write] {
        let told = [((10, 9), true), ((18, 18), true), ((15, 15), true)];
        let (mut world, mut disks) = after_power_loss(&told);
        assert_eq!(ask_for(&mut world, &mut disks, purpose, 3750), None, "all may still tell");
        let text = explained(&mut world);
        assert!(text.contains("the best of them become the set"), "{text}");
        let grant = ask_for(&mut world, &mut disks, purpose, 3000).expect("decided");
        assert_eq!((grant.primary.server, grant.secondaries.len()), (server(2), 0));
        let chunk = world.state.chunk(grant.handle).expect("there");
        assert_eq!((chunk.version, chunk.set_size), (grant.version, 1), "logged");
        let left_out = ReplicaReport { version: disks[&1].version, ..disks[&1].clone() };
        assert!(left_out.version < chunk.version);
        assert_eq!(world.beat(1, vec![left_out], vec![]).garbage, [], "kept");
    }
}

#[test]
fn of_suspects_the_one_that_holds_more_is_waited_for_while_it_is_silent() {
    let told = [((10, 9), true), ((18, 18), true), ((10, 9), true)];
    let (mut world, mut disks) = after_power_loss(&told);
    disks.remove(&2);
    world.pass(2500, &[1, 3]);
    assert_eq!(ask_for(&mut world, &mut disks, LeasePurpose::Write, 1000), None);
}

#[test]
fn a_sound_replica_alone_among_suspects_becomes_the_set_after_a_wait() {
    let told = [((18, 18), true), ((18, 18), false), ((18, 18), true)];
    let (mut world, mut disks) = after_power_loss(&told);
    assert_eq!(ask_for(&mut world, &mut disks, LeasePurpose::Level, 3750), None);
    let grant = ask_for(&mut world, &mut disks, LeasePurpose::Level, 3000).expect("decided");
    assert_eq!((grant.primary.server, grant.secondaries.len()), (server(2), 0));
}

#[test]
fn a_sound_replica_from_an_old_image_does_not_come_before_suspects_that_hold_more() {
    let told = [((4, 4), false), ((18, 18), true), ((18, 17), true)];
    let (mut world, mut disks) = after_power_loss(&told);
    let grant = ask_for(&mut world, &mut disks, LeasePurpose::Level, 7000).expect("decided");
    assert_eq!(members(&grant), [2, 3], "both of the furthest");
}

#[test]
fn a_closed_chunk_is_decided_on_too_and_raised_with_its_mark() {
    let told = [((10, 9), true), ((18, 18), true), ((15, 15), true)];
    let (mut world, mut disks) = after_power_loss(&told);
    let handle = disks[&1].handle;
    let close: Record = CloseChunk { time: WallTime::default(), handle }.into();
    world.state.apply(LogIndex::new(world.state.applied().get() + 1), Term::new(2), &close);
    world.pass(4000, &[1, 2, 3]);
    world.request(5, lease(LeasePurpose::Level, 0));
    let raises = world.raises();
    let asked: Vec<(u64, bool)> = raises.iter().map(|(_, to, raise)| (*to, raise.close)).collect();
    assert_eq!(asked, [(2, true)]);
    for (id, to, raise) in raises {
        world.accept(id, &raise, disks.remove(&to).expect("there"));
    }
    world.commit();
    assert!(world.accept_grant().writes_only);
}

#[test]
fn a_suspect_becomes_the_set_when_every_other_member_is_dead_and_only_long_after() {
    let (mut world, mut disks) = after_power_loss(&[((18, 18), true)]);
    let waited = 10 * 4000;
    assert_eq!(ask_for(&mut world, &mut disks, LeasePurpose::Level, waited - 250), None);
    let grant = ask_for(&mut world, &mut disks, LeasePurpose::Level, 3000).expect("decided");
    assert_eq!(members(&grant), [1]);
}

#[test]
fn a_death_elsewhere_puts_off_no_decision_about_a_set_of_which_all_are_known() {
    let told = [((18, 18), true), ((18, 18), true), ((18, 18), true)];
    let (mut world, mut disks) = after_power_loss_of(4, &told);
    let of_set: Vec<u64> = disks.keys().copied().collect();
    let other = (1..=4).find(|id| !of_set.contains(id)).expect("one has none of it");
    world.join(other, vec![], vec![]);
    // One of the set dies, and half a minute later the other one.
    disks.remove(&of_set[2]);
    world.pass(30_000, &[of_set[0], of_set[1], other]);
    let left = 10 * 4000 - 30_000;
    assert_eq!(ask_for(&mut world, &mut disks, LeasePurpose::Level, left - 500), None);
    let grant = ask_for(&mut world, &mut disks, LeasePurpose::Level, 3000).expect("decided");
    assert_eq!(members(&grant).len(), 2, "nobody waits for who has none of it");
    assert_eq!(kept_above(&world, &grant), Some(18), "what was decided outlives the raise (L6)");
}

#[test]
fn a_member_that_comes_back_with_more_after_the_decision_is_kept_until_a_person_lets_go_of_it() {
    let (mut world, mut disks) = after_power_loss(&[((18, 18), true)]);
    let grant = ask_for(&mut world, &mut disks, LeasePurpose::Level, 43_000).expect("decided");
    let handle = grant.handle;
    assert_eq!(world.state.chunk(handle).expect("there").set_size, 1);
    // The chunk gets its goal again.
    let set = SetVersion { version: ChunkVersion::of(Term::new(2), 900), ..Default::default() };
    world.apply(SetVersion { handle, set_size: 3, ..set });
    let good = ReplicaReport { version: set.version, ..replica(&grant, (18, 18), false) };
    for id in [1, 4, 5] {
        world.join(id, vec![good.clone()], vec![]);
    }
    world.pass(3000, &[1, 4, 5]);
    let before = |serial| ReplicaReport {
        version: ChunkVersion::of(Term::new(1), 1),
        ..replica(&grant, (serial, serial), false)
    };
    world.join(2, vec![before(18)], vec![]);
    world.join(3, vec![before(20)], vec![]);
    world.pass(250, &[1, 2, 3, 4, 5]);
    let named = world.beat(2, vec![before(18)], vec![]).garbage;
    assert_eq!(named.len(), 1, "it has nothing that the set had not");
    assert_eq!(world.beat(3, vec![before(20)], vec![]).garbage, [], "R28");
    let lost = world.chunks.lost_after(&ListLost { limit: 9, ..ListLost::default() }).chunks;
    assert_eq!((lost.len(), lost[0].servers[0].server), (1, server(3)));
    // Whoever holds no more than the set cannot be chosen beside it; who holds more can.
    let subject = || handle.short();
    let wish = |id| Recover { subject: subject(), server: server(id), ..Recover::default() };
    world.request(7, wish(2));
    assert!(world.reply(7).is_some_and(|reply| reply.is_err()));
    world.request(7, wish(3));
    assert!(world.reply(7).is_some_and(|reply| reply.is_ok()), "the decision was wrong");
    world.request(6, LetGoOfLost { handle });
    world.commit();
    assert!(world.reply(6).is_some_and(|reply| reply.is_ok()));
    assert_eq!(world.beat(3, vec![before(20)], vec![]).garbage.len(), 1);
    assert!(world.state.chunk(handle).is_some(), "the chunk itself is nobody's to let go of");
}

/// Somebody wants that of a chunk, for ten seconds; whenever all of its set are raised the third
/// is telling anew what it holds, and answers no raise.
pub(super) fn while_the_third_takes_no_raise(
    world: &mut World,
    disks: &mut Disks,
    purpose: LeasePurpose,
) {
    for _ in 0..40 {
        let join = world.join_only(3);
        world.tell_slice(3, (join, 0), (vec![disks[&3].clone()], false));
        world.request(5, lease(purpose, 0));
        world.pass(250, &[1, 2, 3]);
        world.tell_slice(3, (join, 1), (vec![], true));
        for (id, to, raise) in world.raises() {
            let disk = disks.get_mut(&to).expect("one of three");
            if to == 3 {
                world.answer(id, Err(lost_answer()));
            } else {
                world.accept(id, &raise, disk.clone());
                disk.version = raise.to;
            }
        }
        world.commit();
        drop(world.reply(5));
    }
}

/// Healing seed 85: one that had more answered no raise, and was left out with nothing said.
#[test]
fn suspects_are_a_set_without_one_that_answers_no_raise_only_where_it_has_no_more() {
    for more in [0, 1] {
        let told = [((18, 18), true), ((18, 18), true), ((18 + more, 18 + more), true)];
        let (mut world, mut disks) = after_power_loss(&told);
        let handle = disks[&3].handle;
        world.pass(4250, &[1, 2, 3]);
        while_the_third_takes_no_raise(&mut world, &mut disks, LeasePurpose::Level);
        let size = world.state.chunk(handle).expect("there").set_size;
        assert_eq!(size, if more == 0 { 2 } else { 3 });
    }
}

#[test]
fn suspects_beside_the_one_that_has_gone_furthest_make_room_for_its_copies() {
    // The power of all went while mutations were on their way.
    let told = [((20, 18), true), ((19, 18), true), ((19, 18), true)];
    let (mut world, mut disks) = after_power_loss(&told);
    let grant = ask_for(&mut world, &mut disks, LeasePurpose::Level, 9000).expect("decided");
    assert_eq!((members(&grant), kept_above(&world, &grant)), (vec![1], Some(20)), "DS8");
    // One of them was away: it may come back with more.
    let (mut world, mut disks) = after_power_loss(&told[..2]);
    let grant = ask_for(&mut world, &mut disks, LeasePurpose::Level, 60_000).expect("decided");
    assert_eq!((members(&grant), kept_above(&world, &grant)), (vec![1], Some(20)));
}

#[test]
fn beside_a_damaged_replica_that_holds_more_only_a_person_decides_and_it_is_kept() {
    // One has a bad block and every acknowledged byte else; the two others lost their tails.
    let told = [((18, 18), false), ((15, 15), true), ((10, 9), true)];
    let (mut world, mut disks) = after_power_loss(&told);
    let handle = disks[&1].handle;
    world.with(|chunks, _| chunks.fleet.mark_damaged(handle, server(1)));
    assert_eq!(ask_for(&mut world, &mut disks, LeasePurpose::Level, 60_000), None, "DS6");
    world.request(6, Explain { subject: handle.short() });
    let Some(Ok(Response::Explain(answer))) = world.reply(6) else { panic!("explained") };
    let told = |line: &String| line.contains("s1:1 has bad blocks and holds more than all others");
    assert!(answer.lines.iter().any(told), "{:?}", answer.lines);
    let wish = Recover { subject: handle.short(), ..Recover::default() };
    world.request(7, wish);
    let Some(Ok(Response::Recover(answer))) = world.reply(7) else { panic!("a person may") };
    assert_eq!(answer.chosen[0].at.server, server(2), "the furthest of those that can be read");
    let grant = ask_for(&mut world, &mut disks, LeasePurpose::Level, 9000).expect("decided");
    assert_eq!(members(&grant), [2]);
    // The chunk gets its goal again.
    let version = ChunkVersion::of(Term::new(2), 900);
    world.apply(SetVersion { handle, set_size: 3, version, ..SetVersion::default() });
    let good = ReplicaReport { version, ..replica(&grant, (15, 15), false) };
    for id in [2, 14, 15] {
        world.join(id, vec![good.clone()], vec![]);
    }
    world.pass(3000, &[1, 2, 3, 14, 15]);
    let less = disks[&3].clone();
    assert_eq!(world.beat(3, vec![less], vec![]).garbage.len(), 1, "it has nothing more");
    let more = disks[&1].clone();
    assert_eq!(world.beat(1, vec![more], vec![]).garbage, [], "R28: it has more");
}

/// Of the chunk that `after_power_loss` made: copies that were ordered by now, and what the cell
/// and the chunk are told to wait for.
fn copies_and_waits(world: &World) -> (usize, Vec<WaitingCount>, Option<WaitReason>) {
    let is_copy = |sent: &super::Sent| matches!(sent.request, Request::CloneChunk(_));
    let copies = world.sent.iter().filter(|sent| is_copy(sent)).count();
    let why = world.listed(None)[0].waits.map(|wait| wait.why);
    (copies, world.health().counts.waiting, why)
}

#[test]
fn nothing_is_copied_that_could_not_join_before_the_set_is_decided_on() {
    // One has a bad block and more than the others; one is sound, and may lack what only that has.
    let told = [((18, 15), false), ((15, 15), false), ((10, 9), true)];
    let (mut world, disks) = after_power_loss(&told);
    let handle = disks[&1].handle;
    world.with(|chunks, _| chunks.fleet.mark_damaged(handle, server(1)));
    world.join(4, vec![], vec![]);
    world.pass(60_000, &[1, 2, 3, 4]);
    let (copies, waiting, why) = copies_and_waits(&world);
    assert_eq!((copies, why), (0, Some(WaitReason::NoSource)), "DS6, RP4");
    assert_eq!(waiting, [WaitingCount { why: WaitReason::NoSource, count: 1 }]);
    let explained = explained(&mut world);
    assert!(explained.contains("is copied when a person has decided"), "{explained}");
    assert!(!explained.contains("waits for a copy"), "{explained}");
    // A person goes on without what the damaged one alone has.
    world.request(7, Recover { subject: handle.short(), ..Recover::default() });
    assert!(world.reply(7).is_some_and(|reply| reply.is_ok()));
    world.pass(3000, &[1, 2, 3, 4]);
    assert_eq!(copies_and_waits(&world).0, 1, "now a copy can join");
}

#[test]
fn a_files_chunk_is_explained_though_a_server_keeps_more_of_it() {
    let (mut world, mut disks) = after_power_loss(&[((18, 18), true)]);
    let grant = ask_for(&mut world, &mut disks, LeasePurpose::Level, 43_000).expect("decided");
    let version = ChunkVersion::of(Term::new(1), 1);
    let back = ReplicaReport { version, ..replica(&grant, (20, 20), false) };
    world.join(3, vec![back.clone()], vec![]);
    assert_eq!(world.beat(3, vec![back], vec![]).garbage, [], "R28");
    world.request(6, Explain { subject: grant.handle.short() });
    let Some(Ok(Response::Explain(answer))) = world.reply(6) else { panic!("explained") };
    assert!(answer.lines[0].contains("set of 1"), "{:?}", answer.lines);
    let kept = |line: &String| line.contains("s3:1 keeps more of it");
    assert!(answer.lines.iter().any(kept) && !answer.healthy, "{:?}", answer.lines);
    let health = world.with(|chunks, step| chunks.health(&chunks.view(step.now, step.state)));
    let told = health.reasons.iter().find(|it| it.starts_with("UNKNOWN_CHUNKS"));
    assert!(told.is_some_and(|it| it.contains("hold more than a set")), "{told:?}");
}

#[test]
fn a_sound_replica_whose_fellows_are_merely_dead_is_not_made_a_set_of_its_own() {
    let (mut world, mut disks) = after_power_loss(&[((18, 18), false)]);
    assert_eq!(ask_for(&mut world, &mut disks, LeasePurpose::Write, 60_000), None, "R11");
}

#[test]
fn appends_go_on_in_the_next_chunk_and_wait_for_no_decision() {
    let told = [((10, 9), true), ((18, 18), true), ((15, 15), true)];
    let (mut world, mut disks) = after_power_loss(&told);
    let grant = ask_for(&mut world, &mut disks, LeasePurpose::Append, 3750).expect("granted");
    assert_eq!((grant.index.get(), members(&grant).len()), (1, 3));
}

#[test]
fn bytes_of_a_chunk_that_the_log_does_not_know_are_kept_and_told_of() {
    // The master is a restored backup: chunks were made in its terms that it does not know.
    let mut world = World::new(3).restarted(2);
    let grant = {
        for id in 1..=3 {
            world.join(id, vec![], vec![]);
        }
        world.first_chunk()
    };
    let lost = ReplicaReport {
        handle: ChunkHandle::of(Term::new(1), 70),
        ..replica(&grant, (3, 3), false)
    };
    assert!(lost.handle < grant.handle, "a later chunk on record says nothing of it");
    let empty = ReplicaReport {
        handle: ChunkHandle::of(Term::new(1), 71),
        version: ChunkVersion::of(Term::new(1), 72),
        ..ReplicaReport::default()
    };
    let answer = world.beat(1, vec![lost.clone(), empty.clone()], vec![]);
    let named: Vec<ChunkHandle> = answer.garbage.iter().map(|garbage| garbage.handle).collect();
    assert_eq!(named, [empty.handle], "a creation that came to nothing holds no byte");
    let health = world.with(|chunks, step| chunks.health(&chunks.view(step.now, step.state)));
    let told = |reason: &String| reason.starts_with("UNKNOWN_CHUNKS: 1 ");
    assert!(health.reasons.iter().any(told), "{:?}", health.reasons);
    world.request(6, Explain { subject: lost.handle.short() });
    assert!(matches!(
        world.reply(6),
        Some(Ok(Response::Explain(answer))) if answer.lines[0].contains("does not know it")
    ));
}

#[test]
fn a_server_that_knows_numbers_of_this_term_from_elsewhere_is_not_commanded() {
    let mut world = World::new(1);
    let at = ReplicaAt { server: server(7), ..ReplicaAt::default() };
    let highest_handle = ChunkHandle::of(Term::new(1), 5);
    world.request(5, Join { at, term: Term::new(1), highest_handle, ..Join::default() });
    assert_eq!(world.code(5), Some(ErrorCode::NotPrimaryMaster));
}

#[test]
fn hints_about_replicas_that_nobody_holds_are_not_kept() {
    let mut world = World::new(3);
    let grant = world.first_chunk();
    let hint = |handle, server| ReportBadBlock { handle, server, ..ReportBadBlock::default() };
    world.request(5, hint(grant.handle, server(44)));
    world.request(5, hint(ChunkHandle::new(9), server(1)));
    let counted = |world: &mut World, handle, server| {
        world.with(|chunks, _| chunks.fleet.bad_block_count(handle, server))
    };
    assert_eq!(counted(&mut world, grant.handle, server(44)), 0);
    assert_eq!(counted(&mut world, ChunkHandle::new(9), server(1)), 0);
    world.request(5, hint(grant.handle, grant.primary.server));
    assert_eq!(counted(&mut world, grant.handle, grant.primary.server), 1);
}

#[test]
fn a_number_that_nobody_can_have_counted_up_to_begins_no_life() {
    let (mut world, mut disks) = after_power_loss(&[((18, 18), true)]);
    let grant = ask_for(&mut world, &mut disks, LeasePurpose::Level, 60_000).expect("decided");
    assert_eq!(kept_above(&world, &grant), Some(18));
    let lie = ReplicaReport {
        version: ChunkVersion::default(),
        serial: SerialNumber::new((3 << 62) - 1),
        ..replica(&grant, (18, 18), false)
    };
    world.join(2, vec![lie], vec![]);
    world.pass(3000, &[1, 2]);
    let again = ask_for(&mut world, &mut disks, LeasePurpose::Level, 60_000);
    assert_eq!(members(&again.expect("the same one")), [1]);
}

/// Streams' seed 2053: the one of a set lost its tail with the power, and a clone that had it, and
/// whose answer to its raise was lost, was thrown away when the chunk had its goal.
#[test]
fn what_one_outside_the_set_has_above_suspects_that_are_all_of_it_is_kept() {
    for (serial, is_kept) in [(22, true), (20, false)] {
        let (mut world, mut disks) = after_power_loss(&[((20, 18), true)]);
        let version = disks[&1].version;
        let set = SetVersion {
            handle: disks[&1].handle,
            set_size: 1,
            version: ChunkVersion::of(Term::new(1), version.counter() + 50),
            ..SetVersion::default()
        };
        world.apply(set.clone());
        let alone = ReplicaReport { version: set.version, ..disks[&1].clone() };
        world.join(1, vec![alone.clone()], vec![]);
        disks.insert(1, alone.clone());
        let outside = ReplicaReport {
            serial: SerialNumber::new(serial),
            length: serial * 10,
            suspect: false,
            version,
            ..alone
        };
        for id in 2..=3 {
            world.join(id, vec![], vec![]);
        }
        world.join(2, vec![outside.clone()], vec![]);
        let grant = ask_for(&mut world, &mut disks, LeasePurpose::Level, 60_000).expect("a set");
        assert_eq!((members(&grant), kept_above(&world, &grant)), (vec![1], Some(20)));
        // The chunk has its goal: what is stale goes, but for what is kept.
        let version = world.state.chunk(grant.handle).expect("there").version;
        let good = ReplicaReport { version, ..replica(&grant, (20, 20), false) };
        for id in [1, 14, 15] {
            world.join(id, vec![good.clone()], vec![]);
        }
        world.pass(3000, &[1, 2, 3, 14, 15]);
        let named = world.beat(2, vec![outside], vec![]).garbage;
        assert_eq!(named.is_empty(), is_kept, "{named:?}");
    }
}

/// How far the set had come that was decided on, if it was.
fn kept_above(world: &World, grant: &ChunkGrant) -> Option<u64> {
    let kept = world.state.kept_above(grant.handle)?;
    let keeps = |serial| kept.keeps(ChunkVersion::default(), SerialNumber::new(serial));
    (0..100).rfind(|serial| !keeps(*serial))
}

#[test]
fn what_is_left_out_long_after_a_decision_goes_as_any_stale_replica() {
    let (mut world, mut disks) = after_power_loss(&[((18, 18), true)]);
    let grant = ask_for(&mut world, &mut disks, LeasePurpose::Level, 43_000).expect("decided");
    let handle = grant.handle;
    assert_eq!(kept_above(&world, &grant), Some(18));
    // It is written to, and gets its goal again, with the one that was decided on.
    let at = |number| ChunkVersion::of(Term::new(2), number);
    let written = |version| ReplicaReport { version, ..replica(&grant, (30, 30), false) };
    let next = |version| SetVersion { handle, set_size: 3, version, ..SetVersion::default() };
    world.apply(next(at(900)));
    for id in [1, 14, 15] {
        world.join(id, vec![written(at(900))], vec![]);
    }
    world.pass(3000, &[1, 14, 15]);
    // That server is drained: the set goes on without it.
    world.apply(next(at(901)));
    for id in [14, 15, 16] {
        world.join(id, vec![written(at(901))], vec![]);
    }
    world.pass(3000, &[1, 14, 15, 16]);
    let named = world.beat(1, vec![written(at(900))], vec![]).garbage;
    assert_eq!(named.len(), 1, "it holds nothing that the set has not");
    // One that was away at the decision, and has more than the set had then, is kept all the same.
    let late = ReplicaReport { version: ChunkVersion::default(), ..written(at(900)) };
    world.join(2, vec![late.clone()], vec![]);
    world.pass(3000, &[1, 2, 14, 15, 16]);
    assert_eq!(world.beat(2, vec![late], vec![]).garbage, []);
}

fn recover(world: &mut World, from: u64) -> Result<RecoverAnswer, ErrorCode> {
    world.request(7, Recover { subject: "/f".into(), server: server(from), ..Recover::default() });
    match world.reply(7) {
        Some(Ok(Response::Recover(answer))) => Ok(answer),
        Some(Err(failure)) => Err(failure.code),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_person_decides_at_once_for_the_best_suspect_while_others_are_away() {
    let told = [((10, 9), true), ((18, 18), true), ((15, 15), true)];
    let (mut world, mut disks) = after_power_loss(&told);
    disks.remove(&2);
    world.pass(4250, &[1, 3]);
    assert_eq!(ask_for(&mut world, &mut disks, LeasePurpose::Write, 1000), None, "2 may come");
    let chosen = recover(&mut world, 0).expect("there is something to decide").chosen;
    assert_eq!((chosen.len(), chosen[0].at.server), (1, server(3)));
    assert_eq!((chosen[0].suspect, chosen[0].stale, chosen[0].length), (true, false, 150));
    let grant = ask_for(&mut world, &mut disks, LeasePurpose::Level, 500).expect("decided");
    assert_eq!(members(&grant), [3]);
    assert_eq!(kept_above(&world, &grant), Some(15));
    assert_eq!(recover(&mut world, 0), Ok(RecoverAnswer::default()), "it is in use");
    // The one that held more comes back, and is kept.
    let back = ReplicaReport { version: disks[&1].version, ..replica(&grant, (18, 18), true) };
    world.join(2, vec![back.clone()], vec![]);
    assert_eq!(world.beat(2, vec![back], vec![]).garbage, []);
}

#[test]
fn only_a_person_who_names_it_gets_a_stale_replica_back_and_what_it_pushes_out_is_kept() {
    let told = [((10, 9), true), ((18, 18), true), ((15, 15), true)];
    let (mut world, mut disks) = after_power_loss(&told);
    let grant = ask_for(&mut world, &mut disks, LeasePurpose::Level, 7000).expect("decided");
    assert_eq!(members(&grant), [2]);
    let better = ReplicaReport { version: grant.version, ..replica(&grant, (18, 18), false) };
    let mut world = world.restarted(3);
    let stale = disks.remove(&1).expect("there");
    disks.clear();
    world.join(1, vec![stale.clone()], vec![]);
    disks.insert(1, stale);
    world.pass(60_000, &[1]);
    let refused = recover(&mut world, 0).expect("a path is looked at").refused;
    assert!(refused[0].contains("--from"), "{refused:?}");
    assert_eq!(ask_for(&mut world, &mut disks, LeasePurpose::Level, 1000), None);
    let chosen = recover(&mut world, 1).expect("named").chosen;
    assert!(chosen[0].stale);
    let grant = ask_for(&mut world, &mut disks, LeasePurpose::Level, 1000).expect("chosen");
    assert_eq!(members(&grant), [1]);
    assert_eq!(kept_above(&world, &grant), Some(10));
    world.join(2, vec![better.clone()], vec![]);
    assert_eq!(world.beat(2, vec![better], vec![]).garbage, [], "R28");
}

#[test]
fn a_stale_replica_is_not_taken_by_its_servers_name_where_good_ones_are_there() {
    let told = [((10, 10), false), ((18, 18), false), ((18, 18), false)];
    let (mut world, mut disks) = after_power_loss(&told);
    // The two that are level go on without the one that was away.
    let grant = ask_for(&mut world, &mut disks, LeasePurpose::Level, 9000).expect("granted");
    assert_eq!(members(&grant), [2, 3]);
    world.pass(9000, &[1, 2, 3]);
    for id in [2, 3] {
        world.beat(id, vec![disks[&id].clone()], vec![]);
    }
    assert_eq!(recover(&mut world, 1), Ok(RecoverAnswer::default()), "nothing is to be decided");
    let subject = grant.handle.short();
    world.request(7, Recover { subject, server: server(1), ..Recover::default() });
    assert_eq!(world.code(7), Some(ErrorCode::Invalid), "nor of the chunk alone");
}

/// Another's replica of the chunk, which lacks nothing.
fn with_all_of_it(report: &ReplicaReport) -> ReplicaReport {
    let serial = SerialNumber::new(18);
    ReplicaReport { serial, acknowledged_serial: serial, length: 180, ..report.clone() }
}

#[test]
fn nothing_is_chosen_while_a_master_that_has_started_is_not_told_yet_but_by_name() {
    let (mut world, mut disks) = after_power_loss(&[((10, 10), false)]);
    world.pass(250, &[1]);
    let answer = recover(&mut world, 0).expect("a path is looked at");
    assert_eq!((answer.chosen.len(), answer.refused.len()), (0, 1));
    // The two that hold all that was acknowledged join half a second later.
    let handle = disks[&1].handle;
    let full = with_all_of_it(&disks[&1]);
    for id in [2, 3] {
        disks.insert(id, full.clone());
        world.join(id, vec![full.clone()], vec![]);
    }
    let grant = ask_for(&mut world, &mut disks, LeasePurpose::Level, 9000).expect("granted");
    assert_eq!(members(&grant), [2, 3], "with all it had");
    let (mut world, _) = after_power_loss(&[((10, 10), false)]);
    let subject = handle.short();
    world.request(7, Recover { subject, server: server(1), ..Recover::default() });
    assert!(world.reply(7).is_some_and(|reply| reply.is_ok()), "chunk and server are named");
}

#[test]
fn a_choice_for_want_of_a_set_is_void_once_others_have_come_that_are_one() {
    for insists in [false, true] {
        let (mut world, mut disks) = after_power_loss(&[((10, 10), false)]);
        world.pass(4250, &[1]);
        let first = disks[&1].clone();
        if insists {
            let (subject, server) = (first.handle.short(), server(1));
            world.request(7, Recover { subject, server, ..Recover::default() });
            assert!(world.reply(7).is_some_and(|reply| reply.is_ok()));
        } else {
            assert_eq!(recover(&mut world, 0).map(|it| it.chosen.len()), Ok(1));
        }
        for id in [2, 3] {
            let full = with_all_of_it(&first);
            disks.insert(id, full.clone());
            world.join(id, vec![full], vec![]);
        }
        let grant = ask_for(&mut world, &mut disks, LeasePurpose::Level, 9000).expect("granted");
        let expected: &[u64] = if insists { &[1] } else { &[2, 3] };
        assert_eq!(members(&grant), expected);
    }
}

#[test]
fn what_is_well_needs_no_decision() {
    let mut world = World::new(3);
    let grant = world.first_chunk();
    let mut world = world.restarted(2);
    for id in members(&grant) {
        world.join(id, vec![replica(&grant, (4, 4), false)], vec![]);
    }
    world.pass(30_000, &[1, 2, 3]);
    world.request(7, Recover { subject: grant.handle.short(), ..Recover::default() });
    assert_eq!(world.code(7), Some(ErrorCode::Invalid));
    assert_eq!(recover(&mut world, 0), Ok(RecoverAnswer::default()));
    assert_eq!(recover(&mut world, 9).map(|answer| answer.refused.len()), Ok(1), "no such server");
}
