//! Breaks each rule on purpose and says which checker sees it: `planted`, or `planted R8`.

use cairn_sim::{planted, rules};

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    for rule in rules() {
        let name = format!("{rule:?}");
        if !wanted.is_empty() && !wanted.contains(&name) {
            continue;
        }
        let report = planted(rule);
        match report.caught {
            Some((seed, failure)) => println!(
                "{name}: seen by {} (seed {seed}, at {:.3}s): {}",
                failure.checker,
                failure.at.seconds(),
                failure.message
            ),
            None => println!("{name}: NOT SEEN in {} seeds", report.seeds),
        }
    }
}
