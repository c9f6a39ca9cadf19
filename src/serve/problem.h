/* SPDX-License-Identifier: MIT */
/* src/serve/problem.h -- what is wrong with a request: the status, the place in its body, and a sentence. Dialects
 * write it in their own form. */
#ifndef QN_SERVE_PROBLEM_H
#define QN_SERVE_PROBLEM_H

#include <jansson.h>
#include <quern/base.h>

/* PROBLEM(status, type in OpenAI's bodies, type in Anthropic's) */
/* clang-format off */
#define PROBLEM_ROWS(PROBLEM) \
    PROBLEM(400, "invalid_request_error", "invalid_request_error") \
    PROBLEM(401, "authentication_error",  "authentication_error") \
    PROBLEM(403, "permission_error",      "permission_error") \
    PROBLEM(404, "not_found_error",       "not_found_error") \
    PROBLEM(405, "invalid_request_error", "invalid_request_error") \
    PROBLEM(408, "timeout_error",         "timeout_error") \
    PROBLEM(413, "invalid_request_error", "request_too_large") \
    PROBLEM(429, "rate_limit_error",      "rate_limit_error") \
    PROBLEM(500, "server_error",          "api_error") \
    PROBLEM(501, "not_supported_error",   "api_error") \
    PROBLEM(503, "unavailable_error",     "overloaded_error")
/* clang-format on */

typedef struct problem {
    int status;      /* of HTTP; 0: none */
    char field[192]; /* "messages[2].content"; "" where it is no field's */
    char code[40];   /* a word for programs; "" where there is none */
    char text[768];
    bool no_room;  /* for want of memory, of which others may have some */
    bool given_up; /* a load that nobody waited for any more */
} problem;

/* The first one stays. Returns false. */
bool problem_set(problem *p, int status, const char *field, const char *fmt, ...) QN_PRINTF(4, 5);
/* Of an error of the library's: 400 for what the request said, 500 or 503 for the rest. */
bool problem_error(problem *p, const char *field, const qn_error *err);
/* May be answered when it is asked again: nothing is wrong with the request. */
bool problem_passes(const problem *p);
/* With the field before it, whatever bytes were quoted. */
json_t *problem_message(const problem *p);
const char *problem_openai_type(int status);
const char *problem_anthropic_type(int status);

/* ---- fields of an object. A member that is null is absent: false without a problem. Otherwise true, or a problem.
 * ---- */
typedef struct fields {
    const json_t *object;
    const char *path; /* of the object, "" for the body */
    problem *p;
} fields;

const json_t *field_get(const fields *f, const char *name);
bool field_number(const fields *f, const char *name, double lo, double hi, double *out);
bool field_integer(const fields *f, const char *name, int64_t lo, int64_t hi, int64_t *out);
bool field_bool(const fields *f, const char *name, bool *out);
bool field_string(const fields *f, const char *name, const char **out);
const json_t *field_array(const fields *f, const char *name);
const json_t *field_object(const fields *f, const char *name);
/* "path.name" into a buffer. */
const char *field_path(const fields *f, const char *name, char *buf, size_t size);
/* Says that a field has the wrong type: "found a number, expected text". */
bool field_wrong(const fields *f, const char *name, const char *expected);
const char *json_type_name(const json_t *value);

#endif
