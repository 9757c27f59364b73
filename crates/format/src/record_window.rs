//! Which records a reader has seen: the highest number and one window per producer (R37).
//!
//! - N1: a writer never has numbers further apart than the window on their way, so a number that
//!   has left the window can only be a duplicate.

use crate::record::RecordSource;
use cairn_types::planted::{Rule, broken};
use std::collections::BTreeMap;

/// Numbers that a producer may have unacknowledged at once, and a reader remembers.
pub const RECORD_WINDOW: u64 = 1024;

const WORDS: usize = RECORD_WINDOW as usize / 64;

#[derive(Clone, Debug)]
struct Seen {
    highest: u64,
    /// Bit `number % RECORD_WINDOW` for the numbers of the window that ends at `highest`.
    bits: [u64; WORDS],
}

impl Seen {
    fn bit(number: u64) -> (usize, u64) {
        let place = number % RECORD_WINDOW;
        ((place / 64) as usize, 1 << (place % 64))
    }

    fn advance(&mut self, number: u64) {
        if number - self.highest >= RECORD_WINDOW {
            self.bits = [0; WORDS];
        } else {
            for passed in self.highest + 1..=number {
                let (word, mask) = Self::bit(passed);
                self.bits[word] &= !mask;
            }
        }
        self.highest = number;
    }
}

/// What one reader has seen, of every producer.
#[derive(Clone, Debug, Default)]
pub struct RecordWindow(BTreeMap<RecordSource, Seen>);

impl RecordWindow {
    /// Whether this is the first time that the record is seen; remembers it.
    pub fn first_time(&mut self, producer: RecordSource, number: u64) -> bool {
        if broken(Rule::R37) {
            return true;
        }
        let seen = self.0.entry(producer).or_insert(Seen { highest: number, bits: [0; WORDS] });
        if number > seen.highest {
            seen.advance(number);
        } else if seen.highest - number >= RECORD_WINDOW {
            return false;
        }
        let (word, mask) = Seen::bit(number);
        let first = seen.bits[word] & mask == 0;
        seen.bits[word] |= mask;
        first
    }
}

#[cfg(test)]
mod tests {
    use super::{RECORD_WINDOW, RecordSource, RecordWindow};

    #[test]
    fn each_number_of_a_producer_passes_once_in_any_order_within_the_window() {
        let mut window = RecordWindow::default();
        let (a, b) = (RecordSource::new(1), RecordSource::new(2));
        assert!(window.first_time(a, 5));
        assert!(!window.first_time(a, 5));
        assert!(window.first_time(b, 5), "another producer's numbers are its own");
        assert!(window.first_time(a, 3), "a reader may meet a later number first");
        assert!(window.first_time(a, 5 + RECORD_WINDOW - 1));
        assert!(!window.first_time(a, 5), "still in the window");
        assert!(window.first_time(a, 5 + RECORD_WINDOW), "its place in the ring was another's");
        assert!(!window.first_time(a, 3));
    }

    #[test]
    fn a_jump_forgets_the_whole_window_and_what_lies_behind_it_is_a_duplicate() {
        let mut window = RecordWindow::default();
        let a = RecordSource::new(1);
        assert!(window.first_time(a, 0));
        assert!(window.first_time(a, 10 * RECORD_WINDOW));
        assert!(window.first_time(a, 9 * RECORD_WINDOW + 1));
        assert!(!window.first_time(a, 9 * RECORD_WINDOW));
    }
}
