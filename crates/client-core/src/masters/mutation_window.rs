//! The mutations of names that are on their way: never so many that the masters forget the oldest
//! while it may have to be repeated (R24).
//!
//! ```text
//!   answered │ lowest under way · · · · · · · · highest named │ held back: no number yet
//!            └──────── at most SESSION_MUTATIONS_MAX ─────────┘
//! ```
//! - N1: from the lowest number of an operation that is not over to the highest there are at most
//!   so many. A request that outlives its operation may come too late; then it is not done again.
//! - N2: what would be more is held back, and goes in the order in which it came. It has no number
//!   then, and at its deadline it was not done.

use crate::ids::OperationId;
use cairn_protocol::{
    BATCH_COUNT_MAX, BatchEntry, ErrorCode, Failure, Request, SESSION_MUTATIONS_MAX,
};
use cairn_types::{MutationName, MutationNumber, SessionId};
use std::collections::{BTreeMap, BTreeSet};

const _: () = assert!(BATCH_COUNT_MAX as u64 <= SESSION_MUTATIONS_MAX);

/// A request whose turn has not come.
#[derive(Debug)]
struct HeldRequest {
    request: Request,
    /// Its mutations.
    count: u64,
}

/// The numbers of one client, and what waits for some.
#[derive(Debug, Default)]
pub(crate) struct MutationWindow {
    highest: MutationNumber,
    /// The lowest number of each operation that has any.
    under_way: BTreeSet<MutationNumber>,
    /// In the order in which they came, as operations are numbered.
    held: BTreeMap<OperationId, HeldRequest>,
}

impl MutationWindow {
    /// Gives the request back if it may be asked now; else holds it back (N2).
    pub(crate) fn pass(&mut self, operation: OperationId, mut request: Request) -> Option<Request> {
        let count = names(&mut request).count() as u64;
        assert!(count <= SESSION_MUTATIONS_MAX, "{count} mutations in one request: it never fits");
        if count == 0 || (self.held.is_empty() && self.has_room(count)) {
            return Some(request);
        }
        let same = self.held.insert(operation, HeldRequest { request, count });
        assert!(same.is_none(), "an operation asks one request");
        None
    }

    /// The next that was held back, if it may be asked now.
    pub(crate) fn next_held(&mut self) -> Option<(OperationId, Request)> {
        let (_, next) = self.held.first_key_value()?;
        if !self.has_room(next.count) {
            return None;
        }
        self.held.pop_first().map(|(operation, held)| (operation, held.request))
    }

    /// An operation is over; if it was held back, that is over too.
    pub(crate) fn drop_held(&mut self, operation: OperationId) {
        self.held.remove(&operation);
    }

    /// Why an operation has not been asked for: it is held back.
    pub(crate) fn why_held(&self, operation: OperationId) -> Option<Failure> {
        self.held.get(&operation)?;
        let line = format!(
            "held back behind {SESSION_MUTATIONS_MAX} changes of names that this client asked for \
             before; the first of them is not answered yet"
        );
        Some(Failure::not_done(ErrorCode::Busy, line))
    }

    /// Whether so many more may be named (N1).
    fn has_room(&self, count: u64) -> bool {
        let lowest = self.under_way.first().copied().unwrap_or(self.highest.next());
        self.highest.get() + 1 - lowest.get() + count <= SESSION_MUTATIONS_MAX
    }

    /// Names what the request changes (R24); gives the first number.
    pub(crate) fn name(
        &mut self,
        session: SessionId,
        request: &mut Request,
    ) -> Option<MutationNumber> {
        let before = self.highest;
        for name in names(request) {
            self.highest = self.highest.next();
            *name = MutationName { session, number: self.highest };
        }
        let first = (self.highest > before).then_some(before.next());
        self.under_way.extend(first);
        assert!(self.has_room(0), "N1: {:?} to {:?}", self.under_way.first(), self.highest);
        first
    }

    /// An operation is over whose first number this was.
    pub(crate) fn over(&mut self, first: MutationNumber) {
        assert!(self.under_way.remove(&first), "an operation is over once");
    }
}

/// Where the names of a request's mutations stand.
fn names(request: &mut Request) -> impl Iterator<Item = &mut MutationName> {
    let (one, batch) = match request {
        Request::MakeDirectory(asked) => (Some(&mut asked.mutation), None),
        Request::Create(asked) => (Some(&mut asked.mutation), None),
        Request::Rename(asked) => (Some(&mut asked.mutation), None),
        Request::Delete(asked) => (Some(&mut asked.mutation), None),
        Request::Undelete(asked) => (Some(&mut asked.mutation), None),
        Request::SetPolicy(asked) => (Some(&mut asked.mutation), None),
        Request::SetQuota(asked) => (Some(&mut asked.mutation), None),
        Request::Snapshot(asked) => (Some(&mut asked.mutation), None),
        Request::SetAttributes(asked) => (Some(&mut asked.mutation), None),
        Request::OpenProducer(asked) => (Some(&mut asked.mutation), None),
        Request::ForgetProducer(asked) => (Some(&mut asked.mutation), None),
        Request::Batch(batch) => (None, Some(&mut batch.entries)),
        _ => (None, None),
    };
    one.into_iter().chain(batch.into_iter().flatten().filter_map(BatchEntry::mutation_mut))
}

