//! Commands on items that stand next to each other in a pipeline, run as one batch: the lines of all their items are
//! fetched from memory together, the log gets one record, and the reply of each command is cut from the answers.

use std::ops::Range;
use std::sync::{Arc, LazyLock};
use std::time::Instant;

use bloomgate_command::{MAX_ITEM, MAX_NAME, Protocol, Refusal, Role, find, number_of, write};

use super::Dues;
use super::desk::Desk;
use super::pieces::{MOST_BYTES, MOST_WORDS};
use super::space::{Bound, Space};
use crate::engine::adding::{Added, Copies, NotDone};
use crate::engine::entry::Family;
use crate::engine::shadows::check_name;
use crate::engine::{Core, Engine};

/// Items after which a batch is run: their digests and answers stay in the first-level cache.
const LONG: usize = 512;

/// Bytes of them after which it is run, about: items of a namespace are paid for by these too, and no batch is to cost more than
/// may come at once.
const LONG_BYTES: usize = 64 << 10;

/// A command that goes into a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hot {
    adds: bool,
    /// Whether the reply is an array.
    many: bool,
}

impl Hot {
    /// BF.ADD, BF.MADD, BF.EXISTS and BF.MEXISTS with arguments as they should be; all else goes through the table.
    #[inline]
    pub fn of(input: &[u8], ranges: &[Range<usize>]) -> Option<Self> {
        // Longer ones are a worker's.
        if ranges.len() < 3 || ranges.len() > MOST_WORDS || ranges[ranges.len() - 1].end - ranges[0].start > MOST_BYTES
        {
            return None;
        }
        let name = &input[ranges[0].clone()];
        let (adds, many) = match name.len() {
            6 if name.eq_ignore_ascii_case(b"BF.ADD") => (true, false),
            7 if name.eq_ignore_ascii_case(b"BF.MADD") => (true, true),
            9 if name.eq_ignore_ascii_case(b"BF.EXISTS") => (false, false),
            10 if name.eq_ignore_ascii_case(b"BF.MEXISTS") => (false, true),
            _ => return None,
        };
        let small = ranges[1].len() <= MAX_NAME && ranges[2..].iter().all(|range| range.len() <= MAX_ITEM);
        (small && (many || ranges.len() == 3)).then_some(Self { adds, many })
    }
}

impl Hot {
    /// The role that it needs.
    #[must_use]
    #[inline]
    pub const fn role(self) -> Role {
        if self.adds { Role::Write } else { Role::Read }
    }

    /// Its name in the table.
    #[must_use]
    #[inline]
    pub const fn name(self) -> &'static str {
        match (self.adds, self.many) {
            (true, false) => "bf.add",
            (true, true) => "bf.madd",
            (false, false) => "bf.exists",
            (false, true) => "bf.mexists",
        }
    }
}

/// One batch of so many is timed.
const TIMED: u32 = 16;

/// The numbers of the commands that go into batches, by whether they add (2) and whether their reply is an array (1).
static NUMBERS: LazyLock<[usize; 4]> = LazyLock::new(|| {
    ["bf.exists", "bf.mexists", "bf.add", "bf.madd"].map(|name| find(name.as_bytes()).map_or(0, number_of))
});

/// What a thread remembers from batch to batch to time one of many: for each command the batches that began with it, and
/// the calls since it was timed.
#[derive(Debug, Clone, Copy, Default)]
struct Timing {
    batches: [u32; 4],
    untimed: [u64; 4],
}

/// Buffers that batches of one thread use again.
#[derive(Debug, Default)]
pub struct Buffers {
    items: Vec<&'static [u8]>,
    replies: Vec<u32>,
    answers: Vec<bool>,
    added: Vec<Added>,
    name: Vec<u8>,
    timing: Timing,
}

/// A batch that grows.
#[derive(Debug)]
pub struct Batch<'a> {
    key: &'a [u8],
    /// The namespace that the user is bound to, and the name as it is in the engine.
    space: Bound,
    name: Vec<u8>,
    /// Why there can be no such name.
    wrong: Option<Refusal>,
    /// The number of the namespace that its filter was in when it was last run.
    number: u16,
    adds: bool,
    begin: usize,
    items: Vec<&'a [u8]>,
    /// Bytes of them, about.
    bytes: usize,
    /// For each command, how many items it has; with the highest bit when its reply is no array.
    replies: Vec<u32>,
    answers: Vec<bool>,
    added: Vec<Added>,
    /// Replies written so far.
    answered: usize,
    timing: Timing,
}

