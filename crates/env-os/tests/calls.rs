//! Calls between toy drivers over loopback: answers, deadlines, lost connections, handshakes.
#![allow(clippy::unwrap_used, reason = "tests")]

mod toy;

use bytes::Bytes;
use cairn_env_os::bind;
use cairn_protocol::{
    ChunkLength, ErrorCode, Explain, FrameKind, Hello, Outcome, PAYLOAD_SIZE_MAX, Read, Request,
    RequestId, Response, Role, Stat, Status, encode_frame,
};
use cairn_types::{Address, CellId, ChunkHandle, Incarnation, ServerId};
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::Ordering;
use std::time::Duration;
use toy::raw_peer::{read_frame, welcome};
use toy::{CELL, Command, Node, PATIENCE};

fn encode(request: &Request, id: u64) -> Vec<u8> {
    let mut out = Vec::new();
    let message = |out: &mut Vec<u8>| request.encode(out);
    encode_frame(request.kind(), FrameKind::Request, RequestId(id), &message, 0, &mut out);
    out
}

fn listen() -> (TcpListener, Address) {
    let listener = bind("127.0.0.1:0").expect("a free port");
    let address = Address::new(listener.local_addr().unwrap().to_string());
    (listener, address)
}

#[test]
fn many_calls_at_once_are_each_answered_with_their_own_answer() {
    let (server, client) = (Node::start(1), Node::start(2));
    let ask = |offset| {
        let request = Read { offset, size: 10_000 * (offset % 7), ..Read::default() };
        client.begin(&server.address, server.server, request.into(), Bytes::new(), PATIENCE)
    };
    let asked: Vec<_> = (0..200).map(|offset| (offset, ask(offset))).collect();
    for (offset, outcome) in asked {
        let answer = outcome.recv().unwrap().expect("answered");
        let Response::Read(read) = answer.response else { panic!("a read's answer") };
        assert_eq!(read.offset, offset);
        assert_eq!(answer.payload, vec![offset as u8; 10_000 * (offset as usize % 7)]);
    }
}

#[test]
fn an_answer_over_its_limit_is_a_failure_and_the_server_goes_on() {
    let (server, client) = (Node::start(1), Node::start(2));
    let large = Read { size: u64::from(PAYLOAD_SIZE_MAX) + 1, ..Read::default() };
    let failure = client.ask(&server, large, Bytes::new()).expect_err("too many bytes");
    assert_eq!((failure.code, failure.outcome), (ErrorCode::Internal, Outcome::Unknown));
    let long = ChunkLength { handle: ChunkHandle::new(toy::LONG_ANSWER), ..ChunkLength::default() };
    let failure = client.ask(&server, long, Bytes::new()).expect_err("too long a message");
    assert_eq!(failure.code, ErrorCode::Internal);
    client.probe(&server).expect("the server, and the connection, go on");
}

#[test]
fn disk_jobs_answer_the_requests_that_asked_for_them() {
    let (server, client) = (Node::start(1), Node::start(2));
    let ask = || {
        let request = Status::default().into();
        client.begin(&server.address, server.server, request, Bytes::new(), PATIENCE)
    };
    let asked: Vec<_> = (0..100).map(|_| ask()).collect();
    assert!(asked.into_iter().all(|outcome| outcome.recv().unwrap().is_ok()));
}

#[test]
fn a_wake_comes_when_its_time_has_come_and_not_before() {
    let node = Node::start(1);
    let (done, woken) = std::sync::mpsc::channel();
    let span = Duration::from_millis(30);
    node.running.sender().send(Command::Wake(span, done)).unwrap();
    let waited = woken.recv_timeout(PATIENCE).expect("woken");
    assert!(waited >= span, "woken after {waited:?}");
}

#[test]
fn a_call_without_an_answer_is_unknown_at_its_deadline() {
    let (server, client) = (Node::start(1), Node::start(2));
    let short = Duration::from_millis(50);
    let stat = Stat::default().into();
    let outcome = client.begin(&server.address, server.server, stat, Bytes::new(), short);
    let failure = outcome.recv_timeout(PATIENCE).unwrap().expect_err("never answered");
    assert_eq!((failure.code, failure.outcome), (ErrorCode::DeadlineExceeded, Outcome::Unknown));
    client.probe(&server).expect("the connection goes on");
}

#[test]
fn a_call_that_never_got_past_the_handshake_is_not_done_at_its_deadline() {
    let ((_mute, address), client) = (listen(), Node::start(2));
    let short = Duration::from_millis(50);
    let server = ServerId::default();
    let outcome =
        client.begin(&address, server, ChunkLength::default().into(), Bytes::new(), short);
    let failure = outcome.recv_timeout(PATIENCE).unwrap().expect_err("nobody welcomes");
    assert_eq!((failure.code, failure.outcome), (ErrorCode::DeadlineExceeded, Outcome::NotDone));
}

