//! Snapshots of a directory while clients write to the files in it, and to the copies: each copy is
//! of one instant, the files go on, and no write to one of them is ever seen in another (R32, R34).
//!
//! ```text
//!   slot of a file:   1 ──── 2 ── 3 ───── 4       one writer each, one write after the other
//!                          │ snapshot │
//!                          └─ 2 or 3 ─┘           and with it what the other slots had then
//! ```
//! - SS1: of all slots a copy has what they had at one instant: when its first record was logged.
//!   What was acknowledged before is in it, and what began later is not. Of a write that was under
//!   way then nobody knows: what of it is where is as Table 1 has it.
//! - SS2: a value is seen in the file that it was written to, or in a copy that it got into by a
//!   snapshot, and in no other.

use crate::file_model::{MutationEnd, ReadNote};
use crate::operations::{ClientOp, OpOutput, OpResult, OpTicket, path};
use crate::simulation::{Simulation, Workload};
use bytes::Bytes;
use cairn_env_sim::WorldTime;
use cairn_types::{Content, EntryId};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

const NAME: &str = "snapshots";
const DIRECTORY: &str = "/snapped";
const FILES: usize = 2;
const SLOTS: usize = 4;
/// Copies of one run.
const COPIES_MAX: usize = 5;
/// Snapshots of other workloads' files, for what they then see.
const OTHERS_MAX: u32 = 4;
const OTHERS: [&str; 3] = ["/shared", "/log-1", "/log-2"];
/// Bytes of a write: its number, again and again.
const SIZE: usize = 64;
/// The client that takes snapshots and reads.
const READER: usize = 4;

/// A slot of one file.
type Place = (usize, usize);

/// One write.
#[derive(Clone, Copy, Debug)]
struct SlotValue {
    number: u64,
    began: WorldTime,
    end: MutationEnd,
}

/// A file, and what was written to each slot.
#[derive(Debug, Default)]
struct WrittenBytes {
    id: Option<EntryId>,
    slots: [Vec<SlotValue>; SLOTS],
    busy: [bool; SLOTS],
}

/// What a copy was seen to have.
#[derive(Debug)]
struct TakenSnapshot {
    name: String,
    files: [WrittenBytes; FILES],
}

#[derive(Debug)]
enum Doing {
    MakeDirectory,
    Create(usize),
    Write { of: Option<usize>, place: Place },
    Snapshot { name: String },
    SnapshotOfOther,
    Open { copy: usize, file: usize },
    Read { of: Option<usize>, place: Place, note: ReadNote },
}

/// The clients.
#[derive(Debug, Default)]
pub(crate) struct Snapshots {
    made: bool,
    files: [WrittenBytes; FILES],
    copies: Vec<TakenSnapshot>,
    others: u32,
    count: u64,
    doing: BTreeMap<OpTicket, Doing>,
    /// All is being read for the last time.
    reads_last: bool,
    /// Files of copies that were found, to be read at the very end.
    found: Rc<RefCell<Vec<EntryId>>>,
    over: bool,
}

/// Where a slot is: two in each chunk.
fn offset(sim: &Simulation, slot: usize) -> u64 {
    slot as u64 * (sim.cell_config.chunk_size / 2)
}

fn bytes_of(number: u64) -> Bytes {
    Bytes::from(number.to_le_bytes().repeat(SIZE / 8))
}

/// The number that was read; zero: nothing; none: several, in part.
fn number_in(bytes: &[u8]) -> Option<u64> {
    let mut whole = bytes.to_vec();
    whole.resize(SIZE, 0);
    let mut words = whole.chunks(8).map(|word| u64::from_le_bytes(word.try_into().expect("8")));
    let first = words.next()?;
    words.all(|word| word == first).then_some(first)
}

fn acknowledged_at(value: &SlotValue) -> Option<WorldTime> {
    match value.end {
        MutationEnd::Acknowledged(at) => Some(at),
        MutationEnd::Pending | MutationEnd::Unknown(_) | MutationEnd::NotDone => None,
    }
}

/// Whether a slot may have that number when it is looked at in that time.
fn may_be(values: &[SlotValue], number: u64, (from, until): (WorldTime, WorldTime)) -> bool {
    let before = |value: &SlotValue| acknowledged_at(value).is_some_and(|at| at < from);
    let floor = values.iter().rposition(before);
    match values.iter().position(|value| value.number == number) {
        None => number == 0 && floor.is_none(),
        Some(at) => {
            let late =
                values[at].end != MutationEnd::NotDone && floor.is_none_or(|floor| at >= floor);
            late && values[at].began <= until
        }
    }
}

impl Snapshots {
    pub(crate) fn new(found: Rc<RefCell<Vec<EntryId>>>) -> Self {
        Self { found, ..Self::default() }
    }

    fn written(&mut self, of: Option<usize>, file: usize) -> &mut WrittenBytes {
        match of {
            Some(copy) => &mut self.copies[copy].files[file],
            None => &mut self.files[file],
        }
    }

    fn ask(&mut self, sim: &mut Simulation, client: usize, op: ClientOp, doing: Doing) {
        let ticket = sim.ask(client, op);
        self.doing.insert(ticket, doing);
    }

