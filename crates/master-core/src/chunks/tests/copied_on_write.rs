//! A chunk that several files have is copied for the one that is about to change it (R32), and what
//! is in a snapshot that is being taken is changed by nobody (R34).

use super::after_power_loss::{after_power_loss, while_the_third_takes_no_raise};
use super::{FILE, World, lease, report, server};
use crate::applied::Applied;
use crate::record::{CloseChunk, CopiedEntry, CopyEntries, RaiseLevel, Record, SnapshotTree};
use crate::scheduler::Fences;
use crate::state::{HIDDEN_ROOT, ROOT};
use cairn_env::EffectId;
use cairn_protocol::{
    ChunkGrant, CopyChunk, CopyChunkAnswer, ErrorCode, Failure, Lease, LeasePurpose, Locate,
    ReplicaReport, Request, Response, RevokeLease, RevokeLeaseAnswer,
};
use cairn_types::{
    ChunkHandle, ChunkIndex, ChunkVersion, EntryId, LeaseId, MutationName, MutationNumber,
    SerialNumber,
};

const COPY: EntryId = EntryId::new(200);

/// A chunk of [`FILE`], of which [`COPY`] is a snapshot; nobody has a lease.
fn shared() -> (World, ChunkHandle) {
    let mut world = World::new(3);
    let grant = world.first_chunk();
    // The lease runs out.
    world.pass(20_000, &[1, 2, 3]);
    snapshot(&mut world);
    assert!(world.state.sharing().is_shared(grant.handle));
    (world, grant.handle)
}

fn snapshot(world: &mut World) {
    let copied = CopiedEntry {
        source: FILE,
        id: COPY,
        parent: HIDDEN_ROOT,
        name: "g".to_owned(),
        count: 1,
        ..CopiedEntry::default()
    };
    world.apply(RaiseLevel { level: 1, ..RaiseLevel::default() });
    world.apply(CopyEntries { top: COPY, entries: vec![copied], ..CopyEntries::default() });
    let number = MutationNumber::new(77);
    let mutation = MutationName { number, ..MutationName::default() };
    let (to_parent, to_name) = (ROOT, "g".to_owned());
    let last =
        SnapshotTree { mutation, top: COPY, entries: 1, to_parent, to_name, ..Default::default() };
    world.apply(last);
}

/// The copies that servers were asked for, taken out.
fn copies(world: &mut World) -> Vec<(EffectId, CopyChunk)> {
    let mut copies = vec![];
    world.sent.retain(|sent| match &sent.request {
        Request::CopyChunk(copy) => {
            copies.push((sent.id, *copy));
            false
        }
        _ => true,
    });
    copies
}

fn copied() -> Result<Response, Failure> {
    Ok(Response::CopyChunk(CopyChunkAnswer::default()))
}

fn chunk_at(world: &World, file: EntryId) -> Option<ChunkHandle> {
    world.state.chunk_at(file, ChunkIndex::default())
}

/// Where readers of a file are told that its chunk is: handle, version, replicas.
fn located(world: &World, file: EntryId) -> (ChunkHandle, ChunkVersion, usize) {
    let view = world.chunks.view(world.moment(), &world.state);
    let wish = Locate { file, count: 1, ..Locate::default() };
    let chunks = crate::reads::locate(&view, &wish).expect("a file").chunks;
    (chunks[0].handle, chunks[0].version, chunks[0].replicas.len())
}

#[test]
fn who_reads_a_file_is_sent_nowhere_while_a_chunk_is_copied_for_it_and_the_others_go_on() {
    let (mut world, handle) = shared();
    let before = located(&world, FILE);
    assert_eq!((before, before.0, before.2), (located(&world, COPY), handle, 3));
    world.request(3, lease(LeasePurpose::Write, 0));
    let raised = world.accept_raises(&[])[0].1.to;
    // R12: told that version as this file's, a reader would not be refused once the copy changes.
    assert_eq!((located(&world, FILE).2, located(&world, COPY)), (0, (handle, raised, 3)));
    copies(&mut world).into_iter().for_each(|(id, _)| world.answer(id, copied()));
    world.accept_raises(&[]);
    assert_eq!((located(&world, FILE).2, located(&world, COPY)), (0, (handle, raised, 3)));
    world.commit();
    assert_ne!(located(&world, FILE).0, handle);
    assert_eq!(located(&world, COPY), (handle, raised, 3));
}

