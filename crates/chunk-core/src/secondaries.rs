//! The secondaries as their primary sees them: what each has applied, and what it is sent (GFS
//! §3.1, step 5).
//!
//! - F1: one batch at a time to each secondary; what gathers meanwhile goes as the next.
//! - F2: one that failed is sent nothing until the master has said who is left (R14).
//! - F3: one that lacks pushed data has not failed as long as that may be on its way.

use crate::mutation_pipeline::BATCH_COUNT_MAX;
use crate::outbox::{CallPurpose, ReplicaCall};
use crate::primary_mutation::PrimaryMutation;
use crate::replica_context::ReplicaContext;
use crate::stored_replica::{AcknowledgedMark, StoredReplica};
use cairn_protocol::{Acknowledged, Forward, LevelSource};
use cairn_types::planted::{Rule, broken};
use cairn_types::{BLOCKS_PER_CHUNK_MAX, LeaseId, ReplicaAt, SerialNumber, ServerId, Time};
use std::collections::VecDeque;
use std::time::Duration;

/// Checksums that one forward may carry, unless a single mutation has more: what a secondary lacks
/// may be several batches, and they share a message.
const FORWARD_SUM_COUNT_MAX: usize = 1 << 18;
const _: () = assert!(
    (FORWARD_SUM_COUNT_MAX + BLOCKS_PER_CHUNK_MAX as usize) * 4 + BATCH_COUNT_MAX * 128
        < cairn_protocol::MESSAGE_SIZE_MAX as usize
);

/// After so long one that lacked pushed data is asked again.
const ASKED_AGAIN_AFTER: Duration = Duration::from_millis(50);

/// How far one secondary has come.
#[derive(Debug)]
struct SecondaryProgress {
    at: ReplicaAt,
    applied: SerialNumber,
    /// A batch is on its way.
    outstanding: bool,
    /// It lacks pushed data, since when as far as is known, and when it is asked again (F3).
    lacks_data: Option<(Time, Time)>,
    failed: bool,
    /// The mark that it was told last, and has heard.
    told: AcknowledgedMark,
    /// The one that it is being told.
    telling: Option<AcknowledgedMark>,
    /// When it is told again what it has not heard.
    tell_at: Time,
}

#[derive(Debug)]
pub(crate) struct Secondaries {
    all: Vec<SecondaryProgress>,
    /// The newest mark that any of them was told while nothing else was to be said.
    told: AcknowledgedMark,
}

impl Secondaries {
    /// Of a lease that begins: nobody knows yet what they have.
    pub(crate) fn of(set: Vec<ReplicaAt>) -> Self {
        let progress = |at| {
            let (applied, told) = (SerialNumber::default(), AcknowledgedMark::default());
            let (outstanding, failed, telling) = (false, false, None);
            let tell_at = Time::default();
            let lacks_data = None;
            SecondaryProgress {
                at,
                applied,
                outstanding,
                lacks_data,
                failed,
                told,
                telling,
                tell_at,
            }
        };
        let told = AcknowledgedMark::default();
        Self { all: set.into_iter().map(progress).collect(), told }
    }

    pub(crate) fn each(&self) -> impl Iterator<Item = &ReplicaAt> {
        self.all.iter().map(|secondary| &secondary.at)
    }

    /// What all of them have applied; none where there is no secondary.
    pub(crate) fn lowest_applied(&self) -> Option<SerialNumber> {
        let counted = self.all.iter().filter(|it| !(it.failed && broken(Rule::R14)));
        counted.map(|secondary| secondary.applied).min()
    }

