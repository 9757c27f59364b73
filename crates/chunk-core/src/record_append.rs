//! Appends come in here: mutations at an offset that the primary chooses (GFS §3.3).
//!
//! The offset is chosen when the append is ordered (`mutation_pipeline.rs`); one that does not fit
//! closes the chunk then (`closing.rs`).

use crate::primary::Primary;
use crate::primary_mutation::{MutationKind, PrimaryMutation};
use crate::replica_context::ReplicaContext;
use crate::stored_replica::StoredReplica;
use cairn_env::Caller;
use cairn_protocol::{Append, ErrorCode, Failure, Forwarded};
use cairn_types::{CellConfig, SerialNumber};

/// Whether it is of a size that a chunk may always take.
pub(crate) fn check_append(append: &Append, config: &CellConfig) -> Result<(), Failure> {
    let size_max = config.append_size_max();
    if (1..=size_max).contains(&append.size) {
        return Ok(());
    }
    let why =
        format!("a record of {} bytes; the limit is {size_max}, a quarter of a chunk", append.size);
    Err(Failure::refused(ErrorCode::RecordTooLarge, why))
}

impl Primary {
    /// Takes an append, unless the chunk is closed to them (R18).
    pub(crate) fn on_append(
        &mut self,
        stored: &StoredReplica,
        cx: &mut ReplicaContext<'_>,
        from: Caller,
        append: Append,
    ) -> Result<(), Failure> {
        self.check_holder(stored, cx.now, (append.version, append.lease))?;
        if !self.takes_appends(stored.is_closed()) {
            let short = stored.handle().short();
            let why = format!("chunk {short} is closed; append to the next one");
            return Err(Failure::not_done(ErrorCode::ChunkClosed, why));
        }
        let forwarded = Forwarded {
            serial: SerialNumber::default(),
            offset: 0,
            size: append.size,
            push: Some(append.push),
            checksums: append.checksums,
            close: false,
        };
        let (kind, waiting, sync) = (MutationKind::Append, vec![from], append.sync);
        self.take(cx.out, from, PrimaryMutation { forwarded, kind, waiting, sync })
    }
}
