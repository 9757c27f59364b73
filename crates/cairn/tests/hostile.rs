//! Hostile peers against a cell of real processes: they lie in every rpc, in what they ask and in
//! what they answer, as strangers and as chunkservers that the master has taken in; they connect
//! and say nothing, ask and do not read. No process ends, none holds more than it may, and what
//! others have stored is read as it was.
//!
//! `CAIRN_HOSTILE_SECONDS` makes it longer, `CAIRN_HOSTILE_IDLE` and `CAIRN_HOSTILE_GREEDY` larger.

mod cell;

use cairn_protocol::{
    Directed, FRAME_HEADER_SIZE, FrameHeader, FrameKind, Hello, Inventory, Liar, List, LyingServer,
    Open, OpenAnswer, Probe, ProbeAnswer, Raise, RaiseAnswer, ReplicaReport, Request, RequestId,
    Response, Role, Welcome, encode_frame, lie_in_answer_to, lies,
};
use cairn_types::{
    Address, CellId, CellPath, ChunkHandle, ChunkVersion, Incarnation, Rack, Random, ReplicaAt,
    SerialNumber, ServerId, Term,
};
use cell::{Cell, await_until, run};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::Scope;
use std::time::{Duration, Instant};

/// Bytes of memory that a server of a small cell takes at most: its budgets and itself.
const RESIDENT_MAX: u64 = 640 << 20;

/// A number from the environment, for longer runs.
fn setting(name: &str, usual: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

fn frame(request: &Request, id: u64) -> Vec<u8> {
    let mut out = Vec::new();
    let message = |out: &mut Vec<u8>| request.encode(out);
    encode_frame(request.kind(), FrameKind::Request, RequestId(id), &message, 0, &mut out);
    out
}

/// A connection that has said Hello, whatever came of it.
fn dial(address: &str, role: Role) -> std::io::Result<TcpStream> {
    let mut peer = TcpStream::connect(address)?;
    let patience = Some(Duration::from_secs(20));
    peer.set_read_timeout(patience).and_then(|()| peer.set_write_timeout(patience))?;
    let (cell, server, incarnation) =
        (CellId::default(), ServerId::default(), Incarnation::default());
    let hello = Hello::new(cell, role, server, incarnation);
    peer.write_all(&frame(&Request::Hello(hello), 0))?;
    read_answer(&mut peer)?;
    Ok(peer)
}

fn read_answer(peer: &mut TcpStream) -> std::io::Result<Option<Response>> {
    let mut raw = [0; FRAME_HEADER_SIZE];
    peer.read_exact(&mut raw)?;
    let header = FrameHeader::decode(&raw).expect("a server sends frames");
    let mut message = vec![0; header.message_size as usize];
    peer.read_exact(&mut message)?;
    peer.read_exact(&mut vec![0; header.payload_size as usize])?;
    let is_answer = header.kind == FrameKind::Response;
    Ok(if is_answer { Response::decode(header.rpc, &message).expect("an answer") } else { None })
}

fn opened(cell: &Cell, path: &str) -> OpenAnswer {
    let path = CellPath::parse(path).expect("a path");
    let open = Request::from(Open { path, count: 16, ..Open::default() });
    let mut peer = dial(cell.address(), Role::Client).expect("the master listens");
    peer.write_all(&frame(&open, 1)).expect("asks");
    let Ok(Some(Response::Open(answer))) = read_answer(&mut peer) else { panic!("opened") };
    answer
}

/// A file's chunks, and the versions that they stand at.
fn chunks_of(cell: &Cell, path: &str) -> Vec<(ChunkHandle, ChunkVersion)> {
    opened(cell, path).chunks.iter().map(|chunk| (chunk.handle, chunk.version)).collect()
}

/// Numbers that mean something: of a file's chunks, their versions, and the file itself. Who has a
/// file's id may make it longer, as any client may: so that of an innocent one is left out.
fn numbers_of(cell: &Cell, path: &str, with_id: bool) -> Vec<u64> {
    let answer = opened(cell, path);
    let chunks = answer.chunks.iter().flat_map(|chunk| [chunk.handle.get(), chunk.version.get()]);
    chunks.chain(with_id.then_some(answer.entry.id.get())).collect()
}

/// What a process takes of memory, at most so far.
fn resident(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).expect("as ever");
    let kib = line.split_whitespace().nth(1).and_then(|text| text.parse::<u64>().ok());
    kib.expect("a number") << 10
}