#[test]
fn where_a_write_behind_it_has_a_chunk_copied_readers_of_that_chunk_are_sent_nowhere_either() {
    let (mut world, handle) = shared();
    world.request(3, lease(LeasePurpose::Write, 1));
    assert_eq!(world.accept_raises(&[]).len(), 3, "the last chunk is copied before the next opens");
    assert_eq!((located(&world, FILE).2, located(&world, COPY).0), (0, handle));
    assert_eq!(located(&world, COPY).2, 3);
}

#[test]
fn what_a_snapshot_has_too_is_closed_for_none_of_its_files() {
    let (mut world, handle) = shared();
    let lengths =
        |world: &World| [FILE, COPY].map(|file| world.state.entry(file).expect("there").length);
    let before = lengths(&world);
    let refused = world.apply(CloseChunk { handle, ..CloseChunk::default() });
    assert!(matches!(&refused, Applied::Failed(it) if it.code == ErrorCode::Busy), "{refused:?}");
    assert!(!world.state.chunk(handle).expect("there").closed);
    assert_eq!(lengths(&world), before, "nobody wrote more");
}

#[test]
fn who_writes_gets_a_copy_that_all_servers_made_of_what_stood_still_and_the_other_keeps_its_own() {
    let (mut world, handle) = shared();
    let logged = world.state.chunk(handle).expect("there").version;
    world.request(3, lease(LeasePurpose::Write, 0));
    let raised = world.accept_raises(&[]);
    assert_eq!(raised.len(), 3, "what is copied stands still");
    let asked = copies(&mut world);
    assert_eq!(asked.len(), 3);
    for (id, copy) in &asked {
        assert_eq!((copy.handle, copy.version), (handle, raised[0].1.to));
        assert!(world.proposed.is_empty(), "R32: not before all have copied");
        world.answer(*id, copied());
    }
    let own = asked[0].1.copy;
    let adopted = world.accept_raises(&[]);
    assert!(adopted.iter().all(|(_, raise)| raise.adopt && raise.handle == own), "{adopted:?}");
    let records = world.commit();
    let [Record::CopyOnWrite(record)] = &records[..] else { panic!("{records:?}") };
    assert_eq!((record.shared, record.handle, record.set_size), (handle, own, 3));
    assert_eq!((chunk_at(&world, FILE), chunk_at(&world, COPY)), (Some(own), Some(handle)));
    assert!(!world.state.sharing().is_shared(handle), "each has one of its own");
    let now = world.state.chunk(handle).expect("there").version;
    assert!(now > logged, "R12: who cached it as the written file's is refused");
    assert_eq!(world.accept_grant().handle, own);
    assert_eq!(world.granted(3).handle, own);
}

#[test]
fn what_a_write_left_on_one_replica_is_levelled_before_the_two_files_part() {
    let (mut world, handle) = shared();
    world.request(3, lease(LeasePurpose::Write, 0));
    for (id, to, raise) in world.raises() {
        let serial = SerialNumber::new(if to == 2 { 9 } else { 8 });
        world.accept(id, &raise, ReplicaReport { serial, length: 5, ..ReplicaReport::default() });
    }
    assert!(copies(&mut world).is_empty(), "CW5");
    assert!(matches!(&world.commit()[..], [Record::SetVersion(it)] if !it.charges));
    let grant = world.accept_grant();
    assert_eq!((grant.handle, grant.server, grant.writes_only), (handle, server(2), true));
    assert!(world.reply(3).is_none(), "R32: nobody writes by that lease");
    world.accept_raises(&[]);
    assert_eq!(copies(&mut world).len(), 3);
}

/// Servers copy nothing that may have lost bytes, and nobody else asks for what makes it current.
#[test]
fn what_lost_power_is_made_current_before_the_two_files_part() {
    let (mut world, handle) = shared();
    world.request(3, lease(LeasePurpose::Write, 0));
    for (id, _, raise) in world.raises() {
        world.accept(id, &raise, ReplicaReport { suspect: true, ..ReplicaReport::default() });
    }
    assert!(copies(&mut world).is_empty(), "CW5");
    assert!(matches!(&world.commit()[..], [Record::SetVersion(it)] if !it.charges));
    assert_eq!(world.accept_grant().handle, handle);
    world.accept_raises(&[]);
    assert_eq!(copies(&mut world).len(), 3);
}

