//! By which connection what goes out.

use crate::context::NetworkContext;
use crate::outbound::{Outbound, OutgoingCall};
use crate::poller::Poller;
use crate::rpc_tap::RpcTap;
use crate::socket_options::UNTAKEN_TIME_MAX;
use bytes::Bytes;
use cairn_env::EffectId;
use cairn_protocol::{ListDisks, Push, Request};
use cairn_types::{Address, ServerId};
use std::net::TcpListener;
use std::time::Duration;

#[test]
fn an_order_does_not_stand_behind_data_of_the_same_server() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let to = Address::new(listener.local_addr().expect("bound").to_string());
    let mut cx = NetworkContext::new(Poller::new().expect("an epoll"), RpcTap::default());
    let mut outbound = Outbound::new(10, UNTAKEN_TIME_MAX);
    let mut backlogs = |id, request, size| {
        let (to, server, payload) = (to.clone(), ServerId::new(1), Bytes::from(vec![5; size]));
        let (id, deadline) = (EffectId(id), cx.now + Duration::from_secs(9));
        let call = OutgoingCall { id, to: to.clone(), server, request, payload, deadline };
        outbound.call(&mut cx, call);
        outbound.ids_to(&to).into_iter().map(|id| outbound.backlog(id)).collect::<Vec<usize>>()
    };
    let push = || Request::Push(Push::default());
    let [small, large] = [4 << 10, 1 << 20];
    let [first] = backlogs(1, push(), small)[..] else {
        panic!("little data goes among the calls")
    };
    let [calls, data] = backlogs(2, push(), large)[..] else { panic!("much has its own") };
    assert!(calls == first && data >= large, "{calls} {data}");
    let [calls, data] = backlogs(3, push(), large)[..] else { panic!("one for all of it") };
    assert!(calls == first && data >= 2 * large, "{calls} {data}");
    let [calls, still] = backlogs(4, Request::ListDisks(ListDisks::default()), 0)[..] else {
        panic!("two")
    };
    assert!(first < calls && calls < 2 * large && still == data, "{calls} {still}");
}