    fn go_on(&mut self, sim: &mut Simulation) {
        if !self.made {
            if self.doing.is_empty() && !sim.closing {
                let op = ClientOp::MakeDirectory { path: path(DIRECTORY) };
                self.ask(sim, READER, op, Doing::MakeDirectory);
            }
            self.over |= sim.closing && self.doing.is_empty();
            return;
        }
        if sim.closing {
            return self.read_last(sim);
        }
        match sim.random().below(10) {
            0 if self.copies.len() < COPIES_MAX && sim.random().chance(60) => self.take(sim),
            1 if self.others < OTHERS_MAX && sim.random().chance(60) => self.take_other(sim),
            2..=4 => self.read(sim),
            _ => self.write(sim),
        }
    }

    fn take(&mut self, sim: &mut Simulation) {
        if self.doing.values().any(|doing| matches!(doing, Doing::Snapshot { .. })) {
            return;
        }
        self.count += 1;
        let name = format!("{DIRECTORY}-{}", self.count);
        let op = ClientOp::Snapshot { from: path(DIRECTORY), to: path(&name) };
        self.ask(sim, READER, op, Doing::Snapshot { name });
    }

    fn take_other(&mut self, sim: &mut Simulation) {
        self.others += 1;
        let from = *sim.random().pick(&OTHERS).expect("some");
        let to = path(&format!("{from}-{}", self.others));
        let op = ClientOp::Snapshot { from: path(from), to };
        self.ask(sim, READER, op, Doing::SnapshotOfOther);
    }

    /// A slot of the files, or of one of the copies.
    fn draw(&self, sim: &mut Simulation) -> (Option<usize>, Place) {
        let all = self.copies.len() as u64;
        let of = (all > 0 && sim.random().chance(500))
            .then(|| usize::try_from(sim.random().below(all)).expect("few"));
        let file = usize::try_from(sim.random().below(FILES as u64)).expect("few");
        let slot = usize::try_from(sim.random().below(SLOTS as u64)).expect("few");
        (of, (file, slot))
    }

    fn write(&mut self, sim: &mut Simulation) {
        let (of, place) = self.draw(sim);
        let of = of.filter(|_| sim.random().chance(300));
        let (file, slot) = place;
        self.count += 1;
        let (number, began) = (self.count, sim.now());
        let written = self.written(of, file);
        let Some(id) = written.id.filter(|_| !written.busy[slot]) else { return };
        written.busy[slot] = true;
        written.slots[slot].push(SlotValue { number, began, end: MutationEnd::Pending });
        let (offset, bytes) = (offset(sim, slot), bytes_of(number));
        let op = ClientOp::Write { file: id, offset, bytes, sync: false };
        self.ask(sim, slot, op, Doing::Write { of, place });
    }

    fn read(&mut self, sim: &mut Simulation) {
        let (of, place) = self.draw(sim);
        self.read_place(sim, of, place);
    }

    /// Reads a slot, or opens the file first.
    fn read_place(&mut self, sim: &mut Simulation, of: Option<usize>, place: Place) {
        let (file, slot) = place;
        let (id, offset) = (self.written(of, file).id, offset(sim, slot));
        let Some(id) = id else {
            let Some(copy) = of else { return };
            let path = path(&format!("{}/{file}", self.copies[copy].name));
            return self.ask(sim, READER, ClientOp::Open { path }, Doing::Open { copy, file });
        };
        let (size, from) = (SIZE as u64, sim.now());
        let note = ReadNote { client: READER, offset, size, from, until: WorldTime(0) };
        let op = ClientOp::Read { file: id, offset, size, fresh: true };
        self.ask(sim, READER, op, Doing::Read { of, place, note });
    }

    /// Once nothing breaks any more all copies are read once more.
    fn read_last(&mut self, sim: &mut Simulation) {
        if !self.doing.is_empty() {
            return;
        }
        self.over = self.reads_last;
        if self.over {
            return;
        }
        let copies = (0..self.copies.len()).map(Some);
        let all = copies.chain([None]).flat_map(|of| (0..FILES).map(move |file| (of, file)));
        let all: Vec<(Option<usize>, usize)> = all.collect();
        let is_open = |(of, file): &(Option<usize>, usize)| match of {
            Some(copy) => self.copies[*copy].files[*file].id.is_some(),
            None => true,
        };
        let closed: Vec<_> = all.iter().copied().filter(|it| !is_open(it)).collect();
        self.reads_last = closed.is_empty();
        // Together: where all replicas of a chunk rot, each read takes its whole deadline.
        let slots = if self.reads_last { 0..SLOTS } else { 0..1 };
        for (of, file) in if self.reads_last { all } else { closed } {
            for slot in slots.clone() {
                self.read_place(sim, of, (file, slot));
            }
        }
    }

