//! What a soak found, a line each: what, what is asked, what was measured, and whether it holds.

use anyhow::{Result, ensure};
use std::fmt::Display;

/// The lines so far.
#[derive(Debug, Default)]
pub(crate) struct Report {
    lines: usize,
    missed: Vec<String>,
}

impl Report {
    /// One line.
    pub(crate) fn line(
        &mut self,
        what: impl Display,
        asked: impl Display,
        measured: impl Display,
        holds: bool,
    ) {
        let what = what.to_string();
        println!("{} | {what} | asked {asked} | {measured}", if holds { "PASS" } else { "FAIL" });
        self.lines += 1;
        if !holds {
            self.missed.push(what);
        }
    }

    /// Something works, or an error says how it does not.
    pub(crate) fn works(&mut self, what: &str, done: anyhow::Result<String>) {
        match done {
            Ok(how) => self.line(what, "works", how, true),
            Err(error) => self.line(what, "works", format!("{error:#}"), false),
        }
    }

    /// At most so much.
    pub(crate) fn at_most(&mut self, what: &str, unit: &str, asked: f64, measured: f64) {
        let holds = measured <= asked;
        let asked = format!("at most {asked} {unit}");
        self.line(what, asked, format!("{measured:.2} {unit}"), holds);
    }

    /// At least so much, of something that has no unit.
    pub(crate) fn at_least(&mut self, what: &str, asked: f64, measured: f64) {
        let holds = measured >= asked;
        self.line(what, format!("at least {asked}"), format!("{measured:.3}"), holds);
    }

    /// Whether all holds.
    ///
    /// # Errors
    /// With what does not.
    pub(crate) fn verdict(&self) -> Result<()> {
        let missed = self.missed();
        ensure!(missed.is_empty(), "{} do not hold: {}", missed.len(), missed.join("; "));
        Ok(())
    }

    /// How many lines there are.
    pub(crate) fn lines(&self) -> usize {
        self.lines
    }

    /// What does not hold.
    pub(crate) fn missed(&self) -> &[String] {
        &self.missed
    }
}

#[cfg(test)]
mod tests {
    use super::Report;

    #[test]
    fn what_does_not_hold_is_missed_and_a_figure_at_its_bound_holds() {
        let mut report = Report::default();
        report.at_most("a span", "s", 5.0, 5.0);
        report.at_least("a share", 0.9, 0.9);
        report.works("one", Ok("well".to_owned()));
        assert!(report.missed().is_empty() && report.verdict().is_ok());
        report.at_most("long", "s", 5.0, 5.1);
        report.at_least("little", 0.9, 0.89);
        report.works("other", Err(anyhow::anyhow!("no")));
        report.at_least("nothing", 0.9, f64::NAN);
        assert_eq!(report.missed(), ["long", "little", "other", "nothing"]);
        assert_eq!(report.lines(), 7);
        let told = report.verdict().expect_err("four").to_string();
        assert_eq!(told, "4 do not hold: long; little; other; nothing");
    }
}
