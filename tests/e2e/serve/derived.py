# SPDX-License-Identifier: MIT
"""Models made of others (/api/create, copy, delete), filling in the middle, responses that are cancelled, histograms, prompts in the log."""
import http.client, json, os, re, resource, signal, struct, subprocess, sys, threading
from lib import ENDLESS, LONG, SUM, Server, run, until

quern, source = sys.argv[1:3]
CHAT = source + "/models/chat.gguf"
PATH = "/v1/chat/completions"
os.makedirs("data", exist_ok=True)
HOME = {**os.environ, "XDG_DATA_HOME": os.path.abspath("data"), "HOME": os.path.abspath("data")}


def fim(to, **keys):
    """A copy of the model with more metadata: ids of tokens by key."""
    with open(CHAT, "rb") as f:
        data = f.read()
    at, align = 24, 32
    n_tensors, n_kv = struct.unpack_from("<QQ", data, 8)
    sizes = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}

    def skip(kind, at):
        if kind == 8:
            return at + 8 + struct.unpack_from("<Q", data, at)[0]
        if kind != 9:
            return at + sizes[kind]
        inner, n = struct.unpack_from("<IQ", data, at)
        at += 12
        for _ in range(n):
            at = skip(inner, at)
        return at
    for _ in range(n_kv):
        at += 8 + struct.unpack_from("<Q", data, at)[0]
        at = skip(struct.unpack_from("<I", data, at)[0], at + 4)
    end_of_kv = at
    for _ in range(n_tensors):
        at += 8 + struct.unpack_from("<Q", data, at)[0]
        at += 4 + 8 * struct.unpack_from("<I", data, at)[0] + 12
    tensors = data[(at + align - 1) // align * align:]
    more = b"".join(struct.pack("<Q", len(k)) + k.encode() + struct.pack("<II", 4, v) for k, v in keys.items())
    head = data[:16] + struct.pack("<Q", n_kv + len(keys)) + data[24:end_of_kv] + more + data[end_of_kv:at]
    with open(to, "wb") as f:
        f.write(head + bytes(-len(head) % align) + tensors)


server = Server(quern, CHAT, "--log-prompts", *ENDLESS, env=HOME)


def content(model, body=None):
    return server.good(PATH, {"messages": SUM, "temperature": 0, "model": model, **(body or {})})["choices"][0]["message"]["content"]


def names():
    return [m["name"] for m in server.get("/api/tags")[1]["models"]]


def test_create():
    assert server.good("/api/create", {"model": "brief", "from": "chat", "parameters": {"num_predict": 3, "temperature": 0, "stop": ["zz"]},
                                       "stream": False}) == {"status": "success"}
    assert names() == ["chat:latest", "brief:latest"]
    whole = server.good("/api/chat", {"model": "brief", "messages": SUM, "stream": False})
    assert whole["eval_count"] == 3 and whole["done_reason"] == "length", whole
    assert server.good("/api/chat", {"model": "brief", "messages": SUM, "stream": False, "options": {"num_predict": 5}})["eval_count"] == 5
    shown = server.good("/api/show", {"model": "brief"})
    assert "num_predict 3" in shown["parameters"] and 'stop "zz"' in shown["parameters"]
    # a system prompt is what it would be in the messages, and theirs comes before it
    server.good("/api/create", {"model": "pirate", "from": "brief", "system": "You are a pirate.", "parameters": {"num_predict": 20}})
    made = [server.good("/apply-template", {"model": m, "messages": messages})["prompt"] for m, messages in (
        ("pirate", SUM), ("chat", [{"role": "system", "content": "You are a pirate."}, *SUM]), ("pirate", [{"role": "system", "content": "Hm."}, *SUM]))]
    assert made[0] == made[1] and "pirate" not in made[2], made
    assert server.good("/api/show", {"model": "pirate"})["system"] == "You are a pirate."
    # a template, and one that replaces it while it is loaded
    for words in "A: ", "B: ":
        server.good("/api/create", {"model": "own", "from": "chat", "template": "{% for m in messages %}" + words + "{{ m.content }}{% endfor %}"})
        assert server.good("/apply-template", {"model": "own", "messages": SUM})["prompt"] == words + SUM[0]["content"]
    # what they are outlives the server
    with Server(quern, CHAT, env=HOME) as s:
        assert [m["name"] for m in s.get("/api/tags")[1]["models"]][0] == "chat:latest" and len(s.get("/api/tags")[1]["models"]) == 4


def test_no_descriptors():
    """SIGHUP while no file can be opened: the list stays as it was, and is read anew once one can."""
    before, pid = names(), server.process.pid
    assert len(before) == 4
    kept = http.client.HTTPConnection("127.0.0.1", server.port)

    def names_of_kept():
        kept.request("GET", "/api/tags")
        return [m["name"] for m in json.loads(kept.getresponse().read())["models"]]
    assert names_of_kept() == before
    used, most = {int(n) for n in os.listdir(f"/proc/{pid}/fd")}, resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (min(set(range(len(used) + 1)) - used), most[1]))
    server.process.send_signal(signal.SIGHUP)
    assert until(lambda: "the list of models stays as it was" in server.said()) and names_of_kept() == before
    resource.prlimit(pid, resource.RLIMIT_NOFILE, most)
    os.remove("data/quern/models/own.json")
    assert until(lambda: server.post(PATH, {"model": "nobody", "messages": SUM})[0] == 404)
    assert names() == [n for n in before if n != "own:latest"]
    server.good("/api/create", {"model": "own", "from": "chat"})
    kept.close()


