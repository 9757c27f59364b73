//! Looking up where a name leads, in a thread of its own: a name server may take its time, and the
//! loop must not.
//!
//! ```text
//!   dial ─► numbers? ─yes─► connect            resolver thread ─► result, then the eventfd
//!              └ no ─► NameLookup, whose eventfd stands in epoll as the socket will ──► connect
//! ```
//! A call's own deadline ends the waiting; what the thread finds afterwards nobody reads.

use cairn_types::Address;
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use std::io::Error;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::Builder;

/// Where a name leads, last resort first; nothing while it is being looked up.
type FoundAddresses = Arc<Mutex<Option<Result<Vec<SocketAddr>, Error>>>>;

/// A name that is being looked up.
#[derive(Debug)]
pub(crate) struct NameLookup {
    found: FoundAddresses,
}

/// An address that says by itself where it leads.
pub(crate) fn numbers(address: &Address) -> Option<SocketAddr> {
    address.as_str().parse().ok()
}

/// What each name leads to that leads to several addresses: whoever looks for one machine among
/// them has to ask each. Waits for the name server.
#[must_use]
pub fn behind_names(addresses: &[Address]) -> Vec<Address> {
    let names = addresses.iter().filter(|address| numbers(address).is_none());
    // One that leads nowhere may tomorrow: who dials it hears why it does not today.
    let found = names.filter_map(|name| name.as_str().to_socket_addrs().ok());
    let several = found.map(Vec::from_iter).filter(|all: &Vec<SocketAddr>| all.len() > 1);
    several.flatten().map(|one| Address::new(one.to_string())).collect()
}

impl NameLookup {
    /// Starts looking; what is given beside it becomes readable when there is a result.
    pub(crate) fn start(address: &Address) -> Result<(Self, OwnedFd), Error> {
        let done = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        let (signal, found) = (done.try_clone()?, FoundAddresses::default());
        let (name, put) = (address.as_str().to_owned(), Arc::clone(&found));
        Builder::new().name("cairn-names".to_owned()).spawn(move || {
            let result = name.to_socket_addrs().map(|all| {
                let mut all: Vec<SocketAddr> = all.collect();
                all.reverse();
                all
            });
            *put.lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
            // Where it fails, the dialling's own patience ends the waiting.
            let _ = rustix::io::write(&signal, &1u64.to_ne_bytes());
        })?;
        Ok((Self { found }, done))
    }

    /// What was found.
    pub(crate) fn result(&self) -> Result<Vec<SocketAddr>, Error> {
        let found = self.found.lock().unwrap_or_else(PoisonError::into_inner).take();
        found.unwrap_or_else(|| Err(Errno::AGAIN.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::behind_names;
    use cairn_types::Address;
    use std::net::ToSocketAddrs;

    #[test]
    fn a_name_that_leads_to_several_addresses_is_told_with_all_of_them_and_others_are_not() {
        let all = ["127.0.0.1:7", "[::1]:7", "no-such-name.invalid:7"].map(Address::new);
        assert_eq!(behind_names(&all), []);
        // Two on some machines, one on others.
        let led: Vec<String> = ("localhost", 7)
            .to_socket_addrs()
            .expect("a name of every machine")
            .map(|one| one.to_string())
            .collect();
        let told = behind_names(&[Address::new("localhost:7")]);
        let told: Vec<&str> = told.iter().map(Address::as_str).collect();
        assert_eq!(told, if led.len() > 1 { led } else { vec![] });
    }
}
