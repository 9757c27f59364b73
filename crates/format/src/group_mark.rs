//! What a member of the group of masters must not forget; docs/formats/group-mark.md.
//!
//! - V1: a vote, or a term that was seen, is durable before anybody hears of it: a member that
//!   forgot it could vote twice in one term, and a term would have two primaries.

use cairn_types::{LogIndex, Members, ServerId, Term};

cairn_types::message! {
    /// Term, vote and membership: the mark of the operation log.
    pub struct GroupMark {
        /// The highest term that this member has taken part in.
        1 => term: Term,
        /// Whom it voted for in that term; zero: nobody.
        2 => vote: ServerId,
        /// Records up to here are committed for certain; more may be.
        3 => committed: LogIndex,
        4 => members: Members,
    }
}

#[cfg(test)]
mod tests {
    use super::GroupMark;
    use cairn_types::Random;
    use cairn_types::sample::{Sample, check_bytes, check_wire};
    use proptest::prelude::{any, proptest};

    proptest! {
        #[test]
        fn a_mark_comes_back_as_it_went_and_no_damage_makes_it_panic(seed: u64) {
            let random = &mut Random::new(seed);
            check_wire(&GroupMark::sample(random), random);
        }

        #[test]
        fn no_bytes_make_it_panic(raw in proptest::collection::vec(any::<u8>(), 0..100)) {
            check_bytes::<GroupMark>(&raw);
        }
    }
}
