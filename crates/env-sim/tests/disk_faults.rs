//! What the simulated disk does wrong when it is told to.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use cairn_env::{DiskFile, IoFailure, OpenMode, UnreadableBytes};
use cairn_env_sim::{DiskFaults, SimDisk};
use cairn_types::Random;

const ROOM: u64 = 1 << 30;
const PAGE: usize = 4096;

/// A file of two pages with these bytes, on disk.
fn synced_file(disk: &SimDisk, bytes: [u8; 2]) -> Box<dyn DiskFile> {
    let file = disk.session().open("file", OpenMode::Create).unwrap();
    file.write_at(&[bytes[0]; PAGE], 0).unwrap();
    file.write_at(&[bytes[1]; PAGE], PAGE as u64).unwrap();
    file.sync().unwrap();
    disk.session().sync_dir("").unwrap();
    file
}

fn first_bytes(disk: &SimDisk) -> Vec<u8> {
    let file = disk.session().open("file", OpenMode::Read).unwrap();
    let read = |at: u64| {
        let mut byte = [0];
        file.read_at(&mut byte, at).map(|_| byte[0])
    };
    [0, PAGE as u64].iter().filter_map(|at| read(*at).ok()).collect()
}

#[test]
fn a_sync_that_lies_is_found_out_by_a_power_loss() {
    let lost = |seed: u64| {
        let disk = SimDisk::new("sim", ROOM);
        let file = synced_file(&disk, [1, 1]);
        disk.set_faults(DiskFaults { lying_syncs_permille: 1000, ..DiskFaults::default() }, seed);
        file.write_at(&[2; 2 * PAGE], 0).unwrap();
        file.sync().unwrap();
        assert_eq!(first_bytes(&disk), [2, 2]);
        assert_eq!(disk.take_fired()["disk: sync lied"], 1);
        disk.power_loss(&mut Random::new(1));
        first_bytes(&disk).contains(&1)
    };
    assert!((0..20).any(lost));
}

#[test]
fn an_image_that_is_written_back_holds_what_a_sync_that_lied_has_dropped() {
    for seed in 0..20 {
        let disk = SimDisk::new("sim", ROOM);
        let file = synced_file(&disk, [1, 1]);
        disk.set_faults(DiskFaults { lying_syncs_permille: 1000, ..DiskFaults::default() }, seed);
        file.write_at(&[2; 2 * PAGE], 0).unwrap();
        file.sync().unwrap();
        let mut image = disk.image();
        image.write_back();
        disk.power_loss(&mut Random::new(1));
        disk.restore(&image);
        disk.power_loss(&mut Random::new(2));
        assert_eq!(first_bytes(&disk), [2, 2]);
    }
}

#[test]
fn an_outage_takes_what_was_not_synced_and_is_another_mount() {
    let disk = SimDisk::new("sim", ROOM);
    let file = synced_file(&disk, [1, 1]);
    let mount = disk.session().page_cache_id();
    for seed in 0.. {
        disk.session()
            .open("file", OpenMode::Write)
            .and_then(|file| file.write_at(&[2; PAGE], 0))
            .unwrap();
        disk.outage(&mut Random::new(seed));
        assert_ne!(disk.session().page_cache_id(), mount);
        if first_bytes(&disk) == [1, 1] {
            break;
        }
    }
    assert!(file.sync().is_err(), "whoever had it open is dead");
}

#[test]
fn what_cannot_be_read_is_told_until_it_is_written_anew() {
    let disk = SimDisk::new("sim", ROOM);
    let file = synced_file(&disk, [1, 2]);
    assert!(disk.make_unreadable("file", 5));
    assert!(!disk.make_unreadable("file", 3 * PAGE as u64));
    assert_eq!(first_bytes(&disk), [2]);
    file.write_at(&[3], 0).unwrap();
    assert_eq!(first_bytes(&disk), [3, 2]);
}

#[test]
fn who_looks_at_an_unreadable_sector_under_a_mapping_ends_and_the_next_one_is_told_where() {
    let disk = SimDisk::new("sim", ROOM);
    let mapping = synced_file(&disk, [1, 2]).map(2 * PAGE as u64).unwrap();
    assert!(disk.make_unreadable("file", PAGE as u64 + 5));
    assert_eq!(mapping.bytes(0..PAGE), Some([1; PAGE].as_slice()));
    assert!(!disk.fuse_blown());
    let _ = mapping.bytes(PAGE - 1..PAGE + 1);
    assert!(disk.fuse_blown());
    assert_eq!(disk.session().open("file", OpenMode::Read).map(drop), Err(IoFailure::Ended));
    disk.crash();
    let (path, offset) = ("file".to_owned(), PAGE as u64);
    assert_eq!(disk.session().unreadable(), Ok(Some(UnreadableBytes { path, offset })));
    disk.session().forget_unreadable().unwrap();
    assert_eq!(disk.session().unreadable(), Ok(None));
}

#[test]
fn a_misdirected_write_changes_two_places() {
    let disk = SimDisk::new("sim", ROOM);
    drop(synced_file(&disk, [1, 2]));
    assert!(disk.misdirect(("file", 0), ("file", 1)));
    assert_eq!(first_bytes(&disk), [0, 1]);
    assert!(!disk.misdirect(("file", 0), ("file", 1)), "nothing was ever written there");
}

#[test]
fn without_descriptors_nothing_opens_and_what_is_open_goes_on() {
    let disk = SimDisk::new("sim", ROOM);
    let file = synced_file(&disk, [1, 2]);
    disk.set_faults(DiskFaults { no_descriptors: true, ..DiskFaults::default() }, 7);
    assert!(disk.session().open("file", OpenMode::Read).is_err());
    file.write_at(&[3], 0).unwrap();
    file.sync().unwrap();
    disk.set_faults(DiskFaults::default(), 7);
    assert_eq!(first_bytes(&disk), [3, 2]);
}

#[test]
fn reads_and_writes_fail_as_often_as_they_are_told_to() {
    let disk = SimDisk::new("sim", ROOM);
    let file = synced_file(&disk, [1, 2]);
    let faults = DiskFaults {
        read_errors_permille: 500,
        write_errors_permille: 500,
        ..DiskFaults::default()
    };
    disk.set_faults(faults, 7);
    let failed = |what: &dyn Fn() -> bool| (0..1000).filter(|_| what()).count();
    let reads = failed(&|| file.read_at(&mut [0], 0).is_err());
    let writes = failed(&|| file.write_at(&[1], 0).is_err());
    assert!((400..600).contains(&reads) && (400..600).contains(&writes), "{reads} {writes}");
}

#[test]
fn a_page_is_torn_between_sectors_where_power_losses_tear() {
    let torn = |seed: u64| {
        let disk = SimDisk::new("sim", ROOM);
        disk.tear_pages();
        let file = synced_file(&disk, [1, 1]);
        file.write_at(&[2; PAGE], 0).unwrap();
        disk.power_loss(&mut Random::new(seed));
        let mut page = [0; PAGE];
        let file = disk.session().open("file", OpenMode::Read).unwrap();
        file.read_at(&mut page, 0).unwrap();
        assert!(page.chunks(512).all(|sector| sector.iter().all(|byte| *byte == sector[0])));
        page.contains(&1) && page.contains(&2)
    };
    assert!((0..200).any(torn));
}
