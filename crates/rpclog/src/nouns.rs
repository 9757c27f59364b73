//! What a request is about: the names by which it is found in several machines' logs.

use cairn_protocol::{
    Batch, ChunkserverToMaster, ClientToChunkserver, ClientToMaster, ClientToMember,
    ClientToStreams, CommitBundles, Directed, Forward, MasterToChunkserver, PrimaryToSecondary,
    ReplicaToReplica, Request, ShadowQuestion,
};
use cairn_types::{CellPath, ChunkHandle, ChunkVersion, EntryId, MutationName, SerialNumber};

/// The nouns of a request, as far as it has them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Nouns {
    /// A path of the cell.
    pub path: Option<String>,
    /// Where that goes.
    pub to: Option<String>,
    /// A file or directory.
    pub file: Option<EntryId>,
    /// A chunk.
    pub handle: Option<ChunkHandle>,
    /// The chunk that is to be its copy.
    pub copy: Option<ChunkHandle>,
    /// Its version.
    pub version: Option<ChunkVersion>,
    /// A position in the chunk.
    pub offset: Option<u64>,
    /// Bytes from there on.
    pub length: Option<u64>,
    /// The first mutation's number in the order of its lease.
    pub serial: Option<SerialNumber>,
    /// The client's name of the push or mutation: session and number (R15, R24).
    pub name: Option<(u128, u64)>,
    /// Of a batch: how many entries it has; the other nouns are those of the first.
    pub entries: Option<u64>,
}

impl Nouns {
    fn of_path(path: &impl ToString) -> Self {
        Self { path: Some(path.to_string()), ..Self::default() }
    }

    fn of_chunk(handle: ChunkHandle, version: ChunkVersion) -> Self {
        Self { handle: Some(handle), version: Some(version), ..Self::default() }
    }

    fn named(self, session: cairn_types::SessionId, number: cairn_types::MutationNumber) -> Self {
        Self { name: Some((session.get(), number.get())), ..self }
    }

    fn ranged(self, offset: u64, length: u64) -> Self {
        Self { offset: Some(offset), length: Some(length), ..self }
    }

    fn of_mutation(path: &CellPath, name: &MutationName) -> Self {
        Self::of_path(path).named(name.session, name.number)
    }

    fn going_to(self, to: Option<&CellPath>) -> Self {
        Self { to: to.map(ToString::to_string), ..self }
    }

    fn of_file(file: EntryId) -> Self {
        Self { file: Some(file), ..Self::default() }
    }

    fn of_handle(handle: ChunkHandle) -> Self {
        Self { handle: Some(handle), ..Self::default() }
    }

    /// A path or a chunk, as people write them.
    fn of_subject(subject: &str) -> Self {
        match ChunkHandle::parse(subject) {
            Some(handle) => Self::of_handle(handle),
            None => Self { path: Some(subject.to_owned()), ..Self::default() },
        }
    }

    fn of_batch(batch: Batch) -> Self {
        let entries = Some(batch.entries.len() as u64);
        let first = batch.entries.into_iter().next().map(|entry| Self::of(entry.into()));
        Self { entries, ..first.unwrap_or_default() }
    }

    /// Whether it is about this chunk.
    #[must_use]
    pub fn has_chunk(&self, handle: ChunkHandle) -> bool {
        [self.handle, self.copy].contains(&Some(handle))
    }

    /// Of a request.
    #[must_use]
    pub fn of(request: Request) -> Self {
        match request.directed() {
            Directed::ClientToMaster(request) => Self::of_client(request),
            Directed::ClientToStreams(request) => Self::of_stream(&request),
            Directed::ClientToMember(ClientToMember::AskShadow(ask)) => {
                Self::of(asked_of_shadow(&ask.question))
            }
            Directed::ChunkserverToMaster(request) => Self::of_report(&request),
            Directed::MasterToChunkserver(request) => Self::of_order(&request),
            Directed::ClientToChunkserver(request) => Self::of_data(&request),
            Directed::PrimaryToSecondary(PrimaryToSecondary::Forward(it)) => Self::of_forward(&it),
            Directed::PrimaryToSecondary(PrimaryToSecondary::Acknowledged(it)) => {
                Self::of_chunk(it.handle, it.version)
            }
            Directed::ReplicaToReplica(ReplicaToReplica::Fetch(it)) => {
                Self { offset: Some(it.offset), ..Self::of_chunk(it.handle, it.version) }
            }
            // About a server, its group, or its log.
            Directed::Handshake(_)
            | Directed::ClientToMember(_)
            | Directed::ClientToServer(_)
            | Directed::MasterToMaster(_) => Self::default(),
        }
    }

