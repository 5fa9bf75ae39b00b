import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from questloop.report.plots import HEIGHT, MOST_POINTS, WIDTH, Line, line_plot, reliability_plot

numbers = st.floats(-1e12, 1e12)


@given(st.lists(st.tuples(numbers, st.none() | numbers), min_size=1, max_size=400))
def test_whatever_is_drawn_lies_in_the_frame(points):
    plot = line_plot("t", [Line("a", [x for x, _ in points], [y for _, y in points])], "steps")
    for x, y in re.findall(r'cx="([-\d.e]+)" cy="([-\d.e]+)"', plot):
        assert 0 <= float(x) <= WIDTH
        assert 0 <= float(y) <= HEIGHT
    assert "nan" not in plot


def test_a_long_run_is_drawn_with_few_points():
    plot = line_plot("t", [Line("a", list(range(100_000)), [1.0] * 100_000)], "steps")
    assert len(re.search(r'points="([^"]*)"', plot)[1].split()) <= MOST_POINTS


def test_a_screen_reader_is_told_the_figures():
    plot = line_plot("Return", [Line("reward", [1, 2, 3], [0.5, 4.0, 2.0])], "steps")
    assert 'aria-label="Return: reward from 0.5 to 2, between 0.5 and 4"' in plot


def test_epochs_are_marked_at_whole_numbers():
    plot = line_plot("t", [Line("a", [0, 1], [0.0, 10.0])], "epoch", whole=True)
    assert re.findall(r'text-anchor="middle">([^<]+)<', plot) == ["0", "1", "epoch"]


@pytest.mark.parametrize(("values", "marks"), [([0, 0], [0, 1]), ([1, 0], [0, 1]), ([3, 1], [0, 1, 2, 3])])
def test_counts_are_marked_at_whole_numbers_and_nothing_lies_at_the_bottom(values, marks):
    plot = line_plot("t", [Line("a", [0, 1], values)], "epoch")
    assert [float(mark) for mark in re.findall(r'text-anchor="end">([^<]+)<', plot)] == marks


@pytest.mark.parametrize("plot", [line_plot("t", [], "x"), reliability_plot("t", [], "x")])
def test_nothing_to_draw_is_said(plot):
    assert "<svg" not in plot
    assert plot.startswith("<p")


def test_labels_are_text():
    assert "<b>" not in line_plot("<b>", [Line("<b>", [1], [1.0]), Line("b", [1], [2.0])], "<b>")
    assert "<b>" not in reliability_plot("<b>", [(0.5, 0.5, 3)], "<b>")


def test_a_long_curve_is_smoothed_over_its_points_and_its_epochs_are_named():
    plot = line_plot("t", [Line("a", list(range(40)), [0.0, 1.0] * 20)], "steps", boundaries=[20])
    faint, bold = re.findall(r'<polyline class="line ([^"]*)" points="([^"]*)"', plot)
    assert (faint[0], bold[0]) == ("faint s0", "s0")
    heights = [{float(place.split(",")[1]) for place in points.split()} for _, points in (faint, bold)]
    assert min(heights[1]) > min(heights[0]), "the mean of neighbours lies between 0 and 1"
    assert ">epoch 1<" in plot
    assert "faint" not in line_plot("t", [Line("a", [0, 1], [0.0, 1.0])], "steps")
    assert ">epoch" not in line_plot("t", [Line("a", [0, 9], [0.0, 1.0])], "steps", boundaries=list(range(9)))


def test_bars_of_several_lines_at_one_epoch_stand_side_by_side():
    lines = [Line(name, [0.0], [0.5], [0.4], [0.6]) for name in ("a", "b", "c")]
    chart = line_plot("shares", [*lines, Line("without a bar", [0.0], [0.5])], "epoch", whole=True)
    places = [float(x) for x in re.findall(r'class="whisker[^"]*" x1="([0-9.]+)"', chart)]
    dots = [float(x) for x in re.findall(r'cx="([0-9.]+)"', chart)]
    assert len(set(places)) == 3
    assert dots == [*places, sum(places) / 3]
