//! `cairn rpclog show`: requests, replies and events, a line each.
//!
//! ```text
//!   time                        server      way  rpc     connection  sizes        about
//!   …T10:04:05.678901Z master 1  <asked  Stat  4#17  client 10.0.0.5:40112  41 B  path=/a
//!   …T10:04:05.679120Z master 1  >told   Stat  4#17  client 10.0.0.5:40112  96 B  219 us  ok
//! ```
//! - SH1: `<` came in, `>` went out. A reply is shown with what its request was about.

use super::live::Live;
use super::opening::{micros_text, open, reading, time_text, warn_of_gaps};
use crate::cli_error::{CliError, Doing};
use crate::output::Output;
use crate::session::Session;
use cairn_rpclog::{
    LoggedEntry, Merged, Nouns, ROLE_CLIENT, RpcEntry, RpcWay, What, number_of, role_name,
};
use cairn_types::ChunkHandle;
use clap::Args;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::PathBuf;

/// Requests whose replies are still to come that are remembered.
const OPEN_COUNT_MAX: usize = 1 << 20;

/// Arguments of `rpclog show`.
#[derive(Args, Debug)]
pub(super) struct ShowArguments {
    /// From then on: 30s, 5m, 2h or 1d ago, or a time such as 2026-11-25T10:04
    #[arg(long, value_name = "TIME", value_parser = since)]
    since: Option<Since>,
    /// Only this rpc, such as Read or Lease; several by several --rpc
    #[arg(long, value_name = "NAME", value_parser = rpc_number)]
    rpc: Vec<u16>,
    /// Only what went from or to there: a server's id, an address or its beginning, or a role
    #[arg(long, value_name = "WHO", value_parser = peer)]
    peer: Option<String>,
    /// Only what is about this chunk
    #[arg(long, value_name = "HANDLE", value_parser = handle)]
    handle: Option<ChunkHandle>,
    /// With each message as it travelled
    #[arg(long)]
    messages: bool,
    /// What the server there has in memory, instead of files
    #[arg(long, value_name = "ADDRESS", conflicts_with = "paths")]
    live: Option<String>,
    /// With --live: go on with what comes
    #[arg(short, long, requires = "live")]
    follow: bool,
    /// Data directories of servers, directories of many, or files
    #[arg(value_name = "DIR", required_unless_present = "live")]
    paths: Vec<PathBuf>,
}

/// From when on.
#[derive(Clone, Debug)]
enum Since {
    /// Microseconds since 1970.
    At(u64),
    /// The beginning of a time as it is shown.
    Text(String),
}

fn since(text: &str) -> Result<Since, String> {
    let wrong = || "write it as 30s, 5m, 2h, 1d or 2026-11-25T10:04".to_owned();
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let unit_s = match &text[digits.len()..] {
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        "d" => 86_400,
        _ => {
            let is_date = text.len() >= 4 && text.as_bytes()[..4].iter().all(u8::is_ascii_digit);
            let known = |letter: char| letter.is_ascii_digit() || "-:.TZ".contains(letter);
            let is_time = is_date && text.contains('-') && text.chars().all(known);
            let begin = text.trim_end_matches('Z').to_owned();
            return if is_time { Ok(Since::Text(begin)) } else { Err(wrong()) };
        }
    };
    let count: u64 = digits.parse().map_err(|_| wrong())?;
    let ago_us = count.saturating_mul(unit_s).saturating_mul(1_000_000);
    let now_us = cairn_env_os::clock::wall_time().as_millis().saturating_mul(1000);
    Ok(Since::At(now_us.saturating_sub(ago_us)))
}

fn rpc_number(name: &str) -> Result<u16, String> {
    number_of(name)
        .ok_or_else(|| "no rpc has this name; docs/formats/wire.md lists them".to_owned())
}

