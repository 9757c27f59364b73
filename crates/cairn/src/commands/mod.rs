//! One file per command: its arguments, and what it does.

pub(crate) mod append;
pub(crate) mod cat;
pub(crate) mod chunkserver;
pub(crate) mod cp;
pub(crate) mod demo;
pub(crate) mod dev;
pub(crate) mod df;
pub(crate) mod du;
pub(crate) mod explain;
pub(crate) mod find;
pub(crate) mod fsck;
pub(crate) mod get;
pub(crate) mod head;
pub(crate) mod lost;
pub(crate) mod ls;
pub(crate) mod master;
pub(crate) mod mkdir;
pub(crate) mod mv;
pub(crate) mod put;
pub(crate) mod resources;
pub(crate) mod rm;
pub(crate) mod servers;
pub(crate) mod stat;
pub(crate) mod status;
pub(crate) mod tail;
pub(crate) mod undelete;