    /// Sends each what it lacks (F1, F2). `level` opens the lease: as this one stood (R16).
    pub(crate) fn forward(
        &mut self,
        cx: &mut ReplicaContext<'_>,
        stored: &StoredReplica,
        lease: LeaseId,
        unacknowledged: &VecDeque<PrimaryMutation>,
        level: Option<&LevelSource>,
    ) {
        for secondary in &mut self.all {
            // The bug: whatever comes meanwhile goes out at once, by itself (F1).
            let hasty = secondary.outstanding && broken(Rule::R13);
            let busy = secondary.outstanding && !hasty;
            let waits = secondary.lacks_data.is_some_and(|(_, again)| cx.now < again);
            if busy || waits || secondary.failed {
                continue;
            }
            let sent = if hasty { unacknowledged.len().saturating_sub(1) } else { 0 };
            let lacking = unacknowledged.iter().skip(sent);
            let lacking = lacking.filter(|it| it.serial() > secondary.applied);
            let batch = batch_of_one_message(lacking);
            if batch.is_empty() {
                continue;
            }
            assert!(level.is_none() || batch.len() == 1, "the levelling goes out alone (R16)");
            secondary.outstanding = true;
            let (handle, version) = (stored.handle(), stored.version());
            let mark = stored.acknowledged();
            let forward = Forward {
                handle,
                version,
                lease,
                sync: batch.iter().any(|mutation| mutation.sync),
                mutations: batch.into_iter().map(|it| it.forwarded.clone()).collect(),
                acknowledged: mark.length,
                acknowledged_serial: mark.serial,
                level: level.cloned().map(Box::new),
            };
            let (to, server) = (secondary.at.address.clone(), secondary.at.server);
            let what = ReplicaCall::Forward { version, lease, secondary: server };
            let deadline = cx.replica_deadline();
            cx.out.call(CallPurpose::Replica(handle, what), to, server, forward, deadline);
        }
    }

    fn find(&mut self, server: ServerId) -> Option<&mut SecondaryProgress> {
        self.all.iter_mut().find(|secondary| secondary.at.server == server)
    }

    /// One has answered, well or not; whether it is (still) of the set. What an older version sent
    /// frees no place: the set was asked anew since.
    pub(crate) fn answered(
        &mut self,
        server: ServerId,
        applied: Option<SerialNumber>,
        of_this_version: bool,
    ) -> bool {
        let Some(secondary) = self.find(server) else { return false };
        secondary.outstanding &= !of_this_version;
        secondary.applied = secondary.applied.max(applied.unwrap_or_default());
        if applied.is_some() {
            secondary.lacks_data = None;
        }
        true
    }

    /// One has not got the data yet that a client pushes to it, by a slower way perhaps than to the
    /// others. Whether it is waited for (F3).
    pub(crate) fn awaits_data(&mut self, cx: &ReplicaContext<'_>, server: ServerId) -> bool {
        let Some(secondary) = self.find(server) else { return false };
        let (since, _) = secondary.lacks_data.unwrap_or((cx.now, cx.now));
        secondary.lacks_data = Some((since, cx.now + ASKED_AGAIN_AFTER));
        cx.now < since + Duration::from_millis(cx.config.silent_ms)
    }

    /// Whether one that lacked pushed data is to be asked again.
    pub(crate) fn is_to_be_asked_again(&self, now: Time) -> bool {
        let due = |it: &SecondaryProgress| it.lacks_data.is_some_and(|(_, again)| again <= now);
        self.all.iter().any(|it| due(it) && !it.outstanding && !it.failed)
    }

    /// One cannot apply, or cannot sync; nothing, if it is not of the set any more.
    pub(crate) fn fail(&mut self, server: ServerId) {
        if let Some(secondary) = self.find(server) {
            secondary.failed = true;
        }
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.all.iter().any(|it| it.failed)
    }

    /// Whether one that has not failed has yet to answer.
    pub(crate) fn is_waited_for(&self) -> bool {
        self.all.iter().any(|it| it.outstanding && !it.failed)
    }

    pub(crate) fn failed(&self) -> Vec<ServerId> {
        self.all.iter().filter(|it| it.failed).map(|it| it.at.server).collect()
    }

