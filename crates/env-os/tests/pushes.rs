//! Pushes down a chain of toy drivers over loopback.
#![allow(clippy::unwrap_used, reason = "tests")]

mod toy;

use bytes::Bytes;
use cairn_env_os::bind;
use cairn_protocol::{
    Append, AppendOrder, ChunkLength, ErrorCode, FrameKind, Outcome, Push, Request, RequestId,
    Response, Role, Rpc, SHORT_PUSH_MAX, encode_frame,
};
use cairn_types::{
    Address, BLOCK_SIZE, BlockChecksums, ChunkHandle, MutationNumber, PushId, Rack, ReplicaAt,
    ServerId, SessionId,
};
use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use toy::Node;
use toy::raw_peer::{dial, dial_as, read_frame, request_frame};

fn at(node: &Node) -> ReplicaAt {
    ReplicaAt { server: node.server, address: node.address.clone(), rack: Rack::default() }
}

/// A server that is not there, at an address where nobody ever listens for long.
fn dead() -> ReplicaAt {
    let listener = bind("127.0.0.78:0").unwrap();
    let address = Address::new(listener.local_addr().unwrap().to_string());
    ReplicaAt { server: ServerId::new(99), address, rack: Rack::default() }
}

fn name(number: u64) -> PushId {
    PushId { session: SessionId::new(5), number: MutationNumber::new(number) }
}

fn bytes(seed: u64, size: usize) -> Bytes {
    (0..size as u64).map(|at| (at * 31 + seed + at / 251) as u8).collect()
}

fn push(number: u64, offset: u32, bytes: &Bytes, chain: &[ReplicaAt]) -> Push {
    Push {
        push: name(number),
        block_offset: offset,
        checksums: BlockChecksums::of(u64::from(offset), bytes, BLOCK_SIZE),
        chain: chain.to_vec(),
        block_size: 0,
        order: None,
    }
}

/// What a node has kept under this name.
fn kept(node: &Node, number: u64) -> Option<Vec<u8>> {
    let kept = node.service.kept.lock().unwrap();
    kept.get(&name(number)).map(|data| data.segments.concat())
}

fn chain() -> ([Node; 3], Node) {
    ([Node::start(1), Node::start(2), Node::start(3)], Node::start(4))
}

#[test]
fn the_size_of_the_blocks_that_a_push_was_cut_at_is_kept_with_it() {
    let (server, client) = (Node::start(1), Node::start(2));
    let sent = bytes(3, 1000);
    let checksums = BlockChecksums::of(0, &sent, 64);
    let small = Push { checksums, block_size: 64, ..push(1, 0, &sent, &[]) };
    for push in [small, push(2, 0, &sent, &[])] {
        client.ask(&server, push, sent.clone()).expect("kept");
    }
    let kept = server.service.kept.lock().unwrap();
    let sizes: Vec<u32> = kept.values().map(|data| data.block_size).collect();
    assert_eq!(sizes, [64, BLOCK_SIZE]);
}

#[test]
fn every_server_of_a_chain_holds_the_bytes_when_the_push_is_answered() {
    let ([a, b, c], client) = chain();
    let sizes = [1, 5000, 65_536, 300_000, 1 << 20, (9 << 20) + 3];
    for (number, size) in sizes.into_iter().enumerate() {
        for offset in [0, 777] {
            let number = (number * 1000 + offset) as u64;
            let data = bytes(number, size);
            let push = push(number, offset as u32, &data, &[at(&b), at(&c)]);
            let answer = client.ask(&a, push, data.clone()).expect("all good");
            assert!(matches!(answer.response, Response::Push(_)));
            for node in [&a, &b, &c] {
                assert!(kept(node, number).as_deref() == Some(&data[..]), "{size} bytes");
            }
        }
    }
}

#[test]
fn many_pushes_at_once_over_crossing_chains_all_arrive() {
    let ([a, b, c], client) = chain();
    let data = bytes(1, 3 << 20);
    std::thread::scope(|scope| {
        let (data, client) = (&data, &client);
        for (round, order) in [[&a, &b, &c], [&b, &c, &a], [&c, &a, &b]].into_iter().enumerate() {
            for number in 0..8 {
                scope.spawn(move || {
                    let number = (round * 8 + number) as u64;
                    let push = push(number, 0, data, &[at(order[1]), at(order[2])]);
                    client.ask(order[0], push, data.clone()).expect("arrives");
                });
            }
        }
    });
    for node in [&a, &b, &c] {
        assert!((0..24).all(|number| kept(node, number).as_ref() == Some(&data.to_vec())));
    }
}

