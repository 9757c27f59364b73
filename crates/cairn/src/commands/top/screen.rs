//! The terminal while `cairn top` has it: as it was before, however that ends.

use crossterm::cursor::{Hide, MoveTo, Show};
use crossterm::event::{Event, KeyCode, KeyModifiers, poll, read};
use crossterm::queue;
use crossterm::style::Print;
use crossterm::terminal::{
    Clear, ClearType, EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode,
    enable_raw_mode, size,
};
use std::io::{Result, Write, stdout};
use std::time::{Duration, Instant};

/// Given back when it is dropped.
pub(crate) struct Screen;

impl Screen {
    /// Takes the terminal.
    ///
    /// # Errors
    /// It is none, or does as it likes.
    pub(crate) fn take() -> Result<Self> {
        enable_raw_mode()?;
        let screen = Self;
        let mut out = stdout();
        queue!(out, EnterAlternateScreen, Hide)?;
        out.flush()?;
        Ok(screen)
    }

    /// Shows what fits of these lines.
    ///
    /// # Errors
    /// The terminal is gone.
    pub(crate) fn show(&self, lines: &[String]) -> Result<()> {
        let (width, height) = size()?;
        let mut out = stdout();
        queue!(out, MoveTo(0, 0))?;
        let rows = usize::from(height.saturating_sub(1));
        for line in lines.iter().take(rows) {
            let fits: String = line.chars().take(usize::from(width)).collect();
            queue!(out, Print(fits), Clear(ClearType::UntilNewLine), Print("\r\n"))?;
        }
        queue!(out, Clear(ClearType::FromCursorDown), Print("q quits"))?;
        out.flush()
    }

    /// Waits for so long; whether the person wants to go before that.
    ///
    /// # Errors
    /// The terminal is gone.
    pub(crate) fn is_left(patience: Duration) -> Result<bool> {
        let until = Instant::now() + patience;
        loop {
            if !poll(until.saturating_duration_since(Instant::now()))? {
                return Ok(false);
            }
            let Event::Key(key) = read()? else { continue };
            let is_interrupt = key.modifiers.contains(KeyModifiers::CONTROL);
            match key.code {
                KeyCode::Char('q') | KeyCode::Esc => return Ok(true),
                KeyCode::Char('c' | 'd') if is_interrupt => return Ok(true),
                _ => {}
            }
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let mut out = stdout();
        // A terminal that is gone needs nothing back.
        let _ = queue!(out, Show, LeaveAlternateScreen);
        let _ = out.flush();
        let _ = disable_raw_mode();
    }
}
