//! What a file is charged beyond its length, and when that is given back (R36).

use super::{FILE, World, members, report};
use crate::record::{ChangeQuota, OpenChunk, RaiseLevel};
use crate::state::ROOT;
use cairn_env::EffectId;
use cairn_protocol::{
    ChunkGrant, ChunkLengthAnswer, ErrorCode, RecordLength, ReplicaReport, Request, Response,
    RevokeLease, RevokeLeaseAnswer,
};
use cairn_types::{ChunkIndex, MutationName, MutationNumber};

/// The first chunk of [`FILE`] is granted, and counts in a quota.
fn charged() -> (World, ChunkGrant) {
    let mut world = World::new(3);
    world.apply(RaiseLevel { level: 1, ..RaiseLevel::default() });
    let mutation = MutationName { number: MutationNumber::new(77), ..MutationName::default() };
    let bytes = Some(1 << 30);
    world.apply(ChangeQuota { mutation, entry: ROOT, bytes, ..ChangeQuota::default() });
    assert!(world.state.subtrees().have_quotas());
    let grant = world.first_chunk();
    assert!(is_charged(&world));
    (world, grant)
}

fn is_charged(world: &World) -> bool {
    world.state.subtrees().charged(FILE).is_some()
}

fn length(world: &World) -> u64 {
    world.state.entry(FILE).expect("there").length
}

fn close(world: &mut World, from: u64) {
    world.request(from, RecordLength { file: FILE, closes: true });
}

/// What a close or a sync was answered.
fn told(world: &mut World, from: u64) -> u64 {
    match world.reply(from) {
        Some(Ok(Response::RecordLength(answer))) => answer.length,
        other => panic!("no length: {other:?}"),
    }
}

/// The question for a lease that is on its way.
fn asked_back(world: &mut World) -> (EffectId, RevokeLease) {
    match world.sent.pop().map(|sent| (sent.id, sent.request)) {
        Some((id, Request::RevokeLease(revoke))) => (id, revoke),
        other => panic!("no lease is asked back: {other:?}"),
    }
}

#[test]
fn a_close_asks_the_lease_back_and_a_sync_leaves_it() {
    let (mut world, grant) = charged();
    world.request(5, RecordLength { file: FILE, closes: false });
    let sent = world.sent.pop().expect("the primary is asked");
    assert!(matches!(sent.request, Request::ChunkLength(_)), "{sent:?}");
    let answer = ChunkLengthAnswer { length: 70, closed: false, primary: true };
    world.answer(sent.id, Ok(Response::ChunkLength(answer)));
    world.commit();
    assert_eq!((told(&mut world, 5), is_charged(&world)), (70, true), "it may be written on");
    close(&mut world, 6);
    let (id, revoke) = asked_back(&mut world);
    assert_eq!(revoke.lease, grant.lease);
    let replica = ReplicaReport { length: 80, acknowledged: 80, ..report(&grant) };
    world.answer(id, Ok(Response::RevokeLease(RevokeLeaseAnswer { replica })));
    world.commit();
    assert_eq!((told(&mut world, 6), length(&world), is_charged(&world)), (80, 80, false));
}

#[test]
fn a_second_close_while_the_lease_is_asked_back_is_told_no_length_that_is_too_short() {
    let (mut world, grant) = charged();
    close(&mut world, 5);
    let (id, _) = asked_back(&mut world);
    close(&mut world, 6);
    assert_eq!(world.code(6), Some(ErrorCode::Busy));
    let replica = ReplicaReport { length: 80, acknowledged: 80, ..report(&grant) };
    world.answer(id, Ok(Response::RevokeLease(RevokeLeaseAnswer { replica })));
    world.commit();
    close(&mut world, 6);
    assert_eq!((told(&mut world, 5), told(&mut world, 6)), (80, 80));
    assert!(!is_charged(&world));
}

#[test]
fn a_file_whose_primary_is_gone_stays_charged_while_others_hold_what_it_may_have_acknowledged() {
    let (mut world, grant) = charged();
    let primary = grant.primary.server.get();
    let others: Vec<u64> = members(&grant).into_iter().filter(|id| *id != primary).collect();
    world.pass(20_000, &others);
    // They have applied what the primary acknowledged, and have not heard that it did.
    let held = ReplicaReport { length: 1000, acknowledged: 900, ..report(&grant) };
    for id in &others {
        world.beat(*id, vec![held.clone()], vec![]);
    }
    world.pass(1000, &others);
    close(&mut world, 5);
    world.commit();
    assert_eq!((told(&mut world, 5), is_charged(&world)), (900, true));
    let first = ReplicaReport { acknowledged: 1000, ..held };
    world.join_as(primary, 7, vec![first], vec![]);
    world.wake_up();
    world.commit();
    assert_eq!((length(&world), is_charged(&world)), (1000, false));
}

#[test]
fn a_file_stays_charged_while_nobody_has_told_of_its_last_chunk_since_its_lease() {
    let (mut world, grant) = charged();
    for silent in [20_000, 100_000] {
        world.pass(silent, &[]);
        world.commit();
        assert!(is_charged(&world), "{silent} ms");
    }
    let held = ReplicaReport { length: 1000, acknowledged: 1000, ..report(&grant) };
    let suspect = ReplicaReport { length: 900, acknowledged: 900, suspect: true, ..held.clone() };
    world.join_as(1, 7, vec![suspect], vec![]);
    world.wake_up();
    world.commit();
    assert!(is_charged(&world), "it may have lost what others have");
    world.join_as(2, 8, vec![held], vec![]);
    world.wake_up();
    world.commit();
    assert_eq!((length(&world), is_charged(&world)), (1000, false));
}

#[test]
fn a_file_that_got_another_last_chunk_while_a_lease_was_asked_back_stays_charged() {
    let (mut world, grant) = charged();
    close(&mut world, 5);
    let (id, _) = asked_back(&mut world);
    let (handle, index) = (world.numbers.handle(), ChunkIndex::new(1));
    let version = world.numbers.version();
    world.apply(OpenChunk { file: FILE, index, handle, version, set_size: 3, ..open() });
    let replica = ReplicaReport { length: 80, acknowledged: 80, ..report(&grant) };
    world.answer(id, Ok(Response::RevokeLease(RevokeLeaseAnswer { replica })));
    world.wake_up();
    world.commit();
    assert_eq!((told(&mut world, 5), is_charged(&world)), (80, true), "of that nobody has told");
}

fn open() -> OpenChunk {
    OpenChunk { charges: true, ..OpenChunk::default() }
}
