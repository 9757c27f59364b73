//! `cargo xtask proto`: docs/formats/cairn.proto, by which another language reads our messages.
//!
//! Written from the same source as the code (`cairn_types::message!`), and checked by tidy, so it
//! cannot fall behind.
//!
//! - Each message stands once, and every message that a field names stands.

use crate::workspace::root;
use anyhow::{Context, Result, bail};
use cairn_protocol as protocol;
use cairn_types::wire::Message;
use std::collections::BTreeMap;
use std::fmt::{Debug, Write};

/// The file, from the repository's root.
pub(crate) const PROTO_PATH: &str = "docs/formats/cairn.proto";

/// What a field can be without a definition of its own.
const SCALARS: &[&str] = &["bool", "bytes", "string", "uint32", "uint64"];

/// Writes the file.
///
/// # Errors
/// When a message is missing from the list, or the file cannot be written.
pub(crate) fn write() -> Result<()> {
    let path = root().join(PROTO_PATH);
    std::fs::write(&path, text()?).with_context(|| format!("writing {PROTO_PATH}"))
}

/// What the file must say.
///
/// # Errors
/// When a field's message is nowhere defined: it belongs into the list in this file.
pub(crate) fn text() -> Result<String> {
    let table = protocol::proto_table();
    let mut messages = BTreeMap::new();
    for (_, _, _, definitions) in &table {
        collect(definitions, &mut messages)?;
    }
    collect(&shared(), &mut messages)?;
    check_complete(&messages)?;
    let mut out = String::from(
        "// Messages of Cairn's wire protocol; docs/formats/wire.md says how they travel.\n\
         // Written by `cargo xtask proto` from the code. Do not edit.\n\
         syntax = \"proto3\";\n\npackage cairn;\n\n// Number, request, answer of each rpc:\n",
    );
    for (kind, request, answer, _) in &table {
        writeln!(out, "//   {kind:3}  {request} -> {answer}")?;
    }
    out.push_str("\n// Enums travel as uint32; an absent field means the value marked so.\n");
    out.push_str(&enums());
    for text in messages.values() {
        out.push('\n');
        out.push_str(text);
    }
    Ok(out)
}

/// Messages that no rpc is named after.
fn shared() -> String {
    [
        cairn_types::CellConfig::proto_text(),
        cairn_types::Entry::proto_text(),
        cairn_types::MutationName::proto_text(),
        cairn_types::PushId::proto_text(),
        cairn_types::ReplicaAt::proto_text(),
        protocol::BatchEntry::proto_text(),
        protocol::BatchResult::proto_text(),
        protocol::ChunkLocations::proto_text(),
        protocol::DoubtedBlock::proto_text(),
        protocol::Failure::proto_text(),
        protocol::Forwarded::proto_text(),
        protocol::Found::proto_text(),
        protocol::Garbage::proto_text(),
        protocol::HeldLease::proto_text(),
        protocol::Looked::proto_text(),
        protocol::ReplicaReport::proto_text(),
        protocol::ServerStatus::proto_text(),
    ]
    .concat()
}

fn enums() -> String {
    [
        values("Content", cairn_types::Content::ALL),
        values("EntryKind", cairn_types::EntryKind::ALL),
        values("ErrorCode", protocol::ErrorCode::ALL),
        values("LeasePurpose", protocol::LeasePurpose::ALL),
        values("Outcome", protocol::Outcome::ALL),
        values("Role", protocol::Role::ALL),
        values("ServerState", protocol::ServerState::ALL),
    ]
    .concat()
}

/// One enum's numbers as comment lines; the value that an absent field means comes marked.
fn values<T: Copy + Debug + Default + PartialEq + cairn_types::wire::Field>(
    name: &str,
    all: &[T],
) -> String {
    let mut out = format!("//   {name}:");
    for value in all {
        let mut encoded = Vec::new();
        value.encode_present(1, &mut encoded);
        // Key, then the number: all of ours are below 128 and take one byte.
        let number = encoded.last().copied().expect("a field is never empty");
        let mark = if *value == T::default() { " (absent)" } else { "" };
        let _ = write!(out, "\n//     {number:3}  {value:?}{mark}");
    }
    out.push('\n');
    out
}

/// Cuts definitions into messages by name.
fn collect(definitions: &str, messages: &mut BTreeMap<String, String>) -> Result<()> {
    // A `oneof` ends with a bracket too, but not at a line's start.
    for definition in definitions.split_inclusive("\n}\n") {
        let name = definition
            .strip_prefix("message ")
            .and_then(|rest| rest.split(' ').next())
            .with_context(|| format!("not a message definition: {definition}"))?;
        messages.insert(name.to_owned(), unpacked(definition));
    }
    Ok(())
}

/// Says of repeated numbers that each has a key of its own, which proto3 must be told.
fn unpacked(definition: &str) -> String {
    let mut out = String::new();
    for line in definition.lines() {
        let numbers =
            ["repeated uint64 ", "repeated uint32 "].iter().any(|is| line.trim().starts_with(is));
        match line.strip_suffix(';') {
            Some(field) if numbers => {
                out.push_str(field);
                out.push_str(" [packed = false];");
            }
            _ => out.push_str(line),
        }
        out.push('\n');
    }
    out
}

fn check_complete(messages: &BTreeMap<String, String>) -> Result<()> {
    for (name, text) in messages {
        for line in text.lines().filter(|line| line.ends_with(';')) {
            let field = line.trim();
            let field = field.strip_prefix("repeated ").unwrap_or(field);
            let field = field.strip_prefix("optional ").unwrap_or(field);
            let kind = field.split(' ').next().unwrap_or_default();
            if !SCALARS.contains(&kind) && !messages.contains_key(kind) {
                bail!("message {name} names {kind}, which xtask/src/proto.rs does not list");
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{check_complete, collect, text};
    use std::collections::BTreeMap;

    #[test]
    fn every_message_that_a_field_names_is_there() {
        let text = text().expect("the list is complete");
        assert!(text.contains("message Forwarded {"));
        assert!(text.contains("message BatchEntry {\n  oneof choice {\n    Stat stat = 1;\n"));
        assert!(text.contains("  repeated uint64 extended = 2 [packed = false];"));
        assert!(text.contains("//      29  Unreachable"));
    }

    #[test]
    fn a_message_that_nobody_lists_is_noticed() {
        let mut messages = BTreeMap::new();
        collect("message A {\n  repeated B many = 1;\n}\n", &mut messages).expect("a message");
        assert!(check_complete(&messages).is_err());
        collect("message B {\n}\n", &mut messages).expect("a message");
        assert!(check_complete(&messages).is_ok());
    }
}
