//! How files are kept: what directories and files say, who inherits it, and how what exists is
//! brought to it.

use super::cell::{Cell, path};
use cairn_env::{ConnectionId, Event};
use cairn_master_core::record::{OpenChunk, RaiseLevel, Record};
use cairn_master_core::{LogSpace, MasterCore, ProposalId};
use cairn_protocol::{
    CancelJob, ErrorCode, GetPolicy, GetPolicyAnswer, JobStatus, ListJobs, PolicySource, Response,
    SetPolicy, Snapshot, Stat,
};
use cairn_types::wire::Message;
use cairn_types::{
    CellConfig, ChunkHandle, ChunkIndex, EntryId, Identity, KEEP_FOR_EVER_MS, PolicyPartNames,
    PolicyParts, Term,
};

/// A level alone.
fn level(replication: u32) -> PolicyParts {
    PolicyParts { replication: Some(replication), ..PolicyParts::default() }
}

fn kept(keep_deleted_ms: u64) -> PolicyParts {
    PolicyParts { keep_deleted_ms: Some(keep_deleted_ms), ..PolicyParts::default() }
}

impl Cell {
    fn set_policy(&mut self, at: &str, set: PolicyParts, apply: bool) -> SetPolicy {
        let (mutation, inherit) = (self.mutation(), PolicyPartNames::default());
        SetPolicy { mutation, path: path(at), set, inherit, apply }
    }

    /// Says it; the job that is left.
    fn says(&mut self, at: &str, set: PolicyParts) -> String {
        let set = self.set_policy(at, set, false);
        self.job(set)
    }

    /// Says it of what exists below, too.
    fn applies(&mut self, at: &str, set: PolicyParts) -> String {
        let set = self.set_policy(at, set, true);
        self.job(set)
    }

    fn job(&mut self, set: SetPolicy) -> String {
        match self.ask(set) {
            Ok(Response::SetPolicy(answer)) => answer.job,
            other => panic!("{other:?}"),
        }
    }

    fn jobs(&mut self) -> Vec<JobStatus> {
        match self.ask(ListJobs {}) {
            Ok(Response::ListJobs(answer)) => answer.jobs,
            other => panic!("{other:?}"),
        }
    }

    fn policy(&mut self, at: &str) -> GetPolicyAnswer {
        match self.ask(GetPolicy { path: path(at) }) {
            Ok(Response::GetPolicy(answer)) => answer,
            other => panic!("{other:?}"),
        }
    }

    fn with_directories(all: &[&str]) -> Self {
        let mut cell = Self::new();
        for at in all {
            let make = cell.make(at, true);
            cell.ask(make).expect("makes");
        }
        cell
    }

    fn with_file(&mut self, at: &str) -> EntryId {
        let create = self.create(at);
        match self.ask(create) {
            Ok(Response::Create(answer)) => answer.entry.id,
            other => panic!("{other:?}"),
        }
    }

    fn level(&mut self, at: &str) -> u32 {
        match self.ask(Stat { path: path(at) }) {
            Ok(Response::Stat(answer)) => answer.entry.replication,
            other => panic!("{other:?}"),
        }
    }

    /// Logs so many chunks of a file, as if servers had made them.
    fn open_chunks(&mut self, file: EntryId, count: u64) {
        let base = self.index * 10_000;
        for index in 0..count {
            let handle = ChunkHandle::of(Term::new(1), 1_000_000_000 + base + index);
            let index = ChunkIndex::new(index);
            let open = OpenChunk { file, index, handle, set_size: 3, ..OpenChunk::default() };
            // As if it had been asked for.
            self.proposed.push((ProposalId(u64::MAX), Record::from(open)));
            self.commit();
        }
    }

    fn goals(&self, file: EntryId) -> Vec<u32> {
        let state = self.core.state();
        let chunks = state.chunks_of(file, ChunkIndex::default());
        chunks.map(|(_, handle)| state.chunk(handle).expect("there").goal).collect()
    }
}

