#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Puts small faults into src/, one at a time, and sees whether the tests of `./test.sh quick` notice.

  tests/mutate/run.py --sample 300 --seed 1 --jobs 2     draws mutants, builds and tests each, prints the survivors
  tests/mutate/run.py --again survived                   those that survived before, after new tests
  tests/mutate/run.py --report                           what was found so far

Works in copies of the tree under --dir (build-mutate), never in the tree itself. Results are lines of JSON in DIR/results.jsonl: a run that
was stopped goes on where it was, and a mutant whose file has not changed is not tried twice. The first run builds two trees more (one counts
which test runs which line). A mutant is tried with the tests that run its line, the quickest and nearest first, until one fails.
"""
import argparse
import collections
import hashlib
import json
import math
import random
import threading
import time
from pathlib import Path

import mutants
from tree import ROOT, Tree, digest

# Levels that this machine may lack, programs that measure, data and pictures.
EXCLUDED = ('src/cpu/amx/', 'src/cpu/neon/', 'src/cpu/measure.c', 'src/cli/bench', 'src/quant/iq_grids', 'src/text/unicode/unicode_data',
            'src/graph/print/svg')


def options():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('--sample', type=int, default=300, help='mutants that compile and differ from the original (300)')
    p.add_argument('--seed', type=int, default=1)
    p.add_argument('--jobs', type=int, default=1)
    p.add_argument('--dir', type=Path, default=ROOT / 'build-mutate')
    p.add_argument('--only', default='', help='comma-separated beginnings of paths, such as src/base,src/graph/plan/')
    p.add_argument('--skip', default='', help='the same for what to leave out')
    p.add_argument('--at', default='', help='every mutant of FILE:LINE or FILE:FROM-TO')
    p.add_argument('--again', default='', help='tries those again that have this status')
    p.add_argument('--keep', action='store_true', help='mutates the trees as they are, without what has changed here since')
    p.add_argument('--cover', action='store_true', help='counts anew which test runs which line')
    p.add_argument('--budget', type=float, default=math.inf, help='seconds of tests for a mutant; it counts as a survivor after that')
    p.add_argument('--minutes', type=float, default=0, help='stops after that long')
    p.add_argument('--list', action='store_true', help='prints the sample and stops')
    p.add_argument('--report', action='store_true')
    return p.parse_args()


# ---- the sample ----

def sources(o, root):
    def begins(path, list_):
        return any(path.startswith(x) for x in list_.split(',') if x)
    for path in sorted(root.glob('src/**/*.[ch]')):
        name = str(path.relative_to(root))
        if not name.startswith(EXCLUDED) and (not o.only or begins(name, o.only)) and not begins(name, o.skip):
            yield name, path.read_text()


def streams(o, root):
    """{room: (its share of the sample, its mutants in the order in which they are drawn)}. A room weighs the root of its lines. A change of
    one function changes few draws."""
    found, lines = collections.defaultdict(lambda: collections.defaultdict(list)), collections.Counter()
    for name, text in sources(o, root):
        room = name.split('/')[1]
        lines[room] += text.count('\n')
        for m in mutants.of_file(name, text):
            found[room][m.kind].append(m)
    total = sum(math.sqrt(n) for n in lines.values())
    result, given = {}, 0.0
    for room in sorted(found):
        rng, kinds = random.Random(f'{o.seed} {room}'), found[room]
        for list_ in kinds.values():
            list_.sort(key=lambda m: hashlib.sha256(f'{o.seed} {m.key}'.encode()).digest())
        drawn = []
        while any(kinds.values()) and len(drawn) < 3 * o.sample:
            kind = rng.choices(list(mutants.KINDS), list(mutants.KINDS.values()))[0]
            if kinds.get(kind):
                drawn.append(kinds[kind].pop())
        before, given = round(given), given + o.sample * math.sqrt(lines[room]) / total
        result[room] = (round(given) - before, drawn)
    return result


class Queue:
    """Hands out mutants, room by room; one that does not count (no code, or the same code) is replaced by the next of its room."""

    def __init__(self, rooms):
        self.left = {room: n for room, (n, _) in rooms.items()}
        self.share = dict(self.left)
        self.drawn = {room: iter(list_) for room, (_, list_) in rooms.items()}
        self.lock = threading.Lock()

    def next(self):
        with self.lock:
            while any(self.left.values()):
                room = max(self.left, key=lambda r: self.left[r] / max(1, self.share[r]))
                self.left[room] -= 1
                m = next(self.drawn[room], None)
                if m:
                    return m
                self.left[room] = 0
            return None

    def give_back(self, m):
        with self.lock:
            self.left[m.file.split('/')[1]] += 1


# ---- what is known ----

class Results:
    def __init__(self, path):
        self.path, self.lock, self.known = path, threading.Lock(), {}
        for line in path.read_text().splitlines() if path.exists() else []:
            r = json.loads(line)
            self.known[r['key']] = r

    def put(self, m, **fields):
        r = {'key': m.key, 'room': m.file.split('/')[1], 'kind': m.kind, 'show': m.show(), **fields}
        with self.lock:
            self.known[r['key']] = r
            with self.path.open('a') as f:
                f.write(json.dumps(r) + '\n')
        print(f'{r["status"]:9} {r.get("by", ""):28} {r["seconds"]:6.1f} s  {r["show"]}', flush=True)
        return r


class Coverage:
    """Which tests run a line, and how long each takes."""

    def __init__(self, path):
        self.path = path
        self.files, self.tests = {}, {}
        if path.exists():
            saved = json.loads(path.read_text())
            self.files, self.tests = saved['files'], saved['tests']

    def measure(self, tree, anew):
        """Runs what is new: all when a source has changed and `anew` says so, else the tests that have changed."""
        files = {n: digest(tree.source / n) for n in (str(p.relative_to(tree.source)) for p in tree.source.glob('src/**/*.[ch]'))}
        if anew or not self.tests:
            self.files, self.tests = files, {}
        for t in tree.tests():
            key = t.key(tree.source / 'tests')
            if self.tests.get(t.name, {}).get('key') == key:
                continue
            for f in tree.counters():
                f.unlink()
            seconds = tree.run(t).seconds
            self.tests[t.name] = {'key': key, 'seconds': seconds, 'lines': tree.lines_run()}
            print(f'lines run by {t.name}: {sum(map(len, self.tests[t.name]["lines"].values()))}', flush=True)
            self.path.write_text(json.dumps({'files': self.files, 'tests': self.tests}))

    def runs(self, test, key, m, current):
        """Whether this test may notice the mutant. What is not known counts as yes."""
        seen = self.tests.get(test.name)
        if not seen or seen['key'] != key or m.file.startswith('src/cpu/') or m.file not in self.files:
            return True
        ran = seen['lines'].get(m.file, [])
        if not current:  # lines have moved
            return bool(ran)
        if m.file.endswith('.h') or m.first == m.last:  # code of headers is counted where it is inlined, data nowhere
            return True
        executable = any(m.line in t['lines'].get(m.file, []) for t in self.tests.values())
        return m.line in ran if executable else any(m.first <= line <= m.last for line in ran)


# ---- one mutant ----

class Worker:
    def __init__(self, tree, coverage, baseline, results, o):
        self.tree, self.coverage, self.results, self.budget, self.sampled = tree, coverage, results, o.budget, not o.at
        self.tests = [t for t in tree.tests() if t.name in baseline]
        for t in self.tests:
            t.seconds = baseline[t.name]
        self.keys = {t.name: t.key(tree.source / 'tests') for t in self.tests}
        self.clean = tree.binaries()
        self.kills = collections.Counter()

    def candidates(self, m):
        room = m.file.split('/')[1]
        stem = Path(m.file).stem
        current = self.coverage.files.get(m.file) == digest(self.tree.source / m.file)

        def cost(t):
            kernels = t.name.startswith('check_') and room == 'cpu' and '/op/' not in m.file
            level = t.name == f'check_{Path(m.file).parent.name}'
            near = 1 + 3 * (t.room == room) + 20 * kernels + 100 * level + 8 * (stem in t.name) + self.kills[room, t.name]
            return (t.seconds + 0.05) / near
        return sorted((t for t in self.tests if room in t.sees and
                       (t.room == room or self.coverage.runs(t, self.keys[t.name], m, current))), key=cost)

    def attempt(self, m):
        start = time.monotonic()
        candidates = self.candidates(m)
        result = {'status': 'survived', 'tests': 0}
        try:
            self.tree.put(m.file, m.apply((self.tree.source / m.file).read_text()))
            if self.tree.ninja('quern_mutant', 'quern'):
                result['status'] = 'invalid'
            elif self.tree.binaries() == self.clean:
                result['status'] = 'same code'
            elif self.tree.ninja('mutant_tests'):  # one that includes the file
                result.update(status='killed', by='the build of the tests')
            else:
                self.test(m, candidates, result)
        finally:
            self.tree.restore()
            self.tree.clean()
        result['sampled'] = self.sampled or self.results.known.get(m.key, {'sampled': False}).get('sampled', True)
        return self.results.put(m, seconds=round(time.monotonic() - start, 1), **result)

    def test(self, m, candidates, result):
        left, result['of'] = self.budget, len(candidates)
        for t in candidates:
            left -= t.seconds
            if left < 0:
                return
            outcome = self.tree.run(t, cpu=5 + 8 * t.seconds, wall=40 + 20 * t.seconds)
            result['tests'] += 1
            if not outcome.passed:
                result.update(status='timeout' if outcome.timeout else 'killed', by=t.name)
                self.kills[m.file.split('/')[1], t.name] += 1
                return


def baseline(tree, path):
    """Seconds of each test that passes here without a mutant."""
    keys = {t.name: t.key(tree.source / 'tests') for t in tree.tests()}
    known = json.loads(path.read_text()) if path.exists() else {}
    same = known.get('binaries') == list(tree.binaries())
    seconds = {}
    for t in tree.tests():
        if same and known['keys'].get(t.name) == keys[t.name]:
            seconds.update({t.name: known['seconds'][t.name]} if t.name in known['seconds'] else {})
            continue
        outcome = tree.run(t)
        if outcome.passed:
            seconds[t.name] = outcome.seconds
        else:
            print(f'{t.name} fails without a mutant and is left out', flush=True)
    path.write_text(json.dumps({'keys': keys, 'binaries': tree.binaries(), 'seconds': seconds}))
    return seconds


# ---- the run ----

def wanted(o, results, root):
    """Streams of mutants to try, by room."""
    if o.at:
        file, _, lines = o.at.partition(':')
        first, _, last = lines.partition('-')
        found = [m for m in mutants.of_file(file, (root / file).read_text()) if int(first) <= m.line <= int(last or first)]
        return {file.split('/')[1]: (len(found), found)}
    if o.again:
        rooms = collections.defaultdict(list)
        for name, text in sources(o, root):
            for m in mutants.of_file(name, text):
                if results.known.get(m.key, {}).get('status') == o.again:
                    rooms[name.split('/')[1]].append(m)
        return {room: (len(list_), list_) for room, list_ in rooms.items()}
    return streams(o, root)


def report(tried):
    counts = collections.defaultdict(collections.Counter)
    for r in tried:
        for name in (r['room'], f'  {r["kind"]}', 'all'):
            counts[name][r['status']] += 1
    print(f'\n{"":12}{"tried":>7}{"killed":>8}{"timeout":>9}{"survived":>10}{"":>7}{"no code":>9}{"same code":>11}')
    for name in sorted(counts, key=lambda n: (n == 'all', n[:2] == '  ', n)):
        c = counts[name]
        n = c['killed'] + c['timeout'] + c['survived']
        rate = f'{100 * (n - c["survived"]) / n:.1f} %' if n else ''
        print(f'{name:12}{n:7}{c["killed"]:8}{c["timeout"]:9}{c["survived"]:10}{rate:>8}{c["invalid"]:8}{c["same code"]:11}')
    for r in tried:
        if r['status'] == 'survived':
            print(f'survived  {r["show"]}  ({r["tests"]} of {r["of"]} tests)')


def main():
    o = options()
    o.dir.mkdir(parents=True, exist_ok=True)
    results = Results(o.dir / 'results.jsonl')
    if o.list:
        rooms = wanted(o, results, ROOT)
        for room, (n, list_) in rooms.items():
            print(f'{room}: {n}', *(m.show() for m in list_[:n]), sep='\n    ')
        return
    if o.report:
        there = {m.key for name, text in sources(o, ROOT) for m in mutants.of_file(name, text)}
        drawn = [r for r in results.known.values() if r.get('sampled', True)]
        report([r for r in drawn if r['key'] in there])
        print(f'{sum(r["key"] not in there for r in drawn)} more were in functions that have changed since')
        return

    coverage = Coverage(o.dir / 'coverage.json')
    trees = [Tree(o.dir / str(i)) for i in range(o.jobs)]
    for tree in trees:
        tree.make(o.jobs, o.keep)
    rooms = wanted(o, results, trees[0].source)
    passing = baseline(trees[0], o.dir / 'baseline.json')
    if o.cover or not coverage.tests:
        counting = Tree(o.dir / 'coverage', coverage=True)
        counting.make(o.jobs)
        coverage.measure(counting, o.cover)

    queue, tried = Queue(rooms), []
    end = time.monotonic() + o.minutes * 60 if o.minutes else math.inf

    def work(worker):
        while time.monotonic() < end:
            m = queue.next()
            if not m:
                return
            r = results.known.get(m.key)
            if not r or o.again or o.at:
                r = worker.attempt(m)
            tried.append(r)
            if r['status'] in ('invalid', 'same code') and not (o.again or o.at):
                queue.give_back(m)

    threads = [threading.Thread(target=work, args=(Worker(tree, coverage, passing, results, o),)) for tree in trees]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    report(tried)


if __name__ == '__main__':
    main()
