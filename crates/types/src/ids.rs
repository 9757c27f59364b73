//! Ids and counters, one newtype each, so that none is taken for another.
//!
//! Numbers that a master hands out ([`ChunkHandle`], [`ChunkVersion`], [`EntryId`], [`LeaseId`])
//! are `(term, counter)` in one `u64`: two masters never offer the same one (R1).

use crate::wire::{Field, WireError, WireType};
use std::fmt;

/// Bits of a master-made number that count within one term.
const COUNTER_BITS: u32 = 40;

macro_rules! number {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(u64);

        impl $name {
            /// The number as it travels and as it is stored.
            #[must_use]
            pub const fn get(self) -> u64 {
                self.0
            }

            /// A number that came from the wire, a disk or a counter of this very kind.
            #[must_use]
            pub const fn new(raw: u64) -> Self {
                Self(raw)
            }

            /// The number after this one.
            ///
            /// # Panics
            /// When the counter is spent, which takes longer than any disk lives.
            #[must_use]
            pub fn next(self) -> Self {
                Self(self.0.checked_add(1).expect("a 64-bit counter does not run out"))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}", self.0)
            }
        }

        impl Field for $name {
            const PROTO: &'static str = "uint64";
            fn is_default(&self) -> bool {
                self.0 == 0
            }
            fn encode_present(&self, tag: u32, out: &mut Vec<u8>) {
                self.0.encode_present(tag, out);
            }
            fn merge(&mut self, wire: WireType, input: &mut &[u8]) -> Result<(), WireError> {
                self.0.merge(wire, input)
            }
        }

        crate::for_samples! {
            impl crate::sample::Sample for $name {
                fn sample(random: &mut crate::Random) -> Self {
                    Self(crate::sample::Sample::sample(random))
                }
            }
        }
    };
}

