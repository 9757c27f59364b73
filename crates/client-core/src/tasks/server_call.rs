//! One question to one chunkserver, asked once: for whoever wants to know what that server says,
//! and not what the cell says.

use crate::tasks::task_context::{Progress, TaskContext, TaskInput};
use bytes::Bytes;
use cairn_env::EffectId;
use cairn_protocol::{ErrorCode, Failure, Request, Response};
use cairn_types::ReplicaAt;
use std::task::Poll;

/// The question.
#[derive(Debug)]
pub(crate) struct ServerCall {
    at: ReplicaAt,
    request: Request,
    call: Option<EffectId>,
}

impl ServerCall {
    pub(crate) fn new(at: ReplicaAt, request: Request) -> Self {
        Self { at, request, call: None }
    }

    pub(crate) fn on(&mut self, cx: &mut TaskContext<'_>, input: TaskInput) -> Progress<Response> {
        match input {
            TaskInput::Begin => {
                let to = (self.at.address.clone(), self.at.server);
                let patience = cx.deadline.since(cx.now());
                self.call = Some(cx.call(to, self.request.clone(), Bytes::new(), patience));
                Poll::Pending
            }
            TaskInput::Answered(id, result) => {
                assert_eq!(self.call, Some(id), "it asks once");
                Poll::Ready(result.and_then(|answer| self.checked(answer.response)))
            }
            other => unreachable!("a question to a server is not moved by {other:?}"),
        }
    }

    fn checked(&self, response: Response) -> Result<Response, Failure> {
        if response.kind() == self.request.kind() {
            return Ok(response);
        }
        let (asked, answered) = (self.request.name(), response.name());
        let line = format!("a chunkserver answered {asked} as if it had been {answered}");
        Err(Failure::unknown(ErrorCode::Internal, line))
    }
}

#[cfg(test)]
mod tests {
    use crate::operation::{Operation, Output};
    use crate::test_client::{client, result};
    use cairn_protocol::{
        ErrorCode, Failure, ListHeld, ListHeldAnswer, ProbeAnswer, Request, Response,
    };
    use cairn_types::{Address, ReplicaAt, ServerId};

    fn ask() -> Operation {
        let address = Address::new("s7:1");
        let at = ReplicaAt { server: ServerId::new(7), address, ..ReplicaAt::default() };
        Operation::AskServer { at, request: ListHeld::default().into() }
    }

    #[test]
    fn the_server_meant_is_asked_once_and_its_word_is_the_answer() {
        let mut client = client();
        let done = client.start(ask());
        let call = client.call();
        assert_eq!(call.to.as_str(), "s7:1");
        assert!(matches!(call.request, Request::ListHeld(_)));
        let answer = Response::ListHeld(ListHeldAnswer::default());
        client.tell(&call, Ok(answer.clone()));
        assert_eq!(result(&done), Ok(Output::Answered(answer)));
        let done = client.start(ask());
        let call = client.call();
        client.tell(&call, Err(Failure::not_done(ErrorCode::Unreachable, "gone")));
        assert_eq!(result(&done).expect_err("it is gone").code, ErrorCode::Unreachable);
        client.assert_asks_nobody();
        let done = client.start(ask());
        let call = client.call();
        client.tell(&call, Ok(Response::Probe(ProbeAnswer::default())));
        assert_eq!(result(&done).expect_err("another kind").code, ErrorCode::Internal);
    }
}
