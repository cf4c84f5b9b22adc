//! What survives: the log, the snapshots, and the folder they live in.
