//! How many descriptors a process may have, and what they are for: one budget for all of it.
//!
//! ```text
//!   limit ─┬─ FIXED_COUNT   the HTTP door, logs, journals, locks, epoll, directories while synced
//!          ├─ files         half of the rest at most: chunk files, and pipes on their way out
//!          └─ connections   two of three accepted, one of three dialled
//! ```
//! - B1: the parts together are below the limit; so a peer that opens connections takes no file
//!   from a disk, and files take no connection from a peer.
//! - B2: a limit that leaves too little for the work is told before it begins.

use crate::limits::LaunchLimits;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Descriptors that a process has whatever it does.
const FIXED_COUNT: usize = 64 + HTTP_COUNT;
/// Those of its HTTP door: 32 connections, its listener, its loop, its client of the cell.
const HTTP_COUNT: usize = 40;
/// Files that a data directory can use well.
const FILES_PER_DIRECTORY: usize = 512;
/// With fewer a data directory does nothing but open and close files.
const FILES_PER_DIRECTORY_MIN: usize = 32;
/// With fewer connections a server cannot talk to its cell.
const CONNECTIONS_MIN: usize = 48;

/// The limit is too low for what the process is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a process may have {limit} open files here, and this needs at least {needed}; raise the \
     limit (`ulimit -n`, or LimitNOFILE= of the service)"
)]
pub struct TooFewDescriptors {
    /// What there is.
    pub limit: usize,
    /// What it takes.
    pub needed: usize,
}

/// The descriptors that this process may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DescriptorBudget {
    limit: usize,
    /// Somebody chose the number: connections take what is theirs of it, however many.
    is_chosen: bool,
}

/// One server's part of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DescriptorShare {
    /// Files and pipes that each of its data directories may have open.
    pub files_per_directory: usize,
    /// Connections that may be open to it.
    pub accepted_max: usize,
    /// Connections that it may open to others.
    pub dialled_max: usize,
}

impl DescriptorBudget {
    /// Raises this process's soft limit to the hard one, once, at its start; what there is then.
    #[must_use]
    pub fn raise() -> Self {
        let told = getrlimit(Resource::Nofile);
        let raised = Rlimit { current: told.maximum, maximum: told.maximum };
        // The system may refuse to grant what it promises; then the soft limit is what there is.
        let granted = match setrlimit(Resource::Nofile, raised) {
            Ok(()) => told.maximum,
            Err(_) => told.current,
        };
        // No limit at all: as many as anyone can use.
        let limit =
            granted.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
        Self { limit, is_chosen: false }
    }

    /// As many as somebody chose for this process.
    ///
    /// # Errors
    /// [`TooFewDescriptors`] where the system does not grant them.
    pub fn choose(count: usize) -> Result<Self, TooFewDescriptors> {
        let Self { limit, .. } = Self::raise();
        if limit < count {
            return Err(TooFewDescriptors { limit, needed: count });
        }
        Ok(Self { limit: count, is_chosen: true })
    }

    /// A budget of so many, for a part of a process.
    #[must_use]
    pub fn of(limit: usize) -> Self {
        Self { limit, is_chosen: false }
    }

    /// The part of one of `servers` servers in this process, with so many data directories (B1).
    ///
    /// # Errors
    /// [`TooFewDescriptors`] (B2).
    pub fn share(
        self,
        directories: usize,
        servers: usize,
    ) -> Result<DescriptorShare, TooFewDescriptors> {
        assert!(servers > 0, "a share is somebody's");
        let least = directories * FILES_PER_DIRECTORY_MIN + CONNECTIONS_MIN;
        let mine = self.limit.saturating_sub(FIXED_COUNT) / servers;
        if mine < least {
            let needed = FIXED_COUNT.saturating_add(servers.saturating_mul(least));
            return Err(TooFewDescriptors { limit: self.limit, needed });
        }
        // Half of few is less than it takes to talk.
        let half = (mine / 2).min(mine - CONNECTIONS_MIN);
        let most = half.max(directories * FILES_PER_DIRECTORY_MIN);
        let files_per_directory = match directories {
            0 => 0,
            count => (most / count).min(FILES_PER_DIRECTORY),
        };
        let connections = mine - files_per_directory * directories;
        assert!(connections >= CONNECTIONS_MIN, "B1: what files leave is enough to talk by");
        let LaunchLimits { accepted_max, dialled_max, .. } = LaunchLimits::default();
        let (accepted_max, dialled_max) =
            if self.is_chosen { (usize::MAX, usize::MAX) } else { (accepted_max, dialled_max) };
        Ok(DescriptorShare {
            files_per_directory,
            accepted_max: (connections / 3 * 2).min(accepted_max),
            dialled_max: (connections / 3).min(dialled_max),
        })
    }

