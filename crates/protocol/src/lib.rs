//! Bytes in flight: frames, messages, versions (design §3).
//!
//! ```text
//!   frame = header (40 bytes, CRC32C over header and message) · message (protobuf) · payload
//! ```
//! - P1: every length is checked against its limit before memory is taken.
//! - P2: nothing that arrives can do more than produce an error.
//!
//! Knows types and bytes. Never sees a socket.

mod answer_size;
mod attribute_calls;
mod backup_calls;
mod batch;
mod batch_entries;
mod busy_calls;
mod check_calls;
mod chunk_counts;
mod clone_calls;
mod consensus_calls;
mod extend_calls;
mod failure;
mod find_calls;
mod frame;
mod group_calls;
mod handshake;
mod job_calls;
#[cfg(any(test, feature = "samples"))]
mod lies;
mod master_calls;
mod mutation_calls;
mod policy_calls;
mod primary_search;
mod quota_calls;
mod read_calls;
mod reason_code;
mod repair_status;
mod report_slice;
mod resource_calls;
mod rpc;
mod rpclog_calls;
mod server_calls;
mod setting_calls;
mod shadow_calls;
mod shadow_questions;
mod snapshot_calls;
mod stream_calls;
mod traffic;

pub use answer_size::SMALL_ANSWER_SIZE;
pub use attribute_calls::{SetAttributes, SetAttributesAnswer};
pub use backup_calls::{BackUp, BackUpAnswer, ReadBackup, ReadBackupAnswer};
pub use batch::{
    BATCH_COUNT_MAX, BATCH_LOCATIONS_SIZE_MAX, BATCH_OPEN_COUNT_MAX, BATCH_PATHS_SIZE_MAX, Batch,
    BatchAnswer, BatchEntry, BatchResult, Looked, SESSION_MUTATIONS_MAX,
};
pub use busy_calls::{
    BUSIEST_COUNT_MAX, Busiest, BusiestAnswer, BusyClient, BusyFile, LatencyBucket,
};
pub use check_calls::{
    CheckReplica, CheckReplicaAnswer, ChunkWait, ListChunks, ListChunksAnswer, ListHeld,
    ListHeldAnswer, ListedChunk, ListedReplica, MissingReplica, ReplicaFault,
};
pub use chunk_counts::{CellNow, ChunkCounts, WaitReason, WaitingCount};
pub use clone_calls::{
    ASSEMBLED_RANGES_MAX, AssembleChunk, AssembleChunkAnswer, AssembledRange, AssembledSource,
    CloneChunk, CloneChunkAnswer, CloneProgress, CopyChunk, CopyChunkAnswer, DropClone,
    DropCloneAnswer,
};
pub use consensus_calls::{
    ConsensusEntry, ConsensusKind, ConsensusMessage, ConsensusMessages, ConsensusMessagesAnswer,
    FetchCheckpoint, FetchCheckpointAnswer, OfferedCheckpoint,
};
pub use extend_calls::{Extend, ExtendAnswer};
pub use failure::{ErrorCode, Failure, Outcome};
pub use find_calls::{FindPrimary, FindPrimaryAnswer, MasterRole};
pub use frame::{
    FRAME_HEADER_SIZE, FrameError, FrameHeader, FrameKind, MESSAGE_SIZE_MAX, PAYLOAD_SIZE_MAX,
    PROTOCOL_VERSION, PROTOCOL_VERSION_OLDEST, RequestId, VERSION_ANY, encode_frame,
};
pub use group_calls::{
    ChangeMasters, ChangeMastersAnswer, JoinGroup, JoinGroupAnswer, ListMasters, ListMastersAnswer,
    MasterStatus,
};
pub use handshake::{Hello, Role, Welcome, judge_hello, judge_request};
pub use job_calls::{
    Balance, BalanceAnswer, CancelJob, CancelJobAnswer, Drain, DrainAnswer, JobKind, JobState,
    JobStatus, JobUnit, ListJobs, ListJobsAnswer, ServerDuty, Undrain, UndrainAnswer,
};
#[cfg(any(test, feature = "samples"))]
pub use lies::{Liar, LyingServer, lie_in_answer_to, lies, lying_answer};
pub use master_calls::{
    CellInfo, CellInfoAnswer, ChunkGrant, ChunkLocations, Create, CreateAnswer, DegradedChunk,
    Delete, DeleteAnswer, DeletedEntry, DeletedMark, Explain, ExplainAnswer, Find, FindAnswer,
    ForgetServer, ForgetServerAnswer, Found, LOCATE_COUNT_MAX, Lease, LeasePurpose, List,
    ListAnswer, ListDegraded, ListDegradedAnswer, ListDeleted, ListDeletedAnswer, Locate,
    LocateAnswer, MakeDirectory, MakeDirectoryAnswer, Open, OpenAnswer, RecordLength,
    RecordLengthAnswer, Rename, RenameAnswer, ReportBadBlock, ReportBadBlockAnswer,
    SERVER_COUNT_MAX, ServerState, ServerStatus, Servers, ServersAnswer, Stat, StatAnswer, Status,
    StatusAnswer, Undelete, UndeleteAnswer,
};
pub use master_calls::{ChosenReplica, Recover, RecoverAnswer};
pub use master_calls::{LetGoOfLost, LetGoOfLostAnswer, ListLost, ListLostAnswer, LostChunk};
pub use mutation_calls::{
    Acknowledged, AcknowledgedAnswer, Append, AppendAnswer, AppendOrder, Fetch, FetchAnswer,
    Forward, ForwardAnswer, Forwarded, LevelSource, Push, PushAnswer, SHORT_PUSH_MAX, SyncChunk,
    SyncChunkAnswer, Write, WriteAnswer,
};
pub use policy_calls::{
    GetPolicy, GetPolicyAnswer, PolicyOrigin, PolicySource, SetPolicy, SetPolicyAnswer,
};
pub use primary_search::{
    ChoiceNumber, MASTERS_KNOWN_MAX, PrimarySearch, SEARCH_ROUND_TIME_MAX, SearchStep,
};
pub use quota_calls::{
    GetQuota, GetQuotaAnswer, QUOTAS_TOLD_MAX, QuotaUse, SetQuota, SetQuotaAnswer, SubtreeTotals,
};
pub use read_calls::{ChunkLength, ChunkLengthAnswer, Read, ReadAnswer};
pub use reason_code::ReasonCode;
pub use repair_status::{BelowGoalCount, CloneStatus, CopyNeed, RepairStatus, RepairStatusAnswer};
pub use report_slice::{ReportBase, ReportSlice, SLICE_COUNT_MAX, put_report, take_report};
pub use resource_calls::{
    DISK_COUNT_MAX, DISK_PATH_SIZE_MAX, DiskStatus, ListDisks, ListDisksAnswer, ResourceUse,
    Resources, ResourcesAnswer, ServerDisks, ServerResources,
};
pub use rpc::{
    ChunkserverToMaster, ClientToChunkserver, ClientToMaster, ClientToMember, ClientToServer,
    ClientToStreams, Directed, Handshake, MasterToChunkserver, MasterToMaster, PrimaryToSecondary,
    RPC_NAMES, ReplicaToReplica, Request, Response, Rpc, RpcDirection, proto_table, rpc_name,
};
pub use rpclog_calls::{RecentRpcs, RecentRpcsAnswer};
pub use server_calls::{
    ChunkClosed, ChunkClosedAnswer, DoubtedBlock, Garbage, GrantLease, GrantLeaseAnswer, Heartbeat,
    HeartbeatAnswer, HeldLease, Inventory, InventoryAnswer, Join, JoinAnswer, LeftOut, Probe,
    ProbeAnswer, Raise, RaiseAnswer, ReplicaReport, RevokeLease, RevokeLeaseAnswer, ScrubProgress,
    SecondaryFailed, SecondaryFailedAnswer, ServedReign,
};
pub use setting_calls::{ChangeSettings, ChangeSettingsAnswer};
pub use shadow_calls::{
    AskShadow, AskShadowAnswer, ShadowQuestion, ShadowWord, TellShadow, TellShadowAnswer,
};
pub use snapshot_calls::{
    CountShared, CountSharedAnswer, MadeAnew, SHARED_FILES_MAX, SharedPart, SharedSum, Snapshot,
    SnapshotAnswer,
};
pub use stream_calls::{
    AllocateChunks, AllocateChunksAnswer, BUNDLES_MAX, Bundle, BundleAnswer, BundleHolder,
    CURSOR_SIZE_MAX, CloseProducer, CloseProducerAnswer, CommitBundles, CommitBundlesAnswer,
    CommitOutcome, Cursor, EXTENTS_CHUNKS_MAX, EXTENTS_MAX, EndedEpoch, ForgetProducer,
    ForgetProducerAnswer, ListProducers, ListProducersAnswer, LostTail, OPEN_EXTENTS_CHUNKS_MAX,
    OPEN_EXTENTS_MAX, OpenProducer, OpenProducerAnswer, OpenStreamChunk, PRODUCER_CHUNKS_MAX,
    PRODUCER_NAME_SIZE_MAX, ProducerStatus, ReadExtents, ReadExtentsAnswer, SkipLost,
    SkipLostAnswer, StreamExtent, WaitLength, WaitLengthAnswer,
};
pub use traffic::{TrafficRates, TrafficTotals};
