//! A cell as a client sees it: names, servers, state.

use crate::error::Error;
use crate::file::File;
use crate::link::{Link, wait_for};
use cairn_client_core::{Operation, Output, ShadowReads};
use cairn_env_os::{UMASK_USUAL, process_identity, process_umask};
use cairn_protocol::{Balance, BalanceAnswer, Drain, DrainAnswer, Undrain};
use cairn_protocol::{CancelJob, JobStatus, ListJobs};
use cairn_protocol::{
    CellInfo, CellInfoAnswer, ChunkLocations, Create, DegradedChunk, Delete, DeletedEntry,
    DeletedMark, Explain, ExplainAnswer, Find, FindAnswer, ForgetServer, LOCATE_COUNT_MAX,
    ListDegraded, ListDeleted, ListDisks, Locate, LocateAnswer, MakeDirectory, Open, Rename,
    RepairStatus, RepairStatusAnswer, Resources, ResourcesAnswer, Rpc, ServerDisks, ServerStatus,
    Servers, Stat, Status, StatusAnswer, Undelete,
};
use cairn_protocol::{ChangeSettings, LetGoOfLost, ListChunks, ListLost, ListedChunk, LostChunk};
use cairn_protocol::{ChosenReplica, Lease, LeasePurpose, Recover, RecoverAnswer};
use cairn_protocol::{FindPrimary, FindPrimaryAnswer};
use cairn_types::{
    Address, CellConfig, CellPath, ChunkHandle, ChunkIndex, Content, Entry, EntryId, Identity,
    Layout, MutationName, Rack, ReplicaAt, ServerId,
};
use std::sync::Arc;
use std::time::Duration;

/// Entries asked for at once.
const PAGE_SIZE: u32 = 1000;

/// How a client behaves.
#[derive(Clone, Debug)]
pub struct Options {
    /// How long one operation may take before it fails. Each call of this library is one
    /// operation, but for the streams, where each piece is.
    pub deadline: Duration,
    /// How long the cell's very first answer is waited for; none: as long as any operation.
    pub first_wait: Option<Duration>,
    /// Where this client is, such as `/dc1/r7`; replicas near it are read first, and data is
    /// pushed to the nearest first (§3.2).
    pub rack: Rack,
    /// Whether what may be behind will do: the word of masters that are not in charge, and of
    /// servers that none vouches for. [`Cell::shadow_notice`] tells whether any was taken. Whatever
    /// changes something is asked of the primary master all the same.
    pub shadow_reads: ShadowReads,
    /// As whom this client asks: the master looks by it what is allowed. It is believed, until
    /// callers are authenticated.
    pub identity: Identity,
    /// Bits that are left out of the modes of what this client makes, where no mode is asked for.
    pub umask: u32,
}

impl Default for Options {
    fn default() -> Self {
        let (deadline, shadow_reads) = (Duration::from_secs(60), ShadowReads::Never);
        // As any program of this user.
        let (identity, umask) = (process_identity(), process_umask());
        Self { deadline, first_wait: None, rack: Rack::default(), shadow_reads, identity, umask }
    }
}

/// How a file is made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CreateOptions {
    /// Replicas of each chunk; zero for what its directory's policy says, or else the cell.
    pub replication: u32,
    /// Plain bytes, or records framed by [`RecordWriter`](crate::RecordWriter).
    pub content: Content,
    /// Open the file if it is there already, instead of failing.
    pub or_open: bool,
    /// Acknowledge writes and appends only once they are on disk on every replica; where this is
    /// not set, what its directory's policy says counts.
    pub synced: bool,
    /// Who may do what with it; none: everybody may read and write it, but for the bits of
    /// [`Options::umask`].
    pub mode: Option<u32>,
    /// How it is written, for as long as it is there; none for what its directory's policy says.
    pub layout: Option<Layout>,
    /// Of a stream: how many servers have to hold a bundle before it is committed; none for what
    /// its directory's policy says.
    pub commit_replicas: Option<u32>,
}

/// A connection to a cell. Clones share it.
///
/// Every method may fail with `Unreachable` or `DeadlineExceeded` where no master answers within
/// the deadline; queries then have done nothing, and of the methods that change something
/// [`Error::outcome`] tells.
#[derive(Clone, Debug)]
pub struct Cell {
    pub(crate) link: Arc<Link>,
    info: Arc<CellInfoAnswer>,
    umask: u32,
}

