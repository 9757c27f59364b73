//! What a client tells of operations that take long: the oldest that has failed so far, and why.

use crate::operation::{Operation, Output, TroubleNotice};
use crate::test_client::{TestClient, client};
use cairn_protocol::{
    ErrorCode, Failure, Response, Stat, StatAnswer, WaitLength, WaitLengthAnswer,
};
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);
const LONG: Duration = Duration::from_secs(5);

fn trouble(client: &mut TestClient) -> Option<TroubleNotice> {
    let told = client.start(Operation::TellTrouble { longer_than: LONG });
    let result = told.lock().expect("its own").take();
    let Some(Ok(Output::Trouble(notice))) = result else { panic!("it is told at once") };
    notice
}

fn busy() -> Failure {
    Failure::not_done(ErrorCode::Busy, "the master has started a moment ago")
}

#[test]
fn what_is_tried_for_long_is_told_with_why_and_nothing_else_is() {
    let mut client = client();
    client.start(Operation::Ask(Stat::default().into()));
    client.pass(LONG + SECOND);
    assert_eq!(trouble(&mut client), None, "it has met no failure yet");
    client.fail(busy());
    let notice = trouble(&mut client).expect("it is tried again");
    assert_eq!(notice.why.message, busy().message);
    assert!(notice.tried > LONG && !notice.left.is_zero(), "{notice:?}");
    client.start(Operation::Ask(Stat::default().into()));
    client.pass(SECOND);
    client.answer(Response::Stat(StatAnswer::default()));
    client.answer(Response::Stat(StatAnswer::default()));
    assert_eq!(trouble(&mut client), None, "nothing is tried any more");
}

#[test]
fn one_that_is_young_is_not_told_of_and_no_wait_for_bytes_that_was_asked_again() {
    let mut client = client();
    client.start(Operation::Ask(Stat::default().into()));
    client.fail(busy());
    assert_eq!(trouble(&mut client), None, "that may be over in a moment");
    client.pass(SECOND);
    client.answer(Response::Stat(StatAnswer::default()));
    let wait = WaitLength { patience_ms: 60_000, ..WaitLength::default() };
    client.start(Operation::Ask(wait.into()));
    client.fail(busy());
    client.pass(LONG + SECOND);
    assert_eq!(trouble(&mut client), None, "the master parks it: nothing is wrong");
    client.answer(Response::WaitLength(WaitLengthAnswer::default()));
}