#[test]
fn suspects_of_a_shared_chunk_are_no_set_without_one_that_has_more_and_answers_no_raise() {
    for more in [0, 1] {
        let told = [((18, 18), true), ((18, 18), true), ((18 + more, 18 + more), true)];
        let (mut world, mut disks) = after_power_loss(&told);
        snapshot(&mut world);
        let handle = disks[&3].handle;
        world.pass(4250, &[1, 2, 3]);
        while_the_third_takes_no_raise(&mut world, &mut disks, LeasePurpose::Write);
        let size = world.state.chunk(handle).expect("there").set_size;
        assert_eq!(size, if more == 0 { 2 } else { 3 });
    }
}

#[test]
fn who_comes_to_write_while_readers_wait_for_a_lease_charges_the_copy_and_no_other_file() {
    let (mut world, handle) = shared();
    let charged = |world: &World, file| world.state.subtrees().charged(file);
    let by_copy = |purpose| Lease { file: COPY, ..lease(purpose, 0) };
    world.request(3, by_copy(LeasePurpose::Level));
    world.request(4, by_copy(LeasePurpose::Write));
    assert_eq!(world.accept_raises(&[]).len(), 3);
    world.commit();
    assert_eq!((charged(&world, FILE), charged(&world, COPY)), (None, None));
    assert_eq!(world.accept_grant().handle, handle);
    assert_eq!(world.granted(3).handle, handle);
    // The writer goes on: what is levelled is raised, and copied.
    for _ in 0..80 {
        world.pass(250, &[1, 2, 3]);
        world.accept_raises(&[]);
        copies(&mut world).into_iter().for_each(|(id, _)| world.answer(id, copied()));
        world.accept_raises(&[]);
        world.commit();
    }
    assert_ne!(chunk_at(&world, COPY), Some(handle));
    assert!(charged(&world, COPY).is_some() && charged(&world, FILE).is_none());
}

#[test]
fn an_append_waits_for_its_copy_and_does_not_close_what_the_other_has() {
    let (mut world, handle) = shared();
    world.request(3, lease(LeasePurpose::Append, 0));
    world.accept_raises(&[]);
    for (id, _) in copies(&mut world) {
        world.answer(id, Err(Failure::not_done(ErrorCode::DiskFull, "no space left")));
    }
    assert!(world.commit().is_empty() && world.reply(3).is_none());
    assert!(!world.state.chunk(handle).expect("there").closed, "the other file has it, too");
    assert_eq!(world.state.entry(FILE).expect("there").chunk_count, 1);
    // It is tried again, and works.
    for _ in 0..40 {
        world.pass(250, &[1, 2, 3]);
        world.accept_raises(&[]);
        copies(&mut world).into_iter().for_each(|(id, _)| world.answer(id, copied()));
        world.accept_raises(&[]);
        if !world.proposed.is_empty() {
            break;
        }
    }
    world.commit();
    assert_ne!(chunk_at(&world, FILE), Some(handle));
    assert_eq!(chunk_at(&world, COPY), Some(handle));
}

#[test]
fn a_server_that_cannot_copy_is_none_of_the_copys_set_where_two_can() {
    let (mut world, handle) = shared();
    world.request(3, lease(LeasePurpose::Write, 0));
    world.accept_raises(&[]);
    for (id, copy) in copies(&mut world) {
        let full = || Err(Failure::not_done(ErrorCode::DiskFull, "no space left"));
        world.answer(id, if copy.server == server(2) { full() } else { copied() });
    }
    assert_eq!(world.accept_raises(&[]).len(), 2);
    world.commit();
    let own = chunk_at(&world, FILE).expect("a chunk of its own");
    assert_eq!(world.state.chunk(own).expect("there").set_size, 2);
    assert_eq!(world.state.chunk(handle).expect("there").set_size, 3);
}

#[test]
fn a_version_that_a_copy_did_not_take_for_certain_is_logged_for_nobody() {
    let (mut world, handle) = shared();
    world.request(3, lease(LeasePurpose::Write, 0));
    world.accept_raises(&[]);
    copies(&mut world).into_iter().for_each(|(id, _)| world.answer(id, copied()));
    world.accept_raises(&[2]);
    assert!(world.commit().is_empty(), "R8, R10");
    assert_eq!(chunk_at(&world, FILE), Some(handle));
}

