//! The exact effects of events on [`Chunks`](super::Chunks).

use super::test_world::{FILE, Sent, World, held, lease, lost_answer, members, report, server};
use crate::outbox::ProposalId;
use crate::record::{
    AddDirectories, AddFile, HideEntry, MoveEntry, NewDirectory, OpenChunk, Record,
};
use crate::rules::reading;
use crate::state::ROOT;
use cairn_protocol::{
    ChunkClosed, ChunkGrant, ErrorCode, Heartbeat, HeldLease, Join, Lease, LeasePurpose,
    ProbeAnswer, Raise, RecordLength, ReplicaReport, Request, Response, SecondaryFailed,
    ServedReign,
};
use cairn_types::{
    CellId, ChunkHandle, ChunkIndex, ChunkVersion, EntryId, LeaseId, MutationName, MutationNumber,
    ReignId, SerialNumber, Term,
};

mod absent_servers;
mod after_power_loss;
mod bad_replicas;
mod below_goal;
mod charged;
mod chunk_list;
mod closed_unmarked;
mod copied_on_write;
mod counts;
mod elsewhere;
mod full_servers;
mod furthest;
mod impossible_index;
mod impossible_words;
mod in_anothers_name;
mod late_heartbeat;
mod left_out;
mod levelled_unasked;
mod marked_and_open;
mod moves;
mod nowhere_to_go;
mod opened_together;
mod purged;
mod recovered_by_word;
mod repair;
mod slices;
mod spread;
mod troubled_grants;
mod unreached;
mod urgent_first;
mod written_by_producer;

/// Client 2 doubts the primary; its probe is on its way.
fn doubt(world: &mut World, grant: &ChunkGrant, purpose: LeasePurpose) {
    let failed = grant.primary.server;
    let failed_version = grant.version;
    world.request(2, Lease { failed, failed_version, ..lease(purpose, 0) });
}

#[test]
fn chunks_that_are_made_at_the_same_time_are_made_on_different_servers() {
    let mut world = World::new(6);
    let other = EntryId::new(FILE.get() + 500);
    let name = "other".to_owned();
    let (id, replication) = (other, 3);
    let mutation = MutationName { number: MutationNumber::new(901), ..MutationName::default() };
    world.apply(AddFile { mutation, parent: ROOT, name, id, replication, ..AddFile::default() });
    world.request(1, lease(LeasePurpose::Append, 0));
    world.request(2, Lease { file: other, ..lease(LeasePurpose::Append, 0) });
    // Nobody has made anything yet.
    let mut asked: Vec<u64> = world.raises().iter().map(|(_, to, _)| *to).collect();
    asked.sort_unstable();
    assert_eq!(asked, [1, 2, 3, 4, 5, 6]);
}

#[test]
fn a_first_chunk_is_created_on_three_servers_logged_and_granted_to_all_who_wait() {
    let mut world = World::new(4);
    world.request(1, lease(LeasePurpose::Append, 0));
    world.request(2, lease(LeasePurpose::Append, 0));
    let asked = world.accept_raises(&[]);
    assert_eq!(asked.len(), 3);
    assert!(asked.iter().all(|(_, raise)| raise.create && raise.from.is_none()));
    assert!(world.sent.is_empty(), "nothing is granted before the version is logged");
    let logged = world.commit();
    assert!(matches!(
        &logged[..],
        [Record::OpenChunk(OpenChunk { set_size: 3, closes: None, .. })]
    ));
    let grant = world.accept_grant();
    assert_eq!(grant.version, asked[0].1.to);
    assert!(!grant.writes_only);
    assert_eq!(world.granted(1), world.granted(2));
}

#[test]
fn a_server_that_does_not_answer_a_creation_is_replaced_under_a_fresh_number() {
    let mut world = World::new(4);
    world.request(1, lease(LeasePurpose::Append, 0));
    let first: Vec<(u64, Raise)> = world
        .raises()
        .into_iter()
        .map(|(id, to, raise)| {
            if to == 1 || to == 2 {
                world.accept(id, &raise, ReplicaReport::default())
            } else {
                world.answer(id, Err(lost_answer()))
            }
            (to, raise)
        })
        .collect();
    let again = world.accept_raises(&[]);
    assert!(world.proposed.len() == 1, "logged once all of the round have answered");
    let spent = first[0].1.to;
    for (to, raise) in &again {
        assert!(raise.to > spent, "the number is spent (R8)");
        let was = first.iter().find(|(known, _)| known == to);
        assert_eq!(raise.create, was.is_none());
        assert_eq!(raise.from, if was.is_some() { spent } else { ChunkVersion::default() });
    }
}

