/* SPDX-License-Identifier: MIT */
/* tests/fuzz/fuzz_serve.c -- any bytes as the body of a request in any dialect, and any text as what the model answers:
 * it is refused in the dialect's form, never as a mistake of ours, or answered; replies are JSON, each event of a
 * stream too, and a stream ends. An input is the endpoint's letter, a digit of flags, the body, and behind a byte 1
 * what the model says. */
#include "serve_rig.h"

#include <stdint.h>

/* What checks replies takes memory that is not watched, all given back at once: with that of everyone else it was a
 * quarter of a run. */
enum { CHECK_BYTES = 16 << 20, CHECKED_AT_ONCE = 1 << 16 };
static _Alignas(16) char check_room[CHECK_BYTES];
static size_t check_used;

static void *check_alloc(size_t n)
{
    if (n > CHECK_BYTES - check_used) return NULL;
    void *p = check_room + check_used;
    check_used += (n + 15) / 16 * 16;
    return p;
}

static void check_free(void *p) { (void)p; }

static void check_json(const char *data, size_t n, bool object)
{
    json_error_t why;
    check_used = 0;
    if (n <= CHECKED_AT_ONCE) json_set_alloc_funcs(check_alloc, check_free);
    json_t *value = json_loadb(data, n, JSON_ALLOW_NUL | JSON_DECODE_ANY, &why);
    if (!value) fprintf(stderr, "%s in: %.*s\n", why.text, (int)n, data);
    REQUIRE(value && (!object || json_is_object(value) || json_is_array(value)));
    json_decref(value);
    text_watch();
}

static void check_line(const char *line, size_t n)
{
    if (n == 0 || line[0] == ':' || (n > 7 && strncmp(line, "event: ", 7) == 0)) return;
    REQUIRE(n > 6 && strncmp(line, "data: ", 6) == 0);
    if (n != 12 || strncmp(line + 6, "[DONE]", 6) != 0) check_json(line + 6, n - 6, true);
}

static void check_stream(const exchange *x)
{
    const bool events = strcmp(x->content_type, "text/event-stream") == 0;
    REQUIRE(x->ended && x->status == 200 && !x->out.failed);
    REQUIRE(events || strcmp(x->content_type, "application/x-ndjson") == 0);
    for (size_t at = 0; at < x->out.n;) {
        const char *line = x->out.data + at, *end = memchr(line, '\n', x->out.n - at);
        REQUIRE(end);
        const size_t n = (size_t)(end - line);
        if (events)
            check_line(line, n);
        else
            check_json(line, n, true);
        at += n + 1;
    }
}

static void check_reply(const exchange *x)
{
    REQUIRE(x->ready);
    if (x->streams) {
        check_stream(x);
        return;
    }
    REQUIRE(x->status == 200 || x->status == 400 || x->status == 404 || x->status == 503 || x->status == 429);
    check_json(x->out.data, x->out.n, true);
    if (x->status == 503) REQUIRE(!strstr(x->out.data, "out of memory"));
    if (x->status != 200) REQUIRE(strstr(x->out.data, "\"error\""));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!mock.m) mock_start(QN_SOURCE_DIR "/models/chat.gguf");
    if (size < 2) return 0;
    const char *body = (const char *)data + 2, *script = memchr(body, 1, size - 2);
    const size_t n = script ? (size_t)(script - body) : size - 2;
    if (script)
        mock_says(script + 1, size - 2 - n - 1);
    else
        mock_says(MOCK_SAID, strlen(MOCK_SAID));
    const int flags = data[1] & 7;
    exchange *x = mock_serve(mock_paths[data[0] % MOCK_PATHS], body, n, flags);
    REQUIRE(x);
    if (!(flags & MOCK_leaves) || !mock.n_requests) check_reply(x);
    mock_done(x);
    return 0;
}
