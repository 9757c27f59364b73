//! Drills of the master's rules: terms (R2), servers (R5), times (R6), deletions (R20), leases of
//! an earlier reign (R22), old images (R29).

use super::play::Play;
use super::{Drill, Verdict};
use crate::operations::{Done, Op};
use crate::workloads::path;
use bytes::Bytes;
use cairn_protocol::Request;
use cairn_types::planted::Rule;
use cairn_types::{ChunkHandle, Content, EntryId};
use std::time::Duration;

pub(super) const DRILLS: &[Drill] = &[
    Drill {
        rule: Some(Rule::R2),
        name: "a raise of the old master arrives when the server obeys the new one",
        servers: 3,
        play: late_raise_of_an_old_master,
    },
    Drill {
        rule: Some(Rule::R5),
        name: "a copy of a server's disk is started as a server elsewhere",
        servers: 3,
        play: cloned_disk,
    },
    Drill {
        rule: Some(Rule::R29),
        name: "a server is set back to an old image while a lease runs, and the lease ends",
        servers: 3,
        play: old_image_under_a_lease,
    },
    Drill {
        rule: Some(Rule::R6),
        name: "a primary stands still for longer than silence and shorter than its lease",
        servers: 3,
        play: primary_silent_within_its_lease,
    },
    Drill {
        rule: Some(Rule::R20),
        name: "a file is deleted while a writer holds a lease, and the writer goes on",
        servers: 3,
        play: appends_to_a_deleted_file,
    },
    Drill {
        rule: Some(Rule::R20),
        name: "the directory above is deleted while a writer holds a lease, and the writer goes on",
        servers: 3,
        play: appends_below_a_deleted_directory,
    },
    Drill {
        rule: Some(Rule::R20),
        name: "another file takes the name while a writer holds a lease, and the writer goes on",
        servers: 3,
        play: appends_to_a_replaced_file,
    },
    Drill {
        rule: Some(Rule::R20),
        name: "a file is deleted, and a writer asks for a lease after it",
        servers: 3,
        play: lease_on_a_deleted_file,
    },
    Drill {
        rule: Some(Rule::R22),
        name: "a restarted master is asked for a lease while the former holder stands still",
        servers: 3,
        play: former_holder_still_acknowledges,
    },
];

/// Longer than a lease, whoever counts it.
const PAST_THE_LEASE: Duration = Duration::from_millis(3_000);
/// Longer than silence, shorter than what is left of a lease that was just extended.
const WITHIN_THE_LEASE: Duration = Duration::from_millis(1_500);

/// A file with one chunk that has three replicas and a lease.
fn leased_file(play: &mut Play, name: &str) -> Result<(EntryId, ChunkHandle), String> {
    let file = play.create(name, Content::Bytes)?;
    play.write(0, file, 0, b"first")?;
    let handle = play.chunk(file, 0)?;
    Ok((file, handle))
}

fn write(file: EntryId, offset: u64, bytes: &'static [u8]) -> Op {
    Op::Write { file, offset, bytes: Bytes::from_static(bytes), sync: false }
}

/// The old master's raise of one file's chunk stalls on its way to server 1. The master restarts;
/// the new one makes server 1 take part in a raise of another file's chunk. Then the old raise
/// arrives: nothing but its term says that it is void.
fn late_raise_of_an_old_master(play: &mut Play) -> Verdict {
    let (first, handle) = leased_file(play, "/first")?;
    let (second, _) = leased_file(play, "/second")?;
    play.pass(2 * PAST_THE_LEASE);
    let (master, late) = (play.nodes().master, play.nodes().servers[1]);
    let client = play.nodes().clients[1];
    play.stall(move |seen| {
        let raises = matches!(seen.request, Request::Raise(raise) if raise.handle == handle);
        raises && seen.to == late
    });
    let asked = play.ask(1, write(first, 5, b"second"));
    play.until_stalled()?;
    play.part(client, master);
    play.kill(master);
    play.restart(master)?;
    play.write(2, second, 5, b"second")?;
    play.release();
    play.pass(Duration::from_millis(200));
    play.heal(client, master);
    drop(play.wait(asked));
    play.write(2, first, 5, b"third ")?;
    match play.read(0, first, 0, 11)? {
        bytes if bytes == "firstthird " => Ok(()),
        other => Err(format!("written and acknowledged, and read as {other:?}")),
    }
}

/// Server 0's disk is copied, bytes are overwritten under the same lease and version, and a server
/// starts from the copy at another address. It is server 0 by its id and has the right version,
/// but not the bytes.
fn cloned_disk(play: &mut Play) -> Verdict {
    let (file, _) = leased_file(play, "/f")?;
    play.done(0, Op::Sync { file })?;
    play.pass(Duration::from_millis(600));
    let of = play.nodes().servers[0];
    let twin = play.start_twin(of)?;
    play.write(0, file, 0, b"again")?;
    read_again_and_again(play, file)?;
    play.until("the copy gives up", |play| !play.stage.world.is_alive(twin))?;
    match play.stage.world.take_halt(twin) {
        Some(why) if why.contains("a copy of another's") => Ok(()),
        other => Err(format!("the copy is not told that it is one: {other:?}")),
    }
}

/// A secondary's disk is set back to what it was before an overwrite under the same lease; nothing
/// is written after that, so nobody runs into it. While the lease lasts the master knows that this
/// server has joined anew, and when the lease has ended, that it has applied less than the others.
fn old_image_under_a_lease(play: &mut Play) -> Verdict {
    let (file, handle) = leased_file(play, "/f")?;
    play.done(0, Op::Sync { file })?;
    play.pass(Duration::from_millis(600));
    let primary = play.primary(handle)?;
    let secondary = play.holders(handle).into_iter().find(|holder| *holder != primary);
    let secondary = secondary.ok_or("no secondary")?;
    let image = play.image(secondary);
    play.write(0, file, 0, b"again")?;
    play.set_back(secondary, image)?;
    read_again_and_again(play, file)
}

