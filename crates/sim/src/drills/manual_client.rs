//! A client's part of a mutation, one message at a time (GFS §3.1, Figure 2): the prober in a
//! client's place, so that a drill can do what no client would, or do it just then.

use super::script::DrillScript;
use crate::checkers::Verdict;
use crate::prober::{PendingAnswer, send};
use crate::simulation::told;
use bytes::Bytes;
use cairn_env::Answer;
use cairn_env_sim::NodeId;
use cairn_protocol::{
    Append, ChunkGrant, Failure, Lease, LeasePurpose, Push, Read, Request, Response, Write,
};
use cairn_types::{BlockChecksums, EntryId, MutationNumber, PushId, ReplicaAt, SessionId};

/// The session of all that is pushed by hand.
const SESSION: SessionId = SessionId::new(0xd011);

/// A mutation's data, by name.
#[derive(Clone, Debug)]
pub(super) struct ManualMutation {
    push: PushId,
    offset: u64,
    bytes: Bytes,
    checksums: BlockChecksums,
}

/// The servers of a chunk's set.
#[derive(Clone, Debug)]
pub(super) struct ServerSet {
    pub(super) primary: NodeId,
    /// In order of server id: the order in which the master chooses, all else being equal.
    pub(super) secondaries: Vec<NodeId>,
}

impl ServerSet {
    pub(super) fn all(&self) -> Vec<NodeId> {
        std::iter::once(self.primary).chain(self.secondaries.iter().copied()).collect()
    }
}

impl DrillScript {
    /// Asks a machine anything, past all clients.
    pub(super) fn send(
        &mut self,
        to: NodeId,
        request: impl Into<Request>,
        payload: Bytes,
    ) -> PendingAnswer {
        let to = self.address(to);
        send(&mut self.sim, self.prober, to, (request.into(), payload))
    }

    /// Waits for an answer.
    pub(super) fn answer(&mut self, awaited: &PendingAnswer) -> Result<Answer, Failure> {
        self.until("a probe was answered", |_| awaited.borrow().is_some())
            .expect("calls have deadlines");
        awaited.take().expect("waited for")
    }

    /// Asks a machine anything, past all clients, and waits for the answer.
    pub(super) fn probe(
        &mut self,
        to: NodeId,
        request: impl Into<Request>,
        payload: Bytes,
    ) -> Result<Answer, Failure> {
        let awaited = self.send(to, request, payload);
        self.answer(&awaited)
    }

    /// Asks the master for the right to append.
    ///
    /// # Errors
    /// It gave none.
    pub(super) fn grant(&mut self, file: EntryId) -> Result<ChunkGrant, String> {
        self.grant_doubting(file, None)
    }

    /// Asks the master for the right to append, and says that this grant's primary has failed.
    ///
    /// # Errors
    /// It gave none.
    pub(super) fn grant_doubting(
        &mut self,
        file: EntryId,
        doubted: Option<&ChunkGrant>,
    ) -> Result<ChunkGrant, String> {
        let purpose = LeasePurpose::Append;
        let mut request = Lease { file, purpose, ..Lease::default() };
        if let Some(grant) = doubted {
            (request.failed, request.failed_version) = (grant.primary.server, grant.version);
        }
        let master = self.nodes().master;
        match self.probe(master, request, Bytes::new()).map(|answer| answer.response) {
            Ok(Response::Lease(grant)) => Ok(grant),
            Ok(other) => Err(format!("asked for a lease: {other:?}")),
            Err(failure) => Err(format!("asked for a lease: {}", told(&failure))),
        }
    }

    /// Which machines a grant names.
    pub(super) fn set_of(&self, grant: &ChunkGrant) -> ServerSet {
        let mut secondaries: Vec<&ReplicaAt> = grant.secondaries.iter().collect();
        secondaries.sort_by_key(|at| at.server);
        ServerSet {
            primary: self.node_at(&grant.primary),
            secondaries: secondaries.into_iter().map(|at| self.node_at(at)).collect(),
        }
    }

    /// The machine of a replica.
    pub(super) fn node_at(&self, at: &ReplicaAt) -> NodeId {
        let here = |node: &&NodeId| self.address(**node) == at.address;
        *self.nodes().servers.iter().find(here).expect("servers of the cell")
    }

    /// Data that lies at `offset` of the chunk once written; for an append, 0.
    pub(super) fn data(&self, number: u64, offset: u64, bytes: &[u8]) -> ManualMutation {
        let push = PushId { session: SESSION, number: MutationNumber::new(number) };
        let checksums = BlockChecksums::of(offset, bytes, self.sim.cell_config.block_size);
        ManualMutation { push, offset, bytes: Bytes::copy_from_slice(bytes), checksums }
    }

    /// Step 3: the data goes to each of these.
    ///
    /// # Errors
    /// One did not take it.
    pub(super) fn push(&mut self, to: &[NodeId], data: &ManualMutation) -> Verdict {
        let block_size = self.sim.cell_config.block_size;
        let block_offset = u32::try_from(data.offset % u64::from(block_size));
        for node in to {
            let push = Push {
                push: data.push,
                block_offset: block_offset.expect("less than a block"),
                checksums: data.checksums.clone(),
                chain: vec![],
                block_size,
                order: None,
            };
            let answer = self.probe(*node, push, data.bytes.clone());
            answer.map_err(|failure| format!("push to {node:?}: {}", told(&failure)))?;
        }
        Ok(())
    }

    /// Step 4, of an append.
    pub(super) fn order_append(
        &mut self,
        grant: &ChunkGrant,
        data: &ManualMutation,
    ) -> PendingAnswer {
        let append = Append {
            handle: grant.handle,
            version: grant.version,
            lease: grant.lease,
            push: data.push,
            size: data.bytes.len() as u64,
            checksums: data.checksums.clone(),
            sync: false,
        };
        let primary = self.node_at(&grant.primary);
        self.send(primary, append, Bytes::new())
    }

    /// Step 4, of a write.
    pub(super) fn order_write(
        &mut self,
        grant: &ChunkGrant,
        data: &ManualMutation,
    ) -> PendingAnswer {
        let write = Write {
            handle: grant.handle,
            version: grant.version,
            lease: grant.lease,
            push: data.push,
            offset: data.offset,
            size: data.bytes.len() as u64,
            checksums: data.checksums.clone(),
            sync: false,
        };
        let primary = self.node_at(&grant.primary);
        self.send(primary, write, Bytes::new())
    }

    /// Waits for an append's end, and gives its offset.
    ///
    /// # Errors
    /// It failed.
    pub(super) fn appended(&mut self, awaited: &PendingAnswer) -> Result<u64, String> {
        match self.answer(awaited).map(|answer| answer.response) {
            Ok(Response::Append(done)) => Ok(done.offset),
            Ok(other) => Err(format!("append: {other:?}")),
            Err(failure) => Err(format!("append: {}", told(&failure))),
        }
    }

    /// What one replica itself gives from the start of its chunk, whoever else may hold it.
    ///
    /// # Errors
    /// It refused.
    pub(super) fn read_at(
        &mut self,
        server: NodeId,
        grant: &ChunkGrant,
        size: u64,
    ) -> Result<Vec<u8>, String> {
        let (handle, version) = (grant.handle, grant.version);
        let read = Read { handle, version, size, ..Read::default() };
        let answer = self.probe(server, read, Bytes::new()).map_err(|why| told(&why))?;
        Ok(answer.payload.to_vec())
    }
}