#[test]
fn what_is_made_takes_what_the_nearest_directory_says_and_a_wish_of_its_own_wins() {
    let mut cell = Cell::with_directories(&["/a/b/c"]);
    cell.with_file("/a/b/before");
    cell.says("/a", PolicyParts { synced: Some(true), ..level(2) });
    cell.says("/a/b", level(5));
    for (at, replication, synced) in
        [("/f", 3, false), ("/a/f", 2, true), ("/a/b/f", 5, true), ("/a/b/c/f", 5, true)]
    {
        cell.with_file(at);
        let policy = cell.policy(at).policy;
        assert_eq!((policy.replication, policy.synced), (replication, synced), "{at}");
    }
    assert_eq!(cell.level("/a/b/before"), 3, "what exists stays as it is");
    let mut create = cell.create("/a/b/c/own");
    create.replication = 4;
    cell.ask(create).expect("creates");
    assert_eq!(cell.level("/a/b/c/own"), 4);
    // What a file has it keeps; what is inherited is looked up where it stands.
    let rename = cell.rename("/a/b/c/own", "/own", false);
    cell.ask(rename).expect("renames");
    let rename = cell.rename("/a/b/c", "/c", false);
    cell.ask(rename).expect("renames");
    cell.with_file("/c/g");
    assert_eq!((cell.level("/own"), cell.level("/c/f"), cell.level("/c/g")), (4, 5, 3));
    let mutation = cell.mutation();
    let inherit = PolicyPartNames { replication: true, ..PolicyPartNames::default() };
    let set = PolicyParts::default();
    let not = SetPolicy { mutation, path: path("/a/b"), set, inherit, apply: false };
    assert_eq!(cell.job(not), "");
    cell.with_file("/a/b/after");
    assert_eq!(cell.level("/a/b/after"), 2, "it says nothing any more");
}

#[test]
fn each_part_is_told_with_who_says_it() {
    let mut cell = Cell::with_directories(&["/a/b"]);
    cell.with_file("/a/b/f");
    cell.says("/", kept(7_000));
    cell.says("/a", level(2));
    let origins = |of: GetPolicyAnswer| {
        [of.replication, of.keep_deleted, of.durability].map(|it| (it.source, it.path))
    };
    let above = |at: &str| (PolicySource::Above, at.to_owned());
    let bare = |source| (source, String::new());
    let told = cell.policy("/a/b");
    assert_eq!((told.policy.replication, told.policy.keep_deleted_ms), (2, 7_000));
    assert_eq!(origins(told), [above("/a"), above("/"), bare(PolicySource::Cell)]);
    let told = cell.policy("/a");
    assert_eq!(told.own, level(2));
    assert_eq!(origins(told), [bare(PolicySource::Itself), above("/"), bare(PolicySource::Cell)]);
    let told = cell.policy("/a/b/f");
    assert_eq!(told.policy.replication, 3, "as it was made");
    let made = || bare(PolicySource::Made);
    assert_eq!(origins(told), [made(), above("/"), made()]);
    cell.says("/a/b/f", level(6));
    let told = cell.policy("/a/b/f");
    assert_eq!((told.policy.replication, told.replication.source), (6, PolicySource::Itself));
}

#[test]
fn what_is_deleted_is_kept_as_long_as_is_said_where_it_stood() {
    let mut cell = Cell::with_directories(&["/at-once", "/for-ever", "/else"]);
    cell.pass(5_000);
    cell.says("/at-once", kept(0));
    cell.says("/for-ever", kept(KEEP_FOR_EVER_MS));
    let all = ["/at-once/f", "/for-ever/f", "/for-ever/g", "/else/f", "/else/own"];
    for at in all {
        cell.with_file(at);
    }
    cell.says("/for-ever/g", kept(0));
    cell.says("/else/own", kept(KEEP_FOR_EVER_MS));
    for at in all {
        let delete = cell.delete(at, false);
        cell.ask(delete).expect("deletes");
    }
    cell.pass(1_000);
    let left = |cell: &mut Cell| {
        let names = cell.names("/.deleted", false);
        names.iter().map(|it| it.rsplit_once('-').expect("a name").1.to_owned()).collect()
    };
    let kept: Vec<String> = left(&mut cell);
    assert_eq!(kept, ["f", "f", "own"]);
    cell.pass(20_000);
    let kept: Vec<String> = left(&mut cell);
    assert_eq!(kept, ["f", "own"]);
    // A file that gives way is deleted, too.
    for at in ["/at-once/f", "/at-once/g"] {
        cell.with_file(at);
    }
    let rename = cell.rename("/at-once/f", "/at-once/g", true);
    cell.ask(rename).expect("renames");
    cell.pass(1_000);
    assert_eq!(cell.names("/.deleted", false).len(), 2);
}

