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
    /// Where nobody knows the end, the recorded length is the answer.
    Reading { last: ChunkIndex, recorded: u64, stat: Option<Box<StatAnswer>> },
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
            Some(last) => {
                self.read_end(id, file, ChunkIndex::new(last), answer.entry.length, None);
            }
            None => self.finish(id, Ok(Output::Length(answer.entry.length))),
        }
    }

    pub(crate) fn read_end(
        &mut self,
        id: OperationId,
        file: EntryId,
        last: ChunkIndex,
        recorded: u64,
        stat: Option<Box<StatAnswer>>,
    ) {
        self.set_work(id, Work::Length(LengthWork::Reading { last, recorded, stat }));
        let at = self.cx.cell().chunk_size - 1;
        let piece = ReadPiece::new(&self.cx, file, last, at, 1, false);
        self.spawn(id, Machine::Piece(piece));
    }

    pub(crate) fn length_known(&mut self, id: OperationId, piece: &PieceDone) {
        let chunk_size = self.cx.cell().chunk_size;
        let Some(Work::Length(LengthWork::Reading { last, recorded, stat })) =
            self.operations.get_mut(&id).map(|active| &mut active.work)
        else {
            return;
        };
        // Saturating: the numbers are a master's and a chunkserver's word.
        let before = last.get().saturating_mul(chunk_size);
        let length = match (piece.end, piece.readable) {
            (false, _) => before.saturating_add(chunk_size),
            (true, Some(readable)) => before.saturating_add(readable),
            (true, None) => *recorded,
        };
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

#[cfg(test)]
mod tests {
    use crate::operation::{Operation, Output};
    use crate::test_client::{FILE, chunk, connected, located, result};
    use cairn_protocol::{ReadAnswer, Request, Response, Stat, StatAnswer};
    use cairn_types::Entry;

    #[test]
    fn the_primary_of_the_last_chunk_is_asked_for_the_end() {
        let mut client = connected();
        let done = client.start(Operation::Length { file: FILE });
        let known = || located(2, vec![chunk(0, 5, &[1], None), chunk(1, 5, &[1, 3], Some(3))]);
        client.answer(known());
        client.answer(known());
        let call = client.call();
        assert!(matches!(&call.request, Request::Read(read) if read.offset == 4095));
        client.send_bytes(&call, &[], ReadAnswer { readable: 50, ..ReadAnswer::default() });
        client.answer(known());
        let call = client.call();
        assert_eq!(call.to.as_str(), "s3:1");
        client.send_bytes(&call, &[], ReadAnswer { readable: 70, ..ReadAnswer::default() });
        assert_eq!(result(&done), Ok(Output::Length(4096 + 70)));
    }

    #[test]
    fn a_file_without_chunks_is_as_long_as_the_master_says() {
        let mut client = connected();
        let done = client.start(Operation::Length { file: FILE });
        client.answer(located(0, vec![]));
        assert_eq!(result(&done), Ok(Output::Length(0)));
    }

    #[test]
    fn a_stat_of_a_file_being_appended_to_tells_the_length_that_the_primary_knows() {
        let mut client = connected();
        let done = client.start(Operation::Ask(Stat::default().into()));
        let entry = Entry { id: FILE, chunk_count: 1, length: 3, ..Entry::default() };
        let last = Some(chunk(0, 5, &[1], Some(1)));
        client.answer(Response::Stat(StatAnswer { entry, last }));
        for _ in 0..2 {
            let call = client.call();
            if let Request::Read(_) = &call.request {
                client.send_bytes(&call, &[], ReadAnswer { readable: 9, ..ReadAnswer::default() });
            } else {
                client.tell(&call, Ok(located(1, vec![chunk(0, 5, &[1], Some(1))])));
            }
        }
        let call = client.call();
        client.send_bytes(&call, &[], ReadAnswer { readable: 9, ..ReadAnswer::default() });
        let Ok(Output::Answered(Response::Stat(stat))) = result(&done) else { panic!("no stat") };
        assert_eq!(stat.entry.length, 9);
    }
}
