# SPDX-License-Identifier: MIT
"""container.py FOLDER -- the steps of contrib/Containerfile without podman: each stage is a Debian 12 that debootstrap makes in FOLDER
(as root, with the network), each RUN a shell in it; then the program is started as ENTRYPOINT and USER have it, and asked something. By
hand; what is made stays for the next time, but the stages begin anew."""
import json, os, re, shutil, signal, subprocess, sys, urllib.request

if len(sys.argv) != 2:
    sys.exit("usage: tests/container.py FOLDER")
folder = os.path.abspath(sys.argv[1])
os.chdir(os.path.dirname(os.path.abspath(__file__)) + "/..")


def steps(path):
    """(instruction, its text) of each; lines that end in a backslash go on."""
    with open(path) as f:
        text = re.sub(r"\\\n", " ", "".join(line for line in f if not line.startswith("#")))
    return [line.split(None, 1) for line in text.splitlines() if line.strip()]


def do(*command, **more):
    subprocess.run(command, check=True, **more)


def bare(image):
    """A folder with the image's packages: those of debian:12 and debian:12-slim are minbase."""
    assert image in ("docker.io/library/debian:12", "docker.io/library/debian:12-slim"), image
    base = folder + "/base"
    if not os.path.exists(base + "/ready"):
        shutil.rmtree(base, ignore_errors=True)
        do("debootstrap", "--variant=minbase", "bookworm", base, stdout=sys.stderr)
        open(base + "/ready", "w").close()
    return base


class Stage:
    def __init__(self, image, name):
        self.root, self.dir, self.user, self.entry = f"{folder}/{name}", "/", "root", None
        if os.path.exists(self.root):
            do("rm", "-rf", "--one-file-system", self.root)
        do("cp", "-a", bare(image), self.root)
        if os.path.exists("/etc/resolv.conf"):
            shutil.copy("/etc/resolv.conf", self.root + "/etc/resolv.conf")

    def command(self, words, user="root"):
        inner = 'cd "$0" && exec "$@"'
        return ["chroot", f"--userspec={user}", self.root, "sh", "-c", inner, self.dir, *words]

    def run(self, text):
        do("mount", "-t", "proc", "proc", self.root + "/proc")
        try:
            do(*self.command(["sh", "-c", text]), env={"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND": "noninteractive"})
        finally:
            do("umount", self.root + "/proc")

    def copy(self, text, stages):
        words = text.split()
        if words[0].startswith("--from="):
            do("cp", "-a", stages[words[0][7:]].root + words[1] + "/.", self.root + words[2])
            return
        assert words == [".", "."], words
        names = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], check=True, capture_output=True).stdout
        do("xargs", "-0", "cp", "--parents", "-t", self.root + self.dir, input=names)


stages, stage = {}, None
for instruction, text in steps("contrib/Containerfile"):
    print(f"== {instruction} {text[:100]}", flush=True)
    if instruction == "FROM":
        image, _, name = text.partition(" AS ")
        stage = stages[name or "last"] = Stage(image, name or "last")
    elif instruction == "WORKDIR":
        stage.dir = text
        os.makedirs(stage.root + text, exist_ok=True)
    elif instruction == "COPY":
        stage.copy(text, stages)
    elif instruction == "RUN":
        stage.run(text)
    elif instruction == "USER":
        stage.user = text
    elif instruction == "ENTRYPOINT":
        stage.entry = json.loads(text)
    else:
        assert instruction in ("EXPOSE", "STOPSIGNAL"), instruction

shutil.copy("models/chat.gguf", stage.root + "/srv/chat.gguf")
entry = [w if w != "0.0.0.0" else "127.0.0.1" for w in stage.entry]  # a chroot is on this machine's network
print("==", *entry, flush=True)
server = subprocess.Popen(stage.command([*entry, "/srv/chat.gguf", "--port", "0"], stage.user), stderr=subprocess.PIPE, text=True)
try:
    port = next(int(m.group(1)) for m in (re.search(r"http://[^ ]*:(\d+)", line) for line in server.stderr) if m)
    with open(f"/proc/{server.pid}/status") as f:
        assert "\nUid:\t0\t" not in f.read(), "it runs as root"
    body = {"messages": [{"role": "user", "content": "What is 2 plus 3?"}], "temperature": 0}
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/v1/chat/completions", json.dumps(body).encode()) as reply:
        print(json.load(reply)["choices"][0]["message"]["content"])
finally:
    server.send_signal(signal.SIGTERM)
assert server.wait(60) == 0
print("passed")
