//! Lookups that somebody else answers: a proxy or a layer asks what the filter says, passes on what may exist, and tells
//! afterwards what came of it, so that the measured rate and the watching mode see it too.

use super::read::{Basis, Verdict};
use super::{Gate, Inner};
use crate::counters::Count;
use crate::error::Result;
use crate::key::Key;
use crate::outcome::{Answer, Outcome};

/// What the gate says of a lookup that somebody else answers.
#[derive(Clone, Debug)]
pub enum Judgement {
    /// The key is absent: nothing behind the gate is asked.
    Absent(Answer),
    /// It may exist, or the filter cannot say: it passes.
    Passed(Passed),
}

/// A lookup that passed. What came of it is told by [`Gate::saw`].
#[derive(Clone, Copy, Debug)]
#[must_use = "tell what came of it by Gate::saw"]
pub struct Passed(Basis);

impl Passed {
    /// The version of the filter that was asked; 0 while there is none.
    #[must_use]
    pub fn version(self) -> u64 {
        self.0.version
    }

    /// As of when the filter knows every key, in milliseconds since 1970; `None` while it does not.
    #[must_use]
    pub fn watermark(self) -> Option<u64> {
        self.0.watermark
    }
}

/// What came of a lookup that passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// There is a row.
    Found,
    /// There is none: if the filter was ready, its "maybe" was a false positive.
    Absent,
    /// It was answered, and the answer says neither.
    Unclear,
    /// It was not answered.
    Failed,
}

impl Gate {
    /// What the gate says of a lookup that somebody else answers. `spellings` are the keys that it may be for, mostly one:
    /// it is absent only if all of them are.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::NotReady`](crate::ErrorKind::NotReady) under the policy `closed` while the filter cannot say no, and
    /// [`ErrorKind::BadKey`](crate::ErrorKind::BadKey) for a key that is not of the source's type.
    pub async fn judge(&self, spellings: &[Key]) -> Result<Judgement> {
        self.judge_as(spellings, Count::AbsentByFilter).await
    }

    /// The "no" if the filter alone gives it, for who asks for nothing else and never tells what came of a lookup that passed:
    /// of such a one the "no" would be measured and the false positives would not, so neither is. `spellings` are the keys that
    /// it may be for, as in [`judge`](Self::judge).
    ///
    /// # Errors
    ///
    /// Those of [`judge`](Self::judge).
    pub async fn check(&self, spellings: &[Key]) -> Result<Option<Answer>> {
        match self.judge_as(spellings, Count::AbsentByCheck).await? {
            Judgement::Absent(answer) => Ok(Some(answer)),
            Judgement::Passed(_) => Ok(None),
        }
    }

    async fn judge_as(&self, spellings: &[Key], no: Count) -> Result<Judgement> {
        let timed = self.inner.times.draw();
        let judged = self.judge_each(spellings, no).await;
        if let (Some(begun), Ok(Judgement::Absent(_))) = (timed, &judged) {
            self.inner.times.refused(begun);
        }
        self.inner.count_failure(judged.as_ref().err());
        judged
    }

    async fn judge_each(&self, spellings: &[Key], no: Count) -> Result<Judgement> {
        let inner = &self.inner;
        spellings.iter().try_for_each(|key| inner.check(key))?;
        let mut last = None;
        for key in spellings {
            let digest = inner.filters.digest(key);
            // Before the filter is asked: a write after this moment moves the epoch, and the audit knows.
            let audited = inner.audits.draw().then(|| inner.epoch(digest));
            let basis = match inner.ask_here(digest) {
                Some(basis) => basis,
                // A filter elsewhere: boxed, so that lookups in this process do not carry the room for it.
                None => Box::pin(inner.ask(digest)).await,
            };
            last = Some((basis, key, digest, audited));
            if !matches!(basis.verdict, Verdict::No | Verdict::Watching { no: true }) {
                break;
            }
        }
        let Some((basis, key, digest, audited)) = last else {
            return Ok(Judgement::Passed(Passed(inner.basis(inner.state_of(inner.filters.face().state), None, None))));
        };
        if basis.verdict == Verdict::No {
            return Ok(Judgement::Absent(inner.refuse(basis, key, digest, audited, no)));
        }
        inner.ensure_open(basis)?;
        Ok(Judgement::Passed(Passed(basis)))
    }

    /// Tells what came of a lookup that passed.
    pub fn saw(&self, passed: Passed, seen: Seen) {
        let (inner, Passed(basis)) = (&*self.inner, passed);
        if seen == Seen::Failed {
            inner.counters.one(Count::Failed);
            return;
        }
        inner.counters.one(Count::SourceReads);
        match seen {
            Seen::Found => _ = inner.count(basis, None, true),
            Seen::Absent => {
                inner.count_false_positive_read(basis, true);
                inner.count(basis, None, false);
            }
            Seen::Unclear | Seen::Failed => inner.counters.one(match basis.verdict {
                Verdict::Maybe | Verdict::No => Outcome::Source,
                Verdict::NotReady { .. } | Verdict::Watching { .. } => Outcome::Bypass,
            }),
        }
    }
}

impl Inner {
    /// What the filter says, if it is in this process: nothing is waited for.
    fn ask_here(&self, digest: bloomgate::Digest) -> Option<Basis> {
        let face = self.filters.face();
        // Before the filter is asked: what the watermark of a feed promises is in there by then.
        let state = self.state_of(face.state);
        match &face.current {
            None => Some(self.basis(state, None, None)),
            Some(current) => {
                let has = current.local_bits()?.contains_digest(digest);
                Some(self.basis(state, Some(current), Some(has)))
            }
        }
    }
}
