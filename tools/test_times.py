#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Where the time of ./test.sh goes, from what ninja, ctest and the fuzzer left in its trees: by stage, by room, and what the parts
of the project cost that may take so much and no more. After ./test.sh:

    tools/test_times.py [TREE...]           build, build-asan, build-tsan and build-aarch64 where none is named
    tools/test_times.py --run [-j N] [-R REGEX] [-E REGEX] [-L LABEL] TREE
                                            runs the tests of a tree and prints what each took: seconds of processor time, of its
                                            children too, and on the clock

Seconds are those of each compilation and test on the clock, of all cores together: of processor time, where ninja and ctest ran
as many as there are cores and nothing else did. --run says how much of a test's time is waiting."""
import argparse, collections, json, os, re, subprocess, sys, threading, time

TREES = ('build', 'build-aarch64', 'build-asan', 'build-tsan')
# Part, the seconds of ./test.sh on two cores that it may take, and what of sources, tests and fuzz targets is its.
PARTS = (
    ('chat', 60, r'src/text/(chat|grammar|jinja|schema|matcher)|src/cli/chat|t_text_(chat|conversation|forging|grammar|hostile|jinja|lazy|reader|'
     r'schema|table|token_trie)|unit/text/(chat|conversation|forging|grammar|hostile|jinja|lazy|reader|schema|table|token_trie)|'
     r'e2e_(chat|grammar|template)|t_e2e_shipped_chat|t_fault_text|e2e_train_chat|t_train_conversations|'
     r'fuzz_(template|messages|grammar|schema|reader)'),
    ('serve', 90, r'src/serve|src/store|src/engine/batch|src/cli/serve|serve_rig|e2e_(serve|soak|page|stores)|t_engine_batch|'
     r'unit/engine/batch|t_store|t_fault_(serve|batch)|fault/(serve|batch)|fuzz_(serve|batch|store)'),
    ('trace', 60, r'src/trace|src/base/(trace|samples|resident)|src/cli/(trace|report|lens)|t_trace|t_base_(trace|samples|resident|paging)|'
     r'src/engine/(pager|tap)|t_engine_(pager|tap)|unit/engine/(pager|tap)|t_golden_(trace|lens|values)|t_fault_(trace|tap)|'
     r't_e2e_trace|e2e_(trace|report|lens|metrics)|fuzz_trace'),
    ('devices', 180, r'src/gpu|room_gpu|standin|t_gpu|unit/gpu|embedded/|(t_golden|t_array|t_nn|t_lm|e2e)_devices|golden/devices'),
)


def room_of(name):
    """Of an output of the build or a test."""
    m = re.search(r'room_(\w+)\.dir|(serve_rig|standin)\w*|src/(cli|serve)/|\bt_([a-z0-9]+)|^(fuzz|lint|e2e|check)', name)
    return next((x for x in m.groups() if x), 'others') if m else 'others'


def built(tree):
    """Seconds by output, of each the last time. Commands with several outputs are counted once."""
    rows, seen = {}, {}
    try:
        lines = open(os.path.join(tree, '.ninja_log'), encoding='utf-8', errors='replace')
    except OSError:
        return rows
    for line in lines:
        row = line.rstrip('\n').split('\t')
        if len(row) == 5:
            seen[row[3]] = (int(row[1]) - int(row[0])) / 1000, row[0], row[1], row[4]
    for output, (seconds, *when) in seen.items():
        rows.setdefault(tuple(when), (output, seconds))
    return dict(rows.values())


def tested(tree):
    """Seconds by test."""
    try:
        text = open(os.path.join(tree, 'Testing/Temporary/LastTest.log'), encoding='utf-8', errors='replace').read()
    except OSError:
        return {}
    return {m[1]: float(m[2]) for m in re.finditer(r'^\d+/\d+ Testing: (\S+)\n.*?^Test time = +([\d.]+) sec', text, re.S | re.M)}


