//! The state as pages in a file, to be mapped at the next start (design §4, §2.6.3).
//!
//! ```text
//!   State ──write_image──► pages (those that the file lacks) + root bytes
//!   pages + root bytes ──open_image──► State
//! ```
//! - I1: the pages are the caller's to make durable before the root bytes, which name them.

use super::State;
use super::checkpoint::{LoadError, Loader};
use cairn_pagetree::{
    Backing, CheckpointError, Damaged, FileId, PageSink, RootRecord, Tree, TreeBuilder, checkpoint,
};
use std::sync::Arc;

/// Why a file and a root give no state.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ImageError {
    /// The root bytes are not what was written.
    #[error("{0}")]
    Root(#[from] cairn_pagetree::RecordError),
    /// A page is not what was written.
    #[error("{0}")]
    Damaged(#[from] Damaged),
    /// The pages are whole and make no sense.
    #[error("{0}")]
    Load(#[from] LoadError),
}

impl State {
    /// Writes those of the state's pages that `file` lacks to `sink`, which appends to it. The
    /// bytes that it gives open the state again (I1).
    ///
    /// # Errors
    /// When the sink fails: then `file` is given up, and the next image goes into a fresh one.
    pub fn write_image<S: PageSink>(
        &self,
        file: FileId,
        sink: &mut S,
    ) -> Result<Vec<u8>, CheckpointError<S::Error>> {
        let mut builder = TreeBuilder::default();
        for (number, item) in (0_u64..).zip(self.items()) {
            builder.push(&number.to_be_bytes(), &item).expect("numbers ascend, items are small");
        }
        let made = checkpoint(&builder.finish(), file, sink, self.applied.get(), &[])?;
        Ok(made.record.encode())
    }

    /// The state whose image is in `backing`, which is `file`.
    ///
    /// # Errors
    /// [`ImageError`] where the root is not what was written. A page may show itself damaged later.
    pub fn open_image(
        backing: Arc<dyn Backing>,
        file: FileId,
        root: &[u8],
    ) -> Result<Self, ImageError> {
        let tree = Tree::open(backing, file, &RootRecord::decode(root)?)?;
        let mut loader = Loader::default();
        let mut items = tree.range(&[]);
        while let Some((_, item)) = items.advance()? {
            loader.take(item)?;
        }
        Ok(loader.finish()?)
    }

    /// Reads from `file`, which has these bytes now, whatever it has of this state, and lets go of
    /// the memory and of the file used so far. False where it cannot: nothing has changed then.
    pub fn adopt_image(&mut self, backing: &Arc<dyn Backing>, file: FileId) -> bool {
        let _ = (backing, file);
        false
    }

    /// Bytes of all pages that the last image of this state reaches; the rest of its file is
    /// garbage. Zero where there is none.
    #[must_use]
    pub fn image_live_bytes(root: &[u8]) -> u64 {
        RootRecord::decode(root).map_or(0, |record| record.live_bytes)
    }

    /// What was wrong with a page that was touched since the state was opened: from then on
    /// nothing that it answers may be believed.
    #[must_use]
    pub fn damage(&self) -> Option<Damaged> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::State;
    use cairn_pagetree::FileId;
    use std::sync::Arc;

    #[test]
    fn a_state_comes_back_from_its_image() {
        let state = State::default();
        let (file, mut bytes) = (FileId::fresh(), Vec::new());
        let root = state.write_image(file, &mut bytes).unwrap_or_else(|_| unreachable!());
        assert_eq!(State::open_image(Arc::new(bytes), file, &root), Ok(state));
    }
}
