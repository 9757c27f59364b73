//! A read of a range of a stream: its extents are looked up, and what they have of each chunk is
//! read in one run (R44).
//!
//! ```text
//!   file    |A  |B  |A  |C |B |        three runs: of A, of B, of C
//! ```
//! - RE1: the end of the file is believed from an answer to a question that is younger than the
//!   read; and so is what is lost (R41), which a person may have brought back.
//! - RE2: a read ends before what is lost, and is a failure where it begins with that; a hole that
//!   a person has made of it is zeros.

use crate::ids::TaskId;
use crate::operation::{HoleRead, Output};
use crate::operations::operation_context::OperationContext;
use crate::pieces::{PIECE_SIZE, PIECES_IN_FLIGHT};
use crate::stream_extents::{ExtentPart, StreamExtents};
use crate::tasks::extent_lookup::ExtentLookup;
use crate::tasks::piece_read::PieceRead;
use crate::tasks::read_run::{ReadRun, RunRange};
use crate::tasks::task::Task;
use crate::tasks::task_context::Progress;
use bytes::Bytes;
use cairn_protocol::{ErrorCode, Failure, LostTail};
use cairn_types::planted::{Rule, broken};
use cairn_types::{ChunkHandle, EntryId};
use std::collections::BTreeMap;
use std::task::Poll;

/// Bytes of the file.
#[derive(Clone, Copy, Debug)]
enum ReadPart {
    /// They are in a run, from there on.
    OfRun { run: usize, at: u64, size: u64 },
    /// They are lost, and a hole (RE2).
    Hole(HoleRead),
}

/// The end of a part of an extent, which its chunk has lost.
#[derive(Clone, Copy, Debug)]
struct LostPart {
    part: ExtentPart,
    tail: LostTail,
}

/// The range, and what has been read of it.
#[derive(Debug)]
pub(crate) struct StreamRead {
    file: EntryId,
    offset: u64,
    /// Where what was asked for ends.
    asked_end: u64,
    /// Where what is read of it ends (RE2).
    end: u64,
    /// The number of the last call before it began.
    began: u64,
    /// Extents by older questions will not do.
    newer_than: u64,
    /// Where the last question about extents was about.
    lacked: Option<u64>,
    /// The file ends within the range.
    ended: bool,
    parts: Vec<ReadPart>,
    runs: Vec<RunRange>,
    /// How many runs were begun.
    begun: usize,
    under_way: BTreeMap<TaskId, usize>,
    read: BTreeMap<usize, PieceRead>,
}

impl StreamRead {
    /// Of a client whose last call had the number `began`; with `fresh` the extents are asked for
    /// anew.
    pub(crate) fn new(file: EntryId, (offset, size): (u64, u64), began: u64, fresh: bool) -> Self {
        let asked_end = offset.saturating_add(size);
        Self {
            file,
            offset,
            asked_end,
            end: asked_end,
            began,
            newer_than: if fresh { began } else { 0 },
            lacked: None,
            ended: false,
            parts: Vec::new(),
            runs: Vec::new(),
            begun: 0,
            under_way: BTreeMap::new(),
            read: BTreeMap::new(),
        }
    }

    /// Finds out where the bytes are, and reads them.
    pub(crate) fn locate(&mut self, cx: &mut OperationContext<'_>) -> Progress<Output> {
        assert!(self.runs.is_empty(), "the runs are made once all extents are known");
        let Some(known) = cx.client.files.file(self.file).stream() else {
            let why = "the file was closed while it was read";
            return Poll::Ready(Err(Failure::not_done(ErrorCode::Invalid, why)));
        };
        self.ended = false;
        let parts = known.parts(self.offset, self.end, self.newer_than);
        let known_to = parts.last().map_or(self.offset, |last| last.offset + last.size);
        if known_to < self.end {
            let length = known.length(self.began);
            match length {
                Some(length) if known_to >= length => self.ended = true,
                // Another question that it had joined may have come to less than its own would.
                Some(_) if self.lacked == Some(known_to) && known.was_answered_at(known_to) => {
                    let why = format!("the master does not say where byte {known_to} is");
                    return Poll::Ready(Err(Failure::not_done(ErrorCode::Internal, why)));
                }
                _ => {
                    let newer_than = self.newer_than.max(self.began);
                    self.lacked = length.map(|_| known_to);
                    let (file, offset) = (self.file, known_to);
                    cx.start(Task::ExtentLookup(ExtentLookup { file, offset, newer_than }));
                    return Poll::Pending;
                }
            }
        }
        let of = |part: ExtentPart| (part, lost_of(known, &part));
        let parts: Vec<(ExtentPart, Option<LostPart>)> = parts.into_iter().map(of).collect();
        let all_lost = || parts.iter().filter_map(|(_, lost)| *lost);
        // RE1
        let now = cx.client.now;
        let is_old = |lost: LostPart| !known.is_lost_by_now(&lost.tail, now, self.began);
        if self.newer_than < self.began && all_lost().any(is_old) {
            self.newer_than = self.began;
            return self.locate(cx);
        }
        // RE2. R41 broken: nobody has to say that it is a hole.
        let lost = all_lost().find(|lost| !lost.tail.is_hole && !broken(Rule::R41));
        if let Some(LostPart { part, .. }) = lost {
            if part.offset == self.offset {
                return Poll::Ready(Err(is_lost(&part)));
            }
            // What stands before it is read.
            self.end = part.offset;
            return self.locate(cx);
        }
        let parts = parts.into_iter().flat_map(|(part, lost)| {
            let lost = lost.map(|lost| lost.part);
            let size = part.size - lost.map_or(0, |lost| lost.size);
            let whole = (size > 0).then_some((ExtentPart { size, ..part }, false));
            whole.into_iter().chain(lost.map(|lost| (lost, true)))
        });
        let parts: Vec<(ExtentPart, bool)> = parts.collect();
        self.make_runs(&parts);
        self.go_on(cx)
    }

