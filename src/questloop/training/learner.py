"""The learner: prepares batches, and updates policy, critic and curiosity by minibatches."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.algorithms.ppo.torch.ppo_torch_learner import PPOTorchLearner
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.core.columns import Columns
from ray.rllib.core.learner.training_data import TrainingData
from ray.rllib.evaluation.postprocessing import Postprocessing
from ray.rllib.policy.sample_batch import MultiAgentBatch, SampleBatch
from torch import Tensor

from questloop.errors import BadDataError
from questloop.machine import machine_cores
from questloop.rewards.curiosity import Curiosity
from questloop.training.advantages import Discounts, TrainBatch, Values, finish
from questloop.training.checkpoint import Arrays
from questloop.training.fitting import Descent, Fitter
from questloop.training.imitation import Demonstration, Imitation, weigh
from questloop.training.loss import POLICY_STATISTICS, VALUE_STATISTICS, LossWeights
from questloop.training.objective import Objective
from questloop.training.rollout import Rollout
from questloop.training.shaper import Shaper, refit_critic, values_of

TARGET_INT = "value_targets_int"
VECTORS = "vectors"
CURIOSITY_LR = 1e-4
THREADS = min(2, machine_cores())
IMITATED_SHARE = 4
"""a minibatch of PPO's comes with one of demonstrations a quarter its size"""


