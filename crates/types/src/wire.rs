//! How a value is written: protobuf on the wire, typed structs in the code.
//!
//! ```text
//!   message! { struct Grant { 1 => chunk: ChunkHandle, .. } }   one source
//!        ├── encode / decode      protobuf's own primitives (prost::encoding)
//!        └── proto_text           the .proto that another language compiles (docs/formats)
//! ```
//! Generated prost structs carry naked integers and would need a second set of types and a
//! conversion for each message; here the newtypes themselves know their encoding.
//!
//! - W1: a field that holds its default is not written; an unknown field is skipped.
//! - W2: decoding never panics, and takes no more memory than a few times the input's: a list of
//!   nothings, of two bytes each on the wire, ends at [`REPEATED_COUNT_MAX`].

mod tokens;

use bytes::Bytes;

pub use prost::encoding::WireType;
pub use tokens::{encode_nested, encode_slice, next_key, skip, take_slice, take_text};
pub(crate) use tokens::{put_key, take_varint};

/// Elements that one list of a message may have.
pub const REPEATED_COUNT_MAX: usize = 1 << 17;

/// Why bytes are not the message they should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// Cut short, a wrong wire type, a number out of range, text that is not UTF-8.
    #[error("malformed message")]
    Malformed,
}

impl From<prost::DecodeError> for WireError {
    fn from(_: prost::DecodeError) -> Self {
        Self::Malformed
    }
}

/// A value that can stand as a field of a message.
pub trait Field: Default {
    /// Its type in a `.proto` file.
    const PROTO: &'static str;
    /// Whether it is what an absent field decodes to.
    fn is_default(&self) -> bool;
    /// Writes key and value, default or not.
    fn encode_present(&self, tag: u32, out: &mut Vec<u8>);
    /// Reads one occurrence of the field.
    ///
    /// # Errors
    /// [`WireError`] when the bytes are not such a value.
    fn merge(&mut self, wire: WireType, input: &mut &[u8]) -> Result<(), WireError>;

    /// The value of one occurrence, alone.
    ///
    /// # Errors
    /// The same.
    fn take(wire: WireType, input: &mut &[u8]) -> Result<Self, WireError> {
        let mut value = Self::default();
        value.merge(wire, input)?;
        Ok(value)
    }
}

/// A whole message.
pub trait Message: Sized {
    /// Appends the encoding.
    fn encode(&self, out: &mut Vec<u8>);
    /// Reads a message that fills `input`.
    ///
    /// # Errors
    /// [`WireError`] when the bytes are not such a message.
    fn decode(input: &[u8]) -> Result<Self, WireError>;
    /// Its definition in a `.proto` file.
    fn proto_text() -> String;

    /// The encoding on its own.
    #[must_use]
    fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.encode(&mut out);
        out
    }
}

macro_rules! varint_field {
    ($type:ty, $proto:literal) => {
        impl Field for $type {
            const PROTO: &'static str = $proto;
            fn is_default(&self) -> bool {
                *self == <$type>::default()
            }
            fn encode_present(&self, tag: u32, out: &mut Vec<u8>) {
                put_key(tag, WireType::Varint, out);
                crate::varint::put(out, u64::from(*self));
            }
            fn merge(&mut self, wire: WireType, input: &mut &[u8]) -> Result<(), WireError> {
                *self = take_varint(wire, input)?.try_into().map_err(|_| WireError::Malformed)?;
                Ok(())
            }
        }
    };
}

varint_field!(u64, "uint64");
varint_field!(u32, "uint32");

impl Field for bool {
    const PROTO: &'static str = "bool";
    fn is_default(&self) -> bool {
        !*self
    }
    fn encode_present(&self, tag: u32, out: &mut Vec<u8>) {
        u64::from(*self).encode_present(tag, out);
    }
    fn merge(&mut self, wire: WireType, input: &mut &[u8]) -> Result<(), WireError> {
        *self = take_varint(wire, input)? != 0;
        Ok(())
    }
}

