//! Rules about single lines and words: width, what tests may not do, words that have their place.

use super::finding::Finding;
use super::source::Source;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

/// Characters that a line may have.
const WIDTH_MAX: usize = 100;
/// Lines that a function may have.
const FUNCTION_LINES_MAX: usize = 70;
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
    for (line, text) in (1..).zip(source.text.lines()) {
        if text.chars().count() > WIDTH_MAX {
            found("line-width", line, "a line of more than 100 characters");
        }
    }
    for (line, comment) in (1..).zip(source.comments.lines()) {
        let words = comment.trim().trim_start_matches(['/', '*', '!', ' ']);
        if TESTS_COMMENTED_OUT.iter().any(|start| words.starts_with(start)) {
            found("commented-out-test", line, "a test that is not run: mend it or remove it");
        }
        if LEFT_OPEN.iter().any(|mark| words.contains(mark)) {
            found("left-open", line, "work left open in the code: do it, or write an issue");
        }
    }
    let is_core = CORES.iter().any(|core| source.path.starts_with(core));
    let mut functions = Functions::default();
    functions.visit_file(&source.whole);
    for (at, token) in source.tokens.iter().enumerate() {
        let (word, line) = (token.text.as_str(), token.line);
        let next = |ahead: usize| source.tokens.get(at + ahead).map_or("", |token| &token.text);
        if word == "#" && next(1) == "[" && next(2) == "ignore" {
            found("ignored-test", line, "a test that is not run: mend it or remove it");
        }
        if word == "unsafe" && !source.path.starts_with(UNSAFE_CRATE) {
            found("unsafe", line, "unsafe code lives in env-os only");
        }
        if is_core && !source.is_test(line) && WORDS_REFUSED_IN_CORES.contains(&word) {
            found("core", line, &format!("`{word}` has no place in a core"));
        }
        let sleeps = word == "sleep" && next(1) == "(" && source.is_test(line);
        if sleeps && functions.around(line) != Some(AWAIT_UNTIL) {
            let message = "a test that sleeps: await the event, or use `await_until`";
            found("sleep-in-test", line, message);
        }
    }
    for line in &functions.globs {
        found("glob-import", *line, "a glob import: name what is used");
    }
    for (name, first, last) in &functions.found {
        let count = last - first + 1;
        if count > FUNCTION_LINES_MAX {
            let message = format!("fn {name} has {count} lines; at most {FUNCTION_LINES_MAX}");
            found("function-length", *first, &message);
        }
    }
}

/// The functions with a body, and the glob imports, of a file.
#[derive(Default)]
struct Functions {
    /// Name, line of `fn`, line of the closing brace.
    found: Vec<(String, usize, usize)>,
    /// Lines.
    globs: Vec<usize>,
}

impl Functions {
    fn add(&mut self, signature: &syn::Signature, body: &syn::Block) {
        let last = body.brace_token.span.close().end().line;
        self.found.push((signature.ident.to_string(), signature.span().start().line, last));
    }

    /// The name of the innermost function around a line.
    fn around(&self, line: usize) -> Option<&str> {
        let around = self.found.iter().filter(|(_, first, last)| (*first..=*last).contains(&line));
        around.max_by_key(|(_, first, _)| *first).map(|(name, _, _)| name.as_str())
    }
}

impl Visit<'_> for Functions {
    fn visit_item_fn(&mut self, function: &syn::ItemFn) {
        self.add(&function.sig, &function.block);
        visit::visit_item_fn(self, function);
    }

    fn visit_impl_item_fn(&mut self, function: &syn::ImplItemFn) {
        self.add(&function.sig, &function.block);
        visit::visit_impl_item_fn(self, function);
    }

    fn visit_trait_item_fn(&mut self, function: &syn::TraitItemFn) {
        if let Some(body) = &function.default {
            self.add(&function.sig, body);
        }
        visit::visit_trait_item_fn(self, function);
    }

    fn visit_use_glob(&mut self, glob: &syn::UseGlob) {
        self.globs.push(glob.span().start().line);
    }
}

#[cfg(test)]
mod tests {
    use super::{FUNCTION_LINES_MAX, check};
    use crate::tidy::source::Source;

    fn rules_at(path: &str, text: &str) -> Vec<&'static str> {
        let mut findings = Vec::new();
        check(&Source::new(path, text).expect("Rust"), &mut findings);
        findings.iter().map(|finding| finding.rule).collect()
    }

    fn rules(text: &str) -> Vec<&'static str> {
        rules_at("crates/x/src/a.rs", text)
    }

    #[test]
    fn lines_and_functions_have_their_limits_and_no_more() {
        assert_eq!(rules(&format!("// {}", "é".repeat(97))), [""; 0]);
        assert_eq!(rules(&format!("// {}", "é".repeat(98))), ["line-width"]);
        let function =
            |lines| format!("impl A {{\nfn a() {{\n{}}}\n}}", "b();\n".repeat(lines - 2));
        assert_eq!(rules(&function(FUNCTION_LINES_MAX)), [""; 0]);
        assert_eq!(rules(&function(FUNCTION_LINES_MAX + 1)), ["function-length"]);
    }

    #[test]
    fn tests_that_are_not_run_are_found() {
        assert_eq!(rules("#[ignore = \"slow\"]\nfn a() {}"), ["ignored-test"]);
        assert_eq!(rules("// #[test]\n// fn a() {}"), ["commented-out-test"]);
        assert_eq!(rules("/*\n#[cfg(test)]\nmod tests {}\n*/"), ["commented-out-test"]);
        assert_eq!(rules("const A: &str = \"// #[test] #[ignore]\";"), [""; 0]);
    }

    #[test]
    fn work_left_open_is_found_in_comments_only() {
        assert_eq!(rules("// TODO: more"), ["left-open"]);
        assert_eq!(rules("const A: &str = \"TODO\";"), [""; 0]);
    }

    #[test]
    fn unsafe_has_one_home() {
        assert_eq!(rules("fn a() { unsafe { x() } }"), ["unsafe"]);
        assert_eq!(rules_at("crates/env-os/src/a.rs", "fn a() { unsafe { x() } }"), [""; 0]);
        assert_eq!(rules("#![forbid(unsafe_code)] // unsafe"), [""; 0]);
    }

    #[test]
    fn glob_imports_are_found_and_multiplication_is_not_one() {
        assert_eq!(rules("pub use a::{\n    b::*,\n    c,\n};"), ["glob-import"]);
        assert_eq!(rules("use a::b;\nconst C: u8 = b * 2;"), [""; 0]);
    }

    #[test]
    fn a_core_has_no_clock_and_no_random_order_but_its_tests_may() {
        let core = "crates/chunk-core/src/a.rs";
        assert_eq!(rules_at(core, "fn a() { HashMap::new(); }"), ["core"]);
        assert_eq!(rules_at(core, "async fn a() {}"), ["core"]);
        assert_eq!(rules("fn a() { HashMap::new(); }"), [""; 0]);
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
