//! Version first: what is acknowledged was applied by its primary under a version that stands in
//! the operation log (R8).

use super::checker::{Checker, Verdict};
use crate::acknowledged_mutation::acknowledges;
use crate::ledger::Ledger;
use cairn_env_sim::SeenRequest;
use cairn_protocol::{Failure, Response};

pub(crate) struct VersionFirst;

impl Checker for VersionFirst {
    fn name(&self) -> &'static str {
        "version_first"
    }

    fn answered(
        &mut self,
        seen: &SeenRequest<'_>,
        answer: &Result<Response, Failure>,
        ledger: &Ledger,
    ) -> Verdict {
        let Some((handle, push, _)) = acknowledges(seen.request, answer) else { return Ok(()) };
        let complain = |why: &str| {
            Err(format!("{:?} acknowledges {push:?} on chunk {}: {why}", seen.to, handle.short()))
        };
        let Some(chunk) = ledger.chunks.get(&handle) else { return complain("never logged") };
        let version = match chunk.replicas.get(&seen.to) {
            Some(replica) => replica.applied.get(&push).map(|(version, _)| version),
            // Its disk may have gone since.
            None => chunk.appliers.get(&push).and_then(|nodes| nodes.get(&seen.to)),
        };
        let Some(version) = version else {
            return complain("the primary has not applied it");
        };
        if !chunk.logged.contains_key(version) {
            return complain(&format!("applied under {}, which is not logged", version.short()));
        }
        Ok(())
    }
}
