//! Drills of the rules of what a disk may do.

use super::play::Play;
use super::{Drill, Verdict};
use crate::operations::{Done, Op};
use bytes::Bytes;
use cairn_types::Content;
use cairn_types::planted::Rule;
use std::time::Duration;

pub(super) const DRILLS: &[Drill] = &[
    Drill {
        rule: Rule::R28,
        name: "the end of what a power loss left is not the end of the file",
        servers: 3,
        play: the_end_of_what_a_power_loss_left_is_not_the_end_of_the_file,
    },
    Drill {
        rule: Rule::R31,
        name: "bytes that a network damages cost no replica",
        servers: 3,
        play: bytes_that_a_network_damages_cost_no_replica,
    },
];

/// A record is acknowledged by three servers and not synced. One of them loses power, and with it
/// the record; it comes back suspect. Then the master is restarted while the two others are away,
/// so it knows of the suspect replica alone and names it: who reads just then has to wait for the
/// others, and must not be told that the file ends where the suspect replica does.
fn the_end_of_what_a_power_loss_left_is_not_the_end_of_the_file(play: &mut Play) -> Verdict {
    let file = play.create("/log", Content::Bytes)?;
    play.done(0, Op::Append { file, bytes: Bytes::from_static(b"synced"), sync: true })?;
    play.append(0, file, b" and acknowledged")?;
    let chunk = play.chunk(file, 0)?;
    let [lost, better @ ..] = &play.holders(chunk)[..] else { return Err("no replica".into()) };
    play.power_loss_of_all_unsynced(*lost);
    play.restart(*lost)?;
    let master = play.nodes().master;
    play.kill(master);
    better.iter().for_each(|server| play.kill(*server));
    play.restart(master)?;
    play.pass(Duration::from_secs(2));
    let ticket = play.ask(1, Op::Read { file, offset: 0, size: 100, fresh: true });
    play.pass(Duration::from_secs(1));
    for server in better {
        play.restart(*server)?;
    }
    let read = play.wait(ticket);
    let whole: &[u8] = b"synced and acknowledged";
    if let Ok(Done::Bytes(bytes, end)) = read
        && bytes != whole
    {
        return Err(format!("the file is said to be {bytes:?} (the end: {end}), not {whole:?}"));
    }
    let bytes = play.read(1, file, 0, 100)?;
    if bytes == whole { Ok(()) } else { Err(format!("it reads as {bytes:?} in the end")) }
}

/// A network damages all that a client reads for a while; it reports each of the three replicas.
/// Their servers look at the blocks themselves and find them good, so that the client reads the
/// bytes from any of them as soon as the network is sound again.
fn bytes_that_a_network_damages_cost_no_replica(play: &mut Play) -> Verdict {
    let file = play.create("/file", Content::Bytes)?;
    play.write(0, file, 0, b"these are good bytes")?;
    play.stage.world.corrupt(1000);
    play.refused(1, Op::Read { file, offset: 0, size: 100, fresh: true })?;
    play.stage.world.corrupt(0);
    // The hints travel with heartbeats.
    play.pass(Duration::from_secs(2));
    let bytes = play.read(1, file, 0, 100)?;
    if bytes[..] != b"these are good bytes"[..] {
        return Err(format!("it reads as {bytes:?}"));
    }
    // A primary, too, goes on.
    play.write(0, file, 0, b"those")
}
