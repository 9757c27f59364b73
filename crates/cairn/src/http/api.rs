//! What the HTTP door tells as JSON: what the commands tell with `--json`, by running these.
//!
//! - AP1: what is told is what the command of the same name tells: there is no second shape of it.
//! - AP2: what a client names is a path of this cell, never an option, and never the address of
//!   another cell.
//! - AP3: only commands that change nothing have a path here.

use crate::cli_error::CliError;
use crate::exit_codes::Exit;
use crate::output::Output;
use crate::session::Session;
use std::collections::BTreeSet;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

/// Runs a command line of a client's command that changes nothing; main has it.
pub(crate) type RunCommand = for<'a> fn(
    Vec<String>,
    &'a Session,
    &'a Arc<Output>,
)
    -> Pin<Box<dyn Future<Output = Result<(), CliError>> + 'a>>;

/// Bytes of one answer.
const ANSWER_SIZE_MAX: usize = 1 << 20;
/// Values of one answer.
const VALUE_COUNT_MAX: usize = 5_000;
/// Chunks of a file that one answer tells of, each by a kilobyte or so. The only thread here does
/// nothing else while it puts them together.
const CHUNK_COUNT_MAX: usize = 1_024;

/// What a query may say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ApiParameter {
    /// A path of the cell, which has to be said.
    Path,
    /// The same; where it is not said, the root.
    Directory,
    /// `true` for this option of the command.
    Flag(&'static str),
}

impl ApiParameter {
    /// As the query calls it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Path | Self::Directory => "path",
            Self::Flag(option) => option.trim_start_matches('-'),
        }
    }

    /// Whether it has to be said.
    pub(crate) fn is_required(self) -> bool {
        matches!(self, Self::Path)
    }
}

/// One path below `/api/v1/`.
#[derive(Debug)]
pub(crate) struct ApiRoute {
    /// What stands behind `/api/v1/`.
    pub(crate) name: &'static str,
    /// The command that answers, and its options.
    pub(crate) command: &'static [&'static str],
    /// What it tells, for people.
    pub(crate) about: &'static str,
    /// What may be asked.
    pub(crate) parameters: &'static [ApiParameter],
    /// Whether it tells a list of values, and not one.
    pub(crate) is_list: bool,
}

/// All of them.
pub(crate) const ROUTES: &[ApiRoute] = &[
    route("status", &["status"], "How the cell is: health and its reasons, counts, jobs, servers"),
    list("servers", &["servers"], "The chunkservers: state, chunks, leases, space", &[]),
    list("disks", &["servers", "--disks"], "Their data directories", &[]),
    list("resources", &["status", "--resources"], "What each process takes, and may take", &[]),
    route("masters", &["masters"], "The masters: who is in charge, how far each is"),
    list("jobs", &["jobs"], "What the cell is at, and how far", &[]),
    list("ls", &["ls"], "Names in a directory, or what can be brought back", LS),
    list(
        "stat",
        &["stat"],
        "What a path stands for; with chunks=true its chunks and their replicas",
        &[ApiParameter::Path, ApiParameter::Flag("--chunks")],
    ),
    list("explain", &["explain"], "Why a path is as it is", &[ApiParameter::Path]),
];

/// What `ls` may be asked.
const LS: &[ApiParameter] = &[
    ApiParameter::Directory,
    ApiParameter::Flag("--all"),
    ApiParameter::Flag("--directory"),
    ApiParameter::Flag("--recursive"),
    ApiParameter::Flag("--deleted"),
];

const fn route(
    name: &'static str,
    command: &'static [&'static str],
    about: &'static str,
) -> ApiRoute {
    ApiRoute { name, command, about, parameters: &[], is_list: false }
}

const fn list(
    name: &'static str,
    command: &'static [&'static str],
    about: &'static str,
    parameters: &'static [ApiParameter],
) -> ApiRoute {
    ApiRoute { name, command, about, parameters, is_list: true }
}

/// Runs the command that answers; its JSON.
///
/// # Errors
/// What the command complains of, or that a query says what it may not.
pub(crate) async fn answer(
    route: &ApiRoute,
    query: &str,
    session: &Session,
    run: RunCommand,
) -> Result<Vec<u8>, CliError> {
    let words = words(route, query)?;
    let output = Arc::new(Output::kept(ANSWER_SIZE_MAX, VALUE_COUNT_MAX, CHUNK_COUNT_MAX));
    let done = run(words, session, &output).await;
    let kept = output.take_kept();
    if kept.is_cut {
        let doing = format!("telling {}", route.name);
        let why = "there is more of it than one answer holds";
        let advice = format!("'cairn {} --json' tells all", route.command.join(" "));
        return Err(CliError::usage(doing, why, advice));
    }
    done?;
    let all = kept.values.join(&b',');
    Ok(if route.is_list { [b"[", &all[..], b"]\n"].concat() } else { [&all[..], b"\n"].concat() })
}

