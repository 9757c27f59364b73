//! D4: a state that turns out to be damaged is no ground for an answer. And what is told of a disk
//! that is slow.

use crate::recovery::TakenFrom;
use crate::{Master, MasterConfig};
use cairn_consensus::{Beginning, Consensus};
use cairn_env::{Caller, Completion, Driver, Effect, EffectId, Event, Now};
use cairn_format::GroupMark;
use cairn_master_core::record::{AddFile, FoundCell};
use cairn_master_core::state::ROOT;
use cairn_master_core::{Checkpointed, LogDone, LogJob, LogResult, Record, State};
use cairn_pagetree::{Backing, FileId};
use cairn_protocol::{
    AskShadow, AskShadowAnswer, Create, ErrorCode, Heartbeat, Hello, Join, Lease, List, Request,
    Response, Role, ShadowWord, Stat, Status, TellShadow,
};
use cairn_types::{
    CellConfig, CellId, CellPath, EntryId, Incarnation, LogIndex, Member, Members, MutationName,
    MutationNumber, ServerId, SessionId, Term, Time, WallTime,
};
use std::sync::Arc;
use std::time::Duration;

const CELL: CellId = CellId::new(5);
/// What the state was opened from.
const PAGE_FILE: u64 = 3;

/// A state with the file `/f`, opened from an image in which the byte at `altered` is another one.
fn opened(altered: Option<usize>) -> State {
    let mut state = State::default();
    let (time, term) = (WallTime::default(), Term::new(1));
    let found = FoundCell { time, cell: CELL, config: CellConfig::default() };
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
    let config = MasterConfig::standard(CellConfig::default(), 1);
    master_with(state, config, LogIndex::default())
}

fn master_with(state: State, config: MasterConfig, last_checkpoint: LogIndex) -> Master {
    let last = (state.applied(), state.applied_term());
    let me = ServerId::new(1);
    let beginning = Beginning { me, applied: last, base: last, ..Beginning::default() };
    let consensus = Consensus::start(beginning).expect("starts");
    with_consensus(state, consensus, config, last_checkpoint)
}

/// One of three, of which it hears nothing.
fn shadow(state: State) -> Master {
    let last = (state.applied(), state.applied_term());
    let member = |id| Member { id: ServerId::new(id), ..Member::default() };
    let members = Members { all: (1..=3).map(member).collect(), ..Members::default() };
    let mark = Some(GroupMark { term: Term::new(1), members, ..GroupMark::default() });
    let me = ServerId::new(1);
    let beginning = Beginning { me, mark, applied: last, base: last, ..Beginning::default() };
    let consensus = Consensus::start(beginning).expect("starts");
    let config = MasterConfig::standard(CellConfig::default(), 1);
    with_consensus(state, consensus, config, LogIndex::default())
}

fn with_consensus(
    state: State,
    consensus: Consensus,
    config: MasterConfig,
    last_checkpoint: LogIndex,
) -> Master {
    let hello = Hello::new(CELL, Role::Master, ServerId::new(1), Incarnation::new(1));
    let from = TakenFrom { index: last_checkpoint, page_file: Some(PAGE_FILE) };
    Master::new(state, consensus, config, hello, from)
}

fn handle(master: &mut Master, event: Event<(), LogResult>) -> Vec<Effect<LogJob>> {
    let mut effects = Vec::new();
    master.handle(Now::default(), event, &mut effects);
    master.end_of_batch(Now::default(), &mut effects);
    effects
}

/// Starts the master and says that what it appends is durable, until it appends no more; gives
/// the checkpoint that it wants then.
fn start(master: &mut Master) -> Option<(EffectId, Box<State>)> {
    start_where(master, true)
}

/// The same, where the disk has room for more after each, or has none.
fn start_where(master: &mut Master, has_room: bool) -> Option<(EffectId, Box<State>)> {
    let (mut events, mut checkpoint) = (vec![Event::Started], None);
    while let Some(event) = events.pop() {
        for effect in handle(master, event) {
            match effect {
                Effect::Disk { id, job: LogJob::Append(_), .. } => {
                    events.push(completed(id, LogDone::Appended { has_room }));
                }
                Effect::Disk { id, job: LogJob::Checkpoint(state), .. } => {
                    checkpoint = Some((id, state));
                }
                _ => {}
            }
        }
    }
    checkpoint
}

