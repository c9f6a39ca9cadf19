/* SPDX-License-Identifier: MIT */
/* src/cli/serve.c -- quern serve: a model for clients over HTTP. */
#include "cli/model.h"
#include "cli/recording.h"
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
    .arguments = "[MODEL..]",
    .summary = "Answers clients of OpenAI's interface over HTTP, and of Anthropic's, Ollama's and llama-server's "
               "(docs/SERVE.md lists what there is). Listens on this machine alone unless told.",
    .notes = "Every client is served as if it were alone: the same request with the same seed gets the same answer, "
             "whoever else is there.\n"
             "One MODEL is loaded at once and stays. Several, or without one all that `quern list` shows, are loaded "
             "when a request names them, and unloaded when nobody has used them for a while.\n"
             "SIGINT and SIGTERM end it. SIGHUP reads keys, certificate and the list of models again.",
    .examples = "For programs of this machine, http://127.0.0.1:8080/v1:\nquern serve model.gguf\n"
                "For others, who need the key, with 16 streams at once that share 32768 tokens:\n"
                "quern serve model.gguf --host 0.0.0.0 --api-key-file keys.txt --parallel 16 -c 32768\n",
    .min_args = 0,
    .max_args = CLI_MAX_STRINGS,
};

typedef struct serve_command {
    const char *models[CLI_MAX_STRINGS];
    serve_named found[CLI_MAX_STRINGS];
    int n_models;
    const char *keep_alive;
    const char *host, *alias, *key_file, *template_name, *template_file, *max_body;
    int32_t port, n_ctx, n_batch, parallel, queue, threads_http, timeout, request_timeout, n_predict, grace;
    int32_t n_keep;
    bool no_auth, share_cache, no_cache, log_disable, lora_later, context_shift;
    cli_strings keys, allow_hosts, origins, stop;
    cli_sampling sampling;
    cli_model_options options;
    cli_recording recording;
    serve_key all_keys[CLI_MAX_STRINGS + 1024];
    int n_keys;
    char *key_text;
    const char *tls_cert, *tls_key;
    int32_t connections, per_address, per_key;
    bool log_prompts;
    char *template_source, *models_store;
    cli_engine_scratch scratch;
    serve_lora loras[CLI_MAX_STRINGS];
    char lora_paths[CLI_MAX_STRINGS][4096];
    const char *fixed[32];
    int n_fixed;
    serve_options o;
} serve_command;

/* Members of requests that the command line has decided: a model's own defaults for them do not count. */
static void note_fixed(serve_command *c, const cli_option *options, int n, int argc, char **argv)
{
    const char *name, *option;
    bool *given = calloc((size_t)n, sizeof(*given));
    if (given) cli_given(options, n, argc, argv, given);
    for (int i = 0; given && (name = cli_param_option(i, &option)); i++) {
        const cli_option *o = cli_find_option(options, n, option, strlen(option));
        if (o && given[o - options] && c->n_fixed < CLI_N(c->fixed)) c->fixed[c->n_fixed++] = name;
    }
    free(given);
}

