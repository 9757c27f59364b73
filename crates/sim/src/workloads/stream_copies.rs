//! One client takes snapshots of a stream while its producers write it, compares a copy with the
//! stream, and has it purged, while everything breaks (R32, R42).
//!
//! ```text
//!   snapshot ─► open ─► a piece of it ─► the same of the stream ─► deletion ─► once more: it goes
//! ```
//! - SO1: what a copy has at an offset, the stream has there.
//! - SO2: a copy that goes takes nothing from the stream; the books of streams judge that.

use super::stream_file::StreamFile;
use crate::operations::{ClientOp, OpOutput, OpResult, OpTicket, path};
use crate::simulation::{Simulation, Workload};
use bytes::Bytes;
use cairn_types::EntryId;
use std::cell::RefCell;
use std::rc::Rc;

/// Copies of one run.
const COPIES_MAX: u32 = 12;
/// The longest time from one to the next.
const PAUSE_MS: u64 = 4_000;
/// Bytes that are compared.
const SIZE: u64 = 4_000;

/// What is asked for next, or was.
#[derive(Clone, Debug)]
enum CopyStep {
    Snapshot,
    Open,
    ReadCopy { copy: EntryId, offset: u64 },
    ReadSource { offset: u64, copied: Bytes },
    Delete,
    Purge { hidden: String },
}

/// The client.
pub(crate) struct StreamCopies {
    client: usize,
    file: Rc<RefCell<StreamFile>>,
    /// Copies taken so far; the last one's name has that number.
    count: u32,
    next: CopyStep,
    is_under_way: bool,
    over: bool,
}

impl StreamCopies {
    pub(crate) fn new(client: usize, file: Rc<RefCell<StreamFile>>) -> Self {
        Self { client, file, count: 0, next: CopyStep::Snapshot, is_under_way: false, over: false }
    }

    fn copy_name(&self) -> String {
        format!("{}-copy-{}", self.file.borrow().name, self.count)
    }

    fn ask(&mut self, sim: &mut Simulation) {
        let read = |file, offset| ClientOp::Read { file, offset, size: SIZE, fresh: false };
        let source = self.file.borrow().id;
        let op = match (&self.next, source) {
            (CopyStep::Snapshot, Some(_)) if self.count < COPIES_MAX && !sim.closing => {
                self.count += 1;
                let from = path(&self.file.borrow().name);
                ClientOp::Snapshot { from, to: path(&self.copy_name()) }
            }
            // Nobody has made the stream yet.
            (CopyStep::Snapshot, None) if !sim.closing => return sim.rest(PAUSE_MS),
            (CopyStep::Snapshot, _) => {
                self.over = true;
                return;
            }
            (CopyStep::Open, _) => ClientOp::Open { path: path(&self.copy_name()) },
            (CopyStep::ReadCopy { copy, offset }, _) => read(*copy, *offset),
            (CopyStep::ReadSource { offset, .. }, source) => {
                read(source.expect("it has a copy"), *offset)
            }
            (CopyStep::Delete, _) => {
                ClientOp::Delete { path: path(&self.copy_name()), recursive: true }
            }
            (CopyStep::Purge { hidden }, _) => {
                ClientOp::Delete { path: path(hidden), recursive: true }
            }
        };
        self.is_under_way = true;
        sim.ask(self.client, op);
    }

    /// What comes after this has ended so.
    fn behind(&self, sim: &mut Simulation, step: CopyStep, result: OpResult) -> CopyStep {
        match (step, result) {
            (CopyStep::Snapshot, Ok(_)) => {
                sim.reach("snapshot of a stream taken");
                CopyStep::Open
            }
            (CopyStep::Open, Ok(OpOutput::Entry(entry))) => {
                let offset = sim.random().below(entry.length.max(1));
                CopyStep::ReadCopy { copy: entry.id, offset }
            }
            (CopyStep::ReadCopy { offset, .. }, Ok(OpOutput::Bytes(copied, _))) => {
                CopyStep::ReadSource { offset, copied }
            }
            (CopyStep::ReadSource { offset, copied }, Ok(OpOutput::Bytes(bytes, _))) => {
                sim.reach("copy of a stream compared");
                if bytes.len() < copied.len() || bytes[..copied.len()] != copied[..] {
                    let (copy, at) = (self.copy_name(), format!("{offset}+{}", copied.len()));
                    let message = format!("{copy} has other bytes at {at} than its stream (SO1)");
                    sim.fail("stream_copies", message);
                }
                CopyStep::Delete
            }
            (CopyStep::Delete, Ok(OpOutput::Hidden(hidden))) => CopyStep::Purge { hidden },
            (CopyStep::Purge { .. }, result) => {
                if result.is_ok() {
                    sim.reach("copy of a stream purged");
                }
                CopyStep::Snapshot
            }
            // It may have been taken all the same.
            (
                CopyStep::Snapshot
                | CopyStep::Open
                | CopyStep::ReadCopy { .. }
                | CopyStep::ReadSource { .. },
                _,
            ) => CopyStep::Delete,
            // It is not there, or goes when its time is over.
            (CopyStep::Delete, _) => CopyStep::Snapshot,
        }
    }
}

impl Workload for StreamCopies {
    fn start(&mut self, sim: &mut Simulation) {
        sim.rest(PAUSE_MS);
    }

    fn ended(&mut self, sim: &mut Simulation, _: OpTicket, result: OpResult) {
        self.is_under_way = false;
        let step = std::mem::replace(&mut self.next, CopyStep::Snapshot);
        self.next = self.behind(sim, step, result);
        sim.rest(PAUSE_MS);
    }

    fn woken(&mut self, sim: &mut Simulation) {
        if !self.is_under_way && !self.over {
            self.ask(sim);
        }
    }

    fn finished(&self) -> bool {
        self.over
    }
}
