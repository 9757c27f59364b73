//! A peer made of a bare socket, which does what no room would.

use super::CELL;
use cairn_protocol::{
    ChunkLengthAnswer, FRAME_HEADER_SIZE, FrameHeader, FrameKind, Hello, Request, RequestId,
    Response, Role, Welcome, encode_frame,
};
use cairn_types::{Incarnation, ServerId};
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};

pub fn read_frame(from: &mut TcpStream) -> (FrameHeader, Vec<u8>) {
    let mut raw = [0; FRAME_HEADER_SIZE];
    from.read_exact(&mut raw).expect("a header");
    let header = FrameHeader::decode(&raw).expect("a good header");
    let mut message = vec![0; header.message_size as usize];
    from.read_exact(&mut message).expect("a message");
    (header, message)
}

/// A client that dials, and has been welcomed.
pub fn dial(address: &str) -> TcpStream {
    dial_as(address, Role::Client)
}

/// The same, who says that it is this.
pub fn dial_as(address: &str, role: Role) -> TcpStream {
    let mut peer = TcpStream::connect(address).expect("somebody listens");
    let (server, incarnation) = (ServerId::default(), Incarnation::default());
    let hello = Hello::new(CELL, role, server, incarnation);
    peer.write_all(&request_frame(&Request::Hello(hello), 0)).expect("says Hello");
    read_frame(&mut peer);
    peer
}

/// The frame of a request without payload.
pub fn request_frame(request: &Request, id: u64) -> Vec<u8> {
    let mut out = Vec::new();
    let message = |out: &mut Vec<u8>| request.encode(out);
    encode_frame(request.kind(), FrameKind::Request, RequestId(id), &message, 0, &mut out);
    out
}

/// A peer that answers the handshake of whoever dials, as this server.
pub fn welcome(listener: &TcpListener, server: u64) -> TcpStream {
    let (mut peer, _) = listener.accept().expect("dialled");
    let (hello, _) = read_frame(&mut peer);
    let welcome = Response::Hello(Welcome {
        version: 1,
        cell: CELL,
        server: ServerId::new(server),
        ..Welcome::default()
    });
    answer(&mut peer, hello.request, &welcome);
    peer
}

/// Answers a `ChunkLength`.
pub fn answer_probe(peer: &mut TcpStream, request: RequestId) {
    answer(peer, request, &Response::ChunkLength(ChunkLengthAnswer::default()));
}

fn answer(peer: &mut TcpStream, request: RequestId, response: &Response) {
    let mut out = Vec::new();
    let message = |out: &mut Vec<u8>| response.encode(out);
    encode_frame(response.kind(), FrameKind::Response, request, &message, 0, &mut out);
    peer.write_all(&out).expect("answers");
}
