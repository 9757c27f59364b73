//! Entries taken out of their runs, to be put into runs again otherwise.

use crate::limits::LEAF_SIZE_MAX;
use crate::parts::KeyParts;
use crate::run::{EntryRun, GroupFirst, RunGroup};
use crate::run_builder::RunBuilder;
use std::ops::Range;

/// Entries in order, their bytes in one place.
#[derive(Debug, Default)]
pub(crate) struct EntryList {
    bytes: Vec<u8>,
    spans: Vec<EntrySpan>,
}

/// Where an entry's key and value lie; the value starts where the key ends.
#[derive(Clone, Copy, Debug)]
struct EntrySpan {
    start: usize,
    key_end: usize,
    end: usize,
}

impl EntryList {
    /// How many.
    pub(crate) fn count(&self) -> usize {
        self.spans.len()
    }

    /// Key and value of one.
    pub(crate) fn get(&self, index: usize) -> (&[u8], &[u8]) {
        let span = self.spans[index];
        (&self.bytes[span.start..span.key_end], &self.bytes[span.key_end..span.end])
    }

    /// Its key.
    pub(crate) fn key(&self, index: usize) -> &[u8] {
        self.get(index).0
    }

    /// Appends an entry.
    pub(crate) fn push(&mut self, key: &[u8], value: &[u8]) {
        self.insert(self.spans.len(), key, value);
    }

    /// Puts an entry before the one at `index`.
    pub(crate) fn insert(&mut self, index: usize, key: &[u8], value: &[u8]) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(key);
        let key_end = self.bytes.len();
        self.bytes.extend_from_slice(value);
        self.spans.insert(index, EntrySpan { start, key_end, end: self.bytes.len() });
    }

    /// Takes entries out and puts those of `others` in their place.
    pub(crate) fn splice(&mut self, range: Range<usize>, others: &Self) {
        let base = self.bytes.len();
        self.bytes.extend_from_slice(&others.bytes);
        let moved = others.spans.iter().map(|span| EntrySpan {
            start: base + span.start,
            key_end: base + span.key_end,
            end: base + span.end,
        });
        self.spans.splice(range, moved);
    }

    /// Puts the entries of `others` among these, in the place of those that have the same key.
    pub(crate) fn merge(&mut self, others: &Self) {
        let base = self.bytes.len();
        self.bytes.extend_from_slice(&others.bytes);
        let old = std::mem::take(&mut self.spans);
        self.spans.reserve(old.len() + others.count());
        let mut old = old.into_iter().peekable();
        for span in &others.spans {
            let new = EntrySpan {
                start: base + span.start,
                key_end: base + span.key_end,
                end: base + span.end,
            };
            let bytes = &self.bytes;
            let key = |span: &EntrySpan| &bytes[span.start..span.key_end];
            while let Some(below) = old.next_if(|old| key(old) < key(&new)) {
                self.spans.push(below);
            }
            old.next_if(|old| key(old) == key(&new));
            self.spans.push(new);
        }
        self.spans.extend(old);
    }

    /// Where `key` is, or else would be.
    pub(crate) fn search(&self, key: &[u8]) -> Result<usize, usize> {
        self.spans.binary_search_by(|span| self.bytes[span.start..span.key_end].cmp(key))
    }

    /// Appends the entries of a run. Nothing where it is none.
    pub(crate) fn append_run(&mut self, bytes: &[u8]) -> Option<()> {
        let run = EntryRun::new(bytes);
        let mut groups = run.groups()?;
        self.bytes.reserve(bytes.len() * 3);
        let mut first_key = None;
        while groups.left > 0 {
            let group = groups.take()?;
            let reference = match first_key {
                Some(first_key) => group.key(first_key)?,
                None => KeyParts::whole(first_key.insert(group.middle)),
            };
            let group_start = self.bytes.len();
            reference.append_to(&mut self.bytes);
            self.append_rest(&run, &group, group_start)?;
        }
        Some(())
    }

    /// Appends the entries of one group, whose first key is `first_key`.
    pub(crate) fn append_group(
        &mut self,
        run: &EntryRun<'_>,
        group: &RunGroup<'_>,
        first_key: &[u8],
    ) -> Option<()> {
        let group_start = self.bytes.len();
        self.bytes.extend_from_slice(first_key);
        self.append_rest(run, group, group_start)
    }

    /// Appends the entries of a group, of which the first key stands at the end already.
    fn append_rest(
        &mut self,
        run: &EntryRun<'_>,
        group: &RunGroup<'_>,
        start: usize,
    ) -> Option<()> {
        let size = self.bytes.len() - start;
        let GroupFirst { value, end: mut at } = run.first(group)?;
        if let Some(value) = value {
            self.end_entry(start, value);
        }
        while at < group.body_end {
            let entry = run.entry(at)?;
            at = entry.end;
            let entry_start = self.bytes.len();
            let back = size.checked_sub(entry.front)?.checked_sub(entry.back)?;
            self.bytes.extend_from_within(start..start + entry.front);
            self.bytes.extend_from_slice(entry.middle);
            let tail = start + entry.front + back;
            self.bytes.extend_from_within(tail..start + size);
            self.end_entry(entry_start, entry.value);
        }
        Some(())
    }

    fn end_entry(&mut self, start: usize, value: &[u8]) {
        let key_end = self.bytes.len();
        self.bytes.extend_from_slice(value);
        self.spans.push(EntrySpan { start, key_end, end: self.bytes.len() });
    }

    /// All of them as one run.
    pub(crate) fn to_run(&self) -> Vec<u8> {
        self.range_to_run(0..self.count())
    }

    /// Those of `range` as one run.
    pub(crate) fn range_to_run(&self, range: Range<usize>) -> Vec<u8> {
        let mut builder = RunBuilder::default();
        for index in range {
            let (key, value) = self.get(index);
            builder.push(key, value);
        }
        builder.finish()
    }

    /// Those of `range` as few runs, each with the index after its last entry.
    pub(crate) fn to_full_runs(&self, range: Range<usize>) -> Vec<(Vec<u8>, usize)> {
        self.to_runs(range, (0, 0), LEAF_SIZE_MAX)
    }

    /// Those of `range` as runs, each with the index after its last entry.
    ///
    /// A run ends where it would have more than `size_max` bytes; an entry too large for any run
    /// gets one of its own. All but the last of `even` runs end at `size_aim` bytes already.
    pub(crate) fn to_runs(
        &self,
        range: Range<usize>,
        (even, size_aim): (usize, usize),
        size_max: usize,
    ) -> Vec<(Vec<u8>, usize)> {
        let mut runs = Vec::new();
        let mut builder = RunBuilder::default();
        for index in range.clone() {
            let (key, value) = self.get(index);
            let aimed = runs.len() + 1 < even && !builder.is_empty();
            let ends = aimed && builder.size() >= size_aim;
            if ends || !builder.push_within(size_max, key, value) {
                runs.push((builder.finish(), index));
                builder.push(key, value);
            }
        }
        if !builder.is_empty() {
            runs.push((builder.finish(), range.end));
        }
        runs
    }
}
