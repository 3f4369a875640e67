"""pytest plugin: runs llama.cpp's server tests against foretoken and compares each result with
expectations.txt. Loaded by run.sh with -p."""

import fnmatch
import os

import pytest

KINDS = ("pass", "words", "feature", "differs")
HERE = os.path.dirname(os.path.abspath(__file__))


def read_expectations(path):
    """[(pattern of test ids, kind, reason)]; the last match counts."""
    rows = []
    with open(path, encoding="utf-8") as f:
        for number, line in enumerate(f, 1):
            line = line.rstrip("\n")
            if not line.strip() or line.startswith("#"):
                continue
            pattern, kind, reason = (line.split(None, 2) + ["", ""])[:3]
            if kind not in KINDS or (kind in ("feature", "differs") and not reason):
                raise pytest.UsageError(f"{path}:{number}: want PATTERN {'|'.join(KINDS)} REASON")
            rows.append((pattern, kind, reason))
    return rows


class Suite:
    def __init__(self):
        self.rows = read_expectations(os.path.join(HERE, "expectations.txt"))
        self.used = set()
        self.outcome = {}

    def expected(self, test):
        found = ("pass", "")
        for i, (pattern, kind, reason) in enumerate(self.rows):
            if test == pattern or fnmatch.fnmatchcase(test, pattern.replace("[", "[[]")):
                self.used.add(i)
                found = (kind, reason)
        return found


suite = Suite()


def short_id(nodeid):
    """test_basic.py::test_x[a] of unit/test_basic.py::test_x[a]; blanks become underscores."""
    return nodeid.split("unit/", 1)[-1].replace(" ", "_")


def local_file(url, output_file_path=None):
    """Nothing is downloaded: adapters and draft models are files that run.sh wrote."""
    name = "adapter.gguf" if "lora" in url.lower() or "shakespeare" in url else "draft.gguf"
    return os.path.join(os.environ["FT_SUITE_MODELS"], name)


class LocalImage:
    """The answer to the download of an image: truck.jpeg for the truck, cat.png for the cat."""

    status_code = 200

    def __init__(self, url):
        name = "cat.png" if "cat" in url else "truck.jpeg"
        with open(os.path.join(os.environ["FT_SUITE_MODELS"], name), "rb") as f:
            self.content = f.read()

    def raise_for_status(self):
        pass


def pytest_configure(config):
    import requests
    import utils

    utils.ServerPreset.load_all = staticmethod(lambda: None)
    utils.download_file = local_file
    if os.environ.get("FT_SUITE_WORDS") == "any":
        utils.match_regex = lambda regex, text: True
    get = requests.get

    def get_local(url, *args, **kwargs):
        if url.startswith("https://huggingface.co/"):
            return LocalImage(url)
        return get(url, *args, **kwargs)

    requests.get = get_local


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    kind, reason = suite.expected(short_id(item.nodeid))
    if kind == "feature" and os.environ.get("FT_SUITE_ALL") != "1":
        pytest.skip("feature: " + reason)


def pytest_runtest_logreport(report):
    test = short_id(report.nodeid)
    if report.failed:
        suite.outcome[test] = "failed"
    elif report.skipped:
        suite.outcome.setdefault(test, "skipped")
    elif report.when == "call":
        suite.outcome.setdefault(test, "passed")


def pytest_terminal_summary(terminalreporter):
    count = dict.fromkeys(KINDS, 0)
    unexplained, better = [], []
    for test, outcome in sorted(suite.outcome.items()):
        kind, reason = suite.expected(test)
        if outcome == "skipped" and kind == "pass":
            continue
        if kind == "pass" and outcome == "failed":
            unexplained.append(test)
            continue
        count[kind] += 1
        if kind != "pass" and outcome == "passed":
            better.append(f"{test} ({kind})")
    write = terminalreporter.write_line
    write("")
    for test in better:
        write("passes, though expected not to: " + test)
    for test in unexplained:
        write("unexplained: " + test)
    write(
        f"{len(suite.outcome)} tests: {count['pass']} pass, {count['words']} expect the words of "
        f"another model, {count['feature']} need a feature, {count['differs']} differ for a "
        f"reason, {len(unexplained)} unexplained"
    )


def pytest_sessionfinish(session, exitstatus):
    bad = any(
        outcome == "failed" and suite.expected(test)[0] == "pass"
        for test, outcome in suite.outcome.items()
    )
    if exitstatus in (0, 1):
        session.exitstatus = 1 if bad else 0
