//! Tasks: the state machines that operations are made of. Each is moved by one input at a time and
//! reaches the client only through its [`task_context::TaskContext`].
//!
//! ```text
//!   task_table ──► task ──┬─► master_call
//!                         ├─► read_piece ─────► replica_choice · short_answer · piece_read
//!                         ├─► read_run ───────► replica_choice · piece_read
//!                         ├─► chunk_mutation ─┬► data_push ─► push_progress · push_lines
//!                         │                   └► write_order
//!                         └─► bundle_store ────► data_push
//! ```

pub(crate) mod bundle_store;
mod calls_under_way;
pub(crate) mod chunk_mutation;
mod data_push;
pub(crate) mod extent_lookup;
pub(crate) mod master_call;
pub(crate) mod piece_read;
pub(crate) mod push_lines;
mod push_progress;
mod push_window;
pub(crate) mod read_piece;
pub(crate) mod read_run;
mod replica_choice;
pub(crate) mod server_call;
mod short_answer;
#[cfg(test)]
mod slow_link_test;
pub(crate) mod task;
pub(crate) mod task_context;
pub(crate) mod task_table;
pub(crate) mod write_order;
