//! Checkpoints: a state comes back as it went, and a file that was changed is none (K1).
