/* SPDX-License-Identifier: MIT */
/* src/cli/completion.c -- quern completion: what bash, zsh and fish need to complete commands, options and their
 * values, made of the option tables. */
#include "cli/describe.h"
#include <string.h>

static const cli_usage usage = {
    .command = "completion",
    .arguments = "SHELL",
    .summary =
        "Prints the completion of quern's commands, options, values and files for a shell. An installed Quern has "
        "it where shells look for it.",
    .examples = "In this bash, without installing:\nsource <(quern completion bash)\n"
                "For zsh, in a folder of $fpath:\nquern completion zsh > ~/.zfunc/_quern\n"
                "For fish:\nquern completion fish > ~/.config/fish/completions/quern.fish\n",
    .min_args = 1,
    .max_args = 1,
};

static const cli_value *value_of(const cli_option *o) { return o->argument ? cli_value_find(o->argument) : NULL; }

/* The help's first part, which is all that fits a list. */
static int short_length(const char *help)
{
    size_t n = strcspn(help, ";\n");
    const char *bracket = strstr(help, " (");
    if (bracket && (size_t)(bracket - help) < n) n = (size_t)(bracket - help);
    return (int)n;
}

/* Text in a shell's single quotes, with a backslash before each of `special`. */
static void put_quoted(const char *text, int len, const char *special)
{
    for (int i = 0; i < len; i++) {
        if (text[i] == '\'')
            fputs("'\\''", stdout);
        else
            printf(strchr(special, text[i]) ? "\\%c" : "%c", text[i]);
    }
}

/* Calls each for every positional argument of a usage line: "MODEL [PROMPT]" are two. */
static void each_argument(const char *arguments, void (*each)(const char *word, int len, int i))
{
    int i = 0;
    for (const char *p = arguments; *p; i++) {
        const int len = (int)strcspn(p, " ");
        each(p, len, i);
        p += len;
        p += *p == ' ';
    }
}

/* ---- bash ---- */

static const char *const kinds[] = {"text", "file", "folder", "gguf", "gguf", "words", "words"};

static void bash_value(const cli_value *value)
{
    char words[CLI_WORDS_SIZE];
    cli_value_words(value, " ", words, sizeof(words));
    printf("kind=%s words='%s' separator='%.1s' ;;\n", value ? kinds[value->kind] : "text", words,
           value ? &value->separator : "");
}

static void bash_names(const cli_option *o)
{
    if (o->letter) printf(" -%c", o->letter);
    printf(" --%s", o->name);
}

static void bash_argument(const char *word, int len, int i) { printf(i ? " %.*s" : "%.*s", len, word); }

static void bash_options(void *ctx, const cli_usage *u, const cli_option *options, int n)
{
    (void)ctx;
    printf("    %s)\n        options='-h --help", u->command);
    for (int i = 0; i < n; i++)
        if (options[i].kind != CLI_GROUP) bash_names(&options[i]);
    printf("'\n        valued='");
    for (int i = 0; i < n; i++)
        if (options[i].argument) bash_names(&options[i]);
    printf(" '\n        arguments='");
    each_argument(u->arguments, bash_argument);
    printf("' ;;\n");
}

static void bash_values(void *ctx, const cli_usage *u, const cli_option *options, int n)
{
    (void)ctx;
    for (int i = 0; i < n; i++) {
        const cli_option *o = &options[i];
        const cli_value *value = value_of(o);
        if (!value || value->kind == CLI_VALUE_text) continue;
        if (o->letter) printf("    '%s -%c' | ", u->command, o->letter);
        printf(o->letter ? "'%s --%s') " : "    '%s --%s') ", u->command, o->name);
        bash_value(value);
    }
}

static void bash_placeholder(const char *word, int len, int i)
{
    char copy[64];
    (void)i;
    snprintf(copy, sizeof(copy), "%.*s", len, word);
    const cli_value *value = cli_value_find(copy);
    if (!value || value->kind == CLI_VALUE_text) return;
    printf("    '%s') ", copy);
    bash_value(value);
}

static void bash_placeholders(void *ctx, const cli_usage *u, const cli_option *options, int n)
{
    (void)ctx, (void)options, (void)n;
    each_argument(u->arguments, bash_placeholder);
}

