"""Descents side by side equal descents one after the other, and all or none of them count."""

import pytest
import torch

from questloop.errors import BadDataError
from questloop.training.fitting import Descent, Fitter


def descent(name, seed, poison=None):
    torch.manual_seed(seed)
    net, x, y = torch.nn.Linear(3, 1), torch.randn(64, 3), torch.randn(64, 1)
    if poison is not None:
        y[poison] = torch.inf

    def loss_of(rows):
        loss = (net(x[rows]) - y[rows]).square().mean()
        return loss, loss.detach()[None]

    rows = list(torch.arange(64).split(16)) * 3
    return net, Descent(name, torch.optim.Adam(net.parameters(), 0.01), loss_of, rows, (f"{name}_loss",))


def test_side_by_side_equals_one_after_the_other():
    results = []
    for together in (True, False):
        made = [descent("a", 1), descent("b", 2)]
        fitter = Fitter(threads=2)
        batches = [[d for _, d in made]] if together else [[d] for _, d in made]
        statistics = {k: v for batch in batches for k, v in fitter.run(batch).items()}
        results.append((statistics, [p.detach() for net, _ in made for p in net.parameters()]))
    (first, weights), (second, others) = results
    assert first == second
    assert set(first) == {"a_loss", "b_loss"}
    assert all(torch.equal(a, b) for a, b in zip(weights, others, strict=True))


def test_one_loss_that_is_not_finite_undoes_all():
    good, bad = descent("a", 1), descent("critic", 2, poison=50)
    before = [p.detach().clone() for net, _ in (good, bad) for p in net.parameters()]
    with pytest.raises(BadDataError, match=r"critic is inf.*no update was made"):
        Fitter(threads=2).run([good[1], bad[1]])
    after = [p for net, _ in (good, bad) for p in net.parameters()]
    assert all(torch.equal(a, b) for a, b in zip(before, after, strict=True))
