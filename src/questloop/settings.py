"""Every setting of Questloop, one class per concern.

Values come, strongest first, from command-line flags, the environment, `.env`, a TOML file given by
`--config`, and the defaults below. A field's name in capitals is its environment variable; in a TOML file
either case works.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import AliasChoices, BeforeValidator, Field, SecretStr, ValidationError, model_validator

from questloop.errors import UsageError
from questloop.setting_types import FRAMES_PER_SECOND as FRAMES_PER_SECOND
from questloop.setting_types import LEARNS as LEARNS
from questloop.setting_types import (
    AimsChoice,
    AimsOf,
    AllInt,
    AnyPath,
    AutoCount,
    AutoInt,
    HeaderSecret,
    LLMBackend,
    Observation,
    PathText,
    Placement,
    SettingsGroup,
    Shaping,
    Sources,
    check_dotenv,
    check_environment,
    describe,
    lower_values,
    no_service_link,
    read_toml,
    steps_of,
    warn_once,
)


class LoopSettings(SettingsGroup):
    """The epoch loop."""

    run_hours: float = Field(48, gt=0, allow_inf_nan=True, description="pipeline run time, hours")
    epoch: int = Field(0, ge=0, description="epoch of a single stage")
    epoch_steps: int = Field(300_000, ge=1, description="environment steps per epoch")
    eval_interval: int = Field(1, ge=1, description="judge every N epochs")
    film_epochs: bool = Field(
        False, description="film each epoch's best episode into the store; needs the extra video"
    )
    seed: int = Field(0, ge=0, description="root of every random stream")


class GameSettings(SettingsGroup):
    """The game and its emulator."""

    rom_path: AnyPath | None = Field(None, description="the user's ROM; unset: the bundled Mossgrove")
    game_profile: PathText | None = Field(
        None,
        description="who reads the game: a known game's name, a file that defines PROFILE (lantern.py) or a"
        " module; unset: by the ROM",
    )
    start_states: PathText | None = Field(None, description="folder or store URL of start states")
    guide: AnyPath | None = Field(None, description="your own guide, Markdown; unset: the game profile's")
    frame_skip: int = Field(4, ge=1, le=60, description="emulated frames per step")
    episode_length: int = Field(30_000, ge=1, description="steps per episode")
    episode_s: float | None = Field(
        None, gt=0, description="seconds of the game per episode, in place of EPISODE_LENGTH steps"
    )

    @model_validator(mode="after")
    def _in_steps(self) -> GameSettings:
        if self.episode_s is not None:
            object.__setattr__(self, "episode_length", steps_of(self.episode_s, self.frame_skip))
        return self


class TrainingSettings(SettingsGroup):
    """PPO and its runners. The defaults are the contract's; a preset that differs says so."""

    ray_address: str | None = Field(None, description="address of a Ray cluster; unset: start Ray here")
    ray_workers: AutoCount = Field(
        "auto", description="environment runners; 0: one that plays in the learner's process"
    )
    envs_per_worker: AutoInt = Field("auto", description="emulators per runner")
    learner_gpus: float = Field(0, ge=0, description="GPUs of the learner")
    observation: Observation = Field(Observation.VECTOR, description="vector (128-D) or visual")
    whiten: bool = Field(False, description="policy and critic see the vector by the first rollout's spread")
    batch_size: int = Field(4096, ge=1, description="steps per PPO update")
    minibatch_size: int = Field(512, ge=1, description="steps per gradient step; divides BATCH_SIZE")
    ppo_epochs: int = Field(10, ge=1, description="passes over a batch per update")
    lr: float = Field(5e-5, gt=0, description="learning rate of Adam")
    gamma: float = Field(0.99, gt=0, lt=1, description="discount per step")
    gae_lambda: float = Field(0.95, ge=0, le=1, description="lambda of generalised advantage estimation")
    clip: float = Field(0.2, gt=0, description="clip of the policy ratio")
    value_clip: float = Field(10.0, gt=0, description="bound of the squared value error")
    entropy_coef: float = Field(0.01, ge=0, description="weight of the entropy bonus")

    @model_validator(mode="after")
    def _minibatch_divides_batch(self) -> TrainingSettings:
        if self.batch_size % self.minibatch_size:
            raise ValueError(
                f"BATCH_SIZE {self.batch_size} is not a multiple of MINIBATCH_SIZE {self.minibatch_size}"
            )
        return self


