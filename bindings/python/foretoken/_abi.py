"""The C interface of libforetoken, read from foretoken.h.

The header is the only description of the structs and functions; this module parses it when it is
imported, so the two cannot disagree.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import os
import re
from pathlib import Path
from typing import Any

_HERE = Path(__file__).resolve().parent
_TREE = _HERE.parents[2]  # of a source checkout

_PLAIN: dict[str, Any] = {
    "void": None,
    "bool": ctypes.c_bool,
    "char": ctypes.c_char,
    "int": ctypes.c_int,
    "unsigned": ctypes.c_uint,
    "float": ctypes.c_float,
    "double": ctypes.c_double,
    "size_t": ctypes.c_size_t,
    "int32_t": ctypes.c_int32,
    "int64_t": ctypes.c_int64,
    "uint32_t": ctypes.c_uint32,
    "uint64_t": ctypes.c_uint64,
}


def _find(variable: str, candidates: list[Path], what: str) -> str:
    given = os.environ.get(variable)
    if given:
        return given
    for path in candidates:
        if path.exists():
            return str(path)
    raise ImportError(f"{what} is not found; set {variable} to its path")


def header_path() -> str:
    return _find(
        "FORETOKEN_HEADER",
        [
            _HERE / "foretoken.h",
            _TREE / "include" / "foretoken.h",
            Path("/usr/local/include/foretoken.h"),
            Path("/usr/include/foretoken.h"),
        ],
        "foretoken.h",
    )


def library_path() -> str:
    installed = ctypes.util.find_library("foretoken")
    if installed and "FORETOKEN_LIB" not in os.environ:
        in_tree = _TREE / "build" / "libforetoken.so"
        return str(in_tree) if in_tree.exists() else installed
    return _find(
        "FORETOKEN_LIB",
        [_HERE / "libforetoken.so", _TREE / "build" / "libforetoken.so"],
        "libforetoken.so",
    )


class Abi:
    """Constants, structs and typed functions of the header."""

    def __init__(self, source: str) -> None:
        self.constants: dict[str, int] = {}
        self.structs: dict[str, Any] = {}
        self.enums: set[str] = set()
        self.prototypes: dict[str, tuple[Any, list[Any]]] = {}
        self._parse(self._strip(source))

    @staticmethod
    def _strip(source: str) -> str:
        source = re.sub(r"/\*.*?\*/", " ", source, flags=re.S)
        source = re.sub(r"//[^\n]*", " ", source)
        source = re.sub(r"^\s*#[^\n]*", " ", source, flags=re.M)
        source = source.replace('extern "C" {', " ")
        return re.sub(r"\s+", " ", source)

    def _parse(self, text: str) -> None:
        at = 0
        item = re.compile(
            r"typedef enum (?P<enum>\w+) \{(?P<values>[^}]*)\} \w+;"
            r"|enum \{(?P<constants>[^}]*)\};"
            r"|typedef struct (?P<struct>\w+) \{(?P<fields>[^}]*)\} \w+;"
            r"|typedef struct (?P<opaque>\w+) \w+;"
            r"|(?P<result>(?:const )?\w+ \**)(?P<name>ft_\w+)\((?P<arguments>(?:[^()]|\([^()]*\))*)\);"
        )
        for m in item.finditer(text, at):
            if m["enum"]:
                self.enums.add(m["enum"])
                self._enumerate(m["values"])
            elif m["constants"]:
                self._enumerate(m["constants"])
            elif m["struct"]:
                self._add_struct(m["struct"], m["fields"])
            elif m["name"]:
                self._add_function(m["name"], m["result"], m["arguments"])

    def _number(self, expression: str) -> int:
        for name, value in self.constants.items():
            expression = re.sub(rf"\b{name}\b", str(value), expression)
        if not re.fullmatch(r"[-+*()<> 0-9x]+", expression):
            raise ImportError(f"foretoken.h: a constant expression {expression!r}")
        return int(eval(expression))  # digits and operators only

    def _enumerate(self, body: str) -> None:
        value = 0
        for part in body.split(","):
            name, _, given = (x.strip() for x in part.partition("="))
            if not name:
                continue
            value = self._number(given) if given else value
            self.constants[name] = value
            value += 1

    def _base(self, words: str, stars: int) -> Any:
        words = words.replace("const", " ").replace("struct", " ").strip()
        known = self.structs.get(words, ctypes.c_int if words in self.enums else _PLAIN.get(words))
        if stars == 0:
            return known
        if words == "char":
            # a text; an address of a text that the caller frees; or a list of texts
            return ctypes.c_char_p if stars == 1 else ctypes.POINTER(ctypes.c_void_p)
        if known is None:  # void, or a struct that the header does not describe
            kind: Any = ctypes.c_void_p
            stars -= 1
        else:
            kind = known
        for _ in range(stars):
            kind = ctypes.POINTER(kind)
        return kind

    def _type(self, text: str) -> Any:
        """The type of a parameter, with or without a name."""
        function = re.match(r"(.*?)\(\*\w*\)\((.*)\)$", text.strip())
        if function:
            return self._callback(function[1], function[2])
        words = [w for w in re.findall(r"\w+|\*", text) if w != "const"]
        stars = words.count("*")
        base = words[0]
        if "[" in text:
            stars += 1
        return self._base(base, stars)

    def _callback(self, result: str, arguments: str) -> Any:
        return ctypes.CFUNCTYPE(self._type(result), *self._arguments(arguments))

    def _arguments(self, text: str) -> list[Any]:
        parts = re.split(r",(?![^(]*\))", text)
        return [self._type(p) for p in parts if p.strip() not in ("", "void")]

    def _add_struct(self, name: str, body: str) -> None:
        fields: list[tuple[str, Any]] = []
        for line in body.split(";"):
            line = line.strip()
            if not line:
                continue
            function = re.match(r"(.*?)\(\*(\w+)\)\((.*)\)$", line)
            if function:
                fields.append((function[2], self._callback(function[1], function[3])))
                continue
            head = re.match(r"((?:const )?(?:struct )?\w+) (.*)$", line)
            assert head, f"foretoken.h: {name}: {line}"
            for declarator in head[2].split(","):
                d = re.match(r"([\s*]|const\b)*(\w+)\s*(?:\[(.*)\])?$", declarator.strip())
                assert d, f"foretoken.h: {name}: {line}"
                stars = declarator.count("*")
                kind = self._base(head[1], stars)
                if stars == 2 and "char" in head[1]:
                    kind = ctypes.POINTER(ctypes.c_char_p)
                if d[3]:
                    kind = kind * self._number(d[3])
                fields.append((d[2], kind))
        self.structs[name] = type(name, (ctypes.Structure,), {"_fields_": fields})

    def _add_function(self, name: str, result: str, arguments: str) -> None:
        self.prototypes[name] = (self._type(result), self._arguments(arguments))

    def load(self, path: str) -> ctypes.CDLL:
        library = ctypes.CDLL(path)
        for name, (result, arguments) in self.prototypes.items():
            function = getattr(library, name)
            function.restype = result
            function.argtypes = arguments
        return library


abi = Abi(Path(header_path()).read_text(encoding="utf-8"))
lib = abi.load(library_path())
c_free = ctypes.CDLL(None).free
c_free.argtypes = [ctypes.c_void_p]
c_free.restype = None
