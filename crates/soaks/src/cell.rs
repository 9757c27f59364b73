//! The soak's cell: a master and chunkservers in racks of two, and what its files' chunks are.
//!
//! ```text
//!   here                     in a laboratory (--lab)
//!   127.0.0.1, all of it     m0, s01 … and clients on c01 …, each behind a link of its own
//! ```

use crate::failing_disk::FailingDisk;
use crate::lab::Lab;
use crate::load::LoadPlace;
use crate::options::SoakOptions;
use crate::small_disk::SmallDisk;
use crate::teller::Teller;
use anyhow::{Context, Result, bail};
use cairn_testkit::{CellPlan, CellProcesses, Host, MastersPlan, PATIENCE, Program, await_until};
use serde_json::Value;
use std::time::Duration;

/// Hosts of a laboratory that clients run on.
const CLIENT_HOSTS: usize = 4;
/// Of a group.
const MASTERS: usize = 3;

/// A cell, and what is around it. What is in front ends first.
#[derive(Debug)]
pub(crate) struct SoakCell {
    pub(crate) processes: CellProcesses,
    /// From where it is used.
    pub(crate) place: LoadPlace,
    pub(crate) lab: Option<Lab>,
    /// The last chunkserver's, where it was asked for and could be had.
    pub(crate) disk: Option<SmallDisk>,
    /// The masters', where they were asked for.
    pub(crate) master_disks: Vec<FailingDisk>,
}

/// Starts it and waits until all servers are live; with three masters, and with a small disk, where
/// that is said.
///
/// # Errors
/// With what a server's log says last.
pub(crate) fn start(
    program: Program,
    options: &SoakOptions,
    (in_group, with_disk): (bool, bool),
    teller: &Teller,
) -> Result<SoakCell> {
    let directory = std::env::temp_dir().join(format!("cairn-soak-{}", std::process::id()));
    let servers = options.servers;
    let mut plan = CellPlan::new(program.clone(), &directory, servers);
    plan.keep = options.keep;
    plan.masters = if in_group { MastersPlan::Group(MASTERS) } else { MastersPlan::Alone };
    if options.small_cell {
        plan.master_arguments.push("--small-cell".to_owned());
    }
    if let Some(chunk_size) = options.chunk_size {
        plan.settings = format!("[new_cell]\nchunk_size = {chunk_size}\n");
    }
    let disk = if with_disk { SmallDisk::mount(&directory.with_extension("disk"))? } else { None };
    if let Some(disk) = &disk {
        plan.disks.insert(servers, vec![disk.path().join("data")]);
    }
    let masters = if in_group { MASTERS } else { 1 };
    let mut master_disks = Vec::new();
    for number in (1..=MASTERS).filter(|_| options.disks) {
        let disk = FailingDisk::mount(&directory.with_extension(format!("disk-{number}")))?;
        plan.master_disks.push(disk.path().join("data"));
        master_disks.push(disk);
    }
    let lab = options.lab.as_deref();
    let lab = lab.map(|path| laboratory(path, masters, servers)).transpose()?;
    let mut runners = Vec::new();
    if let Some(lab) = &lab {
        plan.hosts = hosts(lab, &program, servers)?;
        if in_group {
            let host = |number| lab.host(&program, &master_host_name(number), "/");
            plan.master_hosts = (0..MASTERS).map(host).collect::<Result<_>>()?;
        }
        plan.program = lab.program(&program, "c01");
        runners = (1..=CLIENT_HOSTS).map(|host| lab.runner(&format!("c{host:02}"))).collect();
    }
    let processes = CellProcesses::start(plan)?;
    let place = LoadPlace { runners, ..LoadPlace::here(&processes) };
    teller.say(format_args!("master {} and {servers} chunkservers run", processes.address()));
    Ok(SoakCell { processes, place, lab, disk, master_disks })
}

/// Links that are no matter by themselves; what happens to them is.
fn laboratory(path: &str, masters: usize, servers: usize) -> Result<Lab> {
    let [masters, servers, clients] = [masters, servers, CLIENT_HOSTS].map(|it| it.to_string());
    let shape = ["--topology", "custom", "--masters", &masters, "--servers", &servers];
    let rest = ["--clients", &clients, "--racks", "3", "--rate", "1gbit"];
    Lab::up(path, &[&shape[..], &rest].concat())
}

