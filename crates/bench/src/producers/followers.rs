//! Readers that follow a stream with its bytes: from the append of a record until each has it,
//! which is more than from its commit on.

use super::arguments::SharedStreams;
use crate::error::{BenchCause, BenchError};
use crate::load::{CallerJob, Load};
use crate::meta::{Figure, Figures};
use crate::own_cell::OwnCell;
use crate::surroundings::Surroundings;

const SERVERS: u64 = 3;
/// Producers, and how much each appends: what two cores have left beside a hundred readers.
const PRODUCERS: u64 = 20;
const A_SECOND: f64 = 5.0;

pub(super) fn measure(
    streams: &SharedStreams,
    around: &Surroundings,
    figures: &Figures<'_>,
) -> Result<(), BenchError> {
    let cell = OwnCell::start(SERVERS, around)?;
    let (root, seconds, record_size) =
        ("/followed".to_owned(), streams.seconds, streams.record_size);
    let load = |job, processes, callers| {
        let deadline_s = around.options.deadline.as_secs();
        Load { job, processes, callers, deadline_s, by: None }
    };
    let produce =
        CallerJob::ProducePaced { root: root.clone(), seconds, a_second: A_SECOND, record_size };
    let follow = CallerJob::Follow { root, seconds };
    let in_each = streams.followers.div_ceil(2);
    let readers = 2 * in_each;
    let loads = [load(produce, 1, PRODUCERS), load(follow, 2, in_each)];
    let told = cell.run_together(&loads)?;
    let (produced, followed) = (&told[0], &told[1]);
    let expected = produced.operations * readers;
    if followed.operations != expected {
        let why = format!("{} records were read, not {expected}", followed.operations);
        return Err(BenchError::new("following a stream", BenchCause::WrongAnswer(why)));
    }
    let tell = |what: &str, value: f64, unit: &str, wanted: &str| {
        figures.tell(&Figure { what, value, digits: 2, unit, wanted })
    };
    let commits = produced.operations as f64 / seconds as f64;
    tell("with bytes: records appended", commits, "a second", "")?;
    tell("with bytes: a record committed, p50", produced.p50_us() / 1e3, "ms", "")?;
    tell("with bytes: a record committed, p99", produced.p99_us() / 1e3, "ms", "")?;
    let each = |part: &str| format!("append to each of {readers} readers, {part}");
    tell(&each("p50"), followed.p50_us() / 1e3, "ms", "")?;
    tell(&each("p99"), followed.p99_us() / 1e3, "ms", "under 20")
}
