//! Which machine is which server, and what a person has told servers to be; from joins that a
//! master took and from the log.

use cairn_env_sim::NodeId;
use cairn_protocol::Join;
use cairn_types::{Incarnation, ServerId};
use std::collections::{BTreeMap, BTreeSet};

/// The book.
#[derive(Debug, Default)]
pub(crate) struct ServerBook {
    /// Who joined last from a machine.
    by_node: BTreeMap<NodeId, ServerId>,
    /// As which incarnation a process that runs asked to be taken in, and those that are over.
    incarnations: BTreeMap<NodeId, Incarnation>,
    over: BTreeSet<Incarnation>,
    draining: BTreeSet<ServerId>,
    /// Those that no machine is any more, as far as the log has not forgotten them.
    former: BTreeSet<ServerId>,
}

impl ServerBook {
    /// A process wants to be taken in.
    pub(crate) fn wants_to_join(&mut self, node: NodeId, join: &Join) {
        if !self.over.contains(&join.incarnation) {
            self.incarnations.insert(node, join.incarnation);
        }
    }

    /// The process on a node has ended.
    pub(crate) fn stopped(&mut self, node: NodeId) {
        self.over.extend(self.incarnations.remove(&node));
    }

    /// A master has taken a server in. Of a process that is over it may hear late (healing seed
    /// 211).
    pub(crate) fn joined(&mut self, node: NodeId, join: &Join) {
        if self.over.contains(&join.incarnation) {
            return;
        }
        let server = join.at.server;
        let before = self.by_node.insert(node, server);
        let is_elsewhere = |it: &ServerId| self.by_node.values().any(|other| other == it);
        self.former.extend(before.filter(|it| !is_elsewhere(it)));
        self.former.remove(&server);
    }

    /// It is logged that a server is to be emptied, or is not any more.
    pub(crate) fn drains(&mut self, server: ServerId, drains: bool) {
        if drains {
            self.draining.insert(server);
        } else {
            self.draining.remove(&server);
        }
    }

    /// It is logged that a server is forgotten, and with it what it was told to be.
    pub(crate) fn forgotten(&mut self, server: ServerId) {
        self.draining.remove(&server);
        self.former.remove(&server);
    }

    /// Servers that no machine is any more.
    pub(crate) fn former(&self) -> impl Iterator<Item = ServerId> {
        self.former.iter().copied()
    }

    /// The server that a machine is; none where it never joined.
    pub(crate) fn server_at(&self, node: NodeId) -> Option<ServerId> {
        self.by_node.get(&node).copied()
    }

    /// Whether the server on a machine is to be emptied.
    pub(crate) fn is_draining(&self, node: NodeId) -> bool {
        self.server_at(node).is_some_and(|server| self.draining.contains(&server))
    }

    /// Servers that are to be emptied.
    pub(crate) fn draining(&self) -> impl Iterator<Item = ServerId> {
        self.draining.iter().copied()
    }
}
