//! Settings that a person changes while the cell runs.

use super::cell::Cell;
use cairn_protocol::{
    CellInfo, CellInfoAnswer, ChangeSettings, ChangeSettingsAnswer, ErrorCode, Response,
};
use cairn_types::CellConfig;

impl Cell {
    fn settings(&mut self) -> CellConfig {
        match self.ask(CellInfo {}) {
            Ok(Response::CellInfo(CellInfoAnswer { config, .. })) => *config,
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn settings_that_a_person_changes_hold_once_they_are_logged_and_the_others_stay() {
    let mut cell = Cell::new();
    let before = cell.settings();
    let wish = ChangeSettings { clone_rate: Some(1 << 20), ..ChangeSettings::default() };
    let asked = cell.send(wish);
    assert!(cell.answer(asked).is_none(), "it is not logged yet");
    assert_eq!(cell.settings(), before);
    cell.commit();
    let expected = CellConfig { clone_rate: 1 << 20, ..before };
    match cell.answer(asked) {
        Some(Ok(Response::ChangeSettings(ChangeSettingsAnswer { config }))) => {
            assert_eq!(**config, expected);
        }
        other => panic!("{other:?}"),
    }
    let wish = ChangeSettings { clones_per_server: Some(7), ..ChangeSettings::default() };
    cell.ask(wish).expect("changes");
    assert_eq!(cell.settings(), CellConfig { clones_per_server: 7, ..expected });
}

#[test]
fn a_cell_that_was_founded_without_limits_for_clones_has_those_of_a_new_one() {
    let old = CellConfig {
        clone_rate: 0,
        clones_per_server: 0,
        clones_per_cell: 0,
        ..CellConfig::small()
    };
    assert_eq!(old.completed(), CellConfig::small());
    let unsettled = CellConfig { settle_rate: 0, settle_after_ms: 0, ..CellConfig::small() };
    assert_eq!(unsettled.completed(), CellConfig::small(), "nor before streams were settled");
    let cursors = CellConfig { cursors_kept_ms: 0, ..CellConfig::small() };
    assert_eq!(cursors.completed(), CellConfig::small(), "nor while it was no setting");
    let chosen = CellConfig { clone_rate: 0, settle_rate: 0, ..CellConfig::small() };
    assert_eq!(chosen.clone().completed(), chosen, "no limit is a choice");
}

#[test]
fn of_a_change_that_does_not_fit_nothing_is_done() {
    let mut cell = Cell::new();
    let before = cell.settings();
    let wish = ChangeSettings {
        clone_rate: Some(1 << 20),
        clones_per_server: Some(0),
        ..ChangeSettings::default()
    };
    assert_eq!(cell.code(wish), Some(ErrorCode::Invalid));
    assert_eq!(cell.settings(), before);
}
