//! Server numbers: two bytes or less for a server's life, wherever a replica is known.
//!
//! ```text
//!                           ┌─► dies ─► buried ─┐
//!   joins ─► lowest free number ────────────────┴─► joins anew ─► over ─► nothing names it ─► free
//! ```
//! - SN1: a number stands for one life of one server: what was told in a life that is over counts
//!   no more from the moment it is over, wherever it still stands.
//! - SN2: a number is given again only when nothing names it.
//! - SN3: what a buried server held is remembered for people and for what may be kept for them,
//!   and counts for nothing else.

use cairn_types::ServerId;
use std::collections::{BTreeMap, BTreeSet};

/// A server in one of its lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ServerNumber(u16);

impl ServerNumber {
    /// The number as it is stored.
    pub(super) fn get(self) -> u16 {
        self.0
    }

    /// A number that was stored.
    pub(super) fn new(raw: u16) -> Self {
        Self(raw)
    }
}

/// How far a life is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LifeStage {
    Present,
    /// It is dead, and has not come back (SN3).
    Buried,
    Over,
}

#[derive(Debug)]
struct Life {
    server: ServerId,
    stage: LifeStage,
    /// Replicas that stand under this number.
    named: u64,
}

/// All numbers.
#[derive(Debug, Default)]
pub(super) struct ServerNumbers {
    lives: Vec<Life>,
    present: BTreeMap<ServerId, ServerNumber>,
    free: BTreeSet<u16>,
    /// Numbers of lives that are over, and which something still names.
    dead_count: usize,
}

impl ServerNumbers {
    /// The number of a server's present life, a new one where it has none; none where all are
    /// given away.
    pub(super) fn number_of(&mut self, server: ServerId) -> Option<ServerNumber> {
        if let Some(number) = self.present.get(&server) {
            return Some(*number);
        }
        let life = Life { server, stage: LifeStage::Present, named: 0 };
        let number = if let Some(number) = self.free.pop_first() {
            let former = &mut self.lives[usize::from(number)];
            assert_eq!(former.named, 0, "nothing names a free number (SN2)");
            assert_eq!(former.stage, LifeStage::Over, "a free number's life is over (SN2)");
            *former = life;
            number
        } else {
            let number = u16::try_from(self.lives.len()).ok()?;
            self.lives.push(life);
            number
        };
        self.present.insert(server, ServerNumber(number));
        Some(ServerNumber(number))
    }

    /// The number of a server's present life.
    pub(super) fn present(&self, server: ServerId) -> Option<ServerNumber> {
        self.present.get(&server).copied()
    }

    /// The server is dead (SN3).
    pub(super) fn bury(&mut self, server: ServerId) {
        // One that holds nothing has no number.
        if let Some(number) = self.present.get(&server) {
            self.lives[usize::from(number.0)].stage = LifeStage::Buried;
        }
    }

    /// The server's present life is over (SN1).
    pub(super) fn end_life(&mut self, server: ServerId) {
        // Of a server that has told of no replica yet there is nothing to end.
        let Some(number) = self.present.remove(&server) else { return };
        let life = &mut self.lives[usize::from(number.0)];
        assert_ne!(life.stage, LifeStage::Over, "a life ends once (SN1)");
        life.stage = LifeStage::Over;
        if life.named == 0 {
            self.free.insert(number.0);
        } else {
            self.dead_count += 1;
        }
    }

    /// Whose number it is; none where that life is over, or its server buried.
    pub(super) fn server(&self, number: ServerNumber) -> Option<ServerId> {
        self.server_in(LifeStage::Present, number)
    }

    /// Whose number it is, where that server is buried.
    pub(super) fn buried(&self, number: ServerNumber) -> Option<ServerId> {
        self.server_in(LifeStage::Buried, number)
    }

    fn server_in(&self, stage: LifeStage, number: ServerNumber) -> Option<ServerId> {
        let life = &self.lives[usize::from(number.0)];
        (life.stage == stage).then_some(life.server)
    }

    /// Whose number it is, buried or not; none where that life is over.
    pub(super) fn holder(&self, number: ServerNumber) -> Option<ServerId> {
        let life = &self.lives[usize::from(number.0)];
        (life.stage != LifeStage::Over).then_some(life.server)
    }

    /// A replica stands under the number from now on.
    pub(super) fn retain(&mut self, number: ServerNumber) {
        let life = &mut self.lives[usize::from(number.0)];
        assert_ne!(life.stage, LifeStage::Over, "what a life that is over told is void (SN1)");
        life.named += 1;
    }

    /// A replica that stood under the number does so no more.
    pub(super) fn release(&mut self, number: ServerNumber) {
        let life = &mut self.lives[usize::from(number.0)];
        assert!(life.named > 0, "what was retained is released once");
        life.named -= 1;
        if life.stage == LifeStage::Over && life.named == 0 {
            let fresh = self.free.insert(number.0);
            assert!(fresh && self.dead_count > 0, "a number becomes free once (SN2)");
            self.dead_count -= 1;
        }
    }

    /// Whether a number waits to be free.
    pub(super) fn any_dead(&self) -> bool {
        self.dead_count > 0
    }

    /// How many replicas each server holds, or held when it died.
    pub(super) fn counts(&self) -> BTreeMap<ServerId, u64> {
        let named = |number: &ServerNumber| self.lives[usize::from(number.0)].named;
        let counts = self.present.iter().map(|(server, number)| (*server, named(number)));
        counts.filter(|(_, count)| *count > 0).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::{ServerNumber, ServerNumbers};
    use cairn_types::ServerId;

    #[test]
    fn a_number_is_given_again_only_when_nothing_names_it() {
        let mut numbers = ServerNumbers::default();
        let (a, b) = (ServerId::new(9), ServerId::new(4));
        let first = numbers.number_of(a).unwrap();
        assert_eq!(numbers.number_of(a), Some(first));
        assert_eq!(first, ServerNumber::new(0));
        numbers.retain(first);
        numbers.end_life(a);
        assert_eq!((numbers.server(first), numbers.any_dead()), (None, true));
        let second = numbers.number_of(a).unwrap();
        assert_eq!((second.get(), numbers.server(second)), (1, Some(a)));
        numbers.release(first);
        assert!(!numbers.any_dead());
        assert_eq!(numbers.number_of(b), Some(first));
        assert_eq!(numbers.server(first), Some(b));
        numbers.end_life(b);
        assert_eq!(numbers.number_of(b), Some(first), "it named nothing");
    }

    #[test]
    fn there_are_only_so_many_numbers() {
        let mut numbers = ServerNumbers::default();
        for id in 0..=u64::from(u16::MAX) {
            assert!(numbers.number_of(ServerId::new(id)).is_some());
        }
        assert_eq!(numbers.number_of(ServerId::new(1 << 20)), None);
        numbers.end_life(ServerId::new(7));
        assert!(numbers.number_of(ServerId::new(1 << 20)).is_some());
    }
}
