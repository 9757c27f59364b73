//! Which requests a shadow master may be asked, and its answers as those to them.

use crate::{BatchEntry, Failure, Request, Response, ShadowQuestion, ShadowWord};
use cairn_types::LogIndex;

impl ShadowQuestion {
    /// The same question as a shadow is asked it, if it may be.
    #[must_use]
    pub fn of(request: &Request) -> Option<Self> {
        Some(match request {
            Request::CellInfo(ask) => Self::CellInfo(ask.clone()),
            Request::Stat(ask) => Self::Stat(ask.clone()),
            Request::Open(ask) => Self::Open(ask.clone()),
            Request::Locate(ask) => Self::Locate(ask.clone()),
            Request::List(ask) => Self::List(ask.clone()),
            Request::Find(ask) => Self::Find(ask.clone()),
            Request::Batch(ask) if !ask.entries.iter().any(BatchEntry::is_mutation) => {
                Self::Batch(ask.clone())
            }
            Request::ReadExtents(ask) => Self::ReadExtents(ask.clone()),
            Request::WaitLength(ask) => Self::WaitLength(ask.clone()),
            _ => return None,
        })
    }
}

impl ShadowQuestion {
    /// Whoever asks has seen what the log says up to there (R44).
    pub fn has_seen(&mut self, log: LogIndex) {
        match self {
            Self::ReadExtents(ask) => ask.seen = log,
            Self::WaitLength(ask) => ask.seen = log,
            _ => {}
        }
    }
}

/// The same question to the primary master.
impl From<ShadowQuestion> for Request {
    fn from(question: ShadowQuestion) -> Self {
        match question {
            ShadowQuestion::CellInfo(ask) => Self::CellInfo(ask),
            ShadowQuestion::Stat(ask) => Self::Stat(ask),
            ShadowQuestion::Open(ask) => Self::Open(ask),
            ShadowQuestion::Locate(ask) => Self::Locate(ask),
            ShadowQuestion::List(ask) => Self::List(ask),
            ShadowQuestion::Find(ask) => Self::Find(ask),
            ShadowQuestion::Batch(ask) => Self::Batch(ask),
            ShadowQuestion::ReadExtents(ask) => Self::ReadExtents(ask),
            ShadowQuestion::WaitLength(ask) => Self::WaitLength(ask),
        }
    }
}

/// As the primary master's answer would be.
impl From<ShadowWord> for Result<Response, Failure> {
    fn from(word: ShadowWord) -> Self {
        Ok(match word {
            ShadowWord::Failed(failure) => return Err(failure),
            ShadowWord::CellInfo(answer) => Response::CellInfo(answer),
            ShadowWord::Stat(answer) => Response::Stat(answer),
            ShadowWord::Open(answer) => Response::Open(answer),
            ShadowWord::Locate(answer) => Response::Locate(answer),
            ShadowWord::List(answer) => Response::List(answer),
            ShadowWord::Find(answer) => Response::Find(answer),
            ShadowWord::Batch(answer) => Response::Batch(answer),
            ShadowWord::ReadExtents(answer) => Response::ReadExtents(answer),
            ShadowWord::WaitLength(answer) => Response::WaitLength(answer),
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::{
        AskShadowAnswer, Batch, BatchEntry, Delete, Lease, Request, ShadowQuestion, Stat, Write,
    };
    use cairn_types::Random;
    use cairn_types::wire::Message;

    #[test]
    fn a_shadow_is_asked_questions_and_nothing_that_changes_anything_or_needs_who_is_in_charge() {
        for question in ShadowQuestion::sample_each(&mut Random::new(5)) {
            let looks = !matches!(&question, ShadowQuestion::Batch(it)
                if it.entries.iter().any(BatchEntry::is_mutation));
            let request = Request::from(question.clone());
            assert_eq!(ShadowQuestion::of(&request), looks.then_some(question));
        }
        let entries =
            vec![BatchEntry::Stat(Stat::default()), BatchEntry::Delete(Delete::default())];
        let refused: [Request; 4] = [
            Batch { entries }.into(),
            Delete::default().into(),
            Lease::default().into(),
            Write::default().into(),
        ];
        for request in refused {
            assert_eq!(ShadowQuestion::of(&request), None, "{}", request.name());
        }
    }

    #[test]
    fn not_behind_at_all_and_nobody_knows_how_far_are_two_things() {
        for behind_ms in [None, Some(0), Some(7)] {
            let answer = AskShadowAnswer { behind_ms, ..AskShadowAnswer::default() };
            assert_eq!(AskShadowAnswer::decode(&answer.to_bytes()), Ok(answer));
        }
    }
}
