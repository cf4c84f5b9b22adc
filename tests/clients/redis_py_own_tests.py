#!/usr/bin/env python3
"""redis-py's own tests of BF and CF, unchanged, against a running server.

    redis_py_own_tests.py --source DIR --port PORT --protocol 2|3

DIR is redis-py's source package, unpacked. Run are all tests of tests/test_bloom.py and tests/test_asyncio/test_bloom.py
but those of other structures (OTHERS). Two tests reserve BF and CF filters and then, in their last lines, a count-min
sketch and a top-k list: they must get exactly as far as the first of those lines (HALF).
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

FILES = ["tests/test_bloom.py", "tests/test_asyncio/test_bloom.py"]
# Count-min sketches, top-k lists and t-digests are no filters: Bloomgate has none of their commands.
OTHERS = ["test_cms", "test_topk", "test_tdigest"]
# Filters first, then CMS.INITBYDIM and TOPK.RESERVE in the same test.
HALF = ["test_create", "test_bf_reserve"]
HALF_ENDS = "unknown command 'CMS.INITBYDIM'"
# Fewer than this, and the tests were not found rather than passed: 9 plain ones, 8 asynchronous ones in 2 forms each.
FEWEST = 25


def run(args, report):
    """Runs pytest; what it printed."""
    url = f"redis://127.0.0.1:{args.port}"
    command = [sys.executable, "-m", "pytest", *FILES, "-q", "-p", "no:cacheprovider", f"--junitxml={report}"]
    command += [f"--redis-url={url}/0", f"--redis-mod-url={url}", f"--protocol={args.protocol}"]
    command += ["-k", " and ".join(f"not {name}" for name in OTHERS)]
    # The package beside the tests, not one that happens to be installed elsewhere; no settings from the caller's shell.
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "RE_"))}
    environment |= {"PYTHONPATH": args.source, "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(command, cwd=args.source, env=environment, capture_output=True, text=True, timeout=300)
    return done.stdout + done.stderr


def wrong(case):
    """Why a test did not go as it must, if it did not."""
    name = re.sub(r"\[.*", "", case.get("name"))
    problem = next((child for child in case if child.tag in ("failure", "error", "skipped")), None)
    said = "" if problem is None else f"{problem.get('message')}\n{problem.text}"
    if name in HALF:
        first = (problem.get("message") or "") if problem is not None else "it passed"
        return None if HALF_ENDS in first else f"must end with {HALF_ENDS}, but: {said or first}"
    return None if problem is None else said


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--protocol", type=int, choices=(2, 3), required=True)
    args = parser.parse_args()
    title = f"redis-py's own tests, RESP{args.protocol}"
    with tempfile.TemporaryDirectory() as folder:
        report = os.path.join(folder, "report.xml")
        output = run(args, report)
        if not os.path.exists(report):
            sys.exit(f"{title}: FAILED: pytest did not run:\n" + "\n".join(output.splitlines()[-20:]))
        cases = list(xml.etree.ElementTree.parse(report).iter("testcase"))
    failed = [(case, why) for case in cases if (why := wrong(case)) is not None]
    for case, why in failed:
        print(f"{title}: {case.get('classname')}.{case.get('name')}: FAILED\n{why}\n")
    if len(cases) < FEWEST:
        sys.exit(f"{title}: FAILED: {len(cases)} tests ran, {FEWEST} at least are expected:\n{output}")
    if failed:
        sys.exit(f"{title}: {len(failed)} of {len(cases)} FAILED")
    half = sum(re.sub(r"\[.*", "", case.get("name")) in HALF for case in cases)
    print(f"{title}: {len(cases)} ok, of which {half} up to the sketches they end with")


if __name__ == "__main__":
    main()
