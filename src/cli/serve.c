/* SPDX-License-Identifier: MIT */
/* src/cli/serve.c -- quern serve: a model for clients over HTTP. */
#include "cli/model.h"
#include "cli/sampling.h"
#include "serve/serve.h"
#include <poll.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static const cli_usage usage = {
    .command = "serve",
    .arguments = "MODEL",
    .summary = "Answers clients of OpenAI's interface over HTTP, and of llama-server's (docs/SERVE.md lists what there "
               "is). Listens on this machine alone unless told.",
    .notes = "Every client is served as if it were alone: the same request with the same seed gets the same answer, "
             "whoever else is there.\n"
             "SIGINT and SIGTERM end it.",
    .examples = "For programs of this machine, http://127.0.0.1:8080/v1:\nquern serve model.gguf\n"
                "For others, who need the key, with 16 streams at once that share 32768 tokens:\n"
                "quern serve model.gguf --host 0.0.0.0 --api-key-file keys.txt --parallel 16 -c 32768\n",
    .min_args = 1,
    .max_args = 1,
};

typedef struct serve_command {
    const char *model, *host, *alias, *key_file, *template_name, *template_file, *max_body;
    int32_t port, n_ctx, n_batch, parallel, queue, threads_http, timeout, request_timeout, n_predict, grace;
    bool no_auth, share_cache, no_cache, log_disable;
    cli_strings keys, allow_hosts, origins, stop;
    cli_sampling sampling;
    cli_model_options options;
    const char *all_keys[CLI_MAX_STRINGS + 256];
    int n_keys;
    char *key_text;
    qn_engine *engine;
    qn_chat_template *tmpl;
    qn_batcher *batcher;
    cli_sampler_params params;
} serve_command;

static int parse(serve_command *c, int argc, char **argv)
{
    *c = (serve_command){
        .host = "127.0.0.1", .port = 8080, .n_predict = -1, .timeout = 600, .request_timeout = 60, .grace = 30};
    cli_sampling_init(&c->sampling);
    const cli_option own[] = {
        CLI_OPTION_GROUP("Who may come"),
        {"host", 0, CLI_STRING, &c->host, "NAME", "the address to listen on (default: 127.0.0.1)", 0, 0, NULL},
        {"port", 0, CLI_INT, &c->port, "N", "the port (default: 8080); 0: any that is free", 0, 65535, NULL},
        {"api-key", 0, CLI_STRINGS, &c->keys, "KEY",
         "clients must have this key (may be repeated); others of this machine can see it in the list of processes", 0,
         0, NULL},
        {"api-key-file", 0, CLI_STRING, &c->key_file, "FILE", "the keys that clients may have, one a line", 0, 0, NULL},
        {"no-auth", 0, CLI_FLAG, &c->no_auth, NULL, "let everybody in who reaches the address, without a key", 0, 0,
         NULL},
        {"allow-host", 0, CLI_STRINGS, &c->allow_hosts, "NAME",
         "a name that clients call this machine by (may be repeated); *: any", 0, 0, NULL},
        {"cors-origins", 0, CLI_STRINGS, &c->origins, "STR",
         "web pages of this origin, such as https://example.org, may use the server (may be repeated); *: all", 0, 0,
         NULL},
        {"max-body", 0, CLI_STRING, &c->max_body, "SIZE", "largest body of a request (default: 32M)", 0, 0, NULL},
        {"timeout", 0, CLI_INT, &c->timeout, "N",
         "seconds after which a client that reads nothing is left (default: 600)", 1, 86400, NULL},
        {"request-timeout", 0, CLI_INT, &c->request_timeout, "N",
         "seconds in which a request must have come; larger bodies get more (default: 60)", 1, 86400, NULL},
        CLI_OPTION_GROUP("Serving"),
        {"parallel", 0, CLI_INT, &c->parallel, "N", "answers that are written at once (default: 8)", 1, 128, NULL},
        {"queue", 0, CLI_INT, &c->queue, "N", "requests that may wait for that (default: 256)", 1, 1 << 20, NULL},
        {"ctx-size", 'c', CLI_INT, &c->n_ctx, "N",
         "context in tokens, shared by all (default: the model's, at most 8192)", 1, 1 << 28, NULL},
        {"batch-size", 'b', CLI_INT, &c->n_batch, "N", "tokens computed at once (default: 512)", 1, 1 << 20, NULL},
        {"share-cache", 0, CLI_FLAG, &c->share_cache, NULL,
         "what one key's prompts have in the cache helps other keys too; by the time it takes they can tell", 0, 0,
         NULL},
        {"no-cache-prompt", 0, CLI_FLAG, &c->no_cache, NULL, "keep nothing of prompts and answers", 0, 0, NULL},
        {"threads-http", 0, CLI_INT, &c->threads_http, "N", "threads that read requests (default: 2)", 1, 16, NULL},
        {"alias", 0, CLI_STRING, &c->alias, "NAME", "the name of the model to clients (default: that of its file)", 0,
         0, NULL},
        {"chat-template", 0, CLI_STRING, &c->template_name, "NAME",
         "another template of the file (tool_use, rag), or chatml, plain", 0, 0, NULL},
        {"chat-template-file", 0, CLI_STRING, &c->template_file, "FILE",
         "a template's source in the place of the model's", 0, 0, NULL},
        {"n-predict", 'n', CLI_INT, &c->n_predict, "N",
         "tokens of an answer where a request doesn't say; -1: until the context is full (default: -1)", -1, 1 << 28,
         NULL},
        {"grace", 0, CLI_INT, &c->grace, "N",
         "seconds that answers under way may take when the server is ended (default: 30)", 0, 86400, NULL},
        {"log-disable", 0, CLI_FLAG, &c->log_disable, NULL, "no line a request on standard error", 0, 0, NULL},
        {"stop", 0, CLI_STRINGS, &c->stop, "STR", "end every answer before this text (may be repeated)", 0, 0, NULL},
        CLI_OPTION_GROUP("Model and machine"),
        CLI_MODEL_OPTIONS(c->options),
        CLI_OPTION_GROUP("Choosing the next token, where a request doesn't say"),
    };
    cli_option options[CLI_N(own) + CLI_N_SAMPLING];
    int n_args = 0;
    memcpy(options, own, sizeof(own));
    cli_sampling_options(&c->sampling, options + CLI_N(own));
    const int status = cli_parse(&usage, options, CLI_N(options), argc, argv, &c->model, &n_args);
    if (status >= 0) return status;
    if (c->template_name && c->template_file) return cli_bad_usage("a template was given twice");
    const int checked = cli_check_sampling(&c->sampling);
    if (checked != CLI_OK) return checked;
    if (!c->alias) c->alias = c->model;
    c->model = cli_model_path(c->model);
    if (!c->model) return CLI_FAILED;
    return cli_model_defaults(cli_model_found(c->model), options, CLI_N(options), argc, argv);
}

