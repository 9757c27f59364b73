//! A cell of real processes, started, killed and started again: one harness for the tests of the
//! binary, `cairn demo`, `cairn bench` and the soaks.
//!
//! ```text
//!   Program ──► ServerProcess (a master, a chunkserver) ──► CellProcesses (one and several)
//!                     │ told of each
//!                     └──► Janitor: ends them, however we end
//! ```
//! - T1: every process that was started ends when its owner is dropped and, where the owner is
//!   killed, by the janitor; always by its id.
//! - T2: no wait is without a deadline.
//! - T3: one function sleeps: `await_until`.
//!
//! Knows the command line of `cairn`. Links nothing of it: what is tested is the program.

mod await_until;
mod cell_processes;
mod directories;
mod error;
mod janitor;
mod program;
mod server_process;

pub use await_until::{PATIENCE, await_until};
pub use cell_processes::{CellPlan, CellProcesses, Host, MasterRow, MastersPlan, free_addresses};
pub use directories::{chunk_files, copy_tree, files_below};
pub use error::HarnessError;
pub use janitor::{Janitor, clean_up_after_stdin};
pub use program::Program;
pub use server_process::{ServerProcess, Signal};
