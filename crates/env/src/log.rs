//! What a process tells the person who runs it: events with a level, a name and fields.
//!
//! ```text
//!   2026-11-23T10:04:05.678Z WARN not in the cell master=m1:7400 why="nobody listens there"
//!   {"time":"2026-11-23T10:04:05.678Z","level":"warn","event":"not in the cell","master":…}
//! ```
//! - L1: an event's name is a constant: what differs from one time to the next is a field. So a
//!   name can be searched for, counted and alarmed on.
//! - L2: text that a peer chose (a path, a reason) is quoted: no line of a log is written by anyone
//!   but this process.

use cairn_types::WallTime;
use std::fmt::{self, Display, Write};
use std::str::FromStr;

/// How much an operator needs to know of an event. Ordered: the most urgent is the least.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LogLevel {
    /// Somebody has to act: data is in danger, or something stands still.
    Error,
    /// Something is wrong, and the cell copes with it.
    Warn,
    /// What changes the state of the process or the cell; a few lines an hour.
    Info,
    /// For whoever looks for a reason.
    Debug,
}

/// A level's name that is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a level; levels are error, warn, info and debug")]
pub struct UnknownLogLevel;

impl LogLevel {
    /// Its name, in small letters.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warn => "warn",
            Self::Info => "info",
            Self::Debug => "debug",
        }
    }
}

impl FromStr for LogLevel {
    type Err = UnknownLogLevel;

    fn from_str(name: &str) -> Result<Self, UnknownLogLevel> {
        let all = [Self::Error, Self::Warn, Self::Info, Self::Debug];
        all.into_iter().find(|level| level.name() == name).ok_or(UnknownLogLevel)
    }
}

/// What a field says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogValue {
    /// Words.
    Text(String),
    /// A number.
    Number(u64),
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogEvent {
    /// How much it matters.
    pub level: LogLevel,
    /// What happened, in a few words that are always the same (L1).
    pub name: &'static str,
    /// What of, in the order told.
    pub fields: Vec<(&'static str, LogValue)>,
}

impl LogEvent {
    fn new(level: LogLevel, name: &'static str) -> Self {
        Self { level, name, fields: Vec::new() }
    }

    /// An event of level [`LogLevel::Error`].
    #[must_use]
    pub fn error(name: &'static str) -> Self {
        Self::new(LogLevel::Error, name)
    }

    /// An event of level [`LogLevel::Warn`].
    #[must_use]
    pub fn warn(name: &'static str) -> Self {
        Self::new(LogLevel::Warn, name)
    }

    /// An event of level [`LogLevel::Info`].
    #[must_use]
    pub fn info(name: &'static str) -> Self {
        Self::new(LogLevel::Info, name)
    }

    /// An event of level [`LogLevel::Debug`].
    #[must_use]
    pub fn debug(name: &'static str) -> Self {
        Self::new(LogLevel::Debug, name)
    }

    /// The event with a field in words.
    #[must_use]
    pub fn with(mut self, key: &'static str, value: impl Display) -> Self {
        self.fields.push((key, LogValue::Text(value.to_string())));
        self
    }

    /// The event with a field that is a number.
    #[must_use]
    pub fn with_number(mut self, key: &'static str, value: u64) -> Self {
        self.fields.push((key, LogValue::Number(value)));
        self
    }

    /// A line for people, without its end.
    #[must_use]
    pub fn text_line(&self, time: WallTime) -> String {
        format!("{time} {self}")
    }

    /// A line for machines, without its end: one JSON object.
    #[must_use]
    pub fn json_line(&self, time: WallTime) -> String {
        let mut line = format!(r#"{{"time":"{time}","level":"{}","event":"#, self.level.name());
        put_quoted(self.name, &mut line);
        for (key, value) in &self.fields {
            line.push(',');
            put_quoted(key, &mut line);
            line.push(':');
            match value {
                LogValue::Text(text) => put_quoted(text, &mut line),
                LogValue::Number(number) => line.push_str(&number.to_string()),
            }
        }
        line.push('}');
        line
    }
}

/// The event in words, without its time.
impl Display for LogEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.level.name().to_uppercase(), self.name)?;
        for (key, value) in &self.fields {
            match value {
                LogValue::Number(number) => write!(f, " {key}={number}")?,
                LogValue::Text(text) if is_plain(text) => write!(f, " {key}={text}")?,
                LogValue::Text(text) => {
                    let mut quoted = String::new();
                    put_quoted(text, &mut quoted);
                    write!(f, " {key}={quoted}")?;
                }
            }
        }
        Ok(())
    }
}

/// Whether a text needs no quotes to be told from what stands around it.
fn is_plain(text: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_graphic() && !matches!(c, '"' | '\\' | '=');
    !text.is_empty() && text.chars().all(is_plain)
}

/// Appends a JSON string (L2).
fn put_quoted(text: &str, line: &mut String) {
    line.push('"');
    for c in text.chars() {
        match c {
            '"' => line.push_str("\\\""),
            '\\' => line.push_str("\\\\"),
            '\n' => line.push_str("\\n"),
            c if c.is_control() || matches!(c, '\u{2028}' | '\u{2029}') => {
                write!(line, "\\u{:04x}", u32::from(c)).expect("a string takes all");
            }
            c => line.push(c),
        }
    }
    line.push('"');
}

#[cfg(test)]
mod tests {
    use super::{LogEvent, LogLevel, UnknownLogLevel};
    use cairn_types::WallTime;

    const TIME: WallTime = WallTime::from_millis(1_795_428_245_678);

    #[test]
    fn a_line_for_people_has_time_level_name_and_fields() {
        let event = LogEvent::warn("not in the cell")
            .with("master", "m1:7400")
            .with("why", "nobody listens there")
            .with_number("tries", 3);
        assert_eq!(
            event.text_line(TIME),
            "2026-11-23T10:04:05.678Z WARN not in the cell master=m1:7400 \
             why=\"nobody listens there\" tries=3"
        );
    }

    #[test]
    fn a_line_for_machines_is_one_json_object() {
        let event = LogEvent::info("joined").with("rack", "/dc\"1").with_number("chunks", 7);
        assert_eq!(
            event.json_line(TIME),
            concat!(
                r#"{"time":"2026-11-23T10:04:05.678Z","level":"info","event":"joined","#,
                r#""rack":"/dc\"1","chunks":7}"#
            )
        );
    }

    #[test]
    fn what_a_peer_chose_cannot_begin_a_line_or_a_field_of_its_own() {
        let evil = "x\n2026 ERROR all is lost=\"\u{1b}[2J\\";
        let event = LogEvent::debug("closed").with("why", evil);
        for line in [event.text_line(TIME), event.json_line(TIME)] {
            assert!(line.chars().all(|c| !c.is_control()), "{line:?}");
            assert!(line.contains(r#""x\n2026 ERROR all is lost=\"\u001b[2J\\""#), "{line}");
        }
        assert!(LogEvent::debug("closed").with("why", "").text_line(TIME).ends_with("why=\"\""));
    }

    #[test]
    fn levels_are_ordered_and_known_by_name() {
        assert!(LogLevel::Error < LogLevel::Warn && LogLevel::Info < LogLevel::Debug);
        for level in [LogLevel::Error, LogLevel::Warn, LogLevel::Info, LogLevel::Debug] {
            assert_eq!(level.name().parse(), Ok(level));
        }
        assert_eq!("loud".parse::<LogLevel>(), Err(UnknownLogLevel));
    }
}