    /// How many there are.
    #[must_use]
    pub fn limit(self) -> usize {
        self.limit
    }
}

#[cfg(test)]
mod tests {
    use super::{
        CONNECTIONS_MIN, DescriptorBudget, DescriptorShare, FILES_PER_DIRECTORY_MIN, FIXED_COUNT,
        TooFewDescriptors,
    };

    fn sum(share: DescriptorShare, directories: usize) -> usize {
        share.files_per_directory * directories + share.accepted_max + share.dialled_max
    }

    #[test]
    fn the_parts_of_all_servers_are_together_below_the_limit() {
        for limit in [200, 300, 1024, 4096, 65_536, usize::MAX] {
            for directories in [0, 1, 4, 12] {
                for servers in [1, 5] {
                    let Ok(share) = DescriptorBudget::of(limit).share(directories, servers) else {
                        continue;
                    };
                    let all = sum(share, directories) * servers + FIXED_COUNT;
                    assert!(all <= limit, "{limit}: {share:?} of {servers}, {directories}");
                    assert!(share.accepted_max >= 32 && share.dialled_max >= 16, "{share:?}");
                }
            }
        }
    }

    #[test]
    fn whatever_the_limit_there_is_a_share_or_a_reason_why_not() {
        for limit in 0..1200 {
            for directories in [0, 1, 2, 4] {
                let share = DescriptorBudget::of(limit).share(directories, 1);
                let least = directories * FILES_PER_DIRECTORY_MIN + CONNECTIONS_MIN;
                assert_eq!(share.is_ok(), limit >= FIXED_COUNT + least, "{limit}: {share:?}");
                // Thirds may leave two over.
                let all = share.map(|share| sum(share, directories));
                assert!(all.is_err() || all.is_ok_and(|all| all + 2 >= least), "{limit}: {all:?}");
            }
        }
    }

    #[test]
    fn a_plain_limit_is_shared_out_and_a_high_one_is_not_used_up() {
        let share = DescriptorBudget::of(1024).share(4, 1);
        let expected =
            DescriptorShare { files_per_directory: 115, accepted_max: 306, dialled_max: 153 };
        assert_eq!(share, Ok(expected));
        let share = DescriptorBudget::of(1 << 20).share(4, 1).expect("enough");
        assert_eq!((share.files_per_directory, share.accepted_max), (512, 10_000));
    }

    #[test]
    fn who_chooses_a_number_gets_the_connections_that_are_in_it() {
        let most = DescriptorBudget::raise().limit();
        let chosen = DescriptorBudget::choose(most).expect("it is granted");
        let connections = chosen.share(1, 1).expect("enough").accepted_max;
        assert!(connections >= (most - FIXED_COUNT) / 3 - 3, "{connections} of {most}");
        let refused = DescriptorBudget::choose(usize::MAX);
        assert!(most == usize::MAX || refused.is_err(), "{refused:?}");
    }

    #[test]
    fn a_limit_that_is_too_low_says_how_much_is_needed() {
        let needed = FIXED_COUNT + 4 * FILES_PER_DIRECTORY_MIN + CONNECTIONS_MIN;
        let refused = DescriptorBudget::of(needed - 1).share(4, 1);
        assert_eq!(refused, Err(TooFewDescriptors { limit: needed - 1, needed }));
        assert!(DescriptorBudget::of(needed).share(4, 1).is_ok());
    }
}
