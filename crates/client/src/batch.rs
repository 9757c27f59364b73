//! Many names at once: one request for hundreds of them, one result for each.
//!
//! - B1: nothing here is atomic. Each name succeeds or fails by itself, and its error says what may
//!   have happened to it ([`Error::outcome`]); a request that nobody answered leaves each of its
//!   names unknown.
//! - B2: results stand in the order of what was asked. The names themselves are taken up together:
//!   what must come first, such as the directory of a file, is asked for first.
//! - B3: as many names as there are; they go in requests of [`PART_COUNT`], a few of them on their
//!   way at once. The deadline is each request's.

use crate::cell::{Cell, CreateOptions};
use crate::error::Error;
use crate::file::File;
use crate::link::{PendingAnswer, wait_for};
use cairn_client_core::Operation;
use cairn_protocol::{
    BATCH_COUNT_MAX, BATCH_PATHS_SIZE_MAX, Batch, BatchEntry, BatchResult, Delete, Looked,
    MakeDirectory, Rename, Stat,
};
use cairn_types::{CellPath, Entry, MutationName};
use std::collections::VecDeque;

/// Names in one request: enough that flush and round trip hardly count for each, few enough that
/// the master has time for others between two of them.
const PART_COUNT: usize = 256;
/// Requests of one call on their way at once.
const PARTS_IN_FLIGHT: usize = 4;

const _: () = assert!(PART_COUNT <= BATCH_COUNT_MAX);

impl Cell {
    /// What each path stands for, lengths as [`stat`](Self::stat) tells them: of a file that is
    /// being written, its last chunk's primary is asked.
    ///
    /// # Errors
    /// For each path as of [`stat`](Self::stat).
    ///
    /// ```no_run
    /// # async fn example(cell: cairn_client::Cell) -> Result<(), cairn_client::Error> {
    /// # use cairn_client::CellPath;
    /// let paths = ["/logs/a", "/logs/b"].map(|path| CellPath::parse(path).expect("a path"));
    /// for (path, found) in paths.iter().zip(cell.stat_many(&paths).await) {
    ///     match found {
    ///         Ok(entry) => println!("{path}: {} bytes", entry.length),
    ///         Err(error) => println!("{path}: {error}"),
    ///     }
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn stat_many(&self, paths: &[CellPath]) -> Vec<Result<Entry, Error>> {
        let looked = self.looked(paths).await;
        // Of those that a primary knows more about, all are asked before the first is waited for.
        let ask = |path: &CellPath| self.link.begin(Operation::Ask(stat(path).into()));
        let again: Vec<Result<(Entry, Option<PendingAnswer>), Error>> = (paths.iter().zip(looked))
            .map(|(path, looked)| {
                looked.map(|Looked { entry, leased }| (entry, leased.then(|| ask(path))))
            })
            .collect();
        let mut all = Vec::with_capacity(again.len());
        for one in again {
            all.push(match one {
                Ok((_, Some(answer))) => told(answer).await,
                Ok((entry, None)) => Ok(entry),
                Err(error) => Err(error),
            });
        }
        all
    }

    /// What each path stands for, with the recorded lengths, as [`list`](Self::list) tells them:
    /// only the master is asked.
    ///
    /// # Errors
    /// For each path as of [`stat`](Self::stat).
    pub async fn look_many(&self, paths: &[CellPath]) -> Vec<Result<Entry, Error>> {
        let looked = self.looked(paths).await;
        looked.into_iter().map(|looked| looked.map(|looked| looked.entry)).collect()
    }

    async fn looked(&self, paths: &[CellPath]) -> Vec<Result<Looked, Error>> {
        self.batch(paths.iter().map(|path| stat(path).into()).collect(), |result| match result {
            BatchResult::Stat(looked) => Ok(looked),
            other => Err(failed(other)),
        })
        .await
    }

    /// Makes directories; with `parents` also those above them, and an existing one is no error.
    ///
    /// # Errors
    /// For each path as of [`make_directory`](Self::make_directory).
    pub async fn make_directories(
        &self,
        paths: &[CellPath],
        parents: bool,
    ) -> Vec<Result<Entry, Error>> {
        let make = |path: &CellPath| {
            let (mutation, path) = (MutationName::default(), path.clone());
            let mode = self.made_mode(None, 0o777);
            MakeDirectory { mutation, path, parents, mode }.into()
        };
        self.batch(paths.iter().map(make).collect(), |result| match result {
            BatchResult::MakeDirectory(answer) => Ok(answer.entry),
            other => Err(failed(other)),
        })
        .await
    }

    /// Makes empty files and opens them.
    ///
    /// # Errors
    /// For each path as of [`create`](Self::create).
    ///
    /// ```no_run
    /// # async fn example(cell: cairn_client::Cell) -> Result<(), cairn_client::Error> {
    /// # use cairn_client::{CellPath, CreateOptions};
    /// let part = |n| CellPath::parse(&format!("/out/part-{n:05}")).expect("a path");
    /// let paths: Vec<CellPath> = (0..1000).map(part).collect();
    /// for file in cell.create_many(&paths, CreateOptions::default()).await {
    ///     file?.append("first line\n".into()).await?;
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn create_many(
        &self,
        paths: &[CellPath],
        options: CreateOptions,
    ) -> Vec<Result<File, Error>> {
        let create = |path: &CellPath| self.create_request(path, options).into();
        self.batch(paths.iter().map(create).collect(), |result| match result {
            BatchResult::Create(answer) => Ok(self.file(answer.entry)),
            other => Err(failed(other)),
        })
        .await
    }

