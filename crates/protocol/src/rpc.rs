//! The table of rpcs: who asks whom, number, request, answer.
//!
//! ```text
//!   client ──► master ──► chunkserver ◄── client        each arrow is a direction: an enum of its
//!                 ▲            │   └────► chunkserver   own, matched without a catch-all arm
//!                 └────────────┘
//! ```
//! - A1: a number is never used for anything else again; it is the frame's kind.
//! - A2: an answer of another kind than asked for is a failure whose outcome is unknown, never a
//!   default: who answers so is broken, and may have done anything ([`Rpc::answer`]).

use crate::failure::{ErrorCode, Failure};
use crate::{
    Acknowledged, AcknowledgedAnswer, Append, AppendAnswer, Batch, BatchAnswer, CellInfo,
    CellInfoAnswer, ChunkClosed, ChunkClosedAnswer, ChunkGrant, ChunkLength, ChunkLengthAnswer,
    CloneChunk, CloneChunkAnswer, Create, CreateAnswer, Delete, DeleteAnswer, DropClone,
    DropCloneAnswer, Explain, ExplainAnswer, Fetch, FetchAnswer, Find, FindAnswer, ForgetServer,
    ForgetServerAnswer, Forward, ForwardAnswer, GrantLease, GrantLeaseAnswer, Heartbeat,
    HeartbeatAnswer, Hello, Inventory, InventoryAnswer, Join, JoinAnswer, Lease, List, ListAnswer,
    ListDegraded, ListDegradedAnswer, ListDisks, ListDisksAnswer, Locate, LocateAnswer,
    MakeDirectory, MakeDirectoryAnswer, Open, OpenAnswer, Probe, ProbeAnswer, Push, PushAnswer,
    Raise, RaiseAnswer, Read, ReadAnswer, RecordLength, RecordLengthAnswer, Rename, RenameAnswer,
    RepairStatus, RepairStatusAnswer, ReportBadBlock, ReportBadBlockAnswer, Resources,
    ResourcesAnswer, RevokeLease, RevokeLeaseAnswer, SecondaryFailed, SecondaryFailedAnswer,
    Servers, ServersAnswer, Stat, StatAnswer, Status, StatusAnswer, SyncChunk, SyncChunkAnswer,
    Welcome, Write, WriteAnswer,
};
use crate::{
    AllocateChunks, AllocateChunksAnswer, CloseProducer, CloseProducerAnswer, CommitBundles,
    CommitBundlesAnswer, Extend, ExtendAnswer, ForgetProducer, ForgetProducerAnswer, ListProducers,
    ListProducersAnswer, OpenProducer, OpenProducerAnswer, ReadExtents, ReadExtentsAnswer,
    SkipLost, SkipLostAnswer, WaitLength, WaitLengthAnswer,
};
use crate::{AskShadow, AskShadowAnswer, TellShadow, TellShadowAnswer};
use crate::{AssembleChunk, AssembleChunkAnswer};
use crate::{BackUp, BackUpAnswer, ReadBackup, ReadBackupAnswer};
use crate::{Balance, BalanceAnswer, Drain, DrainAnswer, Undrain, UndrainAnswer};
use crate::{Busiest, BusiestAnswer};
use crate::{CancelJob, CancelJobAnswer, ListJobs, ListJobsAnswer};
use crate::{ChangeMasters, ChangeMastersAnswer, ChangeSettings, ChangeSettingsAnswer};
use crate::{
    CheckReplica, CheckReplicaAnswer, ListChunks, ListChunksAnswer, ListHeld, ListHeldAnswer,
};
use crate::{ConsensusMessages, ConsensusMessagesAnswer, FetchCheckpoint, FetchCheckpointAnswer};
use crate::{CopyChunk, CopyChunkAnswer};
use crate::{CountShared, CountSharedAnswer, Snapshot, SnapshotAnswer};
use crate::{FindPrimary, FindPrimaryAnswer};
use crate::{GetPolicy, GetPolicyAnswer, SetPolicy, SetPolicyAnswer};
use crate::{GetQuota, GetQuotaAnswer, SetQuota, SetQuotaAnswer};
use crate::{JoinGroup, JoinGroupAnswer, ListMasters, ListMastersAnswer};
use crate::{LetGoOfLost, LetGoOfLostAnswer, ListLost, ListLostAnswer, Recover, RecoverAnswer};
use crate::{ListDeleted, ListDeletedAnswer, Undelete, UndeleteAnswer};
use crate::{RecentRpcs, RecentRpcsAnswer};
use crate::{SetAttributes, SetAttributesAnswer};
use cairn_types::wire::{Message, WireError};

