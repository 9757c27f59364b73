//! What a group of masters costs beside one, as `cairn bench meta --only groups` measures it, each
//! figure judged by what is asked of it.

use crate::report::Report;
use crate::teller::Teller;
use anyhow::{Context, Result, ensure};
use cairn_testkit::Program;
use serde_json::Value;

const BENCH: &str = "bench meta --only groups --files 100000 --rounds 7 --operations 1000 --json";

/// Measures it; nothing else should run.
///
/// # Errors
/// With the figures that are not as asked.
pub(crate) fn run(program: &Program, teller: &Teller) -> Result<()> {
    let told = program.ask(&BENCH.split(' ').collect::<Vec<_>>())?;
    let mut report = Report::default();
    for line in told.lines() {
        judge(line, teller, &mut report)?;
    }
    ensure!(report.lines() > 0, "the bench measured nothing that something is asked of");
    report.verdict()
}

/// One figure. Of some nothing is asked, or only that a thing beside itself gives 1.
fn judge(line: &str, teller: &Teller, report: &mut Report) -> Result<()> {
    let told: Value = serde_json::from_str(line).context("a figure as JSON")?;
    let text = |name: &str| told[name].as_str().unwrap_or_default();
    let (what, unit) = (text("what"), text("unit"));
    let value = told["value"].as_f64().with_context(|| format!("{what} has no value"))?;
    match text("wanted").rsplit_once(' ') {
        Some(("at least", asked)) => report.at_least(what, asked.parse()?, value),
        Some(("at most", asked)) => report.at_most(what, unit, asked.parse()?, value),
        _ => teller.say(format_args!("{what}: {value:.2} {unit}")),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::judge;
    use crate::report::Report;
    use crate::teller::Teller;

    #[test]
    fn a_figure_is_judged_by_what_the_bench_says_is_asked_of_it() {
        let (mut report, teller) = (Report::default(), Teller::start());
        let mut take = |wanted: &str, value: f64| {
            let line = serde_json::json!({"what": wanted, "wanted": wanted, "value": value});
            judge(&line.to_string(), &teller, &mut report).expect("a figure");
        };
        take("at least 0.90", 0.9);
        take("at most 200", 201.0);
        take("at least 0.50", 0.4);
        take("1.00", 3.0);
        take("", 7.0);
        assert_eq!((report.lines(), report.missed().len()), (3, 2));
        assert!(judge("{}", &teller, &mut report).is_err(), "no figure");
    }
}
