//! The main help: the verbs in groups, in the order in which a stranger needs them.

use clap::Command;

use crate::screen::{HEAD, paint, wrapped};

/// The groups, and the verbs of each as far as there are. A verb that is named nowhere comes last, and is never lost.
const GROUPS: [(&str, &[&str]); 5] = [
    ("Make a filter", &["plan", "build", "add", "remove", "import", "convert"]),
    ("Ask it", &["check", "dedup", "verify"]),
    ("Look at filters and combine them", &["info", "merge", "intersect", "fold", "diff", "patch"]),
    ("Serve it", &["serve", "user", "gate", "attack"]),
    ("Around it", &["secret", "bench", "completions", "man", "help"]),
];

/// The command with its verbs in groups.
pub fn grouped(mut command: Command) -> Command {
    command.build();
    let verbs: Vec<(&str, String)> = command
        .get_subcommands()
        .filter(|verb| !verb.is_hide_set())
        .map(|verb| (verb.get_name(), verb.get_about().map(ToString::to_string).unwrap_or_default()))
        .collect();
    let widest = verbs.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let mut listed = String::new();
    let mut list = |title: &str, of: &mut dyn Iterator<Item = &(&str, String)>| {
        let lines: String = of
            .map(|(name, about)| {
                let label = format!("  {name:<widest$}  ");
                wrapped(&label, about).replacen(&label, &format!("  {}  ", paint(HEAD, format!("{name:<widest$}"))), 1)
            })
            .collect();
        if !lines.is_empty() {
            listed.push_str(&format!("{}\n{lines}\n", paint(HEAD.underline(), format!("{title}:"))));
        }
    };
    for (title, names) in GROUPS {
        list(title, &mut names.iter().filter_map(|name| verbs.iter().find(|(verb, _)| verb == name)));
    }
    let known = |name: &str| GROUPS.iter().any(|(_, names)| names.contains(&name));
    list("More", &mut verbs.iter().filter(|(name, _)| !known(name)));
    let options = paint(HEAD.underline(), "Options:");
    command.help_template(format!(
        "{{before-help}}{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{listed}{options}\n{{options}}{{after-help}}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_verb_is_lost() {
        let verb = |name: &'static str| Command::new(name).about(format!("{name} does something"));
        let command = Command::new("it").subcommands(["zeal", "build", "plan", "man"].map(verb));
        let help = anstream::adapter::strip_str(&grouped(command).render_help().to_string()).to_string();
        let at = |words: &str| help.find(words).unwrap_or_else(|| panic!("{words:?} is not in\n{help}"));
        let order =
            ["Make a filter:", "  plan   plan does", "  build  build does", "Around it:", "  man", "  help", "More:"];
        assert!(order.map(at).is_sorted() && at("More:") < at("  zeal"), "{help}");
        assert!(!help.contains("Ask it:"), "an empty group has no title: {help}");
    }
}
