//! Settings as they are told: by flag, else by variable, else by a line of a file. A name that is unknown is an error that
//! says which one is near.

use std::path::Path;

use crate::failure::Failure;

/// An entry of a table of settings.
pub trait Named: 'static {
    /// The setting's name, as its flag has it.
    fn name(&self) -> &'static str;
}

/// The setting of a name, or which one is near.
pub fn find<'a, T: Named>(table: &'a [T], name: &str) -> Result<&'a T, String> {
    table.iter().find(|setting| setting.name() == name).ok_or_else(|| {
        let near = table.iter().map(|setting| (strsim::levenshtein(name, setting.name()), setting.name())).min();
        match near {
            Some((steps, near)) if steps <= 3.max(name.len() / 3) => {
                format!("there is no setting '{name}'; did you mean '{near}'?")
            }
            _ => {
                let names: Vec<&str> = table.iter().map(T::name).collect();
                format!("there is no setting '{name}'; there are {}", names.join(", "))
            }
        }
    })
}

/// The variable of a setting in the environment.
pub fn variable(name: &str) -> String {
    format!("BLOOMGATE_{}", name.replace('-', "_").to_ascii_uppercase())
}

/// What was told of each setting: who said it (for errors), its name, and the text.
#[cfg(feature = "serve")]
pub fn all<'a, T: Named>(
    table: &'static [T],
    flag: impl Fn(&str) -> Option<&'a str>,
    config: Option<&Path>,
) -> Result<Vec<(String, &'static str, String)>, Failure> {
    all_beside(table, flag, config, "")
}

/// What was told of each setting, where the file may have sections of this name too, which [`sections`] reads.
pub fn all_beside<'a, T: Named>(
    table: &'static [T],
    flag: impl Fn(&str) -> Option<&'a str>,
    config: Option<&Path>,
    section: &str,
) -> Result<Vec<(String, &'static str, String)>, Failure> {
    let file = config.map(|path| from_file(table, path, section)).transpose()?.unwrap_or_default();
    let mut all = Vec::new();
    for setting in table {
        let name = setting.name();
        let variable = variable(name);
        let told = match (flag(name), std::env::var(&variable)) {
            (Some(flag), _) => Some((format!("--{name}"), flag.to_owned())),
            (None, Ok(value)) => Some((variable, value)),
            (None, Err(std::env::VarError::NotUnicode(_))) => {
                return Err(Failure::Message(format!("{variable} is no text")));
            }
            (None, Err(std::env::VarError::NotPresent)) => {
                let line = file.iter().find(|(known, _)| known == name);
                let path = config.unwrap_or(Path::new("")).display();
                line.map(|(name, value)| (format!("{path}: {name}"), value.clone()))
            }
        };
        all.extend(told.map(|(by, value)| (by, name, value)));
    }
    Ok(all)
}

fn read(path: &Path) -> Result<toml::Table, Failure> {
    let name = path.display();
    let text = std::fs::read_to_string(path).map_err(|error| Failure::Message(format!("{name}: {error}")))?;
    text.parse().map_err(|error| Failure::Message(format!("{name}: {error}")))
}

/// The value of a line, as a flag would have it.
fn written(path: &Path, key: &str, value: toml::Value) -> Result<String, Failure> {
    match value {
        toml::Value::String(text) => Ok(text),
        toml::Value::Integer(number) => Ok(number.to_string()),
        toml::Value::Float(number) => Ok(number.to_string()),
        toml::Value::Boolean(truth) => Ok(truth.to_string()),
        other => Err(Failure::Message(format!(
            "{}: {key} is a text or a number, and here it is of the type {}",
            path.display(),
            other.type_str()
        ))),
    }
}

/// The lines of a settings file, those of the section left out.
fn from_file<T: Named>(table: &[T], path: &Path, section: &str) -> Result<Vec<(String, String)>, Failure> {
    let lines = read(path)?.into_iter().filter(|(key, value)| key != section || !value.is_table());
    lines
        .map(|(key, value): (String, toml::Value)| {
            find(table, &key).map_err(|why| Failure::Message(format!("{}: {why}", path.display())))?;
            let text = written(path, &key, value)?;
            Ok((key, text))
        })
        .collect()
}

/// A section of a settings file: its name, and its lines.
pub type Section = (String, Vec<(String, String)>);

/// The sections `[section.NAME]` of a settings file.
pub fn sections(path: &Path, section: &str) -> Result<Vec<Section>, Failure> {
    let Some(toml::Value::Table(all)) = read(path)?.remove(section) else { return Ok(Vec::new()) };
    all.into_iter()
        .map(|(name, lines)| {
            let toml::Value::Table(lines) = lines else {
                let message = format!("{}: [{section}.{name}] is a section with settings in it", path.display());
                return Err(Failure::Message(message));
            };
            let lines = lines.into_iter().map(|(key, value)| Ok((key.clone(), written(path, &key, value)?)));
            Ok((name, lines.collect::<Result<_, Failure>>()?))
        })
        .collect()
}

/// A variable that looks like a setting and is none is a mistake that would otherwise go unnoticed. Those of other verbs
/// are no mistake: one environment may serve them all.
pub fn unknown_variables<T: Named>(table: &[T], is_anothers: impl Fn(&str) -> bool) -> Result<(), Failure> {
    const OTHERS: [&str; 5] = ["CONFIG", "SIMD", "SECRET", "SECRET_FILE", "PROGRESS_SECONDS"];
    for (name, _) in std::env::vars_os() {
        let Some(rest) = name.to_str().and_then(|name| name.strip_prefix("BLOOMGATE_")) else { continue };
        let setting = rest.to_ascii_lowercase().replace('_', "-");
        if OTHERS.contains(&rest) || is_anothers(&setting) {
            continue;
        }
        find(table, &setting).map_err(|why| Failure::Message(format!("BLOOMGATE_{rest}: {why}")))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_named_after_their_settings() {
        assert_eq!(variable("max-filter-memory"), "BLOOMGATE_MAX_FILTER_MEMORY");
    }
}
