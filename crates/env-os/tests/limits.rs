//! What many peers, or hostile ones, may make a process hold; and that others go on beside them.

mod toy;

use bytes::Bytes;
use cairn_env_os::LaunchLimits;
use cairn_protocol::{List, Push, Read, Request, Response};
use cairn_types::BlockChecksums;
use rustix::net::sockopt::set_socket_recv_buffer_size;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use toy::raw_peer::{dial, request_frame};
use toy::{Node, PATIENCE};

#[test]
fn a_newcomer_takes_the_place_of_whoever_has_been_idle_the_longest() {
    let limits = LaunchLimits { accepted_max: 8, ..LaunchLimits::default() };
    let server = Node::limited(1, limits);
    let address = server.address.as_str();
    let mut idle: Vec<_> = (0..8).map(|_| dial(address)).collect();
    let client = Node::start(2);
    client.probe(&server).expect("let in");
    client.probe(&server).expect("and stays");
    let gone = idle.remove(0).read(&mut [0]).expect("closed, not reset");
    assert_eq!(gone, 0, "the one that has been idle the longest is gone");
}

#[test]
fn a_dialled_connection_that_nobody_needs_makes_way_for_another() {
    let limits = LaunchLimits { dialled_max: 2, ..LaunchLimits::default() };
    let client = Node::limited(9, limits);
    let servers: Vec<_> = (1..6).map(Node::start).collect();
    for _ in 0..2 {
        for server in &servers {
            client.probe(server).expect("an answer");
        }
    }
    for server in &servers[..3] {
        server.gone.lock().expect("unpoisoned").recv_timeout(PATIENCE).expect("hung up on");
    }
}

/// Waits until something does not grow any more while others are served.
fn settled(server: &Node, other: &Node, grows: &AtomicUsize) -> usize {
    let mut seen = 0;
    loop {
        for _ in 0..100 {
            other.probe(server).expect("served");
        }
        let now = grows.load(Ordering::SeqCst);
        if now == seen && now > 0 {
            return now;
        }
        seen = now;
    }
}

/// A peer that takes little: the kernel keeps little for it, and it reads nothing.
fn dial_narrow(address: &str) -> TcpStream {
    let peer = dial(address);
    set_socket_recv_buffer_size(&peer, 4096).expect("sets");
    peer
}

#[test]
fn clients_that_do_not_read_make_a_server_hold_no_more_than_its_budget() {
    const LISTS: u64 = 100;
    const MEMORY_MAX: usize = 16 << 20;
    // What the kernel may have taken for all of them: its send buffers.
    const KERNEL_MAX: usize = 64 << 20;
    let server =
        Node::limited(1, LaunchLimits { memory_max: MEMORY_MAX, ..LaunchLimits::default() });
    let other = Node::start(2);
    let list = Request::from(List { limit: 1000, ..List::default() });
    let mut greedy: Vec<_> = (0..8).map(|_| dial_narrow(server.address.as_str())).collect();
    for peer in &mut greedy {
        let asked: Vec<u8> = (1..=LISTS).flat_map(|id| request_frame(&list, id)).collect();
        assert!(asked.len() < 10_000, "little is sent");
        peer.write_all(&asked).expect("asks");
    }
    let made = settled(&server, &other, &server.seen.lists) * 250_000;
    assert!(made < MEMORY_MAX + KERNEL_MAX, "{made} bytes for readers that take none");

    // Somebody who wants more than there is room for is served once the others are gone.
    let answer = other.ask(&server, list, Bytes::new()).expect("answered");
    let Response::List(list) = answer.response else { panic!("a list") };
    assert_eq!(list.entries.len(), 1000);
    let read = Read { size: 4 << 20, ..Read::default() };
    assert_eq!(other.ask(&server, read, Bytes::new()).expect("answered").payload.len(), 4 << 20);
    let gone = server.gone.lock().expect("unpoisoned");
    gone.recv_timeout(PATIENCE).expect("one that takes nothing is closed");
    drop(greedy);
}

#[test]
fn pushes_that_never_end_keep_no_room_from_others() {
    const SIZE: usize = 1 << 20;
    let limits = LaunchLimits { memory_max: 16 << 20, ..LaunchLimits::default() };
    let (server, other) = (Node::limited(1, limits), Node::start(2));
    let bytes = vec![7; SIZE];
    let checksums = BlockChecksums::of(0, &bytes, 64 << 10);
    let push = Request::from(Push { checksums, ..Push::default() });
    let half: Vec<_> = (0..64)
        .map(|_| {
            let mut peer = dial(server.address.as_str());
            let mut frame = Vec::new();
            let message = |out: &mut Vec<u8>| push.encode(out);
            let kind = cairn_protocol::FrameKind::Request;
            let id = cairn_protocol::RequestId(1);
            cairn_protocol::encode_frame(push.kind(), kind, id, &message, SIZE, &mut frame);
            frame.extend_from_slice(&bytes[..SIZE / 2]);
            // The kernel takes what the server does not.
            peer.set_nonblocking(true).expect("sets");
            let _ = peer.write(&frame);
            peer
        })
        .collect();
    let whole = Bytes::from(bytes);
    for _ in 0..4 {
        other.ask(&server, push.clone(), whole.clone()).expect("kept");
    }
    assert_eq!(half.len(), 64);
}
