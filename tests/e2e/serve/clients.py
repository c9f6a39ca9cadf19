# SPDX-License-Identifier: MIT
"""The official clients of OpenAI, Anthropic and Ollama, sync and async, streaming and not, against a server of ours."""
import asyncio, json, os, sys
import anthropic, lib, ollama, openai
from lib import SUM, Server, run, until

quern, source = sys.argv[1:3]
sys.path.insert(1, source + "/tests/oracle")
import metrics  # noqa: E402
server = Server(quern, source + "/models/chat.gguf", "--api-key", "secret", env={**os.environ, "XDG_DATA_HOME": os.path.abspath("data")})
URL = f"http://127.0.0.1:{server.port}"
ROME = [{"role": "user", "content": "How is the weather in Rome?"}]
PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"], "additionalProperties": False}
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": False}
LONG = {"temperature": 2, "extra_body": {"top_k": 0, "min_p": 0}, "logit_bias": lib.LONG["logit_bias"]}

o = openai.OpenAI(base_url=URL + "/v1", api_key="secret", max_retries=0)
a = anthropic.Anthropic(base_url=URL, api_key="secret", max_retries=0)
l = ollama.Client(URL, headers={"Authorization": "Bearer secret"})


def test_openai_chat():
    body = dict(model="chat", messages=SUM, seed=4)
    whole = o.chat.completions.create(**body, logprobs=True, top_logprobs=2).choices[0]
    text = thoughts = ""
    for e in o.chat.completions.create(**body, stream=True, stream_options={"include_usage": True}):
        if not e.choices:
            assert e.usage.total_tokens > 17
            continue
        text += e.choices[0].delta.content or ""
        thoughts += getattr(e.choices[0].delta, "reasoning_content", None) or ""
    assert text == whole.message.content and thoughts == whole.message.reasoning_content
    assert "".join(t.token for t in whole.logprobs.content) == text
    assert o.models.list().data[0].id == "chat" and o.models.retrieve("chat").owned_by == "quern"


def test_openai_tools():
    tools = [{"type": "function", "function": {"name": "get_weather", "parameters": PARAMETERS, "strict": True}}]
    with o.chat.completions.stream(model="chat", messages=ROME, tools=tools, tool_choice="required", seed=1) as s:
        message = s.get_final_completion().choices[0].message
    assert json.loads(message.tool_calls[0].function.arguments)["city"]
    back = ROME + [message.model_dump(exclude_none=True), {"role": "tool", "tool_call_id": message.tool_calls[0].id, "content": "sunny"}]
    assert o.chat.completions.create(model="chat", messages=back, tools=tools, seed=1).choices[0].message
    for effort in "none", "low":
        r = o.chat.completions.create(model="chat", messages=SUM, seed=1, reasoning_effort=effort, response_format={
            "type": "json_schema", "json_schema": {"name": "n", "schema": SCHEMA, "strict": True}})
        assert isinstance(json.loads(r.choices[0].message.content)["n"], int)
        assert effort == "none" or r.choices[0].message.reasoning_content


def test_openai_completions():
    body = dict(model="chat", prompt="What is", max_tokens=8, seed=3)
    whole = o.completions.create(**body)
    assert "".join(e.choices[0].text for e in o.completions.create(**body, stream=True)) == whole.choices[0].text


def test_openai_responses():
    body = dict(model="chat", input="What is 2 plus 3?", temperature=0)
    whole = o.responses.create(**body)
    with o.responses.stream(**body) as s:
        kinds = [e.type for e in s]
        assert s.get_final_response().output_text == whole.output_text == "2 + 3 = 5"
    assert kinds[0] == "response.created" and kinds[-1] == "response.completed" and "response.output_text.delta" in kinds
    more = o.responses.create(model="chat", input="And 4 plus 4?", previous_response_id=whole.id, temperature=0)
    assert more.usage.input_tokens_details.cached_tokens > 10
    assert o.responses.retrieve(more.id).output_text == more.output_text
    o.responses.delete(more.id)
    try:
        o.responses.retrieve(more.id)
    except openai.NotFoundError:
        pass
    else:
        raise AssertionError("a response that was deleted")
    tools = [{"type": "function", "name": "get_weather", "parameters": PARAMETERS, "strict": True}]
    call = o.responses.create(model="chat", input=ROME, tools=tools, tool_choice="required").output[-1]
    assert json.loads(call.arguments)["city"]
    assert o.responses.create(model="chat", tools=tools, input=[*ROME, call, {
        "type": "function_call_output", "call_id": call.call_id, "output": "sunny"}]).status


def test_openai_embeddings():
    one = o.embeddings.create(model="chat", input=["Once upon a time", "The end"])  # asks for base64
    two = o.embeddings.create(model="chat", input=["Once upon a time", "The end"], encoding_format="float")
    assert len(one.data[0].embedding) == 192
    assert all(abs(x - y) < 1e-7 for a, b in zip(one.data, two.data) for x, y in zip(a.embedding, b.embedding))
    assert l.embed(model="chat", input="The end").embeddings[0][0] - two.data[1].embedding[0] < 1e-7


def test_openai_errors():
    for error, more in ((openai.NotFoundError, {"model": "x"}), (openai.BadRequestError, {"temperature": -1}),
                        (openai.BadRequestError, {"messages": [{"role": "user", "content": "x " * 2000}]})):
        try:
            o.chat.completions.create(**{"model": "chat", "messages": SUM, **more})
        except error as e:
            assert e.body["message"] and e.body["param"], e.body
        else:
            raise AssertionError(more)
    try:
        openai.OpenAI(base_url=URL + "/v1", api_key="wrong", max_retries=0).models.list()
    except openai.AuthenticationError as e:
        assert e.code == "invalid_api_key"
    else:
        raise AssertionError("a wrong key")


