# SPDX-License-Identifier: MIT
"""Every small fault that can be put into a C file of src/, found by tokens: operators, constants, deleted statements, negated conditions,
swapped arguments. Preprocessor lines, comments, text that is only printed and bulk tables are left alone. A mutant keeps the number of lines.
"""
import bisect
import collections
import hashlib
import re
from dataclasses import dataclass

TOKEN = re.compile(r'''
    (?P<skip>\s+|//[^\n]*|/\*.*?\*/)
  | (?P<directive>(?<![^\n])[ \t]*\#(?:\\\n|/\*.*?\*/|[^\n])*)
  | (?P<string>(?:u8|[LuU])?"(?:\\.|[^"\\])*"|(?:[LuU])?'(?:\\.|[^'\\])*')
  | (?P<number>(?:0[xX][0-9a-fA-F.]+(?:[pP][+-]?\d+)?|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)[uUlLfF]*)
  | (?P<name>[A-Za-z_]\w*)
  | (?P<sign>->|\+\+|--|<<=|>>=|\.\.\.|[-+*/%&|^<>=!]=|&&|\|\||<<|>>|[-+*/%&|^~!<>=?:;,.(){}\[\]\#])
''', re.X | re.S)

SWAPS = {
    '+': '-', '-': '+', '*': '/', '/': '*', '%': '/', '<': '<=', '<=': '<', '>': '>=', '>=': '>', '==': '!=', '!=': '==', '&&': '||',
    '||': '&&', '<<': '>>', '>>': '<<', '&': '|', '|': '&', '^': '&', '+=': '-=', '-=': '+=', '*=': '/=', '|=': '&=', '&=': '|=',
    '<<=': '>>=', '>>=': '<<=', '++': '--', '--': '++',
}
KEYWORDS = {'if', 'for', 'while', 'switch', 'return', 'sizeof', 'do', 'else', 'case', 'default', 'goto', '_Alignof', '_Generic'}
PRINTS = re.compile(r'printf$|^f?put[sc]|^QN_(\w+_)?(FAIL|LOG|ASSERT|WARN|UNREACHABLE)|^cli_(fail|bad_usage|say|warn)|_(log|say)$|^(_S|s)tatic_assert$|^assert$')
COMMUTES = re.compile(r'(^|_)(add|mul|min|max|swap)(_size|_keys)?$|^(str|strn|mem)cmp$', re.I)
ASSIGNS = {'=', '+=', '-=', '*=', '/=', '%=', '|=', '&=', '^=', '<<=', '>>=', '++', '--'}
BULK = 64  # numbers in one initializer that make it a table of data
KINDS = {'operator': 3, 'constant': 3, 'delete': 3, 'negate': 2, 'swap': 1}  # and how often each is drawn


@dataclass(frozen=True)
class Mutant:
    file: str
    line: int
    kind: str
    start: int
    end: int
    text: str    # what comes in place of source[start:end]
    before: str
    first: int   # lines of the function around it; of the declaration outside functions
    last: int
    key: str     # the same as long as this function is

    def apply(self, source):
        return source[:self.start] + self.text + source[self.end:]

    def show(self):
        return f'{self.file}:{self.line}: {self.kind}: {self.before} -> {self.text.strip() or "nothing"}'


@dataclass
class Token:
    kind: str
    text: str
    start: int
    end: int
    match: int = -1  # of a bracket: its partner's index


def tokenize(source):
    tokens, at = [], 0
    while at < len(source):
        m = TOKEN.match(source, at)
        if not m:
            at += 1  # a stray byte
            continue
        if m.lastgroup not in ('skip', 'directive'):
            tokens.append(Token(m.lastgroup, m.group(), m.start(), m.end()))
        at = m.end()
    stack = []
    for i, t in enumerate(tokens):
        if t.kind != 'sign':
            continue
        if t.text in '([{':
            stack.append(i)
        elif t.text in ')]}' and stack:
            j = stack.pop()
            tokens[i].match, tokens[j].match = j, i
    return tokens


