//! What a server tells a master of the master that it served before (R1, R3).

mod bench;

use bench::{Bench, TERM};
use cairn_env::EffectId;
use cairn_protocol::{
    HeartbeatAnswer, InventoryAnswer, Join, JoinAnswer, Request, Response, ServedReign,
};
use cairn_types::{CellConfig, CellId, LogIndex, ReignId, Term};
use std::time::Duration;

impl Bench {
    fn joined_to(&mut self, term: Term, reign: u64) -> Join {
        let (id, Request::Join(join)) = self.call() else { panic!("it joins") };
        let config = Box::new(CellConfig::tiny());
        let (cell, reign) = (CellId::new(5), ReignId::new(reign));
        let answer = JoinAnswer { term, cell, config, reign, ..JoinAnswer::default() };
        self.answer(id, Ok(Response::Join(answer)));
        let (id, _) = self.call();
        self.answer(id, Ok(Response::Inventory(InventoryAnswer::default())));
        *join
    }

    fn told(&mut self, id: EffectId, answer: HeartbeatAnswer) {
        self.answer(id, Ok(Response::Heartbeat(answer.into())));
    }
}

#[test]
fn how_far_a_masters_log_was_is_told_to_the_next_one_and_begins_anew_with_it() {
    let mut bench = Bench::alone();
    assert_eq!(bench.joined_to(TERM, 70).served, ServedReign::default());
    let served = |term, reign, log| ServedReign {
        term,
        reign: ReignId::new(reign),
        log: LogIndex::new(log),
    };
    for (log, known) in [(42, 0), (41, 42), (43, 42)] {
        let (id, beat) = bench.heartbeat();
        assert_eq!(beat.served, served(TERM, 70, known));
        let log = LogIndex::new(log);
        bench.told(id, HeartbeatAnswer { term: TERM, log, ..HeartbeatAnswer::default() });
    }
    let next = Term::new(TERM.get() + 1);
    let (id, _) = bench.heartbeat();
    bench.told(id, HeartbeatAnswer { term: next, rejoin: true, ..HeartbeatAnswer::default() });
    bench.calls.clear();
    bench.tick(Duration::from_secs(1));
    let join = bench.joined_to(next, 71);
    assert_eq!(join.served, served(TERM, 70, 43), "what that one lacks is told");
    assert_eq!(bench.heartbeat().1.served, served(next, 71, 0));
}