/// All processes run, and none has ever held more than it may.
fn all_are_well(cell: &mut Cell) {
    let mut pids = vec![("master".to_owned(), cell.masters[0].pid())];
    pids.extend(cell.chunkservers.iter().map(|one| (one.name().to_owned(), one.pid())));
    for (name, pid) in pids {
        let most = resident(pid.unwrap_or_else(|| panic!("{name} runs")));
        eprintln!("{name}: {} MB at most", most >> 20);
        assert!(most < RESIDENT_MAX, "{name} held {} MB", most >> 20);
    }
    assert!(cell.masters[0].runs() && cell.chunkservers.iter_mut().all(|one| one.runs()));
}

/// Tells lies until it is over; how many.
fn lie(cell: &[String], known: &[u64], liar: Liar, seed: u64, over: &AtomicBool) -> u64 {
    let (random, mut told) = (&mut Random::new(seed), 0);
    let role = liar.role();
    let mut peers: Vec<Option<TcpStream>> = cell.iter().map(|_| None).collect();
    while !over.load(Ordering::SeqCst) {
        for lie in lies(liar, known, random) {
            let to = match lie.clone().directed() {
                Directed::ClientToMaster(_)
                | Directed::ClientToMember(_)
                | Directed::ClientToStreams(_)
                | Directed::ChunkserverToMaster(_) => 0,
                _ => 1 + random.below(cell.len() as u64 - 1) as usize,
            };
            // A connection that was closed, for what was said on it, is made anew.
            if peers[to].is_none() || random.chance(10) {
                peers[to] = dial(&cell[to], role).ok();
            }
            told += 1;
            let sent = peers[to].as_mut().map(|peer| peer.write_all(&frame(&lie, told)));
            if !matches!(sent, Some(Ok(()))) {
                peers[to] = None;
            }
        }
        peers.iter_mut().flatten().for_each(drain);
    }
    told
}

/// What is answered is read now and then, as much as is there.
fn drain(peer: &mut TcpStream) {
    let mut sink = [0; 64 << 10];
    let _ = peer.set_nonblocking(true);
    while peer.read(&mut sink).is_ok_and(|count| count > 0) {}
    let _ = peer.set_nonblocking(false);
}

/// Ends the liars, however the test ends.
struct OverOnDrop<'a>(&'a AtomicBool);

impl Drop for OverOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[test]
fn lies_of_every_rpc_harm_nobody() {
    let mut cell = Cell::start(3);
    let bytes: Vec<u8> = (0..3_000_000u32).map(|at| (at % 251) as u8).collect();
    let file = cell.file("innocent", &bytes);
    cell.ok(["put", &file, "/innocent"]);
    cell.ok_with(["append", "/records"], b"a record\n");
    cell.ok(["put", &file, "/bait"]);
    let innocent = ["/innocent", "/records"].map(|path| numbers_of(&cell, path, false));
    let known = [innocent.concat(), numbers_of(&cell, "/bait", true)].concat();
    let mut addresses = vec![cell.address().to_owned()];
    addresses.extend(cell.chunkservers.iter().map(|one| one.address().to_owned()));
    let (over, told) = (AtomicBool::new(false), AtomicU64::new(0));
    let end = Instant::now() + Duration::from_secs(setting("CAIRN_HOSTILE_SECONDS", 6));
    std::thread::scope(|scope| {
        for (seed, liar) in [Liar::Client, Liar::Chunkserver, Liar::Client].into_iter().enumerate()
        {
            let (addresses, known, over, told) = (&addresses, &known, &over, &told);
            scope.spawn(move || {
                let count = lie(addresses, known, liar, seed as u64, over);
                told.fetch_add(count, Ordering::SeqCst);
            });
        }
        let _over = OverOnDrop(&over);
        while Instant::now() < end {
            assert!(cell.ok_with(["cat", "/innocent"], b"") == bytes, "read as it was written");
        }
    });
    eprintln!("{} lies", told.load(Ordering::SeqCst));
    assert!(told.load(Ordering::SeqCst) > 1000);
    all_are_well(&mut cell);
    assert!(cell.ok_with(["cat", "/innocent"], b"") == bytes, "read as it was written");
    // Whoever may limit a directory has told no lie.
    cell.ok(["quota", "clear", "/"]);
    cell.ok(["put", &file, "/another"]);
    assert!(cell.ok_with(["cat", "/another"], b"") == bytes);
    cell.ok_with(["append", "/records"], b"another\n");
}