#[test]
fn readers_are_levelled_without_a_copy_and_nobody_writes_by_that_lease() {
    let (mut world, handle) = shared();
    world.request(3, lease(LeasePurpose::Level, 0));
    world.accept_raises(&[]);
    world.commit();
    assert_eq!(world.accept_grant().handle, handle);
    assert_eq!(world.granted(3).handle, handle);
    world.request(4, lease(LeasePurpose::Write, 0));
    assert!(world.reply(4).is_none(), "R32");
    world.accept_raises(&[]);
    assert_eq!(copies(&mut world).len(), 3);
}

/// The revocations that servers were asked for, taken out.
fn revocations(world: &mut World) -> Vec<(EffectId, RevokeLease)> {
    let mut all = vec![];
    world.sent.retain(|sent| match &sent.request {
        Request::RevokeLease(revoke) => {
            all.push((sent.id, revoke.clone()));
            false
        }
        _ => true,
    });
    all
}

/// A look, after the pause between two (ST2).
fn still(world: &mut World, fences: &mut Fences) -> Result<(), String> {
    world.millis += 1;
    still_at_once(world, fences)
}

fn still_at_once(world: &mut World, fences: &mut Fences) -> Result<(), String> {
    world.with(|chunks, step| chunks.still(step, ROOT, fences)).map(drop)
}

fn given_back(grant: &ChunkGrant) -> Result<Response, Failure> {
    let replica = ReplicaReport { acknowledged: 5, length: 5, ..report(grant) };
    Ok(Response::RevokeLease(RevokeLeaseAnswer { replica }))
}

#[test]
fn a_tree_is_still_when_its_leases_are_given_back_and_their_replicas_fenced() {
    let mut world = World::new(3);
    let grant = world.first_chunk();
    let mut fences = Fences::default();
    world.with(|chunks, _| chunks.freeze(ROOT));
    assert!(still(&mut world, &mut fences).is_err());
    let asked = revocations(&mut world);
    assert_eq!((asked.len(), asked[0].1.lease), (1, grant.lease));
    assert_ne!(asked[0].1.lease, LeaseId::default());
    world.request(3, lease(LeasePurpose::Append, 0));
    assert!(world.reply(3).is_none(), "who wants a lease waits");
    world.answer(asked[0].0, given_back(&grant));
    assert!(still_at_once(&mut world, &mut fences).is_err());
    assert!(world.raises().is_empty(), "whatever happens, others come in between (ST2)");
    assert!(still(&mut world, &mut fences).is_err(), "not before its replicas are fenced");
    let raises = world.raises();
    assert_eq!(raises.len(), 3, "R34");
    for (id, _, raise) in raises {
        let report = ReplicaReport { acknowledged: 5, length: 5, ..ReplicaReport::default() };
        world.accept(id, &raise, report);
    }
    assert!(still(&mut world, &mut fences).is_err(), "not before that is logged");
    world.commit();
    assert!(still(&mut world, &mut fences).is_ok());
    assert!(world.sent.iter().all(|sent| !matches!(sent.request, Request::GrantLease(_))));
    world.millis += 1;
    let lengths = world.with(|chunks, step| chunks.still(step, ROOT, &mut fences));
    assert_eq!(lengths.expect("still")[0].length, 5, "what was acknowledged is recorded");
    world.with(|chunks, step| chunks.thaw(step, ROOT));
    assert_eq!(world.accept_raises(&[]).len(), 3, "who waited goes on");
}

#[test]
fn a_holder_that_does_not_answer_is_fenced_by_a_raise() {
    let mut world = World::new(3);
    let grant = world.first_chunk();
    let mut fences = Fences::default();
    world.with(|chunks, _| chunks.freeze(ROOT));
    assert!(still(&mut world, &mut fences).is_err());
    assert_eq!(revocations(&mut world).len(), 1);
    // The holder has time to drain.
    world.pass(1000, &[1, 2, 3]);
    assert!(still(&mut world, &mut fences).is_err());
    let mut tries = 0;
    while still(&mut world, &mut fences).is_err() {
        world.pass(500, &[1, 2, 3]);
        world.accept_raises(&[]);
        world.commit();
        tries += 1;
        assert!(tries < 60, "it is fenced in the end");
    }
    assert!(world.state.chunk(grant.handle).expect("there").version > grant.version, "R34");
}
