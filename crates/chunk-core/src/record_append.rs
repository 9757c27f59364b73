//! Taking mutations from clients: writes, atomic record appends, and the close of a full chunk
//! (GFS §3.3).
//!
//! - A1: a record that does not fit closes the chunk; the client goes on in the next (R18).
//! - A2: the master hears of the close only after every replica durably holds the mark.

use crate::mutation_queue::{Kind, Logged, Queued};
use crate::outbox::Purpose;
use crate::primary::{Closing, find_push, no_checksums};
use crate::primary_forward::{answer_mutation, replica_deadline};
use crate::replica::{Busy, Context, Replica};
use cairn_env::Caller;
use cairn_protocol::{Append, ChunkClosed, ErrorCode, Failure, Forwarded, Write};
use cairn_types::planted::{Rule, broken};
use cairn_types::{ChunkVersion, LeaseId, ServerId};

impl Replica {
    pub(crate) fn on_write(&mut self, cx: &mut Context<'_>, from: Caller, write: Write) {
        let end = write.offset.checked_add(write.size);
        if write.size == 0 || end.is_none_or(|end| end > cx.config.chunk_size) {
            let why = format!(
                "a write of {} bytes at {} does not lie within a chunk of {}",
                write.size, write.offset, cx.config.chunk_size
            );
            cx.out.refuse(from, Failure::refused(ErrorCode::Invalid, why));
            return;
        }
        let queued = Queued {
            from: vec![from],
            kind: Kind::Write { offset: write.offset },
            push: write.push,
            size: write.size,
            checksums: write.checksums,
            sync: write.sync,
        };
        self.take_mutation(cx, from, (write.version, write.lease), queued);
    }

    pub(crate) fn on_append(&mut self, cx: &mut Context<'_>, from: Caller, append: Append) {
        let size_max = cx.config.append_size_max();
        if append.size == 0 || append.size > size_max {
            let why = format!(
                "a record of {} bytes; the limit is {size_max}, a quarter of a chunk",
                append.size
            );
            cx.out.refuse(from, Failure::refused(ErrorCode::RecordTooLarge, why));
            return;
        }
        let queued = Queued {
            from: vec![from],
            kind: Kind::Append,
            push: append.push,
            size: append.size,
            checksums: append.checksums,
            sync: append.sync,
        };
        self.take_mutation(cx, from, (append.version, append.lease), queued);
    }

    fn take_mutation(
        &mut self,
        cx: &mut Context<'_>,
        from: Caller,
        under: (ChunkVersion, LeaseId),
        queued: Queued,
    ) {
        if let Err(failure) = self.admit(cx, from, under, &queued) {
            cx.out.refuse(from, failure);
            return;
        }
        if let Some(served) = self.repeats.answer(queued.push)
            && !broken(Rule::R15)
        {
            answer_mutation(cx, from, queued.kind, served);
            return;
        }
        let Some(primary) = self.primary.as_mut() else { return };
        primary.used = true;
        primary.forget_older(queued.push.session, from.connection);
        if let Some(waiting) = find_push(primary, queued.push)
            && !broken(Rule::R15)
        {
            waiting.push(from);
            return;
        }
        primary.queue.push_back(queued);
        self.pump(cx);
    }

    /// Whether this server may order this mutation now (R12, R15, R18).
    fn admit(
        &mut self,
        cx: &Context<'_>,
        from: Caller,
        (version, lease): (ChunkVersion, LeaseId),
        queued: &Queued,
    ) -> Result<(), Failure> {
        let short = self.handle.short();
        let shrinking = self.primary.as_deref().is_some_and(crate::primary::Primary::is_shrinking);
        if !shrinking {
            self.check_version(version)?;
        }
        let holds = self
            .primary
            .as_ref()
            .filter(|primary| primary.lease == lease && primary.is_live(cx.now));
        let Some(primary) = holds else {
            let why = format!("chunk {short}: this server does not hold that lease");
            return Err(Failure::not_done(ErrorCode::NotPrimary, why));
        };
        if primary.draining.is_some() {
            let why = format!("chunk {short}: the lease is being given back");
            return Err(Failure::not_done(ErrorCode::NotPrimary, why));
        }
        if queued.kind == Kind::Append
            && (primary.writes_only || (self.closed && primary.closing.is_none()))
        {
            let why = format!("chunk {short} is closed; append to the next one");
            return Err(Failure::not_done(ErrorCode::ChunkClosed, why));
        }
        let session = queued.push.session;
        if !self.repeats.may_speak(session, from.connection) && !broken(Rule::R15) {
            let why = "this client session speaks by a newer connection";
            return Err(Failure::not_done(ErrorCode::Busy, why));
        }
        Ok(())
    }

    /// Puts the close mark on this replica, durably, before the secondaries get it.
    pub(crate) fn start_closing(&mut self, cx: &mut Context<'_>) {
        let Some(primary) = self.primary.as_mut() else { return };
        primary.closing = Some(Closing::Marking);
        self.busy = Some(Busy::Closing);
        self.journal_close_mark(cx);
    }

    /// This replica holds the mark; now the secondaries.
    pub(crate) fn on_own_close_mark(&mut self, cx: &mut Context<'_>) {
        self.closed = true;
        let last = self.primary.as_ref().and_then(|p| p.log.back()).map(|l| l.forwarded.serial);
        let Some(primary) = self.primary.as_mut() else { return };
        let forwarded = Forwarded {
            serial: last.unwrap_or(self.serial).max(self.serial).next(),
            offset: primary.end,
            size: 0,
            push: None,
            checksums: no_checksums(),
            close: true,
        };
        let mark = Logged { forwarded, from: vec![], kind: Kind::Append, sync: true };
        if broken(Rule::R18) {
            primary.closing = Some(Closing::Reported);
            self.tell_closed(cx);
            return;
        }
        primary.log.push_back(mark);
        self.forward_all(cx);
    }

    /// Every replica of the set holds the mark: the master may open the next chunk.
    pub(crate) fn tell_closed(&mut self, cx: &mut Context<'_>) {
        let Some(primary) = self.primary.as_ref() else { return };
        let request = ChunkClosed {
            handle: self.handle,
            version: self.version,
            lease: primary.lease,
            file: primary.file,
            index: primary.index,
        };
        let purpose = Purpose::CloseLogged { handle: self.handle, lease: primary.lease };
        let deadline = replica_deadline(cx);
        cx.out.call(purpose, cx.master.clone(), ServerId::default(), request, deadline);
    }

    /// The master has logged the close, or could not be asked. Either way this lease has done its
    /// work: appends go on in the next chunk, and writes ask for a lease of their own.
    pub(crate) fn on_close_logged(&mut self, cx: &mut Context<'_>, lease: LeaseId) {
        if self.primary.as_ref().is_some_and(|primary| primary.lease == lease) {
            self.answer_closers(cx);
            self.drop_lease(cx, "the chunk is closed");
            self.settle(cx);
        }
    }

    /// Tells the appends that found the chunk full where to go.
    pub(crate) fn answer_closers(&mut self, cx: &mut Context<'_>) {
        let short = self.handle.short();
        let Some(primary) = self.primary.as_mut() else { return };
        for from in std::mem::take(&mut primary.closers) {
            let why = format!("chunk {short} is full; append to the next one");
            cx.out.refuse(from, Failure::not_done(ErrorCode::ChunkClosed, why));
        }
    }
}
