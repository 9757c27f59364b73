//! The command line: every command, its flags, its environment.
//!
//! `-h` is help but with commands for which it means "sizes for people"; `--help` is help
//! everywhere. A flag that is given twice is as good as given once, so that aliases work.

use crate::cli_error::CliError;
use crate::commands;
use crate::local_users::of_somebody;
use cairn_types::{GROUPS_MAX, Identity};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;
use clap::{ArgAction, ArgMatches, CommandFactory, FromArgMatches, Parser, Subcommand};
use std::ffi::OsString;
use std::num::ParseIntError;
use std::path::PathBuf;

/// What stands above the options that every command has.
const EVERYWHERE: &str = "Everywhere";

/// Cairn, a distributed file system.
#[derive(Debug, Parser)]
#[command(name = "cairn", version, disable_help_flag = true, disable_version_flag = true)]
#[command(args_override_self = true, max_term_width = 100)]
pub(crate) struct Arguments {
    /// The cell: host:port, or several after commas [default: 127.0.0.1:7400]
    #[arg(long, global = true, help_heading = EVERYWHERE)]
    #[arg(env = "CAIRN_CELL", value_name = "ADDRESS")]
    pub(crate) cell: Option<String>,
    /// Seconds that one operation may take [default: 30; 5 for a cell that never answered]
    #[arg(long, global = true, help_heading = EVERYWHERE)]
    #[arg(env = "CAIRN_DEADLINE", value_name = "SECONDS")]
    pub(crate) deadline: Option<u64>,
    /// Ask shadow masters, whose word may be a little behind, and leave the primary master alone
    #[arg(long, global = true, help_heading = EVERYWHERE)]
    pub(crate) read_only: bool,
    /// Ask as this user and these groups, by number [default: as who runs this]
    #[arg(long = "as", global = true, help_heading = EVERYWHERE)]
    #[arg(env = "CAIRN_AS", value_name = "UID[:GID[,GID...]]", value_parser = identity)]
    pub(crate) identity: Option<Identity>,
    /// A settings file (TOML)
    #[arg(long, global = true, help_heading = EVERYWHERE)]
    #[arg(env = "CAIRN_CONFIG", value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// One JSON value a line
    #[arg(long, global = true, help_heading = EVERYWHERE)]
    pub(crate) json: bool,
    /// Print help
    #[arg(short = 'h', long, global = true, help_heading = EVERYWHERE, action = ArgAction::Help)]
    help: Option<bool>,
    /// Print version
    #[arg(short = 'V', short_alias = 'v', long, action = ArgAction::Version)]
    version: Option<bool>,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// A user and groups as people write them; without a group, the one of the same number.
fn identity(text: &str) -> Result<Identity, String> {
    let write_it = |_: ParseIntError| "write it as UID, or UID:GID,GID".to_owned();
    let (uid, groups) = text.split_once(':').unwrap_or((text, text));
    let number = |text: &str| text.parse().map_err(write_it).and_then(of_somebody);
    let uid = number(uid)?;
    let groups = groups.split(',').map(number).collect::<Result<Vec<u32>, _>>()?;
    if groups.len() > GROUPS_MAX {
        return Err(format!("{} groups; the limit is {GROUPS_MAX}", groups.len()));
    }
    let (gid, groups) = groups.split_first().expect("a text has one part at least");
    Ok(Identity { uid, gid: *gid, groups: groups.to_vec() })
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// What runs servers, and so needs no cell to be there.
    #[command(flatten)]
    Server(ServerCommand),
    /// What talks to a cell.
    #[command(flatten)]
    Client(ClientCommand),
}

/// Commands that run servers.
#[derive(Debug, Subcommand)]
pub(crate) enum ServerCommand {
    /// Run a whole cell in this process, for development
    Dev(commands::dev::DevArguments),
    /// Show a cell at work: store, append, kill the master and a server, verify every byte
    Demo(commands::demo::DemoArguments),
    /// Run a master
    Master(commands::master::MasterArguments),
    /// Run a chunkserver
    Chunkserver(commands::chunkserver::ChunkserverArguments),
    /// Measure a cell of its own, and a bare chain beside it
    Bench(cairn_bench::Bench),
    /// Processes that a bench is made of.
    #[command(flatten)]
    BenchPart(cairn_bench::BenchPart),
    /// Print what a shell needs to complete commands and flags
    Completions(commands::completions::CompletionsArguments),
    /// Print the manual page, or write one for each command
    Man(commands::man::ManArguments),
    /// Print version
    Version,
    /// Clean up after a demo or dev cell, however it ends
    #[command(hide = true)]
    Janitor,
}

/// Commands of clients.
#[derive(Debug, Subcommand)]
pub(crate) enum ClientCommand {
    /// List directories
    Ls(commands::ls::LsArguments),
    /// Show what a path stands for
    Stat(commands::stat::StatArguments),
    /// Make empty files, and say how they are written
    Create(commands::create::CreateArguments),
    /// Make directories
    Mkdir(commands::mkdir::MkdirArguments),
    /// Store local files in the cell
    Put(commands::put::PutArguments),
    /// Fetch files from the cell
    Get(commands::get::GetArguments),
    /// Write files to stdout
    Cat(commands::cat::CatArguments),
    /// Write the start of files to stdout
    Head(commands::head::HeadArguments),
    /// Write the end of a file to stdout, and follow it
    Tail(commands::tail::TailArguments),
    /// Append records to a file that many may append to at once
    Append(commands::append::AppendArguments),
    /// Follow log files of this machine, each line exactly once in a stream
    Ship(commands::ship::ShipArguments),
    /// The producers of a stream: epochs, numbers, cursors; and forgetting one
    Producers(commands::producers::ProducersArguments),
    /// Say whether a producer's record is in a stream
    Has(commands::has::HasArguments),
    /// Replace bytes of a stream by as many others, while nobody else writes it
    Replace(commands::replace::ReplaceArguments),
    /// Copy files within the cell, or between cells
    Cp(commands::cp::CpArguments),
    /// Rename or move
    Mv(commands::mv::MvArguments),
    /// Copy a file or a tree as it is now, without its bytes
    Snapshot(commands::snapshot::SnapshotArguments),
    /// Remove files, and directories with -r
    Rm(commands::rm::RmArguments),
    /// Bring back what was removed
    Undelete(commands::undelete::UndeleteArguments),
    /// Change who may do what with files and directories
    Chmod(commands::chmod::ChmodArguments),
    /// Change whose files and directories are
    Chown(commands::chmod::ChownArguments),
    /// Change of which group files and directories are
    Chgrp(commands::chmod::ChgrpArguments),
    /// Set when files were changed last; make those that are not there
    Touch(commands::touch::TouchArguments),
    /// Show or set how files are kept: replication, deletion, durability
    Policy(commands::policy::PolicyArguments),
    /// Show or set how many names and bytes may lie below a directory
    Quota(commands::quota::QuotaArguments),
    /// Find paths by name, kind, size and age
    Find(commands::find::FindArguments),
    /// Sum the lengths of files
    Du(commands::du::DuArguments),
    /// The room of the cell
    Df(commands::df::DfArguments),
    /// The state of the cell on one screen
    Status(commands::status::StatusArguments),
    /// The cell at work, looked at each second: rates, the busiest clients, files and servers
    Top(commands::top::TopArguments),
    /// The chunkservers
    Servers(commands::servers::ServersArguments),
    /// The masters of the cell, and making a group of them
    Masters(commands::masters::MastersArguments),
    /// Empty a server, so that it may be switched off
    Drain(commands::drain::DrainArguments),
    /// Empty a server no more
    Undrain(commands::drain::UndrainArguments),
    /// Move chunks until all servers are equally full
    Balance(commands::balance::BalanceArguments),
    /// What the cell is at: jobs, how far they are, how long they will take
    Jobs(commands::jobs::JobsArguments),
    /// The settings of the cell, and changing those that may be changed
    Settings(commands::settings::SettingsArguments),
    /// Diagnostic logs of servers: show, match, break down, replay
    Rpclog(commands::rpclog::RpclogArguments),
    /// Check the files against the chunkservers: what is missing, damaged or not needed
    Fsck(commands::fsck::FsckArguments),
    /// List chunks that the master's log does not know, or let go of them
    Lost(commands::lost::LostArguments),
    /// Decide which replica a chunk goes on with that has no good ones
    Recover(commands::recover::RecoverArguments),
    /// Say why a path or chunk is as it is
    Explain(commands::explain::ExplainArguments),
    /// One process of a bench's load
    #[command(hide = true)]
    BenchLoad(cairn_bench::LoadProcess),
}

impl ClientCommand {
    /// Whether it only reads names and bytes, so that a shadow master's word may do for it.
    pub(crate) fn only_reads(&self) -> bool {
        matches!(
            self,
            Self::Ls(_)
                | Self::Stat(_)
                | Self::Get(_)
                | Self::Cat(_)
                | Self::Head(_)
                | Self::Tail(_)
                | Self::Find(_)
                | Self::Du(_)
        )
    }

