//! What a stream is made of, for people and programs: its chunks, how much of each is committed,
//! and in how many extents.

use crate::all_chunks::check_count;
use crate::cli_error::{CliError, Doing};
use crate::commands::stat::chunk_json;
use crate::output::{Output, Table};
use crate::session::RemotePath;
use cairn_client::ChunkLocations;
use cairn_protocol::LostTail;
use cairn_types::ChunkHandle;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// A chunk, and what of it is in the file.
struct StreamChunk {
    locations: ChunkLocations,
    extent_count: u64,
    committed: u64,
    lost: Option<LostTail>,
}

impl StreamChunk {
    /// How it stands, for people.
    fn state(&self) -> &'static str {
        match self.lost {
            Some(LostTail { is_hole: false, .. }) => "lost",
            Some(LostTail { is_hole: true, .. }) => "hole",
            None if self.locations.closed => "sealed",
            None => "open",
        }
    }
}

/// All chunks of a stream, and how many have a part in it.
pub(crate) struct StreamParts {
    chunks: Vec<StreamChunk>,
    extent_count: u64,
    producer_count: u64,
    length: u64,
    /// Up to there it is settled.
    settled: u64,
    /// What is behind that is looked at.
    settles: bool,
}

impl StreamParts {
    /// Of the stream at a place; `command` tells of one with any number of chunks.
    ///
    /// # Errors
    /// It is gone, has more chunks than the output takes, or no master answers.
    pub(crate) async fn of(
        place: &RemotePath,
        output: &Output,
        command: &str,
    ) -> Result<Self, CliError> {
        let doing = || format!("looking up {place}");
        let stream = place.cell.open_stream(&place.path).await.doing(doing)?;
        let length = stream.length().await.doing(doing)?;
        let mut chunks: BTreeMap<ChunkHandle, StreamChunk> = BTreeMap::new();
        let (mut next, mut extent_count) = (0, 0);
        let (mut settled, mut settles) = (0, false);
        while next < length {
            let page = stream.extents(next).await.doing(doing)?;
            (settled, settles) = (page.settled, page.settles);
            for locations in page.chunks {
                let handle = locations.handle;
                let lost = page.lost.iter().find(|lost| lost.handle == handle).copied();
                let (extent_count, committed) = (0, 0);
                let first = StreamChunk { locations, extent_count, committed, lost };
                chunks.entry(handle).or_insert(first);
            }
            check_count(place, chunks.len(), output, command)?;
            let before = next;
            for extent in page.extents.iter().filter(|extent| extent.offset >= before) {
                next = extent.offset.saturating_add(extent.size);
                extent_count += 1;
                if let Some(chunk) = chunks.get_mut(&extent.handle) {
                    chunk.extent_count += 1;
                    chunk.committed += extent.size;
                }
            }
            if next == before {
                break;
            }
        }
        let producer_count = stream.producers().await.doing(doing)?.len() as u64;
        let mut chunks: Vec<StreamChunk> = chunks.into_values().collect();
        chunks.sort_by_key(|chunk| chunk.locations.index);
        Ok(Self { chunks, extent_count, producer_count, length, settled, settles })
    }

    /// How much of it stands in chunks as it shall be.
    fn settled_text(&self) -> String {
        let how = match self.settles {
            true => "the rest in idle time, once it is sealed",
            false => "nothing more is to be put together",
        };
        format!("{} of {} bytes; {how}", self.settled, self.length)
    }

    /// For people.
    pub(crate) fn lines(&self) -> Vec<String> {
        let mut about = Table::new(&[false, false]);
        about.row(["extents".to_owned(), self.extent_count.to_string()]);
        about.row(["settled".to_owned(), self.settled_text()]);
        about.row(["producers".to_owned(), self.producer_count.to_string()]);
        let mut lines = about.lines();
        if self.chunks.is_empty() {
            return lines;
        }
        let mut table = Table::new(&[true, false, false, false, true, true, false]);
        let titles = ["CHUNK", "HANDLE", "VERSION", "", "COMMITTED", "EXTENTS", "REPLICAS"];
        table.row(titles.map(str::to_owned));
        for chunk in &self.chunks {
            let StreamChunk { locations, extent_count, committed, .. } = chunk;
            let replicas: Vec<&str> =
                locations.replicas.iter().map(|at| at.address.as_str()).collect();
            table.row([
                locations.index.to_string(),
                locations.handle.short(),
                locations.version.short(),
                chunk.state().to_owned(),
                committed.to_string(),
                extent_count.to_string(),
                replicas.join(", "),
            ]);
        }
        lines.extend(table.lines());
        lines
    }

    /// For programs.
    pub(crate) fn tell(&self, value: &mut Value) {
        let chunk = |chunk: &StreamChunk| {
            let mut value = chunk_json(&chunk.locations);
            value["committed"] = json!(chunk.committed);
            value["extents"] = json!(chunk.extent_count);
            if let Some(LostTail { held, committed, is_hole, .. }) = chunk.lost {
                value["lost"] = json!({ "from": held, "to": committed, "is_hole": is_hole });
            }
            value
        };
        value["chunks"] = self.chunks.iter().map(chunk).collect();
        value["extents"] = json!(self.extent_count);
        value["producers"] = json!(self.producer_count);
        value["settled"] = json!(self.settled);
        value["settles"] = json!(self.settles);
    }
}
