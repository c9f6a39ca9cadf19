/* SPDX-License-Identifier: MIT */
/* src/cli/chat.c -- quern chat: talking with a model. On a terminal a conversation with editing, history and commands;
 * with -p or a pipe one turn, whose answer alone goes to standard output. */
#include "cli/chat.h"
#include "cli/source.h"
#include <fcntl.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const cli_usage usage = {
    .command = "chat",
    .arguments = "MODEL [PROMPT]",
    .summary =
        "Talks with a model: on a terminal turn after turn, with PROMPT (or -p) or a pipe one turn, whose answer "
        "goes to standard output.",
    .notes =
        "A standard input that is no terminal is read to its end and belongs to the message, behind PROMPT. "
        "There the answer comes without its reasoning, and calls of tools as a line of JSON each.\n"
        "On a terminal a message may begin with a command:\n"
#define CHAT_ALIAS(name, function)
#define CHAT_COMMAND(name, function, arguments, help) "/" #name " " arguments ": " help "\n"
#include "cli/chat_commands.def"
#undef CHAT_COMMAND
#undef CHAT_ALIAS
        "A \\ at the end of a line goes on with the message in the next one; \"\"\" begins and ends a longer text. "
        "Ctrl-C "
        "stops an answer and keeps what was said; in an empty line, a second one leaves, as Ctrl-D does.",
    .examples = "Talk:\nquern chat model.gguf\n"
                "One turn, and a file to go with the question:\n"
                "quern chat model.gguf -p \"What does this do?\" -n 40 <notes.txt\n"
                "A repeatable answer of a certain form:\n"
                "quern chat model.gguf -p \"Is it raining?\" --grammar 'root ::= \"yes\" | \"no\"' --temp 0\n",
    .min_args = 1,
    .max_args = 2,
};

/* A schema holds for the content of answers, whatever reasoning or calls come before; with a trigger, or as GBNF, a
 * grammar holds for all that is said. */
static bool holds_for_all(const cli_grammar *g)
{
    return g->gbnf || g->gbnf_file || g->trigger.n || g->trigger_after.n;
}

static int parse(chat *c, int argc, char **argv)
{
    chat_options *o = &c->o;
    *o = (chat_options){.n_predict = -1};
    const cli_option own[] = {
        CLI_OPTION_GROUP("Conversation"),
        {"prompt", 'p', CLI_STRING, &o->prompt, "PROMPT", "one turn: this message, as the argument is", 0, 0, NULL},
        {"system", 0, CLI_STRING, &o->system, "PROMPT", "what the system message says", 0, 0, NULL},
        CHAT_CHANGEABLE_OPTIONS(*o),
        {"tools", 0, CLI_STRING, &o->tools, "FILE",
         "tools that the model may call, a JSON array as OpenAI's; what a call gives is asked for", 0, 0, NULL},
        {"tool-choice", 0, CLI_STRING, &o->tool_choice, "CHOICE",
         "whether to call them; required: some, or the name of the one to call, before the answer", 0, 0, NULL},
        {"stop", 0, CLI_STRINGS, &o->stop, "STR", "end an answer before this text (may be repeated)", 0, 0, NULL},
        CLI_GRAMMAR_OPTIONS(o->gen.grammar),
        {"chat-template", 0, CLI_STRING, &o->template_name, "NAME",
         "another template of the file (tool_use, rag), or chatml, plain", 0, 0, NULL},
        {"chat-template-file", 0, CLI_STRING, &o->template_file, "FILE",
         "a template's source in the place of the model's", 0, 0, NULL},
        {"chat-template-kwargs", 0, CLI_STRING, &o->kwargs, "JSON", "further variables of the template, an object", 0,
         0, NULL},
        CLI_GENERATION_OPTIONS(o->gen),
        CLI_OPTION_GROUP("Choosing the next token"),
    };
    cli_option options[CLI_N(own) + CLI_N_SAMPLING];
    memcpy(options, own, sizeof(own));
    const char *args[2] = {0};
    int n_args = 0;
    const int status = cli_parse_generation(&usage, &o->gen, options, CLI_N(own), argc, argv, args, &n_args);
    if (status >= 0) return status;
    c->model = args[0];
    if (args[1] && o->prompt) return cli_bad_usage("a message was given twice: as an argument and by --prompt");
    if (args[1]) o->prompt = strcmp(args[1], "-") == 0 ? "" : args[1]; /* standard input is read anyway */
    if (o->tool_choice && !o->tools) return cli_bad_usage("--tool-choice wants --tools");
    if (o->tool_choice && holds_for_all(&o->gen.grammar))
        return cli_bad_usage("--tool-choice: the grammar says all of what the model may write");
    if (o->template_name && o->template_file) return cli_bad_usage("a template was given twice");
    return cli_find_generation_model(&c->model, options, CLI_N(own), argc, argv);
}

/* ---- setting up ---- */

/* A text file without NUL bytes; NULL after a message. */
static char *read_file(const char *path)
{
    size_t n;
    char *text = cli_read_text(path, CHAT_MAX_TEXT_BYTES, &n);
    if (!text || strlen(text) == n) return text;
    cli_fail("%s: a NUL byte in a text", path);
    free(text);
    return NULL;
}

