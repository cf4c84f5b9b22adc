//! The documentation of the commands is the table's: what stands in docs/ between the marks is what the table says now.
//!
//! `BLOOMGATE_WRITE_DOCS=1 cargo test -p bloomgate-command --test docs` writes it anew.

use std::path::Path;

use bloomgate_command::{markdown_commands, markdown_differences};

const BEGIN: &str = "<!-- from the table of commands: do not edit -->\n";
const END: &str = "<!-- end -->\n";

fn check(file: &str, table: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(file);
    let page = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let (before, rest) = page.split_once(BEGIN).unwrap_or_else(|| panic!("{file} has no mark where the table begins"));
    let (now, after) = rest.split_once(END).unwrap_or_else(|| panic!("{file} has no mark where the table ends"));
    if now == table {
        return;
    }
    if std::env::var_os("BLOOMGATE_WRITE_DOCS").is_some() {
        std::fs::write(&path, format!("{before}{BEGIN}{table}{END}{after}")).unwrap();
        return;
    }
    let differs = now.lines().zip(table.lines()).find(|(page, table)| page != table);
    panic!("{file} is not what the table says (write it with BLOOMGATE_WRITE_DOCS=1); first: {differs:#?}");
}

#[test]
fn the_pages_say_what_the_table_says() {
    check("commands.md", &markdown_commands());
    check("redisbloom.md", &markdown_differences());
}
