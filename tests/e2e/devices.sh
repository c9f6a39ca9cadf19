#!/bin/sh
# SPDX-License-Identifier: MIT
# bench/devices.sh in its smallest form on an OpenCL device (PoCL is one): every point has a row, figures are numbers, shares and ratios are
# those of the columns beside them, the rival's answers are read, the plot is drawn. And quern bench on a device.
. "$1/tests/e2e/lib/common.sh"

"$quern" bench --roofline --device opencl:0 -t 1 -o csv >"$work/roofline" 2>"$work/err" || { echo "no OpenCL device that works here"; exit 77; }
awk -F, 'NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next } $at["device"] == "opencl:0" { seen = 1
    if (!($at["copy_gb_s"] > 0 && $at["up_gb_s"] > 0 && $at["down_gb_s"] > 0 && $at["int8_gops"] > 0 && $at["f16_gflops"] > 0)) exit 1 }
    END { exit !seen }' "$work/roofline" || { bad "rates of a device"; cat "$work/roofline"; }

# a rival that says what llama-bench says
mkdir -p "$work/rival/bin"
cat >"$work/rival/bin/llama-bench" <<'END'
#!/bin/sh
while [ $# -gt 0 ]; do case $1 in -p) p=$2 ;; -n) n=$2 ;; esac; shift; done
for one in $(echo "$p" | tr ',' ' '); do
    printf '[\n  {\n    "build_number": 1,\n    "n_prompt": %s,\n    "n_gen": %s,\n    "avg_ns": 5,\n    "avg_ts": 12.5,\n    "samples_ts": [ 12.5 ]\n  }\n]\n' "$one" "$n"
done
END
chmod +x "$work/rival/bin/llama-bench"
small="--preset tiny --types Q4_0 --prompts 8,24 --columns 3 --steps 4 --repetitions 1"
sh "$source/bench/devices.sh" --backend opencl --build "$(dirname "$quern")" --out "$work/d" --models "$work/models" --without-bits $small \
    --rival "$work/rival" >"$work/log" 2>&1 || { bad "devices.sh"; cat "$work/log"; }
[ -f "$work/d/devices.csv" ] || { bad "no CSV"; finish; }
for row in "rates,copy," "decode of the copy bandwidth,Q4_0,quern," "decode of the copy bandwidth,Q4_0,llama.cpp," "host a token,Q4_0," \
    "loading of the pinned rate,Q4_0,quern," "prompts of the f16 by quern rate,Q4_0 24,quern," "quern of llama.cpp,prompt Q4_0 8,quern," \
    "time of a step,3 sequences," "a column more,at " "layers on both,1 of 2 on opencl:0,"; do
    grep -q "^$row" "$work/d/devices.csv" || bad "no row \"$row\""
done
grep -q "^bits,all,quern,.*not measured" "$work/d/devices.csv" || bad "bits that were not asked for"
awk -F, 'NF != 10 { print "columns: " $0; bad = 1 }
    NR > 1 && $9 !~ /^not measured/ && $4 !~ /^[0-9.e+-]+$/ { print "value: " $0; bad = 1 }
    NR > 1 && $7 != "" { want = 100 * $4 / $6; if ($7 / want > 1.01 || $7 / want < 0.99) { print "share: " $0; bad = 1 }
        if ($8 != "" && $9 != ($7 >= $8 ? "yes" : "no")) { print "met: " $0; bad = 1 } }
    $1 == "time of a step" { ms[$2 + 0] = $4 }
    $1 == "a column more" { more = $4 }
    END { a = ms[2] / ms[1]; b = ms[3] / ms[2]; most = a > b ? a : b
          if (!(most > 0) || more / most > 1.01 || more / most < 0.99) { print "a column more: " more ", " most; bad = 1 }
          exit bad }' "$work/d/devices.csv" || { bad "figures"; cat "$work/d/devices.csv"; }
if command -v python3 >/dev/null; then
    python3 -c "import sys, xml.etree.ElementTree as x; x.parse(sys.argv[1])" "$work/d/devices.svg" || bad "plot"
fi

# What it refuses.
expect 2 sh "$source/bench/devices.sh" --nothing 1; grep -q -- "--nothing" "$work/err" || bad "an option that is none"
expect 2 sh "$source/bench/devices.sh" --columns;   grep -q -- "--columns" "$work/err" || bad "an option without its value"
expect 1 sh "$source/bench/devices.sh" --build "$work/nowhere"; grep -q "no program" "$work/err" || bad "no build"

# quern bench: whole models on a device have its limit, divided ones none.
model=$(ls "$work/models"/*Q4_0.gguf)
expect 0 "$quern" bench "$model" --device opencl:0 -p 8 -n 4 -r 1 -o csv
awk -F, 'NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next }
    $at["backends"] != "opencl:0" || !($at["limit_share"] > 0 && $at["host_us"] > 0 && $at["gb_s"] > 0 && $at["load_gb_s"] > 0) { print; exit 1 }' \
    "$work/out" || bad "bench on a device"
expect 0 "$quern" bench "$model" --device opencl:0 --gpu-layers 1 -p 0 -n 4 -r 1 -o csv
awk -F, 'NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next }
    $at["backends"] !~ /^opencl:0\+cpu/ || $at["limit_share"] != "" || $at["host_us"] != "" { print; exit 1 }' "$work/out" || bad "bench of a divided model"
expect 0 "$quern" bench "$model" --device opencl:0 -p 0 -n 4 -r 1
grep -q "opencl:0: copies" "$work/out" && grep -q "| opencl:0 " "$work/out" || bad "Markdown of a device"
expect 0 "$quern" bench "$model" --backends opencl,cpu -p 0 -n 4 -r 1 -o json
grep -q '"copy_gb_s"' "$work/out" && grep -q '"backends": "opencl:0"' "$work/out" || bad "JSON of a device"
finish
