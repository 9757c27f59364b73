//! Chunks that lack replicas get them again (A20, R30): who is cloned first, from where to where,
//! how a clone joins, and what becomes of it when somebody fails on the way.

use super::after_power_loss::after_power_loss_of;
use super::{FILE, World, held, lease, lost_answer, members, report, server};
use crate::record::{AddFile, CloseChunk, Record, SetCellSettings, SetVersion};
use crate::state::ROOT;
use cairn_env::EffectId;
use cairn_protocol::{
    ChunkGrant, CloneChunk, CloneChunkAnswer, CloneProgress, ErrorCode, Failure, Heartbeat, Lease,
    LeasePurpose, ReplicaReport, Request, Response, RevokeLease, RevokeLeaseAnswer,
};
use cairn_types::{
    ChunkHandle, ChunkIndex, ChunkVersion, EntryId, Incarnation, MutationName, MutationNumber,
    SerialNumber, SessionId, Term,
};

impl World {
    /// A chunk of which one server has died, and who holds it still, sorted; nobody has its lease.
    fn lacking(servers: u64) -> (Self, ChunkGrant, Vec<u64>) {
        let mut world = Self::new(servers);
        let grant = world.first_chunk();
        let all: Vec<u64> = (1..=servers).collect();
        world.pass(3000, &all);
        let left = world.die(&grant, 1);
        (world, grant, left)
    }

    /// A chunk of which one of four servers has died, whose set of two clients mutate, and which
    /// was copied to a third meanwhile: its lease, the two, and the order to copy.
    fn copied_under_a_lease() -> (Self, ChunkGrant, Vec<u64>, CloneChunk) {
        let mut world = Self::new(4);
        let grant = world.first_chunk();
        let left = world.die(&grant, 1);
        // The two that are left go on; that the third was of the set is known from their number.
        world.request(5, lease(LeasePurpose::Write, 0));
        world.accept_raises(&[]);
        world.commit();
        world.accept_grant();
        let grant = world.granted(5);
        assert_eq!(members(&grant), left);
        let (id, copy) = world.clones().pop().expect("it is copied under the lease");
        // It may have been ordered at the version before.
        let id = if copy.version == grant.version {
            id
        } else {
            let failure = Failure::not_done(ErrorCode::ReplicaFailed, "it stands elsewhere");
            world.answer(id, Err(Failure { server: copy.source.server, ..failure }));
            world.clone_order().0
        };
        world.cloned(id);
        (world, grant, left, copy)
    }

    /// So many servers of a chunk's set die; who is left.
    fn die(&mut self, grant: &ChunkGrant, count: usize) -> Vec<u64> {
        let holders = members(grant);
        for id in &holders {
            self.beat(*id, vec![report(grant)], vec![]);
        }
        let (dead, left) = holders.split_at(count);
        let alive: Vec<u64> = (1..=9).filter(|id| !dead.contains(id) && self.has(*id)).collect();
        self.pass(4500, &alive);
        left.to_vec()
    }

    fn has(&self, id: u64) -> bool {
        self.chunks.fleet.servers().get(server(id)).is_some_and(|it| !it.buried)
    }

    /// A person has set limits.
    fn limit(&mut self, change: SetCellSettings) {
        assert!(!matches!(self.apply(change), crate::Applied::Failed(_)));
    }

