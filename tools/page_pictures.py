#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""tools/page_pictures.py QUERN FOLDER -- the page of quern serve as it looks, for README: one conversation in FOLDER/page.png, wide, with
the view of the engine; page-dark.png; and page-phone.png, 400 pixels wide. Needs Debian's chromium and chromium-driver, and Pillow, which
makes the pictures smaller.

    tools/page_pictures.py build/quern docs
"""
import json, os, sys
from PIL import Image

source = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path[1:1] = [source + "/tests/e2e/serve", source + "/tests/e2e/page"]
from lib import Server  # noqa: E402
from webdriver import Browser  # noqa: E402

IDLE = "!document.querySelector('#send').hidden"
COUNT = "document.querySelectorAll('.message').length"
ROOM = 128  # colours


def say(b, text, messages):
    b.type(text, "Enter")
    b.until(f"{COUNT} == {messages} && {IDLE}")


def answer_call(b, text, messages):
    b.js("document.querySelector('.call textarea').focus()")
    b.type(text, "Tab")
    b.type("", "Enter")
    b.until(f"{COUNT} == {messages} && {IDLE}")


def talk(b, url):
    with open(source + "/examples/weather.json") as f:
        settings = {"temperature": 0, "tools": f.read()}
    b.go(url)
    b.until("document.body.dataset.ready")
    b.js("localStorage.setItem('settings', arguments[0])", json.dumps(settings))
    b.go(url)
    b.until("document.body.dataset.ready")
    say(b, "What is 12 + 30?", 2)
    say(b, "How is the weather in Paris?", 4)
    answer_call(b, '{"degrees": 7, "sky": "rainy"}', 6)
    say(b, "How many minutes are in 3 hours?", 8)


def picture(url, path, live, **options):
    b = Browser(**options)
    try:
        talk(b, url)
        if live:
            b.type("", "Alt", "l")
            b.until("document.querySelector('#live dd') && document.querySelector('#live polyline')")
        b.js("document.querySelector('#log').scrollTo(0, 1e9)")
        b.js("document.activeElement.blur()")
        b.screenshot(path)
    finally:
        b.close()
    Image.open(path).convert("RGB").quantize(ROOM, dither=Image.Dither.NONE).save(path, optimize=True)
    print(path, os.path.getsize(path), "bytes")


quern, folder = sys.argv[1:3]
with Server(quern, source + "/models/chat.gguf") as server:
    url = f"http://127.0.0.1:{server.port}/"
    picture(url, folder + "/page.png", True, width=1184, height=860)
    picture(url, folder + "/page-dark.png", False, width=900, height=800, dark=True)
    picture(url, folder + "/page-phone.png", False, width=400, height=760)
