//! One Rust file as the rules see it: its text, and what of it is no test.
//!
//! ```text
//!   text ──► tokens ──► less `#[cfg(test)]` items ──► syntax, words
//! ```

use anyhow::{Context, Result, anyhow};
use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};
use std::ops::RangeInclusive;
use std::path::Path;

/// A file, read and split.
pub(crate) struct Source {
    /// From the root, with `/`.
    pub(crate) path: String,
    /// As it is.
    pub(crate) text: String,
    /// The items that are no tests.
    pub(crate) code: syn::File,
    /// Their names and keywords in order, each with its line.
    pub(crate) words: Vec<(String, usize)>,
    test_lines: Vec<RangeInclusive<usize>>,
    /// The modules that it declares for tests alone.
    test_modules: Vec<String>,
}

impl Source {
    /// Splits a text.
    ///
    /// # Errors
    /// When it is not Rust.
    pub(crate) fn new(path: &str, text: &str) -> Result<Self> {
        let mut source = Self {
            path: path.to_owned(),
            text: text.to_owned(),
            code: syn::parse_str("")?,
            words: Vec::new(),
            test_lines: Vec::new(),
            test_modules: Vec::new(),
        };
        let tokens: TokenStream = text.parse().map_err(|error| anyhow!("{error}"))?;
        let tokens = source.without_tests(tokens);
        read_words(tokens.clone(), &mut source.words);
        source.code = syn::parse2(tokens)?;
        if is_test_path(path) {
            source.become_test();
        }
        Ok(source)
    }

    /// Takes the whole file for a test.
    fn become_test(&mut self) {
        self.test_lines = vec![1..=self.text.lines().count()];
        self.code.items.clear();
        self.words.clear();
    }

    /// Its lines, from 1, and whether each is test code.
    pub(crate) fn lines(&self) -> impl Iterator<Item = (usize, &str, bool)> {
        let is_test = |at| self.test_lines.iter().any(|lines| lines.contains(&at));
        (1..).zip(self.text.lines()).map(move |(at, line)| (at, line, is_test(at)))
    }

    /// How many lines are no tests.
    pub(crate) fn code_line_count(&self) -> usize {
        self.lines().filter(|(.., is_test)| !is_test).count()
    }

    /// Leaves out each item under `#[cfg(test)]`, and notes its lines.
    fn without_tests(&mut self, tokens: TokenStream) -> TokenStream {
        let mut kept: Vec<TokenTree> = Vec::new();
        let mut trees = tokens.into_iter();
        let is_hash = |tree: Option<&TokenTree>| tree.is_some_and(|tree| tree.to_string() == "#");
        while let Some(tree) = trees.next() {
            match tree {
                TokenTree::Group(group) if is_hash(kept.last()) && is_cfg_test(&group) => {
                    let first = group.span().start().line;
                    kept.pop();
                    while kept.len() > 1 && is_hash(kept.get(kept.len() - 2)) {
                        kept.truncate(kept.len() - 2); // Attributes and docs of the same item.
                    }
                    let item = next_item(&mut trees);
                    let last = item.last().map_or(first, |tree| tree.span().end().line);
                    self.test_lines.push(first..=last);
                    if let [.., word, name, _] = item.as_slice()
                        && word.to_string() == "mod"
                    {
                        self.test_modules.push(name.to_string());
                    }
                }
                TokenTree::Group(group) => {
                    let inner = self.without_tests(group.stream());
                    let mut rest = Group::new(group.delimiter(), inner);
                    rest.set_span(group.span());
                    kept.push(TokenTree::Group(rest));
                }
                other => kept.push(other),
            }
        }
        kept.into_iter().collect()
    }

    /// How the paths of its child module `name` begin.
    fn child(&self, name: &str) -> String {
        let stem = self.path.trim_end_matches(".rs");
        let (folder, file) = stem.rsplit_once('/').unwrap_or(("", stem));
        let folder = if matches!(file, "mod" | "lib" | "main") { folder } else { stem };
        format!("{folder}/{name}")
    }
}

fn is_cfg_test(group: &Group) -> bool {
    group.delimiter() == Delimiter::Bracket
        && group.stream().to_string().replace(' ', "") == "cfg(test)"
}

