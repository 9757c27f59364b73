//! [`Chunks`] between chunkservers that lose answers, restart and fall silent, at random: whatever
//! happens, no version is logged that an outsider stands at, no chunk is closed whose primary can
//! still acknowledge, no two primaries can; and when the faults stop, every request is served.

use super::test_world::{FILE, World, lease, lost_answer, server};
use crate::record::Record;
use crate::state::State;
use cairn_protocol::{
    ChunkClosed, CloneChunkAnswer, DropCloneAnswer, ErrorCode, Failure, GrantLease,
    GrantLeaseAnswer, HeldLease, LeasePurpose, ProbeAnswer, RaiseAnswer, ReplicaReport, Request,
    Response, RevokeLeaseAnswer, SecondaryFailed,
};
use cairn_types::{ChunkHandle, ChunkVersion, Random, ServerId};
use std::collections::BTreeMap;

const SERVERS: u64 = 5;

#[derive(Clone, Debug)]
struct Held {
    grant: GrantLease,
    version: ChunkVersion,
    set: Vec<ServerId>,
    until: u64,
    closed_itself: bool,
    shrinking: bool,
}

#[derive(Clone, Debug, Default)]
struct Replica {
    version: ChunkVersion,
    closed: bool,
    raised_at: u64,
    held: Option<Held>,
}

/// What the disks and processes of all chunkservers truly hold.
#[derive(Default)]
struct Truth {
    replicas: BTreeMap<(ServerId, ChunkHandle), Replica>,
    silent_until: BTreeMap<ServerId, u64>,
    incarnation: BTreeMap<ServerId, u64>,
    /// Clones that are finished, and whether their chunk is closed.
    clones: BTreeMap<(ServerId, ChunkHandle), bool>,
}

impl Truth {
    fn report(&self, server: ServerId, handle: ChunkHandle) -> ReplicaReport {
        let replica = &self.replicas[&(server, handle)];
        let (version, closed) = (replica.version, replica.closed);
        ReplicaReport { handle, version, closed, ..ReplicaReport::default() }
    }

    fn reports(&self, server: ServerId) -> Vec<ReplicaReport> {
        let mine = self.replicas.keys().filter(|(of, _)| *of == server);
        mine.map(|(_, handle)| self.report(server, *handle)).collect()
    }

    /// A chunkserver's answer, with its effect on what it holds.
    fn serve(&mut self, now: u64, to: ServerId, request: &Request) -> Result<Response, Failure> {
        let refuse = |code| Err(Failure::not_done(code, "refused"));
        match request {
            Request::Raise(raise) => {
                let key = (to, raise.handle);
                let there = self.replicas.contains_key(&key);
                let adopted = if raise.adopt && !there { self.clones.remove(&key) } else { None };
                if (!there && !raise.create && adopted.is_none()) || (there && raise.adopt) {
                    return refuse(ErrorCode::NoSuchChunk);
                }
                let replica = self.replicas.entry(key).or_default();
                replica.closed |= adopted.unwrap_or_default();
                let stands = raise.create || raise.adopt || replica.version == raise.from;
                if !stands || raise.to <= replica.version {
                    return refuse(ErrorCode::StaleVersion);
                }
                replica.version = raise.to;
                replica.closed |= raise.close;
                replica.raised_at = now;
                let shrinking = replica.held.as_ref().is_some_and(|held| held.shrinking);
                if !shrinking || raise.close {
                    replica.held = None;
                }
                Ok(Response::Raise(RaiseAnswer { replica: self.report(to, raise.handle) }))
            }
            Request::GrantLease(grant) => {
                let Some(replica) = self.replicas.get_mut(&(to, grant.handle)) else {
                    return refuse(ErrorCode::NoSuchChunk);
                };
                if replica.version != grant.version {
                    return refuse(ErrorCode::StaleVersion);
                }
                let set: Vec<ServerId> = grant.secondaries.iter().map(|at| at.server).collect();
                let (until, version) = (replica.raised_at + 1980, grant.version);
                let (closed_itself, shrinking) = (replica.closed, false);
                let (handle, grant) = (grant.handle, grant.clone());
                let levelled = set.clone();
                replica.held = Some(Held { grant, version, set, until, closed_itself, shrinking });
                // Levelling: whoever follows this primary is none itself.
                for other in levelled {
                    if let Some(other) = self.replicas.get_mut(&(other, handle))
                        && other.version == version
                    {
                        other.held = None;
                    }
                }
                Ok(Response::GrantLease(GrantLeaseAnswer::default()))
            }
            Request::Probe(probe) => {
                let Some(replica) = self.replicas.get(&(to, probe.handle)) else {
                    return refuse(ErrorCode::NoSuchChunk);
                };
                let held = replica.held.as_ref();
                let holds = held.is_some_and(|h| h.grant.lease == probe.lease && now < h.until);
                let replica = self.report(to, probe.handle);
                Ok(Response::Probe(ProbeAnswer { replica, holds }))
            }
            other => self.serve_clone(now, to, other),
        }
    }

