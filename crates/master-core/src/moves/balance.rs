//! Moves chunks from servers that are fuller than others to emptier ones, until all are near enough
//! to their share (GFS §4.3).
//!
//! ```text
//!   look at some chunks ─► a copy on an emptier server (repair) ─► it has joined ─► the surplus
//!        ▲                                                  rule leaves out the one that is to go
//!        └── all are near enough, nothing could be moved in a whole look, or nothing has moved
//!            for long: it ends by itself
//! ```
//! - BL1: a move takes no rack away from a chunk, and never puts two replicas on one server.
//! - BL2: nothing is moved while a chunk lacks replicas that could be copied: repair comes first.
//! - BL3: how full servers are told to be lags behind; what is on its way is counted in, and it is
//!   concluded that all are near enough only when nothing is, and no replica is still to be left
//!   out that a chunk has too many: while it is there, every share looks larger than it will be.
//!   A balance that finds nothing to move waits for the same before it ends.
//! - BL4: what clients write to all the time, and what nobody can copy, keeps no balance from its
//!   end: whoever gives the order again later finds it.
//! - BL5: what is moved brings both servers nearer to their shares, perhaps past them: so moves
//!   come to an end, and a server that has too much finds a taker where others lack less than a
//!   chunk. A chunk without bytes would bring nobody nearer however often it was moved, and stays.
//! - BL6: an order that comes while the end of the one before is on its way into the log is one of
//!   its own, and comes to an end of its own.
//! - BL7: nothing is begun and nothing concluded while a server is silent: it is back before long,
//!   with all that it has and lacks, or dead. A silent one is no server to fill: were it the empty
//!   one, all others would be near enough to their shares.

use crate::job_pace::JobPace;
use crate::outbox::ProposalId;
use crate::record::SetBalance;
use crate::repair::Repair;
use crate::rules::good_replicas::{counted, good};
use crate::rules::members::current;
use crate::rules::server_use::{ServerShare, out_of_place, shares};
use crate::scheduler::Scheduler;
use crate::state::{BalanceOrder, ChunkRecord};
use crate::step::ChunkStep;
use crate::view::View;
use cairn_env::LogEvent;
use cairn_protocol::{BalanceAnswer, JobKind, JobState, JobStatus, JobUnit};
use cairn_types::{ChunkHandle, Rack, ReplicaAt, ServerId, Time};
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

/// Chunks that are being moved at once.
const MOVES_MAX: usize = 64;
/// Chunks that one look considers.
const CONSIDERED_MAX: usize = 512;
/// Heartbeats after which what was moved shows in what servers tell.
const SHOWS_AFTER: u32 = 3;
/// In `dead_ms`, how long nothing moves while something might later, until it ends (BL4).
const STILL_MAX: u32 = 20;

/// One chunk on its way.
#[derive(Debug)]
struct ChunkMove {
    from: ServerId,
    to: ServerId,
    bytes: u64,
    /// It is where it is to be, and gone from where it was.
    ended: Option<Time>,
}

/// What is known, and being done, about it.
#[derive(Debug, Default)]
pub(super) struct Balancing {
    moves: BTreeMap<ChunkHandle, ChunkMove>,
    /// Where the look at the table goes on.
    looked: ChunkHandle,
    /// Since the look began at the start of the table it has moved something, or met a chunk that
    /// can be moved later.
    hopes: bool,
    /// When something moved last, or could not because repair came first (BL4).
    moved: Option<Time>,
    /// When a chunk had a replica too many last, ordered by this balance or not (BL3).
    surplus_at: Option<Time>,
    /// Its end is on its way into the log.
    ending: Option<ProposalId>,
    left: u64,
    pace: JobPace,
}

impl Balancing {
    /// Who of a chunk's had better go.
    pub(super) fn leaves(&self, handle: ChunkHandle) -> Option<ServerId> {
        self.moves.get(&handle).map(|it| it.from)
    }

