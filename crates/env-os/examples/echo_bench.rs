//! What the seam itself costs: small requests, and pushes down a chain of three.
//!
//! `cargo run --release --example echo_bench [seconds] [directory]`: each server writes what is
//! pushed to it into a file of the directory, as the bare C chain of `pipe.c` does; without a
//! directory it drops it.

use bytes::Bytes;
use cairn_env::{Completion, Driver, Effect, EffectId, Event, Now, PushedData, Service};
use cairn_env_os::{LaunchOptions, Running, bind, launch};
use cairn_protocol::{
    ChunkLength, ChunkLengthAnswer, Failure, Hello, Push, Read, ReadAnswer, Request, Response, Role,
};
use cairn_types::{
    Address, BLOCK_SIZE, BlockChecksums, CellId, Incarnation, MutationNumber, PushId, Rack,
    ReplicaAt, ServerId, SessionId,
};
use rustix::time::{ClockId, clock_gettime};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

const CALL_TIME: Duration = Duration::from_secs(10);
const PUSH_SIZE: usize = 1 << 20;
const PUSH_WINDOW: usize = 8;
/// Each server's file is written over again and again: what is measured is the way into pages
/// that are there already, not how the kernel finds new ones.
const FILE_SIZE: u64 = 256 << 20;

/// Writes pushed data to a file, or drops it.
struct Store {
    file: Option<File>,
    written: AtomicU64,
}

impl Service for Store {
    type Job = ();
    type JobResult = ();
    fn run(&self, jobs: Vec<()>) -> Vec<()> {
        jobs
    }
    fn keep(&self, _: PushId, data: PushedData) -> Result<(), Failure> {
        for segment in data.segments {
            let at = self.written.fetch_add(segment.len() as u64, Ordering::Relaxed);
            if let Some(file) = &self.file {
                file.write_all_at(&segment, at % FILE_SIZE).expect("the bench's disk has room");
            }
        }
        Ok(())
    }
}

struct Server {
    id: ServerId,
    answer: Bytes,
}

impl Driver for Server {
    type Service = Store;
    type Command = ();
    fn handle(&mut self, _: Now, event: Event<(), ()>, effects: &mut Vec<Effect<()>>) {
        match event {
            Event::Started => effects.push(Effect::Identify(hello(self.id))),
            Event::Request { from, request: Request::ChunkLength(_) } => {
                effects.push(Effect::Reply {
                    to: from,
                    answer: Ok(Response::ChunkLength(ChunkLengthAnswer::default())),
                    payload: Bytes::new().into(),
                })
            }
            Event::Request { from, .. } => effects.push(Effect::Reply {
                to: from,
                answer: Ok(Response::Read(ReadAnswer::default())),
                payload: self.answer.clone().into(),
            }),
            Event::Identified { .. }
            | Event::Disconnected { .. }
            | Event::Completed { .. }
            | Event::Command(()) => {}
        }
    }
}

fn hello(id: ServerId) -> Hello {
    Hello::new(CellId::new(1), Role::Client, id, Incarnation::new(1))
}

/// What the callers ask, again and again.
enum Load {
    Probes,
    Reads(u64),
    Pushes { data: Bytes, chain: Vec<ReplicaAt> },
}

/// A driver of callers, each with one request on its way.
struct Callers {
    to: Vec<Address>,
    load: Load,
    count: u64,
    until: Option<Now>,
    time: Duration,
    done: u64,
    running: u64,
    report: Sender<(u64, Duration)>,
}

impl Callers {
    fn ask(&mut self, now: Now, caller: u64, effects: &mut Vec<Effect<()>>) {
        let (request, payload) = match &self.load {
            Load::Probes => (ChunkLength::default().into(), Bytes::new()),
            Load::Reads(size) => (Read { size: *size, ..Read::default() }.into(), Bytes::new()),
            Load::Pushes { data, chain } => {
                let number = MutationNumber::new(self.done + caller);
                let push = Push {
                    push: PushId { session: SessionId::new(1), number },
                    // As a client does: summed where the bytes are born.
                    checksums: BlockChecksums::of(0, data, BLOCK_SIZE),
                    chain: chain.clone(),
                    ..Push::default()
                };
                (push.into(), data.clone())
            }
        };
        let (to, server) = (self.to[caller as usize % self.to.len()].clone(), ServerId::new(1));
        let deadline = now.time + CALL_TIME;
        effects.push(Effect::Call { id: EffectId(caller), to, server, request, payload, deadline });
    }
}