#[test]
fn a_file_has_its_level_at_once_and_so_have_its_chunks() {
    let mut cell = Cell::with_directories(&["/d"]);
    let file = cell.with_file("/d/f");
    cell.open_chunks(file, 3);
    assert_eq!(cell.goals(file), [3, 3, 3]);
    assert_eq!(cell.says("/d/f", level(5)), "", "nothing is left to do");
    assert_eq!((cell.level("/d/f"), cell.goals(file)), (5, vec![5, 5, 5]));
    cell.says("/d", level(2));
    let mutation = cell.mutation();
    let (set, inherit) = (PolicyParts::default(), PolicyPartNames::ALL);
    let job = cell.job(SetPolicy { mutation, path: path("/d/f"), set, inherit, apply: false });
    assert_eq!((job.as_str(), cell.level("/d/f"), cell.goals(file)), ("", 2, vec![2, 2, 2]));
    assert_eq!(cell.policy("/d/f").own, PolicyParts::default());
}

#[test]
fn which_name_a_job_is_about_is_told_to_the_superuser_alone() {
    let mut cell = Cell::with_directories(&["/closed/d"]);
    let level_one = RaiseLevel { level: 1, ..RaiseLevel::default() };
    cell.proposed.push((ProposalId(u64::MAX), Record::from(level_one)));
    cell.commit();
    let job = cell.applies("/closed/d", level(2));
    let subjects = |cell: &mut Cell, uid| {
        let credentials = Identity { uid, ..Identity::default() }.to_bytes().into();
        let event = Event::Identified { connection: ConnectionId(1), credentials };
        cell.core.step(cell.now(), event, &mut Vec::new());
        let jobs = cell.jobs().into_iter().filter(|told| told.id == job);
        jobs.map(|told| told.subject).collect::<Vec<_>>()
    };
    assert_eq!(subjects(&mut cell, 1000), [""]);
    assert_eq!(subjects(&mut cell, 0), ["/closed/d"]);
}

#[test]
fn what_exists_below_is_brought_to_it_in_slices_and_the_next_master_goes_on() {
    let mut cell = Cell::with_directories(&["/d/near", "/d/z"]);
    cell.says("/d/near", level(4));
    let near = cell.with_file("/d/near/f");
    let own = cell.with_file("/d/own");
    cell.says("/d/own", level(7));
    let large = cell.with_file("/d/a");
    cell.open_chunks(large, 700);
    let others: Vec<EntryId> =
        (0..600).map(|number| cell.with_file(&format!("/d/z/{number}"))).collect();
    others.iter().take(5).for_each(|file| cell.open_chunks(*file, 1));
    let beside = cell.with_file("/beside");
    let job = cell.applies("/d", level(2));
    assert!(job.starts_with("policy-1-"), "{job}");
    let done = |cell: &Cell| cell.goals(large).iter().filter(|goal| **goal == 2).count();
    assert_eq!(done(&cell), 0);
    let mut before = 0;
    for _ in 0..2 {
        cell.pass(10);
        let now = done(&cell);
        assert!(before < now && now <= before + 2 * 256, "{before} {now}");
        before = now;
    }
    // A master ends, and the next one goes on where it was.
    let state = cell.core.state().clone();
    assert_eq!(state.policies().jobs().count(), 1);
    cell.core = MasterCore::new(state, Term::new(2), 7);
    cell.wakes.clear();
    cell.begin();
    cell.commit();
    cell.pass(2_000);
    assert_eq!(cell.core.state().policies().jobs().count(), 0);
    assert!(cell.goals(large).iter().all(|goal| *goal == 2));
    let level = |file| cell.core.state().entry(file).expect("there").replication;
    assert!(others.iter().all(|file| level(*file) == 2));
    assert!(others[..5].iter().all(|file| cell.goals(*file) == [2]));
    assert_eq!((level(near), level(own), level(beside)), (4, 7, 3), "nearer words are heeded");
}

