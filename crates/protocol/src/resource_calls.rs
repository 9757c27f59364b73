//! What servers have and what they take: disks, memory, descriptors. Told by chunkservers with each
//! heartbeat, and kept by the master for people.

use cairn_types::{ReplicaAt, ServerId};

/// Data directories of one server that are told of.
pub const DISK_COUNT_MAX: usize = 64;
/// Bytes of a data directory's path that are told, the last ones of a longer one.
pub const DISK_PATH_SIZE_MAX: usize = 255;

cairn_types::message! {
    /// A data directory. Sizes in bytes.
    pub struct DiskStatus {
        1 => path: String,
        /// Equal for directories on one file system, whose space is counted once.
        2 => file_system: u64,
        /// Of the file system, whoever uses it.
        3 => capacity: u64,
        4 => used: u64,
        5 => chunk_count: u64,
        /// It is of no more use to its server.
        6 => failed: bool,
    }
}

cairn_types::message! {
    /// What a process takes of its machine, and what it may take. Bytes; of a bound, zero: none.
    #[derive(Copy)]
    pub struct ResourceUse {
        /// All memory that the system counts for it.
        1 => resident: u64,
        /// Held for those who are connected: requests, answers, pushes half arrived.
        2 => peers: u64,
        3 => peers_max: u64,
        /// Pushed data that waits for its mutation.
        4 => pushes: u64,
        5 => pushes_max: u64,
        /// Open files and connections.
        6 => descriptors: u64,
        7 => descriptors_max: u64,
        /// Connections taken in.
        8 => connections: u64,
        9 => connections_max: u64,
        /// Where its HTTP port is; zero: it has none.
        10 => http_port: u32,
        /// The IPv4 address that this is bound to; zero: any, or none of that kind.
        11 => http_ip: u32,
    }
}

cairn_types::message! {
    /// What each process of the cell takes.
    pub struct Resources { }
}
cairn_types::message! {
    /// One server's.
    pub struct ServerResources { 1 => at: ReplicaAt, 2 => resources: ResourceUse }
}
cairn_types::message! {
    /// The master's, and in order of address those of the chunkservers that are not dead.
    pub struct ResourcesAnswer {
        1 => master: ResourceUse,
        2 => servers: Vec<ServerResources>,
    }
}

cairn_types::message! {
    /// The data directories of servers whose ids come after `after`.
    pub struct ListDisks { 1 => after: ServerId }
}
cairn_types::message! {
    /// One server's.
    pub struct ServerDisks { 1 => at: ReplicaAt, 2 => disks: Vec<DiskStatus> }
}
cairn_types::message! {
    /// In order of id. `resume` is what to ask `after` next; none at the end.
    pub struct ListDisksAnswer {
        1 => servers: Vec<ServerDisks>,
        2 => resume: Option<ServerId>,
    }
}
