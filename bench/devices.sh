#!/bin/sh
# SPDX-License-Identifier: MIT
# bench/devices.sh -- what a device does beside what it could: decode, prompts, steps of more and more columns, the host's share of a token,
# loading, layers divided with the CPU, and whether bits are the CPU's. One CSV and one plot, in less than ten minutes. Needs the build
# (the program; its test programs for the bits) and nvcc, which compiles bench/devices.cu for the card's rate in bfloat16.
usage="usage: bench/devices.sh [options]
  --backend NAME    cuda (default), hip or opencl
  --device N        its number (default: 0)
  --build DIR       the build folder (default: build beside the sources)
  --out DIR         where devices.csv and devices.svg go (default: here)
  --models DIR      where models are kept from run to run (default: a folder that goes)
  --preset NAME     the models' shape (default: llama-3-8b)
  --layers N        that many layers of it
  --types LIST      types of weights (default: Q4_K_M,Q8_0,F16)
  --prompts LIST    lengths of prompts (default: 512,1024,2048,4096)
  --columns N       steps of 1 to N sequences (default: 128)
  --steps N         decoding steps (default: 64)
  --repetitions N   (default: 3)
  --rival DIR       a build of llama.cpp: its llama-bench runs in turn, on the same files
  --without-bits    don't run the test programs
  --minutes N       what is not done then is not measured (default: 9)
A build with -DQN_CUDA=ON has the card's machine code; without, the driver compiles the kernels when the first program starts: a minute.
CSV: point, case, engine, value and unit, what it is held against and the share of that in percent, the aim, whether it is met."
set -u
source=$(cd "$(dirname "$0")/.." && pwd)
backend=cuda number=0 build=$source/build out=. models= preset=llama-3-8b layers= types=Q4_K_M,Q8_0,F16 prompts=512,1024,2048,4096 columns=128
steps=64 repetitions=3 rival= bits=yes minutes=9
while [ $# -gt 0 ]; do
    case $1 in
    --without-bits) bits=no; shift; continue ;;
    --help | -h) echo "$usage"; exit 0 ;;
    esac
    [ $# -gt 1 ] || { echo "devices.sh: $1: no such option, or its value is missing; --help lists them" >&2; exit 2; }
    case $1 in
    --backend) backend=$2 ;; --device) number=$2 ;; --build) build=$2 ;; --out) out=$2 ;; --models) models=$2 ;; --preset) preset=$2 ;;
    --layers) layers=$2 ;; --types) types=$2 ;; --prompts) prompts=$2 ;; --columns) columns=$2 ;; --steps) steps=$2 ;;
    --repetitions) repetitions=$2 ;; --rival) rival=$2 ;; --minutes) minutes=$2 ;;
    *) echo "devices.sh: $1: no such option; --help lists them" >&2; exit 2 ;;
    esac
    shift 2
done
quern=$build/quern device=$backend:$number
[ -x "$quern" ] || { echo "devices.sh: no program in $build; build it, or name its folder by --build" >&2; exit 1; }
PATH=$PATH:/usr/local/cuda/bin
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
trap 'exit 1' INT TERM HUP
mkdir -p "$out" ${models:+"$models"} || exit 1
models=${models:-$work}
csv=$out/devices.csv
began=$(date +%s)
rest() { echo $((minutes * 60 - $(date +%s) + began)); }
late() { [ "$(rest)" -le 0 ]; }
# COMMAND: for as long as there is time; 124 where it ended before
within() { if late; then return 124; else timeout "$(rest)" "$@"; fi; }
tell() { echo "$(($(date +%s) - began)) s: $*" >&2; }

