//! Drills of settling: pieces of streams become large chunks (R45).

use super::drill::Drill;
use super::script::DrillScript;
use super::streams::{committed, open_as, reads, send, stream_of};
use crate::checkers::Verdict;
use crate::operations::{ClientOp, OpOutput, path};
use cairn_protocol::Request;
use cairn_types::planted::Rule;
use cairn_types::{Content, EntryId};
use std::time::Duration;

pub(super) const DRILLS: &[Drill] = &[
    Drill::of_rule(
        Rule::R45,
        "a range is settled of chunks that the rest of the stream still needs",
        3,
        a_range_is_settled_of_chunks_that_are_still_needed,
    ),
    Drill::of_finding(
        "settling starves a snapshot",
        "a snapshot is taken while a server is long at putting a chunk together",
        4,
        a_snapshot_beside_a_long_assembly,
    ),
];

/// A stream to which two producers have written in turns, and what it holds.
fn written_in_turns(script: &mut DrillScript) -> Result<(EntryId, Vec<u8>), String> {
    let file = stream_of(script, Content::Bytes)?;
    let [one, other] = [open_as(script, 0, file, "one")?, open_as(script, 1, file, "other")?];
    let quarter = usize::try_from(script.sim.cell_config.append_size_max()).expect("it is tiny");
    let large = |byte: u8| -> &'static [u8] { Box::leak(vec![byte; quarter].into_boxed_slice()) };
    let (ones, others) = (large(b'1'), large(b'2'));
    let sent: [(usize, u64, &'static [u8]); 8] = [
        (0, 1, b"one,"),
        (1, 1, b"other,"),
        (0, 2, ones),
        (0, 3, ones),
        (0, 4, ones),
        (1, 2, others),
        (1, 3, others),
        (1, 4, others),
    ];
    let mut expected = Vec::new();
    for (client, number, bytes) in sent {
        let producer = if client == 0 { &one } else { &other };
        let ticket = send(script, client, producer, (number, bytes));
        committed(script, ticket)?;
        expected.extend_from_slice(bytes);
    }
    script.done(0, ClientOp::CloseProducer { producer: one.producer })?;
    script.done(1, ClientOp::CloseProducer { producer: other.producer })?;
    Ok((file, expected))
}

/// Two producers write in turns: a window of what is settled has all of the one's chunk and the
/// beginning of the other's, whose rest has to be read from where it is.
fn a_range_is_settled_of_chunks_that_are_still_needed(script: &mut DrillScript) -> Verdict {
    let (file, expected) = written_in_turns(script)?;
    script.until("a range is settled", |script| script.reached("range of a stream settled") > 0)?;
    // What is let go of goes from the disks meanwhile.
    let trash = Duration::from_millis(script.sim.cell_config.trash_ms);
    script.pass(trash * 2);
    reads(script, 2, file, &expected)
}

/// Nothing of the stream is another before the chunk's record: who wants a snapshot need not wait
/// for it, however busy a server is.
fn a_snapshot_beside_a_long_assembly(script: &mut DrillScript) -> Verdict {
    script.stall(|seen| matches!(seen.request, Request::AssembleChunk(_)));
    let (file, expected) = written_in_turns(script)?;
    script.until_stalled()?;
    let taken = ClientOp::Snapshot { from: path("/stream"), to: path("/copy") };
    let copy = match script.done(2, taken)? {
        OpOutput::Entry(entry) => entry.id,
        other => return Err(format!("a snapshot is answered by {other:?}")),
    };
    script.release();
    script.done(2, ClientOp::Open { path: path("/copy") })?;
    reads(script, 2, copy, &expected)?;
    script.until("a range is settled", |script| script.reached("range of a stream settled") > 0)?;
    reads(script, 2, file, &expected)
}
