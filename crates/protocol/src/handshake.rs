//! The first frame each way: who speaks, which versions, which cell (design §3).

use crate::{ErrorCode, Failure, PROTOCOL_VERSION, PROTOCOL_VERSION_OLDEST, Request, RpcDirection};
use cairn_types::{CellId, Incarnation, ServerId};

cairn_types::code! {
    /// What a party is.
    #[derive(Default)]
    pub enum Role {
        /// A client.
        #[default]
        Client = 1,
        /// A chunkserver.
        Chunkserver = 2,
        /// A master.
        Master = 3,
    }
}

cairn_types::message! {
    /// What the side that dialled says first.
    pub struct Hello {
        1 => version_oldest: u32,
        2 => version_newest: u32,
        /// None where it has not yet joined one.
        3 => cell: CellId,
        4 => role: Role,
        5 => server: ServerId,
        6 => incarnation: Incarnation,
        /// The server that it means to reach; zero where any will do (R5).
        7 => expects: ServerId,
        8 => build: String,
        /// Who it is, as it says: an `Identity`. Empty: the superuser, or a server.
        9 => credentials: bytes::Bytes,
    }
}

cairn_types::message! {
    /// What the side that listens answers.
    pub struct Welcome {
        1 => version: u32,
        2 => cell: CellId,
        3 => role: Role,
        4 => server: ServerId,
        5 => incarnation: Incarnation,
        6 => build: String,
    }
}

impl Hello {
    /// The versions of this build.
    #[must_use]
    pub fn new(cell: CellId, role: Role, server: ServerId, incarnation: Incarnation) -> Self {
        Self {
            version_oldest: u32::from(PROTOCOL_VERSION_OLDEST),
            version_newest: u32::from(PROTOCOL_VERSION),
            cell,
            role,
            server,
            incarnation,
            expects: ServerId::default(),
            build: env!("CARGO_PKG_VERSION").to_owned(),
            credentials: bytes::Bytes::new(),
        }
    }
}

impl Role {
    fn name(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Chunkserver => "chunkserver",
            Self::Master => "master",
        }
    }

    /// Whether such a one asks this of anyone (R2). No catch-all arm: whoever adds a direction says
    /// whose it is.
    fn asks(self, request: &Request) -> bool {
        match request.direction() {
            // A connection has one, and that comes before anyone has a role.
            RpcDirection::Handshake => false,
            RpcDirection::ClientToMaster => match request {
                // Whoever looks for the primary master asks all of them.
                Request::FindPrimary(_) => true,
                _ => self == Self::Client,
            },
            RpcDirection::ClientToMember
            | RpcDirection::ClientToServer
            | RpcDirection::ClientToStreams => self == Self::Client,
            RpcDirection::ClientToChunkserver => match request {
                // Bytes in a buffer do nothing to anyone, whoever brought them.
                Request::Push(_) => true,
                // A primary asks its secondaries for it.
                Request::SyncChunk(_) => self != Self::Master,
                // A master asks the primary of a file's last chunk for it.
                Request::ChunkLength(_) => self != Self::Chunkserver,
                _ => self == Self::Client,
            },
            RpcDirection::ChunkserverToMaster
            | RpcDirection::PrimaryToSecondary
            | RpcDirection::ReplicaToReplica => self == Self::Chunkserver,
            RpcDirection::MasterToChunkserver | RpcDirection::MasterToMaster => {
                self == Self::Master
            }
        }
    }
}

/// The listening side's judgement of a request: whether one who said that it is this may ask it
/// (R2). Whoever asks more is not what it said.
///
/// # Errors
/// A [`Failure`] that names both, after which nothing more is to be taken from it.
pub fn judge_request(caller: Role, request: &Request) -> Result<(), Failure> {
    if caller.asks(request) {
        return Ok(());
    }
    let line = format!("a {} does not ask {} of anyone", caller.name(), request.name());
    Err(Failure::refused(ErrorCode::Invalid, line))
}