static int each_command(cli_describe_fn fn)
{
    int status = CLI_OK;
    for (int i = 0; i < cli_n_commands() && status == CLI_OK; i++) status = cli_describe(cli_command_get(i), fn, NULL);
    return status;
}

static const char bash_begin[] = //
    "# bash completion of quern, made by \"quern completion bash\".\n"
    "\n"
    "# kind, words and separator of an option's value or a positional argument.\n"
    "_quern_value() {\n"
    "    kind=text words='' separator=''\n"
    "    case $1 in\n";
static const char bash_tables[] = //
    "    esac\n"
    "}\n"
    "\n"
    "_quern_reply() {\n"
    "    local IFS=$'\\n' before=''\n"
    "    case $kind in\n"
    "    words)\n"
    "        cur=${cur#[\\\"\\']}\n"
    "        if [[ $separator && $cur == *\"$separator\"* ]]; then\n"
    "            before=${cur%\"$separator\"*}$separator\n"
    "            cur=${cur##*\"$separator\"}\n"
    "        fi\n"
    "        COMPREPLY=($(compgen -P \"$before\" -W \"${words// /$'\\n'}\" -- \"$cur\"))\n"
    "        [[ $separator ]] && compopt -o nospace 2>/dev/null ;;\n"
    "    file)\n"
    "        COMPREPLY=($(compgen -f -- \"$cur\"))\n"
    "        compopt -o filenames 2>/dev/null ;;\n"
    "    folder)\n"
    "        COMPREPLY=($(compgen -d -- \"$cur\"))\n"
    "        compopt -o filenames 2>/dev/null ;;\n"
    "    gguf)\n"
    "        COMPREPLY=($(compgen -d -- \"$cur\") $(compgen -f -X '!*.gguf' -- \"$cur\"))\n"
    "        compopt -o filenames 2>/dev/null ;;\n"
    "    esac\n"
    "}\n"
    "\n"
    "_quern() {\n"
    "    local cur=${COMP_WORDS[COMP_CWORD]} last=$((COMP_CWORD - 1)) command=${COMP_WORDS[1]} ended='' i position=0\n"
    "    local options='' valued='' arguments='' kind words separator\n"
    "    COMPREPLY=()\n";
static const char bash_end[] = //
    "    *) return ;;\n"
    "    esac\n"
    "    # \"--option=value\" comes as three words.\n"
    "    [[ $cur == '=' ]] && cur=''\n"
    "    [[ ${COMP_WORDS[last]} == '=' ]] && last=$((last - 1))\n"
    "    [[ ${COMP_WORDS[COMP_CWORD]} == '=' ]] && last=$((COMP_CWORD - 1))\n"
    "    for ((i = 2; i < COMP_CWORD; i++)); do\n"
    "        case ${COMP_WORDS[i]} in\n"
    "        --) ended=yes ;;\n"
    "        -?*)\n"
    "            if [[ ! $ended && $valued == *\" ${COMP_WORDS[i]} \"* ]]; then\n"
    "                if ((i == last)); then\n"
    "                    _quern_value \"$command ${COMP_WORDS[i]}\"\n"
    "                    _quern_reply\n"
    "                    return\n"
    "                fi\n"
    "                [[ ${COMP_WORDS[i + 1]} == '=' ]] && i=$((i + 1))\n"
    "                i=$((i + 1))\n"
    "            fi ;;\n"
    "        *) position=$((position + 1)) ;;\n"
    "        esac\n"
    "    done\n"
    "    if [[ ! $ended && $cur == -* ]]; then\n"
    "        COMPREPLY=($(compgen -W \"$options\" -- \"$cur\"))\n"
    "        return\n"
    "    fi\n"
    "    local -a list\n"
    "    read -ra list <<<\"$arguments\"\n"
    "    i=${#list[@]}\n"
    "    ((position >= i && i > 0)) && [[ ${list[i - 1]} == *...* ]] && position=$((i - 1))\n"
    "    ((position < i)) || return\n"
    "    _quern_value \"${list[position]}\"\n"
    "    _quern_reply\n"
    "}\n"
    "\n"
    "complete -F _quern quern\n";

