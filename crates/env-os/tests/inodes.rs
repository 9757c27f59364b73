//! A file system that has bytes and no inodes left is full: only root may make one.

use cairn_env::Disk;
use cairn_env_os::OsDisk;
use std::path::Path;
use std::process::Command;

/// A file system with so many inodes, gone at the end; none where this user may not mount.
struct FewInodes(tempfile::TempDir);

impl FewInodes {
    fn mount(count: u64) -> Option<Self> {
        let at = tempfile::TempDir::new().expect("a scratch directory");
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &format!("size=16m,nr_inodes={count}"), "cairn-test"]);
        let done = mount.arg(at.path()).output().ok()?;
        done.status.success().then_some(Self(at))
    }

    fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for FewInodes {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.path()).status();
    }
}

#[test]
fn a_disk_without_inodes_for_more_chunks_says_that_it_is_full() {
    let Some(mounted) = FewInodes::mount(600) else {
        eprintln!("not run: only root may mount");
        return;
    };
    let disk = OsDisk::open(mounted.path()).expect("opens");
    let free = || {
        let space = disk.space().expect("it is told");
        space.capacity - space.used
    };
    assert!(free() > 8 << 20, "it is empty");
    for number in 0..400 {
        std::fs::write(mounted.path().join(number.to_string()), b"").expect("makes");
    }
    assert_eq!(free(), 0, "all bytes are free, and no file can be made of them");
    for number in 0..200 {
        std::fs::remove_file(mounted.path().join(number.to_string())).expect("removes");
    }
    assert!(free() > 8 << 20, "there is room again");
}
