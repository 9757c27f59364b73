//! Drills of the master's rules: terms (R2), servers (R5), times (R6), deletions (R20), leases of
//! an earlier term (R22), old images (R29).

use super::drill::Drill;
use super::script::DrillScript;
use crate::checkers::Verdict;
use crate::operations::path;
use crate::operations::{ClientOp, OpOutput};
use bytes::Bytes;
use cairn_protocol::Request;
use cairn_types::planted::Rule;
use cairn_types::{ChunkHandle, Content, EntryId};
use std::time::Duration;

pub(super) const DRILLS: &[Drill] = &[
    Drill::of_rule(
        Rule::R2,
        "a raise of the old master arrives when the server obeys the new one",
        3,
        late_raise_of_an_old_master,
    ),
    Drill::of_rule(
        Rule::R5,
        "a copy of a server's disk is started as a server elsewhere",
        3,
        cloned_disk,
    ),
    Drill::of_rule(
        Rule::R5,
        "a copy of a server's disk is started elsewhere as a term begins, and a lease runs",
        1,
        copy_as_a_term_begins,
    ),
    Drill::of_rule(
        Rule::R29,
        "a server is set back to an old image while a lease runs, and the lease ends",
        3,
        old_image_under_a_lease,
    ),
    Drill::of_rule(
        Rule::R6,
        "a primary stands still for longer than silence and shorter than its lease",
        3,
        primary_silent_within_its_lease,
    ),
    Drill::of_rule(
        Rule::R20,
        "a file is deleted while a writer holds a lease, and the writer goes on",
        3,
        appends_to_a_deleted_file,
    ),
    Drill::of_rule(
        Rule::R20,
        "the directory above is deleted while a writer holds a lease, and the writer goes on",
        3,
        appends_below_a_deleted_directory,
    ),
    Drill::of_rule(
        Rule::R20,
        "another file takes the name while a writer holds a lease, and the writer goes on",
        3,
        appends_to_a_replaced_file,
    ),
    Drill::of_rule(
        Rule::R20,
        "a file is deleted, and a writer asks for a lease after it",
        3,
        lease_on_a_deleted_file,
    )
    .past_its_plant(),
    Drill::of_rule(
        Rule::R22,
        "a restarted master is asked for a lease while the former holder stands still",
        3,
        former_holder_still_acknowledges,
    ),
];

/// Longer than a lease, whoever counts it.
const PAST_THE_LEASE: Duration = Duration::from_millis(3_000);
/// Longer than silence, shorter than what is left of a lease that was just extended.
const WITHIN_THE_LEASE: Duration = Duration::from_millis(1_500);

/// A file with one chunk that has three replicas and a lease.
pub(super) fn leased_file(
    script: &mut DrillScript,
    name: &str,
) -> Result<(EntryId, ChunkHandle), String> {
    let file = script.create(name, Content::Bytes)?;
    script.write(0, file, 0, b"first")?;
    let handle = script.chunk(file, 0)?;
    Ok((file, handle))
}

fn write(file: EntryId, offset: u64, bytes: &'static [u8]) -> ClientOp {
    ClientOp::Write { file, offset, bytes: Bytes::from_static(bytes), sync: false }
}

/// The old master's raise of one file's chunk stalls on its way to server 1. The master restarts;
/// the new one makes server 1 take part in a raise of another file's chunk. Then the old raise
/// arrives: nothing but its term says that it is void.
fn late_raise_of_an_old_master(script: &mut DrillScript) -> Verdict {
    let (first, handle) = leased_file(script, "/first")?;
    let (second, _) = leased_file(script, "/second")?;
    script.pass(2 * PAST_THE_LEASE);
    let (master, late) = (script.nodes().master, script.nodes().servers[1]);
    let client = script.nodes().clients[1];
    script.stall(move |seen| {
        let raises = matches!(seen.request, Request::Raise(raise) if raise.handle == handle);
        raises && seen.to == late
    });
    let asked = script.ask(1, write(first, 5, b"second"));
    script.until_stalled()?;
    script.part(client, master);
    script.kill(master);
    script.restart(master)?;
    script.write(2, second, 5, b"second")?;
    script.release();
    script.pass(Duration::from_millis(200));
    script.heal(client, master);
    drop(script.wait(asked));
    script.write(2, first, 5, b"third ")?;
    match script.read(0, first, 0, 11)? {
        bytes if bytes == "firstthird " => Ok(()),
        other => Err(format!("written and acknowledged, and read as {other:?}")),
    }
}