static int parse(serve_command *c, int argc, char **argv)
{
    *c = (serve_command){.host = "127.0.0.1",
                         .port = 8080,
                         .n_predict = -1,
                         .timeout = 600,
                         .request_timeout = 60,
                         .grace = 30,
                         .per_address = -1,
                         .per_key = 256};
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
        {"tls-cert", 0, CLI_STRING, &c->tls_cert, "FILE", "speak TLS, with this certificate and what it rests on (PEM)",
         0, 0, NULL},
        {"tls-key", 0, CLI_STRING, &c->tls_key, "FILE", "its key (PEM)", 0, 0, NULL},
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
        {"max-connections", 0, CLI_INT, &c->connections, "N", "connections at once (default: 4096)", 1, 65536, NULL},
        {"connections-per-address", 0, CLI_INT, &c->per_address, "N",
         "of these, those of one address; 0: any number (default: 256, on this machine's own addresses 0)", 0, 65536,
         NULL},
        {"requests-per-key", 0, CLI_INT, &c->per_key, "N",
         "requests under way with one key; 0: any number (default: 256)", 0, 65536, NULL},
        CLI_OPTION_GROUP("Serving"),
        {"keep-alive", 0, CLI_STRING, &c->keep_alive, "TIME",
         "how long a model that nobody uses stays, such as 90s, 5m or 2h; -1: for ever (default: 5m, for ever with one "
         "MODEL)",
         0, 0, NULL},
        {"parallel", 0, CLI_INT, &c->parallel, "N", "answers of a model that are written at once (default: 8)", 1, 128,
         NULL},
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
        {"context-shift", 0, CLI_FLAG, &c->context_shift, NULL,
         "answers that fill the context go on, as far as they have a number of tokens to go to: the oldest half of "
         "what "
         "they see is left out",
         0, 0, NULL},
        {"keep", 0, CLI_INT, &c->n_keep, "N",
         "tokens of the prompt that are never left out, where a request doesn't say; -1: all (default: 0)", -1, 1 << 28,
         NULL},
        {"grace", 0, CLI_INT, &c->grace, "N",
         "seconds that answers under way may take when the server is ended (default: 30)", 0, 86400, NULL},
        {"log-disable", 0, CLI_FLAG, &c->log_disable, NULL, "no line a request on standard error", 0, 0, NULL},
        {"log-prompts", 0, CLI_FLAG, &c->log_prompts, NULL, "prompts and answers on standard error too", 0, 0, NULL},
        {"stop", 0, CLI_STRINGS, &c->stop, "STR", "end every answer before this text (may be repeated)", 0, 0, NULL},
        CLI_OPTION_GROUP("Model and machine"),
        CLI_MODEL_OPTIONS(c->options),
        {"lora-init-without-apply", 0, CLI_FLAG, &c->lora_later, NULL,
         "adapters of --lora act only for requests that say so, or once /lora-adapters is told", 0, 0, NULL},
        CLI_RECORDING_OPTIONS(c->recording),
        CLI_OPTION_GROUP("Choosing the next token, where a request doesn't say"),
    };
    cli_option options[CLI_N(own) + CLI_N_SAMPLING];
    memcpy(options, own, sizeof(own));
    cli_sampling_options(&c->sampling, options + CLI_N(own));
    const int status = cli_parse(&usage, options, CLI_N(options), argc, argv, c->models, &c->n_models);
    if (status >= 0) return status;
    if (c->template_name && c->template_file) return cli_bad_usage("a template was given twice");
    if (c->no_auth && (c->keys.n || c->key_file))
        return cli_bad_usage("--no-auth and --%s exclude each other", c->keys.n ? "api-key" : "api-key-file");
    if (c->lora_later && !c->options.lora.n) return cli_bad_usage("--lora-init-without-apply needs --lora LORA.gguf");
    if (c->alias && c->n_models != 1) return cli_bad_usage("--alias is for one MODEL");
    if (c->n_predict == 0) return cli_bad_usage("--n-predict: an answer of 0 tokens; -1: until the context is full");
    if (c->n_keep && !c->context_shift) return cli_bad_usage("--keep is for --context-shift");
    const int checked = cli_check_sampling(&c->sampling);
    if (checked != CLI_OK) return checked;
    note_fixed(c, options, CLI_N(options), argc, argv);
    return -1;
}

#ifdef QN_MICROHTTPD

/* A name in brackets is of the keys below it. */
static char *heading(char *line)
{
    const size_t n = strlen(line);
    if (n < 3 || *line != '[' || line[n - 1] != ']') return NULL;
    line[n - 1] = '\0';
    return line + 1;
}