/// Who can be on the other side: a role, an id, or an address of numbers as logs have it.
fn peer(text: &str) -> Result<String, String> {
    let is_role = (0..=u8::MAX).any(|role| role_name(role) == text);
    let is_kept = |letter: char| letter.is_ascii_hexdigit() || ".:[]%".contains(letter);
    let begins = text.starts_with(|first: char| first.is_ascii_digit() || first == '[');
    match is_role || (begins && text.chars().all(is_kept)) {
        true => Ok(text.to_owned()),
        false => Err("write client, chunkserver or master, a server's id, or an address in \
                      numbers or its beginning, such as 10.0.0.5:"
            .to_owned()),
    }
}

fn handle(text: &str) -> Result<ChunkHandle, String> {
    ChunkHandle::parse(text).ok_or_else(|| "not a chunk's handle, such as 3-1f".to_owned())
}

/// Runs it.
pub(super) async fn run(
    arguments: ShowArguments,
    session: &Session,
    output: &Output,
) -> Result<(), CliError> {
    // What `--live` cannot stand beside, clap does not ask to have it beside.
    if arguments.follow && arguments.live.is_none() {
        let (why, advice) = ("files are shown to their end", "--live ADDRESS --follow goes on");
        return Err(CliError::usage("reading the command line", why, advice));
    }
    let mut shown = Shown { arguments, open: BTreeMap::new() };
    if let Some(address) = shown.arguments.live.clone() {
        let mut live = Live::of(&address, session)?;
        loop {
            for entry in live.take().await? {
                shown.entry(&entry, output)?;
            }
            output.flush()?;
            if !shown.arguments.follow {
                return Ok(());
            }
            live.rest().await;
        }
    }
    let mut entries = Merged::new(open(&shown.arguments.paths)?).doing(reading)?;
    let mut dropped = 0;
    while let Some(entry) = entries.next_entry().doing(reading)? {
        if let What::Dropped(count) = entry.what {
            dropped += count;
        }
        shown.entry(&entry, output)?;
    }
    output.flush()?;
    warn_of_gaps(dropped, entries.damaged());
    Ok(())
}

/// What is shown, and what the requests were about whose replies are to come.
struct Shown {
    arguments: ShowArguments,
    /// By life, connection and number on it.
    open: BTreeMap<(usize, u64, u64), Nouns>,
}

impl Shown {
    fn entry(&mut self, entry: &LoggedEntry, output: &Output) -> Result<(), CliError> {
        let What::Rpc(rpc) = &entry.what else {
            let is_asked = self.arguments.rpc.is_empty()
                && self.arguments.peer.is_none()
                && self.arguments.handle.is_none();
            return match is_asked && self.is_late(entry) {
                true => tell(entry, None, false, output),
                false => Ok(()),
            };
        };
        let nouns = self.nouns_of(entry, rpc);
        if !self.is_late(entry) || !self.is_wanted(rpc, &nouns) {
            return Ok(());
        }
        tell(entry, Some((rpc, &nouns)), self.arguments.messages, output)
    }

    /// What it is about: of a reply, what its request was about (SH1).
    fn nouns_of(&mut self, entry: &LoggedEntry, rpc: &RpcEntry) -> Nouns {
        let key = (entry.life, rpc.link, rpc.request);
        if rpc.way.is_reply() {
            return self.open.remove(&key).unwrap_or_default();
        }
        let nouns = rpc.asked().map(Nouns::of).unwrap_or_default();
        if self.open.len() >= OPEN_COUNT_MAX {
            self.open.pop_first();
        }
        self.open.insert(key, nouns.clone());
        nouns
    }

    fn is_late(&self, entry: &LoggedEntry) -> bool {
        match &self.arguments.since {
            None => true,
            Some(Since::At(at)) => entry.at_us >= *at,
            Some(Since::Text(text)) => time_text(entry.at_us).as_str() >= text.as_str(),
        }
    }