#[test]
fn with_too_few_servers_nothing_is_granted_and_the_client_hears_why() {
    let mut world = World::new(0);
    world.request(1, lease(LeasePurpose::Append, 0));
    world.pass(2000, &[]);
    let failure = world.reply(1).expect("answered").expect_err("no server");
    assert_eq!(failure.code, ErrorCode::Busy);
    assert!(failure.message.contains("0 chunkservers have room"), "{}", failure.message);
}

#[test]
fn a_live_lease_is_answered_at_once_and_a_doubted_primary_is_probed_first() {
    let mut world = World::new(3);
    let grant = world.first_chunk();
    world.request(2, lease(LeasePurpose::Append, 0));
    assert_eq!(world.granted(2), grant);
    doubt(&mut world, &grant, LeasePurpose::Append);
    let (id, probe) = world.take_probe();
    assert_eq!(probe.lease, grant.lease);
    assert!(world.raises().is_empty(), "no fence before the probe is answered (R18)");
    let replica = report(&grant);
    world.answer(id, Ok(Response::Probe(ProbeAnswer { replica, holds: true })));
    assert_eq!(world.granted(2), grant);
}

#[test]
fn a_dead_primary_is_fenced_by_its_secondaries_before_the_next_chunk_is_opened() {
    let mut world = World::new(4);
    let grant = world.first_chunk();
    let dead = grant.primary.server.get();
    doubt(&mut world, &grant, LeasePurpose::Append);
    let (id, _) = world.take_probe();
    world.answer(id, Err(lost_answer()));
    let fence = world.accept_raises(&[dead]);
    assert!(fence.iter().all(|(_, raise)| raise.close && raise.handle == grant.handle));
    let created = world.accept_raises(&[dead]);
    assert!(created.iter().all(|(_, raise)| raise.create && raise.handle != grant.handle));
    if world.proposed.is_empty() {
        world.accept_raises(&[dead]);
    }
    let logged = world.commit();
    let closes = Some(grant.handle);
    assert!(
        matches!(&logged[..], [Record::OpenChunk(open)] if open.closes == closes),
        "{logged:?}"
    );
    let chunk = world.state.chunk(grant.handle).expect("there");
    assert_eq!((chunk.version, chunk.set_size), (grant.version, 3), "a fence is not logged");
    world.accept_grant();
    assert_eq!(world.granted(2).index, ChunkIndex::new(1));
    let is_fenced = |world: &mut World| {
        world.with(|chunks, step| chunks.view(step.now, step.state).leases.is_fenced(grant.handle))
    };
    assert!(is_fenced(&mut world));
    world.pass(250, &[1, 2, 3, 4]);
    assert!(!is_fenced(&mut world), "once the close is logged, the fence is not kept");
}

#[test]
fn with_nobody_left_to_fence_the_next_chunk_waits_for_the_lease_to_end() {
    let mut world = World::new(4);
    let grant = world.first_chunk();
    doubt(&mut world, &grant, LeasePurpose::Append);
    let (id, _) = world.take_probe();
    world.answer(id, Err(lost_answer()));
    world.accept_raises(&[1, 2, 3, 4]);
    world.request(3, lease(LeasePurpose::Append, 0));
    world.pass(500, &[1, 2, 3, 4]);
    let fence = world.accept_raises(&[1, 2, 3, 4]);
    assert!(fence.iter().all(|(_, raise)| raise.close), "tried again, nothing else");
    for _ in 0..8 {
        world.pass(250, &[1, 2, 3, 4]);
        if world.accept_raises(&[1, 2, 3, 4]).into_iter().any(|(_, raise)| raise.create) {
            assert!(world.millis >= 1_000_000 + 2000, "the lease is over (R18)");
            return;
        }
        world.request(3, lease(LeasePurpose::Append, 0));
    }
    panic!("the next chunk was never opened");
}