const SINGLE: u32 = 1 << 31;

/// An empty vector with the memory of another: the standard library keeps it when nothing is left to convert.
fn recycled<'b>(mut used: Vec<&[u8]>) -> Vec<&'b [u8]> {
    used.clear();
    used.into_iter().map(|_| &[][..]).collect()
}

impl<'a> Batch<'a> {
    /// An empty batch in the thread's buffers.
    pub fn new(core: &mut Core) -> Self {
        let Buffers { items, replies, answers, added, name, timing } = std::mem::take(&mut core.buffers);
        let (space, wrong) = (None, None);
        Self {
            key: &[],
            space,
            name,
            wrong,
            number: 0,
            adds: false,
            begin: 0,
            items,
            bytes: 0,
            replies,
            answers,
            added,
            answered: 0,
            timing,
        }
    }

    /// How many replies it has written.
    pub fn answered(&self) -> usize {
        self.answered
    }

    /// Gives the buffers back.
    pub fn put_back(self, core: &mut Core) {
        let Self { items, mut replies, answers, added, name, timing, .. } = self;
        replies.clear();
        core.buffers = Buffers { items: recycled(items), replies, answers, added, name, timing };
    }

    /// Whether a command may join.
    #[inline]
    pub fn takes(&self, hot: Hot, key: &[u8]) -> bool {
        !self.replies.is_empty() && self.adds == hot.adds && self.key == key
    }

    /// Begins with a command that stands at `begin` in the input.
    #[inline]
    pub fn start(&mut self, hot: Hot, key: &'a [u8], begin: usize, space: Option<&Arc<Space>>) {
        self.key = key;
        self.adds = hot.adds;
        self.begin = begin;
        self.space = space.cloned();
        self.wrong = match space {
            None => check_name(key),
            Some(space) => {
                self.name.clear();
                space.put_full(key, &mut self.name)
            }
        }
        .err();
    }

    /// The name as it is in the engine.
    #[inline]
    fn name(&self) -> &[u8] {
        if self.space.is_some() { &self.name } else { self.key }
    }

    /// Lets go of everything; where its first command begins, to be found again from there.
    pub fn abandon(&mut self) -> usize {
        self.items.clear();
        self.bytes = 0;
        self.replies.clear();
        self.begin
    }

    /// Takes the items of a command.
    #[inline]
    pub fn push(&mut self, hot: Hot, input: &'a [u8], items: &[Range<usize>]) {
        self.items.extend(items.iter().map(|range| &input[range.clone()]));
        self.bytes += items.last().map_or(0, |last| last.end - items[0].start);
        self.replies.push(items.len() as u32 | if hot.many { 0 } else { SINGLE });
    }

    /// Whether it is time to run it.
    #[inline]
    pub fn is_long(&self) -> bool {
        self.items.len() >= LONG || self.bytes >= LONG_BYTES
    }

    /// Runs it and writes the replies; false when the filter is busy, and then nothing was done.
    pub fn flush(
        &mut self,
        core: &mut Core,
        desk: &Desk,
        protocol: Protocol,
        out: &mut Vec<u8>,
        dues: &mut Dues,
    ) -> bool {
        if self.replies.is_empty() {
            return true;
        }
        let began = self.is_timed().then(Instant::now);
        self.number = 0;
        let done = match self.wrong.take() {
            Some(refusal) => Err(refusal.into()),
            None if self.adds => self.add(core, dues),
            None => self.ask(core, dues),
        };
        let wrong = match done {
            Err(NotDone::Busy) => return false,
            Err(NotDone::Refused(refusal)) => match &self.space {
                Some(space) => Some(space.retold(refusal, std::iter::once(&*self.name))),
                None => Some(refusal),
            },
            Ok(()) => None,
        };
        match &wrong {
            Some(refusal) => self.replies.iter().for_each(|_| write::error(out, refusal.as_str())),
            None if self.adds => self.write_added(&core.engine, protocol, out),
            None => self.write_answers(protocol, out),
        }
        desk.count_items(core.thread, self.adds, self.items.len() as u64);
        self.count(core.thread, desk, began, wrong.is_some());
        core.engine.namespaces.count_commands(self.number, self.replies.len() as u64);
        self.answered += self.replies.len();
        self.items.clear();
        self.bytes = 0;
        self.replies.clear();
        true
    }

    /// Whether this one is timed; by the command it begins with, so that commands which alternate all have their turn.
    #[inline]
    fn is_timed(&mut self) -> bool {
        let single = self.replies.first().is_some_and(|reply| reply & SINGLE != 0);
        let batches = &mut self.timing.batches[usize::from(self.adds) * 2 + usize::from(!single)];
        *batches = batches.wrapping_add(1);
        *batches % TIMED == 1
    }

