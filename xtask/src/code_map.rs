//! `cargo xtask map`: the code map in ARCHITECTURE.md, a line for each file and each format's page.
//!
//! ```text
//!   ## The code map
//!   <!-- map: … -->      lowest floor first; a file's line is the first sentence of its `//!`
//!   <!-- end of map -->
//! ```
//! Written from the files themselves and checked by tidy, so it cannot fall behind.

use crate::tidy::{Source, crates_in_order, read_all};
use crate::workspace::root;
use anyhow::{Context, Result};
use std::fmt::Write;
use std::path::Path;

/// The page that holds the map, from the root.
pub(crate) const MAP_PATH: &str = "ARCHITECTURE.md";
const BEGIN: &str = "<!-- map: written by `cargo xtask map`, do not edit -->\n";
const END: &str = "<!-- end of map -->\n";
const FORMATS: &str = "docs/formats";

/// Writes the map into the page.
///
/// # Errors
/// When the page cannot be read or written, or has no place for the map.
pub(crate) fn write() -> Result<()> {
    let root = root();
    std::fs::write(root.join(MAP_PATH), page(&root, &read_all(&root)?)?).context(MAP_PATH)
}

/// What the page must be: as it is, with the map as the files have it.
///
/// # Errors
/// When a page cannot be read, or has no place for the map.
pub(crate) fn page(root: &Path, sources: &[Source]) -> Result<String> {
    let page = std::fs::read_to_string(root.join(MAP_PATH)).context(MAP_PATH)?;
    insert(&page, &map(root, sources)?)
        .with_context(|| format!("{MAP_PATH} lacks the line {BEGIN:?} or {END:?}"))
}

fn insert(page: &str, map: &str) -> Option<String> {
    let (before, rest) = page.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{BEGIN}{map}{END}{after}"))
}

fn map(root: &Path, sources: &[Source]) -> Result<String> {
    let mut out = String::new();
    for name in crates_in_order() {
        let folder = match name {
            "cairn-xtask" => "xtask/".to_owned(),
            name => format!("crates/{}/", name.strip_prefix("cairn-").unwrap_or(name)),
        };
        let files: Vec<&Source> =
            sources.iter().filter(|source| source.path.starts_with(&folder)).collect();
        let head = files.iter().find(|source| is_crate_root(&source.path));
        let what = head.map(|source| first_sentence(&source.text)).unwrap_or_default();
        writeln!(out, "\n### {}\n\n{what}.", folder.trim_end_matches('/'))?;
        if files.len() > 1 {
            out.push('\n');
        }
        for source in files.iter().filter(|source| !is_crate_root(&source.path)) {
            let path = source.path.strip_prefix(&folder).unwrap_or(&source.path);
            let path = path.strip_prefix("src/").unwrap_or(path);
            writeln!(out, "- `{path}`: {}", first_sentence(&source.text))?;
        }
    }
    out.push_str(&pages(root)?);
    Ok(out)
}

fn is_crate_root(path: &str) -> bool {
    path.ends_with("/src/lib.rs") || path.ends_with("/src/main.rs")
}

/// The first sentence of a file's opening comment, on one line.
fn first_sentence(text: &str) -> String {
    let paragraph: Vec<&str> = text
        .lines()
        .map_while(|line| line.strip_prefix("//!"))
        .map(str::trim)
        .take_while(|line| !line.is_empty())
        .collect();
    let paragraph = paragraph.join(" ");
    let sentence = paragraph.split_once(". ").map_or(paragraph.as_str(), |(first, _)| first);
    without_links(sentence.trim_end_matches(['.', ':']))
}

/// Links that only rustdoc can follow, ``[`Disk`](cairn_env::Disk)``, as the words they show.
fn without_links(text: &str) -> String {
    let mut parts = text.split("[`");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (word, rest) = part.split_once("`]").unwrap_or((part, ""));
        let target = rest.strip_prefix('(').and_then(|rest| rest.split_once(')'));
        out.push('`');
        out.push_str(word);
        out.push('`');
        out.push_str(target.map_or(rest, |(_, after)| after));
    }
    out
}

/// A line for each page of a format.
fn pages(root: &Path) -> Result<String> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(root.join(FORMATS)).context(FORMATS)? {
        names.push(entry?.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    let mut out =
        format!("\n### {FORMATS}\n\nBytes at rest and in flight, a page for each format.\n\n");
    for name in names {
        let path = format!("{FORMATS}/{name}");
        let text = std::fs::read_to_string(root.join(&path)).with_context(|| path.clone())?;
        let first = text.lines().next().unwrap_or_default().trim_start_matches(['#', '/', ' ']);
        writeln!(out, "- [{name}]({path}): {}", first.trim_end_matches('.'))?;
    }
    out.push('\n');
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::{BEGIN, END, first_sentence, insert, without_links};

    #[test]
    fn a_files_line_is_its_first_sentence_even_over_two_lines() {
        let text = "//! Leases: who orders (§3.1),\n//! and until when. More.\n//!\n//! Else.\n";
        assert_eq!(first_sentence(text), "Leases: who orders (§3.1), and until when");
        assert_eq!(first_sentence("use x;\n"), "");
    }

    #[test]
    fn links_become_the_words_they_show() {
        assert_eq!(without_links("a [`B`](c::D), [`E`] f"), "a `B`, `E` f");
        assert_eq!(without_links("[0..8] a"), "[0..8] a");
    }

    #[test]
    fn the_map_replaces_what_stood_in_its_place_and_nothing_else() {
        let page = format!("a\n{BEGIN}old\n{END}b\n");
        assert_eq!(insert(&page, "new\n"), Some(format!("a\n{BEGIN}new\n{END}b\n")));
        assert_eq!(insert("a\nb\n", "new\n"), None);
    }
}
