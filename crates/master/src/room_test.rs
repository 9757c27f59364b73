//! D4: a state that turns out to be damaged is no ground for an answer.

use crate::{Master, MasterConfig};
use cairn_consensus::Consensus;
use cairn_env::{Caller, Completion, Effect, Event, Now, Room};
use cairn_master_core::record::{AddFile, FoundCell};
use cairn_master_core::state::ROOT;
use cairn_master_core::{LogDone, LogJob, MasterCore, Record, State};
use cairn_pagetree::FileId;
use cairn_protocol::{Hello, Request, Role, Stat};
use cairn_types::{
    CellId, CellPath, ClusterConfig, EntryId, Incarnation, LogIndex, ServerId, Term, WallTime,
};
use std::sync::Arc;

const CELL: CellId = CellId::new(5);

/// A state with the file `/f`, opened from an image in which the byte at `altered` is another one.
fn opened(altered: Option<usize>) -> State {
    let mut state = State::default();
    let (time, term) = (WallTime::default(), Term::new(1));
    let found = FoundCell { time, cell: CELL, config: ClusterConfig::default() };
    let (name, id) = ("f".to_owned(), EntryId::of(term, 1));
    let add = AddFile { parent: ROOT, name, id, ..Default::default() };
    for (index, record) in (1..).zip([Record::from(found), Record::from(add)]) {
        state.apply(LogIndex::new(index), term, &record);
    }
    let mut bytes = Vec::new();
    let root = state.write_image(FileId::fresh(), &mut bytes).expect("memory").root;
    if let Some(at) = altered {
        bytes[at] ^= 1;
    }
    State::open_image(Arc::new(bytes), FileId::fresh(), &root).expect("its roots are whole")
}

fn master(state: State) -> Master {
    let config = MasterConfig::standard(ClusterConfig::default(), 1);
    master_with(state, config, LogIndex::default())
}

fn master_with(state: State, config: MasterConfig, last_checkpoint: LogIndex) -> Master {
    let consensus = Consensus::start((state.applied(), state.applied_term())).expect("starts");
    let hello = Hello::new(CELL, Role::Master, ServerId::new(1), Incarnation::new(1));
    let core = MasterCore::new(state, consensus.term(), 1);
    Master::new(core, consensus, config, hello, last_checkpoint)
}

fn handle(master: &mut Master, event: Event<(), LogDone>) -> Vec<Effect<LogJob>> {
    let mut effects = Vec::new();
    master.handle(Now::default(), event, &mut effects);
    effects
}

/// Starts the master and says that what it appends is durable, until it appends no more.
fn start(master: &mut Master) {
    let mut events = vec![Event::Started];
    while let Some(event) = events.pop() {
        for effect in handle(master, event) {
            if let Effect::Disk { id, job: LogJob::Append(_), .. } = effect {
                let result = Completion::Disk(Ok(LogDone::Appended));
                events.push(Event::Completed { id, result });
            }
        }
    }
}

fn stat() -> Event<(), LogDone> {
    let path = CellPath::parse("/f").expect("a path");
    let request = Request::Stat(Stat { path });
    Event::Request { from: Caller::default(), request }
}

#[test]
fn what_cannot_be_read_is_not_answered_as_if_it_were_not_there() {
    let mut sound = master(opened(None));
    start(&mut sound);
    assert!(matches!(handle(&mut sound, stat()).as_slice(), [Effect::Reply { .. }]));

    // The first page is the leaf that has the name.
    let mut damaged = master(opened(Some(0)));
    start(&mut damaged);
    let effects = handle(&mut damaged, stat());
    let [Effect::Disk { id, job: LogJob::MarkDamaged(_), .. }] = effects.as_slice() else {
        panic!("{effects:?}")
    };
    assert!(handle(&mut damaged, stat()).is_empty(), "nothing is answered any more");
    let result = Completion::Disk(Ok(LogDone::MarkedDamaged));
    let effects = handle(&mut damaged, Event::Completed { id: *id, result });
    let [Effect::Halt(line)] = effects.as_slice() else { panic!("{effects:?}") };
    assert!(line.contains("checksum"), "{line}");
    assert!(handle(&mut damaged, stat()).is_empty(), "it has stopped");
}

#[test]
fn a_checkpoint_that_is_never_due_is_never_made() {
    let standard = MasterConfig::standard(ClusterConfig::default(), 1);
    let config = MasterConfig { checkpoint_every_records: u64::MAX, ..standard };
    let mut master = master_with(opened(None), config, LogIndex::new(2));
    start(&mut master);
    assert!(matches!(handle(&mut master, stat()).as_slice(), [Effect::Reply { .. }]));
}