# ---- rows ----
echo "point,case,engine,value,unit,reference,share_percent,aim_percent,met,plot" >"$csv"
# A share in percent: POINT CASE ENGINE VALUE UNIT REFERENCE least|most AIM
share() {
    awk -v p="$1" -v c="$2" -v e="$3" -v v="$4" -v u="$5" -v r="$6" -v way="$7" -v aim="$8" 'BEGIN {
        if (v == "" || r + 0 <= 0) { printf "%s,%s,%s,%s,%s,,,%s,not measured,no\n", p, c, e, v, u, aim; exit }
        s = 100 * v / r
        met = aim == "" ? "" : (way == "least" ? s >= aim : s <= aim) ? "yes" : "no"
        printf "%s,%s,%s,%.6g,%s,%.6g,%.4g,%s,%s,%s\n", p, c, e, v, u, r, s, aim, met, way == "least" ? "yes" : "no" }' >>"$csv"
}
# POINT CASE VALUE UNIT [least|most AIM]: a number by itself, and what it should be in its own unit
plain() {
    awk -v p="$1" -v c="$2" -v v="$3" -v u="$4" -v way="${5:-}" -v aim="${6:-}" 'BEGIN {
        met = v == "" ? "not measured" : aim == "" ? "" : (way == "least" ? v + 0 >= aim + 0 : v + 0 <= aim + 0) ? "yes" : "no"
        printf "%s,%s,quern,%s,%s,%s,,,%s,no\n", p, c, v, u, aim, met }' >>"$csv"
}
not_measured() { # POINT CASE WHY
    echo "$1,$2,quern,,,,,,not measured: $3,no" >>"$csv"
    tell "$1, $2: not measured: $3"
}

# ---- measuring ----
# Runs quern bench; the table is $work/table. WHY is the first line of what it says when it fails.
measure() {
    within "$quern" bench "$@" -r "$repetitions" -o csv >"$work/table" 2>"$work/err" && return 0
    [ $? != 124 ] && why=$(head -n 1 "$work/err" | tr ',' ';') || why="out of time"
    return 1
}
# COLUMN TEST [BATCH] of the table
figure() {
    awk -F, -v column="$1" -v test="$2" -v batch="${3:-1}" '
        NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next }
        $at["test"] == test && $at["batch"] == batch { print $at[column]; exit }' "$work/table"
}
calc() { awk "BEGIN { printf \"%.6g\", $* }"; }
made() { # TYPE: the model, written the first time
    model=$models/$preset${layers:+-$layers}-$1.gguf
    [ -f "$model" ] || "$quern" synth "$model" --preset "$preset" ${layers:+--layers "$layers"} --type "$1" >"$work/err" 2>&1 ||
        { why=$(head -n 1 "$work/err" | tr ',' ';'); rm -f "$model"; return 1; }
}
tried=
[ -z "$rival" ] || for tried in "$rival/llama-bench" "$rival/bin/llama-bench" "$rival/build/bin/llama-bench"; do [ -x "$tried" ] && break; done
[ -z "$rival" ] || [ -x "$tried" ] || { echo "devices.sh: no llama-bench in $rival" >&2; exit 1; }
# ARGUMENTS: "PROMPT STEPS TOKENS/S" a line
ask_rival() {
    within "$tried" -m "$model" -ngl 99 -fa 1 -r "$repetitions" -o json "$@" 2>/dev/null | awk -F'[:,]' '
        { gsub(/[ "]/, "") } $1 == "n_prompt" { p = $2 } $1 == "n_gen" { n = $2 } $1 == "avg_ts" { print p, n, $2 }' >"$work/rival"
}
rival_of() { awk -v p="$1" -v n="$2" '$1 == p && $2 == n { print $3; exit }' "$work/rival"; } # PROMPT STEPS

# ---- the device ----
tell "rates of $device"
"$quern" bench --roofline --device "$device" -t 1 -o csv >"$work/table" 2>"$work/err" || { cat "$work/err" >&2; exit 77; }
rate() { awk -F, -v column="$1" -v device="$device" 'NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next }
    $at["device"] == device { print $at[column] }' "$work/table"; }
copy=$(rate copy_gb_s) up=$(rate up_gb_s) down=$(rate down_gb_s) int8=$(rate int8_gops) f16=$(rate f16_gflops) bf16=
plain rates copy "$copy" GB/s
plain rates "up pinned" "$up" GB/s
plain rates down "$down" GB/s
plain rates "int8 by quern" "$int8" Gop/s
plain rates "f16 by quern" "$f16" Gflop/s
if [ "$backend" = cuda ] && command -v nvcc >/dev/null; then
    libraries=$(dirname "$(readlink -f "$(command -v nvcc)")")/../lib64
    for with in "-lcublas -Xlinker -rpath=$libraries" -DWITHOUT_CUBLAS; do # a library may be there for the linker and not for the program
        # shellcheck disable=SC2086
        within nvcc -O3 -std=c++17 -arch=native "$source/bench/devices.cu" $with -o "$work/rate" >"$work/err" 2>&1 || continue
        bf16=$(within "$work/rate" "$number" 2>"$work/err") && break
        bf16=
    done
    [ -n "$bf16" ] || head -n 3 "$work/err" >&2
    by=${bf16#* } bf16=${bf16%% *}
fi
if [ -n "$bf16" ]; then plain rates "bf16 by $by" "$bf16" Gflop/s; else not_measured rates bf16 "needs nvcc and an NVIDIA card"; fi
# Without that rate prompts are held against Quern's own products of F16, which is no limit.
most=${bf16:-$f16} what=${bf16:+bf16} what=${what:-f16 by quern}

# Bits: the test programs, on the device itself.
run_bits() { # PROGRAM [WRAPPER ...]
    program=$1
    shift
    [ -x "$build/$program" ] || { not_measured bits "$program" "not built"; return; }
    late && { not_measured bits "$program" "out of time"; return; }
    tell "$program $*"
    case $backend in cuda) on=QN_TEST_CUDA=real ;; *) on=QN_TEST_CUDA= ;; esac
    (cd "$build" && within env "$on" "$@" "./$program") >"$work/log" 2>&1
    code=$?
    grep -q "no device of $backend that works" "$work/log" && code=77
    case $code in
    0) plain bits "$program${1:+ in $1}" 1 "as the CPU's" least 1 ;;
    124) not_measured bits "$program${1:+ in $1}" "out of time" ;;
    77) not_measured bits "$program" "it finds no device" ;;
    *) plain bits "$program${1:+ in $1}" 0 "as the CPU's" least 1; tail -n 5 "$work/log" >&2 ;;
    esac
}
if [ $bits = yes ]; then
    run_bits t_gpu_same_bits
    run_bits t_gpu_runs
    run_bits t_golden_devices
