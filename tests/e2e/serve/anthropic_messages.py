# SPDX-License-Identifier: MIT
"""/v1/messages: streams are whole messages in pieces, blocks come one after another, and turns go there and back."""
import json, sys
from lib import Server, run

quern, source = sys.argv[1:3]
server = Server(quern, source + "/models/chat.gguf")
PATH = "/v1/messages"
SUM = [{"role": "user", "content": "What is 2 plus 3?"}]
TOOL = {"name": "get_weather", "description": "The weather of a place.", "input_schema": {
    "type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"], "additionalProperties": False}}
THINK = {"type": "enabled", "budget_tokens": 1024}


def ask(messages=SUM, **more):
    return server.good(PATH, {"model": "chat", "max_tokens": 60, "messages": messages, "seed": 7, **more})


def joined(body):
    events = list(server.stream(PATH, {**body, "stream": True}))
    message, open_block, over = None, None, False
    for name, e in events:
        assert name == e["type"] and not over, (name, e)
        if name == "message_start":
            assert message is None
            message = e["message"]
            assert message["content"] == [] and message["stop_reason"] is None
        elif name == "content_block_start":
            assert open_block is None and e["index"] == len(message["content"])
            open_block = dict(e["content_block"])
            if open_block["type"] == "tool_use":
                assert open_block["input"] == {} and open_block["id"]
                open_block["input"] = ""
        elif name == "content_block_delta":
            assert e["index"] == len(message["content"])
            d = e["delta"]
            key = {"text_delta": "text", "thinking_delta": "thinking", "signature_delta": "signature", "input_json_delta": "partial_json"}[d["type"]]
            open_block["input" if key == "partial_json" else key] += d[key]
        elif name == "content_block_stop":
            if open_block["type"] == "tool_use":
                open_block["input"] = json.loads(open_block["input"] or "{}")
            message["content"].append(open_block)
            open_block = None
        elif name == "message_delta":
            message.update(e["delta"])
            message["usage"].update(e["usage"])
        elif name == "message_stop":
            over = True
        else:
            assert name == "ping", name
    assert over and open_block is None
    return message


def plain(message):
    """Without what differs each time."""
    blocks = [{k: v for k, v in b.items() if k not in ("id", "signature")} for b in message["content"]]
    return blocks, message["stop_reason"], message["stop_sequence"], message["usage"]["output_tokens"]


def same_stream(**more):
    body = {"model": "chat", "max_tokens": 60, "messages": SUM, "seed": 7, **more}
    whole = server.good(PATH, body)
    assert plain(whole) == plain(joined(body)), (whole, joined(body))
    return whole


def test_messages():
    r = same_stream(temperature=0)
    assert r["type"] == "message" and r["role"] == "assistant" and r["id"].startswith("msg_")
    assert r["content"] == [{"type": "text", "text": "2 + 3 = 5"}] and r["stop_reason"] == "end_turn"
    u = r["usage"]
    again = ask(temperature=0)["usage"]
    assert again["cache_read_input_tokens"] + again["input_tokens"] == u["cache_read_input_tokens"] + u["input_tokens"]
    assert again["input_tokens"] == 1 and again["cache_creation_input_tokens"] == 0
    r = same_stream(temperature=0, thinking=THINK)
    assert [b["type"] for b in r["content"]] == ["thinking", "text"] and r["content"][0]["signature"]
    assert same_stream(max_tokens=2)["stop_reason"] == "max_tokens"
    r = same_stream(temperature=0, stop_sequences=["+", " 3"])
    assert r["stop_reason"] == "stop_sequence" and r["stop_sequence"] == "+" and r["content"][0]["text"] == "2 "


def test_tools():
    question = [{"role": "user", "content": [{"type": "text", "text": "How is the weather in Rome?"}]}]
    for choice in {"type": "any"}, {"type": "tool", "name": "get_weather", "disable_parallel_tool_use": True}:
        r = same_stream(messages=question, tools=[TOOL], tool_choice=choice)
        assert r["stop_reason"] == "tool_use" and r["content"][-1]["type"] == "tool_use" and list(r["content"][-1]["input"]) == ["city"]
    back = [{"type": "tool_result", "tool_use_id": r["content"][-1]["id"], "content": [{"type": "text", "text": "sunny"}]}]
    with_words = back + [{"type": "text", "text": "And tomorrow?"}]
    for turn in back, with_words:
        assert ask(question + [{"role": "assistant", "content": r["content"]}, {"role": "user", "content": turn}], tools=[TOOL])["content"]
    assert all(b["type"] != "tool_use" for b in ask(question, tools=[TOOL], tool_choice={"type": "none"})["content"])