impl Field for String {
    const PROTO: &'static str = "string";
    fn is_default(&self) -> bool {
        self.is_empty()
    }
    fn encode_present(&self, tag: u32, out: &mut Vec<u8>) {
        encode_slice(tag, self.as_bytes(), out);
    }
    fn merge(&mut self, wire: WireType, input: &mut &[u8]) -> Result<(), WireError> {
        *self = take_text(wire, input)?.to_owned();
        Ok(())
    }
}

impl Field for Bytes {
    const PROTO: &'static str = "bytes";
    fn is_default(&self) -> bool {
        self.is_empty()
    }
    fn encode_present(&self, tag: u32, out: &mut Vec<u8>) {
        encode_slice(tag, self, out);
    }
    fn merge(&mut self, wire: WireType, input: &mut &[u8]) -> Result<(), WireError> {
        *self = Bytes::copy_from_slice(take_slice(wire, input)?);
        Ok(())
    }
}

/// Repeated: each element with a key of its own.
impl<T: Field> Field for Vec<T> {
    const PROTO: &'static str = T::PROTO;
    fn is_default(&self) -> bool {
        self.is_empty()
    }
    fn encode_present(&self, tag: u32, out: &mut Vec<u8>) {
        for item in self {
            item.encode_present(tag, out);
        }
    }
    fn merge(&mut self, wire: WireType, input: &mut &[u8]) -> Result<(), WireError> {
        if self.len() == REPEATED_COUNT_MAX {
            return Err(WireError::Malformed);
        }
        self.push(T::take(wire, input)?);
        Ok(())
    }
}

/// A large one that most messages of the kind do without.
impl<T: Field> Field for Box<T> {
    const PROTO: &'static str = T::PROTO;
    fn is_default(&self) -> bool {
        (**self).is_default()
    }
    fn encode_present(&self, tag: u32, out: &mut Vec<u8>) {
        (**self).encode_present(tag, out);
    }
    fn merge(&mut self, wire: WireType, input: &mut &[u8]) -> Result<(), WireError> {
        (**self).merge(wire, input)
    }
}

/// Optional: present even when it holds its default.
impl<T: Field> Field for Option<T> {
    const PROTO: &'static str = T::PROTO;
    fn is_default(&self) -> bool {
        self.is_none()
    }
    fn encode_present(&self, tag: u32, out: &mut Vec<u8>) {
        if let Some(value) = self {
            value.encode_present(tag, out);
        }
    }
    fn merge(&mut self, wire: WireType, input: &mut &[u8]) -> Result<(), WireError> {
        self.get_or_insert_default().merge(wire, input)
    }
}

/// `repeated`, `optional` or nothing before a field in a `.proto` file.
#[must_use]
pub fn proto_label(rust_type: &str) -> &'static str {
    match rust_type.split_once('<').map(|(outer, _)| outer.trim()) {
        Some("Vec") => "repeated ",
        Some("Option") => "optional ",
        _ => "",
    }
}