    /// The master's word on who is left (R14).
    ///
    /// # Errors
    /// One of them is none of these: it counts, and nothing is forwarded to it.
    pub(crate) fn keep(&mut self, left: &[ReplicaAt]) -> Result<(), &'static str> {
        let is_known = |at: &ReplicaAt| self.all.iter().any(|it| it.at.server == at.server);
        if !left.iter().all(is_known) {
            return Err("the set has a member that the lease does not name");
        }
        self.all.retain(|secondary| left.iter().any(|at| at.server == secondary.at.server));
        for secondary in &mut self.all {
            (secondary.failed, secondary.outstanding) = (false, false);
        }
        Ok(())
    }

    /// Tells each how far readers may go until it has heard (R17); whether the mark is a new one.
    pub(crate) fn tell_acknowledged(
        &mut self,
        cx: &mut ReplicaContext<'_>,
        stored: &StoredReplica,
        lease: LeaseId,
    ) -> bool {
        let mark = stored.acknowledged();
        let notice = Acknowledged {
            handle: stored.handle(),
            version: stored.version(),
            lease,
            acknowledged: mark.length,
            acknowledged_serial: mark.serial,
        };
        let deadline = cx.replica_deadline();
        let lacks = |it: &&mut SecondaryProgress| {
            it.told != mark && it.telling.is_none() && it.tell_at <= cx.now
        };
        for secondary in self.all.iter_mut().filter(lacks) {
            secondary.telling = Some(mark);
            let (to, server) = (secondary.at.address.clone(), secondary.at.server);
            let what = ReplicaCall::Tell { lease, secondary: server };
            let purpose = CallPurpose::Replica(stored.handle(), what);
            cx.out.call(purpose, to, server, notice.clone(), deadline);
        }
        std::mem::replace(&mut self.told, mark) != mark
    }

    /// One has heard the mark that it was told, or has to be told again.
    pub(crate) fn told(&mut self, cx: &ReplicaContext<'_>, server: ServerId, heard: bool) {
        let Some(secondary) = self.find(server) else { return };
        let mark = secondary.telling.take();
        if heard {
            secondary.told = mark.unwrap_or(secondary.told);
        } else {
            secondary.tell_at = cx.now + Duration::from_millis(cx.config.heartbeat_ms);
        }
    }
}

/// As many of `lacking` as one message takes; the first in any case.
fn batch_of_one_message<'l>(
    lacking: impl Iterator<Item = &'l PrimaryMutation>,
) -> Vec<&'l PrimaryMutation> {
    let mut sum_count = 0;
    lacking
        .take(BATCH_COUNT_MAX)
        .take_while(|mutation| {
            let first = sum_count == 0;
            sum_count += mutation.forwarded.checksums.0.len();
            first || sum_count <= FORWARD_SUM_COUNT_MAX
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{FORWARD_SUM_COUNT_MAX, batch_of_one_message};
    use crate::primary_mutation::{MutationKind, PrimaryMutation};
    use cairn_protocol::Forwarded;
    use cairn_types::BlockChecksums;

    #[test]
    fn a_forward_takes_what_fits_into_a_message_and_at_least_one_mutation() {
        let of = |sum_count: usize| PrimaryMutation {
            forwarded: Forwarded {
                checksums: BlockChecksums(vec![0; sum_count]),
                ..Forwarded::default()
            },
            waiting: vec![],
            kind: MutationKind::Append,
            sync: false,
        };
        let counts = |all: &[PrimaryMutation]| batch_of_one_message(all.iter()).len();
        assert_eq!(counts(&[]), 0);
        assert_eq!(counts(&[of(FORWARD_SUM_COUNT_MAX + 1), of(1)]), 1);
        assert_eq!(counts(&[of(1), of(FORWARD_SUM_COUNT_MAX), of(1)]), 1);
        assert_eq!(counts(&[of(1), of(FORWARD_SUM_COUNT_MAX - 2), of(1), of(1)]), 3);
    }
}
