//! What is deleted is kept for a while, and then goes, slice by slice.

use super::cell::{Cell, path};
use cairn_env::{Completion, Event};
use cairn_master_core::{LogSpace, Record};
use cairn_protocol::{ErrorCode, JobUnit, ListJobs, Response, Undelete};

impl Cell {
    /// A cell whose servers have had the time to say what they know.
    fn started() -> Self {
        let mut cell = Self::new();
        cell.pass(5_000);
        cell
    }

    fn hidden(&mut self, at: &str) -> String {
        let delete = self.delete(at, true);
        match self.ask(delete) {
            Ok(Response::Delete(answer)) => answer.hidden,
            other => panic!("{other:?}"),
        }
    }

    /// A directory of so many files.
    fn many(&mut self, at: &str, count: usize) {
        let make = self.make(at, false);
        self.ask(make).expect("makes");
        for file in 0..count {
            let create = self.create(&format!("{at}/{file}"));
            self.ask(create).expect("creates");
        }
    }
}

#[test]
fn what_is_kept_no_longer_goes_and_what_is_young_stays() {
    let mut cell = Cell::started();
    cell.many("/old", 3);
    cell.many("/young", 3);
    let old = cell.hidden("/old");
    cell.pass(6_000);
    let young = cell.hidden("/young");
    assert!(cell.exists(&format!("{old}/1")));
    cell.pass(5_000);
    assert!(!cell.exists(&old) && !cell.exists(&format!("{old}/1")));
    assert!(cell.exists(&format!("{young}/1")));
    cell.pass(6_000);
    assert_eq!(cell.names("/.deleted", false), [""; 0]);
    let state = cell.core.state();
    assert_eq!(
        (state.file_count(), state.directory_count(), state.hidden_count()),
        (0, 1, 0),
        "the root alone"
    );
}

#[test]
fn a_second_deletion_purges_at_once_and_names_nothing_that_was_made_anew() {
    let mut cell = Cell::started();
    cell.many("/d", 2);
    let hidden = cell.hidden("/d");
    cell.many("/d", 2);
    let below = cell.delete(&format!("{hidden}/1"), false);
    assert_eq!(cell.code(below), Some(ErrorCode::Invalid), "it goes with its directory");
    assert_eq!(cell.hidden(&hidden), hidden);
    cell.pass(1_000);
    assert!(!cell.exists(&hidden) && cell.exists("/d/1"), "R24");
    let again = cell.delete(&hidden, true);
    assert_eq!(cell.code(again), Some(ErrorCode::NotFound));
}

#[test]
fn a_large_directory_goes_in_slices_and_is_brought_back_no_more_once_it_has_begun() {
    let mut cell = Cell::started();
    cell.many("/d", 1000);
    let hidden = cell.hidden("/d");
    cell.hidden(&hidden);
    let mut left = Vec::new();
    while cell.core.state().file_count() == 1000 {
        cell.pass(5);
    }
    while cell.exists(&hidden) {
        cell.pass(5);
        left.push(cell.core.state().file_count());
        let mutation = cell.mutation();
        let undelete = Undelete { mutation, path: path("/d"), to: None };
        assert_eq!(cell.code(undelete), Some(ErrorCode::NotFound));
    }
    assert!(left.windows(2).all(|pair| pair[0] - pair[1] <= 256), "{left:?}");
    assert!(left.len() >= 3 && left.ends_with(&[0]));
}

#[test]
fn a_directorys_purge_tells_how_many_names_have_gone_and_are_left() {
    let mut cell = Cell::started();
    cell.many("/d", 1000);
    let hidden = cell.hidden("/d");
    cell.hidden(&hidden);
    let mut told = Vec::new();
    while cell.exists(&hidden) {
        let Ok(Response::ListJobs(answer)) = cell.ask(ListJobs {}) else { panic!("it is told") };
        let purge = answer.jobs.into_iter().find(|job| job.id == "purge");
        told.extend(purge.map(|job| (job.done, job.total, job.unit)));
        cell.pass(5);
    }
    let begun: Vec<_> = told.into_iter().filter(|(done, ..)| *done > 0).collect();
    assert!(begun.len() >= 3, "{begun:?}");
    assert!(begun.iter().all(|(_, total, unit)| (*total, *unit) == (1001, JobUnit::Names)));
    assert!(begun.windows(2).all(|pair| pair[0].0 <= pair[1].0), "{begun:?}");
}

#[test]
fn what_is_brought_back_while_its_purge_is_on_its_way_stays() {
    let mut cell = Cell::started();
    cell.many("/d", 2);
    cell.hidden("/d");
    cell.time += 9_999;
    let mutation = cell.mutation();
    cell.send(Undelete { mutation, path: path("/d"), to: None });
    cell.time += 1;
    for (id, _) in std::mem::take(&mut cell.wakes) {
        let mut effects = Vec::new();
        let woken = Event::Completed { id, result: Completion::Woken };
        cell.core.step(cell.now(), woken, &mut effects);
        cell.collect(effects);
    }
    let purges = cell.proposed.iter().filter(|(_, it)| matches!(it, Record::Purge(_)));
    assert_eq!(purges.count(), 1, "both are on their way");
    cell.commit();
    assert!(cell.exists("/d/1"), "R23");
    cell.pass(20_000);
    assert!(cell.exists("/d/1"));
}

#[test]
fn where_the_log_has_no_room_nothing_is_purged() {
    let mut cell = Cell::started();
    cell.many("/d", 2);
    let hidden = cell.hidden("/d");
    cell.core.set_log_space(LogSpace::None);
    cell.pass(20_000);
    assert!(cell.exists(&hidden));
    cell.core.set_log_space(LogSpace::Enough);
    cell.pass(2_000);
    assert!(!cell.exists(&hidden));
}
