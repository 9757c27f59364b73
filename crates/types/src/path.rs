//! Paths in a cell: `/a/b`, UTF-8, no empty part, no `.` or `..`, no NUL.

use crate::wire::{Field, WireError, WireType, encode_slice, take_text};
use std::fmt;
use std::sync::{Arc, LazyLock};

/// Bytes that one name may have.
pub const NAME_SIZE_MAX: usize = 255;
/// Bytes that a whole path may have.
pub const PATH_SIZE_MAX: usize = 4096;

const _: () = assert!(NAME_SIZE_MAX < PATH_SIZE_MAX);

/// Why a text is not a path in a cell.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// It does not start with `/`.
    #[error("a path in a cell starts with '/'")]
    NotAbsolute,
    /// A part is `.` or `..`.
    #[error("'.' and '..' have no meaning in a cell's path")]
    Dots,
    /// It contains a NUL.
    #[error("a name cannot contain a NUL")]
    Nul,
    /// One name is too long.
    #[error("a name of {size} bytes; the limit is {NAME_SIZE_MAX}")]
    NameTooLong {
        /// Bytes in the name.
        size: usize,
    },
    /// The whole is too long.
    #[error("a path of {size} bytes; the limit is {PATH_SIZE_MAX}")]
    PathTooLong {
        /// Bytes in the path.
        size: usize,
    },
}

/// An absolute, normal path: repeated and trailing slashes are gone, the root is `/`. Clones share
/// the text.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CellPath(Arc<str>);

impl Default for CellPath {
    fn default() -> Self {
        Self::root()
    }
}

impl CellPath {
    /// `/`.
    #[must_use]
    pub fn root() -> Self {
        // Each message with a path begins with this one.
        static ROOT: LazyLock<Arc<str>> = LazyLock::new(|| "/".into());
        Self(Arc::clone(&ROOT))
    }

    /// Reads a path as a person writes it.
    ///
    /// # Errors
    /// [`PathError`] says what about it cannot be.
    pub fn parse(text: &str) -> Result<Self, PathError> {
        if !text.starts_with('/') {
            return Err(PathError::NotAbsolute);
        }
        let names = || text.split('/').filter(|name| !name.is_empty());
        let mut size = 0;
        for name in names() {
            check_name(name)?;
            size += 1 + name.len();
        }
        if size > PATH_SIZE_MAX {
            return Err(PathError::PathTooLong { size });
        }
        if size == text.len() {
            return Ok(Self(text.into()));
        }
        if size == 0 {
            return Ok(Self::root());
        }
        let normal: String = names().flat_map(|name| ["/", name]).collect();
        Ok(Self(normal.into()))
    }

    /// The path as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether it is `/`.
    #[must_use]
    pub fn is_root(&self) -> bool {
        *self.0 == *"/"
    }

    /// The names from the root down; none for the root.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.split('/').filter(|name| !name.is_empty())
    }

    /// The last name; none for the root.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        let (_, name) = self.0.rsplit_once('/')?;
        (!name.is_empty()).then_some(name)
    }

    /// Whether an entry may be called so.
    #[must_use]
    pub fn is_name(name: &str) -> bool {
        !name.is_empty() && !name.contains('/') && check_name(name).is_ok()
    }

    /// The directory it lies in; none for the root.
    #[must_use]
    pub fn parent(&self) -> Option<Self> {
        let cut = self.0.rfind('/')?;
        match (self.is_root(), cut) {
            (true, _) => None,
            (false, 0) => Some(Self::root()),
            (false, _) => Some(Self(self.0[..cut].into())),
        }
    }

    /// This directory's entry called `name`.
    ///
    /// # Errors
    /// [`PathError`] when the name or the whole would be unfit.
    pub fn join(&self, name: &str) -> Result<Self, PathError> {
        Self::parse(&format!("{}/{name}", self.0))
    }

    /// Every directory above it, the root first.
    #[must_use]
    pub fn ancestors(&self) -> Vec<Self> {
        let mut all: Vec<Self> = std::iter::successors(self.parent(), Self::parent).collect();
        all.reverse();
        all
    }

    /// Whether `self` is `other` or lies below it.
    #[must_use]
    pub fn is_within(&self, other: &Self) -> bool {
        self.passes(&other.0)
    }

    /// Whether the way down from the root to `self` passes by the path `other`, or ends there.
    #[must_use]
    pub fn passes(&self, other: &str) -> bool {
        let below = |rest: &str| rest.is_empty() || rest.starts_with('/');
        other == "/" || self.0.strip_prefix(other).is_some_and(below)
    }
}

