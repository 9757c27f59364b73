//! One Rust file as the rules see it: text, comments, tokens and syntax, tests apart.
//!
//! ```text
//!   text ──► tokens ──► whole syntax
//!     │         └─ less `#[cfg(test)]` items ──► code: what runs
//!     └─ less tokens ──► comments
//! ```

use anyhow::{Context, Result};
use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};
use std::ops::RangeInclusive;
use std::path::Path;

/// A file, read and split.
pub(crate) struct Source {
    /// From the root, with `/`.
    pub(crate) path: String,
    /// As it is.
    pub(crate) text: String,
    /// The text's lines and columns, with all that the compiler reads blanked.
    pub(crate) comments: String,
    /// All tokens in a row, those of groups too.
    pub(crate) tokens: Vec<Token>,
    /// The whole file's items.
    pub(crate) whole: syn::File,
    /// Those that are no tests.
    pub(crate) code: syn::File,
    test_lines: Vec<RangeInclusive<usize>>,
    /// The modules that it declares for tests alone.
    test_modules: Vec<String>,
}

/// One token of code.
pub(crate) struct Token {
    pub(crate) text: String,
    /// From 1.
    pub(crate) line: usize,
}

impl Source {
    /// Splits a text.
    ///
    /// # Errors
    /// When it is not Rust.
    pub(crate) fn new(path: &str, text: &str) -> Result<Self> {
        let stream: TokenStream = text.parse().map_err(|error| anyhow::anyhow!("{error}"))?;
        let mut source = Self {
            path: path.to_owned(),
            text: text.to_owned(),
            comments: String::new(),
            tokens: Vec::new(),
            whole: syn::parse2(stream.clone())?,
            code: syn::parse_str("")?,
            test_lines: Vec::new(),
            test_modules: Vec::new(),
        };
        let mut comments = text.as_bytes().to_vec();
        source.read_tokens(stream.clone(), &mut comments);
        source.comments = String::from_utf8(comments).context("tokens end within a character")?;
        source.code = syn::parse2(source.without_tests(stream))?;
        if is_test_path(path) {
            source.become_test();
        }
        Ok(source)
    }

    /// Takes the whole file for a test.
    fn become_test(&mut self) {
        self.test_lines = vec![1..=self.text.lines().count()];
        self.code.items.clear();
    }

    /// Whether a line (from 1) is test code.
    pub(crate) fn is_test(&self, line: usize) -> bool {
        self.test_lines.iter().any(|lines| lines.contains(&line))
    }

    /// How many lines are no tests.
    pub(crate) fn code_line_count(&self) -> usize {
        (1..=self.text.lines().count()).filter(|line| !self.is_test(*line)).count()
    }

    /// Gathers the tokens, and blanks them in `comments`.
    fn read_tokens(&mut self, stream: TokenStream, comments: &mut [u8]) {
        for tree in stream {
            let span = tree.span();
            let at = span.byte_range();
            if self.text[at.clone()].starts_with("//") || self.text[at.clone()].starts_with("/*") {
                continue; // A doc comment, which the compiler takes for `#[doc = "…"]`.
            }
            if let TokenTree::Group(group) = tree {
                self.read_token(group.span_open(), comments);
                self.read_tokens(group.stream(), comments);
                self.read_token(group.span_close(), comments);
            } else {
                self.read_token(span, comments);
            }
        }
    }

    fn read_token(&mut self, span: proc_macro2::Span, comments: &mut [u8]) {
        let at = span.byte_range();
        self.tokens.push(Token { text: self.text[at.clone()].to_owned(), line: span.start().line });
        for byte in comments[at].iter_mut().filter(|byte| **byte != b'\n') {
            *byte = b' ';
        }
    }

    /// Leaves out each item under `#[cfg(test)]`, and notes its lines.
    fn without_tests(&mut self, stream: TokenStream) -> TokenStream {
        let mut kept: Vec<TokenTree> = Vec::new();
        let mut trees = stream.into_iter();
        while let Some(tree) = trees.next() {
            let hash = |tree: Option<&TokenTree>| tree.is_some_and(|tree| tree.to_string() == "#");
            match tree {
                TokenTree::Group(group) if hash(kept.last()) && is_cfg_test(&group) => {
                    let first = kept.pop().map_or(1, |hash| hash.span().start().line);
                    while kept.len() > 1 && hash(kept.get(kept.len() - 2)) {
                        kept.truncate(kept.len() - 2); // Attributes and docs of the same item.
                    }
                    let item: Vec<TokenTree> = item(&mut trees);
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

    /// The path that the files of its child module `name` begin with.
    fn child(&self, name: &str) -> String {
        let stem = self.path.strip_suffix(".rs").unwrap_or(&self.path);
        let (folder, file) = stem.rsplit_once('/').unwrap_or(("", stem));
        let folder = if matches!(file, "mod" | "lib" | "main") { folder } else { stem };
        format!("{folder}/{name}")
    }
}

fn is_cfg_test(group: &Group) -> bool {
    group.delimiter() == Delimiter::Bracket
        && group.stream().to_string().replace(' ', "") == "cfg(test)"
}

/// The trees of the item that comes next: to its `;` or its braces.
fn item(trees: &mut impl Iterator<Item = TokenTree>) -> Vec<TokenTree> {
    let mut item = Vec::new();
    for tree in trees {
        let ends = match &tree {
            TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
            TokenTree::Punct(punct) => punct.as_char() == ';',
            _ => false,
        };
        item.push(tree);
        if ends {
            break;
        }
    }
    item
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
        let is_part = |test: &String| {
            let rest = source.path.strip_prefix(test.as_str());
            rest.is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
        };
        if tests.iter().any(is_part) {
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

    #[test]
    fn comments_are_told_from_code_and_strings() {
        let text = "//! a\nlet_it!(\"// no\"); // é\n/* b */ x! { '{' /* c */ }\n";
        let comments = source("a.rs", text).comments;
        let words: Vec<&str> = comments.split_whitespace().collect();
        assert_eq!(words, ["//!", "a", "//", "é", "/*", "b", "*/", "/*", "c", "*/"]);
    }

    #[test]
    fn items_for_tests_are_told_from_code_wherever_they_stand() {
        let text = "//! a\nfn a() {}\n/// b\n#[cfg(test)]\n#[allow(b)]\nmod tests {\n    c!();\n}\n\
                    impl D {\n    #[cfg(test)]\n    fn e() {\n    }\n}\n";
        let source = source("crates/x/src/a.rs", text);
        let tests: Vec<usize> = (1..=13).filter(|line| source.is_test(*line)).collect();
        assert_eq!(tests, [4, 5, 6, 7, 8, 10, 11, 12]);
        assert_eq!((source.code.items.len(), source.code_line_count()), (2, 5));
    }

    #[test]
    fn files_of_tests_are_tests_from_the_first_line() {
        for path in ["crates/x/tests/a.rs", "crates/x/src/tests.rs", "crates/x/src/a_test.rs"] {
            assert!(source(path, "//! a\n").is_test(1));
        }
        let parent = source("crates/x/src/lib.rs", "#[cfg(test)]\nmod world;\nmod b;\n");
        assert_eq!(parent.child(&parent.test_modules[0]), "crates/x/src/world");
        assert!(!source("crates/x/src/a.rs", "//! a\n").is_test(1));
    }
}
