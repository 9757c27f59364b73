//! Answers of other servers and of the master about one replica: whose they are, and who is to
//! hear of them.

use crate::outbox::ReplicaCall;
use crate::replica::Replica;
use crate::replica_context::ReplicaContext;
use bytes::Bytes;
use cairn_protocol::{
    Acknowledged, Failure, Fetch, Forward, Response, Rpc, SecondaryFailed, SyncChunk,
};

/// What was asked for a replica is answered, or its fate is not known.
pub(crate) fn on_replica_call(
    replica: &mut Replica,
    cx: &mut ReplicaContext<'_>,
    call: ReplicaCall,
    (result, payload): (Result<Response, Failure>, Bytes),
) {
    match call {
        ReplicaCall::Forward { version, lease, secondary } => {
            let serial = Forward::answer(result).map(|answer| answer.serial);
            replica.as_primary_of(cx, lease, |primary, stored, cx| {
                primary.on_forwarded(stored, cx, version, secondary, serial)
            });
        }
        ReplicaCall::Fetch { version } => {
            let blocks = Fetch::answer(result).map(|answer| (answer, payload));
            replica.on_fetched(cx, version, blocks);
        }
        ReplicaCall::Tell { lease, secondary } => {
            let heard = Acknowledged::answer(result).is_ok();
            replica.as_primary_of(cx, lease, |primary, _, cx| {
                primary.on_told(cx, secondary, heard);
                Ok(())
            });
        }
        ReplicaCall::Shrink { lease } => {
            let result = SecondaryFailed::answer(result);
            replica.as_primary_of(cx, lease, |primary, stored, cx| {
                primary.on_shrunk(stored, cx, result)
            });
        }
        ReplicaCall::LogClose { lease } => {
            replica.as_primary_of(cx, lease, |primary, stored, cx| {
                Err(primary.on_close_logged(stored, cx.out))
            });
        }
        ReplicaCall::SyncThere { lease, round, secondary } => {
            let result = SyncChunk::answer(result).map(drop);
            replica.as_primary_of(cx, lease, |primary, stored, cx| {
                primary.on_synced(stored, cx, round, Some(secondary), result);
                Ok(())
            });
        }
    }
}
