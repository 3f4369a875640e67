#!/usr/bin/env python3
"""Writes cases.jsonl: small templates, their variables, and what the reference renders.

Needs the python3-jinja2 package.
usage: make.py > cases.jsonl
"""
import json

from reference import env

V = {
    "n": None,
    "t": True,
    "f": False,
    "i": 7,
    "neg": -7,
    "x": 2.5,
    "s": "Hello World",
    "u": "Grüße, Welt 😀",
    "ws": "  \t\n padded \u00a0 ",
    "l": [3, 1, 2],
    "ls": ["b", "A", "c"],
    "d": {"b": 1, "a": {"z": [1, 2.0, None, True]}, "C": "x"},
    "m": [
        {"role": "system", "content": "be kind", "k": 1},
        {"role": "user", "content": "hi", "k": 3},
        {"role": "assistant", "content": "hello", "k": 2},
    ],
    "nest": {"p": {"q": {"r": "deep"}}},
    "html": "<b a=\"1\">x & 'y'</b>",
    "lines": "one\ntwo\n\nthree",
    "empty": "",
    "el": [],
    "ed": {},
}

EXPR = """
1 + 2 * 3
7 // 2
-7 // 2
7 % 3
-7 % 3
7 % -3
7.5 // 2
-7.5 % 2
2 ** 10
2 ** -1
2 ** 3 ** 2
-2 ** 2
1 / 2
4 / 2
1e3
1_000
1.5e-7
1e16
123456789012345680.0
0.1 + 0.2
1e100
5 * 'ab'
[1] * 3
[1] + [2]
(1, 2) + (3,)
'a' 'b' "c"
'a' ~ 1 ~ none ~ true ~ 1.0 ~ missing
'\\x41\\u00e9\\n\\t\\'\\"\\\\ \\q \\101'
s[0]
s[-1]
s[1:4]
s[::-1]
s[::2]
s[-3:]
s[:-3]
s[100:]
s[5:2]
u[-1]
u[::-1]
u[1:6]
u | length
l[0]
l[-1]
l[5]
l[1:]
l[::-1]
l[:1]
l[-2:]
l[10:0:-1]
(1, 2, 3)[1:]
range(5)[1]
range(5) | list
range(2, 8, 3) | list
range(5, 0, -2) | list
range(3)
d
d.b
d['b']
d.a.z
d.missing
d['missing']
d.items() | list
d.keys() | list
d.values() | list
d.get('b')
d.get('q')
d.get('q', 'dflt')
d | items | list
d | dictsort
d | dictsort(case_sensitive=true)
d | dictsort(by='key', reverse=true)
d | tojson
d | tojson(indent=2)
d | tojson(true)
u | tojson
u | tojson(ensure_ascii=true)
'\\x00\\x1f\\x7f\\b\\f' | tojson
html | tojson
d | tojson(sort_keys=true)
d | tojson(separators=(',', ':'))
[] | tojson(indent=2)
{} | tojson(indent=4)
[1, [2, {}], 'a'] | tojson(indent='--')
{1: 2, none: 3, true: 4, 1.5: 5} | tojson
(1, 'a') | tojson
1.0 | tojson
[1.5, 1e20, 0.00001, -0.0, 3] | tojson
n | tojson
missing | tojson
[n, t, f, i, x, s]
['it\\'s', 'say "hi"', 'both \\' "', 'tab\\t', '\\u200b', 'é']
{'a': 1, 2: [none]}
(1,)
()
[]
{}
n
t
f
missing
missing.x
missing['x']
nest.p.q.r
nest['p']['q'].r
nest.p.zzz
nest.zzz.r
n.foo
i.foo
s.foo
1 < 2 < 3
1 < 3 < 2
1 == 1.0
true == 1
'a' < 'b'
[1, 2] < [1, 3]
'a' < 1
none < 1
l == [3, 1, 2]
d == d
'ell' in s
'z' not in s
3 in l
9 in l
'b' in d
'q' in d
'a' in missing
none in [none]
1 in 'abc'
not true
not n
true and 'x'
'' or 'y'
none or false
1 if true else 2
1 if false else 2
'only' if false
(1 if false) is defined
'a' if f else 'b' if f else 'c'
n is none
n is not none
missing is defined
missing is undefined
s is defined
s is string
i is number
t is number
x is float
i is integer
t is integer
t is boolean
d is mapping
l is mapping
l is sequence
s is sequence
d is sequence
l is iterable
i is iterable
missing is iterable
missing is sequence
missing is mapping
missing is string
missing is none
t is true
f is false
1 is true
i is odd
4 is even
9 is divisibleby 3
9 is divisibleby(4)
i is eq 7
i is equalto(7)
i is ne 7
i is gt 5
i is lt(5)
i is ge 7
i is le 6
i is in [7, 8]
i is not in [7, 8]
range is callable
s is callable
'abc' is lower
'ABC' is upper
'trim' is filter
'odd' is test
not i is odd
i + 1 is even
s is string and s
s | upper
s | lower
'hELLO wORLD' | capitalize
'hello-world (foo) bar' | title
'hello-world it\\'s'.title()
'élan ß' | upper
ws | trim
ws.strip()
ws.lstrip()
ws.rstrip()
'xxhixx'.strip('x')
'xyhixy'.lstrip('yx')
'xyhixy'.rstrip('xy')
'xxhixx' | trim('x')
'a,b,,c'.split(',')
'a,b,,c'.split(',', 1)
' a  b c '.split()
' a  b c '.split(none, 1)
'a,b,c'.rsplit(',', 1)
'abc'.split('')
s.startswith('Hell')
s.endswith('orld')
s.startswith(('x', 'H'))
s.replace('l', 'L')
s.replace('l', 'L', 1)
s | replace('o', '0')
'abc'.replace('', '-')
s.upper()
s.lower()
'abc'.capitalize()
s.find('o')
s.find('zz')
u.find('W')
s.rfind('o')
s.count('o')
', '.join(['a', 'b'])
', '.join([1])
'a-b' .split('-') | join('+')
'{} and {}'.format(1, 'x')
'{1} {0}'.format('a', 'b')
'{name}!'.format(name='bob')
'{{}} {:.2f} {:03d}'.format(2.5, 7)
'%s is %d' % ('a', 3)
'%05.1f|%-4s|' % (2.25, 'ab')
'%s' | format('x')
'abc'.isdigit()
'123'.isdigit()
'x'.nomethod()
'prefix-a'.removeprefix('prefix-')
lines.splitlines()
l | length
s | length
d | count
n | length
missing | length
i | length
l | first
l | last
el | first
s | first
l | sort
l | sort(reverse=true)
ls | sort
ls | sort(case_sensitive=true)
m | sort(attribute='k') | map(attribute='role') | list
l | min
l | max
ls | min
m | map(attribute='content') | join(', ')
m | map(attribute='zzz', default='q') | list
ls | map('upper') | list
[' a ', 'b '] | map('trim') | join('|')
m | selectattr('role', 'equalto', 'user') | list
m | selectattr('k', 'gt', 1) | map(attribute='k') | list
m | rejectattr('role', 'in', ['user', 'system']) | map(attribute='role') | list
m | selectattr('zzz') | list
m | selectattr('zzz', 'defined') | list
[0, 1, '', 'a', none] | select | list
[0, 1, '', 'a', none] | reject | list
[1, 2, 3, 4] | select('odd') | list
[1, 2, 3, 4] | reject('divisibleby', 2) | list
none | selectattr('x') | list
[1, 2, 1, 'a', 'A'] | unique | list
[1, 2, 3] | sum
m | sum(attribute='k')
[1.5, 2] | sum
[[1], [2]] | sum(start=[])
l | reverse | list
s | reverse
s | list
d | list
l | join
l | join('-')
missing | join(',')
missing | list
missing | items | list
missing | default('dd')
n | default('dd')
n | default('dd', true)
'' | default('e', boolean=true)
missing | d(1)
missing | upper
missing | int
'42' | int
'4.7' | int
'zz' | int
'zz' | int(-1)
'ff' | int(0, 16)
' 12 ' | int
3.9 | int
true | int
'1.5' | float
'x' | float
'x' | float(1.5)
3 | float
2.5 | round
3.5 | round
2.345 | round(2)
2.1 | round(method='ceil')
2.9 | round(0, 'floor')
7 | round
-3 | abs
1.5 | string
s | string | length
html | escape
html | e
html | safe
html | striptags
lines | indent
lines | indent(2, true)
lines | indent(2, blank=true)
lines | indent(width='> ')
'one two, three' | wordcount
'ab' | center(7)
[1, 2, 3, 4, 5] | batch(2) | list
[1, 2, 3] | batch(2, 'x') | list
[1, 2, 3, 4, 5] | slice(2) | list
dict(a=1, b='x')
dict([('a', 1)])
namespace(a=1).a
-i
+i
- - 3
-x | abs
s | nofilter
s is notest
1 + 'a'
'a' + 1
'a' + none
none + 'a'
missing + 'a'
'a' + missing
l + 'a'
1 // 0
1 / 0
1 % 0
9223372036854775807
l.0
m.0.role
m[1].role
m[-1]['content']
m[i - 6].role
[1, 2,]
{'a': 1,}
(1 + 2) * 3
[x * 2, i]
'a' in ['a'] and 'b' in 'abc'
missing == missing
missing == none
missing != 'a'
1 == '1'
d.a.z[2] is none
(l | sort)[0]
s.split(' ')[0] | lower
true
True
None is none
[] == ()
{} == {}
range(200000)
missing()
i()
s['upper']()
[i, i + 1][1]
'%d%%' % 5
'a\
b'
"tab	tab"
""".strip("\n").split("\n")

