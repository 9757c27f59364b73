//! A directory that becomes a member's while its disk fails: whoever starts on it as a member is
//! that member for good (R25).

use super::config;
use cairn_env_sim::SimDisk;
use cairn_format::Identity;
use cairn_master::{Master, MasterOpenError, make_member, seed};
use cairn_store::read_identity;
use cairn_types::{Address, CellConfig, CellId, Member, Members, ServerId, WallTime};

/// Syncs that making a member takes, and more.
const SYNCS_MAX: u64 = 20;

fn members() -> Members {
    let member = |id| Member {
        id: ServerId::new(id),
        address: Address::new(format!("m{id}:1")),
        ..Member::default()
    };
    Members { all: (1..=3).map(member).collect(), ..Members::default() }
}

fn identity(disk: &SimDisk) -> Option<Identity> {
    read_identity(disk.session().as_ref()).expect("it reads")
}

#[test]
fn who_started_as_a_member_is_one_after_the_power_failed_whatever_sync_had_failed_before() {
    let (group, cell, me) = (members(), CellId::new(5), ServerId::new(2));
    let mut doubtful = 0;
    for good in 0..SYNCS_MAX {
        let disk = SimDisk::new("disk", 16 << 20);
        disk.fail_syncs_after(good, 1);
        let made = make_member(&disk.session(), 4096, cell, (me, &group));
        disk.fail_syncs(0);
        // Its process has ended, and another one is started.
        disk.crash();
        let Some(known) = identity(&disk) else { continue };
        doubtful += u64::from(made.is_err());
        drop(Master::open(disk.session(), config(1)).expect("it starts as a member"));
        disk.power_loss_of_all_unsynced();
        assert_eq!(identity(&disk), Some(known), "after {good} good syncs");
    }
    assert!(doubtful > 0, "an identity was seen that was not known to be on disk");
}

#[test]
fn a_directory_that_is_made_a_members_once_more_after_a_failed_sync_has_its_log_for_good() {
    let (group, cell, me) = (members(), CellId::new(5), ServerId::new(2));
    let mut again = 0;
    for good in 0..SYNCS_MAX {
        let disk = SimDisk::new("disk", 16 << 20);
        disk.fail_syncs_after(good, 1);
        let made = make_member(&disk.session(), 4096, cell, (me, &group));
        disk.fail_syncs(0);
        disk.crash();
        if made.is_err() && identity(&disk).is_none() {
            again += 1;
            let made = make_member(&disk.session(), 4096, cell, (me, &group));
            made.expect("nothing fails now");
            disk.power_loss_of_all_unsynced();
            let opened = Master::open(disk.session(), config(1)).map(drop);
            opened.unwrap_or_else(|why| panic!("after {good} good syncs: {why}"));
        }
    }
    assert!(again > 2, "it failed before there was an identity");
}

/// Removes all that a master's directory has, but its identity, and starts one there.
fn starts_without_its_log(disk: &SimDisk) -> Result<(), MasterOpenError> {
    let session = disk.session();
    for directory in ["log", "checkpoints"] {
        for name in session.list(directory).unwrap_or_default() {
            session.remove(&format!("{directory}/{name}")).expect("it is there");
        }
    }
    drop(session);
    Master::open(disk.session(), config(2)).map(drop)
}

/// One that founded its cell anew would be in charge of an empty one, under the same id.
#[test]
fn a_master_whose_log_is_gone_does_not_begin_another_one() {
    let is_refused = |disk: &SimDisk| {
        matches!(starts_without_its_log(disk), Err(MasterOpenError::LogGone { .. }))
    };
    let member = SimDisk::new("member", 16 << 20);
    let made = make_member(&member.session(), 4096, CellId::new(5), (ServerId::new(2), &members()));
    made.expect("an empty disk");
    assert!(is_refused(&member), "one of a group");
    let alone = SimDisk::new("alone", 64 << 20);
    let begun = WallTime::from_millis(1_700_000_000_000);
    seed(&alone.session(), &CellConfig::tiny(), begun, []).expect("an empty disk");
    drop(Master::open(alone.session(), config(1)).expect("its first start"));
    assert!(identity(&alone).is_some_and(|it| it.begun), "it has what it began with");
    assert!(is_refused(&alone), "one that has founded its cell");
}
