//! A laboratory: hosts behind links that can be slow, lossy or cut, on this one machine.
//!
//! The program that builds it is told by `--lab PATH`; what it can do stands in its own README.

use anyhow::{Context, Result, bail};
use cairn_testkit::{Host, Program};
use serde_json::Value;
use std::process::Command;

/// A laboratory, taken down in the end.
#[derive(Debug)]
pub(crate) struct Lab {
    path: String,
    prefix: String,
}

impl Lab {
    /// Builds one; `shape` are the words after `lab up`.
    ///
    /// # Errors
    /// Where this machine, or this user, cannot have it.
    pub(crate) fn up(path: &str, shape: &[&str]) -> Result<Self> {
        let lab = Self { path: path.to_owned(), prefix: format!("cs{}", std::process::id()) };
        lab.run(&[&["up"], shape].concat())?;
        Ok(lab)
    }

    /// Has its program do something; what that says.
    ///
    /// # Errors
    /// With what it says where it does not.
    pub(crate) fn run(&self, words: &[&str]) -> Result<String> {
        let mut command = Command::new(&self.path);
        let output = command.args(["--prefix", &self.prefix]).args(words).output();
        let output = output.with_context(|| format!("starting {}", self.path))?;
        if !output.status.success() {
            bail!("lab {}: {}", words.join(" "), String::from_utf8_lossy(&output.stderr).trim());
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// The words before a command that is to run on a host.
    pub(crate) fn runner(&self, host: &str) -> Vec<String> {
        let words = [&self.path, "--prefix", &self.prefix, "exec", host, "--"];
        words.map(str::to_owned).to_vec()
    }

    /// The program, run there.
    pub(crate) fn program(&self, program: &Program, host: &str) -> Program {
        let words = self.runner(host);
        program.run_by(&words.iter().map(String::as_str).collect::<Vec<_>>())
    }

    /// Where a server of a cell runs.
    ///
    /// # Errors
    /// Where there is no such host.
    pub(crate) fn host(&self, program: &Program, host: &str, rack: &str) -> Result<Host> {
        let listen = format!("{}:7400", self.address(host)?);
        Ok(Host { program: self.program(program, host), listen, rack: rack.to_owned() })
    }

    fn address(&self, host: &str) -> Result<String> {
        let hosts: Value = serde_json::from_str(&self.run(&["hosts", "--json"])?)?;
        let all = hosts.as_array().context("a list of hosts")?;
        let found = all.iter().find(|entry| entry["name"] == host);
        let address = found.and_then(|entry| entry["address"].as_str());
        Ok(address.with_context(|| format!("no host {host}"))?.to_owned())
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        // Nothing more can be done about a laboratory that does not go.
        let _ = self.run(&["down"]);
    }
}
