//! `cairn bench write` and `read`, small: what they compare, and that nothing is left behind.

mod cell;

use cell::{cairn, run};
use serde_json::Value;
use tempfile::TempDir;

fn bench(direction: &str) -> Value {
    let scratch = TempDir::new().expect("a scratch directory");
    let data = scratch.path().display().to_string();
    let size = ["--floor", "--pairs", "3", "--megabytes", "8", "--json", "--data", &data];
    let done = run(cairn(["bench", direction].iter().chain(&size)), b"");
    assert_eq!(done.code(), 0, "{}", done.stderr);
    let left = std::fs::read_dir(scratch.path()).expect("lists").count();
    assert_eq!(left, 0, "what a bench makes it removes");
    serde_json::from_str(&done.text()).expect("JSON")
}

#[test]
fn beside_each_ratio_stands_what_the_floor_gives_against_itself() {
    for direction in ["write", "read"] {
        let told = bench(direction);
        assert!(told["megabytes_a_second"].as_f64().is_some_and(|speed| speed > 0.0), "{told}");
        let pairs = &told["pairs"];
        assert_eq!(pairs["count"], 3, "{told}");
        // So small a run says little of how fast anything is: that no side is favoured is shown
        // beside `compared`, and here, that who runs first goes round.
        for name in ["speed", "floor_speed"] {
            let end = |at: usize| pairs[format!("{name}_spread")][at].as_f64().expect("an end");
            let median = pairs[format!("{name}_ratio")].as_f64().expect("a median");
            assert!(end(0) > 0.0 && end(0) <= median && median <= end(1), "{name}: {told}");
        }
        let each = if direction == "read" { 6 } else { 1 };
        for side in ["cell", "floor", "second_floor"] {
            assert_eq!(pairs["went_first"][side], each, "{side}: {told}");
        }
    }
}
