//! Several pieces of work at once: files of a tree, records of a stream.

use crate::cli_error::{Cause, CliError, Tally};
use crate::exit_codes::Exit;
use std::future::Future;
use tokio::task::{JoinError, JoinSet};

/// Does `work` for each item, `limit` at once. A failure of one is told; the others go on.
///
/// # Errors
/// The first failure.
pub(crate) async fn side_by_side<T, F>(
    limit: usize,
    items: impl IntoIterator<Item = T>,
    work: impl Fn(T) -> F,
) -> Result<(), CliError>
where
    F: Future<Output = Result<(), CliError>> + Send + 'static,
{
    let mut running = JoinSet::new();
    let mut tally = Tally::default();
    for item in items {
        while running.len() >= limit.max(1) {
            if let Some(done) = running.join_next().await {
                tally.note(settle(done))?;
            }
        }
        running.spawn(work(item));
    }
    while let Some(done) = running.join_next().await {
        tally.note(settle(done))?;
    }
    tally.finish()
}

fn settle(done: Result<Result<(), CliError>, JoinError>) -> Result<(), CliError> {
    done.unwrap_or_else(|error| {
        let advice = "this is a defect: please report it";
        Err(CliError::new("working", Cause::new(Exit::Failed, error.to_string(), advice)))
    })
}

#[cfg(test)]
mod tests {
    use super::side_by_side;
    use crate::cli_error::{Cause, CliError};
    use crate::exit_codes::Exit;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn no_more_run_at_once_than_the_limit_and_a_failure_stops_none_of_the_others() {
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
        let done = runtime.block_on(side_by_side(4, 0..20, work));
        assert_eq!(done.map_err(|complaint| complaint.exit()), Err(Exit::Full));
        assert_eq!(counts.1.load(Ordering::SeqCst), 4);
        assert_eq!(counts.2.load(Ordering::SeqCst), 20);
    }
}