    /// Moves names, each atomically, from the first of a pair to the second.
    ///
    /// # Errors
    /// For each pair as of [`rename`](Self::rename).
    pub async fn rename_many(
        &self,
        moves: &[(CellPath, CellPath)],
        replace: bool,
    ) -> Vec<Result<(), Error>> {
        let rename = |(from, to): &(CellPath, CellPath)| {
            let (mutation, from, to) = (MutationName::default(), from.clone(), to.clone());
            Rename { mutation, from, to, replace }.into()
        };
        self.batch(moves.iter().map(rename).collect(), |result| match result {
            BatchResult::Rename(_) => Ok(()),
            other => Err(failed(other)),
        })
        .await
    }

    /// Deletes files and directories; answers their hidden names.
    ///
    /// # Errors
    /// For each path as of [`delete`](Self::delete).
    ///
    /// ```no_run
    /// # async fn example(cell: cairn_client::Cell) -> Result<(), cairn_client::Error> {
    /// # use cairn_client::{CellPath, ErrorCode};
    /// let paths = ["/tmp/a", "/tmp/b"].map(|path| CellPath::parse(path).expect("a path"));
    /// for deleted in cell.delete_many(&paths, false).await {
    ///     match deleted {
    ///         Err(error) if error.code() != ErrorCode::NotFound => return Err(error),
    ///         _ => {}
    ///     }
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn delete_many(
        &self,
        paths: &[CellPath],
        recursive: bool,
    ) -> Vec<Result<String, Error>> {
        let delete = |path: &CellPath| {
            let (mutation, path) = (MutationName::default(), path.clone());
            Delete { mutation, path, recursive }.into()
        };
        self.batch(paths.iter().map(delete).collect(), |result| match result {
            BatchResult::Delete(answer) => Ok(answer.hidden),
            other => Err(failed(other)),
        })
        .await
    }

    /// Asks all of `entries`, part by part, and reads each result.
    async fn batch<T>(
        &self,
        entries: Vec<BatchEntry>,
        read: impl Fn(BatchResult) -> Result<T, Error>,
    ) -> Vec<Result<T, Error>> {
        let asked = entries.len();
        let mut parts = BatchParts { entries: entries.into_iter(), kept: None };
        let mut under_way = VecDeque::new();
        let mut all = Vec::new();
        loop {
            while under_way.len() < PARTS_IN_FLIGHT
                && let Some(part) = parts.next()
            {
                let count = part.entries.len();
                under_way.push_back((count, self.link.begin(Operation::Open(part.into()))));
            }
            let Some((count, answer)) = under_way.pop_front() else {
                assert_eq!(all.len(), asked, "B2: a result for each name");
                return all;
            };
            match results(answer, count).await {
                Ok(results) => all.extend(results.into_iter().map(&read)),
                Err(error) => all.extend((0..count).map(|_| Err(error.clone()))),
            }
        }
    }
}

fn stat(path: &CellPath) -> Stat {
    Stat { path: path.clone() }
}

async fn told(answer: PendingAnswer) -> Result<Entry, Error> {
    Ok(wait_for::<Stat>(answer).await?.entry)
}

/// The results of a part, one for each of its entries.
async fn results(answer: PendingAnswer, count: usize) -> Result<Vec<BatchResult>, Error> {
    let results = wait_for::<Batch>(answer).await?.results;
    if results.len() == count { Ok(results) } else { Err(Error::mismatched()) }
}

fn failed(result: BatchResult) -> Error {
    match result {
        BatchResult::Failed(failure) => failure.into(),
        _ => Error::mismatched(),
    }
}

/// Cuts entries into batches within their limits.
struct BatchParts<I> {
    entries: I,
    /// It did not fit the part before.
    kept: Option<BatchEntry>,
}

impl<I: Iterator<Item = BatchEntry>> Iterator for BatchParts<I> {
    type Item = Batch;

    fn next(&mut self) -> Option<Batch> {
        let (mut part, mut size) = (Batch::default(), 0);
        while part.entries.len() < PART_COUNT
            && let Some(entry) = self.kept.take().or_else(|| self.entries.next())
        {
            size += entry.paths_size();
            if size > BATCH_PATHS_SIZE_MAX {
                self.kept = Some(entry);
                break;
            }
            part.entries.push(entry);
        }
        assert!(part.oversized().is_none(), "B3: a part is within the limits of a batch");
        (!part.entries.is_empty()).then_some(part)
    }
}

#[cfg(test)]
mod tests {
    use super::{BatchParts, PART_COUNT, stat};
    use cairn_protocol::{BatchEntry, Rename};
    use cairn_types::CellPath;

    fn parts(entries: Vec<BatchEntry>) -> Vec<usize> {
        let parts = BatchParts { entries: entries.into_iter(), kept: None };
        let count = |part: cairn_protocol::Batch| {
            assert_eq!(part.oversized(), None);
            part.entries.len()
        };
        parts.map(count).collect()
    }

    #[test]
    fn any_number_of_entries_of_any_size_is_cut_into_parts_within_the_limits() {
        assert_eq!(parts(vec![]), [0; 0]);
        let short = BatchEntry::from(stat(&CellPath::root()));
        assert_eq!(parts(vec![short; 2 * PART_COUNT + 1]), [PART_COUNT, PART_COUNT, 1]);
        let path = CellPath::parse(&"/n".repeat(2048)).expect("the longest path");
        let long = Rename { from: path.clone(), to: path, ..Rename::default() };
        let cut = parts(vec![long.into(); 300]);
        assert_eq!(cut, [128, 128, 44]);
    }
}