static int print_bash(void)
{
    fputs(bash_begin, stdout);
    int status = each_command(bash_values);
    if (status == CLI_OK) status = each_command(bash_placeholders);
    fputs(bash_tables, stdout);
    printf("    if ((COMP_CWORD == 1)); then\n        COMPREPLY=($(compgen -W '");
    for (int i = 0; i < cli_n_commands(); i++) printf("%s ", cli_command_get(i)->name);
    printf("--help --version' -- \"$cur\"))\n        return\n    fi\n    case $command in\n");
    if (status == CLI_OK) status = each_command(bash_options);
    fputs(bash_end, stdout);
    return status == CLI_OK ? cli_finish_output() : status;
}

/* ---- zsh ---- */

static void zsh_action(const cli_value *value)
{
    char words[CLI_WORDS_SIZE];
    switch (value ? value->kind : CLI_VALUE_text) {
    case CLI_VALUE_text: putchar(' '); break;
    case CLI_VALUE_file: printf("_files"); break;
    case CLI_VALUE_folder: printf("_files -/"); break;
    case CLI_VALUE_output:
    case CLI_VALUE_gguf: printf("_files -g \"*.gguf\""); break;
    case CLI_VALUE_words:
    case CLI_VALUE_hints:
        cli_value_words(value, " ", words, sizeof(words));
        if (value->separator)
            printf("_values -s \\%c %s %s", value->separator, value->placeholder, words);
        else
            printf("(%s)", words);
        break;
    }
}

static void zsh_option(const cli_option *o)
{
    const bool many = o->kind == CLI_STRINGS, value = o->argument != NULL;
    printf(" \\\n            ");
    if (o->letter)
        printf("'%s'{-%c%s,--%s%s}'[", many ? "*" : "", o->letter, value ? "+" : "", o->name, value ? "=" : "");
    else
        printf("'%s--%s%s[", many ? "*" : "", o->name, value ? "=" : "");
    put_quoted(o->help, short_length(o->help), "[]\\:");
    putchar(']');
    if (value) {
        putchar(':');
        put_quoted(o->argument, (int)strlen(o->argument), ":\\");
        putchar(':');
        zsh_action(value_of(o));
    }
    putchar('\'');
}

static void zsh_argument(const char *word, int len, int i)
{
    char copy[64];
    snprintf(copy, sizeof(copy), "%.*s", len, word);
    printf(" \\\n            '");
    if (strstr(copy, "..."))
        putchar('*');
    else
        printf("%d", i + 1);
    printf(*copy == '[' ? "::" : ":");
    put_quoted(copy, (int)strlen(copy), ":\\");
    putchar(':');
    zsh_action(cli_value_find(copy));
    putchar('\'');
}

static void zsh_command(void *ctx, const cli_usage *u, const cli_option *options, int n)
{
    (void)ctx;
    printf("        %s)\n            _arguments -S '(- *)'{-h,--help}'[help]'", u->command);
    for (int i = 0; i < n; i++)
        if (options[i].kind != CLI_GROUP) zsh_option(&options[i]);
    each_argument(u->arguments, zsh_argument);
    printf(" && ret=0 ;;\n");
}

static int print_zsh(void)
{
    printf("#compdef quern\n"
           "# zsh completion of quern, made by \"quern completion zsh\".\n"
           "_quern() {\n"
           "    local curcontext=$curcontext state line ret=1\n"
           "    typeset -A opt_args\n"
           "    _arguments -C '(- *)'{-h,--help}'[the commands]' '(- *)'{-V,--version}'[the version]' \\\n"
           "        '1:command:->command' '*::argument:->argument' && ret=0\n"
           "    case $state in\n"
           "    command)\n"
           "        local -a commands\n"
           "        commands=(");
    for (int i = 0; i < cli_n_commands(); i++) {
        printf("\n            '%s:", cli_command_get(i)->name);
        put_quoted(cli_command_get(i)->help, (int)strlen(cli_command_get(i)->help), "");
        putchar('\'');
    }
    printf(")\n"
           "        _describe command commands && ret=0 ;;\n"
           "    argument)\n"
           "        curcontext=${curcontext%%:*:*}:quern-$words[1]:\n"
           "        case $words[1] in\n");
    const int status = each_command(zsh_command);
    printf("        esac ;;\n"
           "    esac\n"
           "    return ret\n"
           "}\n"
           "if [[ $funcstack[1] == _quern ]]; then _quern \"$@\"; else compdef _quern quern; fi\n");
    return status == CLI_OK ? cli_finish_output() : status;
}

/* ---- fish ---- */

