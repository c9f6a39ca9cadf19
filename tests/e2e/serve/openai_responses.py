# SPDX-License-Identifier: MIT
"""/v1/responses: events build the response that a whole reply is; conversations go on by their id."""
import json, sys
from lib import Server, run, until

quern, source = sys.argv[1:3]
server = Server(quern, source + "/models/chat.gguf", "--api-key", "one", "--api-key", "two")
PATH = "/v1/responses"
ME = {"Authorization": "Bearer one"}
TOOL = {"type": "function", "name": "get_weather", "description": "The weather of a place.", "parameters": {
    "type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"], "additionalProperties": False}}


def ask(input="What is 2 plus 3?", headers=ME, **more):
    status, reply = server.post(PATH, {"input": input, "seed": 7, **more}, **headers)
    assert status == 200, reply
    return reply


def plain(response):
    """Without what differs each time."""
    def clean(x):
        if isinstance(x, dict):
            return {k: clean(v) for k, v in x.items() if k not in ("id", "call_id", "created_at", "input_tokens_details")}
        return [clean(v) for v in x] if isinstance(x, list) else x
    return clean(response)


def joined(body):
    """The response that the events tell, each checked against what came before it."""
    response, items, n = None, [], 0
    for name, e in server.stream(PATH, {**body, "stream": True}, **ME):
        assert name == e["type"] and e["sequence_number"] == n, (name, e)
        n += 1
        if name in ("response.created", "response.in_progress"):
            assert e["response"]["status"] == "in_progress" and e["response"]["output"] == []
        elif name == "response.output_item.added":
            assert e["output_index"] == len(items)
            items.append(e["item"])
            text = ""
        elif name == "response.content_part.added":
            assert e["item_id"] == items[-1]["id"] and e["part"]["text"] == ""
        elif name.endswith(".delta"):
            assert e["item_id"] == items[-1]["id"] and e["output_index"] == len(items) - 1
            text += e["delta"]
        elif name in ("response.output_text.done", "response.reasoning_text.done"):
            assert e["text"] == text
        elif name == "response.function_call_arguments.done":
            assert e["arguments"] == text
        elif name == "response.custom_tool_call_input.done":
            assert e["input"] == text
        elif name == "response.content_part.done":
            assert e["part"]["text"] == text
        elif name == "response.output_item.done":
            assert e["item"]["id"] == items[-1]["id"] and text in json.dumps(e["item"], ensure_ascii=False) or "\\" in json.dumps(e["item"])
            items[-1] = e["item"]
        else:
            assert name in ("response.completed", "response.incomplete"), name
            response = e["response"]
    assert response["output"] == items
    return response


def same(**more):
    body = {"input": "What is 2 plus 3?", "seed": 7, **more}
    whole = ask(**body)
    stream = joined(body)
    assert plain(whole) == plain(stream), (whole, stream)
    return whole


def test_responses():
    r = same(temperature=0)
    assert r["object"] == "response" and r["status"] == "completed" and r["id"].startswith("resp_") and r["temperature"] == 0
    assert [i["type"] for i in r["output"]] == ["reasoning", "message"] and r["output"][1]["content"][0]["text"] == "2 + 3 = 5"
    assert r["usage"]["output_tokens_details"]["reasoning_tokens"] > 0
    r = same(temperature=0, reasoning={"effort": "none"}, instructions="Be brief.", metadata={"a": "b"})
    assert [i["type"] for i in r["output"]] == ["message"] and r["metadata"] == {"a": "b"} and r["instructions"] == "Be brief."
    r = same(max_output_tokens=2)
    assert r["status"] == "incomplete" and r["incomplete_details"] == {"reason": "max_output_tokens"}
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": False}
    r = same(text={"format": {"type": "json_schema", "name": "n", "schema": schema}})
    assert isinstance(json.loads(r["output"][-1]["content"][0]["text"])["n"], int)
    r = same(reasoning={"effort": "none"}, temperature=0, include=["message.output_text.logprobs"], top_logprobs=2)
    part = r["output"][0]["content"][0]
    assert "".join(t["token"] for t in part["logprobs"]) == part["text"] and len(part["logprobs"][0]["top_logprobs"]) == 2


def test_tools():
    for choice in "required", {"type": "function", "name": "get_weather"}:
        r = same(input="How is the weather in Rome?", tools=[TOOL], tool_choice=choice)
        call = r["output"][-1]
        assert call["type"] == "function_call" and list(json.loads(call["arguments"])) == ["city"] and call["call_id"].startswith("call_")
    back = [{"role": "user", "content": "How is the weather in Rome?"}, *r["output"], {"type": "function_call_output", "call_id": call["call_id"], "output": "sunny"}]
    chat = [back[0], {"role": "assistant", "content": "", "tool_calls": [{"id": "x", "type": "function", "function": {"name": "get_weather", "arguments": call["arguments"]}}]},
            {"role": "tool", "tool_call_id": "x", "content": "sunny"}]
    if r["output"][0]["type"] == "reasoning":
        chat[1]["reasoning_content"] = r["output"][0]["content"][0]["text"]
    tools = [{"type": "function", "function": {k: v for k, v in TOOL.items() if k != "type"}}]
    theirs = server.post("/v1/chat/completions", {"messages": chat, "tools": tools, "temperature": 0}, **ME)[1]
    ours = ask(back, tools=[TOOL], temperature=0)
    assert ours["usage"]["input_tokens"] == theirs["usage"]["prompt_tokens"]
    custom = {"type": "custom", "name": "run", "description": "Runs a text."}
    r = same(input="run it", tools=[custom], tool_choice="required", temperature=0, max_output_tokens=120)
    call = r["output"][-1]
    assert call["type"] == "custom_tool_call" and isinstance(call["input"], str) and "arguments" not in call
    assert ask([{"role": "user", "content": "run it"}, call, {"type": "custom_tool_call_output", "call_id": call["call_id"], "output": "done"}], tools=[custom])
    _, _, headers = server.request("POST", PATH, {"input": "x", "tools": [{"type": "web_search"}, TOOL, {"type": "mcp\r\nx: y"}], "max_output_tokens": 1}, ME)
    assert headers["X-Quern-Ignored"] == "tools[0]:web_search, tools[2]:mcp??x: y", dict(headers)
    assert until(lambda: "ignored tools[0]:web_search, tools[2]:mcp??x: y" in server.said())


