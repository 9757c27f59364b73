//! A client that does one thing steadily, seen from the soak.

use crate::load::{LoadPart, LoadPlace};
use crate::load_process::SteadyFigures;
use anyhow::Result;
use std::time::Duration;

/// One such client, in a process of its own; ended when dropped.
#[derive(Debug)]
pub(crate) struct SteadyLoad {
    part: LoadPart,
}

impl SteadyLoad {
    /// Starts one that does `what` (`look-up`, `ask-shadow`, `read`, `append`, `append-small`,
    /// `create`) with a path, and has it begin.
    ///
    /// # Errors
    /// When it cannot reach the cell.
    pub(crate) fn start(place: &LoadPlace, what: &str, path: &str) -> Result<Self> {
        let mut part = LoadPart::start(place, 0, &["steady", &place.cell, what, path])?;
        part.order("go")?;
        Ok(Self { part })
    }

    /// What came of it since it was asked last.
    ///
    /// # Errors
    /// When it has ended.
    pub(crate) fn mark(&mut self) -> Result<SteadyFigures> {
        self.part.order("mark")?;
        Ok(serde_json::from_str(&self.part.expect("since")?)?)
    }

    /// What comes of it in so much time from now on.
    ///
    /// # Errors
    /// When it has ended.
    pub(crate) fn measure(&mut self, time: Duration) -> Result<SteadyFigures> {
        self.mark()?;
        std::thread::sleep(time);
        self.mark()
    }
}
