//! Diagnostic logs of requests and replies (GFS §5.3): read, matched, broken down, replayed.
//!
//! ```text
//!   files, or a server's memory ─► lives ─► entries ─┬─► show
//!                                                    ├─► exchanges of several logs ─► match
//!                                                    ├─► Tables 4, 5 and 6 of the paper
//!                                                    └─► operations ─► load for another cell
//! ```
//! Knows the format of logs and the protocol's messages. Prints nothing.

mod breakdown;
mod entry;
mod matching;
mod nouns;
mod older_names;
mod reading;
mod replay;
mod replay_plan;
#[cfg(test)]
mod test_log;

pub use breakdown::{Breakdown, OperationKind, RequestClass, SIZE_CLASSES, SizeTally};
pub use cairn_format::{FormatError, RpcWay};
pub use entry::{
    LogWriter, LoggedEntry, LoggedLink, ROLE_CHUNKSERVER, ROLE_CLIENT, ROLE_MASTER, RpcEntry, What,
    name_of, number_of, role_name,
};
pub use matching::{Exchange, ExchangeSide, Lone, LoneReason, Matched};
pub use nouns::Nouns;
pub use reading::{Merged, ReadError, ServerLife, open};
pub use replay::{Done, Replay, ReplayReport, prepare};
pub use replay_plan::{OlderFile, Plan, PlanFile, ReplayAct, ReplayStep};
