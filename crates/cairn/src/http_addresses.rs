//! Where the HTTP ports of a cell's servers are, as these tell of themselves.

use cairn_client::{Cell, ResourceUse};
use cairn_types::ServerId;
use std::collections::BTreeMap;
use std::net::Ipv4Addr;

/// Of the master in charge, and of the chunkservers that are not dead.
#[derive(Debug, Default)]
pub(crate) struct HttpAddresses {
    /// The master's, where it has one.
    pub(crate) master: Option<String>,
    servers: BTreeMap<ServerId, String>,
}

impl HttpAddresses {
    /// Asks the master at this address. Where that does not tell, nothing is known: nobody's work
    /// fails for it.
    pub(crate) async fn ask(cell: &Cell, master: &str) -> Self {
        let Ok(answer) = cell.resources().await else { return Self::default() };
        let server = |one: cairn_client::ServerResources| {
            Some((one.at.server, http_at(&one.resources, one.at.address.as_str())?))
        };
        let servers = answer.servers.into_iter().filter_map(server).collect();
        Self { master: http_at(&answer.master, master), servers }
    }

    /// A chunkserver's.
    pub(crate) fn of(&self, server: ServerId) -> Option<&str> {
        self.servers.get(&server).map(String::as_str)
    }
}

/// Where a process has its port that is reached at `address`; nowhere, or it does not tell.
fn http_at(told: &ResourceUse, address: &str) -> Option<String> {
    let port = u16::try_from(told.http_port).ok().filter(|port| *port > 0)?;
    let own = || address.rsplit_once(':').map_or(address, |(host, _)| host).to_owned();
    let host = match told.http_ip {
        0 => own(),
        ip => Ipv4Addr::from(ip).to_string(),
    };
    Some(format!("{host}:{port}"))
}

#[cfg(test)]
mod tests {
    use super::http_at;
    use cairn_client::ResourceUse;

    #[test]
    fn a_port_is_where_it_was_bound_or_wherever_the_server_is_and_some_have_none() {
        let at = |http_ip, http_port| {
            http_at(&ResourceUse { http_ip, http_port, ..ResourceUse::default() }, "m1:7400")
        };
        assert_eq!(at(0, 0), None);
        assert_eq!(at(0x7f00_0001, 8400), Some("127.0.0.1:8400".to_owned()));
        assert_eq!(at(0, 8400), Some("m1:8400".to_owned()));
        assert_eq!(at(0, 70_000), None, "a server's word");
    }
}