class RewardSettings(SettingsGroup):
    """Weights of event and coverage rewards, with their sign."""

    reward_room: float = Field(1.0, description="first visit of a room in an episode")
    reward_tile: float = Field(0.01, description="first visit of a tile in an episode")
    reward_health: float = Field(-0.05, description="a quarter heart lost; healing pays nothing")
    reward_rupee: float = Field(0.01, description="a rupee gained above the episode's highest")
    reward_key: float = Field(2.0, description="a small or boss key")
    reward_sword: float = Field(5.0, description="a sword level")
    reward_essence: float = Field(20.0, description="an essence")
    reward_death: float = Field(-2.0, description="a death")
    reward_dialog: float = Field(0.2, description="first dialog with a text index in an episode")
    reward_revisit: float = Field(-0.001, description="a step onto a tile visited before")
    reward_aim: float = Field(0.5, ge=0, description="a room nearer to the next aim; needs AIMS")
    reward_hint: float = Field(
        0.1, ge=0, le=1, description="a hint's target reached, at most 20 per episode; needs HINT_INTERVAL"
    )


class ExplorationSettings(SettingsGroup):
    """Parts of the agent beyond plain PPO; 0 or off switches a part off."""

    rnd_coef: float = Field(0.5, ge=0, description="weight of RND's advantage (the extrinsic one has 1)")
    shaping: Shaping = Field(
        Shaping.PROGRESS, description="what potentials pay: `progress`, their change; `potential`, discounted"
    )
    shaping_coef: float = Field(1.0, ge=0, description="weight of the reward model's shaping")
    archive_fraction: float = Field(0, ge=0, le=1, description="share of episodes begun from the archive")
    awr_top_k: int = Field(0, ge=0, description="top judged segments of the epoch before that AWR imitates")
    sil_coef: float = Field(0, ge=0, description="weight of self-imitation on those segments")
    curriculum: bool = Field(False, description="start states advance with milestones")
    aims: AimsChoice = Field(AimsOf.GUIDE, description="who says where to go next, where a game has a guide")
    planner: bool = Field(False, description="the planner takes over in dialogs and puzzles")
    hint_interval: int = Field(0, ge=0, description="steps between strategic hints; 0: none")
    hint_interval_s: float | None = Field(
        None, ge=0, description="seconds of the game between them, in place of HINT_INTERVAL steps"
    )

    @model_validator(mode="after")
    def _goes_together(self) -> ExplorationSettings:
        if self.sil_coef and not self.awr_top_k:
            raise ValueError(
                f"SIL_COEF={self.sil_coef} imitates the AWR_TOP_K best segments: set AWR_TOP_K, say to 8"
            )
        return self


class StoreSettings(SettingsGroup):
    """The object store: a plain path, `file:///...` or `s3://bucket`."""

    store_url: PathText | None = Field(None, description="the store; unset: runs/store or at S3_ENDPOINT_URL")
    s3_endpoint_url: str | None = Field(None, description="an S3 server, for example http://minio-api:9000")
    s3_access_key: HeaderSecret | None = Field(
        None,
        validation_alias=AliasChoices("s3_access_key", "s3_access_key_id"),
        description="also S3_ACCESS_KEY_ID",
    )
    s3_secret_key: HeaderSecret | None = Field(
        None,
        validation_alias=AliasChoices("s3_secret_key", "s3_secret_access_key"),
        description="also S3_SECRET_ACCESS_KEY",
    )
    s3_region_name: str = Field("us-east-1", description="region of the buckets")
    s3_bucket_name: str | None = Field(None, description="one bucket for everything; unset: one per prefix")
    export_segments_per_epoch: AllInt = Field(400, description="segments exported per epoch, or all")
    png_stride: int = Field(10, ge=1, description="every n-th recorded frame is also a PNG")
    keep_epochs: int = Field(0, ge=0, description="epochs whose episodes are kept; 0: all")
    low_water_mb: int = Field(500, ge=0, description="free disk below which a run stops, MB")

    @property
    def url(self) -> str:
        """The store in force."""
        if self.store_url:
            return self.store_url
        return f"s3://{self.s3_bucket_name or ''}" if self.s3_endpoint_url else "runs/store"


