//! How a server tells a master what it holds.

use bytes::Bytes;
use cairn_chunk_core::{ChunkCore, ChunkCoreConfig, ScrubSettings};
use cairn_env::{Answer, ChunkResult, Completion, Effect, EffectId, Event, Now, ServerSpace};
use cairn_protocol::{
    ErrorCode, Failure, Inventory, InventoryAnswer, JoinAnswer, ReplicaReport, Request, Response,
};
use cairn_types::{
    Address, CellConfig, CellId, ChunkHandle, ChunkVersion, Incarnation, JoinId, ReplicaAt,
    ServerId, Term, Time, WallTime,
};
use std::collections::BTreeSet;
use std::time::Duration;

struct Bench {
    core: ChunkCore,
    time: Time,
    calls: Vec<(EffectId, Request)>,
    wakes: Vec<(EffectId, Time)>,
}

impl Bench {
    /// A server that holds chunks 1 to 20, of which 13 is suspect, and has begun to join.
    fn new() -> Self {
        let held: Vec<ReplicaReport> = (1..=20)
            .map(|at| ReplicaReport {
                handle: ChunkHandle::new(at),
                suspect: at == 13,
                ..ReplicaReport::default()
            })
            .collect();
        let server = ServerId::new(1);
        let settings = ChunkCoreConfig {
            at: ReplicaAt { server, address: Address::new("s1:1"), ..ReplicaAt::default() },
            incarnation: Incarnation::new(1),
            masters: vec![Address::new("master:1")],
            cell: CellId::new(5),
            term: Term::new(1),
            reign: Default::default(),
            highest_handle: ChunkHandle::default(),
            highest_version: ChunkVersion::default(),
            scrub: ScrubSettings::default(),
            scrubbed: Default::default(),
        };
        let core = ChunkCore::new(settings, &held, ServerSpace::default());
        let time = Time::from_nanos(1_000_000_000);
        let mut bench = Self { core, time, calls: vec![], wakes: vec![] };
        bench.step(Event::Started);
        bench
    }

    fn step(&mut self, event: Event<(), ChunkResult>) {
        let mut effects = Vec::new();
        let now = Now { time: self.time, wall: WallTime::from_millis(1) };
        self.core.step(now, event, &mut effects);
        for effect in effects {
            match effect {
                // Which masters there are: nothing hangs on it here.
                Effect::Call { request: Request::FindPrimary(_), .. } => {}
                Effect::Call { id, request, .. } => self.calls.push((id, request)),
                Effect::Wake { id, at } => self.wakes.push((id, at)),
                _ => {}
            }
        }
    }

    /// So much time passes, and whatever is due then comes.
    fn pass(&mut self, millis: u64) {
        let end = self.time + Duration::from_millis(millis);
        loop {
            let due = self.wakes.iter().enumerate().min_by_key(|(_, (_, at))| *at);
            let Some((index, (_, at))) = due.filter(|(_, (_, at))| *at <= end) else { break };
            self.time = self.time.max(*at);
            let (id, _) = self.wakes.remove(index);
            self.step(Event::Completed { id, result: Completion::Woken });
        }
        self.time = end;
    }

    fn answer(&mut self, id: EffectId, result: Result<Response, Failure>) {
        let result = result.map(|response| Answer { response, payload: Bytes::new() });
        self.step(Event::Completed { id, result: Completion::Answered(result) });
    }

    /// The master takes the server in.
    fn join(&mut self, join: u64) {
        let at = self.calls.iter().position(|(_, request)| matches!(request, Request::Join(_)));
        let (id, _) = self.calls.remove(at.expect("it joins"));
        let (cell, join) = (CellId::new(5), JoinId::new(join));
        let config = Box::new(CellConfig::tiny());
        self.answer(
            id,
            Ok(Response::Join(JoinAnswer {
                term: Term::new(1),
                cell,
                config,
                join,
                ..JoinAnswer::default()
            })),
        );
    }

    /// The slices on their way, taken out.
    fn slices(&mut self) -> Vec<(EffectId, Inventory)> {
        let mut slices = vec![];
        for (id, request) in std::mem::take(&mut self.calls) {
            match request {
                Request::Inventory(inventory) => slices.push((id, inventory)),
                request => self.calls.push((id, request)),
            }
        }
        slices
    }

