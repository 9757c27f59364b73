//! Rules about single lines: width, what tests may not do, words that have their place.

use super::functions::functions;
use super::masking::words;
use super::{Finding, source::Source};

/// Characters that a line may have.
const WIDTH_MAX: usize = 100;
/// The one crate whose code may be unsafe.
const UNSAFE_CRATE: &str = "crates/env-os/";
/// Crates that decide and never wait.
const CORES: &[&str] = &[
    "crates/master-core/",
    "crates/chunk-core/",
    "crates/client-core/",
    "crates/consensus/",
    "crates/types/",
    "crates/format/",
    "crates/protocol/",
    "crates/pagetree/",
];
/// What a core has no use for: its order is random, or it is a clock, or it waits.
const WORDS_REFUSED_IN_CORES: &[&str] =
    &["HashMap", "HashSet", "Instant", "SystemTime", "async", "await", "sleep"];
/// The one function of tests that may sleep: it has a deadline and looks again.
const AWAIT_UNTIL: &str = "await_until";
/// How a comment begins that is a test no longer run, or work no longer done.
const TESTS_COMMENTED_OUT: &[&str] = &["#[test]", "#[cfg(test)]", "#[tokio::test]"];
const LEFT_OPEN: &[&str] = &["TODO", "FIXME", "XXX"];

/// Checks one file.
pub(crate) fn check(source: &Source, findings: &mut Vec<Finding>) {
    let mut found = |rule, line, message: &str| {
        findings.push(Finding::new(rule, &source.path, line, message));
    };
    for (at, line) in source.text.lines().enumerate() {
        if line.chars().count() > WIDTH_MAX {
            found("line-width", at + 1, "a line of more than 100 characters");
        }
    }
    for (at, comment) in source.masked.comments.lines().enumerate() {
        let words = comment.trim().trim_start_matches(['/', '*', '!', ' ']);
        if TESTS_COMMENTED_OUT.iter().any(|start| words.starts_with(start)) {
            found("commented-out-test", at + 1, "a test that is not run: mend it or remove it");
        }
        if LEFT_OPEN.iter().any(|mark| words.contains(mark)) {
            found("left-open", at + 1, "work left open in the code: do it, or write an issue");
        }
    }
    for (at, code) in source.masked.code.lines().enumerate() {
        if code.replace(' ', "").contains("#[ignore") {
            found("ignored-test", at + 1, "a test that is not run: mend it or remove it");
        }
        if words(code, "unsafe").next().is_some() && !source.path.starts_with(UNSAFE_CRATE) {
            found("unsafe", at + 1, "unsafe code lives in env-os only");
        }
        if CORES.iter().any(|core| source.path.starts_with(core)) && !source.is_test(at + 1) {
            for word in WORDS_REFUSED_IN_CORES {
                if words(code, word).next().is_some() {
                    found("core", at + 1, &format!("`{word}` has no place in a core"));
                }
            }
        }
    }
    check_globs(source, findings);
    check_sleeps(source, findings);
}

/// A `use` that ends in `*`, over however many lines it goes.
fn check_globs(source: &Source, findings: &mut Vec<Finding>) {
    let code = source.masked.code.as_str();
    for start in words(code, "use") {
        let begins_a_statement = code[..start]
            .trim_end()
            .strip_suffix("pub")
            .or(Some(code[..start].trim_end()))
            .is_some_and(|before| !before.ends_with(['.', '=', '(', ',', '<']));
        let statement = code[start..].split(';').next().unwrap_or_default();
        if begins_a_statement && statement.contains("::*") {
            let line = code[..start].matches('\n').count() + 1;
            let message = "a glob import: name what is used";
            findings.push(Finding::new("glob-import", &source.path, line, message));
        }
    }
}

/// Tests await; they sleep in `await_until` alone.
fn check_sleeps(source: &Source, findings: &mut Vec<Finding>) {
    let code = source.masked.code.as_str();
    let functions = functions(code);
    for at in words(code, "sleep").filter(|at| code[at + 5..].starts_with('(')) {
        let line = code[..at].matches('\n').count() + 1;
        let within = functions
            .iter()
            .filter(|function| (function.first_line..=function.last_line).contains(&line))
            .max_by_key(|function| function.first_line);
        if source.is_test(line) && within.is_none_or(|function| function.name != AWAIT_UNTIL) {
            let message = "a test that sleeps: await the event, or use `await_until`";
            findings.push(Finding::new("sleep-in-test", &source.path, line, message));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::tidy::source::Source;

    fn rules_at(path: &str, text: &str) -> Vec<&'static str> {
        let mut findings = Vec::new();
        check(&Source::new(path, text), &mut findings);
        findings.iter().map(|finding| finding.rule).collect()
    }

    fn rules(text: &str) -> Vec<&'static str> {
        rules_at("crates/x/src/a.rs", text)
    }

    #[test]
    fn a_line_may_have_a_hundred_characters_and_no_more() {
        assert_eq!(rules(&"é".repeat(100)), [""; 0]);
        assert_eq!(rules(&"é".repeat(101)), ["line-width"]);
    }

    #[test]
    fn tests_that_are_not_run_are_found() {
        assert_eq!(rules("#[ignore]\nfn a() {}"), ["ignored-test"]);
        assert_eq!(rules("#[ignore = \"slow\"]\nfn a() {}"), ["ignored-test"]);
        assert_eq!(rules("// #[test]\n// fn a() {}"), ["commented-out-test"]);
        assert_eq!(rules("/*\n#[cfg(test)]\nmod tests {}\n*/"), ["commented-out-test"]);
        assert_eq!(rules("let a = \"// #[test] #[ignore]\";"), [""; 0]);
    }

    #[test]
    fn work_left_open_is_found_in_comments_only() {
        assert_eq!(rules("// TODO: more"), ["left-open"]);
        assert_eq!(rules("let a = \"TODO\";"), [""; 0]);
    }

    #[test]
    fn unsafe_has_one_home() {
        assert_eq!(rules("unsafe { x }"), ["unsafe"]);
        assert_eq!(rules_at("crates/env-os/src/a.rs", "unsafe { x }"), [""; 0]);
        assert_eq!(rules("#![forbid(unsafe_code)] // unsafe"), [""; 0]);
    }

    #[test]
    fn glob_imports_are_found_over_several_lines_and_multiplication_is_not_one() {
        assert_eq!(rules("use a::*;"), ["glob-import"]);
        assert_eq!(rules("pub use a::{\n    b::*,\n    c,\n};"), ["glob-import"]);
        assert_eq!(rules("use a::b;\nlet c = d * e;"), [""; 0]);
    }

    #[test]
    fn a_core_has_no_clock_and_no_random_order_but_its_tests_may() {
        let core = "crates/chunk-core/src/a.rs";
        assert_eq!(rules_at(core, "let a = HashMap::new();"), ["core"]);
        assert_eq!(rules_at(core, "async fn a() {}"), ["core"]);
        assert_eq!(rules("let a = HashMap::new();"), [""; 0]);
        let test = "#[cfg(test)]\nmod tests {\n    use a::HashMap;\n}\n";
        assert_eq!(rules_at(core, test), [""; 0]);
    }

    #[test]
    fn only_await_until_sleeps_in_tests() {
        let test = |name: &str| format!("fn {name}() {{\n    thread::sleep(a);\n}}\n");
        let path = "crates/x/tests/cell/mod.rs";
        assert_eq!(rules_at(path, &test("wait")), ["sleep-in-test"]);
        assert_eq!(rules_at(path, &test("await_until")), [""; 0]);
        assert_eq!(rules(&test("wait")), [""; 0]);
    }
}
