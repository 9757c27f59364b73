//! As whom this process runs.

use cairn_types::{GROUPS_MAX, Identity};
use rustix::process::{getegid, geteuid, getgroups};

/// The usual umask: what is made is written by its owner alone.
pub const UMASK_USUAL: u32 = 0o022;

/// The effective user and groups of this process.
#[must_use]
pub fn process_identity() -> Identity {
    let groups = getgroups().unwrap_or_default();
    let groups = groups.into_iter().map(|group| group.as_raw()).take(GROUPS_MAX).collect();
    Identity { uid: geteuid().as_raw(), gid: getegid().as_raw(), groups }
}

/// The umask of this process, which is read without being changed; the usual one where the machine
/// does not tell it.
#[must_use]
pub fn process_umask() -> u32 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("Umask:"));
    line.and_then(|mask| u32::from_str_radix(mask.trim(), 8).ok()).unwrap_or(UMASK_USUAL)
}

#[cfg(test)]
mod tests {
    use super::{process_identity, process_umask};
    use rustix::fs::Mode;
    use rustix::process::{geteuid, umask};

    #[test]
    fn this_process_runs_as_whom_it_says_and_with_the_umask_that_it_has() {
        assert_eq!(process_identity().uid, geteuid().as_raw());
        let before = umask(Mode::from_raw_mode(0o027));
        let told = process_umask();
        umask(before);
        assert_eq!(told, 0o027);
        assert_eq!(process_umask(), before.as_raw_mode());
    }
}