#[test]
fn a_call_whose_connection_is_lost_after_it_was_sent_is_unknown() {
    let ((listener, address), client) = (listen(), Node::start(2));
    let server = ServerId::new(9);
    let outcome =
        client.begin(&address, server, ChunkLength::default().into(), Bytes::new(), PATIENCE);
    let mut peer = welcome(&listener, 9);
    assert_eq!(read_frame(&mut peer).0.rpc, Request::from(ChunkLength::default()).kind());
    drop(peer);
    let failure = outcome.recv().unwrap().expect_err("lost");
    assert_eq!((failure.code, failure.outcome), (ErrorCode::Unreachable, Outcome::Unknown));

    let again =
        client.begin(&address, server, ChunkLength::default().into(), Bytes::new(), PATIENCE);
    let mut peer = welcome(&listener, 9);
    read_frame(&mut peer);
    drop((peer, again));
}

#[test]
fn a_name_that_leads_nowhere_is_not_done() {
    let client = Node::start(2);
    let nowhere = Address::new("there-is-no-such-host.invalid:1");
    let probe = ChunkLength::default().into();
    let outcome = client.begin(&nowhere, ServerId::new(1), probe, Bytes::new(), PATIENCE);
    let failure = outcome.recv().unwrap().expect_err("nobody is there");
    assert_eq!(failure.outcome, Outcome::NotDone);
}

#[test]
fn a_server_that_is_not_there_is_unreachable_until_it_is() {
    let client = Node::start(2);
    // An address of its own: no other test can take the port meanwhile.
    let listener = bind("127.0.0.77:0").expect("a free port");
    let address = Address::new(listener.local_addr().unwrap().to_string());
    drop(listener);
    let ask = || {
        let probe = ChunkLength::default().into();
        client.begin(&address, ServerId::new(1), probe, Bytes::new(), PATIENCE)
    };
    let failure = ask().recv().unwrap().expect_err("nobody listens");
    assert_eq!((failure.code, failure.outcome), (ErrorCode::Unreachable, Outcome::NotDone));
    let _server = Node::at(address.as_str(), 1, CELL);
    ask().recv().unwrap().expect("dialled again");
}

#[test]
fn a_name_that_leads_to_several_addresses_is_tried_at_each() {
    let (server, client) = (Node::start(1), Node::start(2));
    let port = server.address.as_str().rsplit(':').next().unwrap();
    let by_name = Address::new(format!("localhost:{port}"));
    let probe = ChunkLength::default().into();
    let outcome = client.begin(&by_name, server.server, probe, Bytes::new(), PATIENCE);
    outcome.recv().unwrap().expect("one of them answers");
}

#[test]
fn another_server_at_the_address_is_told_apart_from_the_one_meant() {
    let (server, client) = (Node::start(1), Node::start(2));
    client.probe(&server).expect("the one meant");
    let ask = |id| {
        let probe = ChunkLength::default().into();
        let outcome =
            client.begin(&server.address, ServerId::new(id), probe, Bytes::new(), PATIENCE);
        outcome.recv().unwrap()
    };
    let failure = ask(8).expect_err("another one");
    assert_eq!((failure.code, failure.outcome), (ErrorCode::WrongServer, Outcome::NotDone));
    ask(0).expect("any will do");
    client.probe(&server).expect("the one meant is not disturbed");
}

#[test]
fn a_server_that_welcomes_under_another_id_than_the_one_meant_gets_no_request() {
    let ((listener, address), client) = (listen(), Node::start(2));
    let server = ServerId::new(9);
    let outcome =
        client.begin(&address, server, ChunkLength::default().into(), Bytes::new(), PATIENCE);
    let mut peer = welcome(&listener, 8);
    let failure = outcome.recv().unwrap().expect_err("another one");
    assert_eq!((failure.code, failure.outcome), (ErrorCode::WrongServer, Outcome::NotDone));
    assert_eq!(peer.read(&mut [0; 64]).expect("closed"), 0, "nothing was sent");
}

#[test]
fn a_server_of_another_cell_refuses() {
    let (server, client) = (Node::at("127.0.0.1:0", 1, CellId::new(5)), Node::start(2));
    let failure = client.probe(&server).expect_err("another cell");
    assert_eq!((failure.code, failure.outcome), (ErrorCode::WrongCell, Outcome::Refused));
    assert_eq!(server.seen.requests.load(Ordering::SeqCst), 0);
}

#[test]
fn a_peer_of_another_version_hears_which_versions_both_speak() {
    let server = Node::start(1);
    let mut peer = TcpStream::connect(server.address.as_str()).unwrap();
    let ours = Hello::new(CELL, Role::Client, ServerId::default(), Incarnation::default());
    let hello = Hello { version_oldest: 7, version_newest: 8, ..ours };
    peer.write_all(&encode(&hello.into(), 0)).unwrap();
    let (header, message) = read_frame(&mut peer);
    assert_eq!(header.kind, FrameKind::Failure);
    let text = String::from_utf8_lossy(&message).into_owned();
    assert!(text.contains("1 to 1") && text.contains("7 to 8"), "{text}");
    assert_eq!(peer.read(&mut [0; 9]).expect("closed, not reset"), 0);
}

