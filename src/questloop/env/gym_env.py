"""Games as Gymnasium environments: `questloop/Mossgrove-v0`, `OracleOfSeasons-v0`, and others as `Game-v0`.

```python
import gymnasium
import questloop.env.gym_env  # registers the ids

env = gymnasium.make("questloop/Mossgrove-v0")
many = gymnasium.make_vec("questloop/Mossgrove-v0", num_envs=32)
other = gymnasium.make("questloop/Game-v0", rom_path="lantern.gbc", game_profile="lantern.py")
```

Where nobody imports this module, as in RLlib's remote runners, the id brings it along:
`"questloop.env.gym_env:questloop/Game-v0"`, or `create` is registered there.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from questloop.env.game_env import GameEnv
from questloop.episodes.boundary import Boundary
from questloop.errors import UsageError
from questloop.game.actions import Action
from questloop.game.observation import OBSERVATION_SIZE
from questloop.settings import GameSettings, RewardSettings, load

MOSSGROVE = "questloop/Mossgrove-v0"
ORACLE_OF_SEASONS = "questloop/OracleOfSeasons-v0"
GAME = "questloop/Game-v0"
ANYWHERE = f"{__name__}:{GAME}"
"""The same id for processes that have not imported this module, such as RLlib's remote runners."""


class QuestEnv(gym.Env[NDArray[np.float32], np.int64]):
    """One game: 8 discrete actions (`questloop.game.actions`; more where the profile opens them), 128 numbers
    in [-1, 1] as observation.

    Terminated by the game's over or its goal, truncated after EPISODE_LENGTH steps. The seed chooses among
    weighted start states; nothing else is random. `info["reward_parts"]` has the reward by name.
    """

    metadata: dict[str, Any] = {"render_modes": ["rgb_array"], "render_fps": 15}  # noqa: RUF012

    def __init__(
        self,
        rom_path: Path | str | None = None,
        render_mode: str | None = None,
        **settings: Any,
    ) -> None:
        """`settings` are those of the game and of rewards, such as `frame_skip=4` or `reward_room=1.0`."""
        self.render_mode = render_mode
        self._slots = _game_env(1, rom_path, settings)
        self.observation_space = _observation_space()
        self.action_space = gym.spaces.Discrete(self._slots.num_actions)
        self._row = np.zeros((1, OBSERVATION_SIZE), np.float32)
        self._reward, self._boundary = np.zeros(1, np.float32), np.zeros(1, np.uint8)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        super().reset(seed=seed)
        self._slots.seed([self.np_random])
        self._slots.reset(self._row)
        return self._row[0].copy(), self._info()

    def step(self, action: Any) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        actions = np.array([action], np.uint8)
        self._slots.step(
            actions, self._row, self._reward, self._boundary, render=self.render_mode is not None
        )
        ended = int(self._boundary[0])
        obs = self._slots.final_obs[0] if ended else self._row[0]
        return (
            obs.copy(),
            float(self._reward[0]),
            ended == Boundary.TERMINATED,
            ended == Boundary.TRUNCATED,
            self._info(),
        )

    def render(self) -> NDArray[np.uint8] | None:  # type: ignore[override]
        """The screen u8[144, 160, 3] of the last step."""
        return self._slots.batch.frame(0) if self.render_mode else None

    def close(self) -> None:
        self._slots.close()

    def _info(self) -> dict[str, Any]:
        parts = self._slots.rewards.parts[0]
        return {"reward_parts": dict(zip(self._slots.rewards.names, parts.tolist(), strict=True))}


