//! What a caller, and then a process of them, has done.

use crate::latencies::Latencies;
use serde::{Deserialize, Serialize};
use std::future::Future;
use std::time::Instant;

/// Operations, bytes and spans.
#[derive(Debug, Default, Deserialize, Serialize)]
pub(crate) struct LoadTally {
    pub(crate) operations: u64,
    pub(crate) bytes: u64,
    /// Of the slowest caller.
    pub(crate) seconds: f64,
    pub(crate) latencies: Latencies,
}

impl LoadTally {
    /// Does one operation and notes how long it took.
    pub(crate) async fn timed<T, E>(
        &mut self,
        operation: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        let begun = Instant::now();
        let result = operation.await?;
        self.latencies.push(begun.elapsed());
        self.operations += 1;
        Ok(result)
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.operations += other.operations;
        self.bytes += other.bytes;
        self.latencies.merge(&other.latencies);
    }
}
