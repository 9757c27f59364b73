//! Outcomes of namespace mutations, so that a retry is answered and not done again (R24).
//!
//! ```text
//!   kept     (session, number / 16) → block: its outcomes, each with its number and log time,
//!                                     in the order in which they came
//!   by_time  (log time, session, number / 16)      floors          session → floor, when raised
//!                                                  floors_by_time  (log time, session)
//! ```
//! A client counts without gaps, so a block is one write to each of its outcomes and is found,
//! expires and goes as one.
//!
//! - RO1: what is forgotten, and when, follows from the log alone, so that every replay forgets the
//!   same; and a number at or below its session's floor that is not kept is refused, never done
//!   again. No floor is below a forgotten number.
//! - RO2: memory is bounded however fast clients go: at most [`OUTCOME_COUNT_MAX`] outcomes, of one
//!   session in the [`SESSION_BLOCK_SPAN`] blocks up to its highest, and at most
//!   [`FLOOR_COUNT_MAX`] floors. What comes first goes first, then sooner than `retry_window_ms`:
//!   at ten thousand mutations a second after 26 s, and after 1.6 s if all are of one session.
//! - RO3: each block stands in `by_time` at its first outcome's time or later, never later than its
//!   last one's; what stands there may be gone. It is filed anew only when its time has come. With
//!   floors it is the same.

use super::map::{DamageMark, Map};
use super::packing::{Packed, put_near, put_number};
use crate::applied::Applied;
use cairn_protocol::SESSION_MUTATIONS_MAX;
use cairn_types::wire::Message;
use cairn_types::{MutationName, MutationNumber, SessionId};
use std::time::Duration;

/// Numbers of a block. More would make larger values to be written anew at each outcome.
pub(super) const BLOCK_NUMBERS: u64 = 16;
/// A floor is known for so many retry windows after it was raised. No packet is on its way for a
/// day.
const FLOOR_WINDOWS: u32 = 144;

/// Halvings of the counts below, for this crate's own tests: to fill them must not take minutes.
const FEWER: u32 = if cfg!(test) { 4 } else { 0 };
/// Outcomes that are remembered in all.
const OUTCOME_COUNT_MAX: u64 = 1 << (18 - FEWER);
/// Blocks that are remembered of one session: twice what it may have on its way.
pub(super) const SESSION_BLOCK_SPAN: u64 = 1 << (10 - FEWER);
/// Floors that are remembered.
const FLOOR_COUNT_MAX: u64 = 1 << (19 - FEWER);
const _: () = assert!((SESSION_BLOCK_SPAN << FEWER) * BLOCK_NUMBERS >= 2 * SESSION_MUTATIONS_MAX);
// One session does not cost the others what they have.
const _: () = assert!(SESSION_BLOCK_SPAN * BLOCK_NUMBERS <= OUTCOME_COUNT_MAX);

/// Bytes of a remembered failure's line; the first answer has the whole.
const FAILURE_LINE_SIZE_MAX: usize = 256;

/// What is known of a mutation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Remembered {
    /// Never heard of.
    New,
    /// It is in the log already; this came of it.
    Done(Applied),
    /// Older than what is remembered: it may or may not have been done.
    TooOld,
}

/// Numbers of a session up to this one are forgotten or were never heard of, and are refused.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct SessionFloor {
    number: MutationNumber,
    raised: Duration,
}

impl SessionFloor {
    fn pack(self) -> Vec<u8> {
        let mut out = Vec::with_capacity(20);
        put_number(&mut out, self.number.get());
        put_number(&mut out, millis(self.raised));
        out
    }

    fn unpack(packed: &[u8]) -> Option<Self> {
        let mut packed = Packed(packed);
        let number = MutationNumber::new(packed.number()?);
        let raised = Duration::from_millis(packed.number()?);
        packed.end(Self { number, raised })
    }
}

/// Which block of which session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct BlockName {
    session: SessionId,
    index: u64,
}

/// What is to be known of a block that may go.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct BlockSum {
    count: u64,
    highest: MutationNumber,
    /// The last outcome's time.
    last: Duration,
}