fn check_name(name: &str) -> Result<(), PathError> {
    if name == "." || name == ".." {
        Err(PathError::Dots)
    } else if name.contains('\0') {
        Err(PathError::Nul)
    } else if name.len() > NAME_SIZE_MAX {
        Err(PathError::NameTooLong { size: name.len() })
    } else {
        Ok(())
    }
}

impl fmt::Display for CellPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Field for CellPath {
    const PROTO: &'static str = "string";
    fn is_default(&self) -> bool {
        self.is_root()
    }
    fn encode_present(&self, tag: u32, out: &mut Vec<u8>) {
        encode_slice(tag, self.0.as_bytes(), out);
    }
    fn merge(&mut self, wire: WireType, input: &mut &[u8]) -> Result<(), WireError> {
        *self = Self::parse(take_text(wire, input)?).map_err(|_| WireError::Malformed)?;
        Ok(())
    }
}

crate::for_samples! {
    impl crate::sample::Sample for CellPath {
        fn sample(random: &mut crate::Random) -> Self {
            const NAMES: [&str; 5] = ["a", "b", ".deleted", "é 𝄞", "..."];
            let mut path = Self::root();
            for _ in 0..random.below(4) {
                path = path.join(random.pick(&NAMES).expect("there are some")).expect("fit names");
            }
            path
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{CellPath, PathError};

    fn path(text: &str) -> CellPath {
        CellPath::parse(text).expect("a good path")
    }

    #[test]
    fn a_name_is_what_a_path_can_end_with() {
        let long = "x".repeat(256);
        for name in ["a", "a b", "…", "", "/", "a/b", "a/", "/a", ".", "..", "a\0", &long] {
            let ends = CellPath::root().join(name).is_ok_and(|path| path.name() == Some(name));
            assert_eq!(CellPath::is_name(name), ends, "{name:?}");
        }
    }

    #[test]
    fn slashes_are_made_normal() {
        assert_eq!(path("//a///b/").as_str(), "/a/b");
        assert_eq!(path("///"), CellPath::root());
    }

    #[test]
    fn unfit_paths_say_why() {
        assert_eq!(CellPath::parse("a"), Err(PathError::NotAbsolute));
        assert_eq!(CellPath::parse("/a/../b"), Err(PathError::Dots));
        assert_eq!(CellPath::parse("/a\0"), Err(PathError::Nul));
        let long = format!("/{}", "n".repeat(256));
        assert_eq!(CellPath::parse(&long), Err(PathError::NameTooLong { size: 256 }));
        assert!(matches!(
            CellPath::parse(&"/name".repeat(900)),
            Err(PathError::PathTooLong { .. })
        ));
    }

    #[test]
    fn parents_ancestors_and_containment() {
        assert_eq!(path("/a/b").parent(), Some(path("/a")));
        assert_eq!(path("/a").parent(), Some(CellPath::root()));
        assert_eq!(CellPath::root().parent(), None);
        assert_eq!(path("/a/b/c").ancestors(), [path("/"), path("/a"), path("/a/b")]);
        assert!(path("/a/b").is_within(&path("/a")));
        assert!(!path("/ab").is_within(&path("/a")));
        assert!(path("/ab").is_within(&path("/")));
    }
}
