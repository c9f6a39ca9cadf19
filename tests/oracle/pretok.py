#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes tests/unit/text/pretok_figures.inc: how each pre-tokenizer cuts a set of torture strings.

The witness is the `regex` package for Python, run on the patterns as the models' own tokenizer files spell them: possessive and
inline-flag forms, set intersections and look-aheads included, where src/text/tokenizer/pretok.def has cheaper forms of its own.

    python3 tests/oracle/pretok.py > tests/unit/text/pretok_figures.inc

llama.cpp (2026-08) cuts some of these texts in another way. The disagreements are approximations there: one class of
letters for all of Lu Ll Lt Lm Lo and marks left out of it (tekken, gpt-4o and relatives, youtu, kimi-k2); digit groups
counted without the word boundary that ends them (tiny_aya); ASCII digits only in \\d (superbpe); ~ missing among symbols
(deepseek-v3 and relatives, afmoe); white space hidden from classes that name it (deepseek-llm, deepseek-coder).
"""
import regex

CONTRACTION = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
LLAMA3 = CONTRACTION + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
QWEN2 = CONTRACTION + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
UPPER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"
LOWER = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"


def cased(upper, lower, tail):
    return (rf"[^\r\n\p{{L}}\p{{N}}]?{upper}*{lower}+{tail}|[^\r\n\p{{L}}\p{{N}}]?{upper}+{lower}*{tail}|")


GPT4O = cased(UPPER, LOWER, CONTRACTION + "?") + r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
DEEPSEEK3 = (r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|"
             r"\s*[\r\n]+|\s+(?!\S)|\s+")
NO_HAN_UPPER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]"
NO_HAN_LOWER = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]"
DEEPSEEK_LETTERS = (
    r"\s?[A-Za-z\u00B5\u00C0-\u00D6\u00D8-\u00F6\u00F8-\u01BA\u01BC-\u01BF\u01C4-\u0293\u0295-\u02AF\u0370-\u0373\u0376\u0377"
    r"\u037B-\u037D\u037F\u0386\u0388-\u038A\u038C\u038E-\u03A1\u03A3-\u03F5\u03F7-\u0481\u048A-\u052F\u0531-\u0556\u10A0-\u10C5"
    r"\u13A0-\u13F5\u13F8-\u13FD\u1C90-\u1CBA\u1CBD-\u1CBF\u1D00-\u1D2B\u1D6B-\u1D77\u1D79-\u1D9A\u1E00-\u1F15\u1F18-\u1F1D"
    r"\u1F20-\u1F45\u1F48-\u1F4D\u1F50-\u1F57\u1F59\u1F5B\u1F5D\u1F5F-\u1F7D\u1F80-\u1FB4\u1FB6-\u1FBC\u1FBE\u1FC2-\u1FC4"
    r"\u1FC6-\u1FCC\u1FD0-\u1FD3\u1FD6-\u1FDB\u1FE0-\u1FEC\u1FF2-\u1FF4\u1FF6-\u1FFC\u2102\u2107\u210A-\u2113\u2115\u2119-\u211D"
    r"\u2124\u2126\u2128\u212A-\u212D\u212F-\u2134\u2139\u213C-\u213F\u2145-\u2149\u214E\u2183\u2184\u2C00-\u2C7B\u2C7E-\u2CE4"
    r"\u2CEB-\u2CEE\u2CF2\u2CF3\uA640-\uA66D\uA680-\uA69B\uA722-\uA76F\uA771-\uA787\uA78B-\uA78E\uAB70-\uABBF\uFB00-\uFB06"
    r"\uFB13-\uFB17\uFF21-\uFF3A\uFF41-\uFF5A\U00010400-\U0001044F\U000104B0-\U000104D3\U000104D8-\U000104FB"
    r"\U00010C80-\U00010CB2\U00010CC0-\U00010CF2\U000118A0-\U000118DF\U0001E900-\U0001E943]+")
DEEPSEEK_CJK = r"[\u4E00-\u9FA5\u0800-\u4E00\uAC00-\uD7FF]+"
BLOOM = r" ?[^(\s|.,!?\u2026\u3002\uFF0C\u3001\u0964\u06D4\u060C)]+"

# split -> patterns, one after the other
SPLITS = {
    "plain": [r"[\p{P}\$\+<=>\^~\|]+", GPT2, r"\p{N}+", r"[0-9][0-9][0-9]"],
    "gpt2": [GPT2],
    "digit_gpt2": [r"\p{N}", GPT2],
    "falcon": [r"[\p{P}\$\+<=>\^~\|`]+", GPT2, r"[0-9][0-9][0-9]"],
    "llama3": [LLAMA3],
    "qwen2": [QWEN2],
    "qwen35": [CONTRACTION + r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| "
               r"?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"],
    "jais2": [CONTRACTION + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|" +
              "|".join(r"\s{%d}(?!\S)" % n for n in (512, 256, 128, 64, 32, 16, 8, 4)) + r"|\s{1,2}(?!\S)|\s{1}"],
    "deepseek_llm": [r"[\r\n]", DEEPSEEK_LETTERS, r"\s?[!-/:-~\uFF01-\uFF0F\uFF1A-\uFF5E\u2018-\u201F\u3000-\u3002]+",
    r"\s+$",
                     DEEPSEEK_CJK, r"\p{N}+"],
    "deepseek_coder": [r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", DEEPSEEK_CJK, r"\p{N}"],
    "deepseek3": [r"\p{N}{1,3}", r"[\u4E00-\u9FA5\u3040-\u309F\u30A0-\u30FF]+", DEEPSEEK3],
    "youtu": [r"[\uAC00-\uD7A3\u3131-\u318E]+|[\uFF01\u2026\u201C\u201D\u2018\u2019\u2014\uFF1A\uFF1B\uFF0C\u3001-\u303F"
              r"\uFE30-\uFE4F]+|[\u3105-\u312F]+|[\u4E00-\u9FA5\u3040-\u309F\u30A0-\u30FF]+",
              cased(UPPER, LOWER, CONTRACTION + "?") + r"\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"],
    "bloom": [BLOOM],
    "viking": [BLOOM, r"\p{N}"],
    "tekken": [cased(UPPER, LOWER, "") + r"\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"],
    "chameleon": [r"<sentinel:[0-9]+>", r"(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z", r"([\t\n]|    |  )", r"\p{N}",
                  r"[\p{P}!-/:-@\[-`{-~]", GPT2],
    "gpt4o": [GPT4O],
    "tiny_aya": [r"\d{1,3}(?=(?:\d{3})*\b)", GPT4O],
    "kimi_k2": [r"[\p{Han}]+|" + cased(NO_HAN_UPPER, NO_HAN_LOWER, CONTRACTION + "?") +
                r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"],
    "superbpe": [r"\p{N}+", r"(?=(\d{3})+(?!\d))"],
    "bailing": [r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+"],
    "seed_coder": [CONTRACTION + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+"],
    "afmoe": [r"\p{N}{1,3}(?=(?:\p{N}{3})*(?!\p{N}))",
              r"[\u4E00-\u9FFF\u3400-\u4DBF\u8C48-\uFAFF\u3040-\u309F\u30A0-\u30FF\uFF65-\uFF9F\u2F00-\u2FDF\u0E40-\u0E7F"
              r"\u0E80-\u0EFF\u1780-\u17FF\u1000-\u109F\uAA60-\uAA7F\uA9E0-\uA9FF\uAC00-\uD7AF\u1100-\u11FF]+", DEEPSEEK3],
    "lines": [r"[^\n]+|[\n]+"],
    "laguna": [r"[^\n]+|[\n]+", QWEN2],
    "exaone_moe": [CONTRACTION + r"|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?|"
                   r"\s*[\r\n]|\s+(?!\S)|\s+"],
    "minicpm5": [r"\p{N}{1,3}", CONTRACTION + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}+| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|"
                 r"\s+(?!\S)|\s+"],
    "words": [r"\S+"],
}

# split -> values of tokenizer.ggml.pre
NAMES = {
    "plain": "default", "minicpm5": "minicpm5", "deepseek_llm": "deepseek-llm", "deepseek_coder": "deepseek-coder",
    "deepseek3": "deepseek-v3 hunyuan-dense joyai-llm", "youtu": "youtu", "falcon": "falcon", "jais2": "jais-2",
    "llama3": "llama3 llama-v3 llama-bpe falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano dbrx smaug-bpe glm4 "
              "chatglm-bpe",
    "gpt2": "gpt-2 phi-2 jina-es jina-de gigachat jina-v2-es jina-v2-de a.x-4.0 mellum modern-bert mpt olmo jais exaone4 "
            "trillion granite-docling jina-v1-en jina-v2-code roberta-bpe",
    "lines": "gemma4 granite-embed-multi-311m sarvam-moe", "words": "whitespace",
    "digit_gpt2": "starcoder refact command-r smollm codeshell exaone minerva-7b mellum2",
    "qwen2": "qwen2 deepseek-r1-qwen kormo f2llmv2 stablelm2 megrez hunyuan grok-2 solar-open", "qwen35": "qwen35",
    "bloom": "poro-chat bloom gpt3-finnish", "viking": "viking", "tekken": "tekken", "exaone_moe": "exaone-moe",
    "chameleon": "chameleon", "gpt4o": "gpt-4o llama4 kanana2 talkie granite-embed-multi-97m minimax-m2",
    "tiny_aya": "tiny_aya cohere2moe", "superbpe": "superbpe", "bailing": "bailingmoe bailingmoe2 llada-moe",
    "seed_coder": "seed-coder", "kimi_k2": "kimi-k2", "afmoe": "afmoe", "laguna": "laguna",
}

TORTURE = [
    "Hello, y'all! We'Ve LL'D I'll he'S ''t 'x can't 'Re",
    "  two   three\u00a0\u00a0x \t tab\n\n  \n para\r\n\r\nend   \u3000\u2028 \u0085z \u180e\u200b\u200d  ",
    "1 12 123 1234 12345 123456 1234567 7a 1234b c5678 12_345 3.14159 1,000,000 \u00bd\u00b2\u0665\u0664\u0663\u0662 "
    "\u2167x 12\u00bd345",
    "camelCaseHTTPServer SHOUT \u00c9cole \u00e9\u00c9\u00e9 "
    "\u041c\u043e\u0441\u043a\u0432\u0430\u0413\u041e\u0420\u041e\u0414\u0430 \u01c5ungla \u00df\u1e9e "
    "\u03a3\u03c3\u03c2 \u02b0\u02b1A \u212a\u2126",
    "\u0915\u094d\u0937\u0924\u094d\u0930\u093f\u092f \u0939\u093f\u0928\u094d\u0926\u0940 "
    "\u0e44\u0e17\u0e22\u0e20\u0e32\u0e29\u0e32 \u1780\u17b6\u1793\u17cb\u178f\u17c2 e\u0301a\u0308 \u0301x "
    "\u064e\u0651 n\u0303",
    "\u6211\u60f3\u5728apple\u5de5\u4f5c1314151\u5929\uff5e "
    "\u3053\u3093\u306b\u3061\u306f\u30ab\u30bf\u30ab\u30ca\u30fc \uac00\ub098\ub2e4 "
    "\ud55c\uad6d\uc5b4\uff0c\u3002\u3001\u300c\u3005\u3007\u300d \u3105\u3106 \u3131\u314f \u2f00\uff66\uff9f\ufe30",
    "\U0001f680 (normal) \U0001f636\u200d\U0001f32b\ufe0f ++i; a<=b && c|=~d ^x `code` $5 #!/bin/sh://a//b\n/* c */ "
    "\u2026!!!?? \u2014\u2018q\u2019 \u201cw\u201d",
    "x\u0001\u0002y\u007f \ufffd\ue000z \ufeff \u2117 \u00a9\u00ae\u2122 \u20ac12 \u0964\u06d4\u060c.,!?(a|b)",
    "IMGIMGABCZ <sentinel:12> IMGIMGJZ <sentinel:> a    b\tc",
    "\n", " ", "   ", " a", "a ", "\n \n", " \n", "\r", "'", "'s", "' s",
    "a" + " " * 600 + "b" + "\t" * 300 + "\n" + " " * 40, "the quick brown \u0915\u094d\u0937 fox. jumps over",
    "I'M YOU'RE THEY'LL\u0301 dog's DOG's \u00c9's x'\u00e9 a''b 'twas",
]


def cut(text, patterns):
    """Ends of the stretches, in code points."""
    ends = [len(text)] if text else []
    for pattern in patterns:
        compiled = regex.compile(pattern, regex.V1)
        out, begin = [], 0
        for end in ends:
            stretch, done = text[begin:end], 0
            for m in compiled.finditer(stretch):
                for e in (m.start(), m.end()):
                    if e > done:
                        out.append(begin + e)
                        done = e
            if done < len(stretch):
                out.append(end)
            begin = end
        ends = out
    return ends


def lengths(text, patterns):
    """Bytes of each stretch."""
    ends, begin, out = cut(text, patterns), 0, []
    for end in ends:
        out.append(len(text[begin:end].encode()))
        begin = end
    return out


def c_string(data):
    return '"' + "".join(chr(b) if 32 <= b < 127 and chr(b) not in '"\\?' else "\\%03o" % b for b in data) + '"'


def wrapped(head, words, tail, width=118):
    lines, line = [], head
    for w in words:
        if len(line) + len(w) + 1 > width:
            lines.append(line.rstrip() + ' "')
            line = '        "'
        line += w + " "
    return lines + [line.rstrip() + tail]


def figures():
    print("/* SPDX-License-Identifier: MIT */")
    print("/* tests/unit/text/pretok_figures.inc -- written by tests/oracle/pretok.py with regex %s. */" % regex.__version__)
    print("static const struct { const char *text; size_t len; } torture[] = {")
    for text in TORTURE:
        data = text.encode()
        chunks = [data[i:i + 36] for i in range(0, len(data), 36)]
        print("    {" + "\n     ".join(c_string(c) for c in chunks) + ", %d}," % len(data))
    print("};\n")
    print("/* One string a split and torture text: the bytes of each stretch. */")
    print("static const struct { const char *names; const char *lengths[%d]; } figures[] = {" % len(TORTURE))
    for split, patterns in SPLITS.items():
        print("    {" + c_string(NAMES[split].encode()) + ", {")
        for text in TORTURE:
            print("\n".join(wrapped('        "', [str(n) for n in lengths(text, patterns)], '",')))
        print("    }},")
    print("};")


if __name__ == "__main__":
    figures()
