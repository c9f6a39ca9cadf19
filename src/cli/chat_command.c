/* SPDX-License-Identifier: MIT */
/* src/cli/chat_command.c -- what begins with a slash: the commands of a conversation. What goes wrong with one is said,
 * and the conversation is as it was. */
#include "cli/chat.h"
#include "cli/describe.h"
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- small ones ---- */

static int command_help(chat *c, const char *arguments)
{
    (void)arguments;
#define CHAT_ALIAS(name, function)
#define CHAT_COMMAND(name, function, args, help) \
    chat_screen_say(&c->screen, CHAT_plain, "  %-20s %s", "/" #name " " args, help);
#include "cli/chat_commands.def"
#undef CHAT_COMMAND
#undef CHAT_ALIAS
    chat_screen_say(
        &c->screen, CHAT_plain,
        "A message goes on in the next line after a \\ at the end; \"\"\" begins and ends a longer one. // at "
        "its beginning stands for a slash. Ctrl-C stops an answer, Ctrl-D leaves.");
    return CLI_OK;
}

static bool has_system(const chat *c)
{
    const char *role = qn_messages_role(c->messages, 0);
    return role && strcmp(role, "system") == 0;
}

static int command_reset(chat *c, const char *arguments)
{
    (void)arguments;
    qn_messages_truncate(c->messages, has_system(c) ? 1 : 0);
    c->first = 0;
    chat_screen_say(&c->screen, CHAT_dim, "A new conversation%s.", has_system(c) ? "; the system message stays" : "");
    return CLI_OK;
}

/* The list anew, with the system message first or without one. */
static qn_status replace_system(chat *c, const char *text, qn_error *err)
{
    qn_messages *list;
    qn_status status = qn_messages_create(&list, err);
    if (status != QN_OK) return status;
    if (text) status = qn_messages_add(list, "system", text, err);
    for (size_t i = has_system(c); i < qn_messages_count(c->messages) && status == QN_OK; i++)
        status = qn_messages_add_json(list, qn_messages_get(c->messages, i), err);
    if (status != QN_OK) {
        qn_messages_destroy(list);
        return status;
    }
    if (c->first) c->first = c->first + (text != NULL) - has_system(c);
    qn_messages_destroy(c->messages);
    c->messages = list;
    return QN_OK;
}

static int command_system(chat *c, const char *arguments)
{
    qn_error err;
    if (!*arguments) {
        char *text = has_system(c) ? chat_message_text(c, 0) : NULL;
        chat_screen_say(&c->screen, CHAT_plain, "%s", text ? text : "There is no system message.");
        free(text);
        return CLI_OK;
    }
    if (replace_system(c, strcmp(arguments, "-") == 0 ? NULL : arguments, &err) != QN_OK) return cli_fail_error(&err);
    return CLI_OK;
}

/* "12.3 ms" or "4.56 s"; 32 bytes do. */
static const char *in_time(char *buf, double seconds)
{
    if (seconds < 1)
        snprintf(buf, 32, "%.1f ms", seconds * 1e3);
    else
        snprintf(buf, 32, "%.2f s", seconds);
    return buf;
}

static double per_second(size_t n, double seconds) { return seconds > 0 ? (double)n / seconds : 0; }

static int command_stats(chat *c, const char *arguments)
{
    (void)arguments;
    const chat_stats *s = &c->stats;
    char time[32];
    if (!s->n_prompt) {
        chat_screen_say(&c->screen, CHAT_plain, "Nothing was answered yet.");
        return CLI_OK;
    }
    chat_screen_say(&c->screen, CHAT_plain, "  prompt       %zu tokens: %zu reused, %zu computed in %s, %.1f tokens/s",
                    s->n_prompt, s->n_reused, s->n_computed, in_time(time, s->prompt_seconds),
                    per_second(s->n_computed, s->prompt_seconds));
    chat_screen_say(&c->screen, CHAT_plain, "  first token  after %s", in_time(time, s->first_seconds));
    chat_screen_say(&c->screen, CHAT_plain, "  answer       %zu tokens in %s, %.1f tokens/s", s->n_answer,
                    in_time(time, s->answer_seconds), per_second(s->n_answer, s->answer_seconds));
    return CLI_OK;
}

static int command_context(chat *c, const char *arguments)
{
    (void)arguments;
    const int32_t used = qn_session_seq_len(c->session, 0), n_ctx = qn_session_n_ctx(c->session);
    size_t left_out = 0;
    for (size_t i = 0; i < c->first; i++) left_out += strcmp(qn_messages_role(c->messages, i), "user") == 0;
    chat_screen_say(&c->screen, CHAT_plain, "  %d of %d tokens are used (%.0f %%), %zu messages", used, n_ctx,
                    100.0 * used / n_ctx, qn_messages_count(c->messages));
    if (left_out)
        chat_screen_say(&c->screen, CHAT_plain, "  %zu of the oldest turns %s no longer read", left_out,
                        left_out == 1 ? "is" : "are");
    return CLI_OK;
}

static int command_exit(chat *c, const char *arguments) { return (void)c, (void)arguments, CLI_OK; }

/* ---- files ---- */

/* The path, with ~/ for the home folder. */
static int file_argument(const char *name, const char *arguments, char *path, size_t size)
{
    const char *home = strncmp(arguments, "~/", 2) == 0 ? getenv("HOME") : NULL;
    if (!*arguments) return cli_fail("/%s needs the name of a file", name);
    const int n = home ? snprintf(path, size, "%s%s", home, arguments + 1) : snprintf(path, size, "%s", arguments);
    return n > 0 && (size_t)n < size ? CLI_OK : cli_fail("%.64s...: the path is too long", arguments);
}

/* A message a line; freed with free. */
static char *as_lines(const qn_messages *m, size_t *len)
{
    char *text = NULL;
    FILE *f = open_memstream(&text, len);
    if (!f) return NULL;
    for (size_t i = 0; i < qn_messages_count(m); i++) fprintf(f, "%s%s", i ? ",\n " : "[", qn_messages_get(m, i));
    fprintf(f, qn_messages_count(m) ? "]\n" : "[]\n");
    if (fclose(f) == 0) return text;
    free(text);
    return NULL;
}

static int command_save(chat *c, const char *arguments)
{
    char path[4096];
    size_t len;
    int status = file_argument("save", arguments, path, sizeof(path));
    if (status != CLI_OK) return status;
    char *json = as_lines(c->messages, &len);
    if (!json) return cli_no_memory("out of memory");
    status = cli_write_text(path, json, len);
    free(json);
    if (status == CLI_OK)
        chat_screen_say(&c->screen, CHAT_dim, "%zu messages written to %s", qn_messages_count(c->messages), path);
    return status;
}

static int command_load(chat *c, const char *arguments)
{
    char path[4096];
    size_t n;
    qn_error err;
    qn_messages *list = NULL;
    const int status = file_argument("load", arguments, path, sizeof(path));
    if (status != CLI_OK) return status;
    char *json = cli_read_text(path, CHAT_MAX_TEXT_BYTES, &n);
    if (!json) return CLI_FAILED;
    qn_status loaded = strlen(json) == n ? qn_messages_create(&list, &err) : QN_STATUS_format;
    if (loaded == QN_OK) loaded = qn_messages_add_json(list, json, &err);
    const bool nul = strlen(json) != n;
    free(json);
    if (loaded != QN_OK) {
        qn_messages_destroy(list);
        return nul ? cli_fail("%s: a NUL byte in a text", path) : cli_fail("%s: %s", path, err.text);
    }
    qn_messages_destroy(c->messages);
    c->messages = list;
    c->first = 0;
    chat_screen_say(&c->screen, CHAT_dim, "%zu messages read from %s", qn_messages_count(list), path);
    return CLI_OK;
}

/* ---- the last message again ---- */

/* How many messages there are up to the last one that is not the model's. */
static size_t up_to_answer(const chat *c)
{
    size_t n = qn_messages_count(c->messages);
    while (n && strcmp(qn_messages_role(c->messages, n - 1), "assistant") == 0) n--;
    return n;
}

static int command_regenerate(chat *c, const char *arguments)
{
    (void)arguments;
    const size_t n = up_to_answer(c);
    if (!n || strcmp(qn_messages_role(c->messages, n - 1), "system") == 0)
        return cli_fail("there is nothing to answer yet");
    qn_messages_truncate(c->messages, n);
    return chat_reply(c);
}

/* A new file of its own with the text in it; false after a message. */
static bool write_draft(char *path, size_t size, const char *text)
{
    const char *folder = getenv("TMPDIR");
    const int n = snprintf(path, size, "%s/quern-chat-XXXXXX", folder && *folder ? folder : "/tmp");
    const int fd = n > 0 && (size_t)n < size ? mkstemp(path) : -1; /* for the user's eyes alone */
    FILE *file = fd >= 0 ? fdopen(fd, "w") : NULL;
    const bool wrote = file && fputs(text, file) >= 0;
    if (file && fclose(file) == 0 && wrote) return true;
    if (fd >= 0) unlink(path);
    cli_fail("cannot write a file for the editor in %s", folder && *folder ? folder : "/tmp");
    return false;
}

/* The text as the editor left it, freed with free; NULL after a message. */
static char *edited(const char *editor, const char *text)
{
    char path[4096], *command = NULL, *result = NULL;
    size_t n;
    if (!write_draft(path, sizeof(path), text)) return NULL;
    if (setenv("QUERN_DRAFT", path, 1) == 0 && asprintf(&command, "%s \"$QUERN_DRAFT\"", editor) > 0) {
        const int left = system(command);
        if (left != 0)
            cli_fail("the editor (%.64s) failed; the message stays as it was", editor);
        else
            result = cli_read_text(path, CHAT_MAX_TEXT_BYTES, &n);
    }
    free(command);
    unlink(path);
    while (result && n && result[n - 1] == '\n') result[--n] = '\0';
    return result;
}

static int say_instead(chat *c, size_t at, const char *text)
{
    qn_messages_truncate(c->messages, at);
    if (c->first > at) c->first = 0;
    return chat_turn(c, text);
}

static int command_edit(chat *c, const char *arguments)
{
    const char *editor = getenv("VISUAL");
    size_t at = qn_messages_count(c->messages);
    if (!editor || !*editor) editor = getenv("EDITOR");
    while (at && strcmp(qn_messages_role(c->messages, at - 1), "user") != 0) at--;
    if (!at) return cli_fail("you have said nothing yet");
    at--;
    if (*arguments) return say_instead(c, at, arguments);
    char *text = chat_message_text(c, at);
    if (!text) return cli_fail("the last message has no text");
    int status = CLI_OK;
    if (editor && *editor) {
        chat_input_lend(true);
        char *now = edited(editor, text);
        chat_input_lend(false);
        if (now && *now && strcmp(now, text) != 0)
            status = say_instead(c, at, now);
        else if (now)
            chat_screen_say(&c->screen, CHAT_dim, "Nothing was changed.");
        free(now);
        free(text);
        return status;
    }
    /* no editor: in the line itself */
    const char *now;
    chat_input_preset(c->input, text);
    const chat_typed typed = chat_input_message(c->input, "edit> ", &now);
    if (typed == CHAT_TYPED_text && *now) {
        chat_input_remember(c->input, now);
        char *copy = strdup(now);
        status = copy ? say_instead(c, at, copy) : cli_no_memory("out of memory");
        free(copy);
    }
    free(text);
    return status;
}

/* ---- options ---- */

static void show_option(const chat *c, const cli_option *o)
{
    char text[256] = "";
    switch (o->kind) {
    case CLI_INT: snprintf(text, sizeof(text), "%d", *(const int32_t *)o->at); break;
    case CLI_U64: snprintf(text, sizeof(text), "%llu", (unsigned long long)*(const uint64_t *)o->at); break;
    case CLI_FLOAT: snprintf(text, sizeof(text), "%.6g", (double)*(const float *)o->at); break;
    case CLI_FLAG: snprintf(text, sizeof(text), "%s", *(const bool *)o->at ? "on" : "off"); break;
    case CLI_OUTPUT:
    case CLI_STRING: {
        const char *value = *(const char *const *)o->at;
        snprintf(text, sizeof(text), "%s", value ? value : "-");
        break;
    }
    case CLI_STRINGS: {
        const cli_strings *list = o->at;
        for (int i = 0; i < list->n; i++)
            snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s\"%s\"", i ? " " : "", list->item[i]);
        if (!list->n) snprintf(text, sizeof(text), "-");
        break;
    }
    case CLI_GROUP: return;
    }
    chat_screen_say((chat_screen *)&c->screen, CHAT_plain, "  %-22s %s", o->name, text);
}