/// Whoever reads, for some seconds, reads what was written last.
fn read_again_and_again(play: &mut Play, file: EntryId) -> Verdict {
    for round in 0..60 {
        play.pass(Duration::from_millis(50));
        let bytes = play.read(round % 3, file, 0, 5)?;
        if bytes != "again" {
            return Err(format!("acknowledged as \"again\", read as {bytes:?}"));
        }
    }
    Ok(())
}

/// Lets client 1 write, and stops the primary when every replica has applied it, but the primary
/// does not know that yet.
fn stop_primary_before_it_acknowledges(
    play: &mut Play,
    file: EntryId,
    handle: ChunkHandle,
) -> Verdict {
    let primary = play.primary(handle)?;
    let pushes = |play: &Play, holders: usize| {
        let observer = play.stage.observer.borrow();
        let appliers = &observer.ledger.chunks[&handle].appliers;
        appliers.values().filter(|nodes| nodes.len() == holders).count()
    };
    let before = pushes(play, 3);
    play.ask(1, write(file, 5, b"second"));
    play.until("all replicas applied the write", |play| pushes(play, 3) > before)?;
    play.pause(primary, WITHIN_THE_LEASE);
    Ok(())
}

/// The primary stands still just before it acknowledges, for longer than it takes to be silent and
/// not as long as its lease lasts. Another client wants to write. Whoever is silent is not dead:
/// the lease is waited for.
fn primary_silent_within_its_lease(play: &mut Play) -> Verdict {
    let (file, handle) = leased_file(play, "/f")?;
    play.pass(Duration::from_secs(3));
    play.write(0, file, 0, b"first")?;
    stop_primary_before_it_acknowledges(play, file, handle)?;
    play.pass(Duration::from_millis(1_200));
    play.write(2, file, 0, b"third")?;
    play.pass(PAST_THE_LEASE);
    match play.read(0, file, 0, 11)? {
        bytes if bytes == "thirdsecond" => Ok(()),
        other => Err(format!("written and acknowledged, and read as {other:?}")),
    }
}

/// The primary stands still just before it acknowledges; the master is killed and started again.
/// The two other replicas join it, another client wants to write, and nobody tells of the lease.
fn former_holder_still_acknowledges(play: &mut Play) -> Verdict {
    let (file, handle) = leased_file(play, "/f")?;
    stop_primary_before_it_acknowledges(play, file, handle)?;
    let master = play.nodes().master;
    play.kill(master);
    play.restart(master)?;
    play.write(2, file, 0, b"third")?;
    play.pass(PAST_THE_LEASE);
    match play.read(0, file, 0, 11)? {
        bytes if bytes == "thirdsecond" => Ok(()),
        other => Err(format!("written and acknowledged, and read as {other:?}")),
    }
}

fn delete(name: &str, recursive: bool) -> Op {
    Op::Delete { path: path(name), recursive }
}

/// A writer appends all the time; the file is deleted. Its lease is taken back, or it runs out:
/// after that nothing that the writer appends may be acknowledged.
fn appends_to_a_deleted_file(play: &mut Play) -> Verdict {
    let (file, _) = leased_file(play, "/f")?;
    append_past_the_end(play, file, delete("/f", false))
}

/// The same, but the directory above is deleted with all that is in it.
fn appends_below_a_deleted_directory(play: &mut Play) -> Verdict {
    play.done(0, Op::MakeDirectory { path: path("/d") })?;
    let (file, _) = leased_file(play, "/d/f")?;
    append_past_the_end(play, file, delete("/d", true))
}

/// The same, but the file is deleted because another one is moved to its name.
fn appends_to_a_replaced_file(play: &mut Play) -> Verdict {
    let (file, _) = leased_file(play, "/f")?;
    play.create("/g", Content::Bytes)?;
    append_past_the_end(play, file, Op::Rename { from: path("/g"), to: path("/f"), replace: true })
}

/// Client 1 appends to the file, client 2 makes an end of it, and client 1 goes on.
fn append_past_the_end(play: &mut Play, file: EntryId, end: Op) -> Verdict {
    play.append(1, file, b"before")?;
    play.done(2, end)?;
    let past = play.stage.now().after(PAST_THE_LEASE);
    loop {
        let bytes = Bytes::from_static(b"after");
        let ticket = play.ask(1, Op::Append { file, bytes, sync: false });
        match play.wait(ticket) {
            Ok(Done::Offset(offset)) if play.stage.now() > past => {
                let line = "deleted and its lease over, yet an append at";
                return Err(format!("{line} {offset} is acknowledged"));
            }
            Err(_) if play.stage.now() > past => return Ok(()),
            _ => play.pass(Duration::from_millis(200)),
        }
    }
}

/// A writer that has the file open asks for a lease only when it has been deleted: it gets none.
fn lease_on_a_deleted_file(play: &mut Play) -> Verdict {
    let (file, _) = leased_file(play, "/f")?;
    play.pass(2 * PAST_THE_LEASE);
    play.done(2, delete("/f", false))?;
    play.refused(1, write(file, 0, b"after")).map(drop)?;
    let bytes = Bytes::from_static(b"after");
    play.refused(1, Op::Append { file, bytes, sync: false }).map(drop)
}
