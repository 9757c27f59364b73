//! Starting and stopping a driver in the real world.

use crate::attached::Attached;
use crate::clock::Wall;
use crate::ids::EpollToken;
use crate::lanes::Lanes;
use crate::limits::LaunchLimits;
use crate::log_sink::LogSink;
use crate::mailbox::{Mailbox, Waker};
use crate::network::OsNetwork;
use crate::poller::Poller;
use crate::process_meter::ProcessMeter;
use crate::reactor::Reactor;
use crate::rpc_log_options::RpcLogOptions;
use crate::rpc_log_writer::RpcLogWriter;
use crate::rpc_tap::RpcTap;
use crate::socket_options::UNTAKEN_TIME_MAX;
use cairn_env::{Driver, Lane, Service};
use rustix::event::epoll::EventFlags;
use std::net::TcpListener;
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

/// An address cannot be listened on.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address}: {error}; choose another address, or stop what listens there")]
pub struct BindError {
    address: String,
    error: std::io::Error,
}

/// A driver cannot be started.
#[derive(Debug, thiserror::Error)]
#[error("cannot start {name}: {error}; the system may be short of threads or file descriptors")]
pub struct LaunchError {
    name: String,
    error: std::io::Error,
}

/// Why a driver stopped by itself; for a person.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct HaltReason(pub String);

/// The driver no longer runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it no longer runs")]
pub struct Stopped;

/// Listens on `host:port`; port 0 takes any that is free.
///
/// # Errors
/// [`BindError`], one line that names the address.
pub fn bind(address: &str) -> Result<TcpListener, BindError> {
    TcpListener::bind(address).map_err(|error| BindError { address: address.to_owned(), error })
}

/// How to run a driver.
#[derive(Debug)]
pub struct LaunchOptions {
    /// Where requests come in; none for a client.
    pub listener: Option<TcpListener>,
    /// For people: the names of its threads start with it.
    pub name: String,
    /// Threads for disk jobs; at least one is started, but for an attached driver.
    pub workers: usize,
    /// A lane whose jobs may take long and can wait: they run on one more thread, at a lower
    /// priority than everything else.
    pub background: Option<Lane>,
    /// What its peers may make it hold.
    pub limits: LaunchLimits,
    /// A connection that it opened is lost where the other machine takes no byte for so long.
    pub untaken_max: Duration,
    /// Where the loop notes what its peers make it hold.
    pub meter: Arc<ProcessMeter>,
    /// Who writes down what the driver and its world log; nobody, if nothing is said here.
    pub log: LogSink,
    /// Where requests and replies are written down (GFS §5.3); nowhere, if nothing is said here.
    pub rpc_log: Option<RpcLogOptions>,
}

impl LaunchOptions {
    /// A driver that takes no requests, with one worker.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            listener: None,
            name: name.into(),
            workers: 1,
            background: None,
            limits: LaunchLimits::default(),
            untaken_max: UNTAKEN_TIME_MAX,
            meter: Arc::default(),
            log: LogSink::default(),
            rpc_log: None,
        }
    }
}

/// Hands commands to a running driver, from any thread.
#[derive(Debug)]
pub struct Sender<C> {
    commands: Arc<Mailbox<C>>,
}

impl<C> Clone for Sender<C> {
    fn clone(&self) -> Self {
        Self { commands: Arc::clone(&self.commands) }
    }
}

impl<C> Sender<C> {
    /// Hands over a command, and wakes the loop where it sleeps.
    ///
    /// # Errors
    /// [`Stopped`]: the command is dropped. One that was taken may be dropped too, where the driver
    /// stops before it comes to it.
    pub fn send(&self, command: C) -> Result<(), Stopped> {
        if self.commands.put([command]) { Ok(()) } else { Err(Stopped) }
    }

    /// The same, for a command that nobody waits for: the loop comes to it at its next turn, and
    /// is woken only where many have come together.
    ///
    /// # Errors
    /// As for [`send`](Self::send).
    pub fn send_later(&self, command: C) -> Result<(), Stopped> {
        if self.commands.leave(command) { Ok(()) } else { Err(Stopped) }
    }
}

/// A driver at work. Dropping it stops the driver without waiting for it.
#[derive(Debug)]
pub struct Running<C> {
    thread: Option<JoinHandle<Result<(), HaltReason>>>,
    commands: Arc<Mailbox<C>>,
    stops: Arc<Mailbox<()>>,
}

