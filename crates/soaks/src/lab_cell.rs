//! A cell in a laboratory: the master on `m0`, a chunkserver on each `s..`, clients wherever.

use crate::cell::host_name;
use crate::lab::Lab;
use crate::options::SoakOptions;
use anyhow::{Context, Result, anyhow};
use cairn_testkit::{CellPlan, CellProcesses, Program};
use std::path::Path;
use std::process::Stdio;

/// How it is to be.
#[derive(Clone, Debug)]
pub(crate) struct LabCellPlan<'a> {
    /// Part of its directory's name: a soak may have several, one after the other, and keep them.
    pub(crate) name: &'a str,
    /// Chunkservers, of which the laboratory has as many hosts.
    pub(crate) servers: usize,
    /// The settings that it is founded with.
    pub(crate) settings: &'a str,
    /// In which rack each chunkserver is, from 1 on.
    pub(crate) rack: fn(usize) -> &'static str,
}

/// One of them. What is in front ends first.
#[derive(Debug)]
pub(crate) struct LabCell {
    pub(crate) processes: CellProcesses,
    program: Program,
    pub(crate) lab: Lab,
}

impl LabCell {
    /// Founds it.
    ///
    /// # Errors
    /// With what a server's log says last.
    pub(crate) fn start(
        program: Program,
        lab: Lab,
        plan: &LabCellPlan<'_>,
        options: &SoakOptions,
    ) -> Result<Self> {
        let directory = format!("cairn-soak-{}-{}", std::process::id(), plan.name);
        let directory = std::env::temp_dir().join(directory);
        let mut cell = CellPlan::new(lab.program(&program, "c01"), directory, plan.servers);
        cell.keep = options.keep;
        plan.settings.clone_into(&mut cell.settings);
        if options.small_cell {
            cell.master_arguments.push("--small-cell".to_owned());
        }
        cell.hosts.push(lab.host(&program, "m0", "/")?);
        for number in 1..=plan.servers {
            cell.hosts.push(lab.host(&program, &host_name(number), (plan.rack)(number))?);
        }
        Ok(Self { processes: CellProcesses::start(cell)?, program, lab })
    }

    /// Where its processes keep their data, and what a soak may use.
    pub(crate) fn directory(&self) -> &Path {
        self.processes.directory()
    }

    /// The binary, run on a client's host.
    fn program_on(&self, host: &str) -> Program {
        self.lab.program(&self.program, host)
    }

    /// Runs a command there to its end.
    ///
    /// # Errors
    /// With its last failure where it fails.
    pub(crate) fn ask(&self, host: &str, arguments: &[&str]) -> Result<String> {
        let cell = ["--cell", self.processes.address()];
        Ok(self.program_on(host).ask(&[arguments, &cell].concat())?)
    }

    /// Runs a command on each of these hosts, all at once, to their ends; what they write to stdout
    /// is thrown away.
    ///
    /// # Errors
    /// With the last failure of one that fails.
    pub(crate) fn run_all(&self, commands: &[(String, Vec<String>)]) -> Result<()> {
        let cell = ["--cell", self.processes.address()];
        let start = |(host, words): &(String, Vec<String>)| {
            let words = words.iter().map(String::as_str).chain(cell);
            let mut command = self.program_on(host).command(words);
            command.stdout(Stdio::null()).stderr(Stdio::piped());
            command.spawn().with_context(|| format!("starting a client on {host}"))
        };
        let started: Vec<_> = commands.iter().map(start).collect();
        let mut failed = Ok(());
        // All are waited for, whatever becomes of one.
        for (child, (host, words)) in started.into_iter().zip(commands) {
            let done = child.and_then(|child| Ok(child.wait_with_output()?));
            let failure = match done {
                Ok(output) if output.status.success() => continue,
                Ok(output) => String::from_utf8_lossy(&output.stderr).trim().to_owned(),
                Err(error) => format!("{error:#}"),
            };
            failed = Err(anyhow!("{host}: cairn {}: {failure}", words.join(" ")));
        }
        failed
    }
}
