//! When the trash is emptied: in rounds of slices, one slice at a time.
//!
//! All at once would keep a thread for as long as that takes, and after a large deletion the trash
//! is as large as the server was.

use crate::outbox::{DiskPurpose, Outbox};
use cairn_env::{ChunkDone, ChunkJob, ChunkResult, Now};
use cairn_types::CellConfig;

/// Whether a slice is being emptied.
#[derive(Debug, Default)]
pub(crate) struct TrashRounds {
    under_way: bool,
}

impl TrashRounds {
    /// A look is due; none is begun while the last one is under way.
    pub(crate) fn begin(&mut self, (now, config): (Now, &CellConfig), out: &mut Outbox) {
        if self.under_way {
            return;
        }
        let now_ms = now.wall.as_millis();
        let before_ms = now_ms.saturating_sub(config.trash_ms);
        out.trash_job(DiskPurpose::TrashEmptied, ChunkJob::EmptyTrash { before_ms, now_ms });
        self.under_way = true;
    }

    /// A slice is through. Where a directory refuses, the next round is as soon as any.
    pub(crate) fn on_emptied(
        &mut self,
        (now, config): (Now, &CellConfig),
        result: &ChunkResult,
        out: &mut Outbox,
    ) {
        assert!(self.under_way, "one slice at a time");
        self.under_way = false;
        if matches!(result, Ok(ChunkDone::TrashEmptied { more: true })) {
            self.begin((now, config), out);
        }
    }
}