/// The command line that a query stands for (AP2).
pub(crate) fn words(route: &ApiRoute, query: &str) -> Result<Vec<String>, CliError> {
    let refuse = |why: String| {
        let advice = "/api/v1/openapi.json says what may be asked";
        Err(CliError::usage(format!("reading the query of {}", route.name), why, advice))
    };
    let mut words: Vec<String> = vec!["cairn".to_owned()];
    words.extend(route.command.iter().map(|word| (*word).to_owned()));
    let (mut place, mut said) = (None, BTreeSet::new());
    for (name, says) in form_urlencoded::parse(query.as_bytes()) {
        if !said.insert(name.clone()) {
            return refuse(format!("{name} is said twice"));
        }
        let known = route.parameters.iter().find(|parameter| parameter.name() == name);
        match known {
            None => return refuse(format!("'{name}' is nothing that it knows")),
            Some(ApiParameter::Flag(option)) => match &*says {
                "true" => words.push((*option).to_owned()),
                "false" => {}
                other => return refuse(format!("{name} is true or false, not '{other}'")),
            },
            Some(ApiParameter::Path | ApiParameter::Directory) if !says.starts_with('/') => {
                return refuse(format!("'{says}' is no path of this cell"));
            }
            Some(ApiParameter::Path | ApiParameter::Directory) => place = Some(says.into_owned()),
        }
    }
    let missing = route.parameters.iter().find(|it| it.is_required() && place.is_none());
    if let Some(missing) = missing {
        return refuse(format!("{} is not said", missing.name()));
    }
    if let Some(place) = place {
        words.extend(["--".to_owned(), place]);
    }
    Ok(words)
}

/// The status that says how a command failed.
pub(crate) fn status_of(exit: Exit) -> hyper::StatusCode {
    match exit {
        Exit::Usage | Exit::WrongKind => hyper::StatusCode::BAD_REQUEST,
        Exit::NotFound => hyper::StatusCode::NOT_FOUND,
        Exit::Denied => hyper::StatusCode::FORBIDDEN,
        Exit::Unreachable | Exit::NotNow | Exit::Unknown => hyper::StatusCode::SERVICE_UNAVAILABLE,
        _ => hyper::StatusCode::INTERNAL_SERVER_ERROR,
    }
}

#[cfg(test)]
mod tests {
    use super::{ApiRoute, ROUTES, words};

    fn route(name: &str) -> &'static ApiRoute {
        ROUTES.iter().find(|route| route.name == name).expect("is there")
    }

    #[test]
    fn a_query_names_paths_of_this_cell_and_nothing_else() {
        let said = |name, query| words(route(name), query).map_err(|error| error.to_string());
        let words = said("stat", "path=/a%20b%2Fc&chunks=true").expect("good");
        assert_eq!(words, ["cairn", "stat", "--chunks", "--", "/a b/c"]);
        assert_eq!(said("ls", "").expect("the root"), ["cairn", "ls"]);
        let all = said("ls", "all=true&deleted=true&recursive=false").expect("good");
        assert_eq!(all, ["cairn", "ls", "--all", "--deleted"]);
        for (name, query, part) in [
            ("ls", "path=cairn://other:1/", "no path of this cell"),
            ("ls", "path=-R", "no path of this cell"),
            ("explain", "path=cairn://other:1/x", "no path of this cell"),
            ("explain", "path=--help", "no path of this cell"),
            ("explain", "path=1.1", "no path of this cell"),
            ("explain", "", "path is not said"),
            ("stat", "chunks=true", "path is not said"),
            ("stat", "path=/a&chunks=yes", "true or false"),
            ("status", "x=1", "'x' is nothing"),
            ("stat", "path=/a&path=/b", "path is said twice"),
            ("stat", "path=/a&chunks=true&chunks=false", "chunks is said twice"),
        ] {
            let refusal = said(name, query).expect_err("is refused");
            assert!(refusal.contains(part), "{query}: {refusal}");
        }
    }
}