/// Defines a struct that is also a protobuf message.
///
/// `message! { /** doc */ pub struct Name { 1 => field: Type, } }`: public fields, numbered as
/// protobuf numbers them. The struct gets `Clone, Debug, Default, PartialEq, Eq`.
#[macro_export]
macro_rules! message {
    ($(#[$meta:meta])* pub struct $name:ident {
        $( $(#[$field_meta:meta])* $tag:literal => $field:ident : $type:ty ),* $(,)?
    }) => {
        $(#[$meta])*
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        #[allow(
            missing_docs,
            reason = "a field is named for what it is; the struct's doc says the rest"
        )]
        pub struct $name { $( $(#[$field_meta])* pub $field: $type, )* }

        impl $crate::wire::Message for $name {
            #[allow(unused_variables, reason = "a message may have no fields")]
            fn encode(&self, out: &mut Vec<u8>) {
                $( if !$crate::wire::Field::is_default(&self.$field) {
                    $crate::wire::Field::encode_present(&self.$field, $tag, out);
                } )*
            }
            fn decode(input: &[u8]) -> Result<Self, $crate::wire::WireError> {
                let mut rest = input;
                #[allow(unused_mut, reason = "a message may have no fields")]
                let mut message = Self::default();
                while let Some((tag, wire)) = $crate::wire::next_key(&mut rest)? {
                    match tag {
                        $( $tag => {
                            $crate::wire::Field::merge(&mut message.$field, wire, &mut rest)?;
                        } )*
                        _ => $crate::wire::skip(tag, wire, &mut rest)?,
                    }
                }
                Ok(message)
            }
            fn proto_text() -> String {
                let mut text = format!("message {} {{\n", stringify!($name));
                $( text.push_str(&format!(
                    "  {}{} {} = {};\n",
                    $crate::wire::proto_label(stringify!($type)),
                    <$type as $crate::wire::Field>::PROTO,
                    stringify!($field),
                    $tag,
                )); )*
                text.push_str("}\n");
                text
            }
        }

        $crate::nested_field!($name);

        $crate::for_samples! {
            impl $crate::sample::Sample for $name {
                #[allow(unused_variables, reason = "a message may have no fields")]
                fn sample(random: &mut $crate::Random) -> Self {
                    Self { $( $field: $crate::sample::Sample::sample(random), )* }
                }
            }
        }
    };
}

/// Defines an enum of which each variant holds one message: a protobuf `oneof`.
#[macro_export]
macro_rules! choice {
    ($(#[$meta:meta])* pub enum $name:ident {
        $( $(#[$variant_meta:meta])* $tag:literal => $variant:ident($type:ty) ),* $(,)?
    }) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum $name { $( $(#[$variant_meta])* $variant($type), )* }

        $( impl From<$type> for $name {
            fn from(value: $type) -> Self { Self::$variant(value) }
        } )*

        impl $crate::wire::Message for $name {
            fn encode(&self, out: &mut Vec<u8>) {
                match self {
                    $( Self::$variant(value) => {
                        $crate::wire::Field::encode_present(value, $tag, out);
                    } )*
                }
            }
            fn decode(input: &[u8]) -> Result<Self, $crate::wire::WireError> {
                let mut rest = input;
                let mut found = None;
                while let Some((tag, wire)) = $crate::wire::next_key(&mut rest)? {
                    match tag {
                        $( $tag => {
                            let value = <$type as $crate::wire::Field>::take(wire, &mut rest)?;
                            found = Some(Self::$variant(value));
                        } )*
                        _ => $crate::wire::skip(tag, wire, &mut rest)?,
                    }
                }
                found.ok_or($crate::wire::WireError::Malformed)
            }
            fn proto_text() -> String {
                let mut text = format!("message {} {{\n  oneof choice {{\n", stringify!($name));
                $( text.push_str(&format!(
                    "    {} {} = {};\n",
                    stringify!($type), stringify!($variant).to_lowercase(), $tag,
                )); )*
                text.push_str("  }\n}\n");
                text
            }
        }

        $crate::for_samples! {
            impl $name {
                /// One of each variant.
                #[must_use]
                #[allow(dead_code, unreachable_pub, reason = "as private as the choice is")]
                pub fn sample_each(random: &mut $crate::Random) -> Vec<Self> {
                    vec![ $( Self::$variant($crate::sample::Sample::sample(random)), )* ]
                }
            }

            impl $crate::sample::Sample for $name {
                fn sample(random: &mut $crate::Random) -> Self {
                    let each = Self::sample_each(random);
                    random.pick(&each).expect("a variant").clone()
                }
            }
        }
    };
}

/// A message as a field of another one: as many bytes as it says.
#[doc(hidden)]
#[macro_export]
macro_rules! nested_field {
    ($name:ident) => {
        impl $crate::wire::Field for $name {
            const PROTO: &'static str = stringify!($name);
            fn is_default(&self) -> bool {
                *self == Self::default()
            }
            fn encode_present(&self, tag: u32, out: &mut Vec<u8>) {
                $crate::wire::encode_nested(tag, out, |out| {
                    $crate::wire::Message::encode(self, out);
                });
            }
            fn merge(
                &mut self,
                wire: $crate::wire::WireType,
                input: &mut &[u8],
            ) -> Result<(), $crate::wire::WireError> {
                *self = <Self as $crate::wire::Field>::take(wire, input)?;
                Ok(())
            }
            fn take(
                wire: $crate::wire::WireType,
                input: &mut &[u8],
            ) -> Result<Self, $crate::wire::WireError> {
                let raw = $crate::wire::take_slice(wire, input)?;
                <Self as $crate::wire::Message>::decode(raw)
            }
        }
    };
}

/// Makes a [`choice!`](crate::choice) a field too: `choice_field!(Name, default)`. An absent field
/// is the default.
#[macro_export]
macro_rules! choice_field {
    ($name:ident, $default:expr) => {
        impl Default for $name {
            fn default() -> Self {
                $default
            }
        }

        $crate::nested_field!($name);
    };
}

/// Defines a plain enum that is also a protobuf number; an unknown number does not decode.
#[macro_export]
macro_rules! code {
    ($(#[$meta:meta])* pub enum $name:ident {
        $( $(#[$variant_meta:meta])* $variant:ident = $number:literal ),* $(,)?
    }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name { $( $(#[$variant_meta])* $variant = $number, )* }

        impl $name {
            /// Every value, in order.
            pub const ALL: &'static [Self] = &[ $( Self::$variant, )* ];
        }

        impl $crate::wire::Field for $name {
            const PROTO: &'static str = "uint32";
            fn is_default(&self) -> bool {
                *self == Self::default()
            }
            fn encode_present(&self, tag: u32, out: &mut Vec<u8>) {
                (*self as u32).encode_present(tag, out);
            }
            fn merge(
                &mut self,
                wire: $crate::wire::WireType,
                input: &mut &[u8],
            ) -> Result<(), $crate::wire::WireError> {
                let mut number = 0u32;
                number.merge(wire, input)?;
                *self = match number {
                    $( $number => Self::$variant, )*
                    _ => return Err($crate::wire::WireError::Malformed),
                };
                Ok(())
            }
        }

        $crate::for_samples! {
            impl $crate::sample::Sample for $name {
                fn sample(random: &mut $crate::Random) -> Self {
                    *random.pick(Self::ALL).expect("a value")
                }
            }
        }
    };
}

/// What the macros make for tests alone; nothing without the feature `samples`.
#[cfg(any(test, feature = "samples"))]
#[doc(hidden)]
#[macro_export]
macro_rules! for_samples {
    ($($item:item)*) => { $($item)* };
}
#[cfg(not(any(test, feature = "samples")))]
#[doc(hidden)]
#[macro_export]
macro_rules! for_samples {
    ($($item:item)*) => {};
}

#[cfg(test)]
#[allow(unreachable_pub, reason = "the macros make public structs")]
mod tests {
    use super::{Message, REPEATED_COUNT_MAX, WireError};
    use crate::sample::{Sample, check_bytes, check_wire, crossed};
    use crate::{
        BlockChecksums, CellConfig, CellPath, ChunkHandle, Entry, MutationName, PushId, Random,
        ReplicaAt, Term,
    };
    use proptest::prelude::{any, proptest};

    crate::message! {
        pub struct Inner { 1 => number: u64, 2 => text: String }
    }
    crate::message! {
        pub struct Outer {
            1 => handle: ChunkHandle,
            2 => inner: Inner,
            3 => many: Vec<Inner>,
            4 => maybe: Option<u64>,
            5 => flag: bool,
            6 => path: CellPath,
            7 => sums: BlockChecksums,
            8 => nested: Option<Inner>,
        }
    }
    crate::choice! {
        pub enum Either { 1 => Left(Inner), 2 => Right(Outer) }
    }

    #[test]
    fn a_list_of_nothings_ends_before_it_takes_much_memory() {
        // Two bytes each: the key, and a length of none.
        let nothings = |count: usize| [3 << 3 | 2, 0].repeat(count);
        let decode = |count| Outer::decode(&nothings(count));
        assert_eq!(
            decode(REPEATED_COUNT_MAX).expect("as many as may be").many[9],
            Inner::default()
        );
        assert_eq!(decode(REPEATED_COUNT_MAX + 1), Err(WireError::Malformed));
    }

    fn outer() -> Outer {
        Outer {
            handle: ChunkHandle::of(Term::new(3), 4),
            inner: Inner { number: 0, text: "x".into() },
            many: vec![Inner::default(), Inner { number: 9, text: String::new() }],
            maybe: Some(0),
            flag: true,
            ..Outer::default()
        }
    }

    #[test]
    fn a_message_comes_back_as_it_went() {
        assert_eq!(Outer::decode(&outer().to_bytes()), Ok(outer()));
        assert_eq!(Either::decode(&Either::Right(outer()).to_bytes()), Ok(outer().into()));
    }

    #[test]
    fn a_message_cut_anywhere_decodes_to_an_error_or_to_fewer_fields_but_never_panics() {
        let whole = outer().to_bytes();
        for size in 0..whole.len() {
            let _ = Outer::decode(&whole[..size]);
            let _ = Either::decode(&whole[..size]);
        }
        assert_eq!(Either::decode(&[]), Err(WireError::Malformed));
    }

    proptest! {
        #[test]
        fn whatever_is_drawn_comes_back_and_no_damage_makes_it_panic(seed: u64) {
            let random = &mut Random::new(seed);
            for either in Either::sample_each(random) {
                check_wire(&either, random);
            }
            check_wire(&Outer::sample(random), random);
            check_wire(&Entry::sample(random), random);
            check_wire(&ReplicaAt::sample(random), random);
            check_wire(&CellConfig::sample(random), random);
            check_wire(&PushId::sample(random), random);
            check_wire(&MutationName::sample(random), random);
        }

        #[test]
        fn no_bytes_make_it_panic(raw in proptest::collection::vec(any::<u8>(), 0..200)) {
            check_bytes::<Outer>(&raw);
            check_bytes::<Either>(&raw);
        }
    }

    #[test]
    fn a_length_that_lies_reserves_nothing() {
        // Key of a length-delimited field, then a length of nearly 2^63.
        for tag in [1, 2, 3, 6, 7, 8] {
            let raw = [tag << 3 | 2, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f, 0];
            assert_eq!(Outer::decode(&raw), Err(WireError::Malformed));
            assert_eq!(Either::decode(&raw), Err(WireError::Malformed));
        }
    }

    #[test]
    fn of_two_crossed_the_later_numbers_stand_and_lists_go_on() {
        let left = |number| Either::from(Inner { number, text: "x".into() }).to_bytes();
        let mut numbers = std::collections::BTreeSet::new();
        for seed in 0..50 {
            let raw = crossed(&left(1), &left(2), &mut Random::new(seed)).expect("of one kind");
            if let Ok(Either::Left(inner)) = Either::decode(&raw) {
                numbers.insert(inner.number);
            }
        }
        assert_eq!(numbers.into_iter().collect::<Vec<_>>(), [1, 2]);
    }

    #[test]
    fn the_proto_text_names_fields_and_labels() {
        assert_eq!(
            Outer::proto_text(),
            "message Outer {\n  uint64 handle = 1;\n  Inner inner = 2;\n  \
             repeated Inner many = 3;\n  optional uint64 maybe = 4;\n  bool flag = 5;\n  \
             string path = 6;\n  bytes sums = 7;\n  optional Inner nested = 8;\n}\n"
        );
    }
}