/// A request message, and what answers it.
pub trait Rpc: Into<Request> {
    /// The message that answers it.
    type Answer;

    /// The rpc's name.
    const NAME: &'static str;

    /// The rpc's number.
    const KIND: u16;

    /// Takes what came of the call as the answer to this request (A2).
    ///
    /// # Errors
    /// The call's own [`Failure`]; one with [`ErrorCode::Internal`] and an unknown outcome where
    /// the answer is that of another rpc.
    fn answer(result: Result<Response, Failure>) -> Result<Self::Answer, Failure>;
}

/// A defect of whoever answered: `answered` is not what was asked.
fn answer_of_another_kind(asked: &str, answered: &str) -> Failure {
    let line = format!("{asked} was answered as if it had been {answered}");
    Failure::unknown(ErrorCode::Internal, line)
}

/// How a variant holds its message: a large one that is rare is boxed, so that all the others,
/// which are moved several times each, do not carry its size.
macro_rules! held {
    (Box $message:ident) => { Box<$message> };
    ($message:ident) => { $message };
}

/// The message that a variant holds so.
macro_rules! taken {
    (Box $held:ident) => {
        *$held
    };
    ($held:ident) => {
        $held
    };
}

macro_rules! rpcs {
    ($(
        $(#[$about:meta])*
        $direction:ident { $(
            $kind:literal => $request:ident $([$held:ident])?
                -> $answer:ident $([$answer_held:ident])?,
        )* }
    )*) => {
        $(
            $(#[$about])*
            #[derive(Clone, Debug, PartialEq, Eq)]
            #[allow(missing_docs, reason = "each variant is the message of its name")]
            pub enum $direction { $( $request(held!($($held)? $request)), )* }

            impl From<$direction> for Request {
                fn from(request: $direction) -> Self {
                    match request {
                        $( $direction::$request(message) => Self::$request(message), )*
                    }
                }
            }
        )*

        /// Any request, by who asks whom.
        #[derive(Clone, Debug, PartialEq, Eq)]
        #[allow(missing_docs, reason = "each variant is the direction of its name")]
        pub enum Directed { $( $direction($direction), )* }

        impl From<Directed> for Request {
            fn from(request: Directed) -> Self {
                match request { $( Directed::$direction(request) => request.into(), )* }
            }
        }

        /// Who asks whom.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[allow(missing_docs, reason = "each variant is the direction of its name")]
        pub enum RpcDirection { $( $direction, )* }

        impl Request {
            /// Who asks whom for this.
            #[must_use]
            pub fn direction(&self) -> RpcDirection {
                match self { $($( Self::$request(_) => RpcDirection::$direction, )*)* }
            }

            /// The same request, by who asks whom.
            #[must_use]
            pub fn directed(self) -> Directed {
                match self {
                    $($( Self::$request(message) => {
                        Directed::$direction($direction::$request(message))
                    } )*)*
                }
            }
        }

        $($(
            impl Rpc for $request {
                type Answer = $answer;

                const NAME: &'static str = stringify!($request);

                const KIND: u16 = $kind;

                fn answer(result: Result<Response, Failure>) -> Result<$answer, Failure> {
                    match result? {
                        Response::$request(answer) => Ok(taken!($($answer_held)? answer)),
                        other => Err(answer_of_another_kind(Self::NAME, other.name())),
                    }
                }
            }
        )*)*

        rpcs! { @flat $($( $kind => $request $([$held])? -> $answer $([$answer_held])?, )*)* }
    };
    (@flat $(
        $kind:literal => $request:ident $([$held:ident])?
            -> $answer:ident $([$answer_held:ident])?,
    )*) => {
        /// Any request.
        #[derive(Clone, Debug, PartialEq, Eq)]
        #[allow(missing_docs, reason = "each variant is the message of its name")]
        pub enum Request { $( $request(held!($($held)? $request)), )* }

        /// Any answer, named after its request.
        #[derive(Clone, Debug, PartialEq, Eq)]
        #[allow(missing_docs, reason = "each variant is the answer to the request of its name")]
        pub enum Response { $( $request(held!($($answer_held)? $answer)), )* }

        impl Request {
            /// The rpc's number.
            #[must_use]
            pub fn kind(&self) -> u16 {
                match self { $( Self::$request(_) => $kind, )* }
            }

            /// The rpc's name.
            #[must_use]
            pub fn name(&self) -> &'static str {
                match self { $( Self::$request(_) => stringify!($request), )* }
            }

            /// Appends the message.
            pub fn encode(&self, out: &mut Vec<u8>) {
                match self { $( Self::$request(message) => message.encode(out), )* }
            }

            /// Reads the message of rpc `kind`; nothing when this build knows no such rpc.
            ///
            /// # Errors
            /// [`WireError`] when the bytes are not such a message.
            pub fn decode(kind: u16, message: &[u8]) -> Result<Option<Self>, WireError> {
                Ok(Some(match kind {
                    $( $kind => Self::$request(
                        <held!($($held)? $request)>::from($request::decode(message)?)
                    ), )*
                    _ => return Ok(None),
                }))
            }
        }

        impl Response {
            /// The name of the rpc that it answers.
            #[must_use]
            pub fn name(&self) -> &'static str {
                match self { $( Self::$request(_) => stringify!($request), )* }
            }

            /// The rpc's number.
            #[must_use]
            pub fn kind(&self) -> u16 {
                match self { $( Self::$request(_) => $kind, )* }
            }

            /// Appends the message.
            pub fn encode(&self, out: &mut Vec<u8>) {
                match self { $( Self::$request(message) => message.encode(out), )* }
            }

            /// Reads the answer of rpc `kind`; nothing when this build knows no such rpc.
            ///
            /// # Errors
            /// [`WireError`] when the bytes are not such a message.
            pub fn decode(kind: u16, message: &[u8]) -> Result<Option<Self>, WireError> {
                Ok(Some(match kind {
                    $( $kind => Self::$request(
                        <held!($($answer_held)? $answer)>::from($answer::decode(message)?)
                    ), )*
                    _ => return Ok(None),
                }))
            }
        }

        $(
            impl From<$request> for Request {
                fn from(message: $request) -> Self {
                    Self::$request(<held!($($held)? $request)>::from(message))
                }
            }
        )*

        /// One request of each rpc with an answer to it.
        #[cfg(any(test, feature = "samples"))]
        #[must_use]
        pub(crate) fn sample_each(random: &mut cairn_types::Random) -> Vec<(Request, Response)> {
            use cairn_types::sample::Sample;
            vec![ $( (
                Request::$request(Sample::sample(random)),
                Response::$request(Sample::sample(random)),
            ), )* ]
        }

        /// What must hold of every message, of each rpc's two.
        #[cfg(test)]
        fn check_each(random: &mut cairn_types::Random) {
            use cairn_types::sample::{Sample, check_wire};
            $(
                check_wire(&$request::sample(random), random);
                check_wire(&$answer::sample(random), random);
            )*
        }

        /// The number and the name of every rpc.
        pub const RPC_NAMES: &[(u16, &str)] = &[ $( ($kind, stringify!($request)), )* ];

        /// The name of rpc `kind`, where this build knows it.
        #[must_use]
        pub fn rpc_name(kind: u16) -> Option<&'static str> {
            match kind { $( $kind => Some(stringify!($request)), )* _ => None }
        }

        /// Every rpc as `number, request, answer` with the messages' protobuf definitions.
        #[must_use]
        pub fn proto_table() -> Vec<(u16, &'static str, &'static str, String)> {
            vec![ $( (
                $kind,
                stringify!($request),
                stringify!($answer),
                format!("{}{}", $request::proto_text(), $answer::proto_text()),
            ), )* ]
        }
    };
}

