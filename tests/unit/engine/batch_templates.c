/* SPDX-License-Identifier: MIT */
/* Conversations under many templates, of which some show earlier turns in another form: what is cached of a prompt is
 * the longest common prefix with what the conversation had computed before, less the token that is read again. */
#include "rig.h"
#include <quern/batch.h>
#include <quern/chat.h>
#include <stdatomic.h>
#include <sys/stat.h>

enum { N_CTX = 40000, TURNS = 4, N_ANSWER = 8, MOST = 8192 };

static const char *const own[][2] = {
    {"all stays", "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
                  "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"},
    {"earlier reasoning goes",
     "{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.reasoning_content and loop.last %}<think>"
     "{{ m.reasoning_content }}</think>{% endif %}{{ m.content }}<|im_end|>\n{% endfor %}"
     "{% if add_generation_prompt %}<|im_start|>assistant\n<think>\n\n</think>\n{% endif %}"},
    {"the last question is marked",
     "{% for m in messages %}<|im_start|>{{ m.role }}\n{% if loop.last %}(answer this) {% endif %}{{ m.content }}"
     "<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"},
    {"the number of messages comes first",
     "<s>{{ messages|length }} messages\n{% for m in messages %}[{{ m.role }}] {{ m.content }}\n{% endfor %}"},
};

typedef struct text {
    qn_token tokens[MOST];
    int n;
} text;

typedef struct talk {
    qn_engine *e;
    qn_batcher *b;
    const char *name;
    const qn_chat_template *t;
    qn_chat_needs needs;
    bool plain;       /* the template refuses tools or a system prompt: neither */
    text past[TURNS]; /* what was computed: prompts with their answers */
    char messages[4096];
    text now;
    int n_cached;
    qn_batch_end end;
    _Atomic bool ended;
} talk;

static void hear(void *ctx, const qn_batch_event *e)
{
    talk *t = ctx;
    if (e->kind == QN_BATCH_token && t->now.n < MOST) t->now.tokens[t->now.n++] = e->token;
    if (e->kind != QN_BATCH_end) return;
    t->n_cached = e->usage.n_cached;
    t->end = e->end;
    atomic_store(&t->ended, true);
}

/* The next message, or several. */
static void add(talk *t, const char *json)
{
    const size_t n = strlen(t->messages);
    assert_true(n + strlen(json) + 3 < sizeof(t->messages));
    snprintf(t->messages + n, sizeof(t->messages) - n, "%s%s", n ? ", " : "", json);
}

static qn_status render(const talk *t, qn_prompt *out)
{
    static const char *const tools =
        "[{\"type\": \"function\", \"function\": {\"name\": \"weather\", \"description\": \"Tells the weather.\", "
        "\"parameters\": {\"type\": \"object\", \"properties\": {\"city\": {\"type\": \"string\"}}}}}]";
    char all[sizeof(t->messages) + 4];
    snprintf(all, sizeof(all), "[%s]", t->messages);
    const qn_chat_options o = {.tools = t->needs.tools && !t->plain ? tools : NULL,
                               .bos = "<s>",
                               .eos = "</s>",
                               .now = 1700000000};
    return qn_chat_render(t->t, all, &o, out, NULL);
}

/* False: the template refuses the conversation. */
static bool make_prompt(talk *t)
{
    qn_prompt p = {0};
    qn_token *ids = NULL;
    size_t n = 0;
    if (render(t, &p) != QN_OK) return false;
    MUST(qn_prompt_tokenize(&p, qn_engine_tokenizer(t->e), &ids, &n, err));
    assert_true(n > 0 && n + N_ANSWER <= MOST);
    memcpy(t->now.tokens, ids, n * sizeof(*ids));
    t->now.n = (int)n;
    qn_free(ids);
    qn_prompt_deinit(&p);
    return true;
}

static int common(const text *a, int n_a, const text *b, int n_b)
{
    int k = 0;
    while (k < n_a && k < n_b && a->tokens[k] == b->tokens[k]) k++;
    return k;
}

/* Asks, compares, and notes the answer as the next message: letters and spaces. Returns how much of what there was
 * before the prompt has in another form. */
static int take_turn(talk *t, int turn, const qn_grammar *letters)
{
    const int n = t->now.n;
    int want = 0;
    uint64_t id;
    for (int i = 0; i < turn; i++) {
        const int k = common(&t->past[i], t->past[i].n, &t->now, n - 1);
        if (k > want) want = k;
    }
    atomic_store(&t->ended, false);
    const qn_batch_request r = {.prompt = t->now.tokens,
                                .n_prompt = (size_t)n,
                                .sampler = &(qn_sampler_params){.seed = 1 + (uint64_t)turn, .temperature = 1},
                                .grammar = letters,
                                .max_tokens = N_ANSWER,
                                .key = t->name,
                                .fn = hear,
                                .ctx = t};
    MUST(qn_batcher_submit(t->b, &r, &id, err));
    while (!atomic_load(&t->ended)) usleep(100);
    assert_int_equal(t->end, QN_BATCH_END_length);
    if (t->n_cached != want) fail_msg("%s, turn %d: %d cached, %d in common", t->name, turn, t->n_cached, want);
    char *said = NULL, message[512];
    size_t len = 0;
    MUST(qn_detokenize(qn_engine_tokenizer(t->e), t->now.tokens + n, (size_t)(t->now.n - n), NULL, &said, &len, err));
    snprintf(message, sizeof(message),
             "{\"role\": \"assistant\", \"content\": \"%.*s\", \"reasoning_content\": \"hm\"}", (int)len, said);
    qn_free(said);
    add(t, message);
    t->past[turn] = t->now;
    t->past[turn].n--; /* after the last token nothing was computed */
    return turn ? t->past[turn - 1].n - want : 0;
}

