//! From a request to its answer.
//!
//! - RT1: GET and HEAD alone; nothing here changes anything.
//! - RT2: those who ask together are told the same metrics of the cell, which is asked at most
//!   twice a second, however many ask here.
//! - RT3: few ask the cell at once, and each for a bounded time; others wait, and are sent away.

use crate::http::api::{self, ROUTES, RunCommand, status_of};
use crate::http::metrics_text::MetricsText;
use crate::http::seen::{PartSeen, ServerSeen};
use crate::http::{cell_metrics, openapi, server_metrics};
use crate::session::Session;
use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderValue, X_CONTENT_TYPE_OPTIONS};
use hyper::{Method, Response, StatusCode};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};
use tokio::sync::{Mutex, Semaphore};

/// How long the metrics of the cell are told again before it is asked again.
const CELL_ASKED_EVERY: Duration = Duration::from_millis(500);
/// How long asking the cell for its metrics may take.
const CELL_METRICS_TIME_MAX: Duration = Duration::from_secs(3);
/// How long an answer of the API may take, with its turn.
const API_TIME_MAX: Duration = Duration::from_secs(8);
/// Commands that are run at once.
const COMMANDS_AT_ONCE: usize = 2;

/// An answer.
pub(crate) type HttpAnswer = Response<Full<Bytes>>;

/// The servers of this process; they may become others while it runs.
pub(crate) type SharedServers = Arc<RwLock<Vec<ServerSeen>>>;

/// What answers.
pub(crate) struct Routes {
    servers: SharedServers,
    /// A client of the cell, where this process has a master.
    session: Option<(Session, RunCommand)>,
    told: Mutex<Option<(Instant, String)>>,
    turns: Semaphore,
}

impl Routes {
    /// Routes to these servers, and to the cell that the session leads to.
    pub(crate) fn new(servers: SharedServers, session: Option<(Session, RunCommand)>) -> Self {
        let turns = Semaphore::new(COMMANDS_AT_ONCE);
        Self { servers, session, told: Mutex::default(), turns }
    }

    /// What is answered to a request for `path`.
    pub(crate) async fn answer(&self, method: &Method, path: &str, query: &str) -> HttpAnswer {
        if method != Method::GET && method != Method::HEAD {
            let mut answer = plain(StatusCode::METHOD_NOT_ALLOWED, "read only: GET and HEAD\n");
            answer.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
            return answer;
        }
        match path {
            "/" => {
                let page = openapi::page(&self.servers(), self.session.is_some());
                whole(StatusCode::OK, "text/html; charset=utf-8", page)
            }
            "/healthz" => plain(StatusCode::OK, "ok\n"),
            "/readyz" => self.readiness(),
            "/metrics" => self.metrics().await,
            "/api/v1/openapi.json" => {
                let document = openapi::document(self.session.is_some());
                whole(StatusCode::OK, "application/json", format!("{document:#}\n"))
            }
            _ => self.api(path, query).await,
        }
    }

    fn servers(&self) -> Vec<ServerSeen> {
        self.servers.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn readiness(&self) -> HttpAnswer {
        let (mut status, mut lines) = (StatusCode::OK, String::new());
        for server in self.servers() {
            let says = match server.is_ready() {
                Ok(says) => says.to_owned(),
                Err(why) => {
                    status = StatusCode::SERVICE_UNAVAILABLE;
                    format!("not ready: {why}")
                }
            };
            lines.push_str(&format!("{} at {}: {says}\n", server.role(), server.address));
        }
        if lines.is_empty() {
            return plain(StatusCode::SERVICE_UNAVAILABLE, "not ready: it has just started\n");
        }
        plain(status, lines)
    }

    async fn metrics(&self) -> HttpAnswer {
        let servers = self.servers();
        let mut text = MetricsText::default();
        server_metrics::write(&mut text, &servers);
        let in_charge = |server: &ServerSeen| match &server.part {
            PartSeen::Master(gauges) => gauges.told().standing.in_charge,
            PartSeen::Waiting | PartSeen::Chunkserver(_) => false,
        };
        let mut all = text.text();
        if let (Some((session, _)), true) = (&self.session, servers.iter().any(in_charge)) {
            all += &self.cell_metrics(session).await;
        }
        whole(StatusCode::OK, "text/plain; version=0.0.4; charset=utf-8", all)
    }

    /// RT2.
    async fn cell_metrics(&self, session: &Session) -> String {
        let mut told = self.told.lock().await;
        if let Some((at, text)) = &*told
            && at.elapsed() < CELL_ASKED_EVERY
        {
            return text.clone();
        }
        let mut text = MetricsText::default();
        let asked = cell_metrics::write(&mut text, session);
        let asked = tokio::time::timeout(CELL_METRICS_TIME_MAX, asked).await;
        let answers = matches!(asked, Ok(Ok(())));
        if !answers {
            // What was told of it before it fell silent is no word of the cell.
            text = MetricsText::default();
        }
        let help = "Whether the cell told its own metrics.";
        text.count("cairn_cell_answers", help, &[], answers.into());
        let shown = text.text();
        *told = Some((Instant::now(), shown.clone()));
        shown
    }

    async fn api(&self, path: &str, query: &str) -> HttpAnswer {
        let name = path.strip_prefix("/api/v1/").unwrap_or_default();
        let route = ROUTES.iter().find(|route| route.name == name);
        let (Some(route), Some((session, run))) = (route, &self.session) else {
            return plain(StatusCode::NOT_FOUND, "no such page; / lists those that there are\n");
        };
        let answered = async {
            let _turn = self.turns.acquire().await;
            api::answer(route, query, session, *run).await
        };
        match tokio::time::timeout(API_TIME_MAX, answered).await {
            Ok(Ok(json)) => whole(StatusCode::OK, "application/json", json),
            Ok(Err(error)) => {
                let json = format!("{}\n", error.to_json());
                whole(status_of(error.exit()), "application/json", json)
            }
            // RT3.
            Err(_) => {
                let seconds = API_TIME_MAX.as_secs();
                let why = format!("no answer within {seconds} s; ask again later\n");
                plain(StatusCode::SERVICE_UNAVAILABLE, why)
            }
        }
    }
}

fn plain(status: StatusCode, text: impl Into<String>) -> HttpAnswer {
    whole(status, "text/plain; charset=utf-8", text.into())
}

fn whole(status: StatusCode, kind: &'static str, body: impl Into<Bytes>) -> HttpAnswer {
    let mut answer = Response::new(Full::new(body.into()));
    *answer.status_mut() = status;
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    answer
}