    #[inline]
    fn count(&mut self, thread: usize, desk: &Desk, began: Option<Instant>, failed: bool) {
        let calls = self.replies.len() as u64;
        let single = self.replies.iter().map(|reply| u64::from(reply >> 31)).sum::<u64>();
        let each = began.map(|began| began.elapsed().as_nanos() as u64 / calls.max(1));
        for (many, calls) in [(0, single), (1, calls - single)] {
            if calls == 0 {
                continue;
            }
            let hot = usize::from(self.adds) * 2 + many;
            desk.tallies.calls(thread, NUMBERS[hot], calls, if failed { calls } else { 0 });
            let untimed = &mut self.timing.untimed[hot];
            *untimed += calls;
            if let Some(each) = each {
                desk.tallies.took(thread, NUMBERS[hot], std::mem::take(untimed), each);
            }
        }
    }

    fn ask(&mut self, core: &mut Core, dues: &mut Dues) -> Result<(), NotDone> {
        let name = if self.space.is_some() { &self.name } else { self.key };
        let found = core.nearby.find(&core.engine.names, name);
        match found.filter(|entry| entry.expires_ms() == 0 || !entry.is_expired(core.engine.clock.now_ms())) {
            // A name that never was: no key is in it.
            None => {
                core.scratch.pay_absent(&core.engine, name, &self.items)?;
                self.number = core.engine.namespaces.of(name);
                self.answers.clear();
                self.answers.resize(self.items.len(), false);
            }
            Some(entry) if entry.family() != Family::Bloom => return Err(Refusal::WRONG_TYPE.into()),
            Some(entry) => {
                self.number = entry.space();
                core.scratch.ask(&core.engine, entry, &self.items, &mut self.answers)?;
                // Found, and perhaps not in the log yet: then there is nothing to wait for.
                let waits = core.engine.journal.lookups_wait();
                if waits && self.answers.contains(&true) && entry.is_ahead_of_the_log() {
                    core.scratch.come_again(entry.space());
                    return Err(NotDone::Busy);
                }
                // A "maybe" may come from a write that is not durable yet.
                dues.see(entry.touched());
            }
        }
        Ok(())
    }

    fn add(&mut self, core: &mut Core, dues: &mut Dues) -> Result<(), NotDone> {
        loop {
            let engine: &Engine = &core.engine;
            {
                let mut permit = engine.pass(core.thread);
                // Under the permit: a filter that is found now is not taken away before the items are in.
                let name = if self.space.is_some() { &self.name } else { self.key };
                let found = core.nearby.find(&engine.names, name);
                let found = found.filter(|entry| entry.expires_ms() == 0 || !entry.is_expired(engine.clock.now_ms()));
                if let Some(entry) = found {
                    if entry.family() != Family::Bloom {
                        return Err(Refusal::WRONG_TYPE.into());
                    }
                    self.number = entry.space();
                    let sequence = core.scratch.add(&mut permit, entry, &self.items, Copies::One, &mut self.added)?;
                    dues.write(sequence);
                    return Ok(());
                }
            }
            super::bf::create_default(engine, self.space.as_deref(), self.name())?;
        }
    }

    fn write_answers(&self, protocol: Protocol, out: &mut Vec<u8>) {
        let mut rest = &self.answers[..];
        for &reply in &self.replies {
            let (answers, after) = rest.split_at((reply & !SINGLE) as usize);
            rest = after;
            if reply & SINGLE == 0 {
                write::array_header(out, answers.len());
            }
            out.reserve(answers.len() * 4);
            for &answer in answers {
                write::bool(out, answer, protocol);
            }
        }
    }

    fn write_added(&self, engine: &Engine, protocol: Protocol, out: &mut Vec<u8>) {
        let mut rest = &self.added[..];
        let mut answers = super::bf::answers(engine, self.space.as_deref(), self.name(), false);
        for &reply in &self.replies {
            let (added, after) = rest.split_at((reply & !SINGLE) as usize);
            rest = after;
            if reply & SINGLE == 0 {
                write::array_header(out, added.len());
            }
            out.reserve(added.len() * 4);
            for &added in added {
                match added {
                    Added::New => write::bool(out, true, protocol),
                    Added::Known => write::bool(out, false, protocol),
                    other => write::error(out, answers.refusal(other).as_str()),
                }
            }
        }
    }
}
