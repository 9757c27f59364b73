//! FindMatchingFiles: names that match a pattern, below a directory, page by page (Table 4).
//!
//! Paths come in the order of their names, level by level: `/a`, `/a/b`, `/a-b`. A page also ends
//! when it has looked at many names, or compared many characters, so that one request cannot hold
//! the master up, and when it is large, so that it fits a message. What is in a directory that the
//! caller may not read and search is left out.

use crate::permissions::Asker;
use crate::reads::page_size;
use crate::state::{Children, State};
use cairn_protocol::{ErrorCode, Failure, Find, FindAnswer, Found, MESSAGE_SIZE_MAX};
use cairn_types::wire::Message;
use cairn_types::{EntryId, EntryKind, NAME_SIZE_MAX, NamePattern, PATH_SIZE_MAX};

/// Names looked at for one page.
const VISIT_COUNT_MAX: usize = 10_000;
/// Characters of a pattern are compared with characters of names so often for one page.
const STEPS_MAX: usize = 8 << 20;
/// Bytes of a pattern: a class of two for each character of a name.
const PATTERN_SIZE_MAX: usize = 4 * NAME_SIZE_MAX;
/// A page of this many bytes is full: a thousand long paths would not fit a message.
const PAGE_BYTES_MAX: usize = 1 << 20;

// The last result may go beyond, and the path to resume at comes on top; a hidden path is longer
// than any other by its hidden name.
const _: () = assert!(PAGE_BYTES_MAX + 4 * PATH_SIZE_MAX < MESSAGE_SIZE_MAX as usize);

/// A directory on the way down, and its names that were not seen yet.
struct Level<'a> {
    directory: EntryId,
    ahead: Children<'a>,
}

impl<'a> Level<'a> {
    fn new(state: &'a State, directory: EntryId) -> Self {
        Self { directory, ahead: state.children(directory, "") }
    }
}

pub(crate) fn find(asker: Asker<'_>, find: &Find) -> Result<FindAnswer, Failure> {
    let state = asker.state;
    let root = state.resolve(&find.root)?;
    if find.pattern.len() > PATTERN_SIZE_MAX {
        let line = format!("find: a pattern has at most {PATTERN_SIZE_MAX} bytes");
        return Err(Failure::refused(ErrorCode::Invalid, line));
    }
    let (pattern, mut steps) = (NamePattern::new(&find.pattern), 0);
    let mut path: Vec<String> = Vec::new();
    let mut levels = resume(asker, root, find, &mut path)?;
    let prefix = if find.root.is_root() { "" } else { find.root.as_str() };
    let limit = page_size(find.limit);
    let mut answer = FindAnswer::default();
    let mut page_bytes = 0;
    for _ in 0..VISIT_COUNT_MAX {
        let Some((name, id)) = next(asker, &mut levels, &mut path) else {
            answer.resume = String::new();
            return Ok(answer);
        };
        let full = || format!("{prefix}/{}", path.join("/"));
        steps += name.len() * find.pattern.len();
        if pattern.matches(&name)
            && let Some(entry) = state.describe(id, &name)
        {
            let found = Found { path: full(), entry };
            page_bytes += found.to_bytes().len();
            answer.found.push(found);
        }
        if answer.found.len() == limit || page_bytes >= PAGE_BYTES_MAX || steps >= STEPS_MAX {
            break;
        }
    }
    answer.resume = format!("{prefix}/{}", path.join("/"));
    Ok(answer)
}

