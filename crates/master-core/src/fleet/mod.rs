//! What is known of the cell's chunkservers and of the replicas that they hold: soft, told by them,
//! and lost with the process (§2.6.2, A10).
//!
//! ```text
//!   Join, Inventory, Heartbeat ──► Fleet ──► who lives, who holds what, what nobody's log knows
//! ```
//! - FL1: nothing here is concluded from a server's silence about a chunk while it may still tell
//!   (`joining.rs`).
//!
//! Takes in what servers say, and answers questions. Knows nothing of leases, nor of what the
//! master is about to do: a shadow master knows as much.

mod bad_blocks;
mod chosen;
mod joining;
mod left_out;
mod locations;
mod possible_words;
mod reach;
mod recent_creations;
mod servers;
mod servers_ahead;
mod thinned;
mod traffic_window;
mod unknown_chunks;
mod wanted;

pub(crate) use chosen::PersonsWord;
pub(crate) use joining::SliceNews;
pub(crate) use locations::{KnownReplica, LocationTable, behind};
pub(crate) use possible_words::{is_given_out, is_word, may_begin_lease, passing};
pub(crate) use reach::ReachNews;
pub(crate) use recent_creations::CREATION_WEIGHT;
pub(crate) use servers::{KnownServer, ServerTable};
pub(crate) use servers_ahead::ServersAhead;
pub(crate) use unknown_chunks::is_empty_creation;

use crate::state::State;
use bad_blocks::BadBlockHints;
use cairn_protocol::{DoubtedBlock, Failure, Heartbeat, LeftOut, ReplicaReport, ReportBadBlock};
use cairn_protocol::{ListLost, ListLostAnswer, LostChunk};
use cairn_types::{CellConfig, ChunkHandle, ChunkVersion, JoinId, ReplicaAt, ServerId, Term, Time};
use chosen::ChosenReplicas;
use left_out::{LeftOutNews, ServerNews};
use possible_words::is_possible;
use std::time::Duration;
use thinned::ThinnedChunks;
use unknown_chunks::UnknownChunks;
use wanted::WantedChunks;

/// Lost chunks that one answer tells of: each may be on many servers.
const LOST_TOLD_MAX: u32 = 256;

/// All chunkservers, and what they hold.
#[derive(Debug, Default)]
pub(crate) struct Fleet {
    servers: ServerTable,
    locations: LocationTable,
    /// What servers hold that no record knows.
    unknown: UnknownChunks,
    /// What somebody waits for while servers tell what they hold.
    wanted: WantedChunks,
    /// Bad blocks that clients reported.
    hints: BadBlockHints,
    /// Sets that go on without a server, which is to hear of it.
    news: LeftOutNews,
    /// Who knows of changes that the log lacks.
    ahead: ServersAhead,
    /// What may have fewer replicas than before.
    thinned: ThinnedChunks,
    /// What a person chose.
    chosen: ChosenReplicas,
    /// Until then any server may come and tell what it holds.
    gathers_until: Time,
}

