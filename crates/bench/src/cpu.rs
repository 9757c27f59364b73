//! CPU seconds of processes, as the kernel counts them.

use std::fs;

/// Clock ticks in a second, as Linux reports times to programs.
const TICKS_PER_SECOND: f64 = 100.0;

/// User and system seconds that these processes have used so far; a process that is gone counts
/// nothing.
pub(crate) fn seconds(pids: &[u32]) -> f64 {
    pids.iter().filter_map(|pid| ticks(*pid)).sum::<u64>() as f64 / TICKS_PER_SECOND
}

fn ticks(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The command's name stands in parentheses and may hold anything; fields go on behind it.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let (user, system) = (fields.get(11)?, fields.get(12)?);
    Some(user.parse::<u64>().ok()? + system.parse::<u64>().ok()?)
}

#[cfg(test)]
mod tests {
    #[test]
    fn this_process_has_used_some_time_and_a_missing_one_none() {
        let me = std::process::id();
        let mut sum = 0u64;
        while super::seconds(&[me]) == 0.0 {
            sum = (0..1_000_000u64).fold(sum, u64::wrapping_add);
        }
        assert_eq!(super::seconds(&[u32::MAX]), 0.0);
    }
}
