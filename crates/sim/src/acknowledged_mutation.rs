//! Which answers acknowledge a mutation.

use cairn_protocol::{Failure, Request, Response};
use cairn_types::{ChunkHandle, PushId, SerialNumber};

/// The mutation that an answer acknowledges: its chunk, its push, its serial number.
pub(crate) fn acknowledges(
    request: &Request,
    answer: &Result<Response, Failure>,
) -> Option<(ChunkHandle, PushId, SerialNumber)> {
    match (request, answer) {
        (Request::Write(write), Ok(Response::Write(done))) => {
            Some((write.handle, write.push, done.serial))
        }
        (Request::Append(append), Ok(Response::Append(done))) => {
            Some((append.handle, append.push, done.serial))
        }
        _ => None,
    }
}