macro_rules! master_made {
    ($(#[$doc:meta])* $name:ident) => {
        number! {
            $(#[$doc])*
            /// Written in hexadecimal: the term, a dash, the counter within it.
            $name
        }

        impl $name {
            /// The `counter`-th number of `term` (R1).
            ///
            /// # Panics
            /// When the term or the counter no longer fits its share of the bits.
            #[must_use]
            pub fn of(term: Term, counter: u64) -> Self {
                assert!(counter < 1 << COUNTER_BITS, "a term's counter is spent");
                assert!(term.get() < 1 << (64 - COUNTER_BITS), "terms are spent");
                Self(term.get() << COUNTER_BITS | counter)
            }

            /// The term of the master that made it.
            #[must_use]
            pub const fn term(self) -> Term {
                Term(self.0 >> COUNTER_BITS)
            }

            /// Its place within that term.
            #[must_use]
            pub const fn counter(self) -> u64 {
                self.0 & ((1 << COUNTER_BITS) - 1)
            }

            /// Whether it is the zero that stands for "none yet".
            #[must_use]
            pub const fn is_none(self) -> bool {
                self.0 == 0
            }

            /// Parses what [`short`](Self::short) wrote.
            #[must_use]
            pub fn parse(text: &str) -> Option<Self> {
                let (term, counter) = text.split_once('-')?;
                let term = u64::from_str_radix(term, 16).ok()?;
                let counter = u64::from_str_radix(counter, 16).ok()?;
                (term < 1 << (64 - COUNTER_BITS) && counter < 1 << COUNTER_BITS)
                    .then(|| Self::of(Term(term), counter))
            }

            /// Term and counter in hexadecimal, for people and file names: `3-1f`.
            #[must_use]
            pub fn short(self) -> String {
                format!("{:x}-{:x}", self.term().get(), self.counter())
            }
        }
    };
}

master_made! {
    /// A job that somebody began, and that goes on after a restart of the master.
    JobId
}
master_made! {
    /// The immutable, globally unique 64-bit name of a chunk (GFS §2.3).
    ChunkHandle
}
master_made! {
    /// Raised before each lease grant, and whenever a replica set changes (§4.5). Zero: never.
    ChunkVersion
}
master_made! {
    /// A file's or directory's identity; survives renames and is never used again.
    EntryId
}
master_made! {
    /// One grant of a lease, with all its extensions (§3.1).
    LeaseId
}
master_made! {
    /// A producer of a stream; by its name there is one in a file (R38).
    ProducerId
}
master_made! {
    /// One opening of a producer: the newest one alone may commit (R38).
    Epoch
}
master_made! {
    /// One joining of a chunkserver to a master, with the inventory that follows.
    JoinId
}

number! {
    /// The time in charge of one primary master, counted up; Raft's term.
    Term
}
number! {
    /// A position in the operation log.
    LogIndex
}
number! {
    /// The order of a mutation of one chunk, given by its primary (§3.1). Grows for ever.
    ///
    /// The upper bits count the *lives* of the chunk's unsynced bytes: a new one begins where a
    /// replica that may have lost some becomes what the chunk is (R28). All that was acknowledged
    /// in the present life is there.
    SerialNumber
}

impl Term {
    /// The last that the numbers given out in it have room for.
    pub const LAST: Self = Self((1 << (64 - COUNTER_BITS)) - 1);
}

impl SerialNumber {
    /// Which life of the chunk's unsynced bytes it belongs to.
    #[must_use]
    pub const fn life(self) -> u64 {
        self.0 >> COUNTER_BITS
    }

    /// Whether there is room behind it for all that a chunk may yet come to. What lies higher was
    /// never counted up to: it is a lie, and whoever went on from there would run out of numbers.
    #[must_use]
    pub const fn leaves_room(self) -> bool {
        self.0 < 3 << 62
    }

    /// Whether it lies so far below that limit that no chunk comes from here to there.
    #[must_use]
    pub const fn is_usual(self) -> bool {
        self.0 < 1 << 63
    }

    /// The first number of the next life; the largest there is, where lives are spent.
    #[must_use]
    pub fn next_life(self) -> Self {
        Self((self.life() + 1).saturating_mul(1 << COUNTER_BITS))
    }
}
number! {
    /// Which record of a producer, from 1 without gaps (R38).
    RecordNumber
}
number! {
    /// Which chunk of a file, from 0.
    ChunkIndex
}
number! {
    /// A chunkserver, drawn at random when its data directory is initialised.
    ServerId
}
number! {
    /// One start of a chunkserver; a server id has one live incarnation (R5).
    Incarnation
}
number! {
    /// Names the one master that a term had, drawn when the term begins; zero: not known (R1). A
    /// master that is started from an old copy of its directory begins a term that there was
    /// already, but not its reign.
    ReignId
}
number! {
    /// The place of a mutation or push in its client session, from 1.
    MutationNumber
}

macro_rules! wide {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(u128);

        impl $name {
            /// The 128 bits.
            #[must_use]
            pub const fn get(self) -> u128 {
                self.0
            }

            /// From 128 random or stored bits.
            #[must_use]
            pub const fn new(raw: u128) -> Self {
                Self(raw)
            }

            /// Whether it is the zero that stands for "none yet".
            #[must_use]
            pub const fn is_none(self) -> bool {
                self.0 == 0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:032x}", self.0)
            }
        }

        impl Field for $name {
            const PROTO: &'static str = "bytes";
            fn is_default(&self) -> bool {
                self.0 == 0
            }
            fn encode_present(&self, tag: u32, out: &mut Vec<u8>) {
                crate::wire::encode_slice(tag, &self.0.to_le_bytes(), out);
            }
            fn merge(&mut self, wire: WireType, input: &mut &[u8]) -> Result<(), WireError> {
                let raw = crate::wire::take_slice(wire, input)?;
                self.0 = u128::from_le_bytes(raw.try_into().map_err(|_| WireError::Malformed)?);
                Ok(())
            }
        }

        crate::for_samples! {
            impl crate::sample::Sample for $name {
                fn sample(random: &mut crate::Random) -> Self {
                    Self(crate::sample::Sample::sample(random))
                }
            }
        }
    };
}

wide! {
    /// One cell; a server that belongs to another one is refused.
    CellId
}
wide! {
    /// One life of one client, drawn at random (R15, R24).
    SessionId
}

crate::message! {
    /// The name of pushed data: which client session, and which of its pushes (R15).
    #[derive(Copy, PartialOrd, Ord, Hash)]
    pub struct PushId {
        1 => session: SessionId,
        2 => number: MutationNumber,
    }
}

crate::message! {
    /// The name of a namespace mutation, so that a retry is known for what it is (R24).
    #[derive(Copy, PartialOrd, Ord, Hash)]
    pub struct MutationName {
        1 => session: SessionId,
        2 => number: MutationNumber,
    }
}

#[cfg(test)]
mod tests {
    use super::{ChunkHandle, Term};

    #[test]
    fn a_master_made_number_keeps_its_term_and_counter_apart() {
        let handle = ChunkHandle::of(Term::new(7), 0x1f);
        assert_eq!((handle.term(), handle.counter()), (Term::new(7), 0x1f));
        assert_eq!(handle.short(), "7-1f");
        assert_eq!(ChunkHandle::parse("7-1f"), Some(handle));
        assert_eq!(ChunkHandle::parse("7-"), None);
    }

    #[test]
    fn a_later_term_is_above_every_number_of_an_earlier_one() {
        assert!(ChunkHandle::of(Term::new(2), 0) > ChunkHandle::of(Term::new(1), (1 << 40) - 1));
    }
}