/// What a server answers to these bytes before it closes: the failure's text.
fn refusal(server: &Node, first: Option<Hello>, bytes: &[u8]) -> String {
    let mut peer = TcpStream::connect(server.address.as_str()).unwrap();
    if let Some(hello) = first {
        peer.write_all(&encode(&hello.into(), 0)).unwrap();
        assert_eq!(read_frame(&mut peer).0.kind, FrameKind::Response);
    }
    peer.write_all(bytes).unwrap();
    let (header, message) = read_frame(&mut peer);
    assert_eq!(header.kind, FrameKind::Failure);
    assert_eq!(peer.read(&mut [0; 9]).expect("closed, not reset"), 0);
    String::from_utf8_lossy(&message).into_owned()
}

#[test]
fn whatever_is_not_cairn_is_told_why_and_closed() {
    let server = Node::start(1);
    let hello = || Some(Hello::new(CELL, Role::Client, ServerId::default(), Incarnation::new(0)));
    let garbage = b"GET / HTTP/1.1\r\nHost: some.host.example\r\nAccept: */*\r\n\r\n";
    assert!(refusal(&server, None, garbage).contains("not a Cairn frame"));
    assert!(refusal(&server, hello(), garbage).contains("not a Cairn frame"));

    let probe = encode(&ChunkLength::default().into(), 1);
    assert!(refusal(&server, None, &probe).contains("starts with Hello"));
    let mut oversized = probe.clone();
    oversized[20..24].copy_from_slice(&u32::MAX.to_le_bytes());
    assert!(refusal(&server, hello(), &oversized).contains("the limit is"));
    let mut newer = probe.clone();
    newer[4..6].copy_from_slice(&9u16.to_le_bytes());
    assert!(refusal(&server, hello(), &newer).contains("protocol version 9"));

    let mut unknown = Vec::new();
    encode_frame(999, FrameKind::Request, RequestId(3), &|_| {}, 0, &mut unknown);
    assert!(refusal(&server, hello(), &unknown).contains("unknown rpc 999"));
    assert_eq!(server.seen.requests.load(Ordering::SeqCst), 0, "none of it reached the driver");
    Node::start(2).probe(&server).expect("it still serves others");
}

#[test]
fn the_driver_hears_when_a_connection_on_which_requests_came_is_gone() {
    let (server, client) = (Node::start(1), Node::start(2));
    client.probe(&server).expect("answers");
    assert!(server.gone.lock().unwrap().try_recv().is_err());
    client.running.stop().expect("stops");
    server.gone.lock().unwrap().recv_timeout(PATIENCE).expect("told");
}

#[test]
fn a_driver_that_halts_says_why_and_takes_no_more_commands() {
    let (server, client) = (Node::start(1), Node::start(2));
    let sender = server.running.sender();
    let failure = client.ask(&server, Explain::default(), Bytes::new()).expect_err("it halts");
    assert_eq!((failure.code, failure.outcome), (ErrorCode::Unreachable, Outcome::Unknown));
    assert_eq!(server.running.wait().expect_err("halted").0, "told to");
    let (done, _woken) = std::sync::mpsc::channel();
    assert!(sender.send(Command::Wake(Duration::ZERO, done)).is_err());
}

#[test]
fn a_reader_that_does_not_read_takes_a_bounded_part_of_the_server() {
    const COUNT: usize = 200;
    let (server, other) = (Node::start(1), Node::start(2));
    let mut peer = TcpStream::connect(server.address.as_str()).unwrap();
    let hello = Hello::new(CELL, Role::Client, ServerId::default(), Incarnation::default());
    peer.write_all(&encode(&hello.into(), 0)).unwrap();
    read_frame(&mut peer);
    let read = Read { size: 1 << 20, ..Read::default() };
    for id in 1..=COUNT as u64 {
        peer.write_all(&encode(&read.clone().into(), id)).unwrap();
    }
    // Others are served meanwhile; after some rounds nothing more comes of the greedy one.
    let mut seen = 0;
    loop {
        for _ in 0..50 {
            other.probe(&server).expect("served");
        }
        let now = server.seen.reads.load(Ordering::SeqCst);
        if now == seen && now > 0 {
            break;
        }
        seen = now;
    }
    assert!(seen <= 40, "{seen} answers of 1 MiB were made for a reader that takes none");
    let mut payload = vec![0; 1 << 20];
    for id in 1..=COUNT as u64 {
        assert_eq!(read_frame(&mut peer).0.request, RequestId(id));
        peer.read_exact(&mut payload).expect("all of it comes in the end");
    }
}

#[test]
fn sixty_four_callers_are_all_served() {
    let server = Node::start(1);
    let clients: Vec<Node> = (2..10).map(Node::start).collect();
    std::thread::scope(|scope| {
        for client in &clients {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..200 {
                        client.probe(&server).expect("served");
                    }
                });
            }
        }
    });
    assert_eq!(server.seen.requests.load(Ordering::SeqCst), 64 * 200);
}
