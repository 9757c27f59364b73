//! A replica with the mark of a close that the log lacks: its master died between the fence and the
//! record (R18).

use super::{World, held, lease, members, report};
use crate::record::{CloseChunk, Record};
use cairn_protocol::{ChunkGrant, LeasePurpose, ReplicaReport};
use cairn_types::{ChunkIndex, ChunkVersion};

/// The next master, whom all members have told what they hold; one of them was fenced.
fn restarted(marked: impl Fn(&ChunkGrant) -> ReplicaReport) -> (World, ChunkGrant, u64) {
    let mut world = World::new(3);
    let grant = world.first_chunk();
    let fenced = grant.secondaries[0].server.get();
    let mut world = world.restarted(2);
    for id in members(&grant) {
        let told = if id == fenced { marked(&grant) } else { report(&grant) };
        world.join(id, vec![told], vec![]);
    }
    world.commit();
    (world, grant, fenced)
}

fn fenced(grant: &ChunkGrant) -> ReplicaReport {
    let version = ChunkVersion::new(grant.version.get() + 1);
    ReplicaReport { version, closed: true, ..report(grant) }
}

fn logged_close(world: &mut World, grant: &ChunkGrant) -> bool {
    world.commit().iter().any(|record| match record {
        Record::CloseChunk(CloseChunk { handle, .. }) => *handle == grant.handle,
        _ => false,
    })
}

#[test]
fn its_close_is_logged_once_no_former_holder_may_acknowledge_an_append() {
    let (mut world, grant, marked) = restarted(fenced);
    world.beat(marked, vec![fenced(&grant)], vec![]);
    assert!(!logged_close(&mut world, &grant), "a lease of the earlier term may go on (R22)");
    world.pass(2250, &[1, 2, 3]);
    world.beat(marked, vec![fenced(&grant)], vec![]);
    assert!(logged_close(&mut world, &grant));
    // It goes away; the others know nothing of the mark, and get no append.
    let others: Vec<u64> = members(&grant).into_iter().filter(|id| *id != marked).collect();
    world.pass(4250, &others);
    world.request(2, lease(LeasePurpose::Append, 0));
    assert!(world.accept_raises(&[]).iter().all(|(_, raise)| raise.create));
    world.commit();
    world.accept_grant();
    assert_eq!(world.granted(2).index, ChunkIndex::new(1));
}

#[test]
fn nothing_is_logged_for_a_mark_that_is_stale_or_while_a_lease_takes_appends() {
    let stale = |grant: &ChunkGrant| {
        let version = ChunkVersion::new(grant.version.get() - 1);
        ReplicaReport { version, closed: true, ..report(grant) }
    };
    let (mut world, grant, marked) = restarted(stale);
    world.pass(2250, &[1, 2, 3]);
    world.beat(marked, vec![stale(&grant)], vec![]);
    assert!(!logged_close(&mut world, &grant));

    let mut world = World::new(3);
    let grant = world.first_chunk();
    let marked = ReplicaReport { closed: true, ..report(&grant) };
    world.beat(grant.secondaries[0].server.get(), vec![marked], vec![]);
    assert!(!logged_close(&mut world, &grant), "its primary says itself when it is closed");
    let holder = grant.primary.server.get();
    assert_eq!(world.beat(holder, vec![], vec![held(&grant)]).extended, [grant.lease]);
}
