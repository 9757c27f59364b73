//! One client raises and lowers the levels of its directory and of the files in it while everything
//! breaks; what it sees must be explained by what it said, and at the end what it said last holds
//! for every file (design §4).
//!
//! - LC1: a change whose end is unknown may yet count, at any time; all others count where they
//!   stand in the order in which they were asked, as one client asks for one at a time.
//! - LC2: once nothing breaks any more, a change with `apply` has reached each file within
//!   [`PATIENCE_TRIES`] looks.

use crate::operations::{ClientOp, OpOutput, OpResult, OpTicket, path, tell};
use crate::simulation::{Simulation, Workload};
use bytes::Bytes;
use cairn_protocol::Outcome;
use cairn_types::{Content, EntryId};
use std::collections::BTreeSet;

const DIRECTORY: &str = "/levels";
const FILES: usize = 4;
const LEVEL_MAX: u64 = 4;
/// What it says last.
const LAST_LEVEL: u32 = 3;
/// Looks at a file, half a second apart, until it must have what was said last.
const PATIENCE_TRIES: u32 = 60;

/// The levels that a thing may have.
#[derive(Debug, Default)]
struct Levels {
    now: BTreeSet<u32>,
    /// Of changes whose end is unknown (LC1).
    perhaps: BTreeSet<u32>,
}

impl Levels {
    fn set(&mut self, level: u32) {
        self.now = BTreeSet::from([level]);
    }

    fn all(&self) -> BTreeSet<u32> {
        &self.now | &self.perhaps
    }
}

/// A file, and what it may have.
#[derive(Debug, Default)]
struct LeveledFile {
    id: Option<EntryId>,
    levels: Levels,
    /// It says a level itself, so that what its directory says is nothing to it.
    says: bool,
    /// Whether it says one is unknown, and may change at any time.
    says_perhaps: bool,
}

impl LeveledFile {
    fn inherits(&self) -> bool {
        !self.says || self.says_perhaps
    }
}

/// What is asked for.
#[derive(Clone, Copy, Debug)]
enum LevelOp {
    MakeDirectory,
    Create(usize),
    Write(usize),
    /// The directory says a level, for what exists, too, or not.
    SayAbove(u32, bool),
    /// A file says one.
    SayOf(usize, u32),
    /// It says none any more.
    Inherit(usize),
    Look(usize),
}

/// The client.
pub(crate) struct LevelChanges {
    client: usize,
    above: Levels,
    /// It has been said that what exists gets what the directory says.
    applies: bool,
    /// What that may give a file from now on that says nothing itself.
    applied: BTreeSet<u32>,
    files: [LeveledFile; FILES],
    doing: Option<LevelOp>,
    made: bool,
    /// What is left to do at the end.
    last: Vec<LevelOp>,
    closing: bool,
    tries: u32,
    over: bool,
}

fn name(at: usize) -> String {
    format!("{DIRECTORY}/{at}")
}

impl LevelChanges {
    pub(crate) fn new(client: usize) -> Self {
        Self {
            client,
            above: Levels::default(),
            applies: false,
            applied: BTreeSet::new(),
            files: Default::default(),
            doing: None,
            made: false,
            last: Vec::new(),
            closing: false,
            tries: 0,
            over: false,
        }
    }

    fn draw(&self, sim: &mut Simulation) -> LevelOp {
        if !self.made {
            return LevelOp::MakeDirectory;
        }
        let at = usize::try_from(sim.random().below(FILES as u64)).expect("few");
        let level = u32::try_from(1 + sim.random().below(LEVEL_MAX)).expect("few");
        if self.files[at].id.is_none() {
            return LevelOp::Create(at);
        }
        match sim.random().below(10) {
            0 | 1 => LevelOp::SayAbove(level, sim.random().chance(600)),
            2 | 3 => LevelOp::SayOf(at, level),
            4 => LevelOp::Inherit(at),
            5 | 6 => LevelOp::Write(at),
            _ => LevelOp::Look(at),
        }
    }

    /// The last words: everything shall have one level, and is looked at until it does.
    fn begin_to_close(&mut self) {
        self.closing = true;
        if !self.made {
            // Nothing was ever there to say a level of.
            return;
        }
        let there = (0..FILES).filter(|at| self.files[*at].id.is_some());
        let (inherit, look): (Vec<_>, Vec<_>) =
            there.map(|at| (LevelOp::Inherit(at), LevelOp::Look(at))).unzip();
        self.last = [look, vec![LevelOp::SayAbove(LAST_LEVEL, true)], inherit].concat();
    }

    fn ask(&mut self, sim: &mut Simulation, op: LevelOp) {
        self.doing = Some(op);
        let at_file = |at: usize| path(&name(at));
        let say = |path, level, apply| ClientOp::SetPolicy { path, level, apply };
        let asked = match op {
            LevelOp::MakeDirectory => ClientOp::MakeDirectory { path: path(DIRECTORY) },
            LevelOp::Create(at) => {
                ClientOp::Create { path: at_file(at), content: Content::Bytes, or_open: true }
            }
            LevelOp::Write(at) => {
                let file = self.files[at].id.expect("only what is there is written");
                let reach = 3 * sim.cell_config.chunk_size;
                let offset = sim.random().below(reach);
                ClientOp::Write { file, offset, bytes: Bytes::from_static(b"level"), sync: false }
            }
            LevelOp::SayAbove(level, apply) => say(path(DIRECTORY), Some(level), apply),
            LevelOp::SayOf(at, level) => say(at_file(at), Some(level), false),
            LevelOp::Inherit(at) => say(at_file(at), None, false),
            LevelOp::Look(at) => ClientOp::Stat { path: at_file(at) },
        };
        sim.ask(self.client, asked);
    }

