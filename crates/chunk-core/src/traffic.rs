//! Bytes that this server has moved since it started, and for whom; heartbeats tell them.
//!
//! - TF1: they only grow: whoever compares two words of one life of a server gets a rate.

use cairn_env::{ChunkDone, ChunkResult};
use cairn_protocol::{Request, TrafficTotals};

/// All of them.
#[derive(Debug, Default)]
pub(crate) struct Traffic {
    totals: TrafficTotals,
}

impl Traffic {
    /// As heartbeats tell them.
    pub(crate) fn totals(&self) -> TrafficTotals {
        self.totals
    }

    /// Somebody asks for a mutation. Sizes are a peer's word.
    pub(crate) fn note_request(&mut self, request: &Request) {
        let totals = &mut self.totals;
        match request {
            Request::Write(write) => add(&mut totals.written, write.size),
            Request::Append(append) => add(&mut totals.written, append.size),
            Request::Extend(extend) => add(&mut totals.written, extend.size),
            Request::Forward(forward) => {
                let sizes = forward.mutations.iter().map(|mutation| mutation.size);
                add(&mut totals.replicated, sizes.fold(0, u64::saturating_add));
            }
            _ => {}
        }
    }

    /// A reader gets bytes.
    pub(crate) fn note_read(&mut self, size: u64) {
        add(&mut self.totals.read, size);
    }

    /// A clone has got bytes of its source.
    pub(crate) fn note_cloned(&mut self, size: u64) {
        add(&mut self.totals.cloned, size);
    }

    /// A part of what is stored, or of a journal, was verified.
    pub(crate) fn note_scrubbed(&mut self, result: &ChunkResult) {
        if let Ok(ChunkDone::Scrubbed { size, .. } | ChunkDone::JournalScrubbed { size, .. }) =
            result
        {
            add(&mut self.totals.scrubbed, *size);
        }
    }
}

fn add(total: &mut u64, size: u64) {
    let before = *total;
    *total = total.saturating_add(size);
    assert!(*total >= before, "it only grows (TF1)");
}

#[cfg(test)]
mod tests {
    use super::Traffic;
    use cairn_protocol::{Append, Extend, Forward, Forwarded, Read, Write};

    #[test]
    fn what_clients_write_is_told_apart_from_what_is_taken_over_and_read() {
        let mut traffic = Traffic::default();
        traffic.note_request(&Write { size: 5, ..Write::default() }.into());
        traffic.note_request(&Append { size: 7, ..Append::default() }.into());
        traffic.note_request(&Extend { size: 3, ..Extend::default() }.into());
        let mutations = vec![Forwarded { size: 9, ..Forwarded::default() }; 2];
        traffic.note_request(&Forward { mutations, ..Forward::default() }.into());
        traffic.note_request(&Read { size: 100, ..Read::default() }.into());
        traffic.note_read(60);
        traffic.note_cloned(u64::MAX);
        traffic.note_cloned(1);
        let totals = traffic.totals();
        assert_eq!((totals.written, totals.replicated, totals.read), (15, 18, 60));
        assert_eq!((totals.cloned, totals.scrubbed), (u64::MAX, 0));
    }
}
