# SPDX-License-Identifier: MIT
# tutorial.sh FILE DIR -- writes the programs of a Markdown file to DIR/1.c, 2.c .. and the text block that follows each to DIR/1.want ..
awk -v dir="$2" '
    /^```c$/ { n++; to = dir "/" n ".c"; printf "" >to; next }
    /^```$/ && to == "" && n > 0 && !(n in wanted) { wanted[n] = 1; to = dir "/" n ".want"; printf "" >to; next }
    /^```/ { to = ""; next }
    to != "" { print >to }
' "$1"
