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
        assert!(pairs["speed_ratio"].as_f64().is_some_and(|ratio| ratio > 0.0), "{told}");
        // So small a run says little; a side that is favoured every time would be far off.
        let floors = pairs["floor_speed_ratio"].as_f64().expect("floor to floor");
        assert!((0.2..5.0).contains(&floors), "{told}");
    }
}
