//! `scripts/bench peers`: Bloomgate beside each peer, a table for people or one JSON object a line for machines.

use crate::args::{Args, Fault};
use crate::clock;
use crate::keys::{self, Texts};
use crate::ours::{self, Form};
use crate::race::{self, Course, OPS, Runner};
use crate::sides::{self, Mode, PEERS, Subject};
use bloomgate::Kind;

/// What is raced.
pub struct Plan {
    /// Numbers of keys.
    pub sizes: Vec<usize>,
    /// The false-positive rate asked of everyone.
    pub rate: f64,
    /// What the keys are.
    pub texts: bool,
    /// Our kind.
    pub kind: Kind,
    /// The peers, by name.
    pub peers: Vec<String>,
    /// Threads at once.
    pub threads: usize,
    /// Passes; by the number of keys when not said.
    pub passes: Option<usize>,
    /// Whether our side is hashed under a secret.
    pub keyed: bool,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            sizes: vec![20_000, 1_000_000],
            rate: 0.01,
            texts: false,
            kind: Kind::Blocked,
            peers: Vec::new(),
            threads: 1,
            passes: None,
            keyed: false,
        }
    }
}

/// One comparison.
#[derive(Clone, Debug)]
pub struct Row {
    /// Who is compared with.
    pub peer: String,
    /// Our kind.
    pub kind: &'static str,
    /// insert, hit or miss.
    pub op: &'static str,
    /// How we were called; a peer is called the only way it has.
    pub mode: Mode,
    /// Number of keys.
    pub n: usize,
    /// The rate asked for.
    pub rate: f64,
    /// u64 or str.
    pub keys: &'static str,
    /// The peer's nanoseconds per key.
    pub peer_ns: f64,
    /// Ours.
    pub our_ns: f64,
    /// Memory per key.
    pub peer_bits: f64,
    /// Ours.
    pub our_bits: f64,
    /// The peer's measured false-positive rate.
    pub peer_rate: Option<f64>,
    /// Ours.
    pub our_rate: Option<f64>,
    /// Threads at once.
    pub threads: usize,
}

impl Row {
    /// How many times faster we are.
    pub fn ratio(&self) -> f64 {
        self.peer_ns / self.our_ns
    }

    /// The row as one JSON object; names are plain ASCII, so nothing needs escaping.
    pub fn json(&self) -> String {
        let rate = |rate: Option<f64>| rate.map_or("null".to_string(), |rate| format!("{rate:.8}"));
        format!(
            concat!(
                r#"{{"peer":"{}","kind":"{}","op":"{}","mode":"{}","n":{},"rate":{},"keys":"{}","#,
                r#""peer_ns":{:.3},"our_ns":{:.3},"ratio":{:.3},"peer_bits_per_key":{:.3},"our_bits_per_key":{:.3},"#,
                r#""peer_measured_rate":{},"our_measured_rate":{},"threads":{}}}"#
            ),
            self.peer,
            self.kind,
            self.op,
            self.mode.name(),
            self.n,
            self.rate,
            self.keys,
            self.peer_ns,
            self.our_ns,
            self.ratio(),
            self.peer_bits,
            self.our_bits,
            rate(self.peer_rate),
            rate(self.our_rate),
            self.threads,
        )
    }

    fn line(&self) -> String {
        let rate = |rate: Option<f64>| rate.map_or("-".to_string(), |rate| format!("{:.4}", rate * 100.0));
        format!(
            "{:<26} {:<7} {:<7} {:>9.2} {:>9.2} {:>7.2}x {:>9.2} {:>9.2} {:>9} {:>9}",
            self.peer,
            self.op,
            self.mode.name(),
            self.peer_ns,
            self.our_ns,
            self.ratio(),
            self.peer_bits,
            self.our_bits,
            rate(self.peer_rate),
            rate(self.our_rate),
        )
    }
}

fn heading() -> String {
    format!(
        "{:<26} {:<7} {:<7} {:>9} {:>9} {:>8} {:>9} {:>9} {:>9} {:>9}",
        "peer", "op", "mode", "peer ns", "our ns", "ratio", "peer b/k", "our b/k", "peer fp%", "our fp%"
    )
}

