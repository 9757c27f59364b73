//! What masters that are not in charge answer readers, and what chunkservers tell them (GFS
//! §5.1.3).
//!
//! - SC1: both are rpcs of their own. Who asks one that is in charge is never answered by one that
//!   is not, but by his own wish; and what a shadow answers a chunkserver has no room for an order.

use crate::{
    Batch, BatchAnswer, CellInfo, CellInfoAnswer, Failure, Find, FindAnswer, List, ListAnswer,
    Locate, LocateAnswer, Open, OpenAnswer, ReadExtents, ReadExtentsAnswer, ReportSlice, Stat,
    StatAnswer, WaitLength, WaitLengthAnswer,
};
use cairn_types::{CellConfig, CellId, ChunkHandle, Incarnation, JoinId, LogIndex, ReplicaAt};

cairn_types::choice! {
    /// What is answered from what is applied and from what chunkservers told: it changes nothing.
    pub enum ShadowQuestion {
        /// Which cell, and its settings.
        1 => CellInfo(CellInfo),
        /// What a path stands for.
        2 => Stat(Stat),
        /// The same of a file, and where its chunks are.
        3 => Open(Open),
        /// Where chunks are.
        4 => Locate(Locate),
        /// Names of a directory.
        5 => List(List),
        /// Names that match.
        6 => Find(Find),
        /// Several of them; one that changes anything is refused.
        7 => Batch(Batch),
        /// Where a stream's bytes are.
        8 => ReadExtents(ReadExtents),
        /// Until a stream is longer.
        9 => WaitLength(WaitLength),
    }
}
cairn_types::choice_field!(ShadowQuestion, Self::CellInfo(CellInfo {}));

cairn_types::choice! {
    /// The answer to it, as the primary master would give it if nothing had happened since.
    pub enum ShadowWord {
        /// There is none.
        1 => Failed(Failure),
        /// To a `CellInfo`.
        2 => CellInfo(CellInfoAnswer),
        /// To a `Stat`.
        3 => Stat(StatAnswer),
        /// To an `Open`.
        4 => Open(OpenAnswer),
        /// To a `Locate`.
        5 => Locate(LocateAnswer),
        /// To a `List`.
        6 => List(ListAnswer),
        /// To a `Find`.
        7 => Find(FindAnswer),
        /// To a `Batch`.
        8 => Batch(BatchAnswer),
        /// To a `ReadExtents`.
        9 => ReadExtents(ReadExtentsAnswer),
        /// To a `WaitLength`.
        10 => WaitLength(WaitLengthAnswer),
    }
}
cairn_types::choice_field!(ShadowWord, Self::Failed(Failure::default()));

cairn_types::message! {
    /// Asks a master that is not in charge; one that is refuses.
    pub struct AskShadow { 1 => question: ShadowQuestion }
}
cairn_types::message! {
    /// What it says, and how old that may be.
    pub struct AskShadowAnswer {
        1 => word: Box<ShadowWord>,
        /// The last record that it has applied.
        2 => applied: LogIndex,
        /// So long ago the primary master had applied nothing that is not applied here: what is
        /// missing was told to anybody later. Absent: it has heard of no primary since it started.
        3 => behind_ms: Option<u64>,
    }
}

cairn_types::message! {
    /// A chunkserver tells a master that is not in charge what it holds, a part at a time.
    pub struct TellShadow {
        1 => at: ReplicaAt,
        2 => incarnation: Incarnation,
        3 => cell: CellId,
        /// As this shadow took it in; zero: not yet. What is told counts for that alone.
        4 => join: JoinId,
        5 => replicas: ReportSlice,
        /// It has them no more.
        6 => gone: Vec<ChunkHandle>,
        /// Those of `replicas` of which some blocks fail their checksums; the others are sound.
        7 => damaged: Vec<ChunkHandle>,
        /// All that it holds has been told.
        8 => all: bool,
    }
}
cairn_types::message! {
    /// Nothing of it is ever done: a shadow orders nothing.
    pub struct TellShadowAnswer {
        /// Where it is another one than was told, nothing was taken, and all is to be told anew.
        1 => join: JoinId,
        /// The log has no such chunks, as far as it is applied here: to be told again.
        2 => unknown: Vec<ChunkHandle>,
        /// The cell's settings, with each new join.
        3 => config: Option<Box<CellConfig>>,
    }
}