/// All that is remembered.
#[derive(Clone, Debug)]
pub(super) struct Outcomes {
    kept: Map,
    by_time: Map,
    floors: Map,
    floors_by_time: Map,
    /// Outcomes in `kept`.
    count: u64,
    /// With this window nothing is to be forgotten up to this log time: so that the trees need not
    /// be asked at each record.
    quiet: Option<(Duration, Duration)>,
}

impl PartialEq for Outcomes {
    fn eq(&self, other: &Self) -> bool {
        self.maps() == other.maps() && self.count == other.count
    }
}

impl Outcomes {
    pub(super) fn new(mark: &DamageMark) -> Self {
        Self::of([(); 4].map(|()| Map::new(mark)), 0)
    }

    /// From what an image has.
    pub(super) fn of([kept, by_time, floors, floors_by_time]: [Map; 4], count: u64) -> Self {
        Self { kept, by_time, floors, floors_by_time, count, quiet: None }
    }

    pub(super) fn maps(&self) -> [&Map; 4] {
        [&self.kept, &self.by_time, &self.floors, &self.floors_by_time]
    }

    pub(super) fn maps_mut(&mut self) -> [&mut Map; 4] {
        [&mut self.kept, &mut self.by_time, &mut self.floors, &mut self.floors_by_time]
    }