    /// How many seconds it gives an operation where nobody said: what is lost is asked for block by
    /// block, each in vain.
    pub(crate) fn usual_deadline(&self) -> Option<u64> {
        const SALVAGE_DEADLINE_S: u64 = 5;
        matches!(self, Self::Get(get) if get.salvage).then_some(SALVAGE_DEADLINE_S)
    }
}

/// Options of clients that mean nothing to a command that runs servers: not shown, and refused
/// where they stand on the command line. In the environment they are for other commands.
fn meaningless_to(command: &str) -> &'static [&'static str] {
    match command {
        "ls" | "stat" | "get" | "cat" | "head" | "tail" | "find" | "du" => &[],
        "dev" | "master" | "chunkserver" | "completions" | "man" => {
            &["cell", "deadline", "json", "read_only", "identity"]
        }
        "demo" => &["cell", "json", "read_only", "identity"],
        "bench" => &["cell", "read_only", "identity"],
        _ => &["read_only"],
    }
}

/// The commands as they are shown.
pub(crate) fn shown() -> clap::Command {
    let mut all = Arguments::command();
    let everywhere: Vec<clap::Arg> = all.get_arguments().cloned().collect();
    let names: Vec<String> =
        all.get_subcommands().map(|command| command.get_name().to_owned()).collect();
    for name in names {
        // An option of its own keeps a command from getting the one that stands everywhere.
        let hidden =
            |option: &&clap::Arg| meaningless_to(&name).contains(&option.get_id().as_str());
        let hidden = everywhere.iter().filter(hidden).map(|option| option.clone().hide(true));
        all = all.mut_subcommand(&name, |command| with_own_help(command.args(hidden), &everywhere));
    }
    all
}

