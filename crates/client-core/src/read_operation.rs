//! A read of a range: cut into pieces at chunk boundaries, several under way, put together in
//! order up to the first that ends the file.

use crate::core::{ClientCore, Work};
use crate::operation::Output;
use crate::read_piece::{PieceDone, ReadPiece};
use crate::settings::{PIECE_SIZE, PIECES_IN_FLIGHT};
use crate::task::{Machine, OperationId, TaskId};
use cairn_types::{ChunkIndex, EntryId};
use std::collections::BTreeMap;

/// The range and what is known of it.
#[derive(Debug)]
pub(crate) struct ReadWork {
    file: EntryId,
    fresh: bool,
    /// Where the next piece starts, and where the range ends.
    next: u64,
    end: u64,
    /// Where in the file each piece under way starts.
    under_way: BTreeMap<TaskId, u64>,
    read: BTreeMap<u64, PieceDone>,
    /// Where the file was found to end; nothing behind it is wanted.
    ended: bool,
}

/// The piece of `offset..end` that lies in one chunk and ends on a multiple of the piece size:
/// chunk, offset in it, size.
pub(crate) fn first_piece(offset: u64, end: u64, chunk_size: u64) -> (ChunkIndex, u64, u64) {
    let within = offset % chunk_size;
    let piece_end = (within / PIECE_SIZE + 1).saturating_mul(PIECE_SIZE).min(chunk_size);
    let size = (piece_end - within).min(end - offset);
    (ChunkIndex::new(offset / chunk_size), within, size)
}

impl ClientCore {
    pub(crate) fn begin_read(
        &mut self,
        id: OperationId,
        file: EntryId,
        offset: u64,
        size: u64,
        fresh: bool,
    ) {
        let work = ReadWork {
            file,
            fresh,
            next: offset,
            end: offset.saturating_add(size),
            under_way: BTreeMap::new(),
            read: BTreeMap::new(),
            ended: false,
        };
        self.set_work(id, Work::Read(work));
        self.go_on_reading(id);
    }

    fn go_on_reading(&mut self, id: OperationId) {
        let chunk_size = self.cx.cell().chunk_size;
        loop {
            let Some(Work::Read(work)) = self.operations.get_mut(&id).map(|a| &mut a.work) else {
                return;
            };
            let wanted = work.next < work.end && !work.ended;
            if !wanted || work.under_way.len() >= PIECES_IN_FLIGHT {
                break;
            }
            let start = work.next;
            let (index, offset, size) = first_piece(start, work.end, chunk_size);
            work.next += size;
            let (file, fresh) = (work.file, work.fresh);
            let piece = ReadPiece::new(&self.cx, file, index, offset, size, fresh);
            let task = self.spawn(id, Machine::Piece(piece));
            if let Some(Work::Read(work)) = self.operations.get_mut(&id).map(|a| &mut a.work) {
                work.under_way.insert(task, start);
            }
        }
        self.finish_read(id);
    }

    pub(crate) fn piece_read(&mut self, id: OperationId, task: TaskId, piece: PieceDone) {
        let Some(active) = self.operations.get_mut(&id) else { return };
        let Work::Read(work) = &mut active.work else { return };
        let Some(start) = work.under_way.remove(&task) else { return };
        if piece.end {
            work.ended = true;
            let beyond: Vec<TaskId> =
                work.under_way.iter().filter(|(_, at)| **at > start).map(|(t, _)| *t).collect();
            for task in beyond {
                work.under_way.remove(&task);
                active.tasks.retain(|other| *other != task);
                self.tasks.remove(&task);
            }
        }
        work.read.insert(start, piece);
        self.go_on_reading(id);
    }

    fn finish_read(&mut self, id: OperationId) {
        let Some(Work::Read(work)) = self.operations.get_mut(&id).map(|a| &mut a.work) else {
            return;
        };
        if !work.under_way.is_empty() || (work.next < work.end && !work.ended) {
            return;
        }
        let (mut pieces, mut end, mut suspect) = (Vec::new(), false, false);
        for (_, piece) in std::mem::take(&mut work.read) {
            suspect |= piece.suspect;
            pieces.extend(piece.bytes);
            if piece.end {
                end = true;
                break;
            }
        }
        self.finish(id, Ok(Output::Read { pieces, end, suspect }));
    }
}

#[cfg(test)]
mod tests {
    use super::first_piece;
    use cairn_types::ChunkIndex;

    #[test]
    fn pieces_end_at_chunk_boundaries_and_on_multiples_of_a_mebibyte() {
        let mib = 1 << 20;
        let piece = |offset, end| first_piece(offset, end, 4 * mib);
        assert_eq!(piece(0, 10), (ChunkIndex::new(0), 0, 10));
        assert_eq!(piece(5, 8 * mib), (ChunkIndex::new(0), 5, mib - 5));
        assert_eq!(piece(4 * mib - 1, 8 * mib), (ChunkIndex::new(0), 4 * mib - 1, 1));
        assert_eq!(piece(4 * mib, 8 * mib), (ChunkIndex::new(1), 0, mib));
        assert_eq!(first_piece(100, 9999, 4096), (ChunkIndex::new(0), 100, 3996));
    }
}
