//! Bytes at rest: log records, chunk sidecars, journals, record framing
