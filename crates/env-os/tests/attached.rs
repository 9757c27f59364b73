//! A driver without a thread: turned by hand, as a task of a runtime turns it.

mod toy;

use bytes::Bytes;
use cairn_env_os::{Attached, LaunchOptions, Running, Turned, attach, bind};
use cairn_protocol::{ChunkLength, PAYLOAD_SIZE_MAX, Response};
use cairn_types::{Address, ServerId};
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::fd::OwnedFd;
use rustix::time::Timespec;
use std::mem::MaybeUninit;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::task::{Wake, Waker};
use std::time::Duration;
use toy::raw_peer::{answer_probe, read_frame, welcome};
use toy::{CELL, CallOutcome, Command, Node, PATIENCE, SeenByToy, Toy, ToyService};

/// Counts how often it is woken.
#[derive(Default)]
struct Bell(AtomicUsize);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// Waits as a runtime does: it is told once of what became readable.
struct Edges(OwnedFd);

impl Edges {
    fn of(attached: &Attached<Toy>) -> Self {
        let poll = epoll::create(CreateFlags::CLOEXEC).expect("a descriptor");
        let flags = EventFlags::IN | EventFlags::ET;
        epoll::add(&poll, attached, EventData::new_u64(0), flags).expect("is watched");
        Self(poll)
    }

    /// Whether it became readable within this time.
    fn wait(&self, at_most: Duration) -> bool {
        let mut buffer = [const { MaybeUninit::uninit() }; 1];
        let at_most = Timespec {
            tv_sec: i64::try_from(at_most.as_secs()).expect("seconds"),
            tv_nsec: at_most.subsec_nanos().into(),
        };
        let (events, _) = epoll::wait(&self.0, &mut buffer, Some(&at_most)).expect("waits");
        !events.is_empty()
    }
}

/// Turns the driver as a runtime does until something is there, or for so long.
fn turn_until<T>(
    attached: &mut Attached<Toy>,
    edges: &Edges,
    mut look: impl FnMut() -> Option<T>,
) -> T {
    let mut is_readable = false;
    loop {
        let turned = attached.turn(Waker::noop(), is_readable).expect("goes on");
        is_readable = false;
        if let Some(found) = look() {
            return found;
        }
        if let Turned::Waits(left) = turned {
            // A command wakes a real task; here it is looked for again.
            is_readable = edges.wait(left.unwrap_or(PATIENCE).min(Duration::from_millis(5)));
        }
    }
}

fn attached() -> (Attached<Toy>, Running<Command>, Receiver<()>) {
    let (gone, seen_gone) = channel();
    let driver = Toy::new(CELL, ServerId::new(9), Arc::new(SeenByToy::default()), gone);
    let options = LaunchOptions { workers: 0, ..LaunchOptions::new("by-hand") };
    let (attached, running) =
        attach(driver, Arc::new(ToyService::default()), options).expect("has descriptors");
    (attached, running, seen_gone)
}

fn ask(running: &Running<Command>, other: &Node) -> Receiver<CallOutcome> {
    ask_at(running, &other.address, other.server)
}

fn ask_at(running: &Running<Command>, to: &Address, server: ServerId) -> Receiver<CallOutcome> {
    ask_with(running, (to, server), Bytes::new())
}

fn ask_with(
    running: &Running<Command>,
    (to, server): (&Address, ServerId),
    payload: Bytes,
) -> Receiver<CallOutcome> {
    let (done, outcome) = channel();
    let command = Command::Call {
        to: to.clone(),
        server,
        request: Box::new(ChunkLength::default().into()),
        payload,
        timeout: PATIENCE,
        done,
    };
    running.sender().send(command).expect("is there");
    outcome
}

#[test]
fn a_call_is_answered_while_somebody_turns_it_and_a_command_wakes_whom_it_waits_for() {
    let other = Node::start(3);
    let (mut attached, running, _gone) = attached();
    let bell = Arc::new(Bell::default());
    let waker = Waker::from(Arc::clone(&bell));
    assert_eq!(attached.turn(&waker, false), Ok(Turned::Waits(None)));
    assert_eq!(bell.0.load(Ordering::SeqCst), 0);
    let edges = Edges::of(&attached);
    let outcome = ask(&running, &other);
    assert_eq!(bell.0.load(Ordering::SeqCst), 1, "woken for the command");
    let answer = turn_until(&mut attached, &edges, || outcome.try_recv().ok());
    assert!(matches!(answer.expect("an answer").response, Response::ChunkLength(_)));
    drop(running);
    assert_eq!(attached.turn(&waker, false), Ok(Turned::Stopped));
}

