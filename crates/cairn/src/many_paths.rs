//! Many paths of a command line, looked up together: one request for those of each cell.

use crate::cli_error::{CliError, Doing, Tally};
use crate::globs::expand;
use crate::session::{RemotePath, Session};
use cairn_client::{Cell, Error};
use cairn_types::{CellPath, Entry};
use std::collections::BTreeMap;
use std::future::Future;

/// What each path stands for, or why it stands for nothing; in the order in which they were
/// written, and several where one has a pattern.
pub(crate) async fn places(
    session: &Session,
    texts: &[String],
) -> Vec<Result<RemotePath, CliError>> {
    let mut all = Vec::with_capacity(texts.len());
    for text in texts {
        match matching(session, text).await {
            Ok(places) => all.extend(places.into_iter().map(Ok)),
            Err(error) => all.push(Err(error)),
        }
    }
    all
}

/// What one path stands for, which may be one thing only.
///
/// # Errors
/// Where it stands for nothing or for several things.
pub(crate) async fn the_one(session: &Session, text: &str) -> Result<RemotePath, CliError> {
    let place = session.remote_path(text).await?;
    // What is not there yet may be waited for.
    let mut found = expand(place.clone()).await.unwrap_or_else(|_| vec![place]);
    if found.len() > 1 {
        let why = format!("{} paths match", found.len());
        let doing = format!("looking for {text}");
        return Err(CliError::usage(doing, why, "name one of them"));
    }
    Ok(found.pop().expect("one at least"))
}

/// What all paths stand for that stand for something; the failures of the others are told.
///
/// # Errors
/// Only where going on makes no sense.
pub(crate) async fn sources(
    session: &Session,
    texts: &[String],
    tally: &mut Tally,
) -> Result<Vec<RemotePath>, CliError> {
    let mut all = Vec::new();
    for place in places(session, texts).await {
        match place {
            Ok(place) => all.push(place),
            Err(error) => tally.note(Err(error))?,
        }
    }
    Ok(all)
}

/// What one path stands for.
///
/// # Errors
/// Where it stands for nothing.
pub(crate) async fn matching(session: &Session, text: &str) -> Result<Vec<RemotePath>, CliError> {
    expand(session.remote_path(text).await?).await
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
    let there: Vec<&RemotePath> = all.iter().filter_map(|place| place.as_ref().ok()).collect();
    let look = |cell: Cell, paths: Vec<CellPath>| async move {
        match lengths {
            Lengths::Recorded => cell.look_many(&paths).await,
            Lengths::Acknowledged => cell.stat_many(&paths).await,
        }
    };
    let mut seen = ask_many(&there, what, look).await.into_iter();
    let mut next = || seen.next().expect("an answer for each place");
    all.into_iter().map(|place| place.and_then(|place| Ok((place, next()?)))).collect()
}

/// Makes directories and those above them; one that is there is no failure. Answers stand in the
/// order of the places.
///
/// Level by level: below a directory that is missing, all would wait for whoever makes it, and each
/// for the one before (R35).
pub(crate) async fn make_directories(places: &[RemotePath]) -> Vec<Result<(), CliError>> {
    let mut levels: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (index, place) in places.iter().enumerate() {
        levels.entry(place.path.names().count()).or_default().push(index);
    }
    let make = |cell: Cell, paths: Vec<CellPath>| async move {
        let made = cell.make_directories(&paths, true).await;
        made.into_iter().map(|made| made.map(drop)).collect()
    };
    let mut all: Vec<Option<Result<(), CliError>>> = places.iter().map(|_| None).collect();
    for level in levels.values() {
        let of_level: Vec<&RemotePath> = level.iter().map(|index| &places[*index]).collect();
        let made = ask_many(&of_level, "making the directory", make).await;
        for (index, made) in level.iter().zip(made) {
            all[*index] = Some(made);
        }
    }
    all.into_iter().map(|made| made.expect("each place is on one level")).collect()
}