impl Cell {
    /// Connects to the cell whose masters listen at `addresses`: `host:port`, several with commas
    /// between. Waits for one of them to answer as long as [`Options`] say: a master that is
    /// starting, or is yet to be started, is waited for.
    ///
    /// # Panics
    /// In a tokio runtime without I/O or time.
    ///
    /// # Errors
    /// `Invalid` where an address is none; `Unreachable` where no master answers;
    /// `VersionUnsupported` where this library is too old or too new for the cell.
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), cairn_client::Error> {
    /// use cairn_client::{Cell, Options};
    /// use std::time::Duration;
    /// let options = Options { deadline: Duration::from_secs(10), ..Options::default() };
    /// let cell = Cell::connect("m1:7400,m2:7400", options).await?;
    /// println!("chunks of {} bytes", cell.info().config.chunk_size);
    /// # Ok(()) }
    /// ```
    pub async fn connect(addresses: &str, options: Options) -> Result<Self, Error> {
        let masters = addresses.split(',').map(parse_address).collect::<Result<Vec<_>, _>>()?;
        let first_wait = options.first_wait.unwrap_or(options.deadline);
        let client = (options.rack, options.identity);
        let link = Link::start(masters, client, options.shadow_reads, options.deadline)?;
        let ask = Operation::Ask(CellInfo {}.into());
        let info = wait_for::<CellInfo>(link.submit(ask, first_wait)).await?;
        Ok(Self { link, info: Arc::new(info), umask: options.umask })
    }

    /// Which cell this is, and the settings that it runs with, as of when it was connected to.
    #[must_use]
    pub fn info(&self) -> &CellInfoAnswer {
        &self.info
    }

    /// The master that this client asks, or asked last, and what it says that it is.
    ///
    /// # Errors
    /// `Unreachable` or `DeadlineExceeded` where no master answers.
    pub async fn master(&self) -> Result<(Address, FindPrimaryAnswer), Error> {
        let said = self.link.ask(FindPrimary {}).await?;
        match self.link.run(Operation::TellMaster).await? {
            Output::Master(address) => Ok((address, said)),
            _ => Err(Error::mismatched()),
        }
    }

    /// The cell's settings as they hold now.
    ///
    /// # Errors
    /// `Unreachable` or `DeadlineExceeded` where no master answers.
    pub async fn settings(&self) -> Result<CellConfig, Error> {
        Ok(*self.link.ask(CellInfo {}).await?.config)
    }

    /// Changes settings of the cell that may be changed while it runs, and gives all of them as
    /// they hold from then on.
    ///
    /// # Errors
    /// `Invalid` where they do not fit together; nothing was changed.
    pub async fn change_settings(&self, change: ChangeSettings) -> Result<CellConfig, Error> {
        Ok(*self.link.ask(change).await?.config)
    }

    /// Asks the masters one question of the protocol as it stands, again where that may help,
    /// until the deadline: for tools that speak the protocol. A mutation is given its name here
    /// (R24), and an `Open` asks for as many chunks as one answer holds; nothing is open to this
    /// client behind the answer.
    ///
    /// # Errors
    /// The master's, as it stands; `Unreachable` or `DeadlineExceeded` where none answers.
    ///
    /// ```no_run
    /// # async fn example(cell: cairn_client::Cell) -> Result<(), cairn_client::Error> {
    /// use cairn_protocol::Locate;
    /// use cairn_types::{ChunkIndex, EntryId};
    /// let (file, first) = (EntryId::new(7), ChunkIndex::default());
    /// let answer = cell.ask(Locate { file, first, count: 16, ..Locate::default() }).await?;
    /// println!("{} chunks", answer.chunks.len());
    /// # Ok(()) }
    /// ```
    pub async fn ask<R: Rpc>(&self, request: R) -> Result<R::Answer, Error> {
        self.link.ask(request).await
    }

    /// Asks one chunkserver one question of the protocol as it stands, once: for tools that want to
    /// know what that server says.
    ///
    /// # Errors
    /// The server's own; `Unreachable` or `DeadlineExceeded` where it does not answer.
    pub async fn ask_server<R: Rpc>(&self, at: &ReplicaAt, request: R) -> Result<R::Answer, Error> {
        let operation = Operation::AskServer { at: at.clone(), request: request.into() };
        wait_for::<R>(self.link.begin(operation)).await
    }

    /// The next chunks, in order of handles, with their replicas as the master knows them: of the
    /// file `under`, of the files below that directory, or of all; and what to ask `after` next,
    /// none at the end. A page may be empty and not the last.
    ///
    /// # Errors
    /// `NotFound`: there is no such path.
    pub async fn listed_chunks(
        &self,
        under: Option<&CellPath>,
        after: ChunkHandle,
    ) -> Result<(Vec<ListedChunk>, Option<ChunkHandle>), Error> {
        let ask = ListChunks { under: under.cloned(), after, limit: PAGE_SIZE };
        let answer = self.link.ask(ask).await?;
        Ok((answer.chunks, answer.resume))
    }

    /// One chunk with its replicas as the master knows them; none: there is none of that handle.
    ///
    /// # Errors
    /// As any request.
    pub async fn listed_chunk(&self, handle: ChunkHandle) -> Result<Option<ListedChunk>, Error> {
        let after = ChunkHandle::new(handle.get().saturating_sub(1));
        let answer = self.link.ask(ListChunks { under: None, after, limit: 1 }).await?;
        Ok(answer.chunks.into_iter().find(|chunk| chunk.handle == handle))
    }

    /// What a path stands for. A file's length is the acknowledged one: while its last chunk is
    /// being appended to, the chunk's primary is asked (§2.7.1).
    ///
    /// # Errors
    /// `NotFound`; `NotADirectory` where a part of the path is a file.
    pub async fn stat(&self, path: &CellPath) -> Result<Entry, Error> {
        Ok(self.link.ask(Stat { path: path.clone() }).await?.entry)
    }

    /// Paths below `root` whose name matches `pattern` (`*`, `?`, `[a-z]`), at most `limit` of
    /// them, after the path `after`: the paper's FindMatchingFiles (§6.3.4). `resume` of the
    /// answer is what to pass as `after` next; empty at the end.
    ///
    /// # Errors
    /// `NotFound`; `Invalid` where the pattern is none.
    pub async fn find(
        &self,
        root: &CellPath,
        pattern: &str,
        after: &str,
        limit: u32,
    ) -> Result<FindAnswer, Error> {
        let (root, pattern, after) = (root.clone(), pattern.to_owned(), after.to_owned());
        self.link.ask(Find { root, pattern, after, limit }).await
    }

    /// Makes a directory; with `parents` also those above it, and an existing one is no error.
    ///
    /// # Errors
    /// `AlreadyExists`, `NotFound` (no parent), `NotADirectory`.
    pub async fn make_directory(&self, path: &CellPath, parents: bool) -> Result<Entry, Error> {
        self.make_directory_with(path, parents, None).await
    }

    /// The same, with this mode for what is made; none: everybody may do everything, but for the
    /// bits of [`Options::umask`].
    ///
    /// # Errors
    /// The same; `Invalid` where there is no such mode.
    pub async fn make_directory_with(
        &self,
        path: &CellPath,
        parents: bool,
        mode: Option<u32>,
    ) -> Result<Entry, Error> {
        let (mutation, path) = (MutationName::default(), path.clone());
        let mode = self.made_mode(mode, 0o777);
        Ok(self.link.ask(MakeDirectory { mutation, path, parents, mode }).await?.entry)
    }

    /// The mode to be asked for; none where it is the usual one.
    pub(crate) fn made_mode(&self, asked: Option<u32>, all: u32) -> Option<u32> {
        asked.or_else(|| (self.umask != UMASK_USUAL).then_some(all & !self.umask))
    }

    /// The request that makes a file.
    pub(crate) fn create_request(&self, path: &CellPath, options: CreateOptions) -> Create {
        let CreateOptions { replication, content, or_open, synced, layout, .. } = options;
        let (mutation, path) = (MutationName::default(), path.clone());
        let mode = self.made_mode(options.mode, 0o666);
        let commit_replicas = options.commit_replicas;
        Create {
            mutation,
            path,
            replication,
            content,
            or_open,
            synced,
            mode,
            layout,
            commit_replicas,
        }
    }

    /// Makes an empty file and opens it.
    ///
    /// # Errors
    /// `AlreadyExists` (unless `or_open`), `NotFound` (no directory), `IsADirectory`.
    pub async fn create(&self, path: &CellPath, options: CreateOptions) -> Result<File, Error> {
        let create = self.create_request(path, options);
        Ok(self.file(self.link.open(create).await?.entry))
    }

    /// Opens a file, or a directory for its [`File::entry`] alone. What this client had cached of
    /// the file's locations is dropped (§2.7.1). From here on the file goes by its id: renaming
    /// it changes nothing for who has it open.
    ///
    /// # Errors
    /// `NotFound`, `NotADirectory`.
    pub async fn open(&self, path: &CellPath) -> Result<File, Error> {
        let open = Open { path: path.clone(), ..Open::default() };
        Ok(self.file(self.link.open(open).await?.entry))
    }

    pub(crate) fn file(&self, entry: Entry) -> File {
        File::new(Arc::clone(&self.link), entry)
    }

    /// Moves a name, atomically. With `replace`, a file that stands at `to` is deleted in the same
    /// step.
    ///
    /// # Errors
    /// `NotFound`, `AlreadyExists` (without `replace`), `Invalid` (a directory into itself).
    pub async fn rename(&self, from: &CellPath, to: &CellPath, replace: bool) -> Result<(), Error> {
        let (mutation, from, to) = (MutationName::default(), from.clone(), to.clone());
        self.link.ask(Rename { mutation, from, to, replace }).await?;
        Ok(())
    }

    /// Deletes a file, or a directory, one with entries only if `recursive`; answers the hidden
    /// name under which it can still be read for a while (§4.4).
    ///
    /// # Errors
    /// `NotFound`, `DirectoryNotEmpty`.
    pub async fn delete(&self, path: &CellPath, recursive: bool) -> Result<String, Error> {
        let (mutation, path) = (MutationName::default(), path.clone());
        Ok(self.link.ask(Delete { mutation, path, recursive }).await?.hidden)
    }

    /// Brings a deleted file or directory back, with all that was in it; answers the path that it
    /// has now. `path` is where it was, and means what was deleted there last; or it is a hidden
    /// path. Without `to` it comes back to where it was, in its directory wherever that is now.
    ///
    /// # Errors
    /// `NotFound`: nothing of this name is deleted, or the directory that it was in is gone too;
    /// `AlreadyExists`: something has the name now.
    pub async fn undelete(&self, path: &CellPath, to: Option<&CellPath>) -> Result<String, Error> {
        let (mutation, path, to) = (MutationName::default(), path.clone(), to.cloned());
        Ok(self.link.ask(Undelete { mutation, path, to }).await?.path)
    }

    /// The next of what is deleted and can be brought back: of all, or of what was deleted from
    /// `directory`; and what to ask `after` next, none at the end.
    ///
    /// # Errors
    /// `NotFound`: there is no such directory.
    pub async fn deleted(
        &self,
        directory: Option<&CellPath>,
        after: Option<DeletedMark>,
    ) -> Result<(Vec<DeletedEntry>, Option<DeletedMark>), Error> {
        let directory = directory.cloned();
        let answer = self.link.ask(ListDeleted { directory, after, limit: PAGE_SIZE }).await?;
        Ok((answer.entries, answer.resume))
    }

    /// Where each chunk of a file lies; holes are left out.
    ///
    /// # Errors
    /// `NotFound`, `IsADirectory`.
    pub async fn chunks(&self, path: &CellPath) -> Result<Vec<ChunkLocations>, Error> {
        let file = self.stat(path).await?.id;
        let (mut all, mut next) = (Vec::new(), Some(ChunkIndex::default()));
        while let Some(first) = next {
            let (chunks, resume) = self.next_chunks(file, first).await?;
            all.extend(chunks);
            next = resume;
        }
        Ok(all)
    }

    /// Where the next chunks of a file lie, from an index on and in order; holes are left out. And
    /// the index to ask from next, none at the end.
    ///
    /// # Errors
    /// `NotFound`.
    pub async fn next_chunks(
        &self,
        file: EntryId,
        first: ChunkIndex,
    ) -> Result<(Vec<ChunkLocations>, Option<ChunkIndex>), Error> {
        let locate = Locate { file, first, count: LOCATE_COUNT_MAX, over_holes: true };
        let answer = self.link.ask(locate).await?;
        let resume = goes_on_at(first, &answer);
        Ok((answer.chunks, resume))
    }

    /// All chunkservers, as the master sees them.
    ///
    /// # Errors
    /// Only that no master answers.
    pub async fn servers(&self) -> Result<Vec<ServerStatus>, Error> {
        Ok(self.link.ask(Servers {}).await?.servers)
    }

    /// What the master and each chunkserver take of memory and descriptors, and may take.
    ///
    /// # Errors
    /// Only that no master answers.
    pub async fn resources(&self) -> Result<ResourcesAnswer, Error> {
        self.link.ask(Resources {}).await
    }

    /// The data directories of all chunkservers, in order of the servers' ids.
    ///
    /// # Errors
    /// Only that no master answers.
    pub async fn disks(&self) -> Result<Vec<ServerDisks>, Error> {
        let (mut all, mut after) = (Vec::new(), ServerId::default());
        loop {
            let answer = self.link.ask(ListDisks { after }).await?;
            all.extend(answer.servers);
            match answer.resume {
                Some(resume) => after = resume,
                None => return Ok(all),
            }
        }
    }

    /// Says that a dead chunkserver will not come back: it is missed no more.
    ///
    /// # Errors
    /// `Invalid` while it is not dead, `NotFound` where the cell knows of none with this id.
    pub async fn forget_server(&self, server: ServerId) -> Result<(), Error> {
        self.link.ask(ForgetServer { server }).await.map(drop)
    }

    /// The next chunks, in order of handles, that have fewer good replicas within reach than they
    /// should; and what to ask `after` next, none at the end. A page may be empty and not the last.
    ///
    /// # Errors
    /// Only that no master answers.
    pub async fn degraded_chunks(
        &self,
        after: ChunkHandle,
    ) -> Result<(Vec<DegradedChunk>, Option<ChunkHandle>), Error> {
        let answer = self.link.ask(ListDegraded { after, limit: PAGE_SIZE }).await?;
        Ok((answer.chunks, answer.resume))
    }

    /// Which chunks lack replicas, and what is being done about it.
    ///
    /// # Errors
    /// Only that no master answers.
    pub async fn repair_status(&self) -> Result<RepairStatusAnswer, Error> {
        self.link.ask(RepairStatus {}).await
    }

    /// What the cell is at: jobs that it does by itself, and those that somebody began.
    ///
    /// # Errors
    /// Only that no master answers.
    pub async fn jobs(&self) -> Result<Vec<JobStatus>, Error> {
        self.link.ask(ListJobs {}).await.map(|answer| answer.jobs)
    }

    /// Has a server emptied: it gets nothing new, and what it holds is copied to others. With
    /// `dry_run` it is only told what that would be.
    ///
    /// # Errors
    /// `NotFound` where the cell knows of none with this id.
    pub async fn drain(&self, server: ServerId, dry_run: bool) -> Result<DrainAnswer, Error> {
        self.link.ask(Drain { server, dry_run }).await
    }

    /// Has a server emptied no more.
    ///
    /// # Errors
    /// `NotFound` where the cell knows of none with this id.
    pub async fn undrain(&self, server: ServerId) -> Result<(), Error> {
        self.link.ask(Undrain { server }).await.map(drop)
    }

    /// Has chunks moved until each server is within so many thousandths of its share. With
    /// `dry_run` it is only told what that would be.
    ///
    /// # Errors
    /// `Invalid` where that is more than a whole, or nothing.
    pub async fn balance(
        &self,
        threshold_permille: u32,
        dry_run: bool,
    ) -> Result<BalanceAnswer, Error> {
        self.link.ask(Balance { threshold_permille, dry_run }).await
    }

    /// Ends a job that somebody began; what it has done stays.
    ///
    /// # Errors
    /// `NotFound`: there is none with this id, or it is one that the cell does by itself.
    pub async fn cancel_job(&self, id: &str) -> Result<(), Error> {
        self.link.ask(CancelJob { id: id.to_owned() }).await.map(drop)
    }

    /// The next chunks, in order of handles, that servers keep and the master's log does not know;
    /// and what to ask `after` next, none at the end.
    ///
    /// # Errors
    /// Only that no master answers.
    pub async fn lost_chunks(
        &self,
        after: ChunkHandle,
    ) -> Result<(Vec<LostChunk>, Option<ChunkHandle>), Error> {
        let answer = self.link.ask(ListLost { after, limit: PAGE_SIZE }).await?;
        Ok((answer.chunks, answer.resume))
    }

    /// Lets go of such a chunk: the servers that keep it throw it away, now or when they are back.
    ///
    /// # Errors
    /// `NotFound`: no server keeps it now.
    pub async fn let_go_of_lost(&self, handle: ChunkHandle) -> Result<(), Error> {
        self.link.ask(LetGoOfLost { handle }).await.map(drop)
    }

    /// Decides which replicas the chunks of a path go on with, or a chunk by its handle, where the
    /// master is sure of none: the best of those up to date, or the one of `server`, stale or not.
    /// [`carry_out`](Self::carry_out) has each of them done.
    ///
    /// # Errors
    /// `NotFound`: no such path or chunk, or no replica that can be chosen. `Invalid`: the chunk
    /// has a good set. `Busy`: somebody uses the chunk, so that it has one.
    pub async fn recover(
        &self,
        subject: &str,
        server: Option<ServerId>,
        from: ChunkIndex,
    ) -> Result<RecoverAnswer, Error> {
        let subject = subject.to_owned();
        self.link.ask(Recover { subject, server: server.unwrap_or_default(), from }).await
    }

    /// Waits until a chunk goes on with the replica that was chosen.
    ///
    /// # Errors
    /// `Busy`: it cannot yet; the choice stands for a minute. `NotFound`: its file is deleted.
    pub async fn carry_out(&self, chosen: &ChosenReplica) -> Result<(), Error> {
        let (file, index) = (chosen.file, chosen.index);
        let lease = Lease { file, index, purpose: LeasePurpose::Level, ..Lease::default() };
        self.link.ask(lease).await.map(drop)
    }

    /// How the cell is; `reasons` is empty when all is well.
    ///
    /// # Errors
    /// Only that no master answers.
    pub async fn status(&self) -> Result<StatusAnswer, Error> {
        self.link.ask(Status {}).await
    }

    /// Why a path, or a chunk handle such as `3-1f`, is as it is: lines for a person.
    ///
    /// # Errors
    /// `NotFound`.
    pub async fn explain(&self, subject: &str) -> Result<ExplainAnswer, Error> {
        self.link.ask(Explain { subject: subject.to_owned() }).await
    }
}

