//! What each kind of operation does when one of its tasks is over.

use crate::ids::TaskId;
use crate::operation::{Operation, Output, ProducerMode};
use crate::operations::append_operation::AppendOperation;
use crate::operations::length_operation::LengthOperation;
use crate::operations::master_answers::{complete_stat, learn_opened};
use crate::operations::operation_context::OperationContext;
use crate::operations::read_operation::ReadOperation;
use crate::operations::stream_read::StreamRead;
use crate::operations::sync_operation::SyncOperation;
use crate::operations::write_operation::WriteOperation;
use crate::tasks::chunk_mutation::AppliedRange;
use crate::tasks::master_call::MasterAnswer;
use crate::tasks::piece_read::PieceRead;
use crate::tasks::task_context::Progress;
use cairn_protocol::{CloseProducer, ErrorCode, Failure, Rpc};
use cairn_types::EntryId;
use std::task::Poll;

/// What an operation still has to do.
#[derive(Debug)]
pub(crate) enum OperationState {
    /// The cell's settings are not known yet.
    AwaitingCell,
    /// The answer, of the masters or of one server, is the answer.
    Ask,
    /// The same, of a request that opens files.
    Open,
    Read(ReadOperation),
    ReadStream(Box<StreamRead>),
    Write(WriteOperation),
    Append(AppendOperation),
    Sync(SyncOperation),
    Length(LengthOperation),
    /// The master gives a producer of that file a new epoch.
    OpenProducer {
        mode: ProducerMode,
        file: EntryId,
    },
    /// The master ends a producer's epoch.
    CloseProducer,
    /// A timer is all there is.
    Pause,
}

impl OperationState {
    /// Begins an operation on a file.
    pub(crate) fn begin(
        &mut self,
        cx: &mut OperationContext<'_>,
        operation: Operation,
    ) -> Progress<Output> {
        if cx.client.files.file(operation.file()).stream().is_some() {
            return self.begin_on_stream(cx, operation);
        }
        match operation {
            Operation::Read { file, offset, size, fresh } => {
                let mut read = ReadOperation::new(file, offset, size, fresh);
                let progress = read.go_on(cx);
                *self = Self::Read(read);
                progress
            }
            Operation::Write { file, offset, bytes, sync } => {
                let mut write = WriteOperation::new(file, offset, bytes, sync);
                let progress = write.begin(cx);
                *self = Self::Write(write);
                progress
            }
            Operation::Append { file, bytes, sync } => {
                let append = AppendOperation::new(file, sync);
                let progress = append.begin(cx, bytes);
                *self = Self::Append(append);
                progress
            }
            Operation::Sync { file } => self.begin_sync(cx, SyncOperation::new(file, false), true),
            Operation::Close { file, sync } => {
                self.begin_sync(cx, SyncOperation::new(file, true), sync)
            }
            Operation::Length { file } => {
                let length = LengthOperation::Locating { file };
                let progress = length.begin(cx);
                *self = Self::Length(length);
                progress
            }
            Operation::Ask(_)
            | Operation::Open(_)
            | Operation::AskServer { .. }
            | Operation::LearnMasters { .. }
            | Operation::TellMaster
            | Operation::TellShadows
            | Operation::TellTrouble { .. }
            | Operation::OpenProducer { .. }
            | Operation::SendBundle { .. }
            | Operation::CloseProducer { .. }
            | Operation::DropProducer { .. }
            | Operation::Forget { .. } => {
                unreachable!("it is begun elsewhere: {operation:?}")
            }
            Operation::Pause(_) => unreachable!("a timer is all there is"),
        }
    }

