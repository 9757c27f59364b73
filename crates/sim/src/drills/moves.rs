//! Drills of moving: servers that are emptied while clients go on, and nothing left out before
//! enough others are sound (R11).

use super::drill::Drill;
use super::script::DrillScript;
use crate::checkers::Verdict;
use bytes::Bytes;
use cairn_env_sim::NodeId;
use cairn_protocol::{Balance, Drain, Response, ServerDuty, ServerStatus, Servers, Undrain};
use cairn_types::Content;
use cairn_types::planted::Rule;
use std::time::Duration;

pub(super) const DRILLS: &[Drill] = &[
    Drill::of_rule(
        Rule::R11,
        "a server is to be emptied, and there are not enough others",
        3,
        one_that_cannot_be_emptied_keeps_what_it_has,
    ),
    Drill::of_rule(
        Rule::H4,
        "servers are emptied and balanced while records are appended, and one is stopped",
        4,
        one_that_was_emptied_is_missed_by_nobody,
    ),
];

/// What the master tells of a server.
fn status(script: &mut DrillScript, node: NodeId) -> Result<ServerStatus, String> {
    let (master, address) = (script.nodes().master, script.address(node));
    let answer = script.probe(master, Servers {}, Bytes::new());
    let answer = answer.map(|answer| answer.response).map_err(|failure| failure.to_string())?;
    let Response::Servers(all) = answer else { return Err(format!("{answer:?}")) };
    let found = all.servers.into_iter().find(|it| it.at.address == address);
    found.ok_or_else(|| format!("{address} is not known"))
}

fn drain(script: &mut DrillScript, node: NodeId) -> Verdict {
    let (server, master) = (status(script, node)?.at.server, script.nodes().master);
    let drain = Drain { server, dry_run: false };
    let answer = script.probe(master, drain, Bytes::new());
    answer.map(drop).map_err(|failure| failure.to_string())
}

/// Three servers, three replicas, and one of the servers is to be emptied: its replica stays until
/// there is another.
fn one_that_cannot_be_emptied_keeps_what_it_has(script: &mut DrillScript) -> Verdict {
    let file = script.create("/f", Content::Bytes)?;
    script.write(0, file, 0, b"bytes")?;
    let chunk = script.chunk(file, 0)?;
    let node = *script.holders(chunk).first().ok_or("no holder")?;
    drain(script, node)?;
    script.pass(Duration::from_secs(30));
    match (script.set_size(chunk), status(script, node)?.duty) {
        (3, ServerDuty::Draining) => Ok(()),
        (size, duty) => Err(format!("a set of {size} of 3, and the server is {duty:?}")),
    }
}

/// One server after another is emptied while a client appends; when the last may be switched off,
/// it is stopped for ever. All records are there, on three others.
fn one_that_was_emptied_is_missed_by_nobody(script: &mut DrillScript) -> Verdict {
    let file = script.create("/f", Content::Bytes)?;
    let mut offsets = vec![script.append(0, file, b"record;")?];
    let master = script.nodes().master;
    let nodes = script.nodes().servers.clone();
    for (turn, node) in nodes.iter().take(3).enumerate() {
        drain(script, *node)?;
        let mut tries = 0;
        while status(script, *node)?.duty != ServerDuty::Drained {
            offsets.push(script.append(0, file, b"record;")?);
            tries += 1;
            if tries == 300 {
                return Err(format!("the server of turn {turn} is never emptied"));
            }
            script.pass(Duration::from_millis(250));
        }
        if turn == 2 {
            script.kill(*node);
            break;
        }
        let server = status(script, *node)?.at.server;
        let back = script.probe(master, Undrain { server }, Bytes::new());
        back.map_err(|failure| failure.to_string())?;
        let order = Balance { threshold_permille: 50, dry_run: false };
        let order = script.probe(master, order, Bytes::new());
        order.map_err(|failure| failure.to_string())?;
    }
    let chunk = script.chunk(file, 0)?;
    if script.set_size(chunk) < 3 {
        return Err("a replica was given up before there was another".to_owned());
    }
    offsets.push(script.append(0, file, b"record;")?);
    for offset in offsets {
        let given = script.read(1, file, offset, 7)?;
        if given != b"record;"[..] {
            return Err(format!("{given:?} is read at {offset}, where a record was acknowledged"));
        }
    }
    Ok(())
}
