//! Writes come in here: mutations at an offset that the client chose (GFS §3.1).

use crate::primary::Primary;
use crate::primary_mutation::{MutationKind, PrimaryMutation};
use crate::replica_context::ReplicaContext;
use crate::stored_replica::StoredReplica;
use cairn_env::Caller;
use cairn_protocol::{ErrorCode, Failure, Forwarded, Write};
use cairn_types::{CellConfig, SerialNumber};

/// Whether it lies within a chunk.
pub(crate) fn check_write(write: &Write, config: &CellConfig) -> Result<(), Failure> {
    let end = write.offset.checked_add(write.size);
    if write.size > 0 && end.is_some_and(|end| end <= config.chunk_size) {
        return Ok(());
    }
    let why = format!(
        "a write of {} bytes at {} does not lie within a chunk of {}",
        write.size, write.offset, config.chunk_size
    );
    Err(Failure::refused(ErrorCode::Invalid, why))
}

impl Primary {
    /// Takes a write that lies within the chunk; a closed chunk takes writes too (R19).
    pub(crate) fn on_write(
        &mut self,
        stored: &StoredReplica,
        cx: &mut ReplicaContext<'_>,
        from: Caller,
        write: Write,
    ) -> Result<(), Failure> {
        self.check_holder(stored, cx.now, (write.version, write.lease))?;
        let forwarded = Forwarded {
            serial: SerialNumber::default(),
            offset: write.offset,
            size: write.size,
            push: Some(write.push),
            checksums: write.checksums,
            close: false,
        };
        let (kind, waiting, sync) = (MutationKind::Write, vec![from], write.sync);
        self.take(cx.out, from, PrimaryMutation { forwarded, kind, waiting, sync })
    }
}