def test_as_openai():
    """The same conversation costs the same tokens in both dialects."""
    talk = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Hi"},
            {"role": "user", "content": "What is 4 plus 4?"}]
    theirs = server.good("/v1/chat/completions", {"messages": talk, "temperature": 0, "reasoning_effort": "none"})
    ours = ask([{**m, "content": [{"type": "text", "text": m["content"]}]} for m in talk[1:]], system="Be brief.", temperature=0)
    assert ours["content"][0]["text"] == theirs["choices"][0]["message"]["content"]
    assert ours["usage"]["input_tokens"] + ours["usage"]["cache_read_input_tokens"] == theirs["usage"]["prompt_tokens"]


def test_count():
    body = {"model": "chat", "messages": SUM, "system": [{"type": "text", "text": "Be brief."}]}
    n = server.good(PATH + "/count_tokens", body)["input_tokens"]
    u = ask(system="Be brief.")["usage"]
    assert n == u["input_tokens"] + u["cache_read_input_tokens"]
    billed = {**body, "system": [{"type": "text", "text": "x-anthropic-billing-header: cch=12ab;"}] + body["system"]}
    assert server.good(PATH + "/count_tokens", billed)["input_tokens"] == n
    assert server.good(PATH + "/count_tokens", {**body, "tools": [TOOL]})["input_tokens"] > n


def test_effort():
    """How much is thought is said there, not whether; what is counted is what is read."""
    for more in {}, {"thinking": {"type": "disabled"}}:
        r = ask(temperature=0, output_config={"effort": "high"}, **more)
        assert [b["type"] for b in r["content"]] == ["text"], r
    assert ask(temperature=0, output_config={"effort": "low"}, thinking=THINK)["content"][0]["type"] == "thinking"
    template = "{% for m in messages %}{{ m.content }}{% endfor %}{% if reasoning_effort is defined %} effort {{ reasoning_effort }}{% endif %}"
    with open("effort.jinja", "w") as f:
        f.write(template)
    with Server(quern, source + "/models/chat.gguf", "--chat-template-file", "effort.jinja") as s:
        for more in {}, {"output_config": {"effort": "high"}}:
            body = {"model": "chat", "messages": SUM, **more}
            u = s.good(PATH, {**body, "max_tokens": 1})["usage"]
            assert s.good(PATH + "/count_tokens", body)["input_tokens"] == u["input_tokens"] + u["cache_read_input_tokens"], (body, u)
    assert server.post(PATH + "/count_tokens", {"model": "chat", "messages": SUM, "output_config": {"effort": "x"}})[0] == 400


def test_format():
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": False}
    r = same_stream(output_config={"format": {"type": "json_schema", "schema": schema}})
    assert isinstance(json.loads(r["content"][-1]["text"])["n"], int)


def test_continued():
    r = ask(SUM + [{"role": "assistant", "content": "2 + 3 ="}], temperature=0)
    assert r["content"][0]["text"] == " 5", r


def test_models():
    r = server.request("GET", "/v1/models", headers={"anthropic-version": "2023-06-01"})[1]
    assert r["data"][0]["lifecycle"] == "active" and r["data"][0]["type"] == "model" and r["data"][0]["id"] == "chat" and r["has_more"] is False
    assert server.request("GET", "/v1/models/chat", headers={"anthropic-version": "2023-06-01"})[1]["display_name"] == "chat"


def count(**body):
    status, reply, headers = server.request("POST", PATH + "/count_tokens", {"model": "chat", "messages": SUM, **body})
    assert status == 200, reply
    return reply["input_tokens"], headers.get("X-Quern-Ignored")


def test_late_system():
    """A system message in mid-conversation, as Claude Code sends one behind its first turn: the prompt of OpenAI's form."""
    for late in "Be brief.", [{"type": "text", "text": "Be "}, {"type": "text", "text": "brief."}]:
        messages = SUM + [{"role": "system", "content": late}, *SUM]
        theirs = server.good("/v1/chat/completions", {"messages": SUM + [{"role": "system", "content": "Be brief."}, *SUM], "max_tokens": 1, "reasoning_effort": "none"})
        assert count(messages=messages)[0] == theirs["usage"]["prompt_tokens"]
    assert ask([{"role": "system", "content": "Be brief."}, *SUM], temperature=0) ["content"] == ask(temperature=0, system="Be brief.")["content"]