fi

first=${types%%,*}
for type in $(echo "$types" | tr ',' ' '); do
    late && { not_measured decode "$type" "out of time"; continue; }
    tell "$type"
    made "$type" || { not_measured decode "$type" "$why"; continue; }
    cat "$model" >/dev/null # into the page cache
    # decode, the host's share, loading
    if measure "$model" --device "$device" -p 0 -n "$steps"; then
        tps=$(figure tokens_per_second "tg$steps") gb=$(figure gb_s "tg$steps")
        per_token=$(calc "$gb / $tps")
        share "decode of the copy bandwidth" "$type" quern "$gb" GB/s "$copy" least 40
        plain "tokens a second" "decode $type" "$tps" tokens/s
        plain "host a token" "$type" "$(figure host_us "tg$steps")" us most 50
        share "loading of the pinned rate" "$type" quern "$(figure load_gb_s "tg$steps")" GB/s "$up" least 60
        if [ -n "$rival" ]; then
            ask_rival -p 0 -n "$steps"
            theirs=$(rival_of 0 "$steps")
            share "decode of the copy bandwidth" "$type" llama.cpp "${theirs:+$(calc "$theirs * $per_token")}" GB/s "$copy" least ""
            share "quern of llama.cpp" "decode $type" quern "$tps" tokens/s "${theirs:-0}" least 100
        fi
    else
        not_measured decode "$type" "$why"
    fi
    late && { not_measured prompts "$type" "out of time"; continue; }
    if measure "$model" --device "$device" -p "$prompts" -n 0; then
        cp "$work/table" "$work/prompts"
        [ -z "$rival" ] || ask_rival -p "$prompts" -n 0 -ub 512
        for p in $(echo "$prompts" | tr ',' ' '); do
            cp "$work/prompts" "$work/table"
            tps=$(figure tokens_per_second "pp$p") gop=$(figure gop_s "pp$p")
            share "prompts of the $what rate" "$type $p" quern "$gop" Gop/s "$most" least 25
            plain "tokens a second" "prompt $type $p" "$tps" tokens/s
            [ -n "$rival" ] || continue
            theirs=$(rival_of "$p" 0)
            share "prompts of the $what rate" "$type $p" llama.cpp "${theirs:+$(calc "$theirs * $gop / $tps")}" Gop/s "$most" least ""
            share "quern of llama.cpp" "prompt $type $p" quern "$tps" tokens/s "${theirs:-0}" least 100
        done
    else
        not_measured prompts "$type" "$why"
    fi
