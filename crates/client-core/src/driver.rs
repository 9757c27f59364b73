//! The client as a driver: no disk, no requests to serve.

use crate::core::ClientCore;
use crate::no_disk::{NoDisk, NoJob};
use crate::operation::Command;
use cairn_env::{Driver, Effect, Event, Now};

impl Driver for ClientCore {
    type Service = NoDisk;
    type Command = Command;

    fn handle(&mut self, now: Now, event: Event<Command, NoJob>, effects: &mut Vec<Effect<NoJob>>) {
        self.step(now, event, effects);
    }

    fn end_of_batch(&mut self, now: Now, effects: &mut Vec<Effect<NoJob>>) {
        ClientCore::end_of_batch(self, now, effects);
    }
}
