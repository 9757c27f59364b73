//! The length of a file, which only the primary of its last chunk knows while that is leased
//! (design §4). It is found as the end of a read of the chunk's last byte, so that the rules for
//! the end of a file (R17, R19) stand in one place.

use crate::ask::{Ask, Asked};
use crate::core::{ClientCore, Work};
use crate::operation::Output;
use crate::read_piece::{PieceDone, ReadPiece};
use crate::settings::LOCATE_COUNT;
use crate::shared_asks::mismatched;
use crate::task::{Machine, OperationId};
use cairn_protocol::{Locate, Response, StatAnswer};
use cairn_types::{ChunkIndex, EntryId};

/// How far the search for the end is.
#[derive(Debug)]
pub(crate) enum LengthWork {
    /// The master says how many chunks there are.
    Locating { file: EntryId },
    /// The last chunk is read at its end; `stat` is the answer to be completed, if that was asked.
    Reading { last: ChunkIndex, stat: Option<Box<StatAnswer>> },
}

impl ClientCore {
    pub(crate) fn begin_length(&mut self, id: OperationId, file: EntryId) {
        self.set_work(id, Work::Length(LengthWork::Locating { file }));
        let first = self.cx.file(file).locations.chunk_count.saturating_sub(1);
        let locate = Locate { file, first: ChunkIndex::new(first), count: LOCATE_COUNT };
        self.spawn(id, Machine::Ask(Ask::new(locate.into())));
    }

    pub(crate) fn located_for_length(&mut self, id: OperationId, asked: Asked) {
        let Some(Work::Length(LengthWork::Locating { file })) =
            self.operations.get(&id).map(|active| &active.work)
        else {
            return;
        };
        let file = *file;
        let Response::Locate(answer) = asked.response else {
            self.finish(id, Err(mismatched(&asked.response)));
            return;
        };
        match answer.entry.chunk_count.checked_sub(1) {
            Some(last) => self.read_end(id, file, ChunkIndex::new(last), None),
            None => self.finish(id, Ok(Output::Length(answer.entry.length))),
        }
    }

    pub(crate) fn read_end(
        &mut self,
        id: OperationId,
        file: EntryId,
        last: ChunkIndex,
        stat: Option<Box<StatAnswer>>,
    ) {
        self.set_work(id, Work::Length(LengthWork::Reading { last, stat }));
        let at = self.cx.cell().chunk_size - 1;
        let piece = ReadPiece::new(&self.cx, file, last, at, 1, false);
        self.spawn(id, Machine::Piece(piece));
    }

    pub(crate) fn length_known(&mut self, id: OperationId, piece: &PieceDone) {
        let chunk_size = self.cx.cell().chunk_size;
        let Some(Work::Length(LengthWork::Reading { last, stat })) =
            self.operations.get_mut(&id).map(|active| &mut active.work)
        else {
            return;
        };
        let within = if piece.end { piece.readable } else { chunk_size };
        let length = last.get() * chunk_size + within;
        let output = match stat.take() {
            Some(mut stat) => {
                stat.entry.length = length;
                Output::Answered(Response::Stat(*stat))
            }
            None => Output::Length(length),
        };
        self.finish(id, Ok(output));
    }
}
