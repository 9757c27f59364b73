//! Where a server is: address, rack, and both together with its id.

use crate::ServerId;
use crate::text::Text;
use crate::wire::{Field, WireError, WireType, encode_slice, take_slice};
use std::fmt;

macro_rules! text {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Text);

        impl $name {
            /// Takes the text as it is.
            #[must_use]
            pub fn new(text: impl AsRef<str>) -> Self {
                Self(Text::new(text.as_ref()))
            }

            /// The text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                self.0.as_str()
            }

            /// Bytes of the text.
            #[must_use]
            pub fn size(&self) -> usize {
                self.0.as_bytes().len()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl Field for $name {
            const PROTO: &'static str = "string";
            fn is_default(&self) -> bool {
                self.0.as_bytes().is_empty()
            }
            fn encode_present(&self, tag: u32, out: &mut Vec<u8>) {
                encode_slice(tag, self.0.as_bytes(), out);
            }
            fn merge(&mut self, wire: WireType, input: &mut &[u8]) -> Result<(), WireError> {
                self.0 = Text::read(take_slice(wire, input)?).ok_or(WireError::Malformed)?;
                Ok(())
            }
        }
    };
}

text! {
    /// `host:port` of a server, as others reach it.
    Address
}
text! {
    /// A rack path such as `/dc1/r7`; servers that share a prefix are near each other.
    Rack
}

impl Rack {
    /// Steps between two racks: parts of the paths that they do not share.
    #[must_use]
    pub fn distance(&self, other: &Self) -> usize {
        // The usual case, of a cell that has one rack: several times for each push of data.
        if self == other {
            return 0;
        }
        let shared = self.parts().zip(other.parts()).take_while(|(a, b)| a == b).count();
        self.parts().count() + other.parts().count() - 2 * shared
    }

    fn parts(&self) -> impl Iterator<Item = &str> {
        self.as_str().split('/').filter(|part| !part.is_empty())
    }
}

crate::message! {
    /// One server that holds, or shall hold, a replica, and where it is.
    pub struct ReplicaAt {
        1 => server: ServerId,
        2 => address: Address,
        3 => rack: Rack,
    }
}

crate::for_samples! {
    impl crate::sample::Sample for Address {
        fn sample(random: &mut crate::Random) -> Self {
            Self::new(<String as crate::sample::Sample>::sample(random))
        }
    }

    impl crate::sample::Sample for Rack {
        fn sample(random: &mut crate::Random) -> Self {
            Self::new(<String as crate::sample::Sample>::sample(random))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Rack;

    #[test]
    fn distance_counts_the_parts_not_shared() {
        let rack = Rack::new;
        assert_eq!(rack("/dc1/r7").distance(&rack("/dc1/r7")), 0);
        assert_eq!(rack("/dc1/r7").distance(&rack("/dc1/r8")), 2);
        assert_eq!(rack("/dc1/r7").distance(&rack("/dc2/r7")), 4);
        assert_eq!(rack("").distance(&rack("/dc2/r7")), 2);
    }
}
