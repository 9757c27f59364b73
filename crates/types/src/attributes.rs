//! Whose a file or directory is, and who may do what with it (design §4): owner, group and mode,
//! as POSIX has them.

use crate::EntryKind;
use crate::wire::Message;
use std::fmt;

/// The bits of a mode: who may read, write and search, and the set-user, set-group and sticky bits.
pub const MODE_BITS: u32 = 0o7777;
/// A program runs as its owner.
pub const SET_USER: u32 = 0o4000;
/// Names made in such a directory get its group; directories pass the bit on.
pub const SET_GROUP: u32 = 0o2000;
/// In such a directory only the owner of a name, or of the directory, may take it away.
pub const STICKY: u32 = 0o1000;
/// The number of nobody, as POSIX has it (`(uid_t) -1`): no user and no group has it, and nothing
/// is given to it. Who is not known at all has it, as whoever asks a server's HTTP port.
pub const NOBODY: u32 = u32::MAX;
/// Groups that one identity may name, besides its first.
pub const GROUPS_MAX: usize = 1024;

crate::message! {
    /// Who a caller says that it is. One that says nothing is the superuser.
    pub struct Identity {
        /// Zero: the superuser, who may do everything.
        1 => uid: u32,
        2 => gid: u32,
        /// Further groups.
        3 => groups: Vec<u32>,
    }
}

impl Identity {
    /// Whoever says of itself what cannot be read: it owns nothing and is in no group.
    #[must_use]
    pub fn nobody() -> Self {
        Self { uid: NOBODY, gid: NOBODY, groups: Vec::new() }
    }

    /// Who says this of itself when it connects: nothing, and it is the superuser; what cannot be
    /// read, or has nobody's number anywhere, and it is nobody.
    #[must_use]
    pub fn told(credentials: &[u8]) -> Self {
        let told = Self::decode(credentials).ok();
        let is_somebody = |it: &Self| it.uid != NOBODY && !it.is_in(NOBODY);
        told.filter(|it| it.groups.len() <= GROUPS_MAX && is_somebody(it))
            .unwrap_or_else(Self::nobody)
    }

    /// Whether it may do everything.
    #[must_use]
    pub fn is_superuser(&self) -> bool {
        self.uid == 0
    }

    /// Whether it is in a group.
    #[must_use]
    pub fn is_in(&self, group: u32) -> bool {
        self.gid == group || self.groups.contains(&group)
    }

    /// Whether it may do all of `wish` with what has these attributes: as its owner, else as one of
    /// its group, else as anybody.
    #[must_use]
    pub fn may(&self, wish: Access, attributes: Attributes) -> bool {
        let shift = if self.uid == attributes.owner {
            6
        } else if self.is_in(attributes.group) {
            3
        } else {
            0
        };
        self.is_superuser() || (attributes.mode >> shift) & wish.0 == wish.0
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "uid {}, group {}", self.uid, self.gid)?;
        match self.groups.iter().filter(|group| **group != self.gid).count() {
            0 => Ok(()),
            1 => f.write_str(" and one more"),
            more => write!(f, " and {more} more"),
        }
    }
}

/// What somebody wants to do, as bits of a mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access(u32);

impl Access {
    /// Read a file, or the names of a directory.
    pub const READ: Self = Self(4);
    /// Write a file, or make and take away names of a directory.
    pub const WRITE: Self = Self(2);
    /// Go through a directory.
    pub const SEARCH: Self = Self(1);

    /// Both.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verbs = [(4, "read"), (2, "write"), (1, "search")];
        let wanted: Vec<&str> =
            verbs.iter().filter(|(bit, _)| self.0 & bit != 0).map(|(_, verb)| *verb).collect();
        f.write_str(&wanted.join(" and "))
    }
}

crate::message! {
    /// Whose something is, and who may do what with it.
    #[derive(Copy, PartialOrd, Ord)]
    pub struct Attributes { 1 => owner: u32, 2 => group: u32, 3 => mode: u32 }
}