class File:
    def __init__(self, path, source):
        self.path, self.source, self.tokens = path, source, tokenize(source)
        self.line_starts = [0] + [m.end() for m in re.finditer('\n', source)]
        self.found, self.keys = [], collections.Counter()
        self.quiet = self.marks(self.prints())
        self.regions()

    def line(self, offset):
        return bisect.bisect_right(self.line_starts, offset)

    def marks(self, ranges):
        marked = [False] * len(self.tokens)
        for a, b in ranges:
            marked[a:b] = [True] * (b - a)
        return marked

    def prints(self):
        """Arguments of what only prints or only asserts."""
        for i, t in enumerate(self.tokens[:-1]):
            if t.kind == 'name' and PRINTS.search(t.text) and self.tokens[i + 1].match > i:
                yield i + 1, self.tokens[i + 1].match

    def regions(self):
        """What lies outside of functions ends at ';' or after a body: what is in the body of a function, first line, last line."""
        self.region = [None] * len(self.tokens)
        begin = i = brace = 0
        while i < len(self.tokens):
            t = self.tokens[i]
            body = t.text == '{' and t.match > i and i > begin and self.tokens[i - 1].text == ')'
            if body:
                brace = i
            if t.text in '({[' and t.match > i:
                i = t.match
            if body or t.text == ';' or i == len(self.tokens) - 1:
                numbers = sum(x.kind == 'number' for x in self.tokens[begin:i + 1])
                span = (self.line(self.tokens[begin].start), self.line(self.tokens[i].start))
                for k in range(begin, i + 1):
                    self.region[k] = None if not body and numbers > BULK else (body and k > brace, *span)
                begin = i + 1
            i += 1

    def add(self, kind, first, last, text):
        """Tokens first to last become text."""
        start, end = self.tokens[first].start, self.tokens[last].end
        before = self.source[start:end]
        text += '\n' * (before.count('\n') - text.count('\n'))
        _, begin, finish = self.region[first]
        around = self.source[self.line_starts[begin - 1]:self.line_starts[finish] if finish < len(self.line_starts) else None]
        at = start - self.line_starts[begin - 1]
        hash_ = hashlib.sha256(f'{at} {end - start} {text} {around}'.encode()).hexdigest()[:20]
        self.keys[hash_] += 1
        self.found.append(Mutant(self.path, self.line(start), kind, start, end, text, ' '.join(before.split()), begin, finish,
                                 f'{self.path} {hash_} {self.keys[hash_]}'))

    def spaced(self, i):
        """Binary, as clang-format writes it: a space or a line's end on both sides."""
        t = self.tokens[i]
        return self.source[t.start - 1:t.start] in (' ', '\n') and self.source[t.end:t.end + 1] in (' ', '\n')

    def mutants(self):
        for i, t in enumerate(self.tokens):
            if self.quiet[i] or not self.region[i]:
                continue
            in_function = self.region[i][0]
            if t.kind == 'number':
                if not (in_function and self.sizes_array(i)):
                    self.add('constant', i, i, f'({t.text} + 1)')
                self.add('constant', i, i, f'({t.text} - 1)')
            elif t.text in SWAPS and (t.text in ('++', '--') or self.spaced(i)):
                self.add('operator', i, i, SWAPS[t.text])
            elif in_function and t.text in ('if', 'while') and self.tokens[i + 1].text == '(':
                j = self.tokens[i + 1].match
                self.add('negate', i + 1, j, f'(!{self.source[self.tokens[i + 1].start:self.tokens[j].end]})')
            elif in_function and t.kind == 'name' and t.text not in KEYWORDS and i + 1 < len(self.tokens):
                self.swap(i)
            if in_function:
                self.delete(i)
        return self.found

    def sizes_array(self, i):
        """As in `char text[192]`, which nobody sees made larger."""
        if i < 3 or [self.tokens[i - 1].text, self.tokens[i + 1].text] != ['[', ']']:
            return False
        name, before = self.tokens[i - 2], self.tokens[i - 3]
        return name.kind == 'name' and before.kind == 'name' and before.text not in KEYWORDS

    def swap(self, i):
        open_ = i + 1
        if self.tokens[open_].text != '(' or self.tokens[open_].match < 0 or PRINTS.search(self.tokens[i].text) or COMMUTES.search(self.tokens[i].text):
            return
        args, k, begin = [], open_ + 1, open_ + 1
        while k <= self.tokens[open_].match:
            if self.tokens[k].text in '([{' and self.tokens[k].match > k:
                k = self.tokens[k].match
            elif k == self.tokens[open_].match or self.tokens[k].text == ',':
                if k > begin:
                    args.append((begin, k - 1))
                begin = k + 1
            k += 1
        for (a, b), (c, d) in zip(args, args[1:]):
            one = self.source[self.tokens[a].start:self.tokens[b].end]
            two = self.source[self.tokens[c].start:self.tokens[d].end]
            if one != two:
                self.add('swap', a, d, f'{two}{self.source[self.tokens[b].end:self.tokens[c].start]}{one}')

    def starts_statement(self, i):
        """'' when none starts here, else what stands before it."""
        before = self.tokens[i - 1]
        if before.text in (';', '{', '}', 'else', 'do'):
            return before.text
        if before.text == ')' and before.match > 0 and self.tokens[before.match - 1].text in ('if', 'for', 'while'):
            return self.tokens[before.match - 1].text
        return ''

    def delete(self, i):
        before = self.starts_statement(i) if i > 0 else ''
        if not before:
            return
        end = i
        while end < len(self.tokens) and self.tokens[end].text not in (';', '{', '}', ')', ']'):
            end = self.tokens[end].match + 1 if self.tokens[end].text in '([' and self.tokens[end].match > end else end + 1
        if end >= len(self.tokens) or self.tokens[end].text != ';' or end == i:
            return
        first, second = self.tokens[i], self.tokens[i + 1]
        text = ' '.join(t.text for t in self.tokens[i:end])
        if first.text in ('return', 'break', 'continue', 'goto'):
            wanted = before == 'if'  # a way out that is taken sometimes
        elif first.kind == 'name' and second.text == '(':
            wanted = not PRINTS.search(first.text) and first.text not in KEYWORDS
        else:
            declares = first.kind == 'name' and second.text not in ASSIGNS | {'->', '.', '[', '('}
            wanted = not declares and any(a in ASSIGNS for a in text.split())
        if wanted:
            self.add('delete', i, end, ';')


def of_file(path, source):
    return File(path, source).mutants()