/// The master's, and then each chunkserver's.
fn hosts(lab: &Lab, program: &Program, servers: usize) -> Result<Vec<Host>> {
    let mut hosts = vec![lab.host(program, "m0", "/")?];
    for number in 1..=servers {
        let rack = format!("/rack-{}", number.div_ceil(2));
        hosts.push(lab.host(program, &host_name(number), &rack)?);
    }
    Ok(hosts)
}

/// Master 0, 1, … of a laboratory.
pub(crate) fn master_host_name(number: usize) -> String {
    format!("m{number}")
}

/// Chunkserver 1, 2, … of a laboratory.
pub(crate) fn host_name(number: usize) -> String {
    format!("s{number:02}")
}

/// What a command tells, a JSON value a line.
///
/// # Errors
/// Where it tells something else. Its exit code is no matter.
pub(crate) fn told(cell: &CellProcesses, arguments: &[&str]) -> Result<Vec<Value>> {
    let all = [arguments, &["--json", "--cell", cell.address()]].concat();
    let output = cell.program().command(&all).output().context("starting cairn")?;
    let text = String::from_utf8_lossy(&output.stdout);
    let values = text.lines().map(serde_json::from_str).collect::<Result<Vec<_>, _>>();
    values.with_context(|| format!("cairn {}: {text}", arguments.join(" ")))
}

/// What fsck finds: code, path, server and what it says of each.
///
/// # Errors
/// Where it cannot be asked.
pub(crate) fn findings(cell: &CellProcesses, arguments: &[&str]) -> Result<Vec<String>> {
    let told = told(cell, &[&["fsck"], arguments].concat())?;
    let (found, last): (Vec<_>, Vec<_>) = told.iter().partition(|it| it["summary"].is_null());
    if last.len() != 1 {
        bail!("fsck came to no end: {told:?}");
    }
    let words = |it: &&Value| {
        let [code, path, address, what] =
            ["code", "path", "address", "what"].map(|name| it[name].as_str().unwrap_or_default());
        format!("{code} {path} {address} {what}")
    };
    Ok(found.iter().map(words).collect())
}

/// Waits until a check of every byte of every replica finds nothing: what is stale or unreferenced
/// goes by itself, and not at once.
///
/// # Errors
/// With what it finds where that does not end.
pub(crate) fn await_nothing_found(cell: &CellProcesses, within: Duration) -> Result<()> {
    let mut found = Vec::new();
    let clean = await_until("a check that finds nothing", within, || {
        found = findings(cell, &["--data"])?;
        Ok::<_, anyhow::Error>(found.is_empty())
    });
    clean.with_context(|| found.join("; ")).map(drop)
}

/// The chunks of a file, as `stat --chunks --json` tells them.
///
/// # Errors
/// When it does not.
pub(crate) fn chunks(cell: &CellProcesses, path: &str) -> Result<Vec<Value>> {
    let text = cell.ask(&["stat", "--chunks", "--json", path])?;
    let value: Value = serde_json::from_str(&text)?;
    value["chunks"].as_array().cloned().with_context(|| format!("no chunks in {text}"))
}

/// Which of the cell's chunkservers a replica is on.
pub(crate) fn holder(cell: &CellProcesses, replica: &Value) -> Option<usize> {
    cell.chunkserver_at(replica["address"].as_str()?)
}

/// The holders of a file's last chunk, once it has a primary: that one, and the others.
///
/// # Errors
/// When there is none for long.
pub(crate) fn last_chunk_holders(cell: &CellProcesses, path: &str) -> Result<(usize, Vec<usize>)> {
    let mut found = None;
    await_until("a primary of the last chunk", PATIENCE, || {
        let chunks = chunks(cell, path)?;
        let replicas = chunks.last().and_then(|chunk| chunk["replicas"].as_array());
        let holders = |primary: bool| -> Vec<usize> {
            let wanted = replicas.into_iter().flatten().filter(|at| at["primary"] == primary);
            wanted.filter_map(|at| holder(cell, at)).collect()
        };
        found = holders(true).first().map(|primary| (*primary, holders(false)));
        Ok::<_, anyhow::Error>(found.is_some())
    })?;
    found.context("found just now")
}