rpcs! {
    /// Both ways, first of all; the worlds speak it.
    Handshake {
        1 => Hello -> Welcome,
    }
    /// What clients ask of a master; `FindPrimary` is what everybody may ask of one.
    ClientToMaster {
        10 => Stat -> StatAnswer,
        11 => Open -> OpenAnswer,
        12 => Locate -> LocateAnswer,
        13 => List -> ListAnswer,
        14 => Find -> FindAnswer,
        15 => MakeDirectory -> MakeDirectoryAnswer,
        16 => Create -> CreateAnswer,
        17 => Rename -> RenameAnswer,
        18 => Delete -> DeleteAnswer,
        19 => Lease -> ChunkGrant,
        20 => RecordLength -> RecordLengthAnswer,
        21 => ReportBadBlock -> ReportBadBlockAnswer,
        22 => CellInfo -> CellInfoAnswer,
        23 => Servers -> ServersAnswer,
        24 => Status -> StatusAnswer [Box],
        25 => Explain -> ExplainAnswer,
        26 => Batch -> BatchAnswer,
        27 => ForgetServer -> ForgetServerAnswer,
        28 => ListDegraded -> ListDegradedAnswer,
        29 => Undelete -> UndeleteAnswer,
        30 => ListDeleted -> ListDeletedAnswer,
        31 => Resources -> ResourcesAnswer,
        32 => ListDisks -> ListDisksAnswer,
        33 => RepairStatus -> RepairStatusAnswer,
        34 => ListLost -> ListLostAnswer,
        35 => LetGoOfLost -> LetGoOfLostAnswer,
        36 => GetPolicy -> GetPolicyAnswer,
        37 => SetPolicy -> SetPolicyAnswer,
        180 => Snapshot -> SnapshotAnswer,
        181 => CountShared -> CountSharedAnswer,
        110 => ListJobs -> ListJobsAnswer,
        111 => CancelJob -> CancelJobAnswer,
        112 => Drain -> DrainAnswer,
        113 => Undrain -> UndrainAnswer,
        114 => Balance -> BalanceAnswer,
        135 => ChangeSettings -> ChangeSettingsAnswer,
        120 => ListChunks -> ListChunksAnswer,
        130 => Recover -> RecoverAnswer,
        140 => FindPrimary -> FindPrimaryAnswer,
        170 => SetQuota -> SetQuotaAnswer,
        171 => GetQuota -> GetQuotaAnswer,
        160 => SetAttributes -> SetAttributesAnswer,
    }
    /// What producers and readers of streams ask of a master (R38 to R47).
    ClientToStreams {
        200 => OpenProducer -> OpenProducerAnswer,
        201 => AllocateChunks -> AllocateChunksAnswer,
        202 => CommitBundles -> CommitBundlesAnswer,
        203 => CloseProducer -> CloseProducerAnswer,
        204 => ListProducers -> ListProducersAnswer,
        205 => ForgetProducer -> ForgetProducerAnswer,
        206 => ReadExtents -> ReadExtentsAnswer,
        207 => WaitLength -> WaitLengthAnswer,
        208 => SkipLost -> SkipLostAnswer,
    }
    /// What clients ask of one member of the group of masters, whatever it is to its group.
    ClientToMember {
        141 => AskShadow -> AskShadowAnswer,
        150 => ListMasters -> ListMastersAnswer,
        151 => JoinGroup -> JoinGroupAnswer,
        154 => ChangeMasters -> ChangeMastersAnswer,
        155 => BackUp -> BackUpAnswer,
        156 => ReadBackup -> ReadBackupAnswer,
        190 => Busiest -> BusiestAnswer,
    }
    /// What clients ask of any server, and its world answers.
    ClientToServer {
        195 => RecentRpcs -> RecentRpcsAnswer,
    }
    /// What chunkservers ask of a master.
    ChunkserverToMaster {
        40 => Join [Box] -> JoinAnswer,
        41 => Inventory -> InventoryAnswer,
        42 => Heartbeat [Box] -> HeartbeatAnswer [Box],
        43 => SecondaryFailed -> SecondaryFailedAnswer,
        44 => ChunkClosed -> ChunkClosedAnswer,
        142 => TellShadow [Box] -> TellShadowAnswer,
    }
    /// What a master asks of chunkservers.
    MasterToChunkserver {
        60 => Raise -> RaiseAnswer,
        61 => GrantLease -> GrantLeaseAnswer,
        62 => RevokeLease -> RevokeLeaseAnswer,
        63 => Probe -> ProbeAnswer,
        64 => CloneChunk -> CloneChunkAnswer,
        65 => DropClone -> DropCloneAnswer,
        66 => CopyChunk -> CopyChunkAnswer,
        67 => AssembleChunk -> AssembleChunkAnswer,
    }
    /// What a member of the group of masters asks of another.
    MasterToMaster {
        152 => ConsensusMessages -> ConsensusMessagesAnswer,
        153 => FetchCheckpoint -> FetchCheckpointAnswer,
    }
    /// What clients ask of a chunkserver; `Push` is served by the worlds, and is what one
    /// chunkserver passes on to the next, too.
    ClientToChunkserver {
        80 => Push -> PushAnswer,
        81 => Write -> WriteAnswer,
        82 => Append -> AppendAnswer,
        83 => Read -> ReadAnswer,
        84 => ChunkLength -> ChunkLengthAnswer,
        85 => SyncChunk -> SyncChunkAnswer,
        86 => Extend -> ExtendAnswer,
        121 => ListHeld -> ListHeldAnswer,
        122 => CheckReplica -> CheckReplicaAnswer,
    }
    /// What a primary asks of its secondaries.
    PrimaryToSecondary {
        90 => Forward -> ForwardAnswer,
        91 => Acknowledged -> AcknowledgedAnswer,
    }
    /// What the server of one replica asks of another's.
    ReplicaToReplica {
        92 => Fetch -> FetchAnswer,
    }
}

