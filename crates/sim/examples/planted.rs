//! Breaks each rule on purpose and says which checker sees it: `planted`, or `planted R8`. With
//! `planted drills R8 [whole|broken] [trace]`, plays the rule's drills and tells how they end.

use cairn_sim::{drills, planted, run_drill};
use cairn_types::planted::Rule;

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    if wanted.first().is_some_and(|first| first == "drills") {
        return play(&wanted[1..]);
    }
    for &rule in Rule::ALL {
        let name = format!("{rule:?}");
        if !wanted.is_empty() && !wanted.contains(&name) {
            continue;
        }
        let report = planted(rule);
        match report.caught {
            Some((by, failure)) => println!(
                "{name}: seen by {} ({by}, at {:.3}s): {}",
                failure.checker,
                failure.at.seconds(),
                failure.message
            ),
            None => println!("{name}: NOT SEEN in {} tries", report.tries),
        }
        report.blind.iter().for_each(|drill| println!("{name}: NOT SHOWN by {drill}"));
    }
}

fn play(words: &[String]) {
    let has = |word: &str| words.iter().any(|it| it == word);
    for drill in drills() {
        let rule = drill.rule.map_or_else(|| "bug".to_owned(), |rule| format!("{rule:?}"));
        if words.iter().any(|word| word.starts_with('R')) && !has(&rule) {
            continue;
        }
        for broken in std::iter::once(None).chain(drill.rule.map(Some)) {
            if has("whole") && broken.is_some() || has("broken") && broken.is_none() {
                continue;
            }
            let state = if broken.is_some() { "broken" } else { "whole" };
            println!("{rule} {state}: {}", drill.name);
            match run_drill(&drill, broken, has("trace")).failure {
                Some(it) => println!("  {} at {:.3}s: {}", it.checker, it.at.seconds(), it.message),
                None => println!("  no complaint"),
            }
        }
    }
}
