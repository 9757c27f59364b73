//! Operations: what a caller asked for, and which tasks it takes. Each reaches the client only
//! through its [`operation_context::OperationContext`].
//!
//! ```text
//!   operation_table ──► operation_state ──► read_ · write_ · append_ · sync_ · length_operation,
//!                                           stream_read
//! ```

mod append_operation;
mod length_operation;
pub(crate) mod master_answers;
mod operation_context;
pub(crate) mod operation_state;
pub(crate) mod operation_table;
mod read_operation;
mod stream_read;
mod sync_operation;
mod write_operation;