/* A flag is on, off, or nothing, which is on. */
static int store(const cli_option *o, char *value)
{
    if (o->kind != CLI_FLAG) {
        if (!*value) return cli_fail("/set %s needs a value: %s", o->name, o->argument);
        const int status = cli_store(o, value);
        return status < 0 ? CLI_OK : status;
    }
    if (*value && strcmp(value, "on") != 0 && strcmp(value, "off") != 0)
        return cli_fail("/set %s: \"%.32s\" is none of on, off", o->name, value);
    *(bool *)o->at = strcmp(value, "off") != 0;
    return CLI_OK;
}

static const char *option_name(const void *ctx, int i)
{
    const cli_option *options = ctx;
    return i < CLI_N_SAMPLING + CHAT_N_CHANGEABLE ? options[i].name : NULL;
}

static int command_set(chat *c, const char *arguments)
{
    const cli_option own[] = {CHAT_CHANGEABLE_OPTIONS(c->o)};
    cli_option options[CHAT_N_CHANGEABLE + CLI_N_SAMPLING];
    const chat_options before = c->o;
    const size_t name_len = strcspn(arguments, " =");
    memcpy(options, own, sizeof(own));
    cli_sampling_options(&c->o.gen.sampling, options + CHAT_N_CHANGEABLE);
    if (!*arguments) {
        for (int i = 0; i < CLI_N(options); i++) show_option(c, &options[i]);
        return CLI_OK;
    }
    const cli_option *o = cli_find_option(options, CLI_N(options), arguments, name_len);
    if (!o) {
        char typed[64];
        snprintf(typed, sizeof(typed), "%.*s", (int)name_len, arguments);
        const char *near = cli_nearest(typed, option_name, options);
        return near ? cli_fail("\"%s\" is no option here; did you mean %s?", typed, near)
                    : cli_fail("\"%s\" is no option here; /set alone lists them", typed);
    }
    const char *value = arguments + name_len + strspn(arguments + name_len, " =");
    const bool is_text = o->kind == CLI_STRING || o->kind == CLI_STRINGS;
    if (is_text && c->n_kept == CLI_N(c->kept))
        return cli_fail("options were set too many times; /save, and begin anew");
    char *copy = strdup(value); /* options keep pointers to their texts */
    int status = copy ? store(o, copy) : cli_no_memory("out of memory");
    if (status == CLI_OK) status = cli_check_sampling(&c->o.gen.sampling);
    qn_sampler *sampler = NULL;
    if (status == CLI_OK)
        status = cli_create_sampler(&c->o.gen.sampling, c->tok, qn_session_n_ctx(c->session), &sampler);
    qn_sampler_destroy(sampler);
    if (status != CLI_OK) {
        c->o = before;
        free(copy);
        return status;
    }
    if (is_text)
        c->kept[c->n_kept++] = copy;
    else
        free(copy);
    show_option(c, o);
    return CLI_OK;
}

