//! The HTTP door of a server: metrics, health, and what the commands tell as JSON; read only.
//!
//! ```text
//!   hyper (connections) ─► routes ─┬─► server_metrics ─► gauges of this process's servers
//!    bounded, one thread           ├─► cell_metrics ───┐
//!                                  └─► api ─► commands ┴─► a client of its own cell, by loopback
//! ```
//! - HD1: it has a thread and a runtime of its own, of lower priority; the loops that serve files
//!   know nothing of it, and what it asks of the master it asks as any client does.
//! - HD2: where the address is not chosen and the usual one is taken, it takes any that is free;
//!   one that was chosen and is taken keeps the server from starting.

pub(crate) mod api;
mod cell_metrics;
mod connections;
mod metrics_text;
mod openapi;
mod routes;
mod seen;
mod server_metrics;

pub(crate) use api::RunCommand;
pub(crate) use seen::{PartSeen, ServerSeen};

use crate::cell_address::check_listen;
use crate::cli_error::{Cause, CliError, Doing, keep_quiet_here};
use crate::runtime;
use crate::session::{ClientFlags, Session};
use crate::settings::SettingsFile;
use cairn_client::ShadowReads;
use cairn_env::LogEvent;
use cairn_env_os::LogSink;
use cairn_types::Identity;
use clap::Args;
use connections::serve;
use routes::{Routes, SharedServers};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::rc::Rc;
use std::sync::PoisonError;

/// What switches the door off.
const NONE: &str = "none";
/// The door's port lies so far above the one that the server listens on.
const PORT_DISTANCE: u16 = 1000;
/// How much less urgent its work is than that of servers.
const NICENESS: i32 = 5;
/// Seconds that its questions to the cell may take.
const DEADLINE_S: u64 = 6;

/// Arguments of every server.
#[derive(Args, Clone, Debug)]
pub(crate) struct HttpArguments {
    /// Where metrics and JSON are told over HTTP, or none [default: on loopback, 1000 above the
    /// port that it listens on]
    #[arg(long, env = "CAIRN_HTTP", value_name = "ADDRESS")]
    http: Option<String>,
}

impl HttpArguments {
    /// Flags and environment before the settings file.
    pub(crate) fn choice(&self, file: Option<&String>) -> Option<String> {
        self.http.clone().or_else(|| file.cloned())
    }
}

/// A door that is bound, and not open yet.
#[derive(Debug)]
pub(crate) struct HttpListener {
    listener: Option<TcpListener>,
}

impl HttpListener {
    /// Binds where it was chosen, or beside the address that the server is to listen on (HD2).
    ///
    /// # Errors
    /// The chosen address is none, or taken.
    pub(crate) fn bind(choice: Option<&str>, listen: &str) -> Result<Self, CliError> {
        let listener = match choice {
            Some(NONE) => None,
            Some(chosen) => {
                let doing = || format!("opening the HTTP port on {chosen}");
                check_listen(chosen).doing(doing)?;
                Some(cairn_env_os::bind(chosen).doing(doing)?)
            }
            None => {
                let free = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
                let usual = usual_port(listen).map(|port| (Ipv4Addr::LOCALHOST, port));
                // On a machine without loopback there is none.
                usual
                    .and_then(|usual| TcpListener::bind(usual).ok())
                    .or_else(|| TcpListener::bind(free).ok())
            }
        };
        Ok(Self { listener })
    }
}

/// The port that the door has where nobody says otherwise; none for a server on any port.
fn usual_port(listen: &str) -> Option<u16> {
    let port: u16 = listen.rsplit_once(':')?.1.parse().ok()?;
    if port == 0 { None } else { port.checked_add(PORT_DISTANCE) }
}

/// How this process reaches its own master.
fn own_address(listens: &str) -> String {
    match listens.parse::<SocketAddr>() {
        Ok(at) if at.ip().is_unspecified() => {
            let loopback = match at.ip() {
                IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::LOCALHOST),
                IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::LOCALHOST),
            };
            SocketAddr::new(loopback, at.port()).to_string()
        }
        _ => listens.to_owned(),
    }
}

/// An open door, or one that is switched off.
#[derive(Debug)]
pub(crate) struct HttpDoor {
    servers: SharedServers,
    /// Where it is, if it is.
    pub(crate) address: Option<String>,
}

