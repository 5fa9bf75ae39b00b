"""Dense layers are PyTorch's own, to rounding."""

import platform

import pytest
import torch

from questloop import dense
from questloop.dense import Activation, Dense, numbered

SIZES = [(512, 128, 256), (130, 7, 9), (1, 1, 1)]


@pytest.fixture(params=list(Activation))
def activation(request):
    return request.param


def reference(layer, x):
    return dense._ACTIVATE[layer.activation](torch.nn.functional.linear(x, layer.weight, layer.bias))


@pytest.mark.parametrize("size", SIZES)
def test_values_and_gradients_are_those_of_pytorch(activation, size):
    rows, inputs, outputs = size
    torch.manual_seed(0)
    layer, x = Dense(inputs, outputs, activation), torch.randn(rows, inputs, requires_grad=True)
    target = torch.randn(rows, outputs)
    found = []
    for values in (layer(x), reference(layer, x)):
        loss = (values - target).square().sum()
        found.append((values.detach(), *torch.autograd.grad(loss, [x, *layer.parameters()])))
    for mine, theirs in zip(*found, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-4)


@pytest.mark.skipif(platform.machine() != "x86_64", reason="oneDNN comes with PyTorch for x86")
def test_a_minibatch_goes_to_onednn():
    """A renamed operator would be replaced silently, and cost half the speed of learning."""
    assert dense._fast(torch.zeros(512, 128))
    assert not dense._fast(torch.zeros(32, 128))


def test_what_needs_no_gradient_gets_none(activation):
    layer, x = Dense(128, 256, activation), torch.randn(512, 128)
    layer.weight.requires_grad_(False)
    layer(x).sum().backward()  # of a gradient without strides
    assert x.grad is None
    assert layer.weight.grad is None
    assert layer.bias.grad.isfinite().all()


def test_what_is_not_a_number_stays_none(activation):
    """A divergence must be seen in the loss."""
    layer, x = Dense(16, 8, activation), torch.randn(256, 16)
    x[3, 2] = float("nan")
    assert layer(x)[3].isnan().all()
    with torch.no_grad():
        layer.weight[0, 0] = float("nan")
    assert layer(torch.randn(256, 16))[:, 0].isnan().all()


def test_without_gradient_it_gives_the_same(activation):
    layer, x = Dense(128, 256, activation), torch.randn(512, 128)
    with torch.inference_mode():
        inferred = layer(x)
    torch.testing.assert_close(inferred, layer(x).detach(), rtol=0, atol=0)


def test_where_onednn_is_missing_pytorch_stands_in(activation, monkeypatch):
    layer, x = Dense(128, 256, activation), torch.randn(512, 128)
    here = layer(x)
    monkeypatch.setattr(dense, "_AVAILABLE", False)
    torch.testing.assert_close(layer(x), here, rtol=1e-5, atol=1e-5)


def test_other_types_and_shapes_are_left_to_pytorch():
    layer = Dense(4, 3, Activation.TANH)
    assert layer(torch.randn(2, 5, 4)).shape == (2, 5, 3)
    assert layer.double()(torch.randn(2, 4, dtype=torch.float64)).dtype == torch.float64


def test_layers_are_named_as_if_their_activations_stood_between_them():
    network = numbered([Dense(2, 3, Activation.TANH), Dense(3, 1)])
    assert list(network.state_dict()) == ["0.weight", "0.bias", "2.weight", "2.bias"]
