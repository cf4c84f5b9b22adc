//! The `bloomgate` command.
fn main() {}
