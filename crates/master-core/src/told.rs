//! How a change of a chunk's state is told: the same fields, in the same order, whatever happened.
//!
//! Nothing is asserted of them: a chunkserver may have named them, and may lie.

use crate::leases::{GrantedLease, LeaseStatus};
use cairn_env::LogEvent;
use cairn_types::{ChunkHandle, ChunkVersion, LeaseId, ServerId};

/// What has happened to a chunk that stands at this version, or is raised to it.
pub(crate) fn of_chunk(name: &'static str, handle: ChunkHandle, version: ChunkVersion) -> LogEvent {
    LogEvent::debug(name).with("chunk", handle.short()).with("version", version.short())
}

/// The event with a lease, and who holds it.
pub(crate) fn with_lease(event: LogEvent, lease: LeaseId, holder: ServerId) -> LogEvent {
    event.with("server", holder).with("lease", lease.short())
}

/// What has become of a lease.
pub(crate) fn of_lease(name: &'static str, handle: ChunkHandle, lease: &GrantedLease) -> LogEvent {
    with_lease(of_chunk(name, handle, lease.version), lease.id, lease.holder.server)
}

/// What is said of a lease that is relied upon no further than that.
pub(crate) fn name_of(status: LeaseStatus) -> &'static str {
    match status {
        LeaseStatus::Sent | LeaseStatus::Serving => "lease granted",
        LeaseStatus::AskedBack => "lease revoked",
        LeaseStatus::Doubted => "lease doubted",
        LeaseStatus::Over => "lease over",
    }
}

/// Servers, as one field has them.
pub(crate) fn listed(servers: impl Iterator<Item = ServerId>) -> String {
    servers.map(|server| server.to_string()).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::{listed, of_chunk, with_lease};
    use cairn_types::{ChunkHandle, ChunkVersion, LeaseId, ServerId, Term};

    #[test]
    fn a_change_names_chunk_version_server_and_lease_as_people_write_them() {
        let (term, server) = (Term::new(3), ServerId::new(7));
        let event = of_chunk("lease granted", ChunkHandle::of(term, 31), ChunkVersion::of(term, 2));
        let event = with_lease(event, LeaseId::of(term, 1), server);
        let line = "DEBUG lease granted chunk=3-1f version=3-2 server=7 lease=3-1";
        assert_eq!(event.to_string(), line);
        assert_eq!(listed([server, ServerId::new(9)].into_iter()), "7,9");
        // As one may say that lies.
        let event = of_chunk("lease adopted", ChunkHandle::default(), ChunkVersion::default());
        let event = with_lease(event, LeaseId::default(), ServerId::default());
        assert!(event.to_string().contains("chunk=0-0 version=0-0"), "{event}");
    }
}
