//! Which replica a person chose to be a chunk's set (R28): soft, and for a while. It is logged with
//! the version of the set that the master makes of it.

use cairn_types::{ChunkHandle, ServerId, Time};
use std::collections::BTreeMap;
use std::time::Duration;

/// How long a choice waits for the set to be made of it; then nobody waits for that any more.
const CHOICE_LASTS: Duration = Duration::from_secs(60);
/// Choices that wait at once; a person makes few.
const CHOICES_MAX: usize = 4096;

/// What a person said of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PersonsWord {
    /// Whose replica it goes on with.
    pub(crate) server: ServerId,
    /// The person named chunk and server: it is so whatever else turns out to be there.
    pub(crate) insists: bool,
}

/// Choices that are not carried out yet.
#[derive(Debug, Default)]
pub(crate) struct ChosenReplicas(BTreeMap<ChunkHandle, (PersonsWord, Time)>);

impl ChosenReplicas {
    /// A person chose; none where too many choices wait.
    pub(super) fn choose(
        &mut self,
        now: Time,
        handle: ChunkHandle,
        word: PersonsWord,
    ) -> Option<()> {
        self.0.retain(|_, (_, until)| now < *until);
        if self.0.len() >= CHOICES_MAX && !self.0.contains_key(&handle) {
            return None;
        }
        self.0.insert(handle, (word, now + CHOICE_LASTS));
        Some(())
    }

    /// Whose replica is to be the set.
    pub(super) fn get(&self, now: Time, handle: ChunkHandle) -> Option<PersonsWord> {
        self.0.get(&handle).filter(|(_, until)| now < *until).map(|(word, _)| *word)
    }

    /// A set is logged, of what was chosen or of others.
    pub(super) fn carried_out(&mut self, handle: ChunkHandle) {
        self.0.remove(&handle);
    }
}

#[cfg(test)]
mod tests {
    use super::{CHOICE_LASTS, CHOICES_MAX, ChosenReplicas, PersonsWord};
    use cairn_types::{ChunkHandle, ServerId, Time};

    #[test]
    fn a_choice_waits_for_a_while_and_only_so_many_do() {
        let mut chosen = ChosenReplicas::default();
        let of = |id| PersonsWord { server: ServerId::new(id), insists: false };
        let (now, word) = (Time::default(), of(3));
        let handles = || (1..=CHOICES_MAX as u64).map(ChunkHandle::new);
        assert!(handles().all(|handle| chosen.choose(now, handle, word).is_some()));
        let other = ChunkHandle::new(1 << 40);
        assert_eq!(chosen.choose(now, other, word), None);
        assert_eq!(chosen.choose(now, ChunkHandle::new(1), of(4)), Some(()));
        assert_eq!(chosen.get(now, ChunkHandle::new(1)), Some(of(4)));
        chosen.carried_out(ChunkHandle::new(1));
        assert_eq!(chosen.get(now, ChunkHandle::new(1)), None);
        let later = now + CHOICE_LASTS;
        assert_eq!(chosen.get(later, ChunkHandle::new(2)), None);
        assert_eq!(chosen.choose(later, other, word), Some(()));
    }
}
