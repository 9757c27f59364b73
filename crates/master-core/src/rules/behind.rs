//! Whether this master is behind its cell (R3): started from an old copy of its directory, it lacks
//! what the servers know, and what it would log is not to be lost a second time.
//!
//! - BH1: one server, or a few, that say so stop nobody: they may lie, or be of another time. It
//!   takes more of the servers that the log knows than there are live ones.

use crate::view::View;
use cairn_protocol::{ErrorCode, Failure, ReasonCode};
use cairn_types::planted::{Rule, broken};

/// What a person is told, where servers know of changes that the log lacks.
pub(crate) fn warning(view: &View<'_>) -> Option<String> {
    let (count, term) = view.fleet.ahead().within(view.now.time, view.term.dead());
    (count > 0).then(|| {
        format!(
            "{}: {count} chunkservers know of changes up to term {term} that this master's log \
             lacks, and are not taken in: it was started from an old copy of its directory. Start \
             the newer one; if that is lost, start this one with --recover-past {term}",
            ReasonCode::Behind.code()
        )
    })
}

/// Why no change is taken any more (BH1).
pub(crate) fn refusal(view: &View<'_>) -> Option<Failure> {
    let (ahead, _) = view.fleet.ahead().within(view.now.time, view.term.dead());
    if ahead == 0 || broken(Rule::R1) || ahead <= view.fleet.servers().live(view.now.time).count() {
        return None;
    }
    let line = "this master was started from an old copy of its directory, and takes no change; \
                the reasons of its status say how to go on";
    Some(Failure::not_done(ErrorCode::NotPrimaryMaster, line))
}
