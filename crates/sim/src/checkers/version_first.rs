//! Version first: what is acknowledged was applied by its primary under a version that stands in
//! the operation log (R8), and not under one that a later logged version has replaced (R7, R12).

use super::{Checker, Verdict};
use crate::ledger::{Ledger, acknowledges};
use cairn_env_sim::Seen;
use cairn_protocol::{Failure, Response};

pub(crate) struct VersionFirst;

impl Checker for VersionFirst {
    fn name(&self) -> &'static str {
        "version_first"
    }

    fn answered(
        &mut self,
        seen: &Seen<'_>,
        answer: &Result<Response, Failure>,
        ledger: &Ledger,
    ) -> Verdict {
        let Some((handle, push, _)) = acknowledges(seen.request, answer) else { return Ok(()) };
        let complain = |why: &str| {
            Err(format!("{:?} acknowledges {push:?} on chunk {}: {why}", seen.to, handle.short()))
        };
        let Some(chunk) = ledger.chunks.get(&handle) else { return complain("never logged") };
        let Some(replica) = chunk.replicas.get(&seen.to) else { return complain("no replica") };
        if !replica.applied.contains_key(&push) {
            return complain("the primary has not applied it");
        }
        if !chunk.logged.contains_key(&replica.version) {
            return complain(&format!(
                "its replica stands at {}, which is not logged",
                replica.version.short()
            ));
        }
        Ok(())
    }
}
