//! What many peers, or hostile ones, may make a process hold; and that others go on beside them.

mod toy;

use cairn_env_os::LaunchLimits;
use std::io::Read as _;
use toy::raw_peer::dial;
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