/// Who the impostor says that it is.
const IMPOSTOR: (ServerId, Incarnation) = (ServerId::new(0xbad), Incarnation::new(0x5e1f));

/// It stands in a rack of its own: the master has it take part in whatever is made.
fn impostor(address: &str, chunks: Vec<(ChunkHandle, ChunkVersion)>) -> LyingServer {
    let (server, incarnation) = IMPOSTOR;
    let at = ReplicaAt { server, address: Address::new(address), rack: Rack::new("/dc1/r9") };
    LyingServer::new(at, incarnation, chunks)
}

/// Lies as a chunkserver that the master has taken in; how many of its lies were taken as such.
fn lie_when_taken_in(
    master: &str,
    (known, chunks): (&[u64], Vec<(ChunkHandle, ChunkVersion)>),
    over: &AtomicBool,
) -> u64 {
    // Nobody listens there.
    let (mut liar, random) = (impostor("127.0.0.1:1", chunks), &mut Random::new(9));
    let (mut told, mut peer, mut aside) = (0, None, None);
    while !over.load(Ordering::SeqCst) {
        let numbers = [known, &liar.numbers()].concat();
        let said = match liar.is_joined() {
            true => liar.lies(&numbers, random),
            false => vec![liar.join().into()],
        };
        for lie in said {
            told += 1;
            let is_answered_at_once =
                matches!(lie, Request::Join(_) | Request::Inventory(_) | Request::Heartbeat(_));
            let on = if is_answered_at_once { &mut peer } else { &mut aside };
            let dialled = on.take().or_else(|| dial(master, Role::Chunkserver).ok());
            let Some(mut dialled) = dialled else { continue };
            if dialled.write_all(&frame(&lie, told)).is_err() {
                continue;
            }
            if !is_answered_at_once {
                drain(&mut dialled);
            } else {
                let Ok(answer) = read_answer(&mut dialled) else { continue };
                liar.heard(&lie, answer.as_ref());
            }
            *on = Some(dialled);
        }
    }
    eprintln!("{told} lies of a chunkserver that was taken in");
    liar.taken()
}

/// As far as it was read it is what was written. The liar says of the last chunk, too, that this is
/// closed, which is believed of one server (R18): then zeros follow, up to where all chunks end.
fn is_as_written(wrote: &[u8], read: &[u8]) {
    let differs = wrote.iter().zip(read).position(|(wrote, read)| wrote != read);
    assert_eq!(differs, None, "of {} bytes", read.len());
    assert!(read.iter().skip(wrote.len()).all(|byte| *byte == 0), "{} bytes", read.len());
}

/// What it says of what others hold can be, mostly, and is believed as long as it lives (R29): who
/// reads meanwhile may have to wait, and is given nothing else.
#[test]
fn a_chunkserver_that_was_taken_in_and_lies_harms_nobody() {
    let mut cell = Cell::start(3);
    let bytes: Vec<u8> = (0..3_000_000u32).map(|at| (at % 251) as u8).collect();
    let file = cell.file("innocent", &bytes);
    cell.ok(["put", &file, "/innocent"]);
    cell.ok_with(["append", "/records"], b"a record\n");
    let chunks = ["/innocent", "/records"].map(|path| chunks_of(&cell, path)).concat();
    let known = ["/innocent", "/records"].map(|path| numbers_of(&cell, path, false)).concat();
    let (over, master) = (&AtomicBool::new(false), cell.address().to_owned());
    let end = Instant::now() + Duration::from_secs(setting("CAIRN_HOSTILE_SECONDS", 6));
    let taken = std::thread::scope(|scope| {
        let is_over = OverOnDrop(over);
        let liar = scope.spawn(|| lie_when_taken_in(&master, (&known, chunks), over));
        while Instant::now() < end {
            let read = run(cell.command(["cat", "/innocent", "--deadline", "1"]), b"");
            is_as_written(&bytes, &read.stdout);
        }
        drop(is_over);
        liar.join().expect("it ends")
    });
    eprintln!("{taken} of them were taken");
    assert!(taken > 200, "{taken} lies were taken as the words of a chunkserver of the cell");
    all_are_well(&mut cell);
    cell.await_live(3).expect("the impostor is gone, and the others are there");
    let read = cell.ok_with(["cat", "/innocent"], b"");
    is_as_written(&bytes, &read);
    assert!(read.len() >= bytes.len(), "all of it");
    assert_eq!(cell.ok(["cat", "/records"]), "a record\n");
    cell.ok(["put", &file, "/another"]);
    assert!(cell.ok_with(["cat", "/another"], b"") == bytes);
    cell.ok_with(["append", "/records"], b"another\n");
}

