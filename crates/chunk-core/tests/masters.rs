//! Which master a server talks to, and how it goes over to another.

mod bench;

use bench::{Bench, CallEffect, TERM, lease};
use cairn_protocol::{
    ErrorCode, Failure, HeartbeatAnswer, Inventory, InventoryAnswer, JoinAnswer, Request, Response,
};
use cairn_types::{Address, CellConfig, CellId, Term};
use std::time::Duration;

const MILLI: Duration = Duration::from_millis(1);
const NEXT: Term = Term::new(4);

fn gone() -> Failure {
    Failure::not_done(ErrorCode::Unreachable, "nobody listens there")
}

fn two() -> Bench {
    Bench::of_masters(&["master1:1", "master2:1"])
}

fn joined() -> Bench {
    let mut bench = two();
    bench.join();
    bench.find("master1:1", TERM);
    bench.masters_asked.clear();
    bench
}

/// What was asked of which master since.
fn asked(bench: &mut Bench) -> Vec<String> {
    let asked = std::mem::take(&mut bench.masters_asked);
    asked.iter().map(|(to, request)| format!("{} {}", request.name(), to.as_str())).collect()
}

impl Bench {
    /// So much time passes.
    fn pass(&mut self, time: Duration) {
        let until = self.time + time;
        while self.time < until {
            self.tick(50 * MILLI);
        }
    }

    /// The next heartbeat, answered so.
    fn beat(&mut self, result: Result<HeartbeatAnswer, Failure>) {
        let id = loop {
            if let Some((id, _)) = self.take(|it| matches!(it, Request::Heartbeat(_))) {
                break id;
            }
            self.tick(50 * MILLI);
        };
        self.answer(id, result.map(|answer| Response::Heartbeat(answer.into())));
    }

    /// The first call of that kind.
    fn take(&mut self, is_meant: impl Fn(&Request) -> bool) -> Option<CallEffect> {
        let at = self.calls.iter().position(|(_, request)| is_meant(request))?;
        self.calls.remove(at)
    }

    fn taken_in(&mut self, term: Term) -> Inventory {
        let (id, _) = self.take(|it| matches!(it, Request::Join(_))).expect("it joins");
        let (cell, config) = (CellId::new(5), Box::new(CellConfig::tiny()));
        let answer = JoinAnswer { term, cell, config, ..JoinAnswer::default() };
        self.answer(id, Ok(Response::Join(answer)));
        // The term is made durable before anything of it is obeyed.
        self.journaled();
        let slice = self.take(|it| matches!(it, Request::Inventory(_)));
        let Some((id, Request::Inventory(inventory))) = slice else { panic!("it tells nothing") };
        self.answer(id, Ok(Response::Inventory(InventoryAnswer::default())));
        inventory
    }
}

#[test]
fn a_server_whose_master_is_gone_joins_the_one_that_is_in_charge_at_once() {
    let mut bench = joined();
    bench.beat(Err(gone()));
    assert_eq!(asked(&mut bench), ["Heartbeat master1:1"]);
    bench.find("nobody", TERM);
    bench.pass(200 * MILLI);
    bench.find("master2:1", NEXT);
    assert_eq!(asked(&mut bench), ["Join master2:1"], "M3");
    bench.taken_in(NEXT);
    assert!(bench.logged.last().is_some_and(|line| line.contains("master=master2:1")));
}

#[test]
fn a_refusal_that_names_the_primary_costs_no_search() {
    let mut bench = joined();
    let hint = Some(Address::new("master2:1"));
    bench.beat(Err(Failure::not_primary_master("a shadow", hint)));
    assert_eq!(asked(&mut bench), ["Heartbeat master1:1", "Join master2:1"]);
    assert!(bench.searches.is_empty());
}

#[test]
fn a_server_starts_at_whichever_master_is_in_charge() {
    let mut bench = two();
    let (id, _) = bench.call();
    bench.answer(id, Err(gone()));
    bench.tick(50 * MILLI);
    bench.find("master2:1", TERM);
    assert_eq!(asked(&mut bench), ["Join master1:1", "Join master2:1"]);
}

#[test]
fn a_master_that_is_silent_is_left_for_one_that_says_that_it_is_in_charge() {
    let mut bench = joined();
    bench.pass(1_200 * MILLI);
    let beat = bench.call();
    assert_eq!(bench.searches.len(), 2, "MS1");
    bench.find("master2:1", NEXT);
    assert_eq!(asked(&mut bench).last().map(String::as_str), Some("Join master2:1"));
    bench.taken_in(NEXT);
    // What the old one says now is nobody's.
    let rejoin = HeartbeatAnswer { term: TERM, rejoin: true, ..HeartbeatAnswer::default() };
    bench.answer(beat.0, Ok(Response::Heartbeat(rejoin.into())));
    bench.beat(Ok(HeartbeatAnswer { term: NEXT, ..HeartbeatAnswer::default() }));
    let later = asked(&mut bench);
    assert!(later.iter().all(|it| it.ends_with("master2:1") && !it.starts_with("Join")), "MS2");
}

#[test]
fn a_master_that_is_only_slow_keeps_its_server() {
    let mut bench = joined();
    bench.pass(700 * MILLI);
    for _ in 0..3 {
        bench.find("master1:1", TERM);
        bench.pass(50 * MILLI);
    }
    assert!(asked(&mut bench).iter().all(|it| it == "Heartbeat master1:1"), "MS1");
}

#[test]
fn the_next_master_hears_at_once_of_the_leases_that_are_held() {
    let mut bench = Bench::primary();
    bench.masters_asked.clear();
    let hint = Some(Address::new("master2:1"));
    bench.beat(Err(Failure::not_primary_master("a shadow", hint)));
    let inventory = bench.taken_in(NEXT);
    assert_eq!(
        inventory.leases.iter().map(|held| held.lease).collect::<Vec<_>>(),
        [lease()],
        "R22"
    );
    assert_eq!(asked(&mut bench)[1..], ["Join master2:1", "Inventory master2:1"]);
}

#[test]
fn masters_are_asked_who_is_in_charge_no_faster_than_a_few_times_a_second() {
    let mut bench = joined();
    bench.beat(Err(gone()));
    let mut rounds = 0;
    for _ in 0..100 {
        rounds += usize::from(!bench.searches.is_empty());
        bench.find("nobody", TERM);
        bench.pass(50 * MILLI);
    }
    assert!((15..=55).contains(&rounds), "{rounds} rounds in five seconds");
    assert_eq!(asked(&mut bench), ["Heartbeat master1:1"], "nothing else is asked of anybody");
}
