//! The measures of the house, a line each, and the limits that they are held to.
//!
//! ```text
//!   circles         files of a crate that import each other
//!   largest type    its lines, and the files that it is spread over
//!   asserts         per 1 000 lines of the cores, in release too
//!   names twice     types that share their name with another
//!   names of a write    what one write is called on its way
//! ```

use crate::circles::circles;
use crate::finding::Finding;
use crate::imports::Imports;
use crate::source::Source;
use crate::types::{TypeSize, assert_count, names, sizes};
use anyhow::Result;
use std::path::Path;

/// Crates that decide what becomes of people's data.
const CORES: &[&str] = &["crates/master-core", "crates/chunk-core", "crates/client-core"];
/// Files of one circle.
const CIRCLE_MAX: usize = 3;
/// Lines and files of one type of a core.
const TYPE_LINES_MAX: usize = 600;
const TYPE_FILES_MAX: usize = 4;
/// Asserts of each 1 000 lines of a core.
const ASSERTS_MIN: usize = 8;
/// Names that more than one type has.
const NAMES_TWICE_MAX: usize = 29;
/// What a write is called on its way, kept by hand: a file and a name, one a line.
const WRITE_NAMES: &str = "xtask/names-of-a-write.txt";
/// How many of a measure are listed.
const LISTED: usize = 12;

