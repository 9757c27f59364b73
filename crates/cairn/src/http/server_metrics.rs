//! What a server of this process counts of itself, as metrics: nobody has to be asked for it, and
//! no disk is waited for.

use crate::http::metrics_text::MetricsText;
use crate::http::seen::{PartSeen, ServerSeen, silence};
use cairn_chunkserver::{ChunkGauges, SpaceTold};
use cairn_env::Resources;
use cairn_env_os::RpcCounts;
use cairn_env_os::clock::boot_time;
use cairn_master::MasterTold;
use cairn_protocol::{DiskStatus, ResourceUse};

/// Writes down what each of them tells; which it was, where there are several.
pub(crate) fn write(text: &mut MetricsText, servers: &[ServerSeen]) {
    let version = env!("CARGO_PKG_VERSION");
    text.count("cairn_build_info", "The version that runs.", &[("version", version)], 1);
    for server in servers {
        text.label_all((servers.len() > 1).then_some(("server", server.address.as_str())));
        let labels = [("role", server.role()), ("address", server.address.as_str())];
        text.count("cairn_server_info", "What the server is, and where it listens.", &labels, 1);
        let is_ready = server.is_ready().is_ok();
        text.count("cairn_ready", "Whether /readyz says so.", &[], is_ready.into());
        server.meter.rpcs().iter().for_each(|counts| requests(text, counts));
        match &server.part {
            PartSeen::Waiting => resources(text, &server.meter.told()),
            PartSeen::Master(gauges) => {
                resources(text, &server.meter.told());
                master(text, &gauges.told());
            }
            PartSeen::Chunkserver(gauges) => {
                let SpaceTold { space, at } = gauges.space();
                let ResourceUse { pushes, pushes_max, .. } = space.resources;
                let measured = ResourceUse { pushes, pushes_max, ..server.meter.told() };
                resources(text, &measured);
                chunkserver(text, &gauges.told());
                space.disks.iter().for_each(|one| data_directory(text, one));
                if let Some(at) = at {
                    let help = "Since its data directories were last looked at.";
                    let age = boot_time().since(at).as_secs_f64();
                    text.gauge("cairn_disks_age_seconds", help, &[], age);
                }
            }
        }
    }
    text.label_all(None);
}

fn requests(text: &mut MetricsText, counts: &RpcCounts) {
    let all = counts.took.count();
    let failed = counts.failed.min(all);
    let rpc = ("rpc", counts.name);
    let help = "Requests that were answered, by rpc and outcome.";
    for (outcome, count) in [("done", all - failed), ("failed", failed)] {
        text.counter("cairn_requests_total", help, &[rpc, ("outcome", outcome)], count);
    }
    let help = "How long requests took from when they were taken up to their answer.";
    text.histogram("cairn_request_duration_seconds", help, &[rpc], &counts.took);
    let help = "File bytes that came with requests.";
    text.counter("cairn_received_bytes_total", help, &[rpc], counts.received);
    let help = "File bytes that went with answers.";
    text.counter("cairn_sent_bytes_total", help, &[rpc], counts.sent);
}

fn resources(text: &mut MetricsText, told: &ResourceUse) {
    for (name, help, value) in [
        ("cairn_resident_memory_bytes", "Memory of the whole process.", told.resident),
        ("cairn_peers_memory_bytes", "Memory held for those who are connected.", told.peers),
        ("cairn_peers_memory_max_bytes", "What peers may make it hold.", told.peers_max),
        ("cairn_pushes_memory_bytes", "Pushed data that waits for its mutation.", told.pushes),
        ("cairn_pushes_memory_max_bytes", "What pushed data may take.", told.pushes_max),
        ("cairn_open_descriptors", "Open files and connections of the process.", told.descriptors),
        ("cairn_open_descriptors_max", "What the process may open.", told.descriptors_max),
        ("cairn_connections", "Connections taken in.", told.connections),
        ("cairn_connections_max", "What may be taken in at once.", told.connections_max),
    ] {
        text.count(name, help, &[], value);
    }
}