STMT = [
    "{% if t %}yes{% elif f %}no{% else %}else{% endif %}",
    "{% if f %}yes{% elif i == 7 %}seven{% else %}else{% endif %}",
    "{% if missing %}a{% else %}b{% endif %}",
    "{% for x in l %}{{ x }},{% endfor %}",
    "{% for x in el %}{{ x }}{% else %}none{% endfor %}",
    "{% for x in missing %}{{ x }}{% else %}none{% endfor %}",
    "{% for x in n %}{% endfor %}",
    "{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}",
    "{% for k in d %}{{ k }};{% endfor %}",
    "{% for c in u %}{{ c }}.{% endfor %}",
    "{% for a, (b, c) in [(1, (2, 3))] %}{{ a }}{{ b }}{{ c }}{% endfor %}",
    "{% for a, b in [1, 2] %}{% endfor %}",
    "{% for a, b in [(1, 2, 3)] %}{% endfor %}",
    "{% for x in l if x > 1 %}{{ loop.index }}/{{ loop.length }}:{{ x }} {% endfor %}",
    "{% for x in l if x > 9 %}{{ x }}{% else %}none{% endfor %}",
    "{% for x in l %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}|{% endfor %}",
    "{% for x in l %}{{ loop.previtem }}<{{ x }}>{{ loop.nextitem }} {% endfor %}",
    "{% for x in l %}{% if loop.previtem is defined %}{{ loop.previtem }}{% endif %}{% if loop.nextitem is undefined %}end{% endif %}{% endfor %}",
    "{% for x in l %}{{ loop.cycle('a', 'b') }}{% endfor %}",
    "{% for x in [1, 1, 2] %}{{ loop.changed(x) }} {% endfor %}",
    "{% for x in l %}{% for y in l %}{{ loop.depth }}{{ loop.depth0 }}{% endfor %}{{ loop.index }}{% endfor %}",
    "{% for x in range(10) %}{% if x == 3 %}{% continue %}{% endif %}{% if x == 6 %}{% break %}{% endif %}{{ x }}{% endfor %}",
    "{% for x in l %}{% for y in l %}{% break %}{% endfor %}{{ x }}{% endfor %}",
    "{% set a = 1 %}{% for x in l %}{% set a = a + x %}{{ a }} {% endfor %}{{ a }}",
    "{% set ns = namespace(a=1) %}{% for x in l %}{% set ns.a = ns.a + x %}{% endfor %}{{ ns.a }}",
    "{% set ns = namespace() %}{% set ns.q = 'x' %}{{ ns.q }}{{ ns.zzz }}",
    "{% set ns = namespace({'a': 5}, b=6) %}{{ ns.a }}{{ ns['b'] }}",
    "{% set d.b = 2 %}",
    "{% set a, b = 1, 2 %}{{ a }}{{ b }}",
    "{% set a = 1, 2 %}{{ a }}",
    "{% if t %}{% set q = 5 %}{% endif %}{{ q }}",
    "{% set q %}block {{ i }}{% endset %}[{{ q }}]",
    "{% set q | upper | trim %} block {% endset %}[{{ q }}]",
    "{% macro m1(a, b=2, c='x') %}{{ a }}-{{ b }}-{{ c }}{% endmacro %}{{ m1(1) }} {{ m1(1, c='z') }} {{ m1(1, 2, 3) }} {{ m1() }}",
    "{% macro m1(a) %}{{ a }}{% endmacro %}{{ m1(1, 2) }}",
    "{% macro m1(a) %}{{ a }}{% endmacro %}{{ m1(q=2) }}",
    "{% macro m1(a) %}{{ a }}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m1(1, 2, 3, z=4) }}",
    "{% macro m1(a, b=a) %}{{ a }}{{ b }}{% endmacro %}{{ m1(4) }}",
    "{% macro f(k) %}{% if k > 0 %}{{ k }}{{ f(k - 1) }}{% endif %}{% endmacro %}{{ f(5) }}",
    "{% macro f(k) %}{{ f(k) }}{% endmacro %}{{ f(5) }}",
    "{% set g = 1 %}{% macro f() %}{{ g }}{% endmacro %}{% set g = 2 %}{{ f() }}",
    "{% macro f(x) %}{% set y = x %}{{ y }}{% endmacro %}{{ f(3) }}{{ y }}",
    "{% macro f() %}  padded  {% endmacro %}[{{ f() | trim }}]",
    "{% macro w(title) %}<{{ title }}>{{ caller() }}</{{ title }}>{% endmacro %}{% call w('b') %}inner {{ i }}{% endcall %}",
    "{% macro w() %}{{ caller(1, 2) }}{% endmacro %}{% call(a, b) w() %}{{ a }}+{{ b }}{% endcall %}",
    "{% for x in l %}{% macro f() %}{{ x }}{% endmacro %}{{ f() }}{% endfor %}",
    "{% macro f(l) %}{% for x in l %}{{ x }}{% if not loop.last %},{% endif %}{% endfor %}{% endmacro %}{{ f([1, 2]) }}{{ f(l) }}",
    "{% filter upper %}shout {{ s }}{% endfilter %}",
    "{% with a = 1, b = 2 %}{{ a }}{{ b }}{% endwith %}{{ a }}",
    "{% generation %}gen {{ i }}{% endgeneration %}",
    "{% set j = joiner('; ') %}{% for x in l %}{{ j() }}{{ x }}{% endfor %}",
    "{% set c = cycler('a', 'b') %}{{ c.next() }}{{ c.next() }}{{ c.next() }}{{ c.current }}{% set _ = c.reset() %}{{ c.next() }}",
    "{{ raise_exception('stop it') }}",
    "{% set l2 = [] %}{% for x in l %}{% set _ = l2.append(x * 2) %}{% endfor %}{{ l2 }}",
    "{% set l2 = [1] %}{% set _ = l2.extend([2, 3]) %}{% set _ = l2.insert(0, 'z') %}{{ l2 }}{{ l2.pop() }}{{ l2.pop(0) }}{{ l2 }}{{ l2.index(2) }}",
    "{% set e = {} %}{% set _ = e.update({'a': 1}) %}{{ e }}{{ e.pop('a') }}{{ e }}{{ e.pop('q', 'none') }}",
    "{# comment #}a{# multi\nline #}b",
    "{#- c -#}\n a",
    "  {% if t %}\n  x\n  {% endif %}\n  y\n",
    "  {%- if t -%}\n  x\n  {%- endif -%}\n  y\n",
    "a\n  {%+ if t %}x{% endif %}\nb",
    "a\n  {% if t +%}\nx{% endif %}\nb",
    "a  {{- i -}}  b",
    "a  {{ i }}  \n\n b",
    "a\n\n{%- if t %}\n\nx{% endif %}",
    "{% if t %}\n\nx\n{% endif %}\n\nz",
    "\n\n{{ i }}\n\n",
    "{{ i }}\n",
    "{% raw %}{{ not }} {% parsed %}{% endraw %} x",
    "  {%- raw -%}  {{ a }}  {%- endraw -%}  x",
    "a\r\nb\rc{{ '\r\n' }}d\r\n",
    "{% if t %}a{% endif %}\r\nb",
    "{{ {'a': {'b': 1}} }}",
    "{{ {'a': {'b': 1}}['a'] }}",
    "x{{ '{{' }}y{{ '%}' }}z",
    "{{ 'a' -}}   {{- 'b' }}",
    "\t {% set a = 1 %} \nx",
    "text {% set a = 1 %} \nx",
    "{{ a if a is defined else 'none' }}",
    "{{ 1, 2 }}",
    "{%if t%}a{%endif%}",
    "{{i}}{{-i}}",
    "{% for m1 in m %}{% if m1.role == 'system' %}{{ m1.content }}{% elif m1['role'] == 'user' %}U{{ m1['content'] }}{% else %}{{ m1.get('content') }}{% endif %}\n{% endfor %}",
    "{% for m1 in m %}\n    {% if loop.first %}\nfirst\n    {% endif %}\n    {{ m1.role }}\n{% endfor %}\nend",
    "{% for x in m | selectattr('role', 'eq', 'user') %}{{ x.content }}{% endfor %}",
    "{% for x in m[1:] %}{{ x.role }}{% endfor %}{% for x in m[::-1] %}{{ loop.index0 }}{{ x.role }}{% endfor %}",
    "{% set loop_messages = m[1:] if m[0].role == 'system' else m %}{{ loop_messages | length }}",
    "{% for x in (1, 2) %}{{ x }}{% endfor %}{% for x in 1, 2 %}{{ x }}{% endfor %}",
    "{% for k, v in {'a': 1} | dictsort %}{{ k }}{{ v }}{% endfor %}",
    "{% if not (t and f) or n %}A{% endif %}",
    "{% set a = {'k': [1, {'z': none}]} %}{{ a.k[1].z }}{{ a['k'][1]['z'] is none }}",
    # broken ones
    "{% if t %}",
    "{% endif %}",
    "{% for x in %}{% endfor %}",
    "{% for x l %}{% endfor %}",
    "{{ 1 + }}",
    "{{ (1 }}",
    "{{ 'abc }}",
    "{{ a",
    "{% set = 1 %}",
    "{% set a 1 %}",
    "{% unknown %}",
    "{% include 'x' %}",
    "{% break %}",
    "{# open",
    "{% raw %}x",
    "{% macro %}{% endmacro %}",
    "{% macro m1( %}{% endmacro %}",
    "{{ 1 | }}",
    "{{ 1 is }}",
    "{{ @ }}",
    "{{ a b }}",
    "{{ [1, 2 }}",
    "{{ {'a' 1} }}",
    "{{ a. }}",
    "{% if %}x{% endif %}",
    "{% set none = 1 %}",
    "{{}}",
    "{% %}",
    "{% for x in l %}{% else %}{% else %}{% endfor %}",
]


def case(source, variables):
    used = {k: v for k, v in variables.items()}
    try:
        want = {"want": env.from_string(source).render(**json.loads(json.dumps(used)))}
    except Exception:
        want = {"fails": True}
    print(json.dumps(dict({"template": source}, **want)))


print(json.dumps({"vars": V}))
for e in EXPR:
    case("{{ " + e + " }}", V)
for s in STMT:
    case(s, V)