class QuestLearner(PPOTorchLearner):
    """`prepare` turns a rollout into a batch, `update` fits policy, critic and curiosity to it.

    RLlib's own path from episodes through connectors costs more than the emulator and knows one value only.
    """

    def build(self) -> None:
        same_figures_on_a_gpu()
        super().build()
        self.minibatches = np.random.default_rng([self.config.seed or 0, 1])
        self.loss_weights = LossWeights(
            self.config.clip_param, self.config.vf_clip_param, self.config.entropy_coeff
        )
        self.discounts = Discounts(
            self.config.gamma, self.config.lambda_, self.config.gamma, self.config.rnd_coef
        )
        self.curiosity = self._make_curiosity() if self.config.rnd_coef else None
        self.curiosity_warm = False
        self.whitened = not self.config.whiten
        # On a GPU one descent fills the device, and the interpreter is what two would wait for.
        self._fitter = Fitter(1 if self._device.type == "cuda" else THREADS)
        self.shaper = Shaper.off()
        self._shaper_before: Shaper | None = None
        self.demonstrations: Sequence[Demonstration] = ()
        self.sil_coef = 0.0
        self.statistics: dict[str, float] = {}

    def configure_optimizers_for_module(self, module_id: str, config: AlgorithmConfig | None = None) -> None:
        """Fused Adams: one of the policy and one of the critic, or one of both where they share layers."""
        module = self._module[module_id].unwrapped()
        if module.shares_layers:
            groups = {"network": list(module.parameters())}
        else:
            groups = {"policy": list(module.policy.parameters()), "critic": list(module.critic.parameters())}
        self.optimizers: dict[str, torch.optim.Optimizer] = {}
        for name, params in groups.items():
            self.optimizers[name] = torch.optim.Adam(params, fused=True)
            self.register_optimizer(
                module_id=module_id,
                optimizer_name=name,
                optimizer=self.optimizers[name],
                params=params,
                lr_or_lr_schedule=self.config.lr,
            )

    @property
    def network(self) -> Any:
        """The one RLModule."""
        return self.module[DEFAULT_MODULE_ID].unwrapped()

    def set_shaper(self, shaper: Shaper) -> None:
        """Shape by this potential from the next rollout on; the critic is re-fitted first if need be."""
        self._shaper_before = self._shaper_before or self.shaper
        self.shaper = shaper

    def prepare(self, rollout: Rollout) -> TrainBatch:
        """Values, both advantages and value targets of `rollout`.

        Raises `BadDataError` naming the field where a number is not finite.
        """
        for field in ("observations", "final_obs", "reward", "logp"):
            require_finite(field, getattr(rollout, field))
        # Those of the policy stay what they were where it played no step.
        self.statistics = {name: self.statistics.get(name, 0.0) for name in POLICY_STATISTICS}
        observations = self._tensor(_flat(rollout.observations, rollout.final_obs))
        if not self.whitened:  # the policy is still uniform to within a percent, whatever it sees
            self.network.whiten(observations)
            self.whitened = True
        vectors = _flat(rollout.vectors, rollout.final_vectors)
        if self._shaper_before is not None:
            change = self.shaper.values_below(vectors) - self._shaper_before.values_below(vectors)
            if change.any():
                self.statistics["refit_residual"] = refit_critic(
                    self.network, observations, self._tensor(change), self.minibatches
                )
            self._shaper_before = None
        both = values_of(self.network, observations).cpu().numpy()
        extrinsic, intrinsic = (_by_step(rollout, np.ascontiguousarray(both[:, k])) for k in (0, 1))
        batch = finish(
            rollout,
            extrinsic,
            intrinsic,
            self.discounts,
            shaping=self._shaping(rollout, vectors),
            bonus=self._bonus(rollout),
        )
        self.statistics["explained_variance"] = _explained_variance(batch.value_ext, batch.target_ext)
        return batch

    def update(  # type: ignore[override]
        self, *, training_data: TrainingData, timesteps: dict[str, Any] | None = None, **kwargs: Any
    ) -> Any:
        """`num_epochs` passes over the batch in shuffled minibatches.

        A loss that is not finite raises `BadDataError` and leaves the weights as they were before the update.
        """
        self._check_is_built()
        self.before_gradient_based_update(timesteps=timesteps or {})
        assert training_data.batch is not None
        columns = training_data.batch.policy_batches[DEFAULT_MODULE_ID]
        self.statistics |= self._fitter.run(self._descents(columns))
        self._weights_seq_no += 1
        self.metrics.log_dict(self.statistics, key=DEFAULT_MODULE_ID, window=1)
        self.after_gradient_based_update(timesteps=timesteps or {})
        return self.metrics.reduce()

    # State

    def arrays(self) -> tuple[Arrays, Arrays, Arrays]:
        """Weights, the optimisers' moments, and curiosity's networks and statistics; copies, by name."""
        policy = {name: _numpy(value) for name, value in self.network.state_dict().items()}
        moments = {
            f"{name}.{key}": _numpy(value)
            for name, parameter in self._optimized().items()
            for key, value in self._moments_of(parameter).items()
        }
        return policy, moments, dict(self.curiosity.state_dict()) if self.curiosity is not None else {}

    def load_arrays(self, policy: Arrays, moments: Arrays, curiosity: Arrays) -> None:
        """Take over what `arrays` gave; a part that was switched on since then starts fresh."""
        known = {name: torch.from_numpy(value) for name, value in policy.items()}
        before = {name: buffer for name, buffer in self.network.named_buffers() if name not in known}
        self.network.load_state_dict(known | before)
        if self.curiosity is not None and curiosity:
            self.curiosity.load_state_dict(curiosity)
        for name, parameter in self._optimized().items():
            for key in ("step", "exp_avg", "exp_avg_sq"):
                if f"{name}.{key}" in moments:
                    value = torch.from_numpy(moments[f"{name}.{key}"]).to(parameter.device)
                    self._moments_of(parameter)[key] = value

    def _optimized(self) -> dict[str, Tensor]:
        """Every parameter that an optimiser moves, by name."""
        parameters = dict(self.network.named_parameters())
        if self.curiosity is not None:
            predictor = self.curiosity.predictor.named_parameters()
            parameters |= {f"curiosity.{name}": parameter for name, parameter in predictor}
        return parameters

    def _moments_of(self, parameter: Tensor) -> dict[str, Tensor]:
        """The state that its optimiser keeps for `parameter`; written to in place."""
        for optimizer in self.optimizers.values():
            if any(parameter is each for group in optimizer.param_groups for each in group["params"]):
                return optimizer.state[parameter]
        return {}

    def counts(self) -> dict[str, Any]:
        """What is left of the state, as JSON values."""
        return {
            "lr": {name: optimizer.param_groups[0]["lr"] for name, optimizer in self.optimizers.items()},
            "updates": self._weights_seq_no,
            "minibatches": self.minibatches.bit_generator.state,
            "curiosity_warm": self.curiosity_warm,
            "whitened": self.whitened,
        }

    def load_counts(self, counts: dict[str, Any]) -> None:
        """Take over what `counts` gave. The learning rate is the settings' own, constant one."""
        self._weights_seq_no = counts["updates"]
        self.minibatches.bit_generator.state = counts["minibatches"]
        self.curiosity_warm = counts["curiosity_warm"]
        self.whitened = counts.get("whitened", True)  # a policy from before saw observations as they are

    # Fitting

    def _descents(self, columns: SampleBatch) -> list[Descent]:
        """What an update fits: policy and critic, together where they share layers, and curiosity."""
        obs = self._tensor(columns[Columns.OBS])
        targets = np.stack([columns[Postprocessing.VALUE_TARGETS], columns[TARGET_INT]], axis=1)
        imitation, played = self._imitation(), self._tensor(columns[Columns.LOSS_MASK])
        objective = Objective(
            network=self.network,
            obs=obs,
            action=self._tensor(columns[Columns.ACTIONS]),
            logp=self._tensor(columns[Columns.ACTION_LOGP]),
            played=played,
            advantage=self._tensor(columns[Postprocessing.ADVANTAGES]),
            targets=self._tensor(targets),
            weights=self.loss_weights,
            imitation=imitation,
        )
        passes = [self._shuffled(len(obs)) for _ in range(self.config.num_epochs)]
        every = [(rows, self._chosen(imitation)) for minibatches in passes for rows in minibatches]
        if self.network.shares_layers:
            names, optimizer = POLICY_STATISTICS + VALUE_STATISTICS, self.optimizers["network"]
            descents = [Descent("policy and critic", optimizer, objective.both, every, names)]
        else:
            policy, critic = self.optimizers["policy"], self.optimizers["critic"]
            # Adam's momentum would move the policy by a minibatch that says nothing of it.
            telling = [each for each in every if imitation is not None or played[each[0]].any()]
            descents = [
                Descent("policy", policy, objective.policy, telling, POLICY_STATISTICS),
                Descent("critic", critic, objective.critic, every, VALUE_STATISTICS),
            ]
        if self.curiosity is not None:
            vectors = self._tensor(columns.get(VECTORS, columns[Columns.OBS]))
            predictor = self.optimizers["curiosity"]
            surprise = partial(self._surprise, vectors)
            # Each observation once: the bonus would vanish too soon otherwise.
            descents.append(Descent("curiosity", predictor, surprise, passes[0], ("curiosity_loss",)))
        return descents

    def _imitation(self) -> Imitation | None:
        """The demonstrations, weighed by the critic as it stands before this update."""
        if not self.demonstrations:
            return None
        flat = np.concatenate([item.obs for item in self.demonstrations])
        ends = np.cumsum([len(item.obs) for item in self.demonstrations])[:-1]
        values = values_of(self.network, self._tensor(flat))[:, 0].cpu().numpy()
        imitation = weigh(
            self.demonstrations,
            np.split(values, ends),
            np.split(self.shaper.values_below(flat), ends),
            self.config.gamma,
            self.sil_coef,
        ).to(self._device)
        imitation = imitation.among(self.network.closed == 0)
        if not len(imitation.action):
            return None
        self.statistics["awr_weight"] = float(imitation.awr.mean())
        self.statistics["sil_gap"] = float(imitation.gap.mean())
        return imitation

    def _chosen(self, imitation: Imitation | None) -> Tensor:
        """Steps of the demonstrations that go with a minibatch."""
        if imitation is None:
            return torch.empty(0, dtype=torch.long)
        size = max(1, self.config.minibatch_size // IMITATED_SHARE)
        return self._tensor(self.minibatches.integers(len(imitation.action), size=size))

    def _shuffled(self, size: int) -> list[Tensor]:
        order = self._tensor(self.minibatches.permutation(size))
        return list(order.split(self.config.minibatch_size))

    def _surprise(self, vectors: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
        assert self.curiosity is not None
        loss = self.curiosity.loss(vectors.index_select(0, rows))
        return loss, loss.detach()[None]

    # Curiosity and shaping

    def _make_curiosity(self) -> Curiosity:
        slots = self.config.num_envs_per_env_runner * max(1, self.config.num_env_runners)
        size = self.config.features_size or self.config.observation_space.shape[0]
        curiosity = Curiosity(slots, size, self.config.gamma, self.config.seed or 0).to(self._device)
        self.optimizers["curiosity"] = torch.optim.Adam(
            curiosity.predictor.parameters(), lr=CURIOSITY_LR, fused=True
        )
        return curiosity

    def _bonus(self, rollout: Rollout) -> NDArray[np.float32] | None:
        """Intrinsic rewards `[T, N]`; none for the first rollout of a run, which warms the statistics up.

        Its policy is still uniform to within a percent, the random agent of Burda et al. 2018.
        """
        if self.curiosity is None:
            return None
        after = rollout.next_vectors()
        if not self.curiosity_warm:
            self.curiosity.warm_up(after.reshape(-1, after.shape[-1]))
            self.curiosity_warm = True
            return None
        bonus = self.curiosity.bonus(after, rollout.still)
        self.statistics["curiosity_mean"] = float(bonus.mean())
        return bonus

    def _shaping(self, rollout: Rollout, flat: NDArray[np.float32]) -> NDArray[np.float32] | None:
        if not self.shaper.active:
            return None
        potentials = _by_step(rollout, self.shaper(flat))
        shaped = self.shaper.rewards(potentials, rollout.boundary, self.config.gamma, rollout.still)
        self.statistics["shaping_mean"] = float(shaped.mean())
        return shaped

    def _tensor(self, array: NDArray) -> Tensor:
        return torch.from_numpy(np.require(array, requirements=["C", "W"])).to(self._device)


def same_figures_on_a_gpu() -> None:
    """Let a GPU multiply float32 as such, as the CPU does, and always in the same order.

    PyTorch lets convolutions round to TF32's ten bits otherwise, and choose among algorithms by their speed.
    """
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.deterministic = True
    torch.backends.cudnn.benchmark = False


def as_rllib(batch: TrainBatch) -> MultiAgentBatch:
    """The batch as RLlib's learner group takes it."""
    columns = {
        Columns.OBS: batch.obs,
        Columns.ACTIONS: batch.action,
        Columns.ACTION_LOGP: batch.logp,
        Columns.LOSS_MASK: batch.played,
        Postprocessing.ADVANTAGES: batch.advantage,
        Postprocessing.VALUE_TARGETS: batch.target_ext,
        TARGET_INT: batch.target_int,
    }
    if batch.vectors is not None:
        columns[VECTORS] = batch.vectors
    return MultiAgentBatch({DEFAULT_MODULE_ID: SampleBatch(columns)}, env_steps=len(batch))


def require_finite(field: str, array: NDArray) -> None:
    """Raise `BadDataError` naming `field` and the place of the first number that is not finite."""
    if array.dtype.kind != "f" or np.isfinite(array).all():
        return
    place = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
    raise BadDataError(f"{field}{list(place)} is {array[place]}: no update was made")


def _flat(rows: NDArray, final: NDArray) -> NDArray:
    """`[(T + 1) * N + M, *shape]` of `rows[T + 1, N, *shape]`, then `final[M, *shape]`."""
    return np.concatenate([rows.reshape(-1, *rows.shape[2:]), final])


def _by_step(rollout: Rollout, flat: NDArray[np.float32]) -> Values:
    """Numbers in the order of `_flat`, back in the shape of the rollout."""
    steps, slots = rollout.shape
    rows = flat[: (steps + 1) * slots].reshape(steps + 1, slots)
    return Values(rows[:-1], rows[-1], rollout.scatter_final(flat[(steps + 1) * slots :]))


def _explained_variance(value: NDArray[np.float32], target: NDArray[np.float32]) -> float:
    spread = float(target.var())
    return 1.0 - float((target - value).var()) / spread if spread > 1e-12 else 0.0


def _numpy(tensor: Tensor) -> NDArray[Any]:
    return tensor.detach().cpu().numpy().copy()
