//! `cairn balance`: moves chunks until all servers are equally full.

use crate::cli_error::{CliError, Doing};
use crate::output::{Output, size_text};
use crate::session::Session;
use clap::Args;
use serde_json::json;

/// Arguments of `balance`.
#[derive(Args, Debug)]
pub(crate) struct BalanceArguments {
    /// How far from its share of all a server may stay, in percent of that share
    #[arg(long, value_name = "PERCENT", default_value_t = 10.0)]
    threshold: f64,
    /// Say what there would be to do, and do nothing
    #[arg(long)]
    dry_run: bool,
}

/// Runs it.
pub(crate) async fn run(
    balance: BalanceArguments,
    session: &Session,
    output: &Output,
) -> Result<(), CliError> {
    let doing = || "balancing the cell".to_owned();
    let threshold_permille = permille(balance.threshold).ok_or_else(|| {
        let why = format!("a threshold of {} percent", balance.threshold);
        CliError::usage(doing(), why, "--threshold takes 0.1 to 100")
    })?;
    let cell = session.cell().await?;
    let plan = cell.balance(threshold_permille, balance.dry_run).await.doing(doing)?;
    if output.json() {
        return output.value(&json!({
            "dry_run": balance.dry_run,
            "bytes": plan.bytes,
            "over_count": plan.over_count,
            "under_count": plan.under_count,
        }));
    }
    let (over, under) = (plan.over_count, plan.under_count);
    if plan.bytes == 0 {
        return output.line("nothing to do: every server is near enough to its share");
    }
    let (verb, size) =
        (if balance.dry_run { "would move up to" } else { "moving up to" }, plan.bytes);
    let size = size_text(size, true);
    let line = format!("{verb} {size}: {over} servers have too much, {under} too little");
    output.line(&line)?;
    if balance.dry_run { Ok(()) } else { output.line("cairn jobs says how far it is") }
}

/// Thousandths, where it is between one of them and a whole.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is in range")]
fn permille(percent: f64) -> Option<u32> {
    let permille = (percent * 10.0).round();
    (1.0..=1000.0).contains(&permille).then_some(permille as u32)
}

#[cfg(test)]
mod tests {
    use super::permille;

    #[test]
    fn a_threshold_is_a_part_of_a_share() {
        assert_eq!([10.0, 0.1, 100.0].map(permille), [Some(100), Some(1), Some(1000)]);
        assert_eq!([0.0, -5.0, 100.2, f64::NAN].map(permille), [None; 4]);
    }
}
