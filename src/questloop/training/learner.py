"""RLlib's PPO learner, updated with the finished batch by a plain loop over minibatches."""

from __future__ import annotations

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
from questloop.training.advantages import Discounts, TrainBatch, Values, finish
from questloop.training.loss import LossWeights, ppo_loss
from questloop.training.rollout import Rollout

TARGET_INT = "value_targets_int"
_STATISTICS = ("policy_loss", "vf_loss", "entropy", "kl", "clip_fraction")


class QuestLearner(PPOTorchLearner):
    """`prepare` turns a rollout into a batch, `update` fits policy and critic to it.

    RLlib's own path from episodes through connectors costs more than the emulator and knows one value only.
    """

    def build(self) -> None:
        super().build()
        self.minibatches = np.random.default_rng([self.config.seed or 0, 1])
        self.loss_weights = LossWeights(
            self.config.clip_param, self.config.vf_clip_param, self.config.entropy_coeff
        )
        self.discounts = Discounts(
            self.config.gamma, self.config.lambda_, self.config.gamma, self.config.intrinsic_coef
        )

    def configure_optimizers_for_module(self, module_id: str, config: AlgorithmConfig | None = None) -> None:
        """One fused Adam for policy and critic."""
        params = self.get_parameters(self._module[module_id])
        self.register_optimizer(
            module_id=module_id,
            optimizer=torch.optim.Adam(params, fused=True),
            params=params,
            lr_or_lr_schedule=self.config.lr,
        )

    @property
    def network(self) -> Any:
        """The one RLModule."""
        return self.module[DEFAULT_MODULE_ID].unwrapped()

    @property
    def optimizer(self) -> torch.optim.Adam:
        """Its one optimiser."""
        return self.get_optimizer(DEFAULT_MODULE_ID)

    def prepare(self, rollout: Rollout) -> TrainBatch:
        """Values, both advantages and value targets of `rollout`.

        Raises `BadDataError` naming the field where a number is not finite.
        """
        for field in ("observations", "final_obs", "reward", "logp"):
            require_finite(field, getattr(rollout, field))
        extrinsic, intrinsic = self.values(rollout)
        return finish(rollout, extrinsic, intrinsic, self.discounts)

    def values(self, rollout: Rollout) -> tuple[Values, Values]:
        """Extrinsic and intrinsic values of every observation of `rollout`, in one pass."""
        steps, slots = rollout.shape
        shape = rollout.observations.shape[2:]
        flat = np.concatenate([rollout.observations.reshape(-1, *shape), rollout.final_obs])
        with torch.inference_mode():
            both = self.network.values(self._tensor(flat)).cpu().numpy()
        open_rows = both[: (steps + 1) * slots].reshape(steps + 1, slots, 2)
        final = [rollout.scatter_final(both[(steps + 1) * slots :, stream]) for stream in (0, 1)]
        extrinsic, intrinsic = (
            Values(
                np.ascontiguousarray(open_rows[:-1, :, k]),
                np.ascontiguousarray(open_rows[-1, :, k]),
                final[k],
            )
            for k in (0, 1)
        )
        return extrinsic, intrinsic

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
        statistics = self._fit(
            obs=self._tensor(columns[Columns.OBS]),
            action=self._tensor(columns[Columns.ACTIONS]),
            logp=self._tensor(columns[Columns.ACTION_LOGP]),
            advantage=self._tensor(columns[Postprocessing.ADVANTAGES]),
            targets=self._tensor(np.stack([columns[Postprocessing.VALUE_TARGETS], columns[TARGET_INT]], 1)),
        )
        self._weights_seq_no += 1
        self.metrics.log_dict(statistics, key=DEFAULT_MODULE_ID, window=1)
        self.after_gradient_based_update(timesteps=timesteps or {})
        return self.metrics.reduce()

    def _fit(
        self, obs: Tensor, action: Tensor, logp: Tensor, advantage: Tensor, targets: Tensor
    ) -> dict[str, float]:
        network, optimizer = self.network, self.optimizer
        parameters = list(network.parameters())
        before = [parameter.detach().clone() for parameter in parameters]
        size = self.config.minibatch_size
        sums = torch.zeros(len(_STATISTICS))
        count = 0
        for _ in range(self.config.num_epochs):
            order = torch.from_numpy(self.minibatches.permutation(len(obs)))
            for rows in order.split(size):
                loss = ppo_loss(
                    network.logits(obs[rows]),
                    network.values(obs[rows]),
                    action[rows],
                    logp[rows],
                    advantage[rows],
                    targets[rows],
                    self.loss_weights,
                )
                if not torch.isfinite(loss.total):
                    _restore(parameters, before)
                    raise BadDataError(
                        f"the loss is {loss.total.item()} (policy {loss.policy.item():.4g}, value "
                        f"{loss.value.item():.4g}, entropy {loss.entropy.item():.4g}): no update was made; "
                        "lower LR or look at the rewards"
                    )
                optimizer.zero_grad(set_to_none=True)
                loss.total.backward()
                optimizer.step()
                sums += torch.stack([loss.policy, loss.value, loss.entropy, loss.kl, loss.clipped]).cpu()
                count += 1
        return dict(zip(_STATISTICS, (sums / count).tolist(), strict=True))

    def _tensor(self, array: NDArray) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(array)).to(self._device)


def as_rllib(batch: TrainBatch) -> MultiAgentBatch:
    """The batch as RLlib's learner group takes it."""
    columns = {
        Columns.OBS: batch.obs,
        Columns.ACTIONS: batch.action,
        Columns.ACTION_LOGP: batch.logp,
        Postprocessing.ADVANTAGES: batch.advantage,
        Postprocessing.VALUE_TARGETS: batch.target_ext,
        TARGET_INT: batch.target_int,
    }
    return MultiAgentBatch({DEFAULT_MODULE_ID: SampleBatch(columns)}, env_steps=len(batch))


def require_finite(field: str, array: NDArray) -> None:
    """Raise `BadDataError` naming `field` and the place of the first number that is not finite."""
    if array.dtype.kind != "f" or np.isfinite(array).all():
        return
    place = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
    raise BadDataError(f"{field}{list(place)} is {array[place]}: no update was made")


def _restore(parameters: list[Tensor], before: list[Tensor]) -> None:
    with torch.no_grad():
        for parameter, value in zip(parameters, before, strict=True):
            parameter.copy_(value)
