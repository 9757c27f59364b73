//! Logs that tests write by hand.

use crate::entry::ROLE_CLIENT;
use crate::reading::ServerLife;
use bytes::Bytes;
use cairn_format::{BatchHead, BatchWriter, LinkLine, RpcLine, RpcWay};
use cairn_protocol::{Failure, Request, Response};
use cairn_types::ServerId;
use cairn_types::wire::Message;

/// A log of one life.
pub(crate) struct TestLog {
    writer: BatchWriter,
    server: u64,
    role: u8,
    now_us: u64,
    links: u64,
    requests: u64,
}

impl TestLog {
    /// Of this server.
    pub(crate) fn new(server: u64, role: u8) -> Self {
        let mut writer = BatchWriter::default();
        let server_id = ServerId::new(server);
        let head = BatchHead { run: server, role, server: server_id, ..BatchHead::default() };
        writer.begin(&head);
        Self { writer, server, role, now_us: 1_000_000, links: 0, requests: 0 }
    }

    /// Somebody of this role has dialled; its connection.
    pub(crate) fn link(&mut self, role: u8) -> u64 {
        let server = if role == ROLE_CLIENT { 0 } else { 90 + self.links };
        let peer = format!("10.0.0.9:{}", 40_000 + self.links);
        let local = format!("10.0.0.{}:7400", self.server);
        self.link_to((false, role, server), &local, &peer)
    }

    pub(crate) fn link_to(
        &mut self,
        (is_dialled, role, server): (bool, u8, u64),
        local: &str,
        peer: &str,
    ) -> u64 {
        self.links += 1;
        let server = ServerId::new(server);
        let link = self.links;
        self.writer.link(self.now_us, &LinkLine { link, is_dialled, role, server, local, peer });
        link
    }

    /// A request and its reply, a millisecond apart.
    pub(crate) fn exchange(
        &mut self,
        link: u64,
        request: &Request,
        answer: Result<(Response, u64), Failure>,
    ) {
        self.requests += 1;
        let number = self.requests;
        self.request(link, number, RpcWay::RequestReceived, request);
        self.reply(link, number, (RpcWay::ReplySent, request.kind()), answer);
    }

    pub(crate) fn request(&mut self, link: u64, number: u64, way: RpcWay, request: &Request) {
        let mut message = Vec::new();
        request.encode(&mut message);
        let line = line(way, link, number, request.kind(), message.len());
        self.writer.rpc(self.now_us, &line, &message);
        self.now_us += 1000;
    }

    pub(crate) fn reply(
        &mut self,
        link: u64,
        number: u64,
        (way, rpc): (RpcWay, u16),
        answer: Result<(Response, u64), Failure>,
    ) {
        let mut message = Vec::new();
        let (is_failure, payload_size) = match &answer {
            Ok((response, payload)) => {
                response.encode(&mut message);
                (false, *payload)
            }
            Err(failure) => {
                failure.encode(&mut message);
                (true, 0)
            }
        };
        let line = line(way, link, number, rpc, message.len());
        let line = RpcLine { is_failure, payload_size, duration_us: 1000, ..line };
        self.writer.rpc(self.now_us, &line, &message);
        self.now_us += 1000;
    }

    /// Moves its clock.
    pub(crate) fn set_time(&mut self, now_us: u64) {
        self.now_us = now_us;
    }

    pub(crate) fn drop_entries(&mut self, count: u64) {
        self.writer.dropped(self.now_us, count);
    }

    pub(crate) fn batch(mut self) -> Vec<u8> {
        assert!(self.role > 0);
        self.writer.take()
    }

    pub(crate) fn life(self) -> ServerLife {
        ServerLife::of_batches(vec![Bytes::from(self.batch())])
    }

    /// With a batch that is torn behind it.
    pub(crate) fn torn_life(self) -> ServerLife {
        ServerLife::of_batches(vec![Bytes::from(self.batch()), Bytes::from_static(b"torn")])
    }
}

fn line(way: RpcWay, link: u64, request: u64, rpc: u16, size: usize) -> RpcLine<'static> {
    RpcLine {
        way,
        link,
        request,
        rpc,
        is_failure: false,
        message_size: size as u64,
        payload_size: 0,
        duration_us: 0,
        message: None,
    }
}
