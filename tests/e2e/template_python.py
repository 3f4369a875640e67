"""Renders a template with Python's Jinja2, set up as model hubs do it: the judge where the other
reference differs. Reads {"source": ..., "inputs": [...]} and writes a list of {"prompt"|"error"}."""
import json
import sys
from datetime import datetime

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension
from jinja2.sandbox import SandboxedEnvironment


class Generation(Extension):
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return nodes.CallBlock(self.call_method("_body"), [], [], body).set_lineno(line)

    def _body(self, caller):
        return caller()


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(
        x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


env = SandboxedEnvironment(
    trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols", Generation]
)
env.filters["tojson"] = tojson
env.filters["from_json"] = json.loads
env.globals["raise_exception"] = raise_exception
env.globals["strftime_now"] = lambda fmt: datetime.now().strftime(fmt)

job = json.load(sys.stdin)
out = []
try:
    template = env.from_string(job["source"])
except Exception as e:
    out = [{"error": repr(e)}] * len(job["inputs"])
else:
    for variables in job["inputs"]:
        try:
            out.append({"prompt": template.render(**variables)})
        except Exception as e:
            out.append({"error": repr(e)})
json.dump(out, sys.stdout)
