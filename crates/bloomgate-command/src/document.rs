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
///
/// `BG.*` has a section for each command. What people know from RedisBloom and Redis is a table and one session for each
/// group, which is a third as long.
#[must_use]
pub fn markdown_commands() -> String {
    let mut page = String::from(
        "Made from the table of commands in `crates/bloomgate-command`; do not edit. Option words are \
         whole words in any case, each at most once; a word that is no option is an error. Names are at most 4,096 \
         bytes, items at most 64 KiB; both may be any bytes.\n\nThe examples are one long session from the first to \
         the last, with a fresh server that was started with an `--import-dir` (`blocklist.txt` is in it); a test runs \
         them all. `...` stands for any text, and what is in `<angle brackets>` differs from time to time: in a later \
         command it is what the last reply had there. Replies are written as \
         redis-cli does, without quotes and `(integer)`.\n\nThe role is what a user needs for a command \
         (any: everybody who is logged in): see \"Users and roles\" in [operations.md](operations.md). Whatever can make a \
         name answer \"no\" where it said \"maybe\" needs the role delete.\n",
    );
    for group in Group::ALL {
        let _ = write!(page, "\n## {}\n", group.title());
        let specs: Vec<&Spec> = TABLE
            .iter()
            .filter(|spec| spec.group == group)
            .flat_map(|spec| {
                let itself = spec.subcommands.is_empty() || spec.arity.least == 1;
                itself.then_some(spec).into_iter().chain(spec.subcommands)
            })
            .collect();
        match group {
            Group::Bloomgate => specs.iter().for_each(|spec| section(&mut page, spec)),
            _ => session(&mut page, &specs),
        }
    }
    page
}

fn rights(spec: &Spec) -> String {
    spec.rights.iter().map(|right| right.name()).collect::<Vec<_>>().join(" ")
}

fn section(page: &mut String, spec: &Spec) {
    let title = spec.name.replace('|', " ").to_ascii_uppercase();
    let _ = write!(page, "\n### {title}\n\n`{}`\n\n{}\n\n", spec.usage(), spec.summary);
    let _ =
        write!(page, "Cost: {}. Role: {}. Rights: {}.\n\n```text\n", spec.complexity, spec.role_words(), rights(spec));
    example(page, spec);
    page.push_str("```\n");
}

fn session(page: &mut String, specs: &[&Spec]) {
    page.push_str("\n| command | what it does | cost | role | rights |\n|---|---|---|---|---|\n");
    for spec in specs {
        let cells = [
            format!("`{}`", spec.usage()),
            spec.summary.to_owned(),
            spec.complexity.to_owned(),
            spec.role_words(),
            rights(spec),
        ];
        // Even in code a bar would end the cell.
        let _ = writeln!(page, "| {} |", cells.map(|cell| cell.replace('|', "\\|")).join(" | "));
    }
    page.push_str("\n```text\n");
    specs.iter().for_each(|spec| example(page, spec));
    page.push_str("```\n");
}

fn example(page: &mut String, spec: &Spec) {
    let _ = writeln!(page, "> {}", spec.example.0);
    if !spec.example.1.is_empty() {
        let _ = writeln!(page, "{}", spec.example.1);
    }
}

/// `docs/redisbloom.md`: each command whose behaviour is deliberately not RedisBloom's (or Redis's), and how.
#[must_use]
pub fn markdown_differences() -> String {
    let mut page = String::from(
        "Made from the table of commands in `crates/bloomgate-command`; do not edit. \
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
