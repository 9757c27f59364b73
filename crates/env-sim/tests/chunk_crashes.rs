//! A replica on a disk that is killed at every write, or loses power at any time.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod chunk_model;

use cairn_env_sim::SimDisk;
use cairn_store::ChunkStore;
use cairn_types::Random;
use chunk_model::{BLOCK, Model, Step, Write, new_disk, open, steps};

/// Appends within a block and over many, batches, holes, levelling, overwrites of a part, of whole
/// blocks and beyond the end, under two versions, buffered and synced.
fn script() -> Vec<Step> {
    let bytes = |offset, size: usize, byte| Write::Bytes {
        offset,
        bytes: vec![byte; size],
        block_offset: u32::try_from(offset % 1024).unwrap(),
    };
    let apply = |writes, sync| Step::Apply { writes, sync };
    vec![
        Step::Raise(1),
        apply(vec![bytes(0, 700, 1), bytes(700, 9000, 2)], false),
        Step::Settle,
        apply(vec![bytes(100, 50, 3), bytes(2048, 2048, 4)], false),
        apply(vec![bytes(9700, 300, 5), Write::Zeros { to: 10_500 }], false),
        Step::Sync,
        apply(vec![bytes(12_000, 100, 6), bytes(12_050, 3000, 7)], false),
        Step::Raise(2),
        apply(vec![bytes(15_050, 20, 8)], true),
        apply(vec![bytes(5, 15_000, 9)], true),
        apply(vec![bytes(15_070, 5000, 10)], false),
        apply(vec![bytes(15_000, 100, 11)], false),
    ]
}

fn run(disk: &SimDisk, steps: &[Step], fuse: Option<u64>) -> Model {
    let (store, _) = open(disk);
    let mut model = Model::new();
    if let Some(fuse) = fuse {
        disk.arm_fuse(fuse);
    }
    model.take_all(&store, steps);
    model
}

/// After a crash: what was found is right, and the replica goes on from there.
fn check_and_go_on(disk: &SimDisk, model: &mut Model, least: usize, context: &str) {
    let (store, found) = open(disk);
    model.check(&store, found, least, context);
    let length = model.contents[model.applied].len() as u64;
    let more = |offset, byte| Step::Apply {
        writes: vec![Write::Bytes { offset, bytes: vec![byte; 2500], block_offset: 0 }],
        sync: false,
    };
    for step in [Step::Raise(9), more(length, 20), more(length / 2, 21), more(length + 4000, 22)] {
        model.take(&store, &step).unwrap_or_else(|error| panic!("{context}: {error}"));
    }
    drop(store);
    disk.crash();
    let (store, found) = open(disk);
    let all = model.applied;
    model.check(&store, found, all, &format!("{context}, then killed again"));
}

fn steps_of(script: &[Step]) -> u64 {
    let disk = new_disk();
    let (store, _) = open(&disk);
    let before = disk.steps();
    Model::new().take_all(&store, script);
    disk.steps() - before
}

#[test]
fn killed_at_any_write_nothing_acknowledged_is_lost_and_nothing_torn_is_seen() {
    let script = script();
    let total = steps_of(&script);
    assert!(total > 80, "{total} places to be killed at");
    for fuse in 0..=total {
        let disk = new_disk();
        let mut model = run(&disk, &script, Some(fuse));
        disk.crash();
        let applied = model.applied;
        check_and_go_on(&disk, &mut model, applied, &format!("killed at step {fuse}"));
    }
}

#[test]
fn killed_at_any_write_of_random_work_nothing_acknowledged_is_lost() {
    for seed in 0..150 {
        let mut random = Random::new(seed);
        let script = steps(&mut random, 20);
        let disk = new_disk();
        let mut model = run(&disk, &script, Some(random.below(150)));
        disk.crash();
        let applied = model.applied;
        check_and_go_on(&disk, &mut model, applied, &format!("seed {seed}"));
    }
}

/// The ways in which a page cache is lost: with the power, or with the file system alone.
const LOSSES: [fn(&SimDisk, &mut Random); 2] = [SimDisk::power_loss, SimDisk::outage];

#[test]
fn a_power_loss_or_an_outage_leaves_a_state_that_was_and_nothing_synced_is_lost() {
    for lose in LOSSES {
        a_page_cache_is_lost(lose);
    }
}

