//! How the cell stands as a whole, and its servers (design §11).
//!
//! - HL1: what it takes to answer does not grow with the chunks: they are counted as they change
//!   (repair's survey).
//! - HL2: while servers gather after a start nothing is said of chunks: it is not known yet.

use super::lost_bytes;
use super::members::current;
use super::placement::with_room_count;
use crate::state::ChunkRecord;
use crate::view::View;
use cairn_protocol::{ChunkCounts, ReasonCode, ServerState, ServerStatus};
use cairn_types::{ChunkHandle, ServerId};
use std::collections::BTreeMap;

/// How the cell's chunks stand.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Health {
    pub(crate) counts: ChunkCounts,
    /// Code, colon, line; none when all is well.
    pub(crate) reasons: Vec<String>,
}

impl Health {
    fn say(&mut self, count: u64, reason: ReasonCode, what: &str) {
        if count > 0 {
            self.reasons.push(format!("{}: {count} {what}", reason.code()));
        }
    }
}

/// All chunkservers, in order of address; `bad`: how many replicas of each are.
pub(crate) fn servers(view: &View<'_>, bad: &BTreeMap<ServerId, u64>) -> Vec<ServerStatus> {
    let held = view.fleet.locations().counts();
    let counts = |server| (held.get(&server).copied().unwrap_or(0), view.leases.count_of(server));
    let mut all = view.fleet.servers().describe(view.now.time, counts);
    for status in &mut all {
        status.bad_count = bad.get(&status.at.server).copied().unwrap_or(0);
    }
    all
}

/// How the cell stands. `counts`: of its chunks, where they are known (HL2); whether each chunk was
/// looked at in this term, and whether more that ail are being looked for; `is_off`: a server was
/// emptied, and nobody misses it.
pub(crate) fn health(
    view: &View<'_>,
    counts: Option<ChunkCounts>,
    (seen_all, looks): (bool, bool),
    is_off: impl Fn(ServerId) -> bool,
) -> Health {
    let gathering = counts.is_none();
    let counting = gathering || !seen_all || looks;
    let lost = lost_bytes::count(view);
    let counts = ChunkCounts { gathering, counting, lost, ..counts.unwrap_or_default() };
    let mut health = Health { counts, reasons: Vec::new() };
    if gathering {
        let (there, told) = view.fleet.servers().told_count(view.now.time);
        let line = format!(
            "{}: the master has started: {told} of {there} chunkservers have told what they hold",
            ReasonCode::Starting.code()
        );
        health.reasons.push(line);
    } else if !seen_all {
        let line = "the master has started, and has not looked at every chunk yet";
        health.reasons.push(format!("{}: {line}", ReasonCode::Starting.code()));
    }
    say_servers(view, &mut health, is_off);
    say_chunks(&mut health);
    health
}

fn say_servers(view: &View<'_>, health: &mut Health, is_off: impl Fn(ServerId) -> bool) {
    let servers = view.fleet.servers().describe(view.now.time, |_| (0, 0));
    let those = |wanted: ServerState| {
        let is_missed = |it: &&ServerStatus| it.state == ServerState::Live || !is_off(it.at.server);
        let those = servers.iter().filter(move |it| it.state == wanted).filter(is_missed);
        those.map(|server| server.at.address.as_str()).collect::<Vec<&str>>()
    };
    let (live, silent, dead) =
        (those(ServerState::Live), those(ServerState::Silent), those(ServerState::Dead));
    let none = u64::from(live.is_empty());
    health.say(none, ReasonCode::NoServers, "cell without a live chunkserver");
    let missed = format!("chunkservers missed their heartbeats: {}", named(&silent));
    health.say(silent.len() as u64, ReasonCode::ServersSilent, &missed);
    let gone = format!("chunkservers are dead: {}", named(&dead));
    health.say(dead.len() as u64, ReasonCode::ServersDead, &gone);
    let unreached: Vec<String> = view
        .fleet
        .servers()
        .unreached(view.now.time)
        .map(|(at, why)| format!("{} ({why})", at.address))
        .collect();
    let unreached: Vec<&str> = unreached.iter().map(String::as_str).collect();
    let line = format!(
        "chunkservers live, and are not reached at the address that they give: {}",
        named(&unreached)
    );
    health.say(unreached.len() as u64, ReasonCode::ServersUnreached, &line);
    let (takes, least) = (with_room_count(view), view.term.config.min_replicas.max(1) as usize);
    let line = format!(
        "live chunkservers take no new chunks, being full, not reached or to be emptied: {takes} \
         do, where {least} are needed to store anything"
    );
    let takes_none = if takes < least { live.len() - takes } else { 0 };
    health.say(takes_none as u64, ReasonCode::NoRoom, &line);
    let failed = view.fleet.servers().failed_disks();
    let failed: Vec<String> =
        failed.map(|(at, disk)| format!("{} of {}", disk.path, at.address)).collect();
    let failed: Vec<&str> = failed.iter().map(String::as_str).collect();
    let line = format!("data directories are of no more use: {}", named(&failed));
    health.say(failed.len() as u64, ReasonCode::DisksFailed, &line);
}

fn say_chunks(health: &mut Health) {
    let counts = health.counts.clone();
    let ChunkCounts { unavailable, one_left, below_goal, damaged, suspect, lost, unknown, .. } =
        counts;
    assert!(one_left <= below_goal, "who has one left and needs no more is well");
    let kept = "chunks are kept on servers until a person lets go of them: the log has not had \
                them (was a backup of the master restored?), or they hold more than a set that was \
                decided on ('cairn lost' lists them, 'cairn explain' says which)";
    let lines = [
        (unavailable, ReasonCode::Unavailable, "chunks have no replica that can be read now"),
        (one_left, ReasonCode::OneReplicaLeft, "chunks have one good replica left"),
        (below_goal, ReasonCode::UnderReplicated, "chunks have fewer replicas than their goal"),
        (
            damaged,
            ReasonCode::Damaged,
            "chunks have blocks that cannot be read, or do not match their checksums",
        ),
        (suspect, ReasonCode::Suspect, "chunks may have lost bytes in a power failure"),
        (
            lost,
            ReasonCode::LostBytes,
            "chunks of streams have lost bytes that were committed, and readers fail there \
             ('cairn fsck' says where)",
        ),
        (unknown, ReasonCode::UnknownChunks, kept),
    ];
    lines.into_iter().for_each(|(count, reason, line)| health.say(count, reason, line));
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