impl HttpDoor {
    /// Opens it in a thread of its own, for these servers of this process. `master` is where this
    /// process's master listens, if it has one, and what runs commands: the cell is asked there.
    ///
    /// # Errors
    /// This machine has no thread for it.
    pub(crate) fn open(
        bound: HttpListener,
        servers: Vec<ServerSeen>,
        master: Option<(&str, RunCommand)>,
        log: &LogSink,
    ) -> Result<Self, CliError> {
        let servers = SharedServers::new(servers.into());
        let doing = || "opening the HTTP port".to_owned();
        let Some(listener) = bound.listener else { return Ok(Self { servers, address: None }) };
        let at = listener.local_addr().doing(doing)?;
        cairn_env_os::tell_http(at);
        let address = at.to_string();
        listener.set_nonblocking(true).doing(doing)?;
        let cell = master.map(|(at, run)| (own_address(at), run));
        let shown = SharedServers::clone(&servers);
        let run = move || {
            // One that cannot open tells so by answering nobody; servers go on without it.
            let _ = run(listener, cell, shown);
        };
        std::thread::Builder::new().name("http".to_owned()).spawn(run).doing(doing)?;
        let event = LogEvent::info("http").with("address", &address);
        log.put(cairn_env_os::clock::wall_time(), &event);
        Ok(Self { servers, address: Some(address) })
    }

    /// These are the servers of this process from now on.
    pub(crate) fn show(&self, servers: Vec<ServerSeen>) {
        *self.servers.write().unwrap_or_else(PoisonError::into_inner) = servers;
    }
}

fn run(
    listener: TcpListener,
    cell: Option<(String, RunCommand)>,
    servers: SharedServers,
) -> Result<(), Cause> {
    keep_quiet_here();
    // It works as well at full priority, where the system refuses.
    let _ = rustix::process::nice(NICENESS);
    let session = cell.map(|(cell, run)| {
        let flags = ClientFlags {
            usual_deadline: None,
            cell: Some(cell),
            deadline: Some(DEADLINE_S),
            shadow_reads: ShadowReads::WhenNoPrimary,
            // Nobody knows who comes: he sees what all may see.
            identity: Some(Identity::nobody()),
        };
        Session::new(flags, &SettingsFile::default()).map(|session| (session, run))
    });
    let session = session.transpose();
    let session = session.map_err(|error| Cause::new(error.exit(), error.to_string(), ""))?;
    let routes = Rc::new(Routes::new(servers, session));
    let runtime = runtime::one_thread()?;
    runtime.block_on(tokio::task::LocalSet::new().run_until(async {
        let listener = tokio::net::TcpListener::from_std(listener)?;
        serve(listener, routes).await;
        Ok(())
    }))
}

#[cfg(test)]
mod tests {
    use super::{HttpListener, own_address, usual_port};

    #[test]
    fn the_usual_port_lies_beside_the_servers_and_a_taken_one_is_no_trouble() {
        assert_eq!(usual_port("0.0.0.0:7400"), Some(8400));
        assert_eq!((usual_port("127.0.0.1:0"), usual_port("[::1]:65000")), (None, None));
        let bound = |choice: Option<&str>, listen: &str| {
            HttpListener::bind(choice, listen).map(|it| it.listener)
        };
        let first = bound(None, "127.0.0.1:0").expect("binds").expect("is open");
        let taken = first.local_addr().expect("is bound").port();
        let beside = format!("127.0.0.1:{}", taken.saturating_sub(1000));
        let other = bound(None, &beside).expect("binds").expect("is open");
        assert_ne!(other.local_addr().expect("is bound").port(), taken);
        let refusal = bound(Some(&format!("127.0.0.1:{taken}")), "x:1").expect_err("is taken");
        assert!(refusal.to_string().contains("opening the HTTP port"), "{refusal}");
        assert!(bound(Some("none"), "x:1").expect("is off").is_none());
    }

    #[test]
    fn a_master_that_listens_everywhere_is_asked_on_this_machine() {
        assert_eq!(own_address("0.0.0.0:7400"), "127.0.0.1:7400");
        assert_eq!(own_address("[::]:7400"), "[::1]:7400");
        assert_eq!(own_address("10.0.0.1:7400"), "10.0.0.1:7400");
    }
}
