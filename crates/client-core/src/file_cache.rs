//! What is kept of every file, bounded where nothing would be lost by forgetting.

use crate::file_state::FileState;
use crate::locations::Locations;
use cairn_types::EntryId;
use std::collections::BTreeMap;

/// Files that are remembered without being in use.
const FILES_MAX: usize = 4096;

/// The files that this client knows by their ids.
#[derive(Debug, Default)]
pub(crate) struct FileCache {
    files: BTreeMap<EntryId, Box<FileState>>,
}

impl FileCache {
    /// What is kept of a file; from now on something is.
    pub(crate) fn file(&mut self, file: EntryId) -> &mut FileState {
        if self.files.len() >= FILES_MAX && !self.files.contains_key(&file) {
            let idle = self.files.iter().find(|(_, state)| state.is_idle()).map(|(id, _)| *id);
            if let Some(idle) = idle {
                self.files.remove(&idle);
            }
        }
        self.files.entry(file).or_default()
    }

    /// A file is opened: what was known of its locations no longer counts (§2.7.1).
    pub(crate) fn opened(&mut self, file: EntryId) -> &mut FileState {
        let state = self.file(file);
        state.locations = Locations::default();
        state.opens += 1;
        state
    }

    /// A file is closed; after the last time nothing is kept of it.
    pub(crate) fn closed(&mut self, file: EntryId) {
        if let Some(state) = self.files.get_mut(&file) {
            state.opens = state.opens.saturating_sub(1);
            if state.opens == 0 {
                self.files.remove(&file);
            }
        }
    }
}
