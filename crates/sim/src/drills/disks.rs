//! Drills of the rules of what a disk may do.

use super::drill::Drill;
use super::script::DrillScript;
use crate::checkers::Verdict;
use crate::operations::{ClientOp, OpOutput};
use bytes::Bytes;
use cairn_env_sim::{DiskFaults, NodeId};
use cairn_protocol::{Explain, Response};
use cairn_types::planted::Rule;
use cairn_types::{ChunkHandle, Content, EntryId};
use std::time::Duration;

pub(super) const DRILLS: &[Drill] = &[
    Drill::of_rule(
        Rule::R26,
        "a kill in the middle of an append costs no replica",
        3,
        a_kill_in_the_middle_of_an_append_costs_no_replica,
    ),
    Drill::of_rule(
        Rule::R28,
        "the end of what a power loss left is not the end of the file",
        3,
        the_end_of_what_a_power_loss_left_is_not_the_end_of_the_file,
    ),
    Drill::of_bug(
        "those who stay lose power after a set was shrunk",
        3,
        those_who_stay_lose_power_after_a_set_was_shrunk,
    ),
    Drill::of_rule(
        Rule::H2,
        "a bit that nobody reads rots, and the master hears of it",
        2,
        a_bit_that_nobody_reads_rots_and_the_master_hears_of_it,
    ),
    Drill::of_rule(
        Rule::H1,
        "disks that cannot be read for a while cost no replica",
        3,
        disks_that_cannot_be_read_for_a_while_cost_no_replica,
    )
    .past_its_plant(),
    Drill::of_rule(
        Rule::SL2,
        "what rotted is bad however often it is looked at",
        2,
        what_rotted_is_bad_however_often_it_is_looked_at,
    ),
    Drill::of_rule(
        Rule::H3,
        "what rots unread ends with a good replica in place and the bad one gone",
        4,
        what_rots_unread_ends_with_a_good_replica_in_place_and_the_bad_one_gone,
    ),
    Drill::of_rule(
        Rule::H1,
        "what rots where every server has a replica makes room for a good one",
        3,
        what_rots_where_every_server_has_a_replica_makes_room_for_a_good_one,
    )
    .past_its_plant(),
    Drill::of_rule(
        Rule::R31,
        "bytes that a network damages cost no replica",
        3,
        bytes_that_a_network_damages_cost_no_replica,
    ),
];

/// A server is killed between any two steps of an append, and the two others with it. It comes back
/// alone, and has what was acknowledged before: a torn append is cut off, and no damage.
fn a_kill_in_the_middle_of_an_append_costs_no_replica(script: &mut DrillScript) -> Verdict {
    for steps in 0..4 {
        let file = script.create(&format!("/f{steps}"), Content::Bytes)?;
        script.append(0, file, b"first")?;
        let chunk = script.chunk(file, 0)?;
        let primary = script.primary(chunk)?;
        let torn = script.holders(chunk).into_iter().find(|it| *it != primary).ok_or("alone")?;
        script.pass(Duration::from_millis(500));
        script.kill_in_write(torn, steps);
        let bytes = Bytes::from_static(b" second");
        let append = script.ask(0, ClientOp::Append { file, bytes, sync: false });
        script.until("it is killed", |script| !script.is_alive(torn))?;
        let others: Vec<_> = script.holders(chunk).into_iter().filter(|it| *it != torn).collect();
        others.iter().for_each(|server| script.kill(*server));
        script.restart(torn)?;
        script.pass(Duration::from_secs(2));
        let bytes = script.read(1, file, 0, 5)?;
        if bytes != b"first"[..] {
            return Err(format!("killed after {steps} steps, it gives {bytes:?}"));
        }
        for server in others {
            script.restart(server)?;
        }
        drop(script.wait(append));
        // The next file is to lie on all three again.
        script.pass(Duration::from_millis(500));
    }
    Ok(())
}

/// Three servers hold a record in their page caches; one of them is cut off, and the set goes on
/// without it. The two others lose power, and with it whatever was not on disk. The one that was
/// cut off has the record on its disk, and counts for nothing (decision 19): the raise that left
/// it out had to bring the record to the disks of the others (seeds 15, 109, 223, 254).
fn those_who_stay_lose_power_after_a_set_was_shrunk(script: &mut DrillScript) -> Verdict {
    let file = script.create("/log", Content::Bytes)?;
    script.append(0, file, b"first")?;
    let chunk = script.chunk(file, 0)?;
    let (master, primary) = (script.nodes().master, script.primary(chunk)?);
    let others: Vec<_> = script.holders(chunk).into_iter().filter(|it| *it != primary).collect();
    let [out, stays] = others[..] else { return Err("not three replicas".into()) };
    script.part(out, primary);
    script.part(out, master);
    script.append(0, file, b" second")?;
    script.power_loss_of_all_unsynced(primary);
    script.power_loss_of_all_unsynced(stays);
    script.restart(primary)?;
    script.restart(stays)?;
    script.heal(out, primary);
    script.heal(out, master);
    script.pass(Duration::from_secs(15));
    let bytes = script.read(1, file, 0, 100)?;
    if bytes.starts_with(b"first") { Ok(()) } else { Err(format!("it reads as {bytes:?}")) }
}

