//! Runs drills: `drills` all of them, `drills P4` those of a finding, a rule or a name that
//! contains the word, `drills P4 trace` with every step told.

use cairn_sim::{drills, run_drill};

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let trace = words.iter().any(|word| word == "trace");
    let wanted = words.iter().find(|word| *word != "trace");
    for drill in drills() {
        let rule = drill.rule.map(|rule| format!("{rule:?}"));
        let of: Vec<&str> = rule.as_deref().into_iter().chain(drill.finding).collect();
        let is_it = |word: &str| of.contains(&word) || drill.name.contains(word);
        if wanted.is_some_and(|wanted| !is_it(wanted)) {
            continue;
        }
        let of = if of.is_empty() { "bug".to_owned() } else { of.join(", ") };
        println!("{of}: {}", drill.name);
        match run_drill(&drill, None, trace).failure {
            Some(it) => println!("  {} at {:.3}s: {}", it.checker, it.at.seconds(), it.message),
            None => println!("  no complaint"),
        }
    }
}
