//! What callers ask of the masters, and what a client learns from the answers in passing.

use crate::ask::{Ask, Asked};
use crate::core::{ClientCore, Work};
use crate::locations::usable_until;
use crate::operation::Output;
use crate::settings::LOCATE_COUNT;
use crate::task::{Machine, OperationId};
use cairn_protocol::{
    BATCH_OPEN_COUNT_MAX, BatchEntry, BatchResult, OpenAnswer, Request, Response, StatAnswer,
};
use cairn_types::{EntryKind, Time};

const _: () = assert!(LOCATE_COUNT <= BATCH_OPEN_COUNT_MAX);

impl ClientCore {
    pub(crate) fn begin_ask(&mut self, id: OperationId, mut request: Request, work: Work) {
        if let Request::Batch(batch) = &request
            && let Some(failure) = batch.oversized()
        {
            // It might not even fit a message.
            return self.finish(id, Err(failure));
        }
        ask_for_chunks(&mut request);
        if let Some((request, work)) = self.cx.mutations.pass(id, request, work) {
            self.ask_named(id, request, work);
        }
    }

    /// Names what the request changes, and asks it.
    pub(crate) fn ask_named(&mut self, id: OperationId, mut request: Request, work: Work) {
        let first_mutation = self.cx.mutations.name(self.cx.session, &mut request);
        if let Some(active) = self.operations.get_mut(&id) {
            (active.work, active.first_mutation) = (work, first_mutation);
        }
        match request {
            Request::Open(open) => self.join_open(id, open),
            request => {
                self.spawn(id, Machine::Ask(Ask::new(request)));
            }
        }
    }

    pub(crate) fn asked(&mut self, id: OperationId, asked: Asked) {
        match &asked.response {
            Response::CellInfo(info) => {
                if let Err(failure) = self.learn_cell(info) {
                    self.finish(id, Err(failure));
                    return;
                }
            }
            Response::Stat(answer) if self.stat_is_short(answer) => {
                let (file, stat) = (answer.entry.id, Box::new(answer.clone()));
                if let Some(last) = answer.last.clone() {
                    let (index, until) = (last.index, self.usable_until(asked.sent));
                    let locations = &mut self.cx.file(file).locations;
                    locations.chunk_count = locations.chunk_count.max(answer.entry.chunk_count);
                    locations.absorb_grant(last, asked.asked, until);
                    self.read_end(id, file, index, stat.entry.length, Some(stat));
                    return;
                }
            }
            _ => {}
        }
        self.finish(id, Ok(Output::Answered(asked.response)));
    }

    pub(crate) fn opened(&mut self, id: OperationId, mut asked: Asked) {
        match &mut asked.response {
            Response::Create(answer) => {
                self.cx.opened(answer.entry.id);
            }
            Response::Batch(answer) => {
                for result in &mut answer.results {
                    match result {
                        BatchResult::Create(answer) => {
                            self.cx.opened(answer.entry.id);
                        }
                        BatchResult::Open(answer) => {
                            self.learn_opened(answer, (asked.asked, asked.sent));
                        }
                        _ => {}
                    }
                }
            }
            Response::Open(answer) => self.learn_opened(answer, (asked.asked, asked.sent)),
            _ => {}
        }
        self.finish(id, Ok(Output::Answered(asked.response)));
    }

    /// A file is open: keeps where its chunks are.
    fn learn_opened(&mut self, answer: &mut OpenAnswer, (asked, sent): (u64, Time)) {
        if answer.entry.kind == EntryKind::File {
            let (entry, chunks) = (&answer.entry, std::mem::take(&mut answer.chunks));
            let first = chunks.first().map(|chunk| chunk.index).unwrap_or_default();
            let until = self.usable_until(sent);
            let locations = &mut self.cx.opened(entry.id).locations;
            locations.absorb(entry, first, chunks, asked, until);
        }
    }

    /// Until when the answer to a question asked at `sent` may be used.
    fn usable_until(&self, sent: Time) -> Time {
        let ttl_ms = self.cx.config.as_ref().map_or(0, |config| config.location_ttl_ms);
        usable_until(sent, ttl_ms)
    }

    /// Whether a primary may know of more bytes than the master.
    fn stat_is_short(&self, answer: &StatAnswer) -> bool {
        let leased = answer.last.as_ref().is_some_and(|last| last.primary.is_some());
        leased && answer.entry.kind == EntryKind::File && self.cx.config.is_some()
    }
}

/// An open asks for as many chunks as one answer holds.
fn ask_for_chunks(request: &mut Request) {
    match request {
        Request::Open(asked) => asked.count = LOCATE_COUNT,
        Request::Batch(batch) => {
            for entry in &mut batch.entries {
                if let BatchEntry::Open(asked) = entry {
                    asked.count = LOCATE_COUNT;
                }
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use crate::Operation;
    use crate::operation::Output;
    use crate::test_client::{FILE, chunk, client, connected, is_done, result};
    use cairn_protocol::{
        CellInfo, CellInfoAnswer, ErrorCode, Open, OpenAnswer, Read, Request, Response,
    };
    use cairn_types::Entry;

    fn answer() -> OpenAnswer {
        let entry = Entry { id: FILE, chunk_count: 1, ..Entry::default() };
        OpenAnswer { entry, chunks: vec![chunk(0, 5, &[1], None)] }
    }

    fn read() -> Operation {
        Operation::ReadAt { file: FILE, offset: 0, size: 1, fresh: false }
    }

    #[test]
    fn what_an_open_tells_of_chunks_is_kept_and_not_passed_on() {
        let mut client = connected();
        let done = client.start(Operation::Open(Open::default().into()));
        client.answer(Response::Open(answer()));
        let without = OpenAnswer { chunks: Vec::new(), ..answer() };
        assert_eq!(result(&done), Ok(Output::Answered(Response::Open(without))));
        client.start(read());
        assert!(matches!(client.call().request, Request::Read(Read { .. })));
    }

    #[test]
    fn a_mere_question_is_answered_in_full_and_keeps_nothing() {
        let mut client = connected();
        let done = client.start(Operation::Ask(Open::default().into()));
        client.answer(Response::Open(answer()));
        assert_eq!(result(&done), Ok(Output::Answered(Response::Open(answer()))));
        client.start(read());
        assert!(matches!(client.call().request, Request::Locate(_)));
    }

    #[test]
    fn a_forgotten_file_is_located_anew() {
        let mut client = connected();
        client.start(Operation::Open(Open::default().into()));
        client.answer(Response::Open(answer()));
        let forgotten = client.start(Operation::Forget { file: FILE });
        assert_eq!(result(&forgotten), Ok(Output::Forgotten));
        client.start(read());
        assert!(matches!(client.call().request, Request::Locate(_)));
    }

    #[test]
    fn settings_that_do_not_fit_together_are_not_learnt() {
        let mut client = client();
        let outcome = client.start(Operation::Ask(CellInfo {}.into()));
        client.answer(Response::CellInfo(CellInfoAnswer::default()));
        assert!(is_done(&outcome));
        assert_eq!(result(&outcome).map_err(|failure| failure.code), Err(ErrorCode::Invalid));
    }
}
