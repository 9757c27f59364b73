//! The pages on the wire's format say what the code says: docs/formats/cairn.proto, by which
//! another language reads our messages, and the table of rpcs in docs/formats/wire.md.
//!
//! `UPDATE=1` (or `cargo xtask proto`) writes cairn.proto; wire.md is written by a person.

use cairn_protocol::{self as protocol, proto_table};
use cairn_types::wire::{Field, Message};
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::path::PathBuf;

/// What a field can be without a definition of its own.
const SCALARS: &[&str] = &["bool", "bytes", "string", "uint32", "uint64"];

fn page(name: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/formats")).join(name)
}

#[test]
fn the_proto_file_says_what_the_messages_are() {
    let text = proto_text(&messages());
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(page("cairn.proto"), &text).expect("cairn.proto can be written");
    }
    let page = std::fs::read_to_string(page("cairn.proto")).expect("cairn.proto can be read");
    assert!(page == text, "cairn.proto is not what the code says: run `cargo xtask proto`");
}

#[test]
fn every_message_that_a_field_names_is_listed_below() {
    let messages = messages();
    for text in messages.values() {
        for field in text.lines().filter(|line| line.ends_with(';')) {
            let mut words = field.split_whitespace();
            let kind = words.find(|word| !["repeated", "optional"].contains(word));
            let kind = kind.expect("a field has a type");
            assert!(SCALARS.contains(&kind) || messages.contains_key(kind), "{kind} of {text}");
        }
    }
}

#[test]
fn the_guide_has_a_row_for_each_reason_and_for_no_other() {
    let page = page("../guide/seeing-it.md");
    let page = std::fs::read_to_string(page).expect("seeing-it.md can be read");
    let named = |heading: &str| {
        let part = page.split(heading).nth(1).expect("the page has that heading");
        let part = part.split("\n## ").next().unwrap_or_default();
        let rows = part.lines().filter_map(|line| line.strip_prefix("| `"));
        rows.filter_map(|row| row.split_once('`')).map(|(code, _)| code.to_owned()).collect()
    };
    let reasons: Vec<String> = named("## Reasons");
    let all: Vec<&str> = protocol::ReasonCode::ALL.iter().map(|reason| reason.code()).collect();
    assert_eq!(reasons, all);
    let waits: Vec<String> = named("## What a chunk waits for");
    let all: Vec<&str> = protocol::WaitReason::ALL.iter().map(|reason| reason.code()).collect();
    assert_eq!(waits, all);
}

#[test]
fn the_page_on_the_wire_has_a_row_for_each_rpc() {
    let page = std::fs::read_to_string(page("wire.md")).expect("wire.md can be read");
    for (kind, request, answer, _) in proto_table() {
        let row = format!("| {kind} | `{request}` → `{answer}` |");
        assert!(page.contains(&row), "docs/formats/wire.md lacks the row {row}");
    }
}

fn proto_text(messages: &BTreeMap<String, String>) -> String {
    let rpcs: Vec<String> = proto_table()
        .iter()
        .map(|(kind, request, answer, _)| format!("//   {kind:3}  {request} -> {answer}\n"))
        .collect();
    format!(
        "// Messages of Cairn's wire protocol; docs/formats/wire.md says how they travel.\n\
         // Written by `cargo xtask proto` from the code. Do not edit.\n\
         syntax = \"proto3\";\n\npackage cairn;\n\n// Number, request, answer of each rpc:\n{}\n\
         // Enums travel as uint32; an absent field means the value marked so.\n{}\n{}",
        rpcs.concat(),
        enums(),
        messages.values().cloned().collect::<Vec<_>>().join("\n")
    )
}

/// Every message's definition by its name.
fn messages() -> BTreeMap<String, String> {
    let mut all: String = proto_table().into_iter().map(|(.., text)| text).collect();
    all += &messages_within_others();
    all += &messages_of_streams();
    // A `oneof` ends with a bracket too, but not at a line's start.
    let named = |text: &str| {
        let name = text.split(' ').nth(1).expect("`message NAME {`").to_owned();
        (name, unpacked(text))
    };
    all.split_inclusive("\n}\n").map(named).collect()
}

/// Says of repeated numbers that each has a key of its own, which proto3 must be told.
fn unpacked(definition: &str) -> String {
    let field = |line: &str| match line.strip_suffix(';') {
        Some(field) if line.trim().starts_with("repeated uint") => {
            format!("{field} [packed = false];\n")
        }
        _ => format!("{line}\n"),
    };
    definition.lines().map(field).collect()
}

