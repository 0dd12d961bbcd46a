#!/usr/bin/env python3
"""Renders the conversations of tests/data/chat/conversations.json through every template there, with the reference
implementation (Hugging Face transformers: apply_chat_template), and writes tests/data/chat/expected.json.

    pip install transformers jinja2 && tools/make_chat_cases.py

A conversation that a template refuses is recorded as such. The date that templates ask for is fixed as in the program.
"""
import datetime
import json
import pathlib

import jinja2
from transformers.utils import chat_template_utils

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "tests/data/chat"
TOKENS = {"bos_token": "<s>", "eos_token": "</s>"}


class FixedDate(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return cls(2024, 7, 26, 12, 0, 0)


def render(template, conversation):
    tools = conversation.get("tools")
    try:
        texts, _ = chat_template_utils.render_jinja_template(
            conversations=[conversation["messages"]], tools=tools, chat_template=template, **TOKENS)
    except (jinja2.exceptions.TemplateError, TypeError) as error:
        return {"refused": str(error)}
    return {"text": texts[0]}


def main():
    chat_template_utils.datetime = FixedDate
    conversations = json.loads((FOLDER / "conversations.json").read_text())
    expected = {}
    for path in sorted(FOLDER.glob("*.jinja")):
        template = path.read_text()
        expected[path.stem] = {name: render(template, conversation) for name, conversation in conversations.items()}
    (FOLDER / "expected.json").write_text(json.dumps(expected, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
