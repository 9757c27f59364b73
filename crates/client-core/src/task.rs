//! Tasks: the small machines that an operation is made of, and what moves them.

use crate::ask::{Ask, Asked};
use crate::context::Context;
use crate::mutation::{Mutated, Mutation};
use crate::read_piece::{PieceDone, ReadPiece};
use cairn_env::{Answer, EffectId};
use cairn_protocol::Failure;
use cairn_types::Time;

/// Names a task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TaskId(pub(crate) u64);

/// Names an operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct OperationId(pub(crate) u64);

/// What moves a task.
#[derive(Debug)]
pub(crate) enum Input {
    /// Its first.
    Begin,
    /// An alarm that it set.
    Alarm,
    /// A call that it made.
    Answered(EffectId, Result<Answer, Failure>),
    /// The write that it waited for holds it up no more.
    Passed,
    /// What it wanted of the masters has been asked, or cannot be.
    Wanted(Result<(), Failure>),
}

/// How far a task is.
#[derive(Debug)]
pub(crate) enum Progress<T> {
    /// It waits for another input.
    Pending,
    /// It is over.
    Over(Result<T, Failure>),
}

/// What a task came to.
#[derive(Debug)]
pub(crate) enum TaskResult {
    Asked(Asked),
    Piece(PieceDone),
    Mutated(Mutated),
}

/// The machines.
#[derive(Debug)]
pub(crate) enum Machine {
    Ask(Ask),
    Piece(ReadPiece),
    Mutation(Mutation),
}

/// Whom a task serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// One operation.
    Operation(OperationId),
    /// All who want this answer.
    Shared,
    /// Those whose files it opens.
    Opens,
}

/// One task.
#[derive(Debug)]
pub(crate) struct Task {
    pub(crate) owner: Owner,
    pub(crate) deadline: Time,
    pub(crate) machine: Machine,
}

/// Names itself to the world and knows when to give up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Me {
    pub(crate) id: TaskId,
    pub(crate) deadline: Time,
}

impl Machine {
    pub(crate) fn on(&mut self, cx: &mut Context, me: Me, input: Input) -> Progress<TaskResult> {
        match self {
            Self::Ask(ask) => ask.on(cx, me, input).map(TaskResult::Asked),
            Self::Piece(piece) => piece.on(cx, me, input).map(TaskResult::Piece),
            Self::Mutation(mutation) => mutation.on(cx, me, input).map(TaskResult::Mutated),
        }
    }

    /// It is taken away before it is over.
    pub(crate) fn leave(&mut self, cx: &mut Context, id: TaskId) {
        if let Self::Mutation(mutation) = self {
            mutation.leave(cx, id);
        }
    }

    /// Whether something that changes the cell may come of requests already sent (K1).
    pub(crate) fn may_have_happened(&self) -> bool {
        match self {
            Self::Ask(ask) => ask.may_have_happened(),
            Self::Piece(_) => false,
            Self::Mutation(mutation) => mutation.may_have_happened(),
        }
    }

    /// The last thing that went wrong.
    pub(crate) fn last_failure(&self) -> Option<&Failure> {
        match self {
            Self::Ask(ask) => ask.last_failure(),
            Self::Piece(piece) => piece.last_failure(),
            Self::Mutation(mutation) => mutation.last_failure(),
        }
    }
}

impl<T> Progress<T> {
    fn map<U>(self, into: impl FnOnce(T) -> U) -> Progress<U> {
        match self {
            Self::Pending => Progress::Pending,
            Self::Over(result) => Progress::Over(result.map(into)),
        }
    }
}