/// Takes the letter of help away from it where the command has that for something else.
fn with_own_help(command: clap::Command, everywhere: &[clap::Arg]) -> clap::Command {
    if !command.get_arguments().any(|option| option.get_short() == Some('h')) {
        return command;
    }
    let help = everywhere.iter().find(|option| option.get_id() == "help");
    let help = help.expect("help is everywhere").clone();
    command.arg(help.short(None))
}

/// Refuses what would be taken and then not be obeyed.
fn refuse_meaningless(matches: &ArgMatches) -> Result<(), CliError> {
    // Without a command, what follows says so.
    let Some((command, own)) = matches.subcommand() else { return Ok(()) };
    let said = |option: &&&str| own.value_source(option) == Some(ValueSource::CommandLine);
    match meaningless_to(command).iter().find(said) {
        None => Ok(()),
        Some(option) => Err(CliError::usage(
            "reading the command line",
            format!("'--{}' means nothing to 'cairn {command}'", option.replace('_', "-")),
            "--help shows what there is",
        )),
    }
}

impl Arguments {
    /// Reads the command line. Help and version are printed here, and are no failure.
    ///
    /// # Errors
    /// One line for whatever it cannot be; `None` where there is nothing more to do.
    pub(crate) fn read(
        arguments: impl Iterator<Item = OsString>,
    ) -> Result<Option<Self>, CliError> {
        let words = with_unix_spelling(arguments);
        let matches = shown().try_get_matches_from(&words);
        if let Ok(matches) = &matches {
            refuse_meaningless(matches)?;
        }
        match matches.and_then(|matches| Self::from_arg_matches(&matches)) {
            Ok(arguments) => Ok(Some(arguments)),
            Err(error) if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
                let _ = error.print();
                let why = "no command given";
                Err(CliError::usage("reading the command line", why, "'cairn ls /' is a start"))
            }
            Err(error) if !error.use_stderr() => {
                let _ = error.print();
                Ok(None)
            }
            Err(error) => Err(refusal(&error, &words)),
        }
    }
}

