//! Waiting for what other processes do.

use crate::error::HarnessError;
use std::time::{Duration, Instant};

/// Longer than anything that a healthy machine needs, even a busy one.
pub const PATIENCE: Duration = Duration::from_secs(90);
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Waits until `is_so`; how long that took.
///
/// # Errors
/// Where that takes longer than `within`, or `is_so` fails.
pub fn await_until<E: From<HarnessError>>(
    what: &str,
    within: Duration,
    mut is_so: impl FnMut() -> Result<bool, E>,
) -> Result<Duration, E> {
    let started = Instant::now();
    while !is_so()? {
        if started.elapsed() > within {
            let seconds = within.as_secs();
            return Err(HarnessError::InVain { what: what.to_owned(), seconds }.into());
        }
        std::thread::sleep(LOOK_EVERY);
    }
    Ok(started.elapsed())
}

#[cfg(test)]
mod tests {
    use super::{HarnessError, await_until};
    use std::time::Duration;

    #[test]
    fn what_does_not_come_is_told_by_name() {
        let waited = await_until("rain", Duration::ZERO, || Ok::<_, HarnessError>(false));
        assert_eq!(waited.expect_err("never").to_string(), "waited 0 s in vain for rain");
        let mut looks = 0;
        let waited = await_until("the third look", Duration::from_secs(5), || {
            looks += 1;
            Ok::<_, HarnessError>(looks == 3)
        });
        assert!(waited.is_ok() && looks == 3);
    }
}
