//! Producers of one stream: they send bundles ahead of their answers, are killed and opened anew,
//! and now and then two run under one name, of which the older is a zombie (R38, R39).

use super::stream_file::{BundleEnd, BundleIndex, SentBundle, StreamFile, producer_id};
use crate::operations::{ClientOp, OpOutput, OpResult, OpTicket, path};
use crate::simulation::{Simulation, Workload, told};
use bytes::Bytes;
use cairn_client_core::{OpenedProducer, ProducerKey};
use cairn_env_sim::WorldTime;
use cairn_format::encode_record;
use cairn_protocol::{ErrorCode, Outcome};
use cairn_types::{Content, Epoch};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

/// Of a thousand turns, in how many its process is killed.
const KILLED_PERMILLE: u64 = 12;
/// Of a thousand turns in which nothing is on its way, in how many it is closed.
const CLOSED_PERMILLE: u64 = 40;
/// The longest pause between two turns, in a run of a minute or less.
const PAUSE_MS: u64 = 600;
/// The longest time from one life to the next.
const AWAY_MS: u64 = 4_000;
/// Openings that may fail in a row after the faults, and for how long they do at least: a master
/// that had no room for its log looks each second whether it has some.
const FAILURES_MAX: u32 = 4;
const FAILS_FOR: Duration = Duration::from_secs(3);

/// What its process has.
#[derive(Debug)]
enum ProducerLife {
    /// Nothing, or an opening that has failed.
    Away,
    /// The stream is made, or the producer opened.
    Starting,
    Open {
        key: ProducerKey,
        epoch: Epoch,
        next: u64,
    },
    /// One of its bundles has failed: it takes no more, and is opened anew.
    Failed,
    /// It ends itself.
    Ending,
}

/// One producer's process.
pub(crate) struct StreamProducer {
    client: usize,
    name: String,
    file: Rc<RefCell<StreamFile>>,
    window: usize,
    /// The longest pause between two turns.
    pause_ms: u64,
    life: ProducerLife,
    under_way: BTreeMap<OpTicket, BundleIndex>,
    /// How many openings have failed in a row after the faults, and since when.
    failures: Option<(u32, WorldTime)>,
    over: bool,
}

impl StreamProducer {
    /// In a run of so many seconds: a longer one has no more bundles than one of a minute, for
    /// what is done with all of them at once would take it hours.
    pub(crate) fn new(
        (client, seconds): (usize, u64),
        name: &str,
        window: usize,
        file: Rc<RefCell<StreamFile>>,
    ) -> Self {
        let (name, life, under_way) = (name.to_owned(), ProducerLife::Away, BTreeMap::new());
        let pause_ms = PAUSE_MS * seconds.div_ceil(60);
        Self { client, name, file, window, pause_ms, life, under_way, failures: None, over: false }
    }

    fn go_on(&mut self, sim: &mut Simulation) {
        match self.life {
            ProducerLife::Away => self.start_life(sim),
            ProducerLife::Open { key, .. } if sim.closing => {
                if self.under_way.is_empty() {
                    self.end_life(sim, ClientOp::CloseProducer { producer: key });
                }
            }
            ProducerLife::Open { key, epoch, next } => {
                if sim.random().chance(KILLED_PERMILLE) {
                    sim.reach("producer killed");
                    return self.end_life(sim, ClientOp::DropProducer { producer: key });
                }
                if self.under_way.is_empty() && sim.random().chance(CLOSED_PERMILLE) {
                    sim.reach("producer closed");
                    return self.end_life(sim, ClientOp::CloseProducer { producer: key });
                }
                self.send(sim, (key, epoch, next));
                sim.rest(self.pause_ms);
            }
            // What is under way comes to its end.
            ProducerLife::Starting | ProducerLife::Failed | ProducerLife::Ending => {}
        }
    }

    fn start_life(&mut self, sim: &mut Simulation) {
        let (id, stream) = (self.file.borrow().id, self.file.borrow().name.clone());
        // Once all is quiet each name is opened once more: it tells what became of the rest.
        let is_done = sim.closing && self.failures.is_none() && self.resolved();
        if is_done || (sim.closing && id.is_none()) {
            self.over = true;
            return;
        }
        self.life = ProducerLife::Starting;
        let name = self.name.clone();
        let op = match id {
            None => {
                let content = Content::Records;
                // What is said, as often as it is not.
                let said = *sim.random().pick(&[None, None, Some(1), Some(3)]).expect("some");
                ClientOp::CreateStream { path: path(&stream), content, commit_replicas: said }
            }
            Some(file) => ClientOp::OpenProducer { file, name },
        };
        sim.ask(self.client, op);
    }

    /// Whether nobody waits for what became of any of its bundles.
    fn resolved(&self) -> bool {
        !self.file.borrow().is_unknown(&self.name)
    }

    fn end_life(&mut self, sim: &mut Simulation, by: ClientOp) {
        self.life = ProducerLife::Ending;
        sim.ask(self.client, by);
    }