    fn serve_clone(
        &mut self,
        now: u64,
        to: ServerId,
        request: &Request,
    ) -> Result<Response, Failure> {
        match request {
            Request::CloneChunk(clone) => {
                let source = self.replicas.get(&(clone.source.server, clone.handle));
                let Some(source) = source.filter(|it| it.version == clone.version) else {
                    let failure = Failure::not_done(ErrorCode::ReplicaFailed, "not at the source");
                    return Err(Failure { server: clone.source.server, ..failure });
                };
                if clone.finish {
                    let closed = source.closed;
                    assert!(self.able(now, clone.handle).is_empty(), "GW1: it may be mutated");
                    self.clones.insert((to, clone.handle), closed);
                }
                Ok(Response::CloneChunk(CloneChunkAnswer::default()))
            }
            Request::DropClone(drop) => {
                self.clones.remove(&(to, drop.handle));
                Ok(Response::DropClone(DropCloneAnswer {}))
            }
            Request::RevokeLease(revoke) => {
                let Some(replica) = self.replicas.get_mut(&(to, revoke.handle)) else {
                    return Err(Failure::not_done(ErrorCode::NoSuchChunk, "refused"));
                };
                replica.held = replica.held.take().filter(|it| it.grant.lease != revoke.lease);
                let replica = self.report(to, revoke.handle);
                Ok(Response::RevokeLease(RevokeLeaseAnswer { replica }))
            }
            other => panic!("unexpected {other:?}"),
        }
    }

    /// Whoever could acknowledge a mutation of the chunk right now.
    fn able(&self, now: u64, handle: ChunkHandle) -> Vec<(ServerId, &Held)> {
        let mut able = vec![];
        for ((server, of), replica) in &self.replicas {
            let Some(held) = &replica.held else { continue };
            let stands = |other: &ServerId| {
                self.replicas.get(&(*other, handle)).map(|r| r.version) == Some(held.version)
            };
            if *of == handle && now < held.until && stands(server) && held.set.iter().all(stands) {
                able.push((*server, held));
            }
        }
        able
    }
}

struct Chaos {
    world: World,
    truth: Truth,
    random: Random,
    calm: bool,
    term: u64,
}

impl Chaos {
    fn new(seed: u64) -> Self {
        let mut chaos = Self {
            world: World::new(SERVERS),
            truth: Truth::default(),
            random: Random::new(seed),
            calm: false,
            term: 1,
        };
        for id in 1..=SERVERS {
            chaos.truth.incarnation.insert(server(id), id * 10);
        }
        chaos
    }

    fn now(&self) -> u64 {
        self.world.millis
    }

    /// Answers one call that is on its way, or loses it before or after its effect.
    fn answer_one(&mut self) {
        if self.world.sent.is_empty() {
            return;
        }
        let at = self.random.below(self.world.sent.len() as u64) as usize;
        let sent = self.world.sent.remove(at);
        let silent = self.truth.silent_until.get(&sent.to).is_some_and(|t| *t > self.now());
        let (before, after) = match self.calm {
            true => (false, false),
            false => (self.random.chance(60), self.random.chance(60)),
        };
        if before || silent {
            return self.world.answer(sent.id, Err(lost_answer()));
        }
        let answer = self.truth.serve(self.world.millis, sent.to, &sent.request);
        self.world.answer(sent.id, if after { Err(lost_answer()) } else { answer });
    }

    /// Commits what is proposed, and checks what is logged against the truth.
    fn commit(&mut self) {
        for (_, record) in &self.world.proposed {
            match record {
                Record::OpenChunk(open) => {
                    if let Some(closes) = open.closes {
                        for (who, held) in self.truth.able(self.now(), closes) {
                            let appends = !held.grant.writes_only && !held.closed_itself;
                            assert!(!appends, "R18: {who} can still acknowledge appends");
                        }
                    }
                    self.check_version(open.handle, open.version, open.set_size);
                }
                Record::SetVersion(set) => {
                    let was = self.world.state.chunk(set.handle).expect("logged").set_size;
                    assert!(set.set_size >= was.min(2), "R11: {was} to {}", set.set_size);
                    self.check_version(set.handle, set.version, set.set_size);
                }
                _ => {}
            }
        }
        self.world.commit();
    }