done

# A step of one column more, up to 1.3 times as long.
made "$first" && tell "steps of 1 to $columns sequences" || columns=0
: >"$work/steps"
for from in $(awk -v n="$columns" 'BEGIN { for (i = 1; i <= n; i += 32) print i }'); do
    late && break
    list=$(awk -v a="$from" -v n="$columns" 'BEGIN { for (i = a; i < a + 32 && i <= n; i++) printf "%s%d", (i > a ? "," : ""), i }')
    measure "$model" --device "$device" -p 0 -n 4 -b "$list" || break
    for b in $(echo "$list" | tr ',' ' '); do
        ms=$(calc "1000 * $b / $(figure tokens_per_second tg4 "$b")")
        echo "$b $ms" >>"$work/steps"
        plain "time of a step" "$b sequences" "$ms" ms
    done
done
worst=$(awk 'NR > 1 && $2 / last > most { most = $2 / last; at = $1 } { last = $2 } END { if (NR > 1) printf "%.4g %d", most, at }' "$work/steps")
if [ -n "$worst" ] && [ "$(wc -l <"$work/steps")" = "$columns" ]; then
    plain "a column more" "at ${worst#* } of $columns" "${worst% *}" "times as long" most 1.3
else
    not_measured "a column more" "1 to $columns" "${why:-out of time}"
fi

# Half the layers on the CPU: the halves' own times by the bytes that lie there, 10 % and 200 us more.
halves="layers on both"
if late || ! made "$first"; then
    not_measured "$halves" "$first" "${why:-out of time}"
else
    tell "half the layers on the CPU"
    n=$("$quern" inspect "$model" --csv | awk -F, '$1 ~ /^blk\./ { split($1, part, "."); if (part[2] + 1 > n) n = part[2] + 1 } END { print n }')
    few=$((steps < 16 ? steps : 16)) half=$((n / 2))
    on_device=$("$quern" inspect "$model" --csv | awk -F, -v from=$((n - half)) 'NR > 1 && $1 != "token_embd.weight" { all += $3
        split($1, part, "."); if (part[1] != "blk" || part[2] + 0 >= from) there += $3 } END { printf "%.6g", there / all }')
    own_cpu= own_device= both=
    measure "$model" -p 0 -n $few && own_cpu=$(calc "1e6 / $(figure tokens_per_second tg$few)")
    measure "$model" --device "$device" -p 0 -n $few && own_device=$(calc "1e6 / $(figure tokens_per_second tg$few)")
    measure "$model" --device "$device" --gpu-layers $half -p 0 -n $few && both=$(calc "1e6 / $(figure tokens_per_second tg$few)")
    if [ -n "$own_cpu" ] && [ -n "$own_device" ] && [ -n "$both" ]; then
        plain "$halves" "$half of $n on $device" "$both" us most "$(calc "1.1 * ($own_device * $on_device + $own_cpu * (1 - $on_device)) + 200")"
    else
        not_measured "$halves" "$first" "$why"
    fi
fi

# Once more, few of the cases, where every access is looked at.
if [ $bits = no ]; then
    not_measured bits all "--without-bits"
elif command -v compute-sanitizer >/dev/null && [ "$backend" = cuda ]; then
    for tool in memcheck racecheck; do
        QN_SAME_BITS_EACH=97 run_bits t_gpu_same_bits compute-sanitizer --tool $tool --error-exitcode 9
    done
else
    not_measured bits compute-sanitizer "it is not there"
fi

if ! command -v python3 >/dev/null; then
    tell "no python3: no plot"
elif grep -q ',yes$' "$csv"; then
    python3 "$source/bench/plot.py" "$csv" "$out/devices.svg" --panel point --group case --series engine --value share_percent \
        --limit aim_percent --limit-name aim --where plot=yes --unit % --title "$("$quern" --version 2>/dev/null | head -n 1) on $device, $preset${layers:+, $layers layers}" || exit 1
fi
tell "written: $csv"
grep -E ',(no|not measured[^,]*),(yes|no)$' "$csv" >&2
exit 0
