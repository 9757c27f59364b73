//! How long functions are, and where each begins and ends.

use super::masking::{is_name, words};
use super::{Finding, source::Source};

/// Lines that a function may have.
const LINES_MAX: usize = 70;

/// A function with a body. Lines count from 1.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Function {
    /// Its name.
    pub(crate) name: String,
    /// The line of `fn`.
    pub(crate) first_line: usize,
    /// The line of the closing brace.
    pub(crate) last_line: usize,
}

/// Checks one file.
pub(crate) fn check(source: &Source, findings: &mut Vec<Finding>) {
    for function in functions(&source.masked.code) {
        let count = function.last_line - function.first_line + 1;
        if count > LINES_MAX {
            let message = format!("fn {} has {count} lines; at most {LINES_MAX}", function.name);
            let line = function.first_line;
            findings.push(Finding::new("function-length", &source.path, line, message));
        }
    }
}

/// The functions of masked code, also those within others.
pub(crate) fn functions(code: &str) -> Vec<Function> {
    let line_of = |at: usize| code[..at].matches('\n').count() + 1;
    let mut found = Vec::new();
    for start in words(code, "fn") {
        let rest = &code[start + 2..];
        let name: String = rest.trim_start().chars().take_while(|c| is_name(*c)).collect();
        if name.is_empty() {
            continue; // A type such as `fn(u8)`.
        }
        if let Some(size) = body_end(rest) {
            let (first_line, last_line) = (line_of(start), line_of(start + 2 + size));
            found.push(Function { name, first_line, last_line });
        }
    }
    found
}

/// Where the body that follows a signature ends; nothing where `;` stands in its place.
fn body_end(signature: &str) -> Option<usize> {
    let mut brackets = 0;
    let mut braces = 0;
    for (at, c) in signature.char_indices() {
        match c {
            '(' | '[' => brackets += 1,
            ')' | ']' => brackets -= 1,
            ';' if brackets == 0 && braces == 0 => return None,
            '{' if brackets == 0 || braces > 0 => braces += 1,
            '}' if braces > 0 => {
                braces -= 1;
                if braces == 0 {
                    return Some(at);
                }
            }
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::{Function, LINES_MAX, check, functions};
    use crate::tidy::source::Source;

    fn spans(code: &str) -> Vec<(String, usize, usize)> {
        let tuple = |f: Function| (f.name, f.first_line, f.last_line);
        functions(code).into_iter().map(tuple).collect()
    }

    #[test]
    fn bodies_are_found_and_declarations_are_not() {
        let code = "fn a(x: [u8; 4]) -> [u8; { 1 + 3 }]\nwhere\n    T: Fn(u8),\n{\n    \
                    if x { y }\n}\ntrait T {\n    fn b();\n}\ntype F = fn(u8);\nfn c() {}\n";
        let expected = [("a".to_owned(), 1, 6), ("c".to_owned(), 11, 11)];
        assert_eq!(spans(code), expected);
    }

    #[test]
    fn a_function_within_a_function_is_found_too() {
        let code = "fn a() {\n    fn b() {\n    }\n    (|| { x })();\n}\n";
        assert_eq!(spans(code), [("a".to_owned(), 1, 5), ("b".to_owned(), 2, 3)]);
    }

    #[test]
    fn a_function_of_one_line_too_many_is_reported() {
        let text = |lines: usize| format!("//! a\nfn a() {{\n{}}}\n", "    x;\n".repeat(lines - 2));
        let count = |text: &str| {
            let mut findings = Vec::new();
            check(&Source::new("a.rs", text), &mut findings);
            findings.len()
        };
        assert_eq!((count(&text(LINES_MAX)), count(&text(LINES_MAX + 1))), (0, 1));
    }
}
