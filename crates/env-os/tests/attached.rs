//! A room without a thread: turned by hand, as a task of a runtime turns it.

mod toy;

use bytes::Bytes;
use cairn_env_os::{Attached, LaunchOptions, Running, Turned, attach};
use cairn_protocol::{Probe, Response};
use cairn_types::ServerId;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::task::{Wake, Waker};
use std::time::Duration;
use toy::{CELL, Command, Node, Outcome, PATIENCE, Seen, Toy, ToyService};

/// Counts how often it is woken.
#[derive(Default)]
struct Bell(AtomicUsize);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

fn attached() -> (Attached<Toy>, Running<Command>, Receiver<()>) {
    let (gone, seen_gone) = channel();
    let room = Toy::new(CELL, ServerId::new(9), Arc::new(Seen::default()), gone);
    let options = LaunchOptions { workers: 0, ..LaunchOptions::new("by-hand") };
    let (attached, running) =
        attach(room, Arc::new(ToyService::default()), options).expect("has descriptors");
    (attached, running, seen_gone)
}

fn ask(running: &Running<Command>, other: &Node) -> Receiver<Outcome> {
    let (done, outcome) = channel();
    let command = Command::Call {
        to: other.address.clone(),
        server: other.server,
        request: Box::new(Probe::default().into()),
        payload: Bytes::new(),
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
    assert_eq!(attached.turn(&waker), Ok(Turned::Waits(None)));
    assert_eq!(bell.0.load(Ordering::SeqCst), 0);
    let outcome = ask(&running, &other);
    assert_eq!(bell.0.load(Ordering::SeqCst), 1, "woken for the command");
    let answer = loop {
        let turned = attached.turn(&waker).expect("goes on");
        if turned == Turned::Again {
            continue;
        }
        if let Ok(answer) = outcome.try_recv() {
            break answer;
        }
        // As a runtime waits: until the descriptor is readable.
        let mut ready = [rustix::event::PollFd::new(&attached, rustix::event::PollFlags::IN)];
        rustix::event::poll(&mut ready, None).expect("polls");
    };
    assert!(matches!(answer.expect("an answer").response, Response::Probe(_)));
    drop(running);
    assert_eq!(attached.turn(&waker), Ok(Turned::Stopped));
}

#[test]
fn whoever_waits_for_a_room_that_is_dropped_learns_that_no_answer_comes() {
    let other = Node::start(3);
    let (attached, running, _gone) = attached();
    let outcome = ask(&running, &other);
    drop(attached);
    assert!(outcome.recv().is_err(), "the command is dropped with the room");
    assert!(running.sender().send(Command::Wake(Duration::ZERO, channel().0)).is_err());
}

#[test]
fn an_alarm_tells_when_to_turn_again() {
    let (mut attached, running, _gone) = attached();
    let (done, woken) = channel();
    let span = Duration::from_millis(30);
    running.sender().send(Command::Wake(span, done)).expect("is there");
    loop {
        let left = match attached.turn(Waker::noop()).expect("goes on") {
            Turned::Again => continue,
            Turned::Waits(Some(left)) => left,
            other => break assert_eq!(other, Turned::Waits(None)),
        };
        assert!(left <= span);
        // As a runtime waits: until then, or until the descriptor is readable.
        let mut ready = [rustix::event::PollFd::new(&attached, rustix::event::PollFlags::IN)];
        let left = rustix::time::Timespec { tv_sec: 0, tv_nsec: left.subsec_nanos().into() };
        rustix::event::poll(&mut ready, Some(&left)).expect("polls");
    }
    assert!(woken.try_recv().expect("it has been told") >= span);
}
