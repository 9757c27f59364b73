//! Paths of the many files that one request tells of. A file's name stands in its directory alone,
//! and is searched there.
//!
//! - FP1: one request passes so many names at most, and none of them twice.
//! - FP2: whose name was not among them is called by its directory and its number, and said to be:
//!   whoever has to know its name asks for that one alone (`State::path_of`).

use crate::state::State;
use cairn_types::EntryId;
use std::collections::BTreeMap;

/// Names that a request passes.
const NAMES_MAX: usize = 16 * 1024;

/// What a file is called.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FilePath {
    /// Its path; or that of its directory, with its number.
    pub text: String,
    /// It is not its name that stands at the end (FP2).
    pub unnamed: bool,
}

/// How far a directory was searched.
#[derive(Debug, Default)]
struct SearchedDirectory {
    /// Names up to this one were passed.
    after: String,
    whole: bool,
}

/// Finds them.
#[derive(Debug)]
pub struct FilePaths<'a> {
    state: &'a State,
    /// Names that may be passed yet.
    left: usize,
    searched: BTreeMap<EntryId, SearchedDirectory>,
    /// Names that were passed.
    passed: BTreeMap<EntryId, String>,
}

impl<'a> FilePaths<'a> {
    /// One request's.
    #[must_use]
    pub fn new(state: &'a State) -> Self {
        Self { state, left: NAMES_MAX, searched: BTreeMap::new(), passed: BTreeMap::new() }
    }

    /// What a file is called; nothing where it is gone, or its record cannot be read.
    pub fn of(&mut self, file: EntryId) -> FilePath {
        let Some(parent) = self.state.entry(file).map(|entry| entry.parent) else {
            return FilePath::default();
        };
        let above = self.state.path_of(parent).unwrap_or_default();
        let above = above.trim_end_matches('/');
        match self.name(file, parent) {
            Some(name) => FilePath { text: format!("{above}/{name}"), unnamed: false },
            None => FilePath { text: format!("{above}/(file {})", file.short()), unnamed: true },
        }
    }

    fn name(&mut self, file: EntryId, parent: EntryId) -> Option<String> {
        if let Some(name) = self.passed.get(&file) {
            return Some(name.clone());
        }
        let searched = self.searched.entry(parent).or_default();
        if searched.whole {
            return None;
        }
        let after = std::mem::take(&mut searched.after);
        for (name, child, _) in self.state.children(parent, &after) {
            assert!(self.passed.len() <= NAMES_MAX, "no more are passed (FP1)");
            if self.left == 0 {
                return None;
            }
            self.left -= 1;
            searched.after.clone_from(&name);
            self.passed.insert(child, name);
            if child == file {
                return self.passed.get(&file).cloned();
            }
        }
        searched.whole = true;
        None
    }
}

#[cfg(test)]
mod tests {
    use super::{FilePath, FilePaths};
    use crate::record::{AddDirectories, AddFile, NewDirectory, Record};
    use crate::state::{ROOT, State};
    use cairn_types::{EntryId, LogIndex, MutationName, MutationNumber, SessionId, Term};

    const DIRECTORY: EntryId = EntryId::new(90);

    /// Files a, b, c… of that many, in a directory; the higher the number the lower the name.
    fn files(count: u64) -> State {
        let mut state = State::default();
        let named = |number| MutationName {
            session: SessionId::new(3),
            number: MutationNumber::new(number),
        };
        let directories = vec![NewDirectory { id: DIRECTORY, name: "d".to_owned() }];
        let mutation = named(1);
        let base = AddDirectories::default();
        let mut records: Vec<Record> =
            vec![AddDirectories { mutation, parent: ROOT, directories, ..base }.into()];
        for number in 0..count {
            let name = format!("f{:03}", count - number);
            let (mutation, id) = (named(number + 2), EntryId::new(100 + number));
            let base = AddFile::default();
            records.push(AddFile { mutation, parent: DIRECTORY, name, id, ..base }.into());
        }
        for (index, record) in (1..).zip(&records) {
            state.apply(LogIndex::new(index), Term::new(1), record);
        }
        state
    }

    #[test]
    fn one_request_passes_each_name_once_and_so_many_at_most() {
        let state = files(100);
        let mut paths = FilePaths { left: 60, ..FilePaths::new(&state) };
        let named = |text: &str| FilePath { text: text.to_owned(), unnamed: false };
        assert_eq!(paths.of(EntryId::new(150)), named("/d/f050"));
        assert_eq!(paths.left, 10);
        assert_eq!(paths.of(EntryId::new(190)), named("/d/f010"), "it was passed (FP1)");
        assert_eq!(paths.of(EntryId::new(140)), named("/d/f060"));
        assert_eq!(paths.left, 0);
        let other = paths.of(EntryId::new(139));
        assert!(other.unnamed && other.text.starts_with("/d/(file "), "FP2: {other:?}");
        assert_eq!(paths.of(EntryId::new(199)), named("/d/f001"), "it is known all the same");
        assert_eq!(paths.of(EntryId::new(777)), FilePath::default(), "it is gone");
    }
}
