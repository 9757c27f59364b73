//! What verifying stored bytes came to: a replica that is bad, or one that is not any more (H2).

use crate::core::ChunkCore;
use crate::outbox::DiskPurpose;
use cairn_env::{ChunkResult, Effect, JournalEntry, LogEvent, Now};
use cairn_types::ChunkHandle;

impl ChunkCore {
    /// Of those that are damaged, these could only not be read when the server started.
    pub fn mark_unread(&mut self, handles: &[ChunkHandle]) {
        handles.iter().for_each(|handle| self.table.leave_unread(*handle));
    }

    /// A part of a bad replica is verified again; where all of it is, its journal and the master
    /// take the verdict back.
    pub(super) fn on_looked_again(&mut self, now: Now, result: &ChunkResult) {
        self.traffic.note_scrubbed(result);
        let sound = self.second_looks.on_done(now, &self.load, &mut self.table, result);
        if let Some(handle) = sound.filter(|handle| self.table.turn_out_sound(*handle)) {
            self.out.journal(DiskPurpose::Nobody, JournalEntry::Sound(handle));
            let event = LogEvent::info("bad block reads again").with("chunk", handle.short());
            self.out.push(Effect::Log(event));
        }
        self.second_looks.tick(now, &mut self.table, &mut self.out);
    }

    /// A part of the round over all that is stored, or of a journal, is verified.
    pub(super) fn on_scrubbed(&mut self, now: Now, result: ChunkResult) {
        self.traffic.note_scrubbed(&result);
        let bad = self.scrub.on_done(now, &self.load, result, &mut self.out);
        // What is gone meanwhile is nobody's loss.
        if let Some(replica) = bad.and_then(|handle| self.table.touch(handle)) {
            replica.stored_mut().find_bad_block(&mut self.out);
        }
        self.scrub.tick(now, &mut self.table, &mut self.out);
    }
}
