//! Frames on their way out: requests, answers, failures.

use cairn_protocol::{
    ErrorCode, Failure, FrameKind, MESSAGE_SIZE_MAX, PAYLOAD_SIZE_MAX, Request, RequestId,
    Response, encode_frame,
};
use cairn_types::wire::Message;
use std::cell::Cell;

/// Appends the head of a request's frame; its payload of `payload_size` bytes follows.
pub(crate) fn encode_request(
    request: &Request,
    id: RequestId,
    payload_size: usize,
    out: &mut Vec<u8>,
) {
    let message = |out: &mut Vec<u8>| request.encode(out);
    encode_frame(request.kind(), FrameKind::Request, id, &message, payload_size, out);
}

/// Appends the head of an answer's frame; says what became of it: behind a response its payload
/// follows. An answer over its limit is a defect of the driver: it is told to the one who asked, at
/// nobody else's cost.
pub(crate) fn encode_answer(
    request: RequestId,
    answer: &Result<Response, Failure>,
    payload_size: usize,
    out: &mut Vec<u8>,
) -> FrameKind {
    match answer {
        Ok(response) if encode_response(request, response, payload_size, out) => {
            FrameKind::Response
        }
        Ok(response) => {
            let why = format!("the answer of rpc {} is over its limit", response.kind());
            encode_failure(request, &Failure::unknown(ErrorCode::Internal, why), out);
            FrameKind::Failure
        }
        Err(failure) => {
            encode_failure(request, failure, out);
            FrameKind::Failure
        }
    }
}

/// Appends the frame of an answer, or nothing where it is larger than a frame may be; says which.
fn encode_response(
    request: RequestId,
    response: &Response,
    payload_size: usize,
    out: &mut Vec<u8>,
) -> bool {
    if payload_size > PAYLOAD_SIZE_MAX as usize {
        return false;
    }
    let start = out.len();
    let fits = Cell::new(true);
    let message = |out: &mut Vec<u8>| {
        let start = out.len();
        response.encode(out);
        fits.set(out.len() - start <= MESSAGE_SIZE_MAX as usize);
        if !fits.get() {
            out.truncate(start);
        }
    };
    encode_frame(response.kind(), FrameKind::Response, request, &message, payload_size, out);
    if !fits.get() {
        out.truncate(start);
    }
    fits.get()
}

/// Appends the frame of a failure. Its rpc says nothing: it is the handshake's, so that a caller of
/// any version can read it.
pub(crate) fn encode_failure(request: RequestId, failure: &Failure, out: &mut Vec<u8>) {
    encode_frame(1, FrameKind::Failure, request, &|out| failure.encode(out), 0, out);
}