#[test]
fn a_write_waits_for_the_dead_primary_s_lease_and_a_lease_for_itself() {
    let mut world = World::new(3);
    let grant = world.first_chunk();
    let dead = grant.primary.server.get();
    let alive: Vec<u64> = (1..=3).filter(|id| *id != dead).collect();
    doubt(&mut world, &grant, LeasePurpose::Write);
    let (id, _) = world.take_probe();
    world.answer(id, Err(lost_answer()));
    assert_eq!(world.accept_raises(&[dead]).len(), 3, "it is asked, being live by its heartbeats");
    assert!(world.proposed.is_empty(), "no version without the holder while its lease may run");
    let died = world.millis + 500;
    loop {
        let there: &[u64] = if world.millis < died { &[1, 2, 3] } else { &alive };
        world.pass(250, there);
        world.request(3, lease(LeasePurpose::Write, 0));
        if world.millis >= died + 2000 {
            break;
        }
        world.accept_raises(&[dead]);
        assert!(world.proposed.is_empty(), "its last word is younger than a lease (R11)");
    }
    world.request(7, lease(LeasePurpose::Write, 0));
    assert_eq!(world.accept_raises(&[]).len(), 2);
    let logged = world.commit();
    assert!(matches!(&logged[..], [Record::SetVersion(set)] if set.set_size == 2), "{logged:?}");
    world.accept_grant();
    assert_eq!(members(&world.granted(7)), alive);
}

#[test]
fn a_lost_answer_spends_the_number_of_a_grant() {
    let mut world = World::new(4);
    let grant = world.first_chunk();
    let out = grant.secondaries[0].server.get();
    let alive: Vec<u64> = (1..=4).filter(|id| *id != out).collect();
    world.pass(2000, &[1, 2, 3, 4]);
    // The server dies between being asked and answering.
    world.request(2, lease(LeasePurpose::Write, 0));
    let first = world.raises();
    world.pass(4000, &alive);
    for (id, to, raise) in &first {
        if *to == out {
            world.answer(*id, Err(lost_answer()));
        } else {
            world.accept(*id, raise, ReplicaReport::default());
        }
    }
    assert!(world.proposed.is_empty(), "its number is spent (R8)");
    let again = world.accept_raises(&[]);
    assert_eq!(again.len(), 2);
    assert!(again.iter().all(|(_, raise)| raise.from == first[0].2.to && raise.to > first[0].2.to));
    let logged = world.commit();
    let to = again[0].1.to;
    assert!(
        matches!(&logged[..], [Record::SetVersion(set)] if set.version == to && set.set_size == 2)
    );
}

#[test]
fn a_replica_that_lacks_acknowledged_bytes_is_left_out_of_the_set() {
    let mut world = World::new(3);
    let grant = world.first_chunk();
    // R11 lets a stale member go only when no missing one may still come.
    world.pass(4500, &[1, 2, 3]);
    world.request(2, lease(LeasePurpose::Write, 0));
    for (id, to, raise) in world.raises() {
        let serial = SerialNumber::new(if to == 2 { 3 } else { 9 });
        let acknowledged_serial = serial;
        let told = ReplicaReport { serial, acknowledged_serial, ..ReplicaReport::default() };
        world.accept(id, &raise, told);
    }
    assert!(world.proposed.is_empty(), "it stands at the number that was asked for (R8)");
    let again = world.accept_raises(&[]);
    assert_eq!(again.iter().map(|(to, _)| *to).collect::<Vec<_>>(), [1, 3]);
    world.commit();
    world.accept_grant();
    assert_eq!(members(&world.granted(2)), [1, 3]);
    assert!(grant.version < world.state.chunk(grant.handle).expect("there").version);
}

#[test]
fn a_failed_secondary_is_left_out_under_the_same_lease() {
    let mut world = World::new(3);
    let grant = world.first_chunk();
    let failed = vec![grant.secondaries[0].server];
    let (handle, version, lease) = (grant.handle, grant.version, grant.lease);
    world.request(5, SecondaryFailed { handle, version, lease, failed });
    let asked = world.accept_raises(&[]);
    assert_eq!(asked.len(), 2);
    assert!(world.reply(5).is_none(), "the version is not logged yet (R14)");
    world.commit();
    match world.reply(5) {
        Some(Ok(Response::SecondaryFailed(answer))) => {
            assert_eq!(answer.version, asked[0].1.to);
            assert_eq!(answer.secondaries, [grant.secondaries[1].clone()]);
        }
        other => panic!("{other:?}"),
    }
    // The client's next question finds the smaller set, and a shrink to one is refused.
    world.request(6, super::test_world::lease(LeasePurpose::Append, 0));
    let smaller = world.granted(6);
    assert_eq!((smaller.lease, smaller.secondaries.len()), (lease, 1));
    let failed = vec![smaller.secondaries[0].server];
    world.request(7, SecondaryFailed { handle, version: smaller.version, lease, failed });
    assert_eq!(world.code(7), Some(ErrorCode::TooFewServers));
    assert!(world.raises().is_empty(), "R11");
}