fn a_page_cache_is_lost(lose: fn(&SimDisk, &mut Random)) {
    let (mut lost, mut suspect, mut sure) = (0, 0, 0);
    for seed in 0..400 {
        let mut random = Random::new(seed);
        let script = steps(&mut random, 20);
        let disk = new_disk();
        let mut model = run(&disk, &script, Some(random.below(200)));
        lose(&disk, &mut random);
        let context = format!("seed {seed}");
        let (store, found) = open(&disk);
        if let Some(found) = found {
            // R27: a machine that forgot never passes for one that knows.
            let forgot = found.serial.get() < model.applied as u64;
            assert!(found.suspect || !forgot, "{context}: forgot, and does not say so");
            lost += u32::from(forgot);
            suspect += u32::from(found.suspect);
            sure += u32::from(!found.suspect);
        }
        drop(store);
        disk.crash();
        let synced = model.synced;
        check_and_go_on(&disk, &mut model, synced, &context);
    }
    assert!(lost > 20 && suspect > 50 && sure > 10, "reached: {lost} {suspect} {sure}");
}

#[test]
fn a_second_crash_during_recovery_changes_nothing() {
    for seed in 0..200 {
        let mut random = Random::new(seed);
        let script = steps(&mut random, 20);
        let disk = new_disk();
        let mut model = run(&disk, &script, Some(random.below(200)));
        disk.power_loss(&mut random);
        disk.arm_fuse(random.below(12));
        drop(cairn_store::ChunkStore::open(disk.session()));
        if random.chance(500) {
            disk.power_loss(&mut random);
        } else {
            disk.crash();
        }
        let synced = model.synced;
        check_and_go_on(&disk, &mut model, synced, &format!("seed {seed}"));
    }
}

#[test]
fn a_power_loss_after_a_kill_takes_nothing_that_was_synced_before_either() {
    for seed in 0..400 {
        let mut random = Random::new(seed);
        let disk = new_disk();
        let before = steps(&mut random, 12);
        let mut model = run(&disk, &before, None);
        disk.crash();
        let (store, _) = open(&disk);
        let length = model.contents[model.applied].len() as u64;
        for _ in 0..1 + random.below(3) {
            let bytes = vec![7; usize::try_from(1 + random.below(6000)).unwrap()];
            let offset = model.contents.last().unwrap().len() as u64;
            let writes = vec![Write::Bytes { offset, bytes, block_offset: 0 }];
            model.take(&store, &Step::Apply { writes, sync: false }).unwrap();
        }
        drop(store);
        disk.power_loss(&mut random);
        let synced = model.synced;
        check_and_go_on(&disk, &mut model, synced, &format!("seed {seed}, {length} bytes"));
    }
}

/// Power goes, and what lies behind the head is cut off; other bytes come in its place, whole
/// blocks, and power goes again.
#[test]
fn what_a_power_loss_left_behind_the_head_never_passes_for_what_came_in_its_place() {
    let block = usize::try_from(BLOCK).unwrap();
    // So many that later checksums do not lie in the page of the heads.
    let first = 1024;
    let append = |model: &mut Model, store: &ChunkStore, byte, sync| {
        let offset = model.contents[model.applied].len() as u64;
        let blocks = if offset == 0 { first } else { 1 + usize::from(byte % 2) };
        let bytes = vec![byte; block * blocks];
        let writes = vec![Write::Bytes { offset, bytes, block_offset: 0 }];
        model.take(store, &Step::Apply { writes, sync }).unwrap();
    };
    let mut cut = 0;
    for seed in 0..300 {
        let mut random = Random::new(seed);
        let disk = new_disk();
        let (store, _) = open(&disk);
        let mut model = Model::new();
        model.take(&store, &Step::Raise(1)).unwrap();
        append(&mut model, &store, 1, true);
        for byte in 2..5 {
            append(&mut model, &store, byte, false);
        }
        drop(store);
        for byte in 5..8 {
            disk.power_loss(&mut random);
            let (store, found) = open(&disk);
            let before = model.applied;
            model.check(&store, found, 1, &format!("seed {seed}, {byte}"));
            cut += u32::from(model.applied < before);
            append(&mut model, &store, byte, false);
            drop(store);
        }
    }
    assert!(cut > 200, "{cut}");
}

#[test]
fn suspicion_outlives_restarts_until_a_decision_clears_it() {
    let disk = new_disk();
    drop(run(&disk, &script()[..2], None));
    disk.power_loss(&mut Random::new(3));
    assert!(open(&disk).1.unwrap().suspect);
    disk.crash();
    let (store, found) = open(&disk);
    assert!(found.unwrap().suspect, "still");
    store.journal(&[cairn_env::JournalEntry::Cleared(chunk_model::HANDLE)]).unwrap();
    drop(store);
    disk.power_loss(&mut Random::new(3));
    assert!(!open(&disk).1.unwrap().suspect, "a person has decided");
}
