"""Turns raw rows into prompts: `generic`, `deepseek` or the user's own `module:function`.

A pipeline takes one row and returns a row with `prompt` (text or messages), `answer` where there is one, and
every other column as it was; None drops the row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from questloop.errors import BadDataError
from questloop.grpo.data import Row, unify
from questloop.grpo.scoring import load_function
from questloop.grpo.text import final_answer

Pipeline = Callable[[Row], Row | None]

PROMPT_COLUMNS = ("prompt", "question", "problem", "query", "instruction")
ANSWER_COLUMNS = ("answer", "output", "response", "solution", "target")
ROLES = ("system", "user", "assistant", "tool", "developer")

DEEPSEEK_SYSTEM = """\
Think first, then answer. Use exactly this form:
<reasoning>
your reasoning
</reasoning>
<answer>
your answer
</answer>"""


def generic(row: Row) -> Row:
    """Find the prompt and the answer under their usual names, or in `messages`.

    >>> generic({"question": "2+2?", "solution": "4", "level": 1})
    {'prompt': '2+2?', 'answer': '4', 'level': 1}
    >>> generic({"messages": [{"role": "user", "content": "2+2?"}, {"role": "assistant", "content": "4"}]})
    {'prompt': [{'role': 'user', 'content': '2+2?'}], 'answer': '4'}
    """
    rest = dict(row)
    if "prompt" not in row and isinstance(row.get("messages"), list):
        messages = rest.pop("messages")
        last = messages[-1] if messages else {}
        if isinstance(last, Mapping) and last.get("role") == "assistant":
            return {"prompt": messages[:-1], "answer": last.get("content"), **rest}
        return {"prompt": messages, **rest}
    prepared: Row = {}
    for name, columns in (("prompt", PROMPT_COLUMNS), ("answer", ANSWER_COLUMNS)):
        column = next((column for column in columns if row.get(column) is not None), None)
        if column is not None:
            prepared[name] = rest.pop(column)
    if rest.get("input") and row.get("prompt") is None and "instruction" in row:
        prepared["prompt"] = f"{prepared['prompt']}\n\n{rest.pop('input')}"
    return prepared | {column: value for column, value in rest.items() if column not in prepared}


def deepseek(row: Row) -> Row:
    r"""Ask for reasoning and answer in tags, as messages; a gold answer that ends in `#### 4` becomes `4`.

    >>> prepared = deepseek({"question": "2+2?", "answer": "Two and two.\n#### 4"})
    >>> prepared["prompt"][1], prepared["answer"]
    ({'role': 'user', 'content': '2+2?'}, '4')
    """
    prepared = generic(row)
    prompt = prepared.get("prompt")
    if isinstance(prompt, str):
        prompt = [{"role": "user", "content": prompt}]
    if prompt is not None:
        system = [message["content"] for message in prompt if message.get("role") == "system"]
        turns = [message for message in prompt if message.get("role") != "system"]
        prepared["prompt"] = [{"role": "system", "content": "\n\n".join([*system, DEEPSEEK_SYSTEM])}, *turns]
    if isinstance(prepared.get("answer"), str):
        prepared["answer"] = final_answer(prepared["answer"]) or prepared["answer"].strip()
    return prepared


PIPELINES: dict[str, Pipeline] = {"generic": generic, "deepseek": deepseek}


def load_pipeline(name: str) -> Pipeline:
    """Return a built-in pipeline or the user's `module:function`, from a row to a row or None."""
    if name in PIPELINES:
        return PIPELINES[name]
    return load_function(name, option="--preprocess")


def prepare(rows: Sequence[Row], pipeline: str, source: str) -> list[Row]:
    """Run every row through a pipeline and check the prompts. Raises `BadDataError` naming column and row."""
    function = load_pipeline(pipeline)
    prepared = []
    for index, row in enumerate(rows):
        try:
            result = function(dict(row))
        except Exception as error:
            raise BadDataError(f"{source}: row {index}: --preprocess {pipeline} raised {error!r}") from error
        if result is None:
            continue
        if not isinstance(result, dict):
            raise BadDataError(
                f"{source}: row {index}: --preprocess {pipeline} returned {type(result).__name__}; "
                "return a row or None"
            )
        _check_prompt(result, f"{source}: row {index}")
        prepared.append(result)
    if not prepared:
        raise BadDataError(f"{source}: --preprocess {pipeline} dropped all {len(rows)} rows")
    kinds = {isinstance(row["prompt"], str) for row in prepared}
    if len(kinds) > 1:
        raise BadDataError(
            f"{source}: column 'prompt' is text in some rows, messages in others; use one form"
        )
    return unify(prepared)


def _check_prompt(row: Row, where: str) -> None:
    prompt = row.get("prompt")
    if prompt is None:
        raise BadDataError(
            f"{where} has no prompt: no value in any column of {', '.join(PROMPT_COLUMNS)} or 'messages'; "
            f"it has {', '.join(row)}"
        )
    if isinstance(prompt, str):
        if not prompt.strip():
            raise BadDataError(f"{where}: column 'prompt' is empty")
        return
    if not isinstance(prompt, list) or not prompt:
        raise BadDataError(
            f"{where}: column 'prompt' is {type(prompt).__name__}; it must be text or messages"
        )
    for message in prompt:
        if not isinstance(message, Mapping) or not isinstance(message.get("content"), str):
            raise BadDataError(
                f"{where}: column 'prompt': a message must be {{'role': ..., 'content': text}}"
            )
        if message.get("role") not in ROLES:
            raise BadDataError(
                f"{where}: column 'prompt': role {message.get('role')!r} is not one of {', '.join(ROLES)}"
            )
