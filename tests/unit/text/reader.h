/* SPDX-License-Identifier: MIT */
/* tests/unit/text/reader.h -- templates of our own, one for each way to write calls, and the turns that are rendered
 * with them and read back. Shared with tests/fuzz/fuzz_reader.c, so nothing here knows cmocka. */
#ifndef QN_TEST_READER_H
#define QN_TEST_READER_H

#include <quern/chat.h>

#define READER_TOOLS \
    "[{\"type\": \"function\", \"function\": {\"name\": \"get_weather\", \"description\": \"The weather.\", " \
    "\"parameters\": {\"type\": \"object\", \"properties\": {\"s\": {\"type\": \"string\"}, \"t\": {\"type\": " \
    "\"string\"}, \"n\": {\"type\": \"integer\"}, \"f\": {\"type\": \"number\"}, \"b\": {\"type\": \"boolean\"}, " \
    "\"o\": {\"$ref\": \"#/$defs/o\"}, \"l\": {\"type\": \"array\", \"items\": {\"type\": \"string\"}}}, " \
    "\"$defs\": {\"o\": {\"type\": \"object\", \"properties\": {\"k\": {\"type\": \"array\", \"items\": {\"type\": " \
    "[\"integer\", \"object\"], \"properties\": {\"x\": {\"type\": \"string\"}}}}, \"e\": {\"type\": \"object\"}, " \
    "\"deep\": {\"type\": \"object\", \"properties\": {\"er\": {\"type\": \"array\", \"items\": {\"type\": " \
    "\"string\"}}" \
    "}}}}}}}}, " \
    "{\"type\": \"function\", \"function\": {\"name\": \"add\", \"description\": \"Adds.\", \"parameters\": " \
    "{\"type\": \"object\", \"properties\": {\"a\": {\"type\": \"integer\"}, \"b\": {\"type\": \"integer\"}}}}}]"

/* Arguments of get_weather: quotes, newlines, tags, nested and empty values. */
static const char *const reader_shapes[] = {
    "{\"s\": \"Paris\", \"n\": 3}",
    "{}",
    "{\"s\": \"He said \\\"hi\\\" and 'bye', it's (so).\"}",
    "{\"s\": \"line one\\nline two\\n\", \"t\": \"\\n  indented\\n\\n\"}",
    "{\"s\": \"<b>bold</b> </think> &amp; <x y=\\\"z\\\"/> [INST] {{ m }}\", \"t\": \"<\"}",
    "{\"s\": \"\", \"t\": \" \"}",
    "{\"n\": -3, \"f\": 2.5, \"b\": true, \"s\": \"42\", \"t\": \"false\"}",
    "{\"o\": {\"k\": [1, 2, {\"x\": \"y\"}], \"e\": {}}, \"l\": []}",
    ("{\"s\": \"\\u00fcn\\u00ef \\u65e5\\u672c \\ud83d\\ude00\", \"t\": \"C:\\\\dir\\\\new\\t{\\\"a\\\": 1}, [1, 2], "
     "f(x=1)\"}"),
    "{\"l\": [\"a\", \"b\\\"c'd\", \"e\\nf\", \"\"], \"o\": {\"deep\": {\"er\": [\"x, y\", \"]}\"]}}}",
};
enum { READER_SHAPES = sizeof reader_shapes / sizeof *reader_shapes };

typedef struct reader_template {
    const char *name, *syntax, *source;
} reader_template;

