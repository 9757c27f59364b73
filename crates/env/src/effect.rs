//! What goes through the seam: events in, effects out.

use crate::{LogEvent, Payload};
use bytes::Bytes;
use cairn_protocol::{Failure, Hello, Request, RequestId, Response};
use cairn_types::{Address, ServerId, Time, WallTime};

/// Names an effect within its driver; the completion carries it back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EffectId(pub u64);

/// One accepted connection; never used again within a process's life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub u64);

/// Whom to answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Caller {
    /// The connection the request came by.
    pub connection: ConnectionId,
    /// Which request of it.
    pub request: RequestId,
}

/// Jobs of one lane run in order; different lanes run side by side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lane(pub u64);

/// The time at which an event is handled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Now {
    /// This machine's boot-time clock (R4).
    pub time: Time,
    /// For people to read.
    pub wall: WallTime,
}

/// What a driver wants done.
#[derive(Debug)]
pub enum Effect<J> {
    /// Ask another party; the connection is made, kept and shared by the world. Completes with
    /// [`Completion::Answered`].
    Call {
        /// Comes back with the answer.
        id: EffectId,
        /// Where to.
        to: Address,
        /// The server meant; zero where any will do (R5).
        server: ServerId,
        /// The question.
        request: Request,
        /// Bulk bytes that go with it.
        payload: Bytes,
        /// When to give up.
        deadline: Time,
    },
    /// Answer a request. Dropped in silence when its connection is gone.
    Reply {
        /// Whom.
        to: Caller,
        /// With what.
        answer: Result<Response, Failure>,
        /// Bulk bytes that go with it.
        payload: Payload,
    },
    /// Complete with [`Completion::Woken`] at `at`, or soon after.
    Wake {
        /// Comes back.
        id: EffectId,
        /// When.
        at: Time,
    },
    /// Run a job of the driver's [`Service`](crate::Service); completes with [`Completion::Disk`].
    Disk {
        /// Comes back with the result.
        id: EffectId,
        /// Its queue.
        lane: Lane,
        /// What to do.
        job: J,
    },
    /// From now on, say this in handshakes.
    Identify(Hello),
    /// Tell the person who runs the process; nothing comes back.
    Log(LogEvent),
    /// The process must stop (a failed fsync, a broken invariant of the disk); the reason is for
    /// a person.
    Halt(String),
}

/// A successful answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The message.
    pub response: Response,
    /// Bulk bytes that came with it; not yet verified.
    pub payload: Bytes,
}

/// What came of an effect.
#[derive(Debug)]
pub enum Completion<R> {
    /// Of a call. Failures made by the world are `Unreachable` (not done: nothing was sent),
    /// `DeadlineExceeded` and a lost connection's `Unreachable` (both unknown).
    Answered(Result<Answer, Failure>),
    /// Of a disk job: the [`Service`](crate::Service)'s `JobResult`.
    Disk(R),
    /// Of a wake.
    Woken,
}

/// What a driver is told.
#[derive(Debug)]
pub enum Event<C, R> {
    /// The first event of a process's life.
    Started,
    /// A request of another party. A `Push` is never seen here: the world serves it (E5).
    Request {
        /// Whom to answer.
        from: Caller,
        /// The question.
        request: Request,
    },
    /// Who dialled says who it is; before its first request. Who says nothing is not told of.
    Identified {
        /// The connection that its requests will come by.
        connection: ConnectionId,
        /// As it says it ([`Hello::credentials`]).
        credentials: Bytes,
    },
    /// A connection on which requests came is gone.
    Disconnected {
        /// Which.
        connection: ConnectionId,
    },
    /// An effect is done.
    Completed {
        /// Which.
        id: EffectId,
        /// What came of it.
        result: Completion<R>,
    },
    /// From the program around the driver (a client's operations).
    Command(C),
}
