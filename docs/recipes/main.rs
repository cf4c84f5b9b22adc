//! Prints the tables that the pages of the recipes show: `cargo run --release -p bloomgate-recipes -- rate-limiting`.

#![forbid(unsafe_code)]

use std::process::ExitCode;

use bloomgate_recipes::{ad_frequency, message_fingerprints, rate_limiting, search_pruning};

type Table = fn() -> Result<String, Box<dyn std::error::Error>>;

const TABLES: [(&str, Table); 4] = [
    ("ad-frequency", ad_frequency::measured::table),
    ("message-fingerprints", message_fingerprints::measured::table),
    ("rate-limiting", rate_limiting::measured::table),
    ("search-pruning", search_pruning::measured::table),
];

fn main() -> ExitCode {
    let asked: Vec<String> = std::env::args().skip(1).collect();
    let known = TABLES.map(|(name, _)| name);
    let asked = if asked.is_empty() { known.map(String::from).to_vec() } else { asked };
    for name in &asked {
        let Some((_, table)) = TABLES.iter().find(|(known, _)| known == name) else {
            eprintln!("recipes: {name:?} is none of {}", known.join(", "));
            return ExitCode::from(2);
        };
        match table() {
            Ok(table) => println!("{name}\n\n{table}"),
            Err(error) => {
                eprintln!("recipes: {name}: {error}");
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}
