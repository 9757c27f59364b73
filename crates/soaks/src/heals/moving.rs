//! Balance and drain as jobs: listed, cancelled, repeated, and carried on by a master that is
//! started again.

use super::heal_cell::{CHUNK_SIZE, HealCell, QUICK, StoredFile};
use crate::report::Report;
use anyhow::{Context, Result, bail};
use cairn_testkit::Program;
use serde_json::Value;
use std::collections::BTreeSet;

const CHUNKS: u64 = 40;

/// `jobs`.
pub(crate) fn moving(program: &Program, report: &mut Report) -> Result<()> {
    let settings = format!("{QUICK}trash_ms = 1000\n");
    let mut cell = HealCell::start_plan(program, 5, |plan| {
        plan.settings = settings;
        plan.servers_per_rack = 2;
    })?;
    let file = cell.put("file", CHUNKS * CHUNK_SIZE)?;
    let what = "drain: dry run, the master's restart meanwhile, may be switched off, undrain";
    report.works(what, drain(&mut cell, &file));
    let what = "a fresh server, balance: dry run, listed, cancelled, repeated; racks respected";
    report.works(what, balance(&mut cell, &file));
    Ok(())
}

fn job(cell: &HealCell, kind: &str) -> Result<Option<Value>> {
    Ok(cell.told(&["jobs"])?.into_iter().find(|job| job["kind"] == kind))
}

fn drain(cell: &mut HealCell, file: &StoredFile) -> Result<String> {
    // So slow that the master's restart falls into it.
    cell.ask(&["settings", "clone_rate=4M"])?;
    let address = cell.chunkservers[0].address().to_owned();
    let dry = cell.value(&["drain", "--dry-run", &address])?;
    if dry["blocked"] != "" || cell.server(0)?["duty"] != "serving" {
        bail!("the dry run says {dry}, the server {}", cell.server(0)?);
    }
    cell.ask(&["drain", &address])?;
    cell.wait("it to be listed", || Ok(job(cell, "drain")?.is_some()))?;
    cell.masters[0].kill();
    cell.masters[0].restart()?;
    cell.await_live(5)?;
    let state = cell.server(0)?["duty"].clone();
    cell.ask(&["settings", "clone_rate=64M"])?;
    cell.wait("it to be drained", || Ok(cell.server(0)?["duty"] == "drained"))?;
    let left = cell.server(0)?["chunk_count"].clone();
    let lacked = cell.value(&["status"])?["under_replicated"].clone();
    cell.chunkservers[0].kill();
    cell.await_state(0, "dead")?;
    cell.await_whole()?;
    if state != "draining" || left != 0 || lacked != 0 {
        bail!("{state} after the restart, {left} chunks left, {lacked} lack replicas");
    }
    cell.judge(file)?;
    cell.chunkservers[0].restart()?;
    cell.await_state(0, "live")?;
    cell.ask(&["undrain", &address])?;
    cell.await_healthy()?;
    let count = &dry["chunk_count"];
    Ok(format!("{count} chunks; switched off, and no chunk lacked a replica"))
}

fn balance(cell: &mut HealCell, file: &StoredFile) -> Result<String> {
    cell.add_chunkserver()?;
    cell.await_live(6)?;
    cell.wait("all to have told what they store", || {
        let servers = cell.told(&["servers"])?;
        let stored: Option<u64> = servers.iter().map(|it| it["stored"].as_u64()).sum();
        Ok(stored == Some(CHUNKS * 3 * CHUNK_SIZE))
    })?;
    let dry = cell.value(&["balance", "--dry-run"])?;
    if job(cell, "balance")?.is_some() {
        bail!("a dry run has begun it");
    }
    cell.ask(&["settings", "clone_rate=1M"])?;
    cell.ask(&["balance"])?;
    cell.wait("it to be listed", || Ok(job(cell, "balance")?.is_some()))?;
    cell.ask(&["jobs", "cancel", "balance"])?;
    if job(cell, "balance")?.is_some() {
        bail!("it is listed after it was cancelled");
    }
    cell.ask(&["settings", "clone_rate=64M"])?;
    for _ in 0..2 {
        cell.ask(&["balance"])?;
        cell.wait("its end", || Ok(job(cell, "balance")?.is_none()))?;
    }
    cell.await_healthy()?;
    cell.wait("what was moved to be gone elsewhere", || {
        Ok(cell.chunk_file_count()? as u64 == CHUNKS * 3)
    })?;
    let fresh = cell.chunk_files(5)?.len() as u64;
    let share = CHUNKS * 3 / 6;
    if fresh < share * 8 / 10 {
        bail!("the fresh one has {fresh} chunks of {share} that are its share");
    }
    racks(cell, file)?;
    cell.judge(file)?;
    let (under, over) = (&dry["under_count"], &dry["over_count"]);
    Ok(format!("dry run: {under} too empty, {over} too full; {fresh} of {share} chunks there"))
}

/// Each chunk stands in two racks at least.
fn racks(cell: &HealCell, file: &StoredFile) -> Result<()> {
    let servers = cell.told(&["servers"])?;
    for chunk in crate::cell::chunks(cell, &file.path)? {
        let replicas = chunk["replicas"].as_array().context("replicas")?;
        let rack = |replica: &Value| {
            let server = servers.iter().find(|it| it["address"] == replica["address"]);
            server.map(|it| it["rack"].to_string())
        };
        if replicas.iter().filter_map(rack).collect::<BTreeSet<_>>().len() < 2 {
            bail!("all replicas in one rack: {chunk}");
        }
    }
    Ok(())
}
