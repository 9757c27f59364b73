//! What a rule says of a place that breaks it.

use std::fmt;

/// One place that breaks one rule.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Finding {
    /// The file or folder, from the root.
    pub(crate) path: String,
    /// Its line, from 1.
    pub(crate) line: usize,
    /// The rule's name, as exceptions say it.
    pub(crate) rule: &'static str,
    /// What is wrong, and what to do.
    pub(crate) message: String,
    /// Of a rule with a limit: what was measured.
    pub(crate) measured: usize,
}

impl Finding {
    pub(crate) fn new(
        rule: &'static str,
        path: &str,
        line: usize,
        message: impl Into<String>,
    ) -> Self {
        Self { path: path.to_owned(), line, rule, message: message.into(), measured: 0 }
    }

    /// Of a rule with a limit.
    pub(crate) fn measured(rule: &'static str, path: &str, measured: usize, text: String) -> Self {
        Self { measured, ..Self::new(rule, path, 1, text) }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {} [{}]", self.path, self.line, self.message, self.rule)
    }
}