#[test]
fn a_closed_chunk_s_primary_is_answered_when_the_next_one_is_logged() {
    let mut world = World::new(3);
    let grant = world.first_chunk();
    let (handle, version, lease) = (grant.handle, grant.version, grant.lease);
    let index = ChunkIndex::default();
    world.request(5, ChunkClosed { handle, version, lease, file: FILE, index });
    let asked = world.accept_raises(&[]);
    assert!(asked.iter().all(|(_, raise)| raise.create), "a primary that closed needs no fence");
    assert!(world.reply(5).is_none());
    world.commit();
    assert!(matches!(world.reply(5), Some(Ok(Response::ChunkClosed(_)))));
    assert!(world.state.chunk(handle).expect("there").closed);
}

#[test]
fn a_sequential_writer_opens_the_next_chunk_without_a_fence() {
    let mut world = World::new(3);
    world.request(1, lease(LeasePurpose::Write, 0));
    world.accept_raises(&[]);
    world.commit();
    assert!(world.accept_grant().writes_only, "a writer's lease takes no appends");
    let first = world.granted(1);
    world.request(2, lease(LeasePurpose::Write, 1));
    assert!(world.accept_raises(&[]).iter().all(|(_, raise)| raise.create));
    world.commit();
    assert!(world.state.chunk(first.handle).expect("there").closed);
    world.request(3, lease(LeasePurpose::Write, 0));
    assert_eq!(world.granted(3), first, "the first chunk's lease goes on");
}

#[test]
fn a_lease_is_extended_only_for_its_holder_while_it_is_wanted_and_lives() {
    let mut world = World::new(3);
    let grant = world.first_chunk();
    let holder = grant.primary.server.get();
    let other = grant.secondaries[0].server.get();
    world.millis += 500;
    assert_eq!(world.beat(holder, vec![], vec![held(&grant)]).extended, [grant.lease]);
    assert_eq!(world.beat(other, vec![], vec![held(&grant)]).extended, []);
    let idle = HeldLease { wanted: false, ..held(&grant) };
    assert_eq!(world.beat(holder, vec![], vec![idle]).extended, []);
    let wrong = HeldLease { lease: LeaseId::new(1), ..held(&grant) };
    assert_eq!(world.beat(holder, vec![], vec![wrong]).extended, []);
    world.millis += 2000;
    assert_eq!(world.beat(holder, vec![], vec![held(&grant)]).extended, [], "it revives nothing");
}

/// Hides the file by `record`, and then by nothing else: its lease must be gone.
fn hides(world: &mut World, grant: &ChunkGrant, record: impl Into<Record>) {
    let holder = grant.primary.server.get();
    let outcome = world.apply(record);
    world.with(|chunks, step| chunks.on_applied(step, ProposalId::default(), &outcome));
    assert!(matches!(
        &world.sent[..],
        [Sent { request: Request::RevokeLease(revoke), .. }] if revoke.lease == grant.lease
    ));
    assert_eq!(world.beat(holder, vec![], vec![held(grant)]).extended, []);
    world.request(2, lease(LeasePurpose::Append, 0));
    assert_eq!(world.code(2), Some(ErrorCode::NotFound));
}

fn mutation(number: u64) -> MutationName {
    MutationName { number: MutationNumber::new(number), ..MutationName::default() }
}

#[test]
fn a_deleted_file_s_lease_is_revoked_and_neither_extended_nor_granted() {
    let mut world = World::new(3);
    let grant = world.first_chunk();
    let (mutation, name) = (mutation(2), "f".into());
    let hide = HideEntry { mutation, entry: FILE, parent: ROOT, name, ..HideEntry::default() };
    hides(&mut world, &grant, hide);
}

