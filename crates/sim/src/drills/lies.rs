//! Hostile peers: a client and a chunkserver tell lies of every rpc that they may ask, of numbers
//! that mean something and of numbers at every limit. Nobody panics, and what others have stored
//! stays as it is.

use super::drill::Drill;
use super::script::DrillScript;
use crate::checkers::Verdict;
use crate::operations::{ClientOp, path};
use bytes::Bytes;
use cairn_protocol::{Directed, Join, Liar, Probe, Request, Response, SetQuota, lies};
use cairn_types::{
    Address, Content, EntryId, Incarnation, Rack, Random, ReplicaAt, ServerId, Term,
};
use std::time::Duration;

pub(super) const DRILLS: &[Drill] = &[
    Drill::of_bug("a client lies about everything that it may ask", 4, a_client_lies),
    Drill::of_bug("a chunkserver lies about everything that it may ask", 4, a_chunkserver_lies),
    Drill::of_bug("a client gives a master's orders", 4, a_client_gives_orders),
];

/// How often each rpc is lied in.
const ROUNDS: u64 = 150;
/// Lies from one look at the innocent files to the next: rounds.
const LOOK_EVERY: u64 = 10;
pub(super) const BYTES: &[u8] = b"whatever others say, these bytes stay";

fn a_client_lies(script: &mut DrillScript) -> Verdict {
    lie_and_look(script, Liar::Client, Vec::new())
}

fn a_chunkserver_lies(script: &mut DrillScript) -> Verdict {
    script.pose_as_chunkserver();
    // One of the cell's own, as far as the master knows.
    let (server, incarnation) = (ServerId::new(0xbad), Incarnation::new(0x5e1f));
    let (address, rack) = (Address::new("impostor:0"), Rack::new("/dc1/r9"));
    let at = ReplicaAt { server, address, rack };
    let join = Join { at, incarnation, capacity: 1 << 30, ..Join::default() };
    let joined = script.send(script.nodes().master, join, Bytes::new());
    let Ok(Response::Join(joined)) = script.answer(&joined).map(|answer| answer.response) else {
        return Err("the impostor may not join".to_owned());
    };
    let known = vec![server.get(), incarnation.get(), joined.join.get(), joined.term.get()];
    lie_and_look(script, Liar::Chunkserver, known)
}

/// Orders in the name of the last term that there can be: whoever obeyed one would never again obey
/// the cell's own master (R2).
fn a_client_gives_orders(script: &mut DrillScript) -> Verdict {
    let file = script.create("/log", Content::Records)?;
    script.append(0, file, BYTES)?;
    let chunk = script.chunk(file, 0)?;
    for node in script.nodes().servers.clone() {
        let order = Probe { term: Term::new(u64::MAX), handle: chunk, ..Probe::default() };
        drop(script.probe(node, order, Bytes::new()));
    }
    // Every lease is over, and every server has to be asked for the next.
    script.pass(Duration::from_secs(20));
    script.append(1, file, BYTES).map(drop)
}

fn lie_and_look(script: &mut DrillScript, liar: Liar, mut known: Vec<u64>) -> Verdict {
    let written = script.create("/innocent", Content::Bytes)?;
    script.write_synced(0, written, 0, BYTES)?;
    let appended = script.create("/log", Content::Bytes)?;
    let at = script.append(0, appended, BYTES)?;
    for file in [written, appended] {
        let handle = script.chunk(file, 0)?;
        let version = script.version(handle).ok_or("no version")?;
        known.extend([file.get(), handle.get(), version.get()]);
    }
    let random = &mut Random::new(0xbad);
    for round in 0..ROUNDS {
        for lie in lies(liar, &known, random) {
            tell(script, lie, random);
        }
        script.pass(Duration::from_millis(20));
        if round % LOOK_EVERY == 0 {
            look(script, &[(written, 0), (appended, at)])?;
        }
    }
    // Whatever they set in motion has come to an end.
    script.pass(Duration::from_secs(30));
    look(script, &[(written, 0), (appended, at)])?;
    // Whoever may limit a directory has told no lie: what was said of the root is taken back.
    let clears = SetQuota { path: path("/"), clears: true, ..SetQuota::default() };
    script.done(0, ClientOp::Order { order: Box::new(clears.into()) })?;
    script.write(1, written, BYTES.len() as u64, BYTES)?;
    script.append(2, appended, BYTES)?;
    look(script, &[(written, 0), (written, BYTES.len() as u64), (appended, at)])
}

/// Tells a lie to whom such a request goes.
fn tell(script: &mut DrillScript, lie: Request, random: &mut Random) {
    let nodes = script.nodes();
    let to = match lie.clone().directed() {
        Directed::ClientToMaster(_)
        | Directed::ClientToMember(_)
        | Directed::ClientToStreams(_)
        | Directed::ChunkserverToMaster(_) => nodes.master,
        _ => *random.pick(&nodes.servers).expect("there are servers"),
    };
    drop(script.send(to, lie, Bytes::new()));
}

/// What was written is read, by somebody else.
pub(super) fn look(script: &mut DrillScript, places: &[(EntryId, u64)]) -> Verdict {
    for (file, offset) in places {
        let read = script.read(1, *file, *offset, BYTES.len() as u64)?;
        if read != BYTES {
            return Err(format!("{file:?}: {BYTES:?} was acknowledged, and {read:?} is read"));
        }
    }
    Ok(())
}
