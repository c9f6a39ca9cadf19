#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""models/chat.py -- conversations of our own for a small model that answers: the training set of models/chat.gguf, and
questions that are not in it.

    python3 models/chat.py > chat.jsonl                  conversations, a JSON object a line, the same every time
    python3 models/chat.py --questions > questions.tsv   200 questions, none of them in chat.jsonl: topic, messages, tools and the
                                                         right answer, or right call, between tabs
    python3 models/chat.py --check build/quern models/chat.gguf [--think on|off] [-v]
                                                         asks the model, and says how many it answers right, by topic

A question is held out by what it asks where there is a rule to be learnt (a sum by its numbers, a call by its city: no wording of
it is trained on), and by its wording where there is only a fact to know (days, capitals). Right is the whole answer, or the call
with its name and arguments; thoughts before it are free.
"""
import argparse
import json
import random
import subprocess
import tempfile
import zlib

HELD_PART = 12  # one question in so many is held out

# ---- what is known ----

DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
MONTHS = "January February March April May June July August September October November December".split()
LENGTHS = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]
NUMBERS = "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth".split()
CAPITALS = dict(France="Paris", Italy="Rome", Spain="Madrid", Germany="Berlin", Japan="Tokyo", Egypt="Cairo", Norway="Oslo", Greece="Athens",
                Portugal="Lisbon", Austria="Vienna", Poland="Warsaw", Ireland="Dublin", Peru="Lima", Kenya="Nairobi", Canada="Ottawa",
                Cuba="Havana", Sweden="Stockholm", Finland="Helsinki")
COLOURS = dict(grass="green", snow="white", coal="black", blood="red", gold="yellow", milk="white", chocolate="brown")
COLOURS["the sky"], COLOURS["a lemon"], COLOURS["a tomato"], COLOURS["a carrot"] = "blue", "yellow", "red", "orange"
LEGS = dict(dog=4, cat=4, horse=4, spider=8, ant=6, bird=2, bee=6, cow=4, snake=0, hen=2)
OPPOSITES = dict(hot="cold", big="small", fast="slow", up="down", day="night", old="young", wet="dry", rich="poor", open="closed", light="dark",
                 long="short", good="bad", happy="sad", full="empty", early="late", strong="weak")
SOUNDS = dict(dog="barks", cat="meows", cow="moos", sheep="bleats", horse="neighs", duck="quacks", lion="roars", pig="grunts")
NAMES = ("Ana Ben Carla David Emma Felix Greta Hugo Ida Jonas Karin Leo Maria Nina Otto Paula Rosa Sam Tina Uwe Vera Willi Yara Zoe Alan "
         "Bella Clara Dora Erik Fiona Gina Hans Iris Jack Kate Lena Mark Nora Oscar Peter Ruth Simon Tom Ulla Victor Wanda Adam Boris Cora "
         "Dina Ella Frank Georg Helen Igor Julia Kurt Laura Max Nadia Olga Paul Rita Sofia Theo Ursula Viola Anton Berta Celia").split()
CITIES = ("Oslo Paris Rome Madrid Berlin Tokyo Cairo Athens Lisbon Vienna Warsaw Dublin Lima Nairobi Ottawa Havana Stockholm Helsinki London "
          "Prague Geneva Zurich Milan Naples Porto Seville Lyon Nice Bonn Essen Leeds York Bergen Turin Genoa Malmo Basel Bern Graz Linz "
          "Boston Denver Dallas Austin Miami Seattle Chicago Quebec Sydney Perth Delhi Mumbai Osaka Kyoto Seoul Hanoi Manila Accra Lagos "
          "Tunis Dakar Quito Bogota Santiago Cordoba Salta Recife Belem Toledo Verona Parma Siena Malaga Murcia Krakow Lodz Riga Tallinn "
          "Vilnius Minsk Odessa Sofia Varna Split Zagreb Tirana Ankara Izmir Basra Doha Muscat Aden").split()
GOODS = ("apple banana pear plum lemon melon onion potato carrot tomato bread butter cheese milk coffee tea sugar salt rice pasta soap towel "
         "lamp chair table desk sofa clock watch radio phone camera bottle basket ladder hammer saw shovel bucket rope tent kite ball "
         "guitar violin drum piano pencil pen brush paper book map globe candle mirror carpet pillow blanket coat hat scarf glove belt "
         "shoe boot shirt jacket").split()
WORDS = sorted(set("cat dog sun moon star tree leaf bird fish book door milk rain snow wind fire sand rock hand foot nose ear lamp desk ship "
                   "boat road song king queen bread apple house mouse horse sheep green black white brown happy sleep dream river cloud stone "
                   "table chair spoon plate glass water earth night light music dance paper smile heart train plane wheel clock grass field "
                   "bridge castle garden summer winter window pencil candle silver golden orange yellow purple forest island animal doctor "
                   "mother father sister friend school kitten rabbit monkey turtle dragon wizard planet rocket tunnel button basket blanket "
                   "cherry tomato carrot pepper bottle pocket jacket hammer ladder farmer singer writer baker pilot sailor hunter spider "
                   "tiger zebra camel eagle goose snake shark whale lemon peach grape melon onion sugar honey coffee dinner lunch".split()))
SKIES = ["sunny", "cloudy", "rainy", "windy", "snowy", "foggy"]

# unit, its name for many, how many of the smaller unit, the smaller unit's name
UNITS = [("km", "metres", 1000, 90), ("kg", "grams", 1000, 90), ("litres", "millilitres", 1000, 90), ("metres", "centimetres", 100, 90),
         ("euros", "cents", 100, 90), ("centimetres", "millimetres", 10, 90), ("hours", "minutes", 60, 12), ("minutes", "seconds", 60, 12),
         ("weeks", "days", 7, 12), ("years", "months", 12, 12), ("days", "hours", 24, 7)]


def tool(name, description, *parameters):
    properties = {k: {"type": "string"} for k in parameters}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": {
        "type": "object", "properties": properties, "required": list(parameters)}}}


TOOLS = {"get_weather": tool("get_weather", "The weather in a city", "city"), "get_price": tool("get_price", "The price of an article", "item"),
         "get_time": tool("get_time", "The time in a city", "city"), "calculate": tool("calculate", "Computes an expression", "expression")}


def is_held(*key):
    return zlib.crc32(repr(key).encode()) % HELD_PART == 0


class Turn:
    """One question with its answer: `short` is the answer in one word, `thought` what may be thought before it, `key` what
    decides whether it is held out. A call has a tool, its arguments, and the result that the answer is made of."""

    def __init__(self, topic, key, question, answer, short, thought, thinks=False, call=None, result=None):
        self.topic, self.key, self.question, self.answer, self.short = topic, key, question, answer, short
        self.thought, self.thinks, self.call, self.result = thought, thinks, call, result

    def held(self):
        return is_held("sums" if self.topic == "going on" else self.topic, *self.key)


def made_up(r):
    """A word that nobody knows: what a model can only copy."""
    return "".join(r.choice("b d f g h k l m n p r s t v w z br dr kl st tr sh".split()) + r.choice("a e i o u a e i o u ai ou".split())
                   for _ in range(r.randrange(1, 4))) + r.choice(["", "", "n", "r", "l", "s", "t", "m"])


def known_or_not(r, words):
    if r.random() < 0.5:
        return r.choice(words)
    word = made_up(r)
    return word.capitalize() if words[0][0].isupper() else word


def a_thing(word):
    return ("an " if word[0] in "aeiou" else "a ") + word


# ---- topics: each a function of a random generator ----

def pick(r, topic, fact, wordings):
    """A wording of a fact; its number is part of the key."""
    i = r.randrange(len(wordings))
    return (fact, i), wordings[i]


def greeting(r):
    hello, rest = r.choice(["Hi", "Hello", "Hey", "Good morning", "Good evening", "Good day"]), r.choice(["", "!", " there!", ".", ", Quern!"])
    more, answer, short, thought = r.choice([
        ("", "Hello! What can I do for you?", "Hello", "A greeting."), (" How are you?", "I am fine, thank you!", "Fine", "How I am."),
        (" How are you today?", "I am fine, thank you!", "Fine", "How I am."), (" What can you do?", "I can add, count, convert units and look things up.", "Much", "What I can do."),
        (" Who are you?", "I am a small language model.", "Quern", "Who I am."), (" Can you help me?", "Yes, ask me something!", "Yes", "An offer.")])
    question = hello + rest + more
    if more and not rest:
        question = hello + "," + more[0] + more[1].lower() + more[2:]
    return Turn("small talk", (question,), question, answer, short, thought)


def thanks(r):
    a, b = r.choice(["Thanks", "Thank you", "Many thanks", "Thank you very much", "Great, thanks", "Thanks a lot"]), r.choice(["!", ".", "", ", Quern!"])
    if r.random() < 0.5:
        a = r.choice(["Bye", "Goodbye", "See you", "See you later", "Good night", "Bye bye"])
        return Turn("small talk", (a + b,), a + b, "Goodbye!", "Goodbye", "A farewell.")
    return Turn("small talk", (a + b,), a + b, "You are welcome!", "Welcome", "Thanks.")


def add_thought(a, b):
    """Ones, then tens: each step is a sum of digits."""
    ones, tens = a % 10 + b % 10, a // 10 + b // 10
    text = "%d + %d = %d" % (a % 10, b % 10, ones)
    if a > 9 or b > 9:
        text += ", %d + %d%s = %d" % (a // 10, b // 10, " + 1" if ones > 9 else "", tens + (ones > 9))
    return text + "."


def take_thought(a, b):
    ones, carry = a % 10 - b % 10, a % 10 < b % 10
    text = "%d - %d = %d" % (a % 10 + 10 * carry, b % 10, ones + 10 * carry)
    if a > 9:
        text += ", %d - %d%s = %d" % (a // 10, b // 10, " - 1" if carry else "", a // 10 - b // 10 - carry)
    return text + "."


def number(r):
    return r.randrange(10) if r.random() < 0.3 else r.randrange(100)


def addition(r):
    a, b = number(r), number(r)
    w = r.choice(["What is %d plus %d?", "%d + %d", "What is %d + %d?", "Add %d and %d.", "How much is %d plus %d?", "%d plus %d?", "Please add %d and %d.",
                  "Can you add %d and %d?", "What is the sum of %d and %d?"])
    return Turn("sums", ("+", a, b), w % (a, b), "%d + %d = %d" % (a, b, a + b), str(a + b), add_thought(a, b), True)


def subtraction(r):
    a, b = sorted((number(r), number(r)), reverse=True)
    w = r.choice(["What is %d minus %d?", "%d - %d", "What is %d - %d?", "How much is %d minus %d?", "%d minus %d?"])
    text = w % (a, b)
    if r.random() < 0.2:
        text = r.choice(["Take %d from %d.", "Subtract %d from %d."]) % (b, a)
    return Turn("sums", ("-", a, b), text, "%d - %d = %d" % (a, b, a - b), str(a - b), take_thought(a, b), True)


def units(r):
    many, small, factor, most = r.choice(UNITS)
    n = r.randrange(2, most + 1)
    fact = (many, n) if factor % 10 == 0 and factor != 60 else None
    wordings = ["How many %s are %d %s?" % (small, n, many), "%d %s in %s?" % (n, many, small), "Convert %d %s to %s." % (n, many, small),
                "How many %s are in %d %s?" % (small, n, many), "What is %d %s in %s?" % (n, many, small),
                "Please convert %d %s to %s." % (n, many, small)]
    key, text = pick(r, "units", (many, n), wordings)
    return Turn("units", (fact,) if fact else key, text, "%d %s are %d %s." % (n, many, n * factor, small), str(n * factor),
                "%d x %d = %d." % (n, factor, n * factor), factor in (60, 24, 12, 7))


def next_day(r):
    i, step, word = r.randrange(7), r.choice([1, -1]), None
    word = "after" if step > 0 else "before"
    day, found = DAYS[i], DAYS[(i + step) % 7]
    key, text = pick(r, "days", (day, word), [w % (word, day) for w in ("What day comes %s %s?", "Which day is %s %s?", "What is the day %s %s?",
                                                                        "Which day comes %s %s?", "Tell me the day %s %s.", "The day %s %s?",
                                                                        "What day is %s %s?")])
    return Turn("days", key, text, "%s comes %s %s." % (found, word, day), found, "The days: %s, %s." % ((day, found) if step > 0 else (found, day)))


def later_day(r):
    i, n = r.randrange(7), r.randrange(2, 7)
    steps = [DAYS[(i + k) % 7] for k in range(n + 1)]
    w = r.choice(["What day is %d days after %s?", "Which day is %d days after %s?", "What day comes %d days after %s?"])
    return Turn("days", ("later", i, n), w % (n, DAYS[i]), "It is %s." % steps[-1], steps[-1],
                ", ".join("%d %s" % (k, steps[k]) for k in range(1, n + 1)) + ".", True)


def next_month(r):
    i, step = r.randrange(12), r.choice([1, -1])
    word, month, found = "after" if step > 0 else "before", MONTHS[i], MONTHS[(i + step) % 12]
    key, text = pick(r, "months", (month, word), [w % (word, month) for w in ("What month comes %s %s?", "Which month is %s %s?", "What is the month %s %s?",
                                                                              "Which month comes %s %s?", "Tell me the month %s %s.", "The month %s %s?",
                                                                              "What month is %s %s?")])
    return Turn("months", key, text, "%s comes %s %s." % (found, word, month), found, "The months: %s, %s." % ((month, found) if step > 0 else (found, month)))


def month_facts(r):
    i = r.randrange(12)
    if r.random() < 0.5:
        key, text = pick(r, "months", ("length", i), [w % MONTHS[i] for w in (
            "How many days has %s?", "How many days are in %s?", "How long is %s?", "How many days does %s have?", "Tell me the days in %s.")])
        return Turn("months", key, text, "%s has %d days." % (MONTHS[i], LENGTHS[i]), str(LENGTHS[i]), "The length of %s." % MONTHS[i])
    key, text = pick(r, "months", ("number", i), [w % NUMBERS[i] for w in (
        "What is the %s month?", "Which month is the %s?", "Which is the %s month of the year?", "Tell me the %s month.", "What is the %s month of the year?")])
    return Turn("months", key, text, "The %s month is %s." % (NUMBERS[i], MONTHS[i]), MONTHS[i], "The %s month." % NUMBERS[i])


def spelling(r):
    word = r.choice(WORDS)
    key, text = pick(r, "letters", ("spell", word), [w % word for w in ("Spell %s.", "How do you spell %s?", "Please spell %s.", "Spell the word %s.",
                                                                        "Can you spell %s?", "How is %s spelt?", "Spell %s, please.")])
    return Turn("letters", key, text, "-".join(word), "-".join(word), "Letter by letter.")


def counting(r):
    word = r.choice(WORDS)
    key, text = pick(r, "letters", ("count", word), [w % word for w in ("How many letters has %s?", "How many letters are in %s?", "Count the letters of %s.",
                                                                        "How many letters does %s have?", "How long is the word %s?",
                                                                        "Please count the letters of %s.")])
    return Turn("letters", key, text, "%s has %d letters." % (word, len(word)), str(len(word)),
                ", ".join("%d %s" % (i + 1, c) for i, c in enumerate(word)) + ".", True)


def facts(r):
    kind = r.randrange(5)
    if kind == 0:
        a = r.choice(list(CAPITALS))
        words, answer, short = ["What is the capital of %s?", "Which city is the capital of %s?", "Tell me the capital of %s.", "The capital of %s?",
                                "What is %s's capital?", "Name the capital of %s."], "The capital of %s is %s.", CAPITALS[a]
    elif kind == 1:
        a = r.choice(list(COLOURS))
        words, answer, short = ["What colour is %s?", "Which colour is %s?", "What is the colour of %s?", "Tell me the colour of %s.", "The colour of %s?",
                                "Which colour has %s?"], "The colour of %s is %s.", COLOURS[a]
    elif kind == 2:
        a = r.choice(list(LEGS))
        words, answer, short = ["How many legs has a %s?", "How many legs does a %s have?", "Tell me how many legs a %s has.", "A %s has how many legs?",
                                "Count the legs of a %s."], "A %s has %s legs.", str(LEGS[a])
    elif kind == 3:
        a = r.choice(list(OPPOSITES))
        words, answer, short = ["What is the opposite of %s?", "Tell me the opposite of %s.", "The opposite of %s?", "Which word is the opposite of %s?",
                                "Name the opposite of %s."], "The opposite of %s is %s.", OPPOSITES[a]
    else:
        a = r.choice(list(SOUNDS))
        words, answer, short = ["What does a %s do?", "What sound does a %s make?", "Which sound does a %s make?", "Tell me the sound of a %s.",
                                "How does a %s sound?"], "A %s %s.", SOUNDS[a]
    key, text = pick(r, "facts", a, [w % a for w in words])
    text, answer = text[0].upper() + text[1:], answer % (a, short)
    return Turn("facts", (kind,) + key, text, answer, short[0].upper() + short[1:], "What I know of %s." % a)


def weather(r):
    city, degrees, sky = known_or_not(r, CITIES), r.randrange(-9, 40), r.choice(SKIES)
    w = r.choice(["What is the weather in %s?", "How is the weather in %s?", "Weather in %s?", "Is it warm in %s?", "Tell me the weather in %s.",
                  "What is the weather like in %s today?", "How warm is it in %s?"])
    return Turn("tools", ("weather", city), w % city, "It is %s in %s, %d degrees." % (sky, city, degrees), str(degrees), "The weather in %s: I look it up." % city,
                call=("get_weather", {"city": city}), result={"degrees": degrees, "sky": sky})


def price(r):
    item, euros = known_or_not(r, GOODS), r.randrange(1, 100)
    thing = a_thing(item)
    w = r.choice(["What does %s cost?", "How much is %s?", "What is the price of %s?", "Price of %s?", "Tell me the price of %s.", "How much does %s cost?"])
    return Turn("tools", ("price", item), w % thing, "The price of %s is %d euros." % (thing, euros), str(euros), "The price of %s: I look it up." % thing,
                call=("get_price", {"item": item}), result={"euros": euros})


def clock(r):
    city, time = known_or_not(r, CITIES), "%02d:%02d" % (r.randrange(24), r.randrange(60))
    w = r.choice(["What time is it in %s?", "Time in %s?", "Tell me the time in %s.", "How late is it in %s?", "What is the time in %s?"])
    return Turn("tools", ("time", city), w % city, "It is %s in %s." % (time, city), time, "The time in %s: I look it up." % city,
                call=("get_time", {"city": city}), result={"time": time})


def calculator(r):
    a, b = r.randrange(12, 1000), r.randrange(12, 1000)
    w = r.choice(["What is %d times %d?", "Multiply %d by %d.", "How much is %d times %d?", "%d * %d", "What is %d * %d?", "Please multiply %d by %d."])
    return Turn("tools", ("times", a, b), w % (a, b), "%d * %d = %d" % (a, b, a * b), str(a * b), "A product: I compute it.",
                call=("calculate", {"expression": "%d*%d" % (a, b)}), result={"result": a * b})


def counting_up(r):
    a, n = r.randrange(1, 20), r.randrange(3, 20)
    w = r.choice(["Count from %d to %d.", "Please count from %d to %d.", "Can you count from %d to %d?"]) % (a, a + n)
    if a == 1:
        w = r.choice(["Count to %d.", "Please count to %d.", "Can you count to %d?"]) % (n + 1)
    return Turn("counting", (a, n), w, ", ".join(str(i) for i in range(a, a + n + 1)), str(a + n), "From %d to %d." % (a, a + n))


def not_known(r):
    """What there is no answer to, or no tool for."""
    if r.random() < 0.4:
        t = draw_new(r, [(weather, 1), (price, 1), (clock, 1)])
        return Turn("not known", (t.question,), t.question, "I cannot look that up.", "No", "There is no tool for that.")
    x, y = made_up(r), made_up(r)
    who = r.choice(["Who was %s?", "Who is %s?", "Where is %s?", "Who wrote %s?", "When was %s born?", "Where does %s live?", "What happened in %s?"]) % x.capitalize()
    what = r.choice(["What is a %s?" % x, "Why is %s so %s?" % (x, y), "How do I make a %s?" % x, "Write a story about %s." % x, "Tell me about %s." % x,
                     "Translate %s." % x, "What do you think of %s?" % x])
    text = r.choice([who, what])
    return Turn("not known", (text,), text, "I do not know that.", "No", "I have no answer to that.")


TOPICS = [(greeting, 3), (thanks, 2), (addition, 14), (subtraction, 11), (units, 7), (next_day, 3), (later_day, 3), (next_month, 3), (month_facts, 3),
          (spelling, 5), (counting, 5), (facts, 8), (counting_up, 1), (not_known, 3)]
LOOKUPS = [(weather, 3), (price, 3), (clock, 3), (calculator, 3)]


def draw(r, topics):
    return r.choices([t for t, _ in topics], [n for _, n in topics])[0](r)


def draw_new(r, topics):
    """One that is not held out."""
    while True:
        t = draw(r, topics)
        if not t.held():
            return t


# ---- conversations ----

def until(make, good):
    while True:
        made = make()
        if good(made):
            return made


STYLES = [("Answer in capitals.", "capitals"), ("Answer in one word.", "word"), ("Answer in capital letters.", "capitals"),
          ("Use one word.", "word"), ("Write in capitals.", "capitals"), ("Say it in one word.", "word")]


def styled(style, t):
    if style == "capitals":
        return t.answer.upper()
    return t.short if style == "word" else t.answer


def with_tools(r, calls):
    """Some tools in some order, among them those that are called."""
    names = set(calls) | set(r.sample(sorted(TOOLS), r.randrange(0, 3)))
    names = sorted(names)
    r.shuffle(names)
    return [TOOLS[n] for n in names] or [TOOLS[r.choice(sorted(TOOLS))]]


def assistant(content, thought, calls=None):
    m = {"role": "assistant", "content": content}
    if thought:
        m["reasoning_content"] = thought
    if calls:
        m["tool_calls"] = [{"id": "call_1", "type": "function", "function": {"name": calls[0], "arguments": json.dumps(calls[1])}}]
    return m


def add_turn(messages, t, style, thinking):
    """thinking: None as the model likes, True or False."""
    thought = t.thought if thinking or (thinking is None and t.thinks) else None
    messages.append({"role": "user", "content": t.question})
    if t.call:
        messages.append(assistant("", thought, t.call))
        messages.append({"role": "tool", "tool_call_id": "call_1", "content": json.dumps(t.result)})
        thought = "The result is there." if thinking else None
    messages.append(assistant(styled(style, t), thought))


def go_on(r, total):
    """A question about the number before."""
    n, plus = r.randrange(1, 20), r.random() < 0.5
    if not plus and n > total:
        plus = True
    a, b, sign, result = total, n, "+" if plus else "-", total + n if plus else total - n
    w = r.choice(["And plus %d?", "Plus %d?", "Now add %d.", "And %d more?"] if plus else ["And minus %d?", "Minus %d?", "Now take away %d.", "And %d less?"])
    return Turn("going on", (sign, a, b), w % n, "%d %s %d = %d" % (a, sign, b, result), str(result), (add_thought if plus else take_thought)(a, b), True), result


def about_name(r):
    name = known_or_not(r, NAMES)
    said = r.choice(["My name is %s.", "I am %s.", "Hello, I am %s.", "Hi, my name is %s.", "You can call me %s.", "People call me %s."])
    asked = r.choice(["What is my name?", "Do you know my name?", "Who am I?", "Tell me my name.", "What was my name?"])
    return (Turn("names", (name,), said % name, "Nice to meet you, %s!" % name, name, "A name: %s." % name),
            Turn("names", (name,), asked, "Your name is %s." % name, name, "The name was %s." % name))


def conversation(r):
    messages, tools, style = [], [], None
    thinking = r.choices([None, True, False], [16, 2, 2])[0]
    kind = r.random()
    if kind < 0.18:
        text, style = r.choice(STYLES)
        messages.append({"role": "system", "content": text})
        short = [(greeting, 1), (next_day, 2), (next_month, 2), (month_facts, 2), (facts, 5)]
        for _ in range(r.randrange(1, 4)):
            t = draw_new(r, short)
            add_turn(messages, t, style, thinking)
    elif kind < 0.22:
        name = until(lambda: known_or_not(r, NAMES), lambda n: not is_held("own name", n))
        messages.append({"role": "system", "content": "Your name is %s." % name})
        asked = r.choice(["What is your name?", "Who are you?", "Tell me your name.", "What are you called?"])
        add_turn(messages, Turn("names", (), asked, "My name is %s." % name, name, "My name is %s." % name), None, thinking)
    elif kind < 0.28:
        told, asked = about_name(r)
        while told.held():
            told, asked = about_name(r)
        add_turn(messages, told, None, thinking)
        if r.random() < 0.5:
            add_turn(messages, draw_new(r, TOPICS), None, thinking)
        add_turn(messages, asked, None, thinking)
    elif kind < 0.40:
        t = draw_new(r, [(addition, 1), (subtraction, 1)])
        add_turn(messages, t, None, thinking)
        total = int(t.short)
        for _ in range(r.randrange(1, 3)):
            n, after = go_on(r, total)
            if n.held():
                continue
            add_turn(messages, n, None, thinking)
            total = after
    elif kind < 0.60:
        others = [t for t in TOPICS if t[0] is not not_known]
        turns = [draw_new(r, LOOKUPS if r.random() < 0.85 else others) for _ in range(r.choice([1, 1, 2]))]
        tools = with_tools(r, [t.call[0] for t in turns if t.call])
        for t in turns:
            add_turn(messages, t, None, thinking)
    else:
        for _ in range(r.choice([1, 1, 1, 1, 2, 2, 3, 3, 3, 6])):
            add_turn(messages, draw_new(r, TOPICS), None, thinking)
    line = {"messages": messages}
    if tools:
        line["tools"] = tools
    if thinking is not None:
        line["chat_template_kwargs"] = {"enable_thinking": thinking}
    return line


# ---- questions that are held out ----

def question(r, topic):
    """Messages up to a question, and what is right."""
    messages, tools, style = [], [], None
    if topic == "style":
        text, style = r.choice(STYLES)
        messages.append({"role": "system", "content": text})
        t = until(lambda: draw(r, [(next_day, 1), (next_month, 1), (month_facts, 1), (facts, 2)]), Turn.held)
    elif topic == "own name":
        name = until(lambda: known_or_not(r, NAMES), lambda n: is_held("own name", n))
        messages.append({"role": "system", "content": "Your name is %s." % name})
        t = Turn("names", (), "What is your name?", "My name is %s." % name, name, None)
    elif topic == "names":
        told, t = until(lambda: about_name(r), lambda p: p[0].held())
        add_turn(messages, told, None, None)
    elif topic == "going on":
        def both():
            first = draw_new(r, [(addition, 1), (subtraction, 1)])
            return first, go_on(r, int(first.short))[0]
        first, t = until(both, lambda pair: pair[1].held())
        add_turn(messages, first, None, None)
    else:
        t = until(lambda: draw(r, LOOKUPS if topic in ("calls", "results") else TOPICS), lambda t: t.held() and topic in (t.topic, "calls", "results"))
    if t.call:
        tools = with_tools(r, [t.call[0]])
    messages.append({"role": "user", "content": t.question})
    expect = styled(style, t)
    if topic == "calls":
        expect = json.dumps({"name": t.call[0], "arguments": t.call[1]})
    elif topic == "results":
        messages.append(assistant("", None, t.call))
        messages.append({"role": "tool", "tool_call_id": "call_1", "content": json.dumps(t.result)})
    return topic, json.dumps(messages), json.dumps(tools) if tools else "", expect


SHARES = [("small talk", 14), ("sums", 36), ("going on", 12), ("units", 18), ("days", 14), ("months", 14), ("letters", 18), ("facts", 22),
          ("names", 8), ("own name", 4), ("style", 10), ("calls", 20), ("results", 10)]


def questions(r):
    out, seen = [], set()
    for topic, n in SHARES:
        while n:
            q = question(r, topic)
            if (q[1], q[3]) in seen:
                continue
            seen.add((q[1], q[3]))
            out.append(q)
            n -= 1
    return out


# ---- asking ----

def answer_of(program, model, messages, tools, thinking):
    with tempfile.TemporaryDirectory() as d:
        with open(d + "/messages", "w") as f:
            f.write(messages)
        with open(d + "/tools", "w") as f:
            f.write(tools)
        command = [program, "template", model, "--messages", d + "/messages"]
        command += ["--tools", d + "/tools"] if tools else []
        command += ["--think", thinking] if thinking else []
        prompt = subprocess.run(command, check=True, capture_output=True).stdout
        with open(d + "/prompt", "wb") as f:
            f.write(prompt)
        said = subprocess.run([program, "run", model, "-f", d + "/prompt", "-q", "-n", "160", "--temp", "0", "-t", "1", "--special"], check=True,
                              capture_output=True).stdout.decode()
        return said.rpartition("</think>")[2].replace("<|im_end|>", "").strip()


def is_right(said, expect):
    """A call is right by its name and arguments."""
    begin, end = "<tool_call>", "</tool_call>"
    if not expect.startswith("{"):
        return said == expect
    try:
        return said.startswith(begin) and said.endswith(end) and json.loads(said[len(begin):-len(end)]) == json.loads(expect)
    except ValueError:
        return False


def check(program, model, thinking, verbose):
    right, total = {}, {}
    for topic, messages, tools, expect in questions(random.Random("held out")):
        said = answer_of(program, model, messages, tools, thinking)
        good = is_right(said, expect)
        right[topic] = right.get(topic, 0) + good
        total[topic] = total.get(topic, 0) + 1
        if verbose and not good:
            print("%s: %s\n    said %r, right is %s" % (topic, json.loads(messages)[-1]["content"], said, expect))
    for topic in total:
        print("%-12s %3d of %3d" % (topic, right[topic], total[topic]))
    print("%d of %d right" % (sum(right.values()), sum(total.values())))


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("-n", type=int, default=36000, help="conversations")
    p.add_argument("--questions", action="store_true")
    p.add_argument("--check", nargs=2, metavar=("PROGRAM", "MODEL"))
    p.add_argument("--think", choices=["on", "off"])
    p.add_argument("-v", action="store_true", help="show wrong answers")
    o = p.parse_args()
    if o.check:
        check(o.check[0], o.check[1], o.think, o.v)
    elif o.questions:
        for q in questions(random.Random("held out")):
            print("\t".join(q))
    else:
        for i in range(o.n):
            print(json.dumps(conversation(random.Random("%d %d" % (o.seed, i)))))


main()
