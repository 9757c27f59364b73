//! A record of the log as it is stored.

use bytes::Bytes;
use cairn_types::Term;

cairn_types::message! {
    /// The term in which a record was proposed, and the record; empty where the consensus library
    /// made an entry of its own.
    pub struct StoredRecord { 1 => term: Term, 2 => data: Bytes }
}

#[cfg(test)]
mod tests {
    use super::StoredRecord;
    use bytes::Bytes;
    use cairn_types::Term;
    use cairn_types::wire::Message;

    #[test]
    fn a_stored_record_comes_back_as_it_went_and_no_prefix_of_it_panics() {
        let stored = StoredRecord { term: Term::new(7), data: Bytes::from_static(b"record") };
        let raw = stored.to_bytes();
        assert_eq!(StoredRecord::decode(&raw), Ok(stored));
        for size in 0..raw.len() {
            let _ = StoredRecord::decode(&raw[..size]);
        }
    }
}