/// Prints each measure, in full where `all`, and finds what exceeds its limit.
///
/// # Errors
/// When the names of a write cannot be read.
pub(crate) fn report(
    root: &Path,
    sources: &[Source],
    all: bool,
    findings: &mut Vec<Finding>,
) -> Result<()> {
    let folder = |source: &Source| source.path.split_once("/src/").map(|(at, _)| at.to_owned());
    let mut folders: Vec<String> = sources.iter().filter_map(folder).collect();
    folders.dedup();
    let crates: Vec<(String, Imports<'_>)> =
        folders.into_iter().map(|at| (at.clone(), Imports::of_crate(&at, sources))).collect();
    report_circles(&crates, all, findings);
    report_types(&crates, all, findings);
    report_asserts(&crates, all, findings);
    report_names(sources, all, findings);
    report_write(root, sources, findings)
}

fn line(name: &str, text: &str, limit: &str) {
    println!("{name:<17}{text} ({limit})");
}

fn detail(all: bool, lines: impl Iterator<Item = String>) {
    lines.filter(|_| all).for_each(|line| println!("    {line}"));
}

fn report_circles(crates: &[(String, Imports<'_>)], all: bool, findings: &mut Vec<Finding>) {
    let mut found: Vec<(usize, &str, String)> = Vec::new();
    for (folder, imports) in crates {
        let short = |file: &str| file.replacen(&format!("{folder}/src/"), "", 1);
        let edges = imports.edges();
        for circle in circles(&edges) {
            let arrow = |file: &&str| {
                let taken = edges[*file].intersection(&circle).map(|other| short(other));
                format!("{} → {}", short(file), taken.collect::<Vec<_>>().join(" "))
            };
            let arrows: Vec<String> = circle.iter().map(arrow).collect();
            found.push((circle.len(), folder, arrows.join(", ")));
        }
    }
    found.sort_by_key(|(size, ..)| std::cmp::Reverse(*size));
    let sizes: Vec<String> = found.iter().map(|(size, ..)| size.to_string()).collect();
    let text = format!("{} of files: {}", found.len(), sizes.join(", "));
    line("circles", &text, &format!("at most {CIRCLE_MAX} files each"));
    detail(all, found.iter().map(|(size, at, arrows)| format!("{size} in {at}: {arrows}")));
    for (size, folder, arrows) in found.iter().filter(|(size, ..)| *size > CIRCLE_MAX) {
        let message = format!("{size} files import each other: {arrows}");
        findings.push(Finding::measured("circle", folder, *size, message));
    }
}

fn report_types(crates: &[(String, Imports<'_>)], all: bool, findings: &mut Vec<Finding>) {
    let mut found: Vec<(TypeSize, &str)> = Vec::new();
    for (folder, imports) in crates {
        found.extend(sizes(imports).into_iter().map(|size| (size, folder.as_str())));
    }
    found.sort_by_key(|(size, _)| std::cmp::Reverse(size.lines));
    let tell = |(size, at): &(TypeSize, &str)| {
        format!("{} of {at}, {} lines in {} files", size.name, size.lines, size.files)
    };
    let is_core = |(_, at): &&(TypeSize, &str)| CORES.contains(at);
    let limit = format!("in the cores at most {TYPE_LINES_MAX} lines, {TYPE_FILES_MAX} files");
    let largest = found.iter().find(is_core).map(tell).unwrap_or_default();
    line("largest type", &largest, &limit);
    let mut widest: Vec<_> = found.iter().filter(is_core).collect();
    widest.sort_by_key(|(size, _)| std::cmp::Reverse(size.files));
    line("widest type", &widest.first().map(|size| tell(size)).unwrap_or_default(), &limit);
    detail(all, found.iter().take(LISTED).chain(widest.into_iter().take(LISTED)).map(tell));
    for (size, at) in found.iter().filter(is_core) {
        let mut exceeds = |rule, measured, max| {
            if measured > max {
                let path = format!("{at}:{}", size.name);
                findings.push(Finding::measured(rule, &path, measured, tell(&(size.clone(), at))));
            }
        };
        exceeds("type-lines", size.lines, TYPE_LINES_MAX);
        exceeds("type-files", size.files, TYPE_FILES_MAX);
    }
}

fn report_asserts(crates: &[(String, Imports<'_>)], all: bool, findings: &mut Vec<Finding>) {
    let mut sum = (0, 0);
    let mut lines = Vec::new();
    for (folder, imports) in crates.iter().filter(|(at, _)| CORES.contains(&at.as_str())) {
        let files = imports.files().map(|(_, source)| source);
        let (asserts, code) = files.fold((0, 0), |(asserts, code), source| {
            (asserts + assert_count(source), code + source.code_line_count())
        });
        sum = (sum.0 + asserts, sum.1 + code);
        lines.push(format!("{folder}: {asserts} in {code} lines"));
        let wanted = (code * ASSERTS_MIN).div_ceil(1_000);
        if asserts < wanted {
            let message = format!("{asserts} asserts in {code} lines: {wanted} at least");
            findings.push(Finding::measured("asserts", folder, wanted - asserts, message));
        }
    }
    let per_thousand = sum.0 as f64 * 1_000.0 / f64::max(1.0, sum.1 as f64);
    let text = format!("{per_thousand:.1} per 1 000 lines: {} in {} of the cores", sum.0, sum.1);
    line("asserts", &text, &format!("at least {ASSERTS_MIN} in each core"));
    detail(all, lines.into_iter());
}

fn report_names(sources: &[Source], all: bool, findings: &mut Vec<Finding>) {
    let names = names(sources);
    let mut twice: Vec<_> = names.iter().filter(|(_, files)| files.len() > 1).collect();
    twice.sort_by_key(|(_, files)| std::cmp::Reverse(files.len()));
    let text = format!("{} of {} names of types", twice.len(), names.len());
    line("names twice", &text, &format!("at most {NAMES_TWICE_MAX}"));
    detail(all, twice.iter().map(|(name, at)| format!("{name} {}: {}", at.len(), at.join(", "))));
    if twice.len() > NAMES_TWICE_MAX {
        let message = format!("{text} stand for more than one type; see `tidy --all`");
        findings.push(Finding::measured("names-twice", "crates", twice.len(), message));
    }
}

fn report_write(root: &Path, sources: &[Source], findings: &mut Vec<Finding>) -> Result<()> {
    let list = std::fs::read_to_string(root.join(WRITE_NAMES)).unwrap_or_default();
    let mut names = Vec::new();
    for (at, entry) in (1..).zip(list.lines()).filter(|(_, entry)| !entry.starts_with('#')) {
        let (file, name) = entry.split_once(' ').unwrap_or((entry, ""));
        let source = sources.iter().find(|source| source.path == file);
        if source.is_none_or(|source| source.words.iter().all(|(word, _)| word != name)) {
            let message = format!("{file} has no {name}: say what a write is called there");
            findings.push(Finding::new("names-of-a-write", WRITE_NAMES, at, message));
        }
        names.push(name);
    }
    let text = format!("{}: {}", names.len(), names.join(" → "));
    line("names of a write", &text, WRITE_NAMES);
    Ok(())
}