#[test]
fn a_wish_counts_for_the_making_and_what_a_file_says_itself_stays() {
    let mut cell = Cell::with_directories(&["/d"]);
    for name in ["/d/wished", "/d/says"] {
        let mut create = cell.create(name);
        create.replication = 5;
        cell.ask(create).expect("creates");
    }
    assert_eq!(
        cell.policy("/d/wished").own,
        PolicyParts::default(),
        "a wish is no word of its own"
    );
    cell.says("/d/says", level(5));
    cell.applies("/d", level(2));
    cell.pass(2_000);
    assert_eq!((cell.level("/d/wished"), cell.level("/d/says")), (2, 5));
}

#[test]
fn a_job_is_listed_with_what_is_left_and_ends_when_it_is_given_up() {
    let mut cell = Cell::with_directories(&["/d/e"]);
    for number in 0..1500 {
        cell.with_file(&format!("/d/e/{number}"));
    }
    let job = cell.applies("/d", level(2));
    cell.pass(15);
    let listed = cell.jobs();
    assert_eq!(listed.len(), 1);
    let told = &listed[0];
    assert_eq!((&told.id, told.subject.as_str(), told.total), (&job, "/d", 1501));
    assert!(told.done >= 256 && told.done < 1501 && told.left_ms.is_some(), "{told:?}");
    assert_eq!(cell.code(CancelJob { id: "policy-1-1".to_owned() }), Some(ErrorCode::NotFound));
    cell.ask(CancelJob { id: job.clone() }).expect("it ends");
    assert_eq!(
        (cell.jobs(), cell.code(CancelJob { id: job })),
        (vec![], Some(ErrorCode::NotFound))
    );
    let before = cell.level("/d/e/999");
    cell.pass(1_000);
    assert_eq!((before, cell.level("/d/e/999")), (3, 3), "what it has not done stays undone");
}

#[test]
fn a_job_ends_with_its_directory_and_begins_anew_with_another_word() {
    let mut cell = Cell::with_directories(&["/d/e", "/x"]);
    let files: Vec<EntryId> =
        (0..600).map(|number| cell.with_file(&format!("/d/e/{number}"))).collect();
    let of = |cell: &Cell, level| {
        let is =
            |file: &&EntryId| cell.core.state().entry(**file).expect("there").replication == level;
        files.iter().filter(is).count()
    };
    let first = cell.applies("/d", level(2));
    cell.pass(5);
    let second = cell.applies("/d", level(1));
    assert_ne!(first, second);
    assert_eq!(cell.core.state().policies().jobs().count(), 1, "instead of the first");
    cell.pass(5);
    // What it is in is moved away: that is not below /d any more.
    let rename = cell.rename("/d/e", "/x/e", false);
    cell.ask(rename).expect("renames");
    cell.pass(1_000);
    assert_eq!(cell.core.state().policies().jobs().count(), 0);
    assert!(of(&cell, 3) > 0 && of(&cell, 1) > 0, "{} {}", of(&cell, 3), of(&cell, 1));
    cell.applies("/x", level(2));
    let delete = cell.delete("/x", true);
    cell.ask(delete).expect("deletes");
    cell.pass(1_000);
    assert_eq!(cell.core.state().policies().jobs().count(), 0);
    assert_eq!(of(&cell, 2), 600 - of(&cell, 3) - of(&cell, 1), "what is deleted stays as it is");
}

