//! The length of a file, which only the primary of its last chunk knows while that is leased
//! (design §4). It is found as the end of a read of the chunk's last byte, so that the rules for
//! the end of a file (R17, R19) stand in one place.

use crate::operation::Output;
use crate::operations::operation_context::OperationContext;
use crate::settings::LOCATE_COUNT;
use crate::tasks::master_call::{MasterAnswer, MasterCall};
use crate::tasks::piece_read::PieceRead;
use crate::tasks::read_piece::{PieceRange, ReadPiece};
use crate::tasks::task::Task;
use crate::tasks::task_context::Progress;
use cairn_protocol::{ErrorCode, Failure, Locate, ReadExtents, Response, Rpc, StatAnswer};
use cairn_types::{ChunkIndex, EntryId, Layout};
use std::task::Poll;

/// How far the search for the end is.
#[derive(Debug)]
pub(crate) enum LengthOperation {
    /// The master says how many chunks there are.
    Locating { file: EntryId },
    /// The last chunk is read at its end; `stat` is the answer to be completed, if that was asked.
    /// Where nobody knows the end, the recorded length is the answer.
    Reading { last: ChunkIndex, recorded: u64, stat: Option<Box<StatAnswer>> },
}

impl LengthOperation {
    pub(crate) fn begin(&self, cx: &mut OperationContext<'_>) -> Progress<Output> {
        let Self::Locating { file } = *self else { unreachable!("it begins once: {self:?}") };
        let chunk_count = cx.client.files.file(file).locations.chunk_count;
        let first = ChunkIndex::new(chunk_count.saturating_sub(1));
        let locate = Locate { file, first, count: LOCATE_COUNT, ..Locate::default() };
        cx.start(Task::MasterCall(MasterCall::new(locate)));
        Poll::Pending
    }

    /// Of a stream the master alone knows it.
    pub(crate) fn begin_of_stream(
        cx: &mut OperationContext<'_>,
        file: EntryId,
    ) -> Progress<Output> {
        let ask = ReadExtents { file, offset: u64::MAX, limit: 1, ..ReadExtents::default() };
        cx.start(Task::MasterCall(MasterCall::new(ask)));
        Poll::Pending
    }

    /// The master has said how many chunks there are.
    pub(crate) fn located(
        &mut self,
        cx: &mut OperationContext<'_>,
        answer: MasterAnswer,
    ) -> Progress<Output> {
        let Self::Locating { file } = *self else { unreachable!("nothing was asked: {self:?}") };
        if let Response::ReadExtents(answer) = answer.response {
            return Poll::Ready(Ok(Output::Length(answer.entry.length)));
        }
        let entry = Locate::answer(Ok(answer.response))?.entry;
        if entry.layout == Layout::Stream {
            return Poll::Ready(Ok(Output::Length(entry.length)));
        }
        let Some(last) = entry.chunk_count.checked_sub(1) else {
            return Poll::Ready(Ok(Output::Length(entry.length)));
        };
        *self = Self::read_end(cx, file, ChunkIndex::new(last), entry.length, None);
        Poll::Pending
    }

    /// Reads the last chunk at its end.
    pub(crate) fn read_end(
        cx: &mut OperationContext<'_>,
        file: EntryId,
        last: ChunkIndex,
        recorded: u64,
        stat: Option<Box<StatAnswer>>,
    ) -> Self {
        let offset = cx.client.cell().chunk_size - 1;
        let range = PieceRange { file, index: last, offset, size: 1 };
        let piece = ReadPiece::new(range, cx.client.outbox.last_number(), false);
        cx.start(Task::ReadPiece(piece));
        Self::Reading { last, recorded, stat }
    }

    /// The last byte is read, or the end before it.
    pub(crate) fn piece_read(
        &mut self,
        cx: &mut OperationContext<'_>,
        piece: &PieceRead,
    ) -> Progress<Output> {
        let Self::Reading { last, recorded, stat } = self else {
            unreachable!("nothing was read: {self:?}")
        };
        let chunk_size = cx.client.cell().chunk_size;
        // Saturating: the numbers are a master's and a chunkserver's word.
        let before = last.get().saturating_mul(chunk_size);
        let length = match (piece.end, piece.readable) {
            (false, _) => before.saturating_add(chunk_size),
            (true, Some(readable)) => before.saturating_add(readable),
            (true, None) => *recorded,
        };
        Poll::Ready(Ok(match stat.take() {
            Some(mut stat) => {
                stat.entry.length = length;
                Output::Answered(Response::Stat(*stat))
            }
            None => Output::Length(length),
        }))
    }

    /// The end could not be read. Who may look at a file's entry and not read the file is told what
    /// the master says of it.
    pub(crate) fn despite(&mut self, failure: &Failure) -> Option<Output> {
        match self {
            Self::Reading { stat, .. } if failure.code == ErrorCode::PermissionDenied => {
                stat.take().map(|stat| Output::Answered(Response::Stat(*stat)))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::operation::{Operation, Output};
    use crate::test_client::{FILE, chunk, connected, located, result};
    use cairn_protocol::{ErrorCode, Failure, ReadAnswer, Request, Response, Stat, StatAnswer};
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
        let last = Some(chunk(0, 5, &[1], Some(1)).into());
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

    #[test]
    fn a_stat_by_who_may_not_read_the_file_tells_the_length_that_is_recorded() {
        let mut client = connected();
        let done = client.start(Operation::Ask(Stat::default().into()));
        let entry = Entry { id: FILE, chunk_count: 1, length: 3, ..Entry::default() };
        let last = Some(chunk(0, 5, &[1], Some(1)).into());
        client.answer(Response::Stat(StatAnswer { entry, last }));
        for _ in 0..2 {
            let call = client.call();
            if let Request::Read(_) = &call.request {
                client.send_bytes(&call, &[], ReadAnswer { readable: 9, ..ReadAnswer::default() });
            } else {
                let failure = Failure::refused(ErrorCode::PermissionDenied, "not yours");
                client.tell(&call, Err(failure));
            }
        }
        let Ok(Output::Answered(Response::Stat(stat))) = result(&done) else { panic!("no stat") };
        assert_eq!(stat.entry.length, 3);
    }
}