#[test]
fn a_file_s_lease_is_revoked_when_another_takes_its_name_or_its_directory_is_deleted() {
    let other = EntryId::new(FILE.get() + 7);
    let mut world = World::new(3);
    let grant = world.first_chunk();
    world.apply(AddFile {
        mutation: mutation(2),
        parent: ROOT,
        name: "g".into(),
        id: other,
        replication: 3,
        ..AddFile::default()
    });
    let replace = MoveEntry {
        mutation: mutation(3),
        entry: other,
        from_parent: ROOT,
        from_name: "g".into(),
        to_parent: ROOT,
        to_name: "f".into(),
        replace: true,
        ..MoveEntry::default()
    };
    hides(&mut world, &grant, replace);

    let mut world = World::new(3);
    let grant = world.first_chunk();
    let directories = vec![NewDirectory { id: other, name: "d".into() }];
    let (parent, made) = (ROOT, mutation(2));
    world.apply(AddDirectories {
        mutation: made,
        parent,
        directories,
        ..AddDirectories::default()
    });
    let into = MoveEntry {
        mutation: mutation(3),
        entry: FILE,
        from_parent: ROOT,
        from_name: "f".into(),
        to_parent: other,
        to_name: "f".into(),
        ..MoveEntry::default()
    };
    let outcome = world.apply(into);
    world.with(|chunks, step| chunks.on_applied(step, ProposalId::default(), &outcome));
    assert!(world.sent.is_empty(), "a rename hides nothing: {:?}", world.sent);
    let (mutation, name) = (mutation(4), "d".into());
    let hide =
        HideEntry { mutation, entry: other, parent, name, recursive: true, ..HideEntry::default() };
    hides(&mut world, &grant, hide);
}

#[test]
fn a_new_master_grants_nothing_while_a_former_holder_may_still_act() {
    let mut world = World::new(3);
    let grant = world.first_chunk();
    let holder = grant.primary.server.get();
    let others: Vec<u64> = grant.secondaries.iter().map(|at| at.server.get()).collect();
    let mut world = world.restarted(2);
    for id in &others {
        world.join(*id, vec![report(&grant)], vec![]);
    }
    world.request(1, lease(LeasePurpose::Write, 0));
    assert!(world.raises().is_empty(), "R22");
    // The holder reports: its lease goes on, extended by its heartbeats.
    world.join(holder, vec![report(&grant)], vec![held(&grant)]);
    world.request(2, lease(LeasePurpose::Write, 0));
    let same = world.granted(2);
    assert_eq!((same.lease, members(&same)), (grant.lease, members(&grant)));
    assert_eq!(world.beat(holder, vec![], vec![held(&grant)]).extended, [grant.lease]);
}

#[test]
fn a_new_master_that_hears_of_no_lease_from_all_members_grants_at_once() {
    let mut world = World::new(3);
    let grant = world.first_chunk();
    let mut world = world.restarted(2);
    for id in members(&grant) {
        world.join(id, vec![report(&grant)], vec![]);
    }
    world.request(1, lease(LeasePurpose::Append, 0));
    assert_eq!(world.accept_raises(&[]).len(), 3);
    world.commit();
    world.accept_grant();
    assert!(world.granted(1).version.term() == Term::new(2));
}

#[test]
fn garbage_is_what_no_record_knows_but_never_a_handle_in_the_making() {
    let mut world = World::new(4);
    world.request(1, lease(LeasePurpose::Append, 0));
    let raises = world.raises();
    let (_, to, raise) = &raises[0];
    let making =
        ReplicaReport { handle: raise.handle, version: raise.to, ..ReplicaReport::default() };
    let unknown = ReplicaReport { handle: ChunkHandle::new(77), ..making.clone() };
    let answer = world.beat(*to, vec![making, unknown], vec![]);
    let named: Vec<ChunkHandle> = answer.garbage.iter().map(|garbage| garbage.handle).collect();
    assert_eq!(named, [ChunkHandle::new(77)]);
}

#[test]
fn a_stale_replica_is_garbage_once_the_chunk_has_its_goal_and_not_before() {
    let mut world = World::new(4);
    let grant = world.first_chunk();
    let spare = (1..=4).find(|id| !members(&grant).contains(id)).expect("four servers");
    let stale = ReplicaReport { version: ChunkVersion::new(1), ..report(&grant) };
    // Its fellows have been heard of since its server joined.
    world.pass(250, &[1, 2, 3, 4]);
    assert_eq!(world.beat(spare, vec![stale.clone()], vec![]).garbage.len(), 1);
    let lost = grant.secondaries[0].server.get();
    let alive: Vec<u64> = (1..=4).filter(|id| *id != lost).collect();
    world.pass(1250, &alive);
    assert_eq!(world.beat(spare, vec![stale], vec![]).garbage, []);
}