/// Messages that no rpc is named after.
fn messages_within_others() -> String {
    [
        cairn_types::Attributes::proto_text(),
        cairn_types::CellConfig::proto_text(),
        cairn_types::Entry::proto_text(),
        cairn_types::Member::proto_text(),
        cairn_types::Members::proto_text(),
        cairn_types::MutationName::proto_text(),
        cairn_types::Policy::proto_text(),
        cairn_types::PolicyPartNames::proto_text(),
        cairn_types::PolicyParts::proto_text(),
        cairn_types::PushId::proto_text(),
        cairn_types::ReplicaAt::proto_text(),
        protocol::BatchEntry::proto_text(),
        protocol::ShadowQuestion::proto_text(),
        protocol::ShadowWord::proto_text(),
        protocol::BatchResult::proto_text(),
        protocol::BelowGoalCount::proto_text(),
        protocol::ChosenReplica::proto_text(),
        protocol::ChunkLocations::proto_text(),
        protocol::ConsensusEntry::proto_text(),
        protocol::ConsensusMessage::proto_text(),
        protocol::OfferedCheckpoint::proto_text(),
        cairn_types::MemberChange::proto_text(),
        cairn_types::MembersChange::proto_text(),
        protocol::ChunkWait::proto_text(),
        protocol::ListedChunk::proto_text(),
        protocol::ListedReplica::proto_text(),
        protocol::MissingReplica::proto_text(),
        protocol::CloneProgress::proto_text(),
        protocol::CloneStatus::proto_text(),
        protocol::DegradedChunk::proto_text(),
        protocol::DeletedEntry::proto_text(),
        protocol::DeletedMark::proto_text(),
        protocol::DiskStatus::proto_text(),
        protocol::DoubtedBlock::proto_text(),
        protocol::Failure::proto_text(),
        protocol::JobStatus::proto_text(),
        protocol::Forwarded::proto_text(),
        protocol::Found::proto_text(),
        protocol::Garbage::proto_text(),
        protocol::LeftOut::proto_text(),
        protocol::ServedReign::proto_text(),
        protocol::HeldLease::proto_text(),
        protocol::AppendOrder::proto_text(),
        protocol::LevelSource::proto_text(),
        protocol::Looked::proto_text(),
        protocol::MasterStatus::proto_text(),
        protocol::LostChunk::proto_text(),
        protocol::PolicyOrigin::proto_text(),
        protocol::QuotaUse::proto_text(),
        protocol::ReplicaReport::proto_text(),
        protocol::ResourceUse::proto_text(),
        protocol::ServerDisks::proto_text(),
        protocol::ServerResources::proto_text(),
        protocol::MadeAnew::proto_text(),
        protocol::SharedPart::proto_text(),
        protocol::SharedSum::proto_text(),
        protocol::BusyClient::proto_text(),
        protocol::BusyFile::proto_text(),
        protocol::LatencyBucket::proto_text(),
        protocol::ScrubProgress::proto_text(),
        protocol::ServerStatus::proto_text(),
        protocol::SubtreeTotals::proto_text(),
        protocol::CellNow::proto_text(),
        protocol::ChunkCounts::proto_text(),
        protocol::TrafficRates::proto_text(),
        protocol::TrafficTotals::proto_text(),
        protocol::WaitingCount::proto_text(),
    ]
    .concat()
}

/// The same, of streams.
fn messages_of_streams() -> String {
    [
        protocol::AssembledRange::proto_text(),
        protocol::AssembledSource::proto_text(),
        protocol::Bundle::proto_text(),
        protocol::BundleAnswer::proto_text(),
        protocol::BundleHolder::proto_text(),
        protocol::Cursor::proto_text(),
        protocol::OpenStreamChunk::proto_text(),
        protocol::ProducerStatus::proto_text(),
        protocol::EndedEpoch::proto_text(),
        protocol::StreamExtent::proto_text(),
        protocol::LostTail::proto_text(),
    ]
    .concat()
}

fn enums() -> String {
    [
        values("Content", cairn_types::Content::ALL),
        values("EntryKind", cairn_types::EntryKind::ALL),
        values("Layout", cairn_types::Layout::ALL),
        values("CommitOutcome", protocol::CommitOutcome::ALL),
        values("ConsensusKind", protocol::ConsensusKind::ALL),
        values("CopyNeed", protocol::CopyNeed::ALL),
        values("ErrorCode", protocol::ErrorCode::ALL),
        values("JobKind", protocol::JobKind::ALL),
        values("JobState", protocol::JobState::ALL),
        values("JobUnit", protocol::JobUnit::ALL),
        values("LeasePurpose", protocol::LeasePurpose::ALL),
        values("MasterRole", protocol::MasterRole::ALL),
        values("MemberStanding", cairn_types::MemberStanding::ALL),
        values("Outcome", protocol::Outcome::ALL),
        values("PolicySource", protocol::PolicySource::ALL),
        values("ReplicaFault", protocol::ReplicaFault::ALL),
        values("Role", protocol::Role::ALL),
        values("ServerDuty", protocol::ServerDuty::ALL),
        values("ServerState", protocol::ServerState::ALL),
        values("WaitReason", protocol::WaitReason::ALL),
    ]
    .concat()
}

/// One enum's numbers as comment lines; the value that an absent field means comes marked.
fn values<T: Copy + Debug + Default + PartialEq + Field>(name: &str, all: &[T]) -> String {
    let line = |value: &T| {
        let mut encoded = Vec::new();
        value.encode_present(1, &mut encoded);
        // Key, then the number: all of ours are below 128 and take one byte.
        let number = encoded.last().copied().expect("a field is never empty");
        let mark = if *value == T::default() { " (absent)" } else { "" };
        format!("//     {number:3}  {value:?}{mark}\n")
    };
    format!("//   {name}:\n{}", all.iter().map(line).collect::<String>())
}