/* One a line; empty ones and those that begin with # are passed over. */
static int read_keys(serve_command *c)
{
    size_t n;
    char *rest = NULL, *text = NULL, *name, *of = NULL;
    int n_keys = 0;
    for (int i = 0; i < c->keys.n; i++) {
        if (!*c->keys.item[i]) return cli_bad_usage("--api-key: the key is empty");
        c->all_keys[n_keys++] = (serve_key){c->keys.item[i], NULL};
    }
    if (c->key_file && !(text = cli_read_text(c->key_file, 1 << 20, &n))) return CLI_FAILED;
    free(c->key_text);
    c->key_text = text;
    for (char *line = text ? strtok_r(text, "\r\n", &rest) : NULL; line; line = strtok_r(NULL, "\r\n", &rest)) {
        if (*line == '#') continue;
        if ((name = heading(line))) {
            of = name;
            continue;
        }
        if (n_keys == CLI_N(c->all_keys)) return cli_fail("%s: more than %d keys", c->key_file, n_keys);
        c->all_keys[n_keys++] = (serve_key){line, of};
    }
    c->n_keys = n_keys;
    return n_keys || !c->key_file ? CLI_OK : cli_fail("%s: no key in it", c->key_file);
}

static bool is_loopback(const char *host)
{
    return strncmp(host, "127.", 4) == 0 || strcmp(host, "localhost") == 0 || strcmp(host, "::1") == 0;
}

/* The name of a file without folder and ending, where the model was named by its path. */
static char *public_name(const char *given, const char *path)
{
    const char *slash = strrchr(given, '/');
    const bool is_path = slash && strcmp(given, path) == 0;
    char *name = strdup(is_path ? slash + 1 : given);
    const size_t n = name ? strlen(name) : 0;
    if (n > 5 && strcmp(name + n - 5, ".gguf") == 0) name[n - 5] = '\0';
    return name;
}

static int find_models(serve_command *c)
{
    for (int i = 0; i < c->n_models; i++) {
        serve_named *m = &c->found[i];
        m->path = cli_model_path(c->models[i]);
        if (!m->path) return CLI_FAILED;
        m->found = cli_model_found(m->path);
        m->name = c->alias ? strdup(c->alias) : public_name(c->models[i], m->path);
        if (!m->name) return cli_no_memory("out of memory");
        for (int k = 0; k < i; k++)
            if (strcmp(c->found[k].name, m->name) == 0) return cli_bad_usage("two models are called %.200s", m->name);
    }
    return CLI_OK;
}

/* "90", "90s", "5m", "2h" into seconds; "-1": for ever. */
static bool parse_time(const char *text, int *seconds)
{
    static const struct {
        char unit;
        int seconds;
    } units[] = {{'s', 1}, {'m', 60}, {'h', 3600}};
    char copy[32];
    int64_t n;
    size_t len = strlen(text);
    int factor = 1;
    for (int i = 0; i < CLI_N(units) && len; i++)
        if (text[len - 1] == units[i].unit) factor = units[i].seconds;
    if (factor != 1 || (len && text[len - 1] == 's')) len--;
    if (len >= sizeof(copy)) return false;
    memcpy(copy, text, len);
    copy[len] = '\0';
    if (!cli_parse_int(copy, -1, 86400 * 365, &n)) return false;
    *seconds = n < 0 ? -1 : n > INT32_MAX / factor ? INT32_MAX : (int)n * factor;
    return true;
}

/* Where models are kept that clients make of others. */
static char *models_store(void)
{
    const char *data = getenv("XDG_DATA_HOME"), *home = getenv("HOME");
    char *path = NULL;
    if (data && *data == '/' && asprintf(&path, "%s/quern/models", data) > 0) return path;
    if (home && *home == '/' && asprintf(&path, "%s/.local/share/quern/models", home) > 0) return path;
    return NULL;
}

/* ---- for the server ---- */

static void log_line(const char *line) { cli_note("%s", line); }

static qn_store *open_store(void *ctx, qn_error *err)
{
    (void)ctx;
    return cli_open_new_store(err);
}

