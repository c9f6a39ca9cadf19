/* SPDX-License-Identifier: MIT */
/* src/cli/train.c -- quern train: texts to a model, step by step, with what can be seen of it on the way. */
#include "cli/train.h"
#include "cli/recording.h"
#include "cli/source.h"
#include <errno.h>
#include <math.h>
#include <quern/machine.h>
#include <quern/train.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAX_TEXT_BYTES ((size_t)512 << 20)
enum { MAX_TEXTS = 1024, MAX_SPECIAL = 256 };

static const cli_usage usage = {
    .command = "train",
    .arguments = "[TEXT...]",
    .summary = "Trains a language model and its vocabulary from text or conversations, and writes it as GGUF.",
    .notes =
        "The end of each text is held out; the weights of the best evaluation are written.\n"
        "Of conversations (--chat; a line is {\"messages\": [..], \"tools\": [..]} as OpenAI's) what the assistant "
        "says "
        "is learnt, with the token that ends its turn. One longer than --ctx ends with its last turn that fits.\n"
        "A configuration file has the same options, one \"name = value\" a line, and \"text = FILE\"; what stands on "
        "the command line counts more.\n"
        "The same options and texts give the same model, whatever the threads and wherever a run with --checkpoint was "
        "interrupted and went on with --resume.",
    .examples = "A model of your own:\nquern train plays.txt -o plays.gguf --steps 1000 --curve loss.svg\n"
                "The same, in parts:\nquern train plays.txt -o plays.gguf --checkpoint plays.ckpt --resume\n"
                "A model that answers:\n"
                "quern train --chat talks.jsonl -o chat.gguf\n"
                "An adapter for a model that is there:\nquern train letters.txt --lora base.gguf -o adapter.gguf\n",
    .max_args = MAX_TEXTS,
};

/* QN_TRAIN_ROWS in order: whether each was given. */
enum {
/* clang-format off */
#define ROW(type, field, ...) GIVEN_##field,
    QN_TRAIN_ROWS(ROW)
#undef ROW
    N_ROWS
    /* clang-format on */
};

typedef struct command {
    qn_train_options train;
    qn_lora_options lora; /* base is NULL: a model from nothing */
    bool given[N_ROWS];
    cli_strings texts, chats;
    const char *special, *user_defined, *eos_token, *chat_template;
    const char *config, *out, *type, *name, *checkpoint, *log, *curve, *cpu, *device;
    int32_t checkpoint_every, eval_every, patience, threads;
    bool resume;
    cli_recording recording;
} command;

typedef struct run {
    const command *c;
    qn_trainer *trainer;
    qn_train_info info;
    train_log log;
    bool on_terminal, shown;
    bool lost_log, lost_curve;            /* could not be written: the training goes on without */
    bool lost_checkpoint, checkpoint_due; /* one could not be written; nor could the latest */
    int32_t kept_step;                    /* that the checkpoint has; 0: there is none */
    double peak;                          /* operations a second; 0: not measured */
    int64_t start_ns, shown_ns, pause_ns; /* pause: spent on evaluations and files */
    int32_t first_step, shown_step;
    double held; /* the last evaluation */
} run;

/* ---- options ---- */

