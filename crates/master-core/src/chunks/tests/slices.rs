//! Inventories that come in slices: what counts of them, what is asked for first, and what is not
//! concluded before they are complete.

use super::{World, lease, members, report, server};
use crate::rules::decided_set::{SetDecision, decide};
use cairn_protocol::{
    ChunkGrant, ErrorCode, Failure, Inventory, InventoryAnswer, Join, LeasePurpose, ReplicaReport,
    ReportSlice, Response,
};
use cairn_types::{Address, ChunkHandle, Incarnation, JoinId, ReplicaAt};

/// A server that has joined and tells what it holds.
struct Telling {
    id: u64,
    join: JoinId,
    number: u64,
}

impl World {
    fn begin_join(&mut self, id: u64) -> Telling {
        let address = Address::new(format!("s{id}:1"));
        let at = ReplicaAt { server: server(id), address, ..ReplicaAt::default() };
        let incarnation = Incarnation::new(id * 10);
        self.request(900, Join { at, incarnation, ..Join::default() });
        let Some(Ok(Response::Join(joined))) = self.reply(900) else { panic!("not taken in") };
        Telling { id, join: joined.join, number: 0 }
    }

    fn slice(
        &mut self,
        telling: &mut Telling,
        replicas: Vec<ReplicaReport>,
        last: bool,
    ) -> Result<InventoryAnswer, Failure> {
        let inventory = Inventory {
            server: server(telling.id),
            incarnation: Incarnation::new(telling.id * 10),
            replicas: ReportSlice(replicas),
            last,
            leases: vec![],
            join: telling.join,
            number: telling.number,
        };
        telling.number += 1;
        self.request(900, inventory);
        match self.reply(900) {
            Some(Ok(Response::Inventory(answer))) => Ok(answer),
            Some(Err(failure)) => Err(failure),
            other => panic!("{other:?}"),
        }
    }

    fn holders(&self, handle: ChunkHandle) -> Vec<u64> {
        self.chunks.fleet.locations().of(handle).map(|(server, _)| server.get()).collect()
    }

    fn want(&mut self, handle: ChunkHandle) {
        self.with(|chunks, step| chunks.want(step.now.time, handle));
    }

    fn decision(&mut self, handle: ChunkHandle) -> SetDecision {
        self.with(|chunks, step| {
            let chunk = step.state.chunk(handle).expect("on record");
            decide(&chunks.view(step.now, step.state), handle, &chunk)
        })
    }
}

/// A chunk on three servers, and a new term that knows of none of them.
fn new_term() -> (World, ChunkGrant) {
    let mut world = World::new(3);
    let grant = world.first_chunk();
    (world.restarted(2), grant)
}

#[test]
fn a_slice_counts_once_in_its_place_and_only_of_the_present_join() {
    let (mut world, grant) = new_term();
    let mut first = world.begin_join(1);
    assert_eq!(world.slice(&mut first, vec![], false), Ok(InventoryAnswer::default()));
    first.number = 0;
    assert!(world.slice(&mut first, vec![report(&grant)], true).is_ok(), "it is answered again");
    assert_eq!(world.holders(grant.handle), [], "and taken in once");
    first.number = 7;
    let code = world.slice(&mut first, vec![], true).map_err(|failure| failure.code);
    assert_eq!(code, Err(ErrorCode::Busy), "slices are missing");
    first.number = 1;
    let mut again = world.begin_join(1);
    let code = world.slice(&mut first, vec![report(&grant)], true).map_err(|f| f.code);
    assert_eq!(code, Err(ErrorCode::Busy), "an inventory that is over");
    assert_eq!(
        (world.holders(grant.handle), world.chunks.fleet.servers().telling_count()),
        (vec![], 1)
    );
    assert!(world.slice(&mut again, vec![report(&grant)], true).is_ok());
    assert_eq!(
        (world.holders(grant.handle), world.chunks.fleet.servers().telling_count()),
        (vec![1], 0)
    );
}

#[test]
fn what_somebody_waits_for_is_asked_once_of_each_server_that_is_still_telling() {
    let (mut world, grant) = new_term();
    let (mut first, mut second) = (world.begin_join(1), world.begin_join(2));
    world.want(grant.handle);
    world.want(grant.handle);
    for telling in [&mut first, &mut second] {
        assert_eq!(world.slice(telling, vec![], false).unwrap().wanted, [grant.handle]);
        assert_eq!(world.slice(telling, vec![], false).unwrap().wanted, []);
    }
    world.slice(&mut first, vec![report(&grant)], false).unwrap();
    assert_eq!(world.holders(grant.handle), [1], "known before the inventory is complete");
    world.slice(&mut first, vec![], true).unwrap();
    world.slice(&mut second, vec![], true).unwrap();
    world.pass(5000, &[1, 2]);
    let mut third = world.begin_join(3);
    assert_eq!(world.slice(&mut third, vec![], false).unwrap().wanted, [], "nobody waits now");
}

#[test]
fn a_lease_that_waits_for_replicas_asks_for_them() {
    let (mut world, grant) = new_term();
    let mut first = world.begin_join(1);
    world.request(5, lease(LeasePurpose::Write, 0));
    assert_eq!(world.slice(&mut first, vec![], false).unwrap().wanted, [grant.handle]);
}

#[test]
fn nothing_is_decided_about_a_chunk_while_a_member_is_still_telling() {
    let (mut world, grant) = new_term();
    let all = members(&grant);
    let suspect = ReplicaReport { suspect: true, ..report(&grant) };
    world.join(all[0], vec![report(&grant)], vec![]);
    world.join(all[1], vec![suspect.clone()], vec![]);
    let mut last = world.begin_join(all[2]);
    world.slice(&mut last, vec![suspect], false).unwrap();
    world.pass(60_000, &all);
    assert_eq!(world.decision(grant.handle), SetDecision::NotNeeded, "it may tell more");
    world.slice(&mut last, vec![], true).unwrap();
    assert!(matches!(world.decision(grant.handle), SetDecision::At(_)), "from now on it is waited");
}

#[test]
fn many_servers_that_tell_at_once_pause_between_their_slices() {
    let mut world = World::new(0);
    let mut telling: Vec<Telling> = (1..=16).map(|id| world.begin_join(id)).collect();
    assert_eq!(world.slice(&mut telling[0], vec![], false).unwrap().pause_ms, 0);
    telling.extend((17..=216).map(|id| world.begin_join(id)));
    assert_eq!(world.slice(&mut telling[0], vec![], false).unwrap().pause_ms, 100);
}
