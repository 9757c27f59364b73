//! How a change of a replica is told: the same fields, in the same order, whatever happened.

use cairn_env::LogEvent;
use cairn_protocol::ReplicaReport;

/// The event with what it happened to, which stands so.
pub(crate) fn told_of(event: LogEvent, stands: &ReplicaReport) -> LogEvent {
    let event = event.with("chunk", stands.handle.short());
    event.with("version", stands.version.short()).with_number("serial", stands.serial.get())
}