#[test]
fn an_end_that_comes_together_with_the_last_answer_is_noticed() {
    let listener = bind("127.0.0.1:0").expect("a free port");
    let address = Address::new(listener.local_addr().expect("is bound").to_string());
    let (asked, both_asked) = channel();
    let (go, may_go) = channel::<()>();
    let (ended, has_ended) = channel();
    let peer = std::thread::spawn(move || {
        let mut peer = welcome(&listener, 3);
        let (first, _) = read_frame(&mut peer);
        read_frame(&mut peer);
        asked.send(()).expect("is waited for");
        may_go.recv().expect("is told");
        answer_probe(&mut peer, first.request);
        drop(peer);
        ended.send(()).expect("is waited for");
    });
    let (mut attached, running, _gone) = attached();
    let edges = Edges::of(&attached);
    let [first, second] = [(); 2].map(|()| ask_at(&running, &address, ServerId::new(3)));
    turn_until(&mut attached, &edges, || both_asked.try_recv().ok());
    go.send(()).expect("is waited for");
    // Both are there before anybody looks.
    has_ended.recv().expect("ends");
    let begun = std::time::Instant::now();
    let answer = turn_until(&mut attached, &edges, || first.try_recv().ok());
    assert!(matches!(answer.expect("an answer").response, Response::ChunkLength(_)));
    let lost = turn_until(&mut attached, &edges, || second.try_recv().ok());
    assert!(lost.is_err_and(|failure| failure.message.contains("closed")));
    assert!(begun.elapsed() < PATIENCE, "noticed, not given up");
    peer.join().expect("ends well");
}

#[test]
fn who_is_told_to_watch_for_room_to_write_looks_whether_there_is_some_already() {
    let listener = bind("127.0.0.1:0").expect("a free port");
    let address = Address::new(listener.local_addr().expect("is bound").to_string());
    let server = ServerId::new(3);
    let peer = std::thread::spawn(move || {
        let mut peer = welcome(&listener, 3);
        let (first, _) = read_frame(&mut peer);
        answer_probe(&mut peer, first.request);
        // Open, and not read from.
        peer
    });
    let (mut attached, running, _gone) = attached();
    let edges = Edges::of(&attached);
    let first = ask_at(&running, &address, server);
    let answered = turn_until(&mut attached, &edges, || first.try_recv().ok());
    assert!(answered.is_ok());
    let more = Bytes::from(vec![7; PAYLOAD_SIZE_MAX as usize]);
    let asked: Vec<_> =
        (0..4).map(|_| ask_with(&running, (&address, server), more.clone())).collect();
    // What it writes is more than sockets hold: it has to be told when there is room.
    assert_eq!(attached.turn(Waker::noop(), false), Ok(Turned::Again));
    assert!(asked.iter().all(|outcome| outcome.try_recv().is_err()), "nothing is answered");
    drop(peer.join().expect("ends well"));
}

#[test]
fn whoever_waits_for_a_driver_that_is_dropped_learns_that_no_answer_comes() {
    let other = Node::start(3);
    let (attached, running, _gone) = attached();
    let outcome = ask(&running, &other);
    drop(attached);
    assert!(outcome.recv().is_err(), "the command is dropped with the driver");
    assert!(running.sender().send(Command::Wake(Duration::ZERO, channel().0)).is_err());
}

#[test]
fn an_alarm_tells_when_to_turn_again() {
    let (mut attached, running, _gone) = attached();
    let (done, woken) = channel();
    let span = Duration::from_millis(30);
    running.sender().send(Command::Wake(span, done)).expect("is there");
    let edges = Edges::of(&attached);
    let passed = loop {
        let turned = attached.turn(Waker::noop(), false).expect("goes on");
        if let Ok(passed) = woken.try_recv() {
            break passed;
        }
        if let Turned::Waits(left) = turned {
            let left = left.expect("an alarm is set");
            assert!(left <= span);
            edges.wait(left);
        }
    };
    assert!(passed >= span);
    let Turned::Waits(None) = attached.turn(Waker::noop(), false).expect("goes on") else {
        panic!("there is nothing to wait for");
    };
}
