/* SPDX-License-Identifier: MIT */
/* src/cli/needs.c -- what a chat template was found to want. */
#include "cli/needs.h"
#include <string.h>

int cli_print_needs(const qn_chat_template *t)
{
    qn_chat_needs n;
    qn_chat_template_needs(t, &n);
    printf("template               %s, %zu bytes\n", n.origin, strlen(qn_chat_template_source(t)));
    printf("system turns           %s\n", !n.system       ? "none: before the first user's text"
                                          : n.late_system ? "anywhere"
                                                          : "first only: later ones are joined to it");
    printf("developer turns        %s\n", n.developer ? "yes" : "become system");
    printf("content                %s\n", n.content_parts ? "parts" : "text");
    printf("tools                  %s%s\n",
           !n.tools       ? "no"
           : n.flat_tools ? "yes, as functions"
                          : "yes",
           n.whole_tools ? ", with description and parameters" : "");
    printf("calls of earlier turns %s\n", !n.calls          ? "no"
                                          : n.several_calls ? "yes, several a turn"
                                                            : "yes, one a turn");
    if (n.calls) {
        printf("arguments              %s\n", n.arguments_text ? "JSON text" : "object");
        printf("content beside calls   %s\n", n.call_content_null ? "null" : "text");
        if (n.short_ids) printf("ids of calls           nine letters and digits\n");
    }
    if (n.thought_or_content) printf("content with reasoning before a call: left out\n");
    printf("calls are written as   %s\n", n.syntax ? n.syntax : "not known");
    printf("reasoning              %s\n", n.reasoning ? n.reasoning : "not shown");
    printf("thinking can be set    %s\n", n.thinking_switch ? "yes" : "no");
    printf("its effort can be set  %s\n", n.effort_switch ? "yes" : "no");
    return cli_finish_output();
}

json_t *cli_needs_json(const qn_chat_template *t)
{
    qn_chat_needs n;
    qn_chat_template_needs(t, &n);
    return json_pack(
        "{s:s, s:b, s:b, s:b, s:b, s:b, s:b, s:b, s:b, s:b, s:b, s:b, s:b, s:b, s:b, s:s?, s:b, s:b, s:b, s:s?, s:s?}",
        "origin", n.origin, "system", n.system, "late_system", n.late_system, "developer", n.developer, "content_parts",
        n.content_parts, "tools", n.tools, "flat_tools", n.flat_tools, "single_types", n.single_types, "whole_tools",
        n.whole_tools, "empty_tools", n.empty_tools, "calls", n.calls, "several_calls", n.several_calls,
        "arguments_text", n.arguments_text, "call_content_null", n.call_content_null, "short_ids", n.short_ids,
        "reasoning", n.reasoning, "thinking_switch", n.thinking_switch, "effort_switch", n.effort_switch,
        "thought_or_content", n.thought_or_content, "syntax", n.syntax, "call_open", n.call_open);
}