    /// Begins an operation on a stream.
    fn begin_on_stream(
        &mut self,
        cx: &mut OperationContext<'_>,
        operation: Operation,
    ) -> Progress<Output> {
        let refused = |why: &str| Poll::Ready(Err(Failure::refused(ErrorCode::Invalid, why)));
        match operation {
            Operation::Read { file, offset, size, fresh } => {
                let began = cx.client.outbox.last_number();
                let mut read = Box::new(StreamRead::new(file, (offset, size), began, fresh));
                let progress = read.locate(cx);
                *self = Self::ReadStream(read);
                progress
            }
            Operation::Length { file } => {
                let length = LengthOperation::Locating { file };
                let progress = LengthOperation::begin_of_stream(cx, file);
                *self = Self::Length(length);
                progress
            }
            Operation::Close { file, .. } => {
                let known = cx.client.files.file(file).stream().and_then(|it| it.length(0));
                cx.client.files.closed(file);
                Poll::Ready(Ok(Output::Recorded { length: known.unwrap_or_default() }))
            }
            Operation::Sync { .. } => refused(
                "sync: the file is a stream, and what is in it was committed by its producers",
            ),
            _ => refused(
                "the file is a stream: producers alone add to it (cairn append --producer NAME)",
            ),
        }
    }

    /// The extents that a read waited for are known.
    pub(crate) fn extents_known(&mut self, cx: &mut OperationContext<'_>) -> Progress<Output> {
        match self {
            Self::ReadStream(read) => read.locate(cx),
            other => unreachable!("{other:?} looked nothing up"),
        }
    }

    /// A run of a stream is read.
    pub(crate) fn run_read(
        &mut self,
        cx: &mut OperationContext<'_>,
        task: TaskId,
        read: Option<PieceRead>,
    ) -> Progress<Output> {
        match self {
            Self::ReadStream(operation) => operation.run_read(cx, task, read),
            other => unreachable!("{other:?} reads no stream"),
        }
    }

    fn begin_sync(
        &mut self,
        cx: &mut OperationContext<'_>,
        mut work: SyncOperation,
        sync: bool,
    ) -> Progress<Output> {
        let progress = work.begin(cx, sync);
        *self = Self::Sync(work);
        progress
    }

    /// The masters have answered.
    pub(crate) fn answered(
        &mut self,
        cx: &mut OperationContext<'_>,
        mut answer: MasterAnswer,
    ) -> Progress<Output> {
        match self {
            Self::Ask => {
                if let Some(length) = complete_stat(cx, &answer) {
                    *self = Self::Length(length);
                    return Poll::Pending;
                }
                Poll::Ready(Ok(Output::Answered(answer.response)))
            }
            Self::Open => {
                learn_opened(cx.client, &mut answer);
                Poll::Ready(Ok(Output::Answered(answer.response)))
            }
            Self::CloseProducer => {
                let closed = CloseProducer::answer(Ok(answer.response));
                Poll::Ready(closed.map(|_| Output::Forgotten))
            }
            Self::Sync(work) => work.length_recorded(cx, answer),
            Self::Length(work) => work.located(cx, answer),
            other => unreachable!("{other:?} asked no master: {answer:?}"),
        }
    }

    /// A piece is read.
    pub(crate) fn piece_read(
        &mut self,
        cx: &mut OperationContext<'_>,
        task: TaskId,
        piece: PieceRead,
    ) -> Progress<Output> {
        match self {
            Self::Read(read) => read.piece_read(cx, task, piece),
            Self::Length(length) => length.piece_read(cx, &piece),
            other => unreachable!("{other:?} reads nothing"),
        }
    }

    /// What is answered although a task failed; nothing: the operation fails with it.
    pub(crate) fn despite(&mut self, failure: &Failure) -> Option<Output> {
        match self {
            Self::Length(length) => length.despite(failure),
            _ => None,
        }
    }

    /// A mutation is applied.
    pub(crate) fn applied(
        &mut self,
        cx: &mut OperationContext<'_>,
        task: TaskId,
        range: &AppliedRange,
    ) -> Progress<Output> {
        match self {
            Self::Write(write) => write.applied(cx, range),
            Self::Append(append) => append.applied(cx, range),
            Self::Sync(sync) => sync.chunk_synced(cx, task, range),
            other => unreachable!("{other:?} changes no chunk"),
        }
    }
}
