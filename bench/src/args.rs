//! The command line, word by word: a few options do not need a library.

use std::fmt;
use std::str::FromStr;

/// What went wrong, in words for the person at the keyboard.
#[derive(Debug)]
pub struct Fault(pub String);

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Fault {}

impl From<std::io::Error> for Fault {
    fn from(error: std::io::Error) -> Self {
        Self(format!("the system refused: {error}"))
    }
}

/// The words after the name of the program, taken one by one.
pub struct Args {
    words: std::vec::IntoIter<String>,
    /// The value glued to the option just taken, as in `--n=20000`.
    glued: Option<String>,
}

impl Args {
    /// The words in `words`, from the first.
    pub fn new(words: Vec<String>) -> Self {
        Self { words: words.into_iter(), glued: None }
    }

    /// The next word, whatever it is.
    pub fn word(&mut self) -> Option<String> {
        self.words.next()
    }

    /// The next option, without the value glued to it; a word that is no option is refused.
    pub fn option(&mut self) -> Result<Option<String>, Fault> {
        if let Some(value) = self.glued.take() {
            return Err(Fault(format!("the value {value:?} belongs to an option that takes none")));
        }
        let Some(word) = self.words.next() else { return Ok(None) };
        if !word.starts_with('-') {
            return Err(Fault(format!("unexpected word {word:?}; options begin with -, see --help")));
        }
        match word.split_once('=') {
            Some((name, value)) => {
                self.glued = Some(value.to_string());
                Ok(Some(name.to_string()))
            }
            None => Ok(Some(word)),
        }
    }

    /// The value of `option`.
    pub fn value(&mut self, option: &str) -> Result<String, Fault> {
        self.glued.take().or_else(|| self.words.next()).ok_or_else(|| Fault(format!("{option} needs a value")))
    }

    /// The value of `option` as a number; `_` may group the digits of whole numbers.
    pub fn number<T: FromStr>(&mut self, option: &str) -> Result<T, Fault> {
        let value = self.value(option)?;
        parse(option, &value)
    }

    /// The value of `option` as numbers with commas between.
    pub fn numbers<T: FromStr>(&mut self, option: &str) -> Result<Vec<T>, Fault> {
        let value = self.value(option)?;
        value.split(',').map(|part| parse(option, part)).collect()
    }

    /// The refusal of an option nobody knows.
    pub fn unknown(&self, option: &str) -> Fault {
        Fault(format!("unknown option {option}; see --help"))
    }
}

fn parse<T: FromStr>(option: &str, text: &str) -> Result<T, Fault> {
    text.trim()
        .replace('_', "")
        .parse()
        .map_err(|_| Fault(format!("{option} got {text:?}, which is not a number it takes")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(line: &str) -> Args {
        Args::new(line.split_whitespace().map(str::to_string).collect())
    }

    #[test]
    fn values_stand_apart_or_glued() {
        let mut words = args("--n 20_000,1000000 --rate=0.01 --json");
        assert_eq!(words.option().unwrap().as_deref(), Some("--n"));
        assert_eq!(words.numbers::<usize>("--n").unwrap(), [20_000, 1_000_000]);
        assert_eq!(words.option().unwrap().as_deref(), Some("--rate"));
        assert_eq!(words.number::<f64>("--rate").unwrap(), 0.01);
        assert_eq!(words.option().unwrap().as_deref(), Some("--json"));
        assert!(words.option().unwrap().is_none());
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        assert!(args("peers").option().is_err());
        let mut glued = args("--json=yes --n");
        assert_eq!(glued.option().unwrap().as_deref(), Some("--json"));
        assert!(glued.option().is_err());
        assert!(args("--n").number::<usize>("--n").is_err());
        let mut word = args("--n many");
        word.option().unwrap();
        assert!(word.number::<usize>("--n").is_err());
    }
}