    /// The one slice on its way: the handles that it tells of.
    fn slice(&mut self) -> (EffectId, Vec<u64>, Inventory) {
        let mut slices = self.slices();
        assert_eq!(slices.len(), 1, "one at a time");
        let (id, slice) = slices.remove(0);
        (id, slice.replicas.0.iter().map(|report| report.handle.get()).collect(), slice)
    }

    fn taken(&mut self, id: EffectId, wanted: &[u64], pause_ms: u64) {
        let wanted = wanted.iter().map(|handle| ChunkHandle::new(*handle)).collect();
        self.answer(id, Ok(Response::Inventory(InventoryAnswer { wanted, pause_ms })));
    }

    fn beats(&self) -> usize {
        self.calls.iter().filter(|(_, request)| matches!(request, Request::Heartbeat(_))).count()
    }
}

#[test]
fn what_is_urgent_goes_first_then_what_somebody_waits_for_and_the_rest_in_order() {
    let mut bench = Bench::new();
    bench.join(7);
    let (id, handles, slice) = bench.slice();
    assert_eq!(handles, [13, 1, 2, 3], "what may have lost bytes first");
    assert_eq!((slice.join, slice.number, slice.last), (JoinId::new(7), 0, false));
    bench.pass(1000);
    assert_eq!(bench.slices(), vec![], "the master sets the pace");
    assert!(bench.beats() > 0, "heartbeats go on meanwhile");
    bench.taken(id, &[9, 2, 99], 0);
    let (mut id, handles, slice) = bench.slice();
    assert_eq!((handles.as_slice(), slice.number), (&[9, 4, 5, 6][..], 1));
    let mut told: BTreeSet<u64> = [13, 1, 2, 3, 9, 4, 5, 6].into();
    loop {
        bench.taken(id, &[], 0);
        let (next, handles, slice) = bench.slice();
        told.extend(handles);
        id = next;
        if slice.last {
            break;
        }
    }
    assert!(told.into_iter().eq(1..=20));
    bench.taken(id, &[], 0);
    bench.pass(1000);
    assert_eq!(bench.slices(), vec![]);
}

/// A server that was asked to join again while a slice was on its way: that slice, and the first
/// one of its new join.
fn joined_again() -> (Bench, EffectId, EffectId) {
    let mut bench = Bench::new();
    bench.join(7);
    let (id, _, _) = bench.slice();
    bench.taken(id, &[], 400);
    bench.pass(399);
    assert_eq!(bench.slices(), vec![], "the pause is kept");
    bench.pass(1);
    let (old, handles, _) = bench.slice();
    assert_eq!(handles, [4, 5, 6, 7]);
    let (beat, _) = bench.calls.remove(0);
    let rejoin = cairn_protocol::HeartbeatAnswer { rejoin: true, ..Default::default() };
    let rejoin = cairn_protocol::HeartbeatAnswer { term: Term::new(1), ..rejoin };
    bench.answer(beat, Ok(Response::Heartbeat(rejoin.into())));
    bench.pass(100);
    bench.join(8);
    let (id, handles, slice) = bench.slice();
    assert_eq!((handles.as_slice(), slice.number), (&[13, 1, 2, 3][..], 0), "from the start");
    (bench, old, id)
}

#[test]
fn a_pause_is_kept_and_the_slice_of_an_earlier_join_moves_nothing() {
    let (mut bench, old, id) = joined_again();
    bench.taken(old, &[], 0);
    assert_eq!(bench.slices(), vec![], "that was of an earlier join");
    bench.taken(id, &[], 0);
    assert_eq!(bench.slice().2.join, JoinId::new(8));
}

#[test]
fn a_refusal_of_the_slice_of_an_earlier_join_moves_nothing() {
    let (mut bench, old, id) = joined_again();
    bench.answer(old, Err(Failure::not_done(ErrorCode::Busy, "joined anew")));
    bench.taken(id, &[], 0);
    assert_eq!(bench.slice().2.join, JoinId::new(8));
}