#ifdef QN_MICROHTTPD

/* One a line; empty ones and those that begin with # are passed over. */
static int read_keys(serve_command *c)
{
    size_t n;
    char *rest = NULL;
    for (int i = 0; i < c->keys.n; i++) {
        if (!*c->keys.item[i]) return cli_bad_usage("--api-key: the key is empty");
        c->all_keys[c->n_keys++] = c->keys.item[i];
    }
    if (!c->key_file) return CLI_OK;
    c->key_text = cli_read_text(c->key_file, 1 << 20, &n);
    if (!c->key_text) return CLI_FAILED;
    for (char *line = strtok_r(c->key_text, "\r\n", &rest); line; line = strtok_r(NULL, "\r\n", &rest)) {
        if (*line == '#') continue;
        if (c->n_keys == CLI_N(c->all_keys)) return cli_fail("%s: more than %d keys", c->key_file, c->n_keys);
        c->all_keys[c->n_keys++] = line;
    }
    return c->n_keys ? CLI_OK : cli_fail("%s: no key in it", c->key_file);
}

static bool is_loopback(const char *host)
{
    return strncmp(host, "127.", 4) == 0 || strcmp(host, "localhost") == 0 || strcmp(host, "::1") == 0;
}

/* The name of a file without folder and ending, where the model was named by its path. */
static char *public_name(const serve_command *c)
{
    const char *slash = strrchr(c->alias, '/');
    const bool is_path = slash && strcmp(c->alias, c->model) == 0;
    char *name = strdup(is_path ? slash + 1 : c->alias);
    const size_t n = name ? strlen(name) : 0;
    if (n > 5 && strcmp(name + n - 5, ".gguf") == 0) name[n - 5] = '\0';
    return name;
}

static int load_template(serve_command *c)
{
    qn_error err;
    size_t n;
    if (!c->template_file)
        return qn_chat_template_load(qn_engine_file(c->engine), c->template_name, &c->tmpl, &err) == QN_OK
                   ? CLI_OK
                   : cli_fail_error(&err);
    char *source = cli_read_text(c->template_file, 1 << 24, &n);
    if (!source) return CLI_FAILED;
    const qn_status status = qn_chat_template_create(source, n, &c->tmpl, &err);
    free(source);
    return status == QN_OK ? CLI_OK : cli_fail("%s: %s", c->template_file, err.text);
}

