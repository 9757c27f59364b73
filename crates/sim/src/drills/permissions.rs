//! Drills of permissions (PE1, PE2): what was allowed a moment ago, and what is being forbidden.

use super::drill::Drill;
use super::script::DrillScript;
use crate::checkers::Verdict;
use crate::checkers::permissions_hold::PEOPLE;
use crate::operations::{ClientOp, path};
use cairn_protocol::{ErrorCode, MakeDirectory, SetAttributes};
use cairn_types::Content;
use cairn_types::planted::Rule;
use std::time::Duration;

pub(super) const DRILLS: &[Drill] = &[
    Drill::of_rule(
        Rule::PE1,
        "a directory is closed to somebody who has just gone through it",
        3,
        closed_to_who_went_through,
    ),
    Drill::of_rule(
        Rule::PE1,
        "a creation comes while the way to it is being closed",
        3,
        creation_while_the_way_is_closed,
    )
    .past_its_plant(),
    Drill::of_rule(
        Rule::PE2,
        "somebody takes away, and moves over, what others have in a sticky directory",
        3,
        others_names_in_a_sticky_directory,
    ),
    Drill::of_rule(
        Rule::PE2,
        "a deletion comes while its directory is being made sticky",
        3,
        deletion_while_it_becomes_sticky,
    ),
];

/// How many times as long the master's disk takes, so that records are on their way together.
const SLOW_DISK: u32 = 500;
/// Long enough for a request to arrive, short beside [`SLOW_DISK`].
const ARRIVAL: Duration = Duration::from_millis(5);

fn make_directory(script: &mut DrillScript, name: &str, mode: u32) -> Verdict {
    let (path, mode) = (path(name), Some(mode));
    let order = MakeDirectory { path, mode, ..MakeDirectory::default() };
    script.done(0, ClientOp::Order { order: Box::new(order.into()) }).map(drop)
}

fn chmod(name: &str, mode: u32) -> ClientOp {
    let (path, mode) = (path(name), Some(mode));
    let order = SetAttributes { path, mode, ..SetAttributes::default() };
    ClientOp::Order { order: Box::new(order.into()) }
}

fn create(name: &str) -> ClientOp {
    ClientOp::Create { path: path(name), content: Content::Bytes, or_open: false }
}

fn delete(name: &str) -> ClientOp {
    ClientOp::Delete { path: path(name), recursive: false }
}

fn denied(script: &mut DrillScript, client: usize, op: ClientOp) -> Verdict {
    let what = op.to_string();
    let refused = script.refused(client, op)?;
    match refused.code {
        ErrorCode::PermissionDenied => Ok(()),
        _ => Err(format!("{what}: {refused}, where permission is denied")),
    }
}

/// The superuser's chmod is on its way to the log when somebody asks for what it forbids. That
/// waits for it, and is judged by what is so when it is over.
fn denied_behind(
    script: &mut DrillScript,
    forbids: ClientOp,
    (client, op): (usize, ClientOp),
) -> Verdict {
    let master = script.nodes().master;
    script.sim.world.slow_disk(master, SLOW_DISK);
    let forbidding = script.ask(0, forbids);
    script.pass(ARRIVAL);
    let refused = denied(script, client, op);
    script.wait(forbidding).map_err(|failure| format!("the chmod: {failure:?}"))?;
    script.sim.world.slow_disk(master, 1);
    refused
}

/// The way that somebody went is remembered, and forgotten when a directory of it is closed.
fn closed_to_who_went_through(script: &mut DrillScript) -> Verdict {
    make_directory(script, "/d", 0o755)?;
    make_directory(script, "/d/e", 0o777)?;
    let ann = script.person(PEOPLE[1]);
    script.done(ann, create("/d/e/f"))?;
    script.done(ann, ClientOp::Stat { path: path("/d/e/f") })?;
    script.done(0, chmod("/d", 0o700))?;
    denied(script, ann, ClientOp::Stat { path: path("/d/e/f") })?;
    denied(script, ann, create("/d/e/g"))?;
    script.done(0, chmod("/d", 0o755))?;
    script.done(ann, create("/d/e/g")).map(drop)
}

fn creation_while_the_way_is_closed(script: &mut DrillScript) -> Verdict {
    make_directory(script, "/d", 0o755)?;
    make_directory(script, "/d/e", 0o777)?;
    let ann = script.person(PEOPLE[1]);
    script.done(ann, ClientOp::List { path: path("/d/e") })?;
    denied_behind(script, chmod("/d", 0o700), (ann, create("/d/e/f")))
}

/// Bob may write in the directory, but what Ann has there stays; he takes away his own, and its
/// owner everybody's.
fn others_names_in_a_sticky_directory(script: &mut DrillScript) -> Verdict {
    make_directory(script, "/d", 0o1777)?;
    let (ann, bob) = (script.person(PEOPLE[1]), script.person(PEOPLE[2]));
    script.done(ann, create("/d/ann"))?;
    script.done(bob, create("/d/bob"))?;
    denied(script, bob, delete("/d/ann"))?;
    let (from, to) = (path("/d/bob"), path("/d/ann"));
    denied(script, bob, ClientOp::Rename { from, to, replace: true })?;
    script.done(bob, delete("/d/bob"))?;
    script.done(0, delete("/d/ann")).map(drop)
}

fn deletion_while_it_becomes_sticky(script: &mut DrillScript) -> Verdict {
    make_directory(script, "/d", 0o777)?;
    let (ann, bob) = (script.person(PEOPLE[1]), script.person(PEOPLE[2]));
    script.done(ann, create("/d/ann"))?;
    script.done(bob, ClientOp::Stat { path: path("/d/ann") })?;
    denied_behind(script, chmod("/d", 0o1777), (bob, delete("/d/ann")))
}
