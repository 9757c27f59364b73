//! `cargo xtask licences`: every dependency may be used, linked and sold on without conditions
//! that reach into our own code.
//!
//! A licence is an SPDX expression; it passes when one of its alternatives needs nothing but
//! licences of the list.

use crate::workspace::{metadata, packages};
use anyhow::{Result, bail};

/// What may be linked.
const ALLOWED: &[&str] = &[
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "ISC",
    "MIT",
    "Unicode-3.0",
    "Zlib",
];

/// Prints what is not allowed.
///
/// # Errors
/// When there is any, or cargo does not answer.
pub(crate) fn report() -> Result<()> {
    let metadata = metadata(true)?;
    let mut refused = 0;
    let all = packages(&metadata);
    for package in all {
        let licence = package["license"].as_str().unwrap_or("none stated");
        if !is_allowed(licence) {
            refused += 1;
            println!("{} {}: licence {licence}", package["name"], package["version"]);
        }
    }
    if refused > 0 {
        bail!("{refused} dependencies have a licence that is not on the list");
    }
    println!("{} packages, all under allowed licences", all.len());
    Ok(())
}

/// Whether some alternative of the expression is allowed.
fn is_allowed(expression: &str) -> bool {
    // Before SPDX expressions, crates wrote "MIT/Apache-2.0" for "either".
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut rest = words.as_slice();
    alternatives(&mut rest) == Some(true) && rest.is_empty()
}

/// `all-of OR all-of …`; nothing when the text is no expression.
fn alternatives(rest: &mut &[&str]) -> Option<bool> {
    let mut good = all_of(rest)?;
    while let ["OR", tail @ ..] = *rest {
        *rest = tail;
        good |= all_of(rest)?;
    }
    Some(good)
}

/// `one AND one …`.
fn all_of(rest: &mut &[&str]) -> Option<bool> {
    let mut good = one(rest)?;
    while let ["AND", tail @ ..] = *rest {
        *rest = tail;
        good &= one(rest)?;
    }
    Some(good)
}

/// A licence, one with an exception, or an expression in parentheses.
fn one(rest: &mut &[&str]) -> Option<bool> {
    match *rest {
        ["(", tail @ ..] => {
            *rest = tail;
            let good = alternatives(rest)?;
            let [")", tail @ ..] = *rest else { return None };
            *rest = tail;
            Some(good)
        }
        [licence, "WITH", exception, tail @ ..] => {
            *rest = tail;
            Some(ALLOWED.contains(&format!("{licence} WITH {exception}").as_str()))
        }
        [licence, tail @ ..] => {
            *rest = tail;
            Some(ALLOWED.contains(licence))
        }
        [] => None,
    }
}

#[cfg(test)]
mod tests {
    use super::is_allowed;

    #[test]
    fn one_allowed_alternative_is_enough() {
        assert!(is_allowed("MIT"));
        assert!(is_allowed("MIT/Apache-2.0"));
        assert!(is_allowed("GPL-2.0 OR Apache-2.0 WITH LLVM-exception"));
        assert!(is_allowed("(MIT OR Apache-2.0) AND Unicode-3.0"));
    }

    #[test]
    fn all_of_a_conjunction_must_be_allowed_and_what_is_no_expression_is_refused() {
        for refused in ["GPL-3.0", "MPL-2.0", "MIT AND GPL-3.0", "(MIT OR ISC", "MIT OR", "none"] {
            assert!(!is_allowed(refused), "{refused}");
        }
    }
}
