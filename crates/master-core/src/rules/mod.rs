//! The rules about chunks: pure functions of what is known ([`View`](crate::view::View)), each
//! changing nothing.
//!
//! ```text
//!   live_file   members ◄── replica_set ◄── next_step      what a place's job does next
//!                 ▲  ▲──── decided_set       lease_request  what a client is answered
//!                 │                          lease_upkeep   what a heartbeat extends
//!   closing ──────┘   garbage  placement  reading  health  degraded  explain
//!   good_replicas ◄── lacking · surplus · cloning   condition   who needs one more, or one less
//!   charging      next_step, lease_request, lengths         what quotas count
//!   chunk_list    levelled_unasked ─► replica_set          what no client asks for
//!   members ─► commit_replicas                             what counts of a stream's bundles
//!   members ◄─ same_bytes ◄── decided_set · reading        who has as much of a stream's chunk
//! ```

pub(crate) mod behind;
pub(crate) mod charging;
pub(crate) mod chosen_replica;
pub(crate) mod chunk_list;
pub(crate) mod cloning;
pub(crate) mod closing;
pub(crate) mod commit_replicas;
pub(crate) mod condition;
pub(crate) mod decided_set;
pub(crate) mod degraded;
pub(crate) mod explain;
mod explain_drain;
pub(crate) mod file_paths;
pub(crate) mod garbage;
pub(crate) mod good_replicas;
pub(crate) mod health;
pub(crate) mod lacking;
mod lacks_committed;
pub(crate) mod lease_request;
pub(crate) mod lease_upkeep;
pub(crate) mod levelled_unasked;
pub(crate) mod live_file;
pub(crate) mod lost_bytes;
pub(crate) mod members;
pub(crate) mod next_step;
pub(crate) mod not_copied;
pub(crate) mod placement;
pub(crate) mod reading;
pub(crate) mod replica_set;
mod same_bytes;
pub(crate) mod server_use;
pub(crate) mod surplus;