    /// Bundles until as many are on their way as it may have.
    fn send(&mut self, sim: &mut Simulation, (key, epoch, mut next): (ProducerKey, Epoch, u64)) {
        while self.under_way.len() < self.window {
            let count = 1 + sim.random().below(4);
            let room = sim.cell_config.append_size_max() / count;
            let (first, last) = (next, next + count - 1);
            let mut framed = Vec::new();
            for number in first..=last {
                let size_max = if sim.random().chance(100) { room / 2 } else { 60 };
                let size = 1 + sim.random().below(size_max.min(room / 2));
                let payload: Vec<u8> = (0..size).map(|_| sim.random().next_u64() as u8).collect();
                encode_record(producer_id(&self.name), number, &payload, &mut framed);
            }
            let bytes = Bytes::from(framed);
            if bytes.len() as u64 > sim.cell_config.append_size_max() {
                continue;
            }
            let cursor = format!("{} has sent {last} in {}", self.name, epoch.get());
            let cursor = sim.random().chance(400).then(|| Bytes::from(cursor));
            let (sync, ended) = (sim.random().chance(100), BundleEnd::Unknown);
            let sent = SentBundle {
                epoch,
                first,
                last,
                bytes: bytes.clone(),
                cursor: cursor.clone(),
                sync,
                ended,
            };
            let index = self.file.borrow_mut().send(&self.name, sent);
            let op = ClientOp::SendBundle {
                producer: key,
                first,
                count,
                bytes,
                cursor,
                sync,
                replaces: None,
            };
            let ticket = sim.ask(self.client, op);
            self.under_way.insert(ticket, index);
            next = last + 1;
        }
        self.life = ProducerLife::Open { key, epoch, next };
    }

    fn started(&mut self, sim: &mut Simulation, result: OpResult) {
        self.life = ProducerLife::Away;
        match result {
            Ok(OpOutput::Entry(entry)) => self.file.borrow_mut().id = Some(entry.id),
            Ok(OpOutput::Producer(opened)) => return self.opened(sim, &opened),
            Ok(other) => panic!("a producer starts, and comes to {other:?}"),
            Err(failure) if sim.closing => {
                let (before, since) = self.failures.unwrap_or((0, sim.now()));
                self.failures = Some((before + 1, since));
                if before + 1 >= FAILURES_MAX && sim.now() >= since.after(FAILS_FOR) {
                    self.over = true;
                    let what = format!("producer {} cannot be opened", self.name);
                    return sim.fail("it_heals", format!("{what}: {}", told(&failure)));
                }
            }
            Err(_) => {}
        }
        sim.rest(PAUSE_MS);
    }

    fn opened(&mut self, sim: &mut Simulation, opened: &OpenedProducer) {
        self.failures = None;
        if let Err(message) = self.file.borrow_mut().opened(sim, &self.name, opened) {
            return sim.fail("exactly_once", message);
        }
        let OpenedProducer { producer: key, epoch, number, .. } = *opened;
        self.life = ProducerLife::Open { key, epoch, next: number.get() + 1 };
        self.go_on(sim);
    }

    fn bundle_ended(&mut self, sim: &mut Simulation, index: BundleIndex, result: &OpResult) {
        let bundle = (self.name.as_str(), index);
        let judged = match result {
            Ok(OpOutput::Committed(offset)) => {
                self.file.borrow_mut().committed(sim, bundle, *offset)
            }
            Ok(other) => panic!("a bundle is sent, and comes to {other:?}"),
            Err(failure) => self.file.borrow_mut().failed(sim, bundle, failure),
        };
        if let Err(message) = judged {
            return sim.fail("exactly_once", message);
        }
        if let Err(failure) = result {
            sim.reach(match (failure.code, failure.outcome) {
                (ErrorCode::ProducerFenced, _) => "producer told that it is fenced",
                (_, Outcome::Unknown) => "bundle ended as unknown",
                _ => "bundle ended as not done",
            });
            if let ProducerLife::Open { .. } = self.life {
                self.life = ProducerLife::Failed;
            }
        }
        if let (ProducerLife::Failed, true) = (&self.life, self.under_way.is_empty()) {
            self.life = ProducerLife::Away;
            sim.rest(AWAY_MS);
        }
    }
}

impl Workload for StreamProducer {
    fn start(&mut self, sim: &mut Simulation) {
        sim.rest(500);
    }

    fn ended(&mut self, sim: &mut Simulation, ticket: OpTicket, result: OpResult) {
        if let Some(index) = self.under_way.remove(&ticket) {
            self.bundle_ended(sim, index, &result);
            if sim.closing && self.under_way.is_empty() {
                self.go_on(sim);
            }
            return;
        }
        match self.life {
            ProducerLife::Starting => self.started(sim, result),
            ProducerLife::Ending => {
                // Whatever came of that: an epoch that is not closed is over some time later.
                self.life = ProducerLife::Away;
                sim.rest(AWAY_MS);
            }
            _ => panic!("{ticket:?} is nothing that {} waits for", self.name),
        }
    }

    fn woken(&mut self, sim: &mut Simulation) {
        if !self.over {
            self.go_on(sim);
        }
    }

    fn finished(&self) -> bool {
        self.over
    }
}
