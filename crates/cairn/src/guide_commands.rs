//! Every command that stands in a block of the guide is one that this binary understands.

use crate::arguments::Arguments;
use std::ffi::OsString;

const PAGES: [(&str, &str); 12] = [
    ("commands", include_str!("../../../docs/guide/commands.md")),
    ("first-steps", include_str!("../../../docs/guide/first-steps.md")),
    ("jobs", include_str!("../../../docs/guide/jobs.md")),
    ("permissions", include_str!("../../../docs/guide/permissions.md")),
    ("pipelines", include_str!("../../../docs/guide/pipelines.md")),
    ("policies", include_str!("../../../docs/guide/policies.md")),
    ("quotas", include_str!("../../../docs/guide/quotas.md")),
    ("records", include_str!("../../../docs/guide/records.md")),
    ("rpclog", include_str!("../../../docs/guide/rpclog.md")),
    ("running-a-cell", include_str!("../../../docs/guide/running-a-cell.md")),
    ("snapshots", include_str!("../../../docs/guide/snapshots.md")),
    ("README", include_str!("../../../README.md")),
];

/// The words of a line up to a comment, as a shell splits them; an operator of its is a word.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), String::new(), None);
    let mut is_word = false;
    for character in line.chars() {
        match (quote, character) {
            (Some(open), _) if character == open => quote = None,
            (Some(_), _) => word.push(character),
            (None, '\'' | '"') => (quote, is_word) = (Some(character), true),
            (None, '#') if !is_word => break,
            (None, '|' | '&' | ';' | '<' | '>' | ' ') => {
                if std::mem::take(&mut is_word) {
                    words.push(std::mem::take(&mut word));
                }
                if character != ' ' {
                    words.push(character.to_string());
                }
            }
            (None, _) => {
                word.push(character);
                is_word = true;
            }
        }
    }
    if is_word {
        words.push(word);
    }
    words
}

/// The commands of this binary in a page's blocks.
fn commands(page: &str) -> Vec<Vec<String>> {
    let blocks = page.split("```sh\n").skip(1).filter_map(|rest| rest.split("```").next());
    let lines = blocks.map(|block| block.replace("\\\n", " ")).collect::<Vec<_>>();
    let lines = lines.iter().flat_map(|block| block.lines());
    let is_operator = |word: &String| ["|", "&", ";", "<", ">"].contains(&word.as_str());
    let mut found = Vec::new();
    for line in lines {
        let words = words(line);
        for part in words.split(is_operator) {
            // What a page leaves out, it leaves out.
            if part.first().is_some_and(|first| first == "cairn") {
                found.push(part.iter().filter(|word| *word != "…").cloned().collect());
            }
        }
    }
    found
}

#[test]
fn every_command_in_a_block_of_the_guide_is_understood() {
    let mut count = 0;
    for (name, page) in PAGES {
        for command in commands(page) {
            let told = command.join(" ");
            let read = Arguments::read(command.into_iter().map(OsString::from));
            assert!(matches!(read, Ok(Some(_))), "{name}: {told}: {:?}", read.err());
            count += 1;
        }
    }
    assert!(count > 80, "{count} commands");
    let wrong = ["cairn", "cp", "--no-such-flag", "/a", "/b"].map(OsString::from);
    assert!(Arguments::read(wrong.into_iter()).is_err());
}

#[test]
fn a_line_is_split_as_a_shell_splits_it() {
    let found =
        commands("x\n```sh\necho 'a # b' | cairn put - \"/d e\" && cairn ls \\\n  / # c\n```");
    let wanted: [&[&str]; 2] = [&["cairn", "put", "-", "/d e"], &["cairn", "ls", "/"]];
    assert_eq!(
        found,
        wanted.map(|words| words.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>())
    );
}
