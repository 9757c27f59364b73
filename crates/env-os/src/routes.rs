//! By which connections a server is reached: one for calls, one for pushes of this process's own
//! data, and as many as there have to be for those that it passes on.
//!
//! Knows ids of connections. Never sees a connection.

use crate::ids::OutboundId;
use cairn_types::{Address, ServerId};
use std::collections::BTreeMap;

/// What a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RouteUse {
    Calls,
    /// Pushes of this process's own data.
    Data,
    /// Pushes that it passes on.
    Relays,
}

/// One way to an address: to which server, and by which connection.
#[derive(Debug)]
struct Route {
    server: ServerId,
    usage: RouteUse,
    connection: OutboundId,
}

/// All of them.
#[derive(Debug, Default)]
pub(crate) struct ServerRoutes(BTreeMap<Address, Vec<Route>>);

impl ServerRoutes {
    /// The connections to a server that are for this, the oldest first.
    pub(crate) fn to(
        &self,
        (address, server): (&Address, ServerId),
        usage: RouteUse,
    ) -> impl Iterator<Item = OutboundId> {
        let routes = self.0.get(address).map(Vec::as_slice).unwrap_or_default();
        let found = routes.iter().filter(move |it| it.server == server && it.usage == usage);
        found.map(|route| route.connection)
    }

    pub(crate) fn add(
        &mut self,
        (address, server): (&Address, ServerId),
        usage: RouteUse,
        connection: OutboundId,
    ) {
        let route = Route { server, usage, connection };
        self.0.entry(address.clone()).or_default().push(route);
    }

    /// A connection is gone.
    pub(crate) fn remove(&mut self, address: &Address, connection: OutboundId) {
        let routes = self.0.get_mut(address).expect("as long as it lives");
        routes.retain(|route| route.connection != connection);
        if routes.is_empty() {
            self.0.remove(address);
        }
    }

    #[cfg(test)]
    pub(crate) fn ids_to(&self, address: &Address) -> Vec<OutboundId> {
        self.0.get(address).into_iter().flatten().map(|route| route.connection).collect()
    }
}
