//! Several pieces of work at once: files of a tree, and no more of them than make sense together.

use crate::cli_error::{Cause, CliError, Tally};
use crate::exit_codes::Exit;
use std::future::Future;
use tokio::task::{JoinError, JoinSet};

/// Pieces at once, where nobody has said how many.
const COUNT_DEFAULT: usize = 64;
/// Bytes of theirs that may be on their way together: enough for several large files, so that one
/// that waits for a slow server keeps nobody waiting.
const SIZE_DEFAULT: u64 = 64 << 20;
/// Bytes of one file that are on their way at most: what the client reads ahead and writes behind.
const FILE_SIZE_MAX: u64 = 8 << 20;

/// What may be on its way at once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InFlight {
    count_max: usize,
    size_max: u64,
}

impl InFlight {
    /// So many pieces, whatever their size, or what is usual.
    pub(crate) fn of(count: Option<u64>) -> Self {
        match count {
            None => Self { count_max: COUNT_DEFAULT, size_max: SIZE_DEFAULT },
            Some(count) => {
                let count_max = usize::try_from(count).unwrap_or(usize::MAX).max(1);
                Self { count_max, size_max: u64::MAX }
            }
        }
    }

    /// Pieces at once.
    pub(crate) fn count_max(self) -> usize {
        self.count_max
    }
}

/// Does `work` for each item, as many at once as may be in flight; beside an item stand its bytes.
/// A failure of one is told; the others go on.
///
/// # Errors
/// The first failure.
pub(crate) async fn side_by_side<T, F>(
    limit: InFlight,
    items: impl IntoIterator<Item = (u64, T)>,
    work: impl Fn(T) -> F,
) -> Result<(), CliError>
where
    F: Future<Output = Result<(), CliError>> + Send + 'static,
{
    let mut running: JoinSet<(u64, Result<(), CliError>)> = JoinSet::new();
    let mut in_flight = 0;
    let mut tally = Tally::default();
    for (size, item) in items {
        let size = size.min(FILE_SIZE_MAX);
        let is_full = |count: usize, in_flight: u64| {
            count >= limit.count_max || (count > 0 && in_flight + size > limit.size_max)
        };
        while is_full(running.len(), in_flight)
            && let Some(done) = running.join_next().await
        {
            let (size, done) = settle(done);
            in_flight -= size;
            tally.note(done)?;
        }
        in_flight += size;
        let work = work(item);
        running.spawn(async move { (size, work.await) });
    }
    while let Some(done) = running.join_next().await {
        tally.note(settle(done).1)?;
    }
    tally.finish()
}

/// What came of a piece of work, and how many bytes it had in flight.
fn settle(done: Result<(u64, Result<(), CliError>), JoinError>) -> (u64, Result<(), CliError>) {
    // One that panicked keeps its bytes: fewer go on beside it, and the command fails anyway.
    done.unwrap_or_else(|error| {
        let advice = "this is a defect: please report it";
        let cause = Cause::new(Exit::Failed, error.to_string(), advice);
        (0, Err(CliError::new("working", cause)))
    })
}

#[cfg(test)]
mod tests {
    use super::{COUNT_DEFAULT, InFlight, SIZE_DEFAULT, side_by_side};
    use crate::cli_error::{Cause, CliError};
    use crate::exit_codes::Exit;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// How many of 200 pieces of this size were done at once, at most, and how many in all.
    fn at_once(limit: InFlight, size: u64) -> (usize, usize) {
        let (now, most, all) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
        let counts = Arc::new((now, most, all));
        let work = |item: usize| {
            let counts = counts.clone();
            async move {
                let running = counts.0.fetch_add(1, Ordering::SeqCst) + 1;
                counts.1.fetch_max(running, Ordering::SeqCst);
                tokio::task::yield_now().await;
                counts.0.fetch_sub(1, Ordering::SeqCst);
                counts.2.fetch_add(1, Ordering::SeqCst);
                let failure = || CliError::new("x", Cause::new(Exit::Full, "y", ""));
                if item == 3 { Err(failure()) } else { Ok(()) }
            }
        };
        let runtime = crate::runtime::one_thread().expect("starts");
        let items = (0..200).map(|item| (size, item));
        let done = runtime.block_on(side_by_side(limit, items, work));
        assert_eq!(done.map_err(|complaint| complaint.exit()), Err(Exit::Full));
        (counts.1.load(Ordering::SeqCst), counts.2.load(Ordering::SeqCst))
    }

    #[test]
    fn no_more_run_at_once_than_the_limit_and_a_failure_stops_none_of_the_others() {
        assert_eq!(at_once(InFlight::of(Some(4)), 1 << 40), (4, 200));
    }

    #[test]
    fn small_files_go_many_at_once_and_large_ones_few() {
        let usual = InFlight::of(None);
        assert_eq!(at_once(usual, 1000), (COUNT_DEFAULT, 200));
        assert_eq!(at_once(usual, SIZE_DEFAULT / 16), (16, 200));
        assert_eq!(at_once(usual, 1 << 40), (8, 200), "one is never as much as its length");
    }
}
