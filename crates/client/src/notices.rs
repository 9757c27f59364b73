//! What the library can tell a person beside its answers: who gave them, and why one takes so long.

use crate::cell::Cell;
use crate::error::Error;
use cairn_client_core::{Operation, Output, ShadowNotice, TroubleNotice};
use std::time::Duration;

impl Cell {
    /// What masters that are not in charge have answered this client so far; none where all that it
    /// was told was the primary's word.
    ///
    /// # Errors
    /// `Internal` where the client's loop has ended.
    pub async fn shadow_notice(&self) -> Result<Option<ShadowNotice>, Error> {
        match self.link.run(Operation::TellShadows).await? {
            Output::Shadows(notice) => Ok(notice),
            _ => Err(Error::mismatched()),
        }
    }

    /// What this client has been trying for longer than that, and why it did not succeed so far;
    /// none where nothing takes so long, or what does has met no failure.
    ///
    /// # Errors
    /// `Internal` where the client's loop has ended.
    pub async fn trouble(&self, longer_than: Duration) -> Result<Option<TroubleNotice>, Error> {
        match self.link.run(Operation::TellTrouble { longer_than }).await? {
            Output::Trouble(notice) => Ok(notice),
            _ => Err(Error::mismatched()),
        }
    }
}