fn completed(id: EffectId, done: LogDone) -> Event<(), LogResult> {
    Event::Completed { id, result: Completion::Disk(Ok(done)) }
}

/// What is asked of the disk, and where damage is said to be.
fn marking(effects: &[Effect<LogJob>]) -> (EffectId, u64) {
    match effects {
        [Effect::Disk { id, job: LogJob::MarkDamaged { page_file, .. }, .. }] => (*id, *page_file),
        other => panic!("{other:?}"),
    }
}

fn stat() -> Event<(), LogResult> {
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
    let (id, page_file) = marking(&handle(&mut damaged, stat()));
    assert_eq!(page_file, PAGE_FILE);
    assert!(handle(&mut damaged, stat()).is_empty(), "nothing is answered any more");
    let effects = handle(&mut damaged, completed(id, LogDone::MarkedDamaged));
    let [Effect::Halt(line)] = effects.as_slice() else { panic!("{effects:?}") };
    assert!(line.contains("checksum"), "{line}");
    assert!(handle(&mut damaged, stat()).is_empty(), "it has stopped");
}

#[test]
fn damage_is_told_of_the_page_file_that_is_read_from_which_is_a_new_one_once_it_is_adopted() {
    let standard = MasterConfig::standard(CellConfig::default(), 1);
    let config = MasterConfig { checkpoint_every_records: 1, ..standard };
    let mut master = master_with(opened(None), config, LogIndex::new(2));
    let (id, state) = start(&mut master).expect("a checkpoint is due");
    let (file, mut bytes) = (FileId::fresh(), Vec::new());
    state.write_image(file, &mut bytes).expect("memory");
    bytes[0] ^= 1;
    let (index, size, page_file) = (state.applied(), bytes.len() as u64, PAGE_FILE + 1);
    let to_adopt: Option<(Arc<dyn Backing>, FileId)> = Some((Arc::new(bytes), file));
    let made = Checkpointed { index, size, page_file, to_adopt };
    handle(&mut master, completed(id, LogDone::Checkpointed(made)));
    assert_eq!(marking(&handle(&mut master, stat())).1, page_file);
}

#[test]
fn a_flush_that_takes_long_is_told_of() {
    for (seconds, told) in [(0, false), (2, true)] {
        let mut master = master(opened(None));
        let append = handle(&mut master, Event::Started);
        let append = append.iter().find_map(|effect| match effect {
            Effect::Disk { id, job: LogJob::Append(_), .. } => Some(*id),
            _ => None,
        });
        let id = append.expect("the first record of the term");
        let later = Now { time: Time::default() + Duration::from_secs(seconds), ..Now::default() };
        let mut effects = Vec::new();
        master.handle(later, completed(id, LogDone::Appended { has_room: true }), &mut effects);
        let told_of = effects.iter().filter_map(|effect| match effect {
            Effect::Log(event) => Some(event.name),
            _ => None,
        });
        assert!(told_of.eq(told.then_some("slow flush")), "after {seconds} s");
    }
}

#[test]
fn a_checkpoint_that_is_never_due_is_never_made() {
    let standard = MasterConfig::standard(CellConfig::default(), 1);
    let config = MasterConfig { checkpoint_every_records: u64::MAX, ..standard };
    let mut master = master_with(opened(None), config, LogIndex::new(2));
    start(&mut master);
    assert!(matches!(handle(&mut master, stat()).as_slice(), [Effect::Reply { .. }]));
}

#[test]
fn while_its_disk_is_full_a_change_of_members_is_refused_as_what_it_is() {
    let mut master = master(opened(None));
    start_where(&mut master, false);
    let request = cairn_protocol::ChangeMasters::default().into();
    let mut effects = handle(&mut master, Event::Request { from: Caller::default(), request });
    let Some(Effect::Reply { answer: Err(failure), .. }) = effects.pop() else {
        panic!("{effects:?}")
    };
    assert_eq!(failure.code, ErrorCode::DiskFull);
    assert!(failure.message.contains("no space left for the operation log"), "{failure:?}");
}

/// The one answer to a request; nothing else comes of it.
fn answer(master: &mut Master, request: impl Into<Request>) -> Result<Response, ErrorCode> {
    let (from, request) = (Caller::default(), request.into());
    let mut effects = handle(master, Event::Request { from, request });
    let Some(Effect::Reply { answer, .. }) = effects.pop() else { panic!("{effects:?}") };
    assert!(effects.is_empty(), "a shadow does nothing but answer: {effects:?}");
    answer.map_err(|failure| failure.code)
}

