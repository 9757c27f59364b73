//! Disk work on lanes: in order within a lane, side by side between them, what waits together
//! runs together (E3, group commit).
//!
//! A batch takes effect on the disk at one instant and is reported later; a process killed
//! between the two never hears of what its disk holds.

use crate::node::NodeId;
use crate::process::ProcessInput;
use crate::queue::ScheduledEvent;
use crate::world::SimWorld;
use cairn_env::{EffectId, Lane};
use std::time::Duration;

impl SimWorld {
    pub(crate) fn lane_wants(&mut self, node: NodeId, lane: Lane) {
        if self.nodes[node.0].busy_lanes.insert(lane) {
            self.lane_starts(node, lane);
        }
    }

    fn disk_span(&mut self, node: NodeId) -> Duration {
        let slow = self.nodes[node.0].slow_disk;
        self.time.span(Duration::from_micros(20), self.time.settings.disk_max, slow)
    }

    fn lane_starts(&mut self, node: NodeId, lane: Lane) {
        let life = self.nodes[node.0].life;
        let at = self.time.now.after(self.disk_span(node));
        self.time.queue.push(at, ScheduledEvent::LaneRun { node, life, lane });
    }

    pub(crate) fn lane_run(&mut self, node: NodeId, life: u64, lane: Lane) {
        if !self.lives(node, life) {
            return;
        }
        let process = self.nodes[node.0].process.as_mut().expect("it lives");
        let waiting = process.waiting(lane);
        let count = if waiting > 1 && self.time.random.chance(200) {
            1 + usize::try_from(self.time.random.below(waiting as u64)).expect("a batch's size")
        } else {
            waiting
        };
        let process = self.nodes[node.0].process.as_mut().expect("it lives");
        let ids = process.run(self.time.now, lane, count);
        if self.nodes[node.0].disks.iter().any(|disk| disk.fuse_blown()) {
            self.time.reach("killed in the middle of a disk write");
            return self.kill(node);
        }
        let at = self.time.now.after(self.disk_span(node));
        self.time.queue.push(at, ScheduledEvent::LaneDone { node, life, lane, ids });
    }

    pub(crate) fn lane_done(&mut self, node: NodeId, life: u64, lane: Lane, ids: Vec<EffectId>) {
        for id in ids {
            if !self.lives(node, life) {
                return;
            }
            self.feed(node, ProcessInput::DiskDone(id));
        }
        // The report of the last job may have ended the process (W2).
        let Some(process) = self.nodes[node.0].process.as_ref() else { return };
        if self.nodes[node.0].life != life {
            return;
        }
        if process.waiting(lane) > 0 {
            self.lane_starts(node, lane);
        } else {
            self.nodes[node.0].busy_lanes.remove(&lane);
        }
    }
}
