//! Where a cell is, and which of its paths is meant.
//!
//! ```text
//!   /logs/today                          the cell of --cell, CAIRN_CELL, the settings file, or
//!                                        this machine's
//!   cairn://host:7400/logs/today         that cell
//!   cairn://m1:7400,m2:7400/logs/today   that cell, several addresses
//! ```

use crate::cli_error::Cause;
use crate::exit_codes::Exit;
use cairn_types::{Address, CellPath};
use std::fmt;

/// Where a master listens unless it is told otherwise.
pub(crate) const DEFAULT_PORT: u16 = 7400;
/// The cell that is meant where nothing says otherwise.
pub(crate) const DEFAULT_CELL: &str = "127.0.0.1:7400";
const SCHEME: &str = "cairn://";

/// One or several `host:port`, checked and made normal.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CellAddress(String);

impl CellAddress {
    /// Reads `host`, `host:port`, `[v6]:port`, several of them after commas, with or without
    /// `cairn://` before them.
    pub(crate) fn parse(text: &str) -> Result<Self, Cause> {
        let bare = text.strip_prefix(SCHEME).unwrap_or(text);
        let bare = bare.strip_suffix('/').unwrap_or(bare);
        let all: Result<Vec<String>, Cause> = bare.split(',').map(host_and_port).collect();
        Ok(Self(all?.join(",")))
    }

    /// As the client library takes it.
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// One by one.
    pub(crate) fn addresses(&self) -> Vec<Address> {
        self.0.split(',').map(Address::new).collect()
    }
}

impl fmt::Display for CellAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The port of a host and a port, where the text is that.
fn port_of(text: &str) -> Option<u16> {
    let (host, port) = text.rsplit_once(':')?;
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let whole = bare.is_some() || !host.contains(':');
    port.parse().ok().filter(|_| !host.is_empty() && whole)
}

/// Checks that a server can listen on `text`: a host and a port, 0 for any that is free.
pub(crate) fn check_listen(text: &str) -> Result<(), Cause> {
    if port_of(text).is_some() {
        return Ok(());
    }
    let why = format!("'{text}' is no address to listen on");
    Err(Cause::new(Exit::Usage, why, "--listen takes HOST:PORT, such as 127.0.0.1:7400"))
}

/// Checks that others can reach a server at `text`: no port is the one that they would guess.
pub(crate) fn check_advertise(text: &str) -> Result<(), Cause> {
    if port_of(text).is_some_and(|port| port > 0) {
        return Ok(());
    }
    let why = format!("'{text}' is no address to be reached at");
    Err(Cause::new(Exit::Usage, why, "--advertise takes HOST:PORT, such as storage11:7401"))
}

fn host_and_port(text: &str) -> Result<String, Cause> {
    let wrong = |why: String| {
        Err(Cause::new(Exit::Usage, why, "an address is host:port, such as 127.0.0.1:7400"))
    };
    let after_bracket = text.rfind(']').map_or(0, |at| at + 1);
    let (host, port) = match text[after_bracket..].split_once(':') {
        Some((rest, port)) => (&text[..after_bracket + rest.len()], port),
        None => (text, ""),
    };
    let fit = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':' | '[' | ']');
    if host.is_empty() || !host.chars().all(fit) {
        return wrong(format!("'{text}' names no host"));
    }
    if port.is_empty() && !text.ends_with(':') {
        return Ok(format!("{host}:{DEFAULT_PORT}"));
    }
    match port.parse::<u16>() {
        Ok(port) if port > 0 => Ok(format!("{host}:{port}")),
        _ => wrong(format!("'{port}' in '{text}' is no port")),
    }
}

/// A path, and the cell it is in where the text says so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TargetPath {
    /// None: the cell that is meant by default.
    pub(crate) cell: Option<CellAddress>,
    /// Within the cell.
    pub(crate) path: CellPath,
    /// It was written with a `/` at its end: a directory is meant.
    pub(crate) directory: bool,
    /// It was written with a `/.` at its end: what is in the directory is meant.
    pub(crate) content: bool,
}

impl TargetPath {
    /// Reads a path as a person writes it.
    pub(crate) fn parse(text: &str) -> Result<Self, Cause> {
        let (cell, path) = match text.strip_prefix(SCHEME) {
            None => (None, text),
            Some(rest) => {
                let (address, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
                (Some(CellAddress::parse(address)?), if path.is_empty() { "/" } else { path })
            }
        };
        let content = path.ends_with("/.");
        let path = if content { &path[..path.len() - 1] } else { path };
        let directory = path.ends_with('/');
        Ok(Self { cell, path: CellPath::parse(path)?, directory, content })
    }
}

#[cfg(test)]
mod tests {
    use super::{CellAddress, TargetPath, check_listen};

    fn address(text: &str) -> Result<String, String> {
        CellAddress::parse(text).map(|a| a.as_str().to_owned()).map_err(|cause| cause.why)
    }

    #[test]
    fn addresses_are_made_normal() {
        assert_eq!(address("host"), Ok("host:7400".into()));
        assert_eq!(address("cairn://host:1/"), Ok("host:1".into()));
        assert_eq!(address("[::1]:80,b"), Ok("[::1]:80,b:7400".into()));
        assert_eq!(address("[::1]"), Ok("[::1]:7400".into()));
    }

    #[test]
    fn a_wrong_address_says_what_is_wrong_with_it() {
        assert_eq!(address("host:99999"), Err("'99999' in 'host:99999' is no port".into()));
        assert_eq!(address("host:"), Err("'' in 'host:' is no port".into()));
        assert_eq!(address(":7400"), Err("':7400' names no host".into()));
        assert_eq!(address("a,,b"), Err("'' names no host".into()));
        assert_eq!(address("my host:1"), Err("'my host:1' names no host".into()));
    }

    #[test]
    fn a_server_listens_on_a_host_and_a_port() {
        for good in ["127.0.0.1:0", "host:7400", "[::1]:80", "0.0.0.0:65535"] {
            assert!(check_listen(good).is_ok(), "{good}");
        }
        for bad in ["garbage", "127.0.0.1", ":7400", "::1", "::1:80", "host:", "host:65536"] {
            let cause = check_listen(bad).expect_err(bad);
            assert!(cause.why.contains(bad), "{}", cause.why);
        }
    }

    #[test]
    fn a_path_may_name_its_cell() {
        let target = TargetPath::parse("cairn://h:1/a/b/").expect("a target");
        assert_eq!(target.cell, Some(CellAddress("h:1".into())));
        assert_eq!((target.path.as_str(), target.directory), ("/a/b", true));
        assert_eq!(TargetPath::parse("cairn://h").expect("the root").path.as_str(), "/");
        assert_eq!(TargetPath::parse("/a").expect("a path").cell, None);
        assert!(TargetPath::parse("a").is_err());
        let content = TargetPath::parse("/a/.").expect("a path");
        assert_eq!((content.path.as_str(), content.content), ("/a", true));
        assert!(TargetPath::parse("/a/..").is_err() && TargetPath::parse("/./a").is_err());
    }
}