    fn is_wanted(&self, rpc: &RpcEntry, nouns: &Nouns) -> bool {
        let ShowArguments { rpc: rpcs, peer, handle, .. } = &self.arguments;
        let is_peer = |peer: &String| {
            rpc.other.as_ref().is_some_and(|other| {
                other.peer.starts_with(peer.as_str())
                    || other.server.to_string() == *peer
                    || role_name(other.role) == peer
            })
        };
        (rpcs.is_empty() || rpcs.contains(&rpc.rpc))
            && peer.as_ref().is_none_or(is_peer)
            && handle.is_none_or(|handle| nouns.has_chunk(handle))
    }
}

fn tell(
    entry: &LoggedEntry,
    rpc: Option<(&RpcEntry, &Nouns)>,
    messages: bool,
    output: &Output,
) -> Result<(), CliError> {
    if output.json() {
        return output.value(&row(entry, rpc, messages));
    }
    let who = format!("{} {}", role_name(entry.writer.role), entry.writer.server);
    let said = match (&entry.what, rpc) {
        (What::Rpc(_), Some((rpc, nouns))) => rpc_text(rpc, nouns, messages),
        (What::Event { text, .. }, _) => format!("event  {text}"),
        (What::Dropped(count), _) => format!("{count} entries are missing here"),
        (What::Rpc(_), None) => String::new(),
    };
    output.line(&output.name(&format!("{} {who}  {said}", time_text(entry.at_us))))
}

fn way_text(way: RpcWay) -> &'static str {
    match way {
        RpcWay::RequestReceived => "<asked",
        RpcWay::ReplySent => ">told ",
        RpcWay::RequestSent => ">asks ",
        RpcWay::ReplyReceived => "<heard",
    }
}

fn rpc_text(rpc: &RpcEntry, nouns: &Nouns, messages: bool) -> String {
    let mut text = format!("{} {} {}#{}", way_text(rpc.way), rpc.name(), rpc.link, rpc.request);
    let mut put = |piece: String| {
        text.push_str("  ");
        text.push_str(&piece);
    };
    if let Some(other) = &rpc.other {
        let who = role_name(other.role);
        put(match other.role {
            ROLE_CLIENT => format!("{who} {}", other.peer),
            _ => format!("{who} {} {}", other.server, other.peer),
        });
    }
    put(match rpc.payload_size {
        0 => format!("{} B", rpc.message_size),
        payload => format!("{} + {payload} B", rpc.message_size),
    });
    if rpc.way.is_reply() {
        put(micros_text(rpc.duration_us));
        put(match rpc.failure() {
            Some(failure) => format!("{:?} ({})", failure.code, failure.message),
            None if rpc.is_failure => "failed".to_owned(),
            None => "ok".to_owned(),
        });
    }
    let about = nouns_text(nouns);
    if !about.is_empty() {
        put(about);
    }
    if messages {
        put(message_text(rpc));
    }
    text
}

fn nouns_text(nouns: &Nouns) -> String {
    let mut text = String::new();
    let mut put = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            let space = if text.is_empty() { "" } else { " " };
            let _ = write!(text, "{space}{name}={value}");
        }
    };
    put("path", nouns.path.clone());
    put("to", nouns.to.clone());
    put("file", nouns.file.map(|it| it.to_string()));
    put("chunk", nouns.handle.map(ChunkHandle::short));
    put("copy", nouns.copy.map(ChunkHandle::short));
    put("version", nouns.version.map(|it| it.to_string()));
    put("offset", nouns.offset.map(|it| it.to_string()));
    put("length", nouns.length.map(|it| it.to_string()));
    put("serial", nouns.serial.map(|it| it.to_string()));
    put("name", nouns.name.map(|(session, number)| format!("{session:032x}/{number}")));
    put("entries", nouns.entries.map(|it| it.to_string()));
    text
}

fn message_text(rpc: &RpcEntry) -> String {
    if rpc.message.is_none() {
        return "(too long to be kept)".to_owned();
    }
    let asked = rpc.asked().map(|it| format!("{it:?}"));
    let told = asked.or_else(|| rpc.answered().map(|it| format!("{it:?}")));
    let told = told.or_else(|| rpc.failure().map(|it| format!("{it:?}")));
    told.unwrap_or_else(|| "(of a build that this one does not know)".to_owned())
}

