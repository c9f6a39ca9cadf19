/* SPDX-License-Identifier: MIT */
/* src/text/grammar/schema/formats.c -- formats of strings, as patterns: a format is asserted, unlike what JSON schema
 * does of itself. Each follows its RFC but for leap seconds, which only Z and +00:00 have. */
#include "text/grammar/schema/schema.h"

#define YEAR      "([0-9]{3}[1-9]|[0-9]{2}[1-9][0-9]|[0-9][1-9][0-9]{2}|[1-9][0-9]{3})" /* not 0000 */
/* clang-format off */
#define DAYS /* but for the 29th of February */ \
    "((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])" \
    "|(0[469]|11)-(0[1-9]|[12][0-9]|30)" \
    "|02-(0[1-9]|1[0-9]|2[0-8]))"
/* clang-format on */
#define LEAP_YEAR "([0-9]{2}(0[48]|[2468][048]|[13579][26])|(0[48]|[2468][048]|[13579][26])00)"
#define DATE      "(" YEAR "-" DAYS "|" LEAP_YEAR "-02-29)"
#define HOUR      "([01][0-9]|2[0-3])"
#define FRACTION  "(\\.[0-9]+)?"
#define TIME \
    "(" HOUR ":[0-5][0-9]:[0-5][0-9]" FRACTION "([Zz]|[+-]" HOUR ":[0-5][0-9])|23:59:60" FRACTION "([Zz]|[+-]00:00))"

#define OCTET "(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
#define IPV4  OCTET "(\\." OCTET "){3}"
#define H     "[0-9A-Fa-f]{1,4}"
#define IPV6 \
    "((" H ":){7}" H "|(" H ":){6}" IPV4 "|(" H ":){1,7}:|(" H ":){1,6}:" H "|(" H ":){1,5}(:" H "){1,2}|(" H \
    ":){1,4}(:" H "){1,3}|(" H ":){1,3}(:" H "){1,4}|(" H ":){1,2}(:" H "){1,5}|" H ":(:" H "){1,6}|:((:" H \
    "){1,7}|:)|(" H ":){1,5}:" IPV4 "|(" H ":){1,4}(:" H "){0,1}:" IPV4 "|(" H ":){1,3}(:" H "){0,2}:" IPV4 "|(" H \
    ":){1,2}(:" H "){0,3}:" IPV4 "|" H ":(:" H "){0,4}:" IPV4 "|:(:" H "){0,5}:" IPV4 ")"

#define ATEXT "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
#define LABEL "[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
#define EMAIL \
    "(" ATEXT "(\\." ATEXT ")*|\"([ !#-\\[\\]-~]|\\\\[ -~])*\")@(" LABEL "(\\." LABEL ")*|\\[(" IPV4 "|IPv6:" IPV6 \
    ")\\])"

#define PCT   "%[0-9A-Fa-f]{2}"
#define PCHAR "([A-Za-z0-9._~!$&'()*+,;=:@-]|" PCT ")"
#define TAIL  "(/" PCHAR "*)*"
#define URI \
    "[A-Za-z][A-Za-z0-9+.-]*:(//(([A-Za-z0-9._~!$&'()*+,;=:-]|" PCT ")*@)?(\\[(" IPV6 \
    "|[vV][0-9A-Fa-f]+\\.[A-Za-z0-9._~!$&'()*+,;=:-]+)\\]|([A-Za-z0-9._~!$&'()*+,;=-]|" PCT ")*)(:[0-9]*)?" TAIL \
    "|/(" PCHAR "+" TAIL ")?|" PCHAR "+" TAIL "|)(\\?(" PCHAR "|[/?])*)?(#(" PCHAR "|[/?])*)?"

const char *qn__format_pattern(const qn_vstr *name)
{
    static const struct {
        const char *name, *pattern;
    } formats[] = {
        {"date", "^" DATE "$"},
        {"time", "^" TIME "$"},
        {"date-time", "^" DATE "[Tt]" TIME "$"},
        {"uuid", "^[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}$"},
        {"ipv4", "^" IPV4 "$"},
        {"ipv6", "^" IPV6 "$"},
        {"email", "^(" EMAIL ")$"},
        {"uri", "^(" URI ")$"},
    };
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (strlen(formats[i].name) == name->n && memcmp(formats[i].name, name->data, name->n) == 0)
            return formats[i].pattern;
    return NULL;
}
