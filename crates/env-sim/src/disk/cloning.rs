//! Files that share their pages, on disks whose file systems can.

use super::inode::PAGE_SIZE;
use super::names::NameTarget;
use super::{DiskState, SimDisk};
use cairn_env::IoFailure;

impl SimDisk {
    /// From now on its file system can let files share their pages.
    pub fn can_clone_files(&self) {
        self.state().clones_files = true;
    }
}

impl DiskState {
    /// A file with the pages of another: what was written of that and never synced is so here too,
    /// and what cannot be read there cannot be read here.
    pub(super) fn clone_file(&mut self, from: &str, to: &str) -> Result<bool, IoFailure> {
        let Some(NameTarget::File(source)) = self.names.get(from) else {
            return Err(IoFailure::NotFound);
        };
        if self.names.get(to).is_some() {
            return Err(IoFailure::AlreadyExists);
        }
        if !self.clones_files {
            return Ok(false);
        }
        self.names.check_parent(to)?;
        let pages = self.inode(source)?.pages();
        let (size, footprint) = (self.inode(source)?.size(), pages.len() * PAGE_SIZE);
        if self.used() + footprint as u64 > self.capacity {
            return Err(IoFailure::NoSpace);
        }
        self.change()?;
        let copy = self.add_inode();
        self.names.add(to, copy);
        for (number, page) in pages {
            self.change()?;
            let place = number * PAGE_SIZE as u64;
            self.change_inode(copy, |inode| inode.write_in_page(&page[..], place))?;
        }
        self.change_inode(copy, |inode| inode.set_size(size))?;
        self.faults.share(source, copy);
        Ok(true)
    }
}
