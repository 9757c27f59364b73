//! How many chunks ail and from what, for people: read off the indexes, so that it costs the same
//! however many chunks there are.

use super::rests::Rests;
use super::survey::Survey;
use super::under_way::ClonesUnderWay;
use crate::rules::members::current;
use crate::view::View;
use cairn_protocol::{ChunkCounts, CopyNeed, WaitReason, WaitingCount};
use cairn_types::{ChunkHandle, ServerId};
use std::collections::BTreeMap;

/// Chunks with bad replicas that are looked at for whose they are; there are seldom more.
const BAD_LOOKED_AT_MAX: usize = 16_384;

/// The counts, as far as the survey has come.
pub(super) fn counts(
    view: &View<'_>,
    survey: &Survey,
    clones: &ClonesUnderWay,
    rests: &Rests,
) -> ChunkCounts {
    let now = view.now.time;
    let live = view.fleet.servers().live(now).count() as u64;
    let mut counts = ChunkCounts { unknown: view.fleet.unknown_count(), ..ChunkCounts::default() };
    let (mut no_source, mut no_server) = (0, 0);
    let lacking = survey.index().counts().filter(|it| it.0.need == CopyNeed::Lack);
    for (urgency, count) in lacking {
        counts.below_goal += count;
        match u64::from(urgency.good) {
            0 => no_source += count,
            good if good >= live => no_server += count,
            _ => {}
        }
        counts.one_left += if urgency.good == 1 { count } else { 0 };
    }
    let lacks = |handle: ChunkHandle| {
        survey.index().level_of(handle).is_some_and(|it| it.need == CopyNeed::Lack)
    };
    // Of those that nothing can be copied of, some are levelled first: it is their turn.
    let levelled = survey.conditions().counts().filter(|it| it.0.to_be_levelled);
    no_source -= no_source.min(levelled.map(|(_, count)| count).sum());
    counts.copied = clones.iter().filter(|(handle, _)| lacks(*handle)).count() as u64;
    assert!(counts.copied <= counts.below_goal, "a chunk has one clone at a time");
    let mut left = counts.below_goal - counts.copied;
    // Each is counted once, by what keeps it longest.
    let whys = [
        (WaitReason::NoSource, no_source),
        (WaitReason::NoServer, no_server),
        (WaitReason::Rest, rests.count(now)),
        (WaitReason::Turn, u64::MAX),
    ];
    for (why, most) in whys {
        let count = most.min(left);
        left -= count;
        if count > 0 {
            counts.waiting.push(WaitingCount { why, count });
        }
    }
    for (condition, count) in survey.conditions().counts() {
        let add = |to: &mut u64, holds: bool| *to += if holds { count } else { 0 };
        add(&mut counts.unavailable, condition.unavailable);
        add(&mut counts.damaged, condition.damaged);
        add(&mut counts.suspect, condition.suspect);
        add(&mut counts.stale, condition.stale);
    }
    counts
}

/// Of each server, up-to-date replicas that are damaged or may have lost bytes.
pub(super) fn bad_replicas(view: &View<'_>, survey: &Survey) -> BTreeMap<ServerId, u64> {
    let mut bad = BTreeMap::new();
    let ailing = survey.conditions().from(Default::default());
    let is_bad = |(condition, _): &(crate::rules::condition::Condition, ChunkHandle)| {
        condition.damaged || condition.suspect
    };
    for (_, handle) in ailing.filter(is_bad).take(BAD_LOOKED_AT_MAX) {
        // It may have been purged since it was looked at.
        let Some(chunk) = view.state.chunk(handle) else { continue };
        for (server, replica) in current(view, handle, &chunk) {
            *bad.entry(server).or_default() += u64::from(!replica.is_sound());
        }
    }
    bad
}
