//! The core's answers to namespace requests, one event at a time.

mod batches;
mod cell;
mod policies;
mod purge;
mod settings;
mod snapshots;
mod streams;
mod undelete;

use cairn_master_core::LogSpace;
use cairn_protocol::{
    Create, ErrorCode, Failure, FindPrimary, List, MasterRole, Open, Response, SetAttributes, Stat,
    Status,
};
use cairn_types::{CellPath, NOBODY};
use cell::{Cell, path};

#[test]
fn no_request_is_taken_before_the_term_is_in_the_log() {
    let mut cell = Cell::unstarted();
    cell.begin();
    let early = cell.send(Stat { path: CellPath::root() });
    let code = cell.answer(early).and_then(|answer| answer.as_ref().err()).map(|f| f.code);
    assert_eq!(code, Some(ErrorCode::Busy), "R23");
    cell.commit();
    assert!(cell.exists("/"));
}

#[test]
fn whoever_looks_for_the_primary_is_answered_at_once_and_told_when_it_takes_requests() {
    let mut cell = Cell::unstarted();
    cell.begin();
    for role in [MasterRole::Starting, MasterRole::Primary] {
        let asked = cell.send(FindPrimary {});
        let Some(Ok(Response::FindPrimary(answer))) = cell.answer(asked) else {
            panic!("no answer to who is in charge");
        };
        assert_eq!((answer.role, answer.term.get()), (role, 1), "R23");
        cell.commit();
    }
}

#[test]
fn a_mutation_is_answered_when_it_is_applied_and_not_before() {
    let mut cell = Cell::new();
    let create = cell.create("/f");
    let asked = cell.send(create);
    assert!(cell.answer(asked).is_none() && !cell.exists_now("/f"), "R23");
    cell.commit();
    assert!(matches!(cell.answer(asked), Some(Ok(Response::Create(answer))) if answer.created));
}

#[test]
fn a_retry_gets_the_first_answer_while_it_is_on_its_way_and_long_after() {
    let mut cell = Cell::new();
    let create = cell.create("/f");
    let first = cell.send(create.clone());
    let second = cell.send(create.clone());
    assert_eq!(cell.proposed.len(), 1, "R24");
    cell.commit();
    assert_eq!(cell.answer(first), cell.answer(second));
    let delete = cell.delete("/f", false);
    cell.ask(delete).expect("deletes");
    let late = cell.ask(create.clone());
    assert!(matches!(late, Ok(Response::Create(answer)) if answer.created), "R24");
    assert!(!cell.exists("/f"), "the retry did not make it anew");

    cell.time += 700_000;
    let other = cell.create("/g");
    cell.ask(other).expect("creates");
    assert_eq!(cell.code(create), Some(ErrorCode::TooOld), "R24");
}

#[test]
fn where_there_is_no_room_what_is_new_is_refused_and_a_retry_gets_its_answer() {
    let mut cell = Cell::new();
    let (done, late) = (cell.create("/f"), cell.create("/g"));
    let first = cell.ask(done.clone());
    let waits = cell.send(late.clone());
    cell.core.set_log_space(LogSpace::None);
    assert_eq!(cell.ask(done), first, "R24");
    let again = cell.send(late);
    let new = cell.create("/h");
    assert_eq!(cell.code(new), Some(ErrorCode::DiskFull));
    cell.commit();
    assert!(cell.answer(again).is_some_and(Result::is_ok));
    assert_eq!(cell.answer(waits), cell.answer(again), "R24");
}

#[test]
fn setting_the_wall_clock_makes_the_master_forget_nothing() {
    let mut cell = Cell::new();
    let create = cell.create("/f");
    let first = cell.ask(create.clone());
    cell.leap = 1_000_000_000;
    let other = cell.create("/g");
    cell.ask(other).expect("creates");
    assert_eq!(cell.ask(create), first, "R4, R24");
}

#[test]
fn nothing_is_given_to_nobody_whoever_asks_for_it() {
    let mut cell = Cell::new();
    let create = cell.create("/f");
    cell.ask(create).expect("creates");
    let mut given = |owner, group| {
        let (mutation, path) = (cell.mutation(), path("/f"));
        cell.code(SetAttributes { mutation, path, owner, group, ..SetAttributes::default() })
    };
    assert_eq!(given(Some(NOBODY), None), Some(ErrorCode::Invalid));
    assert_eq!(given(Some(7), Some(NOBODY)), Some(ErrorCode::Invalid));
    assert_ne!(given(Some(NOBODY - 1), Some(7)), Some(ErrorCode::Invalid));
}

#[test]
fn a_failed_mutation_is_remembered_as_failed_once_it_is_in_the_log() {
    let mut cell = Cell::new();
    let (one, two) = (cell.create("/f"), cell.create("/f"));
    cell.ask(one).expect("creates");
    assert_eq!(cell.code(two.clone()), Some(ErrorCode::AlreadyExists));
    let delete = cell.delete("/f", false);
    cell.ask(delete).expect("deletes");
    assert_eq!(cell.code(two), Some(ErrorCode::AlreadyExists), "R24");
}

