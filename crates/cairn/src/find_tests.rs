//! What `find` asks of an entry, as its Unix namesake means it.

use cairn_types::{Entry, EntryKind, name_matches};
use clap::ValueEnum;
use std::str::FromStr;
use std::time::{SystemTime, UNIX_EPOCH};

const DAY_MS: u64 = 86_400_000;

/// Files or directories.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum FoundKind {
    #[value(name = "f")]
    File,
    #[value(name = "d")]
    Directory,
}

/// `+5M`, `-2`, `7c`: more, less or just so many units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Amount {
    relation: Relation,
    count: u64,
    unit: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Relation {
    More,
    Less,
    Just,
}

/// Where nothing is written behind a size.
const BLOCK: u64 = 512;

impl FromStr for Amount {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (relation, rest) = match text.as_bytes().first() {
            Some(b'+') => (Relation::More, &text[1..]),
            Some(b'-') => (Relation::Less, &text[1..]),
            _ => (Relation::Just, text),
        };
        let digits = rest.trim_end_matches(|character: char| !character.is_ascii_digit());
        let unit = match &rest[digits.len()..] {
            "" | "b" => BLOCK,
            "c" => 1,
            "k" => 1 << 10,
            "M" => 1 << 20,
            "G" => 1 << 30,
            unit => return Err(format!("'{unit}' is no unit: c, k, M or G")),
        };
        let count = digits.parse().map_err(|_| format!("'{rest}' is no number"))?;
        Ok(Self { relation, count, unit })
    }
}

/// An amount of days, which have no units.
pub(crate) fn days(text: &str) -> Result<Amount, String> {
    let amount: Amount = text.parse()?;
    if text.ends_with(|character: char| !character.is_ascii_digit()) {
        return Err(format!("'{text}' is no number of days"));
    }
    Ok(amount)
}

impl Amount {
    fn holds(self, count: u64) -> bool {
        match self.relation {
            Relation::More => count > self.count,
            Relation::Less => count < self.count,
            Relation::Just => count == self.count,
        }
    }

    /// A size counts in units that are begun.
    fn holds_of_size(self, bytes: u64) -> bool {
        self.holds(bytes.div_ceil(self.unit))
    }
}

/// All that is asked.
#[derive(Clone, Debug)]
pub(crate) struct FindTests {
    pub(crate) name: Option<String>,
    pub(crate) kind: Option<FoundKind>,
    pub(crate) size: Option<Amount>,
    /// In whole days.
    pub(crate) age: Option<Amount>,
    pub(crate) now: SystemTime,
}

impl FindTests {
    /// Whether an entry called `name` is wanted.
    pub(crate) fn hold(&self, name: &str, entry: &Entry) -> bool {
        let kind = match entry.kind {
            EntryKind::File => FoundKind::File,
            EntryKind::Directory => FoundKind::Directory,
        };
        self.name.as_ref().is_none_or(|pattern| name_matches(pattern, name))
            && self.kind.is_none_or(|wanted| wanted == kind)
            && self.size.is_none_or(|size| size.holds_of_size(entry.length))
            && self.age.is_none_or(|age| age.holds(self.days_since(entry)))
    }

    fn days_since(&self, entry: &Entry) -> u64 {
        let now = self.now.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
        let now = u64::try_from(now).unwrap_or(u64::MAX);
        // The cell's clock may be a little ahead of this machine's.
        now.saturating_sub(entry.modified.as_millis()) / DAY_MS
    }
}

#[cfg(test)]
mod tests {
    use super::{Amount, FindTests, FoundKind, days};
    use cairn_types::{Entry, EntryKind, WallTime};
    use std::time::{Duration, UNIX_EPOCH};

    fn amount(text: &str) -> Amount {
        text.parse().expect("an amount")
    }

    #[test]
    fn sizes_count_in_units_that_are_begun() {
        for (text, bytes, expected) in [
            ("+1k", 1025, true),
            ("+1k", 1024, false),
            ("-1k", 0, true),
            ("-1k", 1, false),
            ("1", 512, true),
            ("1", 513, false),
            ("7c", 7, true),
            ("+1G", 2 << 30, true),
        ] {
            assert_eq!(amount(text).holds_of_size(bytes), expected, "{text} of {bytes}");
        }
        for bad in ["", "+", "k", "1x", "-1kk"] {
            assert!(bad.parse::<Amount>().is_err(), "{bad}");
        }
    }

    #[test]
    fn ages_count_in_whole_days_and_all_tests_must_hold() {
        let day = Duration::from_secs(86_400);
        let entry = |days: u32| Entry {
            kind: EntryKind::File,
            modified: WallTime::from_millis(u64::try_from((day * days).as_millis()).expect("fits")),
            ..Entry::default()
        };
        let tests = |age: &str| FindTests {
            name: Some("x*".to_owned()),
            kind: Some(FoundKind::File),
            size: None,
            age: Some(days(age).expect("days")),
            now: UNIX_EPOCH + day * 10 + day / 2,
        };
        assert!(tests("0").hold("x", &entry(10)) && !tests("0").hold("x", &entry(9)));
        assert!(tests("+3").hold("x", &entry(6)) && !tests("+3").hold("x", &entry(7)));
        assert!(days("1k").is_err());
        assert!(tests("-1").hold("x", &entry(11)) && !tests("-1").hold("y", &entry(11)));
    }
}