// Each message is moved several times between its bytes and whom it is for, those of batches too.
// What is larger and rare is boxed, here or within its message.
const _: () = assert!(size_of::<Request>() <= 128);
const _: () = assert!(size_of::<Response>() <= 128);

#[cfg(test)]
mod tests {
    use super::{Request, Response, Rpc, check_each, proto_table, sample_each};
    use crate::{Create, ErrorCode, Failure, Outcome, Stat, StatAnswer};
    use cairn_types::Random;
    use cairn_types::sample::damaged;
    use proptest::prelude::{ProptestConfig, any, proptest};

    fn encoded(encode: impl Fn(&mut Vec<u8>)) -> Vec<u8> {
        let mut raw = Vec::new();
        encode(&mut raw);
        raw
    }

    #[test]
    fn a_number_stands_for_one_rpc() {
        let mut numbers: Vec<u16> = proto_table().iter().map(|row| row.0).collect();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), proto_table().len());
    }

    #[test]
    fn an_answer_of_another_kind_is_a_failure_of_unknown_outcome() {
        let stat = || Response::Stat(StatAnswer::default());
        assert_eq!(Stat::answer(Ok(stat())), Ok(StatAnswer::default()));
        let failure = Create::answer(Ok(stat())).expect_err("another kind");
        assert_eq!((failure.code, failure.outcome), (ErrorCode::Internal, Outcome::Unknown));
        assert_eq!(failure.message, "Create was answered as if it had been Stat");
        let own = Failure::refused(ErrorCode::NotFound, "no");
        assert_eq!(Stat::answer(Err(own.clone())), Err(own));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn every_message_comes_back_and_no_damage_makes_it_panic(seed: u64) {
            check_each(&mut Random::new(seed));
        }

        #[test]
        fn every_request_and_answer_is_read_by_its_number_and_by_any_other_without_a_panic(
            seed: u64,
        ) {
            let random = &mut Random::new(seed);
            for (request, response) in sample_each(random) {
                let kind = request.kind();
                assert_eq!(Request::from(request.clone().directed()), request);
                assert_eq!(response.kind(), kind);
                let asked = encoded(|out| request.encode(out));
                let answered = encoded(|out| response.encode(out));
                assert_eq!(Request::decode(kind, &asked), Ok(Some(request)));
                assert_eq!(Response::decode(kind, &answered), Ok(Some(response)));
                for (other, ..) in proto_table() {
                    let _ = Request::decode(other, &damaged(&answered, random));
                    let _ = Response::decode(other, &asked);
                }
            }
        }

        #[test]
        fn no_bytes_make_any_rpc_panic(
            raw in proptest::collection::vec(any::<u8>(), 0..200), kind: u16,
        ) {
            for (known, ..) in proto_table() {
                let _ = Request::decode(known, &raw);
                let _ = Response::decode(known, &raw);
            }
            let known = proto_table().iter().any(|row| row.0 == kind);
            assert!(known || Request::decode(kind, &raw) == Ok(None));
            assert!(known || Response::decode(kind, &raw) == Ok(None));
        }
    }
}