static int load(serve_command *c)
{
    qn_error err;
    int status = cli_open_engine(c->model, &c->options, &c->engine);
    if (status == CLI_OK) status = load_template(c);
    qn_batcher_options o = {
        .session = {.n_ctx = c->n_ctx, .n_batch = c->n_batch},
        .n_parallel = c->parallel,
        .n_queue = c->queue,
        .no_cache = c->no_cache,
        .share_cache = c->share_cache,
    };
    if (status == CLI_OK) status = cli_session_options(&c->options, &o.session);
    if (status != CLI_OK) return status;
    qn_engine_info info;
    qn_engine_get_info(c->engine, &info);
    if (info.encoder) return CLI_OK; /* embeddings alone */
    if (qn_batcher_create(c->engine, &o, &c->batcher, &err) != QN_OK) return cli_fail_error(&err);
    return cli_sampling_params(&c->sampling, qn_engine_tokenizer(c->engine), qn_batcher_n_ctx(c->batcher), &c->params);
}

/* To systemd, where it started us (Type=notify): a line to the socket that it named. */
static void notify(const char *line)
{
    const char *path = getenv("NOTIFY_SOCKET");
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    const size_t n = path ? strlen(path) : 0;
    if (n < 2 || n >= sizeof(to.sun_path)) return;
    memcpy(to.sun_path, path, n);
    if (*path == '@') to.sun_path[0] = '\0'; /* a name that is in no file system */
    const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return;
    (void)sendto(fd, line, strlen(line), MSG_NOSIGNAL, (const struct sockaddr *)&to,
                 (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n));
    close(fd);
}

static void log_line(const char *line) { cli_note("%s", line); }

static int serve_until_interrupted(const serve_command *c, const char *name, uint64_t max_body)
{
    qn_error err;
    server *s = NULL;
    const serve_options o = {
        .host = c->host,
        .port = c->port,
        .model = name,
        .path = c->model,
        .keys = c->all_keys,
        .n_keys = c->n_keys,
        .allow_hosts = c->allow_hosts.item,
        .n_allow_hosts = c->allow_hosts.n,
        .origins = c->origins.item,
        .n_origins = c->origins.n,
        .max_body = max_body,
        .timeout_s = c->timeout,
        .request_timeout_s = c->request_timeout,
        .n_threads = c->threads_http,
        .sampler = &c->params.params,
        .tmpl = c->tmpl,
        .log = c->log_disable ? NULL : log_line,
        .grace_ms = c->grace * 1000,
        .max_tokens = c->n_predict > 0 ? c->n_predict : 0,
        .stop = c->stop.item,
        .n_stop = c->stop.n,
    };
    cli_catch_termination();
    if (serve_start(c->engine, c->batcher, &o, &s, &err) != QN_OK) return cli_fail_error(&err);
    const bool six = strchr(c->host, ':') != NULL;
    cli_note("%s is served at http://%s%s%s:%d", name, six ? "[" : "", c->host, six ? "]" : "", serve_port(s));
    notify("READY=1");
    while (!cli_interrupted()) (void)poll(NULL, 0, 1000);
    notify("STOPPING=1");
    if (c->grace) cli_note("stops when what is under way has ended, in %d s at the latest", c->grace);
    serve_stop(s);
    return CLI_OK;
}

int cli_command_serve(int argc, char **argv)
{
    serve_command c;
    uint64_t max_body = 0;
    int status = parse(&c, argc, argv);
    if (status >= 0) return status;
    status = CLI_OK;
    if (c.max_body && (!cli_parse_size(c.max_body, &max_body) || max_body == 0))
        status = cli_bad_usage("--max-body: \"%.32s\" is no size; sizes are like 800K or 32M", c.max_body);
    if (status == CLI_OK) status = read_keys(&c);
    if (status == CLI_OK && !is_loopback(c.host) && !c.n_keys && !c.no_auth)
        status = cli_bad_usage("--host %.64s can be reached from elsewhere: give --api-key, or say --no-auth", c.host);
    char *name = status == CLI_OK ? public_name(&c) : NULL;
    if (status == CLI_OK && !name) status = cli_no_memory("out of memory");
    if (status == CLI_OK) status = load(&c);
    if (status == CLI_OK) status = serve_until_interrupted(&c, name, max_body);
    cli_sampler_params_deinit(&c.params);
    qn_batcher_destroy(c.batcher);
    qn_chat_template_destroy(c.tmpl);
    qn_engine_close(c.engine);
    free(name);
    free(c.key_text);
    return status;
}

#else

int cli_command_serve(int argc, char **argv)
{
    serve_command c;
    const int status = parse(&c, argc, argv);
    if (status >= 0) return status;
    return cli_fail("this quern was built without libmicrohttpd, which serving needs (libmicrohttpd-dev)");
}

#endif