fn master(text: &mut MetricsText, told: &MasterTold) {
    let standing = told.standing;
    let (checkpoint, made) = told.checkpoint;
    let (applied, committed) = (standing.applied.get(), standing.committed.get());
    for (name, help, value) in [
        ("cairn_master_in_charge", "Whether it is the primary master.", standing.in_charge.into()),
        ("cairn_master_term", "The latest term that it has heard of.", standing.term.get()),
        ("cairn_log_applied_index", "The last record that it has applied.", applied),
        ("cairn_log_committed_index", "The last one that it knows is committed.", committed),
        (
            "cairn_checkpoint_index",
            "The record as of which the last checkpoint is.",
            checkpoint.get(),
        ),
    ] {
        text.count(name, help, &[], value);
    }
    let age = boot_time().since(made).as_secs_f64();
    let help = "Since the last checkpoint, or since the start where there was none.";
    text.gauge("cairn_checkpoint_age_seconds", help, &[], age);
    if let Some(silence) = silence(told) {
        let help = "Since it last heard the primary master.";
        text.gauge("cairn_master_silence_seconds", help, &[], silence.as_secs_f64());
    }
    let help = "How long appends to the operation log took, with their flush.";
    text.histogram("cairn_log_flush_duration_seconds", help, &[], &told.flushes);
    let help = "Records appended to the operation log.";
    text.counter("cairn_log_records_total", help, &[], told.records);
    text.counter("cairn_log_bytes_total", "Bytes of these records.", &[], told.bytes);
}

fn chunkserver(text: &mut MetricsText, told: &ChunkGauges) {
    for (name, help, value) in [
        ("cairn_chunkserver_joined", "Whether a master has taken it in.", told.is_joined.into()),
        ("cairn_chunkserver_term", "The highest term that it has heard of.", told.term.get()),
        ("cairn_replicas", "Replicas that it holds.", told.replica_count),
        ("cairn_scrub_verified_bytes", "Verified in this round.", told.scrub.verified),
        ("cairn_scrub_size_bytes", "What there is to verify in this round.", told.scrub.total),
    ] {
        text.count(name, help, &[], value);
    }
    let help = "Bad replicas found since the start.";
    text.counter("cairn_bad_replicas_total", help, &[], told.scrub.bad);
    let moved = told.traffic;
    let help = "Bytes moved: read and written by clients, replicated, cloned, scrubbed.";
    for (what, bytes) in [
        ("read", moved.read),
        ("written", moved.written),
        ("replicated", moved.replicated),
        ("cloned", moved.cloned),
        ("scrubbed", moved.scrubbed),
    ] {
        text.counter("cairn_moved_bytes_total", help, &[("what", what)], bytes);
    }
}

fn data_directory(text: &mut MetricsText, disk: &DiskStatus) {
    let labels = [("path", disk.path.as_str())];
    for (name, help, value) in [
        ("cairn_disk_size_bytes", "Of the file system under a data directory.", disk.capacity),
        ("cairn_disk_used_bytes", "Used there, by anybody.", disk.used),
        ("cairn_disk_chunks", "Chunks that lie there.", disk.chunk_count),
        ("cairn_disk_failed", "Whether it is of no more use.", disk.failed.into()),
    ] {
        text.count(name, help, &labels, value);
    }
}

#[cfg(test)]
mod tests {
    use super::write;
    use crate::http::metrics_text::MetricsText;
    use crate::http::seen::{PartSeen, ServerSeen};
    use cairn_chunkserver::{Chunkserver, ChunkserverConfig, ScrubSettings};
    use cairn_env::{
        Disk, DiskFile, DiskLock, IoFailure, OpenMode, Space, SyncError, UnreadableBytes,
    };
    use cairn_env_os::{OsDisk, ProcessMeter};
    use cairn_testkit::PATIENCE;
    use cairn_types::{Address, Rack};
    use std::sync::{Arc, Mutex, mpsc};