impl Attributes {
    /// What has no attributes of its own has these: it is the superuser's, and read by everybody.
    #[must_use]
    pub fn usual(kind: EntryKind) -> Self {
        let mode = match kind {
            EntryKind::File => 0o644,
            EntryKind::Directory => 0o755,
        };
        Self { owner: 0, group: 0, mode }
    }

    /// Of what somebody makes in a directory that has these; `mode` is what was asked for, without
    /// the bits of the maker's umask.
    #[must_use]
    pub fn made_in(self, maker: &Identity, kind: EntryKind, mode: Option<u32>) -> Self {
        let hands_down = self.mode & SET_GROUP != 0;
        let mode = mode.unwrap_or(Self::usual(kind).mode) & MODE_BITS;
        let passed_on = if hands_down && kind == EntryKind::Directory { SET_GROUP } else { 0 };
        let group = if hands_down { self.group } else { maker.gid };
        Self { owner: maker.uid, group, mode: mode | passed_on }
    }
}

impl fmt::Display for Attributes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "owner {}, group {}, mode {:04o}", self.owner, self.group, self.mode)
    }
}

#[cfg(test)]
mod tests {
    use super::{Access, Attributes, Identity, NOBODY, SET_GROUP};
    use crate::EntryKind;
    use crate::wire::Message;

    fn who(uid: u32, gid: u32, groups: &[u32]) -> Identity {
        Identity { uid, gid, groups: groups.to_vec() }
    }

    #[test]
    fn the_first_class_that_fits_decides_even_where_a_later_one_would_allow_more() {
        let it = Attributes { owner: 7, group: 70, mode: 0o046 };
        let may = |uid, gid, groups: &[u32], wish| who(uid, gid, groups).may(wish, it);
        assert!(!may(7, 70, &[], Access::READ), "its owner may nothing");
        assert!(may(8, 70, &[], Access::READ) && !may(8, 70, &[], Access::WRITE));
        assert!(may(8, 1, &[2, 70], Access::READ), "by a further group");
        assert!(may(9, 1, &[], Access::READ.and(Access::WRITE)));
        assert!(!may(9, 1, &[], Access::READ.and(Access::SEARCH)));
        assert!(may(0, 1, &[], Access::READ.and(Access::SEARCH)), "the superuser");
    }

    #[test]
    fn a_directory_with_the_set_group_bit_hands_down_its_group_and_to_directories_the_bit() {
        let (maker, file, directory) = (who(7, 70, &[]), EntryKind::File, EntryKind::Directory);
        let plain = Attributes { owner: 1, group: 5, mode: 0o777 };
        let handing = Attributes { mode: 0o777 | SET_GROUP, ..plain };
        let made = |owner, group, mode| Attributes { owner, group, mode };
        assert_eq!(plain.made_in(&maker, file, None), made(7, 70, 0o644));
        assert_eq!(plain.made_in(&maker, directory, Some(0o700)), made(7, 70, 0o700));
        assert_eq!(handing.made_in(&maker, file, Some(0o640)), made(7, 5, 0o640));
        assert_eq!(handing.made_in(&maker, directory, None), made(7, 5, 0o755 | SET_GROUP));
    }

    #[test]
    fn who_says_nothing_of_itself_is_the_superuser_and_everybody_is_read_as_it_is_written() {
        assert!(Identity::default().to_bytes().is_empty() && Identity::default().is_superuser());
        let all = who(1000, 0, &[0, 4, u32::MAX]);
        assert_eq!(Identity::decode(&all.to_bytes()).as_ref(), Ok(&all));
        assert!(!Identity::nobody().is_superuser());
        // Who names nobody, as user or as a group, is nobody in all.
        for it in [who(NOBODY, 0, &[]), who(1000, NOBODY, &[0]), all.clone()] {
            assert_eq!(Identity::told(&it.to_bytes()), Identity::nobody());
        }
        assert_eq!(all.to_string(), "uid 1000, group 0 and 2 more");
    }
}
