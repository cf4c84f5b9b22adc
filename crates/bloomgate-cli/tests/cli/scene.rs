//! A folder, files of keys, and the command run in it.

use std::io::Read;
use std::path::PathBuf;
use std::process::{Output, Stdio};

use assert_cmd::Command;

/// Every kind that the command builds.
pub const KINDS: [&str; 10] = [
    "blocked",
    "classic",
    "partitioned",
    "counting",
    "scalable",
    "cuckoo",
    "growing-cuckoo",
    "quotient",
    "fuse",
    "ribbon",
];

/// An empty folder with a command that runs in it.
pub struct Scene(tempfile::TempDir);

impl Scene {
    pub fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> &Self {
        std::fs::write(self.path(name), bytes).unwrap();
        self
    }

    pub fn read(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.path(name)).unwrap()
    }

    pub fn command(&self, arguments: &str) -> Command {
        let mut command = Command::cargo_bin("bloomgate").unwrap();
        command.current_dir(self.0.path()).args(arguments.split_whitespace());
        // What the user's terminal is must not decide a test.
        command.env_remove("NO_COLOR").env_remove("CLICOLOR_FORCE").env("LC_ALL", "C.UTF-8");
        command
    }

    /// Runs the command, with nothing on standard input.
    pub fn run(&self, arguments: &str) -> Ran {
        self.run_with(arguments, "")
    }

    /// Runs the command with this on standard input.
    pub fn run_with(&self, arguments: &str, input: impl Into<Vec<u8>>) -> Ran {
        Ran(arguments.into(), self.command(arguments).write_stdin(input).output().unwrap())
    }

    /// Runs the command with one argument that has spaces in it between the others.
    pub fn run_spaced(&self, before: &str, spaced: &str, after: &str) -> Ran {
        let mut command = self.command(before);
        let output = command.arg(spaced).args(after.split_whitespace()).write_stdin("").output().unwrap();
        Ran(format!("{before} {spaced:?} {after}"), output)
    }

    /// Runs the command, reads the first bytes that it prints, and goes away.
    pub fn run_and_leave(&self, arguments: &str) -> Ran {
        let mut child = std::process::Command::new(assert_cmd::cargo::cargo_bin!("bloomgate"))
            .args(arguments.split_whitespace())
            .current_dir(self.0.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut first = [0; 16];
        child.stdout.take().unwrap().read_exact(&mut first).unwrap();
        Ran(arguments.into(), child.wait_with_output().unwrap())
    }

    /// Files in the folder, sorted: nothing may be left behind.
    pub fn files(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.0.path()).unwrap();
        let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

/// What came of a run.
pub struct Ran(String, Output);

impl Ran {
    #[track_caller]
    pub fn code(self, expected: i32) -> Self {
        assert_eq!(self.1.status.code(), Some(expected), "{}\n{}\n{}", self.0, self.out(), self.err());
        self
    }

    pub fn out(&self) -> String {
        String::from_utf8_lossy(&self.1.stdout).into_owned()
    }

    pub fn bytes(&self) -> &[u8] {
        &self.1.stdout
    }

    pub fn err(&self) -> String {
        String::from_utf8_lossy(&self.1.stderr).into_owned()
    }

    /// Refused with exit code 2, with all of this in the message, nothing on standard output and no panic.
    #[track_caller]
    pub fn refused(self, said: &[&str]) {
        let ran = self.code(2);
        let error = ran.err();
        for words in said {
            assert!(error.contains(words), "{}: {words:?} is not in {error}", ran.0);
        }
        assert!(ran.out().is_empty() && !error.contains("panicked"), "{}: {}{error}", ran.0, ran.out());
    }

    /// A field of the JSON object on standard output, as it is written there; the whole must be JSON.
    #[track_caller]
    pub fn field(&self, name: &str) -> String {
        let out = self.out();
        let fields = json_object(out.trim_end());
        let field = fields.iter().find(|(key, _)| key == name);
        field.unwrap_or_else(|| panic!("{name} is not in {out}")).1.clone()
    }

    #[track_caller]
    pub fn number(&self, name: &str) -> f64 {
        self.field(name).parse().unwrap()
    }
}

/// The fields of a JSON object, each value as it is written. Panics at anything that is not JSON.
pub fn json_object(text: &str) -> Vec<(String, String)> {
    let mut reader = Json(text.as_bytes(), 0);
    let fields = reader.object();
    assert_eq!(reader.1, text.len(), "something follows the object: {text}");
    fields.into_iter().map(|(key, (from, to))| (key.trim_matches('"').into(), text[from..to].into())).collect()
}

/// The items of a JSON list, each as it is written. Panics at anything that is not JSON.
pub fn json_list(text: &str) -> Vec<String> {
    let mut reader = Json(text.as_bytes(), 0);
    let mut items = Vec::new();
    reader.take(b'[');
    while reader.peek() != b']' {
        if !items.is_empty() {
            reader.take(b',');
        }
        let from = reader.1;
        reader.value();
        items.push(text[from..reader.1].to_string());
    }
    reader.take(b']');
    assert_eq!(reader.1, text.len(), "something follows the list: {text}");
    items
}

/// A strict reader of JSON without spaces, which is what the command writes.
struct Json<'a>(&'a [u8], usize);

impl Json<'_> {
    fn take(&mut self, byte: u8) {
        assert_eq!(self.0.get(self.1), Some(&byte), "at {} of {}", self.1, String::from_utf8_lossy(self.0));
        self.1 += 1;
    }

    fn peek(&self) -> u8 {
        *self.0.get(self.1).expect("the JSON ends too early")
    }

    fn object(&mut self) -> Vec<(String, (usize, usize))> {
        self.take(b'{');
        let mut fields = Vec::new();
        while self.peek() != b'}' {
            if !fields.is_empty() {
                self.take(b',');
            }
            let key = self.string();
            self.take(b':');
            let from = self.1;
            self.value();
            fields.push((key, (from, self.1)));
        }
        self.take(b'}');
        fields
    }

    fn string(&mut self) -> String {
        let from = self.1;
        self.take(b'"');
        while self.peek() != b'"' {
            assert!(self.peek() >= b' ', "a control character in a JSON text");
            if self.peek() == b'\\' {
                self.1 += 1;
                assert!(b"\"\\/bfnrtu".contains(&self.peek()));
            }
            self.1 += 1;
        }
        self.take(b'"');
        String::from_utf8(self.0[from..self.1].to_vec()).unwrap()
    }

    fn value(&mut self) {
        match self.peek() {
            b'{' => _ = self.object(),
            b'"' => _ = self.string(),
            b'[' => {
                self.take(b'[');
                let mut first = true;
                while self.peek() != b']' {
                    if !std::mem::take(&mut first) {
                        self.take(b',');
                    }
                    self.value();
                }
                self.take(b']');
            }
            _ => {
                let from = self.1;
                while !matches!(self.peek(), b',' | b'}' | b']') {
                    self.1 += 1;
                }
                let word = std::str::from_utf8(&self.0[from..self.1]).unwrap();
                assert!(
                    matches!(word, "true" | "false" | "null") || word.parse::<f64>().unwrap().is_finite(),
                    "{word}"
                );
            }
        }
    }
}

/// Lines `prefix0` to `prefix(n-1)`.
pub fn lines(prefix: &str, count: u32) -> String {
    (0..count).map(|i| format!("{prefix}{i}\n")).collect()
}