def test_text_of_other_blocks():
    """Documents, results of searches and names of tools are text; what Anthropic's own servers do is left out, and said."""
    def user(*blocks):
        return count(messages=[{"role": "user", "content": list(blocks)}])[0]
    words = {"type": "text", "text": "A\n\nabc"}
    assert user(words) == user({"type": "document", "title": "A", "source": {"type": "text", "media_type": "text/plain", "data": "abc"}}) \
        == user({"type": "document", "title": "A", "source": {"type": "content", "content": [{"type": "text", "text": "abc"}]}})
    found = {"type": "search_result", "source": "s", "title": "t", "content": [{"type": "text", "text": "abc"}]}
    assert user(found) == user({"type": "text", "text": "t\ns\n\nabc"})
    use = {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "get_weather", "input": {}}]}

    def result(content):
        return count(messages=SUM + [use, {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": content}]}])[0]
    assert result([{"type": "tool_reference", "tool_name": "other"}]) == result("other") and result([found]) == result("t\ns\n\nabc")
    n, ignored = count(tools=[{"type": "web_search_20250305", "name": "web_search"}])
    assert n == count()[0] and ignored == "tools[0]:web_search_20250305", ignored
    searched = [{"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}, {"type": "web_search_tool_result", "tool_use_id": "s", "content": []},
                {"type": "text", "text": "5"}]
    n, ignored = count(messages=SUM + [{"role": "assistant", "content": searched}, *SUM])
    assert n == count(messages=SUM + [{"role": "assistant", "content": "5"}, *SUM])[0] and "server_tool_use" in ignored, ignored


def test_nothing_written():
    """max_tokens 0 reads the prompt, for the next time."""
    body = [{"role": "user", "content": "Read this, and say nothing of it."}]
    first = ask(body, max_tokens=0)
    assert first["content"] == [] and first["usage"]["output_tokens"] == 0, first
    again = ask(body, max_tokens=1)["usage"]
    assert again["input_tokens"] == 1, again


def test_refusals():
    for more, status, words in (
            ({"model": "nobody"}, 404, "model"), ({"max_tokens": -1}, 400, "max_tokens"), ({"max_tokens": None}, 400, "max_tokens"),
            ({"messages": "x"}, 400, "messages"), ({"messages": [{"role": "tool", "content": "x"}]}, 400, "messages[0].role"),
            ({"messages": [{"role": "user", "content": [{"type": "image"}]}]}, 400, "messages[0].content[0].type"),
            ({"messages": [{"role": "user", "content": [{"type": "tool_result"}]}]}, 400, "messages[0].content[0].tool_use_id"),
            ({"messages": [{"role": "user", "content": 5}]}, 400, "messages[0].content"), ({"tools": [{"type": "custom"}]}, 400, "tools[0]"),
            ({"messages": [{"role": "user", "content": [{"type": "document", "source": {"type": "url"}}]}]}, 400, "messages[0].content[0].source.type"),
            ({"tools": [TOOL], "tool_choice": {"type": "x"}}, 400, "tool_choice.type"), ({"tool_choice": {"type": "any"}}, 400, "tool_choice"),
            ({"tools": [TOOL], "tool_choice": {"type": "tool", "name": "other"}}, 400, "tool_choice.name"),
            ({"messages": [{"role": "a" + "é" * 30, "content": "x"}]}, 400, "messages[0].role: \"aé"),
            ({"output_config": {"format": {"type": "json_schema", "schema": {"not": {}}}}}, 400, "output_config.format:"),
            ({"thinking": {"type": "x"}}, 400, "thinking.type"), ({"thinking": {"type": "enabled", "budget_tokens": 1}}, 400, "thinking.budget_tokens"),
            ({"system": 3}, 400, "system"), ({"stop_sequences": [3]}, 400, "stop_sequences[0]"),
            ({"messages": [{"role": "user", "content": "x " * 2000}]}, 400, "512")):
        got, reply = server.post(PATH, {"model": "chat", "max_tokens": 9, "messages": SUM, **more})
        assert got == status and reply["type"] == "error" and words in reply["error"]["message"], (more, reply)
    assert server.post(PATH, "{")[1]["error"]["type"] == "invalid_request_error"


if __name__ == "__main__":
    failed = run(globals())
    status = server.stop()
    if status != 0:
        print("the server ended with", status, server.said())
    sys.exit(failed > 0 or status != 0)
