//! The chunkserver's room: chunk-core over a chunk store