#[test]
fn what_is_being_applied_is_not_dropped_for_another_part() {
    let mut cell = Cell::with_directories(&["/d"]);
    let files: Vec<EntryId> =
        (0..600).map(|number| cell.with_file(&format!("/d/{number}"))).collect();
    cell.applies("/d", level(2));
    cell.pass(5);
    let synced = PolicyParts { synced: Some(true), ..PolicyParts::default() };
    let set = cell.set_policy("/d", synced, true);
    let refused = cell.ask(set).expect_err("the level of some files is still to come");
    assert_eq!(refused.code, ErrorCode::Busy);
    let set = cell.set_policy("/d", synced, false);
    cell.ask(set).expect("it says nothing of what exists");
    cell.applies("/d", PolicyParts { replication: Some(1), ..synced });
    cell.pass(1_000);
    cell.applies("/d", synced);
    cell.pass(1_000);
    let entry = |file: &EntryId| cell.core.state().entry(*file).expect("there");
    assert!(files.iter().map(entry).all(|file| file.replication == 1 && file.synced));
}

#[test]
fn slices_are_smaller_where_a_chunk_may_have_many_files() {
    let looked_at = |shares: bool| {
        let mut cell = Cell::with_directories(&["/d"]);
        for number in 0..600 {
            cell.with_file(&format!("/d/{number}"));
        }
        if shares {
            let file = cell.with_file("/shared");
            cell.open_chunks(file, 1);
            let mut effects = Vec::new();
            cell.core.raise_level(cell.now(), 1, &mut effects);
            cell.collect(effects);
            cell.commit();
            cell.stand_still(CellConfig::tiny().longest_lease().as_millis() as u64);
            let (from, to) = (path("/shared"), path("/copy"));
            let wish = Snapshot { mutation: cell.mutation(), from, to, anew: None };
            cell.ask(wish).expect("taken");
        }
        cell.applies("/d", level(2));
        cell.pass(5);
        cell.core.state().policies().jobs().next().expect("under way").looked_at
    };
    let (alone, beside) = (looked_at(false), looked_at(true));
    assert!(beside > 0 && beside * 4 <= alone, "{beside} beside snapshots, {alone} without");
}

#[test]
fn what_makes_no_sense_is_refused() {
    let mut cell = Cell::with_directories(&["/d"]);
    let all = [
        ("/d", level(0), ErrorCode::Invalid),
        ("/d", level(17), ErrorCode::Invalid),
        ("/d", PolicyParts::default(), ErrorCode::Invalid),
        ("/none", level(2), ErrorCode::NotFound),
        ("/.deleted", level(2), ErrorCode::Invalid),
    ];
    for (at, set, code) in all {
        let set = cell.set_policy(at, set, false);
        assert_eq!(cell.code(set), Some(code), "{at}");
    }
    assert_eq!(cell.code(GetPolicy { path: path("/none") }), Some(ErrorCode::NotFound));
    let set = cell.set_policy("/d", level(16), false);
    let (first, again) = (cell.ask(set.clone()), cell.ask(set));
    assert_eq!(first, again, "R24");
}

#[test]
fn a_purged_directory_says_nothing_any_more_and_one_that_comes_back_does() {
    let mut cell = Cell::with_directories(&["/d"]);
    cell.pass(5_000);
    cell.says("/d", PolicyParts { keep_deleted_ms: Some(5_000), ..level(2) });
    let delete = cell.delete("/d", true);
    cell.ask(delete).expect("deletes");
    let (mutation, to) = (cell.mutation(), None);
    cell.ask(cairn_protocol::Undelete { mutation, path: path("/d"), to }).expect("comes back");
    cell.with_file("/d/f");
    assert_eq!(cell.level("/d/f"), 2);
    let id = cell.core.state().resolve(&path("/d")).expect("there");
    let delete = cell.delete("/d", true);
    cell.ask(delete).expect("deletes");
    cell.pass(7_000);
    assert_eq!(cell.core.state().policies().said(id), PolicyParts::default());
}

#[test]
fn where_the_log_has_no_room_no_slice_is_proposed() {
    let mut cell = Cell::with_directories(&["/d"]);
    cell.with_file("/d/f");
    cell.applies("/d", level(2));
    cell.core.set_log_space(LogSpace::None);
    cell.pass(2_000);
    assert_eq!(cell.level("/d/f"), 3);
    cell.core.set_log_space(LogSpace::Enough);
    cell.pass(2_000);
    assert_eq!(cell.level("/d/f"), 2);
}
