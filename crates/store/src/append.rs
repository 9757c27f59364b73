//! Bytes added behind a replica's end: one run of them, planned whole and written once.
//!
//! ```text
//!   data segments ──► block checksums ──► head (R26)        gaps become zeros
//! ```
//! - A1: nothing below the old length changes, so until the head is written nothing has happened.
//! - A2: checksums that came with the pushed data are kept where its pieces are the chunk's blocks;
//!   whoever hands it over has seen to it that they were cut at blocks of the chunk's size.

use crate::chunk::Chunk;
use crate::chunk_files::ChunkFiles;
use crate::mutation::ReadyMutation;
use crate::whole_files::disk_error;
use bytes::Bytes;
use cairn_env::{DiskError, DiskFile, PushedData};
use cairn_format::{ChunkHead, block_checksum_offset, encode_block_checksums};
use cairn_types::planted::{self, Rule};
use cairn_types::{Crc32c, crc32c_append};

/// Segments smaller than this are gathered before they are written.
const GATHER_BELOW: usize = 64 << 10;

/// Part of a run.
#[derive(Debug)]
enum AppendPart {
    Bytes { offset: u64, segments: Vec<Bytes> },
    Zeros { from: u64, to: u64 },
}

/// What a run of appends will have written.
#[derive(Debug)]
pub(crate) struct AppendRun {
    head: ChunkHead,
    parts: Vec<AppendPart>,
    /// Of the blocks that become whole, from `first_block` on.
    checksums: Vec<Crc32c>,
    first_block: u64,
}

impl AppendRun {
    /// A run behind the end that `head` tells; `head` is otherwise the one to be written.
    pub(crate) fn new(head: ChunkHead) -> Self {
        Self { head, parts: Vec::new(), checksums: Vec::new(), first_block: head.whole_blocks() }
    }

    /// Adds one mutation that does not begin before the end.
    pub(crate) fn add(&mut self, mutation: &ReadyMutation) {
        match &mutation.data {
            Some(data) => {
                if data.size() > 0 {
                    self.zeros_to(mutation.offset);
                    self.bytes(data);
                }
            }
            None => self.zeros_to(mutation.offset + mutation.size),
        }
    }

    fn zeros_to(&mut self, to: u64) {
        let from = self.head.length;
        if to <= from {
            return;
        }
        self.parts.push(AppendPart::Zeros { from, to });
        let zeros = vec![0; self.head.block_size as usize];
        let whole_block = cairn_types::crc32c(&zeros);
        while self.head.length < to {
            let size = self.left_in_block(to - self.head.length);
            if size == zeros.len() {
                self.count_whole(size, whole_block);
            } else {
                self.count(&zeros[..size]);
            }
        }
    }

    fn bytes(&mut self, data: &PushedData) {
        assert_eq!(data.block_size, self.head.block_size, "A2");
        let aligned = data.block_offset == self.head.tail_size();
        let offset = self.head.length;
        let mut left = data.size();
        let mut sums = data.checksums.0.iter();
        let mut cursor = SegmentCursor { segments: &data.segments, at: 0 };
        while left > 0 {
            let size = self.left_in_block(left);
            left -= size as u64;
            let pushed = sums.next();
            match pushed.filter(|_| aligned && self.head.tail_size() == 0) {
                Some(checksum) => {
                    self.count_whole(size, *checksum);
                    cursor.take(size, |_| {});
                }
                None => cursor.take(size, |bytes| self.count(bytes)),
            }
        }
        match self.parts.last_mut() {
            Some(AppendPart::Bytes { segments, .. }) => segments.extend_from_slice(&data.segments),
            _ => self.parts.push(AppendPart::Bytes { offset, segments: data.segments.clone() }),
        }
    }

    /// How many of `size` more bytes go into the last block.
    fn left_in_block(&self, size: u64) -> usize {
        let room = self.head.block_size - self.head.tail_size();
        usize::try_from(size.min(u64::from(room))).expect("at most a block")
    }

    /// Counts bytes that stay within the last block.
    fn count(&mut self, bytes: &[u8]) {
        let checksum = crc32c_append(self.head.tail_checksum, bytes);
        self.head.length += bytes.len() as u64;
        self.close_block(checksum);
    }

    /// Counts `size` bytes from a block's start on, whose checksum is known (A2).
    fn count_whole(&mut self, size: usize, checksum: Crc32c) {
        self.head.length += size as u64;
        self.close_block(checksum);
    }

    fn close_block(&mut self, checksum: Crc32c) {
        if self.head.tail_size() == 0 {
            self.checksums.push(checksum);
            self.head.tail_checksum = 0;
        } else {
            self.head.tail_checksum = checksum;
        }
    }

    /// Writes the run: data, checksums, head (R26).
    pub(crate) fn write(self, chunk: &mut Chunk, files: &ChunkFiles) -> Result<(), DiskError> {
        if planted::broken(Rule::R26) {
            chunk.write_head(files, self.head)?;
        }
        for part in &self.parts {
            match part {
                AppendPart::Bytes { offset, segments } => {
                    write_segments(files.data.as_ref(), *offset, segments)?;
                }
                AppendPart::Zeros { from, to } => {
                    // What a failed write left behind the end must not show through.
                    files.data.set_size(*from).map_err(disk_error)?;
                    files.data.set_size(*to).map_err(disk_error)?;
                }
            }
        }
        if !self.checksums.is_empty() {
            let raw = encode_block_checksums(self.head.handle, self.first_block, &self.checksums);
            let offset = block_checksum_offset(self.first_block);
            files.meta.write_at(&raw, offset).map_err(disk_error)?;
        }
        // Also where there are no bytes, as in a levelling that finds nothing to do: the serial
        // number stands only in the head.
        chunk.unsynced_appends = true;
        chunk.write_head(files, self.head)
    }
}

/// Goes through the bytes of segments.
struct SegmentCursor<'a> {
    segments: &'a [Bytes],
    at: usize,
}

impl SegmentCursor<'_> {
    /// Hands the next `size` bytes to `see`, as they lie.
    fn take(&mut self, mut size: usize, mut see: impl FnMut(&[u8])) {
        while size > 0 {
            let (segment, rest) = self.segments.split_first().expect("as many bytes as counted");
            let part = size.min(segment.len() - self.at);
            see(&segment[self.at..self.at + part]);
            size -= part;
            self.at += part;
            if self.at == segment.len() {
                self.segments = rest;
                self.at = 0;
            }
        }
    }
}

/// Writes segments one behind the other, small ones gathered.
fn write_segments(
    file: &dyn DiskFile,
    mut offset: u64,
    segments: &[Bytes],
) -> Result<(), DiskError> {
    let mut gathered: Vec<u8> = Vec::new();
    for segment in segments {
        if segment.len() < GATHER_BELOW {
            gathered.extend_from_slice(segment);
        }
        let full = gathered.len() >= GATHER_BELOW || segment.len() >= GATHER_BELOW;
        if full && !gathered.is_empty() {
            file.write_at(&gathered, offset).map_err(disk_error)?;
            offset += gathered.len() as u64;
            gathered.clear();
        }
        if segment.len() >= GATHER_BELOW {
            file.write_at(segment, offset).map_err(disk_error)?;
            offset += segment.len() as u64;
        }
    }
    if gathered.is_empty() {
        return Ok(());
    }
    file.write_at(&gathered, offset).map_err(disk_error)
}