class LLMSettings(SettingsGroup):
    """Judges' and planner's models."""

    llm_backend: LLMBackend | None = Field(None, description="way to models; unset: follows what else is set")
    llm_endpoint: str | None = Field(None, description="one OpenAI-compatible URL for every role")
    llm_use_direct: bool = Field(True, description="ask the workload services of a namespace, no gateway")
    llm_namespace: str | None = Field(None, description="namespace of the model services")
    llm_gateway_url: str | None = Field(
        None, description="the llm-d gateway, routes /vision /dialog /puzzle /judge/..."
    )
    llm_api_key: HeaderSecret | None = Field(None, description="bearer token of the endpoint")
    llm_ca_bundle: AnyPath | None = Field(None, description="PEM file that verifies the endpoint")
    llm_timeout_s: float = Field(60, gt=0, description="a request, seconds")
    llm_concurrency: int = Field(8, ge=1, description="requests in flight per server")
    llm_model_state: str = Field("qwen25-7b", description="model of the state judge and the dialog planner")
    llm_model_puzzle: str = Field("qwen25-32b", description="model of the puzzle judge and planner")
    llm_model_vision: str = Field("qwen25-vl-32b", description="model of the vision judge and planner")
    llm_images: bool = Field(True, description="the vision model takes pictures; off: it reads states only")
    llm_failover_model: str | None = Field(
        None, description="model asked when a role's own fails; unset: none"
    )
    llm_usd_per_mtok_in: float = Field(0, ge=0, description="price of a million prompt tokens, USD")
    llm_usd_per_mtok_out: float = Field(0, ge=0, description="price of a million completion tokens, USD")

    @property
    def backend(self) -> LLMBackend:
        """The backend in force."""
        if self.llm_backend is not None:
            return self.llm_backend
        if self.llm_endpoint:
            return LLMBackend.ENDPOINT
        if self.llm_namespace:
            return LLMBackend.DIRECT if self.llm_use_direct else LLMBackend.GATEWAY
        return LLMBackend.EMBEDDED


class JudgeSettings(SettingsGroup):
    """The judge pass."""

    judge_votes: int = Field(3, ge=1, le=15, description="self-consistency samples")
    judge_budget: AllInt = Field(200, description="segments judged a pass, or all")
    judge_cells: AllInt = Field(
        1000, description="new cells judged a pass, or all; a cell is judged once in a run"
    )


class FleetSettings(SettingsGroup):
    """The fleet of GPU machines."""

    database_url: SecretStr = Field(
        SecretStr("sqlite:///questloop-fleet.sqlite3"), description="SQLite file or PostgreSQL URL"
    )
    nats_url: SecretStr | None = Field(None, description="the queue; unset: one of its own on 127.0.0.1:4222")
    nats_credentials: AnyPath | None = Field(None, description="NATS credentials file")
    nats_ca_bundle: AnyPath | None = Field(None, description="CA of the NATS server's certificate")
    poll_interval_s: float = Field(10, gt=0, description="between two polls of a machine, seconds")
    poll_timeout_s: float = Field(20, gt=0, description="time limit of one machine's poll")
    poll_concurrency: int = Field(64, ge=1, description="machines polled at once")
    pending_timeout_s: float = Field(
        300,
        gt=0,
        description="a pending job is tried anew after this; a larger one then gets a machine kept free",
    )
    max_retries: int = Field(3, ge=0, description="retries of a job with a retryable failure")
    retry_backoff_s: float = Field(10, ge=0, description="wait before the first retry; doubles each time")
    retry_backoff_max_s: float = Field(600, ge=0, description="longest wait before a retry, seconds")
    lease_s: float = Field(
        60, gt=0, description="a dispatcher's hold on its jobs; another adopts them after it"
    )
    runner_lease_s: float = Field(
        3600, gt=0, description="a job ends itself after this long without word from any dispatcher"
    )
    heartbeat_timeout_s: float = Field(60, gt=0, description="a runner silent for longer is killed and lost")
    sweep_interval_s: float = Field(2, gt=0, description="how often the queue is read without a message")
    watch_interval_s: float = Field(2, gt=0, description="how often running jobs are looked at")
    ssh_timeout_s: float = Field(20, gt=0, description="time limit of connecting and of one command")
    placement: Placement = Field(Placement.PACK, description="pack fills a machine first, spread evens out")
    set_aside_after: int = Field(3, ge=1, description="failures in a row that set a machine aside")
    foreign_memory_mb: int = Field(
        600, ge=0, description="memory in use above which an unclaimed GPU is taken"
    )
    log_dir: AnyPath = Field(Path("logs"), description="job logs, {job_id}.log")
    job_secrets_dir: AnyPath = Field(
        Path("~/.questloop/secrets"),
        description="files of the dispatcher that jobs may ask for as file:NAME in their environment",
    )
    trust_first_host_key: bool = Field(
        False, description="take the host key that a new machine shows first, without asking anyone"
    )


