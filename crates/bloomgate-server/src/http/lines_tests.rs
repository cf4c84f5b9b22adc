//! The lines of Rust that pages tell people to write: compiled here, and each makes a filter that holds its keys.
//!
//! They stand in two files, because what writes them is not there while this is compiled: `server_lines.rs` is written by a
//! test below from [`plan::rust`], `planner_lines.rs` by `scripts/test-pages --pure` from the planner's own script. Both fail
//! when what is written there is not what is told.

use bloomgate::{Kind, Secret};

use super::plan;

const KEYS: [&str; 3] = ["alice", "bob", "carol"];

/// A kind and its need, and the line with what a reader has around it: some keys, and a secret.
type Told = (&'static str, fn([&'static str; 3], Secret) -> bloomgate::Result<bool>);

/// Whether a filter holds the keys and nobody else.
macro_rules! holds {
    ($filter:ident) => {{
        let mut all = true;
        for key in KEYS {
            all &= $filter.contains(key)?;
        }
        Ok(all && !$filter.contains("mallory")?)
    }};
}

/// The same of one that is empty and takes keys.
macro_rules! takes {
    ($filter:ident) => {{
        for key in KEYS {
            $filter.insert(key)?;
        }
        holds!($filter)
    }};
}

#[allow(unused_variables)]
mod server {
    use super::*;
    include!("../../../../tests/pages/server_lines.rs");
}

#[allow(unused_variables)]
mod planner {
    use super::*;
    include!("../../../../tests/pages/planner_lines.rs");
}

#[track_caller]
fn run(told: &[Told]) {
    for (what, line) in told {
        let secret = Secret::from_hex(&"5a".repeat(32)).unwrap();
        assert!(line(KEYS, secret).unwrap(), "{what}: the filter does not hold its keys");
    }
}

#[test]
fn the_lines_of_the_planner_compile_and_run() {
    // Eleven kinds, each for several needs.
    assert!(planner::TOLD.len() >= 33, "{}", planner::TOLD.len());
    run(planner::TOLD);
}

#[test]
fn the_lines_of_the_server_compile_and_run() {
    assert_eq!(server::TOLD.len(), 2 * 9);
    run(server::TOLD);
}

#[test]
fn the_lines_of_the_server_are_those_that_are_compiled() {
    let mut text = "// The lines of Rust that the server tells of a plan and of a filter: lines_tests.rs writes and runs them.\n\n\
                    pub(super) const TOLD: &[Told] = &[\n"
        .to_owned();
    let mut kinds = 0;
    for kind in Kind::ALL {
        for (items, rate, window_ms) in [(1_000, 0.01, 3_600_000), (50_000, 1e-7, 1_500)] {
            let Some(line) = plan::rust(kind, items, rate, window_ms) else { continue };
            kinds += 1;
            text.push_str(&format!("    (\"{kind}, {items} at {rate}\", |keys, secret| {{\n"));
            text.push_str(&format!("        {line}\n        takes!(keys)\n    }}),\n"));
        }
    }
    text.push_str("];\n");
    assert_eq!(kinds, 2 * 9);
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/pages/server_lines.rs");
    if std::env::var_os("BLOOMGATE_WRITE").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    assert_eq!(
        std::fs::read_to_string(&path).unwrap(),
        text,
        "tests/pages/server_lines.rs is not what the server tells: BLOOMGATE_WRITE=1 and this test write it"
    );
}