/// How a replica stands that has taken a raise, and come to that number before.
fn raised(raise: &Raise, serial: u64) -> Response {
    let replica = ReplicaReport {
        handle: raise.handle,
        version: raise.to,
        serial: SerialNumber::new(serial),
        ..ReplicaReport::default()
    };
    Response::Raise(RaiseAnswer { replica })
}

/// An answer to a raise that is taken, but for the number that the others are to go on from.
fn half_true(asked: &Request, random: &mut Random) -> Option<Response> {
    let Request::Raise(raise) = asked else { return None };
    let serial = *random.pick(&[0, 9, 1 << 63, u64::MAX - 1]).expect("there are some");
    random.chance(700).then(|| raised(raise, serial))
}

/// One connection to the impostor, which says who it is, and answers as it likes; where it does not
/// like to, it hangs up. How many answers it gave.
fn answer_each(
    mut peer: TcpStream,
    over: &AtomicBool,
    mut answer: impl FnMut(u16, Option<Request>) -> Option<(Response, Vec<u8>)>,
) -> u64 {
    let (mut told, mut raw) = (0, [0; FRAME_HEADER_SIZE]);
    while !over.load(Ordering::SeqCst) && peer.read_exact(&mut raw).is_ok() {
        let header = FrameHeader::decode(&raw).expect("servers send frames");
        let mut message = vec![0; (header.message_size + header.payload_size) as usize];
        if peer.read_exact(&mut message).is_err() {
            break;
        }
        let hello = Welcome {
            version: 1,
            role: Role::Chunkserver,
            server: IMPOSTOR.0,
            incarnation: IMPOSTOR.1,
            ..Welcome::default()
        };
        let given = match header.rpc {
            1 => Some((Response::Hello(hello), Vec::new())),
            rpc => {
                let asked = Request::decode(rpc, &message[..header.message_size as usize]);
                answer(rpc, asked.ok().flatten())
            }
        };
        let Some((given, payload)) = given else { break };
        let (mut out, encode) = (Vec::new(), |out: &mut Vec<u8>| given.encode(out));
        let kind = FrameKind::Response;
        encode_frame(given.kind(), kind, header.request, &encode, payload.len(), &mut out);
        out.extend_from_slice(&payload);
        told += 1;
        if peer.write_all(&out).is_err() {
            break;
        }
    }
    told
}

/// One connection to the impostor: whatever is asked is answered with a lie; how many.
fn answer_with_lies(peer: TcpStream, known: &[u64], seed: u64, over: &AtomicBool) -> u64 {
    let random = &mut Random::new(seed);
    answer_each(peer, over, |rpc, asked| {
        let half_true = asked.and_then(|it| half_true(&it, random));
        let lie = || lie_in_answer_to(rpc, known, random);
        let answer = half_true.or_else(lie).expect("a request that there is");
        Some((answer, vec![7; random.below(2) as usize * random.below(70_000) as usize]))
    })
}

/// Whoever dials the impostor is answered, each on a thread of its own, until it is over.
fn serve<'scope>(
    scope: &'scope Scope<'scope, '_>,
    listener: TcpListener,
    over: &'scope AtomicBool,
    answer: impl Fn(TcpStream, u64) + Send + Copy + 'scope,
) {
    listener.set_nonblocking(true).expect("sets");
    scope.spawn(move || {
        let mut count = 0;
        while !over.load(Ordering::SeqCst) {
            let Ok((peer, _)) = listener.accept() else {
                std::thread::park_timeout(Duration::from_millis(5));
                continue;
            };
            count += 1;
            // Longer than anybody keeps quiet to it, and no longer than it may take to end.
            let patience = Some(Duration::from_secs(3));
            peer.set_nonblocking(false).expect("sets");
            peer.set_read_timeout(patience).expect("sets");
            scope.spawn(move || answer(peer, count));
        }
    });
}

