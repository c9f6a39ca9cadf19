/* SPDX-License-Identifier: MIT */
/* src/serve/page.c -- GET / and /page/NAME: the web page, whose files (src/serve/page) are in the program. It holds no
 * secret and needs no key; what it asks for does. */
#include "serve/routes.h"
#include <page.inc>
#include <string.h>

typedef struct page_file {
    const char *name;
    const unsigned char *data;
    size_t n;
} page_file;

static const page_file files[] = {
#define ROW(name, array) {name, array, sizeof(array) - 1},
    EMBEDDED_ROWS(ROW)
#undef ROW
};

static const char *type_of(const char *name)
{
    static const char *const types[][2] = {
        {".html", "text/html; charset=utf-8"},
        {".js", "text/javascript; charset=utf-8"},
        {".css", "text/css; charset=utf-8"},
        {".svg", "image/svg+xml"},
    };
    const char *dot = strrchr(name, '.');
    for (size_t i = 0; dot && i < sizeof(types) / sizeof(types[0]); i++)
        if (strcmp(dot, types[i][0]) == 0) return types[i][1];
    return "application/octet-stream";
}

static void reply(exchange *x, const char *name)
{
    problem p = {0};
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        if (strcmp(files[i].name, name) != 0) continue;
        text body = {0};
        text_put(&body, (const char *)files[i].data, files[i].n);
        exchange_reply_type(x, 200, type_of(name), &body);
        return;
    }
    problem_set(&p, 404, NULL, "there is no page/%.120s", name);
    exchange_refuse(x, &p);
}

void serve_page(exchange *x) { reply(x, x->rest); }
void serve_index(exchange *x) { reply(x, "index.html"); }
