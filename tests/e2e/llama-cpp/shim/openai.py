"""The calls of the openai package that llama.cpp's test suite makes, for machines without it."""

import json

import requests


class Record:
    """A JSON object whose members are attributes."""

    def __init__(self, members):
        for key, value in members.items():
            setattr(self, key, wrap(value))

    def __contains__(self, key):
        return hasattr(self, key)

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return None

    @property
    def output_text(self):
        return "".join(
            part.text
            for item in self.output
            if item.type == "message"
            for part in item.content
            if part.type == "output_text"
        )


def wrap(value):
    if isinstance(value, dict):
        return Record(value)
    if isinstance(value, list):
        return [wrap(v) for v in value]
    return value


class APIError(Exception):
    pass


class Route:
    def __init__(self, client, path):
        self.client, self.path = client, path

    def create(self, extra_body=None, **fields):
        body = {**fields, **(extra_body or {})}
        stream = bool(body.get("stream"))
        response = requests.post(
            self.client.base + self.path,
            json=body,
            headers={"Authorization": "Bearer " + self.client.key},
            stream=stream,
            timeout=600,
        )
        if response.status_code != 200:
            raise APIError(f"{response.status_code}: {response.text}")
        return self.events(response) if stream else wrap(response.json())

    @staticmethod
    def events(response):
        for line in response.iter_lines():
            text = line.decode()
            if text == "data: [DONE]":
                return
            if text.startswith("data: "):
                yield wrap(json.loads(text[6:]))


class Chat:
    def __init__(self, client):
        self.completions = Route(client, "/chat/completions")


class OpenAI:
    def __init__(self, api_key, base_url):
        self.key, self.base = api_key, base_url
        self.chat = Chat(self)
        self.completions = Route(self, "/completions")
        self.responses = Route(self, "/responses")
        self.embeddings = Route(self, "/embeddings")
