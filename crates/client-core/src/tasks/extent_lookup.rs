//! Where the bytes of a stream are: one question for all who want to know.

use crate::tasks::task_context::{Progress, TaskContext, TaskInput};
use cairn_types::EntryId;
use std::task::Poll;

/// The wish to know the extents from an offset on.
#[derive(Debug)]
pub(crate) struct ExtentLookup {
    pub(crate) file: EntryId,
    pub(crate) offset: u64,
    /// Answers to older questions will not do.
    pub(crate) newer_than: u64,
}

impl ExtentLookup {
    pub(crate) fn on(&mut self, cx: &mut TaskContext<'_>, input: TaskInput) -> Progress<()> {
        match input {
            TaskInput::Begin => {
                cx.look_up_extents(self.file, self.offset, self.newer_than);
                Poll::Pending
            }
            TaskInput::LookedUp(result) => Poll::Ready(result),
            other => unreachable!("a wish to know is not moved by {other:?}"),
        }
    }
}
