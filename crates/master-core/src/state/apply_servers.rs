//! Applying records about chunkservers.

use super::known_servers::KnownServers;
use crate::applied::{Applied, Changed};
use crate::record::{ForgetServer, KnowServer, SetBalance, SetDrain};
use cairn_protocol::{ErrorCode, Failure, SERVER_COUNT_MAX};

impl KnownServers {
    pub(super) fn know_server(&mut self, record: &KnowServer) -> Result<Applied, Failure> {
        if self.know(&record.at, record.since) {
            return Ok(Applied::Changed(Changed::default()));
        }
        let line = format!("{SERVER_COUNT_MAX} chunkservers are known; forget one that is gone");
        Err(Failure::refused(ErrorCode::Invalid, line))
    }

    pub(super) fn forget_server(&mut self, record: &ForgetServer) -> Result<Applied, Failure> {
        if self.forget(record.server) {
            return Ok(Applied::Changed(Changed::default()));
        }
        let line = format!("server {}: no such chunkserver", record.server);
        Err(Failure::refused(ErrorCode::NotFound, line))
    }

    pub(super) fn set_drain(&mut self, record: &SetDrain) -> Result<Applied, Failure> {
        let known = self.get(record.server).is_some();
        self.duties_mut().set_drain(record, known)
    }

    pub(super) fn set_balance(&mut self, record: &SetBalance) -> Applied {
        self.duties_mut().set_balance(record)
    }
}