def test_copy_and_delete():
    assert server.good("/api/copy", {"source": "brief", "destination": "copy:v1"}) == {"status": "success"}
    assert server.good("/api/chat", {"model": "copy:v1", "messages": SUM, "stream": False})["eval_count"] == 3
    assert server.good("/api/copy", {"source": "chat", "destination": "twin"}) and content("twin") == "2 + 3 = 5"
    assert server.good(PATH, {"messages": SUM, "temperature": 0})["model"] == "chat"  # a request without a name: the one of the command line
    for name in "copy:v1", "twin", "brief", "pirate", "own":
        assert server.request("DELETE", "/api/delete", {"model": name})[0] == 200, name
    assert names() == ["chat:latest"] and os.listdir("data/quern/models") == []
    assert server.request("DELETE", "/api/delete", {"model": "twin"})[0] == 404
    assert server.request("DELETE", "/api/delete", {"model": "chat"})[0] == 400 and os.path.exists(CHAT)


def test_create_refusals():
    for path, body, status, word in (
            ("/api/create", {"model": "chat", "from": "chat"}, 400, "not made here"), ("/api/create", {"model": "../x", "from": "chat"}, 400, "no name"),
            ("/api/create", {"model": "/x", "from": "chat"}, 400, "no name"), ("/api/create", {"model": "x" * 300, "from": "chat"}, 400, "no name"),
            ("/api/create", {"model": "x", "from": "nobody"}, 404, "not here"), ("/api/create", {"model": "x"}, 400, "from"),
            ("/api/create", {"model": "x", "from": "chat", "quantize": "q4_0"}, 400, "quantize"),
            ("/api/create", {"model": "x", "from": "chat", "template": "{% if %}"}, 400, "template"),
            ("/api/create", {"model": "x", "from": "chat", "parameters": {"top_p": 7}}, 400, "top_p"),
            ("/api/copy", {"source": "nobody", "destination": "x"}, 404, "not here"), ("/api/copy", {"source": "chat"}, 400, "destination")):
        got, reply = server.post(path, body)
        assert got == status and word in reply["error"], (body, got, reply)
    assert names() == ["chat:latest"]


