//! `bloomgate --version`: what this binary is, for a bug report. `-V` is its first line alone.

use bloomgate::format::FORMAT_VERSION;

/// What the binary was compiled with, and whether it was: the cargo features of the command.
const FEATURES: &[(&str, bool)] = &[
    ("parquet", cfg!(feature = "parquet")),
    ("postgres", cfg!(feature = "postgres")),
    ("redis", cfg!(feature = "redis")),
    ("sqlite", cfg!(feature = "sqlite")),
];

/// All of it.
pub fn long() -> String {
    let named = |with: bool| {
        let names: Vec<&str> = FEATURES.iter().filter(|(_, on)| *on == with).map(|(name, _)| *name).collect();
        if names.is_empty() { "none".into() } else { names.join(", ") }
    };
    let without =
        if FEATURES.iter().all(|(_, on)| *on) { String::new() } else { format!(" (without {})", named(false)) };
    let asked = match std::env::var_os("BLOOMGATE_SIMD") {
        Some(value) if value == "off" => "BLOOMGATE_SIMD=off".into(),
        Some(value) => format!("BLOOMGATE_SIMD={} changes nothing: only off does", value.display()),
        None => "BLOOMGATE_SIMD=off keeps to the portable path".into(),
    };
    format!(
        "{}\nfeatures: {}{without}\ncpu path: {} ({asked})\nfile format: version {FORMAT_VERSION}\ntarget: {} {}{}",
        env!("CARGO_PKG_VERSION"),
        named(true),
        bloomgate::simd_path(),
        std::env::consts::ARCH,
        std::env::consts::OS,
        if cfg!(debug_assertions) { ", a debug build: slow" } else { "" },
    )
}