/// A record is acknowledged by three servers and not synced. One of them loses power, and with it
/// the record; it comes back suspect. Then the master is restarted while the two others are away:
/// it knows of the suspect replica alone and names it. Who reads just then has to wait for the
/// others, and must not be told that the file ends where the suspect replica does.
fn the_end_of_what_a_power_loss_left_is_not_the_end_of_the_file(
    script: &mut DrillScript,
) -> Verdict {
    let file = script.create("/log", Content::Bytes)?;
    script.done(0, ClientOp::Append { file, bytes: Bytes::from_static(b"synced"), sync: true })?;
    script.append(0, file, b" and acknowledged")?;
    let chunk = script.chunk(file, 0)?;
    let [lost, better @ ..] = &script.holders(chunk)[..] else { return Err("no replica".into()) };
    script.power_loss_of_all_unsynced(*lost);
    script.restart(*lost)?;
    let master = script.nodes().master;
    script.kill(master);
    better.iter().for_each(|server| script.kill(*server));
    script.restart(master)?;
    script.pass(Duration::from_secs(2));
    let ticket = script.ask(1, ClientOp::Read { file, offset: 0, size: 100, fresh: true });
    script.pass(Duration::from_secs(1));
    for server in better {
        script.restart(*server)?;
    }
    let read = script.wait(ticket);
    let whole: &[u8] = b"synced and acknowledged";
    if let Ok(OpOutput::Bytes(bytes, end)) = read
        && bytes != whole
    {
        return Err(format!("the file is said to be {bytes:?} (the end: {end}), not {whole:?}"));
    }
    let bytes = script.read(1, file, 0, 100)?;
    if bytes == whole { Ok(()) } else { Err(format!("it reads as {bytes:?} in the end")) }
}

/// A network damages all that a client reads for a while; it reports each of the three replicas.
/// Their servers look at the blocks themselves and find them good, so that the client reads the
/// bytes from any of them as soon as the network is sound again.
fn bytes_that_a_network_damages_cost_no_replica(script: &mut DrillScript) -> Verdict {
    let file = script.create("/file", Content::Bytes)?;
    script.write(0, file, 0, b"these are good bytes")?;
    script.sim.world.corrupt(1000);
    script.refused(1, ClientOp::Read { file, offset: 0, size: 100, fresh: true })?;
    script.sim.world.corrupt(0);
    // The hints travel with heartbeats; what is believed falsely is over with a second look.
    script.pass(Duration::from_secs(2));
    if is_told_as_damaged(script) {
        return Err("a hint is believed before its block was verified".to_owned());
    }
    let bytes = script.read(1, file, 0, 100)?;
    if bytes[..] != b"these are good bytes"[..] {
        return Err(format!("it reads as {bytes:?}"));
    }
    // A primary, too, goes on.
    script.write(0, file, 0, b"those")
}

/// A file whose chunk nobody leases any more, and of which a bit has flipped in one replica.
fn rotten_unread(script: &mut DrillScript) -> Result<(EntryId, ChunkHandle, NodeId), String> {
    let file = script.create("/file", Content::Bytes)?;
    script.write_synced(0, file, 0, &[7; 3000])?;
    let chunk = script.chunk(file, 0)?;
    let [rotten, ..] = script.holders(chunk)[..] else { return Err("no replica".into()) };
    // The lease is over, and nothing is asked of the chunk any more.
    script.pass(Duration::from_secs(5));
    script.flip(rotten, chunk, 2500)?;
    Ok((file, chunk, rotten))
}

fn reads_as_written(script: &mut DrillScript, file: EntryId) -> Verdict {
    let bytes = script.read(1, file, 0, 3000)?;
    if bytes == [7; 3000][..] { Ok(()) } else { Err("it reads otherwise than written".into()) }
}

