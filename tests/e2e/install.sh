#!/bin/sh
# SPDX-License-Identifier: MIT
# The installed library serves a program by pkg-config and by find_package: examples/generate.c generates the expected text with both.
# Every other example, and every program of the tutorial, builds and does what it says.
. "$1/tests/e2e/lib/common.sh"
grep -q '^QN_SANITIZE:[A-Z]*=.' "$build/CMakeCache.txt" && { echo "skipped: a sanitized library needs a sanitized program"; exit 77; }
cmake --install "$build" --prefix "$work/usr" >"$work/log" 2>&1 || { cat "$work/log"; bad "install"; finish; }
for file in share/man/man1/quern.1 share/man/man1/quern-run.1 share/bash-completion/completions/quern share/zsh/site-functions/_quern \
    share/fish/vendor_completions.d/quern.fish; do
    [ -s "$work/usr/$file" ] || bad "no $file is installed"
done
libdir=$(dirname "$(find "$work/usr" -name 'libquern.so' | head -n 1)")
PKG_CONFIG_PATH=$libdir/pkgconfig
export PKG_CONFIG_PATH
cc -std=c17 -Wall -Wextra -Werror "$source/examples/generate.c" -o "$work/shared-program" $(pkg-config --cflags --libs quern) -Wl,-rpath,"$libdir" || bad "pkg-config, shared"
cc -std=c17 "$source/examples/generate.c" -o "$work/static-program" $(pkg-config --cflags quern) "$libdir/libquern.a" $(pkg-config --static --libs-only-l quern | sed 's/-lquern//') || bad "pkg-config, static"
mkdir "$work/find"
cat >"$work/find/CMakeLists.txt" <<'END'
cmake_minimum_required(VERSION 3.20)
project(find_quern C)
find_package(quern REQUIRED)
add_executable(found generate.c)
target_link_libraries(found quern::quern)
add_executable(found_static generate.c)
target_link_libraries(found_static quern::quern_static)
END
cp "$source/examples/generate.c" "$work/find/"
{ cmake -G Ninja -S "$work/find" -B "$work/find/build" -DCMAKE_PREFIX_PATH="$work/usr" && cmake --build "$work/find/build"; } >"$work/log" 2>&1 || { cat "$work/log"; bad "find_package"; }
# One header declares it all, to C and to C++.
one='#include <quern/quern.h>\nint main(void) { return qn_version()[0] == 0 || qn_relu(0) || qn_grad(0); }\n'
printf "$one" >"$work/t.c"
cc -std=c17 -Wall -Wextra -Werror "$work/t.c" -o "$work/t" $(pkg-config --cflags --libs quern) -Wl,-rpath,"$libdir" && "$work/t" || bad "quern.h in C"
if command -v c++ >/dev/null; then
    printf "$one" >"$work/t.cc"
    c++ -Wall -Wextra -Werror "$work/t.cc" -o "$work/t" $(pkg-config --cflags --libs quern) -Wl,-rpath,"$libdir" && "$work/t" || bad "quern.h in C++"
fi
shakespeare=$source/models/shakespeare.gguf
for program in "$work/shared-program" "$work/static-program" "$work/find/build/found" "$work/find/build/found_static"; do
    expect 0 "$program" "$shakespeare" "Good morrow" 60
    printf 'Good morrow' | cat - "$work/out" | cmp -s - "$source/tests/e2e/shakespeare/greedy.txt" || { bad "$program:"; cat "$work/out"; }
done

# A plug-in that is unloaded while a thread that used it lives: the thread may end.
cat >"$work/unload.c" <<'END'
#include <dlfcn.h>
#include <pthread.h>
#include <quern/quern.h>
#include <semaphore.h>
static sem_t used, gone;
static void *lib;
static void *use(void *path)
{
    qn_error err;
    qn_engine *e = NULL;
    __typeof__(qn_engine_open) *open = (__typeof__(qn_engine_open) *)dlsym(lib, "qn_engine_open");
    __typeof__(qn_engine_close) *close = (__typeof__(qn_engine_close) *)dlsym(lib, "qn_engine_close");
    if (!open || !close || open(path, NULL, &e, &err) != QN_OK) return path;
    close(e);
    sem_post(&used);
    sem_wait(&gone);
    return NULL;
}
int main(int argc, char **argv)
{
    pthread_t thread;
    void *failed;
    lib = argc == 3 ? dlopen(argv[1], RTLD_NOW) : NULL;
    if (!lib || sem_init(&used, 0, 0) || sem_init(&gone, 0, 0) || pthread_create(&thread, NULL, use, argv[2])) return 2;
    sem_wait(&used);
    dlclose(lib);
    sem_post(&gone);
    return pthread_join(thread, &failed) || failed;
}
END
cc -std=gnu17 -Wall -Wextra "$work/unload.c" -o "$work/unload" $(pkg-config --cflags quern) -ldl -pthread || bad "unload.c"
expect 0 "$work/unload" "$libdir/libquern.so" "$shakespeare"

for example in "$source"/examples/*.c; do
    name=$(basename "$example" .c)
    cc -std=c17 -Wall -Wextra -Werror -O1 "$example" -o "$work/$name" $(pkg-config --cflags --libs quern) -lm -Wl,-rpath,"$libdir" || bad "$name"
done
says() { grep -Eq "$1" "$work/out" || { bad "no \"$1\" in:"; cat "$work/out" "$work/err"; }; }
expect 0 "$work/linear_regression";                         says '^w = tensor\(\[ ?(2\.99|3\.00)..?, -(1\.99|2\.00)'
expect 0 "$work/mlp";                                       says '^accuracy (9[5-9]|100)\.'
expect 0 "$work/convnet" "$work/convnet.safetensors";       says '^accuracy on new pictures (9[0-9]|100)\.'
sonnets=$source/tests/text/sonnets.txt
expect 0 "$work/char_transformer" "$sonnets" 60;            says '^step  59  loss 2\.'
expect 0 "$work/lora" "$shakespeare" "$sonnets" "$work/adapter.gguf" 10
says '2\.09[12] bits per byte before, 2\.0[0-8]' # before: as tests/e2e/shipped.c has it
expect 0 "$quern" run "$shakespeare" "Once" -n 4 --lora "$work/adapter.gguf"
printf 'ROMEO:\n' >"$work/line"
"$work/chat" "$shakespeare" <"$work/line" >"$work/out" 2>"$work/err" || { bad "chat:"; cat "$work/err"; }
says "I'll be a business"
[ "$(grep -c '' "$source/examples/chat.c")" -lt 80 ] || bad "the example of a conversation has 80 lines or more"
mkdir "$work/tutorial"
sh "$source/tests/e2e/lib/tutorial.sh" "$source/docs/TUTORIAL.md" "$work/tutorial"
for program in "$work"/tutorial/*.c; do
    name=${program%.c}
    cc -std=c17 -Wall -Wextra -Werror "$program" -o "$name" $(pkg-config --cflags --libs quern) -lm -Wl,-rpath,"$libdir" || bad "$name"
    (cd "$work" && expect 0 "$name"; diff "$name.want" "$work/out" >&2) || bad "the tutorial's program $(basename "$name") prints something else"
done
[ -e "$work/tutorial/3.c" ] || bad "the tutorial has lost its programs"
[ "$(grep -c . "$source/examples/generate.c")" -le 60 ] || bad "the example is longer than a page"
finish
