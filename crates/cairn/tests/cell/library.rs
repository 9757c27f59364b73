//! The client library beside the binary, for tests that need what no command does.

use cairn_client::{Cell as Client, Options};
use cairn_types::CellPath;
use std::time::Duration;

pub(crate) fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("starts")
}

pub(crate) fn path(text: &str) -> CellPath {
    CellPath::parse(text).expect("a path")
}

/// Longer than anything that a test kills stays away.
pub(crate) async fn client(address: &str) -> Client {
    let options = Options { deadline: Duration::from_secs(50), ..Options::default() };
    Client::connect(address, options).await.expect("connects")
}
