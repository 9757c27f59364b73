//! Files of more chunks than one answer of the master tells of, and with wide holes: what `stat`
//! and `explain` tell of them.

mod cell;

use cairn_client::CreateOptions;
use cell::library::{client, path, runtime};
use cell::{Cell, tiny_chunks};
use serde_json::Value;

const CHUNK: u64 = 4096;

/// Makes a file of `count` chunks, and of one more behind a hole up to each index of `far`.
fn make(cell: &Cell, at: &str, count: u64, far: &[u64]) {
    runtime().block_on(async {
        let cell = client(cell.address()).await;
        let create = CreateOptions { replication: 1, ..CreateOptions::default() };
        let file = cell.create(&path(at), create).await.expect("creates");
        let mut writer = file.writer(0);
        let size = usize::try_from(count * CHUNK).expect("a small file");
        writer.write(vec![7; size].into()).await.expect("writes");
        writer.finish().await.expect("is written");
        for index in far {
            file.write_at(index * CHUNK, "x".into()).await.expect("writes behind a hole");
        }
        file.close().await.expect("closes");
    });
}

/// The indexes of the chunks that are told, each with a replica.
fn indexes(told: &Value) -> Vec<u64> {
    let chunks = told["chunks"].as_array().expect("a list");
    let index = |chunk: &Value| {
        assert_eq!(chunk["replicas"].as_array().map(Vec::len), Some(1), "{chunk}");
        chunk["index"].as_u64().expect("a number")
    };
    chunks.iter().map(index).collect()
}

#[test]
fn every_chunk_of_a_large_file_is_told_and_wide_holes_cost_nothing() {
    let cell = Cell::start_with(1, &tiny_chunks(), None);
    // Asked for one by one, what is in this hole would take years.
    let far = [1 << 40, (1 << 40) + 300];
    make(&cell, "/f", 700, &far);
    let all: Vec<u64> = (0..700).chain(far).collect();
    assert_eq!(indexes(&cell.json(&["stat", "--chunks", "/f"])), all);
    let explained = cell.json(&["explain", "/f"]);
    assert_eq!(indexes(&explained), all);
    for chunk in explained["chunks"].as_array().expect("a list") {
        assert_eq!((&chunk["good"], &chunk["goal"]), (&1.into(), &1.into()), "{chunk}");
    }
}
