//! What a proxy counts, as metrics.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use bloomgate_http::metrics::Scrape;

bloomgate_http::metrics! {
    /// Every metric of the proxy; they come with those of the gate.
    REQUESTS = counter "bloomgate_proxy_requests_total" "" &["done"], "Requests by what was done with them: absent (404 by the filter), passed (a lookup that may find something), unjudged (no key of a rule in it, or none that is certain), write, refused (not passed on)";
    TROUBLE = counter "bloomgate_proxy_upstream_failures_total" "" &["reason"], "Requests that the upstream did not answer: it was not reached, took too long, or broke off";
    NEW_KEYS = counter "bloomgate_proxy_new_keys_total" "" &["result"], "Writes whose key is made by the upstream: the key was learnt from the answer, nothing was made, or it was missed (the filter is then rebuilt, unless a feed tells the key)";
    AGAIN = counter "bloomgate_proxy_retries_total" "" &[], "Requests sent again because their connection had been closed";
    TUNNELS = counter "bloomgate_proxy_tunnels_total" "" &[], "Connections that became WebSockets";
}

/// The counters.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub absent: AtomicU64,
    pub passed: AtomicU64,
    pub unjudged: AtomicU64,
    pub writes: AtomicU64,
    pub refused: AtomicU64,
    pub unreached: AtomicU64,
    pub slow: AtomicU64,
    pub broken: AtomicU64,
    pub learnt: AtomicU64,
    pub nothing: AtomicU64,
    pub missed: AtomicU64,
    pub again: AtomicU64,
    pub tunnels: AtomicU64,
}

pub(super) fn one(counter: &AtomicU64) {
    counter.fetch_add(1, Relaxed);
}

impl Counts {
    pub fn collect(&self, scrape: &mut Scrape) {
        for (metric, label, values) in [
            (
                &REQUESTS,
                "done",
                &[
                    ("absent", &self.absent),
                    ("passed", &self.passed),
                    ("unjudged", &self.unjudged),
                    ("write", &self.writes),
                    ("refused", &self.refused),
                ][..],
            ),
            (&TROUBLE, "reason", &[("unreached", &self.unreached), ("slow", &self.slow), ("broken", &self.broken)]),
            (&NEW_KEYS, "result", &[("learnt", &self.learnt), ("nothing", &self.nothing), ("missed", &self.missed)]),
        ] {
            for (value, count) in values {
                scrape.whole(metric, &[(label, value)], count.load(Relaxed));
            }
        }
        scrape.whole(&AGAIN, &[], self.again.load(Relaxed));
        scrape.whole(&TUNNELS, &[], self.tunnels.load(Relaxed));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bloomgate_http::metrics::{check, markdown};

    #[test]
    fn names_keep_the_rules_and_the_documentation_has_them() {
        assert_eq!(check(TABLE), Vec::<String>::new());
        let page = markdown(TABLE);
        assert!(include_str!("../../../../docs/gate.md").contains(&page), "docs/gate.md should have\n{page}");
    }
}