/// Absent keys asked for when the rate is measured, where `n` alone would be too few to tell.
fn strangers_for(n: usize) -> usize {
    n.max(1_000_000)
}

/// Gives `work` the keys of `plan` for `n` keys, as numbers.
pub fn with_numbers<T>(n: usize, work: impl FnOnce(&[u64], &[u64]) -> T) -> T {
    work(&keys::members(n), &keys::absent(strangers_for(n)))
}

/// Gives `work` the keys of `plan` for `n` keys, as texts.
pub fn with_texts<T>(n: usize, work: impl FnOnce(&[&str], &[&str]) -> T) -> T {
    let (members, absent) = (Texts::members(n), Texts::absent(strangers_for(n)));
    work(&members.slices(), &absent.slices())
}

/// Races every peer of `plan` at `members.len()` keys; `each` gets every row as it is known.
pub fn compare<'a, K: Subject + 'a>(
    plan: &Plan,
    members: &[K],
    absent: &[K],
    mut each: impl FnMut(Row),
) -> Result<(), Fault> {
    let n = members.len();
    let (absent, strangers) = absent.split_at(n);
    let passes = plan.passes.unwrap_or_else(|| clock::passes_for(n));
    let course = Course { members, absent, strangers, threads: plan.threads, passes };
    for name in &plan.peers {
        // Beside an atomic peer, or among threads, ours is the shared form.
        let form = Form { shared: plan.threads > 1 || sides::is_shared(name), keyed: plan.keyed };
        let mut ours = ours::build::<K>(plan.kind, n, plan.rate, form)?;
        let mut peer = if name == "unkeyed" {
            ours::build::<K>(plan.kind, n, plan.rate, Form { keyed: false, ..form })?
        } else {
            sides::peer::<K>(name, n, plan.rate, ours.bytes())?
        };
        let is_ours = name == "unkeyed";
        let reads_only = !peer.holds_keys();
        let modes: &[Mode] = if is_ours || reads_only { &[Mode::Batch] } else { &[Mode::Single, Mode::Batch] };
        let peer_modes: &[Mode] = if is_ours { &[Mode::Batch] } else { &[Mode::Single] };
        let figures = race::race(
            course,
            &mut [
                Runner { name, side: &mut *peer, modes: peer_modes },
                Runner { name: "bloomgate", side: &mut *ours, modes },
            ],
        )?;
        // Full, since some only then know how large they are.
        let (peer_bytes, our_bytes) = (peer.bytes(), ours.bytes());
        for (op, op_name) in OPS.iter().enumerate() {
            if reads_only && op == 0 {
                continue;
            }
            for (mode, ours) in modes.iter().zip(&figures[1]) {
                each(Row {
                    peer: name.clone(),
                    kind: plan.kind.name(),
                    op: op_name,
                    mode: *mode,
                    n,
                    rate: plan.rate,
                    keys: if plan.texts { "str" } else { "u64" },
                    peer_ns: figures[0][0].ns[op],
                    our_ns: ours.ns[op],
                    peer_bits: peer_bytes as f64 * 8.0 / n as f64,
                    our_bits: our_bytes as f64 * 8.0 / n as f64,
                    peer_rate: figures[0][0].rate,
                    our_rate: ours.rate,
                    threads: plan.threads,
                });
            }
        }
    }
    Ok(())
}

/// `scripts/bench peers`.
pub fn run(args: &mut Args) -> Result<(), Fault> {
    let (mut plan, mut json) = (Plan::default(), false);
    while let Some(option) = args.option()? {
        match option.as_str() {
            "--n" => plan.sizes = args.numbers(&option)?,
            "--rate" => plan.rate = args.number(&option)?,
            "--keys" => plan.texts = texts(&args.value(&option)?)?,
            "--kind" => plan.kind = ours::kind(&args.value(&option)?)?,
            "--peer" => plan.peers = args.value(&option)?.split(',').map(str::to_string).collect(),
            "--threads" => plan.threads = args.number(&option)?,
            "--passes" => plan.passes = Some(args.number(&option)?),
            "--keyed" => plan.keyed = true,
            "--json" => json = true,
            _ => return Err(args.unknown(&option)),
        }
    }
    check(&mut plan)?;
    if !json {
        println!("{}", crate::machine());
    }
    for n in plan.sizes.clone() {
        if !json {
            let keys = if plan.texts { "texts of 16 to 40 bytes" } else { "u64 keys" };
            let (kind, percent, threads) = (plan.kind.name(), plan.rate * 100.0, plan.threads);
            println!("\n{kind}, {n} {keys}, {percent} % asked, threads: {threads}; ns/key, minimum over passes");
            println!("{}", heading());
        }
        let show = |row: Row| println!("{}", if json { row.json() } else { row.line() });
        if plan.texts {
            with_texts(n, |members, absent| compare(&plan, members, absent, show))?;
        } else {
            with_numbers(n, |members, absent| compare(&plan, members, absent, show))?;
        }
    }
    Ok(())
}

