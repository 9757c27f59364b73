//! Leases that come to nothing, and members that are late: who is left out of the set, who is
//! waited for, and that nobody is asked in a hurry for ever (R11).

use super::{World, lease, lost_answer, members, mutation, server};
use crate::record::AddFile;
use crate::state::ROOT;
use cairn_protocol::{
    ErrorCode, Failure, GrantLease, Lease, LeasePurpose, ProbeAnswer, RaiseAnswer, ReplicaReport,
    Response, SecondaryFailed,
};
use cairn_types::{ChunkHandle, ChunkIndex, Content, EntryId};

const RECORDS: EntryId = EntryId::new(78);

/// A chunk whose lease is over; a client wants to write.
fn wanted_again(servers: u64) -> (World, Vec<u64>) {
    let mut world = World::new(servers);
    let set = members(&world.first_chunk());
    let all: Vec<u64> = (1..=servers).collect();
    world.pass(2500, &all);
    world.request(2, lease(LeasePurpose::Write, 0));
    (world, set)
}

/// All of the set take the raise, the version is logged, and a primary is chosen.
fn raised(world: &mut World) -> GrantLease {
    world.accept_raises(&[]);
    world.commit();
    let (id, grant) = world.take_grant();
    world.sent.push(super::Sent { id, to: grant.server, request: grant.clone().into() });
    grant
}

/// The primary that was chosen cannot level that one.
fn blames(world: &mut World, whom: u64) {
    let (id, _) = world.take_grant();
    let told = Failure::not_done(ErrorCode::ReplicaFailed, "not reached");
    world.answer(id, Err(Failure { server: server(whom), ..told }));
}

#[test]
fn whom_two_primaries_cannot_reach_is_left_out_and_one_word_alone_leaves_out_nobody() {
    let (mut world, set) = wanted_again(3);
    let cut_off = raised(&mut world).server.get();
    let others: Vec<u64> = set.iter().copied().filter(|id| *id != cut_off).collect();
    blames(&mut world, others[0]);
    for _ in 0..2 {
        let grant = raised(&mut world);
        assert!(others.contains(&grant.server.get()), "each gets its turn");
        assert_eq!(grant.secondaries.len(), 2, "nobody is left out by one word");
        blames(&mut world, cut_off);
    }
    let grant = raised(&mut world);
    assert_eq!(world.state.chunk(grant.handle).expect("there").set_size, 2);
    world.accept_grant();
    assert_eq!(members(&world.granted(2)), others);
}

#[test]
fn a_primary_that_lost_all_its_secondaries_is_believed_as_much_as_any_other() {
    let mut world = World::new(3);
    let first = world.first_chunk();
    let failed = first.secondaries.iter().map(|at| at.server).collect();
    let (handle, version, lease_id) = (first.handle, first.version, first.lease);
    world.request(5, SecondaryFailed { handle, version, lease: lease_id, failed });
    assert_eq!(world.code(5), Some(ErrorCode::TooFewServers));
    world.request(2, lease(LeasePurpose::Write, 0));
    let grant = raised(&mut world);
    assert_ne!(grant.server, first.primary.server, "another one is tried first");
    assert_eq!(grant.secondaries.len(), 2);
}

#[test]
fn with_nobody_to_go_on_with_the_tries_come_more_and_more_seldom() {
    let (mut world, _) = wanted_again(1);
    let mut versions = 0;
    for _ in 0..40 {
        versions += world.accept_raises(&[]).len();
        if !world.proposed.is_empty() {
            world.commit();
            let (id, _) = world.take_grant();
            world.answer(id, Err(Failure::not_done(ErrorCode::Io, "no space left")));
        }
        world.pass(250, &[1]);
        world.request(2, lease(LeasePurpose::Write, 0));
    }
    assert!((5..=15).contains(&versions), "{versions} versions in ten seconds");
}

#[test]
fn appends_go_on_in_the_next_chunk_after_one_try() {
    let mut world = World::new(6);
    let (name, content) = ("records".to_owned(), Content::Records);
    let (mutation, id) = (mutation(2), RECORDS);
    let file = AddFile { mutation, parent: ROOT, name, id, replication: 3, ..AddFile::default() };
    world.apply(AddFile { content, ..file });
    world.pass(1250, &[1, 2, 3, 4, 5, 6]);
    world.request(2, Lease { file: RECORDS, ..lease(LeasePurpose::Append, 0) });
    let grant = raised(&mut world);
    blames(&mut world, grant.secondaries[0].server.get());
    assert!(world.accept_raises(&[]).iter().all(|(_, raise)| raise.create));
    world.commit();
    assert!(world.state.chunk(grant.handle).expect("there").closed);
    world.accept_grant();
    assert_eq!(world.granted(2).index, ChunkIndex::new(1));
}

#[test]
fn a_live_member_that_is_late_with_a_raise_is_waited_for_and_not_for_ever() {
    let (mut world, set) = wanted_again(3);
    let late = set[2];
    let begun = world.millis;
    loop {
        for (id, to, raise) in world.raises() {
            if to == late {
                world.millis += 250;
                world.answer(id, Err(lost_answer()));
            } else {
                world.accept(id, &raise, Default::default());
            }
        }
        if !world.proposed.is_empty() {
            break;
        }
        assert!(world.millis < begun + 3000, "a lease and a half");
        world.pass(250, &[1, 2, 3]);
        world.request(2, lease(LeasePurpose::Write, 0));
    }
    assert!(world.millis >= begun + 2000, "it lives, and is given a lease of time (R11)");
    world.commit();
    assert_eq!(world.accept_grant().secondaries.len(), 1);
}

#[test]
fn a_member_that_was_late_once_is_of_the_set_when_it_answers() {
    let (mut world, set) = wanted_again(3);
    world.accept_raises(&[set[0]]);
    assert!(world.proposed.is_empty(), "it is waited for (R11)");
    world.pass(250, &[1, 2, 3]);
    assert_eq!(raised(&mut world).secondaries.len(), 2);
    world.accept_grant();
    assert_eq!(world.granted(2).index, ChunkIndex::new(0));
}

#[test]
fn whoever_says_yes_to_a_raise_and_stands_elsewhere_or_answers_something_else_has_not_taken_it() {
    for odd in 0..4 {
        let (mut world, _) = wanted_again(3);
        for (at, (id, _, raise)) in world.raises().into_iter().enumerate() {
            let (handle, version) = (raise.handle, raise.to);
            let stands = ReplicaReport { handle, version, ..ReplicaReport::default() };
            let other = ChunkHandle::new(handle.get() + 1);
            let replica = match odd {
                1 if at == 2 => ReplicaReport { version: raise.from, ..stands },
                2 if at == 2 => ReplicaReport { handle: other, ..stands },
                _ => stands,
            };
            let answer = match odd {
                3 if at == 2 => Response::Probe(ProbeAnswer { replica, holds: true }),
                _ => Response::Raise(RaiseAnswer { replica }),
            };
            world.answer(id, Ok(answer));
        }
        assert_eq!(world.proposed.len(), usize::from(odd == 0), "case {odd} (E1)");
    }
}