/// What `find` asks is written with one dash by everyone.
const FIND_TESTS: [&str; 7] =
    ["-name", "-type", "-size", "-mtime", "-maxdepth", "-print0", "-print"];

fn with_unix_spelling(arguments: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut all: Vec<OsString> = arguments.collect();
    if command_of(&all) == Some("find") {
        for argument in &mut all {
            if let Some(text) = argument.to_str()
                && FIND_TESTS.contains(&text)
            {
                *argument = format!("-{text}").into();
            }
        }
    }
    all
}

/// The word that names the command: the first that is neither an option nor the value of one.
fn command_of(arguments: &[OsString]) -> Option<&str> {
    let mut words = arguments.iter().skip(1).filter_map(|argument| argument.to_str());
    let all = Arguments::command();
    let of_all =
        |word: &str| all.get_arguments().find(|it| it.get_long() == word.strip_prefix("--"));
    loop {
        match words.next()? {
            word if !word.starts_with('-') => return Some(word),
            word if of_all(word).is_some_and(|it| it.get_action().takes_values()) => {
                words.next();
            }
            _ => {}
        }
    }
}

/// The option of which a value is wrong, as clap writes it, and the variable that it came from,
/// where it stands in none of the words.
fn variable_of(error: &clap::Error, words: &[OsString]) -> Option<(String, String)> {
    let Some(ContextValue::String(shown)) = error.get(ContextKind::InvalidArg) else { return None };
    // `--name <VALUE>`
    let long = shown.split(' ').next()?;
    let is_it = |option: &&clap::Arg| option.get_long() == long.strip_prefix("--");
    let command = Arguments::command();
    let variable = command.get_arguments().find(is_it)?.get_env()?.to_str()?;
    let says = |word: &str| {
        word.strip_prefix(long).is_some_and(|rest| rest.is_empty() || rest.starts_with('='))
    };
    let is_said = words.iter().filter_map(|word| word.to_str()).any(says);
    (!is_said).then(|| (shown.clone(), variable.to_owned()))
}

/// clap explains itself over several lines; a person gets one.
fn refusal(error: &clap::Error, words: &[OsString]) -> CliError {
    let text = error.render().to_string();
    let lines = || text.lines().map(str::trim).filter(|line| !line.is_empty());
    let first = lines().next().unwrap_or_default().trim_start_matches("error: ");
    let mut why = first.to_owned();
    if error.kind() == ErrorKind::MissingRequiredArgument {
        for line in lines().skip(1).take_while(|line| !line.starts_with("Usage")) {
            why.push(' ');
            why.push_str(line);
        }
    }
    if let Some((option, variable)) = variable_of(error, words) {
        why = why.replace(&option, &variable);
    }
    // Of clap's tips only those help that name what was perhaps meant.
    let helps = |line: &&str| line.starts_with("tip: a similar") || line.starts_with("[possible");
    let advice = lines().find(helps).unwrap_or("--help shows what there is");
    CliError::usage("reading the command line", why, advice.trim_start_matches("tip: "))
}

