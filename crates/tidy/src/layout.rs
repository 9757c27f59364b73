//! How a file is named, how it opens, how long and wide it is, and what has no place in it.
//!
//! Clippy holds the rest: functions of 70 lines at most, no glob imports, no unsafe code outside
//! `env-os`, no clock and no random order in the cores (Cargo.toml, clippy.toml).

use crate::finding::Finding;
use crate::source::Source;

/// Lines that a file may have, tests left out.
const LINES_MAX: usize = 600;
/// Characters that a line may have.
const WIDTH_MAX: usize = 100;
/// Names that say nothing: such a file becomes the basement that everything stands on.
const NAMES_REFUSED: &[&str] = &["util", "utils", "common", "helper", "helpers", "misc", "manager"];
/// Crates that decide, or say what is decided about: they never wait.
const NEVER_WAIT: &[&str] = &[
    "crates/master-core/",
    "crates/chunk-core/",
    "crates/client-core/",
    "crates/consensus/",
    "crates/types/",
    "crates/format/",
    "crates/protocol/",
    "crates/pagetree/",
];
/// What they have no use for: its order is random, or it is a clock, or it waits.
const WORDS_REFUSED: &[&str] =
    &["HashMap", "HashSet", "Instant", "SystemTime", "async", "await", "sleep"];
/// How a line begins that is a test no longer run.
const TESTS_NOT_RUN: &[&str] = &["#[ignore", "// #[test]", "// #[cfg(test)]", "// #[tokio::test]"];
/// How a line sleeps.
const SLEEPS: &[&str] = &["::sleep(", " sleep("];
/// How a comment begins that is work no longer done.
const LEFT_OPEN: &[&str] = &["// TODO", "// FIXME", "// XXX", "/// TODO"];

/// Checks one file.
pub(crate) fn check(source: &Source, findings: &mut Vec<Finding>) {
    let mut found = |rule, line, message: String| {
        findings.push(Finding::new(rule, &source.path, line, message));
    };
    if !source.text.starts_with("//!") {
        found("opening", 1, "a file opens with `//!` and says what it is".to_owned());
    }
    if let Some(name) = refused_name(&source.path) {
        found("name", 1, format!("`{name}` says nothing of its topic"));
    }
    let count = source.code_line_count();
    if count > LINES_MAX {
        let message = format!("{count} lines without tests; at most {LINES_MAX}: split by topic");
        found("file-length", LINES_MAX + 1, message);
    }
    for (at, line, is_test) in source.lines() {
        let begins = |starts: &[&str]| starts.iter().any(|start| line.trim().starts_with(start));
        if line.chars().count() > WIDTH_MAX {
            found("line-width", at, format!("a line of more than {WIDTH_MAX} characters"));
        }
        if begins(TESTS_NOT_RUN) {
            found("test-not-run", at, "a test that is not run: mend it or remove it".to_owned());
        }
        if begins(LEFT_OPEN) {
            found("left-open", at, "work left open: do it, or write an issue".to_owned());
        }
        if is_test && SLEEPS.iter().any(|sleep| line.contains(sleep)) {
            found("sleep-in-test", at, "a test that sleeps: use `await_until`".to_owned());
        }
    }
    let never_waits = NEVER_WAIT.iter().any(|folder| source.path.starts_with(folder));
    for (word, line) in source.words.iter().filter(|_| never_waits) {
        if WORDS_REFUSED.contains(&word.as_str()) {
            found("core", *line, format!("`{word}` has no place in a core"));
        }
    }
}

/// The part of a path, crate, folder or file, that is a refused name.
fn refused_name(path: &str) -> Option<&str> {
    path.split('/')
        .map(|part| part.trim_end_matches(".rs"))
        .find(|part| NAMES_REFUSED.contains(part))
}

#[cfg(test)]
mod tests {
    use super::{LINES_MAX, check, refused_name};
    use crate::source::Source;

    /// The rules that a text breaks, but for its opening.
    fn rules_at(path: &str, text: &str) -> Vec<&'static str> {
        let mut findings = Vec::new();
        check(&Source::new(path, &format!("//! a\n{text}")).expect("Rust"), &mut findings);
        findings.iter().map(|finding| finding.rule).collect()
    }

    fn rules(text: &str) -> Vec<&'static str> {
        rules_at("crates/x/src/a.rs", text)
    }

    #[test]
    fn a_file_that_does_not_say_what_it_is_is_found() {
        let mut findings = Vec::new();
        check(&Source::new("a.rs", "use x;\n").expect("Rust"), &mut findings);
        assert_eq!((findings.len(), findings[0].rule), (1, "opening"));
    }

    #[test]
    fn tests_do_not_count_as_length_and_the_rest_does() {
        let long = "x!();\n".repeat(LINES_MAX - 1);
        assert_eq!(rules(&format!("{long}#[cfg(test)]\nmod tests {{\n}}\n")), [""; 0]);
        assert_eq!(rules(&format!("{long}x!();\n")), ["file-length"]);
    }

    #[test]
    fn lines_have_their_width_and_no_more() {
        assert_eq!(rules(&format!("// {}", "é".repeat(97))), [""; 0]);
        assert_eq!(rules(&format!("// {}", "é".repeat(98))), ["line-width"]);
    }

    #[test]
    fn tests_that_are_not_run_and_work_left_open_are_found() {
        assert_eq!(rules("#[ignore = \"slow\"]\nfn a() {}"), ["test-not-run"]);
        assert_eq!(rules("    // #[test]\n// fn a() {}"), ["test-not-run"]);
        assert_eq!(rules("// TODO: more"), ["left-open"]);
        assert_eq!(rules("const A: &str = \"// TODO #[ignore]\";"), [""; 0]);
    }

    #[test]
    fn a_core_has_no_clock_and_no_random_order_but_its_tests_may() {
        let core = "crates/chunk-core/src/a.rs";
        assert_eq!(rules_at(core, "fn a() { HashMap::new(); } // Instant"), ["core"]);
        assert_eq!(rules("async fn a() { HashMap::new(); }"), [""; 0]);
        let test = "#[cfg(test)]\nmod tests {\n    use a::HashMap;\n}\n";
        assert_eq!(rules_at(core, test), [""; 0]);
    }

    #[test]
    fn a_test_does_not_sleep() {
        let sleeps = format!("fn a() {{\n    thread{}a);\n}}\n", super::SLEEPS[0]);
        assert_eq!(rules_at("crates/x/tests/a.rs", &sleeps), ["sleep-in-test"]);
        assert_eq!(rules(&sleeps), [""; 0]);
    }

    #[test]
    fn empty_names_are_refused_for_files_and_folders_but_not_within_a_word() {
        assert_eq!(refused_name("crates/x/src/util.rs"), Some("util"));
        assert_eq!(refused_name("crates/x/tests/common/mod.rs"), Some("common"));
        assert_eq!(refused_name("crates/x/src/common_prefix.rs"), None);
    }
}
