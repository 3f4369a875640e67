"""Renders a template with Python's Jinja2, set up as model hubs do it: the judge where the other
reference differs. Reads {"source": ..., "inputs": [...]} and writes a list of {"prompt"|"error"}."""
import json
import os
import sys
from datetime import datetime

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../data/template"))
from reference import env

env.filters["from_json"] = json.loads
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
