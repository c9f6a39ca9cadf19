/* SPDX-License-Identifier: MIT */
/* src/serve/problem.c -- problems, and fields of JSON objects that are what they should be or give one. */
#include "serve/problem.h"
#include "serve/answers.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

bool problem_set(problem *p, int status, const char *field, const char *fmt, ...)
{
    if (p->status) return false;
    va_list args;
    va_start(args, fmt);
    vsnprintf(p->text, sizeof(p->text), fmt, args);
    va_end(args);
    snprintf(p->field, sizeof(p->field), "%s", field ? field : "");
    p->status = status;
    return false;
}

/* The library names places itself, "messages[2].role: ..": that is the field, then. */
static size_t place_in(const char *said, const char *field)
{
    const size_t n = strlen(field), len = strcspn(said, ": ");
    return n && strncmp(said, field, n) == 0 && (said[n] == '[' || said[n] == '.' || said[n] == ':') && said[len] == ':'
               ? len
               : 0;
}

bool problem_error(problem *p, const char *field, const qn_error *err)
{
    char place[sizeof(p->field)];
    const bool ours = err->status == QN_STATUS_internal || err->status == QN_STATUS_io || err->status == QN_STATUS_lost;
    const int status = err->status == QN_STATUS_nomem || err->status == QN_STATUS_state ? 503 : ours ? 500 : 400;
    const size_t n = place_in(err->text, field);
    if (!n || n >= sizeof(place)) return problem_set(p, status, field, "%s", err->text);
    snprintf(place, sizeof(place), "%.*s", (int)n, err->text);
    return problem_set(p, status, place, "%s", err->text + n + 2);
}

bool problem_passes(const problem *p) { return p->status == 429 || p->status == 503; }

json_t *problem_message(const problem *p)
{
    text t = {0};
    if (*p->field) text_printf(&t, "%s: ", p->field);
    text_puts(&t, p->text);
    json_t *made = t.failed ? NULL : json_text(t.data, t.n);
    text_deinit(&t);
    return made;
}

const char *problem_openai_type(int status)
{
#define ROW(number, openai, anthropic) \
    if (status == number) return openai;
    PROBLEM_ROWS(ROW)
#undef ROW
    return "server_error";
}

const char *problem_anthropic_type(int status)
{
#define ROW(number, openai, anthropic) \
    if (status == number) return anthropic;
    PROBLEM_ROWS(ROW)
#undef ROW
    return "api_error";
}

/* ---- fields ---- */

const char *json_type_name(const json_t *value)
{
    switch (json_typeof(value)) {
    case JSON_OBJECT: return "an object";
    case JSON_ARRAY: return "a list";
    case JSON_STRING: return "text";
    case JSON_INTEGER:
    case JSON_REAL: return "a number";
    case JSON_TRUE:
    case JSON_FALSE: return "a boolean";
    case JSON_NULL: return "null";
    }
    return "nothing";
}

const char *field_path(const fields *f, const char *name, char *buf, size_t size)
{
    snprintf(buf, size, "%s%s%s", f->path, *f->path && *name && *name != '[' ? "." : "", name);
    return buf;
}

const json_t *field_get(const fields *f, const char *name)
{
    const json_t *value = json_object_get(f->object, name);
    return value && !json_is_null(value) ? value : NULL;
}

bool field_wrong(const fields *f, const char *name, const char *expected)
{
    char path[192];
    const json_t *value = json_object_get(f->object, name);
    return problem_set(f->p, 400, field_path(f, name, path, sizeof(path)), "found %s, expected %s",
                       value ? json_type_name(value) : "nothing", expected);
}

bool field_number(const fields *f, const char *name, double lo, double hi, double *out)
{
    char path[192];
    const json_t *value = field_get(f, name);
    if (!value) return false;
    if (!json_is_number(value)) return field_wrong(f, name, "a number");
    const double x = json_number_value(value);
    if (!(x >= lo && x <= hi))
        return problem_set(f->p, 400, field_path(f, name, path, sizeof(path)), "%g is not from %g to %g", x, lo, hi);
    *out = x;
    return true;
}

bool field_integer(const fields *f, const char *name, int64_t lo, int64_t hi, int64_t *out)
{
    char path[192];
    const json_t *value = field_get(f, name);
    if (!value) return false;
    const double real = json_is_real(value) ? json_real_value(value) : 0.5;
    const bool whole = json_is_real(value) && real >= -9e15 && real <= 9e15 && real == (double)(int64_t)real;
    if (!json_is_integer(value) && !whole) return field_wrong(f, name, "a whole number");
    const int64_t x = whole ? (int64_t)real : (int64_t)json_integer_value(value);
    if (x < lo || x > hi)
        return problem_set(f->p, 400, field_path(f, name, path, sizeof(path)), "%lld is not from %lld to %lld",
                           (long long)x, (long long)lo, (long long)hi);
    *out = x;
    return true;
}

bool field_bool(const fields *f, const char *name, bool *out)
{
    const json_t *value = field_get(f, name);
    if (!value) return false;
    if (!json_is_boolean(value)) return field_wrong(f, name, "true or false");
    *out = json_is_true(value);
    return true;
}

bool field_string(const fields *f, const char *name, const char **out)
{
    char path[192];
    const json_t *value = field_get(f, name);
    if (!value) return false;
    if (!json_is_string(value)) return field_wrong(f, name, "text");
    if (strlen(json_string_value(value)) != json_string_length(value))
        return problem_set(f->p, 400, field_path(f, name, path, sizeof(path)), "a NUL character in a name");
    *out = json_string_value(value);
    return true;
}

const json_t *field_array(const fields *f, const char *name)
{
    const json_t *value = field_get(f, name);
    if (value && !json_is_array(value)) {
        field_wrong(f, name, "a list");
        return NULL;
    }
    return value;
}

const json_t *field_object(const fields *f, const char *name)
{
    const json_t *value = field_get(f, name);
    if (value && !json_is_object(value)) {
        field_wrong(f, name, "an object");
        return NULL;
    }
    return value;
}
