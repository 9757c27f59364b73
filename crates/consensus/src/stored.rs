//! A record of the log as it is stored.

use bytes::Bytes;
use cairn_types::{MembersChange, Term};

cairn_types::message! {
    /// The term in which a record was proposed, and the record; empty where the consensus library
    /// made an entry of its own, and where the members change.
    pub struct StoredRecord {
        1 => term: Term,
        2 => data: Bytes,
        3 => change: Option<MembersChange>,
    }
}

#[cfg(test)]
mod tests {
    use super::StoredRecord;
    use cairn_types::Random;
    use cairn_types::sample::{Sample, check_bytes, check_wire};
    use proptest::prelude::{any, proptest};

    proptest! {
        #[test]
        fn a_stored_record_comes_back_as_it_went_and_no_damage_makes_it_panic(seed: u64) {
            let random = &mut Random::new(seed);
            check_wire(&StoredRecord::sample(random), random);
        }

        #[test]
        fn no_bytes_make_it_panic(raw in proptest::collection::vec(any::<u8>(), 0..100)) {
            check_bytes::<StoredRecord>(&raw);
        }
    }
}