    /// Time has passed.
    pub(super) fn pass(
        &mut self,
        step: &mut ChunkStep<'_>,
        (scheduler, repair): (&Scheduler, &mut Repair),
    ) {
        if repair.surplus().count() > 0 {
            self.surplus_at = Some(step.now.time);
        }
        let Some(order) = step.state.known_servers().duties().balance() else {
            self.begin_anew();
            return;
        };
        self.pace.is_at_work(step.now);
        self.look_after(step, scheduler, repair);
        let view = scheduler.view(step.now, step.state, step.fleet);
        if view.fleet.servers().is_gathering(step.now.time) || self.ending.is_some() {
            return;
        }
        let shares = self.shares(&view, order);
        self.left = out_of_place(&shares);
        let moved = *self.moved.get_or_insert(step.now.time);
        assert!(moved <= step.now.time, "it has moved before");
        // BL2
        if !self.moves.is_empty() || repair.is_needed(&view) {
            self.moved = Some(step.now.time);
        }
        let is_still = step.now.time >= moved + view.term.dead() * STILL_MAX;
        if view.fleet.servers().is_some_silent(step.now.time) && !is_still {
            // BL7
        } else if self.left == 0 {
            let is_told = self.is_surplus_gone(&view) || is_still;
            if self.moves.is_empty() && is_told {
                self.end(step, "every server is near enough to its share");
            }
        } else if is_still {
            self.end(step, "clients write to all that could be moved");
        } else if !repair.is_needed(&view) {
            self.start_some(step, (scheduler, repair), shares);
        }
    }

    /// Nothing is ordered, or anew; when a chunk had a replica too many is of the cell, and stays.
    fn begin_anew(&mut self) {
        *self = Self { surplus_at: self.surplus_at, ..Self::default() };
    }

    /// Whether no chunk has a replica too many, and servers have told what they store since (BL3).
    fn is_surplus_gone(&self, view: &View<'_>) -> bool {
        let shows = view.term.heartbeat() * SHOWS_AFTER;
        self.surplus_at.is_none_or(|at| view.now.time >= at + shows)
    }

    fn shares(&self, view: &View<'_>, order: BalanceOrder) -> BTreeMap<ServerId, ServerShare> {
        let mut moving: BTreeMap<ServerId, (u64, u64)> = BTreeMap::new();
        for it in self.moves.values().filter(|it| it.ended.is_none()) {
            moving.entry(it.to).or_default().0 += it.bytes;
            moving.entry(it.from).or_default().1 += it.bytes;
        }
        shares(view, u64::from(order.threshold_permille), &moving)
    }

    fn end(&mut self, step: &mut ChunkStep<'_>, why: &str) {
        let time = step.now.wall;
        let event = LogEvent::info("balance ended").with("why", why);
        step.out.log(event.with("out_of_place", self.left));
        let end = SetBalance { time, balances: false, threshold_permille: 0 };
        self.ending = Some(step.out.propose(end));
    }

    /// A record is applied: where it was the end, what is ordered by now was ordered after it, and
    /// begins (BL6).
    pub(super) fn on_applied(&mut self, proposal: ProposalId) {
        if self.ending == Some(proposal) {
            self.begin_anew();
        }
    }

    /// Looks after all that is on its way.
    fn look_after(&mut self, step: &ChunkStep<'_>, scheduler: &Scheduler, repair: &Repair) {
        let now = step.now.time;
        let view = scheduler.view(step.now, step.state, step.fleet);
        let shows = view.term.heartbeat() * SHOWS_AFTER;
        let locations = view.fleet.locations();
        let mut done = 0;
        self.moves.retain(|handle, it| {
            if let Some(ended) = it.ended {
                return now < ended + shows;
            }
            if repair.is_cloning(*handle) {
                return true;
            }
            // It came to nothing; or the chunk is gone.
            if locations.get(*handle, it.to).is_none() {
                return false;
            }
            let goes = repair.surplus().contains(*handle);
            if !goes && locations.get(*handle, it.from).is_none() {
                (it.ended, done) = (Some(now), done + it.bytes);
            }
            // Where another one was left out instead, it stays where it is.
            goes || it.ended.is_some() || is_stale(&view, *handle, it.from)
        });
        if done > 0 {
            self.pace.note(step.now, done);
        }
    }