class QuestVectorEnv(gym.vector.VectorEnv[NDArray[np.float32], NDArray[np.int64], NDArray[Any]]):
    """`num_envs` games stepped together in this process.

    Autoreset is SAME_STEP: where an episode ends, `obs` is already the next episode's first observation and
    `info["final_obs"]` holds the true last one, marked by `info["_final_obs"]`. With NEXT_STEP, which RLlib
    wants, `obs` is the true last one, and the step after it ignores its action, pays nothing and returns the
    first observation; the game runs that step with no button pressed.
    """

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012

    def __init__(
        self,
        num_envs: int = 1,
        rom_path: Path | str | None = None,
        autoreset_mode: AutoresetMode = AutoresetMode.SAME_STEP,
        slots: GameEnv | None = None,
        **settings: Any,
    ) -> None:
        """`slots`: an environment to step instead of one made from the other arguments."""
        if autoreset_mode is AutoresetMode.DISABLED:
            raise UsageError("autoreset_mode: SAME_STEP or NEXT_STEP; a slot cannot wait for the others")
        self.slots = slots or _game_env(num_envs, rom_path, settings)
        self.num_envs = num_envs = self.slots.num_slots
        self.metadata = self.metadata | {"autoreset_mode": autoreset_mode}
        self._next_step = autoreset_mode is AutoresetMode.NEXT_STEP
        self.single_observation_space = _observation_space()
        self.single_action_space = gym.spaces.Discrete(self.slots.num_actions)
        self.observation_space = gym.vector.utils.batch_space(self.single_observation_space, num_envs)
        self.action_space = gym.vector.utils.batch_space(self.single_action_space, num_envs)
        self._over = np.zeros(num_envs, np.bool_)
        self._boundary = np.zeros(num_envs, np.uint8)

    def reset(  # type: ignore[override]
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        super().reset(seed=seed)
        self.slots.seed(self.np_random.spawn(self.num_envs))
        obs = np.zeros((self.num_envs, OBSERVATION_SIZE), np.float32)
        self.slots.reset(obs)
        self._over[:] = False
        return obs, {}

    def step(
        self, actions: Any
    ) -> tuple[NDArray[np.float32], NDArray[Any], NDArray[Any], NDArray[Any], dict[str, Any]]:
        actions = np.asarray(actions).astype(np.uint8)
        skipped = self._over.copy()
        if self._next_step:
            actions[skipped] = Action.NOP
        obs = np.zeros((self.num_envs, OBSERVATION_SIZE), np.float32)
        reward = np.zeros(self.num_envs, np.float32)
        self.slots.step(actions, obs, reward, self._boundary)
        ended = self._boundary.copy()
        self._over = ended != Boundary.NONE
        info: dict[str, Any] = {}
        if self._next_step:
            reward[skipped] = 0
            obs[self._over] = self.slots.final_obs[self._over]
        elif self._over.any():
            info = {"final_obs": self.slots.final_obs.copy(), "_final_obs": self._over.copy()}
        return obs, reward, ended == Boundary.TERMINATED, ended == Boundary.TRUNCATED, info

    def close_extras(self, **kwargs: Any) -> None:
        self.slots.close()


def _game_env(num_slots: int, rom_path: Path | str | None, values: dict[str, Any]) -> GameEnv:
    known = set(GameSettings.model_fields) | set(RewardSettings.model_fields)
    if unknown := sorted(set(values) - known):
        raise UsageError(f"no such setting: {', '.join(unknown)}; known are {', '.join(sorted(known))}")
    if rom_path is not None:
        values = values | {"rom_path": Path(rom_path)}
    game = GameSettings(**{k: v for k, v in values.items() if k in GameSettings.model_fields})
    rewards = RewardSettings(**{k: v for k, v in values.items() if k in RewardSettings.model_fields})
    return GameEnv(num_slots, game, rewards)


def _observation_space() -> gym.spaces.Box:
    return gym.spaces.Box(-1.0, 1.0, (OBSERVATION_SIZE,), np.float32)


def create(config: Mapping[str, Any]) -> QuestEnv | QuestVectorEnv:
    """An environment of `questloop/Game-v0` by a dictionary of its arguments, as RLlib's `env_config` is: a
    vector one where that has `num_envs`. For `ray.tune.register_env("game", create)`."""
    values = dict(config)
    return _own_vector(**values) if "num_envs" in values else _own(**values)


def _own(**kwargs: Any) -> QuestEnv:
    return QuestEnv(**_own_rom(kwargs))


def _own_vector(**kwargs: Any) -> QuestVectorEnv:
    return QuestVectorEnv(**_own_rom(kwargs))


def _own_rom(kwargs: dict[str, Any]) -> dict[str, Any]:
    """With the user's ROM and profile: the arguments, else ROM_PATH and GAME_PROFILE. No ROM ships."""
    game = load().game
    path = kwargs.get("rom_path") or game.rom_path
    if path is None:
        raise UsageError(f"{ORACLE_OF_SEASONS} and {GAME} need your own ROM: set ROM_PATH or pass rom_path=")
    profile = kwargs.get("game_profile") or game.game_profile
    return kwargs | {"rom_path": path, "game_profile": profile}


gym.register(id=MOSSGROVE, entry_point=QuestEnv, vector_entry_point=QuestVectorEnv)
gym.register(id=ORACLE_OF_SEASONS, entry_point=_own, vector_entry_point=_own_vector)
gym.register(id=GAME, entry_point=_own, vector_entry_point=_own_vector)