#[test]
fn a_flipped_byte_is_kept_by_nobody_and_the_next_push_goes_through() {
    let ([a, b, c], client) = chain();
    let good = bytes(1, 1 << 20);
    for at_byte in [0, 700_000, (1 << 20) - 1] {
        let mut bad = good.to_vec();
        bad[at_byte] ^= 4;
        let bad_push = push(1, 0, &good, &[at(&b), at(&c)]);
        let failure = client.ask(&a, bad_push, bad.into()).expect_err("damaged");
        assert_eq!(
            (failure.code, failure.outcome),
            (ErrorCode::ChecksumMismatch, Outcome::NotDone)
        );
    }
    let next = push(2, 0, &good, &[at(&b), at(&c)]);
    client.ask(&a, next, good.clone()).expect("the next one is fine");
    for node in [&a, &b, &c] {
        assert_eq!(kept(node, 1), None);
        assert!(kept(node, 2).as_deref() == Some(&good[..]));
    }
}

/// The same, with an append to follow it.
fn ordering(number: u64, bytes: &Bytes, chain: &[ReplicaAt]) -> Push {
    let order = AppendOrder { handle: ChunkHandle::new(7), ..AppendOrder::default() };
    Push { order: Some(Box::new(order)), ..push(number, 0, bytes, chain) }
}

#[test]
fn an_append_that_comes_with_its_push_is_asked_once_all_hold_the_bytes_and_answered_in_its_place() {
    let ([a, b, c], client) = chain();
    for (number, size) in [(1, 100), (2, SHORT_PUSH_MAX)] {
        let data = bytes(number, size);
        let push = ordering(number, &data, &[at(&b), at(&c)]);
        let answer = client.ask(&a, push, data.clone()).expect("all good");
        let Response::Append(appended) = answer.response else { panic!("{answer:?}") };
        assert_eq!(appended.offset, size as u64, "the toy's answer");
        let append = a.seen.appends.lock().unwrap().pop().expect("it was asked");
        assert_eq!((append.push, append.size), (name(number), size as u64));
        assert_eq!(append.checksums, BlockChecksums::of(0, &data, BLOCK_SIZE));
        assert_eq!((append.handle, append.sync), (ChunkHandle::new(7), false));
        assert!([&a, &b, &c].iter().all(|node| kept(node, number).as_deref() == Some(&data[..])));
    }
    for node in [&b, &c] {
        assert!(node.seen.appends.lock().unwrap().is_empty(), "it is never passed on");
    }
    client.probe(&a).expect("the connection goes on");
    let connections = a.seen.connections.lock().unwrap();
    assert_eq!(connections.len(), 1, "orders and other requests come by one (R15)");
}

#[test]
fn an_append_whose_push_fails_is_asked_of_nobody() {
    let ([a, b, _], client) = chain();
    let data = bytes(1, 1000);
    let push = ordering(1, &data, &[at(&b), dead()]);
    let failure = client.ask(&a, push, data.clone()).expect_err("broken at the end");
    assert_eq!(failure.code, ErrorCode::ChainBroken);
    let mut bad = data.to_vec();
    bad[5] ^= 1;
    let failure = client.ask(&a, ordering(2, &data, &[]), bad.into()).expect_err("damaged");
    assert_eq!(failure.code, ErrorCode::ChecksumMismatch);
    let long = bytes(3, SHORT_PUSH_MAX + 1);
    let failure = client.ask(&a, ordering(3, &long, &[]), long).expect_err("too long");
    assert_eq!((failure.code, failure.outcome), (ErrorCode::Invalid, Outcome::Refused));
    assert!(a.seen.appends.lock().unwrap().is_empty());
}

/// So many pushes with an order each, as the bytes of a bare socket.
fn many_orders(count: u64) -> Vec<u8> {
    let (data, mut out) = (bytes(1, 40), Vec::new());
    for number in 1..=count {
        let push = Request::from(ordering(number, &data, &[]));
        let message = |out: &mut Vec<u8>| push.encode(out);
        let (kind, id) = (FrameKind::Request, RequestId(number));
        encode_frame(push.kind(), kind, id, &message, data.len(), &mut out);
        out.extend_from_slice(&data);
    }
    out
}

#[test]
fn more_pushes_with_orders_than_a_connection_may_have_under_way_are_all_answered() {
    let server = Node::start(1);
    let mut peer = dial(server.address.as_str());
    peer.write_all(&many_orders(1500)).unwrap();
    let mut answered = BTreeSet::new();
    for _ in 0..1500 {
        let (header, _) = read_frame(&mut peer);
        assert_eq!(header.rpc, Append::KIND);
        answered.insert(header.request.0);
    }
    assert_eq!(answered.len(), 1500);
    // Whatever it asks then is heard, too.
    peer.write_all(&request_frame(&ChunkLength::default().into(), 9999)).unwrap();
    assert_eq!(read_frame(&mut peer).0.request, RequestId(9999));
}

