#!/bin/sh
# SPDX-License-Identifier: MIT
# Small rules of the house: files under 600 lines, licence line first, no tabs, no left-over promises, no _t names, none of the words
# that stood for micro-kernel, prefetch and few columns.
cd "$1" || exit 1
fail=0
long=$(find src include -name '*.[ch]' ! -name '*grids*' ! -name '*unicode_data*' -exec wc -l {} + | awk '$1 > 600 && $2 != "total" { print $2 ": " $1 " lines" }')
[ -z "$long" ] || { echo "$long"; fail=1; }
bare=$(find src include -name '*.[ch]' -exec grep -L 'SPDX-License-Identifier: MIT' {} +)
[ -z "$bare" ] || { echo "$bare" | sed 's/$/: no SPDX line/'; fail=1; }
grep -rnP '\t' src include tests --include='*.[ch]' && { echo "tabs"; fail=1; }
grep -rnwE 'TODO|FIXME|XXX|HACK' src include tests examples docs --include='*.[chm]*' && fail=1
grep -rnE '\bqn_[a-z0-9_]+_t\b' src include && { echo "_t names"; fail=1; }
grep -rniE '\bukr|asked ahead|\babreast\b' src include docs && { echo "words that the field does not have"; fail=1; }
exit $fail
