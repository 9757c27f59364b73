//! What streams have lost: which bytes, and how a person lets readers pass over them (R41).

use super::findings::{Finding, FindingCode};
use crate::cli_error::{CliError, Doing};
use cairn_client::{Cell, LostRange, Stream};
use cairn_protocol::{ErrorCode, ListedChunk, LostTail};
use cairn_types::CellPath;
use std::collections::BTreeMap;
use std::fmt::Write;

/// Ranges that one line names.
const NAMED_MAX: usize = 4;

/// Files that are open at once.
const FILES_MAX: usize = 64;

/// Finds out where in their files the lost bytes of chunks are.
pub(super) struct LostBytes<'a> {
    cell: &'a Cell,
    /// Holes are made of them.
    skips: bool,
    /// Why a hole could not be made, the first time.
    refused: Option<CliError>,
    /// Of each file that was looked at; none of one that is there no more.
    files: BTreeMap<String, Option<(Stream, Vec<LostRange>)>>,
}

impl<'a> LostBytes<'a> {
    pub(super) fn new(cell: &'a Cell, skips: bool) -> Self {
        Self { cell, skips, refused: None, files: BTreeMap::new() }
    }

    /// What a chunk has lost; readers pass over it from now on, if that is wanted.
    ///
    /// # Errors
    /// No master answers.
    pub(super) async fn find(&mut self, mut chunk: ListedChunk) -> Result<Finding, CliError> {
        if chunk.unnamed {
            let doing = || "asking the master whose chunk it is".to_owned();
            let listed = self.cell.listed_chunk(chunk.handle).await.doing(doing)?;
            chunk.path = listed.map_or(chunk.path, |listed| listed.path);
        }
        let Some(LostTail { held, committed, is_hole, .. }) = chunk.lost else {
            unreachable!("it is asked of chunks that have lost some")
        };
        if !self.files.contains_key(&chunk.path) {
            if self.files.len() >= FILES_MAX {
                self.files.clear();
            }
            let file = self.open(&chunk.path).await?;
            self.files.insert(chunk.path.clone(), file);
        }
        let file = self.files.get(&chunk.path).and_then(Option::as_ref);
        let Some((stream, ranges)) = file else {
            let what = format!("bytes {held} to {committed} of the chunk are lost");
            let code = if is_hole { FindingCode::Hole } else { FindingCode::LostBytes };
            return Ok(Finding::of(&chunk, code, what));
        };
        let skipped = match self.skips && !is_hole {
            true => skip(stream, &chunk).await,
            false => Ok(false),
        };
        let becomes_hole = match skipped {
            Ok(becomes_hole) => becomes_hole,
            // The others are looked at all the same.
            Err(error) => {
                self.refused.get_or_insert(error);
                false
            }
        };
        let ranges = ranges.iter().filter(|range| range.handle == chunk.handle);
        let ranges = joined(ranges.map(|range| (range.offset, range.end)).collect());
        let is_gone = ranges.is_empty();
        let what = ranges_text(&ranges);
        let is_lost = !is_hole && !becomes_hole;
        let code = if is_lost { FindingCode::LostBytes } else { FindingCode::Hole };
        let how = match (is_hole, becomes_hole) {
            (true, _) => "readers pass over them",
            (_, true) => "readers pass over them from now on",
            _ if chunk.deleted => "the file is deleted",
            _ if is_gone => "'fsck FILE --skip-lost' ends that",
            _ => {
                "readers fail there: 'fsck FILE --skip-lost' lets them pass over it, unless \
                 'cairn explain' names a server that keeps them"
            }
        };
        Ok(Finding::of(&chunk, code, format!("{what}; {how}")))
    }

    /// Fails where a hole was wanted and could not be made.
    ///
    /// # Errors
    /// Why, of the first.
    pub(super) fn end(self) -> Result<(), CliError> {
        self.refused.map_or(Ok(()), Err)
    }

    async fn open(&self, path: &str) -> Result<Option<(Stream, Vec<LostRange>)>, CliError> {
        let Ok(path) = CellPath::parse(path) else { return Ok(None) };
        let doing = || format!("asking where {path} has lost bytes");
        let stream = match self.cell.open_stream(&path).await {
            // It was deleted meanwhile.
            Err(error) if error.code() == ErrorCode::NotFound => return Ok(None),
            opened => opened.doing(doing)?,
        };
        let ranges = stream.lost_ranges().await.doing(doing)?;
        Ok(Some((stream, ranges)))
    }
}

/// Makes a hole of what a chunk has lost; false where there is nothing any more, the file being
/// deleted, or a server back with the bytes.
async fn skip(stream: &Stream, chunk: &ListedChunk) -> Result<bool, CliError> {
    match stream.skip_lost(chunk.handle).await {
        Ok(()) => Ok(true),
        Err(error) if error.code() == ErrorCode::NotFound => Ok(false),
        Err(error) => Err(CliError::new(
            format!("letting readers of {} pass over what is lost", chunk.path),
            error,
        )),
    }
}

/// Ranges in order, those that lie side by side as one.
fn joined(ranges: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
    let mut out: Vec<(u64, u64)> = Vec::new();
    for (from, to) in ranges {
        match out.last_mut() {
            Some((_, end)) if *end == from => *end = to,
            _ => out.push((from, to)),
        }
    }
    out
}

fn ranges_text(ranges: &[(u64, u64)]) -> String {
    let mut text = String::new();
    for (from, to) in ranges.iter().take(NAMED_MAX) {
        let between = if text.is_empty() { "bytes" } else { "," };
        write!(text, "{between} {from} to {to}").expect("a string takes all");
    }
    match ranges.len() {
        0 => "bytes are lost that the file has no more of".to_owned(),
        count if count > NAMED_MAX => {
            format!("{text} and {} ranges more of the file are lost", count - NAMED_MAX)
        }
        _ => format!("{text} of the file are lost"),
    }
}