    fn judge(
        &mut self,
        sim: &mut Simulation,
        (of, place): (Option<usize>, Place),
        note: ReadNote,
        bytes: &[u8],
    ) {
        let (file, slot) = place;
        let id = self.written(of, file).id.expect("it was read");
        let excused = sim.excused(id, note.offset, note.size)
            || sim.read_with_a_warning(note)
            || sim.read_by_stale_location(note);
        if excused {
            return sim.reach("read of a snapshot that faults excuse");
        }
        let Some(number) = number_in(bytes) else {
            let own = of.map(|copy| self.copies[copy].files[file].slots[slot].iter());
            let mut all = self.files[file].slots[slot].iter().chain(own.into_iter().flatten());
            if all.all(|value| acknowledged_at(value).is_some()) {
                sim.fail(NAME, format!("slot {place:?} holds parts of several writes"));
            }
            return;
        };
        let verdict = match of {
            None => self.judge_source(place, number, note),
            Some(copy) => {
                let cut = sim.observer.borrow().snapshot_cut(id).expect("it was copied");
                self.judge_copy((copy, place), number, (note, cut))
            }
        };
        if let Err(why) = verdict {
            let name = of.map_or(DIRECTORY, |copy| self.copies[copy].name.as_str());
            let at = sim.describe(id, note.offset);
            sim.fail(NAME, format!("{name}/{file}, slot {slot} ({at}): {why}"));
        }
        if of.is_some() {
            sim.reach("snapshot read");
        }
    }

    fn judge_source(&self, (file, slot): Place, number: u64, note: ReadNote) -> Result<(), String> {
        let values = &self.files[file].slots[slot];
        if may_be(values, number, (note.from, note.until)) {
            return Ok(());
        }
        Err(format!("{number} is read; written were {values:?}"))
    }

    fn judge_copy(
        &self,
        (copy, (file, slot)): (usize, Place),
        number: u64,
        (note, cut): (ReadNote, WorldTime),
    ) -> Result<(), String> {
        let source = &self.files[file].slots[slot];
        let own = &self.copies[copy].files[file].slots[slot];
        if own.iter().any(|value| value.number == number) {
            // SS2: written to the copy itself.
            return match may_be(own, number, (note.from, note.until)) {
                true => Ok(()),
                false => Err(format!("{number} is read; written to the copy were {own:?}")),
            };
        }
        if own.iter().any(|value| acknowledged_at(value).is_some_and(|end| end < note.from)) {
            return Err(format!("{number} is read; written to the copy were {own:?}"));
        }
        // SS1
        if may_be(source, number, (cut, cut)) {
            return Ok(());
        }
        Err(format!("{number} is in a snapshot of {cut:?}; written were {source:?}"))
    }

    fn took(&mut self, sim: &mut Simulation, name: String) {
        sim.reach("snapshot taken");
        self.copies.push(TakenSnapshot { name, files: Default::default() });
    }
}

impl Workload for Snapshots {
    fn start(&mut self, sim: &mut Simulation) {
        // A writer for each slot, and the reader, at the same time.
        (0..=SLOTS).for_each(|_| sim.rest(500));
    }

    fn ended(&mut self, sim: &mut Simulation, ticket: OpTicket, result: OpResult) {
        let doing = self.doing.remove(&ticket).expect("an operation of its own");
        let how = sim.mutation_end(&result);
        match (doing, result) {
            (Doing::MakeDirectory, _) => {
                // It may be there: then this is answered by an entry.
                let create = ClientOp::Create {
                    path: path(&format!("{DIRECTORY}/0")),
                    content: Content::Bytes,
                    or_open: true,
                };
                return self.ask(sim, READER, create, Doing::Create(0));
            }
            (Doing::Create(at), Ok(OpOutput::Entry(entry))) => {
                self.files[at].id = Some(entry.id);
                self.made = at + 1 == FILES;
                if !self.made {
                    let create = ClientOp::Create {
                        path: path(&format!("{DIRECTORY}/{}", at + 1)),
                        content: Content::Bytes,
                        or_open: true,
                    };
                    return self.ask(sim, READER, create, Doing::Create(at + 1));
                }
            }
            (Doing::Write { of, place: (file, slot) }, _) => {
                let written = self.written(of, file);
                written.busy[slot] = false;
                written.slots[slot].last_mut().expect("it was written").end = how;
            }
            (Doing::Snapshot { name }, Ok(_)) => self.took(sim, name),
            (Doing::SnapshotOfOther, Ok(OpOutput::Entry(entry))) => {
                self.found.borrow_mut().push(entry.id);
                sim.reach("snapshot of a busy file taken");
            }
            (Doing::Open { copy, file }, Ok(OpOutput::Entry(entry))) => {
                self.found.borrow_mut().push(entry.id);
                self.copies[copy].files[file].id = Some(entry.id);
            }
            (Doing::Read { of, place, note }, Ok(OpOutput::Bytes(bytes, _))) => {
                let note = ReadNote { until: sim.now(), ..note };
                self.judge(sim, (of, place), note, &bytes);
            }
            _ => {}
        }
        sim.rest(300);
    }

    fn woken(&mut self, sim: &mut Simulation) {
        let before = self.doing.len();
        self.go_on(sim);
        // Each goes on, though it found nothing to do.
        if self.doing.len() == before && !self.over {
            sim.rest(400);
        }
    }

    fn finished(&self) -> bool {
        self.over
    }
}
