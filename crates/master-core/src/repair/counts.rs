//! How many chunks ail and from what, for people: read off the indexes, so that it costs the same
//! however many chunks there are.

use super::rests::Rests;
use super::survey::Survey;
use super::under_way::ClonesUnderWay;
use crate::rules::condition::{Condition, Undecided};
use crate::rules::lacking::Urgency;
use crate::rules::members::current;
use crate::rules::placement::CopyTakers;
use crate::view::View;
use cairn_protocol::{ChunkCounts, CopyNeed, WaitReason, WaitingCount};
use cairn_types::{ChunkHandle, ServerId};
use std::collections::BTreeMap;

/// Chunks with bad replicas that are looked at for whose they are; there are seldom more.
const BAD_LOOKED_AT_MAX: usize = 16_384;

/// Chunks that lack replicas that are looked at for who could take one; of more, the rest is taken
/// to be as these are.
const LACKING_LOOKED_AT_MAX: usize = 4096;

/// Chunks that lack replicas, and have one to copy and to join, as many as are looked at.
fn with_source(survey: &Survey) -> impl Iterator<Item = ChunkHandle> {
    let first = (Urgency::first_with_source(), ChunkHandle::default());
    let lacking = survey.index().from(first).take_while(|(it, _)| it.need == CopyNeed::Lack);
    let handles = lacking.take(LACKING_LOOKED_AT_MAX).map(|(_, handle)| handle);
    handles.filter(move |handle| survey.undecided(*handle) != Undecided::LeftToPerson)
}

/// Whether a server could take a copy of one of the chunks that lack some, or is about to be able.
pub(super) fn is_any_startable(view: &View<'_>, survey: &Survey) -> bool {
    let takers = CopyTakers::of(view);
    with_source(survey).any(|it| takers.take(view, it) || survey.surplus().contains(it))
}

/// Copies that are lacking, and chunks without a good replica to copy.
pub(super) fn copies_lacking(survey: &Survey) -> (u64, u64) {
    survey.index().counts().fold((0, 0), |(lacking, lost), (urgency, count)| {
        let each = u64::from(urgency.copies());
        (lacking + each * count, lost + if urgency.good == 0 { count } else { 0 })
    })
}

/// Of the chunks that are on servers to be emptied, and not yet on enough others, whether they lack
/// replicas beside that or not: how many there are, and the highest goal.
pub(super) fn to_be_drained(survey: &Survey) -> (u64, u32) {
    let drained = survey.index().counts().filter(|(urgency, _)| urgency.counts_not_all());
    drained.fold((0, 0), |(all, goal), (urgency, count)| (all + count, goal.max(urgency.goal())))
}

/// Of so many chunks that lack replicas and have one to copy: those that no server could take.
fn without_taker(view: &View<'_>, survey: &Survey, all: u64) -> u64 {
    let (takers, mut looked, mut none) = (CopyTakers::of(view), 0, 0);
    for handle in with_source(survey) {
        looked += 1;
        // A bad one that stands in the way is about to go.
        let is_stuck = !takers.take(view, handle) && !survey.surplus().contains(handle);
        none += u64::from(is_stuck);
    }
    assert!(none <= looked, "of those that were looked at");
    none * all / looked.max(1)
}

/// The counts, as far as the survey has come.
pub(super) fn counts(
    view: &View<'_>,
    survey: &Survey,
    clones: &ClonesUnderWay,
    rests: &Rests,
) -> ChunkCounts {
    let now = view.now.time;
    let mut counts = ChunkCounts { unknown: view.fleet.unknown_count(), ..ChunkCounts::default() };
    let mut no_source = 0;
    let lacking = survey.index().counts().filter(|it| it.0.need == CopyNeed::Lack);
    for (urgency, count) in lacking {
        counts.below_goal += count;
        no_source += if urgency.good == 0 { count } else { 0 };
        counts.one_left += if urgency.good == 1 { count } else { 0 };
    }
    let for_person = |(it, _): &(Condition, u64)| it.undecided == Undecided::LeftToPerson;
    let left_to_person = survey.conditions().counts().filter(for_person).map(|(_, count)| count);
    // A chunk may lack nothing and be left to a person.
    no_source = counts.below_goal.min(no_source + left_to_person.sum::<u64>());
    let no_server = without_taker(view, survey, counts.below_goal - no_source);
    assert!(no_server <= counts.below_goal - no_source, "each waits for one thing");
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