    fn start_some(
        &mut self,
        step: &mut ChunkStep<'_>,
        (scheduler, repair): (&Scheduler, &mut Repair),
        mut shares: BTreeMap<ServerId, ServerShare>,
    ) {
        let some: Vec<(ChunkHandle, ChunkRecord)> =
            step.state.chunks_after(self.looked).take(CONSIDERED_MAX).collect();
        let mut load = repair.load();
        for (handle, chunk) in &some {
            if self.moves.len() >= MOVES_MAX {
                return;
            }
            self.looked = *handle;
            if self.moves.contains_key(handle) || repair.is_cloning(*handle) {
                self.hopes = true;
                continue;
            }
            let view = scheduler.view(step.now, step.state, step.fleet);
            let may_receive = |server| load.may_receive(&view, server);
            let plan = plan(&view, (*handle, chunk), &shares, may_receive);
            let (from, to, bytes) = match plan {
                Ok(plan) => plan,
                Err(unmovable) => {
                    self.hopes |= unmovable == Unmovable::Now;
                    continue;
                }
            };
            // Where its receiver or its sources have enough to do, it is moved later.
            self.hopes = true;
            let target = to.server;
            if repair.start_move(step, scheduler, *handle, to) {
                load = repair.load();
                // As the next one sees it.
                if let Some(share) = shares.get_mut(&target) {
                    share.stored = share.stored.saturating_add(bytes);
                }
                if let Some(share) = shares.get_mut(&from) {
                    share.stored = share.stored.saturating_sub(bytes);
                }
                self.moves.insert(*handle, ChunkMove { from, to: target, bytes, ended: None });
            }
            assert!(self.moves.len() <= MOVES_MAX, "so many at once");
        }
        if some.len() < CONSIDERED_MAX {
            self.looked = ChunkHandle::default();
            let hopes = std::mem::take(&mut self.hopes);
            let view = scheduler.view(step.now, step.state, step.fleet);
            if !hopes && self.moves.is_empty() && self.is_surplus_gone(&view) {
                self.end(step, "what is left would take racks from chunks, or cannot be copied");
            }
        }
    }

    /// As a job, for a person; none while nobody wants it.
    pub(super) fn job(&self, view: &View<'_>, repair: &Repair) -> Option<JobStatus> {
        let order = view.state.known_servers().duties().balance()?;
        let count = self.moves.values().filter(|it| it.ended.is_none()).count();
        let (state, note) = if count == 0 && repair.is_needed(view) {
            (JobState::Waiting, "chunks lack replicas: repair comes first".to_owned())
        } else {
            let percent = f64::from(order.threshold_permille) / 10.0;
            let note = format!("to within {percent}% of each server's share; {count} chunks move");
            (JobState::Running, note)
        };
        let (id, kind, unit) = ("balance".to_owned(), JobKind::Balance, JobUnit::Bytes);
        let status = JobStatus { id, kind, unit, state, note, ..JobStatus::default() };
        let on_the_way: u64 =
            self.moves.values().filter(|it| it.ended.is_none()).map(|it| it.bytes).sum();
        let told = self.pace.tell(view.now, self.left.saturating_add(on_the_way), status);
        Some(JobStatus { began: order.began, ..told })
    }

