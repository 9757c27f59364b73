//! What a failure means for the next try, and how long to rest before it.

use cairn_protocol::{ErrorCode, Failure, Outcome};
use cairn_types::Random;
use std::time::Duration;

const REST_MIN: Duration = Duration::from_millis(10);
const REST_MAX: Duration = Duration::from_secs(1);
const DATA_REST_MIN: Duration = Duration::from_millis(125);
const DATA_REST_MAX: Duration = Duration::from_secs(8);

/// Whether another try can never do better: the request itself is at fault, or the answer is one.
pub(crate) fn is_final(failure: &Failure) -> bool {
    failure.outcome == Outcome::Refused
        || matches!(
            failure.code,
            ErrorCode::NotFound
                | ErrorCode::AlreadyExists
                | ErrorCode::NotADirectory
                | ErrorCode::IsADirectory
                | ErrorCode::DirectoryNotEmpty
                | ErrorCode::Invalid
                | ErrorCode::RecordTooLarge
                | ErrorCode::DiskFull
                | ErrorCode::WrongCell
                | ErrorCode::VersionUnsupported
                | ErrorCode::TooOld
                | ErrorCode::ProducerFenced
                | ErrorCode::StreamLocked
        )
}

/// Whether the party asked may be gone, so that someone else should be asked.
pub(crate) fn is_silence(failure: &Failure) -> bool {
    matches!(
        failure.code,
        ErrorCode::Unreachable | ErrorCode::DeadlineExceeded | ErrorCode::WrongServer
    )
}

/// How long to rest before try `attempt` (the first retry is 0): nothing, then doubling up to a
/// second, with jitter so that many clients do not come back together.
pub(crate) fn backoff(attempt: u32, random: &mut Random) -> Duration {
    growing(attempt, (REST_MIN, REST_MAX), random)
}

/// The same before data is sent that was sent `rounds` times in vain: it takes of the network, and
/// of the servers' memory, what others need.
pub(crate) fn data_backoff(rounds: u32, random: &mut Random) -> Duration {
    growing(rounds.saturating_sub(1), (DATA_REST_MIN, DATA_REST_MAX), random)
}

fn growing(attempt: u32, (min, max): (Duration, Duration), random: &mut Random) -> Duration {
    if attempt == 0 {
        return Duration::ZERO;
    }
    let full = min.saturating_mul(1 << attempt.min(10)).min(max);
    let nanos = u64::try_from(full.as_nanos()).unwrap_or(u64::MAX);
    let rest = Duration::from_nanos(nanos / 2 + random.below(nanos / 2 + 1));
    assert!(rest <= max, "nobody rests longer than {max:?}");
    rest
}

/// The failure that a caller hears at the deadline: the last one met, if there was one.
pub(crate) fn at_deadline(last: Option<Failure>, maybe: bool) -> Failure {
    let outcome = if maybe { Outcome::Unknown } else { Outcome::NotDone };
    match last {
        Some(last) => Failure {
            outcome,
            message: format!("{} (tried until the deadline)", last.message),
            ..last
        },
        None => Failure {
            outcome,
            ..Failure::unknown(ErrorCode::DeadlineExceeded, "no answer within the deadline")
        },
    }
}

#[cfg(test)]
mod tests {
    use super::{DATA_REST_MAX, REST_MAX, at_deadline, backoff, data_backoff};
    use cairn_protocol::{ErrorCode, Failure, Outcome};
    use cairn_types::Random;
    use std::time::Duration;

    #[test]
    fn rests_grow_from_nothing_to_a_second_and_never_beyond() {
        let mut random = Random::new(1);
        assert_eq!(backoff(0, &mut random), Duration::ZERO);
        assert!(backoff(1, &mut random) <= Duration::from_millis(20));
        for attempt in 8..40 {
            let rested = backoff(attempt, &mut random);
            assert!(rested >= REST_MAX / 2 && rested <= REST_MAX);
        }
    }

    #[test]
    fn data_is_sent_again_at_once_and_then_less_and_less_often() {
        let mut random = Random::new(1);
        assert_eq!([0, 1].map(|rounds| data_backoff(rounds, &mut random)), [Duration::ZERO; 2]);
        assert!(data_backoff(2, &mut random) <= Duration::from_millis(250));
        for rounds in 7..40 {
            let rested = data_backoff(rounds, &mut random);
            assert!(rested >= DATA_REST_MAX / 2 && rested <= DATA_REST_MAX, "{rounds}");
        }
    }

    #[test]
    fn at_the_deadline_the_last_failure_speaks_but_the_outcome_is_the_whole_operations() {
        let last = Failure::not_done(ErrorCode::TooFewServers, "only one server is live");
        let told = at_deadline(Some(last), true);
        assert_eq!((told.code, told.outcome), (ErrorCode::TooFewServers, Outcome::Unknown));
        assert!(told.message.contains("only one server"));
        assert_eq!(at_deadline(None, false).code, ErrorCode::DeadlineExceeded);
    }
}