static void fish_value(const cli_value *value)
{
    char words[CLI_WORDS_SIZE];
    switch (value ? value->kind : CLI_VALUE_text) {
    case CLI_VALUE_text: break;
    case CLI_VALUE_file: printf(" -F"); break;
    case CLI_VALUE_folder: printf(" -a '(__fish_complete_directories)'"); break;
    case CLI_VALUE_output:
    case CLI_VALUE_gguf: printf(" -k -a '(__fish_complete_suffix .gguf)'"); break;
    case CLI_VALUE_words:
    case CLI_VALUE_hints:
        cli_value_words(value, " ", words, sizeof(words));
        if (value->separator)
            printf(" -a '(__fish_append \"%c\" %s)'", value->separator, words);
        else
            printf(" -a '%s'", words);
        break;
    }
}

static void fish_text(const char *text, int len)
{
    printf(" -d '");
    for (int i = 0; i < len; i++) printf(strchr("'\\", text[i]) ? "\\%c" : "%c", text[i]);
    putchar('\'');
}

static const char *fish_in; /* the command */
static void fish_argument(const char *word, int len, int i)
{
    char copy[64];
    snprintf(copy, sizeof(copy), "%.*s", len, word);
    const cli_value *value = cli_value_find(copy);
    if (!value || value->kind == CLI_VALUE_text) return;
    printf("complete -c quern -n '__quern_at %s %d%s'", fish_in, i, strstr(copy, "...") ? " more" : "");
    fish_value(value);
    putchar('\n');
}

static void fish_command(void *ctx, const cli_usage *u, const cli_option *options, int n)
{
    (void)ctx;
    for (int i = 0; i < n; i++) {
        const cli_option *o = &options[i];
        if (o->kind == CLI_GROUP) continue;
        printf("complete -c quern -n '__quern_in %s' -l %s", u->command, o->name);
        if (o->letter) printf(" -s %c", o->letter);
        if (o->argument) printf(value_of(o) && value_of(o)->kind == CLI_VALUE_file ? " -r" : " -x");
        fish_value(value_of(o));
        fish_text(o->help, short_length(o->help));
        putchar('\n');
    }
    printf("complete -c quern -n '__quern_in %s' -s h -l help -d help\n", u->command);
    fish_in = u->command;
    each_argument(u->arguments, fish_argument);
}

static int print_fish(void)
{
    printf("# fish completion of quern, made by \"quern completion fish\".\n"
           "function __quern_in\n"
           "    set -l words (commandline -opc)\n"
           "    test (count $words) -ge 2; and test $words[2] = $argv[1]\n"
           "end\n"
           "# Whether so many positional arguments of a command are there, or with \"more\" at least so many.\n"
           "function __quern_at\n"
           "    __quern_in $argv[1]; or return 1\n"
           "    set -l words (commandline -opc)\n"
           "    set -l n (count (string match -v -- '-*' $words[3..-1]))\n"
           "    test $n -eq $argv[2]; or test \"$argv[3]\" = more -a $n -ge $argv[2]\n"
           "end\n"
           "complete -c quern -f\n"
           "complete -c quern -n 'test (count (commandline -opc)) -eq 1' -l version -s V -d 'the version'\n"
           "complete -c quern -n 'test (count (commandline -opc)) -eq 1' -l help -s h -d 'the commands'\n");
    for (int i = 0; i < cli_n_commands(); i++) {
        const cli_command *c = cli_command_get(i);
        printf("complete -c quern -n 'test (count (commandline -opc)) -eq 1' -a %s", c->name);
        fish_text(c->help, (int)strlen(c->help));
        putchar('\n');
    }
    const int status = each_command(fish_command);
    return status == CLI_OK ? cli_finish_output() : status;
}

/* ---- the command ---- */

int cli_command_completion(int argc, char **argv)
{
    static const struct {
        const char *name;
        int (*print)(void);
    } shells[] = {{"bash", print_bash}, {"zsh", print_zsh}, {"fish", print_fish}};
    const char *shell = NULL;
    int n_args = 0;
    const int status = cli_parse(&usage, NULL, 0, argc, argv, &shell, &n_args);
    if (status >= 0) return status;
    for (int i = 0; i < CLI_N(shells); i++)
        if (strcmp(shell, shells[i].name) == 0) return shells[i].print();
    return cli_bad_usage("\"%.32s\" is no shell that is known; bash, zsh and fish are", shell);
}
