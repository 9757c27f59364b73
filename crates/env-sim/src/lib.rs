//! The simulated world behind the seam (design §2): one thread, one queue, one seed.
//!
//! ```text
//!   SimWorld ── queue of events, by (true time, sequence)
//!      ├── nodes: a driver behind `Process`, its disks, its clock, its lanes
//!      ├── connections: two pipes each, FIFO, that can break after any prefix
//!      └── faults: kill, power loss, partition, pause, slow, clock jump, …
//! ```
//! Keeps the contract E1 to E5 of `cairn_env`, and has a place to fail at each step of it. Every
//! message goes through the real wire codec. Nothing here knows what a driver decides.

mod calls;
mod clock;
pub mod disk;
mod faults;
mod lanes;
mod network;
mod node;
mod partitions;
mod process;
mod pushes;
mod queue;
mod timeline;
mod trace;
mod watch;
mod world;

pub use clock::{SimClock, WorldTime};
pub use disk::{DiskFaults, DiskImage, SimDisk};
pub use network::{AnswerForger, StallFilter};
pub use node::{DeathCause, NodeId, NodePlan, ProcessBoot, ProcessFactory};
pub use process::{DriverProcess, Process, ProcessInput, ProcessOutput, WatchOf};
pub use timeline::WorldSettings;
pub use trace::Trace;
pub use watch::{JobWatch, MessageWatch, SeenAnswer, SeenRequest};
pub use world::{SimWorld, WorldStep};
