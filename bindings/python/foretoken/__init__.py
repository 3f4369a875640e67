"""foretoken for Python: runs GGUF models with libforetoken, without a compiler.

    from foretoken import Model

    with Model("model.gguf") as model:
        print(model.chat("Why is the sky blue?").text)
        for event in model.stream("Tell me a story."):
            print(event.text, end="", flush=True)
"""

from __future__ import annotations

import ctypes
import json
import threading
from dataclasses import dataclass, field
from typing import Any, Iterator, Mapping, Optional, Sequence, Union

from ._abi import abi, c_free, lib

__all__ = ["Error", "Event", "Model", "Response", "TokenProb", "ToolCall", "version"]

Messages = Union[str, Sequence[Mapping[str, Any]]]
Tools = Sequence[Mapping[str, Any]]

_S = abi.structs
_K = abi.constants


class Error(Exception):
    """An error of the library. code is a status such as "FT_EINVAL"."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        names = [k for k, v in _K.items() if v == status and k.startswith("FT_E")]
        self.status = status
        self.code = names[0] if names else str(status)


@dataclass(frozen=True)
class TokenProb:
    """A token with the natural logarithm of its probability."""

    id: int
    text: str
    logprob: float


@dataclass(frozen=True)
class Event:
    """A piece of a response. part is "answer", "thinking", "call" (text: the name of the tool) or
    "arguments" (text: a piece of the JSON arguments of call number `call`)."""

    text: str
    part: str
    id: int
    call: int
    drafted: bool
    logprobs: Sequence[TokenProb] = ()


@dataclass
class ToolCall:
    name: str
    arguments: str = ""

    def parsed(self) -> Any:
        """The arguments as Python objects."""
        return json.loads(self.arguments or "{}")


@dataclass
class Response:
    text: str = ""
    thinking: str = ""
    tool_calls: list[ToolCall] = field(default_factory=list)
    finish_reason: str = "stop"
    ids: list[int] = field(default_factory=list)
    logprobs: list[Sequence[TokenProb]] = field(default_factory=list)
    prompt_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    seconds: float = 0.0


_PARTS = {
    _K["FT_PART_ANSWER"]: "answer",
    _K["FT_PART_THOUGHT"]: "thinking",
    _K["FT_PART_CALL"]: "call",
    _K["FT_PART_ARGS"]: "arguments",
}
_WAKE = abi.prototypes["ft_job_new"][1][3]  # void (*wake)(void *user)
_REASONS = {
    _K["FT_REASON_STOP"]: "stop",
    _K["FT_REASON_LENGTH"]: "length",
    _K["FT_REASON_CANCEL"]: "cancelled",
}


def version() -> str:
    """The version of the library."""
    return lib.ft_version().decode()


def _check(status: int, err: Any) -> None:
    if status != _K["FT_OK"]:
        raise Error(status, err.text.decode("utf-8", "replace"))


def _bytes(value: Any) -> Any:
    return value.encode() if isinstance(value, str) else value


def _set(struct: Any, values: Mapping[str, Any], what: str) -> None:
    """Sets fields by name; texts become bytes, which the struct keeps alive."""
    names = {name for name, _ in struct._fields_}
    for name, value in values.items():
        if name not in names:
            raise TypeError(f"{what} has no parameter {name!r}")
        if value is not None:
            setattr(struct, name, _bytes(value))


def _texts(values: Sequence[str]) -> Any:
    return (ctypes.c_char_p * len(values))(*[v.encode() for v in values])


def _take(pointer: ctypes.c_void_p, n: Optional[int] = None) -> bytes:
    """The bytes at an address that the library allocated; frees them."""
    if not pointer.value:
        return b""
    data = ctypes.string_at(pointer.value, -1 if n is None else n)
    c_free(pointer)
    return data


class Model:
    """A model in memory. Thread safe: each thread may stream a response, as many at a time as there
    are slots; more wait.

    path: a GGUF file; None: the model that ships with foretoken. Keyword arguments are the fields of
    ft_llm_params in foretoken.h, such as ctx, slots, threads, device, gpu_layers, draft_model.
    lora: LoRA adapters, each a GGUF file or a pair of a file and a scale. Requests take lora too: a
    list with the scale of each adapter.
    """

    def __init__(
        self,
        path: Optional[str] = None,
        *,
        lora: Sequence[Union[str, tuple[str, float]]] = (),
        **params: Any,
    ) -> None:
        p = _S["ft_llm_params"]()
        lib.ft_llm_defaults(ctypes.byref(p))
        pairs = [(a, 1.0) if isinstance(a, str) else a for a in lora]
        files = (_S["ft_lora_file"] * len(pairs))(*[(a.encode(), scale) for a, scale in pairs])
        if pairs:
            p.lora, p.n_lora = files, len(pairs)
        _set(p, {"model": path, **params}, "Model")
        err = _S["ft_err"]()
        handle = ctypes.c_void_p()
        self._model: Optional[ctypes.c_void_p] = None
        self._lock = threading.Lock()
        _check(lib.ft_llm_open(ctypes.byref(handle), ctypes.byref(p), ctypes.byref(err)), err)
        q = _S["ft_queue_params"]()
        lib.ft_queue_defaults(ctypes.byref(q))
        status = lib.ft_llm_start(handle, ctypes.byref(q), ctypes.byref(err))
        if status:
            lib.ft_llm_close(handle)
        _check(status, err)
        self._model = handle

    def __enter__(self) -> "Model":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()

    def close(self) -> None:
        """Frees the model. Streams must have ended."""
        with self._lock if hasattr(self, "_lock") else threading.Lock():
            handle, self._model = getattr(self, "_model", None), None
        if handle:
            lib.ft_llm_stop(handle, False)
            lib.ft_llm_close(handle)

    @property
    def _open(self) -> ctypes.c_void_p:
        if self._model is None:
            raise Error(_K["FT_EINVAL"], "the model is closed")
        return self._model

    # ---- about ----

    @property
    def info(self) -> dict[str, Any]:
        """Name, architecture, context length, number of layers and so on: ft_llm_info."""
        about = lib.ft_llm_about(self._open).contents
        values = {name: getattr(about, name) for name, _ in about._fields_}
        return {k: v.decode("utf-8", "replace") if isinstance(v, bytes) else v for k, v in values.items()}

    # ---- tokens ----

    def tokenize(self, text: str, add_special: bool = False, parse_special: bool = True) -> list[int]:
        """The ids of a text."""
        data, err = text.encode(), _S["ft_err"]()
        ids, n = ctypes.POINTER(ctypes.c_int32)(), ctypes.c_size_t()
        flags = _K["FT_ENCODE_ADD_SPECIAL"] * add_special + _K["FT_ENCODE_PARSE_SPECIAL"] * parse_special
        vocab = lib.ft_llm_vocab(self._open)
        _check(
            lib.ft_vocab_encode(vocab, data, len(data), flags, ctypes.byref(ids), ctypes.byref(n), ctypes.byref(err)),
            err,
        )
        result = ids[: n.value]
        c_free(ctypes.cast(ids, ctypes.c_void_p))
        return result

    def detokenize(self, ids: Sequence[int], special: bool = False) -> str:
        """The text of ids."""
        text, n, err = ctypes.c_void_p(), ctypes.c_size_t(), _S["ft_err"]()
        array = (ctypes.c_int32 * len(ids))(*ids)
        vocab = lib.ft_llm_vocab(self._open)
        _check(
            lib.ft_vocab_decode(
                vocab, array, len(ids), special, ctypes.byref(text), ctypes.byref(n), ctypes.byref(err)
            ),
            err,
        )
        return _take(text, n.value).decode("utf-8", "replace")

    # ---- responses ----

    def render(self, messages: Messages, **options: Any) -> tuple[str, bool]:
        """The prompt that the chat template makes of messages, and whether it ends inside a thinking
        section. options: tools, enable_thinking and other variables of the template."""
        if isinstance(messages, str):
            messages = [{"role": "user", "content": messages}]
        prompt, thought, err = ctypes.c_void_p(), ctypes.c_bool(), _S["ft_err"]()
        _check(
            lib.ft_llm_render(
                self._open,
                json.dumps(messages).encode(),
                json.dumps(options).encode(),
                ctypes.byref(prompt),
                ctypes.byref(thought),
                ctypes.byref(err),
            ),
            err,
        )
        return _take(prompt).decode(), thought.value

    def _tool_grammar(self, tools: bytes, name: Optional[str]) -> tuple[bytes, bytes]:
        gbnf, trigger, err = ctypes.c_void_p(), ctypes.c_void_p(), _S["ft_err"]()
        rules = _S["ft_tool_rules"]()
        rules.name = _bytes(name)
        _check(
            lib.ft_llm_tool_grammar(
                self._open, tools, ctypes.byref(rules), ctypes.byref(gbnf), ctypes.byref(trigger), ctypes.byref(err)
            ),
            err,
        )
        return _take(gbnf), ctypes.string_at(trigger.value) if trigger.value else b""

    def _request(
        self,
        prompt: Union[str, Sequence[int]],
        *,
        max_tokens: int = -1,
        stop: Sequence[str] = (),
        logprobs: Optional[int] = None,
        json_schema: Union[str, Mapping[str, Any], None] = None,
        grammar: Optional[str] = None,
        lora: Optional[Sequence[float]] = None,
        **more: Any,
    ) -> Any:
        r = _S["ft_request"]()
        lib.ft_request_defaults(ctypes.byref(r), self._open)
        if lora is not None:
            r.lora, r.n_lora = (ctypes.c_float * max(1, len(lora)))(*lora), len(lora)
        sampling = {name for name, _ in _S["ft_sampling"]._fields_}
        _set(r.sampling, {k: v for k, v in more.items() if k in sampling}, "sampling")
        _set(r, {k: v for k, v in more.items() if k not in sampling}, "a request")
        if isinstance(prompt, str):
            data = prompt.encode()
            r.prompt, r.prompt_bytes = data, len(data)
        else:
            r.ids, r.n_ids = (ctypes.c_int32 * len(prompt))(*prompt), len(prompt)
        r.max_tokens = max_tokens
        if stop:
            r.stop, r.n_stop = _texts(stop), len(stop)
        if logprobs is not None:
            r.top_logprobs = logprobs
        if json_schema is not None:
            text = json_schema if isinstance(json_schema, str) else json.dumps(json_schema)
            r.json_schema = text.encode()
        if grammar is not None:
            r.grammar = grammar.encode()
        return r

    def _events(self, request: Any, response: Response) -> Iterator[Event]:
        ready = threading.Event()
        wake = _WAKE(lambda _: ready.set())
        job, err, event = ctypes.c_void_p(), _S["ft_err"](), _S["ft_event"]()
        _check(
            lib.ft_job_new(
                ctypes.byref(job), self._open, ctypes.byref(request), wake, None, ctypes.byref(err)
            ),
            err,
        )
        try:
            while not lib.ft_job_done(job):
                ready.clear()
                while lib.ft_job_next(job, ctypes.byref(event)):
                    yield self._event(event)
                if not lib.ft_job_done(job):
                    ready.wait(1.0)
            result = _S["ft_response"]()
            _check(lib.ft_job_result(job, ctypes.byref(result), ctypes.byref(err)), err)
            response.finish_reason = _REASONS[result.reason]
            response.prompt_tokens = result.prompt_tokens
            response.cached_tokens = result.cached_tokens
            response.output_tokens = result.output_tokens
            response.seconds = result.prompt_s + result.output_s
        finally:
            lib.ft_job_free(job)

    def _event(self, e: Any) -> Event:
        text = ctypes.string_at(e.text, e.bytes).decode("utf-8", "replace") if e.bytes else ""
        probs = tuple(
            TokenProb(e.probs[i].id, self.detokenize([e.probs[i].id], special=True), e.probs[i].logprob)
            for i in range(e.n_probs)
        )
        return Event(text, _PARTS[e.part], e.id, e.call, e.drafted, probs)

    def _chat_request(
        self,
        messages: Messages,
        tools: Optional[Tools],
        tool_choice: str,
        thinking: Optional[bool],
        **options: Any,
    ) -> Any:
        variables: dict[str, Any] = {}
        if thinking is not None:
            variables["enable_thinking"] = thinking
        if tools:
            variables["tools"] = list(tools)
        prompt, in_thought = self.render(messages, **variables)
        r = self._request(prompt, **options)
        r.parse, r.in_thought, r.no_calls = True, in_thought, not tools
        if tools:
            r.tools = json.dumps(list(tools)).encode()
            named = tool_choice not in ("auto", "required")
            r.grammar, trigger = self._tool_grammar(r.tools, tool_choice if named else None)
            if tool_choice == "auto":  # the grammar applies from the start of a call on
                r.grammar_trigger, r.n_grammar_trigger = (ctypes.c_char_p * 1)(trigger), 1
        return r

    def stream(
        self,
        messages: Messages,
        *,
        tools: Optional[Tools] = None,
        tool_choice: str = "auto",
        thinking: Optional[bool] = None,
        **options: Any,
    ) -> Iterator[Event]:
        """The response to messages, piece by piece. Ending the iteration early cancels it.

        tools: as in the OpenAI API. tool_choice: "auto", "required" or the name of a tool.

        options: max_tokens, temperature, top_k, top_p, seed, stop, logprobs (number of alternatives),
        json_schema, grammar, and the other fields of ft_sampling and ft_request."""
        return self._events(self._chat_request(messages, tools, tool_choice, thinking, **options), Response())

    def chat(
        self,
        messages: Messages,
        *,
        tools: Optional[Tools] = None,
        tool_choice: str = "auto",
        thinking: Optional[bool] = None,
        **options: Any,
    ) -> Response:
        """The whole response to messages. Options as for stream()."""
        response = Response()
        request = self._chat_request(messages, tools, tool_choice, thinking, **options)
        return _collect(self._events(request, response), response)

    def complete(self, prompt: Union[str, Sequence[int]], **options: Any) -> Response:
        """Continues a text or ids, without a chat template."""
        response = Response()
        return _collect(self._events(self._request(prompt, **options), response), response)

    # ---- embeddings ----

    def embed(self, text: Union[str, Sequence[int]], pooling: str = "mean") -> list[float]:
        """A vector of length one for a text. pooling: "mean", "last" or "cls" (the first token)."""
        kinds = {name: _K["FT_POOL_" + name.upper()] for name in ("mean", "last", "cls")}
        if pooling not in kinds:
            raise ValueError(f"pooling is {pooling!r}, want mean, last or cls")
        ids = self.tokenize(text, add_special=True) if isinstance(text, str) else list(text)
        width, err = self.info["width"], _S["ft_err"]()
        out, array = (ctypes.c_float * width)(), (ctypes.c_int32 * len(ids))(*ids)
        _check(lib.ft_llm_embed(self._open, array, len(ids), kinds[pooling], out, ctypes.byref(err)), err)
        return list(out)


def _collect(events: Iterator[Event], response: Response) -> Response:
    for e in events:
        if e.id >= 0:
            response.ids.append(e.id)
        if e.logprobs:
            response.logprobs.append(e.logprobs)
        if e.part == "answer":
            response.text += e.text
        elif e.part == "thinking":
            response.thinking += e.text
        else:
            while len(response.tool_calls) <= e.call:
                response.tool_calls.append(ToolCall(""))
            call = response.tool_calls[e.call]
            if e.part == "call":
                call.name += e.text
            else:
                call.arguments += e.text
    return response
