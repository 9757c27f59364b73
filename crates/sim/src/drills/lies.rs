//! Hostile peers: a client and a chunkserver tell lies of every rpc that they may ask, of numbers
//! that mean something and of numbers at every limit; the chunkserver in its own name, once the
//! master has taken it in. Nobody panics, and what others have stored stays as it is.

use super::drill::Drill;
use super::script::DrillScript;
use crate::checkers::Verdict;
use crate::operations::{ClientOp, OpOutput, path};
use crate::prober::PendingAnswer;
use bytes::Bytes;
use cairn_protocol::{Directed, Liar, LyingServer, Probe, Request, SetQuota, lies};
use cairn_types::{
    Address, ChunkHandle, ChunkVersion, Content, EntryId, Incarnation, Rack, Random, ReplicaAt,
    ServerId, Term,
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
    let innocent = Innocent::new(script)?;
    let random = &mut Random::new(0xbad);
    for round in 0..ROUNDS {
        for lie in lies(Liar::Client, &innocent.numbers, random) {
            drop(tell(script, lie, random));
        }
        script.pass(Duration::from_millis(20));
        if round % LOOK_EVERY == 0 {
            look(script, &innocent.places)?;
        }
    }
    innocent.outlasts(script)
}

/// One of the cell's own, as far as the master knows, until it is heard of no more. What it says of
/// the innocents' chunks can be, mostly, and is believed for as long (R29): who reads meanwhile may
/// have to wait, and is given nothing else.
fn a_chunkserver_lies(script: &mut DrillScript) -> Verdict {
    script.pose_as_chunkserver();
    let innocent = Innocent::new(script)?;
    script.sim.observer.borrow_mut().somebody_lies();
    let (address, rack) = (Address::new("impostor:0"), Rack::new("/dc1/r9"));
    let at = ReplicaAt { server: ServerId::new(0xbad), address, rack };
    let mut liar = LyingServer::new(at, Incarnation::new(0x5e1f), innocent.chunks.clone());
    let random = &mut Random::new(0xbad);
    for round in 0..ROUNDS {
        let numbers = [&innocent.numbers[..], &liar.numbers()].concat();
        let said = match liar.is_joined() {
            true => liar.lies(&numbers, random),
            false => vec![liar.join().into()],
        };
        let mut told = Vec::new();
        for lie in said {
            told.push((lie.clone(), tell(script, lie, random)));
        }
        script.pass(Duration::from_millis(20));
        for (lie, answer) in told {
            if let Some(answer) = answer.take() {
                liar.heard(&lie, answer.ok().map(|it| it.response).as_ref());
            }
        }
        if round % (3 * LOOK_EVERY) == 0 {
            innocent.is_read_as_written_if_at_all(script)?;
        }
    }
    if liar.taken() < ROUNDS / 2 {
        return Err(format!("{} lies were taken as the words of a chunkserver", liar.taken()));
    }
    innocent.outlasts(script)
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

/// What was written before anybody lied.
struct Innocent {
    /// A file, and where in it [`BYTES`] stand; one of them was appended to.
    places: [(EntryId, u64); 2],
    chunks: Vec<(ChunkHandle, ChunkVersion)>,
    /// Those of files, chunks and versions.
    numbers: Vec<u64>,
}

impl Innocent {
    fn new(script: &mut DrillScript) -> Result<Self, String> {
        let written = script.create("/innocent", Content::Bytes)?;
        script.write_synced(0, written, 0, BYTES)?;
        let appended = script.create("/log", Content::Bytes)?;
        let at = script.append(0, appended, BYTES)?;
        let (mut chunks, mut numbers) = (Vec::new(), Vec::new());
        for file in [written, appended] {
            let handle = script.chunk(file, 0)?;
            let version = script.version(handle).ok_or("no version")?;
            chunks.push((handle, version));
            numbers.extend([file.get(), handle.get(), version.get()]);
        }
        Ok(Self { places: [(written, 0), (appended, at)], chunks, numbers })
    }

    /// Nobody is given anything else.
    fn is_read_as_written_if_at_all(&self, script: &mut DrillScript) -> Verdict {
        for (file, offset) in self.places {
            let size = BYTES.len() as u64;
            let read = script.ask(1, ClientOp::Read { file, offset, size, fresh: true });
            match script.wait(read) {
                Ok(OpOutput::Bytes(read, _)) if read != BYTES => {
                    return Err(format!("{file:?}: {BYTES:?} was acknowledged, and not {read:?}"));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Whatever the lies set in motion has come to an end: all is there, and is written to.
    fn outlasts(&self, script: &mut DrillScript) -> Verdict {
        script.pass(Duration::from_secs(30));
        look(script, &self.places)?;
        // Whoever may limit a directory has told no lie: what was said of the root is taken back.
        let clears = SetQuota { path: path("/"), clears: true, ..SetQuota::default() };
        script.done(0, ClientOp::Order { order: Box::new(clears.into()) })?;
        let [(written, _), (appended, _)] = self.places;
        script.write(1, written, BYTES.len() as u64, BYTES)?;
        script.append(2, appended, BYTES)?;
        look(script, &self.places)?;
        look(script, &[(written, BYTES.len() as u64)])
    }
}

/// Tells a lie to whom such a request goes.
fn tell(script: &mut DrillScript, lie: Request, random: &mut Random) -> PendingAnswer {
    let nodes = script.nodes();
    let to = match lie.clone().directed() {
        Directed::ClientToMaster(_)
        | Directed::ClientToMember(_)
        | Directed::ClientToStreams(_)
        | Directed::ChunkserverToMaster(_) => nodes.master,
        _ => *random.pick(&nodes.servers).expect("there are servers"),
    };
    script.send(to, lie, Bytes::new())
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