impl Driver for Callers {
    type Service = Store;
    type Command = ();
    fn handle(&mut self, now: Now, event: Event<(), ()>, effects: &mut Vec<Effect<()>>) {
        match event {
            Event::Started => {
                effects.push(Effect::Identify(hello(ServerId::default())));
                self.until = Some(Now { time: now.time + self.time, ..now });
                self.running = self.count;
                (0..self.count).for_each(|caller| self.ask(now, caller, effects));
            }
            Event::Completed { id, result: Completion::Answered(answer) } => {
                let answer = answer.expect("the bench's servers answer");
                if let (Load::Reads(size), Response::Read(_)) = (&self.load, &answer.response) {
                    assert_eq!(answer.payload.len() as u64, *size);
                    std::hint::black_box(BlockChecksums::of(0, &answer.payload, BLOCK_SIZE));
                }
                self.done += 1;
                if self.until.is_some_and(|until| now.time < until.time) {
                    return self.ask(now, id.0, effects);
                }
                self.running -= 1;
                if self.running == 0 {
                    let _ = self.report.send((self.done, self.time));
                }
            }
            _ => {}
        }
    }
}

fn cpu_seconds() -> f64 {
    let told = clock_gettime(ClockId::ProcessCPUTime);
    told.tv_sec as f64 + told.tv_nsec as f64 * 1e-9
}

fn serve(id: u64, file: Option<File>) -> (Running<()>, u16) {
    let listener = bind("0.0.0.0:0").expect("a free port");
    let port = listener.local_addr().expect("bound").port();
    let driver = Server { id: ServerId::new(id), answer: Bytes::from(vec![7; PUSH_SIZE]) };
    let service = Arc::new(Store { file, written: AtomicU64::new(0) });
    let options = LaunchOptions { listener: Some(listener), ..LaunchOptions::new("server") };
    (launch(driver, service, options).expect("starts"), port)
}

/// Operations done, wall seconds and CPU seconds of all threads.
fn measure(to: Vec<Address>, load: Load, count: u64, time: Duration) -> (u64, f64, f64) {
    let (report, reported) = channel();
    let driver = Callers { to, load, count, until: None, time, done: 0, running: 0, report };
    let service = Arc::new(Store { file: None, written: AtomicU64::new(0) });
    let (began, cpu) = (Instant::now(), cpu_seconds());
    let running = launch(driver, service, LaunchOptions::new("callers")).expect("starts");
    let (done, _) = reported.recv().expect("the callers report");
    let (wall, cpu) = (began.elapsed().as_secs_f64(), cpu_seconds() - cpu);
    running.stop().expect("stops");
    (done, wall, cpu)
}

fn address(host: u64, port: u16) -> Address {
    Address::new(format!("127.0.0.{host}:{port}"))
}

fn small_requests(time: Duration) {
    let (server, port) = serve(1, None);
    for callers in [1, 8, 64] {
        // Eight addresses of this machine: eight connections.
        let to = (1..=8).map(|host| address(host, port)).collect();
        let (done, wall, cpu) = measure(to, Load::Probes, callers, time);
        println!(
            "small requests, {callers:2} callers: {:7.0}/s, {:5.2} CPU us each, both sides",
            done as f64 / wall,
            cpu * 1e6 / done as f64
        );
    }
    server.stop().expect("stops");
}

fn report_bulk(what: &str, (done, wall, cpu): (u64, f64, f64)) {
    let bytes = done as f64 * PUSH_SIZE as f64;
    println!(
        "{what}: {:5.0} MB/s, {:4.2} CPU s/GiB",
        bytes / wall / 1e6,
        cpu / (bytes / (1u64 << 30) as f64)
    );
}

fn pushes(time: Duration, directory: Option<&str>) {
    let open = |id: u64| {
        let path = format!("{}/echo_bench_{id}", directory?);
        let file = File::create(&path).expect("the directory can be written");
        // Nothing is left behind, however the bench ends.
        std::fs::remove_file(path).expect("just made");
        Some(file)
    };
    let servers: Vec<_> = (1..=3).map(|id| serve(id, open(id))).collect();
    let chain = servers.iter().zip(1..).skip(1);
    let chain = chain.map(|((_, port), id)| ReplicaAt {
        server: ServerId::new(id),
        address: address(1, *port),
        rack: Rack::default(),
    });
    let data = Bytes::from((0..PUSH_SIZE).map(|at| (at * 7) as u8).collect::<Vec<_>>());
    let load = Load::Pushes { data, chain: chain.collect() };
    let to = vec![address(1, servers[0].1)];
    let what =
        if directory.is_some() { "push chain of three, to files" } else { "push chain of three" };
    report_bulk(what, measure(to, load, PUSH_WINDOW as u64, time));
    for (server, _) in servers {
        server.stop().expect("stops");
    }
}

fn reads(time: Duration) {
    let (server, port) = serve(1, None);
    let load = Load::Reads(PUSH_SIZE as u64);
    report_bulk("reads of 1 MiB from memory", measure(vec![address(1, port)], load, 4, time));
    server.stop().expect("stops");
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let seconds = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(2.0);
    let time = Duration::from_secs_f64(seconds);
    small_requests(time);
    pushes(time, None);
    if let Some(directory) = arguments.next() {
        pushes(time, Some(&directory));
    }
    reads(time);
}
