"""The reward model: an ensemble of small networks with its normaliser and scale, in one file."""

from __future__ import annotations

import hashlib
import io
from dataclasses import asdict, dataclass, fields
from enum import StrEnum
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from questloop.errors import BadDataError

MEMBERS = 5
WIDTHS = (64, 64, 1)
FORMAT = 1
DROPOUT = 0.3
CAUTION = 0.5
CLIP = 5.0
PIECE = 512


class RewardReading(StrEnum):
    """What a segment is worth: the mean of R over its states, or the rise of R from its start to its end."""

    MEAN = "mean"
    DIFFERENCE = "difference"


class Ensemble(nn.Module):
    """`MEMBERS` independent networks of 64-64-1 on whitened observations, computed side by side."""

    mean: Tensor
    std: Tensor

    def __init__(self, mean: Tensor, std: Tensor, generator: torch.Generator | None = None) -> None:
        """`mean`, `std`: f32 [D], by which observations are whitened; `std` has no zeros."""
        super().__init__()
        self.register_buffer("mean", mean)
        self.register_buffer("std", std)
        sizes = zip((len(mean), *WIDTHS), WIDTHS, strict=False)
        self.weights = nn.ParameterList(_uniform(generator, size_in, size_out) for size_in, size_out in sizes)
        self.biases = nn.ParameterList(torch.zeros(MEMBERS, 1, size_out) for size_out in WIDTHS)

    def forward(self, obs: Tensor, dropout: torch.Generator | None = None) -> Tensor:
        """R of every member, f32 [MEMBERS, B], for observations f32 [B, D].

        `dropout` is for training: it draws the features that each member does not see in this call.
        """
        white = ((obs - self.mean) / self.std).clamp(-CLIP, CLIP)
        x = white.expand(MEMBERS, *white.shape)
        if dropout is not None:
            kept = torch.rand(MEMBERS, 1, white.shape[-1], generator=dropout) > DROPOUT
            x = x * (kept / (1 - DROPOUT))
        for weight, bias in zip(self.weights[:-1], self.biases[:-1], strict=True):
            x = torch.baddbmm(bias, x, weight).relu()
        return torch.baddbmm(self.biases[-1], x, self.weights[-1]).squeeze(-1)


@dataclass(frozen=True)
class Scale:
    """Statistics of R on the reference set: `mean`, `std` f32 [MEMBERS] of each member, then of what is made
    of them."""

    mean: Tensor
    std: Tensor
    total_mean: float
    total_std: float


@dataclass(frozen=True)
class Measured:
    """What a model was found to be worth on episodes that the measured member did not see.

    `accuracy`: share of comparisons that it orders as the judges do. `trust`: share of the pairs of states of
    one episode, before and after a milestone, that it orders as they happened. `_low`: lower ends of their
    95% intervals. NaN: not known.
    """

    accuracy: float = float("nan")
    accuracy_low: float = float("nan")
    trust: float = float("nan")
    trust_low: float = float("nan")