    fn of_client(request: ClientToMaster) -> Self {
        use ClientToMaster as Ask;
        match request {
            Ask::Stat(it) => Self::of_path(&it.path),
            Ask::Open(it) => Self::of_path(&it.path),
            Ask::List(it) => Self::of_path(&it.path),
            Ask::Find(it) => Self::of_path(&it.root),
            Ask::GetPolicy(it) => Self::of_path(&it.path),
            Ask::GetQuota(it) => Self::of_path(&it.path),
            Ask::ListChunks(it) => it.under.as_ref().map(Self::of_path).unwrap_or_default(),
            Ask::ListDeleted(it) => it.directory.as_ref().map(Self::of_path).unwrap_or_default(),
            Ask::MakeDirectory(it) => Self::of_mutation(&it.path, &it.mutation),
            Ask::Create(it) => Self::of_mutation(&it.path, &it.mutation),
            Ask::Delete(it) => Self::of_mutation(&it.path, &it.mutation),
            Ask::SetAttributes(it) => Self::of_mutation(&it.path, &it.mutation),
            Ask::SetPolicy(it) => Self::of_mutation(&it.path, &it.mutation),
            Ask::SetQuota(it) => Self::of_mutation(&it.path, &it.mutation),
            Ask::Undelete(it) => Self::of_mutation(&it.path, &it.mutation).going_to(it.to.as_ref()),
            Ask::Rename(it) => Self::of_mutation(&it.from, &it.mutation).going_to(Some(&it.to)),
            Ask::Snapshot(it) => Self::of_mutation(&it.from, &it.mutation).going_to(Some(&it.to)),
            Ask::Locate(it) => Self::of_file(it.file),
            Ask::Lease(it) => Self::of_file(it.file),
            Ask::RecordLength(it) => Self::of_file(it.file),
            Ask::ReportBadBlock(it) => Self::of_chunk(it.handle, it.version),
            Ask::LetGoOfLost(it) => Self::of_handle(it.handle),
            Ask::Explain(it) => Self::of_subject(&it.subject),
            Ask::Recover(it) => Self::of_subject(&it.subject),
            Ask::Batch(it) => Self::of_batch(it),
            // About the cell, its servers or its jobs, or about chunks of which none is named.
            Ask::CellInfo(_)
            | Ask::Servers(_)
            | Ask::Status(_)
            | Ask::ForgetServer(_)
            | Ask::ListDegraded(_)
            | Ask::Resources(_)
            | Ask::ListDisks(_)
            | Ask::RepairStatus(_)
            | Ask::ListLost(_)
            | Ask::ListJobs(_)
            | Ask::CancelJob(_)
            | Ask::Drain(_)
            | Ask::Undrain(_)
            | Ask::Balance(_)
            | Ask::ChangeSettings(_)
            | Ask::CountShared(_)
            | Ask::FindPrimary(_) => Self::default(),
        }
    }

    fn of_stream(request: &ClientToStreams) -> Self {
        use ClientToStreams as Ask;
        match request {
            Ask::OpenProducer(it) => {
                Self::of_file(it.file).named(it.mutation.session, it.mutation.number)
            }
            Ask::ForgetProducer(it) => {
                Self::of_file(it.file).named(it.mutation.session, it.mutation.number)
            }
            Ask::SkipLost(it) => Self { handle: Some(it.handle), ..Self::of_file(it.file) },
            Ask::AllocateChunks(it) => Self::of_file(it.file),
            Ask::CommitBundles(it) => Self::of_commit(it),
            Ask::CloseProducer(it) => Self::of_file(it.file),
            Ask::ListProducers(it) => Self::of_file(it.file),
            Ask::ReadExtents(it) => Self { offset: Some(it.offset), ..Self::of_file(it.file) },
            Ask::WaitLength(it) => Self { offset: Some(it.length), ..Self::of_file(it.file) },
        }
    }