    /// R8: as many stand at a logged version as the record says, nobody else ever did.
    fn check_version(&self, handle: ChunkHandle, version: ChunkVersion, set_size: u32) {
        let replicas = self.truth.replicas.iter().filter(|((_, of), _)| *of == handle);
        let stand = replicas.filter(|(_, replica)| replica.version == version).count();
        assert_eq!(stand, set_size as usize, "R8 at {}", version.short());
    }

    /// One primary, by the holders' own belief.
    fn check_primaries(&self) {
        let mut believers: BTreeMap<ChunkHandle, ServerId> = BTreeMap::new();
        for ((server, handle), replica) in &self.truth.replicas {
            let Some(held) = &replica.held else { continue };
            if self.now() < held.until && held.version == replica.version {
                let other = believers.insert(*handle, *server);
                assert_eq!(other, None, "two primaries of {}: {server}", handle.short());
            }
        }
    }

    fn heartbeats(&mut self) {
        for id in 1..=SERVERS {
            let (me, now) = (server(id), self.now());
            if self.truth.silent_until.get(&me).is_some_and(|t| *t > now) {
                continue;
            }
            let mine = self.truth.replicas.iter().filter(|((of, _), _)| *of == me);
            let leases: Vec<HeldLease> = mine
                .filter_map(|((_, handle), replica)| {
                    let held = replica.held.as_ref().filter(|held| now < held.until)?;
                    let (version, lease) = (replica.version, held.grant.lease);
                    let wanted = true;
                    Some(HeldLease { handle: *handle, version, lease, wanted, acknowledged: 0 })
                })
                .collect();
            let incarnation = self.truth.incarnation[&me];
            let answer =
                self.world.beat_as(id, incarnation, self.truth.reports(me), leases.clone());
            if answer.rejoin {
                self.world.join_as(id, incarnation, self.truth.reports(me), leases);
            }
            for replica in self.truth.replicas.iter_mut().filter(|((of, _), _)| *of == me) {
                if let Some(held) = &mut replica.1.held
                    && answer.extended.contains(&held.grant.lease)
                    && now < held.until
                {
                    held.until = now + 1980;
                }
            }
            for garbage in answer.garbage {
                let chunk = self.world.state.chunk(garbage.handle);
                assert!(chunk.is_none_or(|chunk| garbage.version < chunk.version), "R33");
                self.truth.replicas.remove(&(me, garbage.handle));
            }
        }
    }

    fn fault(&mut self) {
        let me = server(1 + self.random.below(SERVERS));
        match self.random.below(9) {
            0 => self.restart_master(),
            1..5 => {
                let until = self.now() + 500 + self.random.below(6000);
                self.truth.silent_until.insert(me, until);
            }
            _ => {
                *self.truth.incarnation.get_mut(&me).expect("known") += 1;
                for ((of, _), replica) in &mut self.truth.replicas {
                    if *of == me {
                        replica.held = None;
                    }
                }
            }
        }
    }

    /// What the old master had sent may still arrive; what it had not logged is gone.
    fn restart_master(&mut self) {
        for sent in std::mem::take(&mut self.world.sent) {
            if self.random.chance(500) {
                let _ = self.truth.serve(self.world.millis, sent.to, &sent.request);
            }
        }
        self.term += 1;
        let old = std::mem::replace(&mut self.world, World::of_term(State::default(), 1));
        self.world = old.restarted(self.term);
    }

    /// A holder closes its chunk, or loses a secondary.
    fn primary_speaks(&mut self) {
        let now = self.now();
        let replicas = self.truth.replicas.iter().filter(|(_, replica)| {
            replica.held.as_ref().is_some_and(|held| now < held.until && !held.closed_itself)
        });
        let holders: Vec<(ServerId, ChunkHandle)> = replicas.map(|(key, _)| *key).collect();
        let Some(&(me, handle)) = self.random.pick(&holders) else { return };
        if self.truth.silent_until.get(&me).is_some_and(|t| *t > now) {
            return;
        }
        let held = self.truth.replicas[&(me, handle)].held.clone().expect("picked for it");
        let (version, lease) = (held.version, held.grant.lease);
        if self.random.chance(500) && !held.grant.writes_only {
            for at in held.set.iter().chain([&me]) {
                if let Some(replica) = self.truth.replicas.get_mut(&(*at, handle))
                    && replica.version == version
                {
                    replica.closed = true;
                } else {
                    return;
                }
            }
            let mine = self.truth.replicas.get_mut(&(me, handle)).expect("picked");
            if let Some(held) = &mut mine.held {
                held.closed_itself = true;
            }
            let (file, index) = (held.grant.file, held.grant.index);
            self.world.request(800, ChunkClosed { handle, version, lease, file, index });
        } else if let Some(failed) = self.random.pick(&held.set).copied() {
            let failed = vec![failed];
            let mine = self.truth.replicas.get_mut(&(me, handle)).expect("picked");
            if let Some(held) = &mut mine.held {
                held.shrinking = true;
            }
            self.world.request(1000 + me.get(), SecondaryFailed { handle, version, lease, failed });
        }
    }

