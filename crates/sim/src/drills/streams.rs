//! Drills of streams: a producer that was opened anew elsewhere, bundles that come with a gap, and
//! holders that have lost what they are named for (R38 to R44).

use super::drill::Drill;
use super::script::DrillScript;
use crate::checkers::Verdict;
use crate::operations::{ClientOp, OpOutput, OpTicket, path};
use crate::simulation::told;
use bytes::Bytes;
use cairn_client_core::OpenedProducer;
use cairn_env_sim::NodeId;
use cairn_protocol::{
    AllocateChunks, AskShadow, Bundle, BundleHolder, CommitBundles, ErrorCode, Extend,
    ExtendAnswer, Failure, OpenProducer, OpenProducerAnswer, OpenStreamChunk, PRODUCER_CHUNKS_MAX,
    Push, ReadExtents, Request, Response, ShadowQuestion, ShadowWord, WaitLength,
};
use cairn_types::planted::Rule;
use cairn_types::{
    BlockChecksums, Content, EntryId, Epoch, MutationName, MutationNumber, ProducerId, PushId,
    RecordNumber, SerialNumber, SessionId,
};
use std::time::Duration;

pub(super) const DRILLS: &[Drill] = &[
    Drill::of_rule(
        Rule::R38,
        "a producer goes on that was opened anew elsewhere",
        3,
        a_producer_goes_on_that_was_opened_anew,
    ),
    Drill::of_rule(
        Rule::R39,
        "a number that stands for one record is put to the master for two",
        3,
        a_number_that_stands_for_one_record_is_put_to_the_master_for_two,
    ),
    Drill::of_rule(
        Rule::R40,
        "a bundle reaches a server that lacks the one before",
        3,
        a_bundle_reaches_a_server_that_lacks_the_one_before,
    ),
    Drill::of_rule(
        Rule::R41,
        "a chunk is sealed of which one server lacks the last bundle",
        4,
        a_chunk_is_sealed_of_which_one_server_lacks_the_last_bundle,
    ),
    Drill::of_rule(
        Rule::R42,
        "a producer is opened anew that had a chunk and wrote nothing to it",
        3,
        a_producer_is_opened_anew_that_wrote_nothing_to_its_chunk,
    ),
    Drill::of_rule(
        Rule::R44,
        "a reader goes on at a master that is not in charge, and is behind what he has seen",
        3,
        a_reader_goes_on_at_a_shadow_that_is_behind,
    )
    .with_a_group(),
    Drill::of_rule(
        Rule::R46,
        "a stream is wanted that another has exclusively, and one whose holder was killed",
        3,
        a_stream_is_wanted_that_another_has_exclusively,
    ),
    Drill::of_rule(
        Rule::R47,
        "a producer comes back after it was closed and the master started anew",
        3,
        a_producer_comes_back_after_it_was_closed,
    ),
    Drill::of_bug(
        "a producer leaves more chunks one after the other than it may have at once",
        3,
        a_producer_leaves_more_chunks_than_it_may_have,
    ),
];

const NAME: &str = "p";

pub(super) fn stream(script: &mut DrillScript) -> Result<EntryId, String> {
    stream_of(script, Content::Records)
}

pub(super) fn stream_of(script: &mut DrillScript, content: Content) -> Result<EntryId, String> {
    stream_with(script, content, None)
}

pub(super) fn stream_with(
    script: &mut DrillScript,
    content: Content,
    commit_replicas: Option<u32>,
) -> Result<EntryId, String> {
    let path = path("/stream");
    match script.done(0, ClientOp::CreateStream { path, content, commit_replicas })? {
        OpOutput::Entry(entry) => Ok(entry.id),
        other => Err(format!("making a stream: {other:?}")),
    }
}

pub(super) fn open(
    script: &mut DrillScript,
    client: usize,
    file: EntryId,
) -> Result<OpenedProducer, String> {
    open_as(script, client, file, NAME)
}

pub(super) fn open_as(
    script: &mut DrillScript,
    client: usize,
    file: EntryId,
    name: &str,
) -> Result<OpenedProducer, String> {
    match script.done(client, ClientOp::OpenProducer { file, name: name.to_owned() })? {
        OpOutput::Producer(opened) => Ok(opened),
        other => Err(format!("opening a producer: {other:?}")),
    }
}

