//! Cairn: one binary, every command (design §11).
//!
//! ```text
//!   arguments ─┐
//!   settings  ─┴► commands/<one file each> ──► session (cells) ──► cairn-client
//!                        │                        commands that run servers ──► env-os
//!                        ▼
//!                 output, progress, complaint + exit code
//! ```
//! Knows how things are said. Never decides anything that two clients must agree on: that is the
//! library's and the servers' business.

// They panic where nobody reads any more: `Output` and `stderr::say` write instead (SE1).
#![warn(clippy::print_stdout, clippy::print_stderr)]

mod all_chunks;
mod arguments;
mod cell_address;
mod cli_error;
mod commands;
mod data_directory;
mod deleted_list;
mod destination;
mod doubled_targets;
mod entry_text;
mod exit_codes;
mod find_tests;
mod fresh_seed;
mod globs;
#[cfg(test)]
mod guide_commands;
mod http;
mod http_addresses;
mod interrupt;
mod limit_arguments;
mod local_users;
mod log_arguments;
mod log_form;
mod many_paths;
mod modes;
mod output;
mod preserve;
mod progress;
mod reading;
mod runtime;
mod server_start;
mod session;
mod settings;
mod shadow_notice;
mod side_by_side;
mod stderr;
mod storing;
mod stream_parts;
mod trouble_lines;

use arguments::{Arguments, ClientCommand, Command, ServerCommand};
use cairn_client::ShadowReads;
use cli_error::{CliError, Doing};
use output::Output;
use session::{ClientFlags, Session};
use settings::SettingsFile;
use std::future::Future;
use std::pin::Pin;
use std::process::ExitCode;
use std::sync::Arc;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    if std::env::args_os().any(|argument| argument == "--json") {
        cli_error::tell_programs();
    }
    let done =
        Arguments::read(std::env::args_os()).and_then(|arguments| arguments.map_or(Ok(()), run));
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(mut complaint) => {
            complaint.tell();
            ExitCode::from(complaint.exit().number())
        }
    }
}

fn run(arguments: Arguments) -> Result<(), CliError> {
    let file = SettingsFile::read(arguments.config.as_deref())?;
    let command = match arguments.command {
        Command::Server(command) => {
            return server_command(command, &file, arguments.json, arguments.deadline);
        }
        Command::Client(command) => command,
    };
    let shadow_reads = match (command.only_reads(), arguments.read_only) {
        (true, true) => ShadowReads::First,
        (true, false) => ShadowReads::WhenNoPrimary,
        (false, _) => ShadowReads::Never,
    };
    let (cell, deadline) = (arguments.cell, arguments.deadline);
    let usual_deadline = command.usual_deadline();
    let identity = arguments.identity;
    let flags = ClientFlags { cell, deadline, usual_deadline, shadow_reads, identity };
    let session = Session::new(flags, &file)?.for_a_person();
    let output = Arc::new(Output::stdout(arguments.json)?);
    let runtime = match &command {
        ClientCommand::BenchLoad(_) => runtime::one_thread(),
        _ => runtime::beside_the_caller(),
    };
    let runtime = runtime.doing(|| "starting".to_owned())?;
    let done = runtime.block_on(async {
        let done = client_command(command, &session, &output).await;
        session.tell_of_left_over();
        session.tell_of_shadows().await;
        done
    });
    // What was written before a failure still counts.
    let flushed = output.flush();
    done.and(flushed)
}

fn server_command(
    command: ServerCommand,
    file: &SettingsFile,
    json: bool,
    deadline: Option<u64>,
) -> Result<(), CliError> {
    match command {
        ServerCommand::Master(it) => commands::master::run(it, file, run_words),
        ServerCommand::Chunkserver(it) => commands::chunkserver::run(it, file),
        ServerCommand::Dev(it) => commands::dev::run(&it, file, run_words),
        ServerCommand::Demo(it) => commands::demo::run(&it, &session::options(deadline, file)?),
        ServerCommand::Bench(it) => Ok(it.run(&session::options(deadline, file)?, json)?),
        ServerCommand::BenchPart(it) => Ok(it.run()?),
        ServerCommand::Completions(it) => commands::completions::run(&it, arguments::shown()),
        ServerCommand::Man(it) => commands::man::run(&it, arguments::shown()),
        ServerCommand::Version => {
            let output = Output::stdout(false)?;
            output.line(concat!("cairn ", env!("CARGO_PKG_VERSION")))?;
            output.flush()
        }
        ServerCommand::Janitor => {
            cairn_testkit::clean_up_after_stdin().doing(|| "cleaning up".to_owned())
        }
    }
}

