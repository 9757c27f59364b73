//! The library under several runtimes, and under none: a cell that is not there is told in time.

use cairn_client::{Cell, ErrorCode, Options};
use std::future::Future;
use std::net::TcpListener;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Wake, Waker};
use std::thread::{Thread, current, park};
use std::time::Duration;

async fn look_for_a_cell() {
    // Nobody listens there once the listener is dropped.
    let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    let address = free.expect("a free port").to_string();
    let options = Options { deadline: Duration::from_millis(300), ..Options::default() };
    let error = Cell::connect(&address, options).await.expect_err("nobody is there");
    assert_eq!(error.code(), ErrorCode::Unreachable, "{error}");
}

#[test]
fn on_a_runtime_of_one_thread() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("starts").block_on(look_for_a_cell());
}

#[test]
fn on_a_runtime_of_several_threads() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    runtime.expect("starts").block_on(look_for_a_cell());
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

#[test]
fn under_an_executor_that_is_not_tokio() {
    let waker = Waker::from(Arc::new(Unpark(current())));
    let mut look = pin!(look_for_a_cell());
    while look.as_mut().poll(&mut Context::from_waker(&waker)).is_pending() {
        park();
    }
}
