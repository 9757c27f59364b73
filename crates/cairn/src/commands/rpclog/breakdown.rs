//! `cairn rpclog breakdown`: Tables 4, 5 and 6 of the paper, of one's own cell (GFS §6.3).

use super::opening::{open, reading, time_text, warn_of_gaps};
use crate::cli_error::{CliError, Doing};
use crate::output::{Output, Table, size_text};
use cairn_rpclog::{Breakdown, OperationKind, RequestClass, SIZE_CLASSES, SizeTally};
use clap::Args;
use serde_json::{Value, json};
use std::path::PathBuf;

/// The kinds, with their names in the tables.
const KINDS: [(OperationKind, &str, &str); 3] = [
    (OperationKind::Read, "READ", "read"),
    (OperationKind::Write, "WRITE", "write"),
    (OperationKind::Append, "RECORD APPEND", "append"),
];

/// Arguments of `rpclog breakdown`.
#[derive(Args, Debug)]
pub(super) struct BreakdownArguments {
    /// Data directories of servers, directories of many, or files
    #[arg(value_name = "DIR", required = true)]
    paths: Vec<PathBuf>,
}

/// Runs it.
pub(super) fn run(arguments: &BreakdownArguments, output: &Output) -> Result<(), CliError> {
    let told = Breakdown::of(open(&arguments.paths)?).doing(reading)?;
    if output.json() {
        output.value(&value(&told))?;
    } else {
        for line in lines(&told) {
            output.line(&line)?;
        }
    }
    output.flush()?;
    warn_of_gaps(told.dropped, told.damaged);
    Ok(())
}

fn percent(part: u64, all: u64) -> String {
    #[allow(clippy::cast_precision_loss, reason = "a percentage with one digit behind the point")]
    let share = 100.0 * part as f64 / all.max(1) as f64;
    match part {
        0 => "0".to_owned(),
        _ if share < 0.1 => "< .1".to_owned(),
        _ => format!("{share:.1}"),
    }
}

fn lines(told: &Breakdown) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some((first, last)) = told.span_us {
        lines.push(format!("from {} to {}", time_text(first), time_text(last)));
        lines.push(String::new());
    }
    lines.push("Operations by size, % (Table 4)".to_owned());
    lines.extend(by_size(told, |tally| &tally.operations, |count| count.to_string()));
    lines.push(String::new());
    lines.push("Bytes transferred by operation size, % (Table 5)".to_owned());
    lines.extend(by_size(told, |tally| &tally.bytes, |bytes| size_text(bytes, true)));
    lines.push(String::new());
    lines.push("Requests to masters by type, % (Table 6)".to_owned());
    let all = told.request_count();
    let mut table = Table::new(&[false, true, true]);
    table.row(["TYPE", "%", "REQUESTS"].map(str::to_owned));
    for class in RequestClass::ALL {
        let count = told.request_count_of(class);
        table.row([class.name().to_owned(), percent(count, all), count.to_string()]);
    }
    table.row(["all".to_owned(), String::new(), all.to_string()]);
    lines.extend(table.lines());
    lines.push(String::new());
    let mut table = Table::new(&[false, true, true]);
    table.row(["REQUEST", "%", "REQUESTS"].map(str::to_owned));
    let mut requests: Vec<_> = told.requests.iter().collect();
    requests.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    for (name, count) in requests {
        table.row([name.clone(), percent(*count, all), count.to_string()]);
    }
    lines.extend(table.lines());
    lines.push(String::new());
    lines.push(format!(
        "{} operations failed, {} mutations were asked again and had been done, {} times a length \
         was asked for",
        told.failed, told.repeated, told.lengths
    ));
    lines
}

/// One table with a column for each kind, and what all of a kind come to.
fn by_size(
    told: &Breakdown,
    of: impl Fn(&SizeTally) -> &[u64; SIZE_CLASSES.len()],
    shown: impl Fn(u64) -> String,
) -> Vec<String> {
    let mut table = Table::new(&[false, true, true, true]);
    let names = KINDS.map(|(_, name, _)| name.to_owned());
    table.row([vec!["SIZE".to_owned()], names.to_vec()].concat());
    let sums = KINDS.map(|(kind, ..)| of(told.tally(kind)).iter().sum::<u64>());
    for (class, (name, _)) in SIZE_CLASSES.iter().enumerate() {
        let cells = KINDS.iter().zip(sums);
        let cells = cells.map(|((kind, ..), sum)| percent(of(told.tally(*kind))[class], sum));
        table.row([(*name).to_owned()].into_iter().chain(cells));
    }
    table.row(["all".to_owned()].into_iter().chain(sums.map(shown)));
    table.lines()
}

fn value(told: &Breakdown) -> Value {
    let tally = |kind: OperationKind| {
        let tally = told.tally(kind);
        let classes = SIZE_CLASSES.iter().enumerate().map(|(class, (name, _))| {
            json!({
                "size": name,
                "operations": tally.operations[class],
                "bytes": tally.bytes[class],
            })
        });
        json!({
            "operations": tally.operation_count(),
            "bytes": tally.byte_count(),
            "by_size": classes.collect::<Vec<_>>(),
        })
    };
    let operations: serde_json::Map<_, _> =
        KINDS.iter().map(|(kind, _, name)| ((*name).to_owned(), tally(*kind))).collect();
    let types = RequestClass::ALL
        .map(|class| json!({ "type": class.name(), "requests": told.request_count_of(class) }));
    json!({
        "from_us": told.span_us.map(|span| span.0),
        "to_us": told.span_us.map(|span| span.1),
        "operations": operations,
        "requests": told.request_count(),
        "requests_by_type": types,
        "requests_by_rpc": told.requests,
        "failed": told.failed,
        "repeated": told.repeated,
        "lengths": told.lengths,
        "dropped": told.dropped,
    })
}

#[cfg(test)]
mod tests {
    use super::{lines, percent};
    use cairn_rpclog::Breakdown;

    #[test]
    fn parts_are_told_as_in_the_paper() {
        assert_eq!([percent(0, 10), percent(1, 3), percent(1, 5000)], ["0", "33.3", "< .1"]);
        assert_eq!(percent(0, 0), "0");
    }

    #[test]
    fn a_log_without_operations_makes_tables_of_zeros() {
        let text = lines(&Breakdown::default()).join("\n");
        assert!(text.contains("64K..128K") && text.contains("FindLeaseHolder"), "{text}");
    }
}