fn texts(name: &str) -> Result<bool, Fault> {
    match name {
        "u64" => Ok(false),
        "str" => Ok(true),
        _ => Err(Fault(format!("--keys takes u64 or str, not {name:?}"))),
    }
}

/// Refuses what cannot be raced, and fills in the peers when none is named.
fn check(plan: &mut Plan) -> Result<(), Fault> {
    if plan.sizes.iter().any(|&n| n == 0 || n > 4_000_000_000) {
        return Err(Fault("--n takes 1 to 4000000000 keys".to_string()));
    }
    if !(plan.rate > 0.0 && plan.rate < 1.0) {
        return Err(Fault(format!("--rate takes a share between 0 and 1, such as 0.01 for 1 %, not {}", plan.rate)));
    }
    if plan.threads == 0 || plan.threads > 256 || plan.passes == Some(0) {
        return Err(Fault("--threads takes 1 to 256 and --passes at least 1".to_string()));
    }
    if plan.peers.is_empty() {
        let fits = |name: &&str| plan.threads == 1 || sides::is_shared(name) || *name == "floor";
        plan.peers = sides::peers_of(plan.kind).iter().filter(|name| fits(name)).map(ToString::to_string).collect();
    }
    match plan.peers.iter().find(|name| !PEERS.contains(&name.as_str()) && *name != "unkeyed") {
        Some(name) => Err(Fault(format!("no peer is called {name:?}; there are {} and unkeyed", PEERS.join(", ")))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(plan: &Plan, n: usize) -> Vec<Row> {
        let mut rows = Vec::new();
        with_numbers(n, |members, absent| compare(plan, members, absent, |row| rows.push(row))).unwrap();
        rows
    }

    #[test]
    fn every_peer_gives_every_row() {
        let mut plan = Plan { passes: Some(1), ..Plan::default() };
        check(&mut plan).unwrap();
        let rows = rows(&plan, 5000);
        // Six peers with three operations in two modes; the floor has hits and misses in batches.
        assert_eq!(rows.len(), 6 * 6 + 2);
        for row in &rows {
            assert!(row.peer_ns > 0.0 && row.our_ns > 0.0 && row.ratio().is_finite(), "{row:?}");
            assert!((0.007..0.013).contains(&row.our_rate.unwrap()), "{row:?}");
            assert_eq!(row.peer_rate.is_none(), row.peer == "floor");
        }
    }

    #[test]
    fn json_has_the_promised_fields_in_order() {
        let mut plan = Plan { passes: Some(1), peers: vec!["floor".to_string()], ..Plan::default() };
        check(&mut plan).unwrap();
        let json = rows(&plan, 5000)[0].json();
        let fields: Vec<&str> =
            json.split('"').skip(1).step_by(2).filter(|word| json.contains(&format!("\"{word}\":"))).collect();
        let expected = "peer kind op mode n rate keys peer_ns our_ns ratio peer_bits_per_key our_bits_per_key \
                        peer_measured_rate our_measured_rate threads";
        assert_eq!(fields.join(" "), expected);
        assert!(json.contains(r#""peer_measured_rate":null"#));
    }

    #[test]
    fn nonsense_is_refused() {
        for line in [
            "--n 0",
            "--rate 0",
            "--rate 1.5",
            "--rate nan",
            "--keys int",
            "--kind guava",
            "--peer me",
            "--threads 0",
            "--passes 0",
            "--fast",
            "20000",
        ] {
            let mut args = Args::new(line.split_whitespace().map(str::to_string).collect());
            assert!(run(&mut args).is_err(), "{line} was taken");
        }
    }
}