/// The item that comes next: to its `;` or its braces.
fn next_item(trees: &mut impl Iterator<Item = TokenTree>) -> Vec<TokenTree> {
    let mut item = Vec::new();
    for tree in trees {
        let ends = match &tree {
            TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
            other => other.to_string() == ";",
        };
        item.push(tree);
        if ends {
            break;
        }
    }
    item
}

fn read_words(tokens: TokenStream, words: &mut Vec<(String, usize)>) {
    for tree in tokens {
        match tree {
            TokenTree::Ident(word) => words.push((word.to_string(), word.span().start().line)),
            TokenTree::Group(group) => read_words(group.stream(), words),
            _ => {}
        }
    }
}

/// Whether a file is nothing but tests: of a `tests` folder, or named `tests.rs`, `…_test.rs`,
/// `…_tests.rs`.
fn is_test_path(path: &str) -> bool {
    path.contains("/tests/")
        || ["/tests.rs", "_test.rs", "_tests.rs"].iter().any(|end| path.ends_with(end))
}

/// Every Rust file of the workspace, in order of paths.
///
/// # Errors
/// When one cannot be read, or is not Rust.
pub(crate) fn read_all(root: &Path) -> Result<Vec<Source>> {
    let mut sources = Vec::new();
    for folder in ["crates", "xtask"] {
        read_folder(root, folder, &mut sources)?;
    }
    let children = |source: &Source| {
        source.test_modules.iter().map(|name| source.child(name)).collect::<Vec<_>>()
    };
    let tests: Vec<String> = sources.iter().flat_map(children).collect();
    for source in &mut sources {
        let rest = |test: &String| source.path.strip_prefix(test.as_str());
        let is_part = |rest: &str| rest == ".rs" || rest.starts_with('/');
        if tests.iter().filter_map(rest).any(is_part) {
            source.become_test();
        }
    }
    Ok(sources)
}

fn read_folder(root: &Path, folder: &str, sources: &mut Vec<Source>) -> Result<()> {
    let entries = std::fs::read_dir(root.join(folder)).with_context(|| folder.to_owned())?;
    let mut entries = entries.collect::<Result<Vec<_>, _>>()?;
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        let path = format!("{folder}/{}", entry.file_name().to_string_lossy());
        if entry.file_type()?.is_dir() {
            read_folder(root, &path, sources)?;
        } else if path.ends_with(".rs") {
            let text = std::fs::read_to_string(entry.path()).with_context(|| path.clone())?;
            sources.push(Source::new(&path, &text).with_context(|| path.clone())?);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::Source;

    fn source(path: &str, text: &str) -> Source {
        Source::new(path, text).expect("Rust")
    }

    fn test_lines(source: &Source) -> Vec<usize> {
        source.lines().filter(|(.., is_test)| *is_test).map(|(at, ..)| at).collect()
    }

    #[test]
    fn items_for_tests_are_told_from_code_wherever_they_stand() {
        let text = "//! a\nfn a() {}\n/// b\n#[cfg(test)]\n#[allow(b)]\nmod tests {\n    c!();\n}\n\
                    impl D {\n    #[cfg(test)]\n    fn e() {\n    }\n}\n";
        let source = source("crates/x/src/a.rs", text);
        assert_eq!(test_lines(&source), [4, 5, 6, 7, 8, 10, 11, 12]);
        assert_eq!((source.code.items.len(), source.code_line_count()), (2, 5));
        assert!(source.words.iter().all(|(word, _)| word != "c" && word != "e"));
    }

    #[test]
    fn files_of_tests_are_tests_from_the_first_line() {
        for path in ["crates/x/tests/a.rs", "crates/x/src/tests.rs", "crates/x/src/a_test.rs"] {
            assert_eq!(test_lines(&source(path, "//! a\n")), [1]);
        }
        assert_eq!(test_lines(&source("crates/x/src/a.rs", "//! a\n")), [0; 0]);
        let parent = source("crates/x/src/lib.rs", "#[cfg(test)]\nmod world;\nmod b;\n");
        assert_eq!(parent.child(&parent.test_modules[0]), "crates/x/src/world");
    }
}