    /// Of the first bundle; the others follow it.
    fn of_commit(commit: &CommitBundles) -> Self {
        let nouns = Self::of_file(commit.file);
        let entries = Some(commit.bundles.len() as u64);
        let Some(first) = commit.bundles.first() else { return Self { entries, ..nouns } };
        let (handle, serial) = (Some(first.handle), Some(first.serial));
        Self { handle, serial, entries, ..nouns.ranged(first.offset, first.size) }
    }

    fn of_report(request: &ChunkserverToMaster) -> Self {
        match request {
            ChunkserverToMaster::SecondaryFailed(it) => Self::of_chunk(it.handle, it.version),
            ChunkserverToMaster::ChunkClosed(it) => Self::of_handle(it.handle),
            ChunkserverToMaster::Join(_)
            | ChunkserverToMaster::Inventory(_)
            | ChunkserverToMaster::Heartbeat(_)
            | ChunkserverToMaster::TellShadow(_) => Self::default(),
        }
    }

    fn of_order(request: &MasterToChunkserver) -> Self {
        match request {
            MasterToChunkserver::Raise(it) => Self::of_handle(it.handle),
            MasterToChunkserver::GrantLease(it) => Self::of_chunk(it.handle, it.version),
            MasterToChunkserver::RevokeLease(it) => Self::of_handle(it.handle),
            MasterToChunkserver::Probe(it) => Self::of_handle(it.handle),
            MasterToChunkserver::CloneChunk(it) => Self::of_chunk(it.handle, it.version),
            MasterToChunkserver::DropClone(it) => Self::of_handle(it.handle),
            MasterToChunkserver::CopyChunk(it) => {
                Self { copy: Some(it.copy), ..Self::of_chunk(it.handle, it.version) }
            }
            MasterToChunkserver::AssembleChunk(it) => {
                let entries = Some(it.ranges.len() as u64);
                Self { entries, ..Self::of_handle(it.handle) }
            }
        }
    }

    fn of_data(request: &ClientToChunkserver) -> Self {
        use ClientToChunkserver as Ask;
        match request {
            Ask::Push(it) => Self::default().named(it.push.session, it.push.number),
            Ask::Write(it) => Self::of_chunk(it.handle, it.version)
                .ranged(it.offset, it.size)
                .named(it.push.session, it.push.number),
            Ask::Append(it) => Self {
                length: Some(it.size),
                ..Self::of_chunk(it.handle, it.version).named(it.push.session, it.push.number)
            },
            Ask::Extend(it) => Self {
                serial: Some(it.serial),
                ..Self::of_chunk(it.handle, it.version)
                    .ranged(it.offset, it.size)
                    .named(it.push.session, it.push.number)
            },
            Ask::Read(it) => Self::of_chunk(it.handle, it.version).ranged(it.offset, it.size),
            Ask::ChunkLength(it) => Self::of_chunk(it.handle, it.version),
            Ask::SyncChunk(it) => Self::of_chunk(it.handle, it.version),
            Ask::CheckReplica(it) => Self { offset: Some(it.offset), ..Self::of_handle(it.handle) },
            Ask::ListHeld(_) => Self::default(),
        }
    }

    fn of_forward(it: &Forward) -> Self {
        let nouns = Self::of_chunk(it.handle, it.version);
        let Some(first) = it.mutations.first() else { return nouns };
        let sizes = it.mutations.iter().map(|mutation| mutation.size);
        let nouns = Self { serial: Some(first.serial), ..nouns };
        let nouns = nouns.ranged(first.offset, sizes.fold(0, u64::saturating_add));
        match first.push {
            Some(push) => nouns.named(push.session, push.number),
            None => nouns,
        }
    }
}

/// The question behind one to a shadow master.
pub(crate) fn asked_of_shadow(question: &ShadowQuestion) -> Request {
    question.clone().into()
}

#[cfg(test)]
mod tests {
    use super::Nouns;
    use cairn_protocol::{
        AssembleChunk, Batch, BatchEntry, Bundle, CheckReplica, CommitBundles, CopyChunk,
        DropClone, Explain, ForgetProducer, GetPolicy, GetQuota, LetGoOfLost, OpenProducer, Probe,
        Recover, Request, SecondaryFailed, SetAttributes, SetPolicy, SetQuota, Snapshot, Stat,
        WaitLength,
    };
    use cairn_types::{CellPath, ChunkHandle, EntryId, MutationName, MutationNumber, SessionId};