    /// What the master told primaries about their smaller sets.
    fn hear_shrunk(&mut self) {
        for (to, answer) in std::mem::take(&mut self.world.replies) {
            let Some(me) = to.connection.0.checked_sub(1000).map(server) else { continue };
            for ((of, _), replica) in &mut self.truth.replicas {
                let version = replica.version;
                let Some(held) = replica.held.as_mut().filter(|held| held.shrinking) else {
                    continue;
                };
                match &answer {
                    Ok(Response::SecondaryFailed(answer))
                        if *of == me && version == answer.version =>
                    {
                        held.version = version;
                        held.set = answer.secondaries.iter().map(|at| at.server).collect();
                        held.shrinking = false;
                    }
                    _ if *of == me => replica.held = None,
                    _ => {}
                }
            }
        }
    }

    fn ask(&mut self) {
        let purpose = *self.random.pick(LeasePurpose::ALL).expect("three");
        let count = self.world.state.entry(FILE).map_or(0, |entry| entry.chunk_count);
        let mut request = lease(purpose, self.random.below(count + 2));
        if self.random.chance(300) {
            request.failed = server(1 + self.random.below(SERVERS));
        }
        self.world.request(700, request);
    }

    fn step(&mut self) {
        match self.random.below(100) {
            0..50 => self.answer_one(),
            50..75 => self.commit(),
            75..83 => self.ask(),
            83..86 => self.primary_speaks(),
            86..87 if !self.calm => self.fault(),
            _ => {
                self.world.millis += 125;
                self.heartbeats();
                self.world.wake_up();
            }
        }
        self.hear_shrunk();
        self.check_primaries();
    }

    /// Faults over: both kinds of lease are granted within a bounded time.
    fn settle(&mut self) {
        self.calm = true;
        let deadline = self.now() + 60_000;
        for (purpose, from) in [(LeasePurpose::Append, 1u64), (LeasePurpose::Write, 2)] {
            self.world.replies.clear();
            self.world.request(from, lease(purpose, 0));
            loop {
                if let Some(answer) = self.world.reply(from) {
                    match answer {
                        Ok(_) => break,
                        Err(failure) => {
                            assert!(self.now() < deadline, "never healed: {failure}");
                            self.world.request(from, lease(purpose, 0));
                        }
                    }
                }
                while !self.world.sent.is_empty() {
                    self.answer_one();
                }
                self.commit();
                if self.world.sent.is_empty() {
                    self.world.millis += 125;
                    self.heartbeats();
                    self.world.wake_up();
                }
                assert!(self.now() < deadline + 10_000, "nobody answers");
            }
        }
        self.heal();
    }

    /// Every chunk gets its goal back.
    fn heal(&mut self) {
        // A master that has just started looks for them when its servers have told what they hold.
        let (begins, deadline) = (self.now() + 6_000, self.now() + 60_000);
        loop {
            let status = self.world.chunks.repair_status(self.world.moment(), &self.world.state);
            let lacks = !status.below_goal.is_empty() || status.clone_count > 0;
            if !lacks && self.now() >= begins {
                break;
            }
            assert!(self.now() < deadline, "it does not heal: {status:?}");
            while !self.world.sent.is_empty() {
                self.answer_one();
            }
            self.commit();
            self.world.millis += 125;
            self.heartbeats();
            self.world.wake_up();
        }
        let count = self.world.state.entry(FILE).map_or(0, |entry| entry.chunk_count);
        for (handle, chunk) in self.world.state.chunks() {
            let of_it = self.truth.replicas.iter().filter(|((_, of), _)| *of == handle);
            let good = of_it.filter(|(_, replica)| replica.version >= chunk.version).count();
            assert!(good >= 3, "{good} replicas of one of {count} chunks");
        }
    }
}

#[test]
fn nothing_that_servers_and_clients_do_breaks_a_rule_and_calm_heals() {
    for seed in 0..150 {
        let mut chaos = Chaos::new(seed);
        for _ in 0..600 {
            chaos.step();
        }
        chaos.settle();
    }
}