/// The levels as they stood when the last page ended at `find.after`.
fn resume<'a>(
    asker: Asker<'a>,
    root: EntryId,
    find: &Find,
    path: &mut Vec<String>,
) -> Result<Vec<Level<'a>>, Failure> {
    let state = asker.state;
    let mut levels = vec![Level::new(state, root)];
    if find.after.is_empty() {
        return Ok(levels);
    }
    // Not read as a path: below the hidden root paths are longer than a request may name.
    let prefix = if find.root.is_root() { "" } else { find.root.as_str() };
    let below = find.after.strip_prefix(prefix).filter(|below| below.starts_with('/'));
    let below = below.ok_or_else(|| {
        let line = format!("find: what it shall go on after is not a path below {}", find.root);
        Failure::refused(ErrorCode::Invalid, line)
    })?;
    for name in below.split('/').filter(|name| !name.is_empty()) {
        let Some(level) = levels.last_mut() else { break };
        level.ahead = state.children(level.directory, name);
        path.push(name.to_owned());
        // What was seen last may be gone by now; then its siblings come next.
        let child = state.child(level.directory, name).filter(|child| asker.may_look_into(*child));
        let Some(child) = child else { break };
        levels.push(Level::new(state, child));
    }
    Ok(levels)
}

/// The next name in order; `path` leads to it from the root of the search.
fn next<'a>(
    asker: Asker<'a>,
    levels: &mut Vec<Level<'a>>,
    path: &mut Vec<String>,
) -> Option<(String, EntryId)> {
    loop {
        let depth = levels.len();
        let level = levels.last_mut()?;
        path.truncate(depth - 1);
        assert_eq!(path.len() + 1, depth, "a name leads to each level but the first");
        let Some((name, id, kind)) = level.ahead.next() else {
            levels.pop();
            continue;
        };
        path.push(name.clone());
        if kind == EntryKind::Directory && asker.may_look_into(id) {
            levels.push(Level::new(asker.state, id));
        }
        return Some((name, id));
    }
}

#[cfg(test)]
mod tests {
    use super::{Asker, PATTERN_SIZE_MAX, STEPS_MAX};
    use crate::record::{AddDirectories, HideEntry, NewDirectory, Record};
    use crate::state::{ROOT, State};
    use cairn_protocol::{ErrorCode, Failure, Find, FindAnswer, MESSAGE_SIZE_MAX};
    use cairn_types::wire::Message;
    use cairn_types::{CellPath, EntryId, LogIndex, MutationName, MutationNumber, SessionId, Term};
    use std::sync::Arc;

    fn find(state: &State, find: &Find) -> Result<FindAnswer, Failure> {
        super::find(Asker { state, who: &Arc::default() }, find)
    }

    /// A state with these directories.
    fn state(paths: &[&[&str]]) -> State {
        let mut state = State::default();
        for (at, names) in paths.iter().enumerate() {
            let at = at as u64 + 1;
            let directories = names.iter().enumerate().map(|(depth, name)| NewDirectory {
                id: EntryId::new(1000 * at + depth as u64),
                name: (*name).to_owned(),
            });
            let record = Record::from(AddDirectories {
                mutation: MutationName {
                    session: SessionId::new(1),
                    number: MutationNumber::new(at),
                },
                parent: ROOT,
                directories: directories.collect(),
                existing_is_fine: true,
                ..Default::default()
            });
            state.apply(LogIndex::new(at), Term::new(1), &record);
        }
        state
    }

    #[test]
    fn pages_of_any_size_together_give_every_match_once_in_order() {
        let state = state(&[&["a", "b", "x1"], &["a-b", "x2"], &["a", "x0"], &["x3"], &["c"]]);
        for limit in 1..6 {
            let mut found = Vec::new();
            let mut after = String::new();
            loop {
                let ask = Find {
                    root: CellPath::root(),
                    pattern: "x*".to_owned(),
                    after: after.clone(),
                    limit,
                };
                let page = find(&state, &ask).expect("the root is there");
                assert!(page.found.len() <= limit as usize);
                found.extend(page.found.into_iter().map(|found| found.path));
                if page.resume.is_empty() {
                    break;
                }
                after = page.resume;
            }
            assert_eq!(found, ["/a/b/x1", "/a/x0", "/a-b/x2", "/x3"]);
        }
    }