/* ---- finding them ---- */

static const struct {
    const char *name;
    int (*run)(chat *c, const char *arguments);
} commands[] = {
#define CHAT_ALIAS(name, function)                    {#name, command_##function},
#define CHAT_COMMAND(name, function, arguments, help) CHAT_ALIAS(name, function)
#include "cli/chat_commands.def"
#undef CHAT_COMMAND
#undef CHAT_ALIAS
};

const char *chat_command_name(const void *ctx, int i)
{
    (void)ctx;
    return i < CLI_N(commands) ? commands[i].name : NULL;
}

/* A word after one slash: what begins with a path is a message. */
bool chat_is_command(const char *text)
{
    if (*text != '/') return false;
    const size_t n = strspn(text + 1, "abcdefghijklmnopqrstuvwxyz");
    const char end = text[1 + n];
    return !end || (n && (end == ' ' || end == '\n'));
}

int chat_command(chat *c, const char *text, bool *leave)
{
    char name[32];
    const size_t n = strcspn(text + 1, " \n");
    const char *arguments = text + 1 + n + strspn(text + 1 + n, " \n");
    snprintf(name, sizeof(name), "%.*s", (int)n, text + 1);
    for (int i = 0; i < CLI_N(commands); i++) {
        if (strcmp(commands[i].name, name) != 0) continue;
        *leave = commands[i].run == command_exit;
        const int status = commands[i].run(c, arguments);
        return status == CLI_PIPE ? status : CLI_OK; /* anything else was said, and the conversation goes on */
    }
    const char *near = *name ? cli_nearest(name, chat_command_name, NULL) : NULL;
    if (near)
        cli_note("\"/%s\" is no command; did you mean /%s? /help lists them", name, near);
    else
        cli_note("\"/%s\" is no command; /help lists them", name);
    return CLI_OK;
}