/// Server 0's disk is copied, bytes are overwritten under the same lease and version, and a server
/// starts from the copy at another address. It is server 0 by its id and has the right version,
/// but not the bytes.
fn cloned_disk(script: &mut DrillScript) -> Verdict {
    let (file, _) = leased_file(script, "/f")?;
    script.done(0, ClientOp::Sync { file })?;
    script.pass(Duration::from_millis(600));
    let of = script.nodes().servers[0];
    let twin = script.start_twin(of)?;
    script.write(0, file, 0, b"again")?;
    read_again_and_again(script, file)?;
    script.until("the copy gives up", |script| !script.sim.world.is_alive(twin))?;
    match script.sim.world.take_halt(twin) {
        Some(why) if why.contains("a copy of the other's") => Ok(()),
        other => Err(format!("the copy is not told that it is one: {other:?}")),
    }
}

/// The only server, which has a lease, is cut off from the master, and the master starts anew. A
/// copy of the server's disk joins from another address, and a client wants to write; another one
/// knows the lease that runs, and writes to who has it.
fn copy_as_a_term_begins(script: &mut DrillScript) -> Verdict {
    let (file, _) = leased_file(script, "/f")?;
    script.done(0, ClientOp::Sync { file })?;
    let (of, master) = (script.nodes().servers[0], script.nodes().master);
    script.part(of, master);
    script.start_twin(of)?;
    script.kill(master);
    script.restart(master)?;
    let asked = script.ask(2, write(file, 5, b"third"));
    script.pass(Duration::from_millis(1_000));
    script.write(0, file, 0, b"again")?;
    script.heal(of, master);
    script.wait(asked).map_err(|failure| format!("the write failed: {failure:?}"))?;
    match script.read(0, file, 0, 10)? {
        bytes if bytes == "againthird" => Ok(()),
        other => Err(format!("written and acknowledged, and read as {other:?}")),
    }
}

/// A secondary's disk is set back to what it was before an overwrite under the same lease; nothing
/// is written after that, so nobody runs into it. While the lease lasts the master knows that this
/// server has joined anew, and when the lease has ended, that it has applied less than the others.
fn old_image_under_a_lease(script: &mut DrillScript) -> Verdict {
    let (file, handle) = leased_file(script, "/f")?;
    script.done(0, ClientOp::Sync { file })?;
    script.pass(Duration::from_millis(600));
    let primary = script.primary(handle)?;
    let secondary = script.holders(handle).into_iter().find(|holder| *holder != primary);
    let secondary = secondary.ok_or("no secondary")?;
    let image = script.image(secondary);
    script.write(0, file, 0, b"again")?;
    script.set_back(secondary, image)?;
    read_again_and_again(script, file)
}

/// Whoever reads, for some seconds, reads what was written last.
fn read_again_and_again(script: &mut DrillScript, file: EntryId) -> Verdict {
    for round in 0..60 {
        script.pass(Duration::from_millis(50));
        let bytes = script.read(round % 3, file, 0, 5)?;
        if bytes != "again" {
            return Err(format!("acknowledged as \"again\", read as {bytes:?}"));
        }
    }
    Ok(())
}

/// Lets client 1 write "second" behind "first", and stops the primary for so long when every
/// replica has applied it, but the primary does not know that yet.
pub(super) fn stop_primary_before_it_acknowledges(
    script: &mut DrillScript,
    (file, handle): (EntryId, ChunkHandle),
    span: Duration,
) -> Verdict {
    let primary = script.primary(handle)?;
    let pushes = |script: &DrillScript, holders: usize| {
        let observer = script.sim.observer.borrow();
        let appliers = &observer.ledger.chunks[&handle].appliers;
        appliers.values().filter(|nodes| nodes.len() == holders).count()
    };
    let before = pushes(script, 3);
    script.ask(1, write(file, 5, b"second"));
    script.until("all replicas applied the write", |script| pushes(script, 3) > before)?;
    script.pause(primary, span);
    Ok(())
}