def test_create_limits():
    """What would not be read again, or would push out another one, is refused; two who write one name do not meet."""
    for name, body, status, word in (("x", {"system": "s" * 5000000}, 413, "bytes"), ("a." * 63 + "b", {}, 400, "too long"),
                                     ("x", {"parameters": {"seed": 1, "mine": "a\0b"}}, 400, "NUL")):
        got, reply = server.post("/api/create", {"model": name, "from": "chat", **body})
        assert got == status and word in reply["error"], (name, got, reply)
    server.good("/api/create", {"model": "x", "from": "chat", "system": "s" * 4000000})
    assert names() == ["chat:latest", "x:latest"]
    systems, got = [c * 300000 for c in "abcdefgh"], []
    threads = [threading.Thread(target=lambda s=s: got.append(server.post("/api/create", {"model": "x", "from": "chat", "system": s})[0])) for s in systems]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert got == [200] * len(systems) and server.good("/api/show", {"model": "x"})["system"] in systems, got
    assert server.request("DELETE", "/api/delete", {"model": "x"})[0] == 200 and os.listdir("data/quern/models") == []
    folder = os.path.abspath("full/quern/models")
    os.makedirs(folder, exist_ok=True)
    for i in range(1023):
        with open(f"{folder}/{i}.json", "w") as f:
            f.write("{}")
    with Server(quern, CHAT, env={**HOME, "XDG_DATA_HOME": os.path.abspath("full")}) as s:
        got = []
        threads = [threading.Thread(target=lambda i=i: got.append((i, *s.post("/api/create", {"model": f"m{i}", "from": "chat"})))) for i in range(4)]
        [t.start() for t in threads]
        [t.join() for t in threads]
        made = [i for i, status, _ in got if status == 200]
        assert len(made) == 1 and all(status == 200 or (status == 400 and "1024" in reply["error"]) for _, status, reply in got), got
        s.good("/api/create", {"model": f"m{made[0]}", "from": "chat", "system": "another"})
        assert [m["name"] for m in s.get("/api/tags")[1]["models"]] == ["chat:latest", f"m{made[0]}:latest"]
        os.remove(folder + "/7.json")
        s.good("/api/copy", {"source": "chat", "destination": "more"})
        assert len(s.get("/api/tags")[1]["models"]) == 3 and len(os.listdir(folder)) == 1024


def test_infill():
    status, reply = server.post("/infill", {"input_prefix": "a", "input_suffix": "b"})
    assert status == 501 and "suffix" in reply["error"]["message"], reply
    ids = {"prefix": 30, "suffix": 31, "middle": 32, "file": 33, "repo": 34}
    three = {f"tokenizer.ggml.fim_{n}_token_id": ids[w] for n, w in (("pre", "prefix"), ("suf", "suffix"), ("mid", "middle"))}
    fim("fim.gguf", **three)
    fim("fim-files.gguf", **three, **{"tokenizer.ggml.fim_rep_token_id": ids["repo"], "tokenizer.ggml.fim_sep_token_id": ids["file"]})
    with Server(quern, ["fim.gguf", "fim-files.gguf"]) as s:
        def tokens(text):
            return s.good("/tokenize", {"model": "fim", "content": text, "parse_special": False})["tokens"]
        extra = [{"filename": "a.c", "text": "int a;\n"}, {"text": "int b;\n"}]
        middle = [ids["prefix"], *tokens("int f("), *tokens("  "), ids["suffix"], *tokens(");\n"), ids["middle"]]
        snippet = tokens("\n\n--- snippet ---\n\n")
        prompts = {
            "fim": [*snippet, *tokens("int a;\n"), *snippet, *tokens("int b;\n"), *middle],
            "fim-files": [ids["repo"], *tokens("myproject\n"), ids["file"], *tokens("a.c\n"), *tokens("int a;\n"), ids["file"], *tokens("tmp\n"),
                          *tokens("int b;\n"), ids["file"], *tokens("filename\n"), *middle]}
        bos = s.good("/tokenize", {"model": "fim", "content": "", "add_special": True})["tokens"][:1]
        for model, prompt in prompts.items():
            more = {"model": model, "n_predict": 12, "seed": 5, "return_tokens": True, "cache_prompt": False}
            filled = s.good("/infill", {"input_prefix": "int f(", "prompt": "  ", "input_suffix": ");\n", "input_extra": extra, **more})
            whole = s.good("/completion", {"prompt": bos + prompt, **more})
            assert filled["tokens_evaluated"] == whole["tokens_evaluated"] and filled["tokens"] == whole["tokens"], model
            events = [e for _, e in s.stream("/infill", {"input_prefix": "int f(", "prompt": "  ", "input_suffix": ");\n", "input_extra": extra,
                                                         **more, "stream": True})]
            assert "".join(e["content"] for e in events) == filled["content"]
        # a completion with a suffix: the same prompt, by hand
        more = {"model": "fim", "max_tokens": 12, "seed": 5, "cache_prompt": False}
        between = s.good("/v1/completions", {"prompt": "int f(", "suffix": ");\n", **more})
        byhand = s.good("/v1/completions", {"prompt": bos + [ids["prefix"], *tokens("int f("), ids["suffix"], *tokens(");\n"), ids["middle"]], **more})
        assert between["choices"] == byhand["choices"] and between["usage"] == byhand["usage"]
        assert s.good("/v1/completions", {"prompt": "int f(", "suffix": "", **more})["choices"] == s.good("/v1/completions", {"prompt": "int f(", **more})["choices"]
        for body, field in (({"prompt": "a", "suffix": 3}, "suffix"), ({"prompt": [1, 2], "suffix": "b"}, "prompt"), ({"suffix": "b"}, "prompt"),
                            ({"prompt": ["a", "b"], "suffix": "b"}, "prompt"), ({"prompt": "a", "suffix": "b", "echo": True}, "echo")):
            status, reply = s.post("/v1/completions", {"model": "fim", **body})
            assert status == 400 and reply["error"]["param"] == field, (body, reply)
        for body, field in (({"input_prefix": 3}, "input_prefix"), ({"input_extra": {}}, "input_extra"), ({"input_extra": [3]}, "input_extra[0]"),
                            ({"input_prefix": "x " * 9000}, "prompt")):
            status, reply = s.post("/infill", {"model": "fim", **body})
            assert status == 400 and reply["error"]["param"] == field, reply


