//! `cairn rpclog`: what servers' diagnostic logs tell: requests and replies, matched across
//! machines, broken down as in the paper's tables, replayed as load (GFS §5.3, §6.3).

mod breakdown;
mod exchanges;
mod live;
mod opening;
mod replay;
mod show;

use crate::cli_error::CliError;
use crate::output::Output;
use crate::session::Session;
use clap::{Args, Subcommand};

/// Arguments of `rpclog`.
#[derive(Args, Debug)]
pub(crate) struct RpclogArguments {
    #[command(subcommand)]
    verb: RpclogVerb,
}

#[derive(Debug, Subcommand)]
enum RpclogVerb {
    /// Show requests, replies and events in the order of their times
    Show(show::ShowArguments),
    /// Put requests and replies of several servers' logs together, and tell what has no partner
    Match(exchanges::MatchArguments),
    /// Tables of a workload: operations and bytes by size, requests to masters by type
    Breakdown(breakdown::BreakdownArguments),
    /// Do to a cell again what clients did, with names under one directory and made-up data
    Replay(replay::ReplayArguments),
}

/// Runs it.
pub(crate) async fn run(
    arguments: RpclogArguments,
    session: &Session,
    output: &Output,
) -> Result<(), CliError> {
    match arguments.verb {
        RpclogVerb::Show(it) => show::run(it, session, output).await,
        RpclogVerb::Match(it) => exchanges::run(&it, output),
        RpclogVerb::Breakdown(it) => breakdown::run(&it, output),
        RpclogVerb::Replay(it) => replay::run(it, session, output).await,
    }
}
