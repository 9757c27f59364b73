//! Users and groups as this machine calls them: the cell knows numbers alone.

use cairn_types::NOBODY;
use std::collections::BTreeMap;
use std::fs::read_to_string;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// Where a machine lists one kind of them.
#[derive(Clone, Copy, Debug)]
pub(crate) enum NameList {
    Users,
    Groups,
}

impl NameList {
    fn file(self) -> &'static str {
        match self {
            Self::Users => "/etc/passwd",
            Self::Groups => "/etc/group",
        }
    }

    /// What `getent` calls it, which also knows what stands in no file.
    fn database(self) -> &'static str {
        match self {
            Self::Users => "passwd",
            Self::Groups => "group",
        }
    }

    /// What one is called here; its number, where this machine does not know it.
    pub(crate) fn name(self, number: u32) -> String {
        static USERS: OnceLock<BTreeMap<u32, String>> = OnceLock::new();
        static GROUPS: OnceLock<BTreeMap<u32, String>> = OnceLock::new();
        let known = match self {
            Self::Users => &USERS,
            Self::Groups => &GROUPS,
        };
        let known = known.get_or_init(|| {
            let text = read_to_string(self.file()).unwrap_or_default();
            // The first of a number counts.
            text.lines().rev().filter_map(entry).map(|(name, number)| (number, name)).collect()
        });
        known.get(&number).cloned().unwrap_or_else(|| number.to_string())
    }

    /// The number of a name, or of a number that is written as one.
    pub(crate) fn number(self, text: &str) -> Option<u32> {
        if let Ok(number) = text.parse() {
            return Some(number);
        }
        let known = |text_of_all: &str| {
            text_of_all.lines().filter_map(entry).find(|(name, _)| name == text)
        };
        let listed = read_to_string(self.file()).unwrap_or_default();
        let found = known(&listed).or_else(|| {
            let mut ask = Command::new("getent");
            let told = ask.args([self.database(), text]).stderr(Stdio::null()).output().ok()?;
            known(&String::from_utf8_lossy(&told.stdout))
        });
        found.map(|(_, number)| number)
    }
}

/// The number of a user or group that there can be.
///
/// # Errors
/// One line, for nobody's number.
pub(crate) fn of_somebody(number: u32) -> Result<u32, String> {
    match number {
        NOBODY => Err(format!("{NOBODY} is nobody's number: no user or group has it")),
        number => Ok(number),
    }
}

/// Name and number of a line `name:password:number:…`.
fn entry(line: &str) -> Option<(String, u32)> {
    let mut parts = line.split(':');
    let name = parts.next()?.to_owned();
    Some((name, parts.nth(1)?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::{NameList, entry};

    #[test]
    fn a_name_has_its_number_and_what_has_no_name_is_shown_as_its_number() {
        assert_eq!(entry("mail:x:8:12:mail:/var/mail:/bin/false"), Some(("mail".to_owned(), 8)));
        assert_eq!(entry("# a comment"), None);
        assert_eq!(NameList::Users.name(0), "root");
        assert_eq!(NameList::Groups.number("root"), Some(0));
        assert_eq!(NameList::Users.number("4000000000"), Some(4_000_000_000));
        assert_eq!(NameList::Users.name(4_000_000_000), "4000000000");
        assert_eq!(NameList::Users.number("nobody-of-this-name"), None);
    }
}