def test_cancel():
    """Another client ends a response that is being written: it is what it was until then."""
    body = {"input": SUM, "temperature": 2, **{k: v for k, v in LONG.items() if k != "messages"}}
    stream = server.stream("/v1/responses", {**body, "stream": True})
    first = next(stream)[1]["response"]
    assert server.post("/v1/responses/resp_nobody/cancel", {})[0] == 404
    assert server.post(f"/v1/responses/{first['id']}/nothing", {})[0] == 404
    for name, _ in stream:
        if name == "response.output_text.delta" or name == "response.reasoning_text.delta":
            break
    assert server.good(f"/v1/responses/{first['id']}/cancel", {})["status"] == "cancelled"
    rest = list(stream)
    assert rest[-1][1]["response"]["status"] == "cancelled" and rest[-1][1]["response"]["output"], rest[-1]
    assert server.get(f"/v1/responses/{first['id']}")[1]["status"] == "cancelled"
    status, reply = server.post(f"/v1/responses/{first['id']}/cancel", {})
    assert status == 400 and "over" in reply["error"]["message"]
    assert until(lambda: server.get("/slots")[1] == [])


def test_budget():
    """Thoughts end after so many tokens: the mark is put behind them, the answer goes on, the same in every form, alone and in a crowd."""
    body = {"messages": SUM, "seed": 7, "temperature": 1.5, "top_k": 0, "min_p": 0, "top_p": 1, "max_tokens": 60, "reasoning_effort": "high"}
    free = server.good(PATH, body)
    assert free["usage"]["completion_tokens_details"]["reasoning_tokens"] > 8, free
    for budget in 3, 6:
        limited = {**body, "reasoning_budget_tokens": budget}
        whole = server.good(PATH, limited)
        message, usage = whole["choices"][0]["message"], whole["usage"]
        assert free["choices"][0]["message"]["reasoning_content"].startswith(message["reasoning_content"].rstrip()), message
        assert budget <= usage["completion_tokens_details"]["reasoning_tokens"] <= budget + 4 and message["content"], whole
        assert usage["prompt_tokens"] == free["usage"]["prompt_tokens"]
        text = {"content": "", "reasoning_content": ""}
        for _, e in server.stream(PATH, {**limited, "stream": True}):
            for choice in e["choices"] if isinstance(e, dict) else []:
                for name in text:
                    text[name] += choice["delta"].get(name) or ""
        assert text["content"] == message["content"] and text["reasoning_content"] == message["reasoning_content"], (text, message)
        got = [None] * 8
        threads = [threading.Thread(target=lambda i=i: got.__setitem__(i, server.good(PATH, limited)["choices"][0]["message"])) for i in range(8)]
        [t.start() for t in threads]
        [t.join() for t in threads]
        assert all(g == message for g in got), got
        schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": False}
        held = server.good(PATH, {**limited, "max_tokens": 200, "response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": schema}}})
        assert isinstance(json.loads(held["choices"][0]["message"]["content"])["n"], int), held
        assert held["usage"]["completion_tokens_details"]["reasoning_tokens"] <= budget + 4
    short = server.good(PATH, {**body, "reasoning_budget_tokens": 3, "max_tokens": 4})
    assert short["choices"][0]["finish_reason"] == "length", short
    same = {"id": 0, "created": 0, "timings": 0}
    assert server.good(PATH, {**body, "reasoning_budget_tokens": 9000}) | same == free | same
    none = server.good(PATH, {**body, "reasoning_budget_tokens": 0})["choices"][0]["message"]
    assert not none.get("reasoning_content"), none
    status, reply = server.post("/v1/messages", {"messages": SUM, "max_tokens": 9, "thinking": {"type": "enabled", "budget_tokens": 9}})
    assert status == 400 and "budget_tokens" in reply["error"]["message"]
    assert until(lambda: server.get("/slots")[1] == [] and server.metrics()["quern_http_requests"] == 1)


