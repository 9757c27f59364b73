//! The driver: one event in, the core's effects out.

use cairn_chunk_core::ChunkCore;
use cairn_env::{
    ChunkError, ChunkJob, ChunkResult, Completion, DiskError, Driver, Effect, Event, LogEvent, Now,
};
use cairn_store::ChunkDisk;
use cairn_types::ServerId;
use std::sync::Arc;

/// A chunkserver, as a world drives it.
#[derive(Debug)]
pub struct Chunkserver {
    pub(crate) core: ChunkCore,
    pub(crate) disk: Arc<ChunkDisk>,
    /// The block size that the disk was last told.
    pub(crate) block_size: u32,
    /// How the data directories were found, until it is told.
    pub(crate) warnings: Vec<LogEvent>,
}

impl Chunkserver {
    /// The server's id.
    #[must_use]
    pub fn server(&self) -> ServerId {
        self.core.server()
    }
}

/// Why a data directory cannot be believed any more, if that is what this event says.
fn is_failed_sync(event: &Event<(), ChunkResult>) -> Option<String> {
    match event {
        Event::Completed {
            result:
                Completion::Disk(Err(
                    error @ (ChunkError::Disk(DiskError::SyncFailed(_))
                    | ChunkError::NoDirectoryLeft),
                )),
            ..
        } => Some(error.to_string()),
        _ => None,
    }
}

impl Chunkserver {
    /// Drops what a failed fsync leaves in doubt (R27); goes on with the other directories, if
    /// there are any.
    fn drop_failed_directories(
        &mut self,
        now: Now,
        why: &str,
        effects: &mut Vec<Effect<ChunkJob>>,
    ) {
        self.core.lose(now, &self.disk.lost());
        if self.disk.has_failed() {
            let line = format!("no data directory is left: {why}; see the disk's log");
            effects.push(Effect::Halt(line));
        }
    }
}

impl Driver for Chunkserver {
    type Service = ChunkDisk;
    type Command = ();

    fn handle(
        &mut self,
        now: Now,
        event: Event<(), ChunkResult>,
        effects: &mut Vec<Effect<ChunkJob>>,
    ) {
        effects.extend(self.warnings.drain(..).map(Effect::Log));
        let failed_sync = is_failed_sync(&event);
        self.core.step(now, event, effects);
        if let Some(why) = failed_sync {
            self.drop_failed_directories(now, &why, effects);
        }
        // What the cell agrees on is known from the join on, before any mutation comes.
        let config = self.core.config();
        if config.block_size != self.block_size {
            self.block_size = config.block_size;
            self.disk.configure(config);
        }
    }
}