    /// How many are remembered.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    pub(super) fn get(&self, mutation: MutationName) -> Remembered {
        let MutationName { session, number } = mutation;
        let find = |packed| find_in_block(packed, number);
        if let Some(Some(outcome)) = self.kept.get(&block_key(block_of(mutation)), find) {
            return Remembered::Done(outcome);
        }
        match self.floors.get(&session_key(session), SessionFloor::unpack) {
            Some(floor) if number <= floor.number => Remembered::TooOld,
            _ => Remembered::New,
        }
    }

    /// Keeps the outcome of a new mutation (RO2).
    pub(super) fn keep(&mut self, time: Duration, mutation: MutationName, outcome: Applied) {
        let name = block_of(mutation);
        let key = block_key(name);
        let mut block = self.kept.get(&key, |packed| Some(packed.to_vec())).unwrap_or_default();
        if block.is_empty() {
            self.by_time.set(&time_key(time, name), &[]);
            self.forget_beyond_span(time, name);
        }
        push_to_block(&mut block, mutation.number, time, outcome);
        self.kept.set(&key, &block);
        self.count += 1;
        while (self.count > OUTCOME_COUNT_MAX || self.by_time.len() > OUTCOME_COUNT_MAX)
            && self.forget_oldest(time, |_| true)
        {}
        while self.floors_by_time.len() > FLOOR_COUNT_MAX && self.forget_floor(|_| true) {}
    }

    /// A new block costs its session all that lie a whole span below it; what is as low is refused
    /// from now on, heard of or not, so that blocks cannot come to be there again.
    fn forget_beyond_span(&mut self, now: Duration, new: BlockName) {
        let Some(beyond) = new.index.checked_sub(SESSION_BLOCK_SPAN) else { return };
        loop {
            let lowest = self.kept.walk(&session_key(new.session)).unpack(|key, packed| {
                let name = unpack_block(&mut Packed(key))?;
                let goes = name.session == new.session && name.index <= beyond;
                Some(if goes { Some((name, sum_of_block(packed, name)?)) } else { None })
            });
            let Some((name, sum)) = lowest else { break };
            let left = self.kept.len();
            self.remove_block(name, sum);
            // What cannot be taken out is damaged, and was noted.
            if self.kept.len() == left {
                break;
            }
        }
        let last = (beyond + 1) * BLOCK_NUMBERS - 1;
        self.raise_floor(now, new.session, MutationNumber::new(last));
    }

    /// Forgets what is older than `window` before `now`, which is log time.
    pub(super) fn forget(&mut self, now: Duration, window: Duration) {
        if self.quiet.is_some_and(|(of, until)| of == window && now <= until) {
            return;
        }
        // What comes later expires later.
        let mut until = now.saturating_add(window);
        while let Some((filed, _)) = self.by_time.first(unpack_time) {
            let expires = filed.saturating_add(window);
            if now <= expires {
                until = until.min(expires);
                break;
            }
            if !self.forget_oldest(now, |last| now <= last.saturating_add(window)) {
                return;
            }
        }
        let floor_kept = window.saturating_mul(FLOOR_WINDOWS);
        while let Some((filed, _)) = self.floors_by_time.first(unpack_floor_time) {
            let expires = filed.saturating_add(floor_kept);
            if now <= expires {
                until = until.min(expires);
                break;
            }
            if !self.forget_floor(|raised| now <= raised.saturating_add(floor_kept)) {
                return;
            }
        }
        self.quiet = Some((window, until));
    }

    /// Forgets the block that stands first in time, or files it anew where its last outcome is
    /// younger, and `wanted` (RO3). False where nothing could be done: a damage, which was noted.
    fn forget_oldest(&mut self, now: Duration, wanted: impl Fn(Duration) -> bool) -> bool {
        let Some((filed, name)) = self.by_time.first(unpack_time) else { return false };
        let left = self.by_time.len();
        self.by_time.remove(&time_key(filed, name));
        if self.by_time.len() == left {
            return false;
        }
        let sum = self.kept.get(&block_key(name), |packed| sum_of_block(packed, name));
        match sum {
            None => {}
            Some(BlockSum { last, .. }) if last > filed && wanted(last) => {
                self.by_time.set(&time_key(last, name), &[]);
            }
            Some(sum) => self.forget_block(now, name, sum),
        }
        true
    }

    /// Forgets a block: its numbers, and all below, are refused from now on.
    fn forget_block(&mut self, now: Duration, name: BlockName, sum: BlockSum) {
        self.remove_block(name, sum);
        self.raise_floor(now, name.session, sum.highest);
    }

    fn remove_block(&mut self, name: BlockName, sum: BlockSum) {
        assert!(sum.count <= BLOCK_NUMBERS, "a block holds so many outcomes");
        self.kept.remove(&block_key(name));
        self.count = self.count.saturating_sub(sum.count);
    }

    /// Numbers of a session up to this one are refused from now on.
    fn raise_floor(&mut self, now: Duration, session: SessionId, number: MutationNumber) {
        let key = session_key(session);
        let before = self.floors.get(&key, SessionFloor::unpack);
        if before.is_none() {
            self.floors_by_time.set(&floor_time_key(now, session), &[]);
        }
        let number = before.unwrap_or_default().number.max(number);
        self.floors.set(&key, &SessionFloor { number, raised: now }.pack());
    }

    /// Forgets the floor that was raised longest ago, if it is `wanted`; whether there was one.
    fn forget_floor(&mut self, wanted: impl Fn(Duration) -> bool) -> bool {
        let first = self.floors_by_time.first(unpack_floor_time);
        let Some((filed, session)) = first else { return false };
        let left = self.floors_by_time.len();
        self.floors_by_time.remove(&floor_time_key(filed, session));
        if self.floors_by_time.len() == left {
            return false;
        }
        match self.floors.get(&session_key(session), SessionFloor::unpack) {
            Some(SessionFloor { raised, .. }) if raised > filed && wanted(raised) => {
                self.floors_by_time.set(&floor_time_key(raised, session), &[]);
            }
            _ => self.floors.remove(&session_key(session)),
        }
        true
    }
}

/// Log time as it is packed; it is made of whole milliseconds.
fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn block_of(mutation: MutationName) -> BlockName {
    let index = mutation.number.get() / BLOCK_NUMBERS;
    BlockName { session: mutation.session, index }
}

fn session_key(id: SessionId) -> [u8; 16] {
    id.get().to_be_bytes()
}

fn block_key(name: BlockName) -> [u8; 24] {
    let mut key = [0; 24];
    key[..16].copy_from_slice(&session_key(name.session));
    key[16..].copy_from_slice(&name.index.to_be_bytes());
    key
}

