//! A chunkserver's decisions: versions, mutation order, record append