/// One `host:port`.
fn parse_address(text: &str) -> Result<Address, Error> {
    let text = text.trim();
    let good = text.rsplit_once(':').is_some_and(|(host, port)| {
        !host.is_empty() && port.parse::<u16>().is_ok_and(|port| port > 0)
    });
    if good {
        Ok(Address::new(text))
    } else {
        Err(Error::invalid(format!("'{text}' is no address; write it as host:port")))
    }
}

/// The index behind all that an answer covers, if the file goes on there.
fn goes_on_at(first: ChunkIndex, answer: &LocateAnswer) -> Option<ChunkIndex> {
    // A master of before knows no way over holes: it has told of these indexes, and no more.
    let covered = ChunkIndex::new(first.get().saturating_add(LOCATE_COUNT_MAX.into()));
    let next = if answer.next > first { answer.next } else { covered };
    (next.get() < answer.entry.chunk_count).then_some(next)
}

#[cfg(test)]
mod tests {
    use super::{goes_on_at, parse_address};
    use cairn_protocol::{ErrorCode, LocateAnswer, Outcome};
    use cairn_types::{ChunkIndex, Entry};

    #[test]
    fn an_address_has_a_host_and_a_port() {
        for good in ["localhost:7400", "10.0.0.1:1", "[::1]:65535", " m1:7400"] {
            assert!(parse_address(good).is_ok(), "{good}");
        }
        for bad in ["", "localhost", ":7400", "host:", "host:0", "host:65536", "host:http"] {
            let error = parse_address(bad).expect_err(bad);
            assert_eq!((error.code(), error.outcome()), (ErrorCode::Invalid, Outcome::Refused));
        }
    }

    #[test]
    fn chunks_are_asked_for_from_behind_those_that_were_told_on() {
        let told = |next, chunk_count| LocateAnswer {
            entry: Entry { chunk_count, ..Entry::default() },
            next: ChunkIndex::new(next),
            ..LocateAnswer::default()
        };
        let resume = |first, answer| goes_on_at(ChunkIndex::new(first), &answer).map(|it| it.get());
        assert_eq!(resume(0, told(1 << 30, 1 << 38)), Some(1 << 30));
        assert_eq!(resume(1 << 30, told(1 << 38, 1 << 38)), None);
        // A master of before leaves it to who asks, who is told of 256 indexes at once.
        assert_eq!(resume(0, told(0, 600)), Some(256));
        assert_eq!(resume(256, told(0, 600)), Some(512));
        assert_eq!(resume(512, told(0, 600)), None);
        assert_eq!(resume(0, told(0, 256)), None);
        assert_eq!(resume(0, told(0, 0)), None);
    }
}