def test_going_on():
    first = ask(temperature=0)
    second = ask("And 4 plus 4?", previous_response_id=first["id"], temperature=0)
    whole = ask([{"role": "user", "content": "What is 2 plus 3?"}, *first["output"], {"role": "user", "content": "And 4 plus 4?"}], temperature=0)
    assert plain(second)["output"] == plain(whole)["output"] and second["usage"]["input_tokens"] == whole["usage"]["input_tokens"]
    assert second["usage"]["input_tokens_details"]["cached_tokens"] >= first["usage"]["input_tokens"]
    kept = server.request("GET", PATH + "/" + second["id"], headers=ME)
    assert kept[0] == 200 and kept[1] == second
    assert server.request("GET", PATH + "/" + second["id"], headers={"Authorization": "Bearer two"})[0] == 404  # another's
    assert server.request("DELETE", PATH + "/" + second["id"], headers=ME)[1]["deleted"]
    assert server.request("GET", PATH + "/" + second["id"], headers=ME)[0] == 404
    apart = ask(store=False)
    assert server.request("GET", PATH + "/" + apart["id"], headers=ME)[0] == 404
    status, reply = server.post(PATH, {"input": "x", "previous_response_id": "resp_none"}, **ME)
    assert status == 404 and reply["error"]["param"] == "previous_response_id"


def test_count():
    body = {"input": "What is 2 plus 3?", "instructions": "Be brief.", "tools": [TOOL]}
    assert server.post(PATH + "/input_tokens", body, **ME)[1]["input_tokens"] == ask(**body)["usage"]["input_tokens"]


def test_references():
    """What an earlier response said, by the ids of its items: the prompt that the items themselves give."""
    first = ask(input="What is the weather in Oslo?", tools=[TOOL], reasoning={"effort": "none"}, temperature=0)
    calls = [i for i in first["output"] if i["type"] == "function_call"]
    assert calls, first
    outputs = [{"type": "function_call_output", "call_id": c["call_id"], "output": "rain"} for c in calls]
    begin = [{"role": "user", "content": "What is the weather in Oslo?"}]
    by_id = begin + [{"type": "item_reference", "id": i["id"]} for i in first["output"]] + outputs
    whole = begin + first["output"] + outputs
    counts = [server.post(PATH + "/input_tokens", {"input": i, "tools": [TOOL]}, **ME)[1]["input_tokens"] for i in (by_id, whole)]
    assert counts[0] == counts[1], counts
    status, reply = server.post(PATH, {"input": by_id, "tools": [TOOL]}, Authorization="Bearer two")
    assert status == 404 and reply["error"]["param"] == "input[1].id", reply  # another's
    assert ask(input="x", text={"format": None})["usage"]["input_tokens_details"]["cache_write_tokens"] == 0


def test_refusals():
    for more, field in (({"input": 3}, "input"), ({"input": [3]}, "input[0]"), ({"input": [{"type": "item_reference"}]}, "input[0].id"),
                        ({"input": [{"role": "user", "content": [{"type": "input_image"}]}]}, "input[0].content[0].type"),
                        ({"input": [{"content": "x"}]}, "input[0].role"), ({"input": [{"type": "function_call"}]}, "input[0]"),
                        ({"background": True}, "background"), ({"tools": [{}]}, "tools[0]"), ({"tools": [{"type": "function"}]}, "tools[0]"),
                        ({"max_output_tokens": 0}, "max_output_tokens"), ({"metadata": {"a": "x" * 5000}}, "metadata"),
                        ({"metadata": {str(i): "" for i in range(17)}}, "metadata"), ({"reasoning": {"effort": "x"}}, "reasoning.effort"),
                        ({"text": {"format": {"type": "x"}}}, "text.format.type"), ({"input": "x " * 2000}, "input"), ({"tool_choice": "required"}, "tool_choice"),
                        ({"tool_choice": {"type": "function", "name": "other"}}, "tool_choice.name"),
                        ({"tools": [TOOL], "tool_choice": {"type": "function", "name": "other"}}, "tool_choice.name"),
                        ({"text": {"format": {"type": "json_schema", "name": "x", "schema": {"not": {}}}}}, "text.format")):
        status, reply = server.post(PATH, {"input": "x", **more}, **ME)
        assert status == 400 and reply["error"]["param"] == field, (more, reply)


if __name__ == "__main__":
    failed = run(globals())
    status = server.stop()
    if status != 0:
        print("the server ended with", status, server.said())
    sys.exit(failed > 0 or status != 0)
