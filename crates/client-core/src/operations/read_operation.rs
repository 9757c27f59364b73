//! A read of a range: cut into pieces at chunk boundaries, several under way, put together in
//! order up to the first that ends the file.

use crate::ids::TaskId;
use crate::operation::Output;
use crate::operations::operation_context::OperationContext;
use crate::pieces::{PIECES_IN_FLIGHT, first_piece};
use crate::tasks::piece_read::PieceRead;
use crate::tasks::read_piece::{PieceRange, ReadPiece};
use crate::tasks::task::Task;
use crate::tasks::task_context::Progress;
use cairn_types::EntryId;
use std::collections::BTreeMap;
use std::task::Poll;

/// The range and what has been read of it.
#[derive(Debug)]
pub(crate) struct ReadOperation {
    file: EntryId,
    fresh: bool,
    /// Where the next piece starts, and where the range ends.
    next: u64,
    end: u64,
    /// Where in the file each piece under way starts.
    under_way: BTreeMap<TaskId, u64>,
    read: BTreeMap<u64, PieceRead>,
    /// The file was found to end; nothing behind that is wanted.
    ended: bool,
}

impl ReadOperation {
    pub(crate) fn new(file: EntryId, offset: u64, size: u64, fresh: bool) -> Self {
        Self {
            file,
            fresh,
            next: offset,
            end: offset.saturating_add(size),
            under_way: BTreeMap::new(),
            read: BTreeMap::new(),
            ended: false,
        }
    }

    /// Starts as many pieces as may be under way.
    pub(crate) fn go_on(&mut self, cx: &mut OperationContext<'_>) -> Progress<Output> {
        let chunk_size = cx.client.cell().chunk_size;
        while self.wants_more() && self.under_way.len() < PIECES_IN_FLIGHT {
            let start = self.next;
            let (index, offset, size) = first_piece(start, self.end, chunk_size);
            self.next += size;
            let range = PieceRange { file: self.file, index, offset, size };
            let piece = ReadPiece::new(range, cx.client.outbox.last_number(), self.fresh);
            self.under_way.insert(cx.start(Task::ReadPiece(piece)), start);
        }
        if self.wants_more() || !self.under_way.is_empty() {
            return Poll::Pending;
        }
        Poll::Ready(Ok(self.output()))
    }

    fn wants_more(&self) -> bool {
        self.next < self.end && !self.ended
    }

    /// A piece is read.
    pub(crate) fn piece_read(
        &mut self,
        cx: &mut OperationContext<'_>,
        task: TaskId,
        piece: PieceRead,
    ) -> Progress<Output> {
        let start = self.under_way.remove(&task).expect("a piece is under way until it is read");
        if piece.end {
            self.ended = true;
            let beyond = |(task, at): (&TaskId, &u64)| (*at > start).then_some(*task);
            let beyond: Vec<TaskId> = self.under_way.iter().filter_map(beyond).collect();
            for task in beyond {
                self.under_way.remove(&task);
                cx.cancel(task);
            }
        }
        let same = self.read.insert(start, piece);
        assert!(same.is_none(), "the piece at {start} is read once");
        self.go_on(cx)
    }

    /// The pieces up to the first that ends the file.
    fn output(&mut self) -> Output {
        let (mut pieces, mut end, mut suspect) = (Vec::new(), false, false);
        for (_, piece) in std::mem::take(&mut self.read) {
            suspect |= piece.suspect;
            pieces.extend(piece.bytes);
            if piece.end {
                // Pieces behind it were read before that was known.
                end = true;
                break;
            }
        }
        Output::Read { pieces, end, suspect, holes: Vec::new() }
    }
}
