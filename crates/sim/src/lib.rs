//! Workloads, faults and checkers over a simulated cell
