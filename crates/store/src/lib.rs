//! Chunk files, sidecars, operation log and checkpoints over a Disk
