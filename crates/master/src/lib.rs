//! The master's room: master-core, consensus and the operation log as one driver