#[test]
fn a_copy_of_a_refused_mutation_that_comes_when_the_names_have_changed_is_refused_as_well() {
    let mut cell = Cell::new();
    let delete = cell.delete("/f", false);
    let orphan = cell.create("/d/x");
    assert_eq!(cell.code(delete.clone()), Some(ErrorCode::NotFound));
    assert_eq!(cell.code(orphan.clone()), Some(ErrorCode::NotFound));
    let (file, directory) = (cell.create("/f"), cell.make("/d", false));
    cell.ask(file).expect("creates");
    cell.ask(directory).expect("makes");
    assert_eq!(cell.code(delete), Some(ErrorCode::NotFound), "R24");
    assert_eq!(cell.code(orphan), Some(ErrorCode::NotFound), "R24");
    assert!(cell.exists("/f") && !cell.exists("/d/x"));
}

#[test]
fn creations_in_one_directory_are_on_their_way_together_and_a_deletion_waits_for_them() {
    let mut cell = Cell::new();
    let make = cell.make("/a", false);
    cell.ask(make).expect("makes");
    let (x, y, delete, z) =
        (cell.create("/a/x"), cell.create("/a/y"), cell.delete("/a", true), cell.create("/a/z"));
    let all = [cell.send(x), cell.send(y), cell.send(delete), cell.send(z)];
    assert_eq!(cell.proposed.len(), 2, "R35");
    cell.commit_first();
    assert_eq!(cell.proposed.len(), 1, "the deletion waits for both");
    cell.commit();
    let ok: Vec<bool> =
        all.iter().map(|asked| cell.answer(*asked).is_some_and(Result::is_ok)).collect();
    assert_eq!(ok, [true, true, true, false], "first come, first served");
}

#[test]
fn parents_are_made_as_needed_also_when_they_vanish_while_waiting() {
    let mut cell = Cell::new();
    let deep = cell.make("/a/b/c", true);
    cell.ask(deep).expect("makes all three");
    assert!(cell.exists("/a/b/c"));
    let again = cell.make("/a/b/c", true);
    cell.ask(again).expect("an existing one is fine");
    let strict = cell.make("/a/b/c", false);
    assert_eq!(cell.code(strict), Some(ErrorCode::AlreadyExists));
    let orphan = cell.make("/x/y", false);
    assert_eq!(cell.code(orphan), Some(ErrorCode::NotFound));

    let (delete, make) = (cell.delete("/a", true), cell.make("/a/b/c/d", true));
    cell.send(delete);
    let asked = cell.send(make);
    cell.commit();
    assert!(matches!(cell.answer(asked), Some(Ok(_))), "the way above was made anew");
    assert!(cell.exists("/a/b/c/d"));
}

#[test]
fn renames_move_replace_and_refuse() {
    let mut cell = Cell::new();
    let make = cell.make("/a/b", true);
    cell.ask(make).expect("makes");
    for file in ["/f", "/g"] {
        let create = cell.create(file);
        cell.ask(create).expect("creates");
    }
    let inside = cell.rename("/a", "/a/b/c", false);
    assert_eq!(cell.code(inside), Some(ErrorCode::Invalid), "R35");
    let taken = cell.rename("/f", "/g", false);
    assert_eq!(cell.code(taken), Some(ErrorCode::AlreadyExists));
    let onto = cell.rename("/f", "/a", true);
    assert_eq!(cell.code(onto), Some(ErrorCode::IsADirectory));
    let directory = cell.rename("/a", "/g", true);
    assert_eq!(cell.code(directory), Some(ErrorCode::NotADirectory));
    let replace = cell.rename("/f", "/g", true);
    cell.ask(replace).expect("replaces");
    assert_eq!(cell.names("/", false), ["a", "g"]);
    assert_eq!(cell.names("/.deleted", false).len(), 1, "what was replaced is hidden");
    let itself = cell.rename("/g", "/g", false);
    cell.ask(itself).expect("onto itself is nothing to do");
    let missing = cell.rename("/none", "/h", false);
    assert_eq!(cell.code(missing), Some(ErrorCode::NotFound));
}

#[test]
fn what_is_deleted_is_readable_by_its_hidden_path_and_comes_back_by_a_rename() {
    let mut cell = Cell::new();
    let make = cell.make("/a", false);
    cell.ask(make).expect("makes");
    let create = cell.create("/a/f");
    cell.ask(create).expect("creates");
    let careful = cell.delete("/a", false);
    assert_eq!(cell.code(careful), Some(ErrorCode::DirectoryNotEmpty));
    let delete = cell.delete("/a", true);
    let Ok(Response::Delete(deleted)) = cell.ask(delete) else { panic!("deletes") };
    assert!(!cell.exists("/a/f") && cell.exists(&format!("{}/f", deleted.hidden)));
    assert_eq!(cell.names("/", true), [".deleted"]);
    let Ok(Response::Status(status)) = cell.ask(Status::default()) else { panic!("tells") };
    assert_eq!((status.file_count, status.hidden_count), (1, 1));

    let inside = cell.create(&format!("{}/g", deleted.hidden));
    assert_eq!(cell.code(inside), Some(ErrorCode::Invalid));
    let back = cell.rename(&deleted.hidden, "/a", false);
    cell.ask(back).expect("comes back");
    assert!(cell.exists("/a/f"));
}