#[test]
fn who_may_not_order_an_append_may_not_do_it_by_a_push() {
    let server = Node::start(1);
    let mut peer = dial_as(server.address.as_str(), Role::Chunkserver);
    peer.write_all(&many_orders(1)).unwrap();
    let (header, _) = read_frame(&mut peer);
    assert_eq!((header.request, header.kind), (RequestId(1), FrameKind::Failure));
    assert_eq!(peer.read(&mut [0]).unwrap(), 0, "and is gone");
    assert!(server.seen.appends.lock().unwrap().is_empty());
}

#[test]
fn a_dead_server_in_the_middle_is_named_and_the_one_before_it_keeps_the_bytes() {
    let ([a, _, c], client) = chain();
    for (number, size) in [(1, 100), (2, 5 << 20)] {
        let data = bytes(number, size);
        let failure = client
            .ask(&a, push(number, 0, &data, &[dead(), at(&c)]), data.clone())
            .expect_err("broken");
        assert_eq!((failure.code, failure.server), (ErrorCode::ChainBroken, ServerId::new(99)));
        assert!(kept(&a, number).as_deref() == Some(&data[..]));
        assert_eq!(kept(&c, number), None);
    }
}

#[test]
fn a_failure_further_down_comes_up_the_chain_as_it_is() {
    let ([a, b, _], client) = chain();
    let data = bytes(1, 1 << 20);
    let failure = client
        .ask(&a, push(1, 0, &data, &[at(&b), dead()]), data.clone())
        .expect_err("broken at the end");
    assert_eq!((failure.code, failure.server), (ErrorCode::ChainBroken, ServerId::new(99)));
    assert!(kept(&a, 1).is_some() && kept(&b, 1).is_some());
}

#[test]
fn another_server_at_the_next_address_breaks_the_chain_by_its_name() {
    let ([a, b, _], client) = chain();
    let data = bytes(1, 1000);
    let meant = ReplicaAt { server: ServerId::new(50), ..at(&b) };
    let failure = client.ask(&a, push(1, 0, &data, &[meant]), data).expect_err("another one");
    assert_eq!((failure.code, failure.server), (ErrorCode::ChainBroken, ServerId::new(50)));
    assert_eq!(kept(&b, 1), None);
}

#[test]
fn a_push_whose_checksums_do_not_fit_its_size_is_refused_and_harms_nothing() {
    let ([a, ..], client) = chain();
    let data = bytes(1, 200_000);
    let wrong = push(1, 0, &bytes(1, 1000), &[]);
    let failure = client.ask(&a, wrong, data).expect_err("too few checksums");
    assert_eq!((failure.code, failure.outcome), (ErrorCode::Invalid, Outcome::Refused));
    client.probe(&a).expect("the connection goes on");
}

#[test]
fn a_sender_that_goes_away_in_the_middle_leaves_nothing_behind() {
    use cairn_protocol::{FrameKind, Hello, Request, RequestId, Role, encode_frame};
    use std::io::{Read, Write};
    let ([a, b, _], client) = chain();
    let data = bytes(1, 1 << 20);
    let mut peer = std::net::TcpStream::connect(a.address.as_str()).unwrap();
    let mut out = Vec::new();
    let hello = Hello::new(toy::CELL, Role::Client, ServerId::default(), Default::default());
    let half = Request::Push(push(1, 0, &data, &[at(&b)]));
    for (id, request, size) in [(0, Request::Hello(hello), 0), (1, half, data.len())] {
        let message = |out: &mut Vec<u8>| request.encode(out);
        encode_frame(request.kind(), FrameKind::Request, RequestId(id), &message, size, &mut out);
    }
    out.extend_from_slice(&data[..500_000]);
    peer.write_all(&out).unwrap();
    assert!(peer.read(&mut [0; 500]).expect("welcomed") > 0);
    drop(peer);
    a.gone.lock().unwrap().recv_timeout(toy::PATIENCE).expect("the first server sees it");
    b.gone.lock().unwrap().recv_timeout(toy::PATIENCE).expect("and the next one");
    client.ask(&a, push(2, 0, &data, &[at(&b)]), data.clone()).expect("the next one is fine");
    assert_eq!((kept(&a, 1), kept(&b, 1)), (None, None));
    assert!(kept(&b, 2).is_some());
}
