//! The floors: a crate uses lower floors only, never sideways (design §2).

use crate::finding::Finding;
use serde_json::Value;

/// Lowest first.
const FLOORS: &[&[&str]] = &[
    &["cairn-types"],
    &["cairn-format", "cairn-protocol", "cairn-pagetree"],
    // `format`, `protocol` and `pagetree` share a floor; `env` stands on `protocol`.
    &["cairn-env"],
    &["cairn-store"],
    &["cairn-consensus", "cairn-master-core", "cairn-chunk-core", "cairn-client-core"],
    &["cairn-env-os", "cairn-env-sim", "cairn-master", "cairn-chunkserver"],
    &["cairn-client", "cairn-testkit"],
    &["cairn-transfer", "cairn-bench", "cairn-rpclog", "cairn-soaks", "cairn-sim"],
    &["cairn", "cairn-tidy"],
    &["cairn-xtask"],
];

/// Our crates, lowest floor first.
pub(crate) fn crates_in_order() -> impl Iterator<Item = &'static str> {
    FLOORS.iter().copied().flatten().copied()
}

/// The highest floor whose crates may use few libraries.
const PLAIN_FLOOR_MAX: usize = 4;
/// Those few. Each is pure computation, or derives it.
const PLAIN_LIBRARIES: &[&str] =
    &["bytes", "crc-fast", "memchr", "prost", "raft", "serde", "slog", "thiserror", "zerocopy"];

/// Checks the edges between our crates, and what the lower floors stand on.
pub(crate) fn check(packages: &[Value], findings: &mut Vec<Finding>) {
    for package in packages {
        let name = package["name"].as_str().unwrap_or_default();
        let path = format!("{}/Cargo.toml", name.replacen("cairn-", "crates/", 1));
        let mut found = |message| findings.push(Finding::new("floors", &path, 1, message));
        let Some(floor) = floor_of(name) else {
            found(format!(
                "crate {name} stands on no floor: enter it in crates/tidy/src/floors.rs"
            ));
            continue;
        };
        for dependency in package["dependencies"].as_array().into_iter().flatten() {
            let used = dependency["name"].as_str().unwrap_or_default();
            let for_tests = dependency["kind"].as_str() == Some("dev");
            if let Some(message) = refused_edge(name, floor, used, for_tests) {
                found(message);
            }
        }
    }
}

fn floor_of(name: &str) -> Option<usize> {
    FLOORS.iter().position(|floor| floor.contains(&name))
}

/// Why a crate must not use another, where it must not.
fn refused_edge(name: &str, floor: usize, used: &str, for_tests: bool) -> Option<String> {
    match floor_of(used) {
        Some(below) if below < floor => None,
        Some(beside) if beside == floor => {
            Some(format!("{name} uses {used}, which stands beside it: use lower floors only"))
        }
        Some(_) => Some(format!("{name} uses {used}, which stands above it: turn the edge round")),
        None if floor > PLAIN_FLOOR_MAX || for_tests || PLAIN_LIBRARIES.contains(&used) => None,
        None => Some(format!("{name} uses {used}; up to the cores only {PLAIN_LIBRARIES:?}")),
    }
}

#[cfg(test)]
mod tests {
    use super::check;
    use serde_json::json;

    fn messages(name: &str, used: &str, kind: Option<&str>) -> Vec<String> {
        let dependency = json!({ "name": used, "kind": kind });
        let package = json!({ "name": name, "dependencies": [dependency] });
        let mut findings = Vec::new();
        check(&[package], &mut findings);
        findings.into_iter().map(|finding| finding.message).collect()
    }

    #[test]
    fn an_edge_down_passes_and_one_up_or_sideways_is_refused_naming_both() {
        assert!(messages("cairn-store", "cairn-env", None).is_empty());
        for used in ["cairn-chunk-core", "cairn-sim"] {
            let refused = messages("cairn-master-core", used, None);
            assert!(refused[0].contains("cairn-master-core") && refused[0].contains(used));
        }
        assert_eq!(messages("cairn-format", "cairn-protocol", None).len(), 1);
    }

    #[test]
    fn tests_obey_the_floors_too() {
        assert!(messages("cairn-env-sim", "cairn-store", Some("dev")).is_empty());
        assert_eq!(messages("cairn-store", "cairn-env-sim", Some("dev")).len(), 1);
    }

    #[test]
    fn up_to_the_cores_only_plain_libraries_are_used_outside_tests() {
        assert_eq!(messages("cairn-chunk-core", "tokio", None).len(), 1);
        assert!(messages("cairn-chunk-core", "bytes", None).is_empty());
        assert!(messages("cairn-chunk-core", "proptest", Some("dev")).is_empty());
        assert!(messages("cairn-client", "tokio", None).is_empty());
    }

    #[test]
    fn a_crate_that_nobody_placed_is_refused() {
        assert_eq!(messages("cairn-attic", "bytes", None).len(), 1);
    }
}