/// What the master answers to a chunkserver.
fn told_master(peer: &mut TcpStream, request: &Request, id: u64) -> Option<Response> {
    peer.write_all(&frame(request, id)).ok()?;
    read_answer(peer).ok().flatten()
}

/// The impostor is a chunkserver of the cell, as far as its master knows, until it is over.
fn pose_as_chunkserver(master: &str, address: &str, over: &AtomicBool) -> bool {
    let mut posed = impostor(address, vec![]);
    let mut peer = dial(master, Role::Chunkserver).expect("the master listens");
    let join = posed.join().into();
    let joined = told_master(&mut peer, &join, 1);
    let Some(Response::Join(answer)) = &joined else { return false };
    posed.heard(&join, joined.as_ref());
    let ((server, incarnation), join, last) = (IMPOSTOR, answer.join, true);
    let inventory = Inventory { server, incarnation, last, join, ..Inventory::default() };
    let taken = told_master(&mut peer, &inventory.into(), 2).is_some();
    let mut beats = 0;
    while !over.load(Ordering::SeqCst) {
        beats += 1;
        if told_master(&mut peer, &posed.heartbeat().into(), 2 + beats).is_none() {
            return false;
        }
        std::thread::park_timeout(Duration::from_millis(100));
    }
    taken
}

/// The master gives it new chunks, whose other servers and writers ask it, too.
#[test]
fn a_chunkserver_that_answers_with_lies_harms_nobody() {
    let mut cell = Cell::start(3);
    let bytes: Vec<u8> = (0..3_000_000u32).map(|at| (at % 251) as u8).collect();
    let file = cell.file("innocent", &bytes);
    cell.ok(["put", &file, "/innocent"]);
    let mut known = numbers_of(&cell, "/innocent", true);
    known.extend([IMPOSTOR.0.get(), IMPOSTOR.1.get(), 1]);
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let (address, master) = (listener.local_addr().expect("bound"), cell.address().to_owned());
    let (over, told) = (AtomicBool::new(false), AtomicU64::new(0));
    let end = Instant::now() + Duration::from_secs(setting("CAIRN_HOSTILE_SECONDS", 6));
    let (over, told, known) = (&over, &told, &known);
    std::thread::scope(|scope| {
        let _over = OverOnDrop(over);
        let posed = scope.spawn(move || pose_as_chunkserver(&master, &address.to_string(), over));
        serve(scope, listener, over, move |peer, count| {
            let lies = answer_with_lies(peer, known, count, over);
            told.fetch_add(lies, Ordering::SeqCst);
        });
        for writer in 0..8 {
            let cell = &cell;
            scope.spawn(move || {
                for at in 0.. {
                    if over.load(Ordering::SeqCst) {
                        break;
                    }
                    // Whether these are done is in the impostor's hands, too.
                    let name = format!("/new-{writer}-{}", at / 3);
                    run(cell.command(["append", &name, "--deadline", "2"]), b"a record\n");
                }
            });
        }
        while Instant::now() < end {
            assert!(cell.ok_with(["cat", "/innocent"], b"") == bytes, "read as it was written");
        }
        over.store(true, Ordering::SeqCst);
        assert!(posed.join().expect("it ends"), "it was taken in");
    });
    eprintln!("{} lies", told.load(Ordering::SeqCst));
    assert!(told.load(Ordering::SeqCst) > 5, "it was asked");
    all_are_well(&mut cell);
    assert!(cell.ok_with(["cat", "/innocent"], b"") == bytes, "read as it was written");
    cell.await_live(3).expect("the impostor is gone, and the others are there");
    cell.ok(["put", &file, "/another"]);
    assert!(cell.ok_with(["cat", "/another"], b"") == bytes);
}

