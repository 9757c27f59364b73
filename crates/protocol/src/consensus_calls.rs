//! What the members of the group of masters say to each other: Raft's messages in our own encoding.
//!
//! The consensus library's own encoding meets no net: what comes from there is read by our codec,
//! and only values are handed to the library.

use bytes::Bytes;
use cairn_types::{Address, LogIndex, Members, MembersChange, ServerId, Term};

cairn_types::code! {
    /// Which message.
    #[derive(Default)]
    pub enum ConsensusKind {
        /// The primary is there, and asks whether it still is.
        #[default]
        Heartbeat = 1,
        /// To that.
        HeartbeatAnswer = 2,
        /// Records for the log.
        Append = 3,
        /// To that, once they are durable.
        AppendAnswer = 4,
        /// Somebody would stand for election.
        AskPreVote = 5,
        /// To that.
        PreVote = 6,
        /// Somebody stands for election.
        AskVote = 7,
        /// To that, once it is durable.
        Vote = 8,
        /// The primary hands over: the receiver is to stand for election at once.
        TakeOver = 9,
        /// The receiver lacks records that the primary has no more: it is to fetch a checkpoint.
        OfferCheckpoint = 10,
    }
}

cairn_types::message! {
    /// A record on its way into a member's log; empty where the library made the entry.
    pub struct ConsensusEntry {
        1 => index: LogIndex,
        2 => term: Term,
        3 => data: Bytes,
        4 => change: Option<MembersChange>,
    }
}

cairn_types::message! {
    /// A checkpoint that stands for all records up to one, and who belongs to the group.
    pub struct OfferedCheckpoint { 1 => index: LogIndex, 2 => term: Term, 3 => members: Members }
}

cairn_types::message! {
    /// One message of a member to another.
    pub struct ConsensusMessage {
        1 => kind: ConsensusKind,
        2 => from: ServerId,
        3 => to: ServerId,
        4 => term: Term,
        /// The record before the entries; the last one of who stands for election; the last that
        /// is durable of who answers.
        5 => index: LogIndex,
        /// That record's term.
        6 => log_term: Term,
        7 => entries: Vec<ConsensusEntry>,
        8 => committed: LogIndex,
        9 => committed_term: Term,
        10 => rejects: bool,
        /// From where a rejecter would go on.
        11 => hint: LogIndex,
        /// The round of heartbeats that it belongs to; zero: none.
        12 => round: u64,
        /// A vote asked for because the primary hands over: nobody waits for its time to run out.
        13 => handed_over: bool,
        14 => checkpoint: Option<OfferedCheckpoint>,
    }
}

cairn_types::message! {
    /// Messages of one member to another, in their order.
    pub struct ConsensusMessages {
        1 => messages: Vec<ConsensusMessage>,
        /// The last record that the sender has applied, where it is in charge and no other can be:
        /// nobody has been answered by more. Zero: it is not.
        2 => applied: LogIndex,
        /// Its term, where that is told.
        3 => term: Term,
        /// The sender's clock, which means something to the sender alone.
        4 => stamp: u64,
        /// The latest of these that it had of the receiver: what it has applied is said later than
        /// that.
        5 => echo: u64,
        /// The highest level of records that the sender can apply; of a build that does not say
        /// it, 0.
        6 => record_level: u32,
        /// How others reach the sender: whoever was away while it came in does not know it. Of a
        /// build that does not say it, empty.
        7 => address: Address,
    }
}
cairn_types::message! {
    /// They have come; what comes of them is told in messages.
    pub struct ConsensusMessagesAnswer {
        /// The sender is no member any more, as of this record; zero: it is one.
        1 => out_as_of: LogIndex,
    }
}

cairn_types::message! {
    /// A piece of a checkpoint, as its files are: of the pages, or with `size` zero the root.
    pub struct FetchCheckpoint { 1 => index: LogIndex, 2 => offset: u64, 3 => size: u64 }
}
cairn_types::message! {
    /// The root stands in the answer; a piece of the pages comes as payload, with its checksum.
    pub struct FetchCheckpointAnswer { 1 => root: Bytes, 2 => checksum: u32 }
}
