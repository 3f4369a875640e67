#!/usr/bin/env python3
"""Writes the files that `foretoken convert` reads beside the weights of the Gemma pair: tokenizer, chat template, defaults.

usage: gemma_files.py TOKENIZER.json MODEL_FOLDER ASSISTANT_FOLDER"""
import json
import os
import shutil
import sys

TEMPLATE = """{{- bos_token }}
{%- for message in messages %}
{{- '<|turn>' + ('model' if message.role == 'assistant' else message.role) + '\\n' + message.content + '<turn|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
{{- '<|turn>model\\n' }}
{%- endif %}
"""
TOKENS = {"bos_token": "<bos>", "eos_token": "<eos>", "pad_token": "<pad>", "unk_token": "<unk>", "eot_token": "<turn|>"}
DEFAULTS = {"eos_token_id": [1, 6], "pad_token_id": 0, "bos_token_id": 2, "do_sample": True, "temperature": 0.3, "top_p": 0.9, "top_k": 20}


def main():
    tokenizer, model, assistant = sys.argv[1:4]
    for folder in (model, assistant):
        shutil.copy(tokenizer, os.path.join(folder, 'tokenizer.json'))
        with open(os.path.join(folder, 'tokenizer_config.json'), 'w') as f:
            json.dump(TOKENS, f)
    with open(os.path.join(model, 'generation_config.json'), 'w') as f:
        json.dump(DEFAULTS, f)
    with open(os.path.join(model, 'chat_template.jinja'), 'w') as f:
        f.write(TEMPLATE)


if __name__ == '__main__':
    main()
