/* SPDX-License-Identifier: MIT */
/* bench/templates.c -- what rendering a conversation costs: for each template of FOLDER (*.jinja) the least of 9 times,
 * in microseconds of the processor, for 100 messages (a system turn, then questions, answers with reasoning, calls of
 * tools and their results), and what loading it takes, probes included.
 *
 *     cmake --build build --target bench_templates && build/bench_templates ../shared/templates */
#include <quern/chat.h>

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { N_MESSAGES = 100, ROUNDS = 9, SIZE = 1 << 20 };

static double now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static const char words[] =
    "It is a truth universally acknowledged, that a single man in possession of a good fortune, must be in "
    "want of a wife. However little known the feelings or views of such a man may be, this truth is so "
    "well fixed in the minds of the surrounding families.";
static const char tools[] = "[{\"type\": \"function\", \"function\": {\"name\": \"look_up\", \"description\": \"Looks "
                            "something up.\", \"parameters\": "
                            "{\"type\": \"object\", \"properties\": {\"what\": {\"type\": \"string\", \"description\": "
                            "\"of what\"}, \"n\": {\"type\": "
                            "\"integer\"}}, \"required\": [\"what\"]}}}]";

/* with_tools: every fifth exchange is a call and its result. */
static void conversation(char *out, bool with_tools)
{
    size_t n = 0;
    int messages = 0;
    n += (size_t)snprintf(out, SIZE, "[{\"role\": \"system\", \"content\": \"Answer briefly.\"}");
    for (messages = 1; messages + 4 <= N_MESSAGES; messages += 2) {
        n += (size_t)snprintf(out + n, SIZE - n, ", {\"role\": \"user\", \"content\": \"%d: %s\"}", messages, words);
        if (with_tools && messages / 2 % 5 == 4) {
            n += (size_t)snprintf(
                out + n, SIZE - n,
                ", {\"role\": \"assistant\", \"content\": \"\", \"tool_calls\": [{\"id\": \"call%05d\", \"type\": "
                "\"function\", \"function\": {\"name\": \"look_up\", \"arguments\": \"{\\\"what\\\": \\\"x\\\", "
                "\\\"n\\\": 3}\"}}]}, {\"role\": \"tool\", \"tool_call_id\": \"call%05d\", \"name\": \"look_up\", "
                "\"content\": \"{\\\"result\\\": 7}\"}",
                messages, messages);
            messages += 2;
        }
        n += (size_t)snprintf(
            out + n, SIZE - n,
            ", {\"role\": \"assistant\", \"content\": \"%s\", \"reasoning_content\": \"Let me think about it.\"}",
            words);
    }
    for (; messages < N_MESSAGES - 1; messages += 2)
        n += (size_t)
            snprintf(out + n, SIZE - n,
                     ", {\"role\": \"user\", \"content\": \"a\"}, {\"role\": \"assistant\", \"content\": \"b\"}");
    if (messages < N_MESSAGES)
        n += (size_t)snprintf(out + n, SIZE - n, ", {\"role\": \"user\", \"content\": \"and now?\"}");
    snprintf(out + n, SIZE - n, "]");
}

static double render(const qn_chat_template *t, const char *messages, bool with_tools, size_t *len, qn_error *err)
{
    double best = -1;
    for (int i = 0; i < ROUNDS; i++) {
        qn_prompt p;
        const qn_chat_options options = {.tools = with_tools ? tools : NULL,
                                         .bos = "<s>",
                                         .eos = "</s>",
                                         .now = 1767225600};
        const double begin = now_us();
        if (qn_chat_render(t, messages, &options, &p, err) != QN_OK) return -1;
        const double us = now_us() - begin;
        *len = p.len;
        qn_prompt_deinit(&p);
        if (best < 0 || us < best) best = us;
    }
    return best;
}

int main(int argc, char **argv)
{
    struct dirent **entry;
    if (argc < 2) {
        fprintf(stderr, "usage: bench_templates FOLDER\n");
        return 2;
    }
    const int n = scandir(argv[1], &entry, NULL, alphasort);
    char *messages = malloc(SIZE), *source = malloc(SIZE), path[4096];
    if (n < 0 || !messages || !source) return 1;
    double worst = 0;
    printf("%-44s %9s %9s %9s %9s\n", "template", "load us", "us", "bytes", "plain us");
    for (int i = 0; i < n; i++) {
        qn_chat_template *t;
        qn_error err;
        size_t len = 0, plain_len = 0;
        snprintf(path, sizeof path, "%s/%s", argv[1], entry[i]->d_name);
        FILE *f = strstr(path, ".jinja") ? fopen(path, "rb") : NULL;
        if (!f) continue;
        const size_t size = fread(source, 1, SIZE, f);
        fclose(f);
        const double begin = now_us();
        if (qn_chat_template_create(source, size, &t, &err) != QN_OK) {
            printf("%-44s %s\n", entry[i]->d_name, err.text);
            continue;
        }
        const double load = now_us() - begin;
        conversation(messages, true);
        double us = render(t, messages, true, &len, &err);
        conversation(messages, false);
        const double plain = render(t, messages, false, &plain_len, &err);
        if (us < 0 && plain < 0)
            printf("%-44s %s\n", entry[i]->d_name, err.text);
        else
            printf("%-44s %9.0f %9.0f %9zu %9.0f\n", entry[i]->d_name, load, us, len, plain);
        if (us > worst) worst = us;
        if (plain > worst) worst = plain;
        qn_chat_template_destroy(t);
    }
    printf("the longest: %.0f us\n", worst);
    return 0;
}
