//! What comes on stdin, one word of command a line, and what goes to stdout.

use anyhow::{Context, Result};
use std::io::{BufRead, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

const TELL_EVERY: Duration = Duration::from_millis(100);

/// What the soak says.
pub(crate) struct Orders {
    lines: Receiver<String>,
    /// Set once it has said "stop".
    pub(crate) stop: Arc<AtomicBool>,
}

impl Orders {
    /// Listens on a thread of its own; the end of stdin ends the process (K1).
    pub(crate) fn listen() -> Self {
        let (sender, lines) = channel();
        let stop = Arc::new(AtomicBool::new(false));
        let told = stop.clone();
        std::thread::spawn(move || {
            for line in std::io::stdin().lock().lines().map_while(Result::ok) {
                if line == "stop" {
                    told.store(true, Ordering::Relaxed);
                } else if sender.send(line).is_err() {
                    break;
                }
            }
            std::process::exit(2);
        });
        Self { lines, stop }
    }

    /// Waits for a line that starts with `word`, and answers the rest of it.
    ///
    /// # Errors
    /// When another one comes.
    pub(crate) fn expect(&self, word: &str) -> Result<String> {
        let line = self.lines.recv()?;
        parse(&line, word)
    }

    /// The same, without waiting.
    ///
    /// # Errors
    /// When another one came.
    pub(crate) fn came(&self, word: &str) -> Result<Option<String>> {
        self.lines.try_recv().ok().map(|line| parse(&line, word)).transpose()
    }
}

fn parse(line: &str, word: &str) -> Result<String> {
    let rest = line.strip_prefix(word).with_context(|| format!("'{line}' instead of '{word}'"))?;
    Ok(rest.trim().to_owned())
}

/// Says one line.
pub(crate) fn say(line: &str) {
    let mut stdout = std::io::stdout().lock();
    // Where nobody listens any more, stdin has ended too.
    let _ = writeln!(stdout, "{line}");
    let _ = stdout.flush();
}

/// Tells a count as it grows, from a thread of its own.
pub(crate) fn tell_count(count: Arc<AtomicU64>) {
    std::thread::spawn(move || {
        let mut told = 0;
        loop {
            std::thread::sleep(TELL_EVERY);
            let now = count.load(Ordering::Relaxed);
            if now != told {
                say(&format!("count {now}"));
                told = now;
            }
        }
    });
}
