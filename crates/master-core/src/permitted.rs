//! What each request needs its caller to be allowed (PE1 to PE4 of the permissions).

use crate::name_mutation::{NameMutation, walk};
use crate::permissions::Asker;
use crate::state::{HIDDEN_ROOT, ROOT, State};
use crate::undelete::what_is_meant;
use cairn_protocol::{
    ClientToMaster, ClientToStreams, Create, Delete, ErrorCode, Failure, Find, LeasePurpose, List,
    MakeDirectory, Open, OpenAnswer, RecordLength, Rename, Request, SetAttributes, ShadowQuestion,
    Snapshot, Stat, Undelete,
};
use cairn_types::{Access, CellPath, ChunkHandle, EntryId, EntryKind, Identity};
use std::sync::Arc;

/// What whoever has opened a file did so for: who may write it is told where it is, too.
const EITHER: [Access; 2] = [Access::READ, Access::WRITE];

/// Files of one chunk that it is looked at for whether somebody may write them all.
const FILES_MAX: usize = 1024;

impl Asker<'_> {
    /// What clients ask of the master in charge. Changes of names are looked at when they have
    /// their locks, and the parts of a batch each by itself.
    pub(crate) fn check_client(&self, request: &ClientToMaster) -> Result<(), Failure> {
        if self.may_all() {
            return Ok(());
        }
        match request {
            ClientToMaster::Stat(stat) => self.check_way(&stat.path),
            // `opened` judges the way and what it led to.
            ClientToMaster::Open(_) => Ok(()),
            ClientToMaster::Locate(wish) => self.check_file(wish.file, &EITHER),
            ClientToMaster::List(list) => self.check_list(list),
            ClientToMaster::Find(find) => self.check_find(find),
            ClientToMaster::GetPolicy(wish) => {
                self.check_way(&wish.path)?;
                self.check_named(&wish.path, |id| self.check_owner(id, &wish.path))
            }
            ClientToMaster::CountShared(wish) => {
                wish.files.iter().try_for_each(|part| self.check_known(part.file))
            }
            ClientToMaster::GetQuota(wish) => self.check_names_of(&wish.path),
            ClientToMaster::ListDeleted(wish) => match &wish.directory {
                Some(path) => self.check_names_of(path),
                None => Ok(()),
            },
            ClientToMaster::ListChunks(wish) => match &wish.under {
                Some(path) => self.check_chunks_of(path),
                None => self.check_superuser("listing all chunks"),
            },
            ClientToMaster::Explain(explain) => match CellPath::parse(&explain.subject) {
                Ok(path) => {
                    self.check_way(&path)?;
                    self.check_named(&path, |id| self.check(id, Access::READ, &path))
                }
                // Whose a chunk is, its handle does not say.
                Err(_) => self.check_superuser("explaining a chunk by its handle"),
            },
            ClientToMaster::Lease(lease) if lease.purpose == LeasePurpose::Level => {
                self.check_file(lease.file, &EITHER)
            }
            ClientToMaster::Lease(lease) => self.check_file(lease.file, &[Access::WRITE]),
            ClientToMaster::RecordLength(wish) => self.check_file(wish.file, &EITHER),
            ClientToMaster::ListDegraded(_) => self.check_superuser("listing what lacks copies"),
            ClientToMaster::ListLost(_) => self.check_superuser("listing what is lost"),
            ClientToMaster::ForgetServer(_) => self.check_superuser("forgetting a server"),
            ClientToMaster::ChangeSettings(_) => self.check_superuser("changing the settings"),
            ClientToMaster::Drain(_) | ClientToMaster::Undrain(_) => {
                self.check_superuser("draining servers")
            }
            ClientToMaster::Balance(_) => self.check_superuser("balancing servers"),
            ClientToMaster::CancelJob(_) => self.check_superuser("cancelling a job"),
            ClientToMaster::Recover(_) | ClientToMaster::LetGoOfLost(_) => {
                self.check_superuser("deciding on what is lost")
            }
            ClientToMaster::CellInfo(_)
            | ClientToMaster::FindPrimary(_)
            | ClientToMaster::Servers(_)
            | ClientToMaster::Status(_)
            | ClientToMaster::RepairStatus(_)
            | ClientToMaster::ListJobs(_)
            | ClientToMaster::Resources(_)
            | ClientToMaster::ListDisks(_)
            | ClientToMaster::ReportBadBlock(_)
            | ClientToMaster::MakeDirectory(_)
            | ClientToMaster::Create(_)
            | ClientToMaster::Rename(_)
            | ClientToMaster::Delete(_)
            | ClientToMaster::Undelete(_)
            | ClientToMaster::SetPolicy(_)
            | ClientToMaster::SetQuota(_)
            | ClientToMaster::Snapshot(_)
            | ClientToMaster::SetAttributes(_)
            | ClientToMaster::Batch(_) => Ok(()),
        }
    }

    /// A wish to record a length as it is heeded: that it closes the file counts only of whoever
    /// may write it. For a close the lease is asked back (R36), and a reader could take it from
    /// the writers again and again. It is no reason to refuse: clients close what they have read.
    pub(crate) fn heeded(&self, wish: RecordLength) -> RecordLength {
        let closes = wish.closes && self.check_file(wish.file, &[Access::WRITE]).is_ok();
        RecordLength { closes, ..wish }
    }

    /// What producers and readers of streams ask.
    pub(crate) fn check_streams(&self, request: &ClientToStreams) -> Result<(), Failure> {
        let (file, any_of): (EntryId, &[Access]) = match request {
            ClientToStreams::OpenProducer(it) => (it.file, &[Access::WRITE]),
            ClientToStreams::AllocateChunks(it) => (it.file, &[Access::WRITE]),
            ClientToStreams::CommitBundles(it) => (it.file, &[Access::WRITE]),
            ClientToStreams::CloseProducer(it) => (it.file, &[Access::WRITE]),
            ClientToStreams::ForgetProducer(it) => (it.file, &[Access::WRITE]),
            ClientToStreams::SkipLost(it) => (it.file, &[Access::WRITE]),
            ClientToStreams::ListProducers(it) => (it.file, &EITHER),
            ClientToStreams::ReadExtents(it) => (it.file, &EITHER),
            ClientToStreams::WaitLength(it) => (it.file, &EITHER),
        };
        self.check_file(file, any_of)?;
        match request {
            ClientToStreams::SkipLost(it) => self.check_all_of(it.handle),
            _ => Ok(()),
        }
    }

    /// A hole is one for all files that have the chunk: whoever makes it may write them all.
    fn check_all_of(&self, handle: ChunkHandle) -> Result<(), Failure> {
        let Some(chunk) = self.state.chunk(handle).filter(|_| !self.may_all()) else {
            return Ok(());
        };
        let files = self.state.sharing().files_of(handle, &chunk);
        let mut live = files.filter(|file| !self.state.is_hidden(*file));
        let mut some = live.by_ref().take(FILES_MAX);
        some.try_for_each(|file| self.check_file(file, &[Access::WRITE]))?;
        if live.next().is_none() {
            return Ok(());
        }
        let line = format!(
            "chunk {}: more than {FILES_MAX} files have it: only the superuser makes a hole of it",
            handle.short()
        );
        Err(Failure::refused(ErrorCode::PermissionDenied, line))
    }

    /// What readers ask of a master that is not in charge.
    pub(crate) fn check_question(&self, question: &ShadowQuestion) -> Result<(), Failure> {
        match question {
            // The parts of a batch are looked at each by itself, and what was opened by `opened`.
            ShadowQuestion::CellInfo(_) | ShadowQuestion::Batch(_) | ShadowQuestion::Open(_) => {
                Ok(())
            }
            ShadowQuestion::Stat(stat) => self.check_way(&stat.path),
            ShadowQuestion::Locate(wish) => self.check_file(wish.file, &EITHER),
            ShadowQuestion::ReadExtents(wish) => self.check_file(wish.file, &EITHER),
            ShadowQuestion::WaitLength(wish) => self.check_file(wish.file, &EITHER),
            ShadowQuestion::List(list) => self.check_list(list),
            ShadowQuestion::Find(find) => self.check_find(find),
        }
    }

    /// What a `Stat` of a batch found, for whoever may go there.
    pub(crate) fn looked<T>(&self, stat: &Stat, found: Result<T, Failure>) -> Result<T, Failure> {
        self.check_way(&stat.path).and(found)
    }

    /// What an `Open` found, for whoever may read or write it. What was looked up once is not
    /// looked up again to be judged: so look-ups cost hardly more with permissions than without.
    pub(crate) fn opened(
        &self,
        open: &Open,
        found: Result<OpenAnswer, Failure>,
    ) -> Result<OpenAnswer, Failure> {
        if self.may_all() {
            return found;
        }
        self.check_way(&open.path)?;
        let answer = found?;
        let attributes = answer.entry.attributes();
        if EITHER.iter().any(|wish| self.who.may(*wish, attributes)) {
            return Ok(answer);
        }
        Err(self.may_not(Access::READ, (answer.entry.id, attributes), &open.path))
    }

    fn check_list(&self, list: &List) -> Result<(), Failure> {
        self.check_names_of(&list.path)
    }

    fn check_find(&self, find: &Find) -> Result<(), Failure> {
        self.check_names_of(&find.root)
    }

    /// May read what names are in a directory. Of what is deleted only who deleted it may know, or
    /// could have.
    fn check_names_of(&self, path: &CellPath) -> Result<(), Failure> {
        if self.may_all() {
            return Ok(());
        }
        self.check_way(path)?;
        self.check_named(path, |id| {
            if id == HIDDEN_ROOT {
                return self.check_superuser("listing all that is deleted");
            }
            self.check(id, Access::READ, path)
        })
    }

    /// May know of the chunks of a file, or of all below a directory.
    fn check_chunks_of(&self, path: &CellPath) -> Result<(), Failure> {
        self.check_way(path)?;
        self.check_named(path, |id| match self.state.entry(id) {
            Some(entry) if entry.kind == EntryKind::File => {
                self.check_entry((id, &entry), Access::READ, path)
            }
            _ => self.check_superuser("listing the chunks below a directory"),
        })
    }

    /// Looks at what a path leads to; that it leads nowhere is said by who does what was asked.
    fn check_named(
        &self,
        path: &CellPath,
        check: impl FnOnce(EntryId) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        if self.may_all() {
            return Ok(());
        }
        self.state.resolve(path).map_or(Ok(()), check)
    }

    /// A request that changes names, the locks being held.
    pub(crate) fn check_change(&self, change: &NameMutation) -> Result<(), Failure> {
        if self.may_all() {
            return Ok(());
        }
        match change {
            NameMutation::MakeDirectory(make) => self.check_make_directory(make),
            NameMutation::Create(create) => self.check_create(create),
            NameMutation::Rename(rename) => self.check_rename(rename),
            NameMutation::Delete(delete) => self.check_delete(delete),
            NameMutation::Undelete(wish) => self.check_undelete(wish),
            NameMutation::SetPolicy(set) => {
                self.check_way(&set.path)?;
                self.check_named(&set.path, |id| self.check_owner(id, &set.path))
            }
            NameMutation::SetQuota(_) => self.check_superuser("setting a quota"),
            NameMutation::Snapshot(wish) => self.check_snapshot(wish),
            NameMutation::SetAttributes(set) => self.check_set_attributes(set),
        }
    }

    /// Whose the source is may copy it: all in it stays whose it was, and as closed as it was. What
    /// is made anew is whose who asks, who needs to read what it was copied from.
    fn check_snapshot(&self, wish: &Snapshot) -> Result<(), Failure> {
        self.check_way(&wish.from)?;
        self.check_named(&wish.from, |id| match wish.anew {
            Some(_) => self.check(id, Access::READ, &wish.from),
            None => self.check_owner(id, &wish.from),
        })?;
        self.check_way(&wish.to)?;
        let (at, missing) = walk(self.state, &wish.to);
        if missing.len() == 1 { self.check_make(at, &wish.to) } else { Ok(()) }
    }

    fn check_make_directory(&self, make: &MakeDirectory) -> Result<(), Failure> {
        self.check_way(&make.path)?;
        let (at, missing) = walk(self.state, &make.path);
        match missing.len() {
            0 => Ok(()),
            1 => self.check_make(at, &make.path),
            _ if make.parents => self.check_make(at, &make.path),
            _ => Ok(()),
        }
    }

    fn check_create(&self, create: &Create) -> Result<(), Failure> {
        // Who may make names there may make this one, and is told if it is there already.
        let directory = self.state.directory_of(&create.path).filter(|_| !create.or_open);
        if directory.is_some_and(|it| self.state.known_ways().is_maker(it, self.who)) {
            return Ok(());
        }
        self.check_way(&create.path)?;
        let (at, missing) = walk(self.state, &create.path);
        match missing.len() {
            0 if create.or_open => self.check(at, Access::WRITE, &create.path),
            1 => self.check_make(at, &create.path),
            _ => Ok(()),
        }
    }

    fn check_rename(&self, rename: &Rename) -> Result<(), Failure> {
        self.check_way(&rename.from)?;
        self.check_way(&rename.to)?;
        self.check_named(&rename.from, |id| {
            let parent = self.state.entry(id).map_or(ROOT, |entry| entry.parent);
            self.check_take(parent, id, &rename.from)?;
            let (to, missing) = walk(self.state, &rename.to);
            match missing.len() {
                0 if to == id => Ok(()),
                0 => {
                    let parent = self.state.entry(to).map_or(ROOT, |entry| entry.parent);
                    self.check_take(parent, to, &rename.to)
                }
                1 => self.check_make(to, &rename.to),
                _ => Ok(()),
            }
        })
    }

    fn check_delete(&self, delete: &Delete) -> Result<(), Failure> {
        self.check_way(&delete.path)?;
        self.check_named(&delete.path, |id| {
            let Some(entry) = self.state.entry(id) else { return Ok(()) };
            self.check_take(entry.parent, id, &delete.path)?;
            let holds_names = entry.kind == EntryKind::Directory && delete.recursive;
            if holds_names && self.state.children(id, "").next().is_some() {
                return self.check_make(id, &delete.path);
            }
            Ok(())
        })
    }

    fn check_undelete(&self, wish: &Undelete) -> Result<(), Failure> {
        self.check_way(&wish.path)?;
        if let Some(to) = &wish.to {
            self.check_way(to)?;
        }
        // That nothing is meant is said by who brings it back.
        let Ok((entry, from, to)) = what_is_meant(self.state, wish) else { return Ok(()) };
        self.check_take(from, entry, &wish.path)?;
        self.check_make(to, wish.to.as_ref().unwrap_or(&wish.path))
    }

    fn check_set_attributes(&self, set: &SetAttributes) -> Result<(), Failure> {
        let path = &set.path;
        self.check_way(path)?;
        let Ok(id) = self.state.resolve(path) else { return Ok(()) };
        let Some(entry) = self.state.entry(id) else { return Ok(()) };
        let old = self.state.attributes(&entry);
        let refused = |why: &str| {
            let line = format!("{path}: {} may not {why}", self.who);
            Failure::refused(ErrorCode::PermissionDenied, line)
        };
        if set.owner.is_some_and(|owner| owner != old.owner) {
            return Err(refused("give it to another: only the superuser may"));
        }
        if set.owner.is_some() || set.group.is_some() || set.mode.is_some() {
            self.check_owner(id, path)?;
        }
        if set.group.is_some_and(|group| group != old.group && !self.who.is_in(group)) {
            return Err(refused("give it to a group that it is not in"));
        }
        if set.modified.is_some() && !self.owns(&entry) {
            self.check_entry((id, &entry), Access::WRITE, path)?;
        }
        Ok(())
    }
}

/// What clients ask of any member of the masters' group that only the superuser may.
///
/// # Errors
/// `PermissionDenied`.
pub fn check_member_request(
    state: &State,
    who: &Arc<Identity>,
    request: &Request,
) -> Result<(), Failure> {
    let what = match request {
        Request::ChangeMasters(_) => "changing who is a master",
        Request::BackUp(_) | Request::ReadBackup(_) => "taking a backup of the names",
        _ => return Ok(()),
    };
    Asker { state, who }.check_superuser(what)
}

/// Whether a caller is told names that others may have closed their directories over (PE4).
#[must_use]
pub fn may_know_all_names(state: &State, who: &Arc<Identity>) -> bool {
    Asker { state, who }.may_all()
}
