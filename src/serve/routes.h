/* SPDX-License-Identifier: MIT */
/* src/serve/routes.h -- the functions behind the paths; routes.def lists them. */
#ifndef QN_SERVE_ROUTES_H
#define QN_SERVE_ROUTES_H

#include "serve/exchange.h"

#define ROUTE(method, path, function, dialect, by, open, needs) void function(exchange *x);
#include "serve/routes.def"
#undef ROUTE

#endif