/* clang-format off */
static const reader_template reader_templates[] = {
    {"hermes", "json",
     "{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.reasoning_content %}<think>\n{{ m.reasoning"
     "_content }}\n</think>\n\n{% endif %}{{ m.content }}{% for c in m.tool_calls %}{% set f = c.function "
     "%}\n<tool_call>\n{\"name\": \"{{ f.name }}\", \"arguments\": {{ f.arguments|tojson }}}\n</tool_call>"
     "{% endfor %}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"},
    {"tools behind the user", "json",
     "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}{% if tools and m.role == 'user' %}\nTools: "
     "{{ tools|tojson }}{% endif %}{% for c in m.tool_calls %}<call>{\"name\": \"{{ c.function.name }}\", "
     "\"arguments\": {{ c.function.arguments|tojson }}}</call>{% endfor %}<|im_end|>\n{% endfor %}"
     "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"},
    {"array", "json",
     "{% for m in messages %}{% if m.role == 'user' %}[INST]{{ m.content }}[/INST]{% else %}{{ m.content }"
     "}{% if m.tool_calls %}[TOOL_CALLS][{% for c in m.tool_calls %}{\"name\": \"{{ c.function.name }}\", "
     "\"arguments\": {{ c.function.arguments|tojson }}, \"id\": \"{{ c.id }}\"}{{ ', ' if not loop.last }}"
     "{% endfor %}]{% endif %}</s>{% endif %}{% endfor %}"},
    {"actions", "json",
     "{% for m in messages %}<|START|>{{ m.role }}<|SAYS|>{% if m.role == 'assistant' %}{% if m.reasoning_"
     "content %}<|THINK|>{{ m.reasoning_content }}<|/THINK|>{% endif %}{% if m.tool_calls %}<|ACTION|>[\n{"
     "% for c in m.tool_calls %}    {\"tool_call_id\": \"{{ loop.index0 }}\", \"tool_name\": \"{{ c.functi"
     "on.name }}\", \"parameters\": {{ c.function.arguments|tojson }}}{{ ',' if not loop.last }}\n{% endfo"
     "r %}]<|/ACTION|>{% else %}<|TEXT|>{{ m.content }}<|/TEXT|>{% endif %}{% else %}{{ m.content }}{% end"
     "if %}<|END|>{% endfor %}{% if add_generation_prompt %}<|START|>assistant<|SAYS|>{% endif %}"},
    {"by name", "json",
     "{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.reasoning_content %}<think>\n{{ m.reasoning"
     "_content }}\n</think>\n\n{% endif %}{{ m.content }}{% if m.tool_calls %}<|tools|>[{% for c in m.tool"
     "_calls %}{\"{{ c.function.name }}\": {{ c.function.arguments|tojson }}}{{ ', ' if not loop.last }}{%"
     " endfor %}]<|/tools|>{% endif %}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>as"
     "sistant\n{% endif %}"},
    {"bare", "json",
     "{% for m in messages %}<|head|>{{ m.role }}<|/head|>\n\n{% if m.tool_calls %}{% if m.tool_calls|leng"
     "th != 1 %}{{ raise_exception('one call') }}{% endif %}{% set f = m.tool_calls[0].function %}{\"name"
     "\": \"{{ f.name }}\", \"parameters\": {{ f.arguments|tojson }}}{% else %}{{ m.content }}{% endif %}<"
     "|eot|>{% endfor %}{% if add_generation_prompt %}<|head|>assistant<|/head|>\n\n{% endif %}"},
    {"args", "named",
     "{% for m in messages %}{% if m.role == 'user' %}[INST]{{ m.content }}[/INST]{% else %}{{ m.content }"
     "}{% for c in m.tool_calls %}{% set f = c.function %}[TOOL_CALLS]{{ f.name }}[ARGS]{{ f.arguments|toj"
     "son }}{% endfor %}</s>{% endif %}{% endfor %}"},
    {"nine letters", "named",
     "{% for m in messages %}{% if m.role == 'user' %}[INST]{{ m.content }}[/INST]{% else %}{{ m.content }}{% for c in "
     "m.tool_calls %}{% if c.id|length != 9 %}{{ raise_exception('nine') }}{% endif %}[CALLS]{{ c.function.name }}[ID]"
     "{{ c.id }}[ARGS]{{ c.function.arguments|tojson }}{% endfor %}</s>{% endif %}{% endfor %}"},
    {"sections", "named",
     "{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.reasoning_content %}<think>\n{{ m.reasoning"
     "_content }}\n</think>\n\n{% endif %}{{ m.content }}{% if m.tool_calls %}<|calls|>{% for c in m.tool_"
     "calls %}{% set f = c.function %}<|call|>functions.{{ f.name }}:{{ loop.index0 }}<|arguments|>{{ f.ar"
     "guments|tojson }}<|/call|>{% endfor %}<|/calls|>{% endif %}<|im_end|>\n{% endfor %}{% if add_generat"
     "ion_prompt %}<|im_start|>assistant\n{% endif %}"},
    {"fenced", "named",
     "{% for m in messages %}<|{{ m.role }}|>{% if m.tool_calls %}<|calls|>{% for c in m.tool_calls %}{% s"
     "et f = c.function %}<|call|>function<|sep|>{{ f.name }}\n```json\n{{ f.arguments|tojson }}\n```<|/ca"
     "ll|>\n{% endfor %}<|/calls|>{% else %}{{ m.content.split('</think>')[-1] }}{% endif %}<|eos|>{% endf"
     "or %}{% if add_generation_prompt %}<|assistant|><think>\n{% endif %}"},
    {"closed behind two", "named",
     "{% for m in messages %}<|{{ m.role }}|>{% if m.tool_calls %}<|calls|>{% for c in m.tool_calls %}{{ '\\n' if not "
     "loop.first }}<|call|>{{ c.function.name }}<|sep|>{{ c.function.arguments|tojson }}<|/call|>{% endfor %}"
     "{% if m.tool_calls|length > 1 %}<|/calls|><|eos|>{% endif %}{% else %}{{ m.content }}<|eos|>{% endif %}"
     "{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"},
    {"recipients", "named",
     "{% for m in messages %}<|head|>{{ m.role }}<|/head|>\n\n{% if m.role == 'assistant' %}{% if m.conten"
     "t %}>>>all\n{{ m.content }}{% endif %}{% for c in m.tool_calls %}{% set f = c.function %}>>>{{ f.nam"
     "e }}\n{{ f.arguments|tojson }}{% endfor %}{% else %}{{ m.content }}{% endif %}<|eot|>{% endfor %}{% "
     "if add_generation_prompt %}<|head|>assistant<|/head|>\n\n>>>{% endif %}"},
    {"with ids", "named",
     "{% for m in messages %}<|begin|>{{ m.role }}{% if m.reasoning_content %}<|think|>{{ m.reasoning_cont"
     "ent }}<|end|><|begin|>assistant{% endif %}{% if m.tool_calls %}<|tool_calls|>{% for c in m.tool_call"
     "s %}{% set f = c.function %}<|call:begin|>{{ c.id }}<|call:name|>{{ f.name }}<|call:args|>{{ f.argum"
     "ents|tojson }}<|call:end|>{% endfor %}<|calls|>{% else %}<|content|>{{ m.content }}<|end|>{% endif %"
     "}{% endfor %}{% if add_generation_prompt %}<|begin|>assistant{% endif %}"},
    {"loose", "named",
     "{% macro value(v) %}{% if v is string %}<|\"|>{{ v }}<|\"|>{% elif v is mapping %}{ {%- for k, w in "
     "v|dictsort %}{{ k }}:{{ value(w) }}{{ ',' if not loop.last }}{% endfor -%} }{% elif v is boolean %}{"
     "{ v|tojson }}{% elif v is iterable %}[{% for w in v %}{{ value(w) }}{{ ',' if not loop.last }}{% end"
     "for %}]{% else %}{{ v }}{% endif %}{% endmacro %}{% for m in messages %}<|turn>{{ m.role }}\n{% if m"
     ".reasoning_content %}<|channel>thought\n{{ m.reasoning_content }}<channel|>{% endif %}{{ m.content }"
     "}{% for c in m.tool_calls %}{% set f = c.function %}<|tool_call>call:{{ f.name }}{{ value(f.argument"
     "s) }}<tool_call|>{% endfor %}<turn|>\n{% endfor %}{% if add_generation_prompt %}<|turn>assistant\n{%"
     " endif %}"},
    {"channels", "channels",
     "{% for m in messages %}<|start|>{{ m.role }}{% if m.role == 'assistant' %}{% if m.thinking %}<|channel|>analysis"
     "<|message|>{{ m.thinking }}<|end|><|start|>assistant{% endif %}{% if m.content %}<|channel|>{{ 'commentary' if "
     "m.tool_calls else 'final' }}<|message|>{{ m.content }}<|end|>{% if m.tool_calls %}<|start|>assistant{% endif %}"
     "{% endif %}{% if m.tool_calls %}{% if m.tool_calls|length > 1 %}{{ raise_exception('one call') }}{% endif %} "
     "to=functions.{{ m.tool_calls[0].function.name }}<|channel|>commentary json<|message|>"
     "{{ m.tool_calls[0].function.arguments|tojson }}<|call|>{% endif %}{% else %}<|message|>{{ m.content }}<|end|>"
     "{% endif %}{% endfor %}{% if add_generation_prompt %}<|start|>assistant{% endif %}"},
    {"python", "python",
     "{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.reasoning_content %}<think>\n{{ m.reasoning"
     "_content }}\n</think>\n\n{% endif %}{{ m.content }}{% if m.tool_calls %}<|calls|>[{% for c in m.tool"
     "_calls %}{{ c.function.name }}({% for k, v in c.function.arguments.items() %}{{ k }}={% if v is stri"
     "ng %}'{{ v }}'{% else %}{{ v|string }}{% endif %}{{ ', ' if not loop.last }}{% endfor %}){{ ', ' if "
     "not loop.last }}{% endfor %}]<|/calls|>{% endif %}<|im_end|>\n{% endfor %}{% if add_generation_promp"
     "t %}<|im_start|>assistant\n{% endif %}"},
    {"literals", "python",
     "{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.reasoning_content %}<think>\n{{ m.reasoning"
     "_content }}\n</think>\n\n{% endif %}{{ m.content }}{% if m.tool_calls %}<|calls|>[{% for c in m.tool"
     "_calls %}{{ c.function.name }}({% for k, v in c.function.arguments.items() %}{{ k }}={{ [v]|string|r"
     "eplace('[[', '[ [') if 0 else ([v]|string)[1:-1] }}{{ ', ' if not loop.last }}{% endfor %}){{ ', ' i"
     "f not loop.last }}{% endfor %}]<|/calls|>{% endif %}<|im_end|>\n{% endfor %}{% if add_generation_pro"
     "mpt %}<|im_start|>assistant\n{% endif %}"},
    {"parameters", "tagged",
     "{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.reasoning_content %}<think>\n{{ m.reasoning"
     "_content }}\n</think>\n\n{% endif %}{{ m.content }}{% for c in m.tool_calls %}{% set f = c.function "
     "%}\n<tool_call>\n<function={{ f.name }}>\n{% for k, v in f.arguments.items() %}<parameter={{ k }}>\n"
     "{{ v if v is string else v|tojson }}\n</parameter>\n{% endfor %}</function>\n</tool_call>{% endfor %"
     "}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"},
    {"invoke", "tagged",
     "{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.reasoning_content %}<think>\n{{ m.reasoning"
     "_content }}\n</think>\n\n{% endif %}{{ m.content }}{% if m.tool_calls %}\n<x:tool_call>\n{% for c in"
     " m.tool_calls %}{% set f = c.function %}<invoke name=\"{{ f.name }}\">\n{% for k, v in f.arguments.i"
     "tems() %}<parameter name=\"{{ k }}\">{{ v if v is string else v|tojson }}</parameter>\n{% endfor %}<"
     "/invoke>\n{% endfor %}</x:tool_call>{% endif %}<|im_end|>\n{% endfor %}{% if add_generation_prompt %"
     "}<|im_start|>assistant\n{% endif %}"},
    {"keys and values", "tagged",
     "{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.reasoning_content %}<think>\n{{ m.reasoning"
     "_content }}\n</think>\n\n{% endif %}{{ m.content }}{% for c in m.tool_calls %}{% set f = c.function "
     "%}\n<tool_call>{{ f.name }}\n{% for k, v in f.arguments.items() %}<arg_key>{{ k }}</arg_key>\n<arg_v"
     "alue>{{ v if v is string else v|tojson }}</arg_value>\n{% endfor %}</tool_call>{% endfor %}<|im_end|"
     ">\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"},
    {"python's values", "tagged",
     "{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.reasoning_content %}<think>\n{{ m.reasoning"
     "_content }}\n</think>\n\n{% endif %}{{ m.content }}{% for c in m.tool_calls %}{% set f = c.function "
     "%}\n<call>\n<function={{ f.name }}>\n{% for k, v in f.arguments.items() %}<parameter={{ k }}>{{ v }}"
     "</parameter>\n{% endfor %}</function>\n</call>{% endfor %}<|im_end|>\n{% endfor %}{% if add_generati"
     "on_prompt %}<|im_start|>assistant\n{% endif %}"},
    {"typed", "tagged",
     "{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.reasoning_content %}<think>\n{{ m.reasoning"
     "_content }}\n</think>\n\n{% endif %}{{ m.content }}{% if m.tool_calls %}\n\n<|X|calls>\n{% for c in "
     "m.tool_calls %}{% set f = c.function %}<|X|invoke name=\"{{ f.name }}\">\n{% for k, v in f.arguments"
     ".items() %}<|X|parameter name=\"{{ k }}\" string=\"{{ 'true' if v is string else 'false' }}\">{{ v i"
     "f v is string else v|tojson }}</|X|parameter>\n{% endfor %}</|X|invoke>\n{% endfor %}</|X|calls>{% e"
     "ndif %}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"},
    {"cdata", "tagged",
     "{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.reasoning_content %}<think>\n{{ m.reasoning"
     "_content }}\n</think>\n\n{% endif %}{{ m.content }}{% for c in m.tool_calls %}{% set f = c.function "
     "%}<function name=\"{{ f.name }}\">{% for k, v in f.arguments.items() %}<param name=\"{{ k }}\">{% if"
     " v is string and ('<' in v or '&' in v or '\\n' in v) %}<![CDATA[{{ v }}]]>{% else %}{{ v if v is st"
     "ring else v|tojson }}{% endif %}</param>{% endfor %}</function>{% endfor %}<|im_end|>\n{% endfor %}{"
     "% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"},
    {"nested", "tagged",
     "{% macro tags(v) %}{% if v is mapping %}{% for k, w in v.items() %}]~[<{{ k }}>{{ tags(w) }}]~[</{{ "
     "k }}>{% endfor %}{% elif v is iterable and v is not string %}{% for w in v %}]~[<item>{{ tags(w) }}]"
     "~[</item>{% endfor %}{% elif v is boolean %}{{ v|tojson }}{% else %}{{ v }}{% endif %}{% endmacro %}"
     "{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.reasoning_content %}<think>\n{{ m.reasoning"
     "_content }}\n</think>\n\n{% endif %}{{ m.content }}{% if m.tool_calls %}]~[<calls>\n{% for c in m.to"
     "ol_calls %}{% set f = c.function %}]~[<invoke name=\"{{ f.name }}\">{{ tags(f.arguments) }}]~[</invo"
     "ke>\n{% endfor %}]~[</calls>{% endif %}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_st"
     "art|>assistant\n{% endif %}"},
    {"says how, and shows no calls", "json",
     "{% if tools %}<|role|>tools<|/role|>Answer <|tool_call|> and a list. {{ tools|tojson }}<|eot|>\n{% endif %}"
     "{% for m in messages %}<|role|>{{ m.role }}<|/role|>{{ m.content }}<|eot|>\n{% endfor %}"
     "{% if add_generation_prompt %}<|role|>assistant<|/role|>{% endif %}"},
    {"lists tools, and shows no calls", "python",
     "{% if tools %}<|im_start|>system\nList of tools: [{% for t in tools %}{{ t|tojson }}{{ ', ' if not loop.last }}"
     "{% endfor %}]<|im_end|>\n{% endif %}{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n"
     "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"},
};
/* clang-format on */
enum { READER_TEMPLATES = sizeof reader_templates / sizeof *reader_templates };

#endif
