# SPDX-License-Identifier: MIT
"""make_serve_corpus.py FOLDER -- the seeds of fuzz_serve: a body or two for each endpoint, with what the model says to some."""
import json, os, sys

PATHS = """chat completions responses input_tokens messages ollama_chat generate count_tokens completion tokenize detokenize template
embeddings embedding embed ollama_embeddings rerank show""".split()
SUM = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "2+3?"}]
SCHEMA = {"type": "object", "properties": {"city": {"type": "string", "maxLength": 9}, "n": {"enum": [1, "a", None]}}, "required": ["city"]}
TOOL = {"type": "function", "function": {"name": "f", "description": "d", "parameters": SCHEMA}}
CALL = {"role": "assistant", "content": None, "reasoning_content": "hm", "tool_calls": [
    {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{\"city\": \"Rome\"}"}}]}
SAMPLING = {"temperature": 0.5, "top_p": 0.9, "top_k": 5, "min_p": 0.1, "seed": 3, "repeat_penalty": 1.1, "frequency_penalty": 0.5,
            "dry_multiplier": 0.8, "mirostat": 2, "xtc_probability": 0.1, "typical_p": 0.9, "dynatemp_range": 0.2, "min_keep": 2}
SAID = "<think>so</think>It is 5.<tool_call>\n{\"name\": \"f\", \"arguments\": {\"city\": \"Ro\\u00e4\"}}\n</tool_call>"
PARTS = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
seeds = [
    ("chat", 2, {"messages": SUM, "stream": True, "stream_options": {"include_usage": True}, "n": 2, "stop": ["+", "5"], **SAMPLING}, None),
    ("chat", 0, {"messages": SUM, "logprobs": True, "top_logprobs": 3, "logit_bias": {"10": -100}, "max_tokens": 4}, "h\u00e4\U0001f600"),
    ("chat", 2, {"messages": [*SUM, CALL, {"role": "tool", "tool_call_id": "c1", "content": PARTS}], "tools": [TOOL], "stream": True,
                 "tool_choice": "required", "parallel_tool_calls": False}, SAID),
    ("chat", 0, {"messages": [{"role": "developer", "content": "x"}, {"role": "user", "content": PARTS}], "tools": [TOOL],
                 "tool_choice": {"type": "function", "function": {"name": "f"}}, "reasoning_effort": "low"}, SAID),
    ("chat", 0, {"messages": SUM, "response_format": {"type": "json_schema", "json_schema": {"name": "s", "schema": SCHEMA}},
                 "chat_template_kwargs": {"enable_thinking": False}}, "{\"city\": \"a\"}"),
    ("chat", 0, {"messages": SUM, "grammar": "root ::= \"yes\" | \"no\"", "cache_prompt": False}, "yes"),
    ("completions", 2, {"prompt": ["a", [1, 2, 3]], "stream": True, "echo": True, "n": 2}, "text"),
    ("completions", 0, {"prompt": ["a", 5, "b"], "logprobs": 2, "max_tokens": 3, "suffix": None}, "more text"),
    ("responses", 2, {"input": "hi", "instructions": "x", "stream": True, "tools": [{"type": "function", "name": "f", "parameters": SCHEMA},
                      {"type": "custom", "name": "g"}, {"type": "web_search"}], "reasoning": {"effort": "low"}, "store": True}, SAID),
    ("responses", 0, {"input": [{"role": "user", "content": [{"type": "input_text", "text": "a"}]},
                      {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "t"}]},
                      {"type": "function_call", "call_id": "1", "name": "f", "arguments": "{}"},
                      {"type": "function_call_output", "call_id": "1", "output": "o"}],
                      "text": {"format": {"type": "json_schema", "name": "s", "schema": SCHEMA}}, "previous_response_id": None}, None),
    ("input_tokens", 0, {"input": "hi", "tools": []}, None),
    ("messages", 2, {"model": "chat", "max_tokens": 9, "stream": True, "system": [{"type": "text", "text": "x-anthropic-billing-header: 1"}],
                     "messages": [{"role": "user", "content": [{"type": "text", "text": "a"}]}], "thinking": {"type": "enabled", "budget_tokens": 1024},
                     "stop_sequences": ["x"]}, SAID),
    ("messages", 0, {"max_tokens": 90, "messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": [
        {"type": "thinking", "thinking": "t", "signature": "s"}, {"type": "tool_use", "id": "1", "name": "f", "input": {"city": "x"}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1", "content": "o", "is_error": True}]}],
        "tools": [{"name": "f", "input_schema": SCHEMA}], "tool_choice": {"type": "any"}}, SAID),
    ("count_tokens", 0, {"messages": [{"role": "user", "content": "a"}]}, None),
    ("ollama_chat", 2, {"messages": SUM, "think": True, "options": {**SAMPLING, "num_predict": 5, "num_ctx": 64}, "keep_alive": "5m",
                        "tools": [TOOL], "format": "json"}, SAID),
    ("ollama_chat", 0, {"messages": SUM, "stream": False, "format": SCHEMA, "think": "high"}, "{}"),
    ("generate", 2, {"prompt": "a", "system": "b", "raw": False}, SAID),
    ("generate", 0, {"prompt": "a", "raw": True, "stream": False, "keep_alive": 0}, "b"),
    ("completion", 2, {"prompt": "a", "n_predict": 5, "stream": True, "n_probs": 2, "return_tokens": True}, "bcd"),
    ("completion", 0, {"prompt": ["a", 7], "json_schema": SCHEMA, "stop": ["b"]}, "{\"b\": 1}"),
    ("completion", 2, {"prompt": "a", "n_predict": 9, "stream": True, "samplers": ["dry", "typ_p", "temperature"], "dry_multiplier": 1,
                       "dry_sequence_breakers": ["\n", "ab"], "ignore_eos": True, "return_progress": True, "timings_per_token": True,
                       "n_keep": -1, "n_discard": 3}, "bcd"),
    ("completion", 0, {"prompt": "a", "n_predict": 0, "samplers": "kt", "n_indent": 0, "response_fields": []}, "b"),
    ("tokenize", 0, {"content": "h\u00e4 \U0001f600", "add_special": True, "with_pieces": True}, None),
    ("detokenize", 0, {"tokens": [1, 2, 300]}, None),
    ("template", 0, {"messages": SUM, "tools": [TOOL], "add_generation_prompt": False}, None),
    ("embeddings", 0, {"input": ["a", [1, 2]], "encoding_format": "base64", "dimensions": 32}, None),
    ("embedding", 0, {"content": "a"}, None),
    ("embed", 0, {"input": ["a", "b"], "truncate": False}, None),
    ("ollama_embeddings", 0, {"prompt": "a"}, None),
    ("rerank", 0, {"query": "a", "documents": ["b", "c"], "top_n": 1}, None),
    ("show", 0, {"model": "chat", "verbose": True}, None),
]
seen = {}
for path, flags, body, said in seeds:
    seen[path] = seen.get(path, 0) + 1
    data = f"{chr(90 + PATHS.index(path))}{flags}".encode()
    data += json.dumps(body, ensure_ascii=False).encode() + (b"\x01" + said.encode() if said is not None else b"")
    with open(os.path.join(sys.argv[1], f"{path}_{seen[path]}"), "wb") as f:
        f.write(data)
