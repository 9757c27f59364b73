//! The floor, seen from the bench: one run of a bare chain, measured as a cell's run is.

use crate::cpu;
use crate::error::{BenchError, Doing};
use crate::floor_part::{FRAME_SIZE, FloorRole, HOPS};
use crate::pairs::StreamRun;
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

/// A part that runs; ended when dropped.
struct FloorProcess {
    child: Child,
    stdout: BufReader<ChildStdout>,
}

impl Drop for FloorProcess {
    fn drop(&mut self) {
        // Fails only for a process that has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl FloorProcess {
    fn start(
        role: FloorRole,
        file: Option<&Path>,
        next: Option<&str>,
        frames: u64,
    ) -> io::Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["floor-part", "--role", &role.name(), "--frames", &frames.to_string()]);
        if let Some(file) = file {
            command.arg("--file").arg(file);
        }
        if let Some(next) = next {
            command.args(["--next", next]);
        }
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let stdout = BufReader::new(child.stdout.take().expect("piped"));
        Ok(Self { child, stdout })
    }

    /// The next line that it prints: where it listens, that it is ready, its seconds.
    fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        if self.stdout.read_line(&mut line)? == 0 {
            return Err(io::Error::other("a part of the floor ended early"));
        }
        Ok(line.trim().to_owned())
    }

    fn go(&mut self) -> io::Result<()> {
        self.child.stdin.as_mut().expect("piped").write_all(b"go\n")
    }
}

/// A chain with fresh files, which go when it is dropped.
pub(crate) struct Floor {
    files: Vec<PathBuf>,
    frames: u64,
}

impl Floor {
    /// A chain of three that will write `megabytes` into files called `name-…` in `directory`.
    pub(crate) fn new(directory: &Path, name: &str, megabytes: u64) -> Self {
        let file = |hop| directory.join(format!("{name}-{hop}"));
        Self { files: (0..HOPS).map(file).collect(), frames: megabytes }
    }

    /// One write down the chain.
    pub(crate) fn write(&self) -> Result<StreamRun, BenchError> {
        self.write_files().doing(|| "running the floor of a write".to_owned())
    }

    fn write_files(&self) -> io::Result<StreamRun> {
        let mut servers = Vec::new();
        let mut next: Option<String> = None;
        for file in self.files.iter().rev() {
            let (file, after) = (Some(file.as_path()), next.as_deref());
            let mut server = FloorProcess::start(FloorRole::Receive, file, after, self.frames)?;
            next = Some(server.line()?);
            servers.push(server);
        }
        let client = FloorProcess::start(FloorRole::Send, None, next.as_deref(), self.frames)?;
        self.measure(servers, client)
    }

    /// What a read reads: the first server's file.
    pub(crate) fn read_from(&self) -> &Path {
        &self.files[0]
    }

    /// One read of it.
    pub(crate) fn read(&self) -> Result<StreamRun, BenchError> {
        self.read_file().doing(|| "running the floor of a read".to_owned())
    }

    fn read_file(&self) -> io::Result<StreamRun> {
        let file = Some(self.read_from());
        let mut server = FloorProcess::start(FloorRole::Serve, file, None, self.frames)?;
        let address = server.line()?;
        let client = FloorProcess::start(FloorRole::Read, None, Some(&address), self.frames)?;
        self.measure(vec![server], client)
    }

    fn measure(
        &self,
        servers: Vec<FloorProcess>,
        mut client: FloorProcess,
    ) -> io::Result<StreamRun> {
        client.line()?;
        let mut pids: Vec<u32> = servers.iter().map(|server| server.child.id()).collect();
        pids.push(client.child.id());
        let before = cpu::seconds(&pids);
        client.go()?;
        let seconds = client.line()?.parse().map_err(io::Error::other)?;
        let cpu_seconds = cpu::seconds(&pids) - before;
        Ok(StreamRun { bytes: self.frames * FRAME_SIZE as u64, seconds, cpu_seconds })
    }
}

impl Drop for Floor {
    fn drop(&mut self) {
        for file in &self.files {
            // One that was not written is not there.
            let _ = std::fs::remove_file(file);
        }
    }
}

/// Has the machine warm up so much memory: what is then written to the page cache, by whichever
/// side, pays for no page that the machine has to fetch from its host first.
pub(crate) fn warm_memory(megabytes: u64) -> Result<(), BenchError> {
    let doing = || "warming up memory".to_owned();
    // Not so much that files which are to be read again would have to go.
    let megabytes = megabytes.min(available_megabytes().doing(doing)? / 2);
    let mut process = FloorProcess::start(FloorRole::Touch, None, None, megabytes).doing(doing)?;
    let status = process.child.wait().doing(doing)?;
    let failed = || io::Error::other(format!("it ended with {status}"));
    if status.success() { Ok(()) } else { Err(failed()).doing(doing) }
}

/// What the kernel would give without taking it from anybody.
fn available_megabytes() -> io::Result<u64> {
    let text = std::fs::read_to_string("/proc/meminfo")?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kilobytes = line.and_then(|rest| rest.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    Ok(kilobytes.ok_or_else(|| io::Error::other("meminfo has no MemAvailable"))? / 1024)
}

#[cfg(test)]
mod tests {
    #[test]
    fn this_machine_has_some_memory_to_give() {
        assert!(super::available_megabytes().expect("reads") > 0);
    }
}
