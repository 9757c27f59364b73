//! Policies: how files are kept, as directories and files say it (design §4).

use crate::Layout;

/// The most replicas that a file may ask for.
pub const REPLICATION_MAX: u32 = 16;
/// What was deleted is kept for ever.
pub const KEEP_FOR_EVER_MS: u64 = u64::MAX;

crate::message! {
    /// How files are kept, part by part.
    #[derive(Copy)]
    pub struct Policy {
        /// Replicas of each chunk.
        1 => replication: u32,
        /// How long what is deleted can be brought back, in milliseconds.
        2 => keep_deleted_ms: u64,
        /// Mutations are acknowledged once they are on disk on every replica.
        3 => synced: bool,
        /// How files are written that are made.
        4 => layout: Layout,
        /// Servers that have to hold a bundle of a stream before it is committed; zero: two, or all
        /// that its chunk has where these are fewer.
        5 => commit_replicas: u32,
    }
}

crate::message! {
    /// What one directory or file says of a policy; a part that is none is inherited.
    #[derive(Copy)]
    pub struct PolicyParts {
        1 => replication: Option<u32>,
        2 => keep_deleted_ms: Option<u64>,
        3 => synced: Option<bool>,
        4 => layout: Option<Layout>,
        5 => commit_replicas: Option<u32>,
    }
}

crate::message! {
    /// Some parts of a policy, by name.
    #[derive(Copy)]
    pub struct PolicyPartNames {
        1 => replication: bool,
        2 => keep_deleted: bool,
        3 => durability: bool,
        4 => layout: bool,
        5 => commit_replicas: bool,
    }
}

impl PolicyParts {
    /// These, and of the others' what these do not say.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            replication: self.replication.or(other.replication),
            keep_deleted_ms: self.keep_deleted_ms.or(other.keep_deleted_ms),
            synced: self.synced.or(other.synced),
            layout: self.layout.or(other.layout),
            commit_replicas: self.commit_replicas.or(other.commit_replicas),
        }
    }

    /// These, but for the parts named.
    #[must_use]
    pub fn without(self, names: PolicyPartNames) -> Self {
        Self {
            replication: self.replication.filter(|_| !names.replication),
            keep_deleted_ms: self.keep_deleted_ms.filter(|_| !names.keep_deleted),
            synced: self.synced.filter(|_| !names.durability),
            layout: self.layout.filter(|_| !names.layout),
            commit_replicas: self.commit_replicas.filter(|_| !names.commit_replicas),
        }
    }

    /// `policy`, but for what these say.
    #[must_use]
    pub fn over(self, policy: Policy) -> Policy {
        Policy {
            replication: self.replication.unwrap_or(policy.replication),
            keep_deleted_ms: self.keep_deleted_ms.unwrap_or(policy.keep_deleted_ms),
            synced: self.synced.unwrap_or(policy.synced),
            layout: self.layout.unwrap_or(policy.layout),
            commit_replicas: self.commit_replicas.unwrap_or(policy.commit_replicas),
        }
    }

    /// The parts that these say.
    #[must_use]
    pub fn names(self) -> PolicyPartNames {
        PolicyPartNames {
            replication: self.replication.is_some(),
            keep_deleted: self.keep_deleted_ms.is_some(),
            durability: self.synced.is_some(),
            layout: self.layout.is_some(),
            commit_replicas: self.commit_replicas.is_some(),
        }
    }
}

impl PolicyPartNames {
    /// All of them.
    pub const ALL: Self = Self {
        replication: true,
        keep_deleted: true,
        durability: true,
        layout: true,
        commit_replicas: true,
    };

    /// Whether there is one at least.
    #[must_use]
    pub fn any(self) -> bool {
        let kept = self.replication || self.keep_deleted || self.durability;
        kept || self.layout || self.commit_replicas
    }

    /// Those of either.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            replication: self.replication || other.replication,
            keep_deleted: self.keep_deleted || other.keep_deleted,
            durability: self.durability || other.durability,
            layout: self.layout || other.layout,
            commit_replicas: self.commit_replicas || other.commit_replicas,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Policy, PolicyPartNames, PolicyParts};

    #[test]
    fn what_one_does_not_say_the_other_does_and_what_is_taken_away_neither() {
        let near = PolicyParts { replication: Some(2), ..PolicyParts::default() };
        let far = PolicyParts { replication: Some(5), synced: Some(true), ..near };
        let both = near.or(far);
        assert_eq!((both.replication, both.synced), (Some(2), Some(true)));
        let replication = PolicyPartNames { replication: true, ..PolicyPartNames::default() };
        assert_eq!(both.without(replication).replication, None);
        assert_eq!(near.without(replication), PolicyParts::default());
        assert!(!near.without(replication).names().any());
        let cell = Policy { replication: 3, keep_deleted_ms: 9, ..Policy::default() };
        assert_eq!(both.over(cell), Policy { replication: 2, synced: true, ..cell });
        let names = replication.and(far.names());
        assert!(names.replication && names.durability && !names.keep_deleted);
    }
}
