//! The real world behind the seam: threads, epoll, files.
//!
//! ```text
//!                    one thread                                  worker threads
//!   sockets ◄──► epoll · network · driver ──── jobs, by lane ────► Service::run (files)
//!                    ▲                 ◄─── finished jobs ────
//!   Sender ─ command ┘
//! ```
//! [`launch()`] runs a [`Driver`](cairn_env::Driver); [`OsDisk`] is a directory as its disk. The
//! contract is `cairn-env`'s E1 to E5; the files say which part of it they keep.
//!
//! Knows sockets, files, threads and clocks. Never knows what a message means, but for the
//! handshake and pushes.

mod attached;
mod bus_errors;
pub mod clock;
mod context;
mod descriptors;
mod disk;
mod frame_encoding;
mod frame_reader;
mod ids;
mod inbound;
mod inbound_connection;
mod lanes;
mod launch;
mod limits;
mod log_sink;
mod mailbox;
mod mapping;
mod memory_budget;
mod name_lookup;
mod network;
mod out_queue;
mod outbound;
mod outbound_connection;
#[cfg(test)]
mod outbound_test;
mod page_cache;
mod pipes;
mod poller;
mod process_meter;
mod push_receiver;
mod reactor;
mod relays;
mod routes;
mod rpc_log_files;
mod rpc_log_options;
mod rpc_log_writer;
mod rpc_meter;
mod rpc_tap;
mod socket_options;
mod this_process;
mod timers;
mod unopened_disk;
mod unreadable;
mod wire;

pub use attached::{Attached, Turned};
pub use bus_errors::end_at_unreadable_pages;
pub use descriptors::{DescriptorBudget, DescriptorShare, TooFewDescriptors};
pub use disk::OsDisk;
pub use launch::{
    BindError, HaltReason, LaunchError, LaunchOptions, Running, Sender, Stopped, attach, bind,
    launch,
};
pub use limits::LaunchLimits;
pub use log_sink::LogSink;
pub use name_lookup::behind_names;
pub use process_meter::{ProcessMeter, tell_http};
pub use rpc_log_options::{RPC_LOG_SIZE_MIN, RPC_LOG_SIZE_STANDARD, RpcLogOptions};
pub use rpc_meter::RpcCounts;
pub use this_process::{UMASK_USUAL, process_identity, process_umask};
pub use unopened_disk::UnopenedDisk;