impl<C> Running<C> {
    /// A way to hand it commands.
    #[must_use]
    pub fn sender(&self) -> Sender<C> {
        Sender { commands: Arc::clone(&self.commands) }
    }

    /// Stops it: connections are closed, workers finish the batch at hand. An attached driver is
    /// told to, and not waited for.
    ///
    /// # Errors
    /// It had halted by itself.
    pub fn stop(self) -> Result<(), HaltReason> {
        self.stops.put([()]);
        self.wait()
    }

    /// Waits until it stops; not for an attached driver.
    ///
    /// # Errors
    /// It halted by itself.
    pub fn wait(mut self) -> Result<(), HaltReason> {
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(result)) => result,
            Some(Err(_)) => Err(HaltReason("its thread has panicked".to_owned())),
            None => Ok(()),
        }
    }
}

impl<C> Drop for Running<C> {
    fn drop(&mut self) {
        self.stops.put([()]);
    }
}

/// Starts a driver: its loop, its workers, its listener once it has said who it is
/// ([`Effect::Identify`](cairn_env::Effect::Identify)).
///
/// # Errors
/// [`LaunchError`]: nothing runs.
pub fn launch<R>(
    driver: R,
    service: Arc<R::Service>,
    options: LaunchOptions,
) -> Result<Running<R::Command>, LaunchError>
where
    R: Driver + Send + 'static,
    R::Command: Send,
{
    let name = options.name.clone();
    start(driver, service, options).map_err(|error| LaunchError { name, error })
}

/// A driver without a thread: whoever holds the [`Attached`] turns it. Dropping the [`Running`]
/// stops it.
///
/// # Errors
/// [`LaunchError`]: nothing is there.
pub fn attach<R: Driver>(
    driver: R,
    service: Arc<R::Service>,
    options: LaunchOptions,
) -> Result<(Attached<R>, Running<R::Command>), LaunchError> {
    let name = options.name.clone();
    let built = build(driver, service, options).map_err(|error| LaunchError { name, error });
    built.map(|(reactor, running)| (Attached::new(reactor), running))
}

fn start<R>(
    driver: R,
    service: Arc<R::Service>,
    mut options: LaunchOptions,
) -> std::io::Result<Running<R::Command>>
where
    R: Driver + Send + 'static,
    R::Command: Send,
{
    options.workers = options.workers.max(1);
    let name = options.name.clone();
    let (reactor, mut running) = build(driver, service, options)?;
    running.thread = Some(Builder::new().name(name).spawn(move || reactor.run())?);
    Ok(running)
}

fn build<R: Driver>(
    driver: R,
    service: Arc<R::Service>,
    options: LaunchOptions,
) -> std::io::Result<(Reactor<R>, Running<R::Command>)> {
    let waker = Arc::new(Waker::new()?);
    let poller = Poller::new()?;
    poller.add(&*waker, EpollToken::Waker, EventFlags::IN)?;
    if let Some(listener) = &options.listener {
        listener.set_nonblocking(true)?;
    }
    let commands = Arc::new(Mailbox::new(Arc::clone(&waker)));
    let results = Arc::new(Mailbox::new(Arc::clone(&waker)));
    let stops = Arc::new(Mailbox::new(Arc::clone(&waker)));
    let keeper = Arc::clone(&service);
    let keep = Box::new(move |push, data| keeper.keep(push, data));
    let tap = open_tap(&options)?;
    let peers = (options.limits, options.untaken_max, options.meter);
    let network = OsNetwork::new((poller, tap), options.listener, peers, keep);
    let LaunchOptions { workers, background, .. } = options;
    let lanes = Lanes::start(service, &options.name, workers, background, Arc::clone(&results))?;
    let reactor = Reactor {
        driver,
        network,
        lanes,
        waker,
        commands: Arc::clone(&commands),
        results,
        stops: Arc::clone(&stops),
        log: options.log,
        wall: Wall::look(),
        polled: Vec::new(),
    };
    Ok((reactor, Running { thread: None, commands, stops }))
}

/// The diagnostic log of a driver, where it is to have one. What names this life of it is the time
/// of its start, which orders the lives for people.
fn open_tap(options: &LaunchOptions) -> std::io::Result<RpcTap> {
    let Some(rpc_log) = options.rpc_log.clone() else { return Ok(RpcTap::default()) };
    let run = crate::clock::wall_time_us();
    let writer = RpcLogWriter::start(&options.name, rpc_log, run, options.log.clone())?;
    Ok(RpcTap::new(writer, run))
}