/// One record, as bytes.
pub(super) fn send(
    script: &mut DrillScript,
    client: usize,
    producer: &OpenedProducer,
    (number, bytes): (u64, &'static [u8]),
) -> OpTicket {
    put(script, client, producer, (number, bytes, None))
}

/// The same, at the end or in the place of others.
fn put(
    script: &mut DrillScript,
    client: usize,
    producer: &OpenedProducer,
    (number, bytes, replaces): (u64, &'static [u8], Option<u64>),
) -> OpTicket {
    let (producer, bytes) = (producer.producer, Bytes::from_static(bytes));
    let op = ClientOp::SendBundle {
        producer,
        first: number,
        count: 1,
        bytes,
        cursor: None,
        sync: false,
        replaces,
    };
    script.ask(client, op)
}

pub(super) fn committed(script: &mut DrillScript, ticket: OpTicket) -> Verdict {
    match script.wait(ticket) {
        Ok(OpOutput::Committed(_)) => Ok(()),
        Ok(other) => Err(format!("a bundle was sent: {other:?}")),
        Err(failure) => Err(format!("a bundle was sent: {}", told(&failure))),
    }
}

/// The first bytes of the stream, for a client that has just opened it.
pub(super) fn read(
    script: &mut DrillScript,
    client: usize,
    file: EntryId,
    size: u64,
) -> Result<Bytes, String> {
    script.done(client, ClientOp::Open { path: path("/stream") })?;
    script.read(client, file, 0, size)
}

/// What the stream reads as for a client that has just opened it.
pub(super) fn reads(
    script: &mut DrillScript,
    client: usize,
    file: EntryId,
    expected: &[u8],
) -> Verdict {
    let bytes = read(script, client, file, expected.len() as u64 + 1000)?;
    let told = |bytes: &[u8]| {
        let first = String::from_utf8_lossy(&bytes[..bytes.len().min(60)]).into_owned();
        format!("{} bytes, {first:?}", bytes.len())
    };
    if bytes == expected {
        Ok(())
    } else {
        Err(format!("it reads as {}, not as {}", told(&bytes), told(expected)))
    }
}

/// The older of two openings sends its next record when the newer one has begun.
fn a_producer_goes_on_that_was_opened_anew(script: &mut DrillScript) -> Verdict {
    let file = stream(script)?;
    let zombie = open(script, 0, file)?;
    let first = send(script, 0, &zombie, (1, b"one,"));
    committed(script, first)?;
    let newer = open(script, 1, file)?;
    if newer.number.get() != 1 || newer.epoch <= zombie.epoch {
        return Err(format!("{newer:?} follows {zombie:?}"));
    }
    let late = send(script, 0, &zombie, (2, b"zombie,"));
    match script.wait(late) {
        Err(failure) if failure.code == ErrorCode::ProducerFenced => {}
        other => return Err(format!("the zombie is told {other:?}")),
    }
    let second = send(script, 1, &newer, (2, b"two,"));
    committed(script, second)?;
    reads(script, 2, file, b"one,two,")
}

/// The producer's part by hand.
pub(super) struct ManualProducer {
    /// The file, itself, and its epoch.
    names: (EntryId, ProducerId, Epoch),
    chunk: OpenStreamChunk,
    pushed: u64,
}

impl ManualProducer {
    pub(super) fn open(script: &mut DrillScript, file: EntryId) -> Result<Self, String> {
        let session = SessionId::new(0xd012);
        let mutation = MutationName { session, number: MutationNumber::new(1) };
        let name = NAME.to_owned();
        let open = OpenProducer { mutation, file, name, ..OpenProducer::default() };
        let master = script.nodes().master;
        let answer = script.probe(master, open, Bytes::new()).map_err(|why| told(&why))?;
        let Response::OpenProducer(OpenProducerAnswer { producer, epoch, .. }) = answer.response
        else {
            return Err("no producer".to_owned());
        };
        for _ in 0..20 {
            let count = 1;
            let wish = AllocateChunks { file, producer, epoch, count, ..AllocateChunks::default() };
            let answer = script.probe(master, wish, Bytes::new());
            if let Ok(Response::AllocateChunks(given)) = answer.map(|answer| answer.response)
                && let Some(chunk) = given.chunks.first()
            {
                return Ok(Self {
                    names: (file, producer, epoch),
                    chunk: chunk.clone(),
                    pushed: 0,
                });
            }
            script.pass(Duration::from_millis(200));
        }
        Err("no chunk was allocated".to_owned())
    }

    pub(super) fn servers(&self, script: &DrillScript) -> Vec<NodeId> {
        self.chunk.replicas.iter().map(|at| script.node_at(at)).collect()
    }

    /// Pushes a bundle to a server, and has it become the chunk's end there.
    pub(super) fn extend(
        &mut self,
        script: &mut DrillScript,
        to: NodeId,
        (serial, offset, bytes): (u64, u64, &'static [u8]),
    ) -> Result<ExtendAnswer, String> {
        self.pushed += 1;
        let number = MutationNumber::new(self.pushed);
        let push = PushId { session: SessionId::new(0xd013), number };
        let block_size = script.sim.cell_config.block_size;
        let checksums = BlockChecksums::of(offset, bytes, block_size);
        let block_offset = u32::try_from(offset % u64::from(block_size)).expect("within a block");
        let sums = checksums.clone();
        let pushed = Push { push, block_offset, checksums: sums, block_size, ..Push::default() };
        script.probe(to, pushed, Bytes::from_static(bytes)).map_err(|why| told(&why))?;
        let extend = Extend {
            handle: self.chunk.handle,
            version: self.chunk.version,
            push,
            serial: SerialNumber::new(serial),
            offset,
            size: bytes.len() as u64,
            checksums,
            sync: false,
        };
        match script.probe(to, extend, Bytes::new()).map(|answer| answer.response) {
            Ok(Response::Extend(answer)) => Ok(answer),
            Ok(other) => Err(format!("{other:?}")),
            Err(failure) => Err(told(&failure)),
        }
    }

    /// The same on all servers, and who they are for the master.
    pub(super) fn store(
        &mut self,
        script: &mut DrillScript,
        bundle: (u64, u64, &'static [u8]),
    ) -> Result<Vec<BundleHolder>, String> {
        let mut holders = Vec::new();
        for server in self.servers(script) {
            let ExtendAnswer { server, incarnation, .. } = self.extend(script, server, bundle)?;
            holders.push(BundleHolder { server, incarnation });
        }
        Ok(holders)
    }

    /// Puts a bundle of some records, the first and how many, to the master.
    pub(super) fn commit(
        &self,
        script: &mut DrillScript,
        (first, count): (u64, u64),
        (serial, offset, bytes): (u64, u64, &'static [u8]),
        holders: Vec<BundleHolder>,
    ) -> Result<Response, Failure> {
        let bundle = Bundle {
            first: RecordNumber::new(first),
            count,
            handle: self.chunk.handle,
            offset,
            size: bytes.len() as u64,
            serial: SerialNumber::new(serial),
            holders,
            cursor: None,
            replaces: None,
        };
        let ((file, producer, epoch), bundles) = (self.names, vec![bundle]);
        let commit = CommitBundles { file, producer, epoch, bundles };
        let master = script.nodes().master;
        script.probe(master, commit, Bytes::new()).map(|answer| answer.response)
    }
}

/// Each is given up at once: nobody waits for the master's next look at all that are open.
fn a_producer_leaves_more_chunks_than_it_may_have(script: &mut DrillScript) -> Verdict {
    let file = stream(script)?;
    let mut manual = ManualProducer::open(script, file)?;
    let ((file, producer, epoch), master) = (manual.names, script.nodes().master);
    for nth in 0..3 * PRODUCER_CHUNKS_MAX {
        let leaves = vec![manual.chunk.handle];
        let wish = AllocateChunks { file, producer, epoch, count: 1, leaves, unreachable: vec![] };
        let answer = script.probe(master, wish, Bytes::new());
        let answer = answer.map_err(|why| format!("chunk {nth}: {}", told(&why)))?;
        let Response::AllocateChunks(given) = answer.response else {
            return Err("no chunks".to_owned());
        };
        let [chunk] = given.chunks.as_slice() else {
            return Err(format!("chunk {nth}: {} are there", given.chunks.len()));
        };
        if chunk.handle == manual.chunk.handle {
            return Err(format!("chunk {nth} was left, and is given again"));
        }
        manual.chunk = chunk.clone();
    }
    Ok(())
}

/// The second time it would be in the file twice, or not at all and be taken for it.
fn a_number_that_stands_for_one_record_is_put_to_the_master_for_two(
    script: &mut DrillScript,
) -> Verdict {
    let file = stream(script)?;
    let mut producer = ManualProducer::open(script, file)?;
    let [first, second]: [(u64, u64, &'static [u8]); 2] = [(1, 0, b"one,"), (2, 4, b"one,two,")];
    let holders = producer.store(script, first)?;
    let done = producer.commit(script, (1, 1), first, holders).map_err(|why| told(&why))?;
    let holders = producer.store(script, second)?;
    if let Ok(answer) = producer.commit(script, (1, 2), second, holders) {
        return Err(format!("after {done:?} it was answered {answer:?}"));
    }
    reads(script, 2, file, b"one,")
}

/// Nothing of the chunk is committed: it is abandoned.
fn a_producer_is_opened_anew_that_wrote_nothing_to_its_chunk(script: &mut DrillScript) -> Verdict {
    let file = stream(script)?;
    let producer = ManualProducer::open(script, file)?;
    let newer = open(script, 0, file)?;
    if newer.epoch <= producer.names.2 {
        return Err(format!("{newer:?} follows epoch {}", producer.names.2));
    }
    let chunk = producer.chunk.handle;
    script
        .until("the chunk is abandoned", |script| script.reached("stream's chunk abandoned") > 0)?;
    script.until("it is garbage", move |script| script.holders(chunk).is_empty())?;
    let first = send(script, 0, &newer, (1, b"one,"));
    committed(script, first)?;
    reads(script, 2, file, b"one,")
}

/// What it is told is where it goes on: else its records would be in the file a second time.
fn a_producer_comes_back_after_it_was_closed(script: &mut DrillScript) -> Verdict {
    let file = stream(script)?;
    let producer = open(script, 0, file)?;
    let first = send(script, 0, &producer, (1, b"one,"));
    committed(script, first)?;
    script.done(0, ClientOp::CloseProducer { producer: producer.producer })?;
    let master = script.nodes().master;
    script.kill(master);
    script.restart(master)?;
    let again = open(script, 1, file)?;
    if again.number.get() != 1 || again.epoch <= producer.epoch {
        return Err(format!("{again:?} follows {producer:?}"));
    }
    let second = send(script, 1, &again, (2, b"two,"));
    committed(script, second)?;
    reads(script, 2, file, b"one,two,")
}

/// The second bundle comes to a server that never had the first.
fn a_bundle_reaches_a_server_that_lacks_the_one_before(script: &mut DrillScript) -> Verdict {
    let file = stream(script)?;
    let mut producer = ManualProducer::open(script, file)?;
    let servers = producer.servers(script);
    let [first, second]: [(u64, u64, &'static [u8]); 2] = [(1, 0, b"one,"), (2, 4, b"two,")];
    producer.extend(script, servers[0], first)?;
    producer.extend(script, servers[0], second)?;
    if let Ok(answer) = producer.extend(script, servers[1], second) {
        return Err(format!("a gap was taken: {answer:?}"));
    }
    producer.extend(script, servers[1], first)?;
    let again = producer.extend(script, servers[1], second)?;
    if again.length != 8 { Err(format!("{again:?}")) } else { Ok(()) }
}

/// A bundle is on two of three servers when its producer is opened anew: the third is not of the
/// set that is sealed.
fn a_chunk_is_sealed_of_which_one_server_lacks_the_last_bundle(
    script: &mut DrillScript,
) -> Verdict {
    let file = stream(script)?;
    let producer = open(script, 0, file)?;
    let first = send(script, 0, &producer, (1, b"one,"));
    committed(script, first)?;
    let chunk = script.chunk(file, 0)?;
    let out = script.holders(chunk)[2];
    let client = script.nodes().clients[0];
    script.part(client, out);
    for node in script.nodes().servers.clone() {
        if node != out {
            script.part(node, out);
        }
    }
    let second = send(script, 0, &producer, (2, b"two,"));
    committed(script, second)?;
    script.heal(client, out);
    for node in script.nodes().servers.clone() {
        script.heal(node, out);
    }
    let newer = open(script, 1, file)?;
    if newer.number.get() != 2 {
        return Err(format!("{newer:?} follows two records"));
    }
    script.until("the chunk is sealed", |script| script.reached("stream's chunk sealed") > 0)?;
    script.pass(Duration::from_secs(2));
    reads(script, 2, file, b"one,two,")
}

/// Opens it exclusively, or is told why not.
fn exclusively(
    script: &mut DrillScript,
    client: usize,
    file: EntryId,
) -> Result<OpenedProducer, Failure> {
    let ticket = script.ask(client, ClientOp::OpenProducer { file, name: String::new() });
    match script.wait(ticket)? {
        OpOutput::Producer(opened) => Ok(opened),
        other => panic!("opening a stream exclusively: {other:?}"),
    }
}

/// Nobody else replaces or appends while somebody has it; the commit of one whose lease ran out
/// comes when another has replaced the same bytes.
fn a_stream_is_wanted_that_another_has_exclusively(script: &mut DrillScript) -> Verdict {
    let file = stream_of(script, Content::Bytes)?;
    let producer = open(script, 0, file)?;
    let first = send(script, 0, &producer, (1, b"aaaabbbbcccc"));
    committed(script, first)?;
    let holder = exclusively(script, 1, file).map_err(|why| told(&why))?;
    match exclusively(script, 2, file) {
        Err(failure) if failure.code == ErrorCode::StreamLocked => {}
        other => return Err(format!("a second one is told {other:?} (R46)")),
    }
    let waiting = send(script, 0, &producer, (2, b"dddd"));
    let replaced = put(script, 1, &holder, (1, b"BBBB", Some(4)));
    committed(script, replaced)?;
    reads(script, 2, file, b"aaaaBBBBcccc")?;
    // Its next commit is held back until its lease is over, and another has it.
    let client = script.nodes().clients[1];
    script.stall(move |seen| {
        seen.from == client && matches!(seen.request, Request::CommitBundles(_))
    });
    let late = put(script, 1, &holder, (2, b"late", Some(4)));
    script.until_stalled()?;
    let lease = Duration::from_millis(script.sim.cell_config.lease_ms);
    script.pass(lease + Duration::from_secs(1));
    let next = exclusively(script, 2, file).map_err(|why| told(&why))?;
    if next.epoch <= holder.epoch {
        return Err(format!("{next:?} follows {holder:?}"));
    }
    let replaced = put(script, 2, &next, (2, b"next", Some(2)));
    committed(script, replaced)?;
    script.release();
    match script.wait(late) {
        Err(failure) if failure.code == ErrorCode::ProducerFenced => {}
        other => return Err(format!("one whose lease is over is told {other:?} (R46)")),
    }
    script.done(2, ClientOp::CloseProducer { producer: next.producer })?;
    // Whoever waited goes on, behind what was replaced.
    let whole: &[u8] = match script.wait(waiting) {
        Ok(_) => b"aanextBBccccdddd",
        Err(_) => b"aanextBBcccc",
    };
    reads(script, 1, file, whole)
}

/// What a master that is not in charge says to a question.
fn word_of(
    script: &mut DrillScript,
    shadow: NodeId,
    question: impl Into<ShadowQuestion>,
) -> Result<ShadowWord, String> {
    let ask = AskShadow { question: question.into() };
    match script.probe(shadow, ask, Bytes::new()).map(|answer| answer.response) {
        Ok(Response::AskShadow(told)) => Ok(*told.word),
        Ok(other) => Err(format!("a shadow answers with {other:?}")),
        Err(failure) => Err(told(&failure)),
    }
}

/// It was cut off from the group before the last commit, which the reader was told of.
fn a_reader_goes_on_at_a_shadow_that_is_behind(script: &mut DrillScript) -> Verdict {
    let file = stream(script)?;
    let producer = open(script, 0, file)?;
    let first = send(script, 0, &producer, (1, b"one,"));
    committed(script, first)?;
    script.pass(Duration::from_secs(2));
    let (in_charge, masters) = (script.master_in_charge()?, script.nodes().masters.clone());
    let shadow = masters.iter().copied().find(|it| *it != in_charge).expect("one of three");
    let others: Vec<NodeId> = masters.into_iter().filter(|it| *it != shadow).collect();
    others.iter().for_each(|other| script.part(shadow, *other));
    let second = send(script, 0, &producer, (2, b"two,"));
    committed(script, second)?;
    let read = ReadExtents { file, ..ReadExtents::default() };
    let answer = script.probe(in_charge, read.clone(), Bytes::new());
    let Ok(Response::ReadExtents(known)) = answer.map(|answer| answer.response) else {
        return Err("the master in charge does not say where it is".to_owned());
    };
    let (seen, length) = (known.log, known.entry.length);
    let wait = WaitLength { file, seen, ..Default::default() };
    for question in [ShadowQuestion::from(ReadExtents { seen, ..read.clone() }), wait.into()] {
        match word_of(script, shadow, question)? {
            ShadowWord::Failed(_) => {}
            word => return Err(format!("who has seen {length} bytes is told {word:?} (R44)")),
        }
    }
    others.iter().for_each(|other| script.heal(shadow, *other));
    script.pass(Duration::from_secs(3));
    match word_of(script, shadow, ReadExtents { seen, ..read })? {
        ShadowWord::ReadExtents(told) if told.entry.length == length => Ok(()),
        word => Err(format!("once it has the log it says {word:?}")),
    }
}