class TelemetrySettings(SettingsGroup):
    """What a process says of itself."""

    metrics_port: Annotated[int, BeforeValidator(no_service_link)] = Field(
        0, ge=0, le=65535, description="Prometheus metrics of the loop; 0: none"
    )
    metrics_address: str = Field("127.0.0.1", description="address that metrics are published on")
    metrics_linger_s: float = Field(
        0, ge=0, description="an ended stage waits for one more scrape, seconds at most"
    )


class DashboardSettings(SettingsGroup):
    """The web page."""

    dashboard_token: HeaderSecret | None = Field(
        None, description="lets whoever has it write labels on the dashboard; unset: it only reads"
    )


def _in_steps(settings: ExplorationSettings, frame_skip: int) -> ExplorationSettings:
    seconds = settings.hint_interval_s
    if seconds is None:
        return settings
    return settings.model_copy(update={"hint_interval": steps_of(seconds, frame_skip) if seconds else 0})


class Settings:
    """All settings, group by group, and where their values come from."""

    sources = Sources()

    def __init__(self, **values: Any) -> None:
        self.loop = LoopSettings(**values)
        self.game = GameSettings(**values)
        self.training = TrainingSettings(**values)
        self.rewards = RewardSettings(**values)
        self.exploration = _in_steps(ExplorationSettings(**values), self.game.frame_skip)
        self.store = StoreSettings(**values)
        self.llm = LLMSettings(**values)
        self.judges = JudgeSettings(**values)
        self.fleet = FleetSettings(**values)
        self.telemetry = TelemetrySettings(**values)
        self.dashboard = DashboardSettings(**values)


GROUPS = (
    LoopSettings,
    GameSettings,
    TrainingSettings,
    RewardSettings,
    ExplorationSettings,
    StoreSettings,
    LLMSettings,
    JudgeSettings,
    FleetSettings,
    TelemetrySettings,
    DashboardSettings,
)


def load(
    config: Path | None = None,
    flags: Mapping[str, Any] | None = None,
    defaults: Mapping[str, Any] | None = None,
) -> Settings:
    """Read settings from `flags`, the environment, `.env`, the TOML file `config` and a command's `defaults`.

    A flag that is None was not given. Raises `UsageError` naming the variable, its value and what is allowed.
    """
    file = read_toml(config, known_names()) if config is not None else {}
    known = known_names() | secret_names()
    for odd in [*check_dotenv(Path(".env"), known), *check_environment(os.environ, known)]:
        warn_once(odd)
    token = lower_values.set({**(defaults or {}), **file})
    try:
        settings = Settings(**{key: value for key, value in (flags or {}).items() if value is not None})
        settings.sources = Sources.now(flags or {}, file, defaults or {})
        return settings
    except ValidationError as error:
        given = Sources.now(flags or {}, file, defaults or {})
        raise UsageError(describe(error, given, config, secret_names())) from None
    finally:
        lower_values.reset(token)


def known_names() -> set[str]:
    """The lower-case name of every setting."""
    return {name for group in GROUPS for name in group.model_fields}


def secret_names() -> set[str]:
    """Every name of a setting that holds a secret."""
    names = set()
    for group in GROUPS:
        for name, field in group.model_fields.items():
            # In whatever it is wrapped: Annotated, Optional.
            if "SecretStr" in repr(field.annotation):
                aliases = field.validation_alias
                names |= {name, *(str(each) for each in getattr(aliases, "choices", ()))}
    return names
