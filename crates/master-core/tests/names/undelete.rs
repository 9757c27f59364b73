//! What is deleted comes back: to where it was, wherever that is by now, or elsewhere.

use super::cell::{Cell, path};
use cairn_protocol::{
    DeletedEntry, DeletedMark, ErrorCode, ListDeleted, Response, Undelete, UndeleteAnswer,
};

impl Cell {
    fn undelete(&mut self, from: &str, to: Option<&str>) -> Undelete {
        Undelete { mutation: self.mutation(), path: path(from), to: to.map(path) }
    }

    /// Where it came back to, or why it did not.
    fn restored(&mut self, from: &str, to: Option<&str>) -> Result<String, ErrorCode> {
        let undelete = self.undelete(from, to);
        match self.ask(undelete) {
            Ok(Response::Undelete(UndeleteAnswer { path })) => Ok(path),
            Ok(other) => panic!("{other:?}"),
            Err(failure) => Err(failure.code),
        }
    }

    fn removed(&mut self, at: &str) -> String {
        let delete = self.delete(at, true);
        match self.ask(delete) {
            Ok(Response::Delete(answer)) => answer.hidden,
            other => panic!("{other:?}"),
        }
    }

    fn made(&mut self, at: &str) {
        let create = self.create(at);
        self.ask(create).expect("creates");
    }

    /// All that is deleted, by pages of `limit`.
    fn deleted(&mut self, directory: Option<&str>, limit: u32) -> Vec<DeletedEntry> {
        let (mut all, mut after): (_, Option<DeletedMark>) = (Vec::new(), None);
        loop {
            let directory = directory.map(path);
            match self.ask(ListDeleted { directory, after, limit }) {
                Ok(Response::ListDeleted(page)) => {
                    all.extend(page.entries);
                    after = page.resume;
                }
                other => panic!("{other:?}"),
            }
            if after.is_none() {
                return all;
            }
        }
    }
}

#[test]
fn what_is_deleted_comes_back_to_where_it_was() {
    let mut cell = Cell::new();
    let make = cell.make("/a/b", true);
    cell.ask(make).expect("makes");
    cell.made("/a/b/f");
    cell.removed("/a");
    assert!(!cell.exists("/a/b/f"));
    assert_eq!(cell.restored("/a", None), Ok("/a".to_owned()));
    assert!(cell.exists("/a/b/f"), "with all that was in it");
    assert_eq!(cell.names("/.deleted", false), [""; 0]);
    assert_eq!(cell.restored("/a", None), Err(ErrorCode::NotFound), "it is back");
}

#[test]
fn of_several_the_last_comes_back_and_the_others_by_their_hidden_names() {
    let mut cell = Cell::new();
    let mut hidden = Vec::new();
    for _ in 0..3 {
        cell.made("/f");
        cell.time += 10;
        hidden.push(cell.removed("/f"));
    }
    let listed = |of: Vec<DeletedEntry>| of.into_iter().map(|it| it.hidden).collect::<Vec<_>>();
    let newest_first: Vec<String> = hidden.iter().rev().cloned().collect();
    for limit in 1..4 {
        assert_eq!(listed(cell.deleted(Some("/"), limit)), newest_first);
        assert_eq!(listed(cell.deleted(None, limit)), hidden);
    }
    assert_eq!(cell.restored("/f", None), Ok("/f".to_owned()));
    assert_eq!(listed(cell.deleted(None, 9)), hidden[..2]);
    assert_eq!(cell.restored("/f", None), Err(ErrorCode::AlreadyExists));
    assert_eq!(cell.restored(&hidden[0], Some("/g")), Ok("/g".to_owned()));
    assert_eq!(listed(cell.deleted(None, 9)), hidden[1..2]);
}

#[test]
fn it_comes_back_into_its_directory_wherever_that_is_now() {
    let mut cell = Cell::new();
    for at in ["/d", "/e"] {
        let make = cell.make(at, false);
        cell.ask(make).expect("makes");
        cell.made(&format!("{at}/f"));
        cell.removed(&format!("{at}/f"));
    }
    let rename = cell.rename("/d", "/moved", false);
    cell.ask(rename).expect("renames");
    assert_eq!(cell.restored("/d/f", None), Err(ErrorCode::NotFound), "/d is no more");
    assert_eq!(cell.restored("/moved/f", None), Ok("/moved/f".to_owned()));
    let hidden = cell.deleted(Some("/e"), 9).remove(0);
    assert_eq!(hidden.path, "/e/f");
    cell.removed("/e");
    assert_eq!(cell.restored(&hidden.hidden, None), Err(ErrorCode::NotFound));
    assert_eq!(cell.restored(&hidden.hidden, Some("/f")), Ok("/f".to_owned()));
}

#[test]
fn what_lies_in_a_deleted_directory_comes_back_where_one_says() {
    let mut cell = Cell::new();
    let make = cell.make("/d", false);
    cell.ask(make).expect("makes");
    cell.made("/d/f");
    let hidden = cell.removed("/d");
    let below = format!("{hidden}/f");
    assert_eq!(cell.restored(&below, None), Err(ErrorCode::Invalid));
    assert_eq!(cell.restored(&below, Some("/f")), Ok("/f".to_owned()));
    assert_eq!(cell.restored("/.deleted", Some("/g")), Err(ErrorCode::Invalid));
    assert_eq!(cell.restored(&hidden, Some("/.deleted/x")), Err(ErrorCode::Invalid));
    assert!(!cell.exists("/d/f") && cell.exists("/f"));
}

#[test]
fn an_undelete_that_is_asked_twice_is_done_once_and_one_behind_it_finds_the_next() {
    let mut cell = Cell::new();
    for _ in 0..2 {
        cell.made("/f");
        cell.time += 10;
        cell.removed("/f");
    }
    // Both mean the newest until the first has its locks (UD2).
    let (one, other) = (cell.undelete("/f", Some("/one")), cell.undelete("/f", Some("/other")));
    let [first, second] = [one.clone(), other].map(|undelete| cell.send(undelete));
    cell.commit();
    assert!([first, second].iter().all(|it| cell.answer(*it).is_some_and(Result::is_ok)));
    assert!(cell.exists("/one") && cell.exists("/other"));
    let again = cell.ask(one).expect("remembered");
    assert_eq!(again, Response::Undelete(UndeleteAnswer { path: "/one".to_owned() }), "R24");
}

#[test]
fn a_file_that_was_replaced_comes_back_too_and_the_time_that_is_left_is_told() {
    let mut cell = Cell::new();
    cell.made("/old");
    cell.made("/new");
    let rename = cell.rename("/new", "/old", true);
    cell.ask(rename).expect("replaces");
    cell.time += 4_000;
    let told = cell.deleted(None, 9).remove(0);
    assert_eq!((told.path.as_str(), told.left_ms), ("/old", 6_000), "of ten seconds");
    assert_eq!(cell.restored(&told.hidden, Some("/back")), Ok("/back".to_owned()));
}