static const qn_sampler_params *make_sampler(void *ctx, const qn_tokenizer *tok, int32_t n_ctx, qn_error *err)
{
    const serve_command *c = ctx;
    cli_sampler_params *p = malloc(sizeof(*p));
    if (p && cli_sampling_params(&c->sampling, tok, n_ctx, p) == CLI_OK) return &p->params;
    *err = p ? (qn_error){.status = QN_STATUS_invalid, .text = "the options of sampling do not fit it"}
             : (qn_error){.status = QN_STATUS_nomem, .text = "out of memory"};
    free(p);
    return NULL;
}

static void free_sampler(const qn_sampler_params *params)
{
    cli_sampler_params *p = (cli_sampler_params *)params; /* its first member */
    cli_sampler_params_deinit(p);
    free(p);
}

static int size_option(const char *name, const char *text, uint64_t *out)
{
    if (!text || (cli_parse_size(text, out) && *out)) return CLI_OK;
    return cli_bad_usage("--%s: \"%.32s\" is no size; sizes are like 800K or 32M", name, text);
}

static int fill_options(serve_command *c)
{
    size_t n;
    serve_options *o = &c->o;
    *o = (serve_options){
        .host = c->host,
        .port = c->port,
        .models = c->found,
        .n_models = c->n_models,
        .ctx = c,
        .open_store = open_store,
        .models_store = c->models_store = models_store(),
        .keep_alive_s = c->n_models == 1 ? -1 : 300,
        .batcher = {.session = {.n_ctx = c->n_ctx, .n_batch = c->n_batch},
                    .n_parallel = c->parallel,
                    .n_queue = c->queue,
                    .no_cache = c->no_cache,
                    .share_cache = c->share_cache},
        .loras = c->loras,
        .template_name = c->template_name,
        .sampler = make_sampler,
        .sampler_free = free_sampler,
        .fixed = c->fixed,
        .n_fixed = c->n_fixed,
        .max_tokens = c->n_predict > 0 ? c->n_predict : 0,
        .context_shift = c->context_shift,
        .n_keep = c->n_keep,
        .stop = c->stop.item,
        .n_stop = c->stop.n,
        .keys = c->all_keys,
        .n_keys = c->n_keys,
        .allow_hosts = c->allow_hosts.item,
        .n_allow_hosts = c->allow_hosts.n,
        .origins = c->origins.item,
        .n_origins = c->origins.n,
        .requests_per_key = c->per_key,
        .connections = c->connections,
        .connections_per_address = c->per_address >= 0    ? c->per_address
                                   : is_loopback(c->host) ? 0
                                                          : 256,
        .tls_cert = c->tls_cert,
        .tls_key = c->tls_key,
        .log_prompts = c->log_prompts,
        .trace_last = c->recording.file && c->recording.last,
        .trace_tokens = !c->recording.no_tokens,
        .timeout_s = c->timeout,
        .request_timeout_s = c->request_timeout,
        .n_threads = c->threads_http,
        .log = c->log_disable ? NULL : log_line,
        .grace_ms = c->grace * 1000,
    };
    if (!c->tls_cert != !c->tls_key) return cli_bad_usage("--tls-cert and --tls-key belong together");
    int status = size_option("max-body", c->max_body, &o->max_body);
    if (status == CLI_OK && c->keep_alive && !parse_time(c->keep_alive, &o->keep_alive_s))
        status = cli_bad_usage("--keep-alive: \"%.32s\" is no time; times are like 90s, 5m, 2h or -1", c->keep_alive);
    for (int i = 0; i < c->options.lora.n && status == CLI_OK; i++) {
        status =
            cli_parse_lora(c->options.lora.item[i], c->lora_paths[i], sizeof(c->lora_paths[i]), &c->loras[i].scale);
        c->loras[i].path = c->lora_paths[i];
        if (c->lora_later) c->loras[i].scale = 0;
        o->n_loras = i + 1;
    }
    if (status == CLI_OK && o->n_loras && c->n_models != 1) status = cli_bad_usage("--lora is for one MODEL");
    if (status == CLI_OK) status = cli_engine_options(&c->options, &c->scratch, &o->engine);
    if (status == CLI_OK && o->engine.memory != QN_MEMORY_AUTO) { /* of all models in sum; the loader shares it out */
        o->memory = o->engine.memory;
        o->engine.memory = 0;
    }
    if (status == CLI_OK) status = cli_session_options(&c->options, &o->batcher.session);
    if (status == CLI_OK && c->template_file) {
        c->template_source = cli_read_text(c->template_file, 1 << 24, &n);
        o->template_source = c->template_source;
        if (!c->template_source) status = CLI_FAILED;
    }
    return status;
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

/* Milliseconds after which systemd ends a service that does not tell it that it is alive (WatchdogSec=); 0: it does not
 * ask. */
static int watchdog_ms(void)
{
    const char *usec = getenv("WATCHDOG_USEC"), *pid = getenv("WATCHDOG_PID");
    int64_t n, of;
    if (!usec || !cli_parse_int(usec, 2000, INT64_C(1000) * INT32_MAX, &n)) return 0;
    if (pid && (!cli_parse_int(pid, 1, INT32_MAX, &of) || of != getpid())) return 0;
    return (int)(n / 1000);
}

static void say_what(const serve_command *c, int port)
{
    const bool six = strchr(c->host, ':') != NULL;
    char what[300];
    if (c->n_models == 1)
        snprintf(what, sizeof(what), "%.250s is", c->found[0].name);
    else if (c->n_models)
        snprintf(what, sizeof(what), "%d models are", c->n_models);
    else
        snprintf(what, sizeof(what), "what `quern list` shows is");
    cli_note("%s served at %s://%s%s%s:%d", what, c->tls_cert ? "https" : "http", six ? "[" : "", c->host,
             six ? "]" : "", port);
}

static int serve_until_interrupted(serve_command *c)
{
    qn_error err;
    server *s = NULL;
    cli_catch_termination();
    if (serve_start(&c->o, &s, &err) != QN_OK) return cli_fail_error(&err);
    say_what(c, serve_port(s));
    notify("READY=1");
    (void)cli_hung_up();
    const int within = watchdog_ms();
    while (!cli_interrupted()) {
        if (within && serve_longest_step(s) * 1000 < within) notify("WATCHDOG=1");
        (void)poll(NULL, 0, within && within / 2 < 1000 ? within / 2 : 1000);
        if (!cli_hung_up()) continue;
        const int status = read_keys(c);
        serve_reload(s, c->all_keys, status == CLI_OK ? c->n_keys : 0);
    }
    notify("STOPPING=1");
    if (c->grace) cli_note("stops when what is under way has ended, in %d s at the latest", c->grace);
    serve_stop(s);
    return CLI_OK;
}

int cli_command_serve(int argc, char **argv)
{
    static serve_command c; /* large */
    int status = parse(&c, argc, argv);
    if (status >= 0) return status;
    status = read_keys(&c);
    if (status == CLI_OK && !is_loopback(c.host) && !c.n_keys && !c.no_auth)
        status = cli_bad_usage("--host %.64s can be reached from elsewhere: give --api-key, or say --no-auth", c.host);
    if (status == CLI_OK) status = fill_options(&c);
    if (status == CLI_OK) status = find_models(&c);
    /* the command's name alone: keys are no business of who reads the recording */
    if (status == CLI_OK) status = cli_recording_start(&c.recording, c.models, c.n_models == 1, 1, argv);
    if (status == CLI_OK) status = serve_until_interrupted(&c);
    status = cli_recording_stop(&c.recording, status);
    for (int i = 0; i < c.n_models; i++) free((void *)c.found[i].name);
    free(c.template_source);
    free(c.models_store);
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