    /// A data directory whose mount stands still while somebody has the gate.
    #[derive(Debug)]
    struct Standing {
        disk: OsDisk,
        gate: Arc<Mutex<()>>,
    }

    impl Disk for Standing {
        fn open(&self, path: &str, mode: OpenMode) -> Result<Box<dyn DiskFile>, IoFailure> {
            self.disk.open(path, mode)
        }
        fn list(&self, directory: &str) -> Result<Vec<String>, IoFailure> {
            self.disk.list(directory)
        }
        fn make_dir(&self, directory: &str) -> Result<(), IoFailure> {
            self.disk.make_dir(directory)
        }
        fn rename(&self, from: &str, to: &str) -> Result<(), IoFailure> {
            self.disk.rename(from, to)
        }
        fn remove(&self, path: &str) -> Result<(), IoFailure> {
            self.disk.remove(path)
        }
        fn clone_file(&self, from: &str, to: &str) -> Result<bool, IoFailure> {
            self.disk.clone_file(from, to)
        }
        fn sync_dir(&self, directory: &str) -> Result<(), SyncError> {
            self.disk.sync_dir(directory)
        }
        fn lock(&self, path: &str) -> Result<Box<dyn DiskLock>, IoFailure> {
            self.disk.lock(path)
        }
        fn space(&self) -> Result<Space, IoFailure> {
            let _open = self.gate.lock().expect("nobody panics with it");
            Ok(Space { file_system: 1, capacity: 4_000, used: 1_000 })
        }
        fn look_again(&self) -> Result<Arc<dyn Disk>, IoFailure> {
            self.disk.look_again()
        }
        fn describe(&self) -> String {
            "/standing".to_owned()
        }
        fn page_cache_id(&self) -> Result<String, IoFailure> {
            self.disk.page_cache_id()
        }
        fn unreadable(&self) -> Result<Option<UnreadableBytes>, IoFailure> {
            self.disk.unreadable()
        }
        fn forget_unreadable(&self) -> Result<(), SyncError> {
            self.disk.forget_unreadable()
        }
    }

    #[test]
    fn a_disk_that_stands_still_keeps_no_metrics_from_being_told() {
        let scratch = tempfile::TempDir::new().expect("a scratch directory");
        let gate = Arc::new(Mutex::new(()));
        let disk = OsDisk::open(scratch.path()).expect("opens");
        let disk = Arc::new(Standing { disk, gate: Arc::clone(&gate) });
        let config = ChunkserverConfig {
            address: Address::new("s:1"),
            rack: Rack::default(),
            masters: vec![Address::new("m:1")],
            seed: 1,
            push_buffer_size: 1 << 20,
            scrub: ScrubSettings::default(),
        };
        let (driver, _service) = Chunkserver::open(vec![disk], config).expect("opens");
        let (address, meter) = ("s:1".to_owned(), Arc::new(ProcessMeter::default()));
        let seen = ServerSeen { address, meter, part: PartSeen::Chunkserver(driver.gauges()) };
        let stands = gate.lock().expect("nobody panics with it");
        let (tell, told) = mpsc::channel();
        let asked = std::thread::spawn(move || {
            let mut text = MetricsText::default();
            write(&mut text, &[seen]);
            tell.send(text.text()).expect("it is waited for");
        });
        let told = told.recv_timeout(PATIENCE / 9).expect("it waits for no disk");
        drop(stands);
        asked.join().expect("ends");
        let size = "cairn_disk_size_bytes{path=\"/standing\"} 4000";
        assert!(told.lines().any(|line| line == size), "{told}");
        assert!(!told.contains("cairn_disks_age_seconds"), "nobody looked since the start: {told}");
    }
}