#[test]
fn a_server_that_has_served_a_master_whose_changes_this_log_lacks_is_not_taken_in() {
    let mut world = World::new(2);
    let cell = world.state.cell();
    let served = |term, reign| {
        let (term, reign) = (Term::new(term), ReignId::new(reign));
        ServedReign { term, reign, ..ServedReign::default() }
    };
    let join = |cell, served| Join { cell, served, ..Join::default() };
    world.request(5, join(CellId::default(), served(3, 8)));
    assert!(world.reply(5).is_some_and(|reply| reply.is_ok()), "of no cell, so of no history");
    world.request(6, join(cell, served(3, 8)));
    assert_eq!(world.code(6), Some(ErrorCode::NotPrimaryMaster));
}

#[test]
fn a_server_that_heard_of_a_later_term_is_not_commanded() {
    let mut world = World::new(1);
    let join = Join { term: Term::new(9), ..Join::default() };
    world.request(5, join);
    assert_eq!(world.code(5), Some(ErrorCode::NotPrimaryMaster));
    let join = Join { cell: CellId::new(6), ..Join::default() };
    world.request(6, join);
    assert_eq!(world.code(6), Some(ErrorCode::WrongCell));
    let answer = {
        world.request(7, Heartbeat { server: server(44), ..Heartbeat::default() });
        world.reply(7)
    };
    assert!(matches!(answer, Some(Ok(Response::Heartbeat(beat))) if beat.rejoin));
}

#[test]
fn readers_are_sent_to_the_version_that_most_good_replicas_stand_at() {
    let mut world = World::new(4);
    let grant = world.first_chunk();
    let dead = grant.primary.server.get();
    doubt(&mut world, &grant, LeasePurpose::Append);
    let (id, _) = world.take_probe();
    world.answer(id, Err(lost_answer()));
    let fence = world.accept_raises(&[dead]);
    let locations = world
        .with(|chunks, step| reading::locations(&chunks.view(step.now, step.state), grant.handle));
    assert_eq!(locations.version, fence[0].1.to, "above the logged one, and as good (R9)");
    assert_eq!(locations.replicas.len(), 2);
    assert_eq!(locations.primary, None);
}

#[test]
fn the_length_is_asked_of_the_primary_and_recorded() {
    let mut world = World::new(3);
    world.first_chunk();
    world.request(5, RecordLength { file: FILE, closes: true });
    let sent = world.sent.pop().expect("the primary is asked");
    assert!(matches!(sent.request, Request::ChunkLength(_)));
    let length = cairn_protocol::ChunkLengthAnswer { length: 70, closed: false, primary: true };
    world.answer(sent.id, Ok(Response::ChunkLength(length)));
    assert!(world.reply(5).is_none(), "not before it is logged");
    world.commit();
    assert!(matches!(
        world.reply(5),
        Some(Ok(Response::RecordLength(answer))) if answer.length == 70
    ));
}

#[test]
fn a_blocked_chunk_says_what_it_waits_for() {
    let mut world = World::new(3);
    let grant = world.first_chunk();
    let lost = grant.secondaries[0].server.get();
    let alive: Vec<u64> = (1..=3).filter(|id| *id != lost).collect();
    world.pass(500, &[1, 2, 3]);
    world.pass(1750, &alive);
    world.request(5, cairn_protocol::Explain { subject: "/f".into() });
    let Some(Ok(Response::Explain(answer))) = world.reply(5) else { panic!("explained") };
    assert!(!answer.healthy);
    let text = answer.lines.join("\n");
    assert!(text.contains("1 replicas of 3 are missing and waited for"), "{text}");
    let health = world.with(|chunks, step| chunks.health(&chunks.view(step.now, step.state)));
    let reason = format!("SERVERS_SILENT: 1 chunkservers missed their heartbeats: s{lost}:1");
    assert_eq!(health.reasons, [reason], "it costs nothing yet");
    world.pass(3000, &alive);
    let health = world.with(|chunks, step| chunks.health(&chunks.view(step.now, step.state)));
    assert_eq!((health.counts.below_goal, health.counts.unavailable), (1, 0));
}
