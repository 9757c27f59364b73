//! Applying records about chunkservers.

use super::State;
use crate::applied::{Applied, Changed};
use crate::record::{ForgetServer, KnowServer};
use cairn_protocol::{ErrorCode, Failure, SERVER_COUNT_MAX};

impl State {
    pub(super) fn know_server(&mut self, record: &KnowServer) -> Result<Applied, Failure> {
        if self.servers.know(&record.at) {
            return Ok(Applied::Changed(Changed::default()));
        }
        let line = format!("{SERVER_COUNT_MAX} chunkservers are known; forget one that is gone");
        Err(Failure::refused(ErrorCode::Invalid, line))
    }

    pub(super) fn forget_server(&mut self, record: &ForgetServer) -> Result<Applied, Failure> {
        if self.servers.forget(record.server) {
            return Ok(Applied::Changed(Changed::default()));
        }
        let line = format!("server {}: no such chunkserver", record.server);
        Err(Failure::refused(ErrorCode::NotFound, line))
    }
}