/// The listening side's judgement: the highest version both speak, one cell, the server meant.
///
/// # Errors
/// A [`Failure`] that names both sides' versions, cells or servers.
pub fn judge_hello(hello: &Hello, ours: &Hello) -> Result<Welcome, Failure> {
    let version = hello.version_newest.min(ours.version_newest);
    if version < hello.version_oldest.max(ours.version_oldest) {
        return Err(Failure::refused(
            ErrorCode::VersionUnsupported,
            format!(
                "no common protocol version: this server speaks {} to {}, the caller {} to {}; \
                 upgrade the older one",
                ours.version_oldest,
                ours.version_newest,
                hello.version_oldest,
                hello.version_newest
            ),
        ));
    }
    if !hello.cell.is_none() && !ours.cell.is_none() && hello.cell != ours.cell {
        return Err(Failure::refused(
            ErrorCode::WrongCell,
            format!("this server belongs to cell {}, the caller to {}", ours.cell, hello.cell),
        ));
    }
    if hello.expects != ServerId::default() && hello.expects != ours.server {
        return Err(Failure::refused(
            ErrorCode::WrongServer,
            format!("server {} listens here, the caller means {}", ours.server, hello.expects),
        ));
    }
    Ok(Welcome {
        version,
        cell: ours.cell,
        role: ours.role,
        server: ours.server,
        incarnation: ours.incarnation,
        build: ours.build.clone(),
    })
}

#[cfg(test)]
mod tests {
    use super::{Hello, Role, judge_hello, judge_request};
    use crate::{
        Append, ChunkLength, ConsensusMessages, ErrorCode, FindPrimary, Forward, Heartbeat, Push,
        Raise, Request, Stat, SyncChunk,
    };
    use cairn_types::sample::Sample;
    use cairn_types::{CellId, Incarnation, Random, ServerId};
    use proptest::prelude::proptest;

    fn hello(cell: u128) -> Hello {
        Hello::new(CellId::new(cell), Role::Client, ServerId::new(5), Incarnation::new(1))
    }

    #[test]
    fn neighbours_agree_on_the_highest_common_version_and_others_are_refused_naming_both() {
        let newer = Hello { version_oldest: 1, version_newest: 2, ..hello(0) };
        assert_eq!(judge_hello(&newer, &hello(9)).map(|w| w.version), Ok(1));
        let far = Hello { version_oldest: 7, version_newest: 8, ..hello(0) };
        let refusal = judge_hello(&far, &hello(9)).expect_err("no common version");
        assert_eq!(refusal.code, ErrorCode::VersionUnsupported);
        assert!(refusal.message.contains("1 to 1") && refusal.message.contains("7 to 8"));
    }

    #[test]
    fn another_cell_or_another_server_is_refused() {
        let code = |hello, ours| judge_hello(&hello, &ours).map(|_| ()).map_err(|f| f.code);
        assert_eq!(code(hello(1), hello(2)), Err(ErrorCode::WrongCell));
        assert_eq!(code(hello(0), hello(2)), Ok(()));
        let expects = Hello { expects: ServerId::new(6), ..hello(2) };
        assert_eq!(code(expects, hello(2)), Err(ErrorCode::WrongServer));
    }

    #[test]
    fn a_role_asks_for_what_is_its_own_and_nothing_else() {
        let [client, server, master] = [Role::Client, Role::Chunkserver, Role::Master];
        let rows: [(Request, &[Role]); 11] = [
            (Stat::default().into(), &[client]),
            (FindPrimary {}.into(), &[client, server, master]),
            (Append::default().into(), &[client]),
            (Push::default().into(), &[client, server, master]),
            (SyncChunk::default().into(), &[client, server]),
            (ChunkLength::default().into(), &[client, master]),
            (Heartbeat::default().into(), &[server]),
            (Forward::default().into(), &[server]),
            (Raise::default().into(), &[master]),
            (ConsensusMessages::default().into(), &[master]),
            (hello(9).into(), &[]),
        ];
        for (request, askers) in rows {
            for role in [client, server, master] {
                let judged = judge_request(role, &request);
                assert_eq!(judged.is_ok(), askers.contains(&role), "{role:?} {request:?}");
            }
        }
        let refusal = judge_request(client, &Raise::default().into()).expect_err("a master's");
        assert_eq!(refusal.message, "a client does not ask Raise of anyone");
    }

    proptest! {
        #[test]
        fn whatever_a_caller_says_is_judged(seed: u64) {
            let theirs = Hello::sample(&mut Random::new(seed));
            if let Ok(welcome) = judge_hello(&theirs, &hello(9)) {
                for side in [theirs, hello(9)] {
                    assert!((side.version_oldest..=side.version_newest).contains(&welcome.version));
                }
            }
        }
    }
}