fn time_key(time: Duration, name: BlockName) -> [u8; 32] {
    let mut key = [0; 32];
    key[..8].copy_from_slice(&millis(time).to_be_bytes());
    key[8..].copy_from_slice(&block_key(name));
    key
}

fn floor_time_key(time: Duration, session: SessionId) -> [u8; 24] {
    let mut key = [0; 24];
    key[..8].copy_from_slice(&millis(time).to_be_bytes());
    key[8..].copy_from_slice(&session_key(session));
    key
}

fn unpack_block(key: &mut Packed<'_>) -> Option<BlockName> {
    let session = SessionId::new(key.wide_key()?);
    Some(BlockName { session, index: key.key()? })
}

fn unpack_time(key: &[u8]) -> Option<(Duration, BlockName)> {
    let mut key = Packed(key);
    let time = Duration::from_millis(key.key()?);
    let name = unpack_block(&mut key)?;
    key.end((time, name))
}

fn unpack_floor_time(key: &[u8]) -> Option<(Duration, SessionId)> {
    let mut key = Packed(key);
    let time = Duration::from_millis(key.key()?);
    let session = SessionId::new(key.wide_key()?);
    key.end((time, session))
}

/// The outcomes of a block: low bits of the number, time in ms, the outcome's bytes.
struct Block<'a> {
    left: Packed<'a>,
    time: u64,
}

impl<'a> Block<'a> {
    fn new(packed: &'a [u8]) -> Self {
        Self { left: Packed(packed), time: 0 }
    }

    /// The next one. The inner nothing at the end, the outer where the bytes are no block.
    fn next(&mut self) -> Option<Option<(u8, u64, &'a [u8])>> {
        if self.left.0.is_empty() {
            return Some(None);
        }
        let low = self.left.byte().filter(|low| u64::from(*low) < BLOCK_NUMBERS)?;
        self.time = self.left.near(self.time)?;
        let size = usize::try_from(self.left.number()?).ok()?;
        let (outcome, rest) = self.left.0.split_at_checked(size)?;
        self.left.0 = rest;
        Some(Some((low, self.time, outcome)))
    }
}

/// The outcome of `number` in its block.
fn find_in_block(packed: &[u8], number: MutationNumber) -> Option<Option<Applied>> {
    let mut block = Block::new(packed);
    while let Some((low, _, outcome)) = block.next()? {
        if u64::from(low) == number.get() % BLOCK_NUMBERS {
            return Some(Some(Applied::decode(outcome).ok()?));
        }
    }
    Some(None)
}

fn sum_of_block(packed: &[u8], name: BlockName) -> Option<BlockSum> {
    let mut sum = BlockSum::default();
    let mut block = Block::new(packed);
    while let Some((low, time, _)) = block.next()? {
        let number = name.index.checked_mul(BLOCK_NUMBERS)?.checked_add(low.into())?;
        sum.highest = sum.highest.max(MutationNumber::new(number));
        sum.last = Duration::from_millis(time);
        sum.count += 1;
    }
    Some(sum)
}

fn push_to_block(block: &mut Vec<u8>, number: MutationNumber, time: Duration, outcome: Applied) {
    // What cannot be read is damage, and was noted.
    let last = sum_of_block(block, BlockName::default()).unwrap_or_default().last;
    let low = number.get() % BLOCK_NUMBERS;
    put_number(block, low);
    put_near(block, millis(time), millis(last));
    let outcome = short(outcome).to_bytes();
    put_number(block, outcome.len() as u64);
    block.extend_from_slice(&outcome);
}

/// An outcome as it is remembered (RO2).
fn short(mut outcome: Applied) -> Applied {
    if let Applied::Failed(failure) = &mut outcome {
        failure.shorten(FAILURE_LINE_SIZE_MAX);
        failure.message.shrink_to_fit();
    }
    outcome
}

#[cfg(test)]
mod tests {
    use super::{
        BLOCK_NUMBERS, DamageMark, FLOOR_COUNT_MAX, OUTCOME_COUNT_MAX, Outcomes, Remembered,
        SESSION_BLOCK_SPAN, find_in_block, sum_of_block,
    };
    use crate::applied::{Applied, Changed, FileMade};
    use cairn_types::{EntryId, MutationName, MutationNumber, SessionId};
    use proptest::prelude::{any, prop_oneof, proptest};
    use std::collections::BTreeMap;
    use std::time::Duration;

