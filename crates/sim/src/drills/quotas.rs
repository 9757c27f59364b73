//! Drills of quotas (R36): many that want the last of it at once.

use super::drill::Drill;
use super::script::DrillScript;
use crate::checkers::Verdict;
use crate::operations::{ClientOp, OpTicket, path};
use cairn_protocol::{ErrorCode, SetQuota};
use cairn_types::Content;
use cairn_types::planted::Rule;
use std::time::Duration;

pub(super) const DRILLS: &[Drill] = &[
    Drill::of_rule(
        Rule::R36,
        "six files are made at once where a quota has room for three",
        3,
        six_files_where_there_is_room_for_three,
    ),
    Drill::of_rule(
        Rule::R36,
        "two files are written at once where a quota has room for one chunk, and then for both",
        3,
        two_files_where_there_is_room_for_one_chunk,
    ),
];

fn limit(script: &mut DrillScript, names: Option<u64>, bytes: Option<u64>) -> Verdict {
    script.done(0, ClientOp::MakeDirectory { path: path("/q") })?;
    let (mutation, path) = (Default::default(), path("/q"));
    let order = SetQuota { mutation, path, names, bytes, clears: false };
    script.done(0, ClientOp::Order { order: Box::new(order.into()) }).map(drop)
}

/// How many were done; all others were refused for the quota.
fn done_of(script: &mut DrillScript, tickets: Vec<OpTicket>) -> Result<usize, String> {
    let mut done = 0;
    for ticket in tickets {
        match script.wait(ticket) {
            Ok(_) => done += 1,
            Err(failure) if failure.code == ErrorCode::QuotaExceeded => {}
            Err(failure) => return Err(format!("refused for something else: {failure}")),
        }
    }
    Ok(done)
}

/// Three clients make two files each at the same time: their records are on their way together, and
/// each is looked at again when it is applied.
fn six_files_where_there_is_room_for_three(script: &mut DrillScript) -> Verdict {
    limit(script, Some(3), None)?;
    let create = |at: usize| ClientOp::Create {
        path: path(&format!("/q/{at}")),
        content: Content::Bytes,
        or_open: false,
    };
    let tickets = (0..6).map(|at| script.ask(at % 3, create(at))).collect();
    match done_of(script, tickets)? {
        3 => Ok(()),
        other => Err(format!("{other} files were made where three may be")),
    }
}

/// Both want a chunk at once, and one gets it. When nobody writes that one any more it counts as
/// long as it is, and the other gets its chunk.
fn two_files_where_there_is_room_for_one_chunk(script: &mut DrillScript) -> Verdict {
    let chunk_size = script.sim.cell_config.chunk_size;
    limit(script, None, Some(chunk_size + chunk_size / 2))?;
    let files = [script.create("/q/a", Content::Bytes)?, script.create("/q/b", Content::Bytes)?];
    let write = |at: usize| ClientOp::Write {
        file: files[at],
        offset: 0,
        bytes: bytes::Bytes::from_static(b"counted"),
        sync: false,
    };
    let tickets: Vec<OpTicket> = (0..2).map(|at| script.ask(at, write(at))).collect();
    match done_of(script, tickets)? {
        1 => {}
        other => return Err(format!("{other} files were written where one may be")),
    }
    for _ in 0..100 {
        let is_written = |script: &mut DrillScript, at: &usize| {
            script.read(2, files[*at], 0, 7).is_ok_and(|it| it == b"counted"[..])
        };
        // Nobody writes for a while; then whoever has nothing yet.
        script.pass(Duration::from_secs(15));
        let left: Vec<usize> = (0..2).filter(|at| !is_written(script, at)).collect();
        if left.is_empty() {
            return Ok(());
        }
        for at in left {
            let ticket = script.ask(at, write(at));
            done_of(script, vec![ticket])?;
        }
    }
    Err("the other never got its chunk".to_owned())
}
