//! The simulated world behind the seam (design §2): one thread, one queue, one seed.
//!
//! ```text
//!   SimWorld ── queue of happenings, by (true time, sequence)
//!      ├── nodes: a driver behind `Machine`, its disks, its clock, its lanes
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
mod machine;
mod network;
mod pushes;
mod queue;
mod trace;
mod watch;
mod world;

pub use clock::{SimClock, WorldTime};
pub use disk::{DiskImage, SimDisk};
pub use faults::Death;
pub use machine::{Housed, Input, Machine, Output, Watch};
pub use trace::Trace;
pub use watch::{JobWatch, MessageWatch, Seen};
pub use world::{Boot, Factory, NodeId, NodePlan, SimWorld, Stall, Stepped, WorldSettings};