#[cfg(test)]
mod tests {
    use super::{Arguments, FIND_TESTS, meaningless_to, shown};
    use clap::CommandFactory;

    fn read(line: &str) -> Result<Option<Arguments>, String> {
        Arguments::read(line.split(' ').map(Into::into)).map_err(|complaint| complaint.to_string())
    }

    #[test]
    fn the_command_line_fits_together() {
        shown().debug_assert();
    }

    #[test]
    fn what_cannot_be_is_refused_in_one_line() {
        for (line, part) in [
            ("cairn ls --colour /", "'--colour'"),
            ("cairn lx /", "'lx'"),
            ("cairn put", "<SOURCE>"),
            ("cairn ls --deadline soon /", "'soon'"),
            ("cairn bench fly", "'fly'"),
            ("cairn find / -nam x", "'-n'"),
            ("cairn find / -size x", "'x'"),
            ("cairn find / -mtime 1k", "'1k'"),
            ("cairn dev --json", "'--json' means nothing to 'cairn dev'"),
            ("cairn --cell h master", "'--cell' means nothing to 'cairn master'"),
            ("cairn chunkserver --deadline 5", "'--deadline' means nothing"),
            ("cairn put --read-only x /x", "'--read-only' means nothing to 'cairn put'"),
            ("cairn demo --json", "'--json' means nothing to 'cairn demo'"),
            ("cairn bench write --cell h", "'--cell' means nothing"),
            ("cairn bench write --pairs 0", "0 is not in 1..=1000"),
            ("cairn bench write --megabytes 0", "0 is not in 1.."),
            ("cairn bench meta --operations 0", "0 is not in 1.."),
            ("cairn bench meta --batch 0", "0 is not in 1.."),
            ("cairn bench meta --files 9", "9 is not in 100.."),
            ("cairn bench meta --names d", "a, b, c"),
            ("cairn bench meta --only start,fly", "memory, start"),
            ("cairn bench meta --peer nfs", "hdfs"),
            ("cairn bench append --callers 0", "0 is not in 1.."),
            ("cairn bench append --processes 0", "0 is not in 1.."),
            ("cairn bench append --record-size 0", "0 is not in 1.."),
            ("cairn bench append --record-size 16777216", "16777216 is not in 1.."),
            ("cairn bench write --servers 9", "9 is not in 1..=3"),
            ("cairn demo --clients 0", "0 is not in 1.."),
            ("cairn demo --megabytes 99999999", "99999999 is not in 1.."),
            ("cairn dev --servers 0", "0 is not in 1.."),
            ("cairn policy --replication 0 /x", "0 is not in 1..=16"),
            ("cairn policy --replicas 17 /x", "17 is not in 1..=16"),
            ("cairn policy --keep-deleted soon /x", "write it as 30m, 12h, 7d, 0 or forever"),
            ("cairn policy --durability often /x", "buffered, synced"),
            ("cairn policy --inherit rack /x", "replication, keep-deleted"),
            ("cairn put -j 0 x /x", "0 is not in 1.."),
            ("cairn tail -n +3 /x", "it counts from the end"),
            ("cairn get -j 0 /x", "0 is not in 1.."),
            ("cairn cp -j 0 /x /y", "0 is not in 1.."),
        ] {
            let complaint = read(line).expect_err("cannot be");
            assert!(complaint.contains(part) && !complaint.contains('\n'), "{complaint}");
        }
    }

