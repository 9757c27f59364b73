//! The master's decisions: namespace, leases, placement, path locks