    /// Puts together what lies together in a chunk, and is no hole.
    fn make_runs(&mut self, parts: &[(ExtentPart, bool)]) {
        let mut last_of: BTreeMap<ChunkHandle, usize> = BTreeMap::new();
        for (part, is_hole) in parts {
            let ExtentPart { mut offset, mut size, handle, mut chunk_offset } = *part;
            if *is_hole {
                self.parts.push(ReadPart::Hole(HoleRead { offset, size }));
                continue;
            }
            while size > 0 {
                let before = last_of.get(&handle).copied().filter(|run| {
                    let run = self.runs[*run];
                    run.offset + run.size == chunk_offset && chunk_offset % PIECE_SIZE != 0
                });
                let run = before.unwrap_or(self.runs.len());
                if before.is_none() {
                    let (file, file_offset) = (self.file, offset);
                    self.runs.push(RunRange {
                        file,
                        file_offset,
                        handle,
                        offset: chunk_offset,
                        size: 0,
                    });
                    last_of.insert(handle, run);
                }
                let range = &mut self.runs[run];
                // It ends where a block does: of a block that is cut both parts are verified.
                let taken = size.min(PIECE_SIZE - chunk_offset % PIECE_SIZE);
                self.parts.push(ReadPart::OfRun { run, at: range.size, size: taken });
                range.size += taken;
                (offset, chunk_offset, size) = (offset + taken, chunk_offset + taken, size - taken);
            }
        }
    }

    /// Starts as many runs as may be under way.
    fn go_on(&mut self, cx: &mut OperationContext<'_>) -> Progress<Output> {
        while self.begun < self.runs.len() && self.under_way.len() < PIECES_IN_FLIGHT {
            let task = cx.start(Task::ReadRun(ReadRun::new(self.runs[self.begun])));
            self.under_way.insert(task, self.begun);
            self.begun += 1;
        }
        if self.under_way.is_empty() { Poll::Ready(Ok(self.output())) } else { Poll::Pending }
    }

    /// A run is read; none: its bytes are elsewhere by now, and all is looked up anew.
    pub(crate) fn run_read(
        &mut self,
        cx: &mut OperationContext<'_>,
        task: TaskId,
        read: Option<PieceRead>,
    ) -> Progress<Output> {
        let run = self.under_way.remove(&task).expect("a run is under way until it is read");
        if let Some(read) = read {
            assert_eq!(read.size, self.runs[run].size, "a run is whole (RR2)");
            self.read.insert(run, read);
            return self.go_on(cx);
        }
        for task in std::mem::take(&mut self.under_way).into_keys() {
            cx.cancel(task);
        }
        // What was lost may be there again, too.
        let (file, size) = (self.file, self.asked_end - self.offset);
        let began = cx.client.outbox.last_number();
        *self = Self::new(file, (self.offset, size), began, true);
        self.locate(cx)
    }

    fn output(&mut self) -> Output {
        let suspect = self.read.values().any(|run| run.suspect);
        let (mut pieces, mut holes) = (Vec::new(), Vec::new());
        for part in &self.parts {
            match part {
                ReadPart::OfRun { run, at, size } => {
                    let read = self.read.get(run).expect("every run is read");
                    push_slices(&read.bytes, *at, *size, &mut pieces);
                }
                ReadPart::Hole(hole) => {
                    push_zeros(hole.size, &mut pieces);
                    holes.push(*hole);
                }
            }
        }
        Output::Read { pieces, end: self.ended, suspect, holes }
    }
}

/// What of a part its chunk has lost (R41), if it has lost some of it.
fn lost_of(known: &StreamExtents, part: &ExtentPart) -> Option<LostPart> {
    let tail = known.lost(part.handle)?;
    let size = tail.lost_of(part.chunk_offset, part.size);
    let left = part.size - size;
    let (offset, chunk_offset) = (part.offset + left, part.chunk_offset + left);
    let part = ExtentPart { offset, size, chunk_offset, ..*part };
    (size > 0).then_some(LostPart { part, tail })
}

fn is_lost(part: &ExtentPart) -> Failure {
    let why = format!(
        "bytes {} to {} of the stream are lost: no server of chunk {} has them any more",
        part.offset,
        part.offset + part.size,
        part.handle.short()
    );
    Failure::refused(ErrorCode::LostBytes, why)
}

fn push_zeros(size: u64, out: &mut Vec<Bytes>) {
    const ZEROS: &[u8] = &[0; 64 << 10];
    let mut left = usize::try_from(size).expect("a part fits memory");
    while left > 0 {
        let taken = left.min(ZEROS.len());
        out.push(Bytes::from_static(&ZEROS[..taken]));
        left -= taken;
    }
}

/// The bytes `at..at + size` of `from`.
fn push_slices(from: &[Bytes], at: u64, size: u64, out: &mut Vec<Bytes>) {
    let to_usize = |value| usize::try_from(value).expect("a run fits memory");
    let (mut skip, mut left) = (to_usize(at), to_usize(size));
    for piece in from {
        if skip >= piece.len() {
            skip -= piece.len();
            continue;
        }
        let end = piece.len().min(skip + left);
        out.push(piece.slice(skip..end));
        left -= end - skip;
        skip = 0;
        if left == 0 {
            break;
        }
    }
    assert_eq!(left, 0, "a run has all of its parts");
}

#[cfg(test)]
mod tests;