static int set_up_template(chat *c)
{
    qn_error err;
    qn_status status;
    qn_chat_needs needs;
    if (c->o.template_file) {
        char *source = read_file(c->o.template_file);
        if (!source) return CLI_FAILED;
        status = qn_chat_template_create(source, strlen(source), &c->tmpl, &err);
        free(source);
        return status == QN_OK ? CLI_OK : cli_fail("%s: %s", c->o.template_file, err.text);
    }
    status = qn_chat_template_load(qn_engine_file(c->engine), c->o.template_name, &c->tmpl, &err);
    if (status != QN_OK) return cli_fail_error(&err);
    qn_chat_template_needs(c->tmpl, &needs);
    if (!c->o.template_name && strcmp(needs.origin, "file") != 0)
        cli_note("the model has no chat template; the one named %s is used", needs.origin);
    return CLI_OK;
}

static int set_up_grammar(chat *c)
{
    const cli_grammar *g = &c->o.gen.grammar;
    if (holds_for_all(g)) return cli_create_matcher(g, c->tok, &c->grammar, &c->matcher);
    return cli_schema_text(g, &c->schema);
}

/* A note where --think does nothing, or no more than on. */
static void say_think(const chat *c, const qn_chat_needs *needs)
{
    const char *think = c->o.think;
    const bool is_switch = think && (strcmp(think, "on") == 0 || strcmp(think, "off") == 0);
    if (!think || (is_switch ? needs->thinking_switch : needs->effort_switch)) return;
    cli_note("--think %s: the model's template %s", think,
             !needs->thinking_switch ? "has no switch for it" : "knows no effort; it is the same as on");
}

/* Tools and system message are rendered once, so that what is wrong with them is said before anybody types. */
static int check_template(chat *c)
{
    const size_t n = qn_messages_count(c->messages);
    chat_ids ids;
    qn_error err;
    qn_chat_needs needs;
    qn_chat_template_needs(c->tmpl, &needs);
    if (c->tools && !needs.tools) return cli_fail("--tools: the model's template has no place for tools");
    say_think(c, &needs);
    if (qn_messages_add(c->messages, "user", "?", &err) != QN_OK) return cli_fail_error(&err);
    int status = chat_ids_render(c, 0, &ids);
    if (status == CLI_OK) {
        qn_grammar *grammar;
        status = chat_hold(c, &ids.prompt, &grammar);
        qn_grammar_destroy(grammar);
        chat_ids_deinit(&ids);
    }
    qn_messages_truncate(c->messages, n);
    return status;
}

/* The system message of the command line, or the one that a store has for the model. */
static int set_up_messages(chat *c)
{
    const qn_store_model *found = cli_model_found(c->model);
    char *text = NULL;
    qn_error err;
    qn_status status = qn_messages_create(&c->messages, &err);
    if (status == QN_OK && !c->o.system && found) status = qn_store_read_system(found, &text, &err);
    const char *system = c->o.system ? c->o.system : text;
    if (status == QN_OK && system && *system) status = qn_messages_add(c->messages, "system", system, &err);
    qn_free(text);
    return status == QN_OK ? CLI_OK : cli_fail_error(&err);
}

static int set_up(chat *c)
{
    if (c->o.tools && !(c->tools = read_file(c->o.tools))) return CLI_FAILED;
    int status = set_up_messages(c);
    if (status != CLI_OK) return status;
    c->o.gen.model.session = (qn_session_options){.n_ctx = c->o.gen.n_ctx, .n_batch = c->o.gen.n_batch};
    status = cli_open_engine(c->model, &c->o.gen.model, &c->engine);
    if (status != CLI_OK) return status;
    c->tok = qn_engine_tokenizer(c->engine);
    status = set_up_template(c);
    if (status == CLI_OK) status = set_up_grammar(c);
    if (status == CLI_OK) status = check_template(c);
    if (status != CLI_OK) return status;
    return cli_create_session(c->engine, &c->o.gen.model, c->o.gen.model.session, &c->session);
}

static void tear_down(chat *c)
{
    for (int i = 0; i < c->n_kept; i++) free(c->kept[i]);
    free(c->tools);
    free(c->schema);
    chat_input_close(c->input);
    qn_messages_destroy(c->messages);
    qn_matcher_destroy(c->matcher);
    qn_grammar_destroy(c->grammar);
    qn_session_destroy(c->session);
    qn_chat_template_destroy(c->tmpl);
    qn_engine_close(c->engine);
}

/* ---- turns ---- */

char *chat_message_text(const chat *c, size_t i)
{
    const char *json = qn_messages_get(c->messages, i);
    json_t *message = json ? json_loads(json, JSON_ALLOW_NUL, NULL) : NULL;
    const json_t *content = json_object_get(message, "content"), *part;
    size_t k;
    char *text = NULL;
    if (json_is_string(content)) text = strdup(json_string_value(content));
    if (json_is_array(content)) {
        size_t len;
        FILE *f = open_memstream(&text, &len);
        json_array_foreach(content, k, part)
        {
            const char *piece = json_string_value(json_is_string(part) ? part : json_object_get(part, "text"));
            if (f && piece) fputs(piece, f);
        }
        if (f && fclose(f) != 0) {
            free(text);
            text = NULL;
        }
    }
    json_decref(message);
    return text;
}

