//! What the masters that are not in charge are told, so that they can send readers here (§5.1.3).
//!
//! ```text
//!   not met ──"here I am"──► taken in ──► all that is held, slice by slice ──► what has changed,
//!      ▲                                                                        and some in turn
//!      └── no answer · another join ───────────────────────────────────────────┘
//! ```
//! - SR1: nothing that they answer is ever done (R2, R33): it says who is to be told what again,
//!   and the settings by which readers are served while no master has taken this server in. A
//!   server obeys the master that it is a server of (M3), and no other.
//! - SR2: one message is on its way to each of them, and of a bounded size, whatever changes.
//! - SR3: it goes on while nobody is in charge: then they are all that readers have.
//!
//! Costs nothing in a cell of one master, but where that one is looked for: it is told as one that
//! is not in charge then, until it takes this server in again.

use crate::chunk_core_config::{CellSettings, ChunkCoreConfig};
use crate::outbox::{CallPurpose, Outbox};
use crate::replica_table::ReplicaTable;
use cairn_protocol::{Failure, ReplicaReport, ReportSlice, TellShadow, TellShadowAnswer};
use cairn_types::{Address, CellId, ChunkHandle, JoinId, ServerId, Time};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Replicas in one message (SR2).
const SLICE: usize = 1024;
/// Of those that have not changed, so many are told again each time: no word that was lost is
/// missed for ever.
const AGAIN: usize = 64;
/// What has changed is told after so long, together with what changes meanwhile.
const NEWS_AFTER: Duration = Duration::from_millis(200);
/// More changes than that are told as all that is held.
const OWED_MAX: usize = 1 << 16;
/// How long one of them may take to answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// What reports are made of.
pub(crate) struct ReportContext<'a> {
    pub(crate) now: Time,
    pub(crate) me: &'a ChunkCoreConfig,
    pub(crate) cell: CellId,
    pub(crate) heartbeat: Duration,
    pub(crate) table: &'a mut ReplicaTable,
    pub(crate) out: &'a mut Outbox,
}

/// One of the masters, and how far it has been told.
#[derive(Debug, Default)]
struct ToldShadow {
    /// As it took this server in; zero: it did not.
    join: JoinId,
    is_asked: bool,
    /// When it was told last.
    told: Time,
    /// It waits for no news.
    is_due: bool,
    /// All is being told for the first time.
    is_first: bool,
    /// All up to here was told, this time round.
    up_to: ChunkHandle,
    /// Changed since it was told of them.
    owed: BTreeSet<ChunkHandle>,
    /// Its log did not know them.
    unknown: BTreeSet<ChunkHandle>,
}

impl ToldShadow {
    /// Whether it is to be told something now.
    fn is_time(&self, cx: &ReportContext<'_>) -> bool {
        let passed = cx.now.since(self.told);
        let has_news = !self.owed.is_empty() && passed >= NEWS_AFTER;
        !self.is_asked && (self.is_due || has_news || passed >= cx.heartbeat)
    }

    /// It knows nothing of this server, or is about to be told all.
    fn begin(&mut self, join: JoinId) {
        (self.join, self.up_to, self.is_first) = (join, ChunkHandle::default(), true);
        self.owed.clear();
        self.unknown.clear();
        self.is_due = join != JoinId::default();
    }

    fn tell(&mut self, cx: &mut ReportContext<'_>, to: &Address) {
        let mut tell = TellShadow {
            at: cx.me.at.clone(),
            incarnation: cx.me.incarnation,
            cell: cx.cell,
            join: self.join,
            ..TellShadow::default()
        };
        if self.join != JoinId::default() {
            self.fill(cx, &mut tell);
        }
        (self.is_asked, self.is_due, self.told) = (true, false, cx.now);
        let (purpose, deadline) = (CallPurpose::TellShadow(to.clone()), cx.now + PATIENCE);
        cx.out.call(purpose, to.clone(), ServerId::default(), tell, deadline);
    }

    /// What has changed, and then the others in turn.
    fn fill(&mut self, cx: &ReportContext<'_>, tell: &mut TellShadow) {
        if cx.now.since(self.told) >= cx.heartbeat {
            self.owed.append(&mut self.unknown);
        }
        let mut replicas: Vec<ReplicaReport> = Vec::new();
        while replicas.len() + tell.gone.len() < SLICE
            && let Some(handle) = self.owed.pop_first()
        {
            match cx.table.get(handle) {
                Some(replica) => replicas.push(replica.stored().report()),
                None => tell.gone.push(handle),
            }
        }
        let room = SLICE - replicas.len() - tell.gone.len();
        let most = if self.is_first { room } else { room.min(AGAIN) };
        let before = replicas.len();
        replicas.extend(cx.table.behind(self.up_to).take(most).map(|it| it.stored().report()));
        let in_turn = &replicas[before..];
        let is_round = in_turn.len() < most;
        self.up_to = match in_turn.last() {
            Some(last) if !is_round => last.handle,
            _ => ChunkHandle::default(),
        };
        self.is_first &= !is_round;
        assert!(replicas.len() + tell.gone.len() <= SLICE, "a bounded message (SR2)");
        tell.all = !self.is_first;
        // What is told and not named here a shadow takes for sound. Of the others it knows what it
        // was told, and hears once their damage has come or gone: so few are named (SR2).
        let is_damaged = |handle: &ChunkHandle| {
            cx.table.get(*handle).is_some_and(|replica| replica.stored().is_damaged())
        };
        tell.damaged = replicas.iter().map(|report| report.handle).filter(is_damaged).collect();
        tell.replicas = ReportSlice(replicas);
    }
}

/// All of them.
#[derive(Debug, Default)]
pub(crate) struct ShadowReports {
    shadows: BTreeMap<Address, ToldShadow>,
}

impl ShadowReports {
    /// Time passes; these are the masters that are not known to be in charge.
    pub(crate) fn tick(&mut self, cx: &mut ReportContext<'_>, masters: Vec<Address>) {
        if cx.cell.is_none() {
            // It belongs to nobody yet.
            return;
        }
        let changed = cx.table.take_changed(!masters.is_empty());
        self.shadows.retain(|at, _| masters.contains(at));
        for master in masters {
            self.shadows.entry(master).or_default();
        }
        for (at, shadow) in &mut self.shadows {
            if shadow.join != JoinId::default() {
                shadow.owed.extend(&changed);
            }
            if shadow.owed.len() > OWED_MAX {
                shadow.begin(shadow.join);
            }
            if shadow.is_time(cx) {
                shadow.tell(cx, at);
            }
        }
    }

    /// One of them has answered, or not (SR1).
    pub(crate) fn told(
        &mut self,
        settings: &mut CellSettings,
        from: &Address,
        result: Result<TellShadowAnswer, Failure>,
    ) {
        // Who is in charge by now is told as such.
        let Some(shadow) = self.shadows.get_mut(from) else { return };
        shadow.is_asked = false;
        match result {
            Ok(answer) if answer.join == shadow.join => {
                shadow.unknown.extend(answer.unknown.iter().take(SLICE));
                shadow.is_due = shadow.is_first;
            }
            Ok(answer) => {
                shadow.begin(answer.join);
                if let Some(config) = answer.config {
                    settings.learn_of_shadow(*config);
                }
            }
            Err(_) => shadow.begin(JoinId::default()),
        }
    }
}
