//! Many paths of a command line, looked up together: one request for those of each cell.

use crate::cli_error::{CliError, Doing};
use crate::session::{RemotePath, Session};
use cairn_client::{Cell, Error};
use cairn_types::{CellPath, Entry};
use std::collections::BTreeMap;
use std::future::Future;

/// Each path with its place, or why it has none; in the order in which they were written.
pub(crate) async fn places<'a>(
    session: &Session,
    texts: &'a [String],
) -> Vec<(&'a str, Result<RemotePath, CliError>)> {
    let mut all = Vec::with_capacity(texts.len());
    for text in texts {
        all.push((text.as_str(), session.remote_path(text).await));
    }
    all
}

/// Asks of each cell all of its places at once; answers stand in the order of the places.
///
/// `ask` is one of the client's `…_many`, and `what` says what was being done to a place.
pub(crate) async fn ask_many<T, F>(
    places: &[&RemotePath],
    what: &str,
    ask: impl Fn(Cell, Vec<CellPath>) -> F,
) -> Vec<Result<T, CliError>>
where
    F: Future<Output = Vec<Result<T, Error>>>,
{
    let mut all: Vec<Option<Result<T, CliError>>> = places.iter().map(|_| None).collect();
    let open = |all: &[Option<_>]| all.iter().position(Option::is_none);
    while let Some(first) = open(&all) {
        let address = &places[first].address;
        let of_cell = |index: &usize| places[*index].address == *address;
        let indexes: Vec<usize> = (0..places.len()).filter(of_cell).collect();
        let paths = indexes.iter().map(|index| places[*index].path.clone()).collect();
        let answers = ask(places[first].cell.clone(), paths).await;
        assert_eq!(answers.len(), indexes.len(), "the library answers each path once");
        for (index, answer) in indexes.into_iter().zip(answers) {
            all[index] = Some(answer.doing(|| format!("{what} {}", places[index])));
        }
    }
    all.into_iter().flatten().collect()
}

/// Which lengths of files are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lengths {
    /// Those that the master has recorded: it alone is asked.
    Recorded,
    /// The acknowledged ones: of a file that is being written, its primary is asked.
    Acknowledged,
}

/// Each path with its place and what stands there, in the order in which they were written. `what`
/// says what is being done.
pub(crate) async fn entries(
    session: &Session,
    texts: &[String],
    what: &str,
    lengths: Lengths,
) -> Vec<Result<(RemotePath, Entry), CliError>> {
    let all = places(session, texts).await;
    let there: Vec<&RemotePath> = all.iter().filter_map(|(_, place)| place.as_ref().ok()).collect();
    let look = |cell: Cell, paths: Vec<CellPath>| async move {
        match lengths {
            Lengths::Recorded => cell.look_many(&paths).await,
            Lengths::Acknowledged => cell.stat_many(&paths).await,
        }
    };
    let mut seen = ask_many(&there, what, look).await.into_iter();
    let mut next = || seen.next().expect("an answer for each place");
    all.into_iter().map(|(_, place)| place.and_then(|place| Ok((place, next()?)))).collect()
}

/// Makes directories and those above them; one that is there is no failure.
///
/// Level by level: below a directory that is missing, all would wait for whoever makes it, and each
/// for the one before (R35).
pub(crate) async fn make_directories(places: &[RemotePath]) -> Vec<Result<(), CliError>> {
    let mut levels: BTreeMap<usize, Vec<&RemotePath>> = BTreeMap::new();
    for place in places {
        levels.entry(place.path.names().count()).or_default().push(place);
    }
    let make = |cell: Cell, paths: Vec<CellPath>| async move {
        let made = cell.make_directories(&paths, true).await;
        made.into_iter().map(|made| made.map(drop)).collect()
    };
    let mut all = Vec::with_capacity(places.len());
    for level in levels.values() {
        all.extend(ask_many(level, "making the directory", make).await);
    }
    all
}
