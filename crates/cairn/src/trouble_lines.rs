//! The lines about what takes long: that it is tried, for how much longer, and why it has come to
//! nothing so far. Whoever waits learns the reason before the deadline.

use crate::cli_error::warn;
use cairn_client::{Cell, TroubleNotice};
use std::time::Duration;

/// What takes no longer than this is nobody's trouble.
const LONG: Duration = Duration::from_secs(4);
/// How often it is looked at, and how often a person is told.
const LOOK_EVERY: Duration = Duration::from_secs(2);
const TOLD_EVERY: Duration = Duration::from_secs(10);

/// Says so for as long as the command runs.
pub(crate) async fn say_troubles(cell: Cell) {
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        // Where the client has ended, so has the command.
        let Ok(notice) = cell.trouble(LONG).await else { return };
        // Where it is about to end, what it ends with says it all.
        if let Some(notice) = notice.filter(|notice| notice.left >= LOOK_EVERY) {
            warn(&line(&notice));
            tokio::time::sleep(TOLD_EVERY - LOOK_EVERY).await;
        }
    }
}

fn line(TroubleNotice { tried, left, why }: &TroubleNotice) -> String {
    let (tried, left) = (tried.as_secs(), left.as_secs());
    format!("tried for {tried} s, and for {left} s more: {}", why.message)
}

#[cfg(test)]
mod tests {
    use super::line;
    use cairn_client::{ErrorCode, Failure, TroubleNotice};
    use std::time::Duration;

    #[test]
    fn a_person_hears_for_how_long_and_why() {
        let why = Failure::not_done(ErrorCode::Unreachable, "h1:7400: connection refused");
        let [tried, left] = [5_300, 24_700].map(Duration::from_millis);
        assert_eq!(
            line(&TroubleNotice { tried, left, why }),
            "tried for 5 s, and for 24 s more: h1:7400: connection refused"
        );
    }
}