    /// What there would be to do.
    pub(super) fn plan(view: &View<'_>, threshold_permille: u32) -> BalanceAnswer {
        let shares = shares(view, u64::from(threshold_permille), &BTreeMap::new());
        let count = |of: fn(&ServerShare) -> u64| {
            let count = shares.values().filter(|share| of(share) > 0).count();
            u32::try_from(count).expect("a cell has few servers")
        };
        BalanceAnswer {
            bytes: out_of_place(&shares),
            over_count: count(ServerShare::excess),
            under_count: count(ServerShare::deficit),
        }
    }
}

/// Whether a replica is out of its chunk's set, and waits to be thrown away.
fn is_stale(view: &View<'_>, handle: ChunkHandle, server: ServerId) -> bool {
    let Some(chunk) = view.state.chunk(handle) else { return false };
    let held = view.fleet.locations().get(handle, server).is_some();
    held && !current(view, handle, &chunk).any(|(other, _)| other == server)
}

/// Why a chunk is not moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unmovable {
    /// Its clients go first, or it has one too many, or who could receive it has enough to do.
    Now,
    /// Nobody would be nearer to its share, or it would lose a rack; or it lacks replicas that
    /// nobody can copy.
    AtAll,
}

/// From where to where a chunk could be moved, and its bytes (BL1).
fn plan(
    view: &View<'_>,
    (handle, chunk): (ChunkHandle, &ChunkRecord),
    shares: &BTreeMap<ServerId, ServerShare>,
    may_receive: impl Fn(ServerId) -> bool,
) -> Result<(ServerId, ReplicaAt, u64), Unmovable> {
    let good = good(view, handle, chunk);
    let counted = counted(view, &good);
    match counted.len().cmp(&(chunk.goal as usize)) {
        // What could be copied is by now (BL2): the rest may stay so for ever (BL4).
        Ordering::Less => return Err(Unmovable::AtAll),
        Ordering::Greater => return Err(Unmovable::Now),
        Ordering::Equal => {}
    }
    let share = |server: &ServerId| shares.get(server).copied();
    let above = |server: &ServerId| share(server).map_or(0, |it| it.stored.saturating_sub(it.fair));
    let from = counted.iter().copied().max_by_key(|server| (above(server), *server));
    let from = from.ok_or(Unmovable::AtAll)?;
    let bytes = good.iter().find(|(server, _)| *server == from).map_or(1, |(_, it)| it.length);
    let too_full = share(&from).is_some_and(|it| it.excess() > 0);
    let servers = view.fleet.servers();
    let rack = |server: &ServerId| servers.at(*server).map(|at| at.rack.clone());
    let racks: BTreeSet<Rack> = counted.iter().filter_map(rack).collect();
    let stay: BTreeSet<Rack> =
        counted.iter().filter(|server| **server != from).filter_map(rack).collect();
    let below = |it: &ServerShare| it.fair.saturating_sub(it.stored);
    let fits = |(server, it): &(&ServerId, &ServerShare)| {
        // BL5: half-way to as far on the other side.
        let gets_on = bytes > 0 && below(it).min(above(&from)) > bytes / 2;
        let keeps_racks = || {
            let own = rack(server);
            own.is_some_and(|own| stay.len() + usize::from(!stay.contains(&own)) >= racks.len())
        };
        let known = || servers.get(**server).is_some_and(|known| !known.full);
        let has_none = || view.fleet.locations().get(handle, **server).is_none();
        gets_on && (too_full || it.deficit() > 0) && keeps_racks() && known() && has_none()
    };
    let to = shares
        .iter()
        .filter(fits)
        .max_by_key(|(server, it)| (may_receive(**server), below(it), **server));
    let to = to.and_then(|(server, _)| servers.at(*server)).ok_or(Unmovable::AtAll)?.clone();
    assert_ne!(to.server, from, "a chunk is moved elsewhere (BL1)");
    // Its clients go first.
    let leased = view.leases.possible(handle, view.now.time).is_some();
    if may_receive(to.server) && !leased { Ok((from, to, bytes)) } else { Err(Unmovable::Now) }
}