fn row(entry: &LoggedEntry, rpc: Option<(&RpcEntry, &Nouns)>, messages: bool) -> Value {
    let mut row = json!({
        "time": time_text(entry.at_us),
        "time_us": entry.at_us,
        "server": entry.writer.server.to_string(),
        "role": role_name(entry.writer.role),
    });
    let told = match (&entry.what, rpc) {
        (What::Rpc(_), Some((rpc, nouns))) => rpc_row(rpc, nouns, messages),
        (What::Event { text, .. }, _) => json!({ "event": text }),
        (What::Dropped(count), _) => json!({ "dropped": count }),
        (What::Rpc(_), None) => Value::Null,
    };
    if let (Value::Object(row), Value::Object(told)) = (&mut row, told) {
        row.extend(told);
    }
    row
}

fn rpc_row(rpc: &RpcEntry, nouns: &Nouns, messages: bool) -> Value {
    let way = match rpc.way {
        RpcWay::RequestReceived => "request_received",
        RpcWay::ReplySent => "reply_sent",
        RpcWay::RequestSent => "request_sent",
        RpcWay::ReplyReceived => "reply_received",
    };
    let other = rpc.other.as_ref();
    let failure = rpc.failure();
    json!({
        "way": way,
        "rpc": rpc.name(),
        "connection": rpc.link,
        "request": rpc.request,
        "peer_role": other.map(|it| role_name(it.role)),
        "peer": other.filter(|it| it.role != ROLE_CLIENT).map(|it| it.server.to_string()),
        "peer_address": other.map(|it| it.peer.clone()),
        "message_bytes": rpc.message_size,
        "payload_bytes": rpc.payload_size,
        "duration_us": rpc.way.is_reply().then_some(rpc.duration_us),
        "ok": rpc.way.is_reply().then_some(!rpc.is_failure),
        "error": failure.as_ref().map(|it| format!("{:?}", it.code)),
        "outcome": failure.as_ref().map(|it| format!("{:?}", it.outcome)),
        "why": failure.map(|it| it.message),
        "path": nouns.path,
        "to": nouns.to,
        "file": nouns.file.map(|it| it.to_string()),
        "chunk": nouns.handle.map(ChunkHandle::short),
        "copy": nouns.copy.map(ChunkHandle::short),
        "version": nouns.version.map(|it| it.to_string()),
        "offset": nouns.offset,
        "length": nouns.length,
        "serial": nouns.serial.map(|it| it.get()),
        "session": nouns.name.map(|(session, _)| format!("{session:032x}")),
        "number": nouns.name.map(|(_, number)| number),
        "entries": nouns.entries,
        "message": messages.then(|| message_text(rpc)),
    })
}

#[cfg(test)]
mod tests {
    use super::{Since, handle, peer, rpc_number, since};

    #[test]
    fn a_time_is_one_that_is_past_or_one_of_the_calendar() {
        assert!(matches!(since("5m"), Ok(Since::At(_))));
        let Ok(Since::Text(text)) = since("2026-11-25T10:04:00Z") else { panic!("a time") };
        assert_eq!(text, "2026-11-25T10:04:00");
        for bad in ["", "5", "yesterday", "5x", "2026", "2026-11-25 ü"] {
            assert!(since(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn an_rpc_goes_by_its_name_in_any_letters_and_a_chunk_by_its_handle() {
        assert_eq!(rpc_number("read"), Ok(83));
        assert!(rpc_number("Reed").is_err());
        assert!(handle("x").is_err());
    }

    #[test]
    fn a_peer_is_a_role_an_id_or_an_address_or_its_beginning() {
        for good in ["client", "master", "56", "10.", "10.0.0.5:40112", "[fe80::1%2]:7400"] {
            assert_eq!(peer(good).as_deref(), Ok(good));
        }
        for bad in ["", "foo", "clients", "localhost:7400", ":7400", "1o"] {
            assert!(peer(bad).is_err_and(|told| told.contains("10.0.0.5:")), "{bad}");
        }
    }
}
