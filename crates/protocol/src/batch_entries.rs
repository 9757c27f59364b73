//! Entries of a batch as the requests that they would be alone, and answers to these as their
//! results.

use crate::{BatchEntry, BatchResult, ErrorCode, Failure, Request, Response};

/// The same operation, asked alone.
impl From<BatchEntry> for Request {
    fn from(entry: BatchEntry) -> Self {
        match entry {
            BatchEntry::Stat(stat) => Self::Stat(stat),
            BatchEntry::MakeDirectory(make) => Self::MakeDirectory(make),
            BatchEntry::Create(create) => Self::Create(create),
            BatchEntry::Rename(rename) => Self::Rename(rename),
            BatchEntry::Delete(delete) => Self::Delete(delete),
            BatchEntry::Open(open) => Self::Open(open),
        }
    }
}

/// What a mutation asked alone would be answered.
impl From<Result<Response, Failure>> for BatchResult {
    fn from(answer: Result<Response, Failure>) -> Self {
        match answer {
            Ok(Response::MakeDirectory(answer)) => Self::MakeDirectory(answer),
            Ok(Response::Create(answer)) => Self::Create(answer),
            Ok(Response::Rename(answer)) => Self::Rename(answer),
            Ok(Response::Delete(answer)) => Self::Delete(answer),
            Ok(_) => {
                let line = "the master has no such answer to an operation of a batch";
                Self::Failed(Failure::unknown(ErrorCode::Internal, line))
            }
            Err(failure) => Self::failed(failure),
        }
    }
}
