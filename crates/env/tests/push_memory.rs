//! What the buffer of pushed data holds, in memory of the process.

use bytes::Bytes;
use cairn_env::{PushBuffer, PushedData};
use cairn_types::{BlockChecksums, MutationNumber, PushId, SessionId};

/// Bytes of memory that the process has now.
fn resident() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("Linux tells");
    let pages = statm.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok());
    pages.expect("a number of pages") * 4096
}

/// The smallest push that there is, at the smallest blocks.
fn tiny(number: u64) -> (PushId, PushedData) {
    let push = PushId { session: SessionId::new(1), number: MutationNumber::new(number) };
    let bytes = vec![7];
    let checksums = BlockChecksums::of(0, &bytes, 1);
    let segments = vec![Bytes::from(bytes)];
    (push, PushedData { block_offset: 0, block_size: 1, checksums, segments })
}

/// D7: a buffer of 4 MB was 1.4 GB of one-byte pushes.
#[test]
fn the_smallest_pushes_take_no_more_memory_than_the_buffer_may_have() {
    const SIZE_MAX: u64 = 8 << 20;
    let mut buffer = PushBuffer::new(SIZE_MAX);
    let before = resident();
    for number in 0..300_000 {
        let (push, data) = tiny(number);
        buffer.keep(push, data);
    }
    let grown = resident() - before;
    assert!(grown < 2 * SIZE_MAX, "{} MiB", grown >> 20);
    assert!(grown > SIZE_MAX / 4, "what is charged is near what is taken: {} KiB", grown >> 10);
}
