//! A file of bytes and its oracle, and what excuses a read that it does not explain.

use crate::file_model::{FileModel, ReadDemand, ReadNote};
use crate::simulation::Simulation;
use cairn_types::EntryId;
use std::cell::RefCell;
use std::rc::Rc;

/// A file of bytes and its oracle, shared by those who write it.
#[derive(Debug, Default)]
pub(crate) struct SharedFile {
    pub(crate) name: String,
    pub(crate) id: Option<EntryId>,
    pub(crate) model: FileModel,
}

impl SharedFile {
    pub(crate) fn named(name: &str) -> Rc<RefCell<Self>> {
        Rc::new(RefCell::new(Self { name: name.to_owned(), ..Self::default() }))
    }

    /// Judges a read that has ended, unless what is missing may be.
    pub(crate) fn judge(&self, sim: &mut Simulation, read: ReadNote, bytes: &[u8]) {
        let Err(message) = self.model.judge(read, bytes, ReadDemand::Acknowledged) else { return };
        let file = self.id.expect("a file that is read is known");
        let (offset, size) = (read.offset, read.size);
        let lost = sim.excused(file, offset, size);
        let stale = sim.read_by_stale_location(read);
        if lost {
            sim.reach("read excused: no intact replica is alive");
        } else if sim.read_with_a_warning(read) {
            sim.reach("read excused: a suspect replica answered, with a warning (R28)");
        } else if stale {
            sim.reach("read excused: stale replica by a cached location (GFS 2.7.1)");
        } else {
            return self.complain(sim, read, &message);
        }
        // No power failure takes what was synced, or leaves what nobody wrote (M5).
        let kept = !stale && sim.synced_is_kept(file, offset, size);
        let demand = if kept { ReadDemand::Synced } else { ReadDemand::Nothing };
        if let Err(message) = self.model.judge(read, bytes, demand) {
            self.complain(sim, read, &message);
        }
    }

    /// Judges what one replica gave, unless what is missing may be.
    pub(crate) fn judge_replica(
        &self,
        sim: &mut Simulation,
        whose: &str,
        read: ReadNote,
        bytes: &[u8],
    ) {
        let file = self.id.expect("a file that is read is known");
        let mut demand = ReadDemand::Acknowledged;
        if sim.excused(file, read.offset, read.size) {
            let kept = sim.synced_is_kept(file, read.offset, read.size);
            demand = if kept { ReadDemand::Synced } else { ReadDemand::Nothing };
        }
        if let Err(message) = self.model.judge_bytes(read, bytes, demand) {
            let place = sim.describe(file, read.offset);
            let message = format!("{} on {whose} ({place}): {message}", self.name);
            sim.fail("every_replica", message);
        }
    }

    fn complain(&self, sim: &mut Simulation, read: ReadNote, message: &str) {
        let from = read.from.seconds();
        sim.fail("regions", format!("{} (read from {from:.3}s): {message}", self.name));
    }
}
