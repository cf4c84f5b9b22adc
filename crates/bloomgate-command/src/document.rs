//! The table told to people: the help of a command, and the two pages of documentation that are made from it.

use std::fmt::Write;

use crate::spec::{Group, Spec};
use crate::table::{TABLE, find};

/// The help of a command, of a family (`bg`, `bf`, `generic` …), or of everything; nothing for a name that is neither.
#[must_use]
pub fn help(name: Option<&str>) -> Option<String> {
    let Some(name) = name else { return Some(overview(TABLE.iter())) };
    if let Some(group) = Group::ALL.into_iter().find(|group| name.eq_ignore_ascii_case(group.name())) {
        return Some(overview(TABLE.iter().filter(|spec| spec.group == group)));
    }
    let (word, rest) = name.split_once([' ', '|']).unwrap_or((name, ""));
    let spec = find(word.as_bytes())?;
    let spec = if rest.is_empty() { spec } else { spec.subcommand(rest.as_bytes())? };
    let mut text = format!("{}\n  {}\n", spec.usage(), spec.summary);
    // Writing to a String cannot fail.
    let _ = writeln!(text, "  Cost: {}. Since {}.", spec.complexity, spec.since);
    if let Some(differs) = spec.differs {
        let _ = writeln!(text, "  Other than RedisBloom: {differs}");
    }
    if !spec.subcommands.is_empty() {
        text.push_str(&overview(spec.subcommands.iter()));
    } else if !spec.example.0.is_empty() {
        let _ = writeln!(text, "  Example: {}\n{}", spec.example.0, indented(spec.example.1));
    }
    Some(text)
}

fn indented(text: &str) -> String {
    text.lines().map(|line| format!("    {line}")).collect::<Vec<_>>().join("\n")
}

fn overview<'a>(specs: impl Iterator<Item = &'a Spec>) -> String {
    specs.fold(String::new(), |mut text, spec| {
        let _ = writeln!(text, "{}\n    {}", spec.usage(), spec.summary);
        text
    })
}

/// `docs/commands.md`: every command with its syntax, cost, rights and an example.
#[must_use]
pub fn markdown_commands() -> String {
    let mut page = String::from(
        "# Commands\n\nMade from the table of commands in `crates/bloomgate-command`; do not edit. Option words are \
         whole words in any case, each at most once; a word that is no option is an error. Names are at most 4,096 \
         bytes, items at most 64 KiB; both may be any bytes.\n",
    );
    for group in Group::ALL {
        let _ = write!(page, "\n## {}\n", group.title());
        for spec in TABLE.iter().filter(|spec| spec.group == group) {
            if spec.subcommands.is_empty() || spec.arity.least == 1 {
                section(&mut page, spec);
            }
            spec.subcommands.iter().for_each(|subcommand| section(&mut page, subcommand));
        }
    }
    page
}

fn section(page: &mut String, spec: &Spec) {
    let rights: Vec<&str> = spec.rights.iter().map(|right| right.name()).collect();
    let title = spec.name.replace('|', " ").to_ascii_uppercase();
    let _ = write!(page, "\n### {title}\n\n`{}`\n\n{}\n\n", spec.usage(), spec.summary);
    let _ = write!(page, "Cost: {}. Rights: {}.\n\n", spec.complexity, rights.join(" "));
    let _ = write!(page, "```text\n> {}\n", spec.example.0);
    if !spec.example.1.is_empty() {
        let _ = writeln!(page, "{}", spec.example.1);
    }
    page.push_str("```\n");
}

/// `docs/redisbloom.md`: each command whose behaviour is deliberately not RedisBloom's (or Redis's), and how.
#[must_use]
pub fn markdown_differences() -> String {
    let mut page = String::from(
        "# Differences from RedisBloom\n\nMade from the table of commands in `crates/bloomgate-command`; do not edit. \
         Commands, reply shapes, error texts and defaults are those of RedisBloom 8.8, except for what is listed here: \
         where RedisBloom loses data, answers wrongly or accepts nonsense. For all commands: numbers are decimal (no \
         hexadecimal, no infinity), names are at most 4,096 bytes and items at most 64 KiB, and control characters in \
         error texts are escaped.\n\n| command | here |\n|---|---|\n",
    );
    let all = TABLE.iter().flat_map(|spec| std::iter::once(spec).chain(spec.subcommands));
    for spec in all {
        if let Some(differs) = spec.differs {
            let name = spec.name.replace('|', " ").to_ascii_uppercase();
            let _ = writeln!(page, "| `{name}` | {} |", differs.replace('|', "\\|"));
        }
    }
    page
}