    /// What a change that was done, or perhaps was, means for what may be seen.
    fn changed(&mut self, op: LevelOp, done: bool) {
        match op {
            LevelOp::SayAbove(level, apply) => self.said_above(level, apply, done),
            LevelOp::SayOf(at, level) => {
                let file = &mut self.files[at];
                if done {
                    file.levels.set(level);
                    file.says = true;
                } else {
                    file.levels.perhaps.insert(level);
                    file.says_perhaps = true;
                }
            }
            LevelOp::Inherit(at) => {
                let (file, inherited) = (&mut self.files[at], self.above.all());
                if done {
                    file.levels.now = inherited;
                    file.says = false;
                } else {
                    file.levels.perhaps.extend(inherited);
                    file.says_perhaps = true;
                }
            }
            _ => {}
        }
    }

    fn said_above(&mut self, level: u32, apply: bool, done: bool) {
        if done {
            self.above.set(level);
        } else {
            self.above.perhaps.insert(level);
        }
        // One whose making has an unknown end may yet be made, with what is said by then.
        for file in self.files.iter_mut().filter(|file| file.id.is_none()) {
            file.levels.now.extend(self.above.all());
        }
        self.applies |= apply;
        if !self.applies {
            return;
        }
        if done && apply && self.above.perhaps.is_empty() {
            // What was being done is done anew with this alone; some files have what was before.
            for file in self.files.iter_mut().filter(|file| file.inherits()) {
                file.levels.now.extend(&self.applied);
            }
            self.applied.clear();
        }
        self.applied.extend(self.above.all());
    }

    fn looked(&mut self, sim: &mut Simulation, at: usize, level: u32) {
        let file = &mut self.files[at];
        let mut may = file.levels.all();
        if file.inherits() {
            may.extend(&self.applied);
        }
        if !may.contains(&level) {
            let message = format!("{}: level {level}, and it may have {may:?}", name(at));
            sim.fail("levels_are_as_said", message);
        }
        file.levels.set(level);
        let is_sure = file.levels.perhaps.is_empty() && !file.inherits();
        sim.reach(if is_sure { "a file's own level looked at" } else { "a level looked at" });
    }
}

impl Workload for LevelChanges {
    fn start(&mut self, sim: &mut Simulation) {
        sim.rest(500);
    }

    fn ended(&mut self, sim: &mut Simulation, _: OpTicket, result: OpResult) {
        let op = self.doing.take().expect("one at a time");
        match (&op, &result) {
            (LevelOp::MakeDirectory, Ok(_)) => {
                self.made = true;
                self.above.set(sim.cell_config.replication);
            }
            (LevelOp::MakeDirectory, Err(failure)) => {
                self.made = failure.code == cairn_protocol::ErrorCode::AlreadyExists;
                self.above.set(sim.cell_config.replication);
            }
            (LevelOp::Create(at), Ok(OpOutput::Entry(entry))) => {
                let inherited = self.above.all();
                self.files[*at].id = Some(entry.id);
                self.files[*at].levels.now.extend(inherited);
                self.looked(sim, *at, entry.replication);
            }
            (LevelOp::Create(at), Err(_)) => {
                let inherited = self.above.all();
                self.files[*at].levels.now.extend(inherited);
            }
            (LevelOp::Look(at), Ok(OpOutput::Entry(entry))) => {
                self.looked(sim, *at, entry.replication);
                if self.closing && entry.replication != LAST_LEVEL {
                    self.not_yet(sim, op, &tell(&result));
                }
            }
            (op, Ok(_)) => {
                self.changed(*op, true);
                sim.reach("a level said");
            }
            (op, Err(failure)) => {
                if failure.outcome == Outcome::Unknown {
                    self.changed(*op, false);
                }
                if self.closing {
                    self.not_yet(sim, *op, &tell(&result));
                }
            }
        }
        sim.rest(500);
    }

    fn woken(&mut self, sim: &mut Simulation) {
        if sim.closing && !self.closing {
            self.begin_to_close();
        }
        let next = if self.closing { self.last.pop() } else { Some(self.draw(sim)) };
        match next {
            Some(op) => self.ask(sim, op),
            None => self.over = true,
        }
    }

    fn finished(&self) -> bool {
        self.over
    }
}

impl LevelChanges {
    /// It is asked once more, if that is not too often (LC2).
    fn not_yet(&mut self, sim: &mut Simulation, op: LevelOp, told: &str) {
        self.tries += 1;
        if self.tries > PATIENCE_TRIES {
            sim.fail("levels_are_as_said", format!("at the end {op:?} comes to {told}"));
        }
        if self.tries.is_multiple_of(20) {
            // A change whose end was unknown may have come behind the last words (LC1).
            return self.begin_to_close();
        }
        self.last.push(op);
    }
}
