//! `cargo xtask map`: docs/map.md, a line for each file and each format's page, written from the
//! files themselves; lowest floor first. A file's line is the first sentence of its `//!`.

use crate::floors::crates_in_order;
use crate::source::{Source, read_all};
use crate::workspace::root;
use anyhow::{Context, Result};
use std::fmt::Write;
use std::path::Path;

/// The page, from the root.
pub(crate) const MAP_PATH: &str = "docs/map.md";
const HEAD: &str = "\
# The map

A line for each file. Written by `cargo xtask map` from the first sentence of each; do not edit.
ARCHITECTURE.md is the page to read first.
";
const FORMATS: &str = "docs/formats";

/// Writes the page.
///
/// # Errors
/// When files cannot be read, or the page cannot be written.
pub fn write() -> Result<()> {
    let root = root();
    std::fs::write(root.join(MAP_PATH), page(&root, &read_all(&root)?)?).context(MAP_PATH)
}

/// What the page must be.
///
/// # Errors
/// When files cannot be read.
pub(crate) fn page(root: &Path, sources: &[Source]) -> Result<String> {
    let mut out = HEAD.to_owned();
    for name in crates_in_order() {
        let folder = match name {
            "cairn-xtask" => "xtask/".to_owned(),
            name => format!("crates/{}/", name.trim_start_matches("cairn-")),
        };
        let is_head = |source: &&Source| {
            source.path.ends_with("/src/lib.rs") || source.path.ends_with("/src/main.rs")
        };
        let files: Vec<_> = sources.iter().filter(|it| it.path.starts_with(&folder)).collect();
        let (heads, files): (Vec<_>, Vec<_>) = files.into_iter().partition(is_head);
        for head in heads {
            let what = first_sentence(&head.text);
            writeln!(out, "\n## {}\n\n{what}.\n", folder.trim_end_matches('/'))?;
        }
        for source in files {
            let path = source.path.replacen(&folder, "", 1).replacen("src/", "", 1);
            writeln!(out, "- `{path}`: {}", first_sentence(&source.text))?;
        }
    }
    writeln!(out, "\n## {FORMATS}\n\nBytes at rest and in flight, a page for each format.\n")?;
    let pages = std::fs::read_dir(root.join(FORMATS)).context(FORMATS)?;
    let mut pages = pages.map(|page| Ok(page?.path())).collect::<Result<Vec<_>>>()?;
    pages.sort();
    for page in pages {
        let text = std::fs::read_to_string(&page).with_context(|| page.display().to_string())?;
        let first = text.lines().next().unwrap_or_default().trim_start_matches(['#', '/', ' ']);
        let name = page.file_name().unwrap_or_default().to_string_lossy();
        writeln!(out, "- [{name}](formats/{name}): {}", first.trim_end_matches('.'))?;
    }
    Ok(out)
}

/// The first sentence of a file's opening comment, on one line.
fn first_sentence(text: &str) -> String {
    let lines = text.lines().map_while(|line| line.strip_prefix("//!")).map(str::trim);
    let paragraph = lines.take_while(|line| !line.is_empty()).collect::<Vec<_>>().join(" ");
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
        out += &format!("`{word}`{}", target.map_or(rest, |(_, after)| after));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::{first_sentence, without_links};

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
}
