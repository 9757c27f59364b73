//! One mutation on its way through its primary, from the client's request to its answer.
//!
//! The one type between the wire's `Write` or `Append` and the wire's `Forward`: it holds what is
//! forwarded, and who waits for the acknowledgement.

use crate::duplicate_filter::ServedMutation;
use crate::outbox::Outbox;
use cairn_env::Caller;
use cairn_protocol::{AppendAnswer, Forwarded, Response, WriteAnswer};
use cairn_types::{BlockChecksums, PushId, SerialNumber};

/// What a client asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MutationKind {
    /// At an offset that the client chose.
    Write,
    /// At an offset that the primary chooses.
    Append,
}

#[derive(Clone, Debug)]
pub(crate) struct PrimaryMutation {
    /// As the secondaries get it; its serial number, and an append's offset, are given when it is
    /// ordered.
    pub(crate) forwarded: Forwarded,
    pub(crate) kind: MutationKind,
    /// Whoever waits for the acknowledgement; none for levelling and close marks. A repeat of the
    /// same push waits beside the first.
    pub(crate) waiting: Vec<Caller>,
    pub(crate) sync: bool,
}

impl PrimaryMutation {
    /// Zeros up to `length`, which open a lease (R16).
    pub(crate) fn levelling(serial: SerialNumber, length: u64) -> Self {
        let forwarded = Forwarded { serial, size: length, ..Forwarded::default() };
        Self { forwarded, kind: MutationKind::Append, waiting: vec![], sync: false }
    }

    /// The close mark behind the chunk's last byte (R18).
    pub(crate) fn close_mark(serial: SerialNumber, offset: u64) -> Self {
        let checksums = BlockChecksums::default();
        let forwarded = Forwarded { serial, offset, size: 0, push: None, checksums, close: true };
        Self { forwarded, kind: MutationKind::Append, waiting: vec![], sync: true }
    }

    /// The name of its bytes; none of levelling and close marks.
    pub(crate) fn push(&self) -> Option<PushId> {
        self.forwarded.push
    }

    pub(crate) fn serial(&self) -> SerialNumber {
        self.forwarded.serial
    }

    /// Where its bytes end in the chunk, once it is ordered.
    pub(crate) fn end(&self) -> u64 {
        self.forwarded.offset + self.forwarded.size
    }

    /// What a repeat of it is answered.
    pub(crate) fn served(&self) -> ServedMutation {
        ServedMutation { serial: self.forwarded.serial, offset: self.forwarded.offset }
    }
}

/// Acknowledges a mutation to one who waits for it.
pub(crate) fn answer(out: &mut Outbox, to: Caller, kind: MutationKind, served: ServedMutation) {
    let ServedMutation { serial, offset } = served;
    out.reply(
        to,
        match kind {
            MutationKind::Write => Response::Write(WriteAnswer { serial }),
            MutationKind::Append => Response::Append(AppendAnswer { offset, serial }),
        },
    );
}
