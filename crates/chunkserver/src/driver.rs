//! The driver: one event in, the core's effects out.

use crate::gauges::ChunkserverGauges;
use cairn_chunk_core::ChunkCore;
use cairn_env::{
    ChunkDone, ChunkJob, ChunkResult, Completion, Driver, Effect, Event, LogEvent, Now,
};
use cairn_store::{ChunkDisk, DirectoryState};
use cairn_types::ServerId;
use std::sync::Arc;

/// A chunkserver, as a world drives it.
#[derive(Debug)]
pub struct Chunkserver {
    pub(crate) core: ChunkCore,
    pub(crate) disk: Arc<ChunkDisk>,
    /// How the data directories were when last looked at.
    pub(crate) directories: Vec<DirectoryState>,
    /// The block size that the disk was last told.
    pub(crate) block_size: u32,
    /// How the data directories were found, until it is told.
    pub(crate) warnings: Vec<LogEvent>,
    /// Where it notes how it stands, for whoever asks.
    pub(crate) gauges: Arc<ChunkserverGauges>,
}

impl Chunkserver {
    /// The server's id.
    #[must_use]
    pub fn server(&self) -> ServerId {
        self.core.server()
    }

    /// Somebody looks for changes of state: they are told, as events of level debug.
    pub fn tell_debug(&mut self) {
        self.core.tell_debug();
    }

    /// Where it notes how it stands.
    #[must_use]
    pub fn gauges(&self) -> Arc<ChunkserverGauges> {
        Arc::clone(&self.gauges)
    }
}

/// Whether a data directory may have failed, or another have been taken in.
fn concerns_directories(event: &Event<(), ChunkResult>) -> bool {
    match event {
        Event::Completed { result: Completion::Disk(result), .. } => {
            matches!(result, Err(_) | Ok(ChunkDone::Space(_)))
        }
        _ => false,
    }
}

impl Chunkserver {
    /// Drops what lay in directories that failed (R27); goes on with the others, if there are any.
    fn look_at_directories(&mut self, now: Now, effects: &mut Vec<Effect<ChunkJob>>) {
        let states = self.disk.directories();
        if states == self.directories {
            return;
        }
        let before = std::mem::replace(&mut self.directories, states);
        for (state, before) in self.directories.iter().zip(before) {
            let told = |event: LogEvent| Effect::Log(event.with("directory", &state.directory));
            match (&state.failure, before.failure) {
                (Some(why), None) => {
                    let event = LogEvent::error("a data directory is given up").with("why", why);
                    effects.push(told(event));
                }
                (None, Some(_)) => {
                    effects.push(told(LogEvent::info("an empty data directory is taken in")));
                }
                (None, None) | (Some(_), Some(_)) => {}
            }
        }
        self.core.lose(now, &self.disk.take_lost());
        if self.disk.has_failed() {
            let why = self.directories.iter().find_map(|it| it.failure.clone());
            let why = why.unwrap_or_default();
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
        let look = concerns_directories(&event);
        if let Event::Completed { result: Completion::Disk(Ok(ChunkDone::Space(space))), .. } =
            &event
        {
            self.gauges.note_space(now.time, space.clone());
        }
        self.core.step(now, event, effects);
        if look {
            self.look_at_directories(now, effects);
        }
        // What the cell agrees on is known from the join on, before any mutation comes.
        let config = self.core.config();
        if config.block_size != self.block_size {
            self.block_size = config.block_size;
            self.disk.configure(config);
        }
    }

    fn end_of_batch(&mut self, _: Now, _: &mut Vec<Effect<ChunkJob>>) {
        self.gauges.note(self.core.gauges());
    }
}