    /// The orders to clone on their way, taken out.
    fn clones(&mut self) -> Vec<(EffectId, CloneChunk)> {
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

    /// The one order to clone on its way.
    fn clone_order(&mut self) -> (EffectId, CloneChunk) {
        let mut all = self.clones();
        assert_eq!(all.len(), 1, "{all:?}");
        all.remove(0)
    }

    fn cloned(&mut self, id: EffectId) {
        self.answer(id, Ok(Response::CloneChunk(CloneChunkAnswer::default())));
    }

    fn drops(&mut self) -> Vec<u64> {
        let drops = self.sent.iter().filter(|sent| matches!(sent.request, Request::DropClone(_)));
        drops.map(|sent| sent.to.get()).collect()
    }

    fn take_revoke(&mut self) -> (EffectId, RevokeLease) {
        let at = self.sent.iter().position(|sent| matches!(sent.request, Request::RevokeLease(_)));
        let sent = self.sent.remove(at.expect("a lease is asked back"));
        match sent.request {
            Request::RevokeLease(revoke) => (sent.id, revoke),
            _ => unreachable!("it was looked for"),
        }
    }

    /// The sets that are logged now.
    fn logged_sets(&mut self) -> Vec<SetVersion> {
        let set = |record| match record {
            Record::SetVersion(set) => Some(set),
            _ => None,
        };
        self.commit().into_iter().filter_map(set).collect()
    }

    fn chunks_lacking(&self) -> u64 {
        let status = self.chunks.repair_status(self.moment(), &self.state);
        status.below_goal.iter().map(|it| it.count).sum()
    }
}

#[test]
fn a_chunk_is_copied_to_a_server_without_it_and_the_copy_joins_the_set() {
    let (mut world, grant, left) = World::lacking(4);
    let (id, copy) = world.clone_order();
    assert!(!copy.finish && copy.rate > 0, "clients go on meanwhile");
    assert!(left.contains(&copy.source.server.get()), "{copy:?}");
    assert!(!members(&grant).contains(&copy.server.get()), "{copy:?}");
    assert_eq!(copy.version, grant.version);
    world.cloned(id);
    let (id, finish) = world.clone_order();
    assert!(finish.finish && finish.server == copy.server);
    world.cloned(id);
    let raised = world.accept_raises(&[]);
    let adopts: Vec<(u64, bool)> = raised.iter().map(|(to, raise)| (*to, raise.adopt)).collect();
    assert_eq!(adopts.iter().filter(|it| it.1).count(), 1);
    assert!(adopts.contains(&(copy.server.get(), true)));
    assert_eq!(world.chunks_lacking(), 1, "not before the record is applied");
    let sets = world.logged_sets();
    assert_eq!((sets.len(), sets[0].set_size), (1, 3));
    assert_eq!((world.chunks_lacking(), world.clones().len(), world.drops()), (0, 0, vec![]));
}

/// The set that is logged when a copy joins the one server of three that is left, of which all told
/// at that time; the lease is over at two seconds.
fn set_of_one_and_its_copy(told_at: u64, is_closed: bool) -> SetVersion {
    let mut world = World::new(5);
    let grant = world.first_chunk();
    if is_closed {
        world.apply(CloseChunk { handle: grant.handle, ..CloseChunk::default() });
    }
    world.pass(told_at, &[1, 2, 3, 4, 5]);
    for id in members(&grant) {
        world.beat(id, vec![ReplicaReport { closed: is_closed, ..report(&grant) }], vec![]);
    }
    world.pass(3000 - told_at, &[1, 2, 3, 4, 5]);
    let left = members(&grant)[2];
    let alive: Vec<u64> =
        (1..=5).filter(|id| *id == left || !members(&grant).contains(id)).collect();
    world.pass(4500, &alive);
    let (id, _) = world.clones().swap_remove(0);
    world.cloned(id);
    let finish = world.clones().into_iter().find(|(_, clone)| clone.finish);
    world.cloned(finish.expect("it is to join").0);
    world.accept_raises(&[]);
    world.logged_sets().swap_remove(0)
}

#[test]
fn where_a_copy_makes_a_set_of_the_one_that_is_left_what_the_dead_may_hold_more_is_kept() {
    let set = set_of_one_and_its_copy(250, false);
    assert_eq!((set.set_size, set.keeps_above), (2, Some(SerialNumber::default())));
    let set = set_of_one_and_its_copy(250, true);
    assert_eq!((set.set_size, set.keeps_above), (2, None), "of a closed one that was all");
    let set = set_of_one_and_its_copy(3000, false);
    assert_eq!((set.set_size, set.keeps_above), (2, None), "nobody had a lease any more");
}

#[test]
fn who_dies_while_the_set_is_raised_for_a_copy_may_hold_more_and_is_kept() {
    let (mut world, grant, left) = World::lacking(5);
    let (id, _) = world.clone_order();
    world.cloned(id);
    let (id, _) = world.clone_order();
    world.cloned(id);
    let mut alive: Vec<u64> = (1..=5).filter(|id| *id != members(&grant)[0]).collect();
    alive.retain(|id| *id != left[1]);
    for (id, to, raise) in world.raises() {
        if to == left[0] {
            world.accept(id, &raise, ReplicaReport::default());
        } else {
            world.pass(4500, &alive);
            world.answer(id, Err(lost_answer()));
        }
    }
    let asked: Vec<u64> = world.accept_raises(&[]).iter().map(|(to, _)| *to).collect();
    assert_eq!((asked.len(), asked[0]), (2, left[0]), "the one that is left, and the copy");
    let set = world.logged_sets().swap_remove(0);
    assert_eq!((set.set_size, set.keeps_above), (2, Some(SerialNumber::default())));
}

/// Seed 316: of a set of two one came back as an old image, the other lost power.
#[test]
fn where_a_copy_joins_a_sound_replica_what_a_suspect_has_more_is_kept() {
    for (more, keeps) in [(29, Some(SerialNumber::new(28))), (28, None)] {
        let told = [((28, 26), false), ((more, 28), true)];
        let (mut world, disks) = after_power_loss_of(2, &told);
        world.join(3, vec![], vec![]);
        // Then the master may decide on one that is sound.
        world.pass(5000, &[1, 2, 3]);
        world.clones();
        let order = (0..60).find_map(|_| {
            world.pass(250, &[1, 2, 3]);
            world.clones().pop()
        });
        let (id, copy) = order.expect("it is copied");
        assert_eq!((copy.source.server, copy.server), (server(1), server(3)));
        world.cloned(id);
        let (id, finish) = world.clone_order();
        assert!(finish.finish, "it is to join");
        world.cloned(id);
        while let Some((id, _, raise)) = world.raises().pop() {
            world.accept(id, &raise, disks[&1].clone());
        }
        let set = world.logged_sets().swap_remove(0);
        assert_eq!((set.set_size, set.keeps_above), (2, keeps));
    }
}

#[test]
fn while_clients_mutate_the_lease_is_asked_back_and_the_next_one_goes_to_all() {
    let (mut world, grant, left, copy) = World::copied_under_a_lease();
    let (id, revoke) = world.take_revoke();
    assert_eq!(revoke.lease, grant.lease);
    world.request(6, lease(LeasePurpose::Write, 0));
    assert!(world.reply(6).is_none(), "it waits, and is told of no error");
    let beat = world.beat(grant.primary.server.get(), vec![], vec![held(&grant)]);
    assert!(beat.extended.is_empty(), "what is asked back is not extended");
    world.answer(id, Ok(Response::RevokeLease(RevokeLeaseAnswer { replica: report(&grant) })));
    let (id, finish) = world.clone_order();
    assert!(finish.finish && finish.version == grant.version);
    world.cloned(id);
    world.accept_raises(&[]);
    assert_eq!(world.logged_sets()[0].set_size, 3);
    world.accept_raises(&[]);
    world.commit();
    world.accept_grant();
    let mut all = left;
    all.push(copy.server.get());
    all.sort_unstable();
    assert_eq!(members(&world.granted(6)), all);
}

#[test]
fn a_clone_that_does_not_take_its_raise_is_left_out_by_a_fresh_version() {
    let (mut world, grant, left) = World::lacking(5);
    let (id, copy) = world.clone_order();
    world.cloned(id);
    let (id, _) = world.clone_order();
    world.cloned(id);
    let first = world.accept_raises(&[copy.server.get()]);
    let second = world.accept_raises(&[]);
    let asked: Vec<u64> = second.iter().map(|(to, _)| *to).collect();
    assert_eq!(asked, left, "those that stand there");
    assert!(second[0].1.to > first[0].1.to, "the number is spent (R8)");
    let sets = world.logged_sets();
    assert_eq!((sets[0].set_size, sets[0].version), (2, second[0].1.to));
    assert_eq!(world.drops(), [copy.server.get()]);
    // It is tried elsewhere.
    world
        .pass(1000, &[1, 2, 3, 4, 5].map(|id| if members(&grant)[0] == id { left[0] } else { id }));
    let (_, other) = world.clone_order();
    assert_ne!(other.server, copy.server);
}

#[test]
fn a_server_that_comes_back_early_makes_the_clone_needless() {
    let (mut world, grant, _) = World::lacking(4);
    let (_, copy) = world.clone_order();
    world.join(members(&grant)[0], vec![report(&grant)], vec![]);
    world.pass(500, &[1, 2, 3, 4]);
    assert_eq!((world.drops(), world.chunks_lacking()), (vec![copy.server.get()], 0));
}

/// A replica as it stands after so many mutations, all acknowledged.
fn told(grant: &ChunkGrant, serial: u64) -> ReplicaReport {
    ReplicaReport {
        serial: SerialNumber::new(serial),
        acknowledged_serial: SerialNumber::new(serial),
        length: 10 * serial,
        acknowledged: 10 * serial,
        ..report(grant)
    }
}

/// A chunk on three of four servers, of which one fell silent before it told of the last mutation;
/// whoever has died by now is not among those that are alive. All is quiet.
fn one_unheard(died: usize) -> (World, Vec<u64>, Vec<u64>) {
    let mut world = World::new(4);
    let grant = world.first_chunk();
    let holders = members(&grant);
    let left = &holders[..2 - died];
    for id in &holders {
        let serial = if left.contains(id) { 2 } else { 1 };
        world.beat(*id, vec![told(&grant, serial)], vec![]);
    }
    let silent = holders[2];
    let alive: Vec<u64> = (1..=4).filter(|id| left.contains(id) || !holders.contains(id)).collect();
    world.pass(2500, &alive);
    let view = world.chunks.view(world.moment(), &world.state);
    assert!(view.leases.possible(grant.handle, view.now.time).is_none(), "all is quiet");
    assert!(!view.fleet.servers().is_live(view.now.time, server(silent)), "and it is silent");
    (world, holders, alive)
}

#[test]
fn who_fell_silent_before_it_told_of_the_last_mutations_is_not_copied_for_that() {
    let (mut world, _, alive) = one_unheard(0);
    world.pass(1000, &alive);
    assert_eq!((world.clones().len(), world.chunks_lacking()), (0, 0), "it may have them");
    world.pass(1000, &alive);
    assert_eq!(world.clones().len(), 1, "it is dead");
}

#[test]
fn where_one_good_replica_is_left_nobody_who_is_silent_is_waited_for() {
    let (mut world, ..) = one_unheard(1);
    assert_eq!((world.clones().len(), world.chunks_lacking()), (1, 1));
}

#[test]
fn who_had_told_that_it_is_behind_is_copied_though_it_is_silent() {
    let (mut world, holders, alive) = one_unheard(0);
    let handle = world.state.chunk_at(FILE, ChunkIndex::default()).expect("there");
    let known = world.chunks.fleet.locations().get(handle, server(holders[2])).expect("there");
    let told = ReplicaReport {
        handle,
        version: known.version,
        serial: known.serial,
        length: known.length,
        ..ReplicaReport::default()
    };
    world.beat(holders[2], vec![told], vec![]);
    world.pass(1500, &alive);
    assert_eq!((world.clones().len(), world.drops()), (1, vec![]), "nor is that given up");
}

#[test]
fn a_copy_that_joins_leaves_out_nobody_who_may_be_as_far() {
    let (mut world, holders, alive) = one_unheard(0);
    world.drain(holders[0]);
    world.pass(250, &alive);
    let (id, _) = world.clone_order();
    world.cloned(id);
    world.pass(250, &alive);
    assert!(world.clones().is_empty() && world.raises().is_empty(), "it costs nothing so far");
    world.pass(1500, &alive);
    assert!(world.clones().iter().any(|(_, copy)| copy.finish), "it is dead");
}

#[test]
fn a_source_with_a_bad_block_is_marked_and_another_one_is_asked() {
    let (mut world, grant, left) = World::lacking(4);
    let (id, copy) = world.clone_order();
    let failure = Failure::not_done(ErrorCode::ChecksumMismatch, "a bad block");
    world.answer(id, Err(Failure { server: copy.source.server, ..failure }));
    let (_, other) = world.clone_order();
    assert_eq!(other.server, copy.server, "what it has is there");
    assert!(other.source != copy.source && left.contains(&other.source.server.get()));
    let known = world.chunks.fleet.locations().get(grant.handle, copy.source.server);
    assert!(known.expect("it is there").damaged);
}

#[test]
fn a_receiver_that_does_not_get_on_is_given_up_and_another_is_chosen() {
    let (mut world, grant, left) = World::lacking(5);
    let (id, copy) = world.clone_order();
    let alive: Vec<u64> = (1..=5).filter(|id| *id != members(&grant)[0]).collect();
    world.pass(4500, &alive);
    assert_eq!(world.drops(), [copy.server.get()]);
    let (_, other) = world.clone_order();
    assert!(other.server != copy.server && !left.contains(&other.server.get()));
    world.answer(id, Err(lost_answer()));
    assert!(world.clones().is_empty(), "its answer comes too late to matter");
}

#[test]
fn a_clone_that_waits_for_its_turn_at_its_receiver_is_not_given_up() {
    for waits in [true, false] {
        let (mut world, grant, _) = World::lacking(5);
        let (_, copy) = world.clone_order();
        let alive: Vec<u64> = (1..=5).filter(|id| *id != members(&grant)[0]).collect();
        for _ in 0..80 {
            let (handle, copied, total) = (grant.handle, 5, 10);
            let told = CloneProgress { handle, copied, total, waits };
            let (server, incarnation) = (copy.server, Incarnation::new(copy.server.get() * 10));
            let clones = vec![told];
            world.request(901, Heartbeat { server, incarnation, clones, ..Heartbeat::default() });
            world.pass(250, &alive);
        }
        assert_eq!(world.drops().is_empty(), waits, "the others there take their turn for long");
    }
}

/// More files, each with a chunk on the same world.
fn more_chunks(world: &mut World, count: u64) -> Vec<ChunkGrant> {
    let mut chunk = |number| {
        let id = EntryId::new(200 + number);
        let name = format!("g{number}");
        let mutation =
            MutationName { session: SessionId::new(1), number: MutationNumber::new(1 + number) };
        let file = AddFile { mutation, parent: ROOT, name, id, ..AddFile::default() };
        world.apply(AddFile { replication: 3, ..file });
        world.request(1, Lease { file: id, ..lease(LeasePurpose::Append, 0) });
        world.accept_raises(&[]);
        world.commit();
        world.accept_grant();
        world.granted(1)
    };
    (0..count).map(&mut chunk).collect()
}

#[test]
fn none_with_two_replicas_is_cloned_while_one_with_one_could_be() {
    for of_server in [1, 2, 3] {
        check_order(of_server);
    }
}

/// RP1, where a server takes so many clones at once, and gives so many.
fn check_order(of_server: u32) {
    let mut world = World::new(5);
    world.limit(SetCellSettings { clones_per_server: Some(of_server), ..Default::default() });
    let grants = more_chunks(&mut world, 12);
    world.pass(3000, &[1, 2, 3, 4, 5]);
    let of = |id: u64| grants.iter().filter(move |grant| members(grant).contains(&id)).map(report);
    for id in 1..=5 {
        world.beat(id, of(id).collect(), vec![]);
    }
    world.pass(4500, &[1, 2, 3]);
    let good = |handle: ChunkHandle| {
        let of_it = grants.iter().find(|grant| grant.handle == handle).expect("one of them");
        members(of_it).iter().filter(|id| **id <= 3).count()
    };
    let one: Vec<&ChunkGrant> = grants.iter().filter(|it| good(it.handle) == 1).collect();
    assert!(!one.is_empty(), "some are left on one server");
    let mut orders = world.clones();
    let is_busy = |server: u64, orders: &[(EffectId, CloneChunk)]| {
        let gives = orders.iter().filter(|it| it.1.source.server.get() == server).count();
        let takes = orders.iter().filter(|it| it.1.server.get() == server).count();
        assert!(gives.max(takes) <= of_server as usize, "{gives} and {takes} at once");
        (gives == of_server as usize, takes == of_server as usize)
    };
    let started = |grant: &ChunkGrant| orders.iter().any(|it| it.1.handle == grant.handle);
    for grant in one.iter().filter(|grant| !started(grant)) {
        let source = *members(grant).iter().find(|id| **id <= 3).expect("one is left");
        let mut others = (1..=3).filter(|id| *id != source);
        let full = others.all(|id| is_busy(id, &orders).1);
        assert!(is_busy(source, &orders).0 || full, "RP1: it waits, and could be started");
    }
    assert!(orders.len() < grants.len(), "more wait than are started");
    while let Some((id, _)) = orders.pop() {
        world.cloned(id);
        world.accept_raises(&[]);
        world.commit();
        orders.extend(world.clones());
    }
    assert_eq!(world.chunks_lacking(), 0, "in the end each has three");
}

#[test]
fn a_server_that_joins_again_and_again_and_never_tells_holds_up_no_repair() {
    let (mut world, grant, left) = World::lacking(4);
    let (_, first) = world.clone_order();
    world.join(members(&grant)[0], vec![report(&grant)], vec![]);
    world.pass(500, &[1, 2, 3, 4]);
    assert_eq!(world.drops(), [first.server.get()], "it is back");
    world.sent.clear();
    // Server 9 joins, and its inventory never comes through.
    let alive = [left, vec![first.server.get()]].concat();
    for _ in 0..12 {
        world.join_only(9);
        world.pass(1000, &alive);
    }
    assert_eq!(world.clone_order().1.handle, grant.handle);
}

#[test]
fn a_member_that_is_silent_for_a_moment_is_not_given_for_a_clone() {
    let (mut world, grant, left) = World::lacking(5);
    let (id, copy) = world.clone_order();
    // One of the two that are left is away for longer than a lease, and not dead.
    let alive: Vec<u64> =
        (1..=5).filter(|id| *id != left[1] && *id != members(&grant)[0]).collect();
    world.pass(3000, &alive);
    world.cloned(id);
    world.pass(500, &alive);
    for _ in 0..3 {
        for (id, _) in world.clones() {
            world.cloned(id);
        }
        let raised = world.accept_raises(&[]);
        assert!(raised.iter().all(|(to, _)| left.contains(to)), "{raised:?}");
        let sets = world.logged_sets();
        assert_eq!(sets, [], "nobody is left out who costs nothing: {copy:?}");
    }
}

#[test]
fn a_stale_replica_goes_where_whoever_has_none_has_no_room() {
    let mut world = World::new(4);
    let grant = world.first_chunk();
    world.pass(3000, &[1, 2, 3, 4]);
    let (holders, version) = (members(&grant), ChunkVersion::of(Term::new(1), 900));
    let fourth = (1..=4).find(|id| !holders.contains(id)).expect("of four");
    world.apply(SetVersion { handle: grant.handle, version, set_size: 2, ..Default::default() });
    for id in &holders[..2] {
        world.beat(*id, vec![ReplicaReport { version, ..report(&grant) }], vec![]);
    }
    assert_eq!(world.beat(holders[2], vec![report(&grant)], vec![]).garbage, [], "kept so far");
    world.pass(1500, &holders);
    let named = world.beat(holders[2], vec![report(&grant)], vec![]).garbage;
    assert_eq!(named, [], "one that has room is silent for a moment");
    let (at, incarnation) = (server(fourth), Incarnation::new(fourth * 10));
    let full = Heartbeat { server: at, incarnation, full: true, ..Heartbeat::default() };
    world.request(901, full);
    world.reply(901);
    let named = world.beat(holders[2], vec![report(&grant)], vec![]).garbage;
    assert_eq!(named.len(), 1, "else the chunk never has three");
}

#[test]
fn a_cell_makes_no_more_clones_at_once_than_a_person_lets_it() {
    let mut world = World::new(6);
    let grants = more_chunks(&mut world, 12);
    world.limit(SetCellSettings {
        clone_rate: Some(100_000),
        clones_per_server: Some(9),
        clones_per_cell: Some(2),
        ..Default::default()
    });
    world.pass(3000, &[1, 2, 3, 4, 5, 6]);
    let of = |id: u64| grants.iter().filter(move |grant| members(grant).contains(&id)).map(report);
    for id in 1..=6 {
        world.beat(id, of(id).collect(), vec![]);
    }
    world.pass(4500, &[1, 2, 3, 4, 5]);
    let orders = world.clones();
    assert_eq!(orders.len(), 2);
    assert!(orders.iter().all(|it| it.1.rate == 100_000), "each receiver is told its rate");
    world.limit(SetCellSettings { clones_per_cell: Some(5), ..Default::default() });
    world.pass(500, &[1, 2, 3, 4, 5]);
    assert!((1..=3).contains(&world.clones().len()), "more, as soon as more may be");
}

#[test]
fn a_lease_that_was_asked_back_in_vain_serves_on_as_soon_as_its_holder_tells_of_it() {
    let (mut world, grant, ..) = World::copied_under_a_lease();
    let alive: Vec<u64> = (1..=4).filter(|id| world.has(*id)).collect();
    let (id, _) = world.take_revoke();
    let holder = grant.primary.server.get();
    let beat = world.beat(holder, vec![], vec![held(&grant)]);
    assert_eq!(beat.extended, [], "it may be giving it back");
    world.answer(id, Err(lost_answer()));
    let beat = world.beat(holder, vec![], vec![held(&grant)]);
    assert_eq!(beat.extended, [grant.lease], "it holds it");
    world.pass(250, &alive);
    world.request(6, lease(LeasePurpose::Write, 0));
    assert_eq!(world.granted(6).lease, grant.lease);
}

#[test]
fn a_stale_replica_is_kept_until_its_fellows_are_heard_of_after_it_came_back() {
    let mut world = World::new(4);
    let grant = world.first_chunk();
    world.pass(3000, &[1, 2, 3, 4]);
    let (holders, version) = (members(&grant), ChunkVersion::of(Term::new(1), 900));
    let fourth = (1..=4).find(|id| !holders.contains(id)).expect("of four");
    world.apply(SetVersion { handle: grant.handle, version, set_size: 3, ..Default::default() });
    let new = [holders[0], holders[1], fourth];
    for id in new {
        world.beat(id, vec![ReplicaReport { version, ..report(&grant) }], vec![]);
    }
    // Two of them are killed, and nobody knows it yet, when the old one comes back.
    world.join_as(holders[2], 77, vec![report(&grant)], vec![]);
    world.millis += 100;
    world.beat(new[0], vec![], vec![]);
    let told = vec![report(&grant)];
    assert_eq!(world.beat_as(holders[2], 77, told.clone(), vec![]).garbage, [], "one has spoken");
    for id in new {
        world.beat(id, vec![], vec![]);
    }
    assert_eq!(world.beat_as(holders[2], 77, told, vec![]).garbage.len(), 1, "all of its goal");
}

#[test]
fn a_clone_whose_join_came_to_nothing_passes_for_no_member() {
    let (mut world, grant, left) = World::lacking(4);
    let (id, _) = world.clone_order();
    world.cloned(id);
    let (id, finish) = world.clone_order();
    world.cloned(id);
    // A member's answer is lost: the join is given up, nothing is logged.
    let asked = world.accept_raises(&[left[0]]);
    assert!(asked.iter().all(|(to, _)| *to != finish.server.get()), "the clone is raised last");
    assert_eq!(world.logged_sets(), []);
    assert_eq!(world.state.chunk(grant.handle).expect("there").version, grant.version);
    let alive: Vec<u64> = (1..=4).filter(|id| *id != members(&grant)[0]).collect();
    world.pass(1000, &alive);
    assert_eq!(world.chunks_lacking(), 1, "RP2, R30: not before the record is applied");
}

#[test]
fn a_copy_is_not_thrown_away_because_a_lease_was_not_given_back() {
    let (mut world, _, left, copy) = World::copied_under_a_lease();
    // What the receiver has is whole; the holder's answer is lost, and the lease runs out.
    let (id, _) = world.take_revoke();
    world.answer(id, Err(lost_answer()));
    let alive = [left, vec![copy.server.get()]].concat();
    let mut waited = 0;
    let finish = loop {
        world.pass(250, &alive);
        waited += 250;
        assert_eq!(world.drops(), [0; 0], "it is whole");
        if let Some((_, order)) = world.clones().pop() {
            break order;
        }
        assert!(waited < 20_000, "it joins when it can");
    };
    assert!(finish.finish && finish.server == copy.server, "nothing is copied anew");
}

#[test]
fn a_stale_replica_that_was_told_of_once_more_while_it_went_does_not_stand_in_the_way_for_ever() {
    let mut world = World::new(4);
    let grant = world.first_chunk();
    world.pass(3000, &[1, 2, 3, 4]);
    let (holders, version) = (members(&grant), ChunkVersion::of(Term::new(1), 900));
    let fourth = (1..=4).find(|id| !holders.contains(id)).expect("of four");
    let gone = holders[2];
    world.apply(SetVersion { handle: grant.handle, version, set_size: 3, ..Default::default() });
    for id in [holders[0], holders[1], fourth] {
        world.beat(id, vec![ReplicaReport { version, ..report(&grant) }], vec![]);
    }
    let named = world.beat(gone, vec![report(&grant)], vec![]).garbage;
    assert_eq!(named.len(), 1, "the others are its goal");
    // One of them falls silent, and the old one is told of before it is thrown away.
    let alive = [holders[0], holders[1], gone];
    world.pass(1250, &alive);
    assert_eq!(world.beat(gone, vec![report(&grant)], vec![]).garbage, [], "it might be wanted");
    let (server, incarnation) = (server(gone), Incarnation::new(gone * 10));
    let lost = vec![grant.handle];
    world.request(901, Heartbeat { server, incarnation, lost, ..Heartbeat::default() });
    world.reply(901);
    world.pass(4000, &alive);
    assert_eq!(world.clone_order().1.server, server, "it has none, so it gets one");
}
