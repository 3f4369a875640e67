"""A tool call: python3 tools.py [model.gguf]"""

import sys

from foretoken import Model

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": "The weather in a city",
            "parameters": {
                "type": "object",
                "properties": {"city": {"type": "string", "maxLength": 40}},
                "required": ["city"],
                "additionalProperties": False,
            },
        },
    }
]

with Model(sys.argv[1] if len(sys.argv) > 1 else None) as model:
    response = model.chat(
        "What is the weather in Paris?", tools=TOOLS, tool_choice="required", thinking=False, max_tokens=200
    )
    for call in response.tool_calls:
        print(call.name, call.arguments)