static void ask(talk *t, int turn)
{
    char question[128];
    snprintf(question, sizeof(question), "{\"role\": \"user\", \"content\": \"Question number %d: what is %d?\"}", turn,
             turn * 7 + 3);
    add(t, question);
}

/* Returns whether earlier turns came in another form. */
static bool converse(talk *t, const char *name, const char *source, size_t len, const qn_grammar *letters)
{
    qn_chat_template *tmpl = NULL;
    int changed = 0;
    MUST(qn_chat_template_create(source, len, &tmpl, err));
    t->name = name;
    t->t = tmpl;
    t->plain = false;
    qn_chat_template_needs(tmpl, &t->needs);
    t->messages[0] = '\0';
    if (t->needs.system) add(t, "{\"role\": \"system\", \"content\": \"You answer shortly.\"}");
    for (int turn = 0; turn < TURNS; turn++) {
        ask(t, turn);
        if (!make_prompt(t)) {
            t->plain = true;
            if (!make_prompt(t)) fail_msg("%s refuses turn %d", name, turn);
        }
        changed += take_turn(t, turn, letters) > N_ANSWER;
    }
    qn_chat_template_destroy(tmpl);
    return changed > 0;
}

static char *read_file(const char *path, size_t *len)
{
    struct stat st;
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    assert_int_equal(fstat(fileno(f), &st), 0);
    char *source = malloc((size_t)st.st_size + 1);
    *len = fread(source, 1, (size_t)st.st_size, f);
    fclose(f);
    return source;
}

static qn_engine *engine;
static qn_batcher *batcher;
static qn_grammar *letters;

static int open_all(void **state)
{
    (void)state;
    const char *path = tiny_path("talk.gguf");
    const qn_synth_options o = {.arch = "llama",
                                .n_layer = 1,
                                .n_embd = 32,
                                .n_head = 2,
                                .n_kv_head = 1,
                                .n_ff = 32,
                                .n_ctx = MOST,
                                .type = "F32",
                                .rope_base = 10000,
                                .spread = 0.5f,
                                .vocab = QN_TESTS_DIR "/../models/chat.gguf"};
    MUST(qn_synth(path, &o, NULL, NULL, err));
    MUST(qn_engine_open(path, &(qn_engine_options){.n_threads = 1}, &engine, err));
    MUST(qn_batcher_create(engine, &(qn_batcher_options){.session = {.n_ctx = N_CTX}, .n_parallel = 1}, &batcher, err));
    MUST(qn_grammar_create("root ::= [a-z ]+", NULL, &letters, err));
    return 0;
}

static int close_all(void **state)
{
    (void)state;
    qn_batcher_destroy(batcher);
    qn_grammar_destroy(letters);
    qn_engine_close(engine);
    return 0;
}

static void own_templates(void **state)
{
    (void)state;
    talk *t = calloc(1, sizeof(*t));
    assert_non_null(t);
    t->e = engine;
    t->b = batcher;
    for (int i = 0; i < 4; i++) assert_int_equal(converse(t, own[i][0], own[i][1], strlen(own[i][1]), letters), i > 0);
    free(t);
}

static void templates_of_models(void **state)
{
    (void)state;
    DIR *dir = opendir(QN_SHARED_DIR "/templates");
    if (!dir) {
        print_message("no ../shared/templates: templates of models are not tried\n");
        skip();
    }
    talk *t = calloc(1, sizeof(*t));
    assert_non_null(t);
    t->e = engine;
    t->b = batcher;
    int n = 0, n_changed = 0;
    qn_batcher_stats before, after;
    qn_batcher_get_stats(batcher, &before);
    for (const struct dirent *e; (e = readdir(dir));) {
        char path[512];
        size_t len;
        if (e->d_name[0] == '.') continue;
        snprintf(path, sizeof(path), QN_SHARED_DIR "/templates/%s", e->d_name);
        char *source = read_file(path, &len);
        n_changed += converse(t, e->d_name, source, len, letters);
        free(source);
        n++;
    }
    closedir(dir);
    free(t);
    qn_batcher_get_stats(batcher, &after);
    assert_int_equal(after.n_evictions, before.n_evictions); /* nothing was lost, since there was room */
    print_message("%d templates, %d show earlier turns in another form; %llu tokens cached, %llu read\n", n, n_changed,
                  (unsigned long long)(after.tokens_reused - before.tokens_reused),
                  (unsigned long long)(after.tokens_read - before.tokens_read));
    assert_int_equal(n, 44);
    assert_int_equal(n_changed, 11);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(own_templates), cmocka_unit_test(templates_of_models)};
    return cmocka_run_group_tests(tests, open_all, close_all);
}