/// All that it answers could be so, but for the number that its replicas have come to: who went on
/// from there would be at an end with the next mutation. Each chunk is made on the others.
#[test]
fn a_chunkserver_that_makes_up_one_number_is_done_without() {
    let mut cell = Cell::start(3);
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let (address, master) = (listener.local_addr().expect("bound"), cell.address().to_owned());
    let (over, asked) = (&AtomicBool::new(false), &AtomicU64::new(0));
    std::thread::scope(|scope| {
        let _over = OverOnDrop(over);
        scope.spawn(move || pose_as_chunkserver(&master, &address.to_string(), over));
        serve(scope, listener, over, move |peer, _| {
            let made_up = |_, request: Option<Request>| {
                let raise = match request {
                    Some(Request::Raise(raise)) => raise,
                    // It is there, where it says: else it is asked nothing more.
                    Some(Request::Probe(_)) => {
                        return Some((Response::Probe(ProbeAnswer::default()), Vec::new()));
                    }
                    _ => return None,
                };
                asked.fetch_add(1, Ordering::SeqCst);
                Some((raised(&raise, u64::MAX - 1), Vec::new()))
            };
            answer_each(peer, over, made_up);
        });
        let mut made = 0;
        await_until("the impostor was asked to take part in some chunks", || {
            made += 1;
            let name = format!("/new-{made}");
            for record in ["first\n", "second\n"] {
                cell.ok_with(["append", &name, "--deadline", "20"], record.as_bytes());
            }
            assert_eq!(cell.ok(["cat", &name, "--deadline", "20"]), "first\nsecond\n");
            asked.load(Ordering::SeqCst) >= 4
        });
    });
    all_are_well(&mut cell);
}

/// Orders in the name of the last term that there can be: whoever obeyed one would never again obey
/// its own master (R2).
#[test]
fn who_is_no_master_gives_no_orders() {
    let cell = Cell::start(1);
    cell.ok_with(["append", "/records"], b"a record\n");
    let handle = ChunkHandle::new(numbers_of(&cell, "/records", false)[0]);
    let order = Probe { term: Term::new(u64::MAX), handle, ..Probe::default() };
    for role in [Role::Client, Role::Chunkserver] {
        let mut peer = dial(cell.chunkservers[0].address(), role).expect("let in");
        peer.write_all(&frame(&order.clone().into(), 1)).expect("asks");
        assert_eq!(read_answer(&mut peer).expect("a frame"), None, "refused");
        assert_eq!(peer.read(&mut [0]).expect("closed, not reset"), 0, "and gone");
    }
    cell.ok_with(["append", "/records"], b"another\n");
    cell.ok_with(["put", "-", "/new"], b"bytes");
}

#[test]
fn idle_and_greedy_connections_change_neither_answers_nor_bounds() {
    let mut cell = Cell::start(1);
    let bytes = vec![7; 1 << 20];
    let file = cell.file("innocent", &bytes);
    cell.ok(["put", &file, "/innocent"]);
    let names: Vec<String> = (0..1000).map(|at| format!("/d/{at:0>240}")).collect();
    cell.ok(["mkdir", "/d"]);
    cell.ok(["mkdir"].into_iter().chain(names.iter().map(String::as_str)));
    let path = CellPath::parse("/d").expect("a path");
    let list = Request::from(List { path, limit: 1000, ..List::default() });
    let asked: Vec<u8> = (1..=1000).flat_map(|id| frame(&list, id)).collect();
    let dial = |_| dial(cell.address(), Role::Client).expect("let in");
    let idle: Vec<_> = (0..setting("CAIRN_HOSTILE_IDLE", 500)).map(dial).collect();
    let mut greedy: Vec<_> = (0..setting("CAIRN_HOSTILE_GREEDY", 50)).map(dial).collect();
    for peer in &mut greedy {
        // The kernel takes what the master does not.
        peer.set_nonblocking(true).expect("sets");
        let _ = peer.write(&asked);
    }
    let begun = Instant::now();
    let mut slowest = Duration::ZERO;
    for _ in 0..4 {
        let before = Instant::now();
        assert!(cell.ok_with(["cat", "/innocent"], b"") == bytes);
        assert_eq!(cell.ok(["ls", "/d"]).lines().count(), 1000);
        slowest = slowest.max(before.elapsed());
    }
    eprintln!(
        "{} idle, {} greedy: cat and ls four times in {:?}, {slowest:?} at most",
        idle.len(),
        greedy.len(),
        begun.elapsed()
    );
    all_are_well(&mut cell);
}
