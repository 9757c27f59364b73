//! How the cell stands as a whole, and its servers (design §11).

use super::members::current;
use crate::state::ChunkRecord;
use crate::view::View;
use cairn_protocol::{ServerState, ServerStatus};
use cairn_types::ChunkHandle;

/// How the cell's chunks stand.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Health {
    /// Chunks with fewer sound, reachable replicas than their goal.
    pub(crate) under_replicated: u64,
    /// Chunks that nobody can read now.
    pub(crate) unavailable: u64,
    /// Code, colon, line; none when all is well.
    pub(crate) reasons: Vec<String>,
}

/// All chunkservers, in order of address.
pub(crate) fn servers(view: &View<'_>) -> Vec<ServerStatus> {
    let held = view.fleet.locations().counts();
    let counts = |server| (held.get(&server).copied().unwrap_or(0), view.leases.count_of(server));
    view.fleet.servers().describe(view.now.time, counts)
}

/// Looks at every chunk of the cell.
pub(crate) fn health(view: &View<'_>) -> Health {
    let mut health = Health::default();
    for (handle, chunk) in view.state.chunks() {
        let (sound, readable) = replica_counts(view, handle, &chunk);
        health.under_replicated += u64::from(sound < chunk.goal as usize);
        health.unavailable += u64::from(readable == 0);
    }
    let servers = view.fleet.servers().describe(view.now.time, |_| (0, 0));
    let count =
        |wanted: ServerState| servers.iter().filter(|server| server.state == wanted).count();
    let (live, silent, dead) =
        (count(ServerState::Live), count(ServerState::Silent), count(ServerState::Dead));
    let mut say = |count: u64, code: &str, what: &str| {
        if count > 0 {
            health.reasons.push(format!("{code}: {count} {what}"));
        }
    };
    say(u64::from(live == 0), "NO_SERVERS", "cell without a live chunkserver");
    say(silent as u64, "SERVERS_SILENT", "chunkservers missed their heartbeats");
    say(dead as u64, "SERVERS_DEAD", "chunkservers are dead");
    let lost = "chunks on servers that this master's log does not know; kept (was a backup of the \
                master restored?)";
    say(view.fleet.unknown_count(), "UNKNOWN_CHUNKS", lost);
    let (under, gone) = (health.under_replicated, health.unavailable);
    say(gone, "UNAVAILABLE", "chunks have no replica that can be read now");
    say(under, "UNDER_REPLICATED", "chunks have fewer replicas than their goal");
    health
}

/// Up-to-date replicas on live servers: the sound ones, and all.
pub(crate) fn replica_counts(
    view: &View<'_>,
    handle: ChunkHandle,
    chunk: &ChunkRecord,
) -> (usize, usize) {
    let (now, servers) = (view.now.time, view.fleet.servers());
    let live = current(view, handle, chunk).filter(|(server, _)| servers.is_live(now, *server));
    live.fold((0, 0), |(sound, all), (_, replica)| {
        (sound + usize::from(replica.is_sound()), all + 1)
    })
}