/// Runs the command line of a client's command, for whoever has words: the HTTP door.
fn run_words<'a>(
    words: Vec<String>,
    session: &'a Session,
    output: &'a Arc<Output>,
) -> Pin<Box<dyn Future<Output = Result<(), CliError>> + 'a>> {
    Box::pin(async move {
        match Arguments::read(words.into_iter().map(Into::into))? {
            Some(Arguments { command: Command::Client(command), .. }) => {
                client_command(command, session, output).await
            }
            // Help, or a server: nobody has a path to these.
            _ => Err(CliError::usage("answering", "there is no such answer", "")),
        }
    })
}

async fn client_command(
    command: ClientCommand,
    session: &Session,
    output: &Arc<Output>,
) -> Result<(), CliError> {
    match command {
        ClientCommand::Ls(it) => commands::ls::run(it, session, output).await,
        ClientCommand::Stat(it) => commands::stat::run(it, session, output).await,
        ClientCommand::Mkdir(it) => commands::mkdir::run(it, session, output).await,
        ClientCommand::Put(it) => commands::put::run(it, session, output).await,
        ClientCommand::Get(it) => commands::get::run(it, session, output).await,
        ClientCommand::Cat(it) => commands::cat::run(it, session, output).await,
        ClientCommand::Head(it) => commands::head::run(it, session, output).await,
        ClientCommand::Tail(it) => commands::tail::run(it, session, output).await,
        ClientCommand::Append(it) => commands::append::run(it, session, output).await,
        ClientCommand::Create(it) => commands::create::run(it, session, output).await,
        ClientCommand::Ship(it) => commands::ship::run(it, session, output).await,
        ClientCommand::Producers(it) => commands::producers::run(it, session, output).await,
        ClientCommand::Has(it) => commands::has::run(it, session, output).await,
        ClientCommand::Replace(it) => commands::replace::run(it, session, output).await,
        ClientCommand::Cp(it) => commands::cp::run(it, session, output).await,
        ClientCommand::Mv(it) => commands::mv::run(it, session, output).await,
        ClientCommand::Snapshot(it) => commands::snapshot::run(it, session, output).await,
        ClientCommand::Undelete(it) => commands::undelete::run(it, session, output).await,
        ClientCommand::Chmod(it) => commands::chmod::chmod(it, session, output).await,
        ClientCommand::Chown(it) => commands::chmod::chown(it, session, output).await,
        ClientCommand::Chgrp(it) => commands::chmod::chgrp(it, session, output).await,
        ClientCommand::Touch(it) => commands::touch::run(it, session, output).await,
        ClientCommand::Policy(it) => commands::policy::run(it, session, output).await,
        ClientCommand::Rpclog(it) => commands::rpclog::run(it, session, output).await,
        ClientCommand::Quota(it) => commands::quota::run(it, session, output).await,
        ClientCommand::Rm(it) => commands::rm::run(it, session, output).await,
        ClientCommand::Find(it) => commands::find::run(it, session, output).await,
        ClientCommand::Du(it) => commands::du::run(it, session, output).await,
        ClientCommand::Df(it) => commands::df::run(it, session, output).await,
        ClientCommand::Status(it) => commands::status::run(it, session, output).await,
        ClientCommand::Top(it) => commands::top::run(it, session, output).await,
        ClientCommand::Servers(it) => commands::servers::run(it, session, output).await,
        ClientCommand::Masters(it) => commands::masters::run(it, session, output).await,
        ClientCommand::Drain(it) => commands::drain::run(it, session, output).await,
        ClientCommand::Undrain(it) => commands::drain::undo(it, session, output).await,
        ClientCommand::Balance(it) => commands::balance::run(it, session, output).await,
        ClientCommand::Jobs(it) => commands::jobs::run(it, session, output).await,
        ClientCommand::Settings(it) => commands::settings::run(it, session, output).await,
        ClientCommand::Fsck(it) => commands::fsck::run(it, session, output).await,
        ClientCommand::Lost(it) => commands::lost::run(it, session, output).await,
        ClientCommand::Recover(it) => commands::recover::run(it, session, output).await,
        ClientCommand::Explain(it) => commands::explain::run(it, session, output).await,
        ClientCommand::BenchLoad(it) => Ok(it.run(session.cell().await?).await?),
    }
}

#[cfg(test)]
mod tests {
    use crate::arguments::{Arguments, Command};
    use crate::http::api::{ROUTES, words};

    #[test]
    fn every_path_of_the_api_leads_to_a_clients_command_that_is_there() {
        for route in ROUTES {
            let query = match route.parameters.iter().find(|it| it.is_required()) {
                Some(required) => format!("{}=/a", required.name()),
                None => String::new(),
            };
            let words = words(route, &query).expect("can be asked");
            let read = Arguments::read(words.into_iter().map(Into::into)).expect("is a command");
            assert!(matches!(read.expect("no help").command, Command::Client(_)));
        }
    }
}