def test_openai_leaves():
    with Server(quern, source + "/models/chat.gguf", *lib.ENDLESS) as endless:
        c = openai.OpenAI(base_url=f"http://127.0.0.1:{endless.port}/v1", api_key="any", max_retries=0)
        for _ in range(3):
            s = c.chat.completions.create(model="chat", messages=SUM, stream=True, n=4, **LONG)
            next(iter(s))
            s.close()
            assert until(lambda: endless.get("/slots")[1] == [])


def test_openai_async():
    async def both():
        c = openai.AsyncOpenAI(base_url=URL + "/v1", api_key="secret", max_retries=0)

        async def one(i):
            body = dict(model="chat", messages=[{"role": "user", "content": f"What is {i} plus 1?"}], seed=i)
            whole = (await c.chat.completions.create(**body)).choices[0].message.content
            text = ""
            async for e in await c.chat.completions.create(**body, stream=True):
                text += e.choices[0].delta.content or ""
            assert text == whole
        await asyncio.gather(*(one(i) for i in range(1, 9)))
    asyncio.run(both())


def test_anthropic():
    tool = {"name": "get_weather", "input_schema": PARAMETERS}
    body = dict(model="chat", max_tokens=60, messages=SUM, extra_body={"seed": 4})
    for more in {}, {"thinking": {"type": "enabled", "budget_tokens": 1024}}:
        whole = a.messages.create(**body, **more)
        with a.messages.stream(**body, **more) as s:
            final = s.get_final_message()
        texts = [[getattr(b, b.type) for b in m.content] for m in (whole, final)]
        assert texts[0] == texts[1] and len(texts[0]) == 1 + bool(more)
    with a.messages.stream(model="chat", max_tokens=60, messages=ROME, tools=[tool], tool_choice={"type": "any"}) as s:
        use = s.get_final_message()
    assert use.stop_reason == "tool_use" and use.content[-1].input["city"]
    back = ROME + [{"role": "assistant", "content": [b.model_dump() for b in use.content]},
                   {"role": "user", "content": [{"type": "tool_result", "tool_use_id": use.content[-1].id, "content": "sunny"}]}]
    assert a.messages.create(model="chat", max_tokens=60, messages=back, tools=[tool]).usage.output_tokens
    assert a.messages.count_tokens(model="chat", messages=SUM).input_tokens > 10 and a.models.list().data[0].id == "chat"
    try:
        a.messages.create(model="x", max_tokens=9, messages=SUM)
    except anthropic.NotFoundError as e:
        assert e.body["error"]["type"] == "not_found_error"
    else:
        raise AssertionError("a model that is not there")


def test_anthropic_async():
    async def many():
        c = anthropic.AsyncAnthropic(base_url=URL, api_key="secret", max_retries=0)

        async def one(i):
            body = dict(model="chat", max_tokens=40, messages=[{"role": "user", "content": f"What is {i} plus 1?"}], extra_body={"seed": i})
            whole = await c.messages.create(**body)
            async with c.messages.stream(**body) as s:
                assert (await s.get_final_message()).content[0].text == whole.content[0].text
        await asyncio.gather(*(one(i) for i in range(1, 5)))
    asyncio.run(many())


def get_weather(city: str) -> str:
    """The weather of a place."""


def test_ollama():
    body = dict(model="chat", messages=SUM, options={"seed": 4})
    whole = l.chat(**body)
    assert "".join(e.message.content for e in l.chat(**body, stream=True)) == whole.message.content
    assert l.chat(model="chat", messages=ROME, tools=[get_weather], options={"temperature": 0}).message.tool_calls[0].function.arguments["city"]
    assert l.generate(model="chat", prompt="What is 2 plus 3?", think=False, options={"temperature": 0}).response == "2 + 3 = 5"
    assert json.loads(l.chat(**body, format=SCHEMA).message.content)["n"] is not None
    assert l.list().models[0].model == "chat:latest" and l.ps().models and "tools" in l.show("chat").capabilities
    assert l.pull("chat").status == "success"
    assert l.create(model="brief", from_="chat", system="You are brief.", parameters={"num_predict": 2}).status == "success"
    assert l.chat(model="brief", messages=SUM).eval_count == 2 and l.show("brief").capabilities
    assert l.copy("brief", "twin").status == "success" and {"brief:latest", "twin:latest"} < {m.model for m in l.list().models}
    assert [m.model for m in l.ps().models] == ["chat:latest", "brief:latest"]
    assert l.delete("brief").status == l.delete("twin").status == "success" and len(l.list().models) == 1
    try:
        l.chat(model="x", messages=SUM)
    except ollama.ResponseError as e:
        assert e.status_code == 404
    else:
        raise AssertionError("a model that is not there")

    async def asynchronous():
        c = ollama.AsyncClient(URL, headers={"Authorization": "Bearer secret"})
        text = ""
        async for e in await c.chat(**body, stream=True):
            text += e.message.content
        assert text == whole.message.content
    asyncio.run(asynchronous())


def test_prometheus():
    """Its own reader finds what ours does."""
    text = server.get("/metrics", Authorization="Bearer secret")[1].decode()
    assert metrics.same_as_client(text, *metrics.read_text(text))


if __name__ == "__main__":
    failed = run(globals())
    status = server.stop()
    if status != 0:
        print("the server ended with", status, server.said())
    sys.exit(failed > 0 or status != 0)
