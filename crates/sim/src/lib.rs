//! The simulator: a whole cell in one thread, faults injected at the seam, checkers watching.
//!
//! ```text
//!   seed ─► fault injector ────┐                        ┌─► checkers: what must never be otherwise
//!           workloads ────────┼─► SimWorld: the cell ──┤
//!                             └─◄ answers ─────────────┴─► oracles: what may be read back
//! ```
//! A run: `seconds` of faults; then all faults end, nothing new is asked for, the cell must heal
//! and give back everything that it acknowledged. The same seed gives the same run, down to one
//! number (`trace_hash`).

mod acknowledged_mutation;
mod cell;
mod checkers;
mod committed_state;
mod copy_ledger;
mod disk_damage;
mod drills;
mod fault_endings;
mod fault_injector;
mod fault_mix;
mod file_model;
mod group_faults;
mod healing;
mod intact_replicas;
mod inventories;
mod ledger;
mod machine_faults;
mod masters_tender;
mod observer;
mod operations;
mod persons_decisions;
#[cfg(feature = "planted-bugs")]
mod planted;
mod prober;
mod rare_branches;
mod replica_audit;
mod replica_ledger;
mod report;
mod run;
pub mod scenarios;
mod server_book;
mod set_back_master;
mod simulation;
mod stopped_nodes;
mod stored_files;
mod stream_book;
mod workloads;

pub use drills::{Drill, drills, run_drill};
pub use fault_mix::{FaultKind, FaultMix};
#[cfg(feature = "planted-bugs")]
pub use planted::{Exposure, PlantedReport, exposed, exposures, planted};
pub use report::{CheckFailure, RunConfig, RunReport};
pub use run::run;
