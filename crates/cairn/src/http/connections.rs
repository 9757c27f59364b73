//! Connections of the HTTP door: bounded in number, in time and in memory.
//!
//! - HC1: at most [`CONNECTIONS_MAX`]; a newcomer takes the place of the oldest one that waits for
//!   its client, or of the oldest of all where all are being answered: whoever holds connections,
//!   or asks without end, keeps nobody else out.
//! - HC2: a connection ends that takes longer than [`HEADER_TIME_MAX`] to send a request's head,
//!   and any after [`CONNECTION_TIME_MAX`]: who reads slowly holds one answer for so long.
//! - HC3: a head has at most [`HEAD_SIZE_MAX`] bytes and [`HEADERS_MAX`] headers; no body is read.

use crate::http::routes::Routes;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Uri};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::cell::Cell;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::rc::Rc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, spawn_local};

/// Connections at once.
const CONNECTIONS_MAX: usize = 32;
/// How long a request's head may take to come, from the connection's start or the last answer on.
const HEADER_TIME_MAX: Duration = Duration::from_secs(5);
/// How long a connection may stand in all.
const CONNECTION_TIME_MAX: Duration = Duration::from_secs(60);
/// Bytes of a request's head.
const HEAD_SIZE_MAX: usize = 16 << 10;
/// Headers of a request.
const HEADERS_MAX: usize = 64;
/// How long to wait where the system has no descriptor for another connection.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);

/// An open connection, the oldest first.
struct OpenConnection {
    task: AbortHandle,
    /// Its request is being answered.
    is_busy: Rc<Cell<bool>>,
}

/// Takes connections in for as long as the process lives.
pub(crate) async fn serve(listener: TcpListener, routes: Rc<Routes>) {
    let mut open: VecDeque<OpenConnection> = VecDeque::new();
    loop {
        let Ok((socket, _)) = listener.accept().await else {
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        open.retain(|one| !one.task.is_finished());
        if open.len() >= CONNECTIONS_MAX {
            // HC1
            let victim = open.iter().position(|one| !one.is_busy.get()).unwrap_or(0);
            if let Some(gone) = open.remove(victim) {
                gone.task.abort();
            }
        }
        let is_busy = Rc::new(Cell::new(false));
        let connection = one(socket, Rc::clone(&routes), Rc::clone(&is_busy));
        // A client that breaks off is nobody's trouble but its own.
        let task = spawn_local(async {
            let _ = tokio::time::timeout(CONNECTION_TIME_MAX, connection).await;
        });
        open.push_back(OpenConnection { task: task.abort_handle(), is_busy });
    }
}

async fn one(
    socket: TcpStream,
    routes: Rc<Routes>,
    is_busy: Rc<Cell<bool>>,
) -> Result<(), hyper::Error> {
    let answer = |request: Request<Incoming>| {
        let (routes, is_busy) = (Rc::clone(&routes), Rc::clone(&is_busy));
        async move {
            is_busy.set(true);
            let uri: &Uri = request.uri();
            let query = uri.query().unwrap_or_default();
            let answer = routes.answer(request.method(), uri.path(), query).await;
            is_busy.set(false);
            Ok::<_, Infallible>(answer)
        }
    };
    let mut settings = http1::Builder::new();
    settings.timer(TokioTimer::new()).header_read_timeout(HEADER_TIME_MAX);
    settings.max_buf_size(HEAD_SIZE_MAX).max_headers(HEADERS_MAX);
    settings.serve_connection(TokioIo::new(socket), service_fn(answer)).await
}
