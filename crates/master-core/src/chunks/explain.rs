//! Why a chunk is as it is, for a person: what is wrong, what is waited for and since when; and
//! how the cell stands as a whole (design §9, §11).

use super::Chunks;
use super::decided_set::Decision;
use super::jobs::Phase;
use super::leases::LeaseStatus;
use super::locations::Replica;
use crate::state::{ChunkRecord, State};
use cairn_env::Now;
use cairn_protocol::{
    ErrorCode, ExplainAnswer, Failure, MESSAGE_SIZE_MAX, ServerState, ServerStatus,
};
use cairn_types::{CellPath, ChunkHandle, ServerId};

/// Chunks of one file that are explained at once; the rest is counted.
const EXPLAINED_MAX: usize = 64;

/// Bytes of an explanation; a server's own words may stand in it.
const EXPLANATION_SIZE_MAX: usize = 1 << 20;

// Each line costs a few bytes more in the message.
const _: () = assert!(2 * EXPLANATION_SIZE_MAX < MESSAGE_SIZE_MAX as usize);

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

impl Chunks {
    /// All chunkservers, in order of address.
    pub(crate) fn servers(&self, now: Now) -> Vec<ServerStatus> {
        let held = self.locations.counts();
        let counts =
            |server| (held.get(&server).copied().unwrap_or(0), self.leases.count_of(server));
        self.servers.describe(now.time, counts)
    }

    /// How the cell stands; looks at every chunk.
    pub(crate) fn health(&self, state: &State, now: Now) -> Health {
        let mut health = Health::default();
        for (handle, chunk) in state.chunks() {
            let (sound, readable) = self.replica_counts(now, handle, &chunk);
            health.under_replicated += u64::from(sound < chunk.goal as usize);
            health.unavailable += u64::from(readable == 0);
        }
        let servers = self.servers.describe(now.time, |_| (0, 0));
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
        let lost = "chunks on servers that this master's log does not know; kept (was a backup of \
                    the master restored?)";
        say(self.unknown.count(), "UNKNOWN_CHUNKS", lost);
        let (under, gone) = (health.under_replicated, health.unavailable);
        say(gone, "UNAVAILABLE", "chunks have no replica that can be read now");
        say(under, "UNDER_REPLICATED", "chunks have fewer replicas than their goal");
        health
    }

    /// Up-to-date replicas on live servers: the sound ones, and all.
    fn replica_counts(&self, now: Now, handle: ChunkHandle, chunk: &ChunkRecord) -> (usize, usize) {
        let live = self
            .current(handle, chunk)
            .filter(|(server, _)| self.servers.is_live(now.time, *server));
        let all: Vec<bool> = live.map(|(_, replica)| replica.is_sound()).collect();
        (all.iter().filter(|sound| **sound).count(), all.len())
    }

    /// Explains a path or a chunk handle.
    pub(crate) fn explain(
        &self,
        state: &State,
        now: Now,
        subject: &str,
    ) -> Result<ExplainAnswer, Failure> {
        let mut answer = ExplainAnswer { lines: Vec::new(), healthy: true };
        if !subject.starts_with('/') {
            let handle = ChunkHandle::parse(subject);
            if let Some(lines) = handle.and_then(|handle| self.explain_unknown(handle)) {
                return Ok(ExplainAnswer { lines, healthy: false });
            }
            let Some(handle) = handle.filter(|handle| state.chunk(*handle).is_some()) else {
                let line = format!("{subject}: neither a path nor the handle of a chunk");
                return Err(Failure::refused(ErrorCode::NotFound, line));
            };
            self.explain_chunk(state, now, handle, &mut answer);
            fit(&mut answer.lines);
            return Ok(answer);
        }
        let path = CellPath::parse(subject)
            .map_err(|error| Failure::refused(ErrorCode::Invalid, format!("{subject}: {error}")))?;
        let file = state.resolve(&path)?;
        let all: Vec<ChunkHandle> =
            state.chunks_of(file, Default::default()).map(|(_, handle)| handle).collect();
        answer.lines.push(format!("{path}: {} chunks", all.len()));
        for handle in all.iter().take(EXPLAINED_MAX) {
            self.explain_chunk(state, now, *handle, &mut answer);
        }
        if all.len() > EXPLAINED_MAX {
            let rest = all.len() - EXPLAINED_MAX;
            answer.lines.push(format!("and {rest} more; ask for one by its handle"));
        }
        let jobs = self.jobs.iter().filter(|((of, _), _)| *of == file);
        for ((_, index), job) in jobs.take(EXPLAINED_MAX) {
            let age = now.time.since(job.since).as_millis();
            answer.healthy &= !matches!(job.phase, Phase::Waiting(_));
            let what = job.phase.describe();
            answer.lines.push(format!("chunk {index}: for {age} ms: {what}"));
        }
        fit(&mut answer.lines);
        Ok(answer)
    }