/// A bit of one of two replicas flips, and no client ever reads it. Its server's scrub finds it,
/// and tells the master; what it has found it still knows after a restart, before it could look
/// again.
fn a_bit_that_nobody_reads_rots_and_the_master_hears_of_it(script: &mut DrillScript) -> Verdict {
    let (_, _, rotten) = rotten_unread(script)?;
    let mut waited = 0;
    while !is_told_as_damaged(script) {
        script.pass(Duration::from_secs(1));
        waited += 1;
        if waited > 30 {
            return Err("nobody has found it in half a minute".into());
        }
    }
    script.kill(rotten);
    script.restart(rotten)?;
    script.pass(Duration::from_millis(2500));
    if is_told_as_damaged(script) { Ok(()) } else { Err("it forgot what it had found".into()) }
}

/// All servers' disks refuse to be read until the master counts a replica as damaged; then they
/// read again. Nobody restarts anything, and no server is to spare.
fn disks_that_cannot_be_read_for_a_while_cost_no_replica(script: &mut DrillScript) -> Verdict {
    let file = script.create("/file", Content::Bytes)?;
    script.append(0, file, b"all of it")?;
    let chunk = script.chunk(file, 0)?;
    script.pass(Duration::from_secs(2));
    let holders = script.holders(chunk);
    let refusing = DiskFaults { read_errors_permille: 1000, ..DiskFaults::default() };
    holders.iter().for_each(|server| script.fail_disk(*server, refusing));
    script.ask(1, ClientOp::Read { file, offset: 0, size: 9, fresh: false });
    told_within(script, 30, true)?;
    holders.iter().for_each(|server| script.fail_disk(*server, DiskFaults::default()));
    told_within(script, 60, false)?;
    if script.holders(chunk).len() < 3 {
        return Err("a replica went that was whole".into());
    }
    let bytes = script.read(1, file, 0, 9)?;
    if bytes == b"all of it"[..] { Ok(()) } else { Err(format!("it gives {bytes:?}")) }
}

/// A bit of one of two replicas flips, and is found; no server is to spare. It is looked at again
/// and again, and its verdict is never taken back.
fn what_rotted_is_bad_however_often_it_is_looked_at(script: &mut DrillScript) -> Verdict {
    rotten_unread(script)?;
    told_within(script, 30, true)?;
    for _ in 0..240 {
        script.pass(Duration::from_millis(250));
        if !is_told_as_damaged(script) {
            return Err("a block is bad, and the replica is told to be sound".into());
        }
    }
    Ok(())
}

/// Waits until the master tells of a damaged replica of the file, or of none.
fn told_within(script: &mut DrillScript, seconds: u32, damaged: bool) -> Verdict {
    for _ in 0..seconds {
        if is_told_as_damaged(script) == damaged {
            return Ok(());
        }
        script.pass(Duration::from_secs(1));
    }
    Err(format!("damaged is not {damaged} after {seconds} s"))
}

/// Whether the master knows of a damaged replica of the file.
fn is_told_as_damaged(script: &mut DrillScript) -> bool {
    let master = script.nodes().master;
    let explain = Explain { subject: "/file".to_owned() };
    match script.probe(master, explain, Bytes::new()).map(|answer| answer.response) {
        Ok(Response::Explain(told)) => told.lines.iter().any(|line| line.contains("damaged")),
        _ => false,
    }
}

/// The same where a server is to spare: the chunk is copied to it from a good replica, and when it
/// has its goal of good ones, the bad one goes.
fn what_rots_unread_ends_with_a_good_replica_in_place_and_the_bad_one_gone(
    script: &mut DrillScript,
) -> Verdict {
    let (file, chunk, rotten) = rotten_unread(script)?;
    script.until("the bad one is gone", |script| !script.holders(chunk).contains(&rotten))?;
    if script.holders(chunk).len() < 3 {
        return Err("it went before there were three good ones".into());
    }
    reads_as_written(script, file)
}

/// The same where no server is to spare: the two good ones go on without the bad one, which goes,
/// and a good one is made where it was.
fn what_rots_where_every_server_has_a_replica_makes_room_for_a_good_one(
    script: &mut DrillScript,
) -> Verdict {
    let (file, chunk, rotten) = rotten_unread(script)?;
    script.until("the bad one is gone", |script| !script.holders(chunk).contains(&rotten))?;
    if script.set_size(chunk) != 2 {
        return Err("it went before the others had gone on without it".into());
    }
    script.until("there are three again", |script| script.set_size(chunk) == 3)?;
    if script.holders(chunk).len() != 3 {
        return Err("three of the set, and not three replicas".into());
    }
    // It stands for the whole set: the other two are gone for ever.
    for node in script.holders(chunk) {
        if node != rotten {
            script.kill(node);
        }
    }
    reads_as_written(script, file)
}
