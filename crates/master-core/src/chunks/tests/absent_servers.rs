//! Servers that are away are missed by name: in `status`, in `explain` and among the chunks that
//! lack replicas, after a restart of the master too, until they are forgotten.

use super::{World, members, report, server};
use crate::record::Record;
use crate::rules::degraded;
use crate::rules::reading::locations;
use cairn_protocol::{
    DegradedChunk, ErrorCode, Explain, ForgetServer, ListDegraded, ListDegradedAnswer,
    ReplicaReport, Response, ServerState,
};
use cairn_types::{ChunkHandle, SerialNumber, ServerId};

impl World {
    fn states(&self) -> Vec<(ServerId, ServerState)> {
        let all = self.chunks.servers(&self.chunks.view(self.moment(), &self.state)).servers;
        all.into_iter().map(|status| (status.at.server, status.state)).collect()
    }

    pub(super) fn reasons(&self) -> Vec<String> {
        self.chunks.health(&self.chunks.view(self.moment(), &self.state)).reasons
    }

    fn degraded(&self, after: ChunkHandle, limit: u32) -> ListDegradedAnswer {
        let view = self.chunks.view(self.moment(), &self.state);
        degraded::list(&view, &ListDegraded { after, limit })
    }

    fn explained(&mut self, subject: &str) -> String {
        self.request(7, Explain { subject: subject.to_owned() });
        match self.reply(7) {
            Some(Ok(Response::Explain(answer))) => answer.lines.join("\n"),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn one_that_died_is_named_with_what_it_held_until_it_tells_anew() {
    let mut world = World::new(3);
    let grant = world.first_chunk();
    let mut all = members(&grant);
    let dead = all.pop().expect("three");
    for id in members(&grant) {
        world.beat(id, vec![report(&grant)], vec![]);
    }
    world.pass(5000, &all);
    let lines = world.explained("/f");
    assert!(
        lines.contains(&format!("s{dead}:1 (dead, not heard of for 5 s): held 0 bytes")),
        "{lines}"
    );
    assert!(
        lines.contains("2 of 3 good replicas reachable"),
        "it counts for nothing else: {lines}"
    );
    assert!(world.reasons().contains(&format!("SERVERS_DEAD: 1 chunkservers are dead: s{dead}:1")));
    world.join_as(dead, 77, vec![report(&grant)], vec![]);
    let lines = world.explained("/f");
    assert!(!lines.contains("dead"), "{lines}");
    assert!(lines.contains("3 of 3 good replicas reachable"), "{lines}");
}

#[test]
fn one_that_does_not_come_back_after_a_restart_of_the_master_is_named() {
    let mut world = World::new(3);
    let grant = world.first_chunk();
    let mut world = world.restarted(2);
    assert_eq!(world.states(), [1, 2, 3].map(|id| (server(id), ServerState::Silent)));
    for id in [1, 2] {
        world.join(id, vec![report(&grant)], vec![]);
    }
    let lines = world.explained("/f");
    assert!(lines.contains("1 more of its set: perhaps on s3:1, not heard of yet"), "{lines}");
    world.pass(4250, &[1, 2]);
    let states = [ServerState::Live, ServerState::Live, ServerState::Dead];
    assert_eq!(world.states(), [1, 2, 3].map(|id| (server(id), states[id as usize - 1])));
    assert!(world.reasons().contains(&"SERVERS_DEAD: 1 chunkservers are dead: s3:1".to_owned()));
}

#[test]
fn one_is_forgotten_when_a_person_says_so_and_not_while_it_lives() {
    let mut world = World::new(3);
    world.request(5, ForgetServer { server: server(3) });
    assert_eq!(world.code(5), Some(ErrorCode::Invalid), "it lives");
    world.pass(5000, &[1, 2]);
    world.request(5, ForgetServer { server: server(3) });
    assert!(matches!(world.commit()[..], [Record::ForgetServer(_)]));
    assert!(matches!(world.reply(5), Some(Ok(Response::ForgetServer(_)))));
    assert_eq!(world.states().len(), 2);
    world.request(5, ForgetServer { server: server(3) });
    world.commit();
    assert_eq!(world.code(5), Some(ErrorCode::NotFound), "there is none any more");
    assert_eq!(world.restarted(2).states().len(), 2, "nor after a restart");
}

#[test]
fn chunks_that_lack_replicas_are_listed_with_their_files_page_by_page() {
    let mut world = World::new(3);
    let grant = world.first_chunk();
    let none = ListDegradedAnswer::default();
    for id in members(&grant) {
        world.beat(id, vec![report(&grant)], vec![]);
    }
    assert_eq!(world.degraded(ChunkHandle::default(), 10), none);
    let all = members(&grant);
    world.pass(5000, &all[1..]);
    let (handle, path) = (grant.handle, "/f".to_owned());
    let lacks =
        DegradedChunk { handle, path, good: 2, goal: 3, readable: true, ..Default::default() };
    let page = ListDegradedAnswer { chunks: vec![lacks], resume: None };
    assert_eq!(world.degraded(ChunkHandle::default(), 10), page);
    assert_eq!(world.degraded(handle, 10), none);
}

#[test]
fn where_all_servers_of_a_chunk_are_dead_a_reader_is_told_who_must_come_back() {
    let mut world = World::new(4);
    let grant = world.first_chunk();
    let held = members(&grant);
    for id in &held {
        world.beat(*id, vec![report(&grant)], vec![]);
    }
    let lost = |world: &World| {
        let at = locations(&world.chunks.view(world.moment(), &world.state), grant.handle);
        assert!(at.replicas.is_empty() || at.lost.is_empty(), "{at:?}");
        at.lost.iter().map(|at| at.server.get()).collect::<Vec<u64>>()
    };
    let other = (1..=4).find(|id| !held.contains(id)).expect("four, and a set of three");
    world.pass(3000, &[other]);
    assert_eq!(lost(&world), [], "they are silent, and may come");
    // Dead by the clock, and the tick that buries them has not come.
    world.millis += 3000;
    assert_eq!(lost(&world), held);
    world.pass(250, &[other]);
    assert_eq!(lost(&world), held);
    // Whatever the master had been told is gone with it.
    let mut world = world.restarted(2);
    assert_eq!(lost(&world), [], "it has just started");
    world.join(other, vec![], vec![]);
    world.pass(6000, &[other]);
    assert_eq!(lost(&world), held, "all that have not come back");
}

#[test]
fn nobody_is_behind_who_is_dead_though_it_is_not_buried_yet() {
    let mut world = World::new(4);
    let grant = world.first_chunk();
    let held = members(&grant);
    for (id, serial) in std::iter::zip(&held, [1, 1, 7]) {
        // It has applied what nobody acknowledged; or it lies.
        let serial = SerialNumber::new(serial);
        let told = ReplicaReport { serial, acknowledged_serial: serial, ..report(&grant) };
        world.beat(*id, vec![told], vec![]);
    }
    let read_from = |world: &World| {
        let at = locations(&world.chunks.view(world.moment(), &world.state), grant.handle);
        (at.replicas.iter().map(|at| at.server.get()).collect::<Vec<u64>>(), at.lost.len())
    };
    let live = &held[..2];
    // No lease lives any more.
    world.pass(70_000, &held);
    assert_eq!(read_from(&world), (held[2..].to_vec(), 0), "the others are behind");
    world.pass(3000, live);
    assert_eq!(read_from(&world), (held[2..].to_vec(), 0), "it is silent, and may come");
    for id in live {
        world.beat(*id, vec![], vec![]);
    }
    // Dead by the clock, and the tick that buries it has not come.
    world.millis += 2000;
    assert_eq!(read_from(&world), (live.to_vec(), 0));
    world.pass(250, live);
    assert_eq!(read_from(&world), (live.to_vec(), 0));
}
