//! Talking to single masters, whatever each is: for those who make a group of them, or look at it.

use crate::cell::Options;
use crate::error::Error;
use crate::link::{Link, wait_for};
use bytes::Bytes;
use cairn_client_core::{Operation, ShadowReads};
use cairn_protocol::{
    BackUp, ChangeMasters, ErrorCode, Failure, JoinGroup, ListMasters, ListMastersAnswer,
    ReadBackup, RecentRpcs, RecentRpcsAnswer, Rpc,
};
use cairn_types::{Address, LogIndex, MemberChange, Members, ReplicaAt, crc32c};
use std::sync::Arc;

/// A way to single masters; nothing is asked of anyone before a method is called.
#[derive(Clone, Debug)]
pub struct Masters {
    link: Arc<Link>,
}

impl Masters {
    /// Of these addresses, each `host:port`.
    ///
    /// # Panics
    /// Without an address; in a tokio runtime without I/O or time.
    ///
    /// # Errors
    /// `Internal` where this machine has no room for another connection.
    pub fn new(addresses: &[Address], options: &Options) -> Result<Self, Error> {
        let link = Link::start(
            addresses.to_vec(),
            (options.rack.clone(), options.identity.clone()),
            ShadowReads::Never,
            options.deadline,
        )?;
        Ok(Self { link })
    }

    async fn ask<R: Rpc>(&self, at: &Address, request: R) -> Result<R::Answer, Error> {
        let at = ReplicaAt { address: at.clone(), ..ReplicaAt::default() };
        let operation = Operation::AskServer { at, request: request.into() };
        wait_for::<R>(self.link.begin(operation)).await
    }

    /// Has the group that is there take a step to another one: all of these changes at once. What
    /// holds already is no change.
    ///
    /// # Errors
    /// `Invalid` where the group would not be one, or would be without a majority; `Busy` where the
    /// members are changing already, or who is to vote lacks too much of the log yet.
    pub async fn change(&self, changes: Vec<MemberChange>) -> Result<Members, Error> {
        let operation = Operation::Ask(ChangeMasters { changes }.into());
        let answer = wait_for::<ChangeMasters>(self.link.begin(operation)).await?;
        Ok(answer.members)
    }

    /// What the diagnostic log of the server there, a master or a chunkserver, has in memory behind
    /// batch `after`; zero: all of it (GFS §5.3).
    ///
    /// # Errors
    /// `NotFound` where it keeps no log; `Unreachable` or `DeadlineExceeded` where it does not
    /// answer.
    pub async fn recent_rpcs(&self, at: &Address, after: u64) -> Result<RecentRpcsAnswer, Error> {
        self.ask(at, RecentRpcs { after }).await
    }

    /// What the master there says of itself and of its group.
    ///
    /// # Errors
    /// `Unreachable` or `DeadlineExceeded` where it does not answer.
    pub async fn list(&self, at: &Address) -> Result<ListMastersAnswer, Error> {
        self.ask(at, ListMasters {}).await
    }

    /// Makes the master there a member of a group; one that is already says so again.
    ///
    /// # Errors
    /// `Invalid` where it belongs to another; `Unreachable` or `DeadlineExceeded` where it does not
    /// answer: it may be one.
    pub async fn join(&self, at: &Address, group: JoinGroup) -> Result<(), Error> {
        self.ask(at, group).await.map(|_| ())
    }

    /// Has the master there make a checkpoint of all that it has applied; as of which record it is.
    /// It is there for a while.
    ///
    /// # Errors
    /// `NotFound` where it has nothing yet; `Io` where its disk makes none.
    pub async fn back_up(&self, at: &Address) -> Result<LogIndex, Error> {
        self.ask(at, BackUp {}).await.map(|answer| answer.index)
    }

    /// A piece of such a checkpoint, no more than `size` bytes from `offset` of its pages on; with
    /// `size` zero its root.
    ///
    /// # Errors
    /// `NotFound` where the checkpoint is not there any more; `ChecksumMismatch`.
    pub async fn read_backup(
        &self,
        at: &Address,
        index: LogIndex,
        (offset, size): (u64, u64),
    ) -> Result<Bytes, Error> {
        let answer = self.ask(at, ReadBackup { index, offset, size }).await?;
        if crc32c(&answer.bytes) != answer.checksum {
            let line = "a piece of a checkpoint came otherwise than it was sent";
            return Err(Failure::refused(ErrorCode::ChecksumMismatch, line).into());
        }
        Ok(answer.bytes)
    }
}