class RewardModel:
    """A trained model at play: a standardised, frozen potential of the state.

    Each member is standardised on the reference set; the potential is their mean less `CAUTION` deviations
    (Coste et al. 2023, "Reward model ensembles help mitigate overoptimization"), standardised again and
    clipped to +-5. So neither a constant nor a factor on R changes the potential.
    """

    def __init__(
        self,
        ensemble: Ensemble,
        reference: Tensor,
        *,
        reading: RewardReading,
        observation_version: int,
        measured: Measured | None = None,
    ) -> None:
        """`reference`: f32 [B, D], observations whose potentials have mean 0 and deviation 1."""
        self.ensemble = ensemble.requires_grad_(False)
        self.reference = reference
        self.reading = reading
        self.observation_version = observation_version
        self.measured = measured or Measured()
        self._scale = _scale(self.ensemble(reference))

    @cached_property
    def sha256(self) -> str:
        """SHA-256 of the file that it was loaded from, else of what `to_bytes` makes."""
        return hashlib.sha256(self.to_bytes()).hexdigest()

    def with_measures(self, measured: Measured) -> RewardModel:
        """The same model, with what it was found to be worth."""
        return RewardModel(
            self.ensemble,
            self.reference,
            reading=self.reading,
            observation_version=self.observation_version,
            measured=measured,
        )

    @property
    def accuracy(self) -> float:
        """See `Measured`; so the three that follow."""
        return self.measured.accuracy

    @property
    def accuracy_low(self) -> float:
        return self.measured.accuracy_low

    @property
    def trust(self) -> float:
        return self.measured.trust

    @property
    def trust_low(self) -> float:
        return self.measured.trust_low

    def __call__(self, obs: NDArray[np.float32]) -> NDArray[np.float32]:
        """Potentials f32 [B] of observations f32 [B, D]."""
        return self.predict(torch.from_numpy(np.ascontiguousarray(obs, np.float32))).numpy()

    @torch.inference_mode()
    def predict(self, obs: Tensor) -> Tensor:
        """Potentials f32 [B] of observations f32 [B, D], in pieces that stay in a core's cache."""
        return torch.cat([self._predict(piece) for piece in obs.split(PIECE)])

    def _predict(self, obs: Tensor) -> Tensor:
        standing = (self.ensemble(obs) - self._scale.mean[:, None]) / self._scale.std[:, None]
        potential = (_cautious(standing) - self._scale.total_mean) / self._scale.total_std
        return potential.clamp(-CLIP, CLIP)

    def to_bytes(self) -> bytes:
        """The content of rm.pt: tensors and plain values only."""
        content: dict[str, Any] = {
            "format": FORMAT,
            "observation_version": self.observation_version,
            "reading": self.reading.value,
            **asdict(self.measured),
            "reference": self.reference,
            "ensemble": dict(self.ensemble.state_dict()),
        }
        buffer = io.BytesIO()
        torch.save({**content, "digest": _digest(content)}, buffer)
        return buffer.getvalue()

    @classmethod
    def load(cls, data: bytes, name: str = "rm.pt", observation_version: int | None = None) -> RewardModel:
        """The model in `data`, the content of the file `name`; runs no code from it.

        Raises `BadDataError` where it is cut off, changed, of another format, or made for a layout of
        observations other than `observation_version` (None: any).
        """
        content = _read(data, name)
        try:
            model = cls._of(content, name, observation_version)
        except (RuntimeError, ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
            raise BadDataError(f"{name}: not a reward model ({_line(error)}); {_remedy(name)}") from None
        model.sha256 = hashlib.sha256(data).hexdigest()
        return model

    @classmethod
    def _of(cls, content: dict[str, Any], name: str, observation_version: int | None) -> RewardModel:
        made_for = content["observation_version"]
        if observation_version is not None and made_for != observation_version:
            raise BadDataError(
                f"{name}: made for observation layout {made_for}, this version has {observation_version}; "
                "begin a run in another STORE_URL, or go on with the release that wrote it"
            )
        state = content["ensemble"]
        ensemble = Ensemble(state["mean"], state["std"])
        ensemble.load_state_dict(state)
        return cls(
            ensemble,
            content["reference"],
            reading=RewardReading(content["reading"]),
            observation_version=made_for,
            measured=Measured(**{name: content[name] for name in _MEASURES if name in content}),
        )


_MEASURES = tuple(field.name for field in fields(Measured))  # files of before have no trust


def _read(data: bytes, name: str) -> dict[str, Any]:
    try:
        content = torch.load(io.BytesIO(data), weights_only=True, map_location="cpu")
    except Exception as error:  # torch's reader fails in any way at bytes that it did not write
        raise BadDataError(f"{name}: not a whole reward model ({_line(error)}); {_remedy(name)}") from None
    if not isinstance(content, dict) or "format" not in content:
        raise BadDataError(f"{name}: not a reward model; {_remedy(name)}")
    if content["format"] != FORMAT:
        raise BadDataError(
            f"{name}: format {content['format']}, this version reads {FORMAT}; {_remedy(name)}"
        )
    try:
        whole = content.pop("digest", None) == _digest(content)
    except (RuntimeError, KeyError, TypeError, AttributeError):
        whole = False
    if not whole:
        raise BadDataError(f"{name}: its content was changed after it was written; {_remedy(name)}")
    return content


def _remedy(name: str) -> str:
    """What to do about the model at key `name`: a committed one is learned anew with its epoch only."""
    epoch = next((part[6:] for part in name.split("/") if part.startswith("epoch_")), "EPOCH")
    return f"play its epoch again after `questloop verify --rewind {epoch}`, or name one whose model is whole"


def _line(error: Exception) -> str:
    return str(error).splitlines()[0][:80] if str(error) else type(error).__name__


def _digest(content: dict[str, Any]) -> str:
    """SHA-256 over every value, in the order of names."""
    hasher = hashlib.sha256()
    flat = {**content, **content["ensemble"]}
    for key in sorted(flat.keys() - {"ensemble"}):
        value = flat[key]
        hasher.update(key.encode())
        hasher.update(
            value.contiguous().numpy().tobytes() if isinstance(value, Tensor) else repr(value).encode()
        )
    return hasher.hexdigest()


def _scale(outputs: Tensor) -> Scale:
    """Statistics of member outputs [MEMBERS, B] on the reference set."""
    mean, std = outputs.mean(dim=1), _nonzero(outputs.std(dim=1))
    total = _cautious((outputs - mean[:, None]) / std[:, None])
    return Scale(mean, std, float(total.mean()), float(_nonzero(total.std())))


def _cautious(standing: Tensor) -> Tensor:
    return standing.mean(dim=0) - CAUTION * standing.std(dim=0)


def _nonzero(std: Tensor) -> Tensor:
    return torch.where(std > 1e-8, std, torch.ones_like(std))


def _uniform(generator: torch.Generator | None, size_in: int, size_out: int) -> Tensor:
    """Weights f32 [MEMBERS, in, out], uniform as in `nn.Linear`."""
    bound = size_in**-0.5
    return (torch.rand(MEMBERS, size_in, size_out, generator=generator) * 2 - 1) * bound
