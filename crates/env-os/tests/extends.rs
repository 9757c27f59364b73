//! The chunk of a stream on real files: the suite that judges the simulated disk, too.

use cairn_env::conformance::judge_extends;
use cairn_env_os::OsDisk;
use cairn_store::ChunkDisk;
use cairn_types::CellConfig;
use std::sync::Arc;

#[test]
fn a_stream_s_chunk_on_real_files_is_extended_as_the_contract_says() {
    let scratch = tempfile::tempdir().expect("a scratch directory");
    let disk = Arc::new(OsDisk::open(scratch.path()).expect("opens"));
    let (service, _) = ChunkDisk::open(vec![disk], 1 << 20).expect("opens");
    let config = CellConfig::tiny();
    service.configure(&config);
    judge_extends(&service, config.block_size);
}
