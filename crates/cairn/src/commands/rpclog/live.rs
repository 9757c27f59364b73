//! What a server tells of its last moments from memory, asked again and again.

use super::opening::reading;
use crate::cli_error::{CliError, Doing, warn};
use crate::session::Session;
use cairn_client::Masters;
use cairn_protocol::RecentRpcs;
use cairn_protocol::Rpc;
use cairn_rpclog::{LoggedEntry, ServerLife, What, number_of};
use cairn_types::Address;
use std::time::Duration;

/// How long to wait before asking again.
const REST: Duration = Duration::from_millis(300);

/// A server that is asked.
pub(super) struct Live {
    at: Address,
    servers: Masters,
    life: ServerLife,
    after: u64,
}

impl Live {
    pub(super) fn of(address: &str, session: &Session) -> Result<Self, CliError> {
        let at = Address::new(address);
        let servers = Masters::new(std::slice::from_ref(&at), session.options()).doing(reading)?;
        Ok(Self { at, servers, life: ServerLife::of_batches(Vec::new()), after: 0 })
    }

    /// What has come since the last time, but for our own questions.
    pub(super) async fn take(&mut self) -> Result<Vec<LoggedEntry>, CliError> {
        let doing = || format!("asking {} for its diagnostic log", self.at);
        let answer = self.servers.recent_rpcs(&self.at, self.after).await.doing(doing)?;
        if self.after > 0 && answer.missed > 0 {
            warn(&format!("{} batches came faster than they were asked for", answer.missed));
        }
        self.after = answer.last;
        self.life.add_batches(answer.batches);
        let own = number_of(RecentRpcs::NAME);
        let mut entries = Vec::new();
        while let Some(entry) = self.life.next_entry().doing(reading)? {
            let is_own = matches!(&entry.what, What::Rpc(rpc) if Some(rpc.rpc) == own);
            if !is_own {
                entries.push(entry);
            }
        }
        Ok(entries)
    }

    pub(super) async fn rest(&self) {
        tokio::time::sleep(REST).await;
    }
}
