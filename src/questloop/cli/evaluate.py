"""The command `questloop evaluate`: one judge pass over an epoch's segments."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from questloop.cli.options import (
    ConfigOption,
    EpochOption,
    JsonOption,
    StoreOption,
    StorePlace,
    loop_settings,
)

if TYPE_CHECKING:
    from questloop.judges.summary import Summary
    from questloop.settings import Settings
    from questloop.storage.store import Store


def evaluate(
    place: StorePlace = None,
    store: StoreOption = None,
    epoch: EpochOption = None,
    budget: Annotated[str | None, typer.Option(help="JUDGE_BUDGET: segments judged, or all.")] = None,
    votes: Annotated[int | None, typer.Option(help="JUDGE_VOTES: votes of each judge on a segment.")] = None,
    measure: Annotated[
        bool, typer.Option(help="Measure the judges in force; leave the epoch's scores as they are.")
    ] = False,
    restart: Annotated[
        bool, typer.Option(help="Judge anew what was judged under another rubric or model.")
    ] = False,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Have the judges score an epoch's segments; killed at any point, the same command goes on.

    Examples:

        questloop evaluate --epoch 3 --json

        LLM_ENDPOINT=http://127.0.0.1:8000/v1 questloop evaluate --epoch 3 --measure --budget 30
    """
    from questloop.pipeline.stages import needs
    from questloop.storage.keys import Stage
    from questloop.storage.store import open_existing_store

    settings = loop_settings(place, store, config, epoch=epoch, judge_budget=budget, judge_votes=votes)
    where = open_existing_store(settings.store)
    needs(where, settings.loop.epoch, Stage.ROLLOUTS, "rollouts")
    summary = _measure(settings, where) if measure else _judge(settings, restart)
    document = _document(summary, where, settings.loop.epoch)
    if as_json:
        typer.echo(json.dumps(document, allow_nan=False))
    else:
        _show(summary, document)


def _judge(settings: Settings, restart: bool) -> Summary:
    """The stage of the pipeline, with its commit."""
    from questloop.judges.summary import Summary
    from questloop.pipeline import stages
    from questloop.pipeline.context import open_context
    from questloop.pipeline.display import Display
    from questloop.storage.commit import read_commit
    from questloop.storage.keys import Stage

    epoch = settings.loop.epoch
    with open_context(settings) as context:
        if not restart and read_commit(context.store, epoch, Stage.EVALUATE) is not None:
            typer.echo(f"epoch {epoch} is judged already", err=True)
        with Display(context).stage(epoch, Stage.EVALUATE) as bar:
            commit = stages.evaluate(context, epoch, bar.counting, bar.announce, restart)
    return Summary.model_validate(commit.info)


def _measure(settings: Settings, store: Store) -> Summary:
    from questloop.pipeline.judging import judge_epoch

    result = judge_epoch(
        settings,
        store,
        settings.loop.epoch,
        keep=False,
        announce=lambda text: typer.echo(text, err=True),
    )
    return result.summary


def _document(summary: Summary, store: Store, epoch: int) -> dict[str, Any]:
    """The summary, its main figures by plain names, and agreement with a person's labels where there are."""
    from questloop.judges.labels import compare, read_labels
    from questloop.judges.scores import read_scores
    from questloop.storage import keys

    labels = read_labels(store, epoch)
    judged = bool(labels) and store.exists(keys.scores(epoch))
    person = compare(read_scores(store, epoch), labels) if judged else None
    found = summary.calibration.weighted if summary.calibration else None
    return summary.model_dump(mode="json") | {
        "agreement": summary.alpha,
        "brier": found.brier if found else None,
        "brier_raw": found.brier_raw if found else None,
        "brier_base_rate": found.brier_base_rate if found else None,
        "labels": person.model_dump() if person else None,
    }


def _show(summary: Summary, document: dict[str, Any]) -> None:
    for name, judge in summary.judges.items():
        spread = "deterministic" if judge.deterministic else f"spread {_figure(judge.mean_spread)}"
        told = judge.cached_tokens is not None
        cached = f", {judge.cached_tokens} of {judge.prompt_tokens} prompt tokens cached" if told else ""
        reasons = ", ".join(f"{count} {reason}" for reason, count in judge.invalid.items())
        typer.echo(
            f"{name} ({judge.model}): {judge.votes} votes, {judge.votes - judge.valid} invalid"
            f"{f' ({reasons})' if reasons else ''}, tau {_figure(judge.tau.tau)}, {spread}, "
            f"{judge.latency_s['p50']:.2f} s{cached}"
        )
    known = f"{summary.tau.positive} of {summary.tau.n} known segments led to a milestone"
    brier, raw, base = (_figure(document[name]) for name in ("brier", "brier_raw", "brier_base_rate"))
    typer.echo(f"judged {summary.judged} of {summary.segments}, {summary.skipped} not selected")
    typer.echo(f"alpha {_figure(summary.alpha)} between the judges")
    typer.echo(f"tau {_figure(summary.tau.tau)} against what followed ({known})")
    typer.echo(f"Brier {brier} calibrated on held-out episodes, {raw} raw, {base} for always the base rate")
    for name, reason in summary.unknown.items():
        typer.echo(f"{name} is not known: {reason}")


def _figure(value: float | None) -> str:
    return "not known" if value is None else f"{value:.3f}"
