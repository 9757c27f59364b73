//! `cairn rpclog match`: requests and replies of several servers' logs, put together.

use super::opening::{micros_text, open, reading, time_text, warn_of_gaps};
use crate::cli_error::{CliError, Doing};
use crate::output::{Output, Table};
use cairn_rpclog::{Exchange, ExchangeSide, LoneReason, Matched, name_of, role_name};
use cairn_types::ChunkHandle;
use clap::Args;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Exchanges without a partner that are listed without `--all`.
const LISTED_COUNT: usize = 20;

/// Arguments of `rpclog match`.
#[derive(Args, Debug)]
pub(super) struct MatchArguments {
    /// List every exchange, and not only those of which something is missing
    #[arg(long)]
    all: bool,
    /// Data directories of servers, directories of many, or files
    #[arg(value_name = "DIR", required = true)]
    paths: Vec<PathBuf>,
}

/// Runs it.
pub(super) fn run(arguments: &MatchArguments, output: &Output) -> Result<(), CliError> {
    let told = Matched::of(open(&arguments.paths)?).doing(reading)?;
    if output.json() {
        json_lines(&told, arguments.all, output)?;
    } else {
        text_lines(&told, arguments.all, output)?;
    }
    output.flush()?;
    warn_of_gaps(told.dropped, told.damaged);
    Ok(())
}

/// Exchanges of one rpc.
#[derive(Default)]
struct Summary {
    both: u64,
    one: u64,
    failed: u64,
    there_us: Vec<i64>,
    served_us: Vec<u64>,
    back_us: Vec<i64>,
}

fn summaries(told: &Matched) -> BTreeMap<String, Summary> {
    let mut all: BTreeMap<String, Summary> = BTreeMap::new();
    for exchange in &told.exchanges {
        let summary = all.entry(name_of(exchange.rpc)).or_default();
        match (&exchange.asker, &exchange.server) {
            (Some(_), Some(_)) => summary.both += 1,
            _ => summary.one += 1,
        }
        let sides = [&exchange.asker, &exchange.server];
        summary.failed += u64::from(sides.into_iter().flatten().any(|side| side.failed));
        if let Some((there, served, back)) = exchange.times_us() {
            summary.there_us.push(there);
            summary.served_us.push(served);
            summary.back_us.push(back);
        } else if let Some(served) = exchange.server.as_ref().and_then(served_us) {
            summary.served_us.push(served);
        }
    }
    all
}

fn served_us(side: &ExchangeSide) -> Option<u64> {
    side.replied_us.map(|replied| replied.saturating_sub(side.asked_us))
}

fn median<T: Copy + Ord>(mut values: Vec<T>) -> Option<T> {
    values.sort_unstable();
    values.get(values.len() / 2).copied()
}

fn text_lines(told: &Matched, all: bool, output: &Output) -> Result<(), CliError> {
    let mut table = Table::new(&[false, true, true, true, true, true, true]);
    let heads = ["RPC", "MATCHED", "ONE LOG", "FAILED", "THERE", "SERVED", "BACK"];
    table.row(heads.map(str::to_owned));
    for (rpc, summary) in summaries(told) {
        let signed = |value: Option<i64>| value.map_or_else(String::new, |it| format!("{it} us"));
        table.row([
            rpc,
            summary.both.to_string(),
            summary.one.to_string(),
            summary.failed.to_string(),
            signed(median(summary.there_us)),
            median(summary.served_us).map_or_else(String::new, micros_text),
            signed(median(summary.back_us)),
        ]);
    }
    for line in table.lines() {
        output.line(&line)?;
    }
    if all {
        output.line("")?;
        for exchange in &told.exchanges {
            output.line(&output.name(&exchange_text(exchange)))?;
        }
    }
    output.line("")?;
    output.line(&format!("without a partner: {}", told.lone.len()))?;
    let listed = if all { usize::MAX } else { LISTED_COUNT };
    for lone in told.lone.iter().take(listed) {
        let text = format!("  {}: {}", reason_text(lone.reason), exchange_text(&lone.exchange));
        output.line(&output.name(&text))?;
    }
    if told.lone.len() > listed {
        output.line(&format!("  and {} more; --all lists them", told.lone.len() - listed))?;
    }
    Ok(())
}

fn reason_text(reason: LoneReason) -> &'static str {
    match reason {
        LoneReason::NoReply => "no reply",
        LoneReason::NotReceived => "sent, and not received",
        LoneReason::NotSent => "received, and not sent",
    }
}

fn exchange_text(exchange: &Exchange) -> String {
    let (from, to) = ends(exchange);
    let began = time_text(exchange.began_us());
    let name = name_of(exchange.rpc);
    let times = match (exchange.times_us(), exchange.server.as_ref().and_then(served_us)) {
        (Some((there, served, back)), _) => {
            format!("  {there} us there, {} served, {back} us back", micros_text(served))
        }
        (None, Some(served)) => format!("  {} served", micros_text(served)),
        (None, None) => String::new(),
    };
    format!("{began} {name} #{}  {from} -> {to}{times}", exchange.request)
}

/// Who asked, and who was asked.
fn ends(exchange: &Exchange) -> (String, String) {
    let own = |side: &ExchangeSide| format!("{} {}", role_name(side.role), side.server);
    let other =
        |side: &ExchangeSide| format!("{} {}", role_name(side.other_role), side.other_address);
    match (&exchange.asker, &exchange.server) {
        (Some(asker), Some(server)) => (own(asker), own(server)),
        (Some(asker), None) => (own(asker), other(asker)),
        (None, Some(server)) => (other(server), own(server)),
        (None, None) => (String::new(), String::new()),
    }
}

fn json_lines(told: &Matched, all: bool, output: &Output) -> Result<(), CliError> {
    if all {
        for exchange in &told.exchanges {
            output.value(&exchange_row(exchange, None))?;
        }
    }
    for lone in &told.lone {
        output.value(&exchange_row(&lone.exchange, Some(lone.reason)))?;
    }
    let rpcs = summaries(told).into_iter().map(|(rpc, summary)| {
        json!({
            "rpc": rpc,
            "matched": summary.both,
            "one_log": summary.one,
            "failed": summary.failed,
            "there_us": median(summary.there_us),
            "served_us": median(summary.served_us),
            "back_us": median(summary.back_us),
        })
    });
    output.value(&json!({
        "exchanges": told.exchanges.len(),
        "matched": told.exchanges.iter().filter(|it| it.asker.is_some() && it.server.is_some())
            .count(),
        "one_sided": told.one_sided,
        "without_partner": told.lone.len(),
        "dropped": told.dropped,
        "damaged": told.damaged,
        "rpcs": rpcs.collect::<Vec<_>>(),
    }))
}

fn exchange_row(exchange: &Exchange, missing: Option<LoneReason>) -> Value {
    let (from, to) = ends(exchange);
    let times = exchange.times_us();
    let nouns = exchange.server.as_ref().or(exchange.asker.as_ref()).map(|side| &side.nouns);
    json!({
        "time_us": exchange.began_us(),
        "rpc": name_of(exchange.rpc),
        "request": exchange.request,
        "from": from,
        "to": to,
        "there_us": times.map(|it| it.0),
        "served_us": exchange.server.as_ref().and_then(served_us),
        "back_us": times.map(|it| it.2),
        "chunk": nouns.and_then(|it| it.handle).map(ChunkHandle::short),
        "session": nouns.and_then(|it| it.name).map(|it| format!("{:032x}", it.0)),
        "number": nouns.and_then(|it| it.name).map(|it| it.1),
        "missing": missing.map(reason_text),
    })
}
