//! What this process takes of its machine, for people who ask: the loop notes what it holds, and
//! the system is asked for the rest.

use crate::limits::LaunchLimits;
use crate::rpc_meter::{RpcCounts, RpcMeter};
use cairn_env::{ConnectionId, LatencyCounts, Resources};
use cairn_protocol::ResourceUse;
use std::collections::BTreeMap;
use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// Where the kernel tells of this process.
const STATUS: &str = "/proc/self/status";
const DESCRIPTORS: &str = "/proc/self/fd";

/// Where this process has its HTTP port: the port, and the address as `ResourceUse` has it.
static HTTP_PORT: AtomicU32 = AtomicU32::new(0);
static HTTP_IP: AtomicU32 = AtomicU32::new(0);

/// This process has an HTTP port from now on, which all of its servers tell of.
pub fn tell_http(at: SocketAddr) {
    let ip = match at.ip() {
        IpAddr::V4(ip) => ip.to_bits(),
        IpAddr::V6(_) => 0,
    };
    HTTP_IP.store(ip, Ordering::Relaxed);
    HTTP_PORT.store(u32::from(at.port()), Ordering::Relaxed);
}

/// Measures one server of this process. Memory and descriptors are those of all of it.
#[derive(Debug, Default)]
pub struct ProcessMeter {
    peers: AtomicU64,
    connections: AtomicU64,
    /// Bounds; zero: none is known.
    peers_max: u64,
    connections_max: u64,
    descriptors_max: u64,
    /// What was asked of the server.
    rpcs: RpcMeter,
    /// Where the clients come from that are connected.
    clients: Mutex<BTreeMap<ConnectionId, SocketAddr>>,
}

impl ProcessMeter {
    /// A meter of a server with such limits, in a process with so many descriptors.
    #[must_use]
    pub fn new(limits: LaunchLimits, descriptors: usize) -> Self {
        Self {
            peers_max: limits.memory_max as u64,
            connections_max: limits.accepted_max as u64,
            descriptors_max: descriptors as u64,
            ..Self::default()
        }
    }

    /// What was asked of the server and answered since it started, by rpc.
    #[must_use]
    pub fn rpcs(&self) -> Vec<RpcCounts> {
        self.rpcs.told()
    }

    /// Where the loop counts that.
    pub(crate) fn rpc_meter(&self) -> &RpcMeter {
        &self.rpcs
    }

    /// What the loop holds for its peers, and how many they are.
    pub(crate) fn note(&self, peers: usize, connections: usize) {
        self.peers.store(peers as u64, Ordering::Relaxed);
        self.connections.store(connections as u64, Ordering::Relaxed);
    }
}

impl ProcessMeter {
    /// A client has come from there.
    pub(crate) fn has_come(&self, connection: ConnectionId, from: SocketAddr) {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner).insert(connection, from);
    }

    /// A connection is gone.
    pub(crate) fn has_gone(&self, connection: ConnectionId) {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner).remove(&connection);
    }
}

impl Resources for ProcessMeter {
    fn asked(&self) -> (LatencyCounts, u64) {
        let all = self.rpcs.told().into_iter();
        all.fold((LatencyCounts::default(), 0), |(took, failed), rpc| {
            (took.with(&rpc.took), failed + rpc.failed)
        })
    }

    fn peer(&self, connection: ConnectionId) -> Option<String> {
        let clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        clients.get(&connection).map(|from| from.ip().to_string())
    }

    fn told(&self) -> ResourceUse {
        ResourceUse {
            resident: resident(),
            peers: self.peers.load(Ordering::Relaxed),
            peers_max: self.peers_max,
            descriptors: descriptors(),
            descriptors_max: self.descriptors_max,
            connections: self.connections.load(Ordering::Relaxed),
            connections_max: self.connections_max,
            http_port: HTTP_PORT.load(Ordering::Relaxed),
            http_ip: HTTP_IP.load(Ordering::Relaxed),
            ..ResourceUse::default()
        }
    }
}

/// Bytes of memory that the system counts for this process; zero where it does not tell.
fn resident() -> u64 {
    let told = fs::read_to_string(STATUS).unwrap_or_default();
    let line = told.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kib.unwrap_or_default() << 10
}

/// Descriptors that this process has open; zero where the system does not tell.
fn descriptors() -> u64 {
    // Since Linux 6.2 the directory's size says it; before, its names have to be counted.
    match fs::metadata(DESCRIPTORS).map(|told| told.len()) {
        Ok(0) => fs::read_dir(DESCRIPTORS).map_or(0, |names| names.count() as u64),
        Ok(count) => count,
        Err(_) => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::ProcessMeter;
    use crate::limits::LaunchLimits;
    use cairn_env::Resources;

    #[test]
    fn a_process_takes_some_memory_and_a_descriptor_for_each_file() {
        let meter = ProcessMeter::new(LaunchLimits::default(), 1000);
        meter.note(5, 6);
        let before = meter.told();
        assert_eq!((before.peers, before.connections, before.descriptors_max), (5, 6, 1000));
        assert!(before.resident > 100 << 10, "{before:?}");
        let files: Vec<_> =
            (0..200).map(|_| std::fs::File::open("/proc/self/statm").expect("opens")).collect();
        let after = meter.told().descriptors;
        // Other tests of this process open and close theirs meanwhile.
        assert!(after >= before.descriptors + 100, "{} then {after}", before.descriptors);
        drop(files);
    }
}