def test_budget_in_a_full_queue():
    """What comes behind thoughts that were ended is no new request: it waits for nobody, and is not refused."""
    body = {"messages": SUM, "seed": 7, "temperature": 1.5, "top_k": 0, "min_p": 0, "top_p": 1, "max_tokens": 60, "reasoning_effort": "high",
            "reasoning_budget_tokens": 6}
    want, short = server.good(PATH, body)["choices"], {"messages": SUM, "max_tokens": 2}
    with Server(quern, CHAT, "--parallel", "1", "--queue", "2", env=HOME) as s:
        over = threading.Event()

        def others():
            while not over.is_set():
                assert s.post(PATH, short)[0] in (200, 429)
        threads = [threading.Thread(target=others) for _ in range(4)]
        [t.start() for t in threads]
        for n in range(8):
            status = 429
            while status == 429:
                status, got = s.post(PATH, body)
            assert status == 200 and got["choices"] == want, (n, status, got)
        over.set()
        [t.join() for t in threads]


def test_histograms():
    before = server.metrics()
    server.good("/v1/completions", {"prompt": "x", "max_tokens": 5, "seed": 1})
    text = server.get("/metrics")[1].decode()
    for name in "time_to_first_token_seconds", "time_between_tokens_seconds", "queue_seconds", "step_seconds":
        rows = [(float(le.replace("+Inf", "inf")), int(n)) for le, n in re.findall(rf'quern_{name}_bucket{{model="chat",le="([^"]*)"}} (\d+)', text)]
        count = int(re.search(rf'quern_{name}_count{{model="chat"}} (\d+)', text).group(1))
        assert len(rows) == 17 and rows == sorted(rows) and [n for _, n in rows] == sorted(n for _, n in rows), rows
        assert rows[-1] == (float("inf"), count) and count > 0, (name, rows)
        assert float(re.search(rf'quern_{name}_sum{{model="chat"}} (\S+)', text).group(1)) > 0
    m = server.metrics()
    first, between, written = (m[n] - before[n] for n in (
        "quern_time_to_first_token_seconds_count", "quern_time_between_tokens_seconds_count", "quern_tokens_generated_total"))
    assert first == 1 and between == written - 1 >= 0, (first, between, written)
    assert m["quern_step_seconds_count"] == m["quern_n_steps_total"]
    with Server(quern, [CHAT, source + "/models/shakespeare.gguf"], env=HOME) as s:  # what is not loaded keeps them, whatever list comes
        s.good("/v1/completions", {"model": "chat", "prompt": "x", "max_tokens": 5})
        s.good("/models/unload", {"model": "chat"})
        assert until(lambda: s.get("/api/ps")[1]["models"] == [])
        names = [f"quern_{n}_count" for n in ("time_to_first_token_seconds", "time_between_tokens_seconds", "queue_seconds", "step_seconds")]
        before = s.metrics()
        s.good("/api/create", {"model": "other", "from": "chat"})
        after = s.metrics()
        assert all(after[n] == before[n] > 0 for n in names), (before, after)
        s.request("DELETE", "/api/delete", {"model": "other"})


def test_log():
    content("chat")
    for line in (r'\d+ reads ".*What is 2 plus 3\?', r'\d+ wrote \{.*"2 \+ 3 = 5"',
                 r"\d+ POST /v1/chat/completions: 200, chat, \d+ tokens \(\d+ cached\), \d+ written, .* stop, \d+ ms in all"):
        assert until(lambda: re.search(line, server.said())), (line, server.said())  # it is written behind the reply


if __name__ == "__main__":
    failed = run(globals())
    status = server.stop()
    if status != 0:
        print("the server ended with", status, server.said())
    sys.exit(failed > 0 or status != 0)
