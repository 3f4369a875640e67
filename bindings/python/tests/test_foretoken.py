"""Tests of the Python package; tests/cli/python.sh runs them with the library of the build."""

import ctypes
import json
import math
import os
import re
import subprocess
import tempfile
import threading
import unittest
from pathlib import Path

import foretoken
from foretoken import Model, _abi

MODEL = os.environ["FORETOKEN_TEST_MODEL"]
TOOL = {
    "type": "function",
    "function": {
        "name": "look",
        "parameters": {
            "type": "object",
            "properties": {"n": {"type": "integer", "minimum": 3, "maximum": 3}},
            "required": ["n"],
            "additionalProperties": False,
        },
    },
}


class Layout(unittest.TestCase):
    """The structs that Python made of the header are those of the C compiler."""

    def test_offsets(self):
        lines = []
        for name, struct in _abi.abi.structs.items():
            lines.append(f'printf("{name} %zu\\n", sizeof({name}));')
            for field, _ in struct._fields_:
                lines.append(f'printf("{name}.{field} %zu\\n", offsetof({name}, {field}));')
        source = "#include <foretoken.h>\n#include <stdio.h>\nint main(void) {" + "".join(lines) + "}\n"
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "layout.c")
            path.write_text(source)
            include = Path(_abi.header_path()).parent
            subprocess.run([os.environ.get("CC", "cc"), f"-I{include}", str(path), "-o", f"{folder}/layout"], check=True)
            text = subprocess.run([f"{folder}/layout"], check=True, capture_output=True, text=True).stdout
        found = dict(re.findall(r"(\S+) (\d+)", text))
        self.assertGreater(len(found), 200)
        for name, struct in _abi.abi.structs.items():
            self.assertEqual(ctypes.sizeof(struct), int(found[name]), name)
            for field, _ in struct._fields_:
                at = getattr(struct, field).offset
                self.assertEqual(at, int(found[f"{name}.{field}"]), f"{name}.{field}")

    def test_constants(self):
        self.assertEqual(_abi.abi.constants["FT_EFORMAT"], -1)
        self.assertEqual(_abi.abi.constants["FT_ENCODE_NO_NFC"], 4)


class Responses(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.model = Model(MODEL, ctx=2048, slots=3)

    @classmethod
    def tearDownClass(cls):
        cls.model.close()

    def test_info_and_version(self):
        self.assertEqual(self.model.info["ctx"], 2048)
        self.assertTrue(foretoken.version().startswith("0."))

    def test_chat_and_stream_agree(self):
        whole = self.model.chat("hello", max_tokens=8, temperature=0.0, thinking=False)
        pieces = list(self.model.stream("hello", max_tokens=8, temperature=0.0, thinking=False))
        self.assertEqual("".join(e.text for e in pieces if e.part == "answer"), whole.text)
        self.assertEqual([e.id for e in pieces if e.id >= 0], whole.ids)
        self.assertEqual(whole.output_tokens, len(whole.ids))
        self.assertEqual(whole.finish_reason, "length")
        self.assertGreater(whole.prompt_tokens, 0)

    def test_messages(self):
        messages = [{"role": "system", "content": "S"}, {"role": "user", "content": "\u00e9"}]
        prompt, _ = self.model.render(messages)
        self.assertIn("S", prompt)
        self.assertIn("\u00e9", prompt)

    def test_stream_can_be_left(self):
        stream = self.model.stream("hello", max_tokens=1500, temperature=0.0, ignore_eos=True)
        next(stream)
        stream.close()
        self.assertEqual(self.model.chat("hello", max_tokens=2).output_tokens, 2)

    def test_threads(self):
        texts = {}

        def run(i):
            texts[i] = self.model.chat("hello", max_tokens=6, temperature=0.0).ids

        threads = [threading.Thread(target=run, args=(i,)) for i in range(6)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(len(texts), 6)
        self.assertEqual(len({tuple(v) for v in texts.values()}), 1)

    def test_schema_and_stop(self):
        schema = {"type": "object", "properties": {"a": {"const": 7}}, "required": ["a"], "additionalProperties": False}
        response = self.model.chat("x", json_schema=schema, thinking=False)
        self.assertEqual(json.loads(response.text), {"a": 7})
        self.assertEqual(response.finish_reason, "stop")
        response = self.model.complete("x", grammar='root ::= "abcabc"', stop=["ca"])
        self.assertEqual(response.text, "ab")

    def test_tools(self):
        response = self.model.chat("x", tools=[TOOL], tool_choice="required", thinking=False, max_tokens=200)
        self.assertGreater(len(response.tool_calls), 0)
        self.assertEqual(response.tool_calls[0].name, "look")
        self.assertEqual(response.tool_calls[0].parsed(), {"n": 3})

    def test_logprobs(self):
        response = self.model.complete("a b", max_tokens=3, temperature=0.0, logprobs=4)
        self.assertEqual(len(response.logprobs), 3)
        token, *alternatives = response.logprobs[0]
        self.assertEqual(len(alternatives), 4)
        self.assertEqual(token.id, alternatives[0].id)
        self.assertLessEqual(sum(math.exp(a.logprob) for a in alternatives), 1.0001)

    def test_embeddings(self):
        a, b = self.model.embed("hello there"), self.model.embed("hello there", pooling="last")
        self.assertEqual(len(a), self.model.info["width"])
        self.assertAlmostEqual(sum(x * x for x in a), 1.0, places=4)
        self.assertNotEqual(a, b)
        self.assertRaises(ValueError, self.model.embed, "x", pooling="none")

    def test_lora(self):
        self.assertRaisesRegex(foretoken.Error, "nothing.gguf", foretoken.Model, MODEL, lora=["nothing.gguf"])
        same = self.model.complete("a b", max_tokens=3, temperature=0.0, lora=[])
        self.assertEqual(same.text, self.model.complete("a b", max_tokens=3, temperature=0.0).text)
        self.assertRaises(foretoken.Error, self.model.complete, "a b", max_tokens=3, lora=[1.0])

    def test_tokens(self):
        text = "hello w\u00f6rld"
        self.assertEqual(self.model.detokenize(self.model.tokenize(text)), text)

    def test_errors(self):
        with self.assertRaises(foretoken.Error) as e:
            Model("/no/such/file.gguf")
        self.assertEqual(e.exception.code, "FT_EIO")
        with self.assertRaises(foretoken.Error) as e:
            self.model.complete("x " * 5000)
        self.assertEqual(e.exception.code, "FT_ECONTEXT")
        self.assertRaises(TypeError, Model, MODEL, no_such_parameter=1)
        self.assertRaises(TypeError, self.model.chat, "x", no_such_option=1)
        closed = Model(MODEL, ctx=256)
        closed.close()
        self.assertRaises(foretoken.Error, closed.chat, "x")


if __name__ == "__main__":
    unittest.main()