    fn empty() -> Outcomes {
        Outcomes::new(&DamageMark::default())
    }

    fn name(number: u64) -> MutationName {
        MutationName { session: SessionId::new(7), number: MutationNumber::new(number) }
    }

    fn at(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn changed() -> Applied {
        Applied::Changed(Changed::default())
    }

    #[test]
    fn an_outcome_is_kept_for_the_window_and_its_number_refused_after_it() {
        let mut outcomes = empty();
        outcomes.keep(at(1000), name(1), changed());
        outcomes.keep(at(1500), name(BLOCK_NUMBERS), changed());
        outcomes.forget(at(1100), at(100));
        assert_eq!(outcomes.get(name(1)), Remembered::Done(changed()));
        outcomes.forget(at(1101), at(100));
        assert_eq!(outcomes.get(name(1)), Remembered::TooOld);
        assert_eq!(outcomes.get(name(BLOCK_NUMBERS)), Remembered::Done(changed()));
        assert_eq!(outcomes.get(name(BLOCK_NUMBERS + 1)), Remembered::New);
    }

    #[test]
    fn a_block_goes_when_its_last_outcome_may_and_the_rest_of_its_numbers_can_still_come() {
        let mut outcomes = empty();
        outcomes.keep(at(0), name(1), changed());
        outcomes.keep(at(90), name(3), changed());
        outcomes.forget(at(150), at(100));
        assert_eq!(outcomes.get(name(1)), Remembered::Done(changed()), "filed anew");
        outcomes.forget(at(191), at(100));
        assert_eq!([1, 2, 3].map(|n| outcomes.get(name(n))), [const { Remembered::TooOld }; 3]);
        assert_eq!((outcomes.count(), outcomes.by_time.len()), (0, 0));
        assert_eq!(outcomes.get(name(4)), Remembered::New);
        outcomes.keep(at(200), name(4), changed());
        assert_eq!(outcomes.get(name(4)), Remembered::Done(changed()));
        assert_eq!(outcomes.get(name(3)), Remembered::TooOld);
    }

    #[test]
    fn a_session_that_is_long_silent_is_forgotten_whole() {
        let mut outcomes = empty();
        outcomes.keep(at(0), name(5), changed());
        outcomes.forget(at(200), at(100));
        assert_eq!(outcomes.get(name(5)), Remembered::TooOld);
        outcomes.forget(at(100_000), at(100));
        assert_eq!(outcomes.get(name(5)), Remembered::New);
        assert_eq!(outcomes, empty());
    }

    #[test]
    fn however_fast_clients_go_the_oldest_are_forgotten_and_refused() {
        let mut outcomes = empty();
        let span = SESSION_BLOCK_SPAN * BLOCK_NUMBERS;
        for number in 1..=2 * span {
            outcomes.keep(at(number / 1000), name(number), changed());
        }
        assert_eq!(outcomes.count(), span - BLOCK_NUMBERS + 1);
        assert_eq!(outcomes.kept.len(), SESSION_BLOCK_SPAN);
        let first = span + BLOCK_NUMBERS;
        assert_eq!(outcomes.get(name(first - 1)), Remembered::TooOld);
        assert_eq!(outcomes.get(name(first)), Remembered::Done(changed()));

        let mut outcomes = empty();
        let of = |session: u64| MutationName { session: SessionId::new(session.into()), ..name(1) };
        let count = 4 * OUTCOME_COUNT_MAX;
        for session in 1..=count {
            outcomes.keep(at(session), of(session), changed());
        }
        assert_eq!([outcomes.count(), outcomes.by_time.len()], [OUTCOME_COUNT_MAX; 2]);
        let floors = [&outcomes.floors, &outcomes.floors_by_time].map(super::Map::len);
        assert_eq!(floors, [FLOOR_COUNT_MAX; 2]);
        let oldest = count - OUTCOME_COUNT_MAX;
        assert_eq!(outcomes.get(of(oldest)), Remembered::TooOld);
        assert_eq!(outcomes.get(of(oldest + 1)), Remembered::Done(changed()));
    }

    #[test]
    fn a_session_of_leaping_numbers_has_no_more_blocks_than_others() {
        let mut outcomes = empty();
        let span = SESSION_BLOCK_SPAN * BLOCK_NUMBERS;
        // Full spans at places that come down, and up, and down again.
        for place in [5, 3, 1, 9, 8, 7, 20, 10] {
            for number in (place * span..(place + 1) * span).step_by(3) {
                if outcomes.get(name(number)) == Remembered::New {
                    outcomes.keep(at(number), name(number), changed());
                }
                assert!(outcomes.kept.len() <= SESSION_BLOCK_SPAN);
            }
        }
        assert_eq!(outcomes.get(name(20 * span)), Remembered::Done(changed()));
        assert_eq!(outcomes.get(name(10 * span)), Remembered::TooOld);
        // What stands in time and is gone is passed over.
        outcomes.forget(at(1 << 40), at(100));
        assert_eq!([outcomes.count(), outcomes.by_time.len()], [0; 2]);
    }

    #[test]
    fn a_floor_that_is_raised_again_is_not_forgotten_by_its_former_age() {
        let mut outcomes = empty();
        outcomes.keep(at(0), name(5), changed());
        outcomes.forget(at(200), at(100));
        outcomes.keep(at(14_000), name(6), changed());
        outcomes.forget(at(14_700), at(100));
        assert_eq!(outcomes.get(name(6)), Remembered::TooOld);
        outcomes.keep(at(14_700), name(7), changed());
        assert_eq!(outcomes.floors_by_time.len(), 1);
    }

    proptest! {
        /// Within the window an outcome is what it was; none that was kept is ever new again.
        #[test]
        fn nothing_is_forgotten_too_soon_and_nothing_is_new_twice(
            steps in proptest::collection::vec(
                (0..3u64, prop_oneof![1..40u64, 1..600u64], prop_oneof![0..20u64, 0..400u64]),
                1..300,
            ),
        ) {
            const WINDOW: u64 = 300;
            let (mut outcomes, mut now) = (empty(), 0);
            let mut done: BTreeMap<MutationName, (u64, Applied)> = BTreeMap::new();
            for (session, number, passed) in steps {
                now += passed;
                outcomes.forget(at(now), at(WINDOW));
                let mutation =
                    MutationName { session: SessionId::new(session.into()), ..name(number) };
                match (outcomes.get(mutation), done.get(&mutation)) {
                    (Remembered::New, None) => {
                        let made = FileMade { id: EntryId::new(now), created: number % 2 == 0 };
                        let outcome = Applied::FileMade(made);
                        outcomes.keep(at(now), mutation, outcome.clone());
                        done.insert(mutation, (now, outcome));
                    }
                    (Remembered::New, Some(_)) => panic!("{mutation:?} is new again"),
                    (Remembered::Done(outcome), was) => {
                        assert_eq!(Some(&outcome), was.map(|(_, outcome)| outcome));
                    }
                    (Remembered::TooOld, Some((then, _))) => assert!(now > then + WINDOW),
                    // Never seen, and below a number that was forgotten.
                    (Remembered::TooOld, None) => assert!(
                        done.iter().any(|(other, (then, _))| other.session == mutation.session
                            && other.number > mutation.number
                            && now > then + WINDOW)
                    ),
                }
            }
            let kept: u64 = done.keys().filter(|name| {
                matches!(outcomes.get(**name), Remembered::Done(_))
            }).map(|_| 1).sum();
            assert_eq!(outcomes.count(), kept);
        }

        #[test]
        fn no_bytes_make_a_block_panic(
            raw in proptest::collection::vec(any::<u8>(), 0..60), index: u64,
        ) {
            let name = super::BlockName { index, ..Default::default() };
            let _ = (sum_of_block(&raw, name), find_in_block(&raw, MutationNumber::new(index)));
        }
    }
}
