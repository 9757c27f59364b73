//! Why a cell is not healthy, as codes that stay as they are; docs/guide/seeing-it.md has a line
//! for each.

macro_rules! reasons {
    ($( $(#[$about:meta])* $name:ident => $code:literal, )*) => {
        /// One reason.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum ReasonCode { $( $(#[$about])* $name, )* }

        impl ReasonCode {
            /// Every reason.
            pub const ALL: &'static [Self] = &[ $( Self::$name, )* ];

            /// Its name, with which its line begins.
            #[must_use]
            pub fn code(self) -> &'static str {
                match self { $( Self::$name => $code, )* }
            }
        }
    };
}

reasons! {
    /// The master has started, and servers may still tell what they hold.
    Starting => "STARTING",
    /// There is no live chunkserver.
    NoServers => "NO_SERVERS",
    /// Some missed their heartbeats, and are not given up.
    ServersSilent => "SERVERS_SILENT",
    /// Some live, and are not reached at the address that they give.
    ServersUnreached => "SERVERS_UNREACHED",
    /// Some are given up.
    ServersDead => "SERVERS_DEAD",
    /// Too few live servers take new chunks.
    NoRoom => "NO_ROOM",
    /// Some have data directories that are of no more use.
    DisksFailed => "DISKS_FAILED",
    /// No server has some chunks undamaged which is not dead.
    Unavailable => "UNAVAILABLE",
    /// Some chunks have one good replica left.
    OneReplicaLeft => "ONE_REPLICA_LEFT",
    /// Some chunks have fewer good replicas than their goal.
    UnderReplicated => "UNDER_REPLICATED",
    /// A server that is to be emptied cannot be, as the cell is.
    DrainBlocked => "DRAIN_BLOCKED",
    /// Some replicas have blocks that cannot be read, or do not match their checksums.
    Damaged => "DAMAGED",
    /// Some replicas may have lost bytes in a power failure.
    Suspect => "SUSPECT",
    /// Some chunks of streams have lost what was committed.
    LostBytes => "LOST_BYTES",
    /// Servers keep chunks that the log does not know.
    UnknownChunks => "UNKNOWN_CHUNKS",
    /// The master was started from an old copy of its directory.
    Behind => "BEHIND",
    /// The master's disk has no room for its log.
    MasterDiskFull => "MASTER_DISK_FULL",
    /// The master could not write its checkpoint.
    CheckpointFailed => "CHECKPOINT_FAILED",
}