    const HANDLE: ChunkHandle = ChunkHandle::new(70);

    fn path(text: &str) -> CellPath {
        CellPath::parse(text).expect("a path")
    }

    #[test]
    fn every_request_about_a_chunk_is_found_by_its_handle() {
        let requests: [Request; 10] = [
            AssembleChunk { handle: HANDLE, ..AssembleChunk::default() }.into(),
            CopyChunk { handle: HANDLE, ..CopyChunk::default() }.into(),
            CopyChunk { copy: HANDLE, ..CopyChunk::default() }.into(),
            Probe { handle: HANDLE, ..Probe::default() }.into(),
            DropClone { handle: HANDLE, ..DropClone::default() }.into(),
            CheckReplica { handle: HANDLE, ..CheckReplica::default() }.into(),
            LetGoOfLost { handle: HANDLE }.into(),
            SecondaryFailed { handle: HANDLE, ..SecondaryFailed::default() }.into(),
            Explain { subject: HANDLE.short() }.into(),
            Recover { subject: HANDLE.short(), ..Recover::default() }.into(),
        ];
        for request in requests {
            let nouns = Nouns::of(request.clone());
            assert!(nouns.has_chunk(HANDLE), "{request:?}: {nouns:?}");
            assert!(!nouns.has_chunk(ChunkHandle::new(71)), "{request:?}: {nouns:?}");
        }
    }

    #[test]
    fn a_commit_is_found_by_its_first_bundle_and_an_opening_by_its_clients_name() {
        let file = EntryId::new(9);
        let bundle = Bundle { handle: HANDLE, offset: 7, size: 8, ..Bundle::default() };
        let bundles = vec![bundle, Bundle::default()];
        let nouns = Nouns::of(CommitBundles { file, bundles, ..Default::default() }.into());
        assert!(nouns.has_chunk(HANDLE));
        let range = (nouns.offset, nouns.length, nouns.entries);
        assert_eq!((nouns.file, range), (Some(file), (Some(7), Some(8), Some(2))));
        assert_eq!(Nouns::of(CommitBundles { file, ..Default::default() }.into()).file, Some(file));
        let mutation = MutationName { session: SessionId::new(5), number: MutationNumber::new(6) };
        let named: [Request; 2] = [
            OpenProducer { mutation, file, ..Default::default() }.into(),
            ForgetProducer { mutation, file, ..Default::default() }.into(),
        ];
        for request in named {
            let nouns = Nouns::of(request);
            assert_eq!((nouns.file, nouns.name), (Some(file), Some((5, 6))));
        }
        let wait = WaitLength { file, length: 3, ..WaitLength::default() };
        assert_eq!(Nouns::of(wait.into()).offset, Some(3));
    }

    #[test]
    fn every_request_about_a_path_tells_it_and_its_clients_name_for_what_changes_something() {
        let (path, to) = (path("/a"), path("/b"));
        let mutation = MutationName { session: SessionId::new(5), number: MutationNumber::new(6) };
        let mutations: [Request; 4] = [
            Snapshot { mutation, from: path.clone(), to: to.clone(), anew: None }.into(),
            SetAttributes { mutation, path: path.clone(), ..SetAttributes::default() }.into(),
            SetQuota { mutation, path: path.clone(), ..SetQuota::default() }.into(),
            SetPolicy { mutation, path: path.clone(), ..SetPolicy::default() }.into(),
        ];
        for request in &mutations {
            let nouns = Nouns::of(request.clone());
            let told = (nouns.path.as_deref(), nouns.name);
            assert_eq!(told, (Some("/a"), Some((5, 6))), "{request:?}");
        }
        assert_eq!(Nouns::of(mutations[0].clone()).to.as_deref(), Some("/b"));
        let [first, second] =
            [&path, &to].map(|path| BatchEntry::Stat(Stat { path: path.clone() }));
        let questions: [Request; 4] = [
            GetQuota { path: path.clone() }.into(),
            GetPolicy { path: path.clone() }.into(),
            Explain { subject: path.to_string() }.into(),
            Batch { entries: vec![first, second] }.into(),
        ];
        for request in &questions {
            assert_eq!(Nouns::of(request.clone()).path.as_deref(), Some("/a"), "{request:?}");
        }
        assert_eq!(Nouns::of(questions[3].clone()).entries, Some(2));
    }
}