impl Fleet {
    /// The cell's settings and the servers that the log knows are told, and from now on servers can
    /// come.
    pub(crate) fn begin<'a>(
        &mut self,
        now: Time,
        config: &CellConfig,
        known: impl Iterator<Item = &'a ReplicaAt>,
    ) {
        self.servers.configure(config);
        known.for_each(|at| self.servers.expect(now, at));
        self.gathers_until = now + Duration::from_millis(config.dead_ms);
    }

    pub(crate) fn servers(&self) -> &ServerTable {
        &self.servers
    }

    pub(crate) fn locations(&self) -> &LocationTable {
        &self.locations
    }

    /// Servers that know of changes that the log lacks.
    pub(crate) fn ahead(&self) -> &ServersAhead {
        &self.ahead
    }

    /// A server that the log knows is not taken in, because it knows of changes up to that term
    /// that the log lacks. Whether that is news.
    pub(crate) fn note_ahead(&mut self, now: Time, server: ServerId, term: Term) -> bool {
        self.ahead.note(now, server, term)
    }

    /// The servers that keep a chunk that the log does not know.
    pub(crate) fn holders_of_unknown(&self, handle: ChunkHandle) -> impl Iterator<Item = ServerId> {
        self.unknown.holders(handle)
    }

    /// How many such chunks one server keeps.
    pub(crate) fn unknown_count_of(&self, server: ServerId) -> usize {
        self.unknown.count_of(server)
    }

    /// How many chunks servers keep that the log does not know.
    pub(crate) fn unknown_count(&self) -> u64 {
        self.unknown.count()
    }

    pub(crate) fn at(&self, server: ServerId) -> Option<&ReplicaAt> {
        self.servers.at(server)
    }

    /// The master does something (V4).
    pub(crate) fn wake(&mut self, now: Time) {
        self.servers.wake(now);
    }

    /// Servers that have just fallen silent: each is told of once.
    pub(crate) fn newly_silent(&mut self, now: Time) -> Vec<ReplicaAt> {
        self.servers.newly_silent(now)
    }

    /// Live servers that are to be asked whether they are reached (RK1): which join of each.
    pub(crate) fn take_to_probe(&mut self, now: Time) -> Vec<(ReplicaAt, JoinId)> {
        self.servers.take_to_probe(now)
    }

    /// What came of asking.
    pub(crate) fn note_reach(
        &mut self,
        when: (Time, Duration),
        whom: (ServerId, JoinId),
        result: Result<(), &Failure>,
    ) -> ReachNews {
        self.servers.note_reach(when, whom, result)
    }

    /// Time has passed: whoever has been silent for long is dead, and what it held counts no more.
    /// Tells whom.
    pub(crate) fn pass(&mut self, now: Time) -> Vec<ServerId> {
        let dead = self.servers.bury(now);
        for server in &dead {
            self.locations.bury_server(*server);
            self.unknown.remove_server(*server);
            self.thinned.note_many();
        }
        // Who has joined anew may still tell of what it held; and what it does not tell of must be
        // seen before it is swept away.
        if !self.thinned.is_walking() && self.servers.telling_count() == 0 {
            self.locations.sweep_some();
        }
        // Nobody is telling: nobody is asked.
        if !self.wanted.is_empty() && !self.may_be_told(now) {
            self.wanted = WantedChunks::default();
        }
        dead
    }

    /// A server will not come back.
    pub(crate) fn forget_server(&mut self, server: ServerId) {
        self.servers.forget(server);
        self.ahead.forget(server);
        self.forget_all_of(server);
    }

    fn forget_all_of(&mut self, server: ServerId) {
        self.locations.remove_server(server);
        self.unknown.remove_server(server);
        self.news.forget(server);
    }

    /// Takes in what a server answered of its replica of a chunk; nothing, where that is another's,
    /// or cannot be (BE1, BE3), or the table has no such chunk (L7 of the locations). Whether it is
    /// of that chunk, and the table has it. `last` is the last version that was given out.
    pub(crate) fn note_replica(
        &mut self,
        (now, state, last): (Time, &State, ChunkVersion),
        handle: ChunkHandle,
        server: ServerId,
        report: &ReplicaReport,
    ) -> bool {
        let reports = std::slice::from_ref(report);
        report.handle == handle
            && is_word(state, last, report)
            && self.take_in((now, state), server, reports).is_empty()
    }

    /// Takes in what a server says of its replicas, which mostly come in handle order; answers
    /// those of chunks that the table has not. Words that cannot be true are none (BE1).
    pub(crate) fn note_replicas<'a>(
        &mut self,
        (now, state): (Time, &State),
        server: ServerId,
        reports: &'a [ReplicaReport],
    ) -> Vec<&'a ReplicaReport> {
        let runs = passing(reports, |report| is_possible(state, report));
        runs.flat_map(|run| self.take_in((now, state), server, run)).collect()
    }

    /// The same of words that were looked at.
    fn take_in<'a>(
        &mut self,
        (now, state): (Time, &State),
        server: ServerId,
        reports: &'a [ReplicaReport],
    ) -> Vec<&'a ReplicaReport> {
        let table = |handles| state.chunks_among(handles);
        self.locations.report_all(now, server, reports, table)
    }

    /// The chunk table has this chunk no more: nothing is known of it.
    pub(crate) fn forget_chunk(&mut self, handle: ChunkHandle) {
        self.locations.forget_chunk(handle);
        self.hints.forget(handle);
    }

    /// Chunks behind a handle that servers keep and the log does not know, page by page.
    pub(crate) fn lost_after(&self, wish: &ListLost) -> ListLostAnswer {
        let limit = (wish.limit.clamp(1, LOST_TOLD_MAX)) as usize;
        let mut answer = ListLostAnswer::default();
        for (handle, holders) in self.unknown.after(wish.after) {
            if answer.chunks.len() == limit {
                answer.resume = answer.chunks.last().map(|last| last.handle);
                break;
            }
            let servers = holders.keys().filter_map(|server| self.at(*server).cloned()).collect();
            let length = holders.values().copied().max().unwrap_or_default();
            answer.chunks.push(LostChunk { handle, length, servers });
        }
        answer
    }

    /// A person let go of a chunk that no record knows.
    pub(crate) fn let_go(&mut self, handle: ChunkHandle) {
        self.unknown.remove(handle);
    }

    /// A person chose whose replica is to be a chunk's set; none where too many choices wait.
    pub(crate) fn choose(
        &mut self,
        now: Time,
        handle: ChunkHandle,
        word: PersonsWord,
    ) -> Option<()> {
        self.chosen.choose(now, handle, word)
    }

    /// Whose replica a person chose to be the set.
    pub(crate) fn chosen(&self, now: Time, handle: ChunkHandle) -> Option<PersonsWord> {
        self.chosen.get(now, handle)
    }

    /// The chunk has a set that is logged.
    pub(crate) fn choice_carried_out(&mut self, handle: ChunkHandle) {
        self.chosen.carried_out(handle);
    }

    /// A server holds a chunk that no record knows, and that nobody is about to make.
    pub(crate) fn note_unknown(&mut self, server: ServerId, report: &ReplicaReport) {
        self.unknown.note(server, report);
    }

    /// A server said that it has no replica of a chunk.
    pub(crate) fn forget_replica(&mut self, handle: ChunkHandle, server: ServerId) {
        self.locations.remove(handle, server);
        self.unknown.remove_replica(handle, server);
        self.thinned.note(handle);
    }

    /// A server said that blocks of a replica fail their checksums.
    pub(crate) fn mark_damaged(&mut self, handle: ChunkHandle, server: ServerId) {
        self.locations.mark_damage(handle, server, true);
        self.thinned.note(handle);
    }

    /// Every block of a replica that was damaged was verified since, by its server.
    pub(crate) fn mark_sound(&mut self, handle: ChunkHandle, server: ServerId) {
        self.locations.mark_damage(handle, server, false);
        self.thinned.note(handle);
    }

    /// About so many chunks that may have fewer replicas than before: each is told until it was
    /// looked at once.
    pub(crate) fn take_thinned(&mut self, count: usize) -> Vec<ChunkHandle> {
        self.thinned.take(&self.locations, count)
    }

    /// Nobody mutates the chunk any more: what is told from now on is where its bytes stay.
    pub(crate) fn quiet_since(&mut self, handle: ChunkHandle, now: Time) {
        self.locations.quiet_since(handle, now);
    }

    /// What this server holds counts otherwise than before: all of it is looked at again.
    pub(crate) fn look_at_all_of(&mut self, server: ServerId) {
        self.thinned.note_all_of(server);
    }

    /// Whether such chunks are still being looked for.
    pub(crate) fn looks_for_thinned(&self) -> bool {
        self.thinned.is_walking()
    }

    /// A chunk was placed on a server, which will show in its disk use only later.
    pub(crate) fn placed_on(&mut self, now: Time, server: ServerId) {
        self.servers.placed_on(now, server);
    }

    /// A reader met bytes that fail their checksum (R31).
    pub(crate) fn note_bad_block(&mut self, hint: &ReportBadBlock) {
        // Of a replica that nobody knows of, a hint is of no use to anybody.
        if self.locations.get(hint.handle, hint.server).is_some() {
            self.hints.note(hint);
        }
    }

    /// What a server shall verify, as readers reported it; each is told once.
    pub(crate) fn take_bad_blocks(&mut self, server: ServerId) -> Vec<DoubtedBlock> {
        self.hints.take(server)
    }

    /// How often readers reported bad blocks of a replica.
    pub(crate) fn bad_block_count(&self, handle: ChunkHandle, server: ServerId) -> u64 {
        self.hints.count(handle, server)
    }

    /// A version of a chunk is logged: whoever holds it at an older one is out of its set, and is
    /// to hear of it.
    pub(crate) fn leave_out_all_below(&mut self, set: LeftOut) {
        let below = self.locations.of(set.handle);
        let below = below.filter(|(_, replica)| !replica.is_current(set.version));
        for (server, _) in below {
            self.news.note(server, set);
            self.thinned.note(set.handle);
        }
    }

    /// What a server has not heeded yet of the sets that go on without it; `same_term`: its word
    /// on what it heeded is about this master's news.
    pub(crate) fn news_for(&mut self, beat: &Heartbeat, same_term: bool) -> ServerNews {
        let heeded = if same_term { beat.heeded } else { 0 };
        self.news.tell(beat.server, heeded)
    }

    /// Somebody asked for a chunk of which no replica is known.
    pub(crate) fn want(&mut self, now: Time, handle: ChunkHandle) {
        if self.may_be_told(now) {
            self.wanted.note(handle);
        }
    }

    /// Whether the term has begun just now, and servers may still tell what they hold.
    pub(crate) fn is_gathering_first(&self, now: Time) -> bool {
        now < self.gathers_until && self.servers.is_gathering(now)
    }

    /// Whether servers are telling what they hold, or may be about to.
    fn may_be_told(&self, now: Time) -> bool {
        now < self.gathers_until || self.servers.telling_count() > 0
    }
}