    #[test]
    fn what_means_nothing_to_a_command_is_not_shown_with_it() {
        let help = |name: &str| {
            let mut all = shown();
            all.build();
            let command = all.find_subcommand_mut(name).expect("a command");
            command.render_help().to_string()
        };
        assert!(help("ls").contains("--cell") && help("ls").contains("--json"));
        assert!(help("bench").contains("--json") && !help("bench").contains("--cell"));
        assert!(help("demo").contains("--deadline") && !help("demo").contains("--json"));
        for name in ["dev", "master", "chunkserver"] {
            let help = help(name);
            assert!(help.contains("--config"), "{help}");
            for option in ["--cell", "--deadline", "--json"] {
                assert!(!help.contains(option), "{name} {option}: {help}");
            }
        }
    }

    /// How the options of a command are written, without those that every command has.
    fn options_of(command: &clap::Command) -> Vec<String> {
        let everywhere = Arguments::command();
        let own = command.get_arguments().filter(|option| {
            !option.is_positional()
                && !option.is_hide_set()
                && !everywhere.get_arguments().any(|other| other.get_id() == option.get_id())
        });
        // Where there is a letter, that is what people write.
        let written = |option: &clap::Arg| match (option.get_long(), option.get_short()) {
            (_, Some(short)) => format!("-{short}"),
            (long, None) => format!("--{}", long.expect("long or short")),
        };
        own.map(written).collect()
    }

    #[test]
    fn the_guide_has_a_line_for_every_command_with_each_of_its_options() {
        let guide = include_str!("../../../docs/guide/commands.md");
        let all = shown();
        let visible = all.get_subcommands().filter(|command| !command.is_hide_set());
        let mut seen = 0;
        for command in visible {
            let name = command.get_name();
            let starts = [format!("| `{name}` "), format!("| `{name} ")];
            let line =
                guide.lines().find(|line| starts.iter().any(|start| line.starts_with(start)));
            let line = line.unwrap_or_else(|| panic!("{name} is not in the guide"));
            for part in command.get_subcommands().map(clap::Command::get_name) {
                let mut of_command =
                    guide.lines().filter(|line| starts.iter().any(|start| line.starts_with(start)));
                let is_there = of_command.any(|line| line.contains(part));
                assert!(part == "help" || is_there, "{name} {part} is not there");
            }
            for option in options_of(command) {
                // As people write it for find; with_unix_spelling reads it so.
                let is_test = name == "find" && FIND_TESTS.contains(&&option[1..]);
                let dashes = if is_test { &option[1..] } else { &option[..] };
                let ends = [" ", "]", "`"].map(|end| format!("{dashes}{end}"));
                assert!(ends.iter().any(|end| line.contains(end)), "{name} {dashes}: {line}");
                seen += 1;
            }
        }
        assert!(seen > 40, "only {seen} options were looked for");
        let everywhere = guide.lines().find(|line| line.starts_with("Everywhere: "));
        let everywhere = everywhere.expect("what every command has");
        let command = Arguments::command();
        let options: Vec<&str> = command.get_opts().filter_map(clap::Arg::get_long).collect();
        assert!(options.contains(&"as") && options.len() > 6, "{options:?}");
        for option in options {
            assert!(everywhere.contains(&format!("`--{option}")), "{option}");
        }
        let refused: Vec<String> = (meaningless_to("bench").iter())
            .map(|id| match *id {
                "identity" => "`--as`".to_owned(),
                id => format!("`--{}`", id.replace('_', "-")),
            })
            .collect();
        let [first, second, last] = &refused[..] else { panic!("{refused:?}") };
        let line = format!("`bench` all but {first}, {second} and {last}");
        assert!(everywhere.contains(&line), "{line}");
    }

    #[test]
    fn find_takes_its_tests_with_one_dash_as_everywhere() {
        assert!(read("cairn find / -name *.log -type f").is_ok_and(|a| a.is_some()));
        assert!(read("cairn --as 0 --cell h find / -name *.log").is_ok_and(|a| a.is_some()));
    }
}