#[test]
fn the_wrong_kind_and_the_root_are_refused_in_words() {
    let mut cell = Cell::new();
    let create = cell.create("/f");
    cell.ask(create).expect("creates");
    let below = cell.create("/f/g");
    assert_eq!(cell.code(below), Some(ErrorCode::NotADirectory));
    let root = cell.create("/");
    assert_eq!(cell.code(root), Some(ErrorCode::IsADirectory));
    let root = cell.delete("/", true);
    assert_eq!(cell.code(root), Some(ErrorCode::Invalid));
    assert_eq!(
        cell.code(Open { path: CellPath::root(), ..Default::default() }),
        Some(ErrorCode::IsADirectory)
    );
    let nameless = Create { path: path("/h"), ..Default::default() };
    assert_eq!(cell.code(nameless), Some(ErrorCode::Invalid), "R24");
    let list = cell.ask(List { path: path("/f"), ..Default::default() });
    assert_eq!(
        list.map_err(|failure| failure.message),
        Err("/f: a file where a directory is meant".to_owned())
    );
}

#[test]
fn an_existing_file_can_be_opened_by_create_and_a_listing_comes_in_pages() {
    let mut cell = Cell::new();
    for name in ["/c", "/a", "/b"] {
        let create = cell.create(name);
        cell.ask(create).expect("creates");
    }
    let again = Create { or_open: true, ..cell.create("/a") };
    assert!(matches!(cell.ask(again), Ok(Response::Create(answer)) if !answer.created));
    let page = |after: &str| List {
        path: CellPath::root(),
        after: after.to_owned(),
        limit: 2,
        ..List::default()
    };
    let names = |answer: Result<Response, Failure>| match answer {
        Ok(Response::List(list)) => {
            (list.entries.into_iter().map(|entry| entry.name).collect::<Vec<_>>(), list.more)
        }
        other => panic!("{other:?}"),
    };
    assert_eq!(names(cell.ask(page(""))), (vec!["a".to_owned(), "b".to_owned()], true));
    assert_eq!(names(cell.ask(page("b"))), (vec!["c".to_owned()], false));
}

#[test]
fn a_page_behind_names_that_are_skipped_tells_the_last_of_them() {
    let mut cell = Cell::new();
    let make = cell.make("/d", false);
    cell.ask(make).expect("made");
    for name in ["/d/a", "/d/b", "/d/c", "/d/d", "/d/e"] {
        let create = cell.create(name);
        cell.ask(create).expect("creates");
    }
    let list = |after: &str, skip| {
        let (path, after) = (path("/d"), after.to_owned());
        List { path, after, limit: 2, hidden: false, skip }
    };
    let mut page = |after, skip| match cell.ask(list(after, skip)) {
        Ok(Response::List(list)) => {
            let names: Vec<String> = list.entries.into_iter().map(|entry| entry.name).collect();
            (list.skipped, names.concat(), list.more)
        }
        other => panic!("{other:?}"),
    };
    let told = |skipped: &str, names: &str, more| (skipped.to_owned(), names.to_owned(), more);
    assert_eq!(page("", 0), told("", "ab", true));
    assert_eq!(page("", 2), told("b", "cd", true));
    assert_eq!(page("b", 2), told("d", "e", false));
    assert_eq!(page("", 5), told("e", "", false));
    assert_eq!(page("", 6), told("", "", false));
    assert_eq!(page("d", 2), told("", "", false));
    assert_eq!(cell.code(list("", 16_001)), Some(ErrorCode::Invalid));
}

#[test]
fn a_tree_is_not_moved_to_where_its_deepest_path_could_not_be_named() {
    let mut cell = Cell::new();
    let name = format!("/{}", "n".repeat(199));
    let (deep, home) = (name.repeat(12), format!("/home{}", name.repeat(8)));
    for at in [&deep, &home] {
        let make = cell.make(at, true);
        cell.ask(make).expect("made");
    }
    // 1605 and 2200 bytes meet under "/x", and so would 2107 and 2200.
    let (top, one) = (name.clone(), format!("{home}/x"));
    let rename = cell.rename(&top, &one, false);
    cell.ask(rename).expect("still fits");
    let back = cell.rename(&one, &top, false);
    cell.ask(back).expect("a shorter path always fits");
    let far = format!("{home}{}", format!("/{}", "y".repeat(250)).repeat(2));
    let make = cell.make(&far, true);
    cell.ask(make).expect("made");
    let rename = cell.rename(&top, &format!("{far}/x"), false);
    assert_eq!(cell.code(rename), Some(ErrorCode::Invalid));
    assert!(cell.exists(&deep), "nothing was moved");
}