#[test]
fn a_member_that_is_not_in_charge_serves_nobody_but_who_asks_for_a_shadow() {
    let mut member = shadow(opened(None));
    start(&mut member);
    let path = CellPath::parse("/f").expect("a path");
    let served: [Request; 8] = [
        Stat { path: path.clone() }.into(),
        List::default().into(),
        Status {}.into(),
        Create { path: path.clone(), ..Create::default() }.into(),
        Lease::default().into(),
        Join::default().into(),
        Heartbeat::default().into(),
        cairn_protocol::CellInfo {}.into(),
    ];
    for request in served {
        let name = request.name();
        assert_eq!(answer(&mut member, request), Err(ErrorCode::NotPrimaryMaster), "{name}: R23");
    }
    let tell = TellShadow { cell: CELL, ..TellShadow::default() };
    assert!(matches!(answer(&mut member, tell.clone()), Ok(Response::TellShadow(_))));
    let ask = AskShadow { question: Stat { path }.into() };
    let Ok(Response::AskShadow(said)) = answer(&mut member, ask.clone()) else { panic!("a word") };
    let AskShadowAnswer { word, applied, behind_ms: None } = said else { panic!("{said:?}") };
    assert!(matches!(*word, ShadowWord::Stat(_)) && applied == LogIndex::new(2));

    let mut primary = master(opened(None));
    start(&mut primary);
    assert!(matches!(handle(&mut primary, stat()).as_slice(), [Effect::Reply { .. }]));
    assert_eq!(answer(&mut primary, ask.clone()), Err(ErrorCode::Invalid));
    assert_eq!(answer(&mut primary, tell), Err(ErrorCode::Invalid));

    // D4 holds for a shadow's word, too.
    let mut damaged = shadow(opened(Some(0)));
    start(&mut damaged);
    let from = Caller::default();
    marking(&handle(&mut damaged, Event::Request { from, request: ask.into() }));
}

fn create(number: u64) -> Event<(), LogResult> {
    let path = CellPath::parse(&format!("/{}-{number}", "n".repeat(60))).expect("a path");
    let (session, number) = (SessionId::new(9), MutationNumber::new(number));
    let mutation = MutationName { session, number };
    let request = Request::Create(Create { mutation, path, ..Create::default() });
    Event::Request { from: Caller::default(), request }
}

/// D8: what one flush commits is applied piece by piece, and a look-up comes in between.
#[test]
fn a_look_up_does_not_wait_for_all_that_a_flush_has_committed() {
    const COUNT: u64 = 400;
    let mut master = master(opened(None));
    start(&mut master);
    let (mut append, mut effects) = (None, Vec::new());
    for number in 1..=COUNT {
        master.handle(Now::default(), create(number), &mut effects);
    }
    assert_eq!(effects.len(), 0, "none is answered before it is durable");
    master.end_of_batch(Now::default(), &mut effects);
    for effect in effects {
        if let Effect::Disk { id, job: LogJob::Append(_), .. } = effect {
            append = Some(id);
        }
    }
    let append = append.expect("one flush takes them all");
    let (mut answered, mut turns) = (0, 0);
    let mut next = Some(completed(append, LogDone::Appended { has_room: true }));
    while let Some(event) = next.take() {
        let (mut replies, mut in_between) = (0, 0);
        for effect in handle(&mut master, event) {
            match effect {
                Effect::Reply { answer: Ok(Response::Create(_)), .. } => replies += 1,
                Effect::Wake { id, at } if at == Time::default() => {
                    assert!(next.is_none(), "one turn is asked for at a time");
                    next = Some(Event::Completed { id, result: Completion::Woken });
                }
                _ => {}
            }
        }
        assert!(replies < COUNT / 4, "a turn applies a piece: {replies}");
        (answered, turns) = (answered + replies, turns + 1);
        if next.is_some() {
            // What is left of the records goes on behind it.
            for effect in handle(&mut master, stat()) {
                in_between += u64::from(matches!(effect, Effect::Reply { .. }));
            }
            assert!(in_between >= 1, "a look-up is answered between two pieces");
            answered += in_between - 1;
        }
    }
    assert_eq!(answered, COUNT, "all are answered, in {turns} turns");
    assert!(turns > 4, "{turns}");
}
