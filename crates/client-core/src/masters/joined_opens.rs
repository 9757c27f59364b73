//! Files that many callers open at once: one question for all of them.
//!
//! ```text
//!   Open ──┐                                  ┌─► Open's answer ──► Answered
//!   Open ──┼─► the batch ends: one question ──┼─► its own failure ──► Failed
//!   Open ──┘                                  └─► anything else ──► asked again
//! ```
//! - J1: opens that come within one batch of events leave together at its end. One alone goes as
//!   it came.
//! - J2: each is answered as a question of its own would be, but for the end of a very long line
//!   about a failure; where the answer does not tell, it is asked for again, where no other is told
//!   either, alone. Nothing is changed by an open, so it may be asked as often as one likes.

use crate::ids::{OperationId, TaskId};
use crate::retry::is_final;
use crate::tasks::master_call::{AnsweredBy, MasterAnswer};
use cairn_protocol::{
    BATCH_PATHS_SIZE_MAX, Batch, BatchEntry, BatchResult, ErrorCode, Failure, Open, Response, Rpc,
};
use cairn_types::PATH_SIZE_MAX;
use std::collections::BTreeMap;

/// Opens in one question, within the limits of a batch however long their paths.
const JOINED_MAX: usize = 256;

const _: () = assert!(JOINED_MAX * PATH_SIZE_MAX <= BATCH_PATHS_SIZE_MAX);

/// An operation whose only question is an open.
#[derive(Debug)]
pub(crate) struct JoinedOpen {
    pub(crate) operation: OperationId,
    pub(crate) open: Open,
}

/// What of a shared question's answer concerns one open.
#[derive(Debug)]
pub(crate) enum JoinedAnswer {
    Answered(MasterAnswer),
    Failed(Failure),
    /// There was no room for it beside the others: it joins the next ones.
    JoinsAgain,
    /// Nothing was told of it (J2).
    AsksAlone,
}

/// The opens that wait for the batch's end, and those that one question was asked for.
#[derive(Debug, Default)]
pub(crate) struct JoinedOpens {
    waiting: Vec<JoinedOpen>,
    under_way: BTreeMap<TaskId, Vec<JoinedOpen>>,
}