int chat_reply(chat *c)
{
    c->has_results = false;
    for (;;) {
        chat_end end;
        int n_calls;
        bool given = false;
        const int status = chat_answer(c, &end, &n_calls);
        if (status != CLI_OK) return status;
        if (end == CHAT_END_stopped) {
            chat_screen_say(&c->screen, CHAT_dim, "(stopped)");
            return CLI_INTERRUPTED;
        }
        if (!n_calls) return CLI_OK;
        if (!c->input) return chat_print_calls(c);
        const int asked = chat_ask_results(c, &given);
        c->has_results = given;
        if (asked != CLI_OK || !given) return asked;
    }
}

int chat_turn(chat *c, const char *text)
{
    const size_t before = qn_messages_count(c->messages);
    qn_error err;
    if (qn_messages_add(c->messages, "user", text, &err) != QN_OK) return cli_fail_error(&err);
    const int status = chat_reply(c);
    if (qn_messages_count(c->messages) == before + 1) qn_messages_truncate(c->messages, before);
    return status;
}

/* ---- one turn ---- */

/* The text of -p, and behind it what standard input has when it is no terminal. */
static char *whole_message(const chat *c)
{
    size_t n = 0;
    const bool nothing = isatty(STDIN_FILENO) || fcntl(STDIN_FILENO, F_GETFD) < 0; /* typed later, or closed */
    char *piped = nothing ? strdup("") : read_file("-"), *text = NULL;
    const char *prompt = c->o.prompt ? c->o.prompt : "";
    if (!piped) return NULL;
    for (n = strlen(piped); n && piped[n - 1] == '\n';) piped[--n] = '\0';
    if (asprintf(&text, "%s%s%s", prompt, *prompt && n ? "\n\n" : "", piped) < 0) {
        cli_no_memory("out of memory");
        text = NULL;
    }
    free(piped);
    return text;
}

static int one_turn(chat *c)
{
    char *text = whole_message(c);
    if (!text) return CLI_FAILED;
    int status =
        *text ? CLI_OK
              : cli_bad_usage("no message: give one as an argument or with -p, on standard input, or from a terminal");
    if (status == CLI_OK) status = set_up(c);
    if (status == CLI_OK) status = chat_turn(c, text);
    free(text);
    return status;
}

/* ---- many turns ---- */

static void greet(chat *c)
{
    qn_engine_info info;
    qn_engine_get_info(c->engine, &info);
    const char *slash = strrchr(c->model, '/');
    chat_screen_say(&c->screen, CHAT_dim, "%s: %s, %.3g M parameters, a context of %d tokens.",
                    slash ? slash + 1 : c->model, info.arch, (double)info.n_params * 1e-6,
                    qn_session_n_ctx(c->session));
    chat_screen_say(&c->screen, CHAT_dim, "/help lists commands, Ctrl-C stops an answer, Ctrl-D leaves.");
}

static int converse(chat *c)
{
    int status = CLI_OK;
    bool leave = false, cancelled = false;
    c->input = chat_input_open(&c->screen, chat_command_name);
    if (!c->input) return CLI_FAILED;
    c->screen.aside = !c->screen.terminal;
    greet(c);
    cli_interrupts_ask();
    while (!leave && status != CLI_PIPE) {
        const char *typed;
        if (c->screen.terminal) putchar('\n');
        cli_clear_interrupt();
        const chat_typed how = chat_input_message(c->input, "> ", &typed);
        if (how == CHAT_TYPED_end) break;
        if (how == CHAT_TYPED_cancel) {
            if (cancelled && chat_input_was_empty(c->input)) break;
            cancelled = chat_input_was_empty(c->input);
            if (cancelled) chat_screen_say(&c->screen, CHAT_dim, "Ctrl-C again or Ctrl-D leaves.");
            continue;
        }
        cancelled = false;
        if (!typed[strspn(typed, " \t\n")]) continue;
        chat_input_remember(c->input, typed);
        char *text = strdup(typed); /* a command may ask for more */
        if (!text) return cli_no_memory("out of memory");
        status = chat_is_command(text) ? chat_command(c, text, &leave)
                                       : chat_turn(c, text + (text[0] == '/' && text[1] == '/'));
        free(text);
    }
    return status == CLI_PIPE ? CLI_PIPE : CLI_OK;
}

int cli_command_chat(int argc, char **argv)
{
    chat c = {0};
    int status = parse(&c, argc, argv);
    if (status >= 0) return status;
    chat_screen_init(&c.screen);
    if (c.o.prompt || !isatty(STDIN_FILENO)) {
        status = one_turn(&c);
    } else {
        status = set_up(&c);
        if (status == CLI_OK) status = converse(&c);
    }
    tear_down(&c);
    return status;
}
