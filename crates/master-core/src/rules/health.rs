//! How the cell stands as a whole, and its servers (design §11).

use super::members::current;
use crate::state::ChunkRecord;
use crate::view::View;
use cairn_protocol::{ServerState, ServerStatus};
use cairn_types::ChunkHandle;

/// Chunks that are looked at one by one for bad replicas: few are, and at most so many are told.
const LOOKED_AT_MAX: usize = 65_536;

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
    let mut all = view.fleet.servers().describe(view.now.time, counts);
    let bad = view.fleet.locations().bad_counts(LOOKED_AT_MAX);
    for status in &mut all {
        status.bad_count = bad.get(&status.at.server).copied().unwrap_or(0);
    }
    all
}

/// Looks at every chunk of the cell.
pub(crate) fn health(view: &View<'_>) -> Health {
    let mut health = Health::default();
    let (mut damaged, mut suspect) = (0, 0);
    for (handle, chunk) in view.state.chunks() {
        let (sound, readable) = replica_counts(view, handle, &chunk);
        // Most chunks have all that they need: their replicas are counted once.
        if sound < chunk.goal as usize {
            for (_, replica) in current(view, handle, &chunk) {
                damaged += u64::from(replica.damaged);
                suspect += u64::from(replica.suspect && !replica.damaged);
            }
        }
        assert!(sound <= readable, "a sound replica can be read");
        health.under_replicated += u64::from(sound < chunk.goal as usize);
        health.unavailable += u64::from(readable == 0);
    }
    let servers = view.fleet.servers().describe(view.now.time, |_| (0, 0));
    let those = |wanted: ServerState| {
        let those = servers.iter().filter(move |server| server.state == wanted);
        those.map(|server| server.at.address.as_str()).collect::<Vec<&str>>()
    };
    let (live, silent, dead) =
        (those(ServerState::Live), those(ServerState::Silent), those(ServerState::Dead));
    let mut say = |count: u64, code: &str, what: &str| {
        if count > 0 {
            health.reasons.push(format!("{code}: {count} {what}"));
        }
    };
    say(u64::from(live.is_empty()), "NO_SERVERS", "cell without a live chunkserver");
    let missed = format!("chunkservers missed their heartbeats: {}", named(&silent));
    say(silent.len() as u64, "SERVERS_SILENT", &missed);
    let gone = format!("chunkservers are dead: {}", named(&dead));
    say(dead.len() as u64, "SERVERS_DEAD", &gone);
    say(damaged, "DAMAGED", "replicas have blocks that do not match their checksums");
    say(suspect, "SUSPECT", "replicas may have lost bytes in a power failure");
    let failed: Vec<String> = view
        .fleet
        .servers()
        .failed_disks()
        .map(|(at, disk)| format!("{} of {}", disk.path, at.address))
        .collect();
    let named_disks: Vec<&str> = failed.iter().map(String::as_str).collect();
    let failed = format!("data directories are of no more use: {}", named(&named_disks));
    say(named_disks.len() as u64, "DISKS_FAILED", &failed);
    let lost = "chunks on servers that this master's log does not know; kept (was a backup of the \
                master restored? 'cairn lost' lists them)";
    say(view.fleet.unknown_count(), "UNKNOWN_CHUNKS", lost);
    let (under, gone) = (health.under_replicated, health.unavailable);
    say(gone, "UNAVAILABLE", "chunks have no replica that can be read now");
    say(under, "UNDER_REPLICATED", "chunks have fewer replicas than their goal");
    health
}

/// The first few of these, and how many more there are.
fn named(addresses: &[&str]) -> String {
    const NAMED_MAX: usize = 4;
    let first = addresses[..addresses.len().min(NAMED_MAX)].join(", ");
    match addresses.len().saturating_sub(NAMED_MAX) {
        0 => first,
        more => format!("{first} and {more} more"),
    }
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
