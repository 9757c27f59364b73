//! What tasks and operations share: the time, the cell's settings, the caches, the way out.

use crate::file_cache::FileCache;
use crate::locations::LocationQuestion;
use crate::masters::lookup::LookupRequest;
use crate::masters::primary_watch::{PrimaryWatch, WatchContext};
use crate::masters::shadow_choice::ShadowChoice;
use crate::outbox::Outbox;
use crate::settings::ClientSettings;
use crate::tasks::master_call::AnsweredBy;
use crate::tasks::push_lines::PushLines;
use crate::tasks::write_order::WriteOrder;
use cairn_types::{
    Address, CellConfig, ChunkHandle, Identity, LogIndex, MutationNumber, PushId, Rack, Random,
    SessionId, Time,
};
use std::collections::VecDeque;
use std::time::Duration;

/// One client's, whatever it is doing.
#[derive(Debug)]
pub(crate) struct ClientContext {
    pub(crate) now: Time,
    pub(crate) rack: Rack,
    /// The cell's, once a master has told them.
    pub(crate) config: Option<CellConfig>,
    pub(crate) masters: PrimaryWatch,
    pub(crate) shadows: ShadowChoice,
    pub(crate) files: FileCache,
    pub(crate) write_order: WriteOrder,
    pub(crate) push_lines: PushLines,
    /// What is to be looked up and has not been asked for yet.
    pub(crate) lookups: VecDeque<LookupRequest>,
    pub(crate) outbox: Outbox,
    /// As whom it asks.
    pub(crate) identity: Identity,
    pub(crate) session: SessionId,
    /// What was told of streams is so as of this record of the log (R44).
    pub(crate) log_seen: LogIndex,
    random: Random,
    last_push: MutationNumber,
}

impl ClientContext {
    pub(crate) fn new(settings: ClientSettings) -> Self {
        let ClientSettings { masters, rack, seed, shadow_reads, identity } = settings;
        Self {
            now: Time::default(),
            rack,
            config: None,
            masters: PrimaryWatch::new(masters),
            shadows: ShadowChoice::new(shadow_reads),
            files: FileCache::default(),
            write_order: WriteOrder::default(),
            push_lines: PushLines::default(),
            lookups: VecDeque::new(),
            outbox: Outbox::default(),
            identity,
            session: SessionId::new(seed),
            log_seen: LogIndex::default(),
            random: Random::new((seed >> 64) as u64 ^ seed as u64),
            last_push: MutationNumber::default(),
        }
    }

    /// The cell's settings. Tasks that need them begin only once they are known.
    pub(crate) fn cell(&self) -> &CellConfig {
        self.config.as_ref().expect("an operation on a file begins once the settings are known")
    }

    /// The masters, and what looking for one takes.
    pub(crate) fn masters(&mut self) -> (&mut PrimaryWatch, WatchContext<'_>) {
        let Self { now, masters, outbox, random, .. } = self;
        (masters, WatchContext { now: *now, outbox, random })
    }

    /// The masters that are not known to be in charge; the last one is to be asked first.
    pub(crate) fn shadows_to_ask(&mut self) -> Vec<Address> {
        self.shadows.order(self.now, self.masters.others(), &mut self.random)
    }

    /// A name for the next data that is pushed (R15).
    pub(crate) fn next_push(&mut self) -> PushId {
        self.last_push = self.last_push.next();
        PushId { session: self.session, number: self.last_push }
    }

    /// How long to rest before the try after `attempt`.
    pub(crate) fn backoff(&mut self, attempt: u32) -> Duration {
        crate::retry::backoff(attempt, &mut self.random)
    }

    /// How long to rest before data is sent that was sent so often already, in vain.
    pub(crate) fn data_backoff(&mut self, rounds: u32) -> Duration {
        crate::retry::data_backoff(rounds, &mut self.random)
    }

    /// Tells equally near replicas of a chunk apart, otherwise for each client and chunk.
    pub(crate) fn salt(&self, chunk: ChunkHandle) -> u64 {
        self.session.get() as u64 ^ chunk.get()
    }

    /// How long a chunkserver's answer is waited for: half a lease, so that the master still can
    /// act within one, but never less than half a second or more than five.
    pub(crate) fn patience(&self) -> Duration {
        let lease_ms = self.config.as_ref().map_or(10_000, |config| config.lease_ms);
        Duration::from_millis((lease_ms / 2).clamp(500, 5_000))
    }

    /// After how long it is time to look whether a chunkserver that has not answered is there: a
    /// second, with leases of ten.
    pub(crate) fn impatience(&self) -> Duration {
        (self.patience() / 5).max(Duration::from_millis(500))
    }

    /// A question, and until when its answer may be used.
    pub(crate) fn question(&self, answered: AnsweredBy) -> LocationQuestion {
        let ttl_ms = self.config.as_ref().map_or(0, |config| config.location_ttl_ms);
        let AnsweredBy { asked, sent, is_shadow, .. } = answered;
        LocationQuestion { asked, sent, is_shadow, until: sent + Duration::from_millis(ttl_ms) }
    }
}
