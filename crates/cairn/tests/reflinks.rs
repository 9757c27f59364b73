//! Copies on write on file systems that clone files (`FICLONE`): XFS and btrfs, each on an image
//! that this test mounts where nobody else sees it. It starts itself in there.

mod cell;

use cairn_env::{Disk, conformance};
use cairn_env_os::OsDisk;
use cell::{Cell, Finished, run};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

/// Set for the test that runs on the image: where that is mounted.
const MOUNTED: &str = "CAIRN_TEST_MOUNTED";
const TEST: &str = "a_copy_on_write_is_a_clone_of_the_file_where_the_file_system_can";
/// How an image of each file system is made; both need some hundred megabytes.
const FILE_SYSTEMS: [(&str, &str); 2] =
    [("xfs", "mkfs.xfs -q -m reflink=1"), ("btrfs", "mkfs.btrfs -q")];

/// Runs a script where what it mounts is mounted for its own processes alone, until they end.
fn in_private(scratch: &Path, script: &str) -> Finished {
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-e", "-c", script]).current_dir(scratch);
    run(command, b"")
}

/// Why no image of that file system can be mounted here, where that is so.
fn lacks(scratch: &Path, name: &str, make: &str) -> Option<String> {
    let known = std::fs::read_to_string("/proc/filesystems").unwrap_or_default();
    if !known.lines().any(|line| line.trim() == name) {
        return Some("this kernel does not know it".to_owned());
    }
    let tool = make.split(' ').next().expect("a name");
    let look = format!("for one in {tool} unshare losetup; do command -v $one || exit 1; done");
    if !run(Command::new("sh"), look.as_bytes()).status.success() {
        return Some(format!("needs {tool}, unshare and losetup"));
    }
    let script = "truncate -s 1M tried; at=$(losetup --find --show tried); losetup -d \"$at\"";
    let tried = in_private(scratch, script);
    (!tried.status.success()).then(|| format!("no loop device: {}", tried.stderr.trim()))
}

#[test]
fn a_copy_on_write_is_a_clone_of_the_file_where_the_file_system_can() {
    if let Some(mounted) = std::env::var_os(MOUNTED) {
        judge_disk(Path::new(&mounted));
        return judge_cell();
    }
    for (name, make) in FILE_SYSTEMS {
        let scratch = tempfile::tempdir().expect("a scratch directory");
        if let Some(why) = lacks(scratch.path(), name, make) {
            eprintln!("SKIPPED: {name}: {why}");
            continue;
        }
        let test = std::env::current_exe().expect("is running");
        let script = format!(
            "truncate -s 512M image; {make} image; mkdir mounted; mount -o loop image mounted
             export TMPDIR=\"$PWD/mounted\" {MOUNTED}=\"$PWD/mounted\"
             exec '{}' --exact {TEST} --nocapture",
            test.display()
        );
        let judged = in_private(scratch.path(), &script);
        let told = format!("{name}: {}{}", judged.text(), judged.stderr);
        assert!(judged.status.success() && told.contains("1 passed"), "{told}");
    }
}

/// The contract's suites, on a disk that has to be able to.
fn judge_disk(mounted: &Path) {
    let new = || tempfile::tempdir_in(mounted).expect("a scratch directory");
    let (first, second, third) = (new(), new(), new());
    conformance::judge_disk(&OsDisk::open(first.path()).expect("opens"));
    assert!(conformance::judge_clones(&OsDisk::open(second.path()).expect("opens")));
    let disk: Arc<dyn Disk> = Arc::new(OsDisk::open(third.path()).expect("opens"));
    assert!(cairn_store::conformance::judge_local_copy(&disk), "a chunk's copy is a clone");
}

/// Writes to files of snapshots; everything lies on the image, where `TMPDIR` points.
fn judge_cell() {
    let cell = Cell::start(3);
    let content = "0123456789abcde\n".repeat(156_250);
    let local = cell.file("local", content.as_bytes());
    cell.ok(["mkdir", "/d"]);
    cell.ok(["put", &local, "/d/f"]);
    cell.ok(["snapshot", "/d", "/s"]);
    cell.ok(["cp", "/d/f", "/copy"]);
    let reflinked = |path: &str| {
        let told = cell.json(&["explain", path]);
        told["reflinked"].as_array().expect("told").len()
    };
    assert_eq!(reflinked("/d/f"), 0, "nobody has written");
    // The last chunk of three becomes each file's own, on each of three servers.
    for (path, line) in [("/d/f", "one\n"), ("/s/f", "two\n"), ("/copy", "three\n")] {
        cell.ok_with(["append", path], line.as_bytes());
    }
    // Who wrote last had it for itself by then.
    assert_eq!(["/d/f", "/s/f", "/copy"].map(reflinked), [3, 3, 0]);
    let lines = cell.ok(["explain", "/d/f"]);
    assert_eq!(lines.matches("was made by a reflink on its disk").count(), 3, "{lines}");
    for (path, line) in [("/d/f", "one\n"), ("/s/f", "two\n"), ("/copy", "three\n")] {
        assert!(cell.ok(["cat", path]) == format!("{content}{line}"), "{path}");
    }
    cell.ok(["rm", "/d/f"]);
    cell.ok(["fsck", "--data"]);
    assert!(cell.ok(["cat", "/s/f"]) == format!("{content}two\n"), "it needs its source no more");
}
