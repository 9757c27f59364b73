//! Cairn: one binary, every command.
fn main() {}