    #[test]
    fn a_costly_pattern_ends_pages_early_and_one_that_is_too_long_is_refused() {
        let names: Vec<String> = (0..300).map(|at| format!("{at:0200}x")).collect();
        let paths: Vec<[&str; 1]> = names.iter().map(|name| [name.as_str()]).collect();
        let paths: Vec<&[&str]> = paths.iter().map(<[&str; 1]>::as_slice).collect();
        let state = state(&paths);
        let ask = |pattern: String, after: String| {
            find(&state, &Find { root: CellPath::root(), pattern, after, limit: 1000 })
        };
        let costly = format!("*[{}]", "x".repeat(PATTERN_SIZE_MAX - 3));
        let (mut found, mut after, mut pages) = (0, String::new(), 0);
        loop {
            let page = ask(costly.clone(), after).expect("a pattern");
            (found, pages) = (found + page.found.len(), pages + 1);
            after = page.resume;
            if after.is_empty() {
                break;
            }
        }
        assert_eq!(found, 300);
        assert!(pages > 300 * 200 * PATTERN_SIZE_MAX / STEPS_MAX, "{pages} pages");
        let refused = ask("x".repeat(PATTERN_SIZE_MAX + 1), String::new());
        assert_eq!(refused.map_err(|failure| failure.code), Err(ErrorCode::Invalid));
    }

    #[test]
    fn a_search_goes_on_behind_a_name_that_is_gone_meanwhile() {
        let state = state(&[&["a", "x1"], &["b", "x2"]]);
        let ask = Find {
            root: CellPath::root(),
            pattern: "x*".to_owned(),
            after: "/a/gone/deep".to_owned(),
            limit: 9,
        };
        let page = find(&state, &ask).expect("the root is there");
        let found: Vec<String> = page.found.into_iter().map(|found| found.path).collect();
        assert_eq!(found, ["/a/x1", "/b/x2"]);
    }

    /// Every path found, page by page.
    fn all(state: &State, root: &str) -> Vec<String> {
        let mut found = Vec::new();
        let mut after = String::new();
        loop {
            let root = CellPath::parse(root).expect("a path");
            let ask = Find { root, after, ..Find::default() };
            let page = find(state, &ask).expect("the root is there");
            assert!(page.to_bytes().len() < MESSAGE_SIZE_MAX as usize / 2);
            found.extend(page.found.into_iter().map(|found| found.path));
            if page.resume.is_empty() {
                return found;
            }
            after = page.resume;
        }
    }

    #[test]
    fn a_thousand_of_the_longest_paths_come_in_pages_that_fit_a_message() {
        let name = "n".repeat(255);
        let last: Vec<String> = (0..1000).map(|at| format!("{at:0240}")).collect();
        let paths: Vec<Vec<&str>> = last
            .iter()
            .map(|last| {
                let mut path = vec![name.as_str(); 15];
                path.push(last);
                path
            })
            .collect();
        let paths: Vec<&[&str]> = paths.iter().map(Vec::as_slice).collect();
        assert_eq!(all(&state(&paths), "/").len(), 15 + 1000);
    }

    #[test]
    fn a_search_goes_on_below_a_hidden_path_that_is_too_long_to_be_asked_for() {
        let name = "n".repeat(255);
        let mut state = state(&[&vec![name.as_str(); 15], &[&name, "x1"], &[&name, "x2"]]);
        let hide = Record::from(HideEntry {
            mutation: MutationName { session: SessionId::new(1), number: MutationNumber::new(9) },
            entry: state.child(ROOT, &name).expect("made"),
            parent: ROOT,
            name,
            recursive: true,
            ..Default::default()
        });
        state.apply(LogIndex::new(9), Term::new(1), &hide);
        let whole = all(&state, "/.deleted");
        assert_eq!(whole.len(), 15 + 2);
        for after in whole.iter().filter(|path| path.len() > 3000) {
            let root = CellPath::parse("/.deleted").expect("a path");
            let ask = Find { root, after: after.clone(), limit: 1, ..Find::default() };
            find(&state, &ask).expect("any path that was answered can be gone on after");
        }
    }
}
