//! A client has no disk: the job that there is none of, and the service that runs it.

use cairn_env::Service;

/// A client has no disk work: there is no such job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoJob {}

/// The service of a driver without a disk.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoDisk;

impl Service for NoDisk {
    type Job = NoJob;
    type JobResult = NoJob;

    fn run(&self, jobs: Vec<NoJob>) -> Vec<NoJob> {
        jobs
    }
}