/// The primary stands still just before it acknowledges, for longer than it takes to be silent and
/// not as long as its lease lasts. Another client wants to write. Whoever is silent is not dead:
/// the lease is waited for.
fn primary_silent_within_its_lease(script: &mut DrillScript) -> Verdict {
    let (file, handle) = leased_file(script, "/f")?;
    script.pass(Duration::from_secs(3));
    script.write(0, file, 0, b"first")?;
    stop_primary_before_it_acknowledges(script, (file, handle), WITHIN_THE_LEASE)?;
    script.pass(Duration::from_millis(1_200));
    script.write(2, file, 0, b"third")?;
    script.pass(PAST_THE_LEASE);
    match script.read(0, file, 0, 11)? {
        bytes if bytes == "thirdsecond" => Ok(()),
        other => Err(format!("written and acknowledged, and read as {other:?}")),
    }
}

/// The primary stands still just before it acknowledges; the master is killed and started again.
/// The two other replicas join it, another client wants to write, and nobody tells of the lease.
fn former_holder_still_acknowledges(script: &mut DrillScript) -> Verdict {
    let (file, handle) = leased_file(script, "/f")?;
    stop_primary_before_it_acknowledges(script, (file, handle), WITHIN_THE_LEASE)?;
    let master = script.nodes().master;
    script.kill(master);
    script.restart(master)?;
    script.write(2, file, 0, b"third")?;
    script.pass(PAST_THE_LEASE);
    match script.read(0, file, 0, 11)? {
        bytes if bytes == "thirdsecond" => Ok(()),
        other => Err(format!("written and acknowledged, and read as {other:?}")),
    }
}

fn delete(name: &str, recursive: bool) -> ClientOp {
    ClientOp::Delete { path: path(name), recursive }
}

/// A writer appends all the time; the file is deleted. Its lease is taken back, or it runs out:
/// after that nothing that the writer appends may be acknowledged.
fn appends_to_a_deleted_file(script: &mut DrillScript) -> Verdict {
    let (file, _) = leased_file(script, "/f")?;
    append_past_the_end(script, file, delete("/f", false))
}

/// The same, but the directory above is deleted with all that is in it.
fn appends_below_a_deleted_directory(script: &mut DrillScript) -> Verdict {
    script.done(0, ClientOp::MakeDirectory { path: path("/d") })?;
    let (file, _) = leased_file(script, "/d/f")?;
    append_past_the_end(script, file, delete("/d", true))
}

/// The same, but the file is deleted because another one is moved to its name.
fn appends_to_a_replaced_file(script: &mut DrillScript) -> Verdict {
    let (file, _) = leased_file(script, "/f")?;
    script.create("/g", Content::Bytes)?;
    append_past_the_end(
        script,
        file,
        ClientOp::Rename { from: path("/g"), to: path("/f"), replace: true },
    )
}

/// Client 1 appends to the file, client 2 makes an end of it, and client 1 goes on.
fn append_past_the_end(script: &mut DrillScript, file: EntryId, end: ClientOp) -> Verdict {
    script.append(1, file, b"before")?;
    script.done(2, end)?;
    let past = script.sim.now().after(PAST_THE_LEASE);
    loop {
        let bytes = Bytes::from_static(b"after");
        let ticket = script.ask(1, ClientOp::Append { file, bytes, sync: false });
        match script.wait(ticket) {
            Ok(OpOutput::Offset(offset)) if script.sim.now() > past => {
                let line = "deleted and its lease over, yet an append at";
                return Err(format!("{line} {offset} is acknowledged"));
            }
            Err(_) if script.sim.now() > past => return Ok(()),
            _ => script.pass(Duration::from_millis(200)),
        }
    }
}

/// A writer that has the file open asks for a lease only when it has been deleted: it gets none.
fn lease_on_a_deleted_file(script: &mut DrillScript) -> Verdict {
    let (file, _) = leased_file(script, "/f")?;
    script.pass(2 * PAST_THE_LEASE);
    script.done(2, delete("/f", false))?;
    script.refused(1, write(file, 0, b"after")).map(drop)?;
    let bytes = Bytes::from_static(b"after");
    script.refused(1, ClientOp::Append { file, bytes, sync: false }).map(drop)
}
