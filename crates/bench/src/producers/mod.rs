//! `cairn bench streams`: many producers and one stream.
//!
//! | step | what it is compared with |
//! |---|---|
//! | `appends` | the bare chain, and appends to one GFS file, in rounds |
//! | `awaited` | appends to a GFS file, each awaited |
//! | `commits` | what half a core of the master may do; no bytes |
//! | `followers` | from a record's append to each of its readers |
//! | `chunks` | Table 1 of TFS; creations and look-ups of the same run |

mod arguments;
mod chunk_operations;
mod commits;
mod followers;
mod throughput;

use crate::error::BenchError;
use crate::meta::Figures;
use crate::surroundings::Surroundings;
pub(crate) use arguments::SharedStreams;
use arguments::StreamStep;

const ALL_STEPS: [StreamStep; 5] = [
    StreamStep::Appends,
    StreamStep::Awaited,
    StreamStep::Commits,
    StreamStep::Followers,
    StreamStep::Chunks,
];

impl SharedStreams {
    pub(super) fn run(&self, around: &Surroundings) -> Result<(), BenchError> {
        let mut steps = self.only.clone();
        if steps.is_empty() {
            steps = ALL_STEPS.to_vec();
        }
        steps.sort_unstable();
        steps.dedup();
        let figures = &Figures::new(&around.printer);
        figures.head("streams")?;
        for step in steps {
            match step {
                StreamStep::Appends => throughput::appends(self, around, figures)?,
                StreamStep::Awaited => throughput::awaited(self, around, figures)?,
                StreamStep::Commits => commits::measure(self, around, figures)?,
                StreamStep::Followers => followers::measure(self, around, figures)?,
                StreamStep::Chunks => chunk_operations::measure(self, around, figures)?,
            }
        }
        Ok(())
    }
}