    /// Of a chunk that servers hold and no record knows.
    fn explain_unknown(&self, handle: ChunkHandle) -> Option<Vec<String>> {
        let address = |server| self.servers.at(server).map(|at| at.address.as_str());
        let holders: Vec<&str> = self.unknown.holders(handle).filter_map(address).collect();
        let line = format!(
            "chunk {}: kept by {}; this master's log does not know it (was a backup of it \
             restored?)",
            handle.short(),
            holders.join(", ")
        );
        (!holders.is_empty()).then(|| vec![line])
    }

    fn explain_chunk(
        &self,
        state: &State,
        now: Now,
        handle: ChunkHandle,
        answer: &mut ExplainAnswer,
    ) {
        let Some(chunk) = state.chunk(handle) else { return };
        let (sound, _) = self.replica_counts(now, handle, &chunk);
        answer.healthy &= sound >= chunk.goal as usize;
        answer.lines.push(format!(
            "chunk {} {}: version {}, set of {}, {}; {sound} of {} good replicas reachable",
            chunk.index,
            handle.short(),
            chunk.version.short(),
            chunk.set_size,
            if chunk.closed { "closed" } else { "open to appends" },
            chunk.goal,
        ));
        for (server, replica) in self.locations.of(handle) {
            answer.lines.push(self.explain_replica(now, &chunk, handle, (server, &replica)));
        }
        if let Some(lease) = self.leases.possible(handle, now.time) {
            let left = lease.until.since(now.time).as_millis();
            let doubt = if lease.status == LeaseStatus::Serving { "" } else { ", in doubt" };
            let holder = &lease.holder.address;
            answer.lines.push(format!("  leased to {holder} for {left} ms more{doubt}"));
        } else if let Err(blocked) = self.plan_raise(now.time, handle, &chunk) {
            answer.lines.push(format!("  no lease can be granted: {}", blocked.why));
        } else if let Decision::Set(set) = self.decide(now.time, handle, &chunk) {
            answer.lines.push(format!(
                "  the next lease goes to {} replicas alone: the others lack acknowledged \
                 bytes, or may have lost some",
                set.len()
            ));
        }
        if sound < chunk.goal as usize {
            // Re-replication (A20) is not part of this cell yet.
            answer
                .lines
                .push("  waits for its servers to come back; nothing clones yet".to_owned());
        }
    }

    fn explain_replica(
        &self,
        now: Now,
        chunk: &ChunkRecord,
        handle: ChunkHandle,
        (server, replica): (ServerId, &Replica),
    ) -> String {
        let address = self.servers.at(server).map(|at| at.address.as_str()).unwrap_or("?");
        let state = match self.servers.state(now.time, server) {
            Some(ServerState::Live) => "live",
            Some(ServerState::Silent) => "silent",
            Some(ServerState::Dead) | None => "dead",
        };
        let mut words = Vec::new();
        if !replica.is_current(chunk.version) {
            words.push("stale".to_owned());
        }
        if replica.suspect {
            words.push("suspect: may have lost bytes in a power failure".to_owned());
        }
        if replica.damaged {
            words.push("damaged: blocks do not match their checksums".to_owned());
        }
        let hints = self.hints.count(handle, server);
        if hints > 0 {
            words.push(format!("{hints} reports of bad blocks by readers"));
        }
        let words = if words.is_empty() { "good".to_owned() } else { words.join(", ") };
        let (version, length) = (replica.version.short(), replica.length);
        format!("  {address} ({state}): version {version}, {length} bytes, {words}")
    }
}

/// Cuts an explanation to what a message holds.
fn fit(lines: &mut Vec<String>) {
    let mut size = 0;
    let whole = lines.iter().take_while(|line| {
        size += line.len();
        size <= EXPLANATION_SIZE_MAX
    });
    let (kept, all) = (whole.count(), lines.len());
    if kept < all {
        lines.truncate(kept);
        lines.push(format!("and {} more lines", all - kept));
    }
}

#[cfg(test)]
mod tests {
    use super::{EXPLANATION_SIZE_MAX, fit};

    #[test]
    fn an_explanation_that_quotes_a_huge_failure_is_cut() {
        let mut lines = vec!["short".to_owned(), "x".repeat(EXPLANATION_SIZE_MAX), "more".into()];
        fit(&mut lines);
        assert_eq!(lines, ["short", "and 2 more lines"]);
    }
}