impl JoinedOpens {
    /// An operation's only question is an open: it leaves when the batch ends (J1).
    pub(crate) fn join(&mut self, joined: JoinedOpen) {
        self.waiting.push(joined);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Forgets the opens that wait and are not wanted any more.
    pub(crate) fn retain_waiting(&mut self, is_wanted: impl Fn(OperationId) -> bool) {
        self.waiting.retain(|joined| is_wanted(joined.operation));
    }

    /// Takes the next opens that wait, as many as one question holds.
    pub(crate) fn take_group(&mut self) -> Option<Vec<JoinedOpen>> {
        let rest = self.waiting.split_off(self.waiting.len().min(JOINED_MAX));
        let group = std::mem::replace(&mut self.waiting, rest);
        (!group.is_empty()).then_some(group)
    }

    /// The question for a group.
    pub(crate) fn question(group: &[JoinedOpen]) -> Batch {
        let entry = |joined: &JoinedOpen| BatchEntry::from(joined.open.clone());
        Batch { entries: group.iter().map(entry).collect() }
    }

    /// A group's question was asked.
    pub(crate) fn asked(&mut self, question: TaskId, group: Vec<JoinedOpen>) {
        assert!(group.len() > 1, "J1: one alone goes as it came");
        assert!(group.len() <= JOINED_MAX, "J1: a question has room for {JOINED_MAX}");
        self.under_way.insert(question, group);
    }

    /// The question that an operation shares, if it does.
    pub(crate) fn question_of(&self, operation: OperationId) -> Option<TaskId> {
        let shares = |group: &[JoinedOpen]| group.iter().any(|one| one.operation == operation);
        self.under_way.iter().find(|(_, group)| shares(group)).map(|(question, _)| *question)
    }

    /// A group's question was answered, or cannot be: what that means for each.
    pub(crate) fn answered(
        &mut self,
        question: TaskId,
        result: Result<MasterAnswer, Failure>,
    ) -> impl Iterator<Item = (JoinedOpen, JoinedAnswer)> + use<> {
        let group = self.under_way.remove(&question).expect("a question is asked for a group");
        let (mut results, mut number) = (Vec::new(), AnsweredBy::default());
        if let Ok(MasterAnswer { response, by }) = result
            && let Ok(answer) = Batch::answer(Ok(response))
            && answer.results.len() == group.len()
        {
            (results, number) = (answer.results, by);
        }
        let some_are_told = results.iter().any(|result| matches!(result, BatchResult::Open(_)));
        let mut results = results.into_iter();
        group.into_iter().map(move |joined| {
            let answer = match results.next() {
                Some(BatchResult::Open(answer)) => {
                    let (response, by) = (Response::Open(answer), number);
                    JoinedAnswer::Answered(MasterAnswer { response, by })
                }
                Some(BatchResult::Failed(failure)) if is_final(&failure) => {
                    JoinedAnswer::Failed(failure)
                }
                Some(BatchResult::Failed(Failure { code: ErrorCode::Busy, .. }))
                    if some_are_told =>
                {
                    JoinedAnswer::JoinsAgain
                }
                _ => JoinedAnswer::AsksAlone,
            };
            (joined, answer)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::JOINED_MAX;
    use crate::operation::{Operation, Output};
    use crate::test_client::{FILE, ResultSlot, TestClient, chunk, connected, is_done, result};
    use cairn_protocol::{
        Batch, BatchAnswer, BatchEntry, BatchResult, ErrorCode, Failure, Open, OpenAnswer, Read,
        Request, Response,
    };
    use cairn_types::{CellPath, Entry, EntryId};
    use std::time::Duration;

    fn open(name: &str) -> Open {
        let path = CellPath::root().join(name).expect("a name");
        Open { path, ..Open::default() }
    }

    fn start(client: &mut TestClient, names: &[&str]) -> Vec<ResultSlot> {
        client.start_all(names.iter().map(|name| Operation::Open(open(name).into())).collect())
    }

    fn answer(id: EntryId) -> OpenAnswer {
        let entry = Entry { id, chunk_count: 1, ..Entry::default() };
        OpenAnswer { entry, chunks: vec![chunk(0, 5, &[1], None)], ..OpenAnswer::default() }
    }

    fn names_of(request: &Request) -> Vec<String> {
        let name = |path: &CellPath| path.name().unwrap_or_default().to_owned();
        match request {
            Request::Open(open) => vec![name(&open.path)],
            Request::Batch(Batch { entries }) => (entries.iter())
                .map(|entry| match entry {
                    BatchEntry::Open(open) => name(&open.path),
                    other => panic!("not an open: {other:?}"),
                })
                .collect(),
            other => panic!("not an open: {other:?}"),
        }
    }

    fn opened(outcome: &ResultSlot) -> Result<EntryId, ErrorCode> {
        match result(outcome) {
            Ok(Output::Answered(Response::Open(answer))) => Ok(answer.entry.id),
            Err(failure) => Err(failure.code),
            other => panic!("no answer to an open: {other:?}"),
        }
    }

    #[test]
    fn what_one_turn_opens_is_one_question_and_each_is_told_its_own_answer() {
        let mut client = connected();
        let mut opens = start(&mut client, &["a", "b"]);
        opens.extend(client.start_all(vec![Operation::Ask(open("c").into())]));
        let call = client.call();
        assert_eq!(names_of(&call.request), ["a", "b"]);
        let missing = Failure::refused(ErrorCode::NotFound, "/b: no such file");
        let results = vec![BatchResult::Open(answer(FILE)), BatchResult::Failed(missing)];
        client.tell(&call, Ok(Response::Batch(BatchAnswer { results })));
        assert_eq!(opened(&opens[0]), Ok(FILE));
        assert_eq!(opened(&opens[1]), Err(ErrorCode::NotFound));
        assert_eq!(names_of(&client.call().request), ["c"], "alone it goes as it came");
        assert!(!is_done(&opens[2]));
        // What was told of chunks is kept.
        client.start(Operation::Read { file: FILE, offset: 0, size: 1, fresh: false });
        assert!(matches!(client.call().request, Request::Read(Read { .. })));
    }

    #[test]
    fn what_a_mere_question_is_told_in_a_batch_it_is_told_in_full() {
        let mut client = connected();
        let ask = |name| Operation::Ask(open(name).into());
        let asked = client.start_all(vec![ask("a"), ask("b")]);
        let results = vec![BatchResult::Open(answer(FILE)); 2];
        client.answer(Response::Batch(BatchAnswer { results }));
        for asked in asked {
            assert_eq!(result(&asked), Ok(Output::Answered(Response::Open(answer(FILE)))));
        }
        client.start(Operation::Read { file: FILE, offset: 0, size: 1, fresh: false });
        assert!(matches!(client.call().request, Request::Locate(_)));
    }

    #[test]
    fn what_the_batch_does_not_tell_is_asked_for_alone() {
        let busy = Failure::not_done(ErrorCode::Busy, "more locations than a batch is told");
        let results = vec![BatchResult::Failed(busy); 2];
        let other = vec![BatchResult::default()];
        let unheard_of = Failure::refused(ErrorCode::Invalid, "no such entry of a batch");
        for told in [
            Ok(Response::Batch(BatchAnswer { results })),
            Ok(Response::Batch(BatchAnswer { results: other })),
            Err(unheard_of),
        ] {
            let mut client = connected();
            let opens = start(&mut client, &["a", "b"]);
            let call = client.call();
            client.tell(&call, told);
            for name in ["a", "b"] {
                let call = client.answer(Response::Open(answer(FILE)));
                assert_eq!(names_of(&call.request), [name]);
            }
            client.assert_asks_nobody();
            assert_eq!(opens.iter().map(opened).collect::<Vec<_>>(), [Ok(FILE), Ok(FILE)]);
        }
    }

    #[test]
    fn those_for_which_there_was_no_room_go_together_again() {
        let mut client = connected();
        let opens = start(&mut client, &["a", "b", "c"]);
        let busy = BatchResult::Failed(Failure::not_done(ErrorCode::Busy, "no room"));
        let told = || BatchResult::Open(answer(FILE));
        let results = vec![told(), busy.clone(), busy];
        client.answer(Response::Batch(BatchAnswer { results }));
        let call = client.answer(Response::Batch(BatchAnswer { results: vec![told(), told()] }));
        assert_eq!(names_of(&call.request), ["b", "c"]);
        client.assert_asks_nobody();
        assert!(opens.iter().map(opened).all(|opened| opened == Ok(FILE)));
    }

    #[test]
    fn an_open_that_is_past_its_deadline_hears_nothing_of_the_answer_that_comes_later() {
        let mut client = connected();
        let opens = client.start_all_within(&[
            (Operation::Open(open("a").into()), Duration::from_secs(1)),
            (Operation::Open(open("b").into()), Duration::from_secs(60)),
        ]);
        let call = client.call();
        client.pass(Duration::from_secs(2));
        assert_eq!(opened(&opens[0]), Err(ErrorCode::DeadlineExceeded));
        assert!(!is_done(&opens[1]));
        let results = vec![BatchResult::Open(answer(FILE)); 2];
        client.tell(&call, Ok(Response::Batch(BatchAnswer { results })));
        assert_eq!(opened(&opens[1]), Ok(FILE));
    }

    #[test]
    fn a_question_for_many_is_asked_again_and_at_the_deadline_each_is_told_why() {
        let mut client = connected();
        let opens = start(&mut client, &["a", "b"]);
        let silent = Failure::not_done(ErrorCode::Unreachable, "connection refused");
        client.fail(silent.clone());
        client.find("m2:1", 1);
        assert_eq!(names_of(&client.fail(silent).request), ["a", "b"]);
        client.pass(Duration::from_secs(61));
        for open in opens {
            let failure = result(&open).expect_err("nobody answered");
            assert_eq!(failure.code, ErrorCode::Unreachable);
            assert!(failure.message.contains("connection refused"));
        }
    }

    #[test]
    fn more_than_one_question_holds_are_several() {
        let mut client = connected();
        let opens = (0..=JOINED_MAX).map(|n| Operation::Open(open(&n.to_string()).into()));
        client.start_all(opens.collect());
        assert_eq!(names_of(&client.call().request).len(), JOINED_MAX);
        assert_eq!(names_of(&client.call().request), [JOINED_MAX.to_string()]);
    }
}
