"""Sums, differences, products, quotients, units and times, in many wordings.

Every function returns one exchange: {"q": question, "r": thought, "a": answer, "k": skill, "want": text that the
last line of a right answer contains}. Wordings that begin with "~" are never trained on; they are for evaluation."""
import wordings

ONES = ("zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
        "seventeen eighteen nineteen").split()
TENS = "zero ten twenty thirty forty fifty sixty seventy eighty ninety".split()
THINGS = ("apples oranges books coins pens stones cards stamps eggs tickets shells marbles cookies plates chairs "
          "files photos bottles boxes keys").split()


def pick(R, listed, held, name=''):
    """A wording: for held 2 to 4 one of that held-out set, for 1 (and where the set has none) a listed one that is marked "~",
    for 0 one for training, listed or composed from the patterns of that name."""
    if held > 1 and name in wordings.SETS[held].NAMES:
        return R.choice(getattr(wordings.SETS[held], name))
    if held:
        return R.choice([w[1:] for w in listed if w[0] == '~'])
    if isinstance(wordings.PATTERNS.get(name, [''])[0], tuple):
        return wordings.number(R, name, listed)
    return wordings.wording(R, name, listed)


def words(n):
    if n < 20:
        return ONES[n]
    if n < 100:
        return TENS[n // 10] + ('-' + ONES[n % 10] if n % 10 else '')
    if n < 1000:
        return ONES[n // 100] + ' hundred' + (' and ' + words(n % 100) if n % 100 else '')
    return 'one thousand'


ADD = ["What is {a} + {b}?", "{a} + {b}", "{a}+{b}", "{a}+{b}=", "{a} + {b} =", "{a} + {b} = ?", "Compute {a} + {b}.",
       "Calculate {a} + {b}.", "How much is {a} + {b}?", "What is {a} plus {b}?", "{a} plus {b}", "{a} plus {b}?",
       "How much is {a} plus {b}?", "Add {a} and {b}.", "Add {a} to {b}.", "What is the sum of {a} and {b}?",
       "The sum of {a} and {b}?", "What do you get when you add {a} and {b}?", "What does {a} + {b} equal?",
       "Can you add {a} and {b}?", "What's {a} + {b}?", "What's {a} plus {b}?", "whats {a}+{b}",
       "Tell me {a} + {b}.", "Do you know what {a} + {b} is?", "What is {a} added to {b}?", "{a} and {b} make how much?",
       "I have {a} {t} and get {b} more. How many {t} do I have?",
       "There are {a} {t} on the table and {b} in the box. How many {t} are there in all?",
       "Evaluate {a} + {b}", "Give me the result of {a} + {b}.", "{a} + {b} is what?", "Can you do {a} plus {b}?",
       "The answer to {a} + {b}?", "what's the total of {a} and {b}", "Find {a} + {b}.",
       "~Please work out {a} + {b}.", "~{a} plus {b} equals what?", "~Could you sum {a} and {b}?",
       "~How much do {a} and {b} make together?", "~Solve {a} + {b}", "~Total of {a} and {b}?",
       "~What would {a} + {b} be?", "~I need the sum {a} + {b}.",
       "~Tom has {a} {t}. He finds {b} more. How many {t} does he have now?"]
SUB = ["What is {a} - {b}?", "{a} - {b}", "{a}-{b}", "{a}-{b}=", "{a} - {b} =", "{a} - {b} = ?", "Compute {a} - {b}.",
       "Calculate {a} - {b}.", "How much is {a} - {b}?", "What is {a} minus {b}?", "{a} minus {b}", "{a} minus {b}?",
       "How much is {a} minus {b}?", "Subtract {b} from {a}.", "What is {b} subtracted from {a}?", "Take {b} from {a}.",
       "What is the difference of {a} and {b}?", "What does {a} - {b} equal?", "What's {a} - {b}?", "What's {a} minus {b}?",
       "Can you subtract {b} from {a}?", "What is {a} less {b}?", "Tell me {a} - {b}.", "What is {a} take away {b}?",
       "I have {a} {t} and give away {b}. How many {t} are left?", "Evaluate {a} - {b}", "Find {a} - {b}.",
       "Give me the result of {a} - {b}.", "{a} - {b} is what?", "There were {a} {t}, and {b} were sold. How many are left?",
       "What remains of {a} when you take away {b}?", "Can you do {a} minus {b}?", "whats {a}-{b}",
       "~Please work out {a} - {b}.", "~{a} minus {b} equals what?", "~Could you take {b} away from {a}?", "~Solve {a} - {b}",
       "~What would {a} - {b} be?", "~I need the difference {a} - {b}.",
       "~Tom has {a} {t}. He loses {b} of them. How many {t} does he still have?"]
MUL = ["What is {a} * {b}?", "{a} * {b}", "{a}*{b}", "{a}*{b}=", "{a} x {b}", "{a}x{b}", "What is {a} x {b}?", "{a} × {b}",
       "What is {a} × {b}?", "What is {a} times {b}?", "{a} times {b}", "{a} times {b}?", "How much is {a} times {b}?",
       "How much is {a} * {b}?", "Multiply {a} by {b}.", "Multiply {a} and {b}.", "What is the product of {a} and {b}?",
       "Compute {a} * {b}.", "Calculate {a} x {b}.", "What's {a} times {b}?", "What's {a} x {b}?", "Tell me {a} * {b}.",
       "What do you get when you multiply {a} and {b}?", "What is {a} multiplied by {b}?", "Evaluate {a} * {b}", "Find {a} x {b}.",
       "There are {a} boxes with {b} {t} each. How many {t} are there?", "{a} * {b} = ?", "{a} * {b} is what?",
       "Give me the result of {a} * {b}.", "Can you do {a} times {b}?", "whats {a}*{b}",
       "~Please work out {a} * {b}.", "~{a} times {b} equals what?", "~Could you multiply {a} with {b}?", "~Solve {a} x {b}",
       "~What would {a} times {b} be?", "~I need the product {a} * {b}.",
       "~Tom buys {a} bags of {b} {t} each. How many {t} does he have?"]
DIV = ["What is {a} / {b}?", "{a} / {b}", "{a}/{b}", "What is {a} divided by {b}?", "{a} divided by {b}", "Divide {a} by {b}.",
       "How much is {a} / {b}?", "Compute {a} / {b}.", "Calculate {a} / {b}.", "How many times does {b} go into {a}?",
       "{a} {t} are shared by {b} people. How many does each get?", "What's {a} / {b}?", "{a} ÷ {b}", "What is {a} over {b}?",
       "~Please work out {a} / {b}.", "~{a} divided by {b} equals what?", "~Solve {a} / {b}", "~Could you divide {a} by {b}?"]
OPS = {"+": (ADD, "ADD"), "-": (SUB, "SUB"), "*": (MUL, "MUL"), "/": (DIV, "DIV")}
for _listed, _ in OPS.values():
    wordings.hold(_listed)
PLACE = ["ones", "tens", "hundreds", "thousands"]


def work_add(a, b):
    """The sum, digit by digit from the right."""
    out, carry = [], 0
    n = max(len(str(a)), len(str(b)))
    for i in range(n):
        x, y = a // 10 ** i % 10, b // 10 ** i % 10
        s = x + y + carry
        line = f"{PLACE[i]}: {x} + {y}" + (f" + {carry}" if i else "") + f" = {s}, "
        last = i == n - 1
        out.append(line + (f"write {s}" if last else f"write {s % 10}, carry {s // 10}"))
        carry = s // 10
    return "\n".join(out)


def work_sub(a, b):
    """The difference of a >= b, digit by digit from the right."""
    out, borrow = [], 0
    n = len(str(a))
    for i in range(n):
        x, y = a // 10 ** i % 10, b // 10 ** i % 10
        line = f"{PLACE[i]}: "
        if borrow:
            line += f"{x} - 1 = {x - 1}, "
        x -= borrow
        borrow = int(x < y)
        line += f"borrow 1, {x + 10} - {y} = {x + 10 - y}, " if borrow else f"{x} - {y} = {x - y}, "
        out.append(line + f"write {x + 10 * borrow - y}")
    return "\n".join(out)


def shown(R, n, spelled):
    return words(n) if spelled else (f"{n:,}" if n >= 1000 and R.random() < .3 else str(n))


def exchange(R, op, held, a, b, equation, value, work, skill):
    spelled = max(a, b) <= 100 and R.random() < .06
    q = pick(R, OPS[op][0], held, OPS[op][1]).format(a=shown(R, a, spelled), b=shown(R, b, spelled), t=R.choice(THINGS))
    if work:
        return {"q": q, "r": f"{equation}\n{work}", "a": f"{equation} = {value}", "direct": f"{equation}\n{work}\n{equation} = {value}",
                "k": skill, "want": str(value)}
    return {"q": q, "r": f"I compute {equation}.", "a": f"{equation} = {value}", "k": skill, "want": str(value)}


def size(R):
    """A number up to 1,000; small ones more often than their share."""
    return R.choice((R.randrange(11), R.randrange(21), R.randrange(100), R.randrange(100), R.randrange(1000),
                     R.randrange(100, 1000), R.randrange(100, 1001)))


def add(R, held=0):
    a, b = size(R), size(R)
    return exchange(R, "+", held, a, b, f"{a} + {b}", a + b, work_add(a, b) if max(a, b) > 99 else "", "sum")


def sub(R, held=0):
    a, b = size(R), size(R)
    if a < b and R.random() < .85:
        a, b = b, a
    big = max(a, b) > 99
    if a >= b:
        return exchange(R, "-", held, a, b, f"{a} - {b}", a - b, work_sub(a, b) if big else "", "difference")
    work = f"{b} is more than {a}, so the result is -({b} - {a})\n{work_sub(b, a)}" if big else ""
    return exchange(R, "-", held, a, b, f"{a} - {b}", a - b, work, "difference")


def mul(R, held=0):
    if R.random() < .75:
        a, b = R.randrange(21), R.randrange(21)
        return exchange(R, "*", held, a, b, f"{a} x {b}", a * b, "", "product")
    a, b = R.randrange(21, 100), R.randrange(2, 10)
    t, o = a // 10 * 10, a % 10
    work = f"{t} x {b} = {t * b}, {o} x {b} = {o * b}, {t * b} + {o * b} = {a * b}" if o else ""
    if R.random() < .5:
        return exchange(R, "*", held, a, b, f"{a} x {b}", a * b, work, "product")
    return exchange(R, "*", held, b, a, f"{b} x {a}", a * b, work, "product")


def div(R, held=0):
    b = R.randrange(1, 21)
    if R.random() < .7:
        a = b * R.randrange(21)
        return exchange(R, "/", held, a, b, f"{a} / {b}", a // b, "", "quotient")
    b = R.randrange(2, 13)
    a = R.randrange(b, 101)
    value = f"{a // b}, remainder {a % b}" if a % b else a // b
    return exchange(R, "/", held, a, b, f"{a} / {b}", value, "", "quotient")


def too_large(R, held=0):
    """Beyond what is learned the shell is named, with the expression."""
    kind = R.randrange(4)
    if kind == 0:
        a, b, w, op = R.randrange(1001, 10 ** R.randrange(4, 9)), R.randrange(2, 10 ** R.randrange(4, 9)), ADD, "+"
    elif kind == 1:
        a, b, w, op = R.randrange(2000, 10 ** R.randrange(4, 9)), R.randrange(1001, 10 ** R.randrange(4, 9)), SUB, "-"
    elif kind == 2:
        a, b, w, op = R.randrange(21, 10 ** R.randrange(3, 7)), R.randrange(100, 10 ** R.randrange(3, 7)), MUL, "*"
    else:
        a, b, w, op = R.randrange(401, 10 ** R.randrange(3, 7)), R.randrange(13, 1000), DIV, "/"
    q = pick(R, w, held, OPS[op][1]).format(a=a, b=b, t=R.choice(THINGS))
    a = f"That is too large for me; I am a very small model. In a shell, `echo $(({a} {op} {b}))` computes it."
    return {"q": q, "r": "These numbers are too large for me.", "a": a, "k": "too-large", "want": "too large"}


def chain(R):
    """A sum, then questions that refer to its result."""
    a, b = R.randrange(50), R.randrange(40)
    v, turns = a + b, []
    turns.append({"q": pick(R, ADD, False, "ADD").format(a=a, b=b, t=R.choice(THINGS)), "r": f"I compute {a} + {b}.",
                  "a": f"{a} + {b} = {v}", "k": "sum", "want": str(v)})
    for _ in range(R.randrange(1, 3)):
        c = R.randrange(1, 10)
        if R.random() < .5 or v < c:
            w = ["And {c} more?", "plus {c}?", "Add {c} to that.", "Now add {c}.", "and plus {c}?", "Add {c} more."]
            e, n = f"{v} + {c}", v + c
        else:
            w = ["And {c} less?", "minus {c}?", "Subtract {c} from that.", "Now take away {c}.", "and minus {c}?"]
            e, n = f"{v} - {c}", v - c
        turns.append({"q": R.choice(w).format(c=c), "r": f"The last result is {v}. I compute {e}.", "a": f"{e} = {n}", "k": "sum", "want": str(n)})
        v = n
    return turns


COMPARE = wordings.hold(["Which is {w}, {a} or {b}?", "What is {w}: {a} or {b}?", "Is {a} or {b} {w}?", "Which number is {w}, {a} or {b}?",
                         "~Of {a} and {b}, which is {w}?", "~Tell me which is {w}: {a} or {b}."])


def work_compare(a, b):
    """Digits from the left until two differ."""
    n, m = len(str(a)), len(str(b))
    sign = '<' if a < b else '>'
    if n != m:
        return f"{a} has {n} digit{'s' * (n > 1)}, {b} has {m} digit{'s' * (m > 1)}\n{a} {sign} {b}"
    out = []
    for x, y in zip(str(a), str(b)):
        out.append(f"{PLACE[n - 1 - len(out)]}: {x} {'=' if x == y else sign} {y}")
        if x != y:
            break
    return "\n".join(out + [f"{a} {sign} {b}"])


def compare(R, held=0):
    a = size(R)
    b = R.choice((size(R), a + R.randrange(1, 20), int(str(a)[::-1])))
    if a == b:
        b = a + 1
    if R.random() < .5:
        a, b = b, a
    big = R.random() < .55
    w = R.choice(("larger", "bigger", "greater", "more", "higher") if big else ("smaller", "less", "lower"))
    v = max(a, b) if big else min(a, b)
    q = pick(R, COMPARE, held, "COMPARE").format(a=a, b=b, w=w)
    if max(a, b) < 10:
        return {"q": q, "r": f"I compare {a} and {b}.", "a": f"{v} is {w}.", "k": "compare", "want": str(v)}
    work = work_compare(a, b)
    return {"q": q, "r": work, "a": f"{v} is {w}.", "direct": f"{work}\n{v} is {w}.", "k": "compare", "want": str(v)}


# ---- units and times: (larger, smaller, how many, largest count of the larger unit) ----
UNITS = [("kilometre", "metre", 1000, 1000), ("metre", "centimetre", 100, 1000), ("centimetre", "millimetre", 10, 1000),
         ("metre", "millimetre", 1000, 1000), ("kilogram", "gram", 1000, 1000), ("gram", "milligram", 1000, 1000),
         ("tonne", "kilogram", 1000, 1000), ("litre", "millilitre", 1000, 1000), ("litre", "decilitre", 10, 1000),
         ("hour", "minute", 60, 20), ("minute", "second", 60, 20), ("day", "hour", 24, 14), ("week", "day", 7, 20),
         ("year", "month", 12, 20), ("foot", "inch", 12, 20), ("yard", "foot", 3, 30), ("pound", "ounce", 16, 20),
         ("century", "year", 100, 1000), ("decade", "year", 10, 1000), ("dozen", "piece", 12, 20),
         ("kilobyte", "byte", 1000, 1000), ("megabyte", "kilobyte", 1000, 1000), ("gigabyte", "megabyte", 1000, 1000),
         ("terabyte", "gigabyte", 1000, 1000), ("gibibyte", "mebibyte", 1024, 8), ("byte", "bit", 8, 20),
         ("kilowatt", "watt", 1000, 1000), ("second", "millisecond", 1000, 1000), ("euro", "cent", 100, 1000), ("dollar", "cent", 100, 1000)]
SHORT = {"kilometre": "km", "metre": "m", "centimetre": "cm", "millimetre": "mm", "kilogram": "kg", "gram": "g", "milligram": "mg",
         "litre": "l", "millilitre": "ml", "hour": "h", "minute": "min", "second": "s", "gigabyte": "GB", "megabyte": "MB",
         "kilobyte": "kB", "terabyte": "TB", "gibibyte": "GiB", "mebibyte": "MiB", "foot": "ft", "inch": "in", "millisecond": "ms"}
PLURAL = {"foot": "feet", "inch": "inches", "century": "centuries", "dozen": "dozen"}
AMERICAN = {"metre": "meter", "litre": "liter"}


def plural(unit, n=2):
    return unit if n == 1 else PLURAL.get(unit, unit + "s")


CONVERT = ["How many {many} are in {x}?", "How many {many} are there in {x}?", "How many {many} is {x}?", "Convert {x} to {many}.",
           "{x} in {many}", "What is {x} in {many}?", "{x} to {many}", "How many {many} does {x} have?", "What are {x} in {many}?",
           "{x} = ? {many}", "How many {many} make {x}?", "Tell me how many {many} {x} are.", "convert {x} into {many}",
           "~Please express {x} in {many}.", "~{x} is how many {many}?", "~Give me {x} as {many}.", "~How many {many} would {x} be?"]


def amount(R, n, unit):
    if n == 1 and R.random() < .4:
        return ("an " if unit[0] in "aeio" or unit == "hour" else "a ") + unit
    if unit in SHORT and R.random() < .25:
        return f"{n} {SHORT[unit]}"
    return f"{n} {plural(unit, n)}"


def respell(R, s):
    if R.random() < .5:
        for x, y in AMERICAN.items():
            s = s.replace(x, y)
    return s


def convert(R, held=0):
    big, small, k, most = R.choice(UNITS)
    n = R.choice((1, R.randrange(1, 11), R.randrange(1, min(most, 100) + 1), R.randrange(1, most + 1)))
    n = min(n, most)
    if R.random() < .65:
        source, target, x, v = big, small, n, n * k
    else:
        source, target, x, v = small, big, n * k, n
    name = SHORT[target] if target in SHORT and R.random() < .12 and target not in ("hour", "minute", "second", "inch") else plural(target)
    q = respell(R, pick(R, CONVERT, held, "CONVERT").format(many=name, x=amount(R, x, source)))
    fact = f"1 {big} is {k} {plural(small, k)}."
    answer = f"{x} {plural(source, x)} = {v} {plural(target, v)}"
    return {"q": q, "r": fact, "a": answer, "k": "units", "want": f"{v} {plural(target, v)}"}


DEGREES = ["What is {x} degrees {f} in {t}?", "Convert {x} degrees {f} to {t}.", "{x} {f} in {t}", "{x} degrees {f} to {t}", "How many degrees {t} is {x} degrees {f}?",
           "~Please express {x} degrees {f} in {t}.", "~{x} degrees {f} is how many {t}?"]


def degrees(R, held=0):
    c = R.randrange(-40, 121)
    f = c * 9 / 5 + 32
    f = int(f) if f == int(f) else round(f, 1)
    if R.random() < .5 or c % 5:
        q = pick(R, DEGREES, held, "DEGREES").format(x=c, f="Celsius", t="Fahrenheit")
        return {"q": q, "r": "Fahrenheit is Celsius x 9/5 + 32.", "a": f"{c} degrees Celsius = {f} degrees Fahrenheit", "k": "units", "want": f"{f} degrees Fahrenheit"}
    q = pick(R, DEGREES, held, "DEGREES").format(x=f, f="Fahrenheit", t="Celsius")
    return {"q": q, "r": "Celsius is (Fahrenheit - 32) x 5/9.", "a": f"{f} degrees Fahrenheit = {c} degrees Celsius", "k": "units", "want": f"{c} degrees Celsius"}


CLOCK24 = ["What is {x} in 24-hour time?", "Convert {x} to 24-hour time.", "{x} in 24-hour time", "How do I write {x} in 24-hour time?",
           "~{x} as 24-hour time?", "~Which 24-hour time is {x}?"]
CLOCK12 = ["What is {x} in 12-hour time?", "Convert {x} to 12-hour time.", "{x} in 12-hour time", "What is {x} in am/pm?", "~{x} as 12-hour time?",
           "~Which 12-hour time is {x}?"]
MINUTES = ["How many minutes are {x}?", "How many minutes are in {x}?", "Convert {x} to minutes.", "{x} in minutes", "What is {x} in minutes?",
           "~Please express {x} in minutes.", "~{x} is how many minutes?"]
HOURS = ["How many hours and minutes are {x} minutes?", "Convert {x} minutes to hours and minutes.", "{x} minutes in hours and minutes", "What is {x} minutes in hours and minutes?",
         "~Please express {x} minutes in hours and minutes.", "~{x} minutes is how many hours and minutes?"]
for _listed in (CONVERT, DEGREES, CLOCK24, CLOCK12, MINUTES, HOURS):
    wordings.hold(_listed)


def clock(R, held=0):
    kind = R.randrange(4)
    h, m = R.randrange(24), R.choice((0, 15, 30, 45, R.randrange(60), R.randrange(60)))
    t12 = f"{(h - 1) % 12 + 1}:{m:02d}"
    half = "pm" if h >= 12 else "am"
    if kind == 0:
        x = R.choice((f"{t12} {half}", f"{t12}{half}", f"{t12} {half[0]}.m."))
        q = pick(R, CLOCK24, held, "CLOCK24").format(x=x)
        return {"q": q, "r": "After noon 12 is added to the hour.", "a": f"{t12} {half} = {h}:{m:02d}", "k": "time", "want": f"{h}:{m:02d}"}
    if kind == 1:
        q = pick(R, CLOCK12, held, "CLOCK12").format(x=f"{h}:{m:02d}")
        return {"q": q, "r": "From 13 on 12 is taken from the hour.", "a": f"{h}:{m:02d} = {t12} {half}", "k": "time", "want": f"{t12} {half}"}
    hours, minutes = R.randrange(1, 13), R.randrange(1, 60)
    total, unit = hours * 60 + minutes, plural("hour", hours)
    left = f"{hours} {unit} and {minutes} {plural('minute', minutes)}"
    if kind == 2:
        x = R.choice((left, f"{hours} h {minutes} min"))
        q = pick(R, MINUTES, held, "MINUTES").format(x=x)
        return {"q": q, "r": f"{hours} {unit} = {hours * 60} minutes, {hours * 60} + {minutes} = {total}.", "a": f"{left} = {total} minutes",
                "direct": f"{hours} {unit} = {hours * 60} minutes\n{hours * 60} + {minutes} = {total}\n{left} = {total} minutes", "k": "time", "want": f"{total} minutes"}
    q = pick(R, HOURS, held, "HOURS").format(x=total)
    return {"q": q, "r": f"{hours} x 60 = {hours * 60}, {total} - {hours * 60} = {minutes}.", "a": f"{total} minutes = {left}",
            "direct": f"{hours} x 60 = {hours * 60}\n{total} - {hours * 60} = {minutes}\n{total} minutes = {left}", "k": "time", "want": left}
