/* SPDX-License-Identifier: MIT */
/* src/cli/ps.c -- quern ps, quern stop: the models that a running `quern serve` has loaded. */
#include "cli/card.h"
#include "cli/client.h"
#include <string.h>
#include <time.h>

static const cli_usage ps_usage = {
    .command = "ps",
    .arguments = "",
    .summary = "Lists the models that a running `quern serve` has loaded: what they take, their context, the answers "
               "that they write, how fast, and until when they stay.",
    .examples = "Of this machine's server:\nquern ps\n"
                "Of another one:\nquern ps --host https://example.org --api-key KEY\n",
    .min_args = 0,
    .max_args = 0,
};

static const cli_usage stop_usage = {
    .command = "stop",
    .arguments = "NAME",
    .summary = "Unloads a model of a running `quern serve`. Answers under way end first; a request that names the "
               "model later loads it again.",
    .examples = "By its name:\nquern stop llama3.2\n",
    .min_args = 1,
    .max_args = 1,
};

static int64_t integer(const json_t *o, const char *name) { return json_integer_value(json_object_get(o, name)); }

/* "2026-11-23T17:33:51Z" as the time that is left. */
static const char *until(const json_t *o, char *buf, size_t size)
{
    struct tm t = {0};
    const char *when = json_string_value(json_object_get(o, "expires_at"));
    if (json_is_true(json_object_get(o, "stays"))) return "for ever";
    if (!when || !strptime(when, "%Y-%m-%dT%H:%M:%S", &t)) return "-";
    const long long left = (long long)timegm(&t) - (long long)time(NULL);
    if (left <= 0)
        snprintf(buf, size, "now");
    else if (left < 120)
        snprintf(buf, size, "in %lld s", left);
    else if (left < 7200)
        snprintf(buf, size, "in %lld min", left / 60);
    else
        snprintf(buf, size, "in %lld h", left / 3600);
    return buf;
}

static void print_model(const json_t *o, int width)
{
    char size[32], left[32], rate[32] = "-";
    const char *name = json_string_value(json_object_get(o, "name"));
    const double speed = json_number_value(json_object_get(o, "tokens_per_second"));
    cli_print_bytes(size, sizeof(size), (uint64_t)integer(o, "size"));
    if (speed > 0) snprintf(rate, sizeof(rate), "%.1f", speed);
    printf("%-*s  %10s  %8lld  %7lld  %8s  %s\n", width, name ? name : "?", size,
           (long long)integer(o, "context_length"), (long long)integer(o, "streams"), rate,
           until(o, left, sizeof(left)));
}

static int print_list(const json_t *list)
{
    const json_t *o;
    size_t i;
    int width = 4;
    json_array_foreach(list, i, o)
    {
        const int n = (int)json_string_length(json_object_get(o, "name"));
        if (n > width) width = n;
    }
    if (json_array_size(list) == 0)
        cli_note("no model is loaded");
    else
        printf("%-*s  %10s  %8s  %7s  %8s  %s\n", width, "NAME", "SIZE", "CONTEXT", "STREAMS", "TOKENS/S", "UNTIL");
    json_array_foreach(list, i, o) print_model(o, width);
    return cli_finish_output();
}

static int print_json(const json_t *value)
{
    if (json_dumpf(value, stdout, JSON_INDENT(1)) != 0) return cli_fail("cannot write the JSON text");
    putchar('\n');
    return cli_finish_output();
}

int cli_command_ps(int argc, char **argv)
{
    bool json = false;
    cli_server server = {0};
    const cli_option options[] = {
        {"json", 0, CLI_FLAG, &json, NULL, "everything as JSON", 0, 0, NULL},
        CLI_SERVER_OPTIONS(server),
    };
    int n_args = 0;
    json_t *reply = NULL;
    int status = cli_parse(&ps_usage, options, CLI_N(options), argc, argv, NULL, &n_args);
    if (status >= 0) return status;
    status = cli_request(&server, "/api/ps", NULL, &reply);
    const json_t *list = json_object_get(reply, "models");
    if (status == CLI_OK && !json_is_array(list)) status = cli_fail("what answers there is no server of ours");
    if (status == CLI_OK) status = json ? print_json(list) : print_list(list);
    json_decref(reply);
    return status;
}

int cli_command_stop(int argc, char **argv)
{
    const char *name = NULL;
    bool json = false;
    cli_server server = {0};
    const cli_option options[] = {
        {"json", 0, CLI_FLAG, &json, NULL, "what the server says, as JSON", 0, 0, NULL},
        CLI_SERVER_OPTIONS(server),
    };
    int n_args = 0;
    json_t *reply = NULL;
    int status = cli_parse(&stop_usage, options, CLI_N(options), argc, argv, &name, &n_args);
    if (status >= 0) return status;
    json_t *body = json_pack("{s:s}", "model", name);
    if (!body) return cli_bad_usage("\"%.64s\" is no name of a model", name);
    status = cli_request(&server, "/models/unload", body, &reply);
    if (status == CLI_OK && json) status = print_json(reply);
    json_decref(reply);
    return status;
}