static int fill_options(command *c, cli_option *o)
{
#define KIND_int   CLI_INT
#define KIND_float CLI_FLOAT
#define KIND_flag  CLI_FLAG
#define ARG_int    "N"
#define ARG_float  "X"
#define ARG_flag   NULL
#define ROW(type, field, name, value, lo, hi, same, text) \
    {name, \
     0, \
     KIND_##type, \
     &c->train.field, \
     ARG_##type, \
     (value) != 0 ? text " (default: " #value ")" : text, \
     lo, \
     hi, \
     &c->given[GIVEN_##field]},
    const cli_option rows[] = {
        {"config", 0, CLI_STRING, &c->config, "FILE", "read options from a file", 0, 0, NULL},
        {"text", 0, CLI_STRINGS, &c->texts, "FILE", "a text, as the arguments are", 0, 0, NULL},
        {"chat", 0, CLI_STRINGS, &c->chats, "FILE", "conversations, one a line as JSON, instead of texts", 0, 0, NULL},
        {"chat-template", 0, CLI_STRING, &c->chat_template, "FILE",
         "Jinja of the model's conversations (default with --chat: ChatML, or that of the base)", 0, 0, NULL},
        {"special", 0, CLI_STRING, &c->special, "LIST",
         "control tokens of the vocabulary, such as \"<|im_start|>,<|im_end|>\" (default with --chat: those two)", 0, 0,
         NULL},
        {"user-defined", 0, CLI_STRING, &c->user_defined, "LIST",
         "the same for tokens that are shown, and found in any text, such as \"<think>,</think>\"", 0, 0, NULL},
        {"eos-token", 0, CLI_STRING, &c->eos_token, "TOKEN",
         "which of them ends a text or a turn (default: </s>; with --chat and ChatML: <|im_end|>)", 0, 0, NULL},
        {"output", 'o', CLI_OUTPUT, &c->out, "OUT.gguf", "the model to write", 0, 0, NULL},
        {"type", 0, CLI_STRING, &c->type, "TYPE",
         "type of its weights (default: F16); with --lora F32 (default), F16 or BF16", 0, 0, NULL},
        {"name", 0, CLI_STRING, &c->name, "NAME", "the model's name", 0, 0, NULL},
        {"arch", 0, CLI_STRING, &c->train.arch, "TRAIN_ARCH", "its architecture (default: llama)", 0, 0, NULL},
        QN_TRAIN_ROWS(ROW){"lora", 0, CLI_STRING, &c->lora.base, "BASE.gguf",
                           "train a low-rank adapter for this model, of any type, and write that", 0, 0, NULL},
        {"lora-r", 0, CLI_INT, &c->lora.rank, "N", "rank of its matrices (default: 8)", 1, 65536, NULL},
        {"lora-alpha", 0, CLI_FLOAT, &c->lora.alpha, "X",
         "a layer adds X / rank times their product (default: twice the rank)", 1e-6, 1e6, NULL},
        {"lora-targets", 0, CLI_STRING, &c->lora.targets, "LIST",
         "layers that get one, such as *.attn_q,*.attn_v (default: blk.*)", 0, 0, NULL},
        CLI_STORE_OPTIONS,
        {"seed", 's', CLI_U64, &c->train.seed, "S", "of weights, order and dropout (default: 0)", 0, 0, NULL},
        {"eval-every", 0, CLI_INT, &c->eval_every, "N", "steps between evaluations (default: a twentieth of all)", 1,
         1e9, NULL},
        {"patience", 0, CLI_INT, &c->patience, "N", "end after so many evaluations without a better one", 1, 1e9, NULL},
        {"checkpoint", 0, CLI_OUTPUT, &c->checkpoint, "FILE", "where to save what is needed to go on", 0, 0, NULL},
        {"checkpoint-every", 0, CLI_INT, &c->checkpoint_every, "N",
         "steps between checkpoints (default: as evaluations)", 1, 1e9, NULL},
        {"resume", 0, CLI_FLAG, &c->resume, NULL, "go on from the checkpoint if there is one", 0, 0, NULL},
        {"log", 0, CLI_OUTPUT, &c->log, "FILE", "every step as CSV", 0, 0, NULL},
        {"curve", 0, CLI_OUTPUT, &c->curve, "FILE", "the curve of the loss as SVG", 0, 0, NULL},
        {"threads", 't', CLI_INT, &c->threads, "N", "threads (default: all that make sense)", 1, 256, NULL},
        {"cpu", 0, CLI_STRING, &c->cpu, "LEVEL", "use at most this CPU level", 0, 0, NULL},
        {"device", 0, CLI_STRING, &c->device, "DEVICE",
         "train on this device, such as opencl:0 (`quern doctor` lists them); what it has no kernel for, the processor "
         "computes",
         0, 0, NULL},
        CLI_RECORDING_OPTIONS(c->recording),
    };
#undef ROW
    if (o) memcpy(o, rows, sizeof rows);
    return CLI_N(rows);
}
enum { MAX_OPTIONS = N_ROWS + 40 };

/* A 0 that was typed means 0, not the default: the options struct says that with a negative number. */
static void say_zeros(command *c)
{
#define ZERO_int(field)
#define ZERO_flag(field)
#define ZERO_float(field) \
    if (c->given[GIVEN_##field] && c->train.field == 0) c->train.field = -1;
#define ROW(type, field, ...) ZERO_##type(field)
    QN_TRAIN_ROWS(ROW)
#undef ROW
}

static int parse(command *c, int argc, char **argv, const char **args, int *n_args, char **config_text)
{
    cli_option options[MAX_OPTIONS];
    const int n = fill_options(c, options);
    int status = cli_parse(&usage, options, n, argc, argv, args, n_args);
    if (status >= 0) return status;
    if (c->config) {
        const char *config = c->config;
        *c = (command){0};
        status = cli_parse_file(config, options, n, config_text);
        if (status < 0) status = cli_parse(&usage, options, n, argc, argv, args, n_args);
        if (status >= 0) return status;
    }
    for (int i = 0; i < c->texts.n && *n_args < MAX_TEXTS; i++) args[(*n_args)++] = c->texts.item[i];
    if (*n_args > 0 && c->chats.n > 0) return cli_bad_usage("texts and --chat cannot be learnt from in one training");
    for (int i = 0; i < c->chats.n; i++) args[(*n_args)++] = c->chats.item[i];
    if (*n_args == 0) return cli_bad_usage("no text is given; usage: quern train TEXT... -o OUT.gguf [options]");
    if (!c->out) return cli_bad_usage("-o OUT.gguf is missing; usage: quern train TEXT... -o OUT.gguf [options]");
    if (!c->lora.base && (c->lora.rank || c->lora.alpha != 0 || c->lora.targets))
        return cli_bad_usage("--lora-r, --lora-alpha and --lora-targets need --lora BASE.gguf");
    qn_dtype type;
    if (c->lora.base && c->type &&
        (!qn_dtype_find(c->type, &type) || (type != QN_DTYPE_F32 && type != QN_DTYPE_F16 && type != QN_DTYPE_BF16)))
        return cli_bad_usage("--type: \"%.32s\": an adapter is F32 (default), F16 or BF16", c->type);
    if (c->recording.phase || c->recording.tokens)
        return cli_bad_usage("--trace-phase and --trace-tokens choose steps of a run; a training has none of these");
    if (c->checkpoint_every && !c->checkpoint) return cli_bad_usage("--checkpoint-every needs --checkpoint FILE");
    if (c->patience && c->given[GIVEN_eval_fraction] && c->train.eval_fraction <= 0)
        return cli_bad_usage("--patience counts evaluations: with --eval-fraction 0 there are none");
    if (c->resume && !c->checkpoint) return cli_bad_usage("--resume needs --checkpoint FILE");
    struct stat st;
    if (c->checkpoint && !c->resume && stat(c->checkpoint, &st) == 0 && S_ISREG(st.st_mode))
        return cli_bad_usage("--checkpoint: %s is there: --resume goes on with it, or name another file",
                             c->checkpoint);
    if (c->lora.base && !(c->lora.base = cli_model_path(c->lora.base))) return CLI_FAILED;
    say_zeros(c);
    return -1;
}

/* Hours of training must not end at a folder that is not there, or at a folder where a file is to be. */
static int check_writable(const char *path)
{
    char folder[4096];
    if (!path) return CLI_OK;
    const char *slash = strrchr(path, '/');
    if (strlen(path) >= sizeof folder) return cli_fail("%.64s...: the path is too long", path);
    snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - path + 1) : 1, slash ? path : ".");
    struct stat st;
    const bool there = stat(path, &st) == 0;
    errno = 0;
    if (there && S_ISDIR(st.st_mode)) errno = EISDIR;
    if (!errno && access(folder, W_OK) == 0 && (!there || access(path, W_OK) == 0)) return CLI_OK;
    return cli_fail("cannot write %s: %s", path, strerror(errno));
}

/* ---- the trainer ---- */

/* The tokens of a list, cut in place. -1 when there are too many. */
static int split_list(char *list, qn_token_kind kind, qn_special_token *out, int n)
{
    for (char *p = list; p; n++) {
        char *comma = strchr(p, ',');
        if (n == MAX_SPECIAL) return -1;
        if (comma) *comma++ = '\0';
        out[n] = (qn_special_token){p, kind};
        p = comma;
    }
    return n;
}

/* What the texts are beside their bytes; freed with free_shape. */
typedef struct text_shape {
    char *special, *user_defined, *chat_template;
    qn_special_token tokens[MAX_SPECIAL];
} text_shape;

static void free_shape(text_shape *s)
{
    free(s->special);
    free(s->user_defined);
    free(s->chat_template);
}

static int read_shape(const command *c, text_shape *s, qn_train_corpus *out)
{
    size_t len;
    if (c->special && !(s->special = strdup(c->special))) return cli_no_memory("out of memory");
    if (c->user_defined && !(s->user_defined = strdup(c->user_defined))) return cli_no_memory("out of memory");
    int n = split_list(s->special, QN_TOKEN_control, s->tokens, 0);
    if (n >= 0) n = split_list(s->user_defined, QN_TOKEN_user, s->tokens, n);
    if (n < 0) return cli_fail("more than %d special tokens", MAX_SPECIAL);
    if (c->chat_template) {
        s->chat_template = cli_read_text(c->chat_template, MAX_TEXT_BYTES, &len);
        if (!s->chat_template) return CLI_FAILED;
        if (strlen(s->chat_template) != len) return cli_fail("%s: a NUL byte in a template", c->chat_template);
    }
    out->chat = c->chats.n > 0;
    out->chat_template = s->chat_template;
    out->special = s->tokens;
    out->n_special = n;
    out->eos = c->eos_token;
    return CLI_OK;
}

static int create(run *r, const char *const *paths, int n)
{
    qn_gguf_str *texts = calloc((size_t)n, sizeof *texts);
    if (!texts) return cli_no_memory("out of memory");
    qn_train_corpus corpus = {.texts = texts, .n_texts = (size_t)n, .names = paths};
    text_shape shape = {0};
    int status = read_shape(r->c, &shape, &corpus);
    char backend[128];
    qn_error err;
    for (int i = 0; i < n && status == CLI_OK; i++) {
        texts[i].data = cli_read_text(paths[i], MAX_TEXT_BYTES, &texts[i].len);
        if (!texts[i].data)
            status = CLI_FAILED;
        else if (texts[i].len == 0)
            status = cli_fail("%s is empty", paths[i]);
    }
    qn_train_options o = r->c->train;
    o.n_threads = r->c->threads;
    if (r->c->cpu || r->c->device) {
        snprintf(backend, sizeof backend, "%.60s%scpu%s%.40s", r->c->device ? r->c->device : "",
                 r->c->device ? "," : "", r->c->cpu ? ":" : "", r->c->cpu ? r->c->cpu : "");
        o.backend = backend;
    }
    if (r->c->device && r->c->lora.base && status == CLI_OK)
        status = cli_fail("--device: an adapter is trained where its base is mapped, by the processor");
    if (status == CLI_OK &&
        qn_trainer_create_corpus(&o, r->c->lora.base ? &r->c->lora : NULL, &corpus, &r->trainer, &err) != QN_OK)
        status = cli_fail_error(&err);
    free_shape(&shape);
    for (int i = 0; i < n; i++) free((char *)texts[i].data);
    free(texts);
    if (status == CLI_OK && r->c->resume && access(r->c->checkpoint, F_OK) == 0 &&
        qn_trainer_load(r->trainer, r->c->checkpoint, &err) != QN_OK)
        status = cli_fail_error(&err);
    return status;
}

/* ---- what is seen of it ---- */

static void clear_line(run *r)
{
    if (r->shown) fprintf(stderr, "\r\033[K");
    r->shown = false;
}

/* "12k", "3.4M" */
static const char *count(char *buf, size_t size, double n)
{
    if (n < 1e4)
        snprintf(buf, size, "%.0f", n);
    else if (n < 1e6)
        snprintf(buf, size, "%.1fk", n * 1e-3);
    else
        snprintf(buf, size, "%.2fM", n * 1e-6);
    return buf;
}

static void say_start(const run *r)
{
    const qn_train_info *i = &r->info;
    const qn_train_options *o = qn_trainer_options(r->trainer);
    char a[32], b[32], d[32];
    fprintf(stderr,
            "%s parameters, vocabulary of %d; %s tokens to learn from, %s held out; %d steps of %d x %d tokens (%d an "
            "epoch)\n",
            count(a, sizeof a, (double)i->n_params), i->n_vocab, count(b, sizeof b, (double)i->n_tokens),
            count(d, sizeof d, (double)i->n_held_tokens), i->n_steps, o->n_batch * o->n_accum, o->n_ctx,
            i->steps_per_epoch);
    if (i->n_conversations)
        fprintf(stderr, "%s conversations and %s held out; %.0f %% of %s tokens are the assistant's\n",
                count(a, sizeof a, (double)i->n_conversations), count(b, sizeof b, (double)i->n_held_conversations),
                100 * (double)i->n_tokens / (double)i->n_fed, count(d, sizeof d, (double)i->n_fed));
    if (i->n_cut + i->n_left_out)
        fprintf(stderr, "longer than %d tokens: %lld end early, %lld whose first answer does not fit are left out\n",
                o->n_ctx, (long long)i->n_cut, (long long)i->n_left_out);
    if (i->step) fprintf(stderr, "going on after step %d\n", i->step);
}

/* The parts of a line about a step, in their order; the bar stands before the loss. */
typedef struct step_text {
    char step[32], loss[32], held[48], tokens[48], peak[32], left[32];
} step_text;

/* On one line of the terminal, for a line that wraps could not be overwritten: the bar gets shorter, then what can be
 * spared goes. */
static void show_line(step_text *t, double done)
{
    enum { BAR = 20, GOOD_BAR = 8, LEAST_BAR = 3, UNKNOWN = 80 };
    char *const spare[] = {t->peak, t->tokens, t->held};
    char bar[BAR + 1] = "", line[256];
    const int columns = cli_columns(STDERR_FILENO), width = columns ? columns : UNKNOWN;
    int room = width - 1 - (int)strlen(" []");
    room -= (int)(strlen(t->step) + strlen(t->loss) + strlen(t->left));
    for (int i = 0; i < CLI_N(spare); i++) room -= (int)strlen(spare[i]);
    for (int i = 0; i < CLI_N(spare) && room < GOOD_BAR; i++) {
        room += (int)strlen(spare[i]);
        *spare[i] = '\0';
    }
    const int wide = room > BAR ? BAR : room;
    if (wide >= LEAST_BAR) {
        memset(bar, ' ', (size_t)wide);
        memset(bar, '=', (size_t)(done * wide));
    }
    snprintf(line, sizeof line, wide >= LEAST_BAR ? "%s [%s]%s%s%s%s%s" : "%s%s%s%s%s%s%s", t->step, bar, t->loss,
             t->held, t->tokens, t->peak, t->left);
    fprintf(stderr, "\r%.*s\033[K", width - 1, line);
}

static void say_step(run *r, const qn_train_step *s, bool plain)
{
    const int64_t now = cli_now_ns();
    if (!plain && (!r->on_terminal || now - r->shown_ns < 100000000)) return;
    const qn_train_options *o = qn_trainer_options(r->trainer);
    const double seconds = (double)(now - r->start_ns - r->pause_ns) * 1e-9, steps = s->step - r->first_step;
    const double rate = steps / fmax(seconds, 1e-9), left = (s->n_steps - s->step) / rate;
    step_text t = {0};
    char tokens[32];
    count(tokens, sizeof tokens, rate * o->n_batch * o->n_accum * o->n_ctx);
    snprintf(t.step, sizeof t.step, "step %d/%d", s->step, s->n_steps);
    snprintf(t.loss, sizeof t.loss, plain ? " loss %.4f" : " loss %.3f", s->loss);
    if (!isnan(r->held))
        snprintf(t.held, sizeof t.held, plain ? ", held out %.4f bits/byte" : ", held out %.3f b/B", r->held);
    snprintf(t.tokens, sizeof t.tokens, ", %s tokens/s", tokens);
    if (r->peak > 0)
        snprintf(t.peak, sizeof t.peak, ", %.0f %% of peak", 100 * rate * r->info.flops_per_step / r->peak);
    snprintf(t.left, sizeof t.left, ", %d:%02d left", (int)left / 60, (int)left % 60);
    if (plain) {
        clear_line(r);
        fprintf(stderr, "%s%s%s%s%s%s\n", t.step, t.loss, t.held, t.tokens, t.peak, t.left);
    } else {
        show_line(&t, (double)s->step / s->n_steps);
    }
    fflush(stderr);
    r->shown = !plain;
    r->shown_ns = now;
}

/* ---- steps ---- */

static int evaluate(run *r)
{
    qn_train_eval eval;
    qn_error err;
    if (qn_trainer_evaluate(r->trainer, &eval, &err) != QN_OK) return cli_fail_error(&err);
    r->held = eval.bits_per_byte;
    return CLI_OK;
}

/* A disk that is full for a while must not cost what was learnt: that is said once, and the next one is tried. */
static void save(run *r)
{
    qn_error err;
    qn_train_info i;
    if (!r->c->checkpoint) return;
    if (qn_trainer_save(r->trainer, r->c->checkpoint, &err) == QN_OK) {
        qn_trainer_get_info(r->trainer, &i);
        r->kept_step = i.step;
        r->checkpoint_due = false;
        return;
    }
    if (!r->lost_checkpoint) {
        clear_line(r);
        (void)cli_fail_error(&err);
        cli_note("the checkpoint could not be written; the training goes on, and the next one will be tried");
    }
    r->lost_checkpoint = r->checkpoint_due = true;
}

static void draw(run *r)
{
    char title[160];
    const qn_train_info *i = &r->info;
    if (!r->c->curve || r->lost_curve) return;
    snprintf(title, sizeof title, "%s: %.2f M parameters, vocabulary of %d", r->c->name ? r->c->name : "training",
             (double)i->n_params * 1e-6, i->n_vocab);
    r->lost_curve =
        train_draw(&r->log, r->c->curve, title, (double)i->n_tokens / (double)i->n_bytes / log(2)) != CLI_OK;
}

static int32_t eval_every(const run *r) { return r->c->eval_every ? r->c->eval_every : (r->info.n_steps + 19) / 20; }

/* One step and all that is due after it. */
static int advance(run *r)
{
    const command *c = r->c;
    const int32_t twentieth = (r->info.n_steps + 19) / 20,
                  save_every = c->checkpoint_every ? c->checkpoint_every : eval_every(r);
    qn_train_step s;
    qn_error err;
    if (qn_trainer_step(r->trainer, &s, &err) != QN_OK) return cli_fail_error(&err);
    const int64_t before = cli_now_ns();
    const bool last = s.step == s.n_steps,
               eval_due = r->info.n_held_tokens > 0 && (s.step % eval_every(r) == 0 || last);
    int status = eval_due ? evaluate(r) : CLI_OK;
    if (status == CLI_OK && !r->lost_log)
        r->lost_log =
            train_log_add(&r->log, &(train_row){s.step, s.lr, s.loss, s.grad_norm, eval_due ? r->held : NAN}) != CLI_OK;
    const bool stop = cli_interrupted(); /* asked once: what comes after this is for the next step */
    if (status == CLI_OK && (s.step % save_every == 0 || last || stop)) save(r);
    if (status == CLI_OK && eval_due) draw(r);
    r->pause_ns += cli_now_ns() - before;
    if (status == CLI_OK) say_step(r, &s, eval_due || s.step % twentieth == 0 || last);
    return status == CLI_OK && stop ? CLI_INTERRUPTED : status;
}

/* From steps alone, so that a run that was interrupted ends where it would have. */
static bool out_of_patience(const run *r)
{
    qn_train_info i;
    qn_trainer_get_info(r->trainer, &i);
    return r->c->patience && i.best_step && i.step / eval_every(r) - i.best_step / eval_every(r) >= r->c->patience;
}

static void say_interrupted(const run *r)
{
    qn_train_info i;
    qn_trainer_get_info(r->trainer, &i);
    if (r->checkpoint_due && r->kept_step)
        cli_note("interrupted after step %d of %d; %s could not be written since, and keeps step %d", i.step, i.n_steps,
                 r->c->checkpoint, r->kept_step);
    else if (r->checkpoint_due)
        cli_note("interrupted after step %d of %d; nothing of it is kept: %s could not be written", i.step, i.n_steps,
                 r->c->checkpoint);
    else if (r->c->checkpoint)
        cli_note("interrupted; %s keeps step %d of %d: the same command with --resume goes on from there",
                 r->c->checkpoint, i.step, i.n_steps);
    else
        cli_note("interrupted after step %d of %d; nothing of it is kept: --checkpoint FILE would keep it", i.step,
                 i.n_steps);
}

static int train(run *r)
{
    const command *c = r->c;
    int status = train_log_open(&r->log, c->log, r->info.step);
    if (status != CLI_OK) return status;
    qn_machine machine;
    double gflops;
    qn_machine_get(&machine);
    qn_cpu_level level = machine.level;
    if (c->cpu) (void)qn_cpu_level_find(c->cpu, &level);
    /* Of the float peak only where all products are of floats: those with a quantized base run faster than that on the
     * way forward. */
    if (!c->lora.base && qn_machine_measure_f32(level, c->threads, 0.05, &gflops, NULL) == QN_OK)
        r->peak = gflops * 1e9;
    qn_metrics_reset(); /* of memory, what training takes */
    say_start(r);
    r->start_ns = cli_now_ns();
    r->first_step = r->info.step;
    r->held = NAN;
    /* asked before the first step too: the checkpoint may be that of a training that ended so */
    for (int32_t step = r->info.step; step < r->info.n_steps && status == CLI_OK && !out_of_patience(r); step++)
        status = advance(r);
    clear_line(r);
    if (status == CLI_OK) draw(r);
    if (status == CLI_INTERRUPTED) say_interrupted(r);
    if (train_log_close(&r->log) != CLI_OK) r->lost_log = true;
    return status;
}

/* The model; or, where that fails, at least a checkpoint that it can be written from. */
static int export(run *r)
{
    const command *c = r->c;
    qn_error err;
    qn_trainer_get_info(r->trainer, &r->info);
    if (qn_trainer_export(r->trainer, c->out, c->type || c->lora.base ? c->type : "F16", c->name, &err) != QN_OK) {
        const int status = cli_fail_error(&err);
        if (c->checkpoint && r->kept_step != r->info.step) save(r);
        if (c->checkpoint && r->kept_step == r->info.step)
            cli_note("%s keeps what was learnt: the same command with --resume and another -o writes the model",
                     c->checkpoint);
        return status;
    }
    qn_metrics metrics;
    qn_metrics_snapshot(&metrics);
    fprintf(stderr, "%s: weights of step %d", c->out, r->info.best_step ? r->info.best_step : r->info.step);
    if (r->info.best_step) fprintf(stderr, ", %.4f bits per byte held out", r->info.best_bits_per_byte);
    fprintf(stderr, "; %.0f MiB of memory at most\n", (double)metrics.peak_bytes / (1 << 20));
    /* which was said where it happened */
    return r->lost_log || r->lost_curve || r->lost_checkpoint ? CLI_FAILED : CLI_OK;
}

int cli_command_train(int argc, char **argv)
{
    static const char *paths[MAX_TEXTS + CLI_MAX_STRINGS];
    command c = {0};
    run r = {.c = &c, .on_terminal = isatty(STDERR_FILENO)};
    char *config_text = NULL;
    int n = 0;
    int status = parse(&c, argc, argv, paths, &n, &config_text);
    const char *const written[] = {c.out, c.checkpoint, c.log, c.curve};
    for (int i = 0; i < CLI_N(written) && status < 0; i++)
        if (check_writable(written[i]) != CLI_OK) status = CLI_FAILED;
    if (status < 0) {
        status = cli_recording_start(&c.recording, NULL, 0, argc, argv);
        if (status == CLI_OK) status = create(&r, paths, n);
        if (status == CLI_OK) {
            qn_trainer_get_info(r.trainer, &r.info);
            r.kept_step = r.info.step;
            cli_catch_stop();
            status = train(&r);
        }
        if (status == CLI_OK) status = export(&r);
        status = cli_recording_stop(&c.recording, status);
        qn_trainer_destroy(r.trainer);
    }
    free(config_text);
    return status;
}
