//! An ordered map of byte strings that is memory image, checkpoint and mapped file in one.
//!
//! ```text
//!      writer ──► Tree ──┐   clone = snapshot, O(1)
//!      readers ─► Tree ──┼─► pages, shared and immutable ──► file: only pages that it lacks
//!   checkpoint ─► Tree ──┘              ▲                              │
//!                                       └── open: verified when first touched
//! ```
//! A copy-on-write B+tree whose leaves are small byte strings, with what neighbouring keys share
//! stored once, at the front and at the back (design §4; docs/formats/pagetree.md).
//!
//! Knows bytes that it is handed. Never sees files, mappings, or what keys and values mean.

mod adopt;
mod checkpoint;
mod damaged;
mod entries;
mod finger;
mod inner_page;
mod insert;
mod insert_sorted;
mod limits;
mod multi_get;
mod node;
mod parts;
mod prefetch;
mod range;
mod remove;
mod root_record;
mod run;
mod run_builder;
mod run_check;
mod run_edit;
mod run_regroup;
#[cfg(test)]
mod run_test;
mod separators;
mod source;
mod tree;
mod varint;

pub use adopt::NotInFile;
pub use checkpoint::{CheckpointError, PageSink, TreeCheckpoint, checkpoint, rewrite};
pub use damaged::{Damage, Damaged};
pub use finger::Finger;
pub use limits::{KEY_SIZE_MAX, LEAF_SIZE_MAX, VALUE_SIZE_MAX};
pub use multi_get::{MULTI_GET_MAX, multi_get};
pub use range::{Lent, TreeRange};
pub use root_record::{RecordError, RootRecord};
pub use source::{Backing, FileId};
pub use tree::{EditError, Tree, TreeUsage};