#[cfg(test)]
mod tests {
    use crate::operation::Operation;
    use crate::test_client::{TestClient, client, is_done, result};
    use cairn_protocol::{
        BATCH_COUNT_MAX, Batch, BatchAnswer, BatchEntry, Delete, ErrorCode, Failure, Outcome,
        Request, Response, SESSION_MUTATIONS_MAX, Stat,
    };
    use std::time::Duration;

    fn batch(count: usize) -> Operation {
        let entries = vec![BatchEntry::Delete(Delete::default()); count];
        Operation::Ask(Batch { entries }.into())
    }

    fn numbers(request: &Request) -> Vec<u64> {
        let mut request = request.clone();
        super::names(&mut request).map(|name| name.number.get()).collect()
    }

    fn answer(client: &mut TestClient, call: &crate::test_client::Call) {
        client.tell(call, Ok(Response::Batch(BatchAnswer::default())));
    }

    /// A client whose window is full, and its calls.
    fn full() -> (TestClient, Vec<crate::test_client::Call>) {
        let mut client = client();
        let count = SESSION_MUTATIONS_MAX as usize / BATCH_COUNT_MAX;
        client.start_all(vec![batch(BATCH_COUNT_MAX); count]);
        let calls: Vec<_> = (0..count).map(|_| client.call()).collect();
        let last = calls.last().map(|call| numbers(&call.request)).unwrap_or_default();
        assert_eq!(last.last(), Some(&SESSION_MUTATIONS_MAX));
        (client, calls)
    }

    #[test]
    fn a_number_goes_out_only_while_the_lowest_without_an_answer_is_near() {
        let (mut client, calls) = full();
        let held = client.start_all(vec![batch(1), batch(BATCH_COUNT_MAX), batch(1)]);
        client.start(Operation::Ask(Stat::default().into()));
        assert!(matches!(client.call().request, Request::Stat(_)), "it changes nothing");
        client.assert_asks_nobody();
        // Later ones answered make no room: the lowest may still have to be repeated.
        for call in &calls[1..] {
            answer(&mut client, call);
        }
        client.assert_asks_nobody();
        answer(&mut client, &calls[0]);
        let asked: Vec<_> = held.iter().map(|_| client.call()).collect();
        let first = asked.iter().map(|call| numbers(&call.request)[0] - SESSION_MUTATIONS_MAX);
        assert_eq!(first.collect::<Vec<_>>(), [1, 2, 2 + BATCH_COUNT_MAX as u64]);
        asked.iter().for_each(|call| answer(&mut client, call));
        assert!(held.iter().all(is_done));
    }

    #[test]
    fn what_is_held_back_goes_in_its_order_and_at_its_deadline_it_was_not_done() {
        let (mut client, calls) = full();
        let soon = (batch(BATCH_COUNT_MAX), Duration::from_secs(1));
        let late = (batch(1), Duration::from_secs(60));
        let outcomes = client.start_all_within(&[soon, late]);
        client.pass(Duration::from_secs(2));
        let failure = result(&outcomes[0]).expect_err("its second is over");
        assert_eq!((failure.code, failure.outcome), (ErrorCode::Busy, Outcome::NotDone));
        assert!(failure.message.contains("held back behind 8192 changes"), "{failure:?}");
        // Nobody's number was lost with it, and it holds nobody up.
        answer(&mut client, &calls[0]);
        assert_eq!(numbers(&client.call().request), [SESSION_MUTATIONS_MAX + 1]);
        client.assert_asks_nobody();
    }

    #[test]
    fn however_the_lowest_ends_what_is_held_back_goes() {
        let next = [SESSION_MUTATIONS_MAX + 1];
        let (mut client, calls) = full();
        client.start(batch(1));
        client.tell(&calls[0], Err(Failure::refused(ErrorCode::Invalid, "no such batch")));
        assert_eq!(numbers(&client.call().request), next, "refused");
        let (mut client, _) = full();
        client.start_all_within(&[(batch(1), Duration::from_secs(120))]);
        while client.has_calls() {
            client.call();
        }
        client.pass(Duration::from_secs(61));
        let asked: Vec<_> = std::iter::from_fn(|| client.has_calls().then(|| client.call()))
            .map(|call| numbers(&call.request))
            .filter(|numbers| numbers[0] > SESSION_MUTATIONS_MAX)
            .collect();
        assert_eq!(asked, [next], "at its deadline");
    }
}