def fuzzed(tree):
    rows = {}
    for entry in sorted(os.listdir(tree + '/fuzz')) if os.path.isdir(tree + '/fuzz') else ():
        if entry.startswith('fuzz_') and entry.endswith('.log'):
            m = re.search(r'^Done \d+ runs in (\d+) second', open(f'{tree}/fuzz/{entry}', errors='replace').read(), re.M)
            rows[entry[:-4]] = float(m[1]) if m else 0
    return rows


def table(title, rows, top):
    total = sum(rows.values())
    print(f'\n{title}: {total:.0f} s')
    for name, seconds in sorted(rows.items(), key=lambda row: -row[1])[:top]:
        if seconds >= 0.5:
            print(f'{seconds:8.1f}  {name}')


def summed(trees, cores):
    parts = collections.Counter()
    print(f'{"stage":28}{"seconds":>9}   of all cores together')
    stages = []
    for tree in trees:
        stages += [(f'{tree}, build', built(tree)), (f'{tree}, tests', tested(tree)), (f'{tree}, fuzzing', fuzzed(tree))]
    stages = [(title, rows) for title, rows in stages if rows]
    for title, rows in stages:
        print(f'{title:28}{sum(rows.values()):9.0f}')
    for title, rows in stages:
        rooms = collections.Counter()
        for name, seconds in rows.items():
            rooms[room_of(name)] += seconds
            for part, _, pattern in PARTS:
                if re.search(pattern, name):
                    parts[part] += seconds
        table(title + ', by room', rooms, 12)
        table(title + ', the longest', rows, 12)
    print(f'\n{"part":12}{"seconds":>9}{"at most":>9}   of ./test.sh, on {cores} cores')
    for part, most, _ in PARTS:
        print(f'{part:12}{parts[part] / cores:9.0f}{most:9}')


def tests_of(tree, options):
    shown = subprocess.run(['ctest', '--test-dir', tree, '--show-only=json-v1'], capture_output=True, text=True, check=True).stdout
    for test in json.loads(shown)['tests']:
        have = {p['name']: p['value'] for p in test.get('properties', [])}
        named = re.search(options.R, test['name']) and not (options.E and re.search(options.E, test['name']))
        if 'command' in test and named and (not options.L or options.L in have.get('LABELS', [])):
            yield have.get('COST', 0), test['name'], test['command'], have.get('WORKING_DIRECTORY', tree)


def run(tree, options):
    """Returns whether all passed."""
    queue = sorted(tests_of(tree, options), key=lambda test: test[0])
    rows, lock = [], threading.Lock()

    def work():
        while True:
            with lock:
                if not queue:
                    return
                _, name, command, folder = queue.pop()
            with open(os.path.join(tree, 'Testing', name + '.log'), 'w') as log:
                begin = time.monotonic()
                child = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
                _, status, usage = os.wait4(child.pid, 0)
            child.returncode = os.waitstatus_to_exitcode(status)
            with lock:
                rows.append((usage.ru_utime + usage.ru_stime, time.monotonic() - begin, child.returncode, name))
    os.makedirs(tree + '/Testing', exist_ok=True)
    workers = [threading.Thread(target=work) for _ in range(options.j)]
    [w.start() for w in workers]
    [w.join() for w in workers]
    failed = [(status, name) for _, _, status, name in rows if status not in (0, 77)]
    print(f'{len(rows)} tests: {sum(r[0] for r in rows):.1f} s of processor time, {sum(r[1] for r in rows):.1f} s on their clocks')
    for cpu, clock, _, name in sorted(rows, reverse=True):
        print(f'{cpu:8.2f}{clock:9.2f}  {name}')
    for status, name in failed:
        print(f'FAILED with {status}: {name}, see {tree}/Testing/{name}.log')
    return not failed


if __name__ == '__main__':
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('trees', nargs='*', metavar='TREE')
    parser.add_argument('--run', action='store_true')
    parser.add_argument('-j', type=int, default=os.cpu_count())
    parser.add_argument('-R', default='')
    parser.add_argument('-E', default='')
    parser.add_argument('-L', default='')
    args = parser.parse_args()
    if args.run:
        sys.exit(0 if all([run(tree, args) for tree in args.trees or TREES[:1]]) else 1)
    summed(args.trees or [tree for tree in TREES if os.path.isdir(tree)], os.cpu_count())
