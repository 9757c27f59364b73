//! What a client learns in passing from the masters' answers to its callers.

use crate::context::ClientContext;
use crate::operations::length_operation::LengthOperation;
use crate::operations::operation_context::OperationContext;
use crate::settings::LOCATE_COUNT;
use crate::tasks::master_call::{AnsweredBy, MasterAnswer};
use cairn_protocol::{
    BATCH_OPEN_COUNT_MAX, BatchEntry, BatchResult, ChunkLocations, OPEN_EXTENTS_MAX, OpenAnswer,
    ReadExtentsAnswer, Request, Response, StatAnswer,
};
use cairn_types::{Entry, EntryKind, Layout};

const _: () = assert!(LOCATE_COUNT <= BATCH_OPEN_COUNT_MAX);

/// An open asks for as many chunks as one answer holds.
pub(crate) fn ask_for_chunks(request: &mut Request) {
    match request {
        Request::Open(asked) => {
            (asked.count, asked.extents) = (LOCATE_COUNT, OPEN_EXTENTS_MAX as u32);
        }
        Request::Batch(batch) => {
            for entry in &mut batch.entries {
                if let BatchEntry::Open(asked) = entry {
                    asked.count = LOCATE_COUNT;
                }
            }
        }
        // Nothing else opens files.
        _ => {}
    }
}

/// Where a primary may know of more bytes than the master, it is asked before a `Stat` is
/// answered.
pub(crate) fn complete_stat(
    cx: &mut OperationContext<'_>,
    answer: &MasterAnswer,
) -> Option<LengthOperation> {
    let Response::Stat(stat) = &answer.response else { return None };
    // A shadow knows of no leases: whoever has the chunk is asked.
    let may_be_longer = |last: &&ChunkLocations| match answer.by.is_shadow {
        true => !last.closed && !last.replicas.is_empty(),
        false => last.primary.is_some(),
    };
    let last = stat.last.as_deref().filter(may_be_longer)?;
    let is_file = stat.entry.kind == EntryKind::File && stat.entry.layout == Layout::Chunks;
    if !is_file || cx.client.config.is_none() {
        return None;
    }
    let StatAnswer { entry, .. } = stat;
    let question = cx.client.question(answer.by);
    let locations = &mut cx.client.files.file(entry.id).locations;
    locations.chunk_count = locations.chunk_count.max(entry.chunk_count);
    locations.absorb_grant(last.clone(), question);
    let stat = Some(Box::new(stat.clone()));
    Some(LengthOperation::read_end(cx, entry.id, last.index, entry.length, stat))
}

/// Files are open: keeps where their chunks are, and takes that out of the answer.
pub(crate) fn learn_opened(client: &mut ClientContext, answer: &mut MasterAnswer) {
    let by = answer.by;
    match &mut answer.response {
        Response::Create(created) => learn_created(client, &created.entry, by),
        Response::Open(opened) => learn_locations(client, opened, by),
        Response::Batch(batch) => {
            for result in &mut batch.results {
                match result {
                    BatchResult::Create(created) => learn_created(client, &created.entry, by),
                    BatchResult::Open(opened) => learn_locations(client, opened, by),
                    // It failed, or opens nothing.
                    _ => {}
                }
            }
        }
        // Nothing else opens files.
        _ => {}
    }
}

fn learn_created(client: &mut ClientContext, entry: &Entry, by: AnsweredBy) {
    let file = client.files.opened(entry.id);
    if entry.layout == Layout::Stream {
        file.is_stream(entry.length, by.asked);
    }
}

fn learn_locations(client: &mut ClientContext, answer: &mut OpenAnswer, by: AnsweredBy) {
    if answer.entry.kind == EntryKind::File {
        let (entry, chunks) = (&answer.entry, std::mem::take(&mut answer.chunks));
        if entry.layout == Layout::Stream {
            learn_created(client, entry, by);
            let told = answer.stream.take();
            return told.into_iter().for_each(|told| learn_extents(client, *told, by));
        }
        let first = chunks.first().map(|chunk| chunk.index).unwrap_or_default();
        let question = client.question(by);
        let locations = &mut client.files.opened(entry.id).locations;
        locations.absorb(entry, first, chunks, question);
    }
}

/// An open has brought where the stream's bytes are (TFS §2.3).
fn learn_extents(client: &mut ClientContext, told: ReadExtentsAnswer, by: AnsweredBy) {
    let question = client.question(by);
    client.log_seen = client.log_seen.max(told.log);
    if let Some(stream) = client.files.file(told.entry.id).stream_mut()
        && !told.extents.is_empty()
    {
        stream.absorb(0, told, question);
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
    use cairn_types::{CellConfig, Entry};

    fn answer() -> OpenAnswer {
        let entry = Entry { id: FILE, chunk_count: 1, ..Entry::default() };
        OpenAnswer { entry, chunks: vec![chunk(0, 5, &[1], None)], ..OpenAnswer::default() }
    }

    fn read() -> Operation {
        Operation::Read { file: FILE, offset: 0, size: 1, fresh: false }
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

    #[test]
    fn a_cell_whose_master_is_older_has_the_standard_for_what_that_one_does_not_know() {
        let mut client = client();
        let outcome = client.start(Operation::Ask(CellInfo {}.into()));
        let (settle_rate, settle_after_ms, cursors_kept_ms) = (0, 0, 0);
        let unknown = CellConfig { settle_rate, settle_after_ms, ..CellConfig::standard() };
        let config = CellConfig { cursors_kept_ms, ..unknown };
        client.answer(Response::CellInfo(CellInfoAnswer {
            config: config.into(),
            ..CellInfoAnswer::default()
        }));
        assert!(result(&outcome).is_ok());
        client.start(read());
        assert!(matches!(client.call().request, Request::Locate(_)), "files can be used");
    }
}
