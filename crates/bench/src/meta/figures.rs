//! The figures of a run: told as they come, beside what is wanted and what a peer did.

use super::population::Naming;
use crate::error::BenchError;
use crate::printer::Printer;
use clap::ValueEnum;
use serde_json::json;
use std::collections::BTreeMap;

/// Tells figures.
pub(crate) struct Figures<'o> {
    printer: &'o Printer,
    /// What a peer did, by the figure's name.
    peer: BTreeMap<String, f64>,
}

/// One figure.
pub(crate) struct Figure<'a> {
    /// In a few words; names it for programs too.
    pub(crate) what: &'a str,
    pub(crate) value: f64,
    pub(crate) digits: usize,
    pub(crate) unit: &'a str,
    /// What is asked for; empty where nothing is.
    pub(crate) wanted: &'a str,
}

impl<'o> Figures<'o> {
    pub(crate) fn new(printer: &'o Printer) -> Self {
        Self { printer, peer: BTreeMap::new() }
    }

    /// A peer's figures, by name.
    pub(crate) fn beside(&mut self, peer: BTreeMap<String, f64>) {
        self.peer = peer;
    }

    /// The head of a table.
    pub(crate) fn head(&self, what: &str) -> Result<(), BenchError> {
        if self.printer.json() {
            return Ok(());
        }
        self.printer.line(&format!("{what:<48} {:>14} {:<12} {:<16}", "measured", "", "wanted"))
    }

    pub(crate) fn title(&self, files: u64, names: Naming) -> Result<(), BenchError> {
        if self.printer.json() {
            return Ok(());
        }
        let names = names.to_possible_value();
        let names = names.as_ref().map_or("", |value| value.get_name());
        let peer = if self.peer.is_empty() { "" } else { "          hdfs" };
        self.printer.line(&format!("{files} files, names ({names})"))?;
        self.printer
            .line(&format!("{:<48} {:>14} {:<12} {:<16}{peer}", "", "measured", "", "wanted"))
    }

    /// What is being done, for who waits; nothing for programs.
    pub(crate) fn progress(&self, text: &str) -> Result<(), BenchError> {
        if self.printer.json() { Ok(()) } else { self.printer.line(&format!("… {text}")) }
    }

    pub(crate) fn tell(&self, figure: &Figure<'_>) -> Result<(), BenchError> {
        let Figure { what, value, digits, unit, wanted } = *figure;
        let peer = self.peer.get(what);
        if self.printer.json() {
            let rounded = (value * 1e3).round() / 1e3;
            return self.printer.value(&json!({
                "what": what, "value": rounded, "unit": unit, "wanted": wanted, "hdfs": peer,
            }));
        }
        let peer = peer.map(|peer| format!(" {peer:>12.digits$}")).unwrap_or_default();
        let line = format!("{what:<48} {value:>14.digits$} {unit:<12} {wanted:<16}{peer}");
        self.printer.line(line.trim_end())
    }
}
