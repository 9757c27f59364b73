//! `cargo xtask licences`: every dependency may be used, linked and sold on without conditions
//! that reach into our own code.

use anyhow::{Result, bail};
use cairn_tidy::packages;

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
    let all = packages(true)?;
    let licence = |package: &serde_json::Value| {
        package["license"].as_str().unwrap_or("none stated").to_owned()
    };
    let refused: Vec<_> = all.iter().filter(|package| !is_allowed(&licence(package))).collect();
    for package in &refused {
        println!("{} {}: licence {}", package["name"], package["version"], licence(package));
    }
    if !refused.is_empty() {
        bail!("{} dependencies have a licence that is not on the list", refused.len());
    }
    println!("{} packages, all under allowed licences", all.len());
    Ok(())
}

/// Whether an SPDX expression, read without its parentheses and `AND` last, can be met by allowed
/// licences alone. That reading asks for no less than any other, so it never allows too much.
fn is_allowed(expression: &str) -> bool {
    // Before SPDX expressions, crates wrote "MIT/Apache-2.0" for "either".
    let flat = expression.replace('/', " OR ").replace(['(', ')'], "");
    let one_of = |part: &str| part.split(" OR ").any(|licence| ALLOWED.contains(&licence.trim()));
    flat.split(" AND ").all(one_of)
}

#[cfg(test)]
mod tests {
    use super::is_allowed;

    #[test]
    fn one_allowed_alternative_is_enough() {
        for allowed in [
            "MIT",
            "MIT/Apache-2.0",
            "GPL-2.0 OR Apache-2.0 WITH LLVM-exception",
            "(MIT OR GPL-2.0) AND Unicode-3.0",
        ] {
            assert!(is_allowed(allowed), "{allowed}");
        }
    }

    #[test]
    fn all_of_a_conjunction_must_be_allowed_and_what_is_no_licence_is_refused() {
        for refused in ["GPL-3.0", "MIT AND GPL-3.0", "(MIT AND GPL-3.0) OR GPL-2.0", "", "none"] {
            assert!(!is_allowed(refused), "{refused}");
        }
    }
}
