//! What chunkservers say by themselves: joining, inventories, heartbeats (§2.6.2).
//!
//! ```text
//!   Join ─┬─► Inventory 0 ─► Inventory 1 ─► … ─► Inventory{last}
//!     ▲   └─► Heartbeat ─► Heartbeat ─► Heartbeat ─► …
//!     └──────────────────────────────────── │ rejoin (unknown, dead, other incarnation)
//! ```
//! - J1: until the last slice of its inventory a server may hold what it has not told of: nothing
//!   is concluded from its silence about a chunk. Slices count in the order of their numbers, each
//!   once, and only those of its present join.
//! - J2: the next slice is sent when this one is answered. So each server has one slice waiting
//!   here, and where there are many servers each pauses between its slices.

use super::Fleet;
use super::servers::ServerReport;
use cairn_protocol::{ErrorCode, Failure, Heartbeat, Inventory, InventoryAnswer, Join, TellShadow};
use cairn_types::{JoinId, Time};

/// Servers that may send slices as fast as they are answered; where there are more of them, each
/// pauses, so that so many slices come in a millisecond (J2).
const SLICES_AT_ONCE: usize = 16;
const SLICES_PER_MS: u64 = 2;

/// Whether a slice of an inventory tells anything new.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SliceNews {
    /// What it holds is to be taken in.
    Next,
    /// It was taken in before, and its answer was lost.
    Repeated,
}

impl Fleet {
    /// Takes a server in: what it told before is forgotten, it tells anew. Answers whether it was
    /// known in another incarnation.
    pub(crate) fn join(&mut self, now: Time, join: &Join, id: JoinId) -> Result<bool, Failure> {
        let server = join.at.server;
        let former = self.servers.get(server).filter(|known| !known.awaited);
        let former = former.map(|known| known.incarnation);
        self.servers.join(now, join, id)?;
        self.ahead.forget(server);
        self.forget_all_of(server);
        Ok(former.is_some_and(|former| former != join.incarnation))
    }

    /// A slice of an inventory has come.
    pub(crate) fn hear_slice(
        &mut self,
        now: Time,
        inventory: &Inventory,
    ) -> Result<SliceNews, Failure> {
        let id = inventory.server;
        let Some(server) = self.servers.present(id, inventory.incarnation) else {
            let line = format!("server {id} must join before it tells what it holds");
            return Err(Failure::not_done(ErrorCode::Busy, line));
        };
        if server.join != inventory.join || inventory.number > server.slices {
            let line = format!("server {id} has joined anew since: this is an older inventory");
            return Err(Failure::not_done(ErrorCode::Busy, line));
        }
        server.hear(now);
        if inventory.number < server.slices {
            return Ok(SliceNews::Repeated);
        }
        server.slices += 1;
        if inventory.last {
            server.inventoried = Some(now);
            self.thinned.note_many();
        }
        Ok(SliceNews::Next)
    }

    /// What the server is asked to tell of first, and how long it pauses (J2).
    pub(crate) fn answer_slice(&mut self, inventory: &Inventory) -> InventoryAnswer {
        let pause = self.servers.telling_count().saturating_sub(SLICES_AT_ONCE);
        let pause_ms = pause as u64 / SLICES_PER_MS;
        let server = self.servers.present(inventory.server, inventory.incarnation);
        let server = server.expect("its slice was taken just now");
        InventoryAnswer { wanted: self.wanted.next(&mut server.asked), pause_ms }
    }

    /// A server tells a shadow master what it holds; whether it was taken in by this join.
    pub(crate) fn is_told_by(&mut self, now: Time, tell: &TellShadow) -> bool {
        let server = self.servers.present(tell.at.server, tell.incarnation);
        let Some(server) = server.filter(|server| server.join == tell.join) else { return false };
        server.hear(now);
        if tell.all {
            server.inventoried.get_or_insert(now);
        }
        true
    }

    /// A heartbeat has come; whether the server is one that has joined.
    pub(crate) fn hear_heartbeat(&mut self, now: Time, beat: &Heartbeat) -> bool {
        let Some(server) = self.servers.present(beat.server, beat.incarnation) else {
            return false;
        };
        server.hear(now);
        server.capacity = beat.capacity;
        server.used = beat.used;
        server.full = beat.full;
        server.report = ServerReport::of(beat);
        server.traffic.note(now, *beat.traffic);
        true
    }
}
