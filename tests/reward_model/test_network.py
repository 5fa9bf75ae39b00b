"""The potential at play, and its file."""

import io

import numpy as np
import pytest
import torch

from questloop.errors import BadDataError
from questloop.reward_model.network import Ensemble, Measured, RewardModel, RewardReading, _digest
from questloop.rewards.shaping import Potential, shaping

SIZE = 12


def model(seed=0, factor=1.0, constant=0.0, **values):
    """An untrained model; `factor` and `constant` change R of every member."""
    generator = torch.Generator().manual_seed(seed)
    ensemble = Ensemble(torch.zeros(SIZE), torch.ones(SIZE), generator)
    ensemble.weights[-1].data *= factor
    ensemble.biases[-1].data += constant * torch.arange(1.0, 6)[:, None, None]
    reference = torch.randn(500, SIZE, generator=torch.Generator().manual_seed(1))
    options = {"reading": RewardReading.MEAN, "observation_version": 3}
    return RewardModel(ensemble, reference, **(options | values))


@pytest.fixture
def obs():
    return np.random.default_rng(0).normal(size=(64, SIZE)).astype(np.float32)


def test_a_model_is_a_potential(obs):
    potential: Potential = model()
    assert potential(obs).shape == (64,)
    assert potential(obs).dtype == np.float32


def test_members_side_by_side_are_members_one_by_one(obs):
    ensemble = model().ensemble
    x = torch.from_numpy(obs)
    for member, row in enumerate(ensemble(x)):
        y = ((x - ensemble.mean) / ensemble.std).clamp(-5, 5)
        layers = list(zip(ensemble.weights, ensemble.biases, strict=True))
        for weight, bias in layers[:-1]:
            y = (y @ weight[member] + bias[member]).relu()
        y = y @ layers[-1][0][member] + layers[-1][1][member]
        torch.testing.assert_close(row, y.squeeze(-1))


def test_the_reference_set_has_mean_0_and_deviation_1():
    potential = model()
    values = potential.predict(potential.reference)
    assert values.mean() == pytest.approx(0, abs=1e-4)
    assert values.std() == pytest.approx(1, abs=1e-3)


@pytest.mark.parametrize("change", [{"factor": 10.0}, {"factor": 1e-3}, {"constant": 100.0}])
def test_a_factor_or_constant_on_the_model_changes_no_shaped_reward(obs, change):
    def shaped(potential):
        phi = potential(obs).reshape(16, 4)
        return shaping(phi, np.zeros((15, 4), np.float32), np.zeros((15, 4), np.uint8), 0.99)

    # float32 has steps of 8e-6 beside a constant of 100; left in, it would change every reward by 1
    np.testing.assert_allclose(shaped(model(**change)), shaped(model()), atol=2e-2)


def test_a_constant_model_is_a_constant_potential(obs):
    assert np.ptp(model(factor=0.0)(obs)) == 0


def test_outliers_stay_within_five_deviations(obs):
    assert np.abs(model()(obs * 1e6)).max() <= 5


def test_disagreement_lowers_the_potential():
    """Where members agree the cautious mean is higher than where their mean is equal and they differ."""
    from questloop.reward_model.network import _cautious

    standing = torch.tensor([[1.0, 0.0], [1.0, 2.0], [1.0, 0.0], [1.0, 2.0], [1.0, 1.0]])
    agreed, disputed = _cautious(standing).tolist()
    assert agreed == 1
    assert disputed == pytest.approx(1 - 0.5)


def test_dropout_is_for_training_alone(obs):
    ensemble, x = model().ensemble, torch.from_numpy(obs)
    torch.testing.assert_close(ensemble(x), ensemble(x))
    assert not torch.equal(ensemble(x, torch.Generator().manual_seed(0)), ensemble(x))


def test_a_model_comes_back_from_its_file_whole(obs):
    written = model()
    loaded = RewardModel.load(written.to_bytes(), observation_version=3)
    np.testing.assert_array_equal(loaded(obs), written(obs))
    assert loaded.sha256 == written.sha256
    assert (loaded.reading, loaded.observation_version) == (RewardReading.MEAN, 3)
    assert np.isnan([loaded.accuracy, loaded.accuracy_low, loaded.trust, loaded.trust_low]).all()
    measured = RewardModel.load(written.with_measures(Measured(0.8, 0.7, 0.9, 0.6)).to_bytes())
    assert (measured.accuracy, measured.accuracy_low, measured.trust, measured.trust_low) == (
        0.8,
        0.7,
        0.9,
        0.6,
    )


def test_a_model_of_before_has_no_trust_and_its_accuracy():
    """It names accuracies against what followed, which nothing reads any more."""
    content = torch.load(io.BytesIO(model().to_bytes()), weights_only=True)
    for name in ("trust", "trust_low", "digest"):
        del content[name]
    content |= {"accuracy": 0.8, "accuracy_low": 0.7, "gold_accuracy": 0.6, "gold_high": 0.7}
    buffer = io.BytesIO()
    torch.save({**content, "digest": _digest(content)}, buffer)
    loaded = RewardModel.load(buffer.getvalue())
    assert (loaded.accuracy, loaded.accuracy_low) == (0.8, 0.7)
    assert np.isnan(loaded.trust)


def test_equal_models_make_equal_files():
    assert model().to_bytes() == model().to_bytes()
    assert model(seed=1).sha256 != model().sha256


def test_the_file_is_safe_to_load():
    content = torch.load(io.BytesIO(model().to_bytes()), weights_only=True)
    assert content["observation_version"] == 3


def changed(**values):
    content = torch.load(io.BytesIO(model().to_bytes()), weights_only=True)
    buffer = io.BytesIO()
    torch.save(content | values, buffer)
    return buffer.getvalue()


def flipped(data: bytes) -> bytes:
    """One bit of the reference set changed; it is the largest entry, so the middle of the file."""
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 4]) + data[middle + 1 :]


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "not a whole reward model"),
        (b"not a model", "not a whole reward model"),
        (b"PK\x03\x04" + bytes(100), "not a whole reward model"),
        (model().to_bytes()[:-200], "not a whole reward model"),
        (model().to_bytes()[:2000], "not a whole reward model"),
        (flipped(model().to_bytes()), "not a whole|was changed"),
        (changed(accuracy=0.99), "was changed"),
        (changed(format=7), "format 7, this version reads 1"),
    ],
)
def test_a_bad_file_is_named_with_its_remedy(data, says):
    with pytest.raises(BadDataError, match=rf"epoch_4/rm\.pt: .*({says}).*`questloop verify --rewind 4`"):
        RewardModel.load(data, "epoch_4/rm.pt")


def test_a_file_that_would_run_code_is_refused(tmp_path):
    class Evil:
        def __reduce__(self):
            return (open, (str(tmp_path / "marker"), "w"))

    buffer = io.BytesIO()
    torch.save({"format": 1, "evil": Evil()}, buffer)
    with pytest.raises(BadDataError):
        RewardModel.load(buffer.getvalue())
    assert not (tmp_path / "marker").exists()


def test_another_layout_of_observations_is_refused_with_both_versions():
    with pytest.raises(BadDataError, match=r"layout 3, this version has 4"):
        RewardModel.load(model().to_bytes(), observation_version=4)
