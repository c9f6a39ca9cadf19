# SPDX-License-Identifier: MIT
"""A copy of the repository with a build of its own, where mutants are put in, built and taken out again; and its tests. They run without
the material of ../shared, as in a fresh clone."""
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# Not in the set: house rules, which a mutant may break without being wrong; what measures times; the installed library, which is not built here.
LEFT_OUT = ('lint_', 'e2e_bench', 'e2e_install', 't_cpu_measure')
FLAGS = '-O1 -DNDEBUG -Werror=int-conversion -Werror=incompatible-pointer-types'


@dataclass
class Test:
    name: str
    command: list
    folder: str
    room: str         # '' for those that see the whole library
    sees: set         # the rooms whose mutants it may notice
    seconds: float = 0

    def key(self, tests):
        """Changes when the test's file does, not when the library does."""
        name = self.name.removeprefix('t_')
        folder, _, rest = name.partition('_')
        files = [tests / f'unit/{self.room}/{name[len(self.room) + 1:]}.c', tests / f'{folder}/{rest}.c', tests / f'{folder}/{rest}.sh']
        return next((digest(f) for f in files if f.exists()), name)


@dataclass
class Outcome:
    passed: bool
    timeout: bool
    seconds: float


def digest(path):
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()[:16]


class Tree:
    def __init__(self, folder, coverage=False):
        self.folder = Path(folder)
        self.source, self.build, self.scratch = self.folder / 'source', self.folder / 'build', self.folder / 'scratch'
        self.coverage = coverage
        self.built = set()  # what lies in the build folder before a test has run
        self.env = dict(os.environ, TMPDIR=str(self.scratch), CCACHE_BASEDIR=str(self.folder), CCACHE_NOHASHDIR='1')

    # ---- building ----

    def sync(self):
        """Makes the copy equal to the working tree; what is equal keeps its time, so that ninja builds little."""
        names = subprocess.run(['git', 'ls-files', '-z', '--cached', '--others', '--exclude-standard'], cwd=ROOT, check=True,
                               capture_output=True).stdout.decode().split('\0')
        wanted = {n for n in names if n and (ROOT / n).is_file()}
        for name in wanted:
            to, data = self.source / name, (ROOT / name).read_bytes()
            if not to.is_file() or to.read_bytes() != data:
                to.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / name, to)
        for path in [p for p in self.source.rglob('*') if p.is_file()]:
            if str(path.relative_to(self.source)) not in wanted:
                path.unlink()
        self.clean()

    def configure(self):
        if (self.build / 'build.ninja').exists():
            return
        options = {'CMAKE_PROJECT_quern_INCLUDE': self.source / 'tests/mutate/one_library.cmake', 'CMAKE_BUILD_TYPE': 'Release',
                   'CMAKE_C_FLAGS_RELEASE': FLAGS, 'QN_COVERAGE': 'ON' if self.coverage else 'OFF'}
        if shutil.which('ccache'):
            options['CMAKE_C_COMPILER_LAUNCHER'] = 'ccache'
        command = ['cmake', '-G', 'Ninja', '-S', self.source, '-B', self.build, *(f'-D{k}={v}' for k, v in options.items())]
        subprocess.run(command, check=True, env=self.env, stdout=subprocess.DEVNULL)
        (self.folder / 'configured').write_text('\n'.join(p.name for p in self.build.iterdir()))

    def ninja(self, *targets, jobs=1):
        """What went wrong, or ''."""
        done = subprocess.run(['ninja', '-j', str(jobs), *targets], cwd=self.build, env=self.env, capture_output=True, text=True)
        return '' if done.returncode == 0 else done.stdout[-4000:] + done.stderr[-1000:]

    def put(self, file, text):
        """A mutant in; a run that is killed meanwhile leaves the original beside the copy, for the next."""
        original = (self.source / file).read_text()
        (self.folder / 'mutant').write_text(f'{file}\n{original}')
        (self.source / file).write_text(text)

    def restore(self):
        kept = self.folder / 'mutant'
        if kept.exists():
            file, _, original = kept.read_text().partition('\n')
            (self.source / file).write_text(original)
            kept.unlink()

    def make(self, jobs, keep=False):
        self.restore()
        if not keep or not self.source.exists():
            self.sync()
        self.configure()
        if self.ninja('quern_mutant', 'quern', jobs=jobs):
            raise SystemExit(f'{self.build}: the library does not build')
        wrong = self.ninja('-k', '0', 'mutant_tests', jobs=jobs)
        if wrong:  # a test that cannot be built fails without a mutant
            print(wrong)
        targets = subprocess.run(['ninja', '-t', 'targets', 'all'], cwd=self.build, capture_output=True, text=True).stdout
        self.built = {line.split(':')[0].split('/')[0] for line in targets.splitlines()}
        self.built |= {'Testing', '.ninja_log', '.ninja_deps', '.ninja_lock'} | set((self.folder / 'configured').read_text().split('\n'))
        self.clean()

    def binaries(self):
        """Equal for a mutant that compiles to the very same code."""
        return digest(self.build / 'libquern_mutant.so'), digest(self.build / 'quern')

    # ---- tests ----

    def tests(self):
        listing = json.loads(subprocess.run(['ctest', '--show-only=json-v1'], cwd=self.build, check=True, capture_output=True).stdout)
        rooms = sorted((p.name for p in (self.source / 'src').iterdir()), key=len, reverse=True)
        cmake = (self.source / 'CMakeLists.txt').read_text()
        sees = {room: {room, *seen.split()} for room, seen in re.findall(r'^set\(QN_SEES_(\w+)(.*)\)', cmake, re.M)}
        tests = []
        for t in listing['tests']:
            if 'command' not in t or t['name'].startswith(LEFT_OUT):
                continue
            properties = {p['name']: p['value'] for p in t['properties']}
            room = next((r for r in rooms if t['name'].startswith(f't_{r}_')), '')
            test = Test(t['name'], t['command'], properties.get('WORKING_DIRECTORY', str(self.build)), room, sees.get(room, set(rooms)))
            tests += self.by_level(test) if t['name'] == 'check' else [test]
        return tests

    def by_level(self, check):
        """The check of kernels as a test a level: one sees a mutant of its level, and stops there."""
        usage = subprocess.run([*check.command, '--help'], capture_output=True, text=True).stderr
        for level in usage.split('levels:')[1].split():
            if subprocess.run([*check.command, '--level', level, '--filter', 'none'], capture_output=True).returncode != 2:
                yield Test(f'check_{level}', [*check.command, '--level', level], check.folder, '', {'base', 'tensor', 'quant', 'cpu'})

    def clean(self):
        """Takes away what tests have left: what a mutant leaves must not fail the next."""
        shutil.rmtree(self.scratch, ignore_errors=True)
        self.scratch.mkdir(parents=True)
        for path in [p for p in self.build.iterdir() if p.name not in self.built] if self.built else []:
            path.unlink() if path.is_symlink() or not path.is_dir() else shutil.rmtree(path)

    def run(self, test, cpu=600, wall=600):
        limits = f'ulimit -c 0 -f 8000000 -t {int(cpu) + 1}; exec "$@"'
        start, code, timeout = time.monotonic(), -1, True
        p = subprocess.Popen(['sh', '-c', limits, 'sh', *test.command], cwd=test.folder, env=self.env, stdin=subprocess.DEVNULL,
                             stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        try:
            code = p.wait(wall)
            timeout = code in (-signal.SIGXCPU, 128 + signal.SIGXCPU)
        except subprocess.TimeoutExpired:
            pass
        finally:
            try:
                os.killpg(p.pid, signal.SIGKILL)  # and what it left behind
            except ProcessLookupError:
                pass
            p.wait()
            if timeout:
                self.end_others()
        return Outcome(code in (0, 77), timeout, time.monotonic() - start)

    def end_others(self):
        """What a test started in a session of its own, such as a terminal: known by the scratch folder in its environment."""
        mark = f'TMPDIR={self.scratch}'.encode()
        for path in Path('/proc').glob('[0-9]*/environ'):
            try:
                if mark in path.read_bytes().split(b'\0'):
                    os.kill(int(path.parent.name), signal.SIGKILL)
            except OSError:
                pass

    # ---- coverage ----

    def counters(self):
        return list(self.build.rglob('*.gcda'))

    def lines_run(self):
        """{file: lines that ran since the counters were deleted}."""
        lines = {}
        files = self.counters()
        for at in range(0, len(files), 40):
            done = subprocess.run(['gcov', '--json-format', '--stdout', *map(str, files[at:at + 40])], cwd=self.build, capture_output=True)
            for text in filter(None, done.stdout.decode().split('\n')):
                for f in json.loads(text)['files']:
                    path = os.path.normpath(self.build / f['file'])
                    if path.startswith(f'{self.source}/src/'):
                        ran = lines.setdefault(os.path.relpath(path, self.source), set())
                        ran.update(x['line_number'] for x in f['lines'] if x['count'])
        return {f: sorted(ran) for f, ran in lines.items() if ran}
