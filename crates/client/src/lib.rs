//! The client library: an async face over client-core
